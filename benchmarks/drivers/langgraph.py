"""langchain's agent on langgraph, without a saver or with one.

A saver writes while the run goes on, so saving is no phase of its own; loading is reading the state as whoever decides
would. Without a saver nothing can pause.

Annotations are not strings here: langchain resolves a tool's type hints at every call, and would compile each anew.
"""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.types import Command

from ..clock import Clock
from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, WIRE, WORD, arguments, body, call_id
from . import driver, stored, threaded
from .langgraph_savers import STORES, Store

INPUT: Any = {"messages": [{"role": "user", "content": PROMPT}]}


@tool
async def lookup(city: str, days: int, note: str) -> str:
    """Look something up."""
    return body(LOOKUP, city, days, note)


@tool
async def wire(city: str, days: int, note: str) -> str:
    """Wire money."""
    return body(WIRE, city, days, note)


class Model(BaseChatModel):
    """Answers at once, from a script: the documented test double, made to serve many threads at once."""

    script: Any = None

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **options: Any) -> "Model":
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        items = len(messages) - (messages[0].type == "system")
        return ChatResult(generations=[ChatGeneration(message=self.script.respond(items))])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return self._generate(messages)


class StreamingModel(Model):
    """Answers in deltas. Apart from the other, since a model that can stream always does."""

    chunks: Any = None  # a function: langchain describes a model's fields at every call, and would describe them all

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self.chunks():
            yield chunk


def reply(text: str, calls: list[Any]) -> AIMessage:
    """A reply of this text and these calls."""
    usage: Any = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return AIMessage(content=text, id=f"ai_{uuid.uuid4().hex}", usage_metadata=usage, tool_calls=calls)


class Seat:
    """A graph on a store."""

    def __init__(self, store: Store | None, build: Callable[[Any], Any]) -> None:
        self.store, self.build = store, build

    async def open(self) -> None:
        """Connect, and build the graph on it."""
        if self.store:
            await self.store.open()
        self.graph = self.build(self.store.saver if self.store else None)

    async def reopen(self) -> None:
        """What another process would begin with: a new connection, a new graph."""
        await self.close()
        await self.open()

    async def close(self) -> None:
        """Disconnect."""
        if self.store:
            await self.store.close()


class Driver(threaded.Driver, stored.Driver):
    """langgraph, driven."""

    def __init__(self, saver: str) -> None:
        super().__init__()
        self.store = STORES.get(saver)
        if self.store is None:
            self.lacks = frozenset({"pause", "ask", "stages", "held", "nested", *driver.STORE_SCENARIOS})
        else:
            self.lacks = frozenset({"stream"})  # the same as without a saver
            self.remembers = self.store.remembers
        self.agent = self._graph(False, None)

    def _graph(self, gated: bool, saver: Any, script: driver.Script | None = None) -> Any:
        middleware = [HumanInTheLoopMiddleware(interrupt_on={WIRE: True})] if gated else []
        model = Model(script=script or self.script)
        return create_agent(model, [lookup, wire], system_prompt=SYSTEM, checkpointer=saver, middleware=middleware)

    def _delegating(self, saver: Any) -> Any:
        inner = self._graph(True, None, self.inner_script)

        @tool
        async def delegate(task: str) -> str:
            """Delegate to the inner agent."""
            result = await inner.ainvoke({"messages": [{"role": "user", "content": task}]})
            text: str = result["messages"][-1].content
            return text

        model = Model(script=self.outer_script)
        return create_agent(model, [delegate], system_prompt=SYSTEM, checkpointer=saver)

    @asynccontextmanager
    async def ready(self, *, gated: bool = True, nested: bool = False) -> AsyncIterator[Seat]:
        store = self.store() if self.store else None
        seat = Seat(store, self._delegating if nested else lambda saver: self._graph(gated, saver))
        await seat.open()
        try:
            yield seat
        finally:
            await seat.close()
            if store:
                await store.discard()

    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> AIMessage:
        return reply(
            "",
            [
                {"name": tool, "args": arguments(turn), "id": call_id(turn, position), "type": "tool_call"}
                for position in range(count)
            ],
        )

    def delegation(self) -> AIMessage:
        return reply("", [{"name": "delegate", "args": {"task": "book it"}, "id": "call_outer", "type": "tool_call"}])

    def final(self) -> AIMessage:
        return reply(FINAL, [])

    async def begin(self, agent: Seat) -> Any:
        config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
        return await agent.graph.ainvoke(INPUT, config), config

    def approve(self, state: Any) -> Any:
        questions, config = state
        return Command(resume={"decisions": [{"type": "approve"}] * questions}), config

    async def resume(self, agent: Seat, state: Any) -> Any:
        command, config = state
        return await agent.graph.ainvoke(command, config), config

    async def decide(self, agent: Seat, kept: Any) -> None:
        """A decision is given when the run is resumed."""

    async def go_on(self, agent: Seat, kept: Any) -> Any:
        return await self.resume(agent, self.approve(kept))

    async def weigh(self, agent: Seat) -> int:
        assert agent.store is not None
        return await agent.store.whole()

    async def cycle(self, clock: Clock, agent: Seat, questions: int) -> Any:
        with clock.phase("to pause"):
            outcome = await self.begin(agent)
        self._check_paused(outcome, questions)
        kept = self.keep(outcome)
        await agent.reopen()
        with clock.phase("load"):
            state = await agent.graph.aget_state(kept[1])
        assert state.interrupts
        assert agent.store is not None
        clock.metric("state_bytes", await agent.store.newest(kept[1]["configurable"]["thread_id"]))
        with clock.phase("resume"):
            return await self.resume(agent, self.approve(kept))

    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        words = [AIMessageChunk(content=WORD, id="run-x") for _ in range(deltas)]
        last = AIMessageChunk(content="", id="run-x", chunk_position="last")
        chunks = [ChatGenerationChunk(message=chunk) for chunk in [*words, last]]
        model = StreamingModel(chunks=lambda: chunks)
        graph: Any = create_agent(model, [lookup, wire], system_prompt=SYSTEM)

        async def read() -> str:
            parts = []
            async for chunk, _ in graph.astream(INPUT, stream_mode="messages"):
                if chunk.content:
                    parts.append(chunk.content)
            assert len(parts) == deltas
            return "".join(parts)

        return read


def make(saver: str = "none") -> Driver:
    """The driver."""
    return Driver(saver)
