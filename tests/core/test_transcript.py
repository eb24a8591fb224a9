"""What the model hears, piece by piece; its order over a whole run is in test_run.py."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from assent.core import facts as f
from assent.core.fold import fold
from assent.core.run import Run
from assent.core.transcript import content_text, entry_items, reply_text, transcript, value_text
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
