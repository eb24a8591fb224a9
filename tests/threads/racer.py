"""A process that answers threads of a file, one for each line that it is told: `racer.py FILE approve|reject MODE`."""

import json
import sys
from pathlib import Path
from typing import Any

from assentry import Conflict, ModelRequest
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, SqliteSaver, create_agent

FILE = Path(sys.argv[1])
MODE: Any = sys.argv[3]


def execute_sql(query: str) -> str:
    """Run a query."""
    with FILE.with_suffix(".ran").open("a") as ran:
        ran.write(f"{query}\n")
    return "ran"


def step(request: ModelRequest) -> Any:
    """A call at first, and then the end."""
    said = request.input[0]["content"]
    return call("execute_sql", {"query": said}) if len(request.input) == 1 else "done"


def steps() -> Any:
    while True:
        yield step


agent = create_agent(
    ScriptedModel(steps()),
    [execute_sql],
    middleware=[HumanInTheLoopMiddleware({"execute_sql": True}, interrupt_mode=MODE)],
    checkpointer=SqliteSaver(FILE),
)


def answer(thread: str, verdict: str) -> str:
    """What came of answering a thread."""
    try:
        decision = {"type": verdict}
        command = Command(resume={"decisions": [decision]} if MODE == "batched" else decision, by=verdict)
        result = agent.invoke(command, {"configurable": {"thread_id": thread}})
    except Conflict as error:
        return f"{type(error).__name__}: {error}"
    return "waits" if "__interrupt__" in result else str(result["messages"][2].status)


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(line.strip(), sys.argv[2])), flush=True)


if __name__ == "__main__":
    main()
