"""The messages between the page and the server: session events as JSON, and what a browser may send."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assentry import ToolApprovalItem
from assentry.realtime import event as e
from assentry.realtime import item as i
from assentry.realtime import model as m

Message = dict[str, Any]

# -- from the browser ----------------------------------------------------------------------------


class Incoming(Struct, tag_field="type", forbid_unknown_fields=True):
    """A message of the browser."""


class Audio(Incoming, tag="audio"):
    """What the microphone heard: 16-bit PCM at 24 kHz in one channel, as base64 or as a list of samples."""

    data: str | list[int]

    def pcm(self) -> bytes:
        """Return the audio as bytes; raise `BadMessage` if it is none."""
        try:
            if isinstance(self.data, list):
                return struct.pack(f"<{len(self.data)}h", *self.data)
            made = base64.b64decode(self.data, validate=True)
        except (struct.error, binascii.Error):
            raise BadMessage("The audio is not 16-bit PCM.") from None
        if len(made) % 2:
            raise BadMessage("The audio is not 16-bit PCM: it ends in the middle of a sample.")
        return made


class Text(Incoming, tag="text"):
    """What was typed."""

    text: str


class CommitAudio(Incoming, tag="commit_audio"):
    """The user has finished speaking."""


class Interrupt(Incoming, tag="interrupt"):
    """The agent is to stop talking."""


class Decision(Incoming, tag="tool_approval_decision"):
    """The decision on a call that waits. With `arguments` it is an edit, with `answer` a response."""

    call_id: str
    approve: bool
    always: bool = False
    message: str | None = None
    arguments: dict[str, Any] | str | None = None
    answer: Any | UnsetType = UNSET
    digest: str | None = None

    def edited(self) -> dict[str, Any]:
        """Return the edited arguments, which may come as JSON text so that no browser rounds a number."""
        if isinstance(self.arguments, dict):
            return self.arguments
        try:
            return msgspec.json.decode(self.arguments or "", type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BadMessage(f"The arguments are no JSON object: {error}") from None


class BadMessage(Exception):
    """A message of the browser that cannot be used. Its text is for the person there."""


AnyIncoming = Audio | Text | CommitAudio | Interrupt | Decision
_decoder = msgspec.json.Decoder(AnyIncoming)


def read(text: str | bytes) -> AnyIncoming:
    """Return the message of a browser; raise `BadMessage` if it is none."""
    try:
        made: AnyIncoming = _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessage(f"The message cannot be read: {error}") from None
    if isinstance(made, Text) and not made.text.strip():
        raise BadMessage("The message is empty.")
    if isinstance(made, Decision) and (made.arguments is not None or made.answer is not UNSET):
        if not made.approve:
            raise BadMessage("A rejection has no arguments and no answer.")
        if made.arguments is not None and made.answer is not UNSET:
            raise BadMessage("A decision has arguments or an answer, not both.")
    return made


# -- to the browser ------------------------------------------------------------------------------


def write(message: Message) -> str:
    """Return a message as JSON text."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)


def rows(arguments: str) -> list[list[str]] | None:
    """Return each argument's name and its JSON exactly as written; None if they are no object."""
    try:
        found = msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return [[name, bytes(raw).decode()] for name, raw in found.items()]


def question(asked: ToolApprovalItem) -> Message:
    """Return a call that waits, with all that a person needs to decide on it."""
    return {
        "type": "tool_approval_required",
        "tool": asked.name,
        "call_id": asked.call_id or asked.id,
        "arguments": asked.arguments,
        "rows": rows(asked.arguments),
        "agent": asked.agent.name,
        "question_id": asked.id,
        "digest": asked.digest,
        "reason": asked.reason,
        "kind": asked.kind,
        "allowed": list(asked.allowed),
        "prompt": msgspec.to_builtins(asked.question, enc_hook=str),
        "schema": asked.schema,
        "preview": msgspec.to_builtins(asked.preview),
    }


def history_item(item: i.RealtimeItem) -> Message:
    """Return an item of the conversation: its text, not its audio."""
    if isinstance(item, i.RealtimeToolCallItem):
        made = msgspec.to_builtins(item)
        return {**made, "rows": rows(item.arguments)}
    words = [_words(part) for part in item.content]
    text = None if None in words and not any(words) else " ".join(each for each in words if each)
    made = {"item_id": item.item_id, "type": "message", "role": item.role, "text": text}
    if isinstance(item, i.AssistantMessageItem):
        made["status"] = item.status
    return made


def _words(part: i.InputText | i.InputAudio | i.InputImage | i.AssistantText | i.AssistantAudio) -> str | None:
    match part:
        case i.InputText() | i.AssistantText():
            return part.text or ""
        case i.InputAudio() | i.AssistantAudio():
            return part.transcript
        case i.InputImage():
            return "(an image)"


def _call(event: e.RealtimeToolStart | e.RealtimeToolEnd) -> Message:
    tool = event.tool.name if event.tool is not None else "a tool that does not exist"
    made = {"type": event.type, "tool": tool, "call_id": event.call_id, "arguments": event.arguments}
    return {**made, "rows": rows(event.arguments)}


def _ended(event: e.RealtimeToolEnd) -> Message:
    output = event.output
    text = output if isinstance(output, str) else write(msgspec.to_builtins(output, enc_hook=str))
    return {**_call(event), "output": text}


def _raw(event: e.RealtimeRawModelEvent) -> Message | None:
    match event.data:
        case m.RealtimeModelTranscriptDeltaEvent() | m.RealtimeModelOutputTextDeltaEvent() as data:
            return {"type": "transcript_delta", "item_id": data.item_id, "delta": data.delta}
        case m.RealtimeModelConnectionStatusEvent() as data:
            return {"type": "connection", "status": data.status, "reason": data.reason}
        case _:
            return None


_WRITERS: dict[type, Callable[[Any], Message | None]] = {
    e.RealtimeAgentStartEvent: lambda event: {"type": event.type, "agent": event.agent.name},
    e.RealtimeAgentEndEvent: lambda event: {"type": event.type, "agent": event.agent.name},
    e.RealtimeHandoffEvent: lambda event: {
        "type": event.type, "from": event.from_agent.name, "to": event.to_agent.name,
    },
    e.RealtimeToolStart: _call,
    e.RealtimeToolEnd: _ended,
    e.RealtimeToolApprovalRequired: lambda event: question(event.item),
    e.RealtimeToolApprovalDecided: lambda event: {
        "type": event.type, "call_id": event.call_id or event.question_id, "question_id": event.question_id,
        "decision": event.decision, "by": event.by,
    },
    e.RealtimeAudio: lambda event: {
        "type": event.type, "audio": base64.b64encode(event.audio.data).decode(), "item_id": event.item_id,
    },
    e.RealtimeAudioEnd: lambda event: {"type": event.type, "item_id": event.item_id},
    e.RealtimeAudioInterrupted: lambda event: {"type": event.type, "item_id": event.item_id},
    e.RealtimeGuardrailTripped: lambda event: {
        "type": event.type, "message": event.message,
        "guardrails": [each.guardrail.get_name() for each in event.guardrail_results],
    },
    e.RealtimeInputAudioTimeoutTriggered: lambda event: {"type": event.type},
    e.RealtimeError: lambda event: {"type": event.type, "message": str(event.error)},
    e.RealtimeRawModelEvent: _raw,
}  # fmt: skip


def describe(event: e.RealtimeSessionEvent) -> Message | None:
    """Return an event as a message; None if the page has no use for it. The room describes the history."""
    writer = _WRITERS.get(type(event))
    return None if writer is None else writer(event)
