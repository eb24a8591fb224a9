"""Items of OpenAI's Realtime API: from and to items of the Responses API, and as a session's users see them.

Audio is left out everywhere: the transcript stands for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..core.transcript import Item, as_function
from ..errors import UsageError
from ..models.wire import message_parts, said_texts, unsupported
from .item import (
    AssistantAudio,
    AssistantMessageItem,
    AssistantText,
    InputAudio,
    InputImage,
    InputText,
    RealtimeItem,
    RealtimeToolCallItem,
    SystemMessageItem,
    UserMessageItem,
)

WHERE = "The Realtime API"
LONGEST_ID = 32
"""The length of the longest item id that the API takes from a client."""
STATUSES: dict[Any, Literal["in_progress", "completed", "incomplete"]] = {
    "in_progress": "in_progress",
    "completed": "completed",
    "incomplete": "incomplete",
}

# -- items to send -------------------------------------------------------------------------------


def wire_items(items: Sequence[Item]) -> list[Item]:
    """Return items of the Responses API as items to create.

    Reasoning and messages without content are left out: the API has no form for them, and nothing was said in them.
    Ids that the API takes are kept, so that its events about an item name it by the same id.
    """
    out = []
    for item in items:
        made = _wire_item(as_function(item))
        if made is not None:
            id = item.get("id")
            out.append({"id": id, **made} if isinstance(id, str) and 0 < len(id) <= LONGEST_ID else made)
    return out


def _wire_item(item: Item) -> Item | None:
    kind = item.get("type", "message")
    if kind == "message":
        return _message(item)
    if kind == "function_call":
        names = ("call_id", "name", "arguments")
        return {"type": kind, **{name: _text_of(item, name) for name in names}}
    if kind == "function_call_output":
        return {"type": kind, "call_id": _text_of(item, "call_id"), "output": _output(item.get("output"))}
    if kind == "reasoning":
        return None
    raise unsupported(WHERE, f"an item of type {kind!r}")


def _text_of(item: Item, name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise UsageError(f"An item of type {item.get('type')!r} needs {name!r} as text, got {value!r:.80}.")
    return value


def _message(item: Item) -> Item | None:
    role, content = item.get("role"), item.get("content")
    if role == "assistant":
        parts = [{"type": "output_text", "text": text} for _, text in said_texts(item, WHERE) if text]
    elif role == "user":
        parts = [_user_part(part) for part in message_parts(content, WHERE)]
    elif role in ("system", "developer"):
        role, parts = "system", [_text_part(part) for part in message_parts(content, WHERE)]
    else:
        raise unsupported(WHERE, f"a message of the role {role!r}")
    return {"type": "message", "role": role, "content": parts} if parts else None


def _user_part(part: Item) -> Item:
    if part.get("type") != "input_image":
        return _text_part(part)
    if not isinstance(part.get("image_url"), str):
        raise unsupported(WHERE, "an image without an image_url")
    detail = {"detail": part["detail"]} if part.get("detail") in ("auto", "low", "high") else {}
    return {"type": "input_image", "image_url": part["image_url"], **detail}


def _text_part(part: Item) -> Item:
    if not isinstance(part.get("text"), str):
        raise unsupported(WHERE, f"a part of type {part.get('type')!r}")
    return {"type": "input_text", "text": part["text"]}


def _output(output: Any) -> str:
    """Return a tool's output as text. The API has no images or files there, so the model is told of them."""
    if isinstance(output, str):
        return output
    texts = []
    for part in message_parts(output, WHERE):
        if part.get("type") in ("input_image", "input_file"):
            what = "an image" if part["type"] == "input_image" else "a file"
            texts.append(f"[The tool gave {what}, which cannot be shown here.]")
        else:
            texts.append(str(_text_part(part)["text"]))
    return "\n".join(texts)


# -- items that came -----------------------------------------------------------------------------


def item_for_user(item: Item) -> RealtimeItem | None:
    """Return an item of the API as users see it; None for one that they do not, such as a call that is not complete."""
    kind, role, id = item.get("type"), item.get("role"), str(item.get("id") or "")
    if kind == "function_call":
        name, arguments, call_id = item.get("name"), item.get("arguments"), item.get("call_id")
        if item.get("status") != "completed" or not isinstance(name, str) or not isinstance(arguments, str):
            return None
        return RealtimeToolCallItem(id, call_id if isinstance(call_id, str) else None, name, arguments)
    if kind != "message":
        return None
    parts = _parts(item)
    if role == "user":
        return UserMessageItem(id, [seen for part in parts if (seen := _seen_input(part)) is not None])
    if role == "system":
        return SystemMessageItem(id, [InputText(_text(part, "text")) for part in parts])
    if role == "assistant":
        said = [each for part in parts if (each := _seen_output(part)) is not None]
        return AssistantMessageItem(id, said, STATUSES.get(item.get("status")))
    return None


def _parts(item: Item) -> list[Item]:
    content = item.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _text(part: Item, name: str) -> str | None:
    value = part.get(name)
    return value if isinstance(value, str) else None


def _seen_input(part: Item) -> InputText | InputAudio | InputImage | None:
    match part.get("type"):
        case "input_text":
            return InputText(_text(part, "text"))
        case "input_audio":
            return InputAudio(_text(part, "transcript"))
        case "input_image":
            return InputImage(_text(part, "image_url"), _text(part, "detail"))
    return None


def _seen_output(part: Item) -> AssistantText | AssistantAudio | None:
    match part.get("type"):
        case "output_text" | "text":
            return AssistantText(_text(part, "text"))
        case "output_audio" | "audio":
            return AssistantAudio(_text(part, "transcript"))
    return None


def read_message(item: Item, said: str = "") -> Item | None:
    """Return a message of the model as an item of the Responses API; None if nothing was said.

    `said` is what came of it in pieces. It stands in for texts that the message itself does not have.
    """
    texts = [_text(part, "transcript") or _text(part, "text") or "" for part in _parts(item)]
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts if text]
    if not content and said:
        content = [{"type": "output_text", "text": said, "annotations": []}]
    if not content:
        return None
    status = "completed" if item.get("status") == "completed" else "incomplete"
    return {"type": "message", "role": "assistant", "id": item.get("id"), "status": status, "content": content}


def read_call(item: Item) -> Item | None:
    """Return a complete call as an item of the Responses API; None if it is not complete, or not readable."""
    fields = {name: item.get(name) for name in ("id", "call_id", "name", "arguments")}
    if item.get("status") != "completed" or not all(isinstance(each, str) for each in fields.values()):
        return None
    return {"type": "function_call", **fields} if fields["call_id"] and fields["name"] else None
