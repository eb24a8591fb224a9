"""A process that has imported both sides, and forks for each program: imports take longer than programs.

`Worker` starts it and gives it programs, one after the other, as lines of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from benchmarks.environments import clean
from benchmarks.peers import ROOT

HERE = Path(__file__).parent
IMPORTED = ("langchain.agents", "langchain.agents.middleware", "langgraph.store.memory", "assentry.threads", "scripted")
SECONDS = 30
TOO_LONG = "TooLong"


class Ended(NamedTuple):
    """The end of a program: what it printed, and the error that ended it."""

    printed: str
    error: str = ""
    """The class of the error; empty if there was none."""
    text: str = ""
    ours: bool = False
    """True for an error of Assentry's own."""
    trace: str = ""


class Worker:
    """Runs programs in processes of their own, forked from one that has both libraries."""

    def __init__(self) -> None:
        environment = clean() | {"PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(HERE)]))}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.threads.peer.worker"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, text: str, side: str, postgres: str = "") -> Ended:
        """Run a program to its end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"text": text, "variables": {"PEER_SIDE": side, "POSTGRES": postgres}}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Ended(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            ended = _ended(asked, Path(folder))
        print(json.dumps(ended), flush=True)


def _ended(asked: dict[str, Any], folder: Path) -> Ended:
    printed, failed = folder / ".printed", folder / ".failed"
    child = os.fork()
    if child == 0:
        try:
            _run(asked, folder, printed, failed)
        finally:
            os._exit(0)
    return _waited(child, printed, failed)


def _waited(child: int, printed: Path, failed: Path) -> Ended:
    until = time.monotonic() + SECONDS
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Ended(printed.read_text("utf-8", "replace"), TOO_LONG, f"It took more than {SECONDS} seconds.")
        time.sleep(0.002)
    text = printed.read_text("utf-8", "replace")
    return Ended(text, *json.loads(failed.read_text("utf-8"))) if failed.exists() else Ended(text)


def _run(asked: dict[str, Any], folder: Path, printed: Path, failed: Path) -> None:
    """Run the program in this process, which is its own, and write down what became of it."""
    os.environ.update(asked["variables"])
    os.chdir(folder)
    with printed.open("wb") as out, Path(os.devnull).open("rb") as nothing, (folder / ".log").open("wb") as log:
        os.dup2(nothing.fileno(), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(log.fileno(), 2)
        source = folder / "program.py"
        source.write_text(asked["text"], "utf-8")
        module = sys.modules["__main__"] = ModuleType("__main__")
        module.__file__ = str(source)
        try:
            exec(compile(asked["text"], str(source), "exec", dont_inherit=True), vars(module))
        except BaseException as error:
            from assentry.errors import AssentryError

            told = (type(error).__name__, str(error), isinstance(error, AssentryError), traceback.format_exc()[-4000:])
            failed.write_text(json.dumps(told), "utf-8")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
