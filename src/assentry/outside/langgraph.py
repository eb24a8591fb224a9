"""Approvals for graphs of LangGraph: their interrupts are asked about, and the graph goes on with the decisions.

LangGraph keeps the thread, and runs the tools. The place of `Approvals` keeps the questions, and gives each approved
call to one process.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

from .missing import missing_library

try:
    from langchain_core.messages import AIMessage, AnyMessage, ToolMessage, convert_to_messages
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.types import Command, StateSnapshot
except ModuleNotFoundError as error:
    raise missing_library("run_graph", error, "langchain") from None

from ..core.wording import shortened
from ..errors import Conflict, RunBusy, RunNotFound, ThreadWaiting, UsageError
from ..store.call_status import CallStatus
from .approvals import RUNNABLE, Approvals, AskedCall
from .graph_interrupt import GraphInterrupt, ModelCall, call_key, read_interrupt, resume_value, thread_of
from .options import CallOptions
from .turn import output_as_json, wait_together

log = logging.getLogger("assentry")

DescribeCall = Callable[[str, Mapping[str, Any]], CallOptions]
"""A function that adds to an ask about a tool and its arguments: reviewers, a preview, a deadline."""
MOST_SAID = 8000
"""The most characters that are shown of what the agent says with its calls."""
DURABILITY = "sync"
"""A step is written before the next one begins. Else a killed process could leave a question whose call the thread does
not have; the model would be asked again, and then a person about another call."""
UNSEEN = "The graph went on. The thread's messages do not have the tool's own result."
"""The output that is reported for a call whose result is not in the thread's messages, as in a subgraph."""


async def run_graph(
    graph: Any,
    input: Any,
    config: Mapping[str, Any],
    approvals: Approvals,
    *,
    timeout: float | None = None,
    tools: Iterable[BaseTool] = (),
    describe: DescribeCall | None = None,
    **options: Any,
) -> Any:
    """Run a graph to its end, asking about its interrupts, and return what `graph.ainvoke` returns.

    A thread that waits, or was cut off, is taken again with `input=None`, in any process. Raises `NotDecided` if
    nobody decides in time, `NotApproved` if a question is refused that the graph must have answered, and `RunBusy` if
    another process has taken the thread. The thread stays as it is then.

    Args:
        graph: A compiled graph with a checkpointer, such as `create_agent` returns.
        input: The graph's input; None for a thread that has begun.
        config: The config, with the thread's id.
        approvals: The store or the inbox that is asked.
        timeout: The seconds to wait for the decisions of one pause; None for as long as it takes.
        tools: Tools whose schemas edited arguments must fit.
        describe: A function of a tool's name and arguments that adds to an ask.
        options: More options of `graph.ainvoke`. Each step is written before the next one, unless `durability` says
            something else.
    """
    drive = _GraphDrive(graph, config, approvals, timeout, tools, describe)
    state = await drive.begin(input)
    if state is not None and is_over(state):
        return state.values
    given = input if state is None else await drive.go_on(state)
    options.setdefault("durability", DURABILITY)
    while True:
        result = await drive.entered(graph.ainvoke(given, config, **options))
        state = await drive.report()
        if not state.interrupts:
            return result
        given = await drive.go_on(state)


async def stream_graph(
    graph: Any,
    input: Any,
    config: Mapping[str, Any],
    approvals: Approvals,
    *,
    timeout: float | None = None,
    tools: Iterable[BaseTool] = (),
    describe: DescribeCall | None = None,
    **options: Any,
) -> AsyncIterator[Any]:
    """Yield what `graph.astream` yields, from the beginning to the graph's end; see `run_graph`."""
    drive = _GraphDrive(graph, config, approvals, timeout, tools, describe)
    state = await drive.begin(input)
    if state is not None and is_over(state):
        return
    given = input if state is None else await drive.go_on(state)
    options.setdefault("durability", DURABILITY)
    while True:
        try:
            async for chunk in graph.astream(given, config, **options):
                yield chunk
        except Exception:
            await drive.note_failure()
            raise
        except BaseException:
            await drive.leave()
            raise
        state = await drive.report()
        if not state.interrupts:
            return
        given = await drive.go_on(state)


class _GraphDrive:
    """One drive of a thread: what it asked about, and the calls that it has started and not reported."""

    def __init__(
        self,
        graph: Any,
        config: Mapping[str, Any],
        approvals: Approvals,
        timeout: float | None,
        tools: Iterable[BaseTool],
        describe: DescribeCall | None,
    ) -> None:
        if not isinstance(approvals, Approvals):
            raise UsageError(
                "run_graph takes Approvals. For a graph without an event loop: asyncio.run(run_graph(...))."
            )
        self.thread = thread_of(config)
        self._graph = graph
        self._config = config
        self._approvals = approvals
        self._timeout = timeout
        self._schemas = {tool.name: arguments_schema(tool) for tool in tools}
        self._describe = describe
        self._started: dict[str, AskedCall] = {}
        """The calls that were started, by the ids of their tool calls."""

    async def begin(self, input: Any) -> StateSnapshot | None:
        """Return the thread's state if it is to go on; None if it gets an input."""
        state = await self._state()
        if input is None:
            return state
        if state.interrupts:
            raise ThreadWaiting(
                f"Thread {self.thread!r} waits for {len(state.interrupts)} decisions, and a new input would drop them. "
                "Go on with input=None first."
            )
        return None

    async def entered(self, work: Any) -> Any:
        """Return what the graph returns. If it fails, its calls are reported as far as their results are known."""
        try:
            return await work
        except Exception:
            await self.note_failure()
            raise
        except BaseException:
            await self.leave()
            raise

    async def note_failure(self) -> None:
        """Report the calls whose results are in the thread, and hold the others no longer."""
        try:
            await self.report()
        except Exception as problem:  # the graph's own error matters more
            log.warning("The calls of thread %s could not be reported: %s", self.thread, problem)
        await self.leave()

    async def leave(self) -> None:
        """Hold the started calls no longer; without a report they are in doubt once their hold has run out."""
        for asked in self._started.values():
            await asked.leave()
        self._started.clear()

    async def go_on(self, state: StateSnapshot) -> Command[Any] | None:
        """Ask about the interrupts of a state, wait, start what was approved, and return the graph's next input."""
        if not state.interrupts:
            await self._take_again(state)
            return None
        calls = open_calls(state)
        interrupts = [
            read_interrupt(
                each.id, each.value, getattr(each, "response_schema", None), self.thread, calls, self._schemas
            )
            for each in state.interrupts
        ]
        asked = [await self._ask(each) for each in interrupts]
        await wait_together(call.decision(self._timeout) for group in asked for call in group)
        values = {
            each.id: resume_value(each, [call.status for call in group])
            for each, group in zip(interrupts, asked, strict=True)
        }
        await self._check_waits(values)
        try:
            for each, group in zip(interrupts, asked, strict=True):
                await self._start(each, group)
        except BaseException:
            await self.leave()
            raise
        return Command(resume=values)

    async def report(self) -> StateSnapshot:
        """Report the calls whose results are in the thread now, and return its state."""
        state = await self._state()
        results = {each.tool_call_id: each for each in messages_of_state(state) if isinstance(each, ToolMessage)}
        for call, asked in list(self._started.items()):
            result = results.get(call)
            if result is None and not is_over(state):
                continue  # the tool itself waits for something
            del self._started[call]
            await report_result(asked, result)
        return state

    async def _state(self) -> StateSnapshot:
        try:
            return await self._graph.aget_state(self._config)  # type: ignore[no-any-return]
        except ValueError as error:
            raise UsageError(f"run_graph needs a graph with a checkpointer: {error}") from error

    async def _ask(self, interrupt: GraphInterrupt) -> list[AskedCall]:
        if interrupt.ask is not None:
            return [await self._approvals.load(interrupt.ask)]
        made = []
        for call in interrupt.calls:
            options: CallOptions = {**call.options}
            if self._describe is not None:
                options = {**self._describe(call.tool, call.arguments), **options}
            made.append(await self._approvals.ask(call.tool, call.arguments, **options))
        return made

    async def _check_waits(self, values: Mapping[str, Any]) -> None:
        """Raise `RunBusy` if the thread does not wait at these interrupts any more."""
        now = await self._state()
        if {each.id for each in now.interrupts} != set(values):
            raise RunBusy(f"Thread {self.thread!r} was taken by another process, and went on there.")

    async def _start(self, interrupt: GraphInterrupt, group: list[AskedCall]) -> None:
        for call, asked in zip(interrupt.calls, group, strict=False):  # our own middleware starts its call itself
            if asked.status.state in RUNNABLE:
                await asked.start()
                self._started[call.call or asked.id] = asked

    async def _take_again(self, state: StateSnapshot) -> None:
        """Start calls again that a process has started before and never reported, if a person said so.

        LangGraph runs the tools of a cut-off step again. So a call that may have run waits for a person first.
        """
        for call in open_calls(state):
            try:
                asked = await self._approvals.find(call_key(self.thread, call, "interrupt"))
            except RunNotFound:
                continue
            status = await asked.decision(self._timeout)
            if status.state not in RUNNABLE:
                raise Conflict(_settled_in_words(self.thread, call, status))
            await asked.start()  # raises RunBusy while another process holds it
            self._started[call.id] = asked


def _settled_in_words(thread: str, call: ModelCall, status: CallStatus) -> str:
    return (
        f"{call.name} was started in thread {thread!r} and is settled as {status.state!r}, but the thread does not "
        f"have its result, and would run it again. Write it: graph.update_state(config, "
        f'{{"messages": [ToolMessage(..., tool_call_id={call.id!r})]}}, as_node="tools").'
    )


async def report_result(asked: AskedCall, result: ToolMessage | None) -> None:
    """Report the outcome of a call, as its message in the thread says it."""
    if result is None:
        await asked.finish(UNSEEN)
    elif result.status == "error":
        await asked.report_failure(str(result.text))
    else:
        await asked.finish(output_as_json(result.content))


def arguments_schema(tool: BaseTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, as models are offered it."""
    parameters: dict[str, Any] = convert_to_openai_tool(tool)["function"].get("parameters") or {"type": "object"}
    return parameters


def is_over(state: StateSnapshot) -> bool:
    """Return True if nothing of a thread is left to do.

    `next` does not say so: it lacks a step that was done and whose checkpoint a killed process has not written.
    """
    return not state.tasks


def messages_of_state(state: StateSnapshot) -> list[AnyMessage]:
    """Return the messages of a thread; none if its state has no list of them."""
    values = state.values
    found = values.get("messages") if isinstance(values, Mapping) else getattr(values, "messages", None)
    return convert_to_messages(found) if isinstance(found, list) else []  # type: ignore[return-value]


def open_calls(state: StateSnapshot) -> list[ModelCall]:
    """Return the tool calls of the newest turn that have no result."""
    messages = messages_of_state(state)
    done = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
    newest = next((each for each in reversed(messages) if isinstance(each, AIMessage)), None)
    return [call for call in calls_of(newest) if call.id not in done] if newest is not None else []


def calls_of(message: AIMessage) -> Iterator[ModelCall]:
    """Yield the tool calls of a message that have an id."""
    for call in message.tool_calls:
        if call["id"] is not None:
            yield ModelCall(
                id=call["id"],
                name=call["name"],
                args=call["args"],
                message=message.id,
                says=shortened(str(message.text), MOST_SAID),
            )
