"""OpenAI's Realtime API without a connection: its messages as events of a model, and the other way round.

No socket and no task belong in here: a driver feeds in what came, and sends what is returned. Items and sessions in the
API's form belong in `wire_item` and `wire_session`.
"""

from __future__ import annotations

import time
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import MsgspecError, Struct, ValidationError
from msgspec.json import Decoder, encode

from ..core.facts import Usage
from ..core.transcript import Item
from ..core.wording import described
from ..errors import UsageError
from .model import (
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelErrorEvent,
    RealtimeModelEvent,
    RealtimeModelInputAudioCommittedEvent,
    RealtimeModelInputAudioTimeoutTriggeredEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelSendAudio,
    RealtimeModelSendEvent,
    RealtimeModelSendInterrupt,
    RealtimeModelSendItems,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)
from .playback import AudioClock, RealtimePlaybackTracker, length_ms
from .wire_item import item_for_user, read_call, read_message, wire_items
from .wire_session import session_of

__all__ = ["OpenAIRealtimeProtocol", "Reaction", "session_of"]

T = TypeVar("T")
Message = dict[str, Any]
Audio = tuple[str, int]
"""An item with audio, and the index of its part."""
Status = Literal["completed", "cancelled", "incomplete", "failed"]

REASONS = {
    "turn_detected": "the user began to speak",
    "client_cancelled": "it was interrupted",
    "max_output_tokens": "it reached the limit of max_output_tokens",
    "content_filter": "a filter of the provider stopped it",
}
ENDS: dict[Any, Status] = {
    "completed": "completed",
    "cancelled": "cancelled",
    "incomplete": "incomplete",
    "failed": "failed",
}
ALREADY_ACTIVE = "conversation_already_has_active_response"
NOT_ACTIVE = "response_cancel_not_active"
"""The code of an error that means that a reply ended just before it was cancelled."""
REMEMBERED = 64
"""The number of events, at least, whose ids are remembered to leave out repeated ones."""
KEPT = 512
"""The number of replies and of items that are remembered, the newest: servers repeat and complete recent ones."""
NOTHING: tuple[Message, ...] = ()


class Reaction(NamedTuple):
    """The events for the session and the messages for the server, each in order."""

    events: Sequence[RealtimeModelEvent] = ()
    messages: Sequence[Message] = NOTHING


# -- messages of the server ----------------------------------------------------------------------
# Those below are read straight into their fields; all others become a dict first.


class AudioDelta(Struct, tag="response.output_audio.delta"):
    """A piece of audio. msgspec decodes base64 by itself."""

    response_id: str
    item_id: str
    delta: bytes
    content_index: int = 0
    event_id: str = ""


class TranscriptDelta(Struct, tag="response.output_audio_transcript.delta"):
    """A piece of the transcript of the audio."""

    response_id: str
    item_id: str
    delta: str
    event_id: str = ""


class TextDelta(Struct, tag="response.output_text.delta"):
    """A piece of text."""

    response_id: str
    item_id: str
    delta: str
    event_id: str = ""


class AudioDone(Struct, tag="response.output_audio.done"):
    """The end of the audio of an item."""

    response_id: str
    item_id: str
    content_index: int = 0
    event_id: str = ""


class Committed(Struct, tag="input_audio_buffer.committed"):
    """The user's speech as a message."""

    item_id: str
    event_id: str = ""


class Transcribed(Struct, tag="conversation.item.input_audio_transcription.completed"):
    """The transcript of the user's speech."""

    item_id: str
    transcript: str
    event_id: str = ""


class NotTranscribed(Struct, tag="conversation.item.input_audio_transcription.failed"):
    """The failure to transcribe the user's speech."""

    item_id: str
    event_id: str = ""


class TimedOut(Struct, tag="input_audio_buffer.timeout_triggered"):
    """The user's silence."""

    item_id: str
    audio_start_ms: int
    audio_end_ms: int
    event_id: str = ""


class Deleted(Struct, tag="conversation.item.deleted"):
    """The deletion of an item."""

    item_id: str
    event_id: str = ""


class Response(Struct):
    """A reply. Only its id is relied on; the rest is read with care, so that a reply always ends."""

    id: str
    status: Any = None
    status_details: Any = None
    output: Any = None
    usage: Any = None


class Created(Struct, tag="response.created"):
    """The beginning of a reply."""

    response: Response
    event_id: str = ""


class Done(Struct, tag="response.done"):
    """The end of a reply."""

    response: Response
    event_id: str = ""


Read = (
    AudioDelta
    | TranscriptDelta
    | TextDelta
    | AudioDone
    | Committed
    | Transcribed
    | NotTranscribed
    | TimedOut
    | Deleted
    | Created
    | Done
)
READ = Decoder(Read)
TAGS = frozenset(str(kind.__struct_config__.tag) for kind in Read.__args__)
ANYTHING: Decoder[Any] = Decoder()


class OpenAIRealtimeProtocol:
    """One connection's share of the protocol: `received` for each message that came, `sent` for each event to send.

    It keeps the reply under way, and never asks for a second one meanwhile: it asks once more when that one has ended.
    Events that the server repeats are left out. Make another one for the next connection.
    """

    def __init__(
        self,
        tracker: RealtimePlaybackTracker | None = None,
        now: Callable[[], float] = time.monotonic,
        default_format: Any = "pcm16",
    ) -> None:
        self._clock = AudioClock(now)
        self._tracker = tracker
        self._default_format = default_format
        self._format: Any = None
        self._byte_ms = length_ms(None, 1)
        """The milliseconds that a byte of audio lasts."""
        self._interruptible = True
        """True if the user's speech stops the model's: the server's `interrupt_response`."""
        self._detects_turns = True
        self._configured = False
        """True once the session's settings were sent: what the server greets with is out of date then."""
        self._active: str | None = None
        """The id of the reply under way."""
        self._asked: str | None = None
        """The event id of a `response.create` that the server has not answered yet."""
        self._last_create: Message = {"type": "response.create"}
        self._queued: Message | None = None
        """A `response.create` for when the reply under way has ended."""
        self._count = 0
        self._cancelled: str | None = None
        """The id of the reply that was asked to be cancelled; "" for one whose id is not known yet."""
        self._cut: str | None = None
        """The id of the reply that was interrupted. Audio of it that is still on its way is left out."""
        self._item_id = ""
        """The item of the last audio."""
        self._before: tuple[Audio, float] | None = None
        """The audio before the current one, and its milliseconds: it may still be played."""
        self._whole: Audio | None = None
        """The last audio that is complete."""
        self._replies: dict[str, bool] = {}
        """The last replies; True for those that have ended."""
        self._said: dict[str, dict[str, list[str]]] = {}
        """The pieces of text by reply and item, for messages that come without their text."""
        self._items: dict[str, tuple[int, bool]] = {}
        """The hash of the last update of each of the last items, and True if the item was complete then."""
        self._ids: dict[int, str] = {}
        """The types of the last events, by the hash of the event's id, which takes less memory than the id."""
        self._older_ids: dict[int, str] = {}
        self._ids_are_unique = True

    # -- receiving -------------------------------------------------------------------------------

    def received(self, text: str | bytes) -> Reaction:
        """Return what follows from a message of the server. It never raises: what cannot be read is an error event."""
        if not isinstance(text, str):
            return _unreadable(f"a binary message of {len(text)} bytes, where text is expected")
        try:
            event = READ.decode(text)
        except ValidationError as error:
            return self._received_other(text, error)
        except (MsgspecError, ValueError, RecursionError) as error:
            return _unreadable(f"a message that is not JSON ({error}): {described(text)}")
        kind = type(event)
        if event.event_id and self._repeated(event.event_id, kind.__name__):
            return Reaction()
        if kind is AudioDelta:
            return self._audio(event)
        handle = _READERS[kind]
        return handle(self, event)

    def _repeated(self, id: str, kind: str) -> bool:
        """Return True for an event that came before; False ever after if a server's ids do not tell events apart."""
        if not self._ids_are_unique:
            return False
        key = hash(id)
        before = self._ids.get(key) or self._older_ids.get(key)
        if before is not None:
            self._ids_are_unique = before == kind
            return before == kind
        if len(self._ids) >= REMEMBERED:
            self._older_ids, self._ids = self._ids, {}
        self._ids[key] = kind
        return False

    def _audio(self, event: AudioDelta) -> Reaction:
        if event.response_id == self._cut:
            return Reaction()
        data = event.delta
        if event.item_id != self._item_id:
            self._before = (self._clock.item, self._clock.ms) if self._clock.item is not None else None
            self._item_id = event.item_id
        self._clock.arrived(event.item_id, event.content_index, len(data) * self._byte_ms)
        return Reaction((RealtimeModelAudioEvent(data, event.response_id, event.item_id, event.content_index),))

    def _transcript(self, event: TranscriptDelta) -> Reaction:
        self._take_text(event)
        return Reaction((RealtimeModelTranscriptDeltaEvent(event.item_id, event.delta, event.response_id),))

    def _text(self, event: TextDelta) -> Reaction:
        self._take_text(event)
        return Reaction((RealtimeModelOutputTextDeltaEvent(event.item_id, event.delta, event.response_id),))

    def _take_text(self, event: TranscriptDelta | TextDelta) -> None:
        said = self._said.get(event.response_id)
        if said is None:
            said = {}
            _keep(self._said, event.response_id, said)
        said.setdefault(event.item_id, []).append(event.delta)

    def _audio_done(self, event: AudioDone) -> Reaction:
        if event.response_id == self._cut:
            return Reaction()
        self._whole = (event.item_id, event.content_index)
        return Reaction((RealtimeModelAudioDoneEvent(event.item_id, event.content_index),))

    def _committed(self, event: Committed) -> Reaction:
        return Reaction((RealtimeModelInputAudioCommittedEvent(event.item_id),))

    def _transcribed(self, event: Transcribed) -> Reaction:
        return Reaction((RealtimeModelInputAudioTranscriptionCompletedEvent(event.item_id, event.transcript),))

    def _not_transcribed(self, event: NotTranscribed) -> Reaction:
        return Reaction((RealtimeModelInputAudioTranscriptionCompletedEvent(event.item_id, None),))

    def _timed_out(self, event: TimedOut) -> Reaction:
        times = (event.audio_start_ms, event.audio_end_ms)
        return Reaction((RealtimeModelInputAudioTimeoutTriggeredEvent(event.item_id, *times),))

    def _deleted(self, event: Deleted) -> Reaction:
        self._items.pop(event.item_id, None)
        return Reaction((RealtimeModelItemDeletedEvent(event.item_id),))

    def _created(self, event: Created) -> Reaction:
        id = event.response.id
        if id in self._replies:
            return Reaction()
        _keep(self._replies, id, False)
        self._active, self._asked = id, None
        if self._cancelled == "":
            self._cancelled = self._cut = id
        return Reaction((RealtimeModelTurnStartedEvent(id),))

    def _done(self, event: Done) -> Reaction:
        response = event.response
        if self._replies.get(response.id):
            return Reaction()
        _keep(self._replies, response.id, True)
        said = {item: "".join(pieces) for item, pieces in self._said.pop(response.id, {}).items()}
        output, errors = _output(response, said)
        usage, status = _usage(response.usage), ENDS.get(response.status, "incomplete")
        ended = RealtimeModelTurnEndedEvent(response.id, output, usage, status, _reason(response), response.usage)
        return Reaction((*errors, ended), self._freed(response.id))

    def _freed(self, id: str) -> Sequence[Message]:
        """Note that a reply has ended, and return the request for the next one if it is waiting."""
        if self._active not in (None, id):
            return NOTHING
        self._active = None
        return self._queue_sent()

    def _queue_sent(self) -> Sequence[Message]:
        if self._queued is None or self._active is not None or self._asked is not None:
            return NOTHING
        queued, self._queued = self._queued, None
        return self._create(queued)

    # -- receiving what is read as a dict --------------------------------------------------------

    def _received_other(self, text: str, error: Exception) -> Reaction:
        """Read a message that `READ` does not know, or that does not have the fields of its type."""
        try:
            data = ANYTHING.decode(text)
        except (MsgspecError, ValueError, RecursionError) as why:
            return _unreadable(f"a message that is not JSON ({why}): {described(text)}")
        kind = data.get("type") if isinstance(data, dict) else None
        if not isinstance(kind, str):
            return _unreadable(f"a message that is not an event with a type: {described(text)}")
        id = data.get("event_id")
        if isinstance(id, str) and id and self._repeated(id, intern(kind)):
            return Reaction()
        if kind in TAGS:
            return self._damaged(kind, error)
        handle = _OTHERS.get(kind)
        return handle(self, data) if handle is not None else Reaction((RealtimeModelOtherEvent(data),))

    def _damaged(self, kind: str, error: Exception) -> Reaction:
        """Tell of an event without the fields that it needs. If it was to end the reply, the reply has failed."""
        told = _unreadable(f"an event {kind!r} that cannot be read ({error})")
        if kind != "response.done" or self._active is None:
            return told
        ended = Response(self._active, "failed", {"error": {"message": "the event that ended it cannot be read"}})
        done = self._done(Done(ended))
        return Reaction((*told.events, *done.events), done.messages)

    def _item_began(self, data: Message) -> Reaction:
        return self._item(data, complete=False)

    def _item_ended(self, data: Message) -> Reaction:
        return self._item(data, complete=True)

    def _item(self, data: Message, complete: bool) -> Reaction:
        item = data.get("item")
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            return _unreadable(f"an event {data['type']!r} without an item that has an id")
        seen, id = item_for_user(item), item["id"]
        if seen is None:
            return Reaction((RealtimeModelOtherEvent(data),))
        before, was_complete = self._items.get(id, (None, False))
        digest = hash(encode(seen))
        if digest == before or (was_complete and not complete):
            return Reaction()
        _keep(self._items, id, (digest, complete))
        return Reaction((RealtimeModelItemUpdatedEvent(seen),))

    def _session(self, data: Message) -> Reaction:
        """Take over what the server says of the session: the format of its audio, and who stops the model's speech."""
        if self._configured and data["type"] == "session.created":
            return Reaction((RealtimeModelOtherEvent(data),))
        audio = _field(_field(data, "session"), "audio")
        heard, spoken = _field(audio, "input"), _field(audio, "output")
        if "turn_detection" in heard:
            turns = heard["turn_detection"]
            self._detects_turns = isinstance(turns, dict)
            self._interruptible = isinstance(turns, dict) and turns.get("interrupt_response") is not False
        if isinstance(spoken.get("format"), dict):
            self._set_format(spoken["format"])
        return Reaction((RealtimeModelOtherEvent(data),))

    def _set_format(self, format: Mapping[str, Any]) -> None:
        rate = format.get("rate")
        known = {"type": format.get("type"), "rate": rate if type(rate) is int and rate > 0 else 24_000}
        if known != self._format:
            self._format, self._byte_ms = known, length_ms(known, 1)
            if self._tracker is not None:
                self._tracker.set_audio_format(known)

    def _speech_started(self, data: Message) -> Reaction:
        other = RealtimeModelOtherEvent(data)
        if not self._interruptible:
            return Reaction((other,))
        cut = self._cut_off()  # the server cancels its reply by itself
        return Reaction((other, *cut.events), cut.messages)

    def _error(self, data: Message) -> Reaction:
        error = data.get("error")
        if not isinstance(error, dict):
            return Reaction((RealtimeModelErrorEvent(error if error is not None else data),))
        code, id = error.get("code"), error.get("event_id")
        if code == NOT_ACTIVE:
            self._cancelled = None
            return Reaction((RealtimeModelOtherEvent(data),))
        if code == ALREADY_ACTIVE:
            self._refused()
            self._queued = self._queued or self._last_create
            return Reaction((RealtimeModelOtherEvent(data),))
        messages: Sequence[Message] = NOTHING
        if self._asked is not None and id == self._asked:
            self._refused()
            messages = self._queue_sent()
        return Reaction((RealtimeModelErrorEvent(error),), messages)

    def _refused(self) -> None:
        """Note that the reply that was asked for does not come, and so needs no cancelling."""
        self._asked = None
        self._cancelled = self._cancelled or None

    # -- interruption ----------------------------------------------------------------------------

    def _cut_off(self) -> Reaction:
        """Cut off the audio that was not heard: at the server, and for whoever plays it. Nothing if all was heard."""
        if self._active is not None:
            self._cut = self._active
        cut = self._unheard()
        if not cut:
            return Reaction()
        self._clock.forget()
        self._before, self._item_id = None, ""
        if self._tracker is not None:
            self._tracker.on_interrupted()
        played, heard = cut[0]
        return Reaction((RealtimeModelAudioInterruptedEvent(*played, heard),), [_truncation(*each) for each in cut])

    def _unheard(self) -> list[tuple[Audio, int]]:
        """Return the audio that was not heard to its end, first the one that is played, and what was heard of each."""
        clock, before = self._clock, self._before
        if clock.item is None:
            return []
        if self._tracker is None:
            heard, left = clock.heard_ms(), (clock.began - clock.now()) * 1000
            if before is not None and left > 0:  # the current audio begins to play only when that has ended
                return [(before[0], max(0, int(before[1] - left))), (clock.item, 0)]
        else:
            played, heard = _played(self._tracker)
            if before is not None and played == before[0] and heard < before[1]:
                return [(before[0], int(heard)), (clock.item, 0)]
            heard = min(heard, clock.ms) if played == clock.item else 0
        complete = clock.item == self._whole or self._active is None
        return [] if complete and int(heard) >= int(clock.ms) else [(clock.item, int(heard))]

    # -- sending ---------------------------------------------------------------------------------

    def sent(self, event: RealtimeModelSendEvent) -> Reaction:
        """Return the messages that an event becomes; an interruption is also an event for the session."""
        if isinstance(event, RealtimeModelSendAudio):
            return Reaction((), self._audio_messages(event))
        if isinstance(event, RealtimeModelSendItems):
            items = _encodable(wire_items(event.items))
            creates: list[Message] = [{"type": "conversation.item.create", "item": item} for item in items]
            return Reaction(
                (), [*creates, *(self._wanted({"type": "response.create"}) if event.start_response else ())]
            )
        if isinstance(event, RealtimeModelSendInterrupt):
            cancel = self._cancel()
            cut = self._cut_off()
            return Reaction(cut.events, [*cancel, *cut.messages])
        if isinstance(event, RealtimeModelSendSessionUpdate):
            session = session_of(event.settings, event.instructions, event.tools, self._default_format)
            self._detects_turns = session["audio"]["input"].get("turn_detection") is not None
            self._configured = True
            return Reaction((), [{"type": "session.update", "session": session}])
        if isinstance(event, RealtimeModelSendRawMessage):
            return Reaction((), self._raw(event.message))
        raise UsageError(f"A realtime model is sent events such as RealtimeModelSendItems, got {described(event)}.")

    def _audio_messages(self, event: RealtimeModelSendAudio) -> list[Message]:
        """Return audio to append. The API does not reply to audio that the client commits, so ask for the reply.

        With turn detection it has ended the turn itself already, or will.
        """
        messages: list[Message] = []
        if event.audio:
            audio = b2a_base64(event.audio, newline=False).decode("ascii")
            messages.append({"type": "input_audio_buffer.append", "audio": audio})
        if event.commit:
            messages.append({"type": "input_audio_buffer.commit"})
            if not self._detects_turns:
                messages += self._wanted({"type": "response.create"})
        return messages

    def _raw(self, message: Any) -> Sequence[Message]:
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise UsageError(f"A message to a realtime model is a dict with a 'type', got {described(message)}.")
        _encodable(message)
        return self._wanted(message) if message["type"] == "response.create" else [message]

    def _wanted(self, create: Message) -> Sequence[Message]:
        """Return the request for a reply, or keep it while another reply is under way. One that says more is kept."""
        if self._active is None and self._asked is None:
            self._queued = None
            return self._create(create)
        if self._queued is None or len(create) > 1:
            self._queued = create
        return NOTHING

    def _create(self, create: Message) -> Sequence[Message]:
        self._count += 1
        self._last_create = create
        create = {"event_id": f"assentry_{self._count}", **create}
        self._asked = str(create["event_id"])
        return [create]

    def _cancel(self) -> Sequence[Message]:
        """Return the request to stop the reply under way, once."""
        if self._active is not None and self._cancelled != self._active:
            self._cancelled = self._active
            return [{"type": "response.cancel", "response_id": self._active}]
        if self._active is None and self._asked is not None and self._cancelled != "":
            self._cancelled = ""
            return [{"type": "response.cancel"}]
        return NOTHING


_READERS: dict[type, Callable[[OpenAIRealtimeProtocol, Any], Reaction]] = {
    AudioDelta: OpenAIRealtimeProtocol._audio,
    TranscriptDelta: OpenAIRealtimeProtocol._transcript,
    TextDelta: OpenAIRealtimeProtocol._text,
    AudioDone: OpenAIRealtimeProtocol._audio_done,
    Committed: OpenAIRealtimeProtocol._committed,
    Transcribed: OpenAIRealtimeProtocol._transcribed,
    NotTranscribed: OpenAIRealtimeProtocol._not_transcribed,
    TimedOut: OpenAIRealtimeProtocol._timed_out,
    Deleted: OpenAIRealtimeProtocol._deleted,
    Created: OpenAIRealtimeProtocol._created,
    Done: OpenAIRealtimeProtocol._done,
}
_OTHERS: dict[str, Callable[[OpenAIRealtimeProtocol, Message], Reaction]] = {
    "session.created": OpenAIRealtimeProtocol._session,
    "session.updated": OpenAIRealtimeProtocol._session,
    "input_audio_buffer.speech_started": OpenAIRealtimeProtocol._speech_started,
    "conversation.item.added": OpenAIRealtimeProtocol._item_began,
    "conversation.item.created": OpenAIRealtimeProtocol._item_began,
    "conversation.item.done": OpenAIRealtimeProtocol._item_ended,
    "conversation.item.retrieved": OpenAIRealtimeProtocol._item_ended,
    "response.output_item.added": OpenAIRealtimeProtocol._item_began,
    "response.output_item.done": OpenAIRealtimeProtocol._item_ended,
    "error": OpenAIRealtimeProtocol._error,
}


# -- parts of messages ---------------------------------------------------------------------------


def _keep(known: dict[str, T], id: str, value: T) -> None:
    """Note a value as the newest, and forget the oldest one if there are too many."""
    known.pop(id, None)
    known[id] = value
    if len(known) > KEPT:
        del known[next(iter(known))]


def _unreadable(what: str) -> Reaction:
    return Reaction((RealtimeModelErrorEvent(f"The realtime server sent {what}."),))


def _encodable(value: T) -> T:
    """Return a value that JSON can hold, or raise `UsageError`, before anything is changed or sent for it."""
    try:
        encode(value)
    except (MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"A message to a realtime model cannot be sent as JSON: {error}.") from error
    return value


def _field(data: Any, name: str) -> dict[str, Any]:
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def _played(tracker: RealtimePlaybackTracker) -> tuple[Audio | None, float]:
    """Return the audio that a tracker says is played, and the milliseconds that were heard of it."""
    state = tracker.get_state()
    item, heard = state["current_item_id"], max(0.0, state["elapsed_ms"] or 0.0)
    return ((item, state["current_item_content_index"] or 0), heard) if item is not None else (None, 0.0)


def _truncation(item: Audio, heard: int) -> Message:
    return {"type": "conversation.item.truncate", "item_id": item[0], "content_index": item[1], "audio_end_ms": heard}


def _output(response: Response, said: dict[str, str]) -> tuple[list[Item], list[RealtimeModelErrorEvent]]:
    """Return what a reply adds to history, and an error for each call that should be complete and is not.

    `said` is what came of its messages in pieces. Calls that are not complete are left out: they must never run.
    """
    out: dict[str, Item] = {}
    errors = []
    given = response.output if isinstance(response.output, list) else []
    for n, item in enumerate(given):
        if not isinstance(item, dict):
            continue
        id = item["id"] if isinstance(item.get("id"), str) else f"#{n}"
        made = read_message(item, said.pop(id, "")) if item.get("type") == "message" else None
        if item.get("type") == "function_call":
            made = read_call(item)
            if made is None and response.status == "completed":
                errors.append(
                    RealtimeModelErrorEvent(f"The model's call {described(item)} is not complete; it is left out.")
                )
        if made is not None:
            out.setdefault(id, made)
    for id, text in said.items():
        made = read_message({"id": id}, text)
        if made is not None:
            out.setdefault(id, made)
    return list(out.values()), errors


def _reason(response: Response) -> str | None:
    """Return the reason of a reply that is not complete, in words."""
    if response.status == "completed":
        return None
    details = response.status_details if isinstance(response.status_details, dict) else {}
    error = _field(details, "error")
    words = [str(error[name]) for name in ("code", "message") if error.get(name)]
    if words:
        return ": ".join(words)
    reason = details.get("reason")
    if isinstance(reason, str):
        return REASONS.get(reason, reason)
    return None if response.status in ENDS else f"the server gives its status as {described(response.status)}"


def _usage(usage: Any) -> Usage:
    details = _field(usage, "input_token_details")
    usage = usage if isinstance(usage, dict) else {}
    return Usage(1, _count(usage, "input_tokens"), _count(usage, "output_tokens"), _count(details, "cached_tokens"))


def _count(data: dict[str, Any], name: str) -> int:
    value = data.get(name)
    return value if type(value) is int and value >= 0 else 0
