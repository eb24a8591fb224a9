"""Traces and spans of the skin: what processors hear, and what OpenTelemetry gets."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from opentelemetry import trace as telemetry
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from assentry import InvalidDefinition
from assentry.agents import (
    RunConfig,
    Span,
    SpanData,
    Trace,
    TracingProcessor,
    add_trace_processor,
    custom_span,
    flush_traces,
    function_span,
    gen_span_id,
    gen_trace_id,
    get_current_span,
    get_current_trace,
    set_trace_processors,
    set_trace_provider,
    set_tracing_disabled,
    set_tracing_export_api_key,
    trace,
)
from assentry.agents.absent import NotInAssentry
from assentry.agents.tracing import TraceCtxManager, get_trace_provider
from assentry.agents.tracing import setup as tracing_setup
from assentry.agents.tracing.processors import BatchTraceProcessor, ConsoleSpanExporter
from assentry.agents.tracing.provider import DefaultTraceProvider, warn_of_key
from assentry.agents.tracing.traces import hex_id
from assentry.agents.tracing.util import gen_group_id
from tests.runtime.support import python


class Heard(TracingProcessor):
    """A processor written for the SDK: it keeps what it hears, as lines that are indented like the spans."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.traces: list[Trace] = []
        self.spans: list[Span[Any]] = []
        self.depth: dict[str | None, int] = {}
        self.flushed = 0

    def on_trace_start(self, trace: Trace) -> None:
        self.traces.append(trace)
        self.lines.append(f"+ {trace.name}")

    def on_trace_end(self, trace: Trace) -> None:
        self.lines.append(f"- {trace.name}")

    def on_span_start(self, span: Span[Any]) -> None:
        depth = self.depth[span.span_id] = self.depth.get(span.parent_id, 0) + 1
        self.lines.append(f"{'  ' * depth}+ {self.shown(span)}")

    def on_span_end(self, span: Span[Any]) -> None:
        self.spans.append(span)
        self.lines.append(f"{'  ' * self.depth[span.span_id]}- {self.shown(span)}")

    def shown(self, span: Span[Any]) -> str:
        data = span.span_data
        name = getattr(data, "name", None) or getattr(data, "turn", None) or getattr(data, "model", None)
        return f"{data.type} {name}" if name else str(data.type)

    def shutdown(self) -> None:
        self.lines.append("shutdown")

    def force_flush(self) -> None:
        self.flushed += 1


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    monkeypatch.setattr(tracing_setup, "_provider", None)
    heard = Heard()
    add_trace_processor(heard)
    return heard


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Spans of OpenTelemetry's global provider."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(telemetry, "get_tracer_provider", lambda: provider)
    return memory


def tree(spans: tuple[ReadableSpan, ...]) -> list[str]:
    """Return the names of finished spans, indented below their parents."""
    lines: list[str] = []

    def show(parent: int | None, depth: int) -> None:
        for span in sorted(spans, key=lambda each: each.start_time or 0):
            above = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
            if above == parent:
                lines.append("  " * depth + span.name)
                assert span.context is not None
                show(span.context.span_id, depth + 1)

    known = {span.context.span_id for span in spans if span.context is not None}
    show(None, 0)
    return lines


# -- traces and spans ------------------------------------------------------------------------------------


def test_processors_hear_traces_and_spans_begin_and_end(heard: Heard) -> None:
    with trace("Order", group_id="chat", metadata={"a": 1}) as order, custom_span("query", {"table": "t"}) as outer:
        assert get_current_trace() is order
        assert get_current_span() is outer
        with function_span("add", input="{}") as inner:
            inner.span_data.output = 3
    assert get_current_trace() is None
    assert get_current_span() is None
    assert heard.lines == [
        "+ Order",
        "  + custom query",
        "    + function add",
        "    - function add",
        "  - custom query",
        "- Order",
    ]
    assert order.export() == {
        "object": "trace",
        "id": order.trace_id,
        "workflow_name": "Order",
        "group_id": "chat",
        "metadata": {"a": 1},
    }
    shown = inner.export()
    assert shown is not None
    assert shown["span_data"] == {
        "type": "function",
        "name": "add",
        "input": "{}",
        "output": "3",
        "mcp_data": None,
    }
    assert (shown["parent_id"], shown["trace_id"]) == (outer.span_id, order.trace_id)
    assert inner.started_at is not None
    assert inner.ended_at is not None
    assert inner.started_at <= inner.ended_at


def test_ids_have_the_forms_of_the_sdk() -> None:
    assert re.fullmatch(r"trace_[0-9a-f]{32}", gen_trace_id())
    assert re.fullmatch(r"span_[0-9a-f]{24}", gen_span_id())
    assert re.fullmatch(r"group_[0-9a-f]{24}", gen_group_id())


def test_a_trace_can_be_started_and_finished_by_hand(heard: Heard) -> None:
    order = trace("Order", trace_id="trace_x")
    order.finish()
    order.start(mark_as_current=True)
    order.start()
    span = custom_span("step", parent=order)
    span.start()
    assert get_current_span() is None
    span.set_error({"message": "broken", "data": None})
    span.finish()
    order.finish(reset_current=True)
    assert heard.lines == ["+ Order", "  + custom step", "  - custom step", "- Order"]
    assert heard.spans[0].error == {"message": "broken", "data": None}
    assert get_current_trace() is None


def test_a_span_without_a_trace_works_and_is_heard_by_nobody(heard: Heard) -> None:
    with custom_span("alone") as span:
        span.span_data.data["more"] = 1
        span.set_error({"message": "broken", "data": None})
        assert get_current_span() is span
    assert (span.trace_id, span.export(), heard.lines) == ("no-op", None, [])


async def test_tasks_nest_where_they_were_made(heard: Heard) -> None:
    async def step(name: str) -> None:
        with custom_span(name):
            await asyncio.sleep(0)

    with trace("Order"), custom_span("all"):
        await asyncio.gather(step("one"), step("two"))
    parents = {span.span_data.name: span.parent_id for span in heard.spans}
    above = next(span.span_id for span in heard.spans if span.span_data.name == "all")
    assert parents == {"all": None, "one": above, "two": above}


async def test_a_generator_that_another_task_closes_ends_its_trace(heard: Heard) -> None:
    async def items() -> Any:
        with trace("Order"), custom_span("step"):
            yield 1
            yield 2

    given = items()
    await asyncio.create_task(anext(given))
    await asyncio.create_task(given.aclose())
    assert heard.lines == ["+ Order", "  + custom step", "  - custom step", "- Order"]


def test_tracing_can_be_turned_off_and_on_again(heard: Heard) -> None:
    set_tracing_disabled(True)
    with trace("Order") as off, custom_span("step"):
        assert off.trace_id == "no-op"
    set_tracing_disabled(False)
    with trace("Order", disabled=True), custom_span("step"):
        pass
    assert heard.lines == []
    with trace("Order"), custom_span("step", disabled=True), custom_span("below"):
        pass
    assert heard.lines == ["+ Order", "- Order"]


def test_a_processor_that_fails_stops_nothing(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Heard):
        def on_span_end(self, span: Span[Any]) -> None:
            raise ValueError("no")

    set_trace_processors([Broken(), heard])
    with trace("Order"), custom_span("step"):
        pass
    assert heard.lines == ["+ Order", "  + custom step", "  - custom step", "- Order"]
    assert "A trace processor failed" in caplog.text


def test_a_provider_of_the_programs_own_makes_the_traces(heard: Heard) -> None:
    class Numbered(DefaultTraceProvider):
        def gen_trace_id(self) -> str:
            return "trace_1"

    set_trace_provider(Numbered())
    assert get_trace_provider().gen_trace_id() == gen_trace_id() == trace("Order").trace_id == "trace_1"


def test_a_trace_inside_another_is_warned_about(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    with trace("Order"), trace("Again"):
        pass
    assert "inside another one" in caplog.text
    assert heard.lines == ["+ Order", "+ Again", "- Again", "- Order"]


def test_a_context_manager_begins_a_trace_only_if_there_is_none(heard: Heard) -> None:
    with TraceCtxManager("One", None, None, None, None, False), TraceCtxManager("Two", None, None, None, None, False):
        pass
    with TraceCtxManager("Off", None, None, None, None, True) as off:
        assert off.trace is get_current_trace()
    assert heard.lines == ["+ One", "- One"]


def test_a_key_for_openai_is_not_used_and_that_is_said_once(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_key.cache_clear()
    with trace("Order", tracing={"api_key": "sk-secret"}) as order:
        assert order.tracing_api_key == "sk-secret"
    assert caplog.text == ""  # the processor may use it
    set_trace_processors([])
    trace("Order", tracing={"api_key": "sk-secret"})
    set_tracing_export_api_key("sk-secret")
    assert caplog.text.count("sends no traces to OpenAI") == 1
    assert "sk-secret" not in caplog.text


@pytest.mark.parametrize("tracing", [{"api_kye": "x"}, {"api_key": 7}, 7])
def test_tracing_options_that_do_not_fit_are_refused(tracing: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"RunConfig: .*tracing"):
        RunConfig(tracing=tracing)


def test_the_exporter_to_openai_is_not_here() -> None:
    with pytest.raises(NotInAssentry, match=r"^BackendSpanExporter is not in Assentry"):
        from assentry.agents.tracing.processors import BackendSpanExporter  # type: ignore[attr-defined]  # noqa: F401


def test_spans_of_contents_of_the_programs_own(heard: Heard) -> None:
    class Bill(SpanData):
        type = "bill"

        def __init__(self) -> None:
            self.metadata = {"team": "a"}

        def export(self) -> dict[str, Any]:
            return {"type": "bill"}

    with trace("Order"), get_trace_provider().create_span(Bill()) as span:
        pass
    shown = span.export()
    assert shown is not None
    assert (shown["span_data"], shown["metadata"]) == ({"type": "bill"}, {"team": "a"})


# -- batches ---------------------------------------------------------------------------------------------


def test_a_batch_has_traces_as_they_begin_and_spans_as_they_end(
    heard: Heard, capsys: pytest.CaptureFixture[str]
) -> None:
    set_trace_processors([BatchTraceProcessor(ConsoleSpanExporter(), schedule_delay=3600)])
    with trace("Order") as order, custom_span("step"):
        pass
    flush_traces()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"[Exporter] Export trace_id={order.trace_id}, name=Order"
    assert "'name': 'step'" in lines[1]
    get_trace_provider().shutdown()


def test_a_full_batch_drops_and_a_failing_exporter_is_logged(heard: Heard, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ConsoleSpanExporter):
        def export(self, items: list[Trace | Span[Any]]) -> None:
            raise ValueError("no")

    batch = BatchTraceProcessor(Broken(), max_queue_size=2, schedule_delay=3600, export_trigger_ratio=2)
    set_trace_processors([batch])
    with trace("Order"), custom_span("one"), custom_span("two"):
        pass
    batch.shutdown()
    assert "is dropped" in caplog.text
    assert "2 traces and spans could not be exported" in caplog.text


def test_processors_are_shut_down_as_the_process_exits() -> None:
    program = (
        "from assentry.agents import add_trace_processor, trace, custom_span",
        "from assentry.agents.tracing.processors import BatchTraceProcessor, ConsoleSpanExporter",
        "add_trace_processor(BatchTraceProcessor(ConsoleSpanExporter(), schedule_delay=3600))",
        "with trace('Order'): pass",
    )
    assert "name=Order" in python("\n".join(program)).stdout


# -- OpenTelemetry ---------------------------------------------------------------------------------------


def test_nothing_of_opentelemetry_is_loaded_by_traces() -> None:
    program = (
        "import sys",
        "from assentry.agents import trace, custom_span, flush_traces",
        "with trace('Order'), custom_span('step'): pass",
        "flush_traces()",
        "print([name for name in sys.modules if name.startswith('opentelemetry')])",
    )
    assert python("\n".join(program)).stdout.strip() == "[]"


def test_traces_and_spans_are_spans_of_opentelemetry(heard: Heard, memory: InMemorySpanExporter) -> None:
    with trace("Order", group_id="chat", metadata={"a": {"b": 1}}) as order, custom_span("query") as query:
        query.span_data.data["rows"] = 2
        query.set_error({"message": "broken", "data": None})
        with telemetry.get_tracer_provider().get_tracer("lib").start_as_current_span("SELECT"):
            pass
    spans = memory.get_finished_spans()
    assert tree(spans) == ["Order", "  custom query", "    SELECT"]
    by_name = {span.name: span for span in spans}
    assert by_name["Order"].attributes == {
        "gen_ai.workflow.name": "Order",
        "gen_ai.conversation.id": "chat",
        "assentry.metadata.a": '{"b":1}',
    }
    assert (by_name["custom query"].attributes or {})["assentry.span.data"] == (
        '{"type":"custom","name":"query","data":{"rows":2}}'
    )
    assert by_name["custom query"].status.description == "broken"
    context = by_name["Order"].context
    assert context is not None
    assert order.trace_id == f"trace_{context.trace_id:032x}"
    assert heard.lines[0] == "+ Order"


def test_a_chosen_trace_id_is_that_of_opentelemetry(memory: InMemorySpanExporter) -> None:
    chosen = gen_trace_id()
    with telemetry.get_tracer_provider().get_tracer("web").start_as_current_span("GET") as request:
        with trace("Order", trace_id=chosen):
            pass
        with trace("Inside") as inside:
            pass
    here = request.get_span_context()
    order, inner, _ = memory.get_finished_spans()
    assert order.context is not None
    assert f"trace_{order.context.trace_id:032x}" == chosen
    assert order.links[0].context.span_id == here.span_id
    assert inside.trace_id == f"trace_{here.trace_id:032x}"
    assert inner.parent == here


def test_a_chosen_trace_id_leaves_the_sampler_its_say(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(telemetry, "get_tracer_provider", lambda: provider)
    with trace("Order", trace_id=gen_trace_id()):
        pass
    assert memory.get_finished_spans() == ()


def test_a_trace_id_of_another_form_has_the_digits_of_its_hash(memory: InMemorySpanExporter) -> None:
    with trace("Order", trace_id="trace_mine") as order:
        assert order.trace_id == "trace_mine"
    context = memory.get_finished_spans()[0].context
    assert context is not None
    assert f"{context.trace_id:032x}" == hex_id("trace_mine")
    assert hex_id(f"trace_{'0' * 32}") != "0" * 32


def test_a_provider_that_fails_stops_nothing(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "get_tracer_provider", lambda: object())
    with caplog.at_level(logging.WARNING), trace("Order"), custom_span("step"):
        pass
    assert "A span could not be begun" in caplog.text
    assert heard.lines == ["+ Order", "  + custom step", "  - custom step", "- Order"]
