"""The Realtime API without a connection: messages in, events out, and the other way round."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.core.facts import Usage
from assentry.errors import UsageError
from assentry.models.model import ToolSpec
from assentry.realtime.item import (
    AssistantAudio,
    AssistantMessageItem,
    AssistantText,
    InputAudio,
    InputImage,
    InputText,
    RealtimeToolCallItem,
    SystemMessageItem,
    UserMessageItem,
)
from assentry.realtime.model import (
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelErrorEvent,
    RealtimeModelInputAudioCommittedEvent,
    RealtimeModelInputAudioTimeoutTriggeredEvent,
    RealtimeModelInputAudioTranscriptionCompletedEvent,
    RealtimeModelItemDeletedEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelOtherEvent,
    RealtimeModelOutputTextDeltaEvent,
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendItems,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeModelTurnEndedEvent,
    RealtimeModelTurnStartedEvent,
)
from assentry.realtime.playback import RealtimePlaybackTracker
from assentry.realtime.wire import OpenAIRealtimeProtocol, session_of
from tests.realtime.support import Wire, check_client_event, function_call, message

HELLO = RealtimeModelSendItems([{"role": "user", "content": "hello"}], start_response=True)

# -- what comes ----------------------------------------------------------------------------------


def test_audio_and_text_come_as_they_are() -> None:
    wire = Wire()
    where = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 2}
    data = bytes(range(256))
    delta = b64encode(data).decode()
    assert wire.get("response.output_audio.delta", **where, delta=delta) == [
        RealtimeModelAudioEvent(data, "resp_1", "item_1", 2)
    ]
    assert wire.said("Good") == [RealtimeModelTranscriptDeltaEvent("item_1", "Good", "resp_1")]
    assert wire.said("Good", kind="text") == [RealtimeModelOutputTextDeltaEvent("item_1", "Good", "resp_1")]
    assert wire.get("response.output_audio.done", **where) == [RealtimeModelAudioDoneEvent("item_1", 2)]
    assert wire.messages == []


def test_the_users_speech_comes_as_it_is() -> None:
    wire = Wire()
    transcription = "conversation.item.input_audio_transcription"
    assert wire.get("input_audio_buffer.committed", item_id="u") == [RealtimeModelInputAudioCommittedEvent("u")]
    assert wire.get(f"{transcription}.completed", item_id="u", transcript="hi") == [
        RealtimeModelInputAudioTranscriptionCompletedEvent("u", "hi")
    ]
    assert wire.get(f"{transcription}.failed", item_id="u", error={}) == [
        RealtimeModelInputAudioTranscriptionCompletedEvent("u", None)
    ]
    assert wire.get("input_audio_buffer.timeout_triggered", item_id="u", audio_start_ms=1, audio_end_ms=2) == [
        RealtimeModelInputAudioTimeoutTriggeredEvent("u", 1, 2)
    ]
    assert wire.get("conversation.item.deleted", item_id="u") == [RealtimeModelItemDeletedEvent("u")]


def test_a_reply_begins_and_ends_once() -> None:
    wire = Wire()
    assert wire.created() == [RealtimeModelTurnStartedEvent("resp_1")]
    assert wire.created() == []
    usage = {"input_tokens": 7, "output_tokens": 3, "input_token_details": {"cached_tokens": 2}}
    [ended] = wire.done(output=[message("Hello."), function_call()], usage=usage)
    assert ended == RealtimeModelTurnEndedEvent(
        "resp_1",
        [
            {
                "type": "message",
                "role": "assistant",
                "id": "item_1",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
            },
            {
                "type": "function_call",
                "id": "item_2",
                "call_id": "call_1",
                "name": "send",
                "arguments": '{"to": "ann"}',
            },
        ],
        Usage(1, 7, 3, 2),
        usage_details=usage,
    )
    assert wire.done(output=[message("Hello."), function_call()]) == []
    assert wire.created() == []


@pytest.mark.parametrize("status", ["incomplete", "in_progress", None, 5])
def test_a_call_that_is_not_complete_is_left_out(status: Any) -> None:
    wire = Wire()
    wire.created()
    [ended] = wire.done(status="cancelled", output=[function_call(status=status)])
    assert ended.output == []


@pytest.mark.parametrize(
    "damage", [{"name": None}, {"call_id": 5}, {"arguments": {}}, {"status": None}, {"call_id": ""}]
)
def test_a_call_that_should_be_complete_and_is_not_is_told_and_left_out(damage: dict[str, Any]) -> None:
    wire = Wire()
    wire.created()
    [error, ended] = wire.done(output=[function_call(**damage)])
    assert isinstance(error, RealtimeModelErrorEvent) and "left out" in error.error
    assert ended.output == []


def test_an_item_is_in_a_replys_output_once() -> None:
    wire = Wire()
    [ended] = wire.done(output=[function_call(), function_call()])
    assert len(ended.output) == 1


def test_a_message_that_was_cut_off_has_what_was_said() -> None:
    wire = Wire()
    wire.created()
    wire.said("Good ")
    wire.said("morning")
    details = {"type": "cancelled", "reason": "turn_detected"}
    [ended] = wire.done(status="cancelled", status_details=details, output=[message(None, status="incomplete")])
    assert ended.status == "cancelled" and ended.reason == "the user began to speak"
    [said] = ended.output
    assert said["status"] == "incomplete" and said["content"][0]["text"] == "Good morning"


def test_what_was_said_is_kept_if_the_reply_ends_without_its_items() -> None:
    wire = Wire()
    wire.created()
    wire.said("Good morning", kind="text")
    error = {"error": {"code": "server_error", "message": "Sorry."}}
    [ended] = wire.done(status="failed", status_details=error)
    assert ended.output[0]["content"][0]["text"] == "Good morning"
    assert ended.reason == "server_error: Sorry."


def test_a_message_in_which_nothing_was_said_is_left_out() -> None:
    [ended] = Wire().done(output=[message(None), message("", "item_2")])
    assert ended.output == []


def test_a_reply_ends_even_if_its_last_event_cannot_be_read() -> None:
    wire = Wire()
    wire.created()
    wire.send(HELLO)
    [error, ended] = wire.get("response.done", response={"status": "completed", "output": [function_call()]})
    assert isinstance(error, RealtimeModelErrorEvent)
    assert ended.status == "failed" and ended.response_id == "resp_1" and ended.output == []
    assert wire.types()[-1] == "response.create"


def test_no_audio_is_in_any_item() -> None:
    wire = Wire()
    part = {"type": "output_audio", "transcript": "Hi", "audio": "AAAA"}
    item = {**message("Hi"), "content": [part]}
    [updated] = wire.get("conversation.item.retrieved", item=item)
    assert updated.item == AssistantMessageItem("item_1", [AssistantAudio("Hi")], "completed")
    [ended] = wire.done(output=[item])
    assert "AAAA" not in repr(ended)


ITEMS: list[tuple[dict[str, Any], Any]] = [
    (
        {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_audio", "transcript": None}]},
        UserMessageItem("i", [InputText("a"), InputAudio(None)]),
    ),
    (
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:", "detail": "low"}]},
        UserMessageItem("i", [InputImage("data:", "low")]),
    ),
    ({"role": "system", "content": [{"type": "input_text", "text": "a"}]}, SystemMessageItem("i", [InputText("a")])),
    (
        {"role": "assistant", "status": "in_progress", "content": [{"type": "output_text", "text": "a"}]},
        AssistantMessageItem("i", [AssistantText("a")], "in_progress"),
    ),
    (function_call("i"), RealtimeToolCallItem("i", "call_1", "send", '{"to": "ann"}')),
]


@pytest.mark.parametrize(("item", "seen"), ITEMS, ids=lambda each: type(each).__name__)
def test_an_item_is_told_once_however_often_it_comes(item: dict[str, Any], seen: Any) -> None:
    wire = Wire()
    item = {"type": "message", **item, "id": "i"}
    assert wire.get("conversation.item.added", item=item) == [RealtimeModelItemUpdatedEvent(seen)]
    assert wire.get("response.output_item.added", item=item) == []
    assert wire.get("conversation.item.done", item=item) == []


def test_an_item_that_is_complete_does_not_go_back() -> None:
    wire = Wire()
    begun = {**message(None, status="in_progress"), "content": []}
    assert len(wire.get("conversation.item.added", item=begun)) == 1
    assert len(wire.get("conversation.item.done", item=message("Hi"))) == 1
    assert wire.get("conversation.item.added", item=begun) == []


@pytest.mark.parametrize("kind", ["mcp_call", "mcp_list_tools", "function_call_output", "new"])
def test_other_items_come_as_they_are(kind: str) -> None:
    wire = Wire()
    [event] = wire.get("conversation.item.added", item={"id": "i", "type": kind})
    assert isinstance(event, RealtimeModelOtherEvent) and event.data["item"]["type"] == kind


def test_a_connection_that_lasts_remembers_only_its_last_replies_and_items() -> None:
    wire = Wire()

    def size() -> int:
        protocol = wire.protocol
        return sum(len(each) for each in vars(protocol).values() if isinstance(each, dict | set | list))

    sizes = []
    for n in range(3_000):
        reply, item = f"resp_{n}", message("Hello.", f"item_{n}")
        wire.created(reply)
        wire.said("Hel", f"item_{n}", reply)
        wire.get("conversation.item.done", item=item)
        if n % 3:
            wire.done(reply, output=[item])  # the others never end
        wire.said("lo.", f"item_{n}", reply)
        sizes.append(size())
    assert max(sizes[1_500:]) <= max(sizes[:1_500]) < 3_000
    assert wire.created("resp_2999") == wire.done("resp_2998") == []  # repeated
    assert wire.get("conversation.item.done", item=message("Hello.", "item_2998")) == []
    assert wire.get("conversation.item.added", item=message(None, "item_2998", "in_progress")) == []


def test_an_event_that_is_repeated_is_left_out() -> None:
    wire = Wire()
    for text in (
        '{"type":"response.output_audio.delta","event_id":"e1","response_id":"r","item_id":"i","delta":"AAAA"}',
        '{"type":"input_audio_buffer.committed","event_id":"e2","item_id":"i"}',
        '{"type":"something.new","event_id":"e3"}',
    ):
        assert len(wire.raw(text)) == 1
        assert wire.raw(text) == []


def test_a_server_whose_event_ids_are_all_the_same_is_still_heard() -> None:
    wire = Wire()
    wire.raw('{"type":"session.created","event_id":"e","session":{}}')
    for _ in range(2):
        text = '{"type":"response.output_text.delta","event_id":"e","response_id":"r","item_id":"i","delta":"a"}'
        assert len(wire.raw(text)) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "{",
        "null",
        "[]",
        "5",
        '"text"',
        "{}",
        '{"type": 5}',
        '{"type": null}',
        b"{}",
        b"\xff\x00",
        "[" * 100_000,
        '{"type":' * 100_000,
        '"\ud800"',
        '{"type": "response.output_audio.delta"}',
        '{"type": "response.output_audio.delta", "response_id": "r", "item_id": "i", "delta": "?"}',
        '{"type": "response.output_audio.delta", "response_id": "r", "item_id": 5, "delta": "AAAA"}',
        '{"type": "response.output_text.delta", "response_id": "r", "item_id": "i", "delta": null}',
        '{"type": "response.created", "response": null}',
        '{"type": "response.done"}',
        '{"type": "conversation.item.added"}',
        '{"type": "conversation.item.added", "item": {"type": "message"}}',
    ],
    ids=lambda each: repr(each)[:40],
)
def test_garbage_is_an_error_in_words(garbage: str | bytes) -> None:
    [error] = Wire().raw(garbage)
    assert isinstance(error, RealtimeModelErrorEvent)
    assert error.error.startswith("The realtime server sent ") and len(error.error) < 500


TYPES = [
    "session.created",
    "session.updated",
    "response.created",
    "response.done",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.delta",
    "response.output_text.delta",
    "response.output_item.done",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.deleted",
    "conversation.item.input_audio_transcription.completed",
    "input_audio_buffer.speech_started",
    "input_audio_buffer.committed",
    "error",
    "unknown",
]
NAMES = ["id", "item_id", "response_id", "delta", "content_index", "status", "output", "usage", "item", "response"]
NAMES += ["session", "audio", "input", "turn_detection", "format", "rate", "type", "role", "content", "error", "code"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["AAAA", "resp_1", "message"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=5),
    max_leaves=12,
)
FIELDS = st.dictionaries(st.sampled_from(NAMES) | st.text(), VALUES, max_size=8)


@given(st.lists(st.tuples(st.sampled_from(TYPES), FIELDS) | st.text() | st.binary(), max_size=8))
def test_nothing_that_a_server_sends_raises(drawn: list[Any]) -> None:
    wire = Wire()
    wire.created()
    wire.audio()
    for each in drawn:
        wire.raw(each if isinstance(each, str | bytes) else json.dumps({**each[1], "type": each[0]}))
    for made in wire.messages:
        check_client_event(made)
    ends = [event.response_id for event in wire.events if event.type == "turn_ended"]
    assert len(ends) == len(set(ends))


# -- one reply at a time -------------------------------------------------------------------------


def test_a_reply_is_asked_for_at_once_if_none_is_under_way() -> None:
    wire = Wire()
    wire.send(HELLO)
    assert wire.types() == ["conversation.item.create", "response.create"]


def test_while_a_reply_is_under_way_the_next_is_asked_for_once_after_it() -> None:
    wire = Wire()
    wire.send(HELLO)
    wire.send(HELLO)  # asked for, and not begun yet
    wire.created()
    wire.send(HELLO)
    assert wire.types().count("response.create") == 1
    wire.done()
    assert wire.types().count("response.create") == 2 and wire.types()[-1] == "response.create"
    wire.created("resp_2")
    wire.done("resp_2")
    assert wire.types().count("response.create") == 2


def test_a_reply_that_the_server_had_begun_by_itself_is_waited_for() -> None:
    wire = Wire()
    [_, create] = wire.send(HELLO)
    wire.created("by_itself")
    error = {"code": "conversation_already_has_active_response", "message": "...", "event_id": create["event_id"]}
    [told] = wire.get("error", error=error)
    assert isinstance(told, RealtimeModelOtherEvent)
    assert wire.types().count("response.create") == 1
    wire.done("by_itself")
    assert wire.types().count("response.create") == 2


def test_a_request_with_options_of_its_own_is_kept_with_them() -> None:
    wire = Wire()
    wire.created()
    own = {"type": "response.create", "response": {"instructions": "Sing."}}
    wire.send(RealtimeModelSendRawMessage(own))
    wire.send(HELLO)
    wire.done()
    assert wire.messages[-1]["response"] == {"instructions": "Sing."}
    wire.get("error", error={"code": "conversation_already_has_active_response", "message": "..."})
    wire.done("resp_2")
    assert wire.messages[-1]["response"] == {"instructions": "Sing."}


def test_a_request_that_was_refused_does_not_hold_up_the_next() -> None:
    wire = Wire()
    [_, create] = wire.send(HELLO)
    wire.send(HELLO)
    [error] = wire.get("error", error={"code": "rate_limit", "message": "no", "event_id": create["event_id"]})
    assert isinstance(error, RealtimeModelErrorEvent) and error.error["code"] == "rate_limit"
    assert wire.types().count("response.create") == 2


def test_another_error_changes_nothing() -> None:
    wire = Wire()
    wire.send(HELLO)
    wire.get("error", error={"code": "invalid_value", "message": "no", "event_id": "another"})
    wire.get("error", error="odd")
    wire.send(HELLO)
    assert wire.types().count("response.create") == 1


# -- interruption --------------------------------------------------------------------------------


def speaking(wire: Wire, ms: int = 1000, heard: float = 0.5) -> None:
    wire.created()
    wire.audio(ms)
    wire.clock.seconds += heard


def test_the_users_speech_cuts_off_what_was_not_heard() -> None:
    wire = Wire()
    speaking(wire)
    [_, interrupted] = wire.speech()
    assert interrupted == RealtimeModelAudioInterruptedEvent("item_1", 0, 500)
    where = {"type": "conversation.item.truncate", "item_id": "item_1", "content_index": 0}
    assert wire.messages == [{**where, "audio_end_ms": 500}]  # the server cancels its reply by itself
    check_client_event(wire.messages[0])
    wire.speech()
    assert len(wire.messages) == 1


def test_an_interruption_also_cancels_the_reply_once() -> None:
    wire = Wire()
    speaking(wire)
    assert [each["type"] for each in wire.send(RealtimeModelSendInterrupt())] == [
        "response.cancel",
        "conversation.item.truncate",
    ]
    assert wire.messages[0]["response_id"] == "resp_1"
    assert wire.events[-1] == RealtimeModelAudioInterruptedEvent("item_1", 0, 500)
    assert wire.send(RealtimeModelSendInterrupt()) == []


def test_an_interruption_of_a_reply_that_has_not_begun_cancels_it_and_leaves_out_its_audio() -> None:
    wire = Wire()
    wire.send(HELLO)
    assert wire.send(RealtimeModelSendInterrupt()) == [{"type": "response.cancel"}]
    wire.created()
    assert wire.audio() == []


def test_a_request_that_was_refused_leaves_nothing_to_cancel() -> None:
    wire = Wire()
    [_, create] = wire.send(HELLO)
    wire.send(RealtimeModelSendInterrupt())
    wire.get("error", error={"code": "no", "message": "no", "event_id": create["event_id"]})
    wire.created("another")
    assert len(wire.audio(response="another")) == 1


def test_a_reply_that_had_just_ended_when_it_was_cancelled_is_no_error() -> None:
    wire = Wire()
    [event] = wire.get("error", error={"code": "response_cancel_not_active", "message": "no active response"})
    assert isinstance(event, RealtimeModelOtherEvent)


def test_nothing_is_interrupted_while_nothing_is_under_way() -> None:
    wire = Wire()
    assert wire.send(RealtimeModelSendInterrupt()) == []
    assert [event.type for event in wire.speech()] == ["other"]
    assert wire.messages == []


def test_audio_that_was_all_heard_is_not_cut_off() -> None:
    wire = Wire()
    speaking(wire, ms=1000, heard=5)
    wire.audio_done()
    wire.done()
    assert [event.type for event in wire.speech()] == ["other"]
    assert wire.messages == []


def test_a_reply_that_ended_is_still_cut_off_while_it_is_played() -> None:
    wire = Wire()
    speaking(wire)
    wire.audio_done()
    wire.done(output=[message("Hello.")])
    wire.speech()
    assert wire.messages[-1]["audio_end_ms"] == 500


def test_more_than_what_came_is_never_cut_off() -> None:
    wire = Wire()
    speaking(wire, ms=1000, heard=5)  # and more of it is to come
    wire.speech()
    assert wire.messages[-1]["audio_end_ms"] == 1000


def test_audio_that_comes_after_an_interruption_is_left_out() -> None:
    wire = Wire()
    speaking(wire)
    wire.speech()
    assert wire.audio() == [] and wire.audio_done() == []
    wire.done(status="cancelled")
    wire.created("resp_2")
    assert len(wire.audio(item="item_2", response="resp_2")) == 1


def test_two_items_of_audio_are_both_cut_off() -> None:
    wire = Wire()
    speaking(wire, ms=1000, heard=0.25)
    wire.audio(500, "item_2")
    wire.clock.seconds += 0.25
    [_, interrupted] = wire.speech()
    assert interrupted == RealtimeModelAudioInterruptedEvent("item_1", 0, 500)
    cut = [(each["item_id"], each["audio_end_ms"]) for each in wire.messages]
    assert cut == [("item_1", 500), ("item_2", 0)]


@pytest.mark.parametrize("turns", [{"type": "server_vad", "interrupt_response": False}, None])
def test_speech_interrupts_nothing_if_the_session_says_so(turns: Any) -> None:
    wire = Wire()
    wire.get("session.updated", session={"type": "realtime", "audio": {"input": {"turn_detection": turns}}})
    speaking(wire)
    assert [event.type for event in wire.speech()] == ["other"]
    assert wire.messages == [] and len(wire.audio()) == 1


def test_the_length_of_audio_is_that_of_its_format() -> None:
    wire = Wire()
    output = {"format": {"type": "audio/pcmu"}}
    wire.get("session.updated", session={"type": "realtime", "audio": {"output": output}})
    wire.created()
    wire.audio(100)  # 4,800 bytes are 600 ms of G.711
    wire.clock.seconds += 5
    wire.speech()
    assert wire.messages[-1]["audio_end_ms"] == 600


def test_a_playback_tracker_says_what_was_heard() -> None:
    tracker = RealtimePlaybackTracker()
    wire = Wire(tracker)
    wire.get("session.created", session={"audio": {"output": {"format": {"type": "audio/pcm", "rate": 24000}}}})
    speaking(wire, heard=0.9)
    tracker.on_play_bytes("item_1", 0, bytes(48 * 250))
    wire.speech()
    assert wire.messages[-1]["audio_end_ms"] == 250
    assert tracker.get_state()["current_item_id"] is None


def test_audio_that_a_tracker_has_not_begun_to_play_is_cut_off_whole() -> None:
    tracker = RealtimePlaybackTracker()
    wire = Wire(tracker)
    tracker.on_play_ms("item_0", 0, 900)
    speaking(wire)
    wire.speech()
    assert [(each["item_id"], each["audio_end_ms"]) for each in wire.messages] == [("item_1", 0)]


def test_a_tracker_that_is_behind_cuts_off_both_items() -> None:
    tracker = RealtimePlaybackTracker()
    wire = Wire(tracker)
    speaking(wire)
    wire.audio(500, "item_2")
    tracker.on_play_ms("item_1", 0, 700)
    wire.speech()
    assert [(each["item_id"], each["audio_end_ms"]) for each in wire.messages] == [("item_1", 700), ("item_2", 0)]


# -- what is sent --------------------------------------------------------------------------------

SENT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"role": "user", "content": "hi"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    ),
    (
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:x", "detail": "low"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:x", "detail": "low"}],
        },
    ),
    (
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_" + "a" * 50,
            "content": [{"type": "output_text", "text": "hi", "annotations": []}, {"type": "refusal", "refusal": "no"}],
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hi"}, {"type": "output_text", "text": "no"}],
        },
    ),
    (
        {"role": "developer", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "hi"}]},
    ),
    (
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c",
            "name": "send",
            "arguments": "{}",
            "status": "completed",
        },
        {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "send", "arguments": "{}"},
    ),
    (
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
    ),
    (
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:x"}],
        },
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": "a\n[The tool gave an image, which cannot be shown here.]",
        },
    ),
    (
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "x"}]},
        {"type": "function_call_output", "call_id": "c", "output": '{"output":[{"stdout":"x"}]}'},
    ),
]


@pytest.mark.parametrize(("item", "wired"), SENT)
def test_items_are_sent_in_the_form_of_the_api(item: dict[str, Any], wired: dict[str, Any]) -> None:
    wire = Wire()
    assert wire.send(RealtimeModelSendItems([item])) == [{"type": "conversation.item.create", "item": wired}]


@pytest.mark.parametrize(
    "item",
    [{"type": "reasoning", "summary": []}, {"role": "user", "content": ""}, {"role": "assistant", "content": []}],
)
def test_items_that_say_nothing_are_left_out(item: dict[str, Any]) -> None:
    assert Wire().send(RealtimeModelSendItems([item])) == []


@pytest.mark.parametrize(
    "item",
    [
        {"type": "computer_call"},
        {"type": "message", "role": "tool", "content": "x"},
        {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
        {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
        {"role": "system", "content": [{"type": "input_image", "image_url": "data:x"}]},
        {"role": "user", "content": 5},
        {"role": "user", "content": "half of a pair: \ud800"},
        {"type": "function_call", "name": "send", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": 5},
    ],
)
def test_items_that_the_api_does_not_know_are_refused_and_change_nothing(item: dict[str, Any]) -> None:
    wire = Wire()
    with pytest.raises(UsageError):
        wire.send(RealtimeModelSendItems([item], start_response=True))
    wire.send(HELLO)
    assert wire.types()[-1] == "response.create"


def test_audio_is_sent_in_base64() -> None:
    wire = Wire()
    audio = bytes(range(256))
    appended = {"type": "input_audio_buffer.append", "audio": b64encode(audio).decode()}
    assert wire.send(RealtimeModelSendAudio(audio)) == [appended]
    assert wire.send(RealtimeModelSendAudio(b"", commit=True)) == [{"type": "input_audio_buffer.commit"}]


def test_a_greeting_that_comes_late_does_not_bring_turn_detection_back() -> None:
    wire = Wire()
    wire.send(RealtimeModelSendSessionUpdate({"turn_detection": None}))
    wire.get("session.created", session={"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
    wire.send(RealtimeModelSendAudio(b"\0\0", commit=True))
    assert wire.types()[-1] == "response.create"


def test_a_turn_that_the_client_ends_is_replied_to_if_turns_are_not_detected() -> None:
    wire = Wire()
    wire.get("session.updated", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    wire.send(RealtimeModelSendAudio(b"\0\0", commit=True))
    assert wire.types() == ["input_audio_buffer.append", "input_audio_buffer.commit", "response.create"]


def test_a_message_of_ones_own_is_sent_as_it_is() -> None:
    wire = Wire()
    own = {"type": "input_audio_buffer.clear"}
    assert wire.send(RealtimeModelSendRawMessage(own)) == [own]


@pytest.mark.parametrize("own", [{}, {"type": 5}, [], None, {"type": "x", "value": object()}])
def test_a_message_of_ones_own_needs_a_type_and_json(own: Any) -> None:
    with pytest.raises(UsageError):
        Wire().send(RealtimeModelSendRawMessage(own))


def test_something_else_is_not_sent() -> None:
    with pytest.raises(UsageError):
        OpenAIRealtimeProtocol().sent("hello")  # type: ignore[arg-type]


# -- sessions ------------------------------------------------------------------------------------

TOOL = ToolSpec("send", "Send a mail.", {"type": "object", "properties": {}})
PCM = {"type": "audio/pcm", "rate": 24000}


def updated(settings: Any, *more: Any) -> dict[str, Any]:
    [sent] = Wire().send(RealtimeModelSendSessionUpdate(settings, *more))
    session = sent["session"]
    assert session == session_of(settings, *more)
    return session


def test_a_session_without_settings_has_the_defaults() -> None:
    assert updated({}, "Be brief.", [TOOL]) == {
        "type": "realtime",
        "instructions": "Be brief.",
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": PCM,
                "transcription": {"model": "gpt-4o-mini-transcribe"},
                "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
            },
            "output": {"format": PCM},
        },
        "tools": [
            {
                "type": "function",
                "name": "send",
                "description": "Send a mail.",
                "parameters": {"type": "object", "properties": {}},
            }
        ],
        "tool_choice": "auto",
    }


def test_short_forms_are_the_long_ones() -> None:
    short = {
        "modalities": ["text", "audio"],
        "voice": "ash",
        "speed": 1.2,
        "input_audio_format": "g711_ulaw",
        "output_audio_format": "g711_alaw",
        "input_audio_transcription": {"language": "de"},
        "input_audio_noise_reduction": {"type": "near_field"},
        "turn_detection": {"threshold": 0.3, "create_response": False},
    }
    audio = {
        "input": {
            "format": {"type": "audio/pcmu"},
            "transcription": {"model": "gpt-4o-mini-transcribe", "language": "de"},
            "noise_reduction": {"type": "near_field"},
            "turn_detection": {"type": "server_vad", "threshold": 0.3, "create_response": False},
        },
        "output": {"format": {"type": "audio/pcma"}, "voice": "ash", "speed": 1.2},
    }
    assert updated(short)["audio"] == audio
    assert updated({"output_modalities": ["audio"], "audio": audio}) == updated(short)


def test_none_turns_things_off() -> None:
    off: Any = {"turn_detection": None, "input_audio_transcription": None, "input_audio_noise_reduction": None}
    heard = updated({**off, "tracing": None})["audio"]["input"]
    assert heard == {"format": PCM, "turn_detection": None, "transcription": None, "noise_reduction": None}


def test_other_settings_are_sent_under_their_names() -> None:
    settings: Any = {
        "instructions": "Mine.",
        "max_output_tokens": 500,
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "prompt": {"id": "pmpt_1"},
        "tracing": "auto",
        "tool_choice": "send",
    }
    session = updated(settings, "The agent's.")
    assert session["tool_choice"] == {"type": "function", "name": "send"}
    assert {name: session[name] for name in settings if name != "tool_choice"} == {
        name: value for name, value in settings.items() if name != "tool_choice"
    }


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"voise": "ash"}, "voise"),
        ({"voice": 5}, "voice"),
        ({"voice": None}, "voice"),
        ({"speed": True}, "speed"),
        ({"speed": 9}, "speed"),
        ({"output_modalities": ["text", "audio"]}, "output_modalities"),
        ({"output_modalities": "audio"}, "output_modalities"),
        ({"output_modalities": ["audio"], "modalities": ["audio"]}, "modalities"),
        ({"input_audio_format": "mp3"}, "input_audio_format"),
        ({"input_audio_format": {}}, "input_audio_format"),
        ({"audio": []}, "audio"),
        ({"audio": {"in": {}}}, "audio.in"),
        ({"audio": {"input": 5}}, "audio.input"),
        ({"audio": {"input": {"voice": "ash"}}}, "audio.input.voice"),
        ({"audio": {"output": {"voice": "ash"}}, "voice": "ash"}, "voice"),
        ({"input_audio_transcription": {"lang": "de"}}, "transcription.lang"),
        ({"turn_detection": {"type": "mine"}}, "turn_detection.type"),
        ({"turn_detection": {"type": "semantic_vad", "threshold": 0.5}}, "turn_detection.threshold"),
        ({"turn_detection": {"interrupt_response": "yes"}}, "turn_detection.interrupt_response"),
        ({"turn_detection": {"silence_duration_ms": -1}}, "turn_detection.silence_duration_ms"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tool_choice": 5}, "tool_choice"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
        ({"tracing": "yes"}, "tracing"),
        (5, "settings"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(settings: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        session_of(settings)
