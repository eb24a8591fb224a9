"""A shell whose commands code decides on.

    python examples/shell_callback.py

Commands that only look need nobody. Of all others a callback decides, and the model is told its reason. No person is
asked, so this is for places where nobody is there to answer. The executor is no sandbox: run this in a container.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from assentry import Agent, LocalShellExecutor, Runner, ShellTool, ToolApprovalItem, ToolCallOutputItem, allow_commands
from assentry.testing import ScriptedModel, call

LOOKS = allow_commands("ls *", "cat *.txt", "grep *", "wc *")


def decide(_ctx: object, item: ToolApprovalItem) -> dict[str, Any]:
    """Let new files be written, and nothing be removed."""
    commands = json.loads(item.arguments)["commands"]
    print(f"  [the callback sees] {commands}")
    if commands == ["echo 'three lamps' > stock.txt"]:
        return {"approve": True}
    return {"approve": False, "reason": "This agent removes nothing. Leave the files where they are."}


def clerk(directory: Path) -> Agent[Any]:
    shell = ShellTool(LocalShellExecutor(directory), needs_approval=LOOKS, on_approval=decide)
    steps: list[Any] = [
        call("shell", {"commands": ["echo 'three lamps' > stock.txt"]}),
        call("shell", {"commands": ["cat stock.txt | grep -c lamps"]}),
        call("shell", {"commands": ["rm -rf ."]}),
        "The stock is written down, and stays.",
    ]
    return Agent(name="Clerk", instructions="Keep the stock list.", tools=[shell], model=ScriptedModel(steps))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        result = Runner.run_sync(clerk(Path(directory)), "Write down that there are three lamps.")
    for item in result.new_items:
        if isinstance(item, ToolCallOutputItem):
            print(f"  [the model hears] {item.output}")
    print(result.final_output)


if __name__ == "__main__":
    main()
