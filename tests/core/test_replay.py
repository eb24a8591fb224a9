"""Folding a whole journal does what folding it fact by fact does, or refuses it for the same reason."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from assent.core import facts as f
from assent.core.codec import decode, encode
from assent.core.fold import fold
from assent.core.replay import fold_all
from assent.core.run import Run
from assent.errors import IllegalFact
from tests.core.support import approved, asked, began, finished, js, replied, said, snapshot
from tests.core.test_codec import golden, golden_later, golden_stored


def outcome(fold_them: Any, journal: list[Any]) -> tuple[Any, str | None]:
    run = Run()
    try:
        fold_them(run, journal)
    except IllegalFact as error:
        return snapshot(run), str(error)
    return snapshot(run), None


def one_by_one(run: Run, journal: list[Any]) -> None:
    for fact in journal:
        fold(run, fact)


def turn(chance: Random, number: int) -> list[Any]:
    """A plain turn, or one that is not quite."""
    id = f"c{number}"
    facts: list[Any] = [replied(None, id), approved(id), f.Started(id), finished(id)]
    spoil = chance.choice([changed, changed, crowded, other, None, None])
    return spoil(chance, id, facts) if spoil is not None else facts


def changed(chance: Random, id: str, facts: list[Any]) -> list[Any]:
    """One of the four has another value in a field that somebody must look at."""
    changes: list[tuple[int, dict[str, Any]]] = [
        (0, {"saw": chance.randrange(4)}),
        (1, {"args": js({"n": 1}), "fills": js({"m": 2}), "digest": "of what was shown"}),
        (1, {"asked": "q1"}),
        (1, {"tool": "another"}),
        (1, {"by": "grant:g1"}),
        (1, {"by": "grant:g1", "at": 9}),
        (2, {"attempt": chance.randrange(3)}),
        (3, {"asked": "q1"}),
        (3, {"error": "ValueError", "note": "cut"}),
        (chance.randrange(4), {"path": ("p1",)}),
        (chance.randrange(1, 4), {"call": chance.choice(["", "c0", "cx"])}),
    ]
    part, change = chance.choice(changes)
    return [*facts[:part], replace(facts[part], **change), *facts[part + 1 :]]


def crowded(chance: Random, id: str, facts: list[Any]) -> list[Any]:
    """Something else happens before, between or after the four."""
    guest = chance.choice(
        [
            [said("more")],
            [said("and"), f.Awaited(("g1",))],
            [f.Cancelled("ana")],
            [f.Closed("enough")],
            [f.Limited(chance.randrange(1, 6))],
            [f.Granted(f"g{id}", "root", "send", "approve", "ana")],
            [f.Revoked("g1", "ana")],
            [f.Defined("root", finishing=chance.random() < 0.5)],
        ]
    )
    place = chance.randrange(5)
    return [*facts[:place], *guest, *facts[place:]]


def other(chance: Random, id: str, facts: list[Any]) -> list[Any]:
    """A turn of another kind."""
    return chance.choice(
        [
            [replied(None, id, f"d{id}"), *facts[1:]],
            [replied(None, f"{id}:handoff"), *facts[1:]],
            [replied(None, ""), *facts[1:]],
            [facts[0], asked(id, f"q{id}"), approved(id, f"q{id}"), *facts[2:]],
            facts[:3],
            [facts[0], *facts[2:]],
        ]
    )


@pytest.mark.parametrize("part", range(8))
def test_turns_that_are_plain_or_almost(part: int) -> None:
    ended = {"well": 0, "badly": 0}
    for seed in range(part * 250, (part + 1) * 250):
        chance = Random(seed)
        options: dict[str, Any] = {"max_turns": chance.choice([2, 5, 30])}
        if chance.random() < 0.1:
            options["release"] = "batch"
        if chance.random() < 0.1:
            options["guards"] = ("g1",)
        if chance.random() < 0.1:
            options["live"] = True
        grant = f.Granted("g1", "root", "send", "approve", "ana", max_uses=chance.choice([None, 1, 2]), until=8)
        journal = [began(**options), said("go"), *([grant] if chance.random() < 0.5 else [])]
        for number in range(chance.randrange(1, 8)):
            journal += turn(chance, number)
        whole = outcome(fold_all, journal)
        assert whole == outcome(one_by_one, journal), f"seed {seed}"
        ended["well" if whole[1] is None else "badly"] += 1
    assert min(ended.values()) > 20


@pytest.mark.parametrize("saved", [golden(), golden_later(), golden_stored()], ids=["first", "later", "stored"])
def test_golden_journals(saved: Any) -> None:
    journal = decode(encode(saved)).journal
    assert outcome(fold_all, journal) == outcome(one_by_one, journal)


def test_a_journal_that_does_not_begin_is_refused_by_both() -> None:
    journal = [replied(None, "c1"), approved("c1"), f.Started("c1"), finished("c1")]
    assert outcome(fold_all, journal) == outcome(one_by_one, journal)
    assert outcome(fold_all, journal)[1] is not None
