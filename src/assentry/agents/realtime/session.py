"""The names of `agents.realtime.session`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from ...errors import UsageError
from ...realtime import event as native
from ...realtime.session import RealtimeSession as OwnSession
from ..absent import find_absent
from .agent import RealtimeAgent
from .events import EventForms, RealtimeEventInfo, RealtimeSessionEvent
from .items import RealtimeItem
from .model import RealtimeModel

__all__ = ["RealtimeSession"]


class RealtimeSession(OwnSession):
    """A live session, from `RealtimeRunner.run`: Assentry's own, with its events and items in another form."""

    def __init__(self, *args: Any, **options: Any) -> None:
        if "agent" in options or "model_config" in options:
            raise UsageError("A RealtimeSession comes from RealtimeRunner(agent, ...).run(...), not from its class.")
        super().__init__(*args, **options)
        self._forms = EventForms(RealtimeEventInfo(self._scope.ctx))
        self._ready: deque[Any] = deque()
        self.all_events = False
        """True if events come that only Assentry has, too."""

    async def enter(self) -> Self:
        """Connect to the model, and begin; call `close()` when you are done."""
        return await self.__aenter__()

    async def __aenter__(self) -> Self:
        """Connect to the model, and begin."""
        await super().__aenter__()
        self._emit(native.RealtimeHistoryUpdated(self._conversation.history.items, self._info))
        return self

    async def __anext__(self) -> RealtimeSessionEvent:  # type: ignore[override] # in another form, which is the point
        """Return the next event."""
        while not self._ready:
            event = await super().__anext__()
            self._ready.extend(self._forms.show(event))
            if self.all_events and isinstance(event, native.RealtimeToolApprovalDecided | native.RealtimeEventsDropped):
                self._ready.append(event)
        shown: RealtimeSessionEvent = self._ready.popleft()
        return shown

    @property
    def history(self) -> list[RealtimeItem]:  # type: ignore[override]
        """The conversation so far, without audio."""
        return [self._forms.show_item(item) for item in self._conversation.history.items]

    @property
    def model(self) -> RealtimeModel:
        """The model, to send it events of its own protocol."""
        return cast(RealtimeModel, self._model)

    async def update_agent(self, agent: RealtimeAgent[Any]) -> NoReturn:
        """Refuse to change the agent: agents hand over to each other."""
        raise UsageError(
            f"A session's agent changes by a handoff: put {agent.name!r} into the handoffs of the active agent, or "
            "begin another session with it."
        )


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
