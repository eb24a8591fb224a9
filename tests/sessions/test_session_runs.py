"""Runs that are kept in a session: whatever stops one, a provider accepts the history."""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from assentry import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    OutputGuardrail,
    RunConfig,
    Runner,
    RunResultBase,
    RunState,
    SQLiteSession,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    function_tool,
    handoff,
)
from assentry.errors import (
    AssentryError,
    InvalidInput,
    InvalidOutput,
    MaxTurnsExceeded,
    RunFinished,
    SessionFailed,
    SessionMissing,
    TripwireTriggered,
    UsageError,
)
from assentry.testing import ScriptedModel, call
from tests.runtime.support import asked, heard, python, reloaded, scripted, sending, soon

Item = dict[str, Any]


# -- what the tests share --------------------------------------------------------------------------


def checked(items: list[Item]) -> list[Item]:
    """The items, if a provider would accept them: each call has its output after it, and nothing is there twice."""
    waiting: list[str] = []
    done: list[str] = []
    for item in items:
        assert isinstance(item, dict)
        kind = item.get("type", "message")
        if kind == "function_call":
            assert item["call_id"] not in waiting, f"{item['call_id']} is called twice"
            assert item["call_id"] not in done, f"{item['call_id']} is there twice"
            waiting.append(item["call_id"])
        elif kind == "function_call_output":
            assert item["call_id"] in waiting, f"the output {item['call_id']} has no call before it"
            waiting.remove(item["call_id"])
            done.append(item["call_id"])
        elif kind == "message":
            assert item["role"] in ("user", "assistant")
            assert not waiting, f"{waiting} have no output before something else is said"
    assert not waiting, f"{waiting} have no output"
    generated = [json.dumps(item) for item in items if "id" in item]
    assert len(generated) == len(set(generated)), "an item is there twice"
    return items


def words(items: list[Item]) -> list[str]:
    """Items in a word each."""
    out = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            out.append(f"call {item['call_id']}")
        elif kind == "function_call_output":
            out.append(f"out {item['call_id']}")
        elif kind == "message":
            content = item["content"]
            text = content if isinstance(content, str) else content[0]["text"]
            out.append(text if item["role"] == "user" else f"> {text}")
        else:
            out.append(kind)
    return out


def joined(turns: list[list[str]]) -> list[str]:
    return [word for turn in turns for word in turn]


async def stored(session: Any) -> list[str]:
    """The session's history, which a provider accepts."""
    return words(checked(await session.get_items()))


def sends(*people: str, **options: Any) -> list[Any]:
    """Calls of `send`, whose ids are the people's names."""
    return [call("send", {"to": to}, call_id=to) for to in people]


class Plain:
    """A user's own session: the protocol and nothing more."""

    def __init__(self, session_id: str = "plain") -> None:
        self.session_id = session_id
        self.texts: list[str] = []
        self.added: list[int] = []
        self.fails: list[BaseException | None] = []
        """What the next calls of `add_items` raise."""

    async def get_items(self, limit: int | None = None) -> list[Item]:
        items = [json.loads(text) for text in self.texts]
        return items if limit is None else items[len(items) - min(limit, len(items)) :]

    async def add_items(self, items: list[Item]) -> None:
        self.added.append(len(items))
        error = self.fails.pop(0) if self.fails else None
        if error is not None:
            raise error
        self.texts += [json.dumps(item) for item in items]

    async def pop_item(self) -> Item | None:
        return json.loads(self.texts.pop()) if self.texts else None

    async def clear_session(self) -> None:
        self.texts.clear()


class Exact(SQLiteSession):
    """A session in memory that counts what is written, and fails when told to."""

    def __init__(self, session_id: str = "exact", db_path: Any = ":memory:") -> None:
        super().__init__(session_id, db_path)
        self.writes: list[tuple[int, int]] = []
        self.reads: list[int | None] = []
        self.fails: list[BaseException | None] = []
        self.fails_after: list[BaseException | None] = []
        """What the next writes raise, before and after they have stored."""

    async def get_items(self, limit: int | None = None) -> list[Item]:
        self.reads.append(limit)
        return await super().get_items(limit)

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        self.writes.append((position, len(items)))
        error = self.fails.pop(0) if self.fails else None
        if error is not None:
            raise error
        await super().write(run_id, position, items)
        error = self.fails_after.pop(0) if self.fails_after else None
        if error is not None:
            raise error


@pytest.fixture(params=[Plain, Exact])
def session(request: pytest.FixtureRequest) -> Any:
    return request.param()


async def next_run_works(session: Any) -> list[str]:
    """What another run on the session hears; it is kept too."""
    agent = scripted("fine")
    before = await session.get_items()
    result = await Runner.run(agent, "and now?", session=session)
    assert result.final_output == "fine"
    assert checked(heard(agent))[:-1] == before
    assert (await stored(session))[-2:] == ["and now?", "> fine"]
    return words(heard(agent))


# -- turns, and runs after runs --------------------------------------------------------------------


async def test_a_run_hears_what_was_said_before_and_is_kept(session: Any) -> None:
    agent = scripted("hello", "you said hi")
    assert (await Runner.run(agent, "hi", session=session)).final_output == "hello"
    assert await stored(session) == ["hi", "> hello"]
    result = await Runner.run(agent, "what did I say?", session=session)
    assert words(heard(agent)) == ["hi", "> hello", "what did I say?"]
    assert await stored(session) == ["hi", "> hello", "what did I say?", "> you said hi"]
    assert result.input == "what did I say?"
    assert [item.type for item in result.new_items] == ["message_output_item"], "history is not this run's doing"


@pytest.mark.parametrize("how", ["run", "run_streamed", "run_sync"])
async def test_all_ways_to_run_keep_the_same(how: str, session: Any) -> None:
    send, _ = sending()
    agent = scripted(sends("ann", "bob"), "done", tools=[send])
    result: Any = getattr(Runner, how)(agent, "go", session=session)
    if how == "run":
        result = await result
    elif how == "run_streamed":
        async for _ in result.stream_events():
            pass
    assert result.final_output == "done"
    assert await stored(session) == ["go", "call ann", "call bob", "out ann", "out bob", "> done"]


async def test_input_may_be_items(session: Any) -> None:
    agent = scripted("done")
    said = [{"role": "user", "content": "one"}, {"role": "user", "content": [{"type": "input_text", "text": "two"}]}]
    await Runner.run(agent, said, session=session)
    assert await stored(session) == ["one", "two", "> done"]


async def test_input_is_what_it_was_when_the_run_was_asked_for(session: Any) -> None:
    said = [{"role": "user", "content": "one"}]
    result = Runner.run_streamed(scripted("done"), said, session=session)
    said.append({"role": "user", "content": "two"})
    said[0]["content"] = "changed"
    async for _ in result.stream_events():
        pass
    assert await stored(session) == ["one", "> done"]


async def test_a_turn_is_written_when_its_calls_are_done_and_not_before(session: Any) -> None:
    seen: list[list[str]] = []

    async def look(request: Any) -> Any:
        seen.append(await stored(session))
        return "done" if len(seen) == 3 else sends(f"p{len(seen)}")

    @function_tool
    async def send(to: str) -> str:
        seen.append(await stored(session))
        return "sent"

    agent = scripted(look, look, look, tools=[send])
    await Runner.run(agent, "go", session=session)
    first = ["go", "call p1", "out p1"]
    assert seen == [[], [], first][: len(seen)]
    assert await stored(session) == [*first, "> done"]


async def test_what_is_written_per_turn_does_not_grow_with_the_run() -> None:
    session = Exact()
    send, _ = sending()
    turns = 30
    agent = scripted(*[sends(f"p{n}") for n in range(turns)], "done", tools=[send])
    await Runner.run(agent, "go", session=session, max_turns=turns + 1)
    assert session.reads == [None]
    assert session.writes == [(0, 3), *((1 + 2 * n, 2) for n in range(1, turns)), (1 + 2 * turns, 1)]


async def test_what_is_written_over_pauses_is_each_turn_once() -> None:
    session = Exact()
    send, _ = sending(needs_approval=True)
    agent = scripted(*[sends(f"p{n}") for n in range(5)], "done", tools=[send])
    result: RunResultBase = await Runner.run(agent, "go", session=session)
    while result.interruptions:
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state, session=session)
    assert session.reads == [None], "a resumed run has its history with it"
    assert session.writes == [(0, 3), (3, 2), (5, 2), (7, 2), (9, 2), (11, 1)]
    assert (await stored(session))[-1] == "> done"


# -- approvals -------------------------------------------------------------------------------------


async def test_a_paused_turn_is_not_in_the_session_and_another_run_may_go_between(session: Any) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    paused = await Runner.run(agent, "go", session=session)
    assert await stored(session) == []
    await next_run_works(session)
    state = await reloaded(agent, paused.to_state())
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, session=session)).final_output == "done"
    assert await stored(session) == ["and now?", "> fine", "go", "call ann", "out ann", "> done"]
    assert sent == [("ann", 1)]
    assert words(heard(agent)) == ["go", "call ann", "out ann"], "what came between is not this run's history"


async def test_turns_before_a_pause_are_kept_and_partly_decided_ones_are_not(session: Any) -> None:
    send, sent = sending(needs_approval=lambda ctx, params, call_id: params["to"] != "free")
    agent = scripted(
        [call("send", {"to": "free"}, call_id="early")],
        [*sends("ann", "bob"), call("send", {"to": "free"}, call_id="late")],
        "done",
        tools=[send],
    )
    result: RunResultBase = await Runner.run(agent, "go", session=session)
    begun = ["go", "call early", "out early"]
    assert await stored(session) == begun
    for person in ("ann", "bob"):
        state = await reloaded(agent, result.to_state())
        state.decide(next(i.id for i in state.get_interruptions() if i.call_id == person), {"type": "approve"})
        assert await stored(session) == begun
        result = await Runner.run(agent, state, session=session)
    turn = ["call ann", "call bob", "call late", "out ann", "out bob", "out late"]
    assert await stored(session) == [*begun, *turn, "> done"]
    assert len(sent) == 4


@pytest.mark.parametrize("verdict", ["reject", "respond", "edit"])
async def test_a_call_that_did_not_run_as_proposed_has_its_output_in_the_session(verdict: str, session: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    item = state.get_interruptions()[0]
    if verdict == "reject":
        state.reject(item, rejection_message="not ann")
    elif verdict == "respond":
        state.respond(item, "she knows")
    else:
        state.edit(item, {"to": "bob"})
    await Runner.run(agent, state, session=session)
    assert await stored(session) == ["go", "call ann", "out ann", "> done"]
    text = (await session.get_items())[2]["output"]
    assert {"reject": "not ann", "respond": "she knows", "edit": "sent 1 to bob"}[verdict] in text
    await next_run_works(session)


async def test_an_unknown_tool_and_bad_arguments_have_their_outputs_in_the_session(session: Any) -> None:
    send, _ = sending()
    agent = scripted([call("nothing", call_id="a"), call("send", "{", call_id="b")], "done", tools=[send])
    await Runner.run(agent, "go", session=session)
    assert await stored(session) == ["go", "call a", "call b", "out a", "out b", "> done"]


async def test_a_run_is_resumed_in_another_process_with_a_session_of_that_process(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from assentry import Agent, Runner, RunState, SQLiteSession, function_tool
from assentry.testing import ScriptedModel, call

@function_tool(needs_approval=True)
def send(to: str) -> str:
    return "sent"

async def main(part):
    session = SQLiteSession("one", {str(tmp_path / "talk.db")!r})
    if part == "first":
        agent = Agent("agent", tools=[send], model=ScriptedModel([call("send", {{"to": "ann"}}, call_id="ann")]))
        state = (await Runner.run(agent, "go", session=session)).to_state()
        open("state.json", "w").write(state.to_string())
    else:
        agent = Agent("agent", tools=[send], model=ScriptedModel(["done"]))
        state = await RunState.from_string(agent, open("state.json").read())
        state.approve(state.get_interruptions()[0])
        print((await Runner.run(agent, state, session=session)).final_output)

asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else PART))
"""
    for part, expected in (("first", ""), ("second", "done")):
        done = await asyncio.to_thread(python, f"PART = {part!r}\n{program}", cwd=tmp_path)
        assert done.stderr == ""
        assert done.stdout.strip() == expected
    session = SQLiteSession("one", tmp_path / "talk.db")
    assert await stored(session) == ["go", "call ann", "out ann", "> done"]
    await next_run_works(session)


async def test_an_output_that_waits_for_approval_is_not_in_the_session_until_it_has_it(session: Any) -> None:
    agent = scripted("draft", "better", output_needs_approval=True)
    result = await Runner.run(agent, "go", session=session)
    assert await stored(session) == []
    state = await reloaded(agent, result.to_state())
    state.reject(state.get_interruptions()[0], rejection_message="too short")
    result = await Runner.run(agent, state, session=session)
    assert await stored(session) == ["go", "> draft", "too short"]
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, session=session)).final_output == "better"
    assert await stored(session) == ["go", "> draft", "too short", "> better"]


async def test_new_input_is_kept_where_the_model_heard_it(session: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", "and more", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.add_input("hurry")
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(agent, await reloaded(agent, state), session=session)
    assert await stored(session) == ["go", "call ann", "out ann", "hurry", "> done"]
    state = result.to_state()
    state.add_input([{"role": "user", "content": "more?"}])
    assert (await Runner.run(agent, await reloaded(agent, state), session=session)).final_output == "and more"
    assert await stored(session) == ["go", "call ann", "out ann", "hurry", "> done", "more?", "> and more"]
    await next_run_works(session)


async def test_stopping_at_a_tool_keeps_the_turn_that_ended_the_run(session: Any) -> None:
    send, _ = sending()
    agent = scripted(sends("ann"), tools=[send], tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(agent, "go", session=session)
    assert result.final_output == "sent 1 to ann"
    assert await stored(session) == ["go", "call ann", "out ann"]
    await next_run_works(session)


# -- several agents --------------------------------------------------------------------------------


@pytest.mark.parametrize("filtered", [False, True])
async def test_a_handoff_is_kept_as_it_happened(filtered: bool, session: Any) -> None:
    def shorten(data: Any) -> Any:
        return data.clone(input_history="a summary", pre_handoff_items=(), new_items=())

    await session.add_items([{"role": "user", "content": "before"}])
    other = scripted("from the other", name="other")
    over = handoff(other, input_filter=shorten if filtered else None)
    send, _ = sending()
    agent = scripted(sends("ann"), call("transfer_to_other", call_id="over"), tools=[send], handoffs=[over])
    result = await Runner.run(agent, "go", session=session)
    assert result.final_output == "from the other"
    talk = ["go", "call ann", "out ann", "call over", "out over"]
    assert words(heard(other)) == (["a summary"] if filtered else ["before", *talk])
    assert await stored(session) == ["before", *talk, "> from the other"]
    await next_run_works(session)


async def test_a_handoff_that_waits_for_approval_is_written_when_it_happened(session: Any) -> None:
    other = scripted("from the other", name="other")
    send, _ = sending()
    agent = scripted(
        [call("transfer_to_other", call_id="over"), *sends("ann")],
        tools=[send],
        handoffs=[handoff(other, needs_approval=True)],
    )
    result = await Runner.run(agent, "go", session=session)
    assert await stored(session) == []
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session)
    assert await stored(session) == ["go", "call over", "call ann", "out over", "out ann", "> from the other"]


async def test_the_talk_of_a_nested_agent_is_not_in_the_session(session: Any) -> None:
    await session.add_items([{"role": "user", "content": "before"}])
    send, sent = sending(needs_approval=True)
    inner = scripted(sends("ann"), "inner done", name="inner", tools=[send])
    outer = scripted(
        call("inner", {"input": "do it"}, call_id="in"), "done", name="outer", tools=[inner.as_tool("inner", "works")]
    )
    paused = await Runner.run(outer, "go", session=session)
    assert await stored(session) == ["before"]
    state = await reloaded(outer, paused.to_state())
    state.approve(state.get_interruptions()[0])
    await Runner.run(outer, state, session=session)
    assert words(heard(inner)) == ["do it", "call ann", "out ann"], "nor is the session in its talk"
    assert await stored(session) == ["before", "go", "call in", "out in", "> done"]
    assert sent == [("ann", 1)]


# -- what goes wrong in a run ----------------------------------------------------------------------


async def failed(run: Awaitable[Any], kind: type[BaseException] = Exception) -> Any:
    """The error of a run that fails."""
    with pytest.raises(kind) as caught:
        await soon(run)
    return caught.value


async def test_a_model_error_leaves_the_turns_before_it(session: Any) -> None:
    send, sent = sending()
    agent = scripted(sends("ann"), ConnectionError("gone"), "done", tools=[send])
    error = await failed(Runner.run(agent, "go", session=session), ConnectionError)
    assert await stored(session) == ["go", "call ann", "out ann"]
    await next_run_works(session)
    await Runner.run(agent, await reloaded(agent, error.state), session=session)
    assert await stored(session) == ["go", "call ann", "out ann", "and now?", "> fine", "> done"]
    assert sent == [("ann", 1)]


async def test_a_model_error_at_the_first_turn_leaves_nothing_and_the_resumed_run_is_whole(session: Any) -> None:
    agent = scripted(ConnectionError("gone"), "done")
    error = await failed(Runner.run(agent, "go", session=session), ConnectionError)
    assert await stored(session) == []
    await Runner.run(agent, await reloaded(agent, error.state), session=session)
    assert await stored(session) == ["go", "> done"]


async def test_a_tool_error_that_is_raised_leaves_no_half_turn(session: Any) -> None:
    ran: list[int] = []

    @function_tool(failure_error_function=None)
    async def burn() -> str:
        ran.append(1)
        raise OSError("fire")

    send, sent = sending()
    agent = scripted([*sends("ann"), call("burn", call_id="burn")], "done", tools=[send, burn])
    error = await failed(Runner.run(agent, "go", session=session), OSError)
    checked(await session.get_items())
    await next_run_works(session)
    result = await Runner.run(agent, await reloaded(agent, error.state), session=session)
    assert result.final_output == "done"
    assert (await stored(session))[2:] == ["go", "call ann", "call burn", "out ann", "out burn", "> done"]
    assert (ran, sent) == ([1], [("ann", 1)])


async def test_a_tool_error_that_is_told_is_kept_like_an_output(session: Any) -> None:
    @function_tool
    async def burn() -> str:
        raise OSError("fire")

    agent = scripted(call("burn", call_id="burn"), "sorry", tools=[burn])
    await Runner.run(agent, "go", session=session)
    assert await stored(session) == ["go", "call burn", "out burn", "> sorry"]


def trips(where: str) -> dict[str, Any]:
    """What trips an agent at this place."""

    def look(*args: Any) -> Any:
        if where.startswith("tool"):
            return ToolGuardrailFunctionOutput.raise_exception("bad")
        return GuardrailFunctionOutput("bad", True)

    if where == "input":
        return {"input_guardrails": [InputGuardrail(look, run_in_parallel=False)]}
    if where == "output":
        return {"output_guardrails": [OutputGuardrail(look)]}
    guards: dict[str, Any] = (
        {"tool_input_guardrails": [ToolInputGuardrail(look)]}
        if where == "tool input"
        else {"tool_output_guardrails": [ToolOutputGuardrail(look)]}
    )

    @function_tool(**guards)
    async def last() -> str:
        return "last"

    return {"extra": last}


@pytest.mark.parametrize("where", ["input", "output", "tool input", "tool output"])
async def test_a_tripwire_leaves_the_turns_before_it_and_the_next_run_works(where: str, session: Any) -> None:
    options = trips(where)
    send, _ = sending()
    tools = [send, *([options.pop("extra")] if "extra" in options else [])]
    agent = scripted(sends("ann"), [*sends("bob"), call("last")] if len(tools) > 1 else "no", tools=tools, **options)
    error = await failed(Runner.run(agent, "go", session=session), TripwireTriggered)
    assert error.state.status == "closed"
    assert await stored(session) == ([] if where == "input" else ["go", "call ann", "out ann"])
    await next_run_works(session)
    with pytest.raises(RunFinished):
        await Runner.run(agent, error.state, session=session)


async def test_an_output_that_does_not_fit_is_kept_only_with_what_came_of_it(session: Any) -> None:
    agent = scripted("not a number", '{"response": 7}', output_type=int)
    error = await failed(Runner.run(agent, "go", session=session), InvalidOutput)
    assert await stored(session) == []
    await next_run_works(session)
    state = await reloaded(agent, error.state)
    state.add_input("a number, please")
    assert (await Runner.run(agent, state, session=session)).final_output == 7
    assert (await stored(session))[2:] == ["go", "> not a number", "a number, please", '> {"response": 7}']


async def test_a_run_out_of_turns_has_its_turns_in_the_session(session: Any) -> None:
    send, sent = sending()
    agent = scripted(sends("ann"), "done", tools=[send])
    error = await failed(Runner.run(agent, "go", session=session, max_turns=1), MaxTurnsExceeded)
    assert await stored(session) == ["go", "call ann", "out ann"]
    await Runner.run(agent, await reloaded(agent, error.state), session=session, max_turns=2)
    assert await stored(session) == ["go", "call ann", "out ann", "> done"]
    assert sent == [("ann", 1)]


async def test_a_run_that_is_cancelled_from_outside_leaves_no_half_turn(session: Any) -> None:
    inside = asyncio.Event()

    @function_tool
    async def hang() -> str:
        inside.set()
        await asyncio.Event().wait()
        return "never"

    send, _ = sending()
    agent = scripted(sends("ann"), [call("hang", call_id="hang"), *sends("bob")], "done", tools=[send, hang])
    task = asyncio.create_task(Runner.run(agent, "go", session=session))
    await soon(inside.wait())
    task.cancel()
    error = await failed(task, asyncio.CancelledError)
    assert await stored(session) == ["go", "call ann", "out ann"]
    await next_run_works(session)
    again = await Runner.run(agent, await reloaded(agent, error.state), session=session)
    state = again.to_state()
    state.reject(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session)
    assert (await stored(session))[-5:] == ["call hang", "call bob", "out hang", "out bob", "> done"]


# -- crashes ---------------------------------------------------------------------------------------


class Died(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_a_crash_between_writing_and_knowing_it_stores_nothing_twice(writes: int) -> None:
    session = Exact()
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")

    def script(first: bool) -> list[Any]:
        return [*([sends("ann")] if first else []), sends("bob"), "done"]

    agent = scripted(*script(True), tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    text = state.to_string()
    session.fails_after = [*([None] * (writes - 1)), Died()]
    await failed(Runner.run(agent, state, session=session), Died)
    kept = [["go", "call ann", "out ann"], ["call bob", "out bob"], ["> done"]]
    assert await stored(session) == joined(kept[:writes])
    agent.model = ScriptedModel(script(False))
    assert (await Runner.run(agent, await RunState.from_string(agent, text), session=session)).final_output == "done"
    assert await stored(session) == joined(kept)
    await next_run_works(session)


COURSES: list[tuple[str, list[Any], list[str]]] = [
    ("a message for a call", ["all done"], ["> all done"]),
    ("a call for a message", [sends("cid"), "so"], ["call cid", "out cid", "> so"]),
    ("fewer calls", [sends("bob"), "so"], ["call bob", "out bob", "> so"]),
    ("more calls", [sends("bob", "cid", "dan"), "so"], ["call bob", "call cid", "call dan", "out bob"]),
]


@pytest.mark.parametrize(("course", "expected"), [each[1:] for each in COURSES], ids=[each[0] for each in COURSES])
@pytest.mark.parametrize("first", [[sends("bob", "eve"), "done"], ["done"]], ids=["calls first", "words first"])
async def test_a_crashed_run_that_takes_another_course_leaves_one_history(
    first: list[Any], course: list[Any], expected: list[str]
) -> None:
    session = Exact()
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    agent = scripted(sends("ann"), *first, tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    text = state.to_string()
    await Runner.run(agent, state, session=session)  # it came to its end, and then everything but the session was lost
    agent.model = ScriptedModel(course)
    again = await Runner.run(agent, await RunState.from_string(agent, text), session=session)
    history = await stored(session)
    assert history[:3] == ["go", "call ann", "out ann"]
    assert history[3 : 3 + len(expected)] == expected
    assert checked(await session.get_items())[3:] == [
        item for item in again.to_input_list() if words([item])[0] not in history[:3]
    ]
    await next_run_works(session)


async def test_a_crashed_run_that_takes_another_course_leaves_other_runs_alone() -> None:
    session = Exact()
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    text = state.to_string()
    await Runner.run(agent, state, session=session)
    await next_run_works(session)
    agent.model = ScriptedModel([sends("bob"), "so"])
    await Runner.run(agent, await RunState.from_string(agent, text), session=session)
    assert await stored(session) == [
        *["go", "call ann", "out ann", "and now?", "> fine"],
        *["call bob", "out bob", "> so"],
    ]


# -- two at once -----------------------------------------------------------------------------------


async def test_two_runs_at_once_keep_their_turns_whole(session: Any) -> None:
    gates = [asyncio.Event() for _ in range(4)]
    order: list[str] = []

    def waits(number: int, step: Any) -> Callable[[Any], Awaitable[Any]]:
        async def reply(request: Any) -> Any:
            await gates[number].wait()
            order.append(str(number))
            if number + 1 < len(gates):
                asyncio.get_running_loop().call_soon(gates[number + 1].set)
            return step

        return reply

    send, _ = sending()
    one = scripted(waits(0, sends("a1", "a2")), waits(2, sends("a3")), "a done", tools=[send])
    two = scripted(waits(1, sends("b1", "b2")), waits(3, sends("b3")), "b done", tools=[send])
    runs = asyncio.gather(Runner.run(one, "from a", session=session), Runner.run(two, "from b", session=session))
    gates[0].set()
    await soon(runs)
    assert order == ["0", "1", "2", "3"]
    history = await stored(session)
    assert len(history) == len(set(history)) == 16
    assert [each for each in history if each.startswith("call a")] == ["call a1", "call a2", "call a3"]
    await next_run_works(session)


async def test_many_runs_at_once_on_one_file_lose_nothing(tmp_path: Path) -> None:
    send, _ = sending()

    def agent(n: int) -> Agent[Any]:
        return scripted(sends(f"x{n}", f"y{n}"), f"done {n}", tools=[send])

    async def one(n: int) -> None:
        session = SQLiteSession("shared", tmp_path / "talk.db")
        await Runner.run(agent(n), f"go {n}", session=session)

    await soon(asyncio.gather(*(one(n) for n in range(12))))
    session = SQLiteSession("shared", tmp_path / "talk.db")
    items = await session.get_items()
    history = words(items)
    assert len(history) == len(set(history)) == 12 * 6
    for n in range(12):
        at = history.index(f"go {n}")
        assert history[at : at + 5] == [f"go {n}", f"call x{n}", f"call y{n}", f"out x{n}", f"out y{n}"]


def test_a_session_is_used_by_runs_in_several_loops_and_threads(tmp_path: Path) -> None:
    session = SQLiteSession("one", tmp_path / "talk.db")
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for m in range(3):
                Runner.run_sync(scripted(f"done {n}.{m}"), f"go {n}.{m}", session=session)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    history = asyncio.run(stored(session))
    assert len(history) == len(set(history)) == 24
    assert history.index("go 1.0") < history.index("go 1.1") < history.index("go 1.2")


# -- how much is heard -----------------------------------------------------------------------------


async def test_a_limit_is_given_to_the_session_and_cuts_nothing_in_two() -> None:
    for limit in range(1, 9):
        session = Exact()
        send, _ = sending()
        await Runner.run(scripted(sends("ann", "bob"), "done", tools=[send]), "go", session=session)
        agent = scripted("fine")
        await Runner.run(agent, "and now?", session=session, run_config=RunConfig(session_limit=limit))
        whole = ["go", "call ann", "call bob", "out ann", "out bob", "> done"]
        assert session.reads == [None, limit]
        latest = whole[-limit:]
        calls = {each.split()[1] for each in latest if each.startswith("call")}
        kept = [each for each in latest if not each.startswith("out") or each.split()[1] in calls]
        assert words(checked(heard(agent))) == [*kept, "and now?"]
        assert await stored(session) == [*whole, "and now?", "> fine"], "what is not heard is still there"


def reasoning(id: str) -> Item:
    return {"type": "reasoning", "id": id, "summary": []}


def made(call_id: str) -> Item:
    return {"type": "function_call", "call_id": call_id, "name": "send", "arguments": "{}"}


def given(call_id: str, output: str = "") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


USER = {"role": "user", "content": "hi"}
REPLY = {"type": "message", "role": "assistant", "content": "ho"}

HISTORIES: dict[str, tuple[list[Item], list[int]]] = {
    "a call without its output": ([USER, made("a"), USER], [0, 2]),
    "an output without its call": ([given("a"), USER], [1]),
    "an output before its call": ([given("a"), made("a"), USER], [2]),
    "an output twice": ([made("a"), given("a"), given("a")], [0, 1]),
    "a call twice, one output": ([made("a"), USER, made("a"), given("a")], [1, 2, 3]),
    "an id that is used again": ([made("a"), given("a", "1"), made("a"), given("a", "2")], [0, 1, 2, 3]),
    "an id that is used again and not answered": ([made("a"), given("a"), made("a")], [0, 1]),
    "reasoning for a call that is left out": ([USER, reasoning("r"), made("a"), USER], [0, 3]),
    "reasoning for one of two calls": ([reasoning("r"), made("a"), made("b"), given("b")], [0, 2, 3]),
    "reasoning at the end": ([USER, reasoning("r")], [0]),
    "reasoning that belongs": ([reasoning("r"), made("a"), given("a"), reasoning("s"), REPLY], [0, 1, 2, 3, 4]),
    "reasoning twice for what is left out": ([reasoning("r"), reasoning("s"), made("a"), USER], [3]),
    "what the provider runs itself": ([{"type": "web_search_call", "id": "w"}, REPLY], [0, 1]),
    "nothing but halves": ([made("a"), given("b")], []),
}


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_history_that_somebody_else_left_is_made_acceptable(name: str, session: Any) -> None:
    items, kept = HISTORIES[name]
    await session.add_items(items)
    agent = scripted("fine")
    await Runner.run(agent, "go", session=session)
    assert heard(agent)[:-1] == [items[number] for number in kept]
    assert (await session.get_items())[: len(items)] == items, "the session itself is not touched"


# -- merging ---------------------------------------------------------------------------------------

BEFORE = [{"role": "user", "content": "before"}, {"type": "message", "role": "assistant", "content": "yes"}]


async def merged(session: Any, callback: Any, input: Any = "go") -> tuple[list[str], list[str]]:
    """What a run hears when this callback merges, and what is in the session afterwards."""
    await session.add_items(BEFORE)
    agent = scripted("done")
    await Runner.run(agent, input, session=session, run_config=RunConfig(session_input_callback=callback))
    return words(heard(agent)), await stored(session)


ALL = ["before", "> yes", "go", "> done"]


async def test_a_callback_gets_history_and_input_and_may_be_async(session: Any) -> None:
    got: list[Any] = []

    async def merge(history: list[Item], new: list[Item]) -> list[Item]:
        got.extend((history, new))
        await asyncio.sleep(0)
        return history + new

    assert await merged(session, merge) == (ALL[:3], ALL)
    assert got == [BEFORE, [{"role": "user", "content": "go"}]]


MERGES: dict[str, tuple[Any, list[str], list[str]]] = {
    "in another order": (lambda old, new: new + old, ["go", "before", "> yes"], ALL),
    "without history": (lambda old, new: new, ["go"], ALL),
    "with some of it": (lambda old, new: old[-1:] + new, ["> yes", "go"], ALL),
    "copied": (lambda old, new: [dict(item) for item in old + new], ALL[:3], ALL),
    "copied deeply": (lambda old, new: json.loads(json.dumps(old + new)), ALL[:3], ALL),
    "with something more": (
        lambda old, new: [*old, {"role": "user", "content": "be brief"}, *new],
        ["before", "> yes", "be brief", "go"],
        ["before", "> yes", "be brief", "go", "> done"],
    ),
    "without the input": (lambda old, new: old, ["before", "> yes"], ["before", "> yes", "> done"]),
    "with the input changed": (
        lambda old, new: [*old, {"role": "user", "content": new[0]["content"].upper()}],
        ["before", "> yes", "GO"],
        ["before", "> yes", "GO", "> done"],
    ),
    "the lists emptied on the way": (lambda old, new: [*(old.pop(0) for _ in range(2)), new.pop()], ALL[:3], ALL),
}


@pytest.mark.parametrize("name", MERGES)
async def test_what_a_callback_makes_is_heard_and_what_is_new_of_it_is_kept(name: str, session: Any) -> None:
    callback, hears, keeps = MERGES[name]
    assert await merged(session, callback) == (hears, keeps)


@pytest.mark.parametrize("limit", range(1, 9))
async def test_a_callback_that_cuts_a_call_from_its_output_does_no_harm(limit: int, session: Any) -> None:
    send, _ = sending()
    await Runner.run(scripted(sends("ann", "bob"), "done", tools=[send]), "go", session=session)
    agent = scripted("fine")
    config = RunConfig(session_input_callback=lambda old, new: old[-limit:] + new)
    await Runner.run(agent, "and now?", session=session, run_config=config)
    checked(heard(agent))
    assert words(heard(agent))[-1] == "and now?"
    assert (await stored(session))[-3:] == ["> done", "and now?", "> fine"]


async def test_what_the_user_gives_is_heard_though_it_answers_no_call_of_the_history(session: Any) -> None:
    config = RunConfig(session_input_callback=lambda old, new: old + new)
    said = [{"type": "function_call_output", "call_id": "elsewhere", "output": "x"}]
    for given_config in (config, RunConfig()):
        agent = scripted("fine")
        await Runner.run(agent, said, session=session, run_config=given_config)
        assert heard(agent)[-1] == said[0]


@pytest.mark.parametrize("copies", [False, True])
async def test_who_says_the_same_again_has_said_it_twice(copies: bool, session: Any) -> None:
    def merge(history: list[Item], new: list[Item]) -> list[Item]:
        return [dict(item) if copies else item for item in history + new]

    hears, keeps = await merged(session, merge, "before")
    assert hears == ["before", "> yes", "before"]
    assert keeps == ["before", "> yes", "before", "> done"]


async def test_a_merged_run_is_kept_over_a_pause(session: Any) -> None:
    await session.add_items(BEFORE)
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    config = RunConfig(session_input_callback=lambda old, new: new + old)
    result = await Runner.run(agent, "go", session=session, run_config=config)
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session)
    assert words(heard(agent)) == ["go", "before", "> yes", "call ann", "out ann"]
    assert await stored(session) == ["before", "> yes", "go", "call ann", "out ann", "> done"]


BAD_MERGES: dict[str, Any] = {
    "nothing": lambda old, new: None,
    "a tuple": lambda old, new: (*old, *new),
    "a text": lambda old, new: "go",
    "not items": lambda old, new: [*old, "go"],
    "not JSON": lambda old, new: [*old, {"role": "user", "content": object()}],
    "not a number": lambda old, new: [{"role": "user", "content": float("nan")}],
    "half a character": lambda old, new: [{"role": "user", "content": "\ud800"}],
    "an empty list": lambda old, new: [],
}


@pytest.mark.parametrize("name", BAD_MERGES)
async def test_what_a_callback_must_not_give_is_refused_and_nothing_begins(name: str, session: Any) -> None:
    await session.add_items(BEFORE)
    agent = scripted("never")
    config = RunConfig(session_input_callback=BAD_MERGES[name])
    error = await failed(Runner.run(agent, "go", session=session, run_config=config), InvalidInput)
    assert error.state is None
    assert asked(agent) == 0
    assert await session.get_items() == BEFORE


async def test_a_callback_that_raises_stops_the_run_before_it_begins(session: Any) -> None:
    def merge(history: list[Item], new: list[Item]) -> list[Item]:
        raise LookupError("no idea")

    agent = scripted("never")
    config = RunConfig(session_input_callback=merge)
    error = await failed(Runner.run(agent, "go", session=session, run_config=config), LookupError)
    assert error.state is None
    assert asked(agent) == 0


async def test_input_guardrails_see_what_is_new(session: Any) -> None:
    seen: list[Any] = []

    def look(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
        seen.append(input)
        return GuardrailFunctionOutput(None, False)

    await session.add_items(BEFORE)
    await Runner.run(scripted("done", input_guardrails=[InputGuardrail(look)]), "go", session=session)
    assert seen == ["go"]


# -- the wrong session, or none --------------------------------------------------------------------


@pytest.mark.parametrize("other", [None, Plain("another")], ids=["none", "another"])
async def test_a_run_is_resumed_with_its_session_or_not_at_all(other: Any, session: Any) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    state = await reloaded(agent, state)
    before = state.to_string()
    for run in (Runner.run, Runner.run_streamed, Runner.run_sync):
        with pytest.raises(SessionMissing, match=session.session_id):
            await run(agent, state, session=other)  # type: ignore[misc]
    assert state.to_string() == before
    assert sent == []
    assert (await Runner.run(agent, state, session=session)).final_output == "done"


async def test_a_run_without_a_session_is_not_resumed_with_one(session: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go")).to_state()
    with pytest.raises(SessionMissing, match="no session"):
        await Runner.run(agent, state, session=session)
    assert await session.get_items() == []


class NoName(Plain):
    session_id: Any

    def __init__(self, name: Any) -> None:
        super().__init__()
        self.session_id = name


@pytest.mark.parametrize(
    "bad",
    [5, "one", object(), SQLiteSession, {}, NoName(5), NoName(None), NoName(""), NoName("\ud800")],
    ids=lambda bad: ascii(getattr(bad, "session_id", bad))[:20],
)
async def test_what_is_not_a_session_is_refused_at_once(bad: Any) -> None:
    agent = scripted("never")
    with pytest.raises(UsageError):
        await Runner.run(agent, "go", session=bad)
    with pytest.raises(UsageError):
        Runner.run_streamed(agent, "go", session=bad)
    assert asked(agent) == 0


@pytest.mark.parametrize("gives", [None, "text", [1], ({"role": "user", "content": "x"},)])
async def test_a_session_that_gives_no_items_is_an_error_that_says_so(gives: Any) -> None:
    class Odd(Plain):
        async def get_items(self, limit: int | None = None) -> Any:
            return gives

    error = await failed(Runner.run(scripted("never"), "go", session=Odd()), UsageError)
    assert "get_items" in str(error)


# -- a session that fails --------------------------------------------------------------------------


@pytest.mark.parametrize("error", [SessionFailed("gone"), OSError("gone")])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_session_that_cannot_be_read_stops_the_run_before_it_begins(error: Exception, streamed: bool) -> None:
    class Unreadable(Plain):
        async def get_items(self, limit: int | None = None) -> list[Item]:
            raise error

    agent = scripted("never")

    async def run() -> None:
        if not streamed:
            await Runner.run(agent, "go", session=Unreadable())
        async for _ in Runner.run_streamed(agent, "go", session=Unreadable()).stream_events():
            pass

    assert await failed(run()) is error
    assert error.state is None  # type: ignore[attr-defined]
    assert asked(agent) == 0


@pytest.mark.parametrize("write", [1, 2, 3])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_write_that_fails_is_raised_and_made_again_on_resume(write: int, streamed: bool, session: Any) -> None:
    send, sent = sending()
    agent = scripted(sends("ann"), sends("bob"), "done", tools=[send])
    session.fails = [*([None] * (write - 1)), SessionFailed("locked")]

    async def run() -> Any:
        if not streamed:
            return await Runner.run(agent, "go", session=session)
        result = Runner.run_streamed(agent, "go", session=session)
        async for _ in result.stream_events():
            pass
        return result

    error = await failed(run(), SessionFailed)
    turns = [["go", "call ann", "out ann"], ["call bob", "out bob"], ["> done"]]
    assert await stored(session) == joined(turns[: write - 1])
    assert asked(agent) == write, "what was done is not thought over again"
    result = await Runner.run(agent, await reloaded(agent, error.state), session=session)
    assert result.final_output == "done"
    assert await stored(session) == joined(turns)
    assert (asked(agent), sent) == (3, [("ann", 1), ("bob", 1)])


async def test_a_run_that_is_done_and_not_written_only_writes_when_it_is_resumed(session: Any) -> None:
    agent = scripted("done")
    session.fails = [SessionFailed("locked"), SessionFailed("locked"), SessionFailed("locked")]
    error = await failed(Runner.run(agent, "go", session=session), SessionFailed)
    for _ in range(2):
        assert error.state.status == "done"
        error = await failed(Runner.run(agent, await reloaded(agent, error.state), session=session), SessionFailed)
    state = await reloaded(agent, error.state)
    assert (await Runner.run(agent, state, session=session)).final_output == "done"
    assert await stored(session) == ["go", "> done"]
    assert asked(agent) == 1


async def test_a_run_that_is_done_and_written_has_nothing_left_to_do(session: Any) -> None:
    agent = scripted("done")
    state = (await Runner.run(agent, "go", session=session)).to_state()
    with pytest.raises(RunFinished):
        await Runner.run(agent, await reloaded(agent, state), session=session)
    assert await stored(session) == ["go", "> done"]


async def test_a_run_out_of_turns_that_was_not_written_is_written_when_it_is_resumed(session: Any) -> None:
    send, sent = sending()
    agent = scripted(sends("ann"), "done", tools=[send])
    session.fails = [SessionFailed("locked")]
    error = await failed(Runner.run(agent, "go", session=session, max_turns=1), SessionFailed)
    state = await reloaded(agent, error.state)
    error = await failed(Runner.run(agent, state, session=session), MaxTurnsExceeded)
    assert await stored(session) == ["go", "call ann", "out ann"]
    await Runner.run(agent, error.state, session=session, max_turns=2)
    assert await stored(session) == ["go", "call ann", "out ann", "> done"]
    assert sent == [("ann", 1)]


async def test_a_write_that_fails_at_a_pause_leaves_the_questions_to_be_decided(session: Any) -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("nothing", call_id="a"), sends("ann"), "done", tools=[send])
    session.fails = [None, SessionFailed("locked")]
    result = await Runner.run(agent, "go", session=session)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    error = await failed(Runner.run(agent, state, session=session), SessionFailed)
    assert sent == [("ann", 1)]
    assert (await Runner.run(agent, await reloaded(agent, error.state), session=session)).final_output == "done"
    assert await stored(session) == ["go", "call a", "out a", "call ann", "out ann", "> done"]
    assert sent == [("ann", 1)]


async def test_a_locked_database_is_a_clear_error_and_the_run_goes_on_when_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "talk.db"
    session = SQLiteSession("one", path, busy_timeout=0)
    other: list[sqlite3.Connection] = []

    @function_tool
    async def lock() -> str:
        other.append(sqlite3.connect(path))
        other[0].execute("BEGIN IMMEDIATE")
        return "locked"

    agent = scripted(call("lock", call_id="lock"), "done", tools=[lock])
    error = await failed(Runner.run(agent, "go", session=session), SessionFailed)
    assert "locked" in str(error)
    other[0].close()
    assert await stored(session) == []
    await Runner.run(agent, await reloaded(agent, error.state), session=session)
    assert await stored(session) == ["go", "call lock", "out lock", "> done"]
    assert len(other) == 1


@pytest.mark.parametrize("when", ["in the middle", "at the end"])
async def test_a_database_that_is_deleted_is_a_clear_error_and_the_run_goes_on(tmp_path: Path, when: str) -> None:
    path = tmp_path / "talk.db"
    session = SQLiteSession("one", path)
    send, sent = sending()
    ran: list[int] = []

    def gone() -> None:
        ran.append(1)
        for each in tmp_path.iterdir():
            each.unlink()

    @function_tool
    async def delete() -> str:
        gone()
        return "deleted"

    def last(request: Any) -> str:
        gone()
        return "done"

    steps = [call("delete", call_id="delete"), "done"] if when == "in the middle" else [last]
    agent = scripted(sends("ann"), *steps, tools=[send, delete])
    error = await failed(Runner.run(agent, "go", session=session), SessionFailed)
    assert "removed" in str(error)
    result = await Runner.run(agent, await reloaded(agent, error.state), session=session)
    assert result.final_output == "done"
    assert (sent, ran) == ([("ann", 1)], [1])
    expected = ["call delete", "out delete", "> done"] if when == "in the middle" else ["> done"]
    assert await stored(session) == expected, "what was in the file is gone with it"
    await next_run_works(session)


async def test_a_closed_session_is_a_clear_error() -> None:
    session = SQLiteSession("one")
    session.close()
    error = await failed(Runner.run(scripted("never"), "go", session=session), SessionFailed)
    assert isinstance(error, AssentryError)
    assert error.state is None


# -- as input for another run ------------------------------------------------------------------------


async def test_what_a_paused_run_gives_as_input_is_acceptable(session: Any) -> None:
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    agent = scripted([reasoning("r1"), *sends("bob"), reasoning("r2"), *sends("ann")], tools=[send])
    result = await Runner.run(agent, "go", session=session)
    assert words(checked(result.to_input_list())) == ["go", "reasoning", "call bob", "out bob"]
    agent = scripted([reasoning("r1"), *sends("ann")], tools=[send])
    assert words(checked((await Runner.run(agent, "go")).to_input_list())) == ["go"]


# -- odds and ends ---------------------------------------------------------------------------------


async def test_items_of_the_reply_that_are_not_messages_or_calls_are_kept(session: Any) -> None:
    reply = [reasoning("r1"), "so", {"type": "web_search_call", "id": "w1", "status": "completed"}]
    await Runner.run(scripted(reply), "go", session=session)
    assert await stored(session) == ["go", "reasoning", "> so", "web_search_call"]


async def test_a_cleared_session_begins_again_and_a_paused_run_still_goes_on(session: Any) -> None:
    send, _ = sending(needs_approval=lambda ctx, params, call_id: params["to"] == "ann")
    agent = scripted(sends("bob"), sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    await session.clear_session()
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, session=session)).final_output == "done"
    assert await stored(session) == ["call ann", "out ann", "> done"]
    await next_run_works(session)


async def test_the_session_is_named_in_the_saved_run_and_its_items_are_there_once(session: Any) -> None:
    await session.add_items([{"role": "user", "content": "a secret from before"}])
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), tools=[send])
    text = (await Runner.run(agent, "go", session=session)).to_state().to_string()
    assert json.loads(text)["journal"][0]["session"] == session.session_id
    assert text.count("a secret from before") == 1


async def test_a_session_that_is_given_and_never_needed_is_read_once() -> None:
    session = Exact()
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), tools=[send])
    state = (await Runner.run(agent, "go", session=session)).to_state()
    for _ in range(3):
        state = (await Runner.run(agent, state, session=session)).to_state()
    assert (session.reads, session.writes) == ([None], [])
