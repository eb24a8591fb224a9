"""The rules of a run that no single row holds, each by an example."""

from __future__ import annotations

from typing import Any

import pytest

from assentry.core import facts as f
from assentry.core.fold import check, fold
from assentry.core.run import Run, deadline, exhausted, overdue, owed, questions, status
from assentry.core.transcript import items_since_reply, transcript
from assentry.errors import IllegalFact
from tests.core.support import (
    Path,
    answered,
    approved,
    asked,
    began,
    branch,
    call,
    finished,
    js,
    legal,
    phase_of,
    play,
    proposed,
    refused,
    replied,
    said,
    snapshot,
    under,
)


def more(run: Run, *facts: Any) -> Run:
    """The same run, further on."""
    for fact in facts:
        fold(run, fact)
    return run


def ran(id: str, output: Any = "done", **where: Any) -> list[Any]:
    """A call let pass, run and finished."""
    return [approved(id, **where), f.Started(id, **where), finished(id, output, **where)]


@pytest.mark.parametrize(
    ("item", "arguments"),
    [
        ({"type": "shell_call", "action": {"commands": ["ls"], "timeout_ms": None}}, '{"commands":["ls"]}'),
        ({"type": "apply_patch_call", "operation": {"path": "a", "diff": None}}, '{"path":"a"}'),
        ({"type": "shell_call", "action": ["no object"]}, '["no object"]'),
        ({"type": "function_call", "arguments": '{"x":null}', "action": {"y": 1}}, '{"x":null}'),
    ],
)
def test_a_providers_own_kind_of_call_has_arguments_without_empty_fields(item: Any, arguments: str) -> None:
    run = play(began(), said(), f.Replied(js([item]), 1, (f.Call("c1", "shell", 0),)))
    assert run.calls["c1"].proposal.arguments == arguments


@pytest.mark.parametrize(
    ("by", "again", "begun"),
    [("runtime", False, False), ("probe", False, False), ("idempotent", False, True), ("runtime", True, True)],
)
def test_a_call_has_begun_unless_every_attempt_is_known_to_have_done_nothing(by: str, again: bool, begun: bool) -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"))
    assert not run.calls["c1"].begun
    more(run, f.Started("c1"))
    assert run.calls["c1"].begun
    more(run, f.Left("c1", 1, by), *([f.Started("c1", 2)] if again else []))
    assert run.calls["c1"].begun is begun


def duties(run: Run, **mine: Any) -> list[str]:
    """What is owed, in short: `Judge c1`, `Execute p1/c2`, `Guard name`, `AskModel p1/`."""
    out = []
    for effect in owed(run, **mine):
        where = "/".join([*effect.path, effect.call or getattr(effect, "name", "")])
        out.append(f"{type(effect).__name__} {where}".strip())
    return out


def talk(run: Run) -> list[str]:
    """The transcript, in short."""
    return [_short(item) for item in transcript(run)]


def _short(item: dict[str, Any]) -> str:
    kind = item.get("type", "message")
    if kind == "function_call":
        return f"call {item['call_id'].removeprefix('call_')}"
    if kind == "function_call_output":
        return f"{item['call_id'].removeprefix('call_')}: {item['output']}"
    return f"{item['role']}: {item['content']}"


def open_questions(run: Run) -> list[tuple[Path, str]]:
    return [(path, state.question.id) for path, state in questions(run) if state.question]


# -- beginning and end -------------------------------------------------------------------------------


def test_a_run_that_has_not_begun_owes_nothing_and_is_idle() -> None:
    run = Run()
    assert (status(run), owed(run), list(questions(run)), transcript(run)) == ("idle", [], [], [])


def test_a_run_that_began_waits_for_input_and_is_idle() -> None:
    run = play(began())
    assert (status(run), duties(run)) == ("idle", [])


def test_a_run_begins_once() -> None:
    assert not legal(play(began()), began())


def test_a_run_needs_an_id() -> None:
    assert not legal(Run(), began(run=""))


@pytest.mark.parametrize("limit", [0, -1])
def test_a_run_needs_a_turn_at_least(limit: int) -> None:
    assert not legal(Run(), began(max_turns=limit))
    assert not legal(play(began()), f.Limited(limit))


def test_a_branch_cannot_be_the_first_fact() -> None:
    assert not legal(Run(), branch("c1"))


def test_beginning_sets_what_the_run_goes_by() -> None:
    run = play(began(agent="a", max_turns=3, release="batch", guards=("g1", "g2")))
    assert (run.id, run.agent, run.max_turns, run.batch, list(run.guards)) == ("r1", "a", 3, True, ["g1", "g2"])


def test_a_plain_run_from_input_to_output() -> None:
    run = play(began(), said("hello"))
    assert (status(run), duties(run), owed(run)[0].saw) == ("working", ["AskModel"], 1)
    more(run, replied(1, text="hi"))
    assert (status(run), duties(run)) == ("working", ["Conclude"])
    more(run, f.Concluded())
    assert (status(run), duties(run)) == ("done", [])
    assert talk(run) == ["user: hello", "assistant: hi"]


def test_every_fact_is_counted_wherever_it_happened() -> None:
    run = play(began(), said(), replied(1, "p1:agent"), approved("p1"), branch("p1"), said(path=("p1",)))
    assert (run.seq, run.at(("p1",)).seq) == (6, 0)


def test_a_done_run_with_new_input_goes_on() -> None:
    run = play(began(), said(), replied(1), f.Concluded(), said("more"))
    assert (status(run), duties(run), run.concluded) == ("working", ["AskModel"], None)
    more(run, replied(2), f.Concluded())
    assert status(run) == "done"


def test_a_done_run_can_be_asked_nothing_without_new_input() -> None:
    run = play(began(), said(), replied(1), f.Concluded())
    assert not legal(run, replied(1))
    assert not legal(run, f.Concluded())
    assert not legal(run, f.Continued())


def test_a_closed_run_is_closed_for_good() -> None:
    run = play(began(), said(), replied(1, "c1"), f.Closed("failed"))
    assert (status(run), duties(run), open_questions(run)) == ("closed", [], [])
    for fact in [said(), f.Closed("again"), f.Cancelled("ana"), approved("c1"), f.Limited(99)]:
        assert not legal(run, fact)


def test_a_closed_run_keeps_a_late_result_as_evidence() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), f.Closed("cancelled"))
    assert legal(run, f.Witnessed("c1", 1, js("late")))
    assert not legal(run, finished("c1"))


def test_evidence_changes_nothing_but_the_count() -> None:
    run = play(began(), said(), replied(1, "c1"), *ran("c1"))
    before = snapshot(run)
    more(run, f.Witnessed("c1", 1, js("late")))
    assert snapshot(run) == before | {"seq": run.seq}


def test_open_questions_of_a_closed_run_are_not_open() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1", until=9), f.Closed("over"))
    assert (open_questions(run), deadline(run)) == ([], None)
    assert not legal(run, approved("c1", "q1"))


# -- cancelling --------------------------------------------------------------------------------------


def test_a_cancelled_run_owes_nothing_until_it_is_resumed() -> None:
    run = play(began(), said(), f.Cancelled("ana"))
    assert (status(run), duties(run)) == ("cancelled", [])
    assert not legal(run, f.Cancelled("bob"))
    more(run, f.Resumed("ana"))
    assert (status(run), duties(run)) == ("working", ["AskModel"])
    assert not legal(run, f.Resumed("ana"))


def test_nothing_starts_in_a_cancelled_run_and_what_was_started_may_end() -> None:
    run = play(began(), said(), replied(1, "c1", "c2", "p1:agent"), approved("c1"), approved("c2"), approved("p1"))
    more(run, f.Started("c1"), f.Cancelled("ana"))
    assert not legal(run, f.Started("c2"))
    assert not legal(run, f.Started("c1", 2))
    assert not legal(run, branch("p1"))
    assert legal(run, finished("c1"))
    more(run, f.Resumed("ana"))
    assert legal(run, f.Started("c2"))
    assert legal(run, branch("p1"))


def test_nothing_starts_in_a_branch_of_a_cancelled_run() -> None:
    run = in_branch(said(), replied(1, "c1"), approved("c1"))
    more(run, f.Cancelled("ana"))
    assert not legal(run, f.Started("c1", path=("p1",)))


def test_questions_of_a_cancelled_run_can_be_answered() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), f.Cancelled("ana"), approved("c1", "q1"))
    more(run, f.Resumed("ana"))
    assert duties(run) == ["Execute c1"]


def test_only_the_run_itself_is_cancelled() -> None:
    run = in_branch(said())
    assert not legal(run, f.Cancelled("ana", path=("p1",)))
    more(run, f.Cancelled("ana"))
    assert not legal(run, f.Resumed("ana", path=("p1",)))


# -- turns -------------------------------------------------------------------------------------------


LAST_TURN = [said(), replied(1, "c1")]


@pytest.mark.parametrize(
    ("facts", "is_so"),
    [
        ([*LAST_TURN, *ran("c1")], True),
        ([*LAST_TURN, asked("c1", "q1")], False),
        ([*LAST_TURN, *ran("c1"), f.Limited(2)], False),
        ([*LAST_TURN, *ran("c1"), said(), f.Awaited(("fit",))], False),
        ([*LAST_TURN, *ran("c1"), f.Cancelled("ann")], False),
        ([*LAST_TURN, *ran("c1"), f.Closed("over")], False),
        ([said(), replied(1)], False),
        ([said(), replied(1), f.Concluded()], False),
    ],
    ids=["used up", "asked", "more", "guarded", "cancelled", "closed", "concluding", "done"],
)
def test_a_run_is_exhausted_when_nothing_but_a_turn_is_missing(facts: list[Any], is_so: bool) -> None:
    run = play(began(max_turns=1), *facts)
    assert exhausted(run) == (status(run) == "exhausted") == is_so


def test_a_run_that_used_up_its_turns_is_exhausted_until_it_gets_more() -> None:
    run = play(began(max_turns=1), said(), replied(1, "c1"), *ran("c1"))
    assert (status(run), duties(run)) == ("exhausted", [])
    assert not legal(run, replied(1))
    more(run, f.Limited(2))
    assert (status(run), duties(run)) == ("working", ["AskModel"])
    more(run, replied(1), f.Concluded())
    assert status(run) == "done"


def test_the_last_turn_may_conclude() -> None:
    run = play(began(max_turns=1), said(), replied(1))
    assert duties(run) == ["Conclude"]
    more(run, f.Concluded())
    assert status(run) == "done"
    more(run, said())
    assert status(run) == "exhausted"


def test_the_last_turns_calls_are_still_paid() -> None:
    run = play(began(max_turns=1), said(), replied(1, "c1"))
    assert duties(run) == ["Judge c1"]


def test_a_lower_limit_than_was_used_exhausts_a_run() -> None:
    run = play(began(), said(), replied(1, "c1"), *ran("c1"), replied(1, "c2"), *ran("c2"), f.Limited(1))
    assert status(run) == "exhausted"


def test_a_call_id_is_used_once_in_a_run() -> None:
    run = play(began(), said(), replied(1, "c1"), *ran("c1"))
    assert not legal(run, replied(1, "c1"))
    assert not legal(run, replied(1, "c2", "c2"))
    assert not legal(run, replied(1, call("")))
    assert not legal(run, proposed("c1", "hook"))
    assert legal(run, replied(1, "c2", "c3"))


def test_a_branch_has_call_ids_of_its_own() -> None:
    assert legal(in_branch(said()), replied(1, "p1", path=("p1",)))


def test_a_reply_without_calls_ends_the_talk_even_if_the_turn_before_had_some() -> None:
    run = play(began(), said(), replied(1, "c1"), *ran("c1"), replied(1))
    assert duties(run) == ["Conclude"]


def test_the_usage_of_a_run_is_of_all_its_replies_and_counted_once() -> None:
    run = play(began(), said(), replied(1, "c1", usage=(1, 10, 5, 3)))
    assert run.usage == f.Usage(1, 10, 5, 3)
    more(run, *ran("c1"), replied(1, "c2"), *ran("c2"), replied(1, usage=(1, 1, 1, 0, 1)))
    assert run.usage == run.usage == f.Usage(2, 11, 6, 3, 1)
    assert run.usage.total_tokens == 17


@pytest.mark.parametrize("usage", [f.Usage(), f.Usage(1), f.Usage(1, 0, 3), f.Usage(1, 2, 3, 4, 5)])
def test_usage_is_recorded_without_loss(usage: f.Usage) -> None:
    assert play(began(), said(), replied(1, usage=usage.numbers())).usage == usage


def test_the_usage_of_a_fork_is_its_own() -> None:
    run = play(began(), said(), replied(1, "c1", usage=(1, 10, 5)))
    assert run.usage.requests == 1
    fork = run.fork()
    more(fork, *ran("c1"), replied(1, usage=(1, 1, 1)))
    assert (fork.usage.requests, run.usage.requests) == (2, 1)


def test_the_usage_of_a_run_is_that_of_its_branches_too_at_any_depth_done_or_not() -> None:
    run = play(began(), said(), replied(1, "p1:agent", "p2:agent", "c3", usage=(1, 10, 5)))
    more(run, approved("p1"), approved("p2"), branch("p1"), branch("p2"))
    more(run, *under(("p1",), [said(), replied(1, "d1:agent", usage=(1, 1, 2)), approved("d1")]))
    assert run.usage == f.Usage(2, 11, 7)
    more(run, *under(("p1", "d1"), [branch(), said(), replied(1, usage=(1, 100, 50, 7, 8))]))
    assert run.usage == run.usage == f.Usage(3, 111, 57, 7, 8)
    assert run.at(("p1",)).usage == f.Usage(2, 101, 52, 7, 8)
    more(run, f.Concluded(path=("p1", "d1")), finished("d1", path=("p1",)), f.Closed("over", path=("p1",)))
    more(run, finished("p1"), *under(("p2",), [said(), replied(1, usage=(1, 1000))]))
    assert run.usage == f.Usage(4, 1111, 57, 7, 8)


def test_branches_are_known_in_the_order_they_began_in_and_stay_known() -> None:
    run = play(began(), said(), replied(1, "p1:agent", "p2:agent"), approved("p1"), approved("p2"))
    assert run.children() == []
    more(run, branch("p2"), branch("p1"), f.Closed("over", path=("p2",)), finished("p2"))
    assert run.children() == [run.at(("p2",)), run.at(("p1",))]
    assert (run.branches, run.at(("p1",)).children()) == (["p2", "p1"], [])


def test_a_fork_keeps_its_branches_and_its_usage_is_its_own() -> None:
    run = play(began(), said(), replied(1, "p1:agent", "p2:agent", usage=(1,)), approved("p1"), approved("p2"))
    more(run, branch("p1"), *under(("p1",), [said(), replied(1, usage=(1, 1))]))
    fork = run.fork()
    assert (fork.branches, fork.usage) == (["p1"], f.Usage(2, 1))
    assert fork.children() == [fork.at(("p1",))] != run.children()
    more(fork, branch("p2"), *under(("p2",), [said(), replied(1, usage=(1, 10))]))
    more(run, f.Concluded(path=("p1",)), said("and", path=("p1",)), replied(2, path=("p1",), usage=(1, 100)))
    assert (fork.branches, fork.usage) == (["p1", "p2"], f.Usage(3, 11))
    assert (run.branches, run.usage) == (["p1"], f.Usage(3, 101))


def test_a_turn_knows_how_its_agent_was_defined_then() -> None:
    old, new = f.Defined("root"), f.Defined("Other")
    run = play(began(), said(), replied(1, "c1"), old, *ran("c1"), replied(1, "h1:handoff"), approved("h1"))
    more(run, f.Started("h1"), f.HandedOff("h1", "root/other", name="Other"))
    assert run.definition is None, "the next agent says for itself how it is defined"
    more(run, new, replied(1, "c3"))
    assert [run.calls[id].turn.definition for id in ("c1", "h1", "c3")] == [None, old, new]


# -- steering: what was said while the model was thinking ----------------------------------------------


def test_what_is_said_while_the_model_is_thinking_is_heard_later_and_stands_after_that_reply() -> None:
    run = play(began(), said("book it"), said("wait"), replied(1, text="booked"))
    assert (status(run), duties(run), owed(run)[0].saw) == ("working", ["AskModel"], 2)
    assert talk(run) == ["user: book it", "assistant: booked", "user: wait"]
    assert not legal(run, f.Concluded())
    more(run, replied(2, text="all right"), f.Concluded())
    assert talk(run) == ["user: book it", "assistant: booked", "user: wait", "assistant: all right"]


def test_what_is_said_while_calls_are_open_stands_after_their_outputs() -> None:
    run = play(began(), said("go"), replied(1, "c1"), said("hurry"), *ran("c1"))
    assert talk(run) == ["user: go", "call c1", "c1: done", "user: hurry"]
    more(run, replied(2, text="ok"))
    assert talk(run) == ["user: go", "call c1", "c1: done", "user: hurry", "assistant: ok"]


def test_a_reply_that_heard_only_the_first_of_two_words_stands_between_them() -> None:
    run = play(began(), said("one"), replied(1, "c1"), *ran("c1"), said("two"), said("three"), replied(2, text="ok"))
    assert talk(run) == ["user: one", "call c1", "c1: done", "user: two", "assistant: ok", "user: three"]
    assert owed(run)[0].saw == 3


def test_a_reply_asked_for_before_the_word_came_answers_the_outputs() -> None:
    run = play(began(), said("one"), replied(1, "c1"), *ran("c1"), said("two"), replied(1, "c2"), *ran("c2"))
    assert talk(run)[-3:] == ["call c2", "c2: done", "user: two"]


@pytest.mark.parametrize("saw", [-1, 0, 1, 4])
def test_a_reply_cannot_have_heard_what_was_not_said_or_less_than_the_one_before(saw: int) -> None:
    run = play(began(), said(), said(), replied(2, "c1"), *ran("c1"), said())
    assert not legal(run, replied(saw))
    assert legal(run, replied(2)) and legal(run, replied(3))


def test_a_reply_that_does_not_say_what_it_heard_has_heard_everything() -> None:
    run = play(began(), said("one"), said("two"), replied(None, text="ok"))
    assert (duties(run), talk(run)) == (["Conclude"], ["user: one", "user: two", "assistant: ok"])
    assert not legal(run, replied(None))
    more(run, said("three"))
    assert legal(run, replied(None))


def test_of_two_replies_to_the_same_talk_the_second_is_refused() -> None:
    run = play(began(), said(), replied(1))
    assert not legal(run, replied(1))
    run = play(began(), said(), replied(1, "c1"), *ran("c1"), replied(1))
    assert not legal(run, replied(1))


def test_new_input_takes_an_unconcluded_reply_back_to_the_model() -> None:
    run = play(began(), said(), replied(1), said())
    assert duties(run) == ["AskModel"]


# -- a turn's calls ----------------------------------------------------------------------------------


def test_calls_of_a_turn_go_their_own_ways_and_the_model_waits_for_the_last() -> None:
    run = play(began(), said(), replied(1, "c1", "c2", "c3"))
    assert duties(run) == ["Judge c1", "Judge c2", "Judge c3"]
    more(run, approved("c1"), asked("c2", "q2"), refused("c3"))
    assert duties(run) == ["Execute c1", "Tell c3"]
    more(run, f.Told("c3", "no"), f.Started("c1"), finished("c1"))
    assert (status(run), duties(run)) == ("waiting", [])
    assert not legal(run, replied(1))
    more(run, approved("c2", "q2"), f.Started("c2"), finished("c2"))
    assert duties(run) == ["AskModel"]


def test_outputs_stand_in_the_order_of_the_calls_whatever_ended_first() -> None:
    run = play(began(), said("go"), replied(1, "c1", "c2", "c3"))
    more(run, *ran("c3", "third"), refused("c2"), f.Told("c2", "no"), *ran("c1", {"n": 1}))
    assert talk(run)[4:] == ['c1: {"n":1}', "c2: no", "c3: third"]


def test_an_open_turn_is_not_part_of_what_the_model_hears() -> None:
    run = play(began(), said("go"), replied(1, "c1", "c2"), *ran("c1"))
    assert talk(run) == ["user: go"]


def test_calls_that_the_one_who_asks_is_executing_are_not_in_doubt() -> None:
    run = play(began(), said(), replied(1, "c1", "c2"), approved("c1"), approved("c2"), f.Started("c1"))
    assert duties(run) == ["Settle c1", "Execute c2"]
    assert duties(run, mine={((), "c1")}) == ["Execute c2"]
    assert duties(run, mine={(("c1",), "c1")}) == ["Settle c1", "Execute c2"]


def test_calls_in_a_branch_are_known_by_their_path() -> None:
    run = in_branch(said(), replied(1, "c1"), approved("c1"), f.Started("c1"))
    assert duties(run) == ["Settle p1/c1"]
    assert duties(run, mine={(("p1",), "c1")}) == []
    assert status(run) == "working"


def test_what_is_owed_is_the_same_when_asked_twice_and_asking_changes_nothing() -> None:
    run = in_branch(said(), replied(1, "c1", "c2"), approved("c1"))
    before = snapshot(run)
    assert owed(run) == owed(run) == owed(run.fork())
    assert (status(run), list(open_questions(run)), deadline(run)) == ("working", [], None)
    assert snapshot(run) == before


def test_another_tools_name_and_empty_arguments_are_what_will_run() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1", args=js({"x": 1})))
    more(run, approved("c1", "q1", args=js({}), tool="other", digest="of the edit"))
    state = run.calls["c1"]
    assert (state.tool, state.call.tool, bytes(state.args), state.digest) == ("other", "send", b"{}", "of the edit")
    assert state.edited


def test_it_is_known_who_let_a_call_pass_and_a_void_approval_is_nobodys() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"))
    assert run.calls["c1"].approval == approved("c1")
    more(run, asked("c1", "q1"))
    assert run.calls["c1"].approval is None
    more(run, approved("c1", "q1"))
    assert run.calls["c1"].approval == approved("c1", "q1")
    more(run, f.Started("c1"), asked("c1", "q2", "doubt"), approved("c1", "q2"))
    assert run.calls["c1"].approval == approved("c1", "q1"), "what settles a doubt is not what let the call pass"


def test_an_approval_as_it_is_keeps_the_arguments_and_the_digest_that_were_shown() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1", args=js({"x": 1})), approved("c1", "q1"))
    state = run.calls["c1"]
    assert (bytes(state.args), state.digest, state.edited) == (b'{"x":1}', "digest of q1", False)


def test_filled_in_defaults_are_kept_beside_the_proposed_arguments_and_are_no_edit() -> None:
    run = play(began(), said(), replied(1, "c1", "c2"), asked("c1", "q1", fills=js({"n": 1})), approved("c1", "q1"))
    more(run, approved("c2", fills=js({"n": 2})))
    for id, fills in (("c1", b'{"n":1}'), ("c2", b'{"n":2}')):
        state = run.calls[id]
        assert (bytes(state.fills), bytes(state.args), state.edited) == (fills, b"", False)


def test_the_tool_a_person_chose_is_known_as_it_was_defined() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"))
    more(run, approved("c1", "q1", tool="other", definition="fp of other"))
    assert (run.calls["c1"].tool, run.calls["c1"].fingerprint) == ("other", "fp of other")


def test_the_words_of_a_refusal_are_the_deciders_unless_others_are_settled() -> None:
    grant = f.Granted("g1", "root", "send", "reject", "ana", message="never")
    run = play(began(), said(), grant, replied(1, "c1", "c2", "c3", "c4"))
    more(run, refused("c1", message="not now"), f.Told("c1"), refused("c2", message="x"), f.Told("c2", "y"))
    more(run, f.Refused("c3", "grant:g1"), f.Revoked("g1", "ana"), f.Told("c3"), refused("c4"), f.Told("c4"))
    assert talk(run)[5:] == ["c1: not now", "c2: y", "c3: never", "c4: "]


def test_the_model_is_told_what_ran_instead_of_what_it_proposed() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), approved("c1", "q1", args=js({"x": 2})))
    more(run, f.Started("c1"), finished("c1", "sent"))
    assert transcript(run)[-2]["arguments"] == "{}"
    assert 'send {"x":2}' in transcript(run)[-1]["output"]


def test_an_edit_is_remembered_when_the_call_is_run_again_after_a_doubt() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), approved("c1", "q1", args=js({"x": 2})))
    more(run, f.Started("c1"), asked("c1", "q2", "doubt"), approved("c1", "q2"), f.Started("c1", 2), finished("c1"))
    assert 'send {"x":2}' in transcript(run)[-1]["output"]


def test_an_edit_is_remembered_when_the_call_is_asked_about_again() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), approved("c1", "q1", args=js({"x": 2})))
    more(run, asked("c1", "q2", args=js({"x": 2})), approved("c1", "q2"), f.Started("c1"), finished("c1"))
    assert 'send {"x":2}' in transcript(run)[-1]["output"]


def test_an_edit_is_remembered_when_the_body_asks() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), approved("c1", "q1", args=js({"x": 2})))
    more(run, f.Started("c1"), asked("c1", "q2", "input"), answered("c1", "q2"), f.Started("c1", 2), finished("c1"))
    assert 'send {"x":2}' in transcript(run)[-1]["output"]


def test_two_calls_with_one_provider_id_get_an_output_each() -> None:
    items = [{"type": "function_call", "name": "send", "arguments": "{}", "call_id": "same"}] * 2
    run = play(began(), said(), f.Replied(js(items), 1, (call("c1", item=0), call("c2", item=1))))
    more(run, *ran("c2", "two"), *ran("c1", "one"))
    assert talk(run)[1:] == ["call same", "call same", "same: one", "same: two"]


@pytest.mark.parametrize("other", [{"type": "message", "content": "x", "name": None}, {"type": "x", "arguments": {}}])
def test_a_call_is_read_whatever_the_other_items_of_the_reply_are(other: Any) -> None:
    items = [other, {"type": "function_call", "name": "send", "arguments": "{}", "call_id": "p"}]
    run = play(began(), said(), f.Replied(js(items), 1, (call("c1", item=1),)))
    assert run.calls["c1"].proposal.name == "send"


# -- release ---------------------------------------------------------------------------------------


def test_in_a_batch_nothing_starts_while_a_verdict_of_the_turn_is_open() -> None:
    run = play(began(release="batch"), said(), replied(1, "c1", "c2", "c3"), approved("c1"), asked("c2", "q2"))
    assert duties(run) == ["Judge c3"]
    assert not legal(run, f.Started("c1"))
    more(run, refused("c3"))
    assert duties(run) == ["Tell c3"]
    assert not legal(run, f.Started("c1"))
    more(run, approved("c2", "q2"))
    assert duties(run) == ["Execute c1", "Execute c2", "Tell c3"]
    assert legal(run, f.Started("c1")) and legal(run, f.Started("c2"))


def test_released_each_by_each_a_call_does_not_wait_for_the_others_verdicts() -> None:
    run = play(began(), said(), replied(1, "c1", "c2"), approved("c1"), asked("c2", "q2"))
    assert duties(run) == ["Execute c1"]
    assert legal(run, f.Started("c1"))


def test_in_a_batch_an_approval_that_became_void_holds_the_rest_again() -> None:
    run = play(began(release="batch"), said(), replied(1, "c1", "c2"), approved("c1"), approved("c2"))
    more(run, asked("c2", "q2"))
    assert not legal(run, f.Started("c1"))


@pytest.mark.parametrize("kind", ["input", "doubt"])
def test_in_a_batch_what_a_body_asks_holds_nobody_else(kind: f.QuestionKind) -> None:
    run = play(began(release="batch"), said(), replied(1, "c1", "c2"), approved("c1"), approved("c2"), f.Started("c1"))
    more(run, asked("c1", "q1", kind))
    assert duties(run) == ["Execute c2"]
    assert legal(run, f.Started("c2"))


def test_in_a_batch_an_agent_waits_too() -> None:
    run = play(began(release="batch"), said(), replied(1, "p1:agent", "c2"), approved("p1"), asked("c2", "q2"))
    assert not legal(run, branch("p1"))
    more(run, refused("c2", "q2"))
    assert legal(run, branch("p1"))


def test_a_branch_is_released_as_it_says_itself() -> None:
    run = in_branch(said(), replied(1, "c1", "c2"), approved("c1"), asked("c2", "q2"), release="batch")
    assert duties(run) == []
    assert not legal(run, f.Started("c1", path=("p1",)))


# -- guardrails ------------------------------------------------------------------------------------


def test_input_guardrails_are_owed_beside_the_model() -> None:
    run = play(began(guards=("g1", "g2")), said())
    assert duties(run) == ["Guard g1", "Guard g2", "AskModel"]


def test_nothing_is_executed_before_the_input_guardrails_are_in() -> None:
    run = play(began(guards=("g1", "g2")), said(), replied(1, "c1", "p1:agent"), approved("c1"), approved("p1"))
    more(run, f.Guarded("input", "g2"))
    assert duties(run) == ["Guard g1"]
    assert not legal(run, f.Started("c1"))
    assert not legal(run, branch("p1"))
    more(run, f.Guarded("input", "g1", output=js({"ok": True})))
    assert duties(run) == ["Execute c1", "Execute p1"]
    assert [fact.name for fact in run.guarded] == ["g2", "g1"]


def test_calls_are_judged_before_the_input_guardrails_are_in() -> None:
    run = play(began(guards=("g1",)), said(), replied(1, "c1"))
    assert duties(run) == ["Guard g1", "Judge c1"]


def test_an_input_guardrail_reports_once_and_only_if_it_is_awaited() -> None:
    run = play(began(guards=("g1",)), said(), f.Guarded("input", "g1"))
    assert not legal(run, f.Guarded("input", "g1"))
    assert not legal(run, f.Guarded("input", "other"))


def test_the_conclusion_is_not_owed_before_the_input_guardrails_are_in() -> None:
    run = play(began(guards=("g1",)), said(), replied(1))
    assert duties(run) == ["Guard g1"]
    more(run, f.Guarded("input", "g1"))
    assert duties(run) == ["Conclude"]


def test_nothing_is_concluded_before_the_input_guardrails_are_in() -> None:
    run = play(began(guards=("g1",)), said(), replied(1))
    assert not legal(run, f.Concluded())


def test_an_approved_output_waits_for_the_input_guardrails() -> None:
    run = play(began(guards=("g1",)), said(), replied(1), proposed("o1", "output"), approved("o1"))
    assert duties(run) == ["Guard g1"]
    assert not legal(run, f.Concluded(call="o1"))


def test_input_that_comes_later_is_guarded_before_anything_runs() -> None:
    run = play(began(guards=("g1",)), said(), f.Guarded("input", "g1"), replied(1, "c1"), asked("c1", "q1"))
    more(run, said("and"), f.Awaited(("g1", "g2", "g1")), approved("c1", "q1"))
    assert duties(run) == ["Guard g1", "Guard g2"]
    assert not legal(run, f.Started("c1"))
    more(run, f.Guarded("input", "g2"), f.Guarded("input", "g1"))
    assert duties(run) == ["Execute c1"]
    assert [fact.name for fact in run.guarded] == ["g1", "g2", "g1"]


def test_a_done_run_with_new_input_has_it_guarded_beside_the_model() -> None:
    run = play(began(guards=("g1",)), said(), f.Guarded("input", "g1"), replied(1), f.Concluded(), said("and"))
    more(run, f.Awaited(("g1",)))
    assert (status(run), duties(run)) == ("working", ["Guard g1", "AskModel"])
    more(run, replied(2))
    assert not legal(run, f.Concluded())


def test_guardrails_are_awaited_only_for_what_they_have_not_looked_at_and_the_model_has_not_heard() -> None:
    awaited = f.Awaited(("g1",))
    assert not legal(play(began()), awaited)
    run = play(began(guards=("g1",)), said())
    assert not legal(run, awaited), "they are awaited already"
    more(run, f.Guarded("input", "g1"))
    assert not legal(run, awaited), "they have looked at it"
    more(run, said("and"))
    assert legal(run, awaited)
    more(run, replied(2))
    assert not legal(run, awaited), "the model has answered it"
    more(run, said("more"), awaited)
    assert not legal(run, awaited)
    more(run, f.Guarded("input", "g1"))
    assert not legal(run, awaited)


def test_guardrails_look_again_while_a_word_is_unheard_that_came_after_them() -> None:
    run = play(began(guards=("g1", "g2")), said(), f.Guarded("input", "g1"), f.Guarded("input", "g2"))
    assert run.watched == 1
    more(run, said("and"), f.Awaited(("g1",)), said("more"), f.Guarded("input", "g1"))
    assert run.watched == 3
    run = play(began(), said())
    assert run.watched == 0, "nobody has looked"
    more(run, f.Awaited(("g1",)), f.Guarded("input", "g1"))
    assert run.watched == 1


def test_what_is_said_while_guardrails_are_awaited_is_for_all_of_them() -> None:
    run = play(began(guards=("g1", "g2")), said(), f.Guarded("input", "g1"), said("and"))
    assert duties(run) == ["Guard g1", "Guard g2", "AskModel"], "the one that is in has not seen it"
    more(run, f.Guarded("input", "g1"), f.Guarded("input", "g2"))
    assert (run.guards, run.watched) == ({}, 2)
    more(run, said("more"), f.Awaited(("g3", "g4")), f.Guarded("input", "g4"), said("!"))
    assert list(run.guards) == ["g3", "g4"]


def test_a_guardrail_that_trips_is_not_in() -> None:
    run = play(began(guards=("g1",)), said(), f.Guarded("input", "g1", True), replied(1, "c1"), approved("c1"))
    assert (duties(run), run.watched) == (["Guard g1"], 0)
    assert not legal(run, f.Started("c1"))


def test_nothing_goes_on_in_a_branch_while_guardrails_above_it_are_awaited() -> None:
    run = in_branch(said(), replied(1, "c1", "p2:agent"), approved("c1"), approved("p2"))
    more(run, said("and"), f.Awaited(("g1",)))
    assert duties(run) == ["Guard g1"]
    assert not legal(run, f.Started("c1", path=("p1",)))
    assert not legal(run, branch("p1", "p2"))
    more(run, f.Guarded("input", "g1"))
    assert duties(run) == ["Execute p1/c1", "Execute p1/p2"]


def test_awaiting_no_guardrail_holds_nothing() -> None:
    run = play(began(), said(), f.Awaited(()))
    assert (run.guards, duties(run)) == ({}, ["AskModel"])


def test_guardrails_of_a_branch_are_its_own() -> None:
    run = in_branch(said(), replied(1, "c1"), approved("c1"), said("and"))
    assert not legal(run, f.Awaited(("g1",)))
    more(run, f.Awaited(("g1",), path=("p1",)))
    assert (duties(run), run.guards) == (["Guard p1/g1"], {})
    more(run, f.Guarded("input", "g1", path=("p1",)))
    assert duties(run) == ["Execute p1/c1"]


def test_guardrail_results_are_kept() -> None:
    run = play(began(), said(), replied(1, "c1"))
    more(run, f.Guarded("tool_input", "t", call="c1"), approved("c1"), f.Started("c1"))
    more(run, f.Guarded("tool_output", "t", True, call="c1"), finished("c1"), f.Guarded("output", "o"))
    assert [(fact.where, fact.tripped) for fact in run.guarded] == [
        ("tool_input", False),
        ("tool_output", True),
        ("output", False),
    ]


# -- handoffs --------------------------------------------------------------------------------------


def test_a_handoff_waits_for_the_turns_other_calls() -> None:
    run = play(began(), said(), replied(1, "h1:handoff", "c2"), approved("h1"), approved("c2"))
    assert duties(run) == ["Execute c2"]
    assert not legal(run, f.Started("h1"))
    more(run, f.Started("c2"))
    assert not legal(run, f.Started("h1"))
    more(run, finished("c2"))
    assert duties(run) == ["Execute h1"]
    more(run, f.Started("h1"), f.HandedOff("h1", "root/other"))
    assert (run.agent, run.definition, duties(run)) == ("root/other", None, ["AskModel"])


def test_a_handoff_waits_while_another_is_not_decided() -> None:
    run = play(began(), said(), replied(1, "h1:handoff", "h2:handoff"), approved("h2"), asked("h1", "q1"))
    assert (status(run), duties(run)) == ("waiting", [])
    assert not legal(run, f.Started("h2"))
    more(run, refused("h1", "q1"))
    assert duties(run) == ["Tell h1"]
    more(run, f.Told("h1", "no"))
    assert duties(run) == ["Execute h2"]


def test_of_several_approved_handoffs_the_first_is_taken_and_the_rest_are_judged_again() -> None:
    run = play(began(), said("go"), replied(1, "h1:handoff", "h2:handoff", "h3:handoff"))
    more(run, approved("h3"), approved("h2"), approved("h1"))
    assert duties(run) == ["Execute h1"]
    more(run, f.Started("h1"), f.HandedOff("h1", "one"))
    assert duties(run) == ["Judge h2", "Judge h3"]
    assert not legal(run, f.Started("h2"))
    assert not legal(run, f.HandedOff("h2", "two"))
    more(run, refused("h2"), refused("h3"), f.Told("h3", "too late"), f.Told("h2", "too late"))
    assert (duties(run), run.agent) == (["AskModel"], "one")
    assert talk(run)[-3:] == ['h1: {"assistant": "one"}', "h2: too late", "h3: too late"]


def test_while_a_handoff_is_running_no_other_starts() -> None:
    run = play(began(), said(), replied(1, "h1:handoff", "h2:handoff"), approved("h1"), approved("h2"))
    more(run, f.Started("h1"))
    assert not legal(run, f.Started("h2"))
    assert duties(run) == ["Settle h1"]


def test_a_handoff_that_failed_leaves_the_way_to_the_next() -> None:
    run = play(began(), said(), replied(1, "h1:handoff", "h2:handoff"), approved("h1"), approved("h2"))
    more(run, f.Started("h1"), finished("h1", "no such agent", error="KeyError"))
    assert (duties(run), run.agent) == (["Execute h2"], "root")


def test_only_a_handoff_hands_off() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"))
    assert not legal(run, f.HandedOff("c1", "other"))


def test_the_next_turn_may_hand_off_again() -> None:
    run = play(began(), said(), replied(1, "h1:handoff"), approved("h1"), f.Started("h1"), f.HandedOff("h1", "one"))
    more(run, replied(1, "h2:handoff"), approved("h2"), f.Started("h2"), f.HandedOff("h2", "two"))
    assert run.agent == "two"
    assert [turn.agent for turn in (run.calls["h1"].turn, run.calls["h2"].turn)] == ["root", "one"]


def test_a_history_takes_the_place_of_the_talk_so_far() -> None:
    history = [{"role": "user", "content": "in short: help"}]
    run = play(began(), said("a long story"), replied(1, "h1:handoff", "h2:handoff"), approved("h1"), approved("h2"))
    assert talk(run) == ["user: a long story"]
    more(run, f.Started("h1"), said("and"), f.HandedOff("h1", "one", js(history)))
    more(run, refused("h2"), f.Told("h2", "no"))
    assert talk(run) == ["user: in short: help", "user: and"]
    more(run, replied(2, text="ok"))
    assert talk(run) == ["user: in short: help", "user: and", "assistant: ok"]


def test_an_empty_history_is_a_history() -> None:
    run = play(began(), said("secret"), replied(1, "h1:handoff"), approved("h1"), f.Started("h1"))
    more(run, f.HandedOff("h1", "one", js([])))
    assert talk(run) == []


# -- branches --------------------------------------------------------------------------------------


def in_branch(*facts: Any, **settings: Any) -> Run:
    """A run with a branch under `p1`, and these facts in it."""
    opening = [began(), said(), replied(1, "p1:agent"), approved("p1"), branch("p1", **settings)]
    return play(*opening, *under(("p1",), facts))


def test_a_branch_owes_what_a_run_would_with_its_path() -> None:
    run = in_branch(said())
    assert duties(run) == ["AskModel p1/"]
    more(run, *under(("p1",), [replied(1, "c1"), approved("c1")]))
    assert duties(run) == ["Execute p1/c1"]
    more(run, *under(("p1",), [f.Started("c1"), finished("c1"), replied(1, text="done")]))
    assert duties(run) == ["Conclude p1/"]


@pytest.mark.parametrize(
    "ending",
    [[replied(1), f.Concluded()], [f.Closed("failed")], [replied(1, "c1"), *ran("c1")]],
    ids=["done", "closed", "exhausted"],
)
def test_the_output_of_a_branch_is_owed_to_its_call_when_the_branch_has_ended(ending: list[Any]) -> None:
    run = in_branch(said(), max_turns=1)
    assert not legal(run, finished("p1"))
    more(run, *under(("p1",), ending))
    assert duties(run) == ["Return p1"]
    more(run, finished("p1", "result"))
    assert (duties(run), talk(run)[-1]) == (["AskModel"], "p1: result")


def test_what_is_open_in_a_branch_keeps_its_call_from_ending() -> None:
    run = in_branch(said(), replied(1, "c1"), asked("c1", "q1"))
    assert (status(run), duties(run), open_questions(run)) == ("waiting", [], [(("p1",), "q1")])
    assert not legal(run, finished("p1"))
    assert not legal(run, refused("p1"))
    assert not legal(run, replied(1))


def test_what_is_asked_after_a_branch_has_its_output_keeps_its_call_from_ending() -> None:
    run = in_branch(said(), replied(1), f.Concluded())
    assert legal(run, finished("p1"))
    more(run, *under(("p1",), [proposed("h", "hook"), asked("h", "q1")]))
    assert (duties(run), open_questions(run)) == ([], [(("p1",), "q1")])
    assert not legal(run, finished("p1"))


def test_branches_nest() -> None:
    inner = [said(), replied(1, "p2:agent"), approved("p2"), branch("p2"), said(path=("p2",))]
    run = in_branch(*inner)
    assert duties(run) == ["AskModel p1/p2/"]
    more(run, *under(("p1", "p2"), [replied(1), f.Concluded()]))
    assert duties(run) == ["Return p1/p2"]
    more(run, finished("p2", path=("p1",)), *under(("p1",), [replied(1), f.Concluded()]))
    assert duties(run) == ["Return p1"]


def test_siblings_work_side_by_side() -> None:
    run = play(began(), said(), replied(1, "p1:agent", "c2", "p3:agent"), approved("p1"), approved("c2"))
    more(run, approved("p3"), branch("p1"), branch("p3"), said(path=("p1",)), said(path=("p3",)))
    assert duties(run) == ["AskModel p1/", "Execute c2", "AskModel p3/"]


@pytest.mark.parametrize("closed", [(), ("p1",)], ids=["run", "parent"])
def test_facts_of_a_branch_are_refused_when_something_above_it_is_closed(closed: Path) -> None:
    inner = [said(), replied(1, "p2:agent"), approved("p2"), branch("p2"), said(path=("p2",))]
    run = in_branch(*inner)
    assert legal(run, replied(1, path=("p1", "p2")))
    more(run, f.Closed("over", path=closed))
    assert not legal(run, replied(1, path=("p1", "p2")))
    assert not legal(run, f.Closed("over", path=("p1", "p2")))


def test_a_branch_cannot_begin_under_a_closed_branch() -> None:
    run = in_branch(said(), replied(1, "p2:agent"), approved("p2"))
    more(run, f.Closed("over", path=("p1",)))
    assert not legal(run, branch("p1", "p2"))


ENDED = [said(), replied(1, "c1"), *ran("c1"), replied(1), f.Concluded()]


@pytest.mark.parametrize(
    "fact",
    [said(), f.Limited(3), f.Defined("x"), proposed("h", "hook"), f.Closed("over")],
    ids=lambda fact: type(fact).__name__,
)
def test_a_branch_whose_call_is_done_takes_nothing_more(fact: Any) -> None:
    run = more(in_branch(*ENDED), finished("p1"))
    assert not legal(run, *under(("p1",), [fact]))


def test_a_branch_whose_call_is_done_keeps_late_results_as_evidence() -> None:
    run = more(in_branch(*ENDED), finished("p1"))
    assert legal(run, f.Witnessed("c1", 1, js("late"), path=("p1",)))


def test_an_exhausted_branch_may_get_more_turns_before_it_returns() -> None:
    run = in_branch(said(), replied(1, "c1"), *ran("c1"), max_turns=1)
    assert duties(run) == ["Return p1"]
    more(run, f.Limited(2, path=("p1",)))
    assert duties(run) == ["AskModel p1/"]


def test_a_run_whose_branch_has_no_input_yet_is_idle_and_waits_for_nobody() -> None:
    run = in_branch()
    assert (status(run), duties(run)) == ("idle", [])
    more(run, said(path=("p1",)))
    assert duties(run) == ["AskModel p1/"]


def test_a_branch_cannot_be_live() -> None:
    opening = [began(), said(), replied(1, "p1:agent"), approved("p1")]
    assert not legal(play(*opening), branch("p1", live=True))


def test_there_is_no_branch_where_none_began() -> None:
    run = in_branch(said())
    for path in [("p2",), ("p1", "p1"), ("",)]:
        with pytest.raises(IllegalFact):
            run.at(path)


# -- final outputs -----------------------------------------------------------------------------------


def output(*facts: Any, **settings: Any) -> Run:
    return play(began(**settings), said("sum up"), replied(1, text="42"), proposed("o1", "output", "42"), *facts)


def test_an_output_that_is_approved_concludes_the_run() -> None:
    run = output(asked("o1", "q1"))
    assert (status(run), open_questions(run)) == ("waiting", [((), "q1")])
    more(run, approved("o1", "q1"))
    assert duties(run) == ["Conclude o1"]
    assert not legal(run, f.Concluded())
    more(run, f.Concluded(call="o1"))
    assert (status(run), phase_of(run, "o1"), run.concluded) == ("done", "DONE", f.Concluded(call="o1"))
    assert talk(run) == ["user: sum up", "assistant: 42"]


def test_an_output_that_is_refused_goes_back_to_the_model_with_the_reason() -> None:
    run = output(asked("o1", "q1"), refused("o1", "q1", message="cite your sources"))
    assert duties(run) == ["Tell o1"]
    more(run, f.Told("o1", "cite your sources"))
    assert (status(run), duties(run)) == ("working", ["AskModel"])
    assert talk(run) == ["user: sum up", "assistant: 42", "user: cite your sources"]
    more(run, replied(1, text="42, see [1]"), proposed("o2", "output", "42, see [1]"), approved("o2"))
    more(run, f.Concluded(call="o2"))
    assert status(run) == "done"


def test_an_output_has_no_body_and_nobody_answers_in_its_place() -> None:
    run = output(asked("o1", "q1"))
    assert not legal(run, finished("o1", asked="q1"))
    more(run, approved("o1", "q1"))
    assert not legal(run, f.Started("o1"))
    assert not legal(run, finished("o1"))


def test_the_question_about_an_output_allows_no_answer_in_its_place() -> None:
    run = output(asked("o1", "q1"))
    assert run.calls["o1"].allowed() == ("approve", "edit", "reject")
    assert not legal(run, asked("o1", "q2", allowed=("respond",), replaces="q1"))


def test_an_output_is_proposed_once_a_reply_without_calls_is_in() -> None:
    assert not legal(play(began(), said()), proposed("o1", "output"))
    assert not legal(play(began(), said(), replied(1, "c1")), proposed("o1", "output"))
    assert not legal(play(began(), said(), replied(1), said()), proposed("o1", "output"))
    assert not legal(output(), proposed("o2", "output"))


def test_an_edited_output_is_what_the_run_gives() -> None:
    run = output(asked("o1", "q1"), approved("o1", "q1", args=js("43")))
    assert bytes(run.calls["o1"].args) == b'"43"'


def test_only_an_output_call_is_concluded() -> None:
    run = play(began(), said(), f.Defined("root", finishing=True), replied(1, "c1"), approved("c1"))
    assert not legal(run, f.Concluded(call="c1"))


def test_new_input_while_an_output_waits_is_heard_after_it() -> None:
    run = output(asked("o1", "q1"), said("one more thing"), approved("o1", "q1"))
    assert duties(run) == ["Conclude o1"]
    more(run, f.Concluded(call="o1"))
    assert duties(run) == ["AskModel"]
    assert talk(run) == ["user: sum up", "assistant: 42", "user: one more thing"]
    more(run, replied(2))
    assert run.concluded is None
    more(run, f.Concluded())
    assert status(run) == "done"


def test_an_approved_output_waits_for_a_hook() -> None:
    run = output(approved("o1"), proposed("h1", "hook"))
    assert duties(run) == ["Judge h1"]
    assert not legal(run, f.Concluded(call="o1"))
    more(run, *ran("h1"))
    assert duties(run) == ["Conclude o1"]


def test_a_live_run_has_no_final_output() -> None:
    run = play(began(live=True), said(), replied(1))
    assert not legal(run, proposed("o1", "output"))
    assert not legal(run, f.Concluded())


# -- concluding after calls --------------------------------------------------------------------------


def finishing(*facts: Any) -> Run:
    return play(began(), said(), f.Defined("root", finishing=True), replied(1, "c1"), *facts)


def test_outputs_that_may_end_the_run_are_looked_at_before_the_model_is_asked() -> None:
    run = finishing(*ran("c1"))
    assert duties(run) == ["Conclude"]
    assert not legal(run, replied(1))
    more(run, f.Continued())
    assert duties(run) == ["AskModel"]
    assert not legal(run, f.Continued())
    assert not legal(run, f.Concluded())


def test_the_output_of_a_call_may_be_the_runs() -> None:
    run = finishing(*ran("c1"))
    assert not legal(run, f.Concluded(source="nope"))
    more(run, f.Concluded(source="c1"))
    assert (status(run), duties(run)) == ("done", [])


def test_outputs_are_not_looked_at_while_calls_are_open() -> None:
    run = finishing(approved("c1"))
    assert duties(run) == ["Execute c1"]
    assert not legal(run, f.Continued())
    assert not legal(run, f.Concluded())


def test_a_reply_without_calls_is_not_continued() -> None:
    assert not legal(play(began(), said(), replied(1)), f.Continued())


def test_an_output_that_calls_gave_can_be_put_to_a_person() -> None:
    run = finishing(*ran("c1"), proposed("o1", "output", "done"), refused("o1"), f.Told("o1", "not yet"))
    assert duties(run) == ["AskModel"]


def test_new_input_goes_before_looking_at_outputs() -> None:
    run = finishing(*ran("c1"), said())
    assert duties(run) == ["AskModel"]
    assert not legal(run, f.Concluded())


# -- hooks -------------------------------------------------------------------------------------------


def test_a_hook_goes_through_the_same_table_and_holds_the_model() -> None:
    run = play(began(), said("go"), proposed("h1", "hook", {"step": 1}))
    assert duties(run) == ["Judge h1"]
    assert not legal(run, replied(1))
    more(run, asked("h1", "q1"), approved("h1", "q1"), f.Started("h1"), finished("h1"))
    assert duties(run) == ["AskModel"]
    assert talk(run) == ["user: go"]


def test_a_hook_says_what_it_had_heard_and_the_reply_may_have_heard_no_more() -> None:
    run = play(began(), said("one"), replied(1), said("two"), said("three"))
    for saw, fits in ((0, False), (1, True), (2, True), (3, True), (4, False)):
        assert legal(run, proposed("h1", "hook", saw=saw)) == fits
    more(run, proposed("h1", "hook", saw=2), asked("h1", "q1"), finished("h1", asked="q1"), said("four"))
    assert [bytes(each.items) for each in run.news(2)] == [b'"two"'] and run.news(1) == []
    assert [item["content"] for item in transcript(run, 2) if item["role"] == "user"] == ["one", "two"]
    assert [item["content"] for item in items_since_reply(run, 2)] == ["two"]
    more(run, replied(2, text="to two"))
    assert talk(run)[-4:] == ["user: two", "assistant: to two", "user: three", "user: four"]
    assert duties(run) == ["AskModel"] and not legal(run, f.Concluded())


def test_a_hook_may_ask_anew_what_a_hook_was_answered() -> None:
    run = play(began(), said("go"), replied(1, "c1", "p1:agent"), asked("c1", "q1"), finished("c1", asked="q1"))
    more(run, approved("p1"), branch("p1"), *under(("p1",), [proposed("h", "hook"), asked("h", "qb")]))
    more(run, finished("h", asked="qb", path=("p1",)))
    more(run, proposed("h1", "hook"), asked("h1", "q2"), finished("h1", asked="q2"), proposed("h2", "hook"))
    more(run, asked("h2", "q3"), proposed("h3", "hook"))
    assert legal(run, asked("h3", "q4", voids="q2"))
    for other in ("", "q1", "q3", "q4", "qb", "nope"):  # of a tool, still open, elsewhere, or not there
        assert not legal(run, asked("h3", "q4", voids=other))
    assert not legal(run, asked("h2", "q4", replaces="q3", voids="q2")), "it has asked already"
    more(run, approved("h3"))
    assert not legal(run, asked("h3", "q4", voids="q2")), "nor does it ask anew once it may go on"


def test_a_body_may_ask_anew_what_was_answered_last_and_nothing_else() -> None:
    run = play(began(), said("go"), replied(1, "c1"), approved("c1"), f.Started("c1"))
    assert not legal(run, asked("c1", "q1", "input", voids="q0"))
    for number in (1, 2):
        more(run, asked("c1", f"q{number}", "input"), answered("c1", f"q{number}", number), f.Started("c1", number + 1))
    for kind, void, fits in (
        ("input", "q2", True),
        ("input", "q1", False),
        ("doubt", "q2", False),
        ("input", "", False),
    ):
        assert legal(run, asked("c1", "q3", kind, voids=void)) == fits
    more(run, asked("c1", "q3", "input", voids="q2"))
    assert not legal(run, asked("c1", "q4", "input", replaces="q3", voids="q1")), "it waits"
    more(run, answered("c1", "q3", 3))
    assert [bytes(answer.value) for _, answer in run.calls["c1"].answers] == [b"1", b"3"]
    assert [run.decided[each].asked for each in ("q1", "q2", "q3")] == ["q1", "q2", "q3"], "who answered what is kept"


def test_a_call_of_a_tool_that_is_new_voids_nothing() -> None:
    run = play(began(), said(), proposed("h1", "hook"), asked("h1", "q1"), finished("h1", asked="q1"), replied(1, "c1"))
    assert not legal(run, asked("c1", "q2", voids="q1")) and legal(run, asked("c1", "q2"))


def test_a_refused_hook_says_nothing_to_the_model() -> None:
    run = play(began(), said("go"), proposed("h1", "hook"), refused("h1"), f.Told("h1", "no"))
    assert talk(run) == ["user: go"]
    assert run.calls["h1"].proposal.name == "hook"


# -- questions -------------------------------------------------------------------------------------


def test_questions_are_in_the_order_of_the_calls_depth_first() -> None:
    run = play(began(), said(), replied(1, "c1", "p2:agent", "c3"))
    more(run, asked("c3", "q_c3"), approved("p2"), branch("p2"), said(path=("p2",)))
    more(run, *under(("p2",), [replied(1, "d1", "p3:agent", "d4"), asked("d4", "q_d4"), approved("p3")]))
    more(run, branch("p2", "p3"), *under(("p2", "p3"), [said(), replied(1, "e1"), asked("e1", "q_e1")]))
    more(run, asked("d1", "q_d1", path=("p2",)), asked("c1", "q_c1"))
    assert open_questions(run) == [
        ((), "q_c1"),
        (("p2",), "q_d1"),
        (("p2", "p3"), "q_e1"),
        (("p2",), "q_d4"),
        ((), "q_c3"),
    ]
    assert (status(run), duties(run)) == ("waiting", [])


def test_a_question_is_known_in_the_run_itself_wherever_it_was_asked() -> None:
    run = in_branch(said(), replied(1, "c1"), asked("c1", "q1"))
    assert run.asked == {"q1": (("p1",), "c1")}
    assert not legal(run, asked("c1", "q1", replaces="q1", path=("p1",)))
    verdict = approved("c1", "q1", path=("p1",))
    more(run, verdict)
    assert run.decided == {"q1": verdict}
    assert run.at(("p1",)).asked == {}


def test_a_question_of_a_branch_is_answered_in_that_branch() -> None:
    run = in_branch(said(), replied(1, "p1"), asked("p1", "q1"))
    assert not legal(run, approved("p1", "q1"))
    assert legal(run, approved("p1", "q1", path=("p1",)))


@pytest.mark.parametrize("at", [99, 100, 101])
def test_after_the_deadline_only_a_rejection_counts(at: int) -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1", until=100))
    assert deadline(run) == 100
    in_time = at <= 100
    assert legal(run, approved("c1", "q1", at=at)) == in_time
    assert legal(run, approved("c1", "q1", args=js({}), at=at)) == in_time
    assert legal(run, finished("c1", asked="q1", at=at)) == in_time
    assert legal(run, refused("c1", "q1", at=at))


@pytest.mark.parametrize("kind", ["input", "doubt"])
def test_bodies_questions_have_deadlines_too(kind: f.QuestionKind) -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), asked("c1", "q1", kind, until=100))
    for verdict in [approved("c1", "q1", at=101), finished("c1", asked="q1", at=101), answered("c1", "q1", at=101)]:
        assert not legal(run, verdict)
    assert legal(run, refused("c1", "q1", at=101))


def test_a_question_that_does_not_allow_a_rejection_still_runs_out_of_time() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1", allowed=("approve", "edit"), until=100))
    assert not legal(run, refused("c1", "q1", at=99))
    assert legal(run, f.Refused("c1", "clock", "q1", at=101))


def test_a_question_allows_an_answer_at_least() -> None:
    assert not legal(play(began(), said(), replied(1, "c1")), asked("c1", "q1", allowed=()))


def test_silence_comes_to_a_rejection_of_every_question_whose_time_is_up() -> None:
    run = play(began(), said(), replied(1, "c1", "c2", "c3", "p4:agent"), asked("c1", "q1", until=100))
    more(run, asked("c2", "q2"), asked("c3", "q3", until=300, due=50), approved("p4"), branch("p4"))
    more(run, *under(("p4",), [said(), replied(1, "d1"), asked("d1", "q4", until=99, allowed=("approve",))]))
    assert overdue(run, 99) == []
    assert [fact.asked for fact in overdue(run, 100)] == ["q4"]
    late = overdue(run, 101)
    assert [(fact.asked, fact.by, fact.path) for fact in late] == [("q1", "deadline", ()), ("q4", "deadline", ("p4",))]
    more(run, *late)
    assert overdue(run, 101) == []


def test_the_deadline_is_the_next_one_of_all_open_questions() -> None:
    run = play(
        began(), said(), replied(1, "c1", "p2:agent"), asked("c1", "q1", until=300), approved("p2"), branch("p2")
    )
    more(run, *under(("p2",), [said(), replied(1, "d1", "d2"), asked("d1", "q2", until=200), asked("d2", "q3")]))
    assert deadline(run) == 200
    more(run, refused("d1", "q2", path=("p2",)))
    assert deadline(run) == 300
    more(run, approved("c1", "q1"))
    assert deadline(run) is None


@pytest.mark.parametrize("kind", ["approval", "input", "doubt"])
def test_a_replaced_question_cannot_be_answered_any_more(kind: f.QuestionKind) -> None:
    way = [] if kind == "approval" else [approved("c1"), f.Started("c1")]
    run = play(began(), said(), replied(1, "c1"), *way, asked("c1", "q1", kind))
    new = asked("c1", "q2", kind, replaces="q1", digest="new")
    more(run, new)
    assert (open_questions(run), run.decided) == ([((), "q2")], {"q1": new})
    assert not legal(run, refused("c1", "q1"))
    assert legal(run, refused("c1", "q2"))


def test_a_decision_made_twice_is_refused_the_second_time() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), approved("c1", "q1"))
    assert not legal(run, approved("c1", "q1"))
    assert not legal(run, refused("c1", "q1"))


def test_what_was_approved_and_has_changed_is_asked_anew() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), approved("c1", "q1"))
    more(run, asked("c1", "q2", args=js({"x": 2})))
    state = run.calls["c1"]
    assert (state.approval, state.digest, bytes(state.args)) == (None, "digest of q2", b'{"x":2}')
    assert not legal(run, f.Started("c1"))
    more(run, approved("c1", "q2"))
    assert legal(run, f.Started("c1"))


def test_a_changed_tool_that_was_accepted_is_remembered() -> None:
    run = play(began(), said(), replied(1, "c1"), f.Redefined("c1", "fp1", "ana"))
    more(run, asked("c1", "q1"), f.Redefined("c1", "fp2", "ana"))
    assert (run.calls["c1"].fingerprint, phase_of(run, "c1")) == ("fp2", "ASKED")
    assert legal(run, approved("c1", "q1"))


# -- doubt, asking bodies, steps ---------------------------------------------------------------------


def doubtful(*facts: Any) -> Run:
    return play(
        began(), said("go"), replied(1, "c1"), approved("c1"), f.Started("c1"), asked("c1", "q1", "doubt"), *facts
    )


def test_a_call_in_doubt_may_be_run_again() -> None:
    run = doubtful(approved("c1", "q1"))
    assert duties(run) == ["Execute c1"]
    assert not legal(run, f.Started("c1", 1))
    more(run, f.Started("c1", 2), finished("c1"))
    assert run.calls["c1"].attempt == 2


def test_a_call_in_doubt_may_be_known_to_have_ended() -> None:
    run = doubtful(finished("c1", "it went out", asked="q1", by="ana"))
    assert talk(run)[-1] == "c1: it went out"


def test_a_call_in_doubt_may_be_given_up() -> None:
    run = doubtful(refused("c1", "q1"))
    assert duties(run) == ["Tell c1"]


def test_a_result_that_comes_while_a_person_is_asked_is_evidence_and_no_outcome() -> None:
    run = doubtful()
    assert not legal(run, finished("c1"))
    assert legal(run, f.Witnessed("c1", 1, js("late")))


def test_a_tool_that_may_be_run_again_needs_no_person() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), f.Started("c1", 2))
    assert (duties(run), run.calls["c1"].attempt) == (["Settle c1"], 2)


def test_an_asking_body_is_entered_again_with_all_its_answers() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), asked("c1", "q1", "input"))
    assert status(run) == "waiting"
    more(run, answered("c1", "q1", "blue"))
    assert duties(run) == ["Execute c1"]
    more(run, f.Started("c1", 2), asked("c1", "q2", "input"), answered("c1", "q2", {"n": 2}), f.Started("c1", 3))
    pairs = [(question.id, bytes(answer.value)) for question, answer in run.calls["c1"].answers]
    assert pairs == [("q1", b'"blue"'), ("q2", b'{"n":2}')]
    more(run, finished("c1"))
    assert duties(run) == ["AskModel"]


def test_steps_are_kept_in_order_over_attempts() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), f.Stepped("c1", "a", js(1)))
    more(run, asked("c1", "q1", "input"), answered("c1", "q1"), f.Started("c1", 2), f.Stepped("c1", "b", js(2)))
    assert [(step.name, bytes(step.value)) for step in run.calls["c1"].steps] == [("a", b"1"), ("b", b"2")]


def test_what_a_body_asked_may_be_declined() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), asked("c1", "q1", "input"))
    more(run, refused("c1", "q1"), f.Told("c1", "no answer"))
    assert (talk(run)[-1], duties(run)) == ("c1: no answer", ["AskModel"])


# -- live sessions -----------------------------------------------------------------------------------


def test_in_a_live_run_the_model_speaks_unasked_and_while_calls_are_open() -> None:
    run = play(began(live=True, max_turns=1), replied(0, text="hello"), said(), replied(1, "c1"), replied(1, "c2"))
    assert duties(run) == ["Judge c1", "Judge c2"]
    more(run, replied(1, text="a moment"), approved("c2"), approved("c1"))
    assert duties(run) == ["Execute c1", "Execute c2"]


def test_a_live_run_never_owes_the_model_and_never_concludes() -> None:
    run = play(began(live=True), said(), replied(1, "c1"), *ran("c1"))
    assert (status(run), duties(run)) == ("idle", [])
    more(run, replied(1))
    assert (status(run), duties(run)) == ("idle", [])


def test_a_live_run_waits_for_its_questions() -> None:
    run = play(began(live=True), said(), replied(1, "c1"), asked("c1", "q1"), said(), replied(2))
    assert status(run) == "waiting"


def test_a_live_reply_too_says_truly_what_it_heard() -> None:
    run = play(began(live=True), said(), replied(1))
    assert not legal(run, replied(2))
    assert not legal(run, replied(0))


def test_in_a_live_run_a_batch_is_a_turn() -> None:
    run = play(began(live=True, release="batch"), said(), replied(1, "c1"), asked("c1", "q1"), replied(1, "c2", "c3"))
    more(run, approved("c2"))
    assert duties(run) == ["Judge c3"] and not legal(run, f.Started("c2"))
    more(run, approved("c3"))
    assert duties(run) == ["Execute c2", "Execute c3"] and legal(run, f.Started("c2"))


# -- grants, sessions, definitions -------------------------------------------------------------------


def test_grants_are_the_runs_own_until_they_are_revoked() -> None:
    grant = f.Granted("g1", "root", "send", "approve", "ana")
    run = play(began(), grant)
    assert run.grants == {"g1": grant}
    assert not legal(run, grant)
    assert not legal(run, f.Granted("", "root", "send", "approve", "ana"))
    assert not legal(run, f.Revoked("g2", "ana"))
    more(run, f.Revoked("g1", "ana"))
    assert run.grants == {}
    assert not legal(run, f.Revoked("g1", "ana"))


def test_a_branch_has_no_grants_of_its_own() -> None:
    run = in_branch(said())
    assert not legal(run, f.Granted("g1", "root", "send", "approve", "ana", path=("p1",)))
    more(run, f.Granted("g1", "root", "send", "approve", "ana"))
    assert not legal(run, f.Revoked("g1", "ana", path=("p1",)))


def test_a_grant_settles_no_question_that_is_open() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), f.Granted("g1", "root", "send", "approve", "ana"))
    assert (status(run), open_questions(run)) == ("waiting", [((), "q1")])


def test_what_was_saved_is_not_taken_back() -> None:
    run = play(began(), said(), replied(1), f.Saved(1), f.Saved(1), f.Saved(2))
    assert run.saved == 2
    for upto in (-1, 0, 1, 3):
        assert not legal(run, f.Saved(upto))


def test_a_definition_holds_until_the_next() -> None:
    old, new = f.Defined("root", finishing=True), f.Defined("root")
    run = play(began(), said(), old, replied(1, "c1"), new, *ran("c1"))
    assert (run.definition, duties(run)) == (new, ["Conclude"])
    more(run, f.Continued(), replied(1, "c2"), *ran("c2"))
    assert duties(run) == ["AskModel"]


# -- forks -----------------------------------------------------------------------------------------


def busy() -> Run:
    """A run in the middle of everything."""
    run = play(began(guards=("g1",)), said(), f.Granted("g1", "root", "send", "approve", "ana"), replied(1, "c0"))
    more(run, f.Guarded("input", "g1"), *ran("c0"), replied(1, "c1", "c2", "c3", "p4:agent", "c5", "h6:handoff"))
    more(run, asked("c1", "q1"), approved("c2"), f.Started("c2"), refused("c3"), approved("p4"), approved("h6"))
    more(run, branch("p4", guards=("g2",)), said(path=("p4",)), *ran("c5"), said("and"))
    return more(run, *under(("p4",), [replied(1, "d1", "d2"), asked("d1", "q2"), approved("d2")]))


NEXT_FACTS: list[Any] = [
    approved("c1", "q1", args=js({"x": 1})),
    asked("c1", "q3", replaces="q1"),
    f.Stepped("c2", "s", js(1)),
    asked("c2", "q3", "input"),
    finished("c2"),
    f.Told("c3", "no"),
    f.Redefined("c1", "fp", "ana"),
    f.Guarded("tool_output", "t", call="c2"),
    f.Guarded("input", "g2", path=("p4",)),
    said(),
    said(path=("p4",)),
    refused("d1", "q2", path=("p4",)),
    f.Closed("over", path=("p4",)),
    f.Closed("over"),
    f.Limited(1),
    f.Granted("g2", "root", "send", "reject", "ana"),
    f.Revoked("g1", "ana"),
    f.Cancelled("ana"),
    f.Defined("root"),
    f.Awaited(("g1",)),
    f.Saved(2),
    proposed("k1", "hook"),
]


@pytest.mark.parametrize("fact", NEXT_FACTS, ids=lambda fact: f"{type(fact).__name__}-{'/'.join(fact.path)}")
def test_a_fork_and_its_original_go_their_own_ways(fact: Any) -> None:
    run = busy()
    before, fork = snapshot(run), run.fork()
    assert snapshot(fork) == before
    fold(fork, fact)
    assert snapshot(run) == before
    after = snapshot(fork)
    assert after != before
    fold(run, fact)
    assert snapshot(run) == after == snapshot(fork)


def test_a_fork_folds_into_what_a_replay_of_the_whole_journal_does() -> None:
    rest = [refused("c1", "q1"), f.Told("c1", "no"), finished("c2"), f.Told("c3", "no"), f.Closed("x", path=("p4",))]
    rest += [finished("p4"), f.Started("h6"), f.HandedOff("h6", "other"), replied(2, text="over"), f.Concluded()]
    run, fork, fork_of_fork = busy(), busy().fork(), busy().fork().fork()
    for fact in rest:
        for each in (run, fork, fork_of_fork):
            fold(each, fact)
        assert snapshot(run) == snapshot(fork) == snapshot(fork_of_fork)
        assert talk(run) == talk(fork) == talk(fork_of_fork)
    assert status(run) == "done"


def test_the_transcript_of_a_fork_is_its_own() -> None:
    run = play(began(), said("a"), replied(1, "c1"))
    assert talk(run) == ["user: a"]
    fork = run.fork()
    more(fork, *ran("c1", "in the fork"))
    assert (talk(fork)[-1], talk(run)) == ("c1: in the fork", ["user: a"])
    more(run, *ran("c1", "in the run"))
    assert (talk(fork)[-1], talk(run)[-1]) == ("c1: in the fork", "c1: in the run")


# -- refusals ----------------------------------------------------------------------------------------


def test_a_refusal_says_what_was_tried_where_and_why_not() -> None:
    run = play(began(), said(), replied(1, "c1"))
    with pytest.raises(IllegalFact, match=r"Started cannot follow fact 3 of this journal: call 'c1' is NEW\."):
        fold(run, f.Started("c1"))
    with pytest.raises(IllegalFact, match=r"call 'c9' is not there"):
        check(run, approved("c9"))
    more(run, asked("c1", "q2"))
    with pytest.raises(IllegalFact, match=r"open question of call 'c1' is 'q2', not 'q1'"):
        check(run, approved("c1", "q1"))


def test_nothing_starts_in_a_branch_while_one_that_it_is_in_awaits_its_guardrails() -> None:
    run = play(began(), said(), replied(1, "p1:agent"), approved("p1"), branch("p1"), said(path=("p1",)))
    more(run, *under(("p1",), [replied(1, "p2:agent"), approved("p2")]), branch("p1", "p2"), said(path=("p1", "p2")))
    more(run, *under(("p1", "p2"), [replied(1, "c1"), approved("c1")]))
    start = f.Started("c1", path=("p1", "p2"))
    assert legal(run, start)
    more(run, said("more", path=("p1",)), f.Awaited(("g1",), path=("p1",)))
    assert not legal(run, start)
    more(run, f.Guarded("input", "g1", path=("p1",)))
    assert legal(run, start)


HANDLED = f.Concluded(js("stopped"), handled="max_turns", saw=2)


def test_an_error_handler_ends_a_run_that_is_out_of_turns() -> None:
    run = play(began(max_turns=1), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), finished("c1"))
    assert status(run) == "exhausted"
    more(run, f.Said(js([]), f.ERROR_HANDLER), HANDLED)
    assert (status(run), run.concluded, run.unheard) == ("done", HANDLED, [])
    more(run, said("and"))
    assert status(run) == "exhausted"


@pytest.mark.parametrize(
    "facts",
    [
        [began(max_turns=2), said(), said(), replied(2)],
        [began(max_turns=1), said(), replied(1), said(), said()],
        [began(max_turns=1), said(), replied(1, "c1"), said()],
        [began(max_turns=1, live=True), said(), said()],
        [began(max_turns=1), said(), said(), replied(2)],
        [began(max_turns=1), said(), replied(1), said(), f.Cancelled("ann")],
    ],
)
def test_an_error_handler_ends_no_other_run(facts: list[Any]) -> None:
    assert not legal(play(*facts), HANDLED)


def test_an_error_handler_answers_for_a_reply_that_cannot_be_the_output() -> None:
    end = f.Concluded(js("mended"), handled="invalid_final_output", saw=1)
    run = play(began(), said(), replied(1, text="bad"))
    assert legal(run, end)
    assert not legal(run, f.Concluded(handled="invalid_final_output", saw=1)), "without an output"
    more(run, said("wait"))
    assert not legal(run, f.Concluded(js("mended"), handled="invalid_final_output", saw=2)), "the model is asked first"
