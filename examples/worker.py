"""A back office in an SQLite file: one process takes orders, one decides, and workers do what was decided.

    python examples/worker.py order lamps      # a run is begun; it asks, and the process ends
    python examples/worker.py decide           # decide on what is open, at the prompt
    python examples/worker.py work             # go on with all that was decided, until there is nothing to do

Do these in any order, as often as you like, in as many terminals as you like: `office.db` is all they share. What was
bought is in `office-bought.txt`, each order once. Without a word all three are done, one after the other.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from assentry import Agent, Approve, Conflict, Decision, ModelRequest, Reject, Runner, function_tool
from assentry.engines import Worker
from assentry.store import Question, SQLiteStore, Store
from assentry.testing import ScriptedModel, call

DATABASE, BOUGHT = Path("office.db"), Path("office-bought.txt")


@function_tool(needs_approval=True, deadline=24 * 3600)
def buy(what: str) -> str:
    """Buy something; if nobody decides within a day, do not."""
    with BOUGHT.open("a", encoding="utf-8") as bought:
        bought.write(f"{what}\n")
    return f"bought {what}"


def think(request: ModelRequest) -> Any:
    """In place of a real model: buys what it is told to."""
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    return outputs[-1] if outputs else call("buy", {"what": request.input[0]["content"]})


agent = Agent[Any]("Office", tools=[buy], model=ScriptedModel(think for _ in range(1000)))


async def order(store: Store, what: str) -> None:
    result = await Runner.run(agent, what, store=store)
    print(f"Asked about {result.interruptions[0].arguments}; nothing is bought yet.")


def approved(question: Question) -> bool:
    return input(f"{question.tool} {question.arguments}? [y/N] ").strip().lower() in ("y", "yes")


async def decide(store: Store) -> None:
    while questions := (await store.questions(agent="Office")).items:
        for question in questions:
            decision: Decision = Approve() if approved(question) else Reject("The office said no.")
            try:
                await store.decide(question.id, decision, by="you", digest=question.digest)
            except Conflict as error:  # somebody else was quicker
                print(error)
    print("Nothing is open.")


async def work(store: Store) -> None:
    print(f"Went on {await Worker(store, agent).run_until_idle()} times.")


async def main(words: list[str]) -> None:
    async with SQLiteStore(DATABASE) as store:
        if not words or words[0] == "order":
            await order(store, " ".join(words[1:]) or "lamps")
        if not words or words[0] == "decide":
            await decide(store)
        if not words or words[0] == "work":
            await work(store)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except (EOFError, KeyboardInterrupt):
        print("\nWhat is open stays open. Start again to decide.")
