"""The testing kit: a scripted model, a scripted person, a clock that stands still."""

from typing import Any

import pytest

from assentry import (
    Agent,
    Approve,
    Edit,
    ModelRequest,
    ModelResponse,
    Reject,
    Respond,
    RunConfig,
    Runner,
    RunState,
    Usage,
)
from assentry.errors import AssentryError, ScriptExhausted, UsageError
from assentry.testing import FakeClock, ScriptedCall, ScriptedModel, ScriptedPerson, call
from tests.runtime.support import asked, outcomes, reloaded, scripted, sending, told

# -- the model -------------------------------------------------------------------------------------


async def test_text_is_a_final_reply() -> None:
    result = await Runner.run(scripted("hello there"), "go")
    assert result.final_output == "hello there"
    [item] = result.raw_responses[0].output
    assert (item["type"], item["role"]) == ("message", "assistant")


async def test_a_call_has_arguments_as_a_dict_or_as_raw_text() -> None:
    assert call("send", {"to": "ü"}).arguments == '{"to": "\\u00fc"}'
    assert call("send", "not JSON").arguments == "not JSON"
    assert call("send", "").arguments == ""
    assert call("send").arguments == "{}"
    assert call("send", {}).arguments == "{}"
    assert call("send", {}, "abc").call_id == "abc"
    assert call("send", {}, call_id="abc").call_id == "abc"
    assert isinstance(call("send"), ScriptedCall)


async def test_a_list_is_calls_and_text_in_order() -> None:
    send, sent = sending()
    agent = scripted(["first", call("send", {"to": "ann"}), call("send", {"to": "bob"}), "last"], "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert [item["type"] for item in result.raw_responses[0].output] == [
        "message",
        "function_call",
        "function_call",
        "message",
    ]
    assert sent == [("ann", 1), ("bob", 1)]


async def test_calls_without_an_id_get_one_each() -> None:
    send, _ = sending()
    calls = [call("send", {"to": "ann"}), call("send", {"to": "bob"})]
    agent = scripted(calls, calls, [call("send", {"to": "eve"}, "mine")], "done", tools=[send])
    result = await Runner.run(agent, "go")
    ids = [item.raw_item["call_id"] for item in result.new_items if item.type == "tool_call_item"]
    assert len(set(ids)) == 5
    assert ids[-1] == "mine"


async def test_an_exception_is_raised_and_consumed() -> None:
    agent = scripted(ValueError("no"), "done")
    with pytest.raises(ValueError, match="no"):
        await Runner.run(agent, "go")
    assert (await Runner.run(agent, "go")).final_output == "done"


async def test_a_function_of_the_request_gives_the_step() -> None:
    seen: list[ModelRequest] = []

    def look(request: ModelRequest) -> str:
        seen.append(request)
        return f"you said {request.input[-1]['content']}"

    async def later(request: ModelRequest) -> list[Any]:
        return ["later", " on"]

    def fail(request: ModelRequest) -> Exception:
        return LookupError("not there")

    def breaks(request: ModelRequest) -> str:
        raise KeyError("broken")

    agent = scripted(look, later, fail, breaks)
    assert (await Runner.run(agent, "go")).final_output == "you said go"
    assert seen[0].input == [{"role": "user", "content": "go"}]
    assert (await Runner.run(agent, "go")).final_output == "later on"
    with pytest.raises(LookupError):
        await Runner.run(agent, "go")
    with pytest.raises(KeyError):
        await Runner.run(agent, "go")


async def test_a_whole_response_is_given_as_it_is() -> None:
    content = [{"type": "output_text", "text": "hi"}]
    reply = ModelResponse([{"type": "message", "role": "assistant", "content": content}], Usage(requests=7), "mine")
    result = await Runner.run(scripted(reply), "go")
    assert result.final_output == "hi"
    assert result.raw_responses == [reply]
    assert result.context_wrapper.usage.requests == 7


async def test_a_message_whose_content_is_plain_text_streams_too() -> None:
    reply = ModelResponse([{"type": "message", "role": "assistant", "content": "one two"}])
    result = Runner.run_streamed(scripted(reply), "go")
    deltas = [event.data["delta"] async for event in result.stream_events() if event.type == "raw_response_event"]
    assert "".join(deltas) == "one two"


async def test_steps_are_consumed_once_across_runs_and_agents() -> None:
    model = ScriptedModel(["one", "two", "three"])
    agents = [Agent("a", model=model), Agent("b", model=model)]
    said = [(await Runner.run(agent, "go")).final_output for agent in (*agents, agents[0])]
    assert said == ["one", "two", "three"]


async def test_a_model_that_runs_out_says_so_and_the_run_can_go_on() -> None:
    send, sent = sending()
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    with pytest.raises(ScriptExhausted) as caught:
        await Runner.run(agent, "go")
    assert isinstance(caught.value, AssentryError)
    assert "2" in str(caught.value)
    agent.model = ScriptedModel(["done"])
    assert (await Runner.run(agent, caught.value.state)).final_output == "done"
    assert sent == [("ann", 1)]


async def test_the_requests_are_kept_as_they_were() -> None:
    send, _ = sending()
    model = ScriptedModel([call("send", {"to": "ann"}), "done"])
    agent = Agent("agent", instructions="Be kind.", tools=[send], model=model)
    await Runner.run(agent, "go")
    first, second = model.requests
    assert first.instructions == second.instructions == "Be kind."
    assert first.input == [{"role": "user", "content": "go"}]
    assert [item.get("type", item.get("role")) for item in second.input] == [
        "user",
        "function_call",
        "function_call_output",
    ]
    assert [spec.name for spec in first.tools] == ["send"]


@pytest.mark.parametrize("text", ["one two three", "one", "", "  two  spaces ", "line\nbreak and\ttab"])
async def test_text_is_streamed_by_words(text: str) -> None:
    result = Runner.run_streamed(scripted(text), "go")
    deltas = [event.data["delta"] async for event in result.stream_events() if event.type == "raw_response_event"]
    assert "".join(deltas) == text
    assert len(deltas) >= len(text.split(" "))
    assert result.final_output == text


@pytest.mark.parametrize("step", [5, None, object(), [5], [None], b"text"])
async def test_what_is_no_step_is_an_error(step: Any) -> None:
    with pytest.raises(UsageError):
        await Runner.run(scripted(step), "go")


async def test_a_script_can_be_anything_that_gives_steps() -> None:
    assert (await Runner.run(Agent("a", model=ScriptedModel(word for word in ["x"])), "go")).final_output == "x"
    assert (await Runner.run(Agent("a", model=ScriptedModel(("y",))), "go")).final_output == "y"


def test_a_model_has_a_name() -> None:
    assert ScriptedModel([]).name
    assert ScriptedModel([], name="gpt").name == "gpt"


# -- the person ------------------------------------------------------------------------------------


async def test_a_person_sees_a_run_through() -> None:
    send, sent = sending(needs_approval=True)
    steps = [
        [call("send", {"to": "a"}), call("send", {"to": "b"})],
        call("send", {"to": "c"}),
        call("send", {"to": "d"}),
    ]
    agent = scripted(*steps, "done", tools=[send])
    person = ScriptedPerson(
        [Approve(), Reject("no"), Edit({"to": "x"}), lambda item: Respond(item.arguments)], name="ann"
    )
    result = await person.see_through(agent, "go", context=5, max_turns=9, run_config=RunConfig(clock=FakeClock()))
    assert result.final_output == "done"
    assert sent == [("a", 1), ("x", 1)]
    assert [item.arguments for item in person.seen] == [f'{{"copies":1,"to":"{to}"}}' for to in "abcd"]
    assert [outcome.status for outcome in outcomes(result)] == ["finished", "rejected", "edited", "responded"]
    assert outcomes(result)[1].by == "ann"
    assert told(result)[3] == '{"copies":1,"to":"d"}'


async def test_a_person_with_nothing_more_to_say_says_so() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    with pytest.raises(ScriptExhausted, match="send"):
        await ScriptedPerson([]).see_through(agent, "go")
    assert sent == []


async def test_a_person_decides_on_a_state() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "a"}), call("send", {"to": "b"})], "done", tools=[send])
    state = (await Runner.run(agent, "go")).to_state()
    ScriptedPerson([Approve(), Approve()]).decide(state)
    assert state.get_interruptions() == []
    await Runner.run(agent, state)
    assert len(sent) == 2


async def test_a_person_is_not_needed_where_nobody_is_asked() -> None:
    agent = scripted("done")
    assert (await ScriptedPerson([]).see_through(agent, "go")).final_output == "done"
    assert asked(agent) == 1


# -- the clock -------------------------------------------------------------------------------------


async def test_the_clock_stands_still_until_it_is_told_to_go() -> None:
    clock = FakeClock(1_000.0)
    assert clock() == clock() == 1_000.0
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), tools=[send])
    config = RunConfig(clock=clock)
    result = await Runner.run(agent, "go", run_config=config)
    assert result.interruptions[0].at == 1_000_000
    clock.advance(60.5)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state, run_config=config)
    assert result.interruptions[0].at == 1_060_500
    clock.advance(1)
    state = result.to_state()
    state.reject(result.interruptions[0], always_reject=True)
    assert state.grants()[0].at == 1_061_500
    loaded = await reloaded(agent, state)
    assert loaded.grants() == state.grants()
    assert RunState.peek(result.to_state().to_string()).waiting == []


def test_a_clock_begins_somewhere() -> None:
    assert FakeClock()() > 0
