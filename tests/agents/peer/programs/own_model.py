"""A model of one's own, written for the SDK."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage
from agents.items import TResponseStreamEvent
from openai.types.responses import ResponseOutputMessage, ResponseOutputText


class Echo(Model):
    async def get_response(
        self, system_instructions: str | None, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        text = input if isinstance(input, str) else str(input[-1]["content"])
        content = ResponseOutputText(type="output_text", text=f"{system_instructions} {text}", annotations=[])
        message = ResponseOutputMessage(
            id="msg_1", type="message", role="assistant", status="completed", content=[content]
        )
        usage = Usage(requests=1, input_tokens=2, output_tokens=3, total_tokens=5)
        return ModelResponse(output=[message], usage=usage, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError


async def main() -> None:
    result = await Runner.run(Agent(name="Echo", instructions="Echo:", model=Echo()), "hello")
    print(result.final_output, result.context_wrapper.usage.total_tokens)


asyncio.run(main())
