"""An agent that maintains a git repository, and asks before it changes anything.

    pip install ".[mcp]" mcp-server-git
    python examples/git_maintainer.py                                 # a small repository, and a script as the model
    python examples/git_maintainer.py --repo ~/notes --model gpt-5.2

It works through the real git MCP server. The tools that only look pass by rule; whatever else the server offers, now or
in a later version, waits for you. While it waits, the run is the file `git-maintainer.json`, and no server runs. Leave
with Ctrl-C or the end of input, and start again to decide.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
from itertools import repeat
from pathlib import Path
from typing import Any

from mcp.types import Tool

from assentry import Agent, ModelRequest, Runner, RunState
from assentry.mcp import MCPServerStdio
from assentry.testing import ScriptedModel, call

STATE = Path("git-maintainer.json")
LOOKS = {f"git_{what}" for what in ("status", "diff", "diff_staged", "diff_unstaged", "log", "show", "branch")}
TASK = (
    "Look at what was changed. Unstage everything first. Then stage and commit what is ready, with a good message, and "
    "leave out what does not belong into a repository. Say what you did."
)


async def changes_something(_context: object, _agent: object, tool: Tool) -> bool:
    """The rule: only tools that are known to do no more than look need nobody."""
    return tool.name not in LOOKS


def repository(path: Path) -> Path:
    """Make a repository with work to do, if there is none."""
    if path.exists():
        return path

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=path, check=True, capture_output=True)

    path.mkdir()
    git("init")
    git("config", "user.name", "Maintainer")
    git("config", "user.email", "maintainer@example.com")
    (path / "README.md").write_text("# Lamps\n\nWe sell lmaps.\n")
    git("add", ".")
    git("commit", "--message", "Begin")
    (path / "README.md").write_text("# Lamps\n\nWe sell lamps.\n")
    (path / "debug.log").write_text("lots of noise\n")
    git("add", "debug.log")
    return path


def think(repo: Path, request: ModelRequest) -> Any:
    """In place of a real model: the next of its calls, by how many were answered."""
    here = {"repo_path": str(repo)}
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    plan: dict[int, Any] = {
        0: [call("git_status", here), call("git_diff_unstaged", here)],
        2: [call("git_reset", here)],
        3: [call("git_add", {**here, "files": ["README.md"]})],
        4: [call("git_commit", {**here, "message": "Correct a typing error"})],
    }
    return plan.get(len(outputs)) or "\n".join(["This is what came of it:", *outputs[2:]])


def approved(name: str, arguments: str) -> bool:
    return input(f"Run {name} with {arguments}? [y/N] ").strip().lower() in ("y", "yes")


def maintain(program: str, repo: Path, model: str | None) -> None:
    server = MCPServerStdio(
        params={"command": program, "args": ["--repository", str(repo)]},
        name="git",
        require_approval=changes_something,
    )
    agent = Agent[Any](
        name="Maintainer",
        instructions=f"You maintain the git repository at {repo}.",
        mcp_servers=[server],
        model=model or ScriptedModel(repeat(lambda request: think(repo, request))),
    )
    start: str | RunState[Any] = TASK
    if STATE.exists():
        start = asyncio.run(RunState.from_json(agent, json.loads(STATE.read_text())))
        print(f"Going on with {STATE}.")
    result = Runner.run_sync(agent, start)
    while result.interruptions:
        state = result.to_state()
        STATE.write_text(json.dumps(state.to_json()))
        for item in result.interruptions:
            if approved(item.name, item.arguments):
                state.approve(item, by="you")
            else:
                state.reject(item, by="you")
        result = Runner.run_sync(agent, state)
    STATE.unlink(missing_ok=True)
    print(result.final_output)


def main() -> None:
    options = argparse.ArgumentParser(description="Maintain a git repository, and ask before changing anything.")
    options.add_argument("--repo", type=Path, default=Path("lamps"), help="a repository (default: a small one is made)")
    options.add_argument("--model", help="a real model, such as gpt-5.2 (default: a script)")
    given = options.parse_args()
    program = shutil.which("mcp-server-git") or shutil.which("mcp-server-git", path=str(Path(sys.executable).parent))
    if program is None or shutil.which("git") is None:
        print("This example needs git and its MCP server: pip install mcp-server-git")
        return
    try:
        maintain(program, repository(given.repo).resolve(), given.model)
    except (EOFError, KeyboardInterrupt):
        print(f"\nThe run waits in {STATE}; start again to decide.")


if __name__ == "__main__":
    main()
