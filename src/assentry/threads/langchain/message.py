"""Messages of LangChain as messages of threads, and back, without loss."""

from __future__ import annotations

from typing import Any

from langchain_core import messages as lc

from ...core.wording import described
from ...errors import InvalidInput
from ..message import AIMessage, AIMessageChunk, HumanMessage, Message, RemoveMessage, SystemMessage, ToolMessage

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


def from_langchain(given: lc.BaseMessage) -> Message:
    """Return a message of LangChain as ours, or raise `InvalidInput` if there is no such message here."""
    for ours, theirs in PAIRS:
        if isinstance(given, theirs):
            fields = {name: getattr(given, name) for name in ours.__struct_fields__ if hasattr(given, name)}
            return ours(**fields)
    raise InvalidInput(f"A message of LangChain's class {type(given).__name__} cannot be used; got {described(given)}.")


def to_langchain(given: Message) -> lc.BaseMessage:
    """Return a message as LangChain's."""
    fields: dict[str, Any] = {name: getattr(given, name) for name in given.__struct_fields__}
    if type(given) is RemoveMessage:
        return lc.RemoveMessage(id=given.id or "")
    return OURS[type(given)](**fields)
