"""Tracing: a run as spans, seen by a receiver that speaks OTLP."""

import asyncio
import inspect
import json
import logging
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from assentry import (
    Agent,
    BadSignature,
    GuardrailFunctionOutput,
    InvalidDefinition,
    MaxTurnsExceeded,
    ModelSettings,
    RunConfig,
    Runner,
    RunState,
    SessionFailed,
    SigningKey,
    SQLiteSession,
    ToolContext,
    Tracing,
    UnreadableState,
    function_tool,
    input_guardrail,
)
from assentry.testing import FakeClock, ScriptedModel, call
from assentry.tracing.provider import provider_of
from tests.runtime.support import facts, python, reloaded, scripted, sending, soon, stopped
from tests.tracing.otlp import Receiver, Span, tree

KEY = "sk-0123456789-quite-secret"
PRIVATE = "my-private-words"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Receiver() as receiver:
        yield receiver


def traced(receiver: Receiver, **options: Any) -> RunConfig:
    more = {name: options.pop(name) for name in ("clock", "release", "model_settings") if name in options}
    return RunConfig(tracing=Tracing(endpoint=receiver.url, **options), **more)


def received(receiver: Receiver, config: RunConfig) -> list[Span]:
    assert config.tracing is not None
    assert config.tracing.flush()
    return receiver.spans


# -- the tree of spans -----------------------------------------------------------------------------------


async def test_a_plain_run_is_a_tree_of_spans(receiver: Receiver) -> None:
    send, _ = sending()
    config = traced(receiver)
    await Runner.run(
        scripted(call("send", {"to": "ann"}), "Done.", tools=[send], name="Post"), "Go.", run_config=config
    )
    assert tree(received(receiver, config)) == [
        "invoke_workflow Post",
        "  invoke_agent Post",
        "    chat scripted",
        "    execute_tool send",
        "    chat scripted",
    ]
    assert len({span.trace for span in receiver.spans}) == 1
    assert not any(span.failed for span in receiver.spans)


async def test_a_run_can_be_given_the_id_of_its_trace(receiver: Receiver) -> None:
    chosen = "0123456789abcdef" * 2
    config = traced(receiver, trace_id=chosen)
    await Runner.run(scripted("Done.", name="Post"), "Go.", run_config=config)
    assert {span.trace for span in received(receiver, config)} == {chosen}


@pytest.mark.parametrize("id", ["0" * 32, "trace_" + "a" * 32, "A" * 32, "a" * 31, 7])
def test_a_trace_id_is_32_hex_digits(id: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"Tracing: trace_id must be 32 hex digits in lower case, not all 0"):
        Tracing(trace_id=id)


async def test_spans_have_the_names_of_the_conventions(receiver: Receiver) -> None:
    send, _ = sending()
    config = traced(receiver, group_id="talk-1", model_settings=ModelSettings(temperature=0.5, max_tokens=99))
    agent = scripted(call("send", {"to": "ann"}, "call_7"), "Done.", tools=[send], name="Post")
    result = await Runner.run(agent, "Go.", run_config=config)
    root, stretch, chat, tool, _ = received(receiver, config)
    assert root.attributes == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "Post",
        "gen_ai.conversation.id": "talk-1",
        "assentry.run.id": result.run_id,
        "assentry.run.resumed": False,
        "assentry.run.status": "done",
    }
    assert stretch.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Post",
        "gen_ai.conversation.id": "talk-1",
        "gen_ai.request.model": "scripted",
        "gen_ai.provider.name": "ScriptedModel",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
    }
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "Post",
        "gen_ai.conversation.id": "talk-1",
        "gen_ai.provider.name": "ScriptedModel",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.response.id": "resp_1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "send",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Send a mail.",
        "gen_ai.tool.call.id": "call_7",
        "assentry.call.id": "c1",
        "assentry.call.by": "rule",
        "assentry.call.outcome": "finished",
    }
    assert root.resource["service.name"] == "assentry"
    assert receiver.paths == ["/v1/traces"]


async def test_a_run_is_named_and_described_as_its_user_likes(receiver: Receiver) -> None:
    config = traced(receiver, workflow_name="refunds", metadata={"tenant": "acme"})
    session = SQLiteSession("talk-9")
    await Runner.run(scripted("Done."), "Go.", run_config=config, session=session)
    root = received(receiver, config)[0]
    assert root.name == "invoke_workflow refunds"
    assert root["assentry.metadata.tenant"] == "acme"
    assert root["gen_ai.conversation.id"] == "talk-9"
    session.close()


async def test_a_model_says_who_provides_it(receiver: Receiver) -> None:
    class Hosted(ScriptedModel):
        provider = "openai"

    config = traced(receiver)
    await Runner.run(Agent("agent", model=Hosted(["Done."], name="gpt-9")), "Go.", run_config=config)
    received(receiver, config)
    assert receiver.named("chat gpt-9")["gen_ai.provider.name"] == "openai"


async def test_an_agent_as_a_tool_is_a_span_inside_the_one_that_called_it(receiver: Receiver) -> None:
    send, _ = sending()
    inner = scripted(call("send", {"to": "ann"}), "Sent.", tools=[send], name="Clerk")
    outer = scripted(
        call("clerk", {"input": "Write."}), "Done.", tools=[inner.as_tool("clerk", "Writes.")], name="Boss"
    )
    config = traced(receiver)
    await Runner.run(outer, "Go.", run_config=config)
    assert tree(received(receiver, config)) == [
        "invoke_workflow Boss",
        "  invoke_agent Boss",
        "    chat scripted",
        "    invoke_agent Clerk",
        "      chat scripted",
        "      execute_tool send",
        "      chat scripted",
        "    chat scripted",
    ]
    clerk = receiver.named("invoke_agent Clerk")
    assert clerk["gen_ai.tool.name"] == "clerk"
    assert clerk["gen_ai.usage.input_tokens"] == 20
    assert clerk.end <= receiver.spans[-1].start, "it ends when its call does, not with the run"


async def test_an_agent_as_a_tool_that_fails_says_so(receiver: Receiver) -> None:
    inner = scripted(ValueError("no"), name="Clerk")
    outer = scripted(
        call("clerk", {"input": "Write."}), "Done.", tools=[inner.as_tool("clerk", "Writes.")], name="Boss"
    )
    config = traced(receiver)
    await Runner.run(outer, "Go.", run_config=config)
    received(receiver, config)
    clerk = receiver.named("invoke_agent Clerk")
    assert clerk.failed and clerk["error.type"] == "ValueError"
    assert not receiver.named("invoke_workflow Boss").failed


async def test_each_agent_that_is_handed_the_word_has_a_span(receiver: Receiver) -> None:
    second = scripted("Done.", name="Second")
    first = scripted(call("transfer_to_second"), name="First", handoffs=[second])
    config = traced(receiver)
    await Runner.run(first, "Go.", run_config=config)
    assert tree(received(receiver, config)) == [
        "invoke_workflow First",
        "  invoke_agent First",
        "    chat scripted",
        "    execute_tool transfer_to_second",
        "  invoke_agent Second",
        "    chat scripted",
    ]
    assert receiver.named("execute_tool transfer_to_second")["assentry.call.outcome"] == "handed_off"


async def test_a_streamed_run_has_the_same_spans(receiver: Receiver) -> None:
    send, _ = sending()
    config = traced(receiver)
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"})], "Done.", tools=[send], name="Post")
    result = Runner.run_streamed(agent, "Go.", run_config=config)
    async for _ in result.stream_events():
        pass
    assert tree(received(receiver, config)) == [
        "invoke_workflow Post",
        "  invoke_agent Post",
        "    chat scripted",
        "    execute_tool send",
        "    execute_tool send",
        "    chat scripted",
    ]


def test_a_blocking_run_is_traced_too(receiver: Receiver) -> None:
    config = traced(receiver)
    Runner.run_sync(scripted("Done.", name="Post"), "Go.", run_config=config)
    assert tree(received(receiver, config))[0] == "invoke_workflow Post"


async def test_what_a_guardrail_found_is_an_event(receiver: Receiver) -> None:
    @input_guardrail
    async def polite(ctx: Any, agent: Any, said: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(PRIVATE, False)

    config = traced(receiver)
    await Runner.run(scripted("Done.", input_guardrails=[polite]), "Go.", run_config=config)
    received(receiver, config)
    found = {f"assentry.guardrail.{name}": value for name, value in (("name", "polite"), ("where", "input"))}
    assert receiver.named("invoke_agent agent").events == [
        ("assentry.guarded", found | {"assentry.guardrail.tripped": False})
    ]
    assert PRIVATE.encode() not in b"".join(receiver.bodies)


# -- people ----------------------------------------------------------------------------------------------


async def test_a_run_that_is_resumed_goes_on_with_its_trace(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    config = traced(receiver)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send], name="Post")
    result = await Runner.run(agent, "Go.", run_config=config)
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0], by="ann")
    await Runner.run(agent, state, run_config=config)
    assert tree(received(receiver, config)) == [
        "invoke_workflow Post",
        "  invoke_agent Post",
        "    chat scripted",
        "  invoke_workflow Post",
        "    invoke_agent Post",
        "      wait_for_person send",
        "      execute_tool send",
        "      chat scripted",
    ]
    assert len({span.trace for span in receiver.spans}) == 1
    assert receiver.named("execute_tool send")["assentry.call.by"] == "ann"
    first, second = [span for span in receiver.spans if span.name == "invoke_workflow Post"]
    assert (first["assentry.run.status"], second["assentry.run.status"]) == ("waiting", "done")
    assert (first["assentry.run.resumed"], second["assentry.run.resumed"]) == (False, True)


async def test_another_process_goes_on_with_the_trace(receiver: Receiver, tmp_path: Path) -> None:
    send, _ = sending(needs_approval=True)
    config = traced(receiver)
    result = await Runner.run(
        scripted(call("send", {"to": "ann"}), tools=[send], name="Post"), "Go.", run_config=config
    )
    (tmp_path / "run.json").write_text(result.to_state().to_string(), "utf-8")
    code = f"""
        import asyncio
        from pathlib import Path
        from assentry import Agent, RunConfig, Runner, RunState, Tracing, function_tool
        from assentry.testing import ScriptedModel

        @function_tool(needs_approval=True)
        async def send(to: str, copies: int = 1) -> str:
            "Send a mail."
            return "sent"

        async def main():
            agent = Agent("Post", tools=[send], model=ScriptedModel(["Done."]))
            state = await RunState.from_string(agent, Path("run.json").read_text("utf-8"))
            state.approve(state.get_interruptions()[0], by="bob")
            config = RunConfig(tracing=Tracing(endpoint={receiver.url!r}))
            print((await Runner.run(agent, state, run_config=config)).final_output)

        asyncio.run(main())
    """
    ended = python(inspect.cleandoc(code), cwd=tmp_path)
    assert ended.stdout.strip() == "Done.", ended.stderr
    received(receiver, config)
    assert len({span.trace for span in receiver.spans}) == 1
    assert receiver.named("wait_for_person send")["assentry.decision.by"] == "bob"
    assert receiver.named("execute_tool send").trace == receiver.spans[0].trace, "sent when the process ended"


async def test_a_wait_inside_an_agent_that_is_a_tool_is_inside_its_span(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    inner = scripted(call("send", {"to": "ann"}), "Sent.", tools=[send], name="Clerk")
    outer = scripted(
        call("clerk", {"input": "Write."}), "Done.", tools=[inner.as_tool("clerk", "Writes.")], name="Boss"
    )
    config = traced(receiver)
    state = await reloaded(outer, (await Runner.run(outer, "Go.", run_config=config)).to_state())
    state.approve(state.get_interruptions()[0])
    await Runner.run(outer, state, run_config=config)
    assert tree(received(receiver, config)) == [
        "invoke_workflow Boss",
        "  invoke_agent Boss",
        "    chat scripted",
        "    invoke_agent Clerk",
        "      chat scripted",
        "  invoke_workflow Boss",
        "    invoke_agent Boss",
        "      invoke_agent Clerk",
        "        wait_for_person send",
        "        execute_tool send",
        "        chat scripted",
        "      chat scripted",
    ]


async def test_the_wait_for_a_person_lasts_from_the_question_to_the_answer(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    clock = FakeClock()
    config = traced(receiver, clock=clock)
    agent = scripted(call("send", {"to": "ann"}, "call_7"), "Done.", tools=[send])
    result = await Runner.run(agent, "Go.", run_config=config)
    state = result.to_state()
    [question] = state.get_interruptions()
    asked_at = clock.now
    clock.advance(3600)
    state.approve(question, by="ann")
    clock.advance(60)
    await Runner.run(agent, state, run_config=config)
    received(receiver, config)
    wait = receiver.named("wait_for_person send")
    assert (wait.start, wait.end) == (int(asked_at) * 10**9, int(asked_at + 3600) * 10**9)
    assert wait.attributes == {
        "gen_ai.tool.name": "send",
        "gen_ai.tool.call.id": "call_7",
        "assentry.call.id": "c1",
        "assentry.question.id": question.id,
        "assentry.question.kind": "approval",
        "assentry.decision": "approve",
        "assentry.decision.by": "ann",
    }
    [stretch, _] = [span for span in receiver.spans if span.name == "invoke_agent agent"]
    [(name, about)] = stretch.events
    assert (name, about["assentry.question.id"]) == ("assentry.asked", question.id)


async def test_a_call_that_a_person_rejects_leaves_a_span_of_no_length(receiver: Receiver) -> None:
    send, sent = sending(needs_approval=True)
    config = traced(receiver)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send])
    state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
    state.reject(state.get_interruptions()[0], rejection_message=PRIVATE, by="ann")
    await Runner.run(agent, state, run_config=config)
    received(receiver, config)
    refused = receiver.named("execute_tool send")
    assert sent == []
    assert refused.start == refused.end
    assert refused["assentry.call.outcome"] == "refused"
    assert refused["assentry.call.refusal"] == "approval_rejected"
    assert refused["assentry.call.by"] == "ann"
    assert receiver.named("wait_for_person send")["assentry.decision"] == "reject"
    assert PRIVATE.encode() not in b"".join(receiver.bodies)


async def test_a_call_that_the_runtime_refuses_leaves_a_span_too(receiver: Receiver) -> None:
    send, _ = sending()
    config = traced(receiver)
    agent = scripted([call("send", {"to": 7}), call("fly")], "Done.", tools=[send])
    await Runner.run(agent, "Go.", run_config=config)
    received(receiver, config)
    assert receiver.named("execute_tool send")["assentry.call.refusal"] == "invalid_arguments"
    assert receiver.named("execute_tool fly")["assentry.call.refusal"] == "tool_not_found"
    assert receiver.named("execute_tool fly")["assentry.call.by"] == "runtime"


async def test_a_body_that_asks_has_a_span_for_each_time_it_is_entered(receiver: Receiver) -> None:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        return f"booked {await ctx.ask('Which seat?')}"

    config = traced(receiver)
    agent = scripted(call("book"), "Done.", tools=[book])
    state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
    state.respond(state.get_interruptions()[0], "4A", by="ann")
    await Runner.run(agent, state, run_config=config)
    spans = [span for span in received(receiver, config) if span.name == "execute_tool book"]
    assert [span["assentry.call.outcome"] for span in spans] == ["asked", "finished"]
    assert not any(span.failed for span in spans)
    wait = receiver.named("wait_for_person book")
    assert (wait["assentry.question.kind"], wait["assentry.decision"]) == ("input", "respond")


async def test_a_run_that_was_not_traced_when_it_began_has_a_trace_from_its_resume_on(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send])
    state = (await Runner.run(agent, "Go.")).to_state()
    assert "trace" not in facts(state, "began")[0]
    state.approve(state.get_interruptions()[0])
    config = traced(receiver)
    result = await Runner.run(agent, state, run_config=config)
    assert len({span.trace for span in received(receiver, config)}) == 1
    assert result.final_output == "Done."


@pytest.mark.parametrize(
    "kept",
    [{}, {"id": "x", "span": "y"}, {"id": "0" * 32, "span": "0" * 16}, {"id": "a" * 32}, {"id": "f" * 99, "span": "1"}],
)
async def test_a_trace_that_cannot_be_read_is_begun_anew(receiver: Receiver, kept: dict[str, str]) -> None:
    send, _ = sending(needs_approval=True)
    config = traced(receiver)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send])
    data = (await Runner.run(agent, "Go.", run_config=config)).to_state().to_json()
    data["journal"][0]["trace"] = kept
    state = await RunState.from_json(agent, data)
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, run_config=config)).final_output == "Done."
    assert len({span.trace for span in received(receiver, config)}) == 2


# -- failing and stopping --------------------------------------------------------------------------------


async def test_a_model_that_fails_fails_its_spans(receiver: Receiver) -> None:
    config = traced(receiver)
    with pytest.raises(ValueError, match=PRIVATE):
        await Runner.run(scripted(ValueError(PRIVATE)), "Go.", run_config=config)
    spans = received(receiver, config)
    assert [span["error.type"] for span in spans] == ["ValueError"] * 3
    assert all(span.failed and span.words == "" for span in spans)
    assert PRIVATE.encode() not in b"".join(receiver.bodies)


async def test_a_tool_that_fails_fails_its_span_and_not_the_runs(receiver: Receiver) -> None:
    @function_tool
    def fail() -> str:
        raise ValueError(PRIVATE)

    config = traced(receiver)
    await Runner.run(scripted(call("fail"), "Done.", tools=[fail]), "Go.", run_config=config)
    received(receiver, config)
    tool = receiver.named("execute_tool fail")
    assert tool.failed and tool["error.type"] == "ValueError" and tool["assentry.call.outcome"] == "finished"
    assert not receiver.named("invoke_workflow agent").failed
    assert PRIVATE.encode() not in b"".join(receiver.bodies)


async def test_a_run_that_runs_out_of_turns_says_so(receiver: Receiver) -> None:
    send, _ = sending()
    config = traced(receiver)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(agent, "Go.", run_config=config, max_turns=1)
    root = received(receiver, config)[0]
    assert (root["error.type"], root["assentry.run.status"]) == ("MaxTurnsExceeded", "exhausted")


async def test_a_run_that_is_cancelled_ends_all_its_spans(receiver: Receiver) -> None:
    begun = asyncio.Event()

    @function_tool
    async def hang() -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    config = traced(receiver)
    agent = scripted(call("hang"), tools=[hang], name="Post")
    await stopped(Runner.run(agent, "Go.", run_config=config), begun)
    spans = received(receiver, config)
    assert tree(spans) == ["invoke_workflow Post", "  invoke_agent Post", "    chat scripted", "    execute_tool hang"]
    assert receiver.named("execute_tool hang")["error.type"] == "CancelledError"
    assert "assentry.call.outcome" not in receiver.named("execute_tool hang").attributes
    assert spans[0]["error.type"] == "CancelledError"


async def test_a_stream_that_is_cancelled_is_not_a_failure(receiver: Receiver) -> None:
    send, _ = sending()
    config = traced(receiver)
    result = Runner.run_streamed(scripted(call("send", {"to": "ann"}), "Done.", tools=[send]), "Go.", run_config=config)
    result.cancel("after_turn")
    async for _ in result.stream_events():
        pass
    root = received(receiver, config)[0]
    assert root["assentry.run.status"] == "cancelled"
    assert not root.failed


# -- what is private -------------------------------------------------------------------------------------


def talkative() -> Agent[Any]:
    @function_tool
    async def note(words: str) -> str:
        return f"noted {words}-2"

    first = [call("note", {"words": f"{PRIVATE}-1"}), call("note", {"word": f"{PRIVATE}-3"})]
    return scripted(first, f"{PRIVATE}-4", tools=[note], instructions=f"{PRIVATE}-5")


async def test_what_was_said_is_not_in_the_spans(receiver: Receiver) -> None:
    config = traced(receiver)
    await Runner.run(talkative(), f"{PRIVATE}-6", run_config=config)
    assert len(received(receiver, config)) == 6
    assert PRIVATE.encode() not in b"".join(receiver.bodies)


async def test_what_was_said_is_in_the_spans_on_request(receiver: Receiver) -> None:
    config = traced(receiver, include_sensitive_data=True)
    await Runner.run(talkative(), f"{PRIVATE}-6", run_config=config)
    spans = received(receiver, config)
    first, second = [span for span in spans if span.name == "chat scripted"]
    tool, refused = [span for span in spans if span.name == "execute_tool note" and span.start != span.end] + [
        span for span in spans if span.start == span.end
    ]
    assert json.loads(first["gen_ai.system_instructions"]) == [{"type": "text", "content": f"{PRIVATE}-5"}]
    assert json.loads(first["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": f"{PRIVATE}-6"}]}
    ]
    [reply] = json.loads(first["gen_ai.output.messages"])
    assert (reply["role"], reply["finish_reason"]) == ("assistant", "tool_call")
    assert [part["type"] for part in reply["parts"]] == ["tool_call", "tool_call"]
    heard = json.loads(second["gen_ai.input.messages"])
    assert [message["role"] for message in heard] == ["user", "assistant", "assistant", "tool", "tool"]
    assert heard[3]["parts"][0]["response"] == f"noted {PRIVATE}-1-2"
    [reply] = json.loads(second["gen_ai.output.messages"])
    assert reply["parts"] == [{"type": "text", "content": f"{PRIVATE}-4"}]
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"words": f"{PRIVATE}-1"}
    assert json.loads(tool["gen_ai.tool.call.result"]) == f"noted {PRIVATE}-1-2"
    assert refused["assentry.call.why"] and refused["assentry.call.told"]


async def test_the_words_of_an_error_are_in_the_spans_on_request(receiver: Receiver) -> None:
    config = traced(receiver, include_sensitive_data=True)
    with pytest.raises(ValueError, match=PRIVATE):
        await Runner.run(scripted(ValueError(PRIVATE)), "Go.", run_config=config)
    assert {span.words for span in received(receiver, config)} == {PRIVATE}


# -- the key ---------------------------------------------------------------------------------------------


async def test_the_key_and_the_headers_are_sent(receiver: Receiver) -> None:
    config = traced(receiver, api_key=KEY, headers={"X-Team": "blue"})
    await Runner.run(scripted("Done."), "Go.", run_config=config)
    received(receiver, config)
    [headers] = receiver.headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-team"] == "blue"


async def test_the_key_is_shown_nowhere(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    """Not by the receiver either, who repeats it in what the exporter logs."""
    caplog.set_level(logging.DEBUG)
    receiver.answer = lambda headers: (401, f"Not with {headers['authorization']} of {headers['x-token']}")
    secret = "another-secret"
    tracing = Tracing(endpoint=receiver.url, api_key=KEY, headers={"X-Token": secret})
    config = RunConfig(tracing=tracing)
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), ValueError("down"), tools=[send])
    state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
    saved = state.to_string()
    state.approve(state.get_interruptions()[0])
    with pytest.raises(ValueError, match="down") as caught:
        await Runner.run(agent, state, run_config=config)
    tracing.flush()
    assert receiver.bodies
    shown = [repr(tracing), repr(config), str(tracing), saved, caplog.text, repr(caught.value.state)]  # type: ignore[attr-defined]
    shown.append("".join(traceback.format_exception(caught.value)))
    shown += [repr(vars(record)) for record in caplog.records]
    assert "401" in caplog.text and "Not with Bearer *** of ***" in caplog.text, "the failure itself is logged"
    for text in shown:
        assert KEY not in text
        assert secret not in text


async def test_a_saved_run_has_the_key_only_on_request(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    config = traced(receiver, api_key=KEY, headers={"X-Team": "blue"}, workflow_name="refunds", group_id="g")
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
    plain, full = state.to_json(), state.to_json(include_tracing_api_key=True)
    assert KEY not in json.dumps(plain) and receiver.url not in json.dumps(plain)
    assert full.pop("tracing") == {
        "endpoint": f"{receiver.url}/v1/traces",
        "api_key": KEY,
        "headers": {"X-Team": "blue"},
        "workflow_name": "refunds",
        "group_id": "g",
    }
    assert full == plain
    assert KEY not in repr(RunState.peek(state.to_string(include_tracing_api_key=True)))


async def test_a_run_saved_with_its_key_is_traced_without_being_given_it_again(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    config = traced(receiver, api_key=KEY)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send])
    state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
    for text in (state.to_string(include_tracing_api_key=True), state.to_string()):
        loaded = await RunState.from_string(agent, text)
        loaded.approve(loaded.get_interruptions()[0])
        again = Agent("agent", tools=[send], model=ScriptedModel(["Done."]))
        await Runner.run(again, loaded)
    spans = received(receiver, config)
    assert len([span for span in spans if span.name == "execute_tool send"]) == 1, "the second one is not traced"
    assert {headers["authorization"] for headers in receiver.headers} == {f"Bearer {KEY}"}
    assert len({span.trace for span in spans}) == 1


async def test_a_state_in_the_process_that_made_it_is_traced_on(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    config = traced(receiver)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send])
    state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    received(receiver, config)
    assert receiver.named("execute_tool send")
    assert result.to_state().to_json(include_tracing_api_key=True)["tracing"]["endpoint"].startswith(receiver.url)


async def test_a_signature_covers_where_the_spans_go(receiver: Receiver) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    state = (await Runner.run(agent, "Go.", run_config=traced(receiver, api_key=KEY))).to_state()
    key = SigningKey("one", b"0123456789abcdef")
    data = state.to_json(include_tracing_api_key=True, key=key)
    await RunState.from_json(agent, data, keys=[key])
    data["tracing"]["endpoint"] = "https://elsewhere.example/v1/traces"
    with pytest.raises(BadSignature):
        await RunState.from_json(agent, data, keys=[key])


@pytest.mark.parametrize(
    "saved",
    [
        {"endpoint": "ftp://x", "api_key": KEY},
        {"endpoint": 3, "api_key": KEY},
        {"endpoint": "https://x.example", "api_key": f"{KEY}\n"},
        {"endpoint": "https://x.example", "api_key": [KEY]},
        {"endpoint": "https://x.example", "headers": {"a b": KEY}},
        {"api_key": KEY},
        KEY,
    ],
)
async def test_a_damaged_place_for_spans_is_refused_without_showing_it(saved: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    data = (await Runner.run(agent, "Go.")).to_state().to_json()
    with pytest.raises(UnreadableState) as caught:
        await RunState.from_json(agent, {**data, "tracing": saved})
    assert KEY not in "".join(traceback.format_exception(caught.value))


# -- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"endpoint": "localhost:4318"}, "http or https"),
        ({"endpoint": "https://"}, "http or https"),
        ({"endpoint": "http://[::1"}, "http or https"),
        ({"endpoint": "http://x:99999"}, "http or https"),
        ({"endpoint": "http://a b"}, "http or https"),
        ({"endpoint": 4318}, "http or https"),
        ({"endpoint": f"https://user:{KEY}@x.example"}, "without user"),
        ({"endpoint": f"https://x.example/?key={KEY}"}, "without user"),
        ({"api_key": KEY}, "endpoint"),
        ({"headers": {"x": "y"}}, "endpoint"),
        ({"endpoint": "https://x.example", "api_key": f" {KEY}"}, "printable"),
        ({"endpoint": "https://x.example", "api_key": f"{KEY}\r\nX: y"}, "printable"),
        ({"endpoint": "https://x.example", "api_key": KEY.encode()}, "printable"),
        ({"endpoint": "https://x.example", "api_key": ""}, "printable"),
        ({"endpoint": "https://x.example", "headers": {"x": f"{KEY}\n"}}, "HTTP can carry"),
        ({"endpoint": "https://x.example", "headers": {"": KEY}}, "HTTP can carry"),
        ({"endpoint": "https://x.example", "headers": [KEY]}, "dict of texts"),
        ({"endpoint": "https://x.example", "headers": {"x": 1}}, "dict of texts"),
        ({"endpoint": "https://x.example", "api_key": KEY, "headers": {"Authorization": KEY}}, "not both"),
        ({"endpoint": "https://x.example", "tracer_provider": TracerProvider()}, "not both"),
        ({"tracer_provider": "global"}, "TracerProvider"),
        ({"workflow_name": ""}, "workflow_name"),
        ({"group_id": 7}, "group_id"),
        ({"group_id": "\ud800"}, "group_id"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"include_sensitive_data": "yes"}, "include_sensitive_data"),
    ],
)
def test_settings_that_cannot_work_are_refused_without_showing_secrets(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words) as caught:
        Tracing(**settings)
    assert KEY not in str(caught.value)


def test_an_endpoint_without_a_path_gets_the_usual_one() -> None:
    assert Tracing(endpoint="http://localhost:4318").endpoint == "http://localhost:4318/v1/traces"
    assert Tracing(endpoint="http://localhost:4318/").endpoint == "http://localhost:4318/v1/traces"
    assert Tracing(endpoint="https://x.example/otlp").endpoint == "https://x.example/otlp"


def test_tracing_is_a_tracing() -> None:
    with pytest.raises(InvalidDefinition, match="must be a Tracing"):
        RunConfig(tracing=f"https://{KEY}")  # type: ignore[arg-type]


def test_without_the_extra_it_is_said_what_to_install() -> None:
    code = """
        import sys
        sys.modules["opentelemetry"] = None
        from assentry import InvalidDefinition, RunConfig, Tracing
        tracing = Tracing()
        for attempt in (lambda: RunConfig(tracing=tracing), tracing.flush):
            try:
                attempt()
            except InvalidDefinition as error:
                print(error)
    """
    ended = python(inspect.cleandoc(code))
    assert ended.stdout.count('pip install ".[otel]"') == 2, ended.stderr


def test_a_run_that_is_not_traced_loads_nothing_of_opentelemetry() -> None:
    code = """
        import sys
        from assentry import Agent, RunConfig, Runner, Tracing
        from assentry.testing import ScriptedModel
        Runner.run_sync(Agent("agent", model=ScriptedModel(["Done."])), "Go.", run_config=RunConfig())
        Tracing()
        print([name for name in sys.modules if name.startswith("opentelemetry")])
    """
    ended = python(inspect.cleandoc(code))
    assert ended.stdout.strip() == "[]", ended.stderr


# -- exporters that fail ---------------------------------------------------------------------------------


async def test_a_receiver_that_refuses_does_not_break_the_run(receiver: Receiver) -> None:
    receiver.answer = lambda headers: (400, "Bad")
    config = traced(receiver)
    assert (await Runner.run(scripted("Done."), "Go.", run_config=config)).final_output == "Done."
    assert config.tracing is not None and config.tracing.flush(), "it was tried"


async def test_a_receiver_that_is_slow_does_not_slow_the_run(receiver: Receiver) -> None:
    reached, go = threading.Event(), threading.Event()

    def slow(headers: dict[str, str]) -> tuple[int, str]:
        reached.set()
        go.wait(60)
        return 200, "OK"

    receiver.answer = slow
    tracing = Tracing(endpoint=receiver.url)
    config = RunConfig(tracing=tracing)
    await soon(Runner.run(scripted("Done."), "Go.", run_config=config))
    assert tracing.flush(timeout=0.01) is False
    assert reached.wait(60)
    await soon(Runner.run(scripted("Done."), "Go.", run_config=config))
    assert receiver.bodies == []
    go.set()
    assert tracing.flush()
    assert len(receiver.spans) == 6


def test_a_receiver_that_is_not_there_breaks_nothing(tmp_path: Path) -> None:
    with Receiver() as gone:
        url = gone.url
    code = f"""
        from assentry import Agent, RunConfig, Runner, Tracing
        from assentry.tracing import provider
        from assentry.testing import ScriptedModel
        provider.EXIT = 0.01
        config = RunConfig(tracing=Tracing(endpoint={url!r}, api_key={KEY!r}))
        print(Runner.run_sync(Agent("agent", model=ScriptedModel(["Done."])), "Go.", run_config=config).final_output)
    """
    ended = python(inspect.cleandoc(code))
    assert (ended.returncode, ended.stdout.strip()) == (0, "Done."), ended.stderr
    assert KEY not in ended.stderr


async def test_a_provider_that_raises_does_not_break_the_run() -> None:
    class Broken(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            raise RuntimeError("no")

        def on_end(self, span: Any) -> None:
            raise RuntimeError("no")

        def force_flush(self, timeout_millis: int = 30000) -> bool:
            raise RuntimeError("no")

    class BrokenAtTheEnd(Broken):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            pass

    send, sent = sending()
    for processor in (Broken(), BrokenAtTheEnd()):
        provider = TracerProvider()
        provider.add_span_processor(processor)
        tracing = Tracing(tracer_provider=provider)
        agent = scripted([call("send", {"to": "ann"}), call("fly")], "Done.", tools=[send])
        result = await Runner.run(agent, "Go.", run_config=RunConfig(tracing=tracing))
        assert result.final_output == "Done."
        assert tracing.flush() is False
    assert len(sent) == 2


# -- beside the user's own spans -------------------------------------------------------------------------


@pytest.fixture
def own() -> tuple[TracerProvider, InMemorySpanExporter]:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return provider, memory


Own = tuple[TracerProvider, InMemorySpanExporter]


def parents(memory: InMemorySpanExporter) -> dict[str, str]:
    """The name of each span's parent, by the span's name."""
    spans = memory.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans if span.context}
    return {span.name: names.get(span.parent.span_id, "elsewhere") if span.parent else "" for span in spans}


async def test_spans_of_a_tools_body_are_inside_its_span(own: Own) -> None:
    provider, memory = own
    tracer = provider.get_tracer("mine")
    together = asyncio.Barrier(2)

    @function_tool
    async def early(name: str) -> str:
        with tracer.start_as_current_span(f"mine {name}"):
            await together.wait()
        return name

    @function_tool
    async def late(name: str) -> str:
        await together.wait()
        with tracer.start_as_current_span(f"mine {name}"):
            return name

    @function_tool
    def blocking(name: str) -> str:
        with tracer.start_as_current_span(f"mine {name}"):
            return name

    tools = [early, late, blocking]
    calls = [call(tool.name, {"name": tool.name}) for tool in tools]
    config = RunConfig(tracing=Tracing(tracer_provider=provider))
    await soon(
        Runner.run(scripted(calls, call("blocking", {"name": "alone"}), "Done.", tools=tools), "Go.", run_config=config)
    )
    found = parents(memory)
    assert [found[f"mine {tool.name}"] for tool in tools] == [f"execute_tool {tool.name}" for tool in tools]
    assert found["mine alone"] == "execute_tool blocking"


async def test_a_model_can_make_spans_inside_its_own(own: Own) -> None:
    provider, memory = own

    def answer(request: Any) -> str:
        provider.get_tracer("mine").start_span("POST").end()
        return "Done."

    await Runner.run(scripted(answer), "Go.", run_config=RunConfig(tracing=Tracing(tracer_provider=provider)))
    assert parents(memory)["POST"] == "chat scripted"


async def test_a_run_in_a_tools_body_is_part_of_the_outer_ones_trace(own: Own) -> None:
    provider, memory = own
    config = RunConfig(tracing=Tracing(tracer_provider=provider))

    @function_tool
    async def delegate() -> str:
        return str((await Runner.run(scripted("Inner.", name="Inner"), "Go.", run_config=config)).final_output)

    await Runner.run(scripted(call("delegate"), "Done.", tools=[delegate], name="Outer"), "Go.", run_config=config)
    assert parents(memory)["invoke_workflow Inner"] == "execute_tool delegate"


async def test_a_run_begins_in_its_callers_trace_and_is_linked_to_that_of_whoever_resumes_it(own: Own) -> None:
    provider, memory = own
    tracer = provider.get_tracer("mine")
    config = RunConfig(tracing=Tracing(tracer_provider=provider))
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send], name="Post")
    with tracer.start_as_current_span("request 1") as one:
        state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
        assert trace.get_current_span() is one, "what was current before is current after"
    state.approve(state.get_interruptions()[0])
    with tracer.start_as_current_span("request 2") as two:
        await Runner.run(agent, state, run_config=config)
    first, second = [span for span in memory.get_finished_spans() if span.name == "invoke_workflow Post"]
    assert first.context and second.context and first.parent and second.parent
    assert first.parent.span_id == one.get_span_context().span_id
    assert second.parent.span_id == first.context.span_id
    assert {first.context.trace_id, second.context.trace_id} == {one.get_span_context().trace_id}
    assert [link.context.trace_id for link in second.links] == [two.get_span_context().trace_id]


async def test_a_run_that_is_not_sampled_stays_so_after_its_resume(receiver: Receiver) -> None:
    provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send])
    config = RunConfig(tracing=Tracing(tracer_provider=provider))
    state = await reloaded(agent, (await Runner.run(agent, "Go.", run_config=config)).to_state())
    state.approve(state.get_interruptions()[0])
    config = traced(receiver)
    await Runner.run(agent, state, run_config=config)
    assert received(receiver, config) == []


async def test_without_endpoint_and_provider_the_global_one_is_used(own: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, memory = own
    config = RunConfig(tracing=Tracing())
    result = await Runner.run(scripted("Done.", name="Post"), "Go.", run_config=config)
    assert "trace" not in facts(result.to_state(), "began")[0], "nobody has set one up"
    assert config.tracing is not None and config.tracing.flush()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    await Runner.run(scripted("Done.", name="Post"), "Go.", run_config=config)
    assert "invoke_workflow Post" in parents(memory)


async def test_runs_for_one_endpoint_share_a_provider(receiver: Receiver) -> None:
    first, same, other = (Tracing(endpoint=receiver.url, api_key=key) for key in (KEY, KEY, "k"))
    assert provider_of(first) is provider_of(same)
    assert provider_of(first) is not provider_of(other)


# -- watching, and nothing else --------------------------------------------------------------------------


async def test_tracing_leaves_nothing_in_the_journal_but_the_trace(receiver: Receiver) -> None:
    async def journal(config: RunConfig) -> list[dict[str, Any]]:
        send, _ = sending(needs_approval=True)
        inner = scripted([call("send", {"to": "ann"}), call("fly")], "Sent.", tools=[send], name="Clerk")
        first = call("clerk", {"input": "Write."})
        agent = scripted(first, call("transfer_to_last"), tools=[inner.as_tool("clerk", "Writes.")], name="Boss")
        agent.handoffs = [scripted("Done.", name="Last")]
        state = (await Runner.run(agent, "Go.", run_config=config)).to_state()
        state.reject(state.get_interruptions()[0])
        result = await Runner.run(agent, state, run_config=config)
        assert result.final_output == "Done."
        return list(result.to_state().to_json()["journal"])

    clock = FakeClock()
    plain, watched = await journal(RunConfig(clock=clock)), await journal(traced(receiver, clock=clock))
    trace = watched[0].pop("trace")
    assert (len(trace["id"]), len(trace["span"])) == (32, 16)
    for fact in [*plain, *watched]:
        for name in ("run", "id", "digest", "asked"):
            fact.pop(name, None)
    assert watched == plain


async def test_a_decision_after_the_drives_end_makes_no_span(own: Own) -> None:
    provider, memory = own
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    result = await Runner.run(agent, "Go.", run_config=RunConfig(tracing=Tracing(tracer_provider=provider)))
    memory.clear()
    result.context_wrapper.approve_tool(result.interruptions[0])
    assert memory.get_finished_spans() == ()


async def test_items_of_any_kind_can_be_shown(receiver: Receiver) -> None:
    items = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": "x"}],
        },
        {"role": "user", "content": ["plain", 7]},
        {"role": "user", "content": {"odd": True}},
        {"type": "reasoning", "id": "r1", "summary": []},
        {"type": "item_reference", "id": "x"},
        {"role": "developer", "content": "Be kind."},
    ]
    config = traced(receiver, include_sensitive_data=True)
    await Runner.run(scripted("Done."), items, run_config=config)
    received(receiver, config)
    heard = json.loads(receiver.named("chat scripted")["gen_ai.input.messages"])
    assert [message["role"] for message in heard] == ["user", "user", "user", "assistant", "assistant", "developer"]
    assert all(part["type"] for message in heard for part in message["parts"])


async def test_a_run_whose_session_cannot_be_read_ends_its_span(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "talk.db").write_bytes(b"this is no database, and never was one" * 99)
    config = traced(receiver)
    session = SQLiteSession("talk", tmp_path / "talk.db")
    with pytest.raises(SessionFailed):
        await Runner.run(scripted("Done."), "Go.", run_config=config, session=session)
    session.close()
    [root] = received(receiver, config)
    assert root["error.type"] == "SessionFailed"


async def test_many_runs_at_once_do_not_mix_their_spans(own: Own) -> None:
    provider, memory = own
    config = RunConfig(tracing=Tracing(tracer_provider=provider))

    def agent(number: int) -> Agent[Any]:
        send, _ = sending()
        return scripted(call("send", {"to": "ann"}), "Done.", tools=[send], name=f"agent {number}")

    await asyncio.gather(*(Runner.run(agent(n), "Go.", run_config=config) for n in range(20)))
    traces: dict[int, list[str]] = {}
    for span in memory.get_finished_spans():
        assert span.context is not None
        traces.setdefault(span.context.trace_id, []).append(span.name)
    assert len(traces) == 20
    assert all(len(names) == 5 for names in traces.values())
    workflows = sorted(name for names in traces.values() for name in names if name.startswith("invoke_workflow"))
    assert workflows == sorted(f"invoke_workflow agent {n}" for n in range(20))
