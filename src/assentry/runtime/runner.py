"""The runner: checks what a user gives, and begins or resumes a run and drives it, by the functions of `drive`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ..core import allowed
from ..core.number import is_count
from ..core.transcript import Item
from ..core.wording import described, holds
from ..definitions.agent import Agent
from ..definitions.hooks import RunHooks
from ..errors import UsageError
from ..sessions.session import Session
from .config import DEFAULT, RunConfig
from .drive import NOWHERE, RunPlace, begin_run, check_settings, drive_run, resume_run, state_to_resume
from .driver import Driver
from .result import RunResult
from .session_sync import check_session_given
from .state import RunState
from .streaming import RunResultStreaming
from .sync import block
from .value import input_json

if TYPE_CHECKING:
    from ..definitions.error_handler import RunErrorHandlers
    from ..store.record import Stored
    from ..store.store import Store


class Runner:
    """Runs agents. All three methods do the same; they differ in the way that you wait for the result."""

    @classmethod
    @allowed.names_options("Runner.run")
    async def run(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = None,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | None = None,
        error_handlers: RunErrorHandlers[Any] | None = None,
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
            error_handlers: The same as `RunConfig(error_handlers=...)`, and in place of those.
            previous_response_id: The id of the last response, if the provider keeps the conversation. The run
                records it, and also the next two settings.
            auto_previous_response_id: If True, the provider keeps the conversation from the first reply on.
            conversation_id: The id of the conversation, if the provider keeps it.
            session: The session that keeps the conversation over several runs; resume the run with the same session.
            store: The store that keeps the run and is written as the run proceeds. Decide with `store.decide(...)`, and
                continue with `Runner.run(agent, await store.load(run_id), store=store)` or with a `Worker`.
        """
        place = _place(previous_response_id, auto_previous_response_id, conversation_id, session, store)
        if place.store is not None:
            await place.store.open()
        config = _with_handlers(run_config, error_handlers)
        driver = prepare(starting_agent, input, context, max_turns, config, hooks, place)
        await drive_run(driver)
        return driver.scope.graph.class_of(RunResult)(driver.scope)

    @classmethod
    @allowed.names_options("Runner.run_sync")
    def run_sync(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = None,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | None = None,
        error_handlers: RunErrorHandlers[Any] | None = None,
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
                error_handlers=error_handlers,
                previous_response_id=previous_response_id,
                auto_previous_response_id=auto_previous_response_id,
                conversation_id=conversation_id,
                session=session,
                store=store,
            )
        )

    @classmethod
    @allowed.names_options("Runner.run_streamed")
    def run_streamed(
        cls,
        starting_agent: Agent[Any],
        input: str | list[Item] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = None,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | None = None,
        error_handlers: RunErrorHandlers[Any] | None = None,
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
        place = _place(previous_response_id, auto_previous_response_id, conversation_id, session, store)
        config = _with_handlers(run_config, error_handlers)
        driver = prepare(starting_agent, input, context, max_turns, config, hooks, place)
        result = driver.scope.graph.class_of(RunResultStreaming)(driver)
        result._start(drive_run(driver))
        return result


def _with_handlers(config: RunConfig | None, handlers: RunErrorHandlers[Any] | None) -> RunConfig | None:
    """Return the settings with other error handlers, if some are given."""
    if handlers is None:
        return config
    check_settings(config, None)
    return replace(config or DEFAULT, error_handlers=handlers)


def _place(previous: str | None, auto: bool, conversation: str | None, session: Any, store: Any) -> RunPlace:
    if previous is None and conversation is None and session is None and auto is False and store is None:
        return NOWHERE
    check_settings(None, None, store)
    for name, value in (("previous_response_id", previous), ("conversation_id", conversation)):
        if value is not None and not (type(value) is str and value and holds(value)):
            raise UsageError(f"{name} is the provider's id, a text, got {described(value)}.")
    if type(auto) is not bool:
        raise UsageError(f"auto_previous_response_id is True or False, got {described(auto)}.")
    if conversation is not None and (previous is not None or auto):
        raise UsageError("Give conversation_id or previous_response_id, not both.")
    kept = {"id": conversation} if conversation else {"previous": previous} if previous else {"auto": "yes"}
    managed = bool(conversation or previous or auto)
    if session is not None:
        check_session_given(session)
        if managed:
            raise UsageError("Give a session or the ids of the provider's conversation, not both.")
    return RunPlace(session, kept if managed else None, store)


def prepare(
    agent: Agent[Any],
    input: str | list[Item] | RunState[Any] | Stored,
    context: Any,
    max_turns: int | None,
    config: RunConfig | None,
    hooks: RunHooks[Any] | None,
    place: RunPlace,
) -> Driver:
    """Check what a user gives, and return a driver for a new run or a state."""
    if not isinstance(agent, Agent):
        raise UsageError(f"The first argument is the agent, got {described(agent)}.")
    if max_turns is not None and not is_count(max_turns):
        raise UsageError(f"max_turns must be a whole number from 1 to 2**63 - 1, got {described(max_turns)}.")
    check_settings(config, hooks)
    config = config or DEFAULT
    if not isinstance(input, str | list):
        state = state_to_resume(agent, input, context, config)
        return resume_run(agent, state, context, max_turns, config, hooks, place, Driver)
    if isinstance(input, str) and input.startswith('{"schema":') and '"journal":[' in input:
        raise UsageError("This text is a saved run; load it with RunState.from_string(agent, text), and run that.")
    return begin_run(agent, input_json(input), context, max_turns, config, hooks, place, Driver)
