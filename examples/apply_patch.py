"""Change files by patches, each shown as a diff before it is applied.

    python examples/apply_patch.py

An agent tidies up a small project in the directory `project`, which the example makes. It may create files below `docs`
by itself. For everything else it asks you, with the diff. A patch is applied whole or not at all, and cannot leave the
directory.
"""

from pathlib import Path
from typing import Any

from assentry import (
    Agent,
    ApplyPatchOperation,
    ApplyPatchTool,
    Diff,
    Preview,
    RunContextWrapper,
    Runner,
    WorkspaceEditor,
)
from assentry.testing import ScriptedModel, call

PROJECT = Path("project")
FILES = {"greet.py": 'def greet(name):\n    print("Hi " + name)\n', "todo.txt": "Write a manual.\n"}

MANUAL = """*** Begin Patch
*** Add File: docs/manual.md
+# Greet
+
+`greet(name)` says hello.
*** End Patch"""
CHANGE = """*** Begin Patch
*** Update File: greet.py
@@ def greet(name):
-    print("Hi " + name)
+    print(f"Hello {name}!")
*** Delete File: todo.txt
*** End Patch"""


def needs_a_person(_ctx: RunContextWrapper[Any], operation: ApplyPatchOperation, _call_id: str) -> bool:
    return operation.type != "create_file" or not operation.path.startswith("docs/")


def visible(text: str) -> str:
    """A text without characters that could hide a part of it on a terminal."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def show(preview: Preview) -> None:
    print(preview.failed or preview.sentence)
    for block in preview.blocks:
        if isinstance(block, Diff):
            print(visible(block.text), end="")


def main() -> None:
    PROJECT.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (PROJECT / name).write_text(text)
    tool = ApplyPatchTool(WorkspaceEditor(PROJECT), needs_approval=needs_a_person)
    patches = [call("apply_patch", {"patch": patch}) for patch in (MANUAL, CHANGE)]
    agent = Agent[Any](name="Editor", tools=[tool], model=ScriptedModel([*patches, "The project is tidy."]))
    result = Runner.run_sync(agent, "Tidy up the project.")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            if item.preview is not None:
                show(item.preview)
            if input("Apply it? [y/N] ").strip().lower() in ("y", "yes"):
                state.approve(item, by="you")
            else:
                state.reject(item, by="you")
        result = Runner.run_sync(agent, state)
    print(result.final_output)
    print("Files:", ", ".join(sorted(str(p.relative_to(PROJECT)) for p in PROJECT.rglob("*") if p.is_file())))


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nNothing was approved, and no file was changed.")
