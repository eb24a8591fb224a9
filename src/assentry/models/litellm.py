"""LiteLLM, for the providers that have no module here: its `acompletion`, with the messages of the chat dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from ..core import allowed
from ..core.transcript import Item
from ..core.wording import install_hint
from ..errors import UsageError
from .failure import arguments_failure
from .model import ModelRequest, ModelResponse
from .openai_chat import ChatReply, chat_parameters, stream_reply
from .openai_client import openai_failure
from .wire import call_ids

DIALECT = "litellm"


class LitellmModel:
    """A model of any provider that LiteLLM knows, such as `"gemini/gemini-3-pro"`.

    Needs `pip install ".[litellm]"`. `base_url` and `api_key` are passed to LiteLLM; without them it reads the
    environment variables of the provider. A failure raises `ModelFailed`.
    """

    def __init__(self, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        allowed.check_option("LitellmModel", "model", model, allowed.NAME)
        self.name = model
        """The model's name, with the prefix of its provider."""
        self.provider = self.name.partition("/")[0] if "/" in self.name else "litellm"
        """The provider's name in traces."""
        self._own = {name: value for name, value in (("base_url", base_url), ("api_key", api_key)) if value is not None}

    def __repr__(self) -> str:
        return f"LitellmModel({self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Yield events in the form of the Responses API, and then the reply. Closing it closes the HTTP response."""
        litellm = await asyncio.to_thread(_library)  # importing it takes seconds
        wanted = chat_parameters(self.name, request, dialect=DIALECT)
        try:
            chunks = await litellm.acompletion(**{**self._own, **wanted}, stream=True)
        except TypeError as error:
            raise arguments_failure("LiteLLM", error) from error
        except Exception as error:
            raise openai_failure(self.name, error, self._own.get("api_key")) from error
        reply = LitellmReply(self.name, call_ids(request), DIALECT)
        async with aclosing(stream_reply(reply, chunks, chunks.aclose, self._own.get("api_key"))) as events:
            async for each in events:
                yield each


class LitellmReply(ChatReply):
    """A reply in LiteLLM's chunks, in which thinking blocks come in pieces."""

    def response(self) -> ModelResponse:
        """Return the whole reply, with whole thinking blocks, or raise `ModelFailed` if it is not whole."""
        if "thinking_blocks" in self.more:
            self.more["thinking_blocks"] = _join_thinking(self.more["thinking_blocks"])
        return super().response()


def _join_thinking(pieces: list[Item]) -> list[Item]:
    """Return thinking blocks that are put together from pieces; a signature ends a block."""
    blocks: list[Item] = []
    for piece in pieces:
        last = blocks[-1] if blocks else {}
        if piece.get("type") == last.get("type") == "thinking" and not last.get("signature"):
            blocks[-1] = {**last, **piece, "thinking": (last.get("thinking") or "") + (piece.get("thinking") or "")}
        else:
            blocks.append(piece)
    return blocks


def _library() -> Any:
    try:
        import litellm
    except ImportError as error:
        raise UsageError(
            f"LitellmModel needs the litellm package, which is not installed ({error}): {install_hint('litellm')}"
        ) from error
    return litellm
