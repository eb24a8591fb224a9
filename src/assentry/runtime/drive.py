"""The one way in: begins or resumes a run, loads it, drives it and closes it, whoever drives.

| function | does | awaits |
|---|---|---|
| `begin_run`, `resume_run` | make the driver of a new run, or of a state | nothing |
| `open_run` | reads the session, and stores the run or takes its lease; else `drive_run` does it | session, store |
| `drive_run` | drives the run to its pause or its end | everything |
| `end_drive` | ends a drive that goes on in a task of its own | the task |
| `close_run` | writes the last facts, and releases the lease | store |

The runner, the worker, threads, live sessions and Temporal's activities call these functions and have no others. Time
is the clock of the settings or the store. Checking what a user passes in, waiting, retrying and wording belong to the
callers.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Raw
from msgspec.json import decode
from msgspec.structs import replace

from ..core import facts as f
from ..core.opening import first_facts
from ..core.run import Run, awaits_model, exhausted, status, turns_used_up
from ..core.wording import described
from ..definitions.agent import Agent
from ..definitions.hooks import RunHooks
from ..errors import (
    AssentryError,
    ContextMissing,
    InvalidInput,
    Overtaken,
    RunElsewhere,
    RunFinished,
    SessionFailed,
    SessionMissing,
    UsageError,
)
from ..ids import new_id
from ..sessions.session import OpeningSession, Session
from ..version import __version__
from .agent_graph import AgentGraph
from .config import DEFAULT_MAX_TURNS, RunConfig
from .driver import Driver
from .guardrail_results import input_guardrails
from .hook_dispatch import Observer
from .journal import NOT_STORED, Journal, StoredPart
from .result import RunResult
from .saved_context import MISSING
from .scope import Scope, make_scope
from .session_sync import first_inputs, unsaved
from .state import Resumption, RunState, begun_by, left_by, resumption, state_of
from .steps.guardrail import await_guardrails

if TYPE_CHECKING:
    from ..store.record import Lease, Stored
    from ..store.store import Store
    from .lease import RunLease
    from .store_writer import StoreWriter

D = TypeVar("D", bound=Driver)

RESTARTS = 20
"""The number of times that a drive begins again because other writers changed the run."""


class RunPlace(NamedTuple):
    """The places that keep a run and its conversation, and the run's place in a thread."""

    session: Session | None = None
    conversation: dict[str, str] | None = None
    """The conversation that the provider keeps."""
    store: Store | None = None
    run: str | None = None
    """The id of a new run; made up if omitted."""
    thread: str | None = None
    follows: str | None = None
    """The id of the run before a new run, whose conversation the new run continues."""
    forked: str | None = None
    """The point that a new run is forked from; see `Began.forked`."""
    update: Raw = f.NOTHING
    """Updates of the thread's state that came with the input; see `Said.update`."""
    engine: str | None = None
    """The engine that is the authority on a new run; see `Began.engine`."""
    partial: bool = False
    """True if this drive performs a part of what is owed. Another part writes the run's session."""
    advice: str = "Resume its state with a higher max_turns to go on."
    """The advice to a caller whose run has used up its turns."""


NOWHERE = RunPlace()


# -- beginning -------------------------------------------------------------------------------------


def check_settings(config: Any, hooks: Any, store: Any = None) -> None:
    """Raise `UsageError` unless these settings of an engine are what they must be, or None."""
    if config is not None and not isinstance(config, RunConfig):
        raise UsageError(f"run_config must be a RunConfig, got {described(config)}.")
    if hooks is not None and not isinstance(hooks, RunHooks):
        raise UsageError(f"hooks must be a RunHooks, got {described(hooks)}. Give an agent's own hooks to Agent.")
    if store is not None:
        from ..store.store import Store

        if not isinstance(store, Store):
            raise UsageError(f"store must be a Store, such as SQLiteStore(path), got {described(store)}.")


def begin_run(
    agent: Agent[Any],
    input: Raw | None,
    context: Any,
    max_turns: int | None,
    config: RunConfig,
    hooks: RunHooks[Any] | None,
    place: RunPlace,
    make: type[D],
) -> D:
    """Return a driver of the given class for a new run, whose first facts are in its journal unless it has a session.

    `input` is JSON; None for a live run.
    """
    store, session = place.store, place.session
    journal = Journal([], Run(), config.clock if store is None else store.clock)
    scope = make_scope(journal, AgentGraph(agent), config, context, {}, hooks, session)
    driver = make(scope)
    driver.advice = place.advice
    run_id = place.run or new_id("run")
    if store is not None:
        _attach_writer(driver, store, run_id)
    first = functools.partial(
        first_facts,
        run_template(scope.graph, config, max_turns),
        run_id,
        journal.now(),
        by=config.started_by,
        stored=store is not None,
        live=make.live,
        conversation=place.conversation,
        session=session.session_id if session is not None else None,
        thread=place.thread,
        follows=place.follows,
        forked=place.forked,
        engine=place.engine,
    )
    scope.hooks.observer = observer = _observer_of(scope, lambda: first()[0])
    if observer is not None:
        first = functools.partial(first, trace=observer.trace)
    if input is None:
        journal.append(first())
    elif scope.session is None:
        journal.append(first([f.Said(input, update=place.update)]))
    else:
        driver.first = functools.partial(_read_session, journal, first, scope.session.session, decode(input), config)
    return driver


def run_template(graph: AgentGraph, config: RunConfig, max_turns: int | None = None) -> f.Began:
    """Return what the agent and the settings require of each run, as the fact that begins a run with no id."""
    agent = graph.root
    guarded = agent.input_guardrails or config.input_guardrails
    guards = input_guardrails(graph.agent_at(agent.name), config, ()) if guarded else ()
    return f.Began(
        agent.name,
        max_turns or DEFAULT_MAX_TURNS,
        version=__version__,
        release=config.release,
        guards=tuple(guards),
        max_argument_bytes=config.max_argument_bytes,
    )


async def _read_session(
    journal: Journal, first: Callable[..., Sequence[f.AnyFact]], session: Session, input: Any, config: RunConfig
) -> None:
    """Append the first facts of a run that has a session, with the session's history."""
    if isinstance(session, OpeningSession):
        await session.open()
        first = functools.partial(first, session=session.session_id)
    journal.append(first(await first_inputs(session, input, config)))


# -- resuming --------------------------------------------------------------------------------------


def state_to_resume(agent: Agent[Any], input: Any, context: Any, config: RunConfig) -> RunState[Any]:
    """Return the state to resume: the given state, or one made from a run of a store."""
    if isinstance(input, RunState):
        return input
    if not isinstance(input, _of_stores()[2]):
        raise InvalidInput(
            f"Input is text, a list of items (dicts), a run loaded from a store, or a RunState to resume; "
            f"got {described(input)}."
        )
    return state_of(agent, input, context, config)


def resume_run(
    agent: Agent[Any],
    state: RunState[Any],
    context: Any,
    max_turns: int | None,
    config: RunConfig,
    hooks: RunHooks[Any] | None,
    place: RunPlace,
    make: type[D],
    lease: Lease | None = None,
) -> D:
    """Return a driver of the given class for a state, which is spent from then on.

    `lease` is that of a run that was claimed already.
    """
    left = resumption(state)
    journal = left.journal
    run = journal.run
    began = begun_by(agent, run)
    context = left.context if context is None else context
    if context is MISSING:
        raise ContextMissing(
            "The run's context was left out when it was saved; give one: Runner.run(..., context=...)."
        )
    _check_place(began, place, make.live)
    handled = config.error_handlers is not None and "max_turns" in config.error_handlers
    _check_unfinished(left, max_turns, place, make.live, handled)
    if config.tracing is None and left.tracing is not None:
        config = replace(config, tracing=left.tracing)
    journal.clock = config.clock if place.store is None else place.store.clock
    graph = left.graph if left.graph.root is agent else AgentGraph(agent)
    scope = make_scope(journal, graph, config, context, left.outputs, hooks, place.session)
    driver = make(scope)
    driver.advice = place.advice
    if place.store is not None:
        _attach_writer(driver, place.store, run.id, left.kept, lease)
    scope.hooks.observer = _observer_of(scope, lambda: began, resumed=True)
    left.spend()
    scope.hooks.unseen = list(left.unseen)
    scope.hooks.noted += left.untold
    if run.cancelled is not None:
        journal.add(f.Resumed("local", at=journal.now()))
    if run.live != make.live:
        journal.add(f.Switched(make.live, at=journal.now()))
    if max_turns is not None and max_turns != run.max_turns:
        journal.add(f.Limited(max_turns, at=journal.now()))
    await_guardrails(scope)
    return driver


def _check_unfinished(
    left: Resumption, max_turns: int | None, place: RunPlace, live: bool, handled: bool = False
) -> None:
    """Raise `RunFinished` or `MaxTurnsExceeded` if the run has nothing left to do."""
    run = left.journal.run
    now = status(run)
    if run.closed is None and (live or (run.live and not run.open and awaits_model(run))):
        return  # a live run can always go on; what its model was not told yet, a model is asked about now
    late = place.session is not None and unsaved(run)  # the session lacks the run's last items
    unwritten = place.store is not None and len(left.journal.facts) > left.kept.facts  # the store lacks facts
    if now in ("done", "closed", "idle") and not (unwritten or (now == "done" and late)):
        if run.closed is not None:
            raise RunFinished(f"The run was closed and cannot go on: {run.closed.why} Begin a new one.")
        raise RunFinished(f"The run is {now}; it has nothing left to do. Give it new input with state.add_input(...).")
    if now == "exhausted" and max_turns is None and not late and not handled:
        raise turns_used_up(run, place.advice)


def _check_place(began: f.Began, place: RunPlace, live: bool) -> None:
    """Raise an error unless the run is resumed with the session, conversation and store that it began with."""
    if began.session is not None and place.session is None and not place.partial:
        raise SessionMissing(
            f"This run is kept in session {began.session!r}; give it again: Runner.run(..., session=...)."
        )
    if place.session is not None and began.session != place.session.session_id:
        own = began.session is not None
        kept, cure = (f"in session {began.session!r}", "with its own") if own else ("in no session", "without one")
        given = f"was given session {place.session.session_id!r}"
        raise SessionMissing(f"This run is kept {kept}, and {given}; resume it {cure}.")
    if place.conversation is not None and place.conversation != began.conversation:
        raise UsageError("A run keeps the provider's conversation that it began with; leave the ids out on resume.")
    if live and began.conversation:
        raise UsageError("The provider keeps the conversation of this run as text, so it cannot go on live.")
    if began.caller is not None:
        raise RunElsewhere(f"{began.caller} drives this run, a program outside; nothing of it can be run here.")
    if began.engine != place.engine:
        raise RunElsewhere(
            f"This run is {'a workflow on ' + began.engine if began.engine else 'of no engine'}; it goes on there, and "
            "not here."
        )
    if began.stored and place.store is None:
        raise UsageError("This run lives in a store; give it: Runner.run(..., store=...).")
    if place.store is not None and not began.stored:
        raise UsageError("This run was begun without a store and goes on without one; give the store to a new run.")


# -- the parts of a drive --------------------------------------------------------------------------


def _observer_of(scope: Scope, began: Callable[[], f.Began], *, resumed: bool = False) -> Observer | None:
    """Return the maker of a drive's spans, if there is to be one; a resumed run continues its trace."""
    observed_by, tracing = type(scope.graph.root).observed_by, scope.config.tracing
    if observed_by is not None:
        made: Observer = observed_by(scope, began(), resumed)
        return made
    if tracing is None:
        return None
    from .span_observer import SpanObserver

    return SpanObserver(scope, tracing, began(), resumed)


def _attach_writer(
    driver: Driver, store: Store, run: str, kept: StoredPart = NOT_STORED, lease: Lease | None = None
) -> None:
    """Give the driver a writer to the store: for a new run, or for a run that the store has as `kept` says."""
    worker, scope = lease.worker if lease is not None else kept.worker or new_id("w"), driver.scope
    make_writer, make_lease, _ = _of_stores()
    driver.writer = make_writer(scope, store, make_lease(run, worker, scope.config.lease, lease, kept.fence), kept)


@functools.cache
def _of_stores() -> tuple[type[StoreWriter], type[RunLease], type[Stored]]:
    """Import the classes when they are first needed, so that a program without a store does not load them."""
    from ..store.record import Stored
    from .lease import RunLease
    from .store_writer import StoreWriter

    return StoreWriter, RunLease, Stored


# -- loading, driving, closing ---------------------------------------------------------------------


async def open_run(driver: Driver, *, now: bool = False) -> None:
    """Load the run before it is driven; if that fails, close it.

    With `now`, the run is stored and its lease is held on return. Otherwise both may happen with the drive's first
    write.
    """
    try:
        await _load(driver, now)
    except GeneratorExit:  # the coroutine is garbage-collected with its event loop: nothing can be awaited
        raise
    except BaseException as error:
        await close_run(driver, error)
        raise


async def _load(driver: Driver, now: bool = False) -> None:
    driver.loaded = True
    if driver.first is not None:
        await driver.first()
    if driver.writer is not None:
        await driver.writer.begin(now=now)


async def _load_unless_stopped(driver: Driver) -> None:
    """Load the run. There is no time limit, unless the run is told to stop."""
    try:
        async with asyncio.timeout(None) as driver.loading:
            driver.limit_loading()
            await _load(driver)
    except TimeoutError:
        if driver.loading is None or not driver.loading.expired():
            raise
        raise SessionFailed("The run was stopped before its session could be read; nothing had begun.") from None
    finally:
        driver.loading = None


def drive_run(driver: Driver, *, release: bool = True) -> Coroutine[Any, Any, None]:
    """Load the run, if nobody has, and drive it until it waits or is over: await the coroutine, or make it a task.

    An exception has the run's state as its `state` attribute. Without `release`, an exception leaves the lease to the
    caller, and the state too.
    """
    work = _drive(driver, release)
    observer = driver.scope.hooks.observer
    return work if observer is None else observer.drive(work)


async def _drive(driver: Driver, release: bool) -> None:
    try:
        if not driver.loaded and (driver.first is not None or driver.writer is not None):
            await _load_unless_stopped(driver)
        if driver.writer is None:
            await driver.drive()
        else:
            await _drive_stored(driver, driver.writer)
        run = driver.journal.run
        if exhausted(run):
            raise turns_used_up(run, driver.advice)
    except GeneratorExit:  # the coroutine is garbage-collected with its event loop: nothing can be awaited
        raise
    except BaseException as error:
        await close_run(driver, error, release=release)
        raise


async def _drive_stored(driver: Driver, writer: StoreWriter) -> None:
    """Drive a run of a store; if other writers changed its course, begin again with the stored facts."""
    writer.start()
    restarts = 0
    while True:
        try:
            await driver.drive()
            break
        except Overtaken:
            if writer.lease.held is None or driver.stop is not None or restarts == RESTARTS:
                raise
            restarts += not driver.stays  # a live session lasts for long, and others may write all the time
            await writer.again()
            driver.restart()
    await writer.close()


async def end_drive(driver: Driver, drive: asyncio.Task[None]) -> None:
    """Wait for a drive that was told to end, for as long as the settings allow, cancel it, and close the run."""
    done, _ = await asyncio.wait([drive], timeout=driver.scope.config.cancel_grace)
    if not done:
        drive.cancel()  # what has not ended is in doubt
        await asyncio.wait([drive])
    await close_run(driver)  # a drive that failed has closed it before the last facts were in


async def close_run(driver: Driver, error: BaseException | None = None, *, release: bool = True) -> None:
    """Write what can be written, release the lease, and put the run's state on the error. Closing twice is fine."""
    if driver.writer is not None:
        await driver.writer.close(release=release)
    if error is not None and release:
        keep_state(error, driver.scope)


def keep_state(error: BaseException, scope: Scope) -> None:
    """Put the run's state on an exception, and its result on one of ours; None if nothing had begun."""
    begun = scope.journal.run.began is not None
    try:
        object.__setattr__(error, "state", left_by(scope) if begun else None)  # works for a frozen exception too
        if begun and isinstance(error, AssentryError):
            error.run_data = scope.graph.class_of(RunResult)(scope)
    except AttributeError:
        error.add_note("This exception can hold no attributes, so the run's state could not be kept on it.")
