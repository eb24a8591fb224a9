"""The demo, as a person lives through it: every test types, and looks at the screen and at the shop's own ledger."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

SHOP = Path(__file__).parent.parent.parent / "examples" / "shop.py"

EVERYTHING = [
    ["looked up", "order 1042"],
    ["refunded", "899.00 for order 1042"],
    ["mailed", "anna@example.com: Your lamp"],
    ["printed", "a label for order 1042"],
    ["booked", "a courier on Friday for order 1042"],
]

Play = Callable[..., str]


def ledger(directory: Path) -> list[list[str]]:
    """What the shop did, as it wrote it down itself."""
    return [json.loads(line) for line in (directory / "shop-ledger.jsonl").read_text("utf-8").splitlines()]


def waits(directory: Path) -> bool:
    return (directory / "shop-run.json").exists()


@pytest.fixture
def play(run_example: Callable[..., CompletedProcess[str]]) -> Play:
    """`play("y", "q")` starts the demo, types these lines, and gives the screen."""

    def start(*lines: str) -> str:
        ended = run_example("shop", "".join(f"{line}\n" for line in lines), "--scripted")
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    return start


def test_all_approved_all_done(play: Play, tmp_path: Path) -> None:
    screen = play("y", "y", "Friday")
    assert ledger(tmp_path) == EVERYTHING
    assert "I have done what I could." in screen and "The shop's ledger" in screen
    assert not waits(tmp_path)


def test_question_shows_the_exact_arguments_beside_the_models_words(play: Play) -> None:
    screen = play()
    assert 'The model says: "I give the 89.90 back and write to Anna."' in screen
    assert "amount 899.0" in screen and "order  1042" in screen
    assert "The rule above_20 asks for approval." in screen


def test_edited_call_runs_with_the_persons_arguments_and_the_model_is_told(play: Play, tmp_path: Path) -> None:
    screen = play('e {"amount": 89.9}', "y", "Friday")
    assert ledger(tmp_path)[1] == ["refunded", "89.90 for order 1042"]
    assert "A person changed this call before it ran." in screen


def test_what_a_key_needs_is_asked_for(play: Play, tmp_path: Path) -> None:
    screen = play("e", '{"amount": 10}', "n", "She is a friend; I call her.", "a", "Monday")
    assert [what for what, _ in ledger(tmp_path)] == ["looked up", "refunded", "printed", "booked"]
    assert ledger(tmp_path)[1] == ["refunded", "10.00 for order 1042"]
    assert ledger(tmp_path)[-1] == ["booked", "a courier on Monday for order 1042"]
    assert "- She is a friend; I call her." in screen


def test_rejected_call_never_runs_and_the_model_is_told_why(play: Play, tmp_path: Path) -> None:
    screen = play("n The lamp was 89.90.", "y", "Friday")
    assert ledger(tmp_path) == [EVERYTHING[0], *EVERYTHING[2:]]
    assert "- The lamp was 89.90." in screen


def test_rejection_without_a_reason_is_told_in_the_default_words(play: Play) -> None:
    assert "- The call was not approved and did not run." in play("n", "", "y", "Friday")


def test_answer_in_the_tools_place_keeps_the_tool_from_running(play: Play, tmp_path: Path) -> None:
    screen = play("y", "a Anna was called.", "Friday")
    assert "mailed" not in [what for what, _ in ledger(tmp_path)]
    assert "- Anna was called." in screen


def test_rejected_question_gives_the_call_up(play: Play, tmp_path: Path) -> None:
    screen = play("y", "y", "n She brings it herself.")
    assert ledger(tmp_path) == EVERYTHING[:-1]
    assert "- She brings it herself." in screen and not waits(tmp_path)


def test_everything_can_be_rejected(play: Play, tmp_path: Path) -> None:
    play("n no", "n no", "n no")
    assert [what for what, _ in ledger(tmp_path)] == ["looked up", "printed"]


def test_bad_input_is_explained_and_changes_nothing(play: Play, tmp_path: Path) -> None:
    bad = {
        "e {amount: 5}": "Expecting property name",
        "e 5": "arguments must be a dict, got 5",
        'e {"amount": "much"}': '"amount": expected a number, got the text "much"',
        'e {"amount": NaN}': "not JSON",
        'e {"sum": 5}': '"sum": there is no such argument',
        "x": "Please type one of these letters.",
        "": "Please type one of these letters.",
    }
    screen = play(*bad, 'e {"amount": 5}', "y", "Friday")
    explained = [part.split("\n")[1] for part in screen.split("q quit > ")[1:]]
    for shown, why in zip(explained, bad.values(), strict=False):
        assert why in shown
    assert ledger(tmp_path) == [EVERYTHING[0], ["refunded", "5.00 for order 1042"], *EVERYTHING[2:]]


def test_answer_that_does_not_fit_is_explained_and_asked_again(play: Play, tmp_path: Path) -> None:
    screen = play("y", "y", "y", "Sunday", "a Tuesday", "Friday")
    assert "'approve' does not answer question" in screen
    assert 'expected "Monday" or "Friday", got the text "Sunday"' in screen
    assert 'expected "Monday" or "Friday", got the text "Tuesday"' in screen
    assert ledger(tmp_path) == EVERYTHING


def test_second_start_goes_on_and_third_begins_anew(play: Play, tmp_path: Path) -> None:
    assert "The run waits." in play("y", "q")
    assert ledger(tmp_path) == EVERYTHING[:2] and waits(tmp_path)
    screen = play("y", "Friday")
    assert screen.startswith("Going on with shop-run.json.") and "refund ─" not in screen
    assert ledger(tmp_path) == EVERYTHING and not waits(tmp_path)
    assert "A mail to the shop" in play("q")
    assert ledger(tmp_path) == EVERYTHING[:1]


def test_quitting_at_every_prompt_runs_nothing_twice(play: Play, tmp_path: Path) -> None:
    for lines in ([], ["e"], ["n"], ["y"], ["e", "q"], ["y"], ["a"], ["nonsense"], ["Friday"]):
        play(*lines)
    assert ledger(tmp_path) == EVERYTHING and not waits(tmp_path)


def test_what_hides_is_made_visible_and_markup_is_text(play: Play) -> None:
    long = "x" * 300
    screen = play('e {"amount": 5}', f'e {{"to": "a\\u202eb\\u200b\\u001b[2J", "subject": "[red]{long}"}}', "n \x1b[2J")
    assert "The shop mailed a\\u202eb\\u200b\\u001b[2J:" in screen and "[red]xxx" in screen
    assert screen.count("x") >= 3 * len(long)  # what the person typed, what the shop did, what its ledger says
    assert not {"\x1b", "\u202e", "\u200b"} & set(screen)


def test_damaged_file_is_explained(
    play: Play, tmp_path: Path, run_example: Callable[..., CompletedProcess[str]]
) -> None:
    play("q")
    saved = tmp_path / "shop-run.json"
    saved.write_text(saved.read_text()[:-20])
    ended = run_example("shop", "", "--scripted")
    assert ended.returncode == 1 and "remove shop-run.json" in ended.stderr and "Traceback" not in ended.stderr
    assert ledger(tmp_path) == EVERYTHING[:1]


def test_without_the_embedded_model_the_demo_follows_its_script_and_says_so(tmp_path: Path) -> None:
    code = "import runpy, sys; sys.modules['xllamacpp'] = None; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(SHOP)],
        input="y\ny\nFriday\n",
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("The embedded model is not installed, so the model follows a script;")
    assert ledger(tmp_path) == EVERYTHING


@pytest.mark.usefixtures("embedded")
def test_the_demo_asks_before_it_does_what_the_embedded_model_proposes(
    run_example: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    ended = run_example("shop")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("The model is a small one of 135M parameters, often wrong; which is why a person")
    assert {what for what, _ in ledger(tmp_path)} <= {"looked up", "printed"}  # the rest waits for a person


def test_a_model_that_nobody_provides_is_explained(run_example: Callable[..., CompletedProcess[str]]) -> None:
    ended = run_example("shop", "", "--model", "nobody/nothing")
    assert ended.returncode == 1 and "no provider is known" in ended.stderr and "Traceback" not in ended.stderr


# -- with hands on a real terminal ---------------------------------------------------------------


class Terminal:
    """A program in a pseudo-terminal: wait for what it shows, type, and see it end."""

    # Ctrl-C is a matter of the terminal that controls a process; this one makes its own the one it was given. Whoever
    # started the tests may have had it ignored.
    START = (
        "import fcntl, runpy, signal, sys, termios\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )

    def __init__(self, directory: Path) -> None:
        self.unread = ""
        self.fd, theirs = os.openpty()
        colourful = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.START, str(SHOP), "--scripted"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=directory,
            env=colourful | {"TERM": "xterm", "COLUMNS": "80", "LINES": "40", "PYTHONUTF8": "1"},
            start_new_session=True,
        )
        os.close(theirs)

    def expect(self, text: str) -> None:
        """Read on until it shows this, after whatever was expected before."""
        while text not in self.unread:
            more = self._read()
            assert more, f"{text!r} did not come; this did:\n{self.unread}"
            self.unread += more
        self.unread = self.unread.split(text, 1)[1]

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def interrupt(self, text: str) -> None:
        """Press Ctrl-C until it shows this. A signal that comes just before a read is noticed by no program until the
        read ends, and whoever sits there presses again."""
        for _ in range(5):
            self.type("\x03")
            while text not in self.unread and (more := self._read(5)):
                self.unread += more
            if text in self.unread:
                break
        self.expect(text)

    def ended(self) -> int:
        """The exit code, once it has nothing more to show."""
        while more := self._read():
            self.unread += more
        return self.process.wait(60)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def _read(self, patience: float = 60) -> str:
        ready, _, _ = select.select([self.fd], [], [], patience)
        try:
            return os.read(self.fd, 65536).decode("utf-8", "replace") if ready else ""
        except OSError:  # how Linux says that nobody is at the other end any more
            return ""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    """Start the demo in a terminal of its own."""
    pytest.importorskip("termios", reason="a pseudo-terminal needs Unix")
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(Terminal(tmp_path)))


def test_keys_typed_in_a_terminal(terminal: Callable[[], Terminal], tmp_path: Path) -> None:
    prompt = "q quit > "
    first = terminal()
    first.expect(prompt)
    first.type('e {"amount": 89.8\x7f99}\r')  # with a slip, and a backspace
    first.expect("refunded 89.99 for order 1042")
    first.expect(prompt)
    first.interrupt("The run waits.")
    assert first.ended() == 0
    assert [what for what, _ in ledger(tmp_path)] == ["looked up", "refunded"]

    second = terminal()
    second.expect("Going on with shop-run.json.")
    second.expect(prompt)
    second.type("y\r")
    second.expect("mailed anna@example.com")
    second.expect(prompt)
    second.type("\x04")  # Ctrl-D: the end of input
    second.expect("The run waits.")
    assert second.ended() == 0

    third = terminal()
    third.expect("\x1b[")  # colours
    third.expect(prompt)
    third.type("Friday\r")
    third.expect("The shop's ledger")
    assert third.ended() == 0
    assert ledger(tmp_path) == [EVERYTHING[0], ["refunded", "89.99 for order 1042"], *EVERYTHING[2:]]
    assert not waits(tmp_path)
