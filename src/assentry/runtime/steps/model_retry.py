"""Repeating of a failed model call: if it is safe, and after how many seconds.

A call is never repeated once a part of its reply was shown. A call that may have had an effect at the provider, by a
conversation or prompt that the provider keeps or a tool that it runs, is repeated only if the provider has refused the
request, or if the policy approves the repetition in so many words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from ...errors import ModelFailed, ModelTimedOut, UsageError
from ...models.model import ModelRequest, ModelResponse
from ...models.retry import (
    ModelRetryAdvice,
    ModelRetryAdviceRequest,
    ModelRetrySettings,
    RetryPolicyContext,
    advice_of,
    normalized_error,
    retry_decision,
)

BEGINNINGS = ("response.created", "response.in_progress", "response.queued")
"""The types of deltas that show no part of a reply."""
ACTING = {"background", "conversation", "previous_response_id", "prompt", "tools"}
"""The fields that a program may send by itself, with which a request may have an effect at the provider."""
UNCLEAR = 408
"""The HTTP status below 500 after which the provider may have begun all the same."""


class ShownDeltas:
    """The deltas of a call's attempts, passed on to a stream."""

    def __init__(self, show: Callable[[Any], None] | None) -> None:
        self._show = show
        self.any = False
        """True if the stream has been shown a part of a reply."""

    def __call__(self, event: Any) -> None:
        """Pass a delta on."""
        kind = event.get("type") if isinstance(event, dict) else getattr(event, "type", None)
        self.any = self.any or kind not in BEGINNINGS
        if self._show is not None:
            self._show(event)


async def seconds_to_retry(
    retry: ModelRetrySettings, error: Exception, request: ModelRequest, model: Any
) -> float | None:
    """Return the seconds after which a failed call is made again; None if it is not.

    The caller sees to it that no part of the reply was shown.
    """
    most = retry.max_retries or 0
    if retry.policy is None or request.attempt > most or isinstance(error, UsageError):
        return None
    cause = error.__cause__ if isinstance(error, ModelFailed) and isinstance(error.__cause__, Exception) else error
    advice = _advice(cause, request, model)
    normalized = advice.normalized or normalized_error(cause)
    acts = _may_act(request)
    safe = not acts or _was_refused(normalized.status_code)
    if acts:
        advice.replay_safety = "safe" if safe else "unsafe"
    safe = safe and advice.replay_safety != "unsafe"
    kept = request.previous_response_id, request.conversation_id
    context = RetryPolicyContext(cause, request.attempt, most, request.streamed, normalized, advice, *kept)
    if normalized.is_abort:
        return None
    made = await retry_decision(retry.policy, context)
    if not made.retry or not (safe or made.approve_unsafe_replay):
        return None
    if made.delay is not None:
        return max(made.delay, 0)
    return normalized.retry_after if normalized.retry_after is not None else retry.pauses.delay(request.attempt)


def _may_act(request: ModelRequest) -> bool:
    """Return True if the request may have an effect at the provider; a stored prompt may have tools that it runs."""
    sent = {**(request.settings.extra_body or {}), **(request.settings.extra_args or {})}
    kept = request.conversation_id or request.previous_response_id
    return bool(kept or request.hosted or request.prompt is not None or sent.keys() & ACTING)


def _advice(cause: Exception, request: ModelRequest, model: Any) -> ModelRetryAdvice:
    """Return the model's own advice about a failure, or that of the provider's answer."""
    normalized = normalized_error(cause)
    advise, own = getattr(model, "get_retry_advice", None), None
    if callable(advise):
        kept = request.previous_response_id, request.conversation_id
        own = advise(ModelRetryAdviceRequest(cause, request.attempt, request.streamed, *kept))
    if own is None:
        return advice_of(cause, normalized)
    safety, started = getattr(own, "replay_safety", None), bool(getattr(own, "response_started", False))
    waits = own.retry_after if own.retry_after is not None else normalized.retry_after
    said = getattr(own, "normalized", None) or replace(normalized, retry_after=waits)
    return ModelRetryAdvice(own.suggested, waits, safety, own.reason, said, started)


def _was_refused(status: int | None) -> bool:
    """Return True if the provider has not begun with the request."""
    return status is not None and 400 <= status < 500 and status != UNCLEAR


async def within_timeout(work: Awaitable[ModelResponse], seconds: float | None, name: str) -> ModelResponse:
    """Await an attempt, or raise `ModelTimedOut` after this time."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise
        words = f"The model {name!r} did not reply within {seconds:g} seconds; try again."
        raise ModelTimedOut(words, timeout_seconds=seconds or 0) from error
