"""LangChain's `trim_messages`, which takes messages of threads too and gives back the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core import messages as lc

from ..foreign import is_langchain_message
from ..message import Message
from .message import from_langchain, to_langchain


def trim_messages(messages: Sequence[Any] | None = None, **options: Any) -> Any:
    """Return the messages that LangChain keeps within a number of tokens; without messages, a runnable that does."""
    if messages is None or not any(_is_ours(each) for each in messages):
        return lc.trim_messages(messages, **options)
    theirs = [to_langchain(each) if _is_ours(each) else each for each in messages]
    return [from_langchain(each) for each in lc.trim_messages(theirs, **options)]


def _is_ours(message: Any) -> bool:
    return isinstance(message, Message) and not is_langchain_message(message)
