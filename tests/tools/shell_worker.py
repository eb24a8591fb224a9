"""No tests: a worker that runs a shell command, and is killed meanwhile. It is started with a folder and a way."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from assentry import Agent, LocalShellExecutor, Runner, ShellTool
from assentry.store import SQLiteStore, Store
from assentry.testing import ScriptedModel, call
from assentry.tools.shell_guard import guard

FOR_EVER = "sleep 1000"
WAYS = {
    "child": f"{FOR_EVER} & echo $! >> pids",
    "grandchild": f"(({FOR_EVER} & echo $! >> pids; wait) & wait) &",
    "nohup": f"nohup {FOR_EVER} >/dev/null 2>&1 & echo $! >> pids",
    "setsid": f"setsid sh -c 'echo $$ >> pids; exec {FOR_EVER}' &",
    "daemon": f"setsid sh -c '(setsid nohup sh -c \"echo \\$\\$ >> pids; exec {FOR_EVER}\" >/dev/null 2>&1 &)' &",
    "deaf": f"sh -c 'trap \"\" TERM HUP INT; echo $$ >> pids; while true; do {FOR_EVER}; done' &",
}
"""The ways in which a process can be there that must not outlive its worker."""
LINE = f"echo $$ >> pids; {' '.join(each if each.endswith('&') else each + ';' for each in WAYS.values())} {FOR_EVER}"
COUNT = len(WAYS) + 1


def shop(folder: Path, line: str = LINE) -> Agent[Any]:
    """The agent, whose model wants the command once."""
    shell = ShellTool(LocalShellExecutor(folder, timeout=1000), needs_approval=False)
    steps = [call("shell", {"commands": [line]}), "Done."]
    return Agent("Shop", tools=[shell], model=ScriptedModel(steps))


def store_in(folder: Path, ahead: float = 0.0) -> Store:
    """The store of the worker, on a clock that may be ahead."""
    import time

    return SQLiteStore(folder / "runs.db", clock=lambda: time.time() + ahead)


async def work(folder: Path) -> None:
    """Run the command, and never come back."""
    async with store_in(folder) as store:
        await Runner.run(shop(folder), "Go.", store=store)


def main(folder: Path, way: str) -> None:
    """Work, perhaps while another process has this one's descriptors, or in a process that was forked."""
    if way == "held":
        guard.add("nothing.")
        other = subprocess.Popen(FOR_EVER.split(), pass_fds=[guard._pipe])
        (folder / "others").write_text(f"{other.pid}\n")
    if way == "forked":
        guard.add("nothing.")
        if forked := os.fork():
            (folder / "forked").write_text(f"{forked}\n")
            os.waitpid(forked, 0)
            sys.stdin.read()
            return
    asyncio.run(work(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
