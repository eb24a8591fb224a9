"""pydantic-ai (slim).

Replies carry their usage: without it the peer's own test double estimates tokens over the whole history at every
call, which would be the double's cost, not the peer's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import (
    Agent,
    AgentRunResultEvent,
    ApprovalRequired,
    DeferredToolRequests,
    ModelMessagesTypeAdapter,
    RunContext,
)
from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, WIRE, WORD, arguments_json, body, call_id
from . import driver

UNLIMITED = UsageLimits(request_limit=None)
REQUESTS = TypeAdapter(DeferredToolRequests)
MESSAGES_KEY, REQUESTS_KEY = b'{"messages":', b',"requests":'


def dump(messages: Any, requests: Any) -> bytes:
    """The history and what waits as one JSON object."""
    return b"".join(
        [MESSAGES_KEY, ModelMessagesTypeAdapter.dump_json(messages), REQUESTS_KEY, REQUESTS.dump_json(requests), b"}"]
    )


def parse(saved: bytes) -> tuple[Any, Any]:
    """Both again, each parsed once."""
    at = saved.index(REQUESTS_KEY)
    messages = ModelMessagesTypeAdapter.validate_json(saved[len(MESSAGES_KEY) : at])
    return messages, REQUESTS.validate_json(saved[at + len(REQUESTS_KEY) : -1])


def model(script: driver.Script, words: list[str] | None = None) -> FunctionModel:
    """A model that answers at once, from a script."""

    async def respond(messages: Any, info: Any) -> ModelResponse:
        reply: ModelResponse = script.respond(len(messages))
        return reply

    async def stream(messages: Any, info: Any) -> AsyncIterator[str]:
        for word in words or []:
            yield word

    return FunctionModel(respond, stream_function=stream, model_name="fake")


def agent(script: driver.Script, words: list[str] | None = None) -> Agent[None, Any]:
    """An agent with both tools."""
    made: Agent[None, Any] = Agent(model(script, words), instructions=SYSTEM, output_type=[str, DeferredToolRequests])

    @made.tool_plain
    async def lookup(city: str, days: int, note: str) -> str:
        """Look something up.

        Args:
            city: the city
            days: how many days
            note: free text
        """
        return body(LOOKUP, city, days, note)

    @made.tool_plain(requires_approval=True)
    async def wire(city: str, days: int, note: str) -> str:
        """Wire money.

        Args:
            city: the city
            days: how many days
            note: free text
        """
        return body(WIRE, city, days, note)

    return made


def delegating(script: driver.Script, inner: Agent[None, Any]) -> Agent[None, Any]:
    """An agent that has another as a tool.

    The pause of an inner agent is not passed on by itself; the documented parts for it are `ApprovalRequired` with
    metadata and `tool_call_approved`.
    """
    made: Agent[None, Any] = Agent(model(script), instructions=SYSTEM, output_type=[str, DeferredToolRequests])

    @made.tool
    async def delegate(ctx: RunContext[None], task: str) -> str:
        """Delegate to the inner agent."""
        if ctx.tool_call_approved:
            history, requests = parse(ctx.tool_call_metadata["inner"].encode())
            results = requests.build_results(approve_all=True)
            result = await inner.run(message_history=history, deferred_tool_results=results, usage_limits=UNLIMITED)
        else:
            result = await inner.run(task, usage_limits=UNLIMITED)
        if isinstance(result.output, DeferredToolRequests):
            raise ApprovalRequired(metadata={"inner": dump(result.all_messages(), result.output).decode()})
        text: str = result.output
        return text

    return made


def reply(*parts: Any) -> ModelResponse:
    """A reply of these parts."""
    return ModelResponse(parts=list(parts), usage=RequestUsage(input_tokens=10, output_tokens=5))


class Driver(driver.Driver):
    """pydantic-ai, driven."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = agent(self.script)
        self.outer = delegating(self.outer_script, agent(self.inner_script))

    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> ModelResponse:
        return reply(*(ToolCallPart(tool, arguments_json(turn), call_id(turn, position)) for position in range(count)))

    def delegation(self) -> ModelResponse:
        return reply(ToolCallPart("delegate", '{"task":"book it"}', "call_outer"))

    def final(self) -> ModelResponse:
        return reply(TextPart(FINAL))

    async def begin(self, agent: Any) -> Any:
        return await agent.run(PROMPT, usage_limits=UNLIMITED)

    def waiting(self, outcome: Any) -> int:
        return len(outcome.output.approvals) if isinstance(outcome.output, DeferredToolRequests) else 0

    def text(self, outcome: Any) -> Any:
        return outcome.output

    def outputs(self, outcome: Any) -> list[str]:
        parts = (part for message in outcome.all_messages() for part in message.parts)
        return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]

    def keep(self, outcome: Any) -> Any:
        return outcome.all_messages(), outcome.output

    def save(self, kept: Any) -> bytes:
        return dump(*kept)

    async def load(self, agent: Any, saved: bytes) -> Any:
        return parse(saved)

    def approve(self, state: Any) -> Any:
        history, requests = state
        return history, requests.build_results(approve_all=True, metadata=requests.metadata)

    async def resume(self, agent: Any, state: Any) -> Any:
        history, results = state
        return await agent.run(message_history=history, deferred_tool_results=results, usage_limits=UNLIMITED)

    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        streamed = agent(self.script, [WORD] * deltas)

        async def read() -> str:
            parts: list[str] = []
            output = None
            async with streamed.run_stream_events(PROMPT, usage_limits=UNLIMITED) as events:
                async for event in events:
                    if isinstance(event, PartDeltaEvent):
                        if isinstance(event.delta, TextPartDelta):
                            parts.append(event.delta.content_delta)
                    elif isinstance(event, PartStartEvent):
                        if isinstance(event.part, TextPart):
                            parts.append(event.part.content)
                    elif isinstance(event, AgentRunResultEvent):
                        output = event.result.output
            text = "".join(parts)
            assert output == text and len(parts) == deltas
            return text

        return read


def make() -> Driver:
    """The driver."""
    return Driver()
