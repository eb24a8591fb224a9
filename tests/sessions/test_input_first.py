"""Input that is written to the session before anybody hears it, and guardrails that get the history with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assentry import Agent, GuardrailFunctionOutput, InputGuardrail, RunConfig, Runner, RunState
from assentry.errors import TripwireTriggered
from assentry.testing import ScriptedModel, call
from tests.runtime.support import heard, reloaded, scripted, sending, soon
from tests.sessions.test_session_runs import Died, Exact, Plain, checked, failed, sends, stored, words

FIRST = RunConfig(save_input_first=True)
GUARDED = RunConfig(guard_history=True)


@pytest.fixture(params=[Plain, Exact])
def talk(request: pytest.FixtureRequest) -> Any:
    return request.param()


async def test_input_is_in_the_session_while_the_model_is_asked(talk: Any) -> None:
    seen: list[list[str]] = []

    async def look(request: Any) -> Any:
        seen.append(await stored(talk))
        return sends("ann") if len(seen) == 1 else "done"

    send, _ = sending()
    await Runner.run(scripted(look, look, tools=[send]), "go", session=talk, run_config=FIRST)
    assert seen == [["go"], ["go", "call ann", "out ann"]]
    assert await stored(talk) == ["go", "call ann", "out ann", "> done"]


@pytest.mark.parametrize("parallel", [False, True])
async def test_input_that_a_guardrail_stopped_is_in_the_session(talk: Any, parallel: bool) -> None:
    async def look(*args: Any) -> Any:
        return GuardrailFunctionOutput("bad", True)

    agent = scripted("no", input_guardrails=[InputGuardrail(look, run_in_parallel=parallel)])
    await failed(Runner.run(agent, "go", session=talk, run_config=FIRST), TripwireTriggered)
    assert await stored(talk) == ["go"]


async def test_input_that_a_model_failed_on_is_in_the_session_once(talk: Any) -> None:
    async def fails(request: Any) -> Any:
        raise OSError("no model")

    agent = scripted(fails, "done")
    error = await failed(Runner.run(agent, "go", session=talk, run_config=FIRST), OSError)
    assert await stored(talk) == ["go"]
    await Runner.run(agent, await reloaded(agent, error.state), session=talk, run_config=FIRST)
    assert await stored(talk) == ["go", "> done"]


async def test_input_is_written_once_over_pauses_and_whatever_the_resume_is_told(talk: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), sends("bob"), "done", tools=[send])
    result = await Runner.run(agent, "go", session=talk, run_config=FIRST)
    assert await stored(talk) == ["go"], "nothing else of a turn that waits"
    for config in (RunConfig(), FIRST):
        state = await reloaded(agent, result.to_state())
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state, session=talk, run_config=config)
    assert await stored(talk) == ["go", "call ann", "out ann", "call bob", "out bob", "> done"]


async def test_input_that_comes_later_is_written_first_too(talk: Any) -> None:
    seen: list[list[str]] = []

    async def look(request: Any) -> Any:
        seen.append(await stored(talk))
        return "again"

    agent = scripted("hello", look)
    state = (await Runner.run(agent, "go", session=talk, run_config=FIRST)).to_state()
    state.add_input("and now?")
    await Runner.run(agent, await reloaded(agent, state), session=talk, run_config=FIRST)
    assert seen == [["go", "> hello", "and now?"]]
    assert await stored(talk) == ["go", "> hello", "and now?", "> again"]


async def test_a_run_that_began_without_it_writes_what_is_missing(talk: Any) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=talk)).to_state()
    assert await stored(talk) == []
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=talk, run_config=FIRST)
    assert await stored(talk) == ["go", "call ann", "out ann", "> done"]


async def test_a_crash_right_after_the_input_was_written_stores_it_once() -> None:
    session = Exact()
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), tools=[send])
    result = await Runner.run(agent, "go", session=session, run_config=FIRST)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    state.add_input("quick")
    text = state.to_string()
    session.fails_after = [Died()]
    agent.model = ScriptedModel(["done"])
    await failed(Runner.run(agent, state, session=session, run_config=FIRST), Died)
    assert await stored(session) == ["go", "call ann", "out ann", "quick"]
    again = await RunState.from_string(agent, text)
    await Runner.run(agent, again, session=session, run_config=FIRST)
    assert await stored(session) == ["go", "call ann", "out ann", "quick", "> done"]


async def test_two_runs_at_once_lose_nothing_and_part_no_call_from_its_output(talk: Any) -> None:
    both = asyncio.Barrier(2)

    async def together(request: Any) -> Any:
        await both.wait()
        return sends(str(len(await talk.get_items())) + request.input[-1]["content"])

    send, _ = sending()
    runs = [
        Runner.run(scripted(together, f"{who} done", tools=[send]), who, session=talk, run_config=FIRST)
        for who in ("ann", "bob")
    ]
    await soon(asyncio.gather(*runs))
    history = words(checked(await talk.get_items()))
    assert sorted(history[:2]) == ["ann", "bob"]
    assert len(history) == 8


async def test_guardrails_get_the_history_and_the_new_input_as_items(talk: Any) -> None:
    seen: list[Any] = []

    def look(ctx: Any, agent: Any, input: Any) -> Any:
        seen.append(input)
        return GuardrailFunctionOutput(None, False)

    agent = scripted("hello", "so", "good", input_guardrails=[InputGuardrail(look)])
    await Runner.run(agent, "hi", session=talk, run_config=GUARDED)
    assert seen.pop() == [{"role": "user", "content": "hi"}]
    result = await Runner.run(agent, "and now?", session=talk, run_config=GUARDED)
    assert words(seen.pop()) == ["hi", "> hello", "and now?"]
    assert words(heard(agent)) == ["hi", "> hello", "and now?"]
    state = result.to_state()
    state.add_input("more")
    await Runner.run(agent, state, session=talk, run_config=GUARDED)
    assert seen.pop() == "more", "input that comes later is looked at alone"
    await Runner.run(scripted("x", input_guardrails=[InputGuardrail(look)]), "alone", run_config=GUARDED)
    assert seen.pop() == "alone", "there is no history without a session"


async def test_an_inner_agents_guardrails_get_its_input_alone(talk: Any) -> None:
    seen: list[Any] = []

    def look(ctx: Any, agent: Any, input: Any) -> Any:
        seen.append(input)
        return GuardrailFunctionOutput(None, False)

    inner = Agent(name="Inner", model=ScriptedModel(["ok"]), input_guardrails=[InputGuardrail(look)])
    agent = scripted(call("inner", {"input": "look"}), "done", tools=[inner.as_tool("inner", "Ask.")])
    await Runner.run(agent, "go", session=talk, run_config=GUARDED)
    assert seen == ["look"]


async def test_a_sessions_own_settings_limit_what_is_loaded() -> None:
    class Settings:
        limit: Any = 1

    session = Exact()
    session.session_settings = Settings()  # type: ignore[attr-defined]
    agent = scripted("hello", "so")
    await Runner.run(agent, "hi", session=session)
    await Runner.run(agent, "and now?", session=session, run_config=RunConfig(session_limit=2))
    assert session.reads == [1, 2], "the run's own limit goes before"
    Settings.limit = "many"
    with pytest.raises(Exception, match=r"session_settings\.limit must be a whole number"):
        await Runner.run(agent, "no", session=session)
