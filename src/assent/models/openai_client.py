"""OpenAI's client: one for each event loop, made when it is first needed, and its failures as Assent's errors.

Requests and replies belong in the module of each wire dialect.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ModelFailed, UsageError

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

PASSING = (408, 409, 429)
"""HTTP statuses that a retry may fix, besides all from 500 on."""
PASSING_CODES = ("rate_limit_exceeded", "server_error", "vector_store_timeout")
"""Error codes in a stream that a retry may fix."""
SPENT = "insufficient_quota"
"""The error code of a 429 that a retry cannot fix."""
ADVICE = {
    401: "See that the key is right.",
    403: "See what the key and its project may do.",
    404: "See that the model's name, the base URL and the ids of the talk are right.",
    429: "Ask less often, or see to the account's limits.",
}


class LoopClient(NamedTuple):
    """A client, and the generator that closes it with its event loop."""

    client: AsyncOpenAI
    life: AsyncGenerator[None, None]


_kept: dict[asyncio.AbstractEventLoop, dict[frozenset[tuple[str, str]], LoopClient]] = {}
"""The clients by event loop, and by the `OPENAI_...` environment variables that they were made with."""


async def shared_client() -> AsyncOpenAI:
    """Return the client of this event loop, for the key and the address that are in the environment now.

    All models share it. A connection belongs to the event loop that it was opened in, and blocking calls have their
    own loops, so each loop has its own client.
    """
    loop = asyncio.get_running_loop()
    said = frozenset(each for each in os.environ.items() if each[0].startswith("OPENAI_"))
    if said not in _kept.get(loop, {}):
        _forget_closed()
        made = await asyncio.to_thread(_made)  # importing openai takes most of a second
        here = _kept.setdefault(loop, {})
        if said not in here:  # another task may have made a client meanwhile
            here[said] = LoopClient(made, _life(loop, made))
            await anext(here[said].life)
    return _kept[loop][said].client


async def _life(loop: asyncio.AbstractEventLoop, client: AsyncOpenAI) -> AsyncGenerator[None, None]:
    """Close a client at its loop's end: asyncio closes a loop's open async generators before it closes the loop."""
    try:
        yield
    finally:
        _kept.pop(loop, None)
        await client.close()


def _forget_closed() -> None:
    """Drop the clients of loops that were closed without closing their generators; nothing can be awaited there."""
    for loop in [each for each in list(_kept) if each.is_closed()]:
        _kept.pop(loop, None)


def _made() -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI
    except ImportError as error:
        raise UsageError(
            f"OpenAI's models need the openai package, which is not installed ({error}): pip install 'assent[openai]'"
        ) from error
    if not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "There is no key for OpenAI: set the environment variable OPENAI_API_KEY, or bring a client, "
            "OpenAIResponsesModel(name, AsyncOpenAI(api_key=...))."
        )
    try:
        client = AsyncOpenAI()
        client.responses  # noqa: B018  # loaded at its first use, so load it in this thread
        return client
    except Exception as error:  # the client or its HTTP client may raise anything
        raise UsageError(f"OpenAI's client cannot be made of the OPENAI_... variables that are set: {error}") from error


def failed(name: str, error: Exception) -> ModelFailed:
    """Return the `ModelFailed` for a failure of the client."""
    from openai import APIConnectionError, APIError, APIStatusError

    if isinstance(error, APIStatusError):
        return _refused(name, error)
    if isinstance(error, APIConnectionError):
        why = ": ".join(str(each).rstrip(".") for each in (error, error.__cause__) if each is not None and str(each))
        return ModelFailed(f"The model {name!r} could not be reached, or the line broke ({why}); try again.")
    if isinstance(error, APIError):  # reported in the middle of a stream
        return gave_up(name, error.code, error.message)
    return broke_off(name, f"{type(error).__name__}: {error}")


def _refused(name: str, error: APIStatusError) -> ModelFailed:
    status, body = error.status_code, error.body
    said = body.get("message") if isinstance(body, dict) else None
    passing = (status in PASSING or status >= 500) and error.code != SPENT
    asked = f", request {error.request_id}" if error.request_id else ""
    advice = ADVICE.get(status) or ("Try again later." if passing else "See what was asked.")
    return ModelFailed(
        f"The model {name!r} was asked in vain (status {status}{asked}): {said or error.message} {advice}",
        retryable=passing,
    )


def gave_up(name: str, code: str | None, message: str | None) -> ModelFailed:
    """Return the error for a stream in which the provider reports that there will be no reply."""
    why = ": ".join(each for each in (code, message) if each) or "no reason is given"
    return ModelFailed(f"The model {name!r} failed ({why}).", retryable=code is None or code in PASSING_CODES)


def broke_off(name: str, why: str) -> ModelFailed:
    """Return the error for a stream that ended before its last event."""
    return ModelFailed(f"The stream of model {name!r} broke off before the reply was complete ({why}); try again.")
