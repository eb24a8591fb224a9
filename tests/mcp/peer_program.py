"""A program that begins or continues a run with the real git server, so that a run can go from process to process.

python -m tests.mcp.peer_program begin|resume STATE REPOSITORY    with the state in a file
python -m tests.mcp.peer_program store RUN DATABASE REPOSITORY    with the run in a store; RUN is `-` to begin one

It prints the run's id, and the final output or the names of the calls that wait, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import repeat
from pathlib import Path
from typing import Any

from assentry import Agent, ModelRequest, Runner, RunState
from assentry.mcp import MCPServerStdio
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call
from tests.mcp.peers import program


def git_agent(repository: Path) -> Agent[Any]:
    """Return an agent that looks at a repository and then resets it; a reset waits for a person."""
    here = {"repo_path": str(repository)}

    def reply(request: ModelRequest) -> Any:
        outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
        plan = {0: [call("git_status", here)], 1: [call("git_reset", here)]}
        return plan.get(len(outputs)) or outputs[-1]

    server = MCPServerStdio(
        params={"command": program("mcp-server-git"), "args": ["--repository", str(repository)]},
        name="git",
        require_approval={"git_reset": "always"},
    )
    return Agent(name="Maintainer", mcp_servers=[server], model=ScriptedModel(repeat(reply)))


def say(result: Any) -> None:
    waiting = [item.name for item in result.interruptions]
    print(json.dumps({"run": result.run_id, "output": result.final_output, "waiting": waiting}))


def begin(file: Path, agent: Agent[Any]) -> None:
    result = Runner.run_sync(agent, "Tidy up.")
    file.write_text(json.dumps(result.to_state().to_json()))
    say(result)


def resume(file: Path, agent: Agent[Any]) -> None:
    state = asyncio.run(RunState.from_json(agent, json.loads(file.read_text())))
    for item in state.get_interruptions():
        state.approve(item, by="ann")
    say(Runner.run_sync(agent, state))


async def with_a_store(run: str, database: Path, agent: Agent[Any]) -> None:
    async with SQLiteStore(database) as store:
        start: Any = "Tidy up." if run == "-" else await store.load(run)
        say(await Runner.run(agent, start, store=store))


if __name__ == "__main__":
    what, first, second, *rest = sys.argv[1:]
    if what == "store":
        asyncio.run(with_a_store(first, Path(second), git_agent(Path(rest[0]))))
    else:
        {"begin": begin, "resume": resume}[what](Path(first), git_agent(Path(second)))
