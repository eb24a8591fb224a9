"""An agent of LangChain whose thread is in SQLite, so that the next process goes on: `program.py FOLDER WAY [dies]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from assentry.errors import AssentryError
from assentry.outside import Approvals
from assentry.outside.langchain import AskFirstMiddleware
from assentry.outside.langgraph import run_graph
from assentry.store import SQLiteStore
from tests.outside.desk import Effects
from tests.outside.langgraph_agents import CONFIG, GO, agent, calls

FOLDER, WAY = Path(sys.argv[1]), sys.argv[2]


@tool
def refund(order: int, amount: int) -> str:
    """Pay an order back."""
    Effects(FOLDER).add(f"{order} {amount}")
    if "dies" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {amount}"


async def main() -> None:
    async with (
        SQLiteStore(FOLDER / "runs.db") as store,
        AsyncSqliteSaver.from_conn_string(str(FOLDER / "thread.db")) as saver,
    ):
        approvals = Approvals(store, source="shop")
        first: Any = AskFirstMiddleware(approvals, timeout=0)
        if WAY != "middleware":
            first = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=WAY)  # type: ignore[arg-type]
        begun = (FOLDER / "begun").exists()
        (FOLDER / "begun").touch()
        script = ["Done."] if begun else [calls({"order": 7, "amount": 50}), "Done."]
        graph = agent(*script, tools=[refund], middleware=[first], checkpointer=saver)
        print("going on" if begun else "asking", flush=True)
        state = await run_graph(graph, None if begun else GO, CONFIG, approvals)
        print([str(each.content) for each in state["messages"] if isinstance(each, ToolMessage)])


try:
    asyncio.run(main())
except AssentryError as error:
    print(type(error).__name__)
