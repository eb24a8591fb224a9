"""The names of `agents.realtime.runner`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ...definitions.hooks import RunHooks
from ...errors import UsageError
from ...realtime.config import RealtimeModelConfig
from ...realtime.model import RealtimeModel as OwnModel
from ...realtime.runner import RealtimeRunner as OwnRunner
from ...runtime.config import RunConfig
from ...runtime.state import RunState
from ...store.record import Stored
from ...store.store import Store
from ..absent import find_absent
from ..run_config import sdk_words
from .agent import RealtimeAgent
from .config import RealtimeRunConfig
from .model import RealtimeModel
from .openai_realtime import OpenAIRealtimeWebSocketModel
from .session import RealtimeSession
from .settings import split_config, with_voice

__all__ = ["RealtimeRunner"]


class RealtimeRunner(OwnRunner):
    """Runs live sessions of an agent: Assentry's own, with the settings and events of the SDK.

    `store`, `run_config` and `hooks` are those of `assentry.realtime.RealtimeRunner`.
    """

    session_type = RealtimeSession

    def __init__(
        self,
        starting_agent: RealtimeAgent[Any],
        *,
        model: OwnModel | None = None,
        config: RealtimeRunConfig | None = None,
        store: Store | None = None,
        run_config: RunConfig | None = None,
        hooks: RunHooks[Any] | None = None,
    ) -> None:
        if isinstance(model, RealtimeModel) and not isinstance(model, OpenAIRealtimeWebSocketModel):
            raise UsageError(
                f"{type(model).__name__} is a RealtimeModel of one's own: subclass assentry.realtime.RealtimeModel, "
                "whose events say which reply a call belongs to and when it is complete."
            )
        own, switches = split_config(config)
        if own is None or isinstance(own, dict):  # anything else is refused below
            own = {"tool_error_formatter": sdk_words, **(own or {})} if run_config is None else own
        super().__init__(starting_agent, model=model, config=own, store=store, run_config=run_config, hooks=hooks)
        self._all_events = bool(switches.get("assentry_events"))

    async def run(
        self,
        *,
        context: Any = None,
        model_config: RealtimeModelConfig | None = None,
        state: RunState[Any] | Stored | None = None,
    ) -> RealtimeSession:
        """Return a session to enter: `async with await runner.run() as session: ...`."""
        options = with_voice(model_config, self._model_settings)
        session = cast(RealtimeSession, await super().run(context=context, model_config=options, state=state))
        session.all_events = self._all_events
        return session

    def default_model(self) -> OwnModel:
        """Return a model for a session, if the runner was given none."""
        return OpenAIRealtimeWebSocketModel()


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
