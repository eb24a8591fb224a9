"""What a thread costs to keep grows with what is said, and not with its square."""

from pathlib import Path

from assent.threads import SqliteSaver, create_agent
from tests.threads.support import Paired, say, thread


def kept(directory: Path, turns: int) -> int:
    """The bytes that so many turns take up, of a thousand characters each way."""
    directory.mkdir()
    with SqliteSaver(directory / "threads.db") as saver:
        agent = create_agent(Paired([f"{number:04}{'b' * 996}" for number in range(turns)]), checkpointer=saver)
        for number in range(turns):
            result = agent.invoke(say(f"{number:04}{'a' * 996}"), thread())
    assert sum(len(message.text) for message in result["messages"]) == turns * 2000
    return sum(each.stat().st_size for each in directory.iterdir())


def test_eighty_turns_of_two_kilobytes_stay_small(tmp_path: Path) -> None:
    assert kept(tmp_path / "eighty", 80) < 400_000


def test_twice_the_turns_take_no_more_than_twice_the_room(tmp_path: Path) -> None:
    few, more = kept(tmp_path / "few", 20), kept(tmp_path / "more", 40)
    assert more < 2 * few
