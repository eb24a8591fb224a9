"""Differences between LangChain and `assentry.threads`: those by design, with the words of the guide that say so.

What is not the same yet is in `not_yet.txt`, which only ever gets shorter.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

GUIDE = " ".join((Path(__file__).parents[3] / "docs/howto/from-langchain.md").read_text("utf-8").split())
"""The page's words, each apart by one space."""
LIST = Path(__file__).parent / "not_yet.txt"


class Difference(NamedTuple):
    """A difference in what a case prints: what stands for what, and the words of the guide that say so."""

    theirs: str
    ours: str
    guide: str


class Sentence(NamedTuple):
    """The end of a case in an error of ours: some of its words, and the words of the guide that say so."""

    words: str
    guide: str


DIFFERENT: dict[str, list[Difference]] = {
    "gate.true_allows": [Difference(", 'respond']", "]", "`True` allows `respond`, too")],
    "hooks.a_jump_that_is_not_declared": [
        Difference("human: Hi\nai: Hello.\n", "human: Hi\n", "`jump_to` need not be declared with `hook_config`")
    ],
}
"""By case. Everything else that it prints must be the same."""
SENTENCES: dict[str, Sentence] = {
    "agents.new_message_while_it_waits": Sentence(
        "waits for a decision on send", "a new message on a waiting thread drops the question"
    ),
}
"""By case."""
SIGNATURES: dict[str, tuple[str, ...]] = {
    "`durability=`, since every step is written before it is taken": ("ThreadAgent.*(durability)",),
}
"""Patterns of parameters, fields and methods that are not here, by the words of the guide that say so."""


def not_yet(kind: str) -> set[str]:
    """Return the cases, names or signatures that are not the same yet: lines such as `case gate.edit`."""
    lines = LIST.read_text("utf-8").splitlines()
    return {line.partition(" ")[2] for line in lines if line.partition(" ")[0] == kind}
