"""What a thread costs to keep grows with what is said, and not with its square."""

from pathlib import Path

import pytest

from assentry.threads import SqliteSaver, create_agent
from tests.threads.support import Paired, say, thread


def kept(directory: Path, turns: int, length: int = 1024) -> int:
    """The bytes that so many turns take up, of so many characters each way."""
    directory.mkdir()
    with SqliteSaver(directory / "threads.db") as saver:
        agent = create_agent(Paired([f"{number:0{length}}" for number in range(turns)]), checkpointer=saver)
        for number in range(turns):
            result = agent.invoke(say(f"{number:0{length}}"), thread())
    assert sum(len(message.text) for message in result["messages"]) == turns * 2 * length
    return sum(each.stat().st_size for each in directory.iterdir())


@pytest.mark.parametrize("length", [1000, 1024])
def test_eighty_turns_of_two_kilobytes_stay_small(tmp_path: Path, length: int) -> None:
    assert kept(tmp_path / "eighty", 80, length) < 400_000


def test_twice_the_turns_take_no_more_than_twice_the_room(tmp_path: Path) -> None:
    few, more = kept(tmp_path / "few", 20), kept(tmp_path / "more", 40)
    assert more < 2 * few
