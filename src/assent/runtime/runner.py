"""The runner: begins a run or takes up a state, and drives it."""

from __future__ import annotations

import asyncio
from typing import Any

from ..agent import Agent
from ..approval.question import new_id
from ..core import facts as f
from ..core.run import Run, status
from ..core.transcript import Item
from ..errors import ContextMissing, MaxTurnsExceeded, RunFinished, StateSpent, UsageError
from ..version import __version__
from .blocking import block
from .config import DEFAULT_MAX_TURNS, RunConfig
from .driver import Driver
from .journal import Journal
from .result import RunResult, RunResultStreaming
from .saved_context import MISSING
from .state import RunState
from .value import input_json


class Runner:
    """Runs agents. All three ways are the same drive; they differ in how you wait for it."""

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any],
        *,
        context: Any = None,
        max_turns: int | None = None,
        run_config: RunConfig | None = None,
    ) -> RunResult:
        """Run an agent until it is done or waits for a person.

        Args:
            starting_agent: The agent; on resume the one the run began with.
            input: What the user says, as text or provider items; or a state to resume.
            context: An object of yours that rules, tools and callbacks get; on resume an omitted
                one keeps the state's.
            max_turns: How many times the model may be asked over the whole run, 10 if not given;
                on resume an omitted one keeps the run's.
            run_config: Settings; live objects, so give them again on resume.
        """
        driver, _ = _prepare(starting_agent, input, context, max_turns, run_config)
        await _drive(driver)
        return RunResult(driver)

    @classmethod
    def run_sync(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any],
        *,
        context: Any = None,
        max_turns: int | None = None,
        run_config: RunConfig | None = None,
    ) -> RunResult:
        """`run`, blocking. Works inside a running event loop too."""
        return block(cls.run(starting_agent, input, context=context, max_turns=max_turns, run_config=run_config))

    @classmethod
    def run_streamed(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any],
        *,
        context: Any = None,
        max_turns: int | None = None,
        run_config: RunConfig | None = None,
    ) -> RunResultStreaming:
        """`run`, at once: read `stream_events()` of the result. Needs a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("run_streamed needs a running event loop; call it in an async function.") from None
        driver, tail = _prepare(starting_agent, input, context, max_turns, run_config)
        result = RunResultStreaming(driver, tail)
        result._start(_drive(driver))
        return result


def _prepare(
    agent: Agent[Any],
    input: str | list[Item] | RunState[Any],
    context: Any,
    max_turns: int | None,
    config: RunConfig | None,
) -> tuple[Driver, int]:
    """A driver for a new run or for a state, and where the journal's tail begins that nobody has seen."""
    if not isinstance(agent, Agent):
        raise UsageError(f"The first argument is the agent, got {agent!r:.80}.")
    if max_turns is not None and (type(max_turns) is not int or max_turns < 1):
        raise UsageError(f"max_turns must be a whole number of at least 1, got {max_turns!r:.80}.")
    config = config or RunConfig()
    if isinstance(input, RunState):
        return _resume(agent, input, context, max_turns, config)
    said = input_json(input)
    journal = Journal([], Run(), config.clock)
    driver = Driver(journal, agent, config, context, {})
    now = journal.now()
    began = f.Began(agent.name, max_turns or DEFAULT_MAX_TURNS, new_id("run"), __version__, config.release, at=now)
    journal.append([began, f.Said(said, at=now)])
    return driver, len(journal.facts)


def _resume(
    agent: Agent[Any], state: RunState[Any], context: Any, max_turns: int | None, config: RunConfig
) -> tuple[Driver, int]:
    if state._spent:
        raise StateSpent()
    run = state._journal.run
    if run.began is None or run.began.agent != agent.name:
        made = run.began.agent if run.began else ""
        raise UsageError(f"This run was begun by agent {made!r}; resume it with that agent, not {agent.name!r}.")
    context = state._context if context is None else context
    if context is MISSING:
        raise ContextMissing(
            "The run's context was left out when it was saved; give one: Runner.run(..., context=...)."
        )
    now = status(run)
    if now in ("done", "closed", "idle") or (now == "exhausted" and max_turns is None):
        if now == "exhausted":
            raise MaxTurnsExceeded(f"The run used up its {run.max_turns} turns; resume it with a higher max_turns.")
        raise RunFinished(f"The run is {now}; it has nothing left to do. Give it new input with state.add_input(...).")
    journal = state._journal
    journal.clock = config.clock
    driver = Driver(journal, agent, config, context, state._outputs)
    state._spent = True
    if run.cancelled is not None:
        journal.add(f.Resumed("local", at=journal.now()))
    if max_turns is not None and max_turns != run.max_turns:
        journal.add(f.Limited(max_turns, at=journal.now()))
    return driver, state._tail


async def _drive(driver: Driver) -> None:
    """Drive, and let no exception leave without the run as it is now."""
    try:
        await driver.drive()
        run = driver.journal.run
        if status(run) == "exhausted":
            raise MaxTurnsExceeded(
                f"The run used up its {run.max_turns} turns. Resume error.state with a higher max_turns to go on."
            )
    except BaseException as error:
        journal = driver.journal.fork()
        state = RunState(journal, driver.agent, driver.ctx.context, dict(driver.outputs))
        try:
            object.__setattr__(error, "state", state)  # a frozen exception gets it too
        except AttributeError:
            error.add_note("This exception can hold no attributes, so the run's state could not be kept on it.")
        raise
