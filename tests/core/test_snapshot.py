"""A run that goes on from a snapshot is the run that its whole journal folds into."""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from assentry.core import facts as f
from assentry.core import snapshot as snapshots
from assentry.core.codec import decode_run, replay
from assentry.core.fold import check, fold
from assentry.core.past import PastDict, PastList, past_of
from assentry.core.run import Run, owed, questions, status
from assentry.core.snapshot import (
    EMPTY,
    EVERY,
    NOTHING_BEFORE,
    UNFIT,
    Chapter,
    Past,
    PastNeeded,
    Restored,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    is_due,
    mark,
    same_chapter,
    take_chapter,
)
from assentry.core.transcript import transcript
from assentry.errors import IllegalFact, UnreadableState
from tests.core.support import approved, asked, began, branch, finished, js, play, replied, said, snapshot, under
from tests.property.machine import CAST, Machine

JOURNALS = Path(__file__).parents[1] / "journals"


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot wherever one can be taken."""
    monkeypatch.setattr(snapshots, "EVERY", 1)


def chapters_of(journal: list[Any], *, late: bool) -> list[Chapter]:
    """The chapters of a journal; with `late`, each is taken from a run that went on from the one before."""
    run, before, made = Run(), EMPTY, list[Chapter]()
    for fact in journal:
        fold(run, fact)
        if is_due(run, before):
            chapter = take_chapter(run, journal[before.seq : run.seq], mark(run), before)
            if chapter is None:  # a journal of any facts has items that no model gives
                break
            made.append(chapter)
            before = chapter.snapshot
            run = restored(made, journal).run([]) if late else run
    return made


def restored(chapters: list[Chapter], journal: list[Any], *, whole: bool = True) -> Restored:
    """The last of these chapters, as a store gives it back."""
    last = decode_snapshot(encode_snapshot(chapters[-1].snapshot))
    assert last is not None
    past = Past([chapter.body for chapter in chapters] if whole else None)
    return Restored(last, {number: journal[number - 1] for number in last.numbers()}, past)


def plain(run: Run) -> Run:
    """The same run, with lists and dicts that are all there."""
    parts: dict[str, Any] = {name: list(getattr(run, name)) for name in ("entries", "guarded", "branches")}
    parts |= {name: dict(getattr(run, name)) for name in ("calls", "asked", "decided")}
    return replace(run, **parts)


def seen(run: Run) -> Any:
    """What anybody can ask of a run."""
    try:
        talk: Any = msgspec.json.encode(transcript(run))
    except UNFIT as error:
        talk = type(error)
    state: Any = [state.call.id for _, state in questions(run)]
    counts = [len(getattr(run, name)) for name in ("entries", "calls", "asked", "decided", "guarded", "branches")]
    return talk, state, counts, status(run), owed(run), run.usage


def verdicts(run: Run, facts: list[Any]) -> list[str | None]:
    """What the fold says to each of these facts."""
    said: list[str | None] = []
    for fact in facts:
        try:
            check(run, fact)
            said.append(None)
        except IllegalFact as error:
            said.append(str(error))
    return said


def golden(name: str) -> list[Any]:
    return list(decode_run((JOURNALS / name).read_bytes()).journal)


def drawn(seed: int) -> list[Any]:
    """The journal of a driver, people and a hostile client."""
    machine, chance = Machine(), Random(seed)
    machine.begin(chance.getrandbits(32))
    for _ in range(50):
        machine.act(chance.choice(CAST), chance.getrandbits(32))
    return list(msgspec.json.decode(msgspec.json.encode(machine.journal), type=list[f.AnyFact]))


def turns(count: int) -> list[Any]:
    """A run with a person at every turn, grants, an agent as a tool, a handoff and a filtered history."""
    facts: list[Any] = [began(max_turns=500), said(), f.Defined("root", "d1", {"send": "12345678"}, at=1)]
    for n in range(count):
        call, question = f"c{n}", f"q{n}"
        facts += [replied(None, call, usage=(1, n, 2)), asked(call, question), approved(call, question)]
        facts += [f.Granted(f"g{n}", "root", "send", "approve", "ana", max_uses=99)] if n % 5 == 1 else []
        facts += [f.Revoked("g6", "ana")] if n == 7 else []
        facts += [f.Started(call), f.Guarded("tool_output", "look", call=call), finished(call)]
        inner = f"a{n}"
        if n % 4 == 2:
            below = [
                said("deep"),
                f.Defined("child", f"d{n}", {"look": "87654321"}),
                replied(1, "x"),
                asked("x", f"z{n}"),
            ]
            below += [approved("x", f"z{n}"), f.Started("x"), finished("x")]
            below += [replied(None, text="found"), f.Concluded()]
            facts += [replied(None, f"{inner}:agent"), f.Approved(inner, "grant:g1")]
            facts += [branch(inner), *under((inner,), below), finished(inner)]
        if n == count // 2:
            facts += [replied(None, "h:handoff"), approved("h"), f.Started("h")]
            facts += [f.HandedOff("h", "other", js([{"role": "user", "content": "short"}]), "Other")]
            facts += [f.Defined("other", "d2", {"send": "12345678"})]
        facts += [f.Saved(n + 1)] if n % 3 == 0 else []
    return facts


CASES = {path.name: path.name for path in sorted(JOURNALS.glob("*.json"))}


@pytest.mark.parametrize("late", [False, True], ids=["from the whole run", "from a run that went on"])
@pytest.mark.parametrize("name", [*CASES, "turns", *(f"seed {seed}" for seed in range(25))])
def test_a_run_from_a_snapshot_at_every_place_is_the_run_of_the_whole_journal(
    name: str, late: bool, often: None
) -> None:
    journal = golden(name) if name in CASES else turns(11) if name == "turns" else drawn(int(name.split()[1]))
    chapters = chapters_of(journal, late=late)
    for number in range(len(chapters)):
        before = restored(chapters[: number + 1], journal)
        end = min(before.snapshot.seq + 30, len(journal))
        for upto in {before.snapshot.seq, (before.snapshot.seq + end) // 2, end}:
            whole, late_run = replay(journal[:upto]), before.run(journal[before.snapshot.seq : upto])
            assert seen(late_run) == seen(whole)
            assert verdicts(late_run, journal[: upto + 3]) == verdicts(whole, journal[: upto + 3])
            assert snapshot(plain(late_run)) == snapshot(whole)
            assert snapshot(plain(late_run.fork())) == snapshot(whole)
            assert before.facts(journal[before.snapshot.seq : upto]) == journal[:upto]


def test_the_journals_here_have_snapshots(often: None) -> None:
    assert len(chapters_of(turns(11), late=False)) > 15
    assert sum(len(chapters_of(drawn(seed), late=False)) > 0 for seed in range(25)) > 5
    assert sum(len(chapters_of(golden(name), late=False)) > 0 for name in CASES) > 2


def test_a_run_whose_past_was_not_read_can_be_decided_and_no_more(often: None) -> None:
    journal = turns(6)
    chapters = chapters_of(journal, late=False)
    open_question = [replied(None, "n"), asked("n", "new")]
    run = restored(chapters, journal, whole=False).run(open_question, talks=False)
    assert [state.question and state.question.id for _, state in questions(run)] == ["new"]
    fold(run, approved("n", "new"))
    for look in (lambda: run.entries[0], lambda: list(run.calls), lambda: run.entries[:], lambda: run.guarded[0]):
        with pytest.raises(PastNeeded):
            look()
    assert "q0" not in run.asked, "the ids of the past are in the past, too"


def test_a_snapshot_has_no_content_and_does_not_grow(often: None) -> None:
    small, large = (chapters_of(turns(count), late=False)[-1].snapshot for count in (6, 60))
    assert len(encode_snapshot(large)) < len(encode_snapshot(small)) + 250  # grants are counted; there are more of them
    for chapter in chapters_of(turns(60), late=False):
        assert len(chapter.body) < 2000, "a chapter has only what came after the one before"


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ([replied(None, "x")], "a call is open"),
        ([said("more")], "an input was not heard"),
        ([replied(None, text="done"), f.Concluded()], "it is done"),
        ([f.Cancelled("ana")], "it is cancelled"),
        ([f.Closed("broken")], "it is closed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_snapshot_is_taken_where_something_is_open(facts: list[Any], why: str, often: None) -> None:
    base = [began(), said(), replied(1, "c"), approved("c"), f.Started("c"), finished("c")]
    assert is_due(play(*base), EMPTY)
    assert not is_due(play(*base, *facts), EMPTY), why


def test_a_run_that_a_guardrail_stopped_has_no_snapshot() -> None:
    journal = [*turns(20), f.Guarded("output", "look", True)]
    run = play(*journal)
    assert take_chapter(run, journal, mark(run), EMPTY) is None


def test_a_chapter_can_be_made_when_the_run_has_gone_on(often: None) -> None:
    journal = turns(11)
    before, run, marks = EMPTY, Run(), list[Snapshot]()
    for fact in journal:
        fold(run, fact)
        if is_due(run, before):
            marks.append(mark(run))
    at_once = chapters_of(journal, late=False)
    assert [marked.seq for marked in marks] == [chapter.snapshot.seq for chapter in at_once]
    for number, marked in enumerate(marks):
        before = at_once[number - 1].snapshot if number else EMPTY
        assert take_chapter(run, journal[before.seq : marked.seq], marked, before) == at_once[number]


def test_a_snapshot_is_due_after_so_many_facts_and_not_before() -> None:
    journal = turns(40)
    made = chapters_of(journal, late=False)
    ends = [0, *(chapter.snapshot.seq for chapter in made)]
    assert [chapter.snapshot.before for chapter in made] == ends[:-1]
    assert all(EVERY <= end - start < EVERY + 30 for start, end in pairwise(ends))


def test_a_snapshot_of_another_form_or_a_damaged_one_is_none() -> None:
    text = encode_snapshot(chapters_of(turns(20), late=False)[0].snapshot)
    assert decode_snapshot(text) is not None
    other = {**json.loads(text), "format": "1.0"}
    for wrong in (msgspec.json.encode(other), text[:-1], b"[]", b"\xff", text.replace(b'"seq":', b'"seq":"a')):
        assert decode_snapshot(wrong) is None


def test_a_fact_that_counts_and_is_another_one_is_refused() -> None:
    journal = turns(20)
    before = restored(chapters_of(journal, late=False), journal)
    wrong = Restored(before.snapshot, before.counting | {1: said()}, before.past)
    with pytest.raises(UnreadableState, match="another one"):
        wrong.run([])
    with pytest.raises(UnreadableState, match="damaged"):
        before.run([finished("nobody")])


def test_chapters_are_compared_by_what_they_say() -> None:
    one, other = chapters_of(turns(20), late=False)[:2]
    assert same_chapter(one, one)
    assert not same_chapter(one, other)
    assert not same_chapter(one, Chapter(one.snapshot, other.body))
    assert not same_chapter(one, Chapter(one.snapshot, b"?"))


def test_a_run_without_a_snapshot_begins_with_nothing() -> None:
    assert (NOTHING_BEFORE.snapshot, NOTHING_BEFORE.facts([]) == []) == (EMPTY, True)


# -- the containers --------------------------------------------------------------------------------


def lists() -> tuple[PastList[int], list[int]]:
    return PastList(3, lambda: [0, 1, 2], [3, 4]), [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "do",
    [
        lambda items: items.append(9),
        lambda items: items.extend([8, 9]),
        lambda items: items.__iadd__([8]),
        lambda items: items.insert(0, 9),
        lambda items: items.__setitem__(0, 9),
        lambda items: items.__setitem__(-1, 9),
        lambda items: items.__setitem__(4, 9),
        lambda items: items.__setitem__(slice(None), [7]),
        lambda items: items.__delitem__(slice(4, None)),
        lambda items: items.__delitem__(slice(1, None)),
        lambda items: items.__delitem__(0),
        lambda items: items.pop(),
        lambda items: items.copy().append(1),
    ],
)
def test_a_list_with_a_past_does_what_a_list_does(do: Any) -> None:
    late, whole = lists()
    do(late)
    do(whole)
    assert (list(late), list(reversed(late)), len(late), bool(late)) == (whole, whole[::-1], len(whole), bool(whole))
    for start in (None, -9, -2, 0, 1, 3, 4, 9):
        for stop in (None, -1, 0, 2, 3, 4, 9):
            for step in (None, 1, 2, -1):
                assert late[start:stop:step] == whole[start:stop:step]
    for number in range(-7, 7):
        try:
            found: Any = whole[number]
        except IndexError:
            with pytest.raises(IndexError):
                late[number]
        else:
            assert late[number] == found


def test_the_past_of_a_list_is_loaded_only_when_it_is_needed() -> None:
    def never() -> list[int]:
        raise AssertionError("nobody needs it")

    items = PastList(3, never, [3, 4])
    items += [5]
    assert (items[3:], items[-1], items[4], len(items), items.copy()[5], past_of(items)) == ([3, 4, 5], 5, 4, 6, 5, 3)
    assert next(reversed(items)) == 5
    del items[4:]
    keys = PastDict(2, lambda key: key in ("a", "b"), never, {"c": 3})  # type: ignore[arg-type]
    keys["d"] = 4
    assert ("a" in keys, "z" in keys, keys["c"], keys.get("z"), len(keys), len(keys.copy())) == (
        True,
        False,
        3,
        None,
        4,
        4,
    )
    assert (past_of([1]), past_of(PastList(0, never))) == (0, 0)


def test_a_dict_with_a_past_does_what_a_dict_does() -> None:
    keys = PastDict(2, lambda key: key in ("a", "b"), lambda: {"a": 1, "b": 2}, {"c": 3})
    assert (dict(keys), keys["a"], list(keys.values())) == ({"a": 1, "b": 2, "c": 3}, 1, [1, 2, 3])
    with pytest.raises(KeyError):
        keys["z"]


@pytest.mark.parametrize(
    "do",
    [
        lambda keys: list(keys),
        lambda keys: list(reversed(keys)),
        lambda keys: list(keys.values()),
        lambda keys: list(reversed(keys.values())),
        lambda keys: list(keys.items()),
        lambda keys: list(reversed(keys.items())),
        lambda keys: (len(keys.values()), 2 in keys.values(), ("a", 1) in keys.items(), ("a", 2) in keys.items()),
    ],
)
def test_a_dict_with_a_past_has_the_order_of_a_dict(do: Any) -> None:
    keys = PastDict(2, lambda key: key in ("a", "b"), lambda: {"a": 1, "b": 2}, {"c": 3})
    assert do(keys) == do({"a": 1, "b": 2, "c": 3})


def test_the_newest_values_of_a_dict_are_found_without_its_past() -> None:
    def never() -> dict[str, int]:
        raise AssertionError("nobody needs it")

    keys = PastDict(2, lambda key: False, never, {"c": 3})
    assert (next(reversed(keys.values())), next(reversed(keys.items()))) == (3, ("c", 3))


def test_a_list_with_a_past_is_added_to_others() -> None:
    late, whole = lists()
    assert (late + [9], [9] + late, late + late) == ([*whole, 9], [9, *whole], whole + whole)  # noqa: RUF005


def test_a_pickle_and_a_deep_copy_of_a_list_have_its_past() -> None:
    late, whole = lists()
    assert (pickle.loads(pickle.dumps(late)), deepcopy(late)) == (whole, whole)


def test_no_encoder_leaves_the_past_out_in_silence() -> None:
    for part in lists()[0], PastDict(1, lambda key: key == "a", lambda: {"a": 1}):
        with pytest.raises(TypeError):
            msgspec.json.encode(part)
