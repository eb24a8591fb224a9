"""The runner: begins a run or resumes a state, and drives it."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.json import decode
from msgspec.structs import replace

from ..approval.question import new_id
from ..core import facts as f
from ..core.digest import described, holds
from ..core.number import counted, is_count
from ..core.run import Run, awaits_model, exhausted, status
from ..core.transcript import Item
from ..definitions.agent import Agent
from ..definitions.hooks import RunHooks
from ..errors import (
    ContextMissing,
    InvalidInput,
    MaxTurnsExceeded,
    Overtaken,
    RunFinished,
    SessionFailed,
    SessionMissing,
    StateSpent,
    UsageError,
)
from ..sessions.session import OpeningSession, Session
from ..tracing.settings import Tracing
from ..version import __version__
from .agent_graph import AgentGraph
from .config import DEFAULT, DEFAULT_MAX_TURNS, RunConfig
from .driver import Driver
from .guardrail_results import input_guardrails
from .hook_dispatch import Observer
from .journal import NOT_STORED, Journal, StoredPart, made_outside
from .result import RunResult
from .saved_context import MISSING
from .scope import Scope, make_scope
from .session_sync import checked_session, heard, unsaved
from .state import RunState, begun_by, left_by, state_of
from .steps.guardrail import await_guardrails
from .streaming import RunResultStreaming
from .sync import block
from .value import input_json

if TYPE_CHECKING:
    from ..store.record import Lease, Stored
    from ..store.store import Store
    from .lease import RunLease
    from .store_writer import StoreWriter


class Runner:
    """Runs agents. All three methods do the same; they differ in the way that you wait for the result."""

    @classmethod
    async def run(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = None,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Session | None = None,
        store: Store | None = None,
    ) -> RunResult:
        """Run an agent until it is done or waits for a person.

        Args:
            starting_agent: The agent; on resume, the agent that the run began with.
            input: The user's input, as text or provider items; or a state to resume.
            context: Your own object, passed to rules, tools and callbacks; if omitted on resume, the state's
                context is kept.
            max_turns: The number of model calls allowed over the whole run, 10 by default; if omitted on
                resume, the run's limit is kept.
            hooks: Hooks that are called during the run. They are not saved, so give them again on resume.
            run_config: Settings. They are not saved, so give them again on resume.
            previous_response_id: The id of the last response, if the provider keeps the conversation. The run
                records it, and also the next two settings.
            auto_previous_response_id: If True, the provider keeps the conversation from the first reply on.
            conversation_id: The id of the conversation, if the provider keeps it.
            session: The session that keeps the conversation over several runs; resume the run with the same session.
            store: The store that keeps the run and is written as the run proceeds. Decide with `store.decide(...)`, and
                continue with `Runner.run(agent, await store.load(run_id), store=store)` or with a `Worker`.
        """
        order = _order(previous_response_id, auto_previous_response_id, conversation_id, session, store)
        if order.store is not None:
            await order.store.open()
        driver, begin = prepare(starting_agent, input, context, max_turns, run_config, hooks, order)
        await drive(driver, begin or _beginning(driver))
        return RunResult(driver.scope)

    @classmethod
    def run_sync(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = None,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Session | None = None,
        store: Store | None = None,
    ) -> RunResult:
        """Run an agent like `run`, and block until it returns. Works inside a running event loop too."""
        return block(
            cls.run(
                starting_agent,
                input,
                context=context,
                max_turns=max_turns,
                hooks=hooks,
                run_config=run_config,
                previous_response_id=previous_response_id,
                auto_previous_response_id=auto_previous_response_id,
                conversation_id=conversation_id,
                session=session,
                store=store,
            )
        )

    @classmethod
    def run_streamed(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = None,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Session | None = None,
        store: Store | None = None,
    ) -> RunResultStreaming:
        """Start a run like `run` and return at once; read its `stream_events()`. Needs a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("run_streamed needs a running event loop; call it in an async function.") from None
        order = _order(previous_response_id, auto_previous_response_id, conversation_id, session, store)
        driver, begin = prepare(starting_agent, input, context, max_turns, run_config, hooks, order)
        result = RunResultStreaming(driver)
        result._start(drive(driver, begin or _beginning(driver)))
        return result


class Order(NamedTuple):
    """The places that keep a run and its conversation: a session, the provider, a store, a thread of runs."""

    session: Session | None = None
    conversation: dict[str, str] | None = None
    store: Store | None = None
    run: str | None = None
    """The id of a new run; made up if omitted."""
    thread: str | None = None
    follows: str | None = None
    """The id of the run before a new run, whose conversation the new run continues."""


NOWHERE = Order()
RESTARTS = 20
"""The number of times that a drive begins again because other writers changed the run."""


def _order(previous: str | None, auto: bool, conversation: str | None, session: Any, store: Any) -> Order:
    if previous is None and conversation is None and session is None and auto is False and store is None:
        return NOWHERE
    check_store(store)
    for name, value in (("previous_response_id", previous), ("conversation_id", conversation)):
        if value is not None and not (type(value) is str and value and holds(value)):
            raise UsageError(f"{name} is the provider's id, a text, got {described(value)}.")
    if type(auto) is not bool:
        raise UsageError(f"auto_previous_response_id is True or False, got {described(auto)}.")
    if conversation is not None and (previous is not None or auto):
        raise UsageError("Give conversation_id or previous_response_id: a talk is kept in one place.")
    kept = {"id": conversation} if conversation else {"previous": previous} if previous else {"auto": "yes"}
    session, managed = checked_session(session), bool(conversation or previous or auto)
    if session is not None and managed:
        raise UsageError("Give a session or the provider's conversation: a talk is kept in one place.")
    return Order(session, kept if managed else None, store)


def check_store(store: Any) -> None:
    """Raise `UsageError` unless this is a store, or None."""
    if store is not None:
        from ..store.store import Store

        if not isinstance(store, Store):
            raise UsageError(f"store must be a Store, such as SQLiteStore(path), got {described(store)}.")


def prepare(
    agent: Agent[Any],
    input: str | list[Item] | RunState[Any] | Stored,
    context: Any,
    max_turns: int | None,
    config: RunConfig | None,
    hooks: RunHooks[Any] | None,
    order: Order,
) -> tuple[Driver, Any]:
    """Return a driver for a new run or a state, and a function that begins a run which reads its session first."""
    if not isinstance(agent, Agent):
        raise UsageError(f"The first argument is the agent, got {described(agent)}.")
    if max_turns is not None and not is_count(max_turns):
        raise UsageError(f"max_turns must be a whole number from 1 to 2**63 - 1, got {described(max_turns)}.")
    if hooks is not None and not isinstance(hooks, RunHooks):
        raise UsageError(f"hooks must be a RunHooks, got {described(hooks)}. Give an agent's own hooks to Agent.")
    config = config or DEFAULT
    if not isinstance(config, RunConfig):
        raise UsageError(f"run_config must be a RunConfig, got {described(config)}.")
    if not isinstance(input, str | list):
        state = state_to_resume(agent, input, context, config)
        return resume(agent, state, context, max_turns, config, hooks, order), None
    if isinstance(input, str) and input.startswith('{"schema":') and '"journal":[' in input:
        raise UsageError("This text is a saved run; load it with RunState.from_string(agent, text), and run that.")
    said = input_json(input)
    journal = Journal([], Run(), config.clock if order.store is None else order.store.clock)
    scope = make_scope(journal, AgentGraph(agent), config, context, {}, hooks, order.session)
    driver = Driver(scope)
    run_id = order.run or new_id("run")
    if order.store is not None:
        keep(driver, order.store, run_id)
    began = replace(
        first_fact(scope.graph, config, max_turns),
        run=run_id,
        conversation=order.conversation,
        session=order.session.session_id if order.session is not None else None,
        stored=order.store is not None,
        thread=order.thread,
        follows=order.follows,
        by=config.started_by,
        at=journal.now(),
    )
    if config.tracing is not None:
        scope.hooks.observer = observer = observer_of(scope, config.tracing, began)
        began = replace(began, trace=observer.trace)
    if order.session is None:
        journal.append([began, f.Said(said)])
        return driver, None
    return driver, functools.partial(_begin, driver, began, order.session, decode(said))


def first_fact(graph: AgentGraph, config: RunConfig, max_turns: int | None = None) -> f.Began:
    """Return the first fact of an agent's runs, with everything that the agent and the settings require of them."""
    agent = graph.root
    guarded = agent.input_guardrails or config.input_guardrails
    guards = input_guardrails(graph.seat(agent.name), config, ()) if guarded else ()
    return f.Began(
        agent.name,
        max_turns or DEFAULT_MAX_TURNS,
        version=__version__,
        release=config.release,
        guards=tuple(guards),
        max_argument_bytes=config.max_argument_bytes,
    )


async def _begin(driver: Driver, began: f.Began, session: Session, input: Any) -> None:
    if isinstance(session, OpeningSession):
        await session.open()
        began = replace(began, session=session.session_id)
    driver.journal.append([began, *await heard(session, input, driver.scope.config)])
    if driver.writer is not None:
        await driver.writer.begin()


def observer_of(scope: Scope, tracing: Tracing, began: f.Began, *, resumed: bool = False) -> Observer:
    """Return the maker of a drive's spans; a resumed run continues its trace."""
    from .span_observer import SpanObserver

    return SpanObserver(scope, tracing, began, resumed)


def _beginning(driver: Driver) -> Any:
    """Return the writer's `begin` for a run of a store; else None."""
    return driver.writer.begin if driver.writer is not None else None


def keep(driver: Driver, store: Store, run: str, kept: StoredPart = NOT_STORED, lease: Lease | None = None) -> None:
    """Give the driver a writer to the store: for a new run, or for a run that the store has as `kept` says."""
    worker = lease.worker if lease is not None else kept.worker or new_id("w")
    parts = _of_stores()
    scope = driver.scope
    driver.writer = parts.writer(scope, store, parts.lease(run, worker, scope.config.lease, lease, kept.fence), kept)


class StoreParts(NamedTuple):
    """The classes that a run of a store needs."""

    writer: type[StoreWriter]
    lease: type[RunLease]
    stored: type[Stored]


@functools.cache
def _of_stores() -> StoreParts:
    """Import the classes when they are first needed, so that a program without a store does not load them."""
    from ..store.record import Stored
    from .lease import RunLease
    from .store_writer import StoreWriter

    return StoreParts(StoreWriter, RunLease, Stored)


def state_to_resume(agent: Agent[Any], input: Any, context: Any, config: RunConfig) -> RunState[Any]:
    """Return the state to resume: the given state, or one made from a run of a store."""
    if isinstance(input, RunState):
        return input
    if not isinstance(input, _of_stores().stored):
        raise InvalidInput(
            f"Input is text, a list of items (dicts), a run loaded from a store, or a RunState to resume; "
            f"got {described(input)}."
        )
    return state_of(agent, input, context, config)


def resume(
    agent: Agent[Any],
    state: RunState[Any],
    context: Any,
    max_turns: int | None,
    config: RunConfig,
    hooks: RunHooks[Any] | None,
    order: Order,
    lease: Lease | None = None,
    make: type[Driver] = Driver,
) -> Driver:
    """Return a driver for a state, which is spent from then on.

    `lease` is that of a run that was claimed already. With another `make`, the driver is of that class.
    """
    if state._spent:
        raise StateSpent()
    journal = state._journal
    run = journal.run
    began = begun_by(agent, run)
    context = state._context if context is None else context
    if context is MISSING:
        raise ContextMissing(
            "The run's context was left out when it was saved; give one: Runner.run(..., context=...)."
        )
    _same_order(began, order)
    if began.stored and order.store is None:
        raise UsageError("This run lives in a store; give it: Runner.run(..., store=...).")
    if order.store is not None and not began.stored:
        raise UsageError("This run was begun without a store and goes on without one; give the store to a new run.")
    live = make is not Driver
    _can_go_on(state, max_turns, order, live)
    if config.tracing is None and state._tracing is not None:
        config = replace(config, tracing=state._tracing)
    journal.clock = config.clock if order.store is None else order.store.clock
    graph = state._graph if state._graph.root is agent else AgentGraph(agent)
    scope = make_scope(journal, graph, config, context, state._outputs, hooks, order.session)
    driver = make(scope)
    if order.store is not None:
        keep(driver, order.store, run.id, state._kept, lease)
    if config.tracing is not None:
        scope.hooks.observer = observer_of(scope, config.tracing, began, resumed=True)
    state._spent = True
    scope.hooks.unseen = list(made_outside(journal.facts, state._heard))
    scope.hooks.noted += state._untold
    if run.cancelled is not None:
        journal.add(f.Resumed("local", at=journal.now()))
    if run.live != live:
        journal.add(f.Switched(live, at=journal.now()))
    if max_turns is not None and max_turns != run.max_turns:
        journal.add(f.Limited(max_turns, at=journal.now()))
    await_guardrails(scope)
    return driver


def _can_go_on(state: RunState[Any], max_turns: int | None, order: Order, live: bool) -> None:
    """Raise `RunFinished` or `MaxTurnsExceeded` if the run has nothing left to do."""
    run = state._journal.run
    now = status(run)
    if run.closed is None and (live or (run.live and not run.open and awaits_model(run))):
        return  # a live run can always go on; what its model was not told yet, a model is asked about now
    late = order.session is not None and unsaved(run)  # the session lacks the run's last items
    unwritten = order.store is not None and len(state._journal.facts) > state._kept.facts  # the store lacks facts
    if now in ("done", "closed", "idle") and not (unwritten or (now == "done" and late)):
        if run.closed is not None:
            raise RunFinished(f"The run was closed and cannot go on: {run.closed.why} Begin a new one.")
        raise RunFinished(f"The run is {now}; it has nothing left to do. Give it new input with state.add_input(...).")
    if now == "exhausted" and max_turns is None and not late:
        used = counted(run.max_turns, "turn")
        raise MaxTurnsExceeded(f"The run used up its {used}; resume it with a higher max_turns.")


def _same_order(began: f.Began, order: Order) -> None:
    """Raise an error unless the run is resumed with the session and the conversation that it began with."""
    if began.session is not None and order.session is None:
        raise SessionMissing(
            f"This run is kept in session {began.session!r}; give it again: Runner.run(..., session=...)."
        )
    if order.session is not None and began.session != order.session.session_id:
        own = began.session is not None
        kept, cure = (f"in session {began.session!r}", "with its own") if own else ("in no session", "without one")
        given = f"was given session {order.session.session_id!r}"
        raise SessionMissing(f"This run is kept {kept}, and {given}; resume it {cure}.")
    if order.conversation is not None and order.conversation != began.conversation:
        raise UsageError("A run keeps the provider's conversation that it began with; leave the ids out on resume.")


async def _load(driver: Driver, begin: Any) -> None:
    """Begin the run from its session or store. There is no time limit, unless the run is told to stop."""
    try:
        async with asyncio.timeout(None) as driver.loading:
            driver.limit_loading()
            await begin()
    except TimeoutError:
        if driver.loading is None or not driver.loading.expired():
            raise
        raise SessionFailed("The run was stopped before its session could be read; nothing had begun.") from None
    finally:
        driver.loading = None


async def drive(driver: Driver, begin: Any) -> None:
    """Begin the run if necessary, and drive it. An exception has the run's state as its `state` attribute."""
    work = _driven(driver, begin)
    observer = driver.scope.hooks.observer
    await (work if observer is None else observer.drive(work))


async def drive_through(driver: Driver) -> None:
    """Drive the run to its end or pause; if other writers changed its course, begin again with the stored facts."""
    writer = driver.writer
    if writer is None:
        await driver.drive()
        return
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


async def _driven(driver: Driver, begin: Any) -> None:
    """Drive the run, and put its state on any exception."""
    try:
        if begin is not None:
            await _load(driver, begin)
        await drive_through(driver)
        run = driver.journal.run
        if exhausted(run):
            used = counted(run.max_turns, "turn")
            raise MaxTurnsExceeded(f"The run used up its {used}. Resume error.state with a higher max_turns to go on.")
    except GeneratorExit:  # the coroutine is garbage-collected with its event loop: nothing can be awaited
        raise
    except BaseException as error:
        if driver.writer is not None:
            await driver.writer.close()
        keep_state(error, driver.scope)
        raise


def keep_state(error: BaseException, scope: Scope) -> None:
    """Put the run's state on an exception; None if nothing had begun."""
    state = left_by(scope) if scope.journal.run.began is not None else None
    try:
        object.__setattr__(error, "state", state)  # works for a frozen exception too
    except AttributeError:
        error.add_note("This exception can hold no attributes, so the run's state could not be kept on it.")
