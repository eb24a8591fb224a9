"""Failures of providers as Assentry's errors, for all wire dialects. Keys never appear in them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from ..errors import ModelFailed, UsageError

PASSING = (408, 409, 429)
"""HTTP statuses that a retry may fix, besides all from 500 on."""
ADVICE = {
    401: "Check the key.",
    403: "Check what the key and its project may do.",
    404: "Check the model's name, the base URL and the ids of the conversation.",
    429: "Send fewer requests, or check the account's limits.",
}
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
KEY_VARIABLES = ("_KEY", "_TOKEN", "_SECRET")
"""The ends of the names of environment variables that hold secrets."""
SHORTEST = 6
"""The length of the shortest secret. Shorter values, such as "none" for a local server, are words."""


def status_failure(name: str, status: int, said: str, *, retryable: bool, request: str | None = None) -> ModelFailed:
    """Return the error for an HTTP status that says that the request failed; `request` is the provider's id of it."""
    asked = f", request {request}" if request else ""
    advice = ADVICE.get(status) or ("Try again later." if retryable else "Check the request.")
    return ModelFailed(
        f"The model {name!r} did not answer (status {status}{asked}): {said} {advice}", retryable=retryable
    )


def is_passing(status: int) -> bool:
    """Return True if a retry may fix what an HTTP status says."""
    return status in PASSING or status >= 500


def unreachable_failure(name: str, error: Exception) -> ModelFailed:
    """Return the error for a server that cannot be reached, or does not answer in time."""
    why = ": ".join(str(each).rstrip(".") for each in (error, error.__cause__) if each is not None and str(each))
    return ModelFailed(f"The model {name!r} could not be reached, or the connection was lost ({why}); try again.")


def stream_failure(name: str, why: str) -> ModelFailed:
    """Return the error for a stream that ended before its last event."""
    return ModelFailed(f"The stream of model {name!r} stopped before the reply was complete ({why}); try again.")


def incomplete_failure(name: str, why: str, advice: str = "") -> ModelFailed:
    """Return the error for a reply that the provider cut short."""
    return ModelFailed(
        f"The model {name!r} stopped before its reply was complete ({why}). {advice}".rstrip(), retryable=False
    )


def arguments_failure(client: str, error: Exception) -> UsageError:
    """Return the error for arguments that a provider's client does not take."""
    return UsageError(f"{client} does not accept these arguments (check ModelSettings, above all extra_args): {error}")


def without_secrets(error: Exception, failure: ModelFailed, key: str | None = None) -> ModelFailed:
    """Return the failure without secrets, and take them out of the texts of its causes, which logs show with it."""
    secrets = [*([key] if key else []), *_secrets(error)]
    failure.args = _replace_secrets(failure.args, secrets)
    cause: BaseException | None = error
    while cause is not None:
        cause.args = _replace_secrets(cause.args, secrets)
        for name in ("message", "body"):  # openai and anthropic keep the text there, too
            if isinstance(getattr(cause, name, None), str):
                setattr(cause, name, _replace_secrets((getattr(cause, name),), secrets)[0])
        cause = cause.__cause__ or cause.__context__
    return failure


def _secrets(error: Exception) -> list[str]:
    """Return the keys that the request was sent with, and those in the environment, the longest first."""
    headers: Any = {}
    with suppress(RuntimeError):  # httpx raises it if there was no request
        headers = getattr(getattr(error, "request", None), "headers", None) or {}
    sent = [word for name in KEY_HEADERS for word in (headers.get(name) or "").split()]
    kept = [value for name, value in os.environ.items() if name.upper().endswith(KEY_VARIABLES)]
    return sorted(
        {each for each in (*sent, *kept) if len(each) >= SHORTEST and each != "Bearer"}, key=len, reverse=True
    )


def _replace_secrets(args: tuple[Any, ...], secrets: list[str]) -> tuple[Any, ...]:
    out = []
    for each in args:
        if isinstance(each, str):
            for secret in secrets:
                each = each.replace(secret, "***")
        out.append(each)
    return tuple(out)
