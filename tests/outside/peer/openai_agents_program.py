"""An agent of the Agents SDK that keeps its state, so that the next process goes on: `FOLDER asks|plain [dies]`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from agents import RunState, set_tracing_disabled

from assentry.errors import AssentryError
from assentry.outside import Approvals
from assentry.outside.openai_agents import ask_first, run_with_approvals
from assentry.store import SQLiteStore
from tests.outside.desk import Effects
from tests.outside.peer.shop import calling, done, refund_tool, shop

FOLDER = Path(sys.argv[1])
KEPT = FOLDER / "state.json"


def pay(order: int, amount: int) -> str:
    Effects(FOLDER).add(f"{order} {amount}")
    if "dies" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {amount}"


async def main() -> None:
    set_tracing_disabled(True)
    async with SQLiteStore(FOLDER / "runs.db") as store:
        approvals = Approvals(store, source="shop")
        tool = refund_tool(pay)
        if "asks" in sys.argv:
            tool = ask_first(tool, approvals, pause=True)
        agent = shop(done() if KEPT.exists() else calling(), tool)
        input = await RunState.from_string(agent, KEPT.read_text()) if KEPT.exists() else "Refund order 7."
        print("going on" if KEPT.exists() else "asking", flush=True)
        result = await run_with_approvals(
            agent, input, approvals, save=lambda state: None if KEPT.exists() else _keep(state.to_string())
        )
        print(result.final_output)


def _keep(text: str) -> None:
    KEPT.write_text(text)


try:
    asyncio.run(main())
except AssentryError as error:
    print(type(error).__name__)
