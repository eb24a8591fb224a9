"""An agent of Pydantic AI that keeps its messages, so that the next process goes on: `program.py FOLDER [dies]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from assentry.errors import AssentryError
from assentry.outside import Approvals
from assentry.outside.pydantic_ai import AskFirst
from assentry.store import SQLiteStore
from tests.outside.desk import Effects

FOLDER = Path(sys.argv[1])
KEPT = FOLDER / "messages.json"


def model(messages: list, info: object) -> ModelResponse:
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if returned:
        return ModelResponse(parts=[TextPart(f"{returned[0].tool_call_id}: {returned[0].content}")])
    return ModelResponse(parts=[ToolCallPart("refund", {"order": 7, "amount": 50}, "call_1")])


async def main() -> None:
    async with SQLiteStore(FOLDER / "runs.db") as store:
        agent = Agent(FunctionModel(model), capabilities=[AskFirst(Approvals(store, source="shop"))])

        @agent.tool_plain(requires_approval=True)
        def refund(order: int, amount: int) -> str:
            """Pay an order back."""
            Effects(FOLDER).add(f"{order} {amount}")
            if "dies" in sys.argv:
                os.kill(os.getpid(), signal.SIGKILL)
            return f"paid {amount}"

        kept = ModelMessagesTypeAdapter.validate_json(KEPT.read_bytes()) if KEPT.exists() else None
        print("asking" if kept is None else "going on", flush=True)
        async with agent.iter(None if kept else "Refund order 7.", message_history=kept) as run:
            async for node in run:
                if Agent.is_call_tools_node(node) and not KEPT.exists():
                    KEPT.write_bytes(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
        assert run.result is not None
        print(run.result.output)


try:
    asyncio.run(main())
except AssentryError as error:
    print(type(error).__name__)
