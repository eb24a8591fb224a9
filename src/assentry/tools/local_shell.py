"""An executor of shell commands on this machine. Starting and ending the processes is in `shell_process`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core import allowed
from ..core.digest import digest
from ..core.wording import described, holds
from ..definitions.calling import in_thread
from ..definitions.context import RunContextWrapper, ToolContext
from ..errors import InvalidDefinition
from .shell import ShellActionRequest, ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
from .shell_environment import command_environment
from .shell_process import Process, Stop
from .shell_watcher import marked_processes, marks_are_seen

LOOK_AGAIN, LOOK_LIMIT = 0.05, 1.0
"""The seconds between two looks for processes that are just being killed, and those for all looks."""
MOST_NAMED = 5
"""The most processes that are named to a person."""
NOT_STARTED, KILLED = 126, 137
"""The exit codes of commands that could not be started, or were killed, as shells have them."""

SHELL_PATH = allowed.Values(
    "the path of a program", lambda given: type(given) is str and os.path.isabs(given) and shutil.which(given)
)


class LocalShellExecutor:
    """An executor for `ShellTool` that runs commands on this machine, with the rights of this process.

    **It is no sandbox.** A command can read and write whatever this process can, and can use the network. Put a
    container, bubblewrap, or a user of its own around it; see the guide on the shell tool.

    The commands of a call run one after another, each in a shell of its own, with no input. When a command is over, all
    processes that it has started are killed, those in the background too. After a timeout the commands that follow do
    not run. If this process dies, its commands are killed, by a small process that watches it. On Linux processes that
    have left the command's session are found by their environment; one that also clears its environment can outlive the
    command, but never holds up the call.

    Args:
        cwd: The directory in which commands run.
        env: Variables for the commands. Those that change how a shell reads commands are refused, and so is a locale
            that is not UTF-8.
        inherit: The names of further variables of this process that commands get. Without it they get only its HOME,
            LOGNAME, PATH, TMPDIR, TZ and USER.
        timeout: The seconds that each command may take. A model can ask for less, not for more.
        max_output: The bytes that are kept of each output of a command: its beginning and its end. A model can ask for
            less, not for more.
        shell: The shell, which is called with `-c`. The rules of `allow_commands` are for bash.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str] = ".",
        *,
        env: Mapping[str, str] | None = None,
        inherit: Iterable[str] = (),
        timeout: float = 60.0,
        max_output: int = 50_000,
        shell: str = "/bin/bash",
    ) -> None:
        if not hasattr(os, "killpg"):
            raise InvalidDefinition("LocalShellExecutor needs a system with process groups, such as Linux or macOS.")
        self.cwd = _directory(cwd)
        self.env = command_environment(env, inherit)
        check = functools.partial(allowed.check_option, "LocalShellExecutor")
        check("timeout", timeout, allowed.POSITIVE_SECONDS)
        check("max_output", max_output, allowed.COUNT)
        check("shell", shell, SHELL_PATH)
        self.timeout, self.max_output, self.shell = timeout, max_output, shell

    @property
    def version(self) -> str:
        """A digest of the directory, the shell and the names of the variables, for the tool's fingerprint."""
        return digest({"cwd": str(self.cwd), "shell": self.shell, "env": sorted(self.env)})[:16]

    def __repr__(self) -> str:
        return f"<LocalShellExecutor in {str(self.cwd)!r}>"

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        """Run the commands of a request. If this is cancelled, kill what runs."""
        action, call = request.data.action, call_mark(request.ctx_wrapper)
        with Stop() as stop:
            work = asyncio.ensure_future(in_thread(functools.partial(self._run_all, action, call, stop)))
            try:
                outputs = await asyncio.shield(work)
            finally:
                stop.set()
                await _over(work)
        return ShellResult(outputs, action.max_output_length)

    async def look(self, ctx: ToolContext[Any]) -> str:
        """Return a sentence about the processes that are left of an interrupted call, as seen from this host."""
        seen: str = await in_thread(functools.partial(_describe_left, call_mark(ctx)))
        return seen

    def _run_all(self, action: ShellActionRequest, call: str, stop: Stop) -> list[ShellCommandOutput]:
        outputs: list[ShellCommandOutput] = []
        for command in action.commands:
            if stop.is_set or any(output.status == "timeout" for output in outputs):
                told = "This command did not run, because an earlier one took too long."
                outputs.append(ShellCommandOutput("", told, ShellCallOutcome("exit", NOT_STARTED), command))
            else:
                outputs.append(self._run(command, action, call, stop))
        return outputs

    def _run(self, command: str, action: ShellActionRequest, call: str, stop: Stop) -> ShellCommandOutput:
        asked = action.timeout_ms
        timeout = asked / 1000 if asked is not None and asked < self.timeout * 1000 else self.timeout
        limit = min(self.max_output, action.max_output_length or self.max_output)
        try:
            # Without "--" a command such as "-x" would be an option. In this process's locale it may have other bytes.
            process = Process([self.shell, "-c", "--", command.encode()], str(self.cwd), self.env, call)
        except (OSError, ValueError) as error:
            told = f"The command could not be started: {error}"
            return ShellCommandOutput("", told, ShellCallOutcome("exit", NOT_STARTED), command)
        try:
            ended = process.run(timeout, limit, stop)
        except OSError as error:
            told = f"The command was killed, because it could not be watched: {error}"
            return ShellCommandOutput("", told, ShellCallOutcome("exit", KILLED), command)
        outcome = ShellCallOutcome("timeout") if ended.code is None else ShellCallOutcome("exit", ended.code)
        return ShellCommandOutput(ended.stdout, ended.stderr, outcome, command)


async def _over(work: asyncio.Future[Any]) -> None:
    """Wait until the thread has ended its processes, however often this task is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if not work.cancelled():
        work.exception()  # retrieved, or asyncio would complain
    if cancelled is not None:
        raise cancelled


def _directory(cwd: Any) -> Path:
    try:
        path = Path(cwd).resolve(strict=True)
        if path.is_dir() and holds(str(path)):
            return path
    except (OSError, TypeError, ValueError, RuntimeError):
        pass
    raise InvalidDefinition(f"LocalShellExecutor: cwd must be a directory that exists, got {described(cwd)}.")


def call_mark(ctx: RunContextWrapper[Any]) -> str:
    """Return the mark of the processes of a call. It is made from the idempotency key, and does not tell that key."""
    if not isinstance(ctx, ToolContext):
        return secrets.token_hex(16)
    return digest({"shell call": ctx.idempotency_key})[:32]


def _describe_left(call: str) -> str:
    """Return a sentence about the processes of a call that still run, for the person who decides about it."""
    host = os.uname().nodename
    if not marks_are_seen():
        return f"On {host} ({sys.platform}) nobody can see if processes of its commands still run."
    end = time.monotonic() + LOOK_LIMIT
    while (left := _left(call)) and time.monotonic() < end:
        time.sleep(LOOK_AGAIN)  # whoever kills them may be about to
    elsewhere = "Other hosts, other users and processes with another environment cannot be seen from here."
    if not left:
        return f"On {host} no process of its commands is left. {elsewhere}"
    named = ", ".join(left[:MOST_NAMED]) + (f" and {len(left) - MOST_NAMED} more" if left[MOST_NAMED:] else "")
    return f"STILL RUNNING on {host}: {named}. Approve only when these have ended, or it runs twice. {elsewhere}"


def _left(call: str) -> list[str]:
    """Return the processes of a call as their pids and names; not their arguments, which may have secrets."""
    found = []
    for pid in sorted(marked_processes(f"{call}.")):
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
            found.append(f"process {pid} ({described(name)})")
    return found
