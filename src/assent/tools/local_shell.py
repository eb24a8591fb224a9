"""An executor of shell commands on this machine. Starting and ending the processes is in `shell_process`."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..core.digest import described, digest, holds
from ..core.number import is_seconds
from ..definitions.calling import in_thread
from ..errors import InvalidDefinition
from .shell import ShellActionRequest, ShellCallOutcome, ShellCommandOutput, ShellCommandRequest, ShellResult
from .shell_process import Process, Stop

INHERITED = ("HOME", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""The variables that commands get from this process: none that usually holds a secret."""
LANGUAGE = {"LANG": "C.UTF-8"}
FORBIDDEN = frozenset({"BASH_ENV", "BASHOPTS", "ENV", "SHELLOPTS"})
"""Variables that make a shell run other text, or read commands in another way, than a rule has judged."""
NOT_STARTED, KILLED = 126, 137
"""The exit codes of commands that could not be started, or were killed, as shells have them."""


class LocalShellExecutor:
    """An executor for `ShellTool` that runs commands on this machine, with the rights of this process.

    **It is no sandbox.** A command can read and write whatever this process can, and can use the network. Put a
    container, bubblewrap, or a user of its own around it; see the guide on the shell tool.

    The commands of a call run one after another, each in a shell of its own, with no input. When a command is over, all
    processes that it has started are killed, those in the background too. After a timeout the commands that follow do
    not run. On Linux processes that have left the command's session are found by their environment; one that also
    clears its environment can outlive the command, but never holds up the call.

    Args:
        cwd: The directory in which commands run.
        env: Variables for the commands.
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
        self.env = _environment(env, inherit)
        if not is_seconds(timeout) or not timeout:
            raise InvalidDefinition(
                f"LocalShellExecutor: timeout must be seconds above zero, got {described(timeout)}."
            )
        if type(max_output) is not int or max_output < 1:
            raise InvalidDefinition(f"LocalShellExecutor: max_output must be bytes, got {described(max_output)}.")
        if type(shell) is not str or not os.path.isabs(shell) or shutil.which(shell) is None:
            raise InvalidDefinition(f"LocalShellExecutor: shell must be the path of a program, got {described(shell)}.")
        self.timeout, self.max_output, self.shell = timeout, max_output, shell

    @property
    def version(self) -> str:
        """A digest of the directory, the shell and the names of the variables, for the tool's fingerprint."""
        return digest({"cwd": str(self.cwd), "shell": self.shell, "env": sorted(self.env)})[:16]

    def __repr__(self) -> str:
        return f"<LocalShellExecutor in {str(self.cwd)!r}>"

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        """Run the commands of a request. If this is cancelled, kill what runs."""
        action = request.data.action
        with Stop() as stop:
            work = asyncio.ensure_future(in_thread(functools.partial(self._run_all, action, stop)))
            try:
                outputs = await asyncio.shield(work)
            finally:
                stop.set()
                await _over(work)
        return ShellResult(outputs, action.max_output_length)

    def _run_all(self, action: ShellActionRequest, stop: Stop) -> list[ShellCommandOutput]:
        outputs: list[ShellCommandOutput] = []
        for command in action.commands:
            if stop.is_set or any(output.status == "timeout" for output in outputs):
                told = "This command did not run, because an earlier one took too long."
                outputs.append(ShellCommandOutput("", told, ShellCallOutcome("exit", NOT_STARTED), command))
            else:
                outputs.append(self._run(command, action, stop))
        return outputs

    def _run(self, command: str, action: ShellActionRequest, stop: Stop) -> ShellCommandOutput:
        asked = action.timeout_ms
        timeout = asked / 1000 if asked is not None and asked < self.timeout * 1000 else self.timeout
        limit = min(self.max_output, action.max_output_length or self.max_output)
        argv = [self.shell, "-c", "--", command]  # without "--" a command such as "-x" would be an option
        try:
            process = Process(argv, str(self.cwd), self.env)
        except (OSError, ValueError) as error:
            told = f"The command could not be started: {error}"
            return ShellCommandOutput("", told, ShellCallOutcome("exit", NOT_STARTED), command)
        try:
            ended = process.run(timeout, limit, stop)
        except OSError as error:
            told = f"The command was killed, because its output could not be read: {error}"
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


def _environment(env: Any, inherit: Any) -> dict[str, str]:
    """Return the environment of commands, or raise `InvalidDefinition`."""
    if env is not None and not isinstance(env, Mapping):
        raise InvalidDefinition(f"LocalShellExecutor: env must be a dict of variables, got {described(env)}.")
    if isinstance(inherit, str) or not isinstance(inherit, Iterable):
        raise InvalidDefinition(f"LocalShellExecutor: inherit must be a list of names, got {described(inherit)}.")
    names = list(inherit)
    for name, value in [*(env or {}).items(), *((name, "") for name in names)]:
        _check_variable(name, value)
    inherited = {name: os.environ[name] for name in (*INHERITED, *names) if name in os.environ}
    inherited["PATH"] = _absolute(inherited.get("PATH", os.defpath))
    return {**LANGUAGE, **inherited, **dict(env or {})}


def _absolute(path: str) -> str:
    """Return a PATH without relative directories, in which a command's name would be another file's elsewhere."""
    return os.pathsep.join(each for each in path.split(os.pathsep) if os.path.isabs(each))


def _check_variable(name: Any, value: Any) -> None:
    if type(name) is not str or not name or "=" in name or "\0" in name:
        raise InvalidDefinition(f"LocalShellExecutor: {described(name)} cannot be the name of a variable.")
    if name in FORBIDDEN or name.startswith("BASH_FUNC_"):
        raise InvalidDefinition(f"LocalShellExecutor: {name} would make the shell run other text than the command.")
    if type(value) is not str or "\0" in value:
        raise InvalidDefinition(f"LocalShellExecutor: the variable {name} must be text, got a {type(value).__name__}.")
