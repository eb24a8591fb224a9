"""The names of `agents.run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core import allowed
from ..core.number import LARGEST
from ..definitions.agent import Agent
from ..definitions.error_handler import RunErrorHandlers
from ..definitions.hooks import RunHooks
from ..runtime import runner as own
from ..sessions.session import Session as OwnSession
from .absent import find_absent
from .memory.session import Session
from .run_config import (
    DEFAULT_MAX_TURNS,
    CallModelData,
    CallModelInputFilter,
    ModelInputData,
    OutputGuardrailBlockedMessageArgs,
    OutputGuardrailBlockedMessageFormatter,
    ReasoningItemIdPolicy,
    RunConfig,
    ToolErrorFormatter,
    ToolErrorFormatterArgs,
    ToolExecutionConfig,
    ToolNameCollisionPolicy,
    ToolNotFoundBehavior,
    run_config_from,
)
from .run_context import RunContextWrapper
from .run_state import RunState

if TYPE_CHECKING:
    from ..store.record import Stored
    from ..store.store import Store
    from .items import TResponseInputItem
    from .result import RunResult, RunResultStreaming

__all__ = [
    "DEFAULT_MAX_TURNS",
    "CallModelData",
    "CallModelInputFilter",
    "ModelInputData",
    "OutputGuardrailBlockedMessageArgs",
    "OutputGuardrailBlockedMessageFormatter",
    "ReasoningItemIdPolicy",
    "RunConfig",
    "RunContextWrapper",
    "RunState",
    "Runner",
    "ToolErrorFormatter",
    "ToolErrorFormatterArgs",
    "ToolExecutionConfig",
    "ToolNameCollisionPolicy",
    "ToolNotFoundBehavior",
]


def _turns(input: Any, max_turns: int | None) -> int | None:
    """Return the limit of turns: None is no limit, and a run that is resumed keeps its own unless another is given."""
    if max_turns is None:
        return LARGEST
    return None if max_turns == DEFAULT_MAX_TURNS and not isinstance(input, str | list) else max_turns


class Runner(own.Runner):
    """Runs agents. All three methods do the same; they differ in the way that you wait for the result."""

    @classmethod
    @allowed.names_options("Runner.run")
    async def run(  # type: ignore[override]
        cls,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        error_handlers: RunErrorHandlers[Any] | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Session | OwnSession | None = None,
        store: Store | None = None,
    ) -> RunResult:
        """Run an agent until it is done or waits for a person; `max_turns=None` is no limit."""
        result: Any = await super().run(
            starting_agent,
            input,  # type: ignore[arg-type]
            context=context,
            max_turns=_turns(input, max_turns),
            hooks=hooks,
            run_config=run_config_from(run_config),
            error_handlers=error_handlers,
            previous_response_id=previous_response_id,
            auto_previous_response_id=auto_previous_response_id,
            conversation_id=conversation_id,
            session=session,  # type: ignore[arg-type]
            store=store,
        )
        return result  # type: ignore[no-any-return]

    @classmethod
    @allowed.names_options("Runner.run_sync")
    def run_sync(  # type: ignore[override]
        cls,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any] | Stored,
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        error_handlers: RunErrorHandlers[Any] | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Session | OwnSession | None = None,
        store: Store | None = None,
    ) -> RunResult:
        """Run an agent like `run`, and block until it returns. Works inside a running event loop too."""
        result: Any = super().run_sync(
            starting_agent,
            input,  # type: ignore[arg-type]
            context=context,
            max_turns=max_turns,
            hooks=hooks,
            run_config=run_config,  # type: ignore[arg-type]  # `run` reads a dict
            error_handlers=error_handlers,
            previous_response_id=previous_response_id,
            auto_previous_response_id=auto_previous_response_id,
            conversation_id=conversation_id,
            session=session,  # type: ignore[arg-type]
            store=store,
        )
        return result  # type: ignore[no-any-return]

    @classmethod
    @allowed.names_options("Runner.run_streamed")
    def run_streamed(  # type: ignore[override]
        cls,
        starting_agent: Agent[Any],
        input: str | list[TResponseInputItem] | RunState[Any] | Stored,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: RunHooks[Any] | None = None,
        run_config: RunConfig | dict[str, Any] | None = None,
        previous_response_id: str | None = None,
        auto_previous_response_id: bool = False,
        conversation_id: str | None = None,
        session: Session | OwnSession | None = None,
        *,
        error_handlers: RunErrorHandlers[Any] | None = None,
        store: Store | None = None,
    ) -> RunResultStreaming:
        """Start a run like `run` and return at once; read its `stream_events()`. Needs a running event loop."""
        result: Any = super().run_streamed(
            starting_agent,
            input,  # type: ignore[arg-type]
            context=context,
            max_turns=_turns(input, max_turns),
            hooks=hooks,
            run_config=run_config_from(run_config),
            error_handlers=error_handlers,
            previous_response_id=previous_response_id,
            auto_previous_response_id=auto_previous_response_id,
            conversation_id=conversation_id,
            session=session,  # type: ignore[arg-type]
            store=store,
        )
        return result  # type: ignore[no-any-return]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
