"""Retries of model calls: by policy, and never where something may have happened already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from assentry import (
    Agent,
    InvalidDefinition,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    ModelRetryBackoffSettings,
    ModelRetrySettings,
    ModelSettings,
    ModelTimedOut,
    RetryDecision,
    RetryPolicyContext,
    RunConfig,
    Runner,
    Usage,
    WebSearchTool,
    retry_policies,
)
from assentry.models.retry import ModelRetryAdvice, ModelRetryNormalizedError, normalized_error, retry_decision
from tests.models.openai_server import OpenAIServer, refusing, saying
from tests.models.test_openai_responses import model_at, server

__all__ = ["server"]

ALWAYS = ModelRetryBackoffSettings(initial_delay=0, jitter=False)


class APIConnectionError(Exception):
    """A client's error, known by its name."""


class Refusal(Exception):
    """A client's error for an HTTP status."""

    def __init__(self, status_code: int, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code
        self.response = type("Response", (), {"headers": headers or {}})()


class Flaky:
    """A model that fails with these causes, and then replies."""

    name = "flaky"

    def __init__(self, *causes: Exception | None, deltas: int = 0) -> None:
        self.causes = list(causes)
        self.requests: list[ModelRequest] = []
        self.deltas = deltas

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self.requests.append(request)
        yield {"type": "response.created"}
        for _ in range(self.deltas):
            yield {"type": "response.output_text.delta", "delta": "Ye"}
        if self.causes:
            raise ModelFailed("It failed.") from self.causes.pop(0)
        content = [{"type": "output_text", "text": "Yes.", "annotations": []}]
        yield ModelResponse([{"type": "message", "role": "assistant", "content": content}], Usage(1, 2, 3))


def retrying(model: Any, policy: Any = None, max_retries: int = 2, **options: Any) -> Agent[Any]:
    retry = ModelRetrySettings(max_retries, ALWAYS, policy or retry_policies.network_error())
    return Agent("a", model=model, model_settings=ModelSettings(retry=retry), **options)


async def test_a_call_that_failed_is_made_again_and_counted() -> None:
    model = Flaky(APIConnectionError("gone"), APIConnectionError("gone"))
    result = await Runner.run(retrying(model), "go")
    assert result.final_output == "Yes."
    assert [request.attempt for request in model.requests] == [1, 2, 3]
    assert result.context_wrapper.usage == Usage(3, 2, 3)


async def test_no_more_often_than_allowed_and_then_the_run_can_go_on() -> None:
    model = Flaky(*[APIConnectionError("gone")] * 3)
    agent = retrying(model)
    with pytest.raises(ModelFailed) as error:
        await Runner.run(agent, "go")
    assert len(model.requests) == 3
    assert error.value.state is not None
    assert (await Runner.run(agent, error.value.state)).final_output == "Yes."


@pytest.mark.parametrize(
    "retry", [None, ModelRetrySettings(2), ModelRetrySettings(0, policy=lambda context: True), ModelRetrySettings()]
)
async def test_without_a_policy_or_a_number_nothing_is_made_again(retry: ModelRetrySettings | None) -> None:
    model = Flaky(APIConnectionError("gone"))
    with pytest.raises(ModelFailed):
        await Runner.run(Agent("a", model=model, model_settings=ModelSettings(retry=retry)), "go")
    assert len(model.requests) == 1


async def test_nothing_is_made_again_once_a_part_of_the_reply_was_shown() -> None:
    model = Flaky(APIConnectionError("gone"), deltas=1)
    result = Runner.run_streamed(retrying(model, lambda context: RetryDecision(True, approve_unsafe_replay=True)), "go")
    with pytest.raises(ModelFailed):
        async for _ in result.stream_events():
            pass
    assert len(model.requests) == 1


async def test_a_stream_that_has_shown_nothing_of_the_reply_goes_on() -> None:
    model = Flaky(APIConnectionError("gone"))
    result = Runner.run_streamed(retrying(model), "go")
    assert [event.type async for event in result.stream_events()][-1] == "run_item_stream_event"
    assert result.final_output == "Yes." and len(model.requests) == 2


HOSTED: dict[str, Any] = {"tools": [WebSearchTool()]}
SENT = RunConfig(model_settings=ModelSettings(extra_body={"tools": [{"type": "web_search"}]}))


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (HOSTED, {}),
        ({}, {"conversation_id": "c"}),
        ({}, {"previous_response_id": "r"}),
        ({"prompt": {"id": "p"}}, {}),
        ({}, {"run_config": SENT}),
    ],
)
@pytest.mark.parametrize(
    ("cause", "again"),
    [(APIConnectionError("gone"), False), (Refusal(503), False), (Refusal(408), False), (Refusal(429), True)],
)
async def test_what_may_have_had_an_effect_is_not_made_again(
    options: Any, where: Any, cause: Exception, again: bool
) -> None:
    model = Flaky(cause)
    agent = retrying(model, lambda context: True, **options)
    if again:
        assert (await Runner.run(agent, "go", **where)).final_output == "Yes."
    else:
        with pytest.raises(ModelFailed):
            await Runner.run(agent, "go", **where)
    assert len(model.requests) == 1 + again


async def test_a_policy_can_approve_what_may_have_had_an_effect() -> None:
    seen: list[RetryPolicyContext] = []

    async def approve(context: RetryPolicyContext) -> RetryDecision:
        seen.append(context)
        return RetryDecision(True, approve_unsafe_replay=context.replay_safety == "unsafe")

    model = Flaky(Refusal(503))
    await Runner.run(retrying(model, approve), "go", conversation_id="c")
    assert len(model.requests) == 2
    [context] = seen
    assert (context.stateful_request, context.attempt, context.max_retries, context.stream) == (True, 1, 2, False)
    assert (context.normalized.status_code, isinstance(context.error, Refusal)) == (503, True)


async def test_a_run_overrides_the_agents_retries() -> None:
    model = Flaky(APIConnectionError("gone"))
    settings = ModelSettings(retry=ModelRetrySettings(max_retries=0))
    with pytest.raises(ModelFailed):
        await Runner.run(retrying(model), "go", run_config=RunConfig(model_settings=settings))
    assert len(model.requests) == 1


async def test_the_client_itself_retries_only_the_first_attempt(server: OpenAIServer) -> None:
    server.script(refusing(500, "No."), refusing(500, "No."), saying("Yes."))
    async with model_at(server) as model:
        assert model._client is not None
        model._client = model._client.with_options(max_retries=1)
        result = await Runner.run(retrying(model, retry_policies.http_status([500])), "go")
    assert result.final_output == "Yes. " or result.final_output == "Yes."
    assert len(server.asked) == 3


async def test_a_call_that_takes_too_long_fails() -> None:
    class Slow(Flaky):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
            self.requests.append(request)
            if len(self.requests) == 1:
                await asyncio.Event().wait()
            async for each in super().stream(request):
                yield each

    model = Slow()
    with pytest.raises(ModelTimedOut, match=r"did not reply within 0\.01 seconds"):
        await Runner.run(Agent("a", model=model, model_settings=ModelSettings(timeout=0.01)), "go")
    again = Slow()
    retry = ModelRetrySettings(1, ALWAYS, retry_policies.network_error())
    settings = ModelSettings(timeout=0.01, retry=retry)
    assert (await Runner.run(Agent("a", model=again, model_settings=settings), "go")).final_output == "Yes."


# -- policies ------------------------------------------------------------------------------------------


def context_of(error: Exception, **advice: Any) -> RetryPolicyContext:
    normalized = normalized_error(error)
    return RetryPolicyContext(error, 1, 2, False, normalized, ModelRetryAdvice(normalized=normalized, **advice))


@pytest.mark.parametrize(
    ("policy", "error", "retry", "delay"),
    [
        (retry_policies.never(), Refusal(500), False, None),
        (retry_policies.network_error(), TimeoutError(), True, None),
        (retry_policies.network_error(), Refusal(500), False, None),
        (retry_policies.http_status([500]), Refusal(500), True, None),
        (retry_policies.http_status([500]), Refusal(400), False, None),
        (retry_policies.retry_after(), Refusal(429, {"retry-after": "3"}), True, 3),
        (retry_policies.retry_after(), Refusal(429, {"retry-after-ms": "250"}), True, 0.25),
        (retry_policies.retry_after(), Refusal(429, {"retry-after": "soon"}), False, None),
        (retry_policies.any(), Refusal(500), False, None),
        (retry_policies.all(), Refusal(500), False, None),
        (retry_policies.any(retry_policies.never(), retry_policies.http_status([500])), Refusal(500), True, None),
        (retry_policies.all(retry_policies.never(), retry_policies.http_status([500])), Refusal(500), False, None),
        (
            retry_policies.all(retry_policies.http_status([429]), retry_policies.retry_after()),
            Refusal(429, {"retry-after": "2"}),
            True,
            2,
        ),
    ],
)
async def test_policies_decide(policy: Any, error: Exception, retry: bool, delay: float | None) -> None:
    made = await retry_decision(policy, context_of(error))
    assert (made.retry, made.delay) == (retry, delay)


async def test_a_provider_that_says_no_is_not_overruled() -> None:
    policy = retry_policies.any(retry_policies.http_status([500]), retry_policies.provider_suggested())
    assert not (await retry_decision(policy, context_of(Refusal(500), suggested=False))).retry
    assert (await retry_decision(policy, context_of(Refusal(500), suggested=True, retry_after=4))).delay == 4


async def test_an_unsafe_replay_is_made_if_one_policy_approves_it() -> None:
    suggested = retry_policies.provider_suggested()
    context = context_of(Refusal(500), suggested=False, replay_safety="unsafe")
    assert not (await retry_decision(retry_policies.any(suggested, lambda context: True), context)).retry

    def approve(context: RetryPolicyContext) -> RetryDecision:
        return RetryDecision(True, approve_unsafe_replay=True)

    for join in (retry_policies.any, retry_policies.all):
        made = await retry_decision(join(suggested, approve), context)
        assert made.retry and made.approve_unsafe_replay


def test_pauses_grow_up_to_the_longest() -> None:
    pauses = ModelRetryBackoffSettings(initial_delay=1, max_delay=3, multiplier=2, jitter=False)
    assert [pauses.delay(attempt) for attempt in (1, 2, 3, 1000)] == [1, 2, 3, 3]
    assert 0.2 < ModelRetryBackoffSettings().delay(1) < 0.3


def test_settings_of_retries_are_put_over_others() -> None:
    mine = ModelRetrySettings(2, {"initial_delay": 1.0, "jitter": False}, retry_policies.never())
    both = mine.merged(ModelRetrySettings(backoff={"initial_delay": 2.0}))
    assert (both.max_retries, both.policy) == (2, mine.policy)
    assert both.to_json_dict() == {
        "max_retries": 2,
        "backoff": {"initial_delay": 2.0, "max_delay": None, "multiplier": None, "jitter": False},
    }


@pytest.mark.parametrize(
    "options",
    [{"max_retries": -1}, {"backoff": {"first": 1}}, {"backoff": {"jitter": 1}}, {"backoff": 5}, {"policy": 5}],
)
def test_retries_that_cannot_be_are_refused(options: Any) -> None:
    with pytest.raises(InvalidDefinition, match="ModelRetry"):
        ModelRetrySettings(**options)
    with pytest.raises(InvalidDefinition, match="ModelSettings: retry"):
        ModelSettings(retry=options)


def test_a_failure_has_one_form_for_all_providers() -> None:
    error = Refusal(429, {"retry-after": "2"})
    assert normalized_error(error) == ModelRetryNormalizedError(status_code=429, message="status 429", retry_after=2.0)
