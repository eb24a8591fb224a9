"""A client's connection to the local realtime server: its events as the API takes them, and what the API refuses."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from .realtime_reply import ServerReply
from .realtime_voice import SpeechDetector, bytes_per_ms

Event = dict[str, Any]

# fmt: off
SESSION_FIELDS = (
    "type", "id", "object", "model", "instructions", "output_modalities", "audio", "tools", "tool_choice",
    "max_output_tokens", "parallel_tool_calls", "reasoning", "prompt", "tracing", "truncation", "include",
)
# fmt: on
AUDIO_FIELDS: dict[str, tuple[str, ...]] = {
    "input": ("format", "noise_reduction", "transcription", "turn_detection"),
    "output": ("format", "voice", "speed"),
}
PARTS = {
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text", "output_audio"),
    "system": ("input_text",),
}
SHORTEST_MS = 100
"""The shortest audio that can be committed."""
SILENCE_MS = 500
PADDING_MS = 300
_PCM = {"type": "audio/pcm", "rate": 24_000}
MAX_ITEM_ID = 32


class Refusal(Exception):
    """An event that the API refuses: its code, its message and the parameter that is wrong."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


class ClientGone(Exception):
    """The client is gone."""


class ClientConnection:
    """A client's connection: its session and its conversation."""

    def __init__(
        self,
        model: str,
        send: Callable[[Event], Awaitable[None]],
        sent: list[Event],
        reply_of: Callable[[list[Event], Sequence[Mapping[str, Any]]], Awaitable[list[Any]]],
        transcript_of: Callable[[bytes], Awaitable[str | None]],
        new_id: Callable[[str], str],
    ) -> None:
        self.sent = sent
        self.items: list[Event] = []
        self.session = _session(model, new_id("sess"))
        self._send = send
        self._reply_of = reply_of
        self._transcript_of = transcript_of
        self._new_id = new_id
        self._reply: ServerReply | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        """True if the user's turn ended while a reply was being cancelled."""
        self._audio = b""
        self._audio_ms: dict[str, int] = {}
        self._detector = SpeechDetector()
        self._speech_item = ""
        """The id that the user's next message will have."""

    async def open(self) -> None:
        """Greet the client."""
        await self.tell("session.created", session=self.session)

    async def close(self) -> None:
        """Stop the reply under way: the connection has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def tell(self, type: str, **fields: Any) -> None:
        """Send an event, as everything is now."""
        await self._send({"type": type, "event_id": self._new_id("event"), **deepcopy(fields)})

    async def take(self, event: Any) -> None:
        """Do what an event of the client asks for, or refuse it."""
        id = event.get("event_id") if isinstance(event, dict) else None
        try:
            if isinstance(event, bytes):
                raise Refusal("invalid_message", "Binary messages are not accepted; send JSON as text.")
            if not isinstance(event, dict):
                raise Refusal("invalid_json", "The message is not a JSON object.")
            act = ACTS.get(str(event.get("type")))
            if act is None:
                raise Refusal("invalid_value", f"Invalid value: '{event.get('type')}'.", "type")
            try:
                await act(self, event)
            except (AttributeError, LookupError, TypeError, ValueError) as why:
                raise Refusal("invalid_type", f"The event cannot be read: {why!r}.") from why
        except Refusal as refusal:
            error = {"type": "invalid_request_error", "code": refusal.code, "message": str(refusal)}
            await self.tell("error", error={**error, "param": refusal.param, "event_id": id})

    # -- session ---------------------------------------------------------------------------------

    async def _update(self, event: Event) -> None:
        session = _object(event, "session")
        if session.get("type") != "realtime":
            raise Refusal("invalid_value", "session.type must be 'realtime'.", "session.type")
        for name in session:
            if name not in SESSION_FIELDS:
                raise Refusal("unknown_parameter", f"Unknown parameter: 'session.{name}'.", f"session.{name}")
        audio = deepcopy(self.session["audio"])
        for side, fields in _object(session, "audio", {}).items():
            for name in fields:
                if name not in AUDIO_FIELDS.get(side, ()):
                    param = f"session.audio.{side}.{name}"
                    raise Refusal("unknown_parameter", f"Unknown parameter: '{param}'.", param)
            audio[side].update(fields)
        if self._audio_ms and audio["output"]["voice"] != self.session["audio"]["output"]["voice"]:
            raise Refusal("cannot_update_voice", "Cannot update a conversation's voice once there was audio.")
        if session.get("output_modalities", ["audio"]) not in (["audio"], ["text"]):
            param = "session.output_modalities"
            raise Refusal("invalid_value", "Supported combinations are: ['text'] and ['audio'].", param)
        _check_tools(session.get("tools", []))
        self.session.update({**session, "model": self.session["model"], "audio": audio})
        await self.tell("session.updated", session=self.session)

    # -- items -----------------------------------------------------------------------------------

    def _find(self, id: Any, code: str) -> Event:
        for item in self.items:
            if item["id"] == id:
                return item
        raise Refusal(code, f"Item with item_id '{id}' was not found.", "item_id")

    def _add(self, item: Event, after: Any = None) -> str | None:
        """Add an item, after another or at the end, and return the id of the one before."""
        at = len(self.items)
        if after == "root":
            at = 0
        elif after is not None:
            at = self.items.index(self._find(after, "item_create_invalid_previous_item_id")) + 1
        self.items.insert(at, item)
        return self.items[at - 1]["id"] if at else None

    async def _create_item(self, event: Event) -> None:
        given = _object(event, "item")
        item = {"object": "realtime.item", **deepcopy(given), "status": "completed"}
        item["id"] = given.get("id") or self._new_id("item")
        if len(str(item["id"])) > MAX_ITEM_ID:
            raise Refusal("string_above_max_length", f"item.id is longer than {MAX_ITEM_ID} characters.", "item.id")
        if any(each["id"] == item["id"] for each in self.items):
            raise Refusal("item_create_duplicate_item", f"There is an item '{item['id']}' already.", "item.id")
        _check_item(item)
        if item["type"] == "function_call_output":
            calls = [each["call_id"] for each in self.items if each["type"] == "function_call"]
            if item["call_id"] not in calls:
                message = f"Tool call ID '{item['call_id']}' not found in conversation."
                raise Refusal("invalid_tool_call_id", message, "item.call_id")
        before = self._add(item, event.get("previous_item_id"))
        await self._tell_item(item, before)

    async def _tell_item(self, item: Event, before: str | None) -> None:
        await self.tell("conversation.item.added", previous_item_id=before, item=item)
        await self.tell("conversation.item.done", previous_item_id=before, item=item)

    async def _delete_item(self, event: Event) -> None:
        self.items.remove(self._find(event.get("item_id"), "item_delete_invalid_item_id"))
        await self.tell("conversation.item.deleted", item_id=event["item_id"])

    async def _retrieve_item(self, event: Event) -> None:
        item = self._find(event.get("item_id"), "item_retrieve_invalid_item_id")
        await self.tell("conversation.item.retrieved", item=item)

    async def _truncate_item(self, event: Event) -> None:
        item = self._find(event.get("item_id"), "item_truncate_invalid_item_id")
        until, index = event.get("audio_end_ms"), event.get("content_index")
        length = self._audio_ms.get(item["id"]) or (self._reply.audio_ms.get(item["id"]) if self._reply else None)
        if length is None:
            raise Refusal("invalid_value", "Only audio of the model can be truncated.", "item_id")
        if type(until) is not int or until < 0 or index != 0:
            raise Refusal("invalid_value", "audio_end_ms and content_index must fit the audio.", "audio_end_ms")
        if until > length:
            message = f"Audio content of {length}ms is already shorter than {until}ms"
            raise Refusal("invalid_value", message, "audio_end_ms")
        for part in item.get("content", ()):
            part.pop("transcript", None)  # so that no text is left that was not heard
        self._audio_ms[item["id"]] = until
        where = {"item_id": item["id"], "content_index": index}
        await self.tell("conversation.item.truncated", **where, audio_end_ms=until)

    # -- the user's audio ------------------------------------------------------------------------

    async def _append(self, event: Event) -> None:
        try:
            data = b64decode(event.get("audio", ""), validate=True)
        except (ValueError, TypeError):
            raise Refusal("invalid_value", "audio must be base64.", "audio") from None
        turns = self.session["audio"]["input"]["turn_detection"]
        self._audio += data
        if turns is None or self.session["audio"]["input"]["format"]["type"] != "audio/pcm":
            return
        if not self._detector.speaking:
            kept = (turns.get("prefix_padding_ms") or PADDING_MS) * bytes_per_ms(_PCM)
            self._audio = self._audio[-max(kept, len(data)) :]
        for what in self._detector.detect(data, turns.get("silence_duration_ms") or SILENCE_MS):
            await (self._start_speech(turns) if what == "started" else self._stop_speech(turns))

    async def _start_speech(self, turns: Event) -> None:
        self._speech_item = self._new_id("item")
        await self.tell(
            "input_audio_buffer.speech_started", audio_start_ms=self._detector.ms, item_id=self._speech_item
        )
        if turns.get("interrupt_response") is not False and self._reply is not None:
            self._reply.cancel("turn_detected")

    async def _stop_speech(self, turns: Event) -> None:
        await self.tell("input_audio_buffer.speech_stopped", audio_end_ms=self._detector.ms, item_id=self._speech_item)
        await self._add_speech()
        if turns.get("create_response") is False:
            return
        if self._reply is None:
            await self._respond({})
        else:
            self._wanted = self._reply.status == "cancelled"

    async def _commit(self, event: Event) -> None:
        if len(self._audio) < SHORTEST_MS * bytes_per_ms(self.session["audio"]["input"]["format"]):
            raise Refusal("input_audio_buffer_commit_empty", "The buffer has less than 100ms of audio.")
        self._speech_item = self._new_id("item")
        await self._add_speech()

    async def _clear(self, event: Event) -> None:
        self._audio = b""
        self._detector.reset()
        await self.tell("input_audio_buffer.cleared")

    async def _add_speech(self) -> None:
        """Make a message of the audio, and tell its transcript."""
        audio, self._audio = self._audio, b""
        self._detector.reset()
        part: Event = {"type": "input_audio", "transcript": None}
        item: Event = {"id": self._speech_item, "object": "realtime.item", "type": "message", "status": "completed"}
        item |= {"role": "user", "content": [part]}
        before = self._add(item)
        await self.tell("input_audio_buffer.committed", previous_item_id=before, item_id=item["id"])
        await self._tell_item(item, before)
        part["transcript"] = transcript = await self._transcript_of(audio)
        if self.session["audio"]["input"]["transcription"] is None:
            return
        where = {"item_id": item["id"], "content_index": 0}
        kind = "conversation.item.input_audio_transcription"
        if transcript is None:
            error = {"type": "transcription_error", "code": "audio_unintelligible", "message": "It was not understood."}
            await self.tell(f"{kind}.failed", **where, error={**error, "param": None})
            return
        seconds = len(audio) / bytes_per_ms(self.session["audio"]["input"]["format"]) / 1000
        await self.tell(
            f"{kind}.completed", **where, transcript=transcript, usage={"type": "duration", "seconds": seconds}
        )

    # -- replies ---------------------------------------------------------------------------------

    async def _create_response(self, event: Event) -> None:
        if self._reply is not None:
            message = f"Conversation already has an active response in progress: {self._reply.id}. Wait until it ends."
            raise Refusal("conversation_already_has_active_response", message)
        await self._respond(_object(event, "response", {}))

    async def _respond(self, options: Event) -> None:
        session = {**self.session, **{k: v for k, v in options.items() if k == "output_modalities"}}
        self._reply = reply = ServerReply(self._new_id("resp"), session, self.tell, self._add, self._new_id)
        await self.tell("response.created", response=reply.as_dict())
        self._task = asyncio.create_task(self._run_reply(reply), name="assentry realtime server reply")

    async def _run_reply(self, reply: ServerReply) -> None:
        try:
            try:
                parts = await self._reply_of(deepcopy(self.items), self.session["tools"])
            except Exception as error:
                reply.fail(getattr(error, "code", "server_error"), str(error))
            else:
                await reply.run(parts)
            self._audio_ms = {**reply.audio_ms, **self._audio_ms}
            self._reply = None
            await self.tell("response.done", response=reply.as_dict(_usage(self.items, reply)))
            limit = {"name": "tokens", "limit": 40_000, "remaining": 39_000, "reset_seconds": 0.1}
            await self.tell("rate_limits.updated", rate_limits=[limit])
            if self._wanted:
                self._wanted = False
                await self._respond({})
        except ClientGone:
            pass

    async def _cancel_response(self, event: Event) -> None:
        id = event.get("response_id")
        if self._reply is None or id not in (None, self._reply.id):
            raise Refusal("response_cancel_not_active", "Cancellation failed: no active response found")
        self._reply.cancel("client_cancelled")


ACTS: dict[str, Callable[[ClientConnection, Event], Awaitable[None]]] = {
    "session.update": ClientConnection._update,
    "conversation.item.create": ClientConnection._create_item,
    "conversation.item.delete": ClientConnection._delete_item,
    "conversation.item.retrieve": ClientConnection._retrieve_item,
    "conversation.item.truncate": ClientConnection._truncate_item,
    "input_audio_buffer.append": ClientConnection._append,
    "input_audio_buffer.commit": ClientConnection._commit,
    "input_audio_buffer.clear": ClientConnection._clear,
    "response.create": ClientConnection._create_response,
    "response.cancel": ClientConnection._cancel_response,
}


def _object(event: Event, name: str, default: Event | None = None) -> Event:
    value = event.get(name, default)
    if not isinstance(value, dict):
        raise Refusal("missing_required_parameter", f"Missing required parameter: '{name}'.", name)
    return value


def _check_tools(tools: Any) -> None:
    for tool in tools:
        if tool.get("type") != "function" or not isinstance(tool.get("name"), str):
            raise Refusal("invalid_value", "A tool is a function with a name.", "session.tools")


def _check_item(item: Event) -> None:
    kind = item.get("type")
    if kind == "message":
        allowed = PARTS.get(str(item.get("role")))
        if allowed is None:
            raise Refusal("invalid_value", f"Invalid value: '{item.get('role')}'.", "item.role")
        for part in item.get("content") or [{}]:
            if part.get("type") not in allowed:
                raise Refusal("invalid_value", f"Invalid value: '{part.get('type')}'.", "item.content[0].type")
        return
    fields = {"function_call": ("call_id", "name", "arguments"), "function_call_output": ("call_id", "output")}
    if kind not in fields:
        raise Refusal("invalid_value", f"Invalid value: '{kind}'.", "item.type")
    for name in fields[str(kind)]:
        if not isinstance(item.get(name), str):
            raise Refusal("invalid_type", f"Invalid type for 'item.{name}': expected a string.", f"item.{name}")


def _session(model: str, id: str) -> Event:
    """Return the session that a connection begins with."""
    turns = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": PADDING_MS, "silence_duration_ms": SILENCE_MS}
    turns |= {"idle_timeout_ms": None, "create_response": True, "interrupt_response": True}
    heard = {"format": {**_PCM}, "transcription": None, "noise_reduction": None, "turn_detection": turns}
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": id,
        "model": model,
        "instructions": "",
        "output_modalities": ["audio"],
        "audio": {"input": heard, "output": {"format": {**_PCM}, "voice": "marin", "speed": 1.0}},
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
    }


def _usage(items: Sequence[Event], reply: ServerReply) -> Event:
    """Return token counts that grow with the conversation and the reply."""
    given, made = 10 * len(items), 5 * len(reply.output)
    cached = {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0}
    return {
        "total_tokens": given + made,
        "input_tokens": given,
        "output_tokens": made,
        "input_token_details": {
            "text_tokens": given,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": 0,
            "cached_tokens_details": cached,
        },
        "output_token_details": {"text_tokens": made, "audio_tokens": 0},
    }
