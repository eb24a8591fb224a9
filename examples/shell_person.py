"""A shell whose commands a person decides on, at the prompt.

    python examples/shell_person.py

Commands that only look need nobody. For all others you see the commands and the directory, and say y, n, or e to write
another command in their place. The executor is no sandbox: run this in a container.
"""

import tempfile
from pathlib import Path
from typing import Any

from assentry import (
    Agent,
    LocalShellExecutor,
    ModelRequest,
    Runner,
    RunState,
    Shell,
    ShellTool,
    ToolApprovalItem,
    allow_commands,
)
from assentry.testing import ScriptedModel, call


def think(request: ModelRequest) -> Any:
    """In place of a real model: looks around, tidies up, and in the end says what it was told."""
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    steps = [["ls"], ["rm draft.txt", "ls"]]
    if len(outputs) < len(steps):
        return call("shell", {"commands": steps[len(outputs)]})
    return f"I was told: {outputs[-1]}"


def agent_in(directory: Path) -> Agent[Any]:
    shell = ShellTool(LocalShellExecutor(directory), needs_approval=allow_commands("ls"))
    return Agent(name="Janitor", instructions="Tidy up.", tools=[shell], model=ScriptedModel([think] * 3))


def decide(state: RunState[Any], item: ToolApprovalItem) -> None:
    blocks = item.preview.blocks if item.preview is not None else ()
    for block in blocks:
        if isinstance(block, Shell):
            print(*(f"  $ {command}" for command in block.commands), sep="\n")
    answer = input("Run this? [y/N/e] ").strip().lower()
    if answer in ("y", "yes"):
        state.approve(item, by="you")
    elif answer == "e":
        state.edit(item, {"commands": [input("Instead: $ ")]}, by="you")
    else:
        state.reject(item, by="you", rejection_message="Leave it as it is.")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name in ("draft.txt", "final.txt"):
            (place / name).write_text(name)
        agent = agent_in(place)
        result = Runner.run_sync(agent, "Tidy up.")
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                decide(state, item)
            result = Runner.run_sync(agent, state)
        print(result.final_output)
        print("Left:", *sorted(path.name for path in place.iterdir()))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nYou left it open, so nothing was run.")
