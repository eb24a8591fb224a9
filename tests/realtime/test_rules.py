"""The tables of a live session: every step in every state, and nothing that is not a row of a table."""

from __future__ import annotations

import ast
import asyncio
import math
from pathlib import Path
from typing import Any, get_args

import pytest

from assentry import function_tool
from assentry.core import facts as f
from assentry.core.fold import fold
from assentry.core.run import Run
from assentry.core.transcript import said_items
from assentry.definitions.agent import toolbox_of
from assentry.definitions.context import RunContextWrapper
from assentry.errors import ModelFailed, UsageError
from assentry.realtime import RealtimeAgent, RealtimeRunner, UserMessageItem, briefing, conversation, rules
from assentry.realtime import event as e
from assentry.realtime import model as m
from assentry.realtime.briefing import ModelBriefing, Offer, SendToModel
from assentry.realtime.conversation import ConnectAttempts, Conversation, LiveTurn, Reconnect, RecordReply
from assentry.realtime.rules import (
    AWAITED,
    AWAY,
    CLOSED,
    CLOSING,
    DROPPED,
    NEW,
    OPEN,
    OPENING,
    READY,
    RECORDED,
    SESSION_RULES,
    TURN_RULES,
    UNDER_WAY,
    USERS,
    WORDLESS,
    LiveState,
    LiveStep,
    TurnState,
    TurnStep,
)
from assentry.runtime.agent_graph import AgentGraph
from assentry.runtime.value import input_json
from tests.realtime.fake_model import FakeModel, said

LIVE_STEPS: tuple[LiveStep, ...] = get_args(LiveStep)
TURN_STEPS: tuple[TurnStep, ...] = get_args(TurnStep)
LEGAL = {(row.state, row.step): row.next for row in SESSION_RULES}
LEGAL_TURNS = {(row.state, row.step): row.next for row in TURN_RULES}

WAYS: dict[LiveState, list[LiveStep]] = {
    NEW: [],
    OPENING: ["enter", "connect"],
    OPEN: ["enter", "connect", "connected"],
    AWAY: ["enter", "connect", "connected", "lose"],
    CLOSING: ["enter", "connect", "connected", "end"],
    CLOSED: ["enter", "connect", "connected", "end", "ended"],
}
TURN_WAYS: dict[TurnState, tuple[TurnState, list[TurnStep]]] = {
    UNDER_WAY: (UNDER_WAY, []),
    AWAITED: (AWAITED, []),
    READY: (AWAITED, ["words"]),
    RECORDED: (AWAITED, ["words", "record"]),
    WORDLESS: (AWAITED, ["give_up", "record_wordless"]),
    DROPPED: (UNDER_WAY, ["drop"]),
}


@function_tool
async def look(order: int) -> str:
    """Look an order up."""
    return f"order {order} is late"


AGENT = RealtimeAgent("Desk", tools=[look])


class Table:
    """A conversation without a session: its commands are carried out on a run in memory, and remembered."""

    def __init__(self, attempts: int = 1) -> None:
        graph = AgentGraph(AGENT)
        info = e.RealtimeEventInfo(RunContextWrapper(None))
        self.run = Run()
        fold(self.run, f.Began("Desk", 10, run="r1", live=True))
        self.conversation = Conversation(ModelBriefing(graph, {}, info), ConnectAttempts(attempts, 0.5))
        self.done: list[Any] = []

    @property
    def model(self) -> ModelBriefing:
        return self.conversation.model

    def perform(self, commands: Any) -> list[Any]:
        """Carry commands out, each before the next, and return them."""
        made = []
        for command in commands:
            made.append(command)
            for fact in command if isinstance(command, list) else ():
                fold(self.run, fact)
            if isinstance(command, RecordReply):
                raw = input_json([*command.response.output])
                fold(self.run, f.Replied(raw, command.saw, (), (0, 0, 0, 0, 0), missed=command.missed))
        self.done += made
        return made

    def take(self, *events: Any) -> list[Any]:
        """Take events of the model, as the session does."""
        taken = [(conversation.TAKE[type(event)], event) for event in events if type(event) in conversation.TAKE]
        return [each for take, event in taken for each in self.perform(take(self.conversation, event, self.run))]

    def connected(self) -> Table:
        """Come to the state OPEN."""
        self.conversation.step("enter")
        self.restore()
        return self

    def restore(self) -> m.RealtimeModelSendItems | None:
        self.conversation.step("connect")
        offer = Offer(self.run.agent, toolbox_of(AGENT))
        sent = self.conversation.restore(offer, self.run, [])
        self.conversation.step("connected")
        return sent

    @property
    def texts(self) -> list[str]:
        """The inputs that were recorded, and "reply" for a reply."""
        out = []
        for command in self.done:
            if isinstance(command, list):
                out += [str(item["content"]) for fact in command for item in said_items(fact)]
            elif isinstance(command, RecordReply):
                out.append("reply")
        return out


def table_in(state: LiveState) -> Table:
    """A conversation that has come to a state by the table's own steps."""
    table = Table()
    if state in (OPEN, AWAY, CLOSING, CLOSED):
        table.connected()
    for step in WAYS[state]:
        table.conversation.step(step)
    assert table.conversation.state is state
    return table


def turn_in(state: TurnState) -> LiveTurn:
    first, steps = TURN_WAYS[state]
    turn = LiveTurn(first)
    for step in steps:
        assert turn.step(step)
    assert turn.state is state
    return turn


# -- the tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", SESSION_RULES, ids=[f"{row.state.name} {row.step}" for row in SESSION_RULES])
def test_each_row_of_the_session_is_taken_and_has_its_reason(row: Any) -> None:
    talk = table_in(row.state).conversation
    assert talk.may(row.step) and row.why
    assert talk.step(row.step) and talk.state is row.next


@pytest.mark.parametrize("state", list(LiveState))
@pytest.mark.parametrize("step", LIVE_STEPS)
def test_a_step_of_the_session_that_is_no_row_changes_nothing(state: LiveState, step: LiveStep) -> None:
    talk = table_in(state).conversation
    if (state, step) not in LEGAL:
        assert not talk.may(step) and not talk.step(step) and talk.state is state


@pytest.mark.parametrize("state", list(TurnState))
@pytest.mark.parametrize("step", TURN_STEPS)
def test_a_turn_takes_the_steps_that_are_rows_and_no_others(state: TurnState, step: TurnStep) -> None:
    turn = turn_in(state)
    assert turn.step(step) is ((state, step) in LEGAL_TURNS)
    assert turn.state is LEGAL_TURNS.get((state, step), state)


def test_no_state_and_step_has_two_rows_and_every_row_has_a_reason() -> None:
    assert len(LEGAL) == len(SESSION_RULES) and len(LEGAL_TURNS) == len(TURN_RULES)
    assert all(row.why for row in SESSION_RULES) and all(row.why for row in TURN_RULES)


def test_the_user_enters_once_and_sends_only_while_the_session_lasts() -> None:
    assert set(USERS) <= set(LIVE_STEPS)
    assert [state for state in LiveState if (state, "enter") in LEGAL] == [NEW]
    assert [state for state in LiveState if (state, "send") in LEGAL] == [OPEN, AWAY]


def test_what_is_recorded_stays_so_and_what_is_dropped_too() -> None:
    for state in (RECORDED, DROPPED):
        assert not any((state, step) in LEGAL_TURNS for step in TURN_STEPS)
    assert not any((CLOSED, step) in LEGAL for step in LIVE_STEPS)


def test_only_a_complete_turn_is_recorded() -> None:
    assert {row.state for row in TURN_RULES if row.step.startswith("record")} == {READY}
    assert {row.step for row in TURN_RULES if row.state is UNDER_WAY and row.next is READY} == {"finish"}


@pytest.mark.parametrize("state", list(LiveState))
def test_a_session_refuses_what_its_user_may_not_do_now_and_does_nothing(state: LiveState) -> None:
    async def main() -> None:
        model = FakeModel()
        session = await RealtimeRunner(AGENT, model=model).run()
        for step in WAYS[state]:
            session._conversation.step(step)
        acts: list[tuple[LiveStep, Any]] = [
            ("enter", session.__aenter__),
            ("send", lambda: session.send_message("Hello.")),
            ("send", lambda: session.send_audio(b"\0\0")),
            ("send", session.interrupt),
            ("send", lambda: session.approve_tool_call("call_1")),
        ]
        for step, act in acts:
            if (state, step) not in LEGAL:
                with pytest.raises(UsageError):
                    await act()
        assert session._conversation.state is state and not model.sent and not model.connects

    asyncio.run(main())


# -- the machine -----------------------------------------------------------------------------------

EVENTS = [
    m.RealtimeModelConnectionStatusEvent("connecting"),
    m.RealtimeModelConnectionStatusEvent("connected"),
    m.RealtimeModelConnectionStatusEvent("disconnected", "gone"),
    m.RealtimeModelTurnStartedEvent("r1"),
    m.RealtimeModelAudioEvent(b"\0", "r1", "i1", 0),
    m.RealtimeModelAudioDoneEvent("i1", 0),
    m.RealtimeModelAudioInterruptedEvent("i1", 0, 100),
    m.RealtimeModelTranscriptDeltaEvent("i1", "Hel", "r1"),
    m.RealtimeModelOutputTextDeltaEvent("i1", "Hel", "r1"),
    m.RealtimeModelInputAudioCommittedEvent("u1"),
    m.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", "Hello"),
    m.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", None),
    m.RealtimeModelInputAudioTimeoutTriggeredEvent("u1", 0, 100),
    m.RealtimeModelItemUpdatedEvent(UserMessageItem("u1", [])),
    m.RealtimeModelItemDeletedEvent("u1"),
    m.RealtimeModelTurnEndedEvent("r1", [said("Hello.")]),
    m.RealtimeModelErrorEvent("refused"),
    m.RealtimeModelOtherEvent({"type": "unknown"}),
]


def test_every_kind_of_event_is_tried() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(m.RealtimeModelEvent))


@pytest.mark.parametrize("state", list(LiveState))
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_every_event_of_the_model_is_taken_in_every_state(state: LiveState, event: Any) -> None:
    table = table_in(state)
    table.take(event)
    lost = isinstance(event, m.RealtimeModelConnectionStatusEvent) and event.status == "disconnected"
    step: LiveStep = "lose"
    assert table.conversation.state is (LEGAL.get((state, step), state) if lost else state)
    assert any(isinstance(each, Reconnect) for each in table.done) is (lost and state is OPEN)
    assert not any(isinstance(each, SendToModel) for each in table.done), "only the run is told"


@pytest.mark.parametrize("first", EVENTS, ids=lambda event: event.type)
@pytest.mark.parametrize("second", EVENTS, ids=lambda event: event.type)
def test_any_event_may_follow_any_other_and_may_come_twice(first: Any, second: Any) -> None:
    table = Table().connected()
    table.take(first, second, second, first)
    table.perform(table.conversation.give_up_words(table.run))
    assert not table.conversation.waits_for_words
    replies = sum(isinstance(each, m.RealtimeModelTurnEndedEvent) for each in (first, second, second, first))
    assert table.texts.count("reply") == replies, "each complete reply is recorded, and nothing else is one"
    assert table.texts.count("Hello") <= 1, "repeated words are recorded once"


def test_a_reply_is_recorded_after_the_speech_before_it_and_no_other() -> None:
    table = Table().connected()
    table.take(m.RealtimeModelInputAudioCommittedEvent("u1"), m.RealtimeModelTurnStartedEvent("r1"))
    table.take(m.RealtimeModelInputAudioCommittedEvent("u2"), m.RealtimeModelTurnEndedEvent("r1", [said("Hi.")]))
    assert (table.texts, table.conversation.waits_for_words) == ([], True)
    table.take(m.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", "One"))
    assert (table.texts, table.conversation.waits_for_words) == (["One", "reply"], False)
    table.take(m.RealtimeModelInputAudioTranscriptionCompletedEvent("u2", "Two"))
    assert table.texts == ["One", "reply", "Two"] and len(table.run.unheard) == 1


def test_a_typed_message_is_sent_and_a_spoken_one_is_not() -> None:
    table = Table().connected()
    table.take(m.RealtimeModelInputAudioCommittedEvent("u1"))
    table.take(m.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", "Spoken"))
    table.perform(table.conversation.take_message(input_json("Typed"), table.run))
    sent = [each for each in table.perform(table.model.look(table.run, ())) if isinstance(each, SendToModel)]
    events = [each.event for each in sent if isinstance(each.event, m.RealtimeModelSendItems)]
    assert [item["content"] for event in events for item in event.items] == ["Typed"]
    assert table.model.said == 1
    for each in sent:
        table.model.has(each)
    assert table.model.said == 2 and list(table.model.look(table.run, ())) == []


def test_a_lost_connection_is_told_everything_anew_and_a_reply_under_way_is_dropped() -> None:
    table = Table().connected()
    table.perform(table.conversation.take_message(input_json("Hello"), table.run))
    table.take(m.RealtimeModelTurnStartedEvent("r1"), m.RealtimeModelConnectionStatusEvent("disconnected"))
    restored = table.restore()
    assert restored is not None and [item["content"] for item in restored.items] == ["Hello"]
    assert restored.start_response and table.texts == ["Hello"] and table.conversation.state is OPEN


def test_what_is_said_after_the_run_was_closed_is_dropped() -> None:
    table = Table().connected()
    table.take(m.RealtimeModelInputAudioCommittedEvent("u1"))
    table.run.closed = f.Closed("over")
    table.take(m.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", "Hello"))
    table.take(m.RealtimeModelTurnEndedEvent("r1", [said("Hi.")]))
    table.take(m.RealtimeModelInputAudioTranscriptionCompletedEvent("u9", "Late"))
    assert table.texts == [] and not table.conversation.waits_for_words


def test_attempts_are_counted_until_a_connection_is_good() -> None:
    error, final = ModelFailed("busy"), ModelFailed("no key", retryable=False)
    attempts = ConnectAttempts(2, 0.5, since=100.0)
    assert [attempts.next_delay(error, 101.0), attempts.next_delay(error, 500.0)] == [0.5, 1.0]
    assert attempts.next_delay(error, 900.0) is None, "time counts only while there is a connection"
    attempts.since = 1000.0
    assert attempts.next_delay(error, 1060.0) is None, "the connection was not good yet"
    attempts.since = 1000.0
    assert attempts.next_delay(error, 1060.5) == 0.5
    assert attempts.next_delay(final, 1061.0) is None and math.isinf(attempts.since)


@pytest.mark.parametrize("module", [rules, conversation, briefing], ids=lambda module: module.__name__)
def test_the_machine_does_no_io_and_reads_no_clock(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    forbidden = {"asyncio", "time", "threading", "socket", "random", "logging", "store", "journal", "scope", "session"}
    assert not {part for name in named for part in name.split(".")} & forbidden
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree))
