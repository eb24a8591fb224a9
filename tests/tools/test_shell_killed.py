"""A worker that is killed while it runs a shell command: the command dies too, and the doubt says what was seen."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assentry import LocalShellExecutor, Runner, ShellCommandRequest, ShellTool
from assentry.testing import call
from assentry.tools import local_shell, shell_process, shell_watcher
from assentry.tools.shell_guard import CommandGuard
from assentry.tools.shell_process import Process, Stop
from assentry.tools.shell_watcher import MARK
from tests.runtime.support import HANGS, scripted, soon
from tests.tools.shell_stubs import becomes_true
from tests.tools.shell_worker import COUNT, FOR_EVER, shop, store_in
from tests.tools.test_local_shell import is_gone, pids, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc")

ROOT = Path(__file__).parents[2]
LATER = 3600.0
"""Seconds after which the worker's lease has run out."""


class Worker:
    """A process that runs the command until it is killed."""

    def __init__(self, folder: Path, way: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "tests.tools.shell_worker", str(folder), way]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)

    async def works(self) -> list[int]:
        """The processes of the command, once all of them run."""
        await becomes_true(lambda: self.process.poll() is not None or len(pids(self.folder / "pids")) == COUNT)
        assert self.process.poll() is None
        return pids(self.folder / "pids")

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.kill()
        self.process.wait(HANGS)
        for pid in pids(self.folder / "pids"):
            if not is_gone(pid):  # the test has killed the watcher: nobody else ends them
                shell_watcher.kill_command(0, variables_of(pid)[MARK])
        for pid in (*pids(self.folder / "others"), *pids(self.folder / "forked")):
            if not is_gone(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def worker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Worker]:
    made = Worker(tmp_path, getattr(request, "param", ""))
    yield made
    made.end()


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Iterator[CommandGuard]:
    """A guard that has started no watcher yet."""
    made = CommandGuard()
    monkeypatch.setattr(shell_process, "guard", made)
    yield made
    made.close()


def watchers(worker: int) -> list[int]:
    """The watchers of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[-3:-1] == [shell_watcher.__file__.encode(), str(worker).encode()]:
            found.append(int(entry.name))
    return found


def held_by(process: int) -> set[str]:
    """What a process has open."""
    return {os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()}


def variables_of(process: int) -> dict[str, str]:
    """The variables that a process was given."""
    texts = Path(f"/proc/{process}/environ").read_text().split("\0")
    return dict(each.split("=", 1) for each in texts if "=" in each)


def begun(*command: str, **variables: str) -> subprocess.Popen[bytes]:
    """A process of a session of its own."""
    return subprocess.Popen(command or FOR_EVER.split(), env={**os.environ, **variables}, start_new_session=True)


async def doubt_after(folder: Path) -> str:
    """The question that a worker asks who takes up the run of one that died."""
    async with store_in(folder, LATER) as store:
        [record] = (await store.runs()).items
        await soon(Runner.run(shop(folder), await store.load(record.id), store=store))
        [question] = (await store.questions()).items
        assert question.kind == "doubt"
        return str(question.reason)


# -- the worker is killed ----------------------------------------------------------------------------


@pytest.mark.parametrize("worker", ["", "held"], indirect=True)
async def test_all_processes_of_a_command_die_with_their_worker(worker: Worker) -> None:
    """Also if a stray process has all the descriptors of the worker."""
    running = await worker.works()
    [watcher] = watchers(worker.process.pid)
    worker.process.kill()
    await becomes_true(lambda: all(map(is_gone, running)))
    await becomes_true(lambda: is_gone(watcher))
    reason = await doubt_after(worker.folder)
    assert f"On {os.uname().nodename} no process of its commands is left." in reason
    assert "Other hosts" in reason and "approve to run it (again)" in reason


async def test_a_doubt_names_the_processes_that_still_run(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody killed the watcher, too."""
    monkeypatch.setattr(local_shell, "MOST_NAMED", 100)
    running = await worker.works()
    for watcher in watchers(worker.process.pid):
        os.kill(watcher, signal.SIGKILL)
    worker.process.kill()
    reason = await doubt_after(worker.folder)
    assert f"STILL RUNNING on {os.uname().nodename}: process " in reason
    assert "Approve only when these have ended, or it runs twice." in reason
    assert all(f"process {pid} ('" in reason for pid in running) and "('sleep')" in reason
    assert "1000" not in reason, "arguments may have secrets"
    assert not any(map(is_gone, running)), "a probe only looks"


@pytest.mark.parametrize("worker", ["forked"], indirect=True)
async def test_a_forked_worker_has_a_watcher_of_its_own(worker: Worker) -> None:
    running = await worker.works()
    [forked] = pids(worker.folder / "forked")
    [own], [others] = watchers(forked), watchers(worker.process.pid)
    os.kill(forked, signal.SIGKILL)
    await becomes_true(lambda: all(map(is_gone, running)))
    await becomes_true(lambda: is_gone(own))
    assert not is_gone(others) and worker.process.poll() is None


async def test_a_command_that_a_worker_was_about_to_start_dies_too(tmp_path: Path, guard: CommandGuard) -> None:
    """The worker is gone before it could tell the pid; its child has just become the command."""
    guard.add("call.command.")
    watcher = guard._watcher
    assert watcher is not None
    command = begun(**{MARK: "call.command."})
    guard.close()
    assert await asyncio.to_thread(command.wait, HANGS) == -signal.SIGKILL
    assert watcher.returncode == 0


# -- the worker lives --------------------------------------------------------------------------------


async def test_the_end_of_a_thread_ends_no_command(tmp_path: Path, guard: CommandGuard) -> None:
    """The thread that started both the command and its watcher is gone before the command is."""
    made: list[Process] = []

    def start() -> None:
        line = "read -r x < go; echo $x"
        made.append(Process(["/bin/bash", "-c", line], str(tmp_path), {"PATH": os.environ["PATH"]}, "call"))

    os.mkfifo(tmp_path / "go")
    thread = threading.Thread(target=start)
    thread.start()
    await asyncio.to_thread(thread.join, HANGS)
    assert not thread.is_alive()
    with Stop() as stop:
        ended = asyncio.ensure_future(asyncio.to_thread(made[0].run, HANGS, 1000, stop))
        await asyncio.to_thread((tmp_path / "go").write_text, "alive\n")
        assert (await soon(ended)).stdout == "alive\n"


async def test_commands_share_a_watcher_that_holds_nothing_of_the_worker(tmp_path: Path, guard: CommandGuard) -> None:
    executor, others = LocalShellExecutor(tmp_path), set(watchers(os.getpid()))
    await asyncio.gather(*(run(executor, "true", "echo x") for _ in range(8)))
    [watcher] = set(watchers(os.getpid())) - others
    assert guard._running == {}
    held = held_by(watcher)
    assert len(held) == 3 and "/dev/null" in held and "anon_inode:[pidfd]" in held
    assert os.readlink(f"/proc/{watcher}/cwd") == "/"
    assert set(variables_of(watcher)) <= {"LD_LIBRARY_PATH"}
    guard.close()
    assert is_gone(watcher)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_watcher_that_is_gone_is_replaced_by_one_that_knows_all_commands(
    tmp_path: Path, guard: CommandGuard, number: signal.Signals
) -> None:
    command = begun()
    guard.add("first.", command.pid)
    first = guard._watcher
    assert first is not None
    os.kill(first.pid, number)
    if number == signal.SIGSTOP:  # it is noticed when it has not read for long
        os.write(guard._pipe, b"0 x.\n" * 13_107)
    else:
        await becomes_true(lambda: is_gone(first.pid))
    [output] = (await run(LocalShellExecutor(tmp_path), "echo x")).output
    assert output.stdout == "x\n" and command.poll() is None
    assert guard._watcher is not None and guard._watcher.pid != first.pid and is_gone(first.pid)
    guard.close()
    assert await asyncio.to_thread(command.wait, HANGS) == -signal.SIGKILL


@pytest.mark.parametrize("interpreter", ["", "/bin/false", "/no/such/python"])
async def test_a_command_that_nobody_would_end_does_not_start(
    tmp_path: Path, guard: CommandGuard, monkeypatch: pytest.MonkeyPatch, interpreter: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    [output] = (await run(LocalShellExecutor(tmp_path), "touch x")).output
    assert output.exit_code == 126 and "could not be started" in output.stderr
    assert os.listdir(tmp_path) == [] and guard._running == {}


async def test_a_command_that_nobody_would_end_any_more_is_killed(
    tmp_path: Path, guard: CommandGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = CommandGuard.add

    def fail(guard: CommandGuard, mark: str, pid: int = 0) -> None:
        if pid:
            raise OSError("no more processes")
        add(guard, mark)

    monkeypatch.setattr(CommandGuard, "add", fail)
    [output] = (await run(LocalShellExecutor(tmp_path), FOR_EVER)).output
    assert output.exit_code == 137 and "no more processes" in output.stderr
    assert guard._running == {}


async def test_commands_end_with_a_program_that_ends_in_the_middle(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys; from assentry.tools.shell_guard import guard; "
        f"command = subprocess.Popen({FOR_EVER.split()}, start_new_session=True); guard.add('a.', command.pid); "
        "print(command.pid)"
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=HANGS
    )
    assert "shell_guard" not in done.stderr
    await becomes_true(lambda: is_gone(int(done.stdout)))


# -- the mark ----------------------------------------------------------------------------------------


async def test_a_mark_is_the_same_for_each_attempt_and_does_not_tell_the_key(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    executor = LocalShellExecutor(tmp_path)

    async def look(request: ShellCommandRequest) -> Any:
        ctx: Any = request.ctx_wrapper
        for _ in range(2):
            [output] = (await executor(request)).output
            seen.append((ctx.idempotency_key, output.stdout.strip()))
        return "ok"

    shell = ShellTool(look, needs_approval=False)
    for _ in range(2):
        await Runner.run(scripted(call("shell", {"commands": [f"echo ${MARK}"]}), "done", tools=[shell]), "go")
    keys, marks = [key for key, _ in seen], [mark.split(".") for _, mark in seen]
    assert len(set(keys)) == 2 and len({mark[0] for mark in marks}) == 2, "two runs, two calls"
    assert [mark[0] for mark in marks[:2]] == [marks[0][0]] * 2, "one call, two attempts"
    assert len({mark[1] for mark in marks}) == 4, "each command of its own"
    assert not any(key in "".join(mark) for key in keys for mark in marks)


async def test_the_end_of_a_command_leaves_another_attempt_of_the_same_call_alone(tmp_path: Path) -> None:
    first = Process(["/bin/sleep", "1000"], str(tmp_path), {}, "call")
    second = Process(["/bin/true"], str(tmp_path), {}, "call")
    with Stop() as stop:
        assert (await asyncio.to_thread(second.run, HANGS, 10, stop)).code == 0
        assert first.popen.poll() is None
        stop.set()
        assert (await asyncio.to_thread(first.run, HANGS, 10, stop)).code is None


async def test_where_processes_cannot_be_looked_at_the_doubt_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_shell, "marks_are_seen", lambda: False)
    monkeypatch.setattr(sys, "platform", "darwin")
    seen = "(darwin) nobody can see if processes of its commands still run."
    assert local_shell._describe_left("call") == f"On {os.uname().nodename} {seen}"


def test_a_doubt_does_not_name_processes_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_shell, "_left", lambda call: [f"process {n} ('x')" for n in range(12)])
    monkeypatch.setattr(local_shell, "LOOK_LIMIT", 0)
    assert "process 4 ('x') and 7 more. Approve only" in local_shell._describe_left("call")


async def test_a_name_of_a_process_cannot_write_the_doubt(tmp_path: Path) -> None:
    program = tmp_path / "x') ok\n'No"
    program.symlink_to("/bin/sleep")
    process = begun(str(program), "1000", **{MARK: "call.1."})
    try:
        named = [f"process {process.pid} (\"x') ok\\n'No\")"]
        await becomes_true(lambda: local_shell._left("call") == named)
    finally:
        process.kill()
        process.wait()
