"""Traces and spans, as a processor of one's own receives them."""

import asyncio
from typing import Any

from agents import Agent, Runner, custom_span, function_tool, gen_trace_id, set_trace_processors, trace
from agents.tracing import Span, Trace, TracingProcessor, get_current_trace


class Recorder(TracingProcessor):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_trace_start(self, trace: Trace) -> None:
        self.lines.append(f"trace {trace.name}")

    def on_trace_end(self, trace: Trace) -> None:
        self.lines.append(f"end of trace {trace.name}")

    def on_span_start(self, span: Span[Any]) -> None: ...

    def on_span_end(self, span: Span[Any]) -> None:
        name = (span.span_data.export() or {}).get("name")
        self.lines.append(f"span {span.span_data.type} {name or ''}".strip())

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@function_tool
def look(query: str) -> str:
    """Look something up."""
    return "found"


async def main() -> None:
    recorder = Recorder()
    set_trace_processors([recorder])
    agent = Agent(name="Finder", instructions="Find.", tools=[look])
    with trace("Search", trace_id=gen_trace_id(), group_id="group", metadata={"a": "b"}):
        current = get_current_trace()
        print(current.name if current else None)
        with custom_span("prepare", {"step": 1}):
            print((await Runner.run(agent, "Find it.")).final_output)
    print("\n".join(recorder.lines))


asyncio.run(main())
