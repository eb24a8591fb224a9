"""Real bash with nothing but recording stubs to run: what it is made to run is written down, and nothing happens."""

import asyncio
import contextlib
import os
import select
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.runtime.support import HANGS

BASH = "/bin/bash"

RECORDER = r"""#!/bin/bash -p
name=${STUB_NAME:-${0#"$STUB_BIN"/}}
printf '%s\0' "$((${#@} + 1))" "$name" "$@" >>"$STUB_LOG"
read -rN 5000 _ <"$STUB_LOG" && kill -KILL 0
exit $((RANDOM % 2))
"""
"""A stub: writes down how it was called, and succeeds or fails by chance, so that few loops are long.

A loop that looks at nothing, such as `while ls & do ls; done`, is ended with its line when much has been written.
"""

ENVIRONMENT = r"""
command_not_found_handle() { STUB_NAME=$1 "$STUB_RECORDER" "${@:2}"; }
enable -n $(compgen -b)
"""
"""Before a line is read, all builtins are switched off: `eval` and `echo` are then stubs like any other command."""


class Stubs:
    """A directory of stubs, and what bash has called of them."""

    def __init__(self, root: Path, names: list[str]) -> None:
        self.bin, self.log, self.cwd = root / "bin", root / "log", root / "cwd"
        recorder, environment = root / "recorder", root / "environment"
        for directory in (self.bin, self.cwd):
            directory.mkdir()
        recorder.write_text(RECORDER)
        recorder.chmod(recorder.stat().st_mode | stat.S_IXUSR)
        environment.write_text(ENVIRONMENT)
        for name in names:
            (self.bin / name).hardlink_to(recorder)
        (self.cwd / "here").hardlink_to(recorder)
        self.env = {
            "PATH": str(self.bin),
            "BASH_ENV": str(environment),
            "STUB_BIN": str(self.bin),
            "STUB_LOG": str(self.log),
            "STUB_RECORDER": str(recorder),
            "LANG": "C.UTF-8",
            "x": "one two",
        }

    def run(self, line: str, seconds: float = 30) -> list[tuple[str, ...]]:
        """Let bash run a line, and return the commands that it ran, with their arguments."""
        self.log.write_bytes(b"")
        ours, theirs = os.pipe()  # it ends when nothing of the line runs any more
        process = subprocess.Popen(
            [BASH, "-c", "--", line],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs,),
            start_new_session=True,
        )
        os.close(theirs)
        try:
            ended = select.select([ours], [], [], seconds)[0]
            assert ended, f"{line!r} does not end"
        finally:
            os.close(ours)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return self._calls()

    def _calls(self) -> list[tuple[str, ...]]:
        words = self.log.read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
        calls = []
        while words:
            count = int(words[0])
            calls.append(tuple(words[1 : count + 1]))
            words = words[count + 1 :]
        return calls


async def becomes_true(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in another process."""
    end = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < end, "it never was"
        await asyncio.sleep(0.01)


def is_judged(call: tuple[str, ...], judged: tuple[str | None, ...]) -> bool:
    """True if the call is the command that was judged; None in that stands for any number of words."""
    if not judged:
        return not call
    if judged[0] is None:
        return any(is_judged(call[n:], judged[1:]) for n in range(len(call) + 1))
    return bool(call) and call[0] == judged[0] and is_judged(call[1:], judged[1:])
