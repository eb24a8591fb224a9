"""The example of the worker: order, decide and work in processes of their own, in any order."""

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

Run = Callable[..., CompletedProcess[str]]


def lines(ended: CompletedProcess[str]) -> list[str]:
    """What a program that ended well has shown."""
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_what_is_ordered_is_bought_once_after_a_yes(run_example: Run, tmp_path: Path) -> None:
    bought = tmp_path / "office-bought.txt"
    assert lines(run_example("worker", "", "order", "lamps")) == [
        'Asked about {"what":"lamps"}; nothing is bought yet.'
    ]
    run_example("worker", "", "order", "chairs")
    assert lines(run_example("worker", "", "work")) == ["Went on 0 times."]
    assert lines(run_example("worker", "", "decide"))[-1] == "What is open stays open. Start again to decide."
    assert lines(run_example("worker", "y\nn\n", "decide")) == [
        'buy {"what":"lamps"}? [y/N] buy {"what":"chairs"}? [y/N] Nothing is open.'
    ]
    assert not bought.exists()
    assert lines(run_example("worker", "", "work")) == ["Went on 2 times."]
    assert lines(run_example("worker", "", "work")) == ["Went on 0 times."]
    assert bought.read_text() == "lamps\n"
