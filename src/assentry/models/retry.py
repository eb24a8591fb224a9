"""Retries of a model call: the settings, the policies that decide, and what a policy is told of a failure.

Making the call again, and deciding if that is safe, belong to the model step.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from inspect import isawaitable
from typing import Any

from ..core import allowed
from .failure import is_passing

INITIAL_DELAY, MAX_DELAY, MULTIPLIER = 0.25, 2.0, 2.0
"""The seconds before the first retry, the most before any, and the factor between two."""
POSITIVE = allowed.Values("a number from 0", lambda value: type(value) in (int, float) and value >= 0).or_none


@dataclass
class ModelRetryBackoffSettings:
    """The pauses between retries, for a policy that gives no delay of its own. None is the default."""

    initial_delay: float | None = None
    """Seconds before the first retry, 0.25 by default."""
    max_delay: float | None = None
    """The most seconds before any retry, 2 by default."""
    multiplier: float | None = None
    """The factor from each pause to the next, 2 by default."""
    jitter: bool | None = None
    """True, the default, if pauses are varied by an eighth at random."""

    def __post_init__(self) -> None:
        for name in ("initial_delay", "max_delay", "multiplier"):
            allowed.check_option("ModelRetryBackoffSettings", name, getattr(self, name), POSITIVE)
        allowed.check_option("ModelRetryBackoffSettings", "jitter", self.jitter, allowed.BOOL.or_none)

    def to_json_dict(self) -> dict[str, Any]:
        """Return the settings as JSON data."""
        return asdict(self)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after this attempt."""
        first = INITIAL_DELAY if self.initial_delay is None else self.initial_delay
        most = MAX_DELAY if self.max_delay is None else self.max_delay
        factor = MULTIPLIER if self.multiplier is None else self.multiplier
        base: float = min(first * factor ** min(attempt - 1, 64), most)
        return base if self.jitter is False else min(base * random.uniform(0.875, 1.125), most)


@dataclass
class ModelRetryNormalizedError:
    """A failure of a model call, in one form for all providers."""

    status_code: int | None = None
    error_code: str | None = None
    message: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    """The seconds after which the provider says to try again."""
    is_abort: bool = False
    is_network_error: bool = False
    is_timeout: bool = False


@dataclass
class ModelRetryAdvice:
    """A model's own advice about a failure."""

    suggested: bool | None = None
    """True if the model says to try again, and False if it says not to."""
    retry_after: float | None = None
    replay_safety: str | None = None
    """"safe" if the request had no effect, "unsafe" if it may have had one, None if that is unknown."""
    reason: str | None = None
    normalized: ModelRetryNormalizedError | None = None
    response_started: bool = False
    """True if the reply had begun when the call failed."""


@dataclass
class ModelRetryAdviceRequest:
    """A failure that a model is asked to give advice about."""

    error: Exception
    attempt: int
    stream: bool
    previous_response_id: str | None = None
    conversation_id: str | None = None


@dataclass
class RetryDecision:
    """A policy's decision about a retry."""

    retry: bool
    delay: float | None = None
    """Seconds to wait; None for the settings' own pause."""
    reason: str | None = None
    approve_unsafe_replay: bool = False
    """True to repeat a request that may have had an effect at the provider.

    Such a request is not repeated otherwise, whatever `retry` says."""
    _veto: str | None = field(default=None, init=False, repr=False, compare=False)
    """"hard" if no other policy may overrule a refusal, "replay" if one may that approves an unsafe replay."""


@dataclass
class RetryPolicyContext:
    """A failed model call, as a retry policy gets it."""

    error: Exception
    """The provider's own exception."""
    attempt: int
    """The number of attempts so far."""
    max_retries: int
    stream: bool
    normalized: ModelRetryNormalizedError
    provider_advice: ModelRetryAdvice | None = None
    previous_response_id: str | None = None
    conversation_id: str | None = None

    @property
    def response_started(self) -> bool:
        """True if the reply had begun when the call failed."""
        return self.provider_advice is not None and self.provider_advice.response_started

    @property
    def replay_safety(self) -> str:
        """The effect that the request may have had: "safe", "unsafe" or "unknown"."""
        safety = self.provider_advice.replay_safety if self.provider_advice is not None else None
        return safety if safety in ("safe", "unsafe") else "unknown"

    @property
    def stateful_request(self) -> bool:
        """True if the provider keeps the conversation."""
        return bool(self.previous_response_id or self.conversation_id)


RetryPolicy = Callable[[RetryPolicyContext], "bool | RetryDecision | Awaitable[bool | RetryDecision]"]
"""A function that decides if a failed model call is made again."""


def _is_backoff(value: Any) -> bool:
    return isinstance(value, ModelRetryBackoffSettings)


@dataclass
class ModelRetrySettings:
    """Retries of model calls that fail. Without a policy there are none besides those of the provider's client."""

    max_retries: int | None = None
    """The number of attempts after the first. With 0, the provider's client makes no retries either."""
    backoff: ModelRetryBackoffSettings | dict[str, Any] | None = None
    policy: RetryPolicy | None = field(default=None, repr=False)
    """The function that decides, such as `retry_policies.network_error()`."""

    def __post_init__(self) -> None:
        if isinstance(self.backoff, dict):
            allowed.check_names("ModelRetrySettings", self.backoff, BACKOFF_OPTIONS, within="backoff.")
            self.backoff = ModelRetryBackoffSettings(**self.backoff)
        allowed.check_option("ModelRetrySettings", "max_retries", self.max_retries, allowed.whole_number(0).or_none)
        backoff = allowed.Values("a ModelRetryBackoffSettings or a dict", _is_backoff).or_none
        allowed.check_option("ModelRetrySettings", "backoff", self.backoff, backoff)
        allowed.check_option("ModelRetrySettings", "policy", self.policy, allowed.CALLABLE.or_none)

    def to_json_dict(self) -> dict[str, Any]:
        """Return the settings as JSON data, without the policy."""
        return {"max_retries": self.max_retries, "backoff": asdict(self.pauses) if self.backoff is not None else None}

    @property
    def pauses(self) -> ModelRetryBackoffSettings:
        """The pauses between retries."""
        return self.backoff if isinstance(self.backoff, ModelRetryBackoffSettings) else ModelRetryBackoffSettings()

    def merged(self, override: ModelRetrySettings) -> ModelRetrySettings:
        """Return these settings with those that `override` sets replaced."""
        backoff: dict[str, Any] = {}
        for each in (self, override):
            backoff |= {name: value for name, value in asdict(each.pauses).items() if value is not None}
        return ModelRetrySettings(
            self.max_retries if override.max_retries is None else override.max_retries,
            backoff or None,
            override.policy or self.policy,
        )


BACKOFF_OPTIONS = ("initial_delay", "max_delay", "multiplier", "jitter")


async def retry_decision(policy: RetryPolicy, context: RetryPolicyContext) -> RetryDecision:
    """Return a policy's decision."""
    made: Any = policy(context)
    made = await made if isawaitable(made) else made
    return made if isinstance(made, RetryDecision) else RetryDecision(bool(made))


class RetryPolicies:
    """Policies for `ModelRetrySettings(policy=...)`. Use them as `retry_policies.network_error()`."""

    def never(self) -> RetryPolicy:
        """Return the policy that never tries again."""
        return lambda context: False

    def provider_suggested(self) -> RetryPolicy:
        """Return the policy that does as the provider says; if the provider says no, no other policy overrules it."""

        def policy(context: RetryPolicyContext) -> bool | RetryDecision:
            advice = context.provider_advice
            if advice is None or advice.suggested is None:
                return False
            made = RetryDecision(advice.suggested, advice.retry_after if advice.suggested else None, advice.reason)
            if not made.retry:
                made._veto = "replay" if context.replay_safety == "unsafe" else "hard"
            return made

        return policy

    def network_error(self) -> RetryPolicy:
        """Return the policy that tries again if the provider could not be reached or did not answer in time."""
        return lambda context: context.normalized.is_network_error or context.normalized.is_timeout

    def retry_after(self) -> RetryPolicy:
        """Return the policy that tries again when the provider says to, if it says when."""

        def policy(context: RetryPolicyContext) -> bool | RetryDecision:
            delay = context.normalized.retry_after
            if delay is None and context.provider_advice is not None:
                delay = context.provider_advice.retry_after
            return False if delay is None else RetryDecision(True, delay)

        return policy

    def http_status(self, statuses: Iterable[int]) -> RetryPolicy:
        """Return the policy that tries again for these HTTP statuses."""
        known = frozenset(statuses)
        return lambda context: context.normalized.status_code in known

    def all(self, *policies: RetryPolicy) -> RetryPolicy:
        """Return the policy that tries again if all of these do."""

        async def policy(context: RetryPolicyContext) -> bool | RetryDecision:
            made = [await retry_decision(each, context) for each in policies]
            refused = next((each for each in made if not each.retry and each._veto != "replay"), None)
            return refused or _joined(made)

        return policy if policies else self.never()

    def any(self, *policies: RetryPolicy) -> RetryPolicy:
        """Return the policy that tries again if one of these does, and none of them forbids it."""

        async def policy(context: RetryPolicyContext) -> bool | RetryDecision:
            made = [await retry_decision(each, context) for each in policies]
            vetoed = next((each for each in made if each._veto == "hard"), None)
            wanted = [each for each in made if each.retry or each._veto is not None]
            return vetoed or (_joined(wanted) if wanted else made[-1])

        return policy if policies else self.never()


def _joined(made: list[RetryDecision]) -> RetryDecision:
    """Return decisions to try again as one: the last delay and reason that are given; or the veto that stands."""
    veto = next((each for each in made if each._veto is not None), None)
    wanted = [each for each in made if each.retry]
    approved = any(each.approve_unsafe_replay for each in wanted)
    if veto is not None and not approved:
        return veto
    delays = [each.delay for each in wanted if each.delay is not None]
    reasons = [each.reason for each in wanted if each.reason is not None]
    return RetryDecision(True, delays[-1] if delays else None, reasons[-1] if reasons else None, approved)


retry_policies = RetryPolicies()
"""The policies that there are."""


# -- failures ------------------------------------------------------------------------------------------

NETWORK = frozenset(
    ("APIConnectionError", "ConnectError", "ReadError", "RemoteProtocolError", "WriteError", "ConnectionError")
)
TIMEOUTS = frozenset(("APITimeoutError", "TimeoutException", "TimeoutError"))
"""The names of exceptions of clients, which are not imported to find out."""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        yield cause
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__


def _first(error: BaseException, name: str, kind: type) -> Any:
    found = (getattr(each, name, None) for each in _chain(error))
    return next((each for each in found if isinstance(each, kind)), None)


def _header(error: BaseException, name: str) -> str | None:
    for each in _chain(error):
        headers: Any = getattr(getattr(each, "response", None), "headers", None)
        value = headers.get(name) if headers is not None and hasattr(headers, "get") else None
        if isinstance(value, str):
            return value
    return None


def _seconds(text: str | None, unit: float) -> float | None:
    try:
        return float(text) * unit if text is not None and float(text) >= 0 else None
    except ValueError:
        return None


def normalized_error(error: Exception) -> ModelRetryNormalizedError:
    """Return a failure of a client in one form for all providers."""
    names = {kind.__name__ for each in _chain(error) for kind in type(each).__mro__}
    waits = _seconds(_header(error, "retry-after-ms"), 0.001)
    return ModelRetryNormalizedError(
        status_code=_first(error, "status_code", int),
        error_code=_first(error, "code", str),
        message=str(error),
        request_id=_first(error, "request_id", str),
        retry_after=waits if waits is not None else _seconds(_header(error, "retry-after"), 1),
        is_abort="CancelledError" in names and not names & TIMEOUTS,  # a time limit cancels what it limits
        is_network_error=bool(names & (NETWORK | TIMEOUTS)),
        is_timeout=bool(names & TIMEOUTS),
    )


def advice_of(error: Exception, normalized: ModelRetryNormalizedError) -> ModelRetryAdvice:
    """Return the advice that a provider's answer to a request gives."""
    says, status = (_header(error, "x-should-retry") or "").strip().lower(), normalized.status_code
    suggested: bool | None = {"true": True, "false": False}.get(says)
    if suggested is None and (normalized.is_network_error or (status is not None and is_passing(status))):
        suggested = True
    return ModelRetryAdvice(suggested, normalized.retry_after, None, str(error), normalized)
