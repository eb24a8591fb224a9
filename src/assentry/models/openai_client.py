"""OpenAI's client, and its failures as Assentry's errors. Requests and replies belong in the module of each dialect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..core import allowed
from ..core.wording import install_hint
from ..errors import ModelFailed, UsageError
from .client import client_with, share_client
from .failure import is_passing, status_failure, stream_failure, unreachable_failure, without_secrets

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from .model import ModelRequest

PASSING_CODES = ("rate_limit_exceeded", "server_error", "vector_store_timeout")
"""Error codes in a stream that a retry may fix."""
SPENT = "insufficient_quota"
"""The error code of a 429 that a retry cannot fix."""


_default_client: AsyncOpenAI | None = None
_default_key: str | None = None


def set_openai_client(client: AsyncOpenAI | None) -> None:
    """Set the client of all models of OpenAI that have none of their own, in this process; None for no such client."""
    global _default_client
    allowed.check_option("set_default_openai_client", "client", client, client_with("responses"))
    _default_client = client


def set_openai_key(key: str | None) -> None:
    """Set the key of all models of OpenAI that have no client of their own; None for that of the environment."""
    global _default_key
    allowed.check_option("set_default_openai_key", "key", key, allowed.NAME.secret.or_none)
    _default_key = key


def has_openai_key() -> bool:
    """Return True if the environment or the program has given a key for OpenAI, or a client."""
    return _default_client is not None or bool(_default_key or os.environ.get("OPENAI_API_KEY"))


async def shared_client() -> AsyncOpenAI:
    """Return the client of this event loop, which all models of OpenAI share; or the program's own."""
    if _default_client is not None:
        return _default_client
    return await share_client("OPENAI_", _make_client, _default_key)


def limit_retries(client: AsyncOpenAI, request: ModelRequest) -> AsyncOpenAI:
    """Return the client without retries of its own, if the request is a retry already or shall have none."""
    retry = request.settings.retry
    if request.attempt > 1 or (retry is not None and retry.max_retries == 0):
        return client.with_options(max_retries=0)
    return client


def client_class() -> type[AsyncOpenAI]:
    """Import the client's class; raise `UsageError` if the client is not installed."""
    try:
        from openai import AsyncOpenAI
    except ImportError as error:
        raise UsageError(
            f"OpenAI's models need the openai package, which is not installed ({error}): {install_hint('openai')}"
        ) from error
    return AsyncOpenAI


def _make_client() -> AsyncOpenAI:
    make = client_class()
    if not has_openai_key():
        raise UsageError(
            "There is no key for OpenAI: set the environment variable OPENAI_API_KEY, or give a client, "
            "OpenAIResponsesModel(name, AsyncOpenAI(api_key=...))."
        )
    try:
        client = make(api_key=_default_key)
        client.responses, client.chat  # noqa: B018  # loaded at their first use, so load them in this thread
        return client
    except Exception as error:  # the client or its HTTP client may raise anything
        raise UsageError(
            f"OpenAI's client cannot be made from the OPENAI_... variables that are set: {error}"
        ) from error


def openai_failure(name: str, error: Exception, key: str | None = None) -> ModelFailed:
    """Return the `ModelFailed` for a failure of the client, without the key in it."""
    return without_secrets(error, _failure_of(name, error), key)


def _failure_of(name: str, error: Exception) -> ModelFailed:
    from openai import APIConnectionError, APIError, APIStatusError

    if isinstance(error, APIStatusError):
        said = error.body.get("message") if isinstance(error.body, dict) else None
        retryable = is_passing(error.status_code) and error.code != SPENT
        return status_failure(
            name, error.status_code, said or error.message, retryable=retryable, request=error.request_id
        )
    if isinstance(error, APIConnectionError):
        return unreachable_failure(name, error)
    if isinstance(error, APIError):  # reported in the middle of a stream
        return reported_failure(name, error.code, error.message)
    return stream_failure(name, f"{type(error).__name__}: {error}")


def reported_failure(name: str, code: str | None, message: str | None) -> ModelFailed:
    """Return the error for a stream in which the provider reports that there will be no reply."""
    why = ": ".join(each for each in (code, message) if each) or "no reason is given"
    return ModelFailed(f"The model {name!r} failed ({why}).", retryable=code is None or code in PASSING_CODES)
