"""A session that nobody reads: audio and raw events are dropped beyond a limit, and everything else is kept."""

import asyncio
from collections import Counter

from assentry import function_tool
from assentry.realtime import (
    AssistantMessageItem,
    AssistantText,
    RealtimeAgent,
    RealtimeAudio,
    RealtimeEventsDropped,
    RealtimeModelAudioDoneEvent,
    RealtimeModelAudioEvent,
    RealtimeModelErrorEvent,
    RealtimeModelItemUpdatedEvent,
    RealtimeModelTranscriptDeltaEvent,
    RealtimeRunner,
)
from assentry.realtime.event_queue import MAX_UNREAD
from tests.realtime.fake_model import FakeModel, called, settle, until

PIECE = 48 * 200
"""The bytes of 200 ms of PCM."""
PIECES = 3 * MAX_UNREAD // PIECE
CONFIG = {"reconnect": {"attempts": 1, "delay": 0}}


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    return f"refunded {amount}"


def audio(n: int, size: int = PIECE) -> RealtimeModelAudioEvent:
    return RealtimeModelAudioEvent(n.to_bytes(4, "big") * (size // 4), "r1", "m1", 0)


def test_audio_that_nobody_reads_is_dropped_and_one_event_says_how_much() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(RealtimeAgent("Desk"), model=model).run() as session:
            for n in range(PIECES):
                model.push(audio(n))
        events = [event async for event in session]
        dropped = [event for event in events if isinstance(event, RealtimeEventsDropped)]
        pieces = [event.audio.data for event in events if isinstance(event, RealtimeAudio)]
        assert len(dropped) == 1 and events[0] is dropped[0]
        assert 0 < sum(map(len, pieces)) <= MAX_UNREAD + PIECE
        assert pieces[-1] == audio(PIECES - 1).data  # the newest are kept
        kinds = Counter(event.type for event in events)
        for kind in ("audio", "raw_model_event"):
            assert dropped[0].by_type[kind] + kinds[kind] == PIECES
        assert dropped[0].count == sum(dropped[0].by_type.values())

    asyncio.run(main())


def test_questions_calls_history_and_a_lost_connection_are_kept_while_nobody_reads() -> None:
    async def main() -> None:
        model = FakeModel()
        session = await RealtimeRunner(RealtimeAgent("Desk", tools=[refund]), model=model, config=CONFIG).run()
        async with session:
            model.reply(called("refund", '{"amount": 9}'))
            await until(lambda: session.pending_approvals)
            await settle()
            item = AssistantMessageItem("m1", [AssistantText("Hello")])
            model.push(RealtimeModelItemUpdatedEvent(item), RealtimeModelAudioDoneEvent("m1", 0))
            model.drop()
            await until(lambda: model.connects == 2)
            await settle()
            await session.approve_tool_call("call_1", by="ann")
            await until(lambda: model.outputs)
            for n in range(PIECES):
                model.push(audio(n), RealtimeModelTranscriptDeltaEvent("m1", "la", "r1"))
        events = [event async for event in session]
        kinds = Counter(event.type for event in events)
        kept = ("tool_approval_required", "tool_approval_decided", "tool_start", "tool_end", "history_added")
        assert all(kinds[kind] == 1 for kind in (*kept, "audio_end", "error", "agent_start", "events_dropped"))
        raw = [event.data for event in events if event.type == "raw_model_event"]
        assert [each.status for each in raw if each.type == "connection_status"] == ["disconnected"]
        assert len(raw) * 1024 <= MAX_UNREAD + PIECE

    asyncio.run(main())


def test_errors_that_a_provider_repeats_without_end_are_dropped() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(RealtimeAgent("Desk"), model=model).run() as session:
            for n in range(20_000):
                model.push(RealtimeModelErrorEvent({"message": f"no {n}"}))
        events = [event async for event in session]
        assert len(events) * 1024 <= MAX_UNREAD + 4096
        assert events[0].by_type["error"] > 10_000
        assert events[-1].error == {"message": "no 19999"}

    asyncio.run(main())


def test_a_reader_that_keeps_up_loses_nothing_however_long_it_lasts() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(RealtimeAgent("Desk"), model=model).run() as session:
            for n in range(PIECES):
                model.push(audio(n))
                assert [(await anext(session)).type, (await anext(session)).type] == ["raw_model_event", "audio"]

    asyncio.run(main())


def test_one_piece_of_audio_above_the_limit_is_still_read() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(RealtimeAgent("Desk"), model=model).run() as session:
            model.push(audio(1, 2 * MAX_UNREAD))
            assert [(await anext(session)).type, (await anext(session)).type] == ["raw_model_event", "audio"]

    asyncio.run(main())


def test_dropping_goes_on_while_nobody_reads_and_is_told_in_one_event() -> None:
    async def main() -> None:
        model = FakeModel()
        async with await RealtimeRunner(RealtimeAgent("Desk"), model=model).run() as session:
            for n in range(PIECES):
                model.push(audio(n))
            first = await anext(session)
            for n in range(PIECES):
                model.push(audio(n))
            second = await anext(session)
            assert (first.type, second.type) == ("events_dropped", "events_dropped")
        kept = Counter([event.type async for event in session])
        told = Counter(first.by_type) + Counter(second.by_type) + kept
        assert told["audio"] == told["raw_model_event"] == 2 * PIECES and not kept["events_dropped"]

    asyncio.run(main())
