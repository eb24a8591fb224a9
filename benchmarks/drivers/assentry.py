"""Assentry, through its public surface."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from assentry import Agent, ModelRequest, ModelResponse, Runner, RunResult, RunState, Usage, function_tool

from ..conversation import FINAL, LOOKUP, PROMPT, SYSTEM, WIRE, WORD, arguments_json, body, call_id
from . import driver

MAX_TURNS = 100_000


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


class Model:
    """Answers at once, from a script."""

    name = "bench"

    def __init__(self, script: driver.Script) -> None:
        self.script = script

    async def stream(self, request: ModelRequest) -> AsyncIterator[dict[str, Any] | ModelResponse]:
        """One reply, without deltas."""
        yield self.script.respond(len(request.input))


class StreamingModel:
    """Answers in deltas."""

    name = "bench"

    def __init__(self, deltas: int) -> None:
        self.deltas = [{"type": "response.output_text.delta", "delta": WORD} for _ in range(deltas)]
        self.reply = reply(message(WORD * deltas))

    async def stream(self, request: ModelRequest) -> AsyncIterator[dict[str, Any] | ModelResponse]:
        """The deltas, and the whole."""
        for delta in self.deltas:
            yield delta
        yield self.reply


def call(turn: int, position: int, tool: str) -> dict[str, Any]:
    """A call as the provider says it."""
    return {
        "type": "function_call",
        "id": f"fc_{turn}_{position}",
        "call_id": call_id(turn, position),
        "name": tool,
        "arguments": arguments_json(turn),
        "status": "completed",
    }


def message(text: str) -> dict[str, Any]:
    """A message as the provider says it."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_final", "role": "assistant", "status": "completed", "content": content}


def reply(*items: dict[str, Any]) -> ModelResponse:
    """A reply of these items."""
    usage = Usage(requests=1, input_tokens=10, output_tokens=5)
    return ModelResponse(output=list(items), usage=usage, response_id="resp")


class Driver(driver.Driver):
    """Assentry, driven."""

    def __init__(self) -> None:
        super().__init__()
        self.agent = Agent(name="bench", instructions=SYSTEM, tools=[lookup, wire], model=Model(self.script))
        inner: Agent[Any] = Agent(
            name="inner", instructions=SYSTEM, tools=[lookup, wire], model=Model(self.inner_script)
        )
        delegate = inner.as_tool("delegate", "Let another agent do it.")
        self.outer: Agent[Any] = Agent(
            name="outer", instructions=SYSTEM, tools=[delegate], model=Model(self.outer_script)
        )

    def calls(self, turn: int, tool: str = LOOKUP, count: int = 1) -> ModelResponse:
        return reply(*(call(turn, position, tool) for position in range(count)))

    def delegation(self) -> ModelResponse:
        item = {"type": "function_call", "id": "fc_outer", "call_id": "call_outer", "name": "delegate"}
        return reply({**item, "arguments": '{"input":"book it"}', "status": "completed"})

    def final(self) -> ModelResponse:
        return reply(message(FINAL))

    async def begin(self, agent: Agent[Any]) -> RunResult:
        return await Runner.run(agent, PROMPT, max_turns=MAX_TURNS)

    def waiting(self, outcome: RunResult) -> int:
        return len(outcome.interruptions)

    def text(self, outcome: RunResult) -> Any:
        return outcome.final_output

    def outputs(self, outcome: RunResult) -> list[str]:
        return [item["output"] for item in outcome.to_input_list() if item.get("type") == "function_call_output"]

    def keep(self, outcome: RunResult) -> RunState[Any]:
        return outcome.to_state()

    def save(self, kept: RunState[Any]) -> str:
        return kept.to_string()

    async def load(self, agent: Agent[Any], saved: str) -> RunState[Any]:
        return await RunState.from_string(agent, saved)

    def approve(self, state: RunState[Any]) -> RunState[Any]:
        for question in state.get_interruptions():
            state.approve(question)
        return state

    async def resume(self, agent: Agent[Any], state: RunState[Any]) -> RunResult:
        return await Runner.run(agent, state, max_turns=MAX_TURNS)

    def streaming(self, deltas: int) -> Callable[[], Awaitable[str]]:
        agent: Agent[Any] = Agent(name="bench", instructions=SYSTEM, tools=[lookup, wire], model=StreamingModel(deltas))

        async def read() -> str:
            result = Runner.run_streamed(agent, PROMPT)
            events = result.stream_events()
            text = "".join([event.data["delta"] async for event in events if event.type == "raw_response_event"])
            assert result.final_output == text
            return text

        return read


def make() -> Driver:
    """The driver."""
    return Driver()
