"""openai-agents, with tracing off."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agents import Agent, RunConfig, Runner, RunResult, RunState, Usage, function_tool, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model as ModelInterface
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, WIRE, WORD, arguments_json, body, call_id
from . import driver

CONFIG = RunConfig(tracing_disabled=True)


@function_tool
async def lookup(city: str, days: int, note: str) -> str:
    """Look something up.

    Args:
        city: the city
        days: how many days
        note: free text
    """
    return body(LOOKUP, city, days, note)


@function_tool(needs_approval=True)
async def wire(city: str, days: int, note: str) -> str:
    """Wire money.

    Args:
        city: the city
        days: how many days
        note: free text
    """
    return body(WIRE, city, days, note)


class Model(ModelInterface):
    """Answers at once, from a script."""

    def __init__(self, script: driver.Script, events: list[Any] | None = None) -> None:
        self.script, self.events = script, events or []

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **options: Any) -> ModelResponse:
        reply: ModelResponse = self.script.respond(len(input) if isinstance(input, list) else 1)
        return reply

    async def stream_response(
        self, system_instructions: Any, input: Any, *rest: Any, **options: Any
    ) -> AsyncIterator[Any]:
        for event in self.events:
            yield event


def call(identity: str, name: str, arguments: str) -> ResponseFunctionToolCall:
    """A call as the provider says it."""
    return ResponseFunctionToolCall(
        arguments=arguments,
        call_id=identity,
        name=name,
        type="function_call",
        id=f"fc_{identity}",
        status="completed",
    )


def message(text: str) -> ResponseOutputMessage:
    """A message as the provider says it."""
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="msg_final", role="assistant", status="completed", type="message", content=[content]
    )


def reply(*items: Any) -> ModelResponse:
    """A reply of these items."""
    usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
    return ModelResponse(output=list(items), usage=usage, response_id="resp")


def stream(deltas: int) -> list[Any]:
    """A reply as the provider streams it."""
    events: list[Any] = [
        ResponseTextDeltaEvent(
            content_index=0,
            delta=WORD,
            item_id="msg_final",
            output_index=0,
            sequence_number=number,
            type="response.output_text.delta",
            logprobs=[],
        )
        for number in range(deltas)
    ]
    response = Response(
        id="resp",
        created_at=0,
        model="fake",
        object="response",
        output=[message(WORD * deltas)],
        parallel_tool_calls=False,
        tool_choice="auto",
        tools=[],
        status="completed",
    )
    events.append(ResponseCompletedEvent(type="response.completed", sequence_number=deltas, response=response))
    return events


class Driver(driver.Driver):
    """openai-agents, driven."""

    def __init__(self) -> None:
        super().__init__()
        set_tracing_disabled(True)
        tools: list[Any] = [lookup, wire]
        inner = Agent(name="inner", instructions=SYSTEM, model=Model(self.inner_script), tools=tools)
        delegate = inner.as_tool("delegate", "Delegate to the inner agent.")
        self.agent = Agent(name="bench", instructions=SYSTEM, model=Model(self.script), tools=tools)
        self.outer = Agent(name="outer", instructions=SYSTEM, model=Model(self.outer_script), tools=[delegate])

    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> ModelResponse:
        return reply(*(call(call_id(turn, position), tool, arguments_json(turn)) for position in range(count)))

    def delegation(self) -> ModelResponse:
        return reply(call("call_outer", "delegate", '{"input":"book it"}'))

    def final(self) -> ModelResponse:
        return reply(message(FINAL))

    async def begin(self, agent: Any) -> RunResult:
        return await Runner.run(agent, PROMPT, max_turns=None, run_config=CONFIG)

    def waiting(self, outcome: RunResult) -> int:
        return len(outcome.interruptions)

    def text(self, outcome: RunResult) -> Any:
        return outcome.final_output

    def outputs(self, outcome: RunResult) -> list[str]:
        items: list[Any] = [*outcome.to_input_list()]
        return [item["output"] for item in items if item.get("type") == "function_call_output"]

    def keep(self, outcome: RunResult) -> Any:
        return outcome.to_state()

    def save(self, kept: Any) -> Any:
        return kept.to_string()

    async def load(self, agent: Any, saved: str) -> Any:
        return await RunState.from_string(agent, saved)

    def approve(self, state: Any) -> Any:
        for question in state.get_interruptions():
            state.approve(question)
        return state

    async def resume(self, agent: Any, state: Any) -> RunResult:
        return await Runner.run(agent, state, max_turns=None, run_config=CONFIG)

    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        model = Model(self.script, stream(deltas))
        agent = Agent(name="bench", instructions=SYSTEM, model=model, tools=[lookup, wire])

        async def read() -> str:
            result = Runner.run_streamed(agent, PROMPT, max_turns=None, run_config=CONFIG)
            text = "".join(
                [
                    event.data.delta
                    async for event in result.stream_events()
                    if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
                ]
            )
            assert result.final_output == text
            return text

        return read


def make() -> Driver:
    """The driver."""
    return Driver()
