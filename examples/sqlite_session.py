"""A conversation in an SQLite file, with approval, over as many runs and starts as you like.

    python examples/sqlite_session.py

Order something ("order 3 lamps"), or ask what you have ordered. Each line you type is a run of its own; what was said
before comes from the session, `shop.db`. An order needs you. While it waits, its run is the file `shop-order.json`, and
nothing of that turn is in the conversation yet. Leave with Ctrl-C or the end of input whenever you like, in the middle
of an order too, and start again.
"""

import asyncio
from pathlib import Path
from typing import Any

from assentry import Agent, ModelRequest, Runner, RunState, SQLiteSession, function_tool
from assentry.testing import ScriptedModel, call

DATABASE, WAITING = Path("shop.db"), Path("shop-order.json")


@function_tool(needs_approval=True)
async def order(what: str) -> str:
    """Order something."""
    return f"ordered {what}"


def think(request: ModelRequest) -> Any:
    """In place of a real model: orders what it is told to, and knows what it has heard."""
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    said = request.input[-1]
    if said.get("type") == "function_call_output":
        return f"All right: {outputs[-1]}"
    if said["content"].startswith("order "):
        return call("order", {"what": said["content"].removeprefix("order ")})
    return "So far: " + (", ".join(outputs) or "nothing")


agent = Agent[Any](name="Shop", tools=[order], model=ScriptedModel(think for _ in range(1000)))


def approved(name: str, arguments: str) -> bool:
    return input(f"{name} {arguments}? [y/N] ").strip().lower() in ("y", "yes")


def answered(start: str | RunState[Any], session: SQLiteSession) -> str:
    """One line of the conversation, seen through to its answer."""
    result = Runner.run_sync(agent, start, session=session)
    while result.interruptions:
        state = result.to_state()
        WAITING.write_text(state.to_string(), "utf-8")
        for item in result.interruptions:
            if approved(item.name, item.arguments):
                state.approve(item, by="you")
            else:
                state.reject(item, rejection_message="not ordered", by="you")
        result = Runner.run_sync(agent, state, session=session)  # a live object: given again on resume
    WAITING.unlink(missing_ok=True)
    return str(result.final_output)


def main() -> None:
    with SQLiteSession("you", DATABASE) as session:
        said = asyncio.run(session.get_items())
        if said:
            print(f"Going on with {DATABASE}: {sum(item.get('role') == 'user' for item in said)} lines of yours.")
        if WAITING.exists():
            start = asyncio.run(RunState.from_string(agent, WAITING.read_text("utf-8")))
            print("shop:", answered(start, session))
        while line := input("you: ").strip():
            print("shop:", answered(line, session))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nThe conversation is kept. Start again to go on.")
