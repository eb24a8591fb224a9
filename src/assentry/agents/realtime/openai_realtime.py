"""The names of `agents.realtime.openai_realtime`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NotRequired

from msgspec import MsgspecError
from msgspec.json import decode
from typing_extensions import TypedDict

from ...errors import UsageError
from ...realtime import model as native
from ...realtime.agent import RealtimeAgent
from ...realtime.config import RealtimeModelConfig, RealtimeSessionModelSettings
from ...realtime.openai_websocket import OpenAIRealtimeWebSocketModel as OwnWebSocketModel
from ...realtime.runner import RealtimeRunner as OwnRunner
from ...realtime.wire import OpenAIRealtimeProtocol, session_of
from ..absent import find_absent
from . import model_inputs as given
from .config import RealtimeRunConfig
from .model import RealtimeModel, RealtimeModelListener
from .model_events import RealtimeModelEvent, RealtimeModelRawServerEvent, model_events_shown
from .settings import VOICE, split_config, with_voice

if TYPE_CHECKING:
    from openai.types.realtime import RealtimeSessionCreateRequest

__all__ = [
    "DEFAULT_MODEL_SETTINGS",
    "DEFAULT_REALTIME_MODEL",
    "OpenAIRealtimeSIPModel",
    "OpenAIRealtimeWebSocketModel",
    "TransportConfig",
    "get_api_key",
]

log = logging.getLogger("assentry")

DEFAULT_REALTIME_MODEL = "gpt-realtime-2.1"
DEFAULT_MODEL_SETTINGS: RealtimeSessionModelSettings = {
    "voice": VOICE,
    "modalities": ["audio"],
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "gpt-4o-mini-transcribe"},
    "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
}
"""The settings of a session that says nothing else."""
LARGEST_MESSAGE = 8 * 2**20


class TransportConfig(TypedDict):
    """Settings of the connection."""

    ping_interval: NotRequired[float | None]
    ping_timeout: NotRequired[float | None]
    handshake_timeout: NotRequired[float]
    max_size: NotRequired[int | None]


async def get_api_key(key: str | Callable[[], str | Awaitable[str]] | None) -> str | None:
    """Return the key that is given, or that a function returns; else `OPENAI_API_KEY`."""
    if isinstance(key, str):
        return key
    if key is None:
        return os.environ.get("OPENAI_API_KEY")
    found = key()
    return await found if isawaitable(found) else found


class OpenAIRealtimeWebSocketModel(OwnWebSocketModel, RealtimeModel):
    """A model of OpenAI's Realtime API over a WebSocket."""

    def __init__(self, *, transport_config: TransportConfig | None = None) -> None:
        options: dict[str, Any] = {"max_size": LARGEST_MESSAGE, **(transport_config or {})}
        self._handshake_timeout: float | None = options.pop("handshake_timeout", None)
        super().__init__(DEFAULT_REALTIME_MODEL, **options)
        self._audience = Audience()
        self._tracing: Any = None
        """The setting `tracing`, which the API takes once for each connection."""

    @property
    def model(self) -> str:
        """The model's name."""
        return self.name

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect to the model."""
        if self._handshake_timeout is not None:
            options = {**options, "connect_timeout": self._handshake_timeout}
        self._tracing = (options.get("initial_model_settings") or {}).get("tracing", "auto")
        await super().connect(options)

    async def close(self) -> None:
        """Close the connection."""
        await super().close()
        self._audience.close()

    # -- receiving -------------------------------------------------------------------------------

    def add_listener(self, listener: RealtimeModelListener | native.RealtimeModelListener) -> None:
        """Send the events to this listener from now on."""
        if isinstance(listener, RealtimeModelListener):
            self._audience.add(listener)
        else:
            super().add_listener(listener)

    def remove_listener(self, listener: RealtimeModelListener | native.RealtimeModelListener) -> None:
        """Send no more events to this listener."""
        if isinstance(listener, RealtimeModelListener):
            self._audience.remove(listener)
        else:
            super().remove_listener(listener)

    def _receive(self, text: str | bytes, connection: Any, protocol: OpenAIRealtimeProtocol) -> None:
        try:
            data: Any = decode(text)
        except (MsgspecError, ValueError, RecursionError):
            data = None  # the protocol says what is wrong with it
        if isinstance(data, dict):
            raw: Any = RealtimeModelRawServerEvent(data)
            self._tell(raw)
            if data.get("type") == "session.created" and self._tracing is not None:
                session = {"type": "realtime", "tracing": self._tracing}
                self._reply(connection, [{"type": "session.update", "session": session}])
        super()._receive(text, connection, protocol)

    def _tell(self, event: native.RealtimeModelEvent) -> None:
        super()._tell(event)
        self._audience.tell(event)

    # -- sending ---------------------------------------------------------------------------------

    async def send_event(self, event: given.RealtimeModelSendEvent | native.RealtimeModelSendEvent) -> None:
        """Send an event. A message of the user becomes part of the session's run."""
        if isinstance(event, given.RealtimeModelSendUserInput):
            await self._session().send_message(event.user_input)
        elif isinstance(event, given.RealtimeModelSendToolOutput):
            raise UsageError(
                "The output of a tool is sent by the session, once the call is decided and has run; to answer in a "
                "tool's place, use session.respond_tool_call(call_id, output)."
            )
        elif isinstance(event, given.RealtimeModelSendSessionUpdate):
            await super().send_event(native.RealtimeModelSendRawMessage(_update(event.session_settings)))
        else:
            await super().send_event(_sent(event))

    def _session(self) -> Any:
        if self.serves is None:
            raise UsageError("This realtime model serves no session: a message of the user needs one to be a part of.")
        return self.serves


def _sent(event: Any) -> native.RealtimeModelSendEvent:
    """Return an event as Assentry's own models take it."""
    match event:
        case given.RealtimeModelSendRawMessage():
            message: Any = event.message
            if isinstance(message, Mapping):
                message = {key: value for key, value in message.items() if key != "other_data"}
                message |= event.message.get("other_data") or {}
            return native.RealtimeModelSendRawMessage(message)
        case given.RealtimeModelSendAudio():
            return native.RealtimeModelSendAudio(event.audio, event.commit)
        case given.RealtimeModelSendInterrupt():
            return native.RealtimeModelSendInterrupt()
        case native.RealtimeModelSendSessionUpdate():
            settings: Any = {name: value for name, value in event.settings.items() if name != "tracing"}
            return native.RealtimeModelSendSessionUpdate(settings, event.instructions, event.tools)
    own: native.RealtimeModelSendEvent = event
    return own


ALIASES = {
    "output_modalities": ("output_modalities", "modalities"),
    "instructions": ("instructions",),
    "tool_choice": ("tool_choice",),
}
INPUT = {
    "format": "input_audio_format",
    "transcription": "input_audio_transcription",
    "noise_reduction": "input_audio_noise_reduction",
    "turn_detection": "turn_detection",
}
OUTPUT = {"format": "output_audio_format", "voice": "voice", "speed": "speed"}


def _update(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that changes the settings that are given, and no others."""
    for name in ("tools", "handoffs"):
        if name in settings:
            raise UsageError(f"{name} belong to the RealtimeAgent: change those of the agent, or hand over to another.")
    whole = session_of({name: value for name, value in settings.items() if name != "tracing"})
    audio, nested = whole.pop("audio"), settings.get("audio") or {}
    whole.pop("tools")
    for name, aliases in ALIASES.items():
        if not any(alias in settings for alias in aliases):
            whole.pop(name, None)
    changed = {
        side: {
            name: value
            for name, value in audio[side].items()
            if names[name] in settings or name in (nested.get(side) or {})
        }
        for side, names in (("input", INPUT), ("output", OUTPUT))
    }
    if any(changed.values()):
        whole["audio"] = {side: values for side, values in changed.items() if values}
    return {"type": "session.update", "session": whole}


class Audience:
    """Listeners that take events one after another, each in its own time."""

    def __init__(self) -> None:
        self._listeners: list[RealtimeModelListener] = []
        self._events: asyncio.Queue[RealtimeModelEvent] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def add(self, listener: RealtimeModelListener) -> None:
        """Tell this listener of events from now on."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove(self, listener: RealtimeModelListener) -> None:
        """Tell this listener no more."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def tell(self, event: Any) -> None:
        """Tell all listeners of an event, after those before it."""
        if not self._listeners:
            return
        for each in model_events_shown(event):
            self._events.put_nowait(each)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._pass_on(), name="assentry realtime listeners")

    async def _pass_on(self) -> None:
        while not self._events.empty():
            event = self._events.get_nowait()
            for listener in tuple(self._listeners):
                try:
                    await listener.on_event(event)
                except Exception:
                    log.exception("A listener of a realtime model failed on an event %r.", event.type)

    def close(self) -> None:
        """Drop the events that were not told."""
        while not self._events.empty():
            self._events.get_nowait()


class OpenAIRealtimeSIPModel(OpenAIRealtimeWebSocketModel):
    """A model that joins a phone call, by the `call_id` of the connection."""

    @staticmethod
    async def build_initial_session_payload(
        agent: RealtimeAgent[Any],
        *,
        context: Any = None,
        model_config: RealtimeModelConfig | None = None,
        run_config: RealtimeRunConfig | None = None,
        overrides: RealtimeSessionModelSettings | None = None,
    ) -> RealtimeSessionCreateRequest:
        """Return the session that `RealtimeRunner` would send for this agent, to accept a call with."""
        from openai.types.realtime import RealtimeSessionCreateRequest

        options: Any = dict(model_config or {})
        options["initial_model_settings"] = {**(options.get("initial_model_settings") or {}), **(overrides or {})}
        config, _ = split_config(run_config)
        options = with_voice(options, (config or {}).get("model_settings") or {})
        session = await OwnRunner(agent, config=config).run(context=context, model_config=options)
        update = await session.settings_of_agent()
        settings: Any = dict(update.settings)
        name = settings.get("model_name", DEFAULT_REALTIME_MODEL)
        payload = session_of(settings, update.instructions, update.tools)
        return RealtimeSessionCreateRequest.model_validate({**payload, "model": name})

    async def connect(self, options: RealtimeModelConfig) -> None:
        """Join the call."""
        if not options.get("call_id"):
            raise UsageError('OpenAIRealtimeSIPModel needs the call to join: model_config={"call_id": ...}.')
        await super().connect(options)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
