"""Repeating of a failed model call: if it is safe, and after how many seconds.

A call is never repeated once a part of its reply was shown. A call that may have had an effect at the provider, by a
conversation that the provider keeps or a tool that it runs, is repeated only if the provider has refused the request,
or if the policy approves the repetition in so many words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from ...errors import ModelFailed, ModelTimedOut
from ...models.model import ModelRequest, ModelResponse
from ...models.retry import ModelRetrySettings, RetryPolicyContext, advice_of, normalized_error, retry_decision

BEGINNINGS = ("response.created", "response.in_progress", "response.queued")
"""The types of deltas that show no part of a reply."""
UNCLEAR = 408
"""The HTTP status below 500 after which the provider may have begun all the same."""


def begins_reply(event: Any) -> bool:
    """Return True for a delta that shows no part of the reply yet."""
    kind = event.get("type") if isinstance(event, dict) else getattr(event, "type", None)
    return kind in BEGINNINGS


async def seconds_to_retry(
    retry: ModelRetrySettings, error: ModelFailed, request: ModelRequest, shown: bool, streams: bool
) -> float | None:
    """Return the seconds after which a failed call is made again; None if it is not."""
    if retry.policy is None or request.attempt > (retry.max_retries or 0) or shown:
        return None
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    normalized = normalized_error(cause)
    advice = advice_of(cause, normalized)
    acts = bool(request.conversation_id or request.previous_response_id or request.hosted)
    safe = not acts or _was_refused(normalized.status_code)
    if acts:
        advice.replay_safety = "safe" if safe else "unsafe"
    context = RetryPolicyContext(
        cause,
        request.attempt,
        retry.max_retries or 0,
        streams,
        normalized,
        advice,
        request.previous_response_id,
        request.conversation_id,
    )
    if normalized.is_abort:
        return None
    made = await retry_decision(retry.policy, context)
    if not made.retry or not (safe or made.approve_unsafe_replay):
        return None
    if made.delay is not None:
        return max(made.delay, 0)
    return normalized.retry_after if normalized.retry_after is not None else retry.pauses.delay(request.attempt)


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
        raise ModelTimedOut(f"The model {name!r} did not reply within {seconds:g} seconds; try again.") from error
