"""The executor of shell commands, with real processes."""

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from assentry import (
    LocalShellExecutor,
    RunContextWrapper,
    ShellActionRequest,
    ShellCallData,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
)
from assentry.errors import InvalidDefinition
from assentry.tools import shell_process
from assentry.tools.shell_process import OutputBuffer
from tests.runtime.support import HANGS
from tests.tools.shell_stubs import becomes_true

FOR_EVER = "sleep 1000"


def request(*commands: str, **limits: int) -> ShellCommandRequest:
    return ShellCommandRequest(
        RunContextWrapper(None), ShellCallData("call_1", ShellActionRequest(list(commands), **limits))
    )


async def run(executor: LocalShellExecutor, *commands: str, **limits: int) -> ShellResult:
    return await asyncio.wait_for(executor(request(*commands, **limits)), HANGS)


def is_gone(pid: int) -> bool:
    """True if there is no such process, or only what its parent has not taken note of."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def pids(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().split()] if file.exists() else []


class Clock:
    """A clock that can be put forward, once somebody has read it: a time limit counts from that reading.

    Whoever waits for a process looks at the clock again when the process says something.
    """

    def __init__(self) -> None:
        self.ahead = 0.0
        self.was_read = threading.Event()

    def monotonic(self) -> float:
        now = time.monotonic() + self.ahead
        self.was_read.set()
        return now

    async def put_forward(self, seconds: float) -> None:
        """Let time pass for whoever has read the clock."""
        assert await asyncio.to_thread(self.was_read.wait, HANGS), "nobody has read the clock"
        self.ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shell_process, "time", clock)
    return clock


TICKING = "while true; do echo tick; sleep 0.02; done"


async def timed_out(clock: Clock, cwd: Path, line: str, count: int, **options: Any) -> ShellCommandOutput:
    """Let the time be over once the line has written this many process ids; these must then be gone."""
    executor = LocalShellExecutor(cwd, timeout=1000, **options)
    task = asyncio.ensure_future(run(executor, line))
    await becomes_true(lambda: len(pids(cwd / "pids")) == count)
    await clock.put_forward(1000)
    [output] = (await task).output
    await becomes_true(lambda: all(map(is_gone, pids(cwd / "pids"))))
    assert (output.status, output.exit_code) == ("timeout", None)
    return output


# -- what commands see -----------------------------------------------------------------------------


async def test_commands_run_in_order_each_with_its_own_outcome(tmp_path: Path) -> None:
    result = await run(LocalShellExecutor(tmp_path), "echo one > a", "cat a; echo two >&2", "exit 3", "echo four")
    assert [(each.stdout, each.stderr, each.exit_code, each.status) for each in result.output] == [
        ("", "", 0, "completed"),
        ("one\n", "two\n", 0, "completed"),
        ("", "", 3, "completed"),
        ("four\n", "", 0, "completed"),
    ]
    assert [each.command for each in result.output] == ["echo one > a", "cat a; echo two >&2", "exit 3", "echo four"]


async def test_commands_run_in_the_directory_and_each_begins_there(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    result = await run(LocalShellExecutor(tmp_path), "pwd", "cd sub && pwd", "pwd")
    assert [each.stdout.strip() for each in result.output] == [str(tmp_path), str(tmp_path / "sub"), str(tmp_path)]


async def test_commands_get_only_an_allowed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MINE", "mine")
    executor = LocalShellExecutor(tmp_path, env={"X": "y z"}, inherit=["MINE", "NOT_THERE"])
    monkeypatch.setenv("MINE", "changed later")
    [output] = (await run(executor, "env")).output
    seen = dict(line.split("=", 1) for line in output.stdout.splitlines())
    assert seen["X"] == "y z"
    assert seen["MINE"] == "mine"
    assert "NOT_THERE" not in seen
    assert "sk-secret" not in output.stdout
    assert set(seen) - {"ASSENTRY_COMMAND", "PWD", "SHLVL", "_"} == set(executor.env)
    assert set(executor.env) <= {"X", "MINE", "HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"}


def test_a_relative_directory_is_not_searched_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ":.:/usr/bin:bin::/bin:")
    assert LocalShellExecutor(tmp_path).env["PATH"] == "/usr/bin:/bin"
    assert LocalShellExecutor(tmp_path, env={"PATH": "."}).env["PATH"] == "."
    monkeypatch.delenv("PATH")
    assert LocalShellExecutor(tmp_path).env["PATH"] == "/bin:/usr/bin"


async def test_there_is_no_input_and_no_terminal(tmp_path: Path) -> None:
    [output] = (await run(LocalShellExecutor(tmp_path), "cat; readlink /proc/self/fd/0; tty")).output
    assert output.stdout.splitlines()[0] == "/dev/null"


async def test_a_command_that_looks_like_an_option_is_a_command(tmp_path: Path) -> None:
    for shell in ("/bin/bash", "/bin/sh"):
        outputs = (await run(LocalShellExecutor(tmp_path, shell=shell), "-x", "--help", "+x", "--")).output
        assert [each.exit_code for each in outputs] == [127] * 4


async def test_no_descriptor_of_the_program_reaches_a_command(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        [output] = (await run(LocalShellExecutor(tmp_path), "ls -l /proc/$$/fd")).output
        assert "secret" not in output.stdout


async def test_a_signal_is_an_exit_code_as_in_a_shell(tmp_path: Path) -> None:
    [output] = (await run(LocalShellExecutor(tmp_path), "kill -9 $$")).output
    assert (output.exit_code, output.status) == (137, "completed")


# -- time ------------------------------------------------------------------------------------------


async def test_a_timeout_kills_the_whole_group(tmp_path: Path, clock: Clock) -> None:
    line = (
        f"echo begun; {FOR_EVER} & echo $! >> pids; ({FOR_EVER} & echo $! >> pids; wait) & echo $$ >> pids; {TICKING}"
    )
    output = await timed_out(clock, tmp_path, line, 3)
    assert output.stdout.startswith("begun\n")


async def test_who_ignores_the_first_signal_is_killed(tmp_path: Path, clock: Clock) -> None:
    await timed_out(clock, tmp_path, f"trap '' TERM; echo $$ > pids; {TICKING}", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc")
async def test_a_process_that_left_the_session_is_killed_too(tmp_path: Path, clock: Clock) -> None:
    line = f"setsid sh -c 'echo $$ >> pids; (setsid {FOR_EVER} & echo $! >> pids); {FOR_EVER}' & {TICKING}"
    await timed_out(clock, tmp_path, line, 2)


async def test_background_processes_end_with_their_command(tmp_path: Path) -> None:
    [output] = (await run(LocalShellExecutor(tmp_path), f"{FOR_EVER} & echo $! > pids")).output
    assert (output.status, output.exit_code) == ("completed", 0)
    await becomes_true(lambda: all(map(is_gone, pids(tmp_path / "pids"))))


@pytest.mark.skipif(sys.platform != "linux", reason="it needs /proc")
async def test_a_process_that_nobody_finds_does_not_hold_up_the_call(tmp_path: Path) -> None:
    line = f"env -i {sys.executable} -c \"import os; os.setsid(); print(os.getpid(), file=open('pids', 'w')); "
    line += 'os.kill(os.getppid(), 9); import time; time.sleep(1000)" & wait'
    try:
        [output] = (await run(LocalShellExecutor(tmp_path), line)).output
        assert output.exit_code == 137
        assert pids(tmp_path / "pids"), "it was started"
    finally:
        for pid in pids(tmp_path / "pids"):
            os.kill(pid, 9)


async def test_a_process_that_cannot_be_killed_does_not_hold_up_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = shell_process._kill
    kept: list[Any] = []
    monkeypatch.setattr(shell_process, "_kill", lambda *given: kept.append(given))
    monkeypatch.setattr(shell_process, "_signal_group", lambda *given: None)
    monkeypatch.setattr(shell_process, "TERM_GRACE", 0.1)
    try:
        [output] = (await run(LocalShellExecutor(tmp_path, timeout=0.1), FOR_EVER)).output
    finally:
        monkeypatch.undo()
        kill(*kept[0])
        kept[0][0].wait()
    assert output.status == "timeout"
    assert "could not be killed" in output.stderr


async def test_a_process_whose_output_cannot_be_read_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> None:
        raise OSError("out of descriptors")

    monkeypatch.setattr(shell_process._Watch, "read", broken)
    [output] = (await run(LocalShellExecutor(tmp_path), f"echo $$ > pids; {FOR_EVER}")).output
    assert "was killed" in output.stderr and "out of descriptors" in output.stderr
    assert all(map(is_gone, pids(tmp_path / "pids")))


async def test_a_model_can_shorten_the_timeout_and_never_lengthen_it(tmp_path: Path) -> None:
    [output] = (await run(LocalShellExecutor(tmp_path, timeout=1000), FOR_EVER, timeout_ms=200)).output
    assert output.status == "timeout"
    [output] = (await run(LocalShellExecutor(tmp_path, timeout=0.2), FOR_EVER, timeout_ms=10**400)).output
    assert output.status == "timeout"


async def test_after_a_timeout_the_commands_that_follow_do_not_run(tmp_path: Path) -> None:
    result = await run(LocalShellExecutor(tmp_path, timeout=0.2), FOR_EVER, "echo 2 > two", "echo 3 > three")
    assert [each.status for each in result.output] == ["timeout", "completed", "completed"]
    assert all("did not run" in each.stderr and each.exit_code == 126 for each in result.output[1:])
    assert os.listdir(tmp_path) == []


async def test_cancelling_kills_the_group_before_it_is_over(tmp_path: Path) -> None:
    executor = LocalShellExecutor(tmp_path)
    task = asyncio.ensure_future(executor(request(f"echo $$ > pids; {FOR_EVER}", "echo 2 > two")))
    await becomes_true(lambda: bool(pids(tmp_path / "pids")))
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # once more does not leave it behind
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, HANGS)
    assert all(map(is_gone, pids(tmp_path / "pids")))
    assert not (tmp_path / "two").exists()


# -- output ----------------------------------------------------------------------------------------


async def test_endless_output_is_read_and_dropped(tmp_path: Path, clock: Clock) -> None:
    line = "echo begin; yes 0123456789 | head -c 200000; echo $$ > pids; yes 0123456789"
    output = await timed_out(clock, tmp_path, line, 1, max_output=1000)
    assert output.stdout.startswith("begin\n0123456789\n")
    assert "bytes left out]" in output.stdout
    assert len(output.stdout) < 1100


async def test_the_beginning_and_the_end_of_a_long_output_are_kept(tmp_path: Path) -> None:
    executor = LocalShellExecutor(tmp_path, max_output=20)
    [output] = (await run(executor, "seq 1 1000; seq 1 5 >&2")).output
    assert output.stdout == "1\n2\n3\n4\n5\n\n[3873 bytes left out]\n\n999\n1000\n"
    assert output.stderr == "1\n2\n3\n4\n5\n"


async def test_a_model_can_ask_for_less_output_and_never_for_more(tmp_path: Path) -> None:
    executor = LocalShellExecutor(tmp_path, max_output=100)
    result = await run(executor, "seq 1 1000", max_output_length=10)
    assert "bytes left out]" in result.output[0].stdout
    assert len(result.output[0].stdout) < 50
    assert result.max_output_length == 10
    result = await run(executor, "seq 1 1000", max_output_length=1_000_000)
    assert len(result.output[0].stdout) < 150


async def test_binary_output_is_said_to_be(tmp_path: Path) -> None:
    [output] = (await run(LocalShellExecutor(tmp_path), "printf 'a\\377b\\0c'; printf 'ok' >&2")).output
    assert output.stdout == "a\ufffdb\0c\n[some bytes are no UTF-8 text and are shown as \ufffd]\n"
    assert output.stderr == "ok"


@pytest.mark.parametrize("limit", range(1, 30))
def test_a_character_is_never_cut_in_two(limit: int) -> None:
    kept = OutputBuffer(limit)
    for byte in "aé日👍".encode() * 20:
        kept.add(bytes([byte]))
    text = kept.text()
    assert "\ufffd" not in text
    assert set(text.split("\n[")[0]) <= set("aé日👍")
    assert set(text.split("]\n")[1]) <= set("aé日👍")
    assert len(kept.head) + len(kept.tail) < limit + 70_000


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 25, 200_000])
@pytest.mark.parametrize("step", [1, 7, 65_536])
def test_nothing_is_lost_below_the_limit_and_the_rest_is_counted(size: int, step: int) -> None:
    if size > 1000 > step:
        return
    data = bytes(65 + n % 26 for n in range(size))
    kept = OutputBuffer(10)
    for at in range(0, size, step):
        kept.add(data[at : at + step])
    if size <= 10:
        assert kept.text() == data.decode()
    else:
        assert kept.text() == f"{data[:5].decode()}\n[{size - 10} bytes left out]\n{data[-5:].decode()}"


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cwd": "/no/such/directory"}, "cwd"),
        ({"cwd": "/etc/passwd"}, "cwd"),
        ({"cwd": None}, "cwd"),
        ({"cwd": "a\0b"}, "cwd"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": None}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"max_output": 0}, "max_output"),
        ({"max_output": 1.5}, "max_output"),
        ({"max_output": True}, "max_output"),
        ({"shell": "bash"}, "shell"),
        ({"shell": "/no/such/shell"}, "shell"),
        ({"shell": ["/bin/bash"]}, "shell"),
        ({"env": ["X"]}, "env"),
        ({"env": {"X": 1}}, "X must be text"),
        ({"env": {"X": "a\0"}}, "X must be text"),
        ({"env": {"A=B": "x"}}, "name"),
        ({"env": {"": "x"}}, "name"),
        ({"env": {1: "x"}}, "name"),
        ({"env": {"BASH_ENV": "x"}}, "BASH_ENV"),
        ({"env": {"BASH_FUNC_ls%%": "() { rm x; }"}}, "BASH_FUNC_ls"),
        ({"inherit": ["SHELLOPTS"]}, "SHELLOPTS"),
        ({"inherit": "PATH"}, "inherit"),
        ({"inherit": 1}, "inherit"),
        ({"inherit": [1]}, "name"),
    ],
)
def test_an_executor_that_cannot_work_cannot_be_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words) as raised:
        LocalShellExecutor(**options)
    assert "() { rm" not in str(raised.value), "the value of a variable may be secret"


async def test_a_directory_that_goes_away_is_told_of(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    executor = LocalShellExecutor(place)
    place.rmdir()
    [output] = (await run(executor, "pwd")).output
    assert output.exit_code == 126
    assert "could not be started" in output.stderr


async def test_a_command_that_is_no_text_is_told_of(tmp_path: Path) -> None:
    [output] = (await run(LocalShellExecutor(tmp_path), "echo \udc80")).output
    assert output.exit_code == 126 and "could not be started" in output.stderr


async def test_a_command_that_is_too_long_is_told_of_and_the_rest_runs(tmp_path: Path) -> None:
    outputs = (await run(LocalShellExecutor(tmp_path), "echo 1", ": " + "x" * 3_000_000, "echo 3")).output
    assert [each.exit_code for each in outputs] == [0, 126, 0]


def test_the_version_covers_the_place_and_no_secret(tmp_path: Path) -> None:
    one = LocalShellExecutor(tmp_path, env={"KEY": "secret"})
    assert one.version == LocalShellExecutor(tmp_path, env={"KEY": "other"}).version
    assert one.version != LocalShellExecutor(tmp_path).version
    assert one.version != LocalShellExecutor(tmp_path.parent, env={"KEY": "secret"}).version
    assert one.version != LocalShellExecutor(tmp_path, env={"KEY": "secret"}, shell="/bin/sh").version
    assert repr(one) == f"<LocalShellExecutor in {str(tmp_path)!r}>"


async def test_nothing_is_left_open(tmp_path: Path) -> None:
    executor = LocalShellExecutor(tmp_path, timeout=0.2)
    await run(executor, "true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await run(executor, "true", "nonsense")
    await run(executor, FOR_EVER)
    assert len(os.listdir("/proc/self/fd")) == before
