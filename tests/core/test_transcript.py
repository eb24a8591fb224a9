"""What the model hears, piece by piece; its order over a whole run is in test_run.py."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw
from msgspec.json import decode

from assentry.core import facts as f
from assentry.core.fold import fold
from assentry.core.run import Run
from assentry.core.transcript import (
    content_text,
    entry_items,
    handed_text,
    items_since_reply,
    reply_refusal,
    reply_text,
    transcript,
    value_text,
)
from tests.core.support import approved, asked, began, call, finished, js, play, proposed, refused, replied, said


def message(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": content}


def outputs(run: Run) -> list[Any]:
    return [(item["call_id"], item["output"]) for item in transcript(run) if item.get("type") == "function_call_output"]


def test_input_is_a_text_by_somebody_or_items_as_they_are() -> None:
    items = [{"role": "user", "content": "a", "unknown": {"x": 1}}, {"type": "other"}]
    run = play(began(), said("hi"), said("be brief", by="developer"), f.Said(js(items)), f.Said(js([])))
    assert transcript(run) == [{"role": "user", "content": "hi"}, {"role": "developer", "content": "be brief"}, *items]


def test_an_open_turn_is_shown_without_the_calls_that_have_no_output_yet() -> None:
    run = play(began(), said(), replied(1, "c1", "c2", "c3", "c4", text="so"), approved("c2"), f.Started("c2"))
    for fact in (finished("c2", "two"), refused("c3"), f.Told("c3", "no"), refused("c4")):
        run = play_on(run, fact)
    shown = [item.get("call_id", item.get("content")) for item in entry_items(run.entries[1])]
    assert shown == ["so", "call_c2", "call_c3", "call_c2", "call_c3"]
    assert transcript(run) == [{"role": "user", "content": "hello"}]


def test_thoughts_that_led_only_to_what_is_left_out_are_left_out() -> None:
    thought = {"type": "reasoning", "id": "r"}
    calls = [{"type": "function_call", "name": "t", "arguments": "", "call_id": f"p{n}"} for n in range(3)]

    def shown(items: list[Any], *done: str) -> list[str]:
        made = tuple(f.Call(f"c{n}", "t", items.index(each)) for n, each in enumerate(calls) if each in items)
        run = play(began(), said(), f.Replied(js(items), 1, made))
        for id in done:
            play_on(run, refused(id), f.Told(id, "no"))
        return [item.get("call_id", item.get("id", "text")) for item in entry_items(run.entries[1])]

    assert shown([thought, calls[0]]) == []
    assert shown([thought, message("a"), calls[0]]) == ["r", "text"]
    assert shown([thought, thought, calls[0], calls[1]], "c1") == ["r", "r", "p1", "p1"]
    assert shown([thought, calls[0], thought, calls[1], calls[2]], "c2") == ["r", "p2", "p2"]
    assert shown([calls[0], thought, calls[1]], "c0") == ["p0", "p0"]
    assert shown([thought, calls[0]], "c0") == ["r", "p0", "p0"]


def play_on(run: Run, *facts: Any) -> Run:
    for fact in facts:
        fold(run, fact)
    return run


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        ("plain", "plain"),
        ('é😀\n"', 'é😀\n"'),
        (None, "null"),
        (1.5, "1.5"),
        ([], "[]"),
        ({"a": [1]}, '{"a":[1]}'),
    ],
)
def test_an_output_is_told_as_itself_if_it_is_text_and_else_as_json(value: Any, text: str) -> None:
    assert value_text(js(value)) == text
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), finished("c1", value))
    assert outputs(run) == [("call_c1", text)]


def test_an_output_keeps_its_own_spelling() -> None:
    assert value_text(Raw(b'{"a": 1.50}')) == '{"a": 1.50}'


@pytest.mark.parametrize("provider", ["p1", "", None])
def test_an_output_bears_the_providers_id_and_ours_only_where_it_gave_none(provider: str | None) -> None:
    item = {"type": "function_call", "name": "send", "arguments": "{}"} | (
        {} if provider is None else {"call_id": provider}
    )
    run = play(began(), said(), f.Replied(js([item]), 1, (call("c1"),)), refused("c1"), f.Told("c1", "no"))
    assert outputs(run) == [("c1" if provider is None else provider, "no")]


def test_items_of_a_reply_are_told_as_they_came() -> None:
    items = [
        {"type": "reasoning", "encrypted": "x", "n": 1.5},
        message("a"),
        {"type": "function_call", "name": "t", "call_id": "p"},
    ]
    run = play(began(), said(), f.Replied(js(items), 1, (f.Call("c1", "t", 2),)), refused("c1"), f.Told("c1", "no"))
    assert transcript(run)[1:4] == items


def test_an_output_that_was_refused_without_words_says_nothing() -> None:
    run = play(began(), said(), replied(1, text="42"), proposed("o1", "output", "42"), refused("o1"), f.Told("o1", ""))
    assert [item["content"] for item in transcript(run)] == ["hello", "42"]


def test_the_model_is_told_of_another_tool_and_of_empty_arguments() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), approved("c1", "q1", args=js({}), tool="other"))
    play_on(run, f.Started("c1"), finished("c1", "ok"))
    assert outputs(run)[0][1].startswith("ok\n\n") and "other {}" in outputs(run)[0][1]


def test_a_person_who_answers_in_the_tools_place_changed_no_call() -> None:
    run = play(began(), said(), replied(1, "c1"), asked("c1", "q1"), finished("c1", "never mind", asked="q1", by="ana"))
    assert outputs(run) == [("call_c1", "never mind")]


def test_the_transcript_is_not_made_anew() -> None:
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), finished("c1"))
    first = transcript(run)
    assert transcript(run) is first
    play_on(run, replied(1, text="ok"))
    assert transcript(run) is first and first[-1]["content"] == "ok"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ("", ""),
        (None, ""),
        ([], ""),
        ([{"text": "a"}, {"type": "image"}, {"text": None}, {"text": "b"}], "ab"),
    ],
)
def test_the_text_of_a_message_is_that_of_its_parts(content: Any, text: str) -> None:
    assert content_text(content) == text
    assert (
        reply_text(f.Replied(js([message(content), {"type": "reasoning", "content": "no"}, message("!")])))
        == text + "!"
    )


# -- refusals ----------------------------------------------------------------------------------------


def refusing(*parts: dict[str, Any]) -> f.Replied:
    return f.Replied(js([message(list(parts))]))


def test_the_words_a_model_refuses_with_are_its_text_only_if_it_has_no_other() -> None:
    refusal = {"type": "refusal", "refusal": "I will not."}
    assert reply_refusal(refusing(refusal)) == reply_text(refusing(refusal)) == "I will not."
    both = refusing({"type": "output_text", "text": "Well. "}, refusal)
    assert (reply_refusal(both), reply_text(both)) == ("I will not.", "Well. ")
    later = f.Replied(js([{"type": "reasoning"}, message("so"), message([refusal, {"text": "!"}])]))
    assert (reply_refusal(later), reply_text(later)) == ("I will not.", "so!")


@pytest.mark.parametrize(
    "items",
    [
        [],
        [message("I will not.")],
        [message(None)],
        [message([{"type": "output_text", "text": "a", "refusal": "no"}])],
        [message([{"type": "refusal", "refusal": ""}, {"type": "refusal"}])],
        [{"type": "reasoning", "content": [{"type": "refusal", "refusal": "no"}]}],
    ],
)
def test_a_reply_that_refuses_nothing_has_no_refusal(items: list[Any]) -> None:
    assert reply_refusal(f.Replied(js(items))) is None


# -- handoffs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "told"), [("Clerk", "Clerk"), ("", "root/clerk"), ('a"\\é', 'a"\\é')])
def test_the_model_is_told_the_name_of_who_took_over_and_the_place_where_none_is_known(name: str, told: str) -> None:
    run = play(began(), said(), replied(1, "h1:handoff"), approved("h1"), f.Started("h1"))
    play_on(run, f.HandedOff("h1", "root/clerk", name=name))
    assert outputs(run) == [("call_h1", handed_text(told))]
    assert decode(handed_text(told)) == {"assistant": told}


# -- what is new since the last reply ------------------------------------------------------------------


def short(items: list[Any]) -> list[Any]:
    return [item.get("output", item.get("content")) for item in items]


def test_before_any_reply_everything_is_items_since_reply() -> None:
    run = play(began(), said("a"), said("b"))
    assert items_since_reply(run) == transcript(run)
    assert items_since_reply(play(began())) == []


def test_news_are_the_outputs_of_the_last_replys_calls_and_what_was_said_since() -> None:
    run = play(began(), said("a"), replied(1, "c1", "c2", text="so"))
    assert items_since_reply(run) == []
    play_on(run, refused("c2"), f.Told("c2", "no"), said("b"))
    assert short(items_since_reply(run)) == ["no", "b"], "a call without its output is left out"
    play_on(run, approved("c1"), f.Started("c1"), finished("c1", "one"))
    assert short(items_since_reply(run)) == ["one", "no", "b"], "in the order of the calls"
    assert transcript(run)[-3:] == items_since_reply(run)
    play_on(run, replied(2, text="ok"))
    assert items_since_reply(run) == []
    play_on(run, f.Concluded(), said("c"))
    assert short(items_since_reply(run)) == ["c"]


def test_what_a_reply_did_not_hear_is_news_after_it() -> None:
    run = play(began(), said("a"), said("b"), replied(1, "c1"), refused("c1"), f.Told("c1", "no"))
    assert short(items_since_reply(run)) == ["no", "b"]


def test_an_output_that_was_refused_is_news_and_a_handoff_has_its_output() -> None:
    run = play(began(), said("a"), replied(1, text="42"), proposed("o1", "output", "42"))
    play_on(run, refused("o1"), f.Told("o1", "wrong"), said("b"))
    assert short(items_since_reply(run)) == ["wrong", "b"] and items_since_reply(run) == transcript(run)[-2:]
    play_on(run, replied(2, "h1:handoff"), approved("h1"), f.Started("h1"), f.HandedOff("h1", "x", name="X"))
    assert short(items_since_reply(run)) == ['{"assistant": "X"}']


def test_news_keep_nothing_and_change_nothing() -> None:
    run = play(began(), said("a"), replied(1, "c1"), refused("c1"), f.Told("c1", "no"), said("b"))
    talk = list(transcript(run))
    items_since_reply(run).clear()
    assert len(items_since_reply(run)) == 2 and transcript(run) == talk


RAN = {"tool": "send", "arguments": {"to": "eve", "copies": 2}}
"""What code around a body ran in its place."""


@pytest.mark.parametrize(
    ("steps", "ran"),
    [
        ([], ""),
        ([RAN], ""),
        ([{**RAN, "edited": True}], 'send {"copies":2,"to":"eve"}'),
        ([RAN, {**RAN, "edited": True}, {**RAN, "edited": True}], 'send {"copies":2,"to":"eve"}'),
        (
            [{**RAN, "edited": True}, {"tool": "log", "arguments": {}, "edited": True}],
            'send {"copies":2,"to":"eve"}, and log {}',
        ),
        (["a step of the user's own", None, {"edited": True}], ""),
    ],
)
def test_the_model_is_told_what_a_person_made_of_a_call_that_ran_in_anothers_place(steps: list[Any], ran: str) -> None:
    stepped = [f.Stepped("c1", "assent:instead", js(value), number) for number, value in enumerate(steps)]
    run = play(began(), said(), replied(1, "c1"), approved("c1"), f.Started("c1"), *stepped, finished("c1", "sent"))
    note = f"\n\n[A person changed this call before it ran. What ran was: {ran}]" if ran else ""
    assert outputs(run) == [("call_c1", f"sent{note}")]
