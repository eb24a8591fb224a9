"""A run as data: saved, looked at, loaded elsewhere, resumed once."""

import asyncio
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from assentry import Agent, Approve, RunConfig, Runner, RunState, function_tool
from assentry.core import facts as f
from assentry.errors import RunFinished, StateSpent, UsageError
from assentry.testing import FakeClock, ScriptedModel, call
from tests.runtime.support import asked, heard, outcomes, python, reloaded, scripted, sending, told

# -- in another process ----------------------------------------------------------------------------

SHOP = '''
import asyncio, json, sys
from pathlib import Path
from assentry import Agent, Runner, RunState, ToolContext, function_tool
from assentry.testing import ScriptedModel, call

def log(line):
    with open("log", "a") as file:
        file.write(line + "\\n")

def big(ctx, params, call_id):
    return params["amount"] > 10

@function_tool(needs_approval=big)
async def refund(order: int, amount: int, note: str = "sorry") -> str:
    """Give money back."""
    log(f"refund {order} {amount} {note}")
    return f"refunded {amount}"

@function_tool
def mail(ctx: ToolContext, to: str) -> str:
    """Write to somebody."""
    ctx.step_sync("draft", lambda: log(f"draft for {to}"))
    text = ctx.ask_sync("What shall I write?", schema=str)
    log(f"mail {to} {text} for {ctx.context['user']}")
    return "mailed"

class Rest(ScriptedModel):
    """The script goes on where another process left it: by how many outputs it hears."""
    async def stream(self, request):
        done = sum(item.get("type") == "function_call_output" for item in request.input)
        step = {0: [call("refund", {"order": 1, "amount": 5}), call("refund", {"order": 2, "amount": 50})],
                2: call("mail", {"to": "ann"}), 3: "all done"}[done]
        self._steps = iter([step])
        async for event in super().stream(request):
            yield event

agent = Agent("shop", instructions="Be kind.", tools=[refund, mail], model=Rest([], name="rest"))
saved = Path("saved.json")
'''

STEPS = {
    "begin": """
        result = asyncio.run(Runner.run(agent, "refund both", context={"user": "bob"}))
        saved.write_text(result.to_state().to_string())
        print(len(result.interruptions))
    """,
    "approve": """
        async def main():
            state = await RunState.from_string(agent, saved.read_text())
            [item] = state.get_interruptions()
            print(item.name, item.arguments)
            state.approve(item, by="ann")
            saved.write_text(state.to_string())
        asyncio.run(main())
    """,
    "resume": """
        async def main():
            state = await RunState.from_json(agent, json.loads(saved.read_text()))
            result = await Runner.run(agent, state)
            print([item.question for item in result.interruptions])
            saved.write_text(json.dumps(result.to_state().to_json(), indent=2))
        asyncio.run(main())
    """,
    "answer": """
        async def main():
            state = await RunState.from_string(agent, saved.read_text())
            state.respond(state.get_interruptions()[0], "hello")
            result = await Runner.run(agent, state)
            print(result.final_output, result.context_wrapper.usage.requests, len(result.raw_responses))
            print([item.type for item in result.new_items])
            saved.write_text(result.to_state().to_string())
        asyncio.run(main())
    """,
}


ITEMS = [
    "tool_call_item",
    "tool_call_item",
    "tool_call_output_item",
    "tool_call_output_item",
    "tool_call_item",
    "tool_call_output_item",
    "message_output_item",
]


def test_each_step_of_a_run_can_happen_in_a_process_of_its_own(tmp_path: Path) -> None:
    said = []
    for step in STEPS.values():
        ended = python(SHOP + textwrap.dedent(step), "-W", "error", cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == ""
        said.append(ended.stdout.strip())
    assert said == [
        "1",
        'refund {"amount":50,"note":"sorry","order":2}',
        "['What shall I write?']",
        "all done 3 3\n" + str(ITEMS),
    ]
    assert (tmp_path / "log").read_text().splitlines() == [
        "refund 1 5 sorry",
        "refund 2 50 sorry",
        "draft for ann",
        "mail ann hello for bob",
    ]


# -- there and back --------------------------------------------------------------------------------


async def _stages() -> list[tuple[str, Agent[Any], RunState[Any]]]:
    """A state at every stage of a run."""
    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"}, "x")], "done", tools=[send])
    out = []
    result = await Runner.run(agent, "gö 😀")
    out.append(("waiting", agent, result.to_state()))
    text = result.to_state().to_string()
    for verdict in ("approve", "reject", "edit", "respond", "always"):
        state = await RunState.from_string(agent, text)
        item = state.get_interruptions()[0]
        if verdict == "approve":
            state.approve(item)
        elif verdict == "always":
            state.approve(item, always_approve=True)
        elif verdict == "reject":
            state.reject(item, always_reject=True, rejection_message="nö")
        elif verdict == "edit":
            state.edit(item, {"to": "eve", "copies": 2})
        else:
            state.respond(item, {"ü": [1, 2.5, None]})
        state.add_input([{"role": "user", "content": "more"}])
        out.append((verdict, agent, state))
    finished = scripted("done")
    out.append(("done", finished, (await Runner.run(finished, "go")).to_state()))
    return out


async def test_a_state_is_the_same_after_any_number_of_round_trips() -> None:
    for name, agent, state in await _stages():
        text = state.to_string()
        for _ in range(3):
            state = await RunState.from_string(agent, state.to_string())
            assert state.to_string() == text, name
        state = await RunState.from_json(agent, state.to_json())
        assert state.to_string() == text, name
        state = await RunState.from_json(agent, json.loads(json.dumps(state.to_json(), indent=1)))
        assert state.to_string() == text, name
        state = await RunState.from_string(agent, text.encode())
        assert state.to_string() == text, name


async def test_a_state_says_the_same_after_a_round_trip() -> None:
    for name, agent, state in await _stages():
        loaded = await reloaded(agent, state)
        assert loaded.status == state.status, name
        assert loaded.run_id == state.run_id, name
        assert loaded.get_interruptions() == state.get_interruptions(), name
        for one, other in zip(loaded.get_interruptions(), state.get_interruptions(), strict=True):
            for field in (
                "id",
                "digest",
                "arguments",
                "call_id",
                "reason",
                "allowed",
                "kind",
                "path",
                "at",
                "raw_item",
            ):
                assert getattr(one, field) == getattr(other, field), (name, field)
            assert one.agent is agent
        assert loaded.grants() == state.grants(), name
        assert loaded.changes == [], name


async def test_a_state_that_was_spread_out_by_another_tool_loads_all_the_same() -> None:
    agent = scripted("hi", "again")
    data = (await Runner.run(agent, "go")).to_state().to_json()

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(each) for each in value] if isinstance(value, list) else value

    state = await RunState.from_json(agent, turned(data))
    state.add_input("more")
    assert (await Runner.run(agent, state)).final_output == "again"


async def test_the_json_form_is_plain_data_of_the_callers_own() -> None:
    agent = scripted("hi")
    state = (await Runner.run(agent, "go")).to_state()
    before = state.to_string()
    data = state.to_json()
    assert json.loads(json.dumps(data)) == data
    assert data["schema"] == 1
    assert data["assent"]
    data["journal"].clear()
    assert state.to_string() == before


async def test_a_resumed_run_goes_on_as_if_nothing_had_happened() -> None:
    """One run in one go and one with a reload at each pause: the model is asked the same."""
    requests = []
    for reload in (False, True):
        send, _ = sending(needs_approval=True)
        steps = [[call("send", {"to": "ann"}), "thinking"], call("send", {"to": "bob"}), call("nothing"), "done"]
        agent = scripted(*steps, tools=[send], instructions="Be kind.")
        result = await Runner.run(agent, "go", run_config=RunConfig(clock=FakeClock()))
        while result.interruptions:
            state = result.to_state()
            state = await reloaded(agent, state) if reload else state
            state.edit(state.get_interruptions()[0], {"to": "eve"})
            state = await reloaded(agent, state) if reload else state
            result = await Runner.run(agent, state)
        model: Any = agent.model
        requests.append(model.requests)
        assert result.final_output == "done"
        assert [outcome.status for outcome in outcomes(result)] == ["edited", "edited", "refused"]
    assert requests[0] == requests[1]


# -- looking without an agent ----------------------------------------------------------------------


async def test_peek_reads_versions_and_what_waits_without_any_agent() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}), call("send", "[]")], tools=[send], name="clerk")
    state = (await Runner.run(agent, "go")).to_state()
    for text in (state.to_string(), state.to_string().encode()):
        seen = RunState.peek(text)
        assert seen.schema == 1
        assert seen.assentry
        assert seen.run == state.run_id
        assert seen.agent == "clerk"
        assert seen.status == "waiting"
        assert seen.waiting == state.get_interruptions()
        assert [item.agent for item in seen.waiting] == ["clerk", "clerk"]
        assert [item.agent_name for item in seen.waiting] == ["clerk", "clerk"]
        assert seen.waiting[0].arguments == '{"copies":1,"to":"ann"}'
        assert seen.waiting[1].arguments == "[]"


async def test_peek_at_a_finished_run() -> None:
    seen = RunState.peek((await Runner.run(scripted("hi"), "go")).to_state().to_string())
    assert (seen.status, seen.waiting) == ("done", [])


async def test_what_was_peeked_at_can_be_decided_on() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    [item] = RunState.peek(text).waiting
    state = await RunState.from_string(agent, text)
    state.decide(item.id, Approve(), digest=item.digest)
    await Runner.run(agent, state)
    assert sent == [("ann", 1)]


# -- once ------------------------------------------------------------------------------------------


async def test_a_spent_state_can_still_be_looked_at() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    await Runner.run(agent, state)
    assert state.run_id == result.run_id
    state.get_interruptions()
    state.grants()
    with pytest.raises(StateSpent):
        state.to_json()


async def test_the_state_of_a_result_cannot_be_used_to_run_its_calls_twice() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", "done", tools=[send])
    result = await Runner.run(agent, "go")
    for _ in range(2):
        state = result.to_state()
        try:
            state.approve(result.interruptions[0])
            await Runner.run(agent, state)
        except StateSpent:
            pass
    assert sent == [("ann", 1)]


async def test_a_refused_resume_does_not_spend_the_state() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    for wrong in (scripted(name="other"), "agent", None):
        with pytest.raises(UsageError):
            await Runner.run(wrong, state)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            Runner.run_streamed(wrong, state)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        await Runner.run(agent, state, max_turns=0)
    result = await Runner.run(agent, state)
    assert sent == [("ann", 1)]


def test_streaming_without_a_loop_does_not_spend_the_state() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = asyncio.run(Runner.run(agent, "go"))
    state = result.to_state()
    state.approve(result.interruptions[0])
    with pytest.raises(UsageError, match="loop"):
        Runner.run_streamed(agent, state)
    asyncio.run(Runner.run(agent, state))
    assert sent == [("ann", 1)]


async def test_a_finished_run_is_not_resumed_and_stays_usable() -> None:
    agent = scripted("hi", "again")
    state = (await Runner.run(agent, "go")).to_state()
    for given in (state, await reloaded(agent, state)):
        with pytest.raises(RunFinished):
            await Runner.run(agent, given)
        with pytest.raises(RunFinished):
            Runner.run_streamed(agent, given)
    assert asked(agent) == 1
    state.add_input("more")
    assert (await Runner.run(agent, state)).final_output == "again"


@pytest.mark.parametrize("agent", [None, "agent", 5])
async def test_loading_needs_an_agent(agent: Any) -> None:
    text = (await Runner.run(scripted("hi"), "go")).to_state().to_string()
    with pytest.raises(UsageError):
        await RunState.from_string(agent, text)


async def test_a_state_is_resumed_with_the_agent_it_was_begun_by() -> None:
    agent = scripted("hi")
    text = (await Runner.run(agent, "go")).to_state().to_string()
    with pytest.raises(UsageError, match="agent"):
        await RunState.from_string(scripted(name="other"), text)


# -- copies ----------------------------------------------------------------------------------------


async def test_copies_made_from_the_same_bytes_are_runs_of_their_own() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    for verdict in ("approve", "reject"):
        agent.model = ScriptedModel(["done"])
        state = await RunState.from_string(agent, text)
        [item] = state.get_interruptions()
        state.decide(item.id, {"type": verdict})
        assert (await Runner.run(agent, state)).final_output == "done"
    assert sent == [("ann", 1)]


async def test_a_result_is_not_changed_by_what_becomes_of_its_state() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    items, given = len(result.new_items), result.to_input_list()
    [item] = result.interruptions
    state = result.to_state()
    state.approve(item)
    await Runner.run(agent, state)
    assert result.interruptions == [item]
    assert result.final_output is None
    assert len(result.new_items) == items
    assert result.to_input_list() == given


async def test_a_run_of_four_hundred_turns_goes_on_after_a_reload() -> None:
    @function_tool
    async def count(n: int) -> str:
        return str(n)

    send, sent = sending(needs_approval=True)
    steps = [call("count", {"n": n}) for n in range(400)]
    agent = scripted(*steps, call("send", {"to": "ann"}), "done", tools=[count, send])
    result = await Runner.run(agent, "go", max_turns=500)
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert result.final_output == "done"
    assert len(told(result)) == 401
    assert len(heard(agent)) == 1 + 2 * 401
    assert sent == [("ann", 1)]


async def test_a_saved_run_is_not_mistaken_for_words() -> None:
    agent = scripted("hi")
    text = (await Runner.run(agent, "go")).to_state().to_string()
    with pytest.raises(UsageError, match="from_string"):
        await Runner.run(agent, text)


@pytest.mark.parametrize("look", ["status", "save", "decide"])
async def test_a_state_is_not_changed_by_what_is_recorded_in_the_run_that_was_left(look: str) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    journal = result._scope.journal
    journal.add(f.Said(Raw(b'"too late"')))  # as a body could that was cut off, in its thread
    if look == "save":
        state = await reloaded(agent, state)
    if look == "decide":
        [item] = state.get_interruptions()
        state.approve(item)
        journal.add(f.Said(Raw(b'"later still"')))
    else:
        assert state.status == "waiting"
        state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, state)
    assert (result.final_output, len(sent)) == ("done", 1)
    assert "late" not in json.dumps(result.to_input_list())


async def test_a_state_says_what_it_is() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    state = (await Runner.run(agent, "go")).to_state()
    assert repr(state) == f"<RunState of run {state.run_id}: waiting, 1 turn, 1 question>"
