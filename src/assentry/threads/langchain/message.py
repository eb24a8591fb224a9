"""Messages of LangChain as messages of threads, and back, without loss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core import messages as lc
from langchain_core.documents import Document

from ...core.wording import described
from ...errors import InvalidInput
from ..message import (
    ROLES,
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    Message,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

PAIRS: tuple[tuple[type[Message], type[lc.BaseMessage]], ...] = (
    (AIMessageChunk, lc.AIMessageChunk),
    (AIMessage, lc.AIMessage),
    (HumanMessage, lc.HumanMessage),
    (SystemMessage, lc.SystemMessage),
    (ToolMessage, lc.ToolMessage),
    (RemoveMessage, lc.RemoveMessage),
)
"""Our class and LangChain's; a subclass stands before its base."""
OURS = dict(PAIRS)
CHAT = "chat"
"""The type of LangChain's `ChatMessage`, a message with a role. It is kept with the role in `extra`."""


def from_langchain(given: lc.BaseMessage) -> Message:
    """Return a message of LangChain as ours, or raise `InvalidInput` if there is no such message here."""
    if isinstance(given, lc.BaseMessageChunk) and not isinstance(given, lc.AIMessageChunk):
        given = lc.message_chunk_to_message(given)
    kind = _kind(given)
    every = {**{name: getattr(given, name) for name in type(given).model_fields}, **(given.model_extra or {})}
    if every.pop("type") == CHAT:
        every["type"] = CHAT
    own = {name: every.pop(name) for name in kind.__struct_fields__ if name in every}
    return kind(**own, extra=every)


def _kind(given: lc.BaseMessage) -> type[Message]:
    if isinstance(given, lc.ChatMessage) and given.role in ROLES and ROLES[given.role] is not ToolMessage:
        return ROLES[given.role]
    for ours, theirs in PAIRS:
        if isinstance(given, theirs):
            return ours
    advice = (
        "give a ToolMessage, with the id of its call"
        if isinstance(given, lc.FunctionMessage)
        else ("give a HumanMessage, an AIMessage, a SystemMessage or a ToolMessage")
    )
    raise InvalidInput(f"A {type(given).__name__} of LangChain cannot be used here; {advice}; got {described(given)}.")


def to_langchain(given: Message) -> lc.BaseMessage:
    """Return a message as LangChain's.

    Nothing is validated again: LangChain would fill in calls from the `additional_kwargs` that a hook has taken out.
    """
    fields: dict[str, Any] = {name: getattr(given, name) for name in given.__struct_fields__ if name != "extra"}
    if isinstance(given, ToolMessage):
        fields["artifact"] = _with_documents(given.artifact)
    if given.extra.get("type") == CHAT:
        names = lc.BaseMessage.model_fields.keys() & fields.keys()
        return lc.ChatMessage.model_construct(**{name: fields[name] for name in names}, **given.extra)
    return OURS[type(given)].model_construct(**fields, **given.extra)


def _with_documents(value: Any) -> Any:
    """Return an artifact with LangChain's documents, which are stored as JSON, as documents again."""
    if isinstance(value, list):
        return [_with_documents(each) for each in value]
    if isinstance(value, dict) and value.get("type") == "Document" and value.keys() == Document.model_fields.keys():
        return Document(**value)
    return value


def as_langchain(given: Any) -> Any:
    """Return a message as LangChain's; LangChain's own as it is."""
    return to_langchain(given) if type(given) in OURS else given


def shown_in_langchain(messages: Iterable[Any]) -> list[lc.BaseMessage]:
    """Return messages as LangChain's; those that are already stay as they are."""
    return [as_langchain(each) for each in messages]
