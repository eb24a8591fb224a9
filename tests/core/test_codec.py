"""A saved run and back: round trips, every way a file can be damaged, other versions, and journals of old.

A golden journal is written once, by the version of the schema it is of, and folds for ever. If the file of today's
schema is not there yet, write it with: ASSENTRY_WRITE=1 python -m pytest tests/core/test_codec.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assentry.core import facts as f
from assentry.core.codec import SCHEMA, UPGRADERS, SavedRun, decode_run, encode_run, replay
from assentry.core.fold import fold
from assentry.core.run import Run, owed, questions, status
from assentry.core.transcript import transcript
from assentry.errors import UnknownSchema, UnreadableState
from tests.core.support import (
    FACTS,
    answered,
    approved,
    asked,
    began,
    branch,
    finished,
    js,
    play,
    proposed,
    refused,
    replied,
    said,
    snapshot,
    under,
)

JOURNALS = Path(__file__).parent.parent / "journals"
TODAY = JOURNALS / f"v{SCHEMA}.json"
LATER = JOURNALS / f"v{SCHEMA}-awaited.json"
"""What the first journal of the schema is too old to hold."""
STORED = JOURNALS / f"v{SCHEMA}-stored.json"
"""And what came with the store."""
ANEW = JOURNALS / f"v{SCHEMA}-anew.json"
"""And with code that asks, and is asked anew."""
FENCED = JOURNALS / f"v{SCHEMA}-fenced.json"
"""And with attempts that name their lease."""
LIVE = JOURNALS / f"v{SCHEMA}-live.json"
"""And with a conversation that was live."""
MASKED = JOURNALS / f"v{SCHEMA}-masked.json"
"""And with definitions that say which arguments are secret."""
FORKED = JOURNALS / f"v{SCHEMA}-forked.json"
"""And with threads that have a state, and forks."""
OUTSIDE = JOURNALS / f"v{SCHEMA}-outside.json"
"""And with a program outside that drives the run."""


# -- the golden journal ------------------------------------------------------------------------------


def golden() -> SavedRun:
    """A run in which every fact occurs, with every field set somewhere."""
    grant = f.Granted("g1", "root", "lookup", "approve", "ana", "shop", "go on", at=2)
    journal: list[Any] = [
        f.Began(
            "root",
            5,
            "run_1",
            "1.0",
            "each",
            ("profanity",),
            trace={"trace_id": "t1"},
            conversation={"conversation_id": "v1"},
            at=1_700_000_000_000,
        ),
        f.Said(js([{"role": "user", "content": "Refund order 7, é😀"}]), at=1),
        f.Defined("root", "digest of tools", {"lookup": "12345678"}, "scripted", "digest of text", at=2),
        grant,
        replied(
            1, "c1", "c2", "c3", "c4", "p5:agent", "c6:hosted", text="At once.", usage=(1, 90, 40, 10, 5), id="resp_1"
        ),
        f.Guarded("input", "profanity", False, js({"score": 0}), at=3),
        *_tool_calls(),
        *under(("p5",), [branch(release="batch"), said("check it"), replied(1, "d1"), approved("d1"), f.Started("d1")]),
        *under(("p5",), [finished("d1"), replied(1, text="fine"), f.Concluded()]),
        finished("p5", "fine"),
        f.Saved(2, at=60),
        said("and mail me", by="user", at=61),
        replied(2, "h1:handoff", "h2:handoff"),
        approved("h1"),
        approved("h2"),
        f.Started("h1"),
        f.HandedOff("h1", "root/mailer", js([{"role": "user", "content": "in short"}]), at=62),
        f.Refused("h2", "runtime", why="another handoff was taken", at=62),
        f.Told("h2"),
        f.Defined("root/mailer", finishing=True, at=63),
        replied(2, "c7"),
        approved("c7"),
        f.Started("c7"),
        finished("c7", [1, 2.5, None, {"x": "y"}]),
        f.Continued(at=70),
        f.Cancelled("ana", "lunch", at=71),
        f.Resumed("ana", at=72),
        f.Limited(9, at=73),
        proposed("k1", "hook", {"before": "model"}),
        asked("k1", "q7", until=90, at=74),
        approved("k1", "q7", at=80),
        f.Started("k1"),
        finished("k1", True),
        replied(None, text="Done.", note="2 characters were replaced"),
        proposed("o1", "output", "Done."),
        asked("o1", "q8", allowed=("approve", "reject")),
        approved("o1", "q8", at=85),
        f.Guarded("output", "tone", output=js("calm"), at=86),
        f.Concluded(js("Done."), call="o1", at=87),
        f.Revoked("g1", "ana", at=88),
        said("one more"),
        replied(3, "c8", "c9"),
        asked("c8", "q9", why="Every call of send needs approval.", at=90),
        approved("c9"),
        f.Started("c9"),
        f.Closed("the process was stopped", "Cancelled", at=95),
        f.Witnessed("c9", 1, js({"late": True}), at=99),
    ]
    return SavedRun(SCHEMA, "0.1.0", journal, js({"customer": 7}), "mapping")


def _tool_calls() -> list[Any]:
    """A call let pass, one edited, one in doubt, one that asks, one that a provider runs."""
    return [
        f.Guarded("tool_input", "limits", call="c1"),
        f.Approved("c1", "grant:g1", args=js({"n": 1}), why="given by ana", fills=js({"m": 2})),
        f.Started("c1"),
        f.Stepped("c1", "reserve", js({"id": 3})),
        f.Guarded("tool_output", "limits", call="c1"),
        f.Finished("c1", js("ok"), note="1 character was replaced"),
        f.Redefined("c2", "fingerprint", "ana", at=10),
        asked("c2", "q1", args=js({"amount": 50}), prompt=js("?"), until=100, fills=js({"n": 0})),
        asked("c2", "q2", replaces="q1", allowed=("approve", "edit"), args=js({"amount": 50})),
        f.Approved("c2", "ana", "q2", js({}), "refund_all", "digest of the edit", "trust me", definition="fp", at=20),
        f.Started("c2"),
        asked("c2", "q3", "doubt"),
        approved("c2", "q3"),
        f.Started("c2", 2),
        finished("c2", "failed", error="ValueError"),
        approved("c3"),
        f.Started("c3"),
        asked("c3", "q4", "input", prompt=js("which?"), schema=js({"type": "string"})),
        answered("c3", "q4", "the blue one"),
        f.Started("c3", 2),
        asked("c3", "q5", "doubt"),
        finished("c3", "sent", by="ana", asked="q5"),
        asked("c4", "q6"),
        refused("c4", "q6", message="too much", why="over the limit", at=30),
        f.Told("c4", "It was refused: too much."),
        approved("p5"),
        approved("c6"),
        f.Started("c6"),
        finished("c6"),
    ]


def golden_later() -> SavedRun:
    """The facts and fields that came to the schema after its first journal was written."""
    journal: list[Any] = [
        f.Began("root", 5, "run_2", "1.1", session="talks"),
        f.Said(js([{"role": "user", "content": "before"}]), "session"),
        said("go"),
        f.Awaited(("profanity",)),
        f.Guarded("input", "profanity", output=js({"rude": False})),
        f.Defined("Root", "digest", output="digest of the output"),
        replied(2, "c1", "h2:handoff"),
        f.Guarded("tool_input", "limits", call="c1", message="too much"),
        refused("c1", message="too much"),
        f.Told("c1"),
        approved("h2"),
        f.Started("h2"),
        f.HandedOff("h2", "root/transfer_to_clerk", name="Clerk"),
    ]
    return SavedRun(SCHEMA, "1.1", journal)


def golden_stored() -> SavedRun:
    """The facts and fields that came with runs that live in a store."""
    terms: dict[str, Any] = {"max_uses": 2, "until": 900, "pins": js({"to": "ana"})}
    journal: list[Any] = [
        f.Began("root", 5, "run_3", "1.2", stored=True, at=1_700_000_000_000),
        said("go"),
        f.Defined("Root", "digest", {"send": "12345678"}),
        replied(1, "c1", "c2", "c3"),
        asked("c1", "q1", due=50, at=5),
        approved("c1", "q1", at=60),
        f.Granted("g1", "root", "send", "approve", "ana", definition="fp", at=60, **terms),
        f.Approved("c2", "grant:g1", why="given by ana", at=61),
        asked("c3", "q2", until=80, at=62),
        f.Started("c1", at=63),
        f.Left("c1", 1, at=64),
        f.Started("c1", 2, at=65),
        f.Left("c1", 2, "probe", at=66),
        f.Started("c1", 3, at=67),
        asked("c1", "q3", "doubt", at=70),
        f.Witnessed("c1", 2, js("late"), at=75),
        f.Refused("c3", "deadline", "q2", why="nobody decided in time", at=81),
        f.Told("c3", "It was not approved."),
    ]
    return SavedRun(SCHEMA, "1.2", journal)


def golden_anew() -> SavedRun:
    """The fields that came with code that goes on with what it saw, and with questions that are asked anew."""
    journal: list[Any] = [
        f.Began("root", 5, "run_4", "1.3"),
        said("one"),
        proposed("c1", "hook", {"replies": []}, saw=1),
        asked("c1", "q1", allowed=("respond",), prompt=js("sure?")),
        said("two"),
        finished("c1", "yes", by="ana", asked="q1"),
        proposed("c2", "hook", {"replies": []}, saw=1),
        asked("c2", "q2", allowed=("respond",), prompt=js("really?"), voids="q1"),
        finished("c2", "yes", by="ana", asked="q2"),
        replied(1, "c3"),
        approved("c3"),
        f.Started("c3"),
        asked("c3", "q3", "input", prompt=js("which?")),
        answered("c3", "q3", "the blue one"),
        f.Started("c3", 2),
        asked("c3", "q4", "input", prompt=js("which, now?"), voids="q3"),
        answered("c3", "q4", "the red one"),
    ]
    return SavedRun(SCHEMA, "1.3", journal)


def golden_fenced() -> SavedRun:
    """The fields that came with attempts that name their lease."""
    journal: list[Any] = [
        f.Began("root", 5, "run_5", "1.4", stored=True, at=1_700_000_000_000),
        said("go"),
        replied(1, "c1", "c2"),
        approved("c1"),
        f.Started("c1", 1, 2, at=5),
        f.Left("c1", 1, fence=2, at=6),
        f.Started("c1", 2, 3, at=7),
        f.Left("c1", 2, "probe", 3, at=8),
        f.Started("c1", 3, 4, at=9),
        finished("c1", "done"),
        approved("c2"),
        f.Started("c2", 1, 4),
        finished("c2", "done"),
    ]
    return SavedRun(SCHEMA, "1.4", journal)


def golden_live() -> SavedRun:
    """A live run whose model went on while a call waited, and that was continued as text."""
    journal: list[Any] = [
        f.Began("desk", 10, "run_5", "0.1.0", live=True, at=1_700_000_000_000),
        f.Defined("desk", "digest of tools", {"refund": "12345678"}),
        said("my money back", at=1),
        replied(1, "c1", "c2"),
        asked("c1", "q1", at=2),
        approved("c2"),
        f.Started("c2"),
        finished("c2"),
        msgspec.structs.replace(replied(1, text="I have asked."), missed=("c2",)),
        f.Guarded("output", "tone", True, message="Reply otherwise.", at=3),
        approved("c1", "q1", at=9),
        f.Switched(False, at=10),
        f.Started("c1"),
        finished("c1"),
        replied(1, text="It is done."),
        f.Concluded(at=11),
        f.Switched(True, at=12),
    ]
    return SavedRun(SCHEMA, "0.1.0", journal)


def golden_masked() -> SavedRun:
    """The field that came with definitions that say which arguments are secret."""
    journal: list[Any] = [
        f.Began("root", 5, "run_6", "1.5", stored=True, at=1_700_000_000_000),
        said("go"),
        f.Defined("root", "digest", {"send": "12345678"}, redact={"send": ("key", "pin")}),
        replied(1, "c1"),
        f.Defined("root", "another digest", redact={}, at=5),
    ]
    return SavedRun(SCHEMA, "1.5", journal)


def golden_forked() -> SavedRun:
    """The fields that came with the state of threads, and a fork that begins with a reply to be judged anew."""
    began = f.Began("root", 5, "t:2", "0.2.0", "batch", stored=True, thread="t", follows="t:0", forked="t:1@7")
    journal: list[Any] = [
        msgspec.structs.replace(began, at=1_700_000_000_000),
        f.Said(js([{"role": "user", "content": "go", "assent:message": {"id": "t:1.0"}}]), update=js([{"topic": "x"}])),
        f.Defined("root", "digest", {"send": "12345678"}),
        msgspec.structs.replace(replied(1, "c1"), note=f.COPIED_REPLY),
        said("quick"),
        f.Cancelled("update_state", "The state was updated."),
        f.Resumed("local", at=5),
        approved("c1", at=6),
        f.Started("c1"),
        f.Finished("c1", js("sent"), update=js([{"notes": ["y"]}]), more=js({"artifact": {"n": 1}}), at=7),
        msgspec.structs.replace(replied(2, text="It is done."), update=js([{"messages": [["remove", "t:1.0"]]}])),
        f.Concluded(at=9),
    ]
    return SavedRun(SCHEMA, "0.2.0", journal)


def golden_outside() -> SavedRun:
    """The field that came with runs that a program outside drives, and its call: in doubt, run again, reported late."""
    began = f.Began(
        "ann:bot", 1, "run_8", "0.3.0", stored=True, thread="outside/ann:bot/s1", by="ann:bot", caller="ann"
    )
    journal: list[Any] = [
        msgspec.structs.replace(began, at=1_700_000_000_000),
        f.Said(js("ann:bot asks whether a call of send may run."), "ann"),
        f.Defined("ann:bot", redact={"send": ("key",)}),
        replied(None, "c1"),
        asked("c1", "q1", until=90, at=1),
        approved("c1", "q1", at=5),
        f.Said(js([{"role": "user", "content": "A report was refused."}]), "outside", at=6),
        f.Started("c1", fence=1, at=7),
        asked("c1", "q2", kind="doubt", at=70),
        f.Witnessed("c1", 1, js("sent"), at=75),
        approved("c1", "q2", at=80),
        f.Started("c1", 2, fence=3, at=81),
        finished("c1", "sent again"),
    ]
    return SavedRun(SCHEMA, "0.3.0", journal)


GOLDEN = {
    TODAY: golden,
    LATER: golden_later,
    STORED: golden_stored,
    ANEW: golden_anew,
    FENCED: golden_fenced,
    LIVE: golden_live,
    MASKED: golden_masked,
    FORKED: golden_forked,
    OUTSIDE: golden_outside,
}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_the_golden_journals_of_this_schema_are_there(path: Path) -> None:
    if not path.exists() and os.environ.get("ASSENTRY_WRITE"):
        path.write_bytes(encode_run(GOLDEN[path]()))
    assert path.exists(), f"{path.name} is missing; write it with ASSENTRY_WRITE=1, once, and never again"


def test_the_golden_journals_hold_every_fact_there_is() -> None:
    found = {type(fact) for path in JOURNALS.glob("*.json") for fact in decode_run(path.read_bytes()).journal}
    assert found == set(FACTS), "a new fact needs a golden journal of its own, beside those that are there"


@pytest.mark.parametrize("path", sorted(JOURNALS.glob("*.json")), ids=lambda path: path.name)
def test_golden_journals_fold_for_ever(path: Path) -> None:
    saved = decode_run(path.read_bytes())
    run = replay(saved.journal)
    assert run.seq == len(saved.journal)
    assert transcript(run) is not None
    if json.loads(path.read_bytes())["schema"] == SCHEMA:
        assert encode_run(saved) == path.read_bytes()


def test_a_version_that_does_not_know_forks_and_states_sees_the_same_calls_and_approves_none() -> None:
    text = json.loads(FORKED.read_bytes())
    known = {"forked", "update", "more"}
    older = [{name: each for name, each in fact.items() if name not in known} for fact in text["journal"]]
    now, then = (decode_run(json.dumps({**text, "journal": journal})).journal for journal in (text["journal"], older))
    for upto in range(1, len(now) + 1):
        one, other = replay(now[:upto]), replay(then[:upto])
        assert (owed(one), one.open.keys(), status(one)) == (owed(other), other.open.keys(), status(other))
        assert transcript(one) == transcript(other)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_today_the_golden_runs_are_written_as_they_were(path: Path) -> None:
    assert encode_run(GOLDEN[path]()) == path.read_bytes()


def test_the_golden_run_is_what_it_was() -> None:
    saved = decode_run(TODAY.read_bytes())
    run = replay(saved.journal)
    assert (saved.schema, saved.assentry, bytes(saved.context), saved.context_kind) == (
        1,
        "0.1.0",
        b'{"customer":7}',
        "mapping",
    )
    assert (run.id, run.agent, status(run), run.turns, run.max_turns) == ("run_1", "root/mailer", "closed", 5, 9)
    assert (owed(run), list(questions(run))) == ([], [])
    assert run.usage == f.Usage(1, 90, 40, 10, 5)
    assert list(run.calls) == ["c1", "c2", "c3", "c4", "p5", "c6", "h1", "h2", "c7", "k1", "o1", "c8", "c9"]
    assert list(run.open) == ["c8", "c9"]
    assert list(run.asked) == [f"q{n}" for n in range(1, 10)]
    assert set(run.asked) - set(run.decided) == {"q9"}
    edited = run.calls["c2"]
    assert (bytes(edited.args), edited.tool, edited.digest) == (b"{}", "refund_all", "digest of the edit")
    assert (edited.edited, edited.attempt) == (True, 2)
    assert [bytes(answer.value) for _, answer in run.calls["c3"].answers] == [b'"the blue one"']
    assert [step.name for step in run.calls["c1"].steps] == ["reserve"]
    assert run.at(("p5",)).concluded == f.Concluded(path=("p5",))
    assert transcript(run)[:2] == [
        {"role": "user", "content": "in short"},
        {"type": "function_call", "name": "send", "arguments": "{}", "call_id": "call_c7"},
    ]


def test_the_golden_run_of_a_store_is_what_it_was() -> None:
    run = replay(decode_run(STORED.read_bytes()).journal)
    assert (status(run), run.uses) == ("working", {"g1": 1})
    assert [state.question.id for _, state in questions(run) if state.question] == ["q3"]
    doubt = run.calls["c1"]
    assert (doubt.attempt, doubt.retries, [late.attempt for late in doubt.witnessed]) == (3, 2, [2])


def test_of_the_golden_run_of_a_program_outside_nothing_is_owed_but_to_settle_what_was_started() -> None:
    journal = decode_run(OUTSIDE.read_bytes()).journal
    seen = [(status(run), owed(run)) for run in (replay(journal[:upto]) for upto in range(5, len(journal) + 1))]
    settle = ("working", [f.Settle("c1", ())])
    nothing: list[Any] = []
    before = [("waiting", nothing), ("idle", nothing), ("idle", nothing), settle]
    assert seen == [*before, ("waiting", nothing), ("waiting", nothing), ("idle", nothing), settle, ("done", nothing)]


def test_the_golden_run_that_was_asked_anew_is_what_it_was() -> None:
    run = replay(decode_run(ANEW.read_bytes()).journal)
    assert [bytes(answer.value) for _, answer in run.calls["c3"].answers] == [b'"the red one"']
    assert [bytes(each.items) for each in run.unheard] == [b'"two"'] and set(run.decided) == set(run.asked)


# -- round trips -------------------------------------------------------------------------------------


def test_a_saved_run_comes_back_as_it_was() -> None:
    saved = golden()
    again = decode_run(encode_run(saved))
    assert again == saved
    assert encode_run(again) == encode_run(saved)
    assert decode_run(encode_run(saved).decode()) == saved


def test_every_prefix_of_a_journal_comes_back_as_the_same_run() -> None:
    journal = golden().journal
    run = Run()
    for position, fact in enumerate(journal, 1):
        fold(run, fact)
        again = replay(decode_run(encode_run(SavedRun(SCHEMA, "x", journal[:position]))).journal)
        assert snapshot(again) == snapshot(run)


@pytest.mark.parametrize("kind", FACTS, ids=lambda kind: kind.__name__)
def test_a_fact_comes_back_as_it_was(kind: type[f.Fact]) -> None:
    every = [fact for fact in golden().journal if type(fact) is kind]
    assert decode_run(encode_run(SavedRun(SCHEMA, "x", every))).journal == every


def test_what_is_not_set_is_not_written() -> None:
    [line] = json.loads(encode_run(SavedRun(SCHEMA, "x", [approved("c1")])))["journal"]
    assert line == {"fact": "approved", "call": "c1", "by": "rule"}


def test_json_that_assentry_does_not_read_is_kept_to_the_letter() -> None:
    odd = b'[ {"type": "x", "unknown": 1.50, "big": 123456789012345678901234567890, "n": 1e2} ]'
    saved = SavedRun(SCHEMA, "x", [f.Replied(msgspec.Raw(odd), 1)])
    [reply] = decode_run(encode_run(saved)).journal
    assert bytes(reply.items) == odd


def test_fields_of_a_later_assentry_are_not_in_the_way() -> None:
    data = json.loads(encode_run(golden()))
    data["later"] = 1
    data["journal"][0]["later"] = {"x": 1}
    assert replay(decode_run(json.dumps(data)).journal).id == "run_1"


# -- damage ------------------------------------------------------------------------------------------


def test_a_text_that_is_cut_off_anywhere_is_refused() -> None:
    data = encode_run(golden())
    for end in range(len(data)):
        with pytest.raises(UnreadableState, match=r"^This is not the whole text of a saved run: .+\.$"):
            decode_run(data[:end])


NO_VERSION = ["{}", "[]", "null", "1", '"text"', '{"schema": "1"}', '{"schema": null}', '{"schema": 1.5}']
NO_VERSION += ['{"schema": true}', '[{"schema": 1}]', '{"journal": []}', "[" * 100_000]


@pytest.mark.parametrize("other", NO_VERSION, ids=lambda text: text[:20])
def test_other_json_is_refused_as_what_it_is(other: str) -> None:
    with pytest.raises(UnreadableState, match="not a run that Assentry has saved: it has no schema version"):
        decode_run(other)


@pytest.mark.parametrize(
    "journal",
    [
        "{}",
        "[1]",
        "[{}]",
        '[{"fact": "exploded"}]',
        '[{"fact": "began"}]',
        '[{"fact": "started", "call": 1}]',
        '[{"fact": "asked", "call": "c", "id": "q", "why": "", "digest": "", "kind": "x"}]',
        '[{"fact": "said", "items": "x", "path": "p1"}]',
    ],
)
def test_a_saved_run_with_parts_missing_or_wrong_is_refused_with_where(journal: str) -> None:
    with pytest.raises(UnreadableState, match=r"^This saved run is damaged: .+ - at `\$\.journal.*`\.$"):
        decode_run(f'{{"schema": {SCHEMA}, "assent": "x", "journal": {journal}}}')


def test_a_saved_run_without_its_journal_is_refused() -> None:
    with pytest.raises(UnreadableState, match=r"damaged: .+journal"):
        decode_run(f'{{"schema": {SCHEMA}, "assent": "x"}}')


def test_nesting_without_end_is_refused() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    with pytest.raises(UnreadableState):
        decode_run(f'{{"schema": {SCHEMA}, "assent": "x", "journal": [{{"fact": "said", "items": {deep}}}]}}')


@pytest.mark.parametrize("text", ["", " ", "hello", "{", "\ud800", '{"schema": "\ud800"}', "\x00"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(UnreadableState, match="not the whole text of a saved run"):
        decode_run(text)


@pytest.mark.parametrize("data", [b"\xff", b'{"schema": 1, "assent": "\xff", "journal": []}', b"\xef\xbb\xbf{}"])
def test_bytes_that_are_no_text_are_refused(data: bytes) -> None:
    with pytest.raises(UnreadableState):
        decode_run(data)


def test_bytes_that_are_no_text_are_refused_inside_what_is_kept_as_it_is() -> None:
    data = encode_run(SavedRun(SCHEMA, "x", [began(), said("hallo")])).replace(b"hallo", b"h\xffllo")
    with pytest.raises(UnreadableState):
        decode_run(data)


@pytest.mark.parametrize("first", [f.Closed("x"), said(), approved("c1"), branch("p1")], ids=lambda f: type(f).__name__)
def test_a_journal_that_does_not_begin_with_its_beginning_is_refused(first: Any) -> None:
    with pytest.raises(UnreadableState, match=r"^This saved run is damaged: .+ cannot follow fact 0 of this journal"):
        replay([first, began()])


def test_an_empty_journal_is_refused() -> None:
    with pytest.raises(UnreadableState, match="its journal is empty"):
        replay([])


def test_facts_out_of_order_are_refused_with_which_and_why() -> None:
    journal = [began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), finished("c1")]
    journal[3], journal[4] = journal[4], journal[3]
    with pytest.raises(
        UnreadableState, match=r"damaged: Started cannot follow fact 3 of this journal: call 'c1' is NEW"
    ):
        replay(journal)


def test_a_journal_with_a_fact_taken_out_or_doubled_never_breaks_in_another_way() -> None:
    journal = golden().journal
    refused = 0
    for position in range(len(journal)):
        for damaged in (journal[:position] + journal[position + 1 :], [*journal[: position + 1], *journal[position:]]):
            try:
                transcript(replay(damaged))
            except UnreadableState:
                refused += 1
    assert refused > len(journal)


golden_text = encode_run(golden()).decode()


@given(st.integers(0, len(golden_text) - 1), st.sampled_from([*'0129"{}[],:\\ax -', "é", "null", '"fact":', ""]))
@example(0, "[")
def test_a_text_with_a_character_changed_is_refused_or_is_a_run(position: int, other: str) -> None:
    damaged = golden_text[:position] + other + golden_text[position + 1 :]
    try:
        run = replay(decode_run(damaged).journal)
    except UnreadableState as error:
        message = str(error)
        assert message.startswith(("This saved run", "This is")) and message.endswith(".")
    else:
        assert run.seq == len(golden().journal) and status(run)


# -- versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [SCHEMA + 1, SCHEMA + 100, 0, -1, 2**70])
def test_a_version_that_nobody_here_knows_is_refused_with_what_to_do(version: int) -> None:
    data = json.loads(encode_run(golden())) | {"schema": version}
    with pytest.raises(
        UnknownSchema, match=rf"has schema version {version}; this Assentry reads versions up to {SCHEMA}\. "
    ):
        decode_run(json.dumps(data))


def test_a_newer_version_is_refused_even_if_its_facts_are_strange() -> None:
    with pytest.raises(UnknownSchema):
        decode_run(json.dumps({"schema": SCHEMA + 1, "journal": [{"fact": "teleported"}], "new": {}}))
    with pytest.raises(UnknownSchema):
        decode_run(json.dumps({"schema": SCHEMA + 1}))


@pytest.mark.parametrize("odd", [b'"\xff"', b"1e999"], ids=["no text", "no number"])
def test_a_newer_version_is_refused_whatever_is_in_it(odd: bytes) -> None:
    with pytest.raises(UnreadableState):
        decode_run(b'{"schema": 99, "assent": "x", "journal": [{"fact": "said", "items": ' + odd + b"}]}")


def test_an_unknown_schema_is_a_state_that_cannot_be_read() -> None:
    assert issubclass(UnknownSchema, UnreadableState)


def older() -> str:
    """The golden run as an older Assentry might have written it: its facts were called events."""
    data = json.loads(encode_run(golden()))
    return json.dumps({"schema": SCHEMA - 1, "assent": "0.0.9", "events": data["journal"]})


def upgrade(data: dict[str, Any]) -> dict[str, Any]:
    return {"schema": SCHEMA, "assent": data["assent"], "journal": data["events"]}


def test_an_older_version_is_taken_up_by_its_upgrader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPGRADERS, SCHEMA - 1, upgrade)
    saved = decode_run(older())
    assert (saved.schema, saved.assentry) == (SCHEMA, "0.0.9")
    assert snapshot(replay(saved.journal)) == snapshot(play(*golden().journal))


def test_upgraders_are_applied_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setitem(UPGRADERS, SCHEMA - 1, lambda data: steps.append(2) or upgrade(data))
    monkeypatch.setitem(UPGRADERS, SCHEMA - 2, lambda data: steps.append(1) or data | {"schema": SCHEMA - 1})
    data = json.loads(older()) | {"schema": SCHEMA - 2}
    assert replay(decode_run(json.dumps(data)).journal).id == "run_1"
    assert steps == [1, 2]


def test_an_older_version_without_its_upgrader_is_refused() -> None:
    with pytest.raises(UnknownSchema):
        decode_run(older())


def test_a_version_that_no_chain_of_upgraders_takes_up_to_today_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPGRADERS, SCHEMA - 3, lambda data: data | {"schema": SCHEMA - 2})
    with pytest.raises(UnknownSchema):
        decode_run(json.dumps({"schema": SCHEMA - 3, "assent": "0.0.1", "journal": []}))


@pytest.mark.parametrize(
    "odd",
    [b'"\xff"', b"1e999"],
    ids=["no text", "no number"],
)
def test_an_older_version_that_is_damaged_is_refused(odd: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPGRADERS, SCHEMA - 1, upgrade)
    data = b'{"schema": %d, "assent": "0.0.9", "events": [{"fact": "said", "items": %s}]}' % (SCHEMA - 1, odd)
    with pytest.raises(UnreadableState):
        decode_run(data)


def test_what_an_upgrader_makes_of_a_damaged_run_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        UPGRADERS, SCHEMA - 1, lambda data: data | {"schema": SCHEMA, "journal": [{"fact": "exploded"}]}
    )
    with pytest.raises(UnreadableState, match="damaged"):
        decode_run(json.dumps({"schema": SCHEMA - 1, "assent": "0.0.9"}))
