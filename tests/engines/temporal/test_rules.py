"""Who may decide, grants, failures and bad input, on Temporal."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.common import RetryPolicy

from assentry import (
    Approve,
    GrantTerms,
    GuardrailFunctionOutput,
    InputGuardrail,
    Reject,
    RunConfig,
    ToolContext,
    Tracing,
    function_tool,
)
from assentry.approval.decision import Decider
from assentry.engines.temporal import ActivityOptions, AssentryPlugin, TemporalRuns
from assentry.errors import (
    Forbidden,
    GrantNotFound,
    InputGuardrailTripwireTriggered,
    InvalidDecision,
    InvalidInput,
    MaxTurnsExceeded,
    ModelFailed,
    QuestionNotFound,
    RunNotFound,
    UsageError,
)
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import call

from .story import Log, noting, scripted, send
from .support import Server, working

pytestmark = pytest.mark.temporal


# -- who may decide ----------------------------------------------------------------------------------


async def test_only_reviewers_decide_and_never_who_asked(temporal: Server, tmp_path: Path) -> None:
    log: Log = []
    agent = scripted(
        "Shop", send("ann"), "Done.", tools=[noting(log, needs_approval=True, reviewers=["rita", "group:bosses"])]
    )
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        run = await runs.start("Shop", "Go.", started_by="rita")
        [asked] = (await run.settled()).questions
        for by in ("otto", "rita", Decider("rita", ("bosses",))):
            with pytest.raises(Forbidden):
                await runs.decide(asked.id, Approve(), by=by, digest=asked.digest)
        assert log == []
        await runs.decide(asked.id, Approve(), by=Decider("bea", ("bosses",)), digest=asked.digest)
        assert await run.result() == "Done."
        assert log == [("send", "ann", 1)]
        assert (await store.record(run.id)).started_by == "rita"


async def test_a_grant_decides_later_calls_until_it_is_used_up_or_revoked(temporal: Server, tmp_path: Path) -> None:
    log: Log = []
    inner = scripted("Inner", send("bob"), send("cid"), "Sent.", tools=[noting(log, needs_approval=True)])
    agent = scripted(
        "Shop", send("ann"), send("ann"), send("ann"), call("inner", {"input": "Go."}), send("dan"), send("eve"),
        "Done.", tools=[noting(log, needs_approval=True), inner.as_tool()],
    )  # fmt: skip
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        run = await runs.start("Shop", "Go.")

        async def decide(who: str, grant: Any) -> None:
            [asked] = (await run.settled()).questions
            assert f'"{who}"' in asked.arguments
            await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest, grant=grant)

        await decide("ann", GrantTerms(max_uses=2, pins={"to": "ann"}))  # covers two more
        await decide("bob", True)  # covers Cid: the same agent
        await decide("dan", {"max_uses": 5})
        # Eve is covered by the last grant; the run ends
        assert await run.result() == "Done."
        assert [who for _, who, _ in log] == ["ann", "ann", "ann", "bob", "cid", "dan", "eve"]
        assert await store.verify(run.id) == []


async def test_a_revoked_grant_decides_nothing(temporal: Server, tmp_path: Path) -> None:
    log: Log = []
    agent = scripted(
        "Shop", send("ann"), [send("bob"), send("bob", "other")], send("cid"), "Done.",
        tools=[noting(log, needs_approval=True), noting(log, "other", needs_approval=True)],
    )  # fmt: skip
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        run = await runs.start("Shop", "Go.")
        [asked] = (await run.settled()).questions
        with pytest.raises(InvalidDecision):
            await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest, grant={"uses": 3})
        await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest, grant=True)
        [other] = (await run.settled()).questions
        [grant] = (await store.grants()).items
        with pytest.raises(GrantNotFound):
            await runs.revoke("g_none", by="ann", run=run.id)
        await runs.revoke(grant.id, by="ann", run=run.id)
        await runs.decide(other.id, Reject("No."), by="ann", digest=other.digest)
        [again] = (await run.settled()).questions
        assert '"cid"' in again.arguments
        await runs.decide(again.id, Approve(), by="ann", digest=again.digest)
        assert await run.result() == "Done."
        assert log == [("send", "ann", 1), ("send", "bob", 1), ("send", "cid", 1)]


# -- failures ----------------------------------------------------------------------------------------


async def test_a_tripwire_beside_the_model_closes_the_run(temporal: Server, tmp_path: Path) -> None:
    log: Log = []

    async def look(ctx: Any, agent: Any, value: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info="bad", tripwire_triggered=True)

    agent = scripted(
        "Shop", send("ann"), "Done.", tools=[noting(log)], input_guardrails=[InputGuardrail(look, name="look")]
    )
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(await temporal.client(), agent, store) as runs:
            run = await runs.start("Shop", "Go.")
            with pytest.raises(InputGuardrailTripwireTriggered, match="look"):
                await run.result()
        assert (await store.record(run.id)).status == "closed"
        assert log == []


async def test_turns_that_are_used_up_raise_their_own_error(temporal: Server, tmp_path: Path) -> None:
    agent = scripted("Shop", send("ann"), tools=[noting([])])
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        with pytest.raises(MaxTurnsExceeded, match="Begin a new run with a higher max_turns"):
            await (await runs.start("Shop", "Go.", max_turns=1)).result()


async def test_a_body_that_raises_to_the_program_is_logged_and_the_run_goes_on(
    temporal: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits in the program, so the error is in the worker's log, and the model is told of it."""

    @function_tool(failure_error_function=None)
    async def fail(ctx: ToolContext[Any]) -> str:
        raise ValueError("no paper")

    agent = scripted("Shop", call("fail"), "Done.", tools=[fail])
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        with caplog.at_level(logging.WARNING, "temporalio"):
            run = await runs.start("Shop", "Go.")
            assert await run.result() == "Done."
        assert "ValueError: no paper" in caplog.text
        assert "no paper" in str(agent.model.requests[1].input[-1])


async def test_a_model_that_refuses_holds_the_run_up_until_somebody_retries(temporal: Server, tmp_path: Path) -> None:
    agent = scripted("Shop", ModelFailed("The key is wrong.", retryable=False), "Done.")
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        run = await runs.start("Shop", "Go.")
        now = await run.settled()
        assert now.failure is not None
        assert (now.failure.kind, now.failure.message) == ("ModelFailed", "The key is wrong.")
        await runs.retry(run.id, by="ann")
        assert await run.result() == "Done."


async def test_an_unknown_agent_is_named_until_a_worker_has_it(temporal: Server, tmp_path: Path) -> None:
    client = await temporal.client()
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, scripted("Shop", "Done."), store) as runs:
            run = await runs.start("Garden", "Go.")
            now = await run.settled()
            assert now.failure is not None and now.failure.kind == "AgentNotFound"
            assert "'Garden'" in now.failure.message
        async with working(client, scripted("Garden", "Mown."), store):
            assert await run.result() == "Mown."


async def test_all_spans_of_a_run_are_one_trace(temporal: Server, tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([], needs_approval=True)])
    config = RunConfig(tracing=Tracing(tracer_provider=provider))
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store, run_config=config) as runs,
    ):
        run = await runs.start("Shop", "Go.")
        [asked] = (await run.settled()).questions
        await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        assert await run.result() == "Done."
    spans = exporter.get_finished_spans()
    names = [span.name for span in spans]
    assert len({span.context.trace_id for span in spans}) == 1, names
    assert sum("chat" in name for name in names) == 2 and sum("execute_tool" in name for name in names) == 1, names


# -- bad input ---------------------------------------------------------------------------------------


SHOP = scripted("Shop", tools=[noting([]), noting([], "twice", idempotent=True)])


@pytest.mark.parametrize(
    ("agents", "options", "words"),
    [
        (5, {}, "agents"),
        ([], {}, "agent"),
        (SHOP, {"store": 5}, "store must be a Store"),
        (SHOP, {"run_config": {}}, "run_config must be"),
        (SHOP, {"hooks": object()}, "hooks must be"),
        (SHOP, {"sessions": "s"}, "sessions must be"),
        (SHOP, {"default": {"task_queue": "x"}}, "default must be"),
        (SHOP, {"continue_after": 0}, "continue_after must be"),
        (SHOP, {"continue_after": True}, "continue_after must be"),
        (SHOP, {"archive": 5}, "archive must"),
        (SHOP, {"tool_options": {"sand": ActivityOptions()}}, "names 'sand', which is not there; there are 'send'"),
        (SHOP, {"agent_options": {"Shap": ActivityOptions()}}, "names 'Shap', which is not there; there are 'Shop'"),
        (SHOP, {"tool_options": {"send": timedelta(1)}}, "has ActivityOptions by name"),
        (SHOP, {"tool_options": [("send", 1)]}, "tool_options must be"),
        (SHOP, {"agent_options": 7}, "agent_options must be"),
        (
            SHOP,
            {"tool_options": {"send": ActivityOptions(retry_policy=RetryPolicy(maximum_attempts=3))}},
            "'send' is not idempotent, so its body has one attempt",
        ),
        (SHOP, {"tool_options": {"send": ActivityOptions(retry_policy=RetryPolicy())}}, "'send' is not idempotent"),
    ],
)  # fmt: skip
def test_a_bad_option_of_the_plugin_is_named(agents: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        AssentryPlugin(agents, **{"store": MemoryStore(), **options})


def test_an_idempotent_tool_may_have_retries() -> None:
    again = ActivityOptions(retry_policy=RetryPolicy(maximum_attempts=3))
    AssentryPlugin(SHOP, store=MemoryStore(), tool_options={"twice": again})


@pytest.mark.parametrize(
    "options",
    [
        {"start_to_close_timeout": 5},
        {"heartbeat_timeout": timedelta(0)},
        {"schedule_to_start_timeout": "1h"},
        {"task_queue": ""},
        {"task_queue": 5},
        {"retry_policy": 3},
    ],
)
def test_a_bad_option_of_an_activity_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        ActivityOptions(**options)


async def test_bad_requests_are_refused_before_anything_starts(temporal: Server) -> None:
    client: Client = await temporal.client()
    for client_like in (None, "127.0.0.1:7233"):
        with pytest.raises(UsageError, match="client must be"):
            TemporalRuns(client_like)  # type: ignore[arg-type]
    for options in ({"task_queue": ""}, {"task_queue": 5}, {"patience": 10}, {"patience": timedelta(0)}):
        with pytest.raises(UsageError, match=next(iter(options))):
            TemporalRuns(client, **options)  # type: ignore[arg-type]
    runs = TemporalRuns(client, task_queue="nobody")
    bad: list[tuple[tuple[Any, Any], dict[str, Any], type[Exception]]] = [
        (("", "Go."), {}, UsageError),
        ((SHOP, "Go."), {}, UsageError),
        (("Shop", 5), {}, InvalidInput),
        (("Shop", ["x"]), {}, InvalidInput),
        (("Shop", "Go."), {"max_turns": 0}, UsageError),
        (("Shop", "Go."), {"max_turns": True}, UsageError),
        (("Shop", "Go."), {"started_by": ""}, InvalidDecision),
        (("Shop", "Go."), {"session": 5}, UsageError),
        (("Shop", "Go."), {"session": ""}, UsageError),
        (("Shop", "Go."), {"conversation_id": 5}, UsageError),
        (("Shop", "Go."), {"previous_response_id": ""}, UsageError),
        (("Shop", "Go."), {"follows": 5}, UsageError),
        (("Shop", "Go."), {"id": ""}, UsageError),
        (("Shop", "Go."), {"id": 5}, UsageError),
        (("Shop", "Go."), {"context": object()}, UsageError),
    ]
    for given, options, error in bad:
        with pytest.raises(error):
            await runs.start(*given, **options)
        if "id" not in options:
            with pytest.raises(error):
                await runs.run(*given, id="run_1", **options)
    for run_id in (None, "", 5):
        with pytest.raises(UsageError):
            runs.get(run_id)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            await runs.cancel(run_id, by="ann")  # type: ignore[arg-type]


async def test_bad_decisions_and_words_are_refused(temporal: Server, tmp_path: Path) -> None:
    agent = scripted("Shop", send("ann"), "Done.", tools=[noting([], needs_approval=True)])
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        run = await runs.start("Shop", "Go.")
        [asked] = (await run.settled()).questions
        bad: list[tuple[tuple[Any, Any], dict[str, Any], type[Exception]]] = [
            ((asked.id, "yes"), {}, InvalidDecision),
            ((asked.id, {"verdict": "maybe"}), {}, InvalidDecision),
            ((asked.id, Approve()), {"by": ""}, InvalidDecision),
            ((asked.id, Approve()), {"by": 5}, InvalidDecision),
            ((asked.id, Approve()), {"digest": None}, UsageError),
            ((asked.id, Approve()), {"grant": 5}, InvalidDecision),
            ((asked.id, Approve()), {"run": 5}, UsageError),
            ((5, Approve()), {}, QuestionNotFound),
            (("q_1", Approve()), {}, QuestionNotFound),
        ]
        for given, options, error in bad:
            with pytest.raises(error):
                await runs.decide(*given, **{"by": "ann", "digest": asked.digest, **options})
        for word, options, error in (
            (runs.say, {"input": "", "by": "ann"}, UsageError),
            (runs.say, {"input": 5, "by": "ann"}, UsageError),
            (runs.say, {"input": "x", "by": "runtime"}, UsageError),
            (runs.cancel, {"by": ""}, InvalidDecision),
            (runs.cancel, {"by": "ann", "why": 5}, UsageError),
            (runs.resume, {"by": None}, InvalidDecision),
        ):
            with pytest.raises(error):
                await word(run.id, **options)  # type: ignore[operator]
        with pytest.raises(UsageError):
            await runs.revoke(5, by="ann", run=run.id)  # type: ignore[arg-type]
        with pytest.raises(RunNotFound):
            await runs.cancel("run_nobody", by="ann")
        assert (await run.standing()).status == "waiting"
        await run.handle.terminate()
