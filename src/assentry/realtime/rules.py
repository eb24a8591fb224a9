"""The tables of a live session: its states, and the states of each turn of its conversation.

Every step is a row. A step without a row changes nothing: a provider may repeat an event or send it late. If it is a
step of the user, the session refuses it with `UsageError`. No I/O, no clock and no user code may be put here. The page
in the docs is drawn from these tables.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, Literal, NamedTuple, TypeVar


class LiveState(Enum):
    """The state of a session; the value completes "The session ..."."""

    NEW = "was not entered yet"
    OPENING = "is connecting to the model"
    OPEN = "is open, and the model has the conversation"
    AWAY = "has lost its connection, and is making another"
    CLOSING = "is being closed"
    CLOSED = "is closed"


NEW, OPENING, OPEN, AWAY, CLOSING, CLOSED = LiveState

LiveStep = Literal["enter", "send", "connect", "connected", "lose", "fail", "end", "ended"]
USERS: tuple[LiveStep, ...] = ("enter", "send")
"""The steps of the user, which are refused where they have no row."""


class TurnState(Enum):
    """The state of a turn, a message of the user or a reply; the value completes "The turn ..."."""

    UNDER_WAY = "is a reply that the model has begun"
    AWAITED = "is speech whose words have not come yet"
    READY = "is complete, and waits for the turns before it"
    RECORDED = "is in the journal"
    WORDLESS = "is in the journal without its words"
    DROPPED = "will not be in the journal"

    __hash__ = object.__hash__  # that of Enum is slow, and every turn is looked up


UNDER_WAY, AWAITED, READY, RECORDED, WORDLESS, DROPPED = TurnState

TurnStep = Literal["finish", "words", "no_words", "give_up", "record", "record_wordless", "drop"]

State = TypeVar("State")
Step = TypeVar("Step")


class LiveRule(NamedTuple, Generic[State, Step]):
    """One transition of a table: state, step, next state, and the reason."""

    state: State
    step: Step
    next: State
    why: str


SESSION_RULES: tuple[LiveRule[LiveState, LiveStep], ...] = (
    LiveRule(NEW, "enter", OPENING, "the run's lease is acquired, and the model is connected"),
    LiveRule(OPENING, "connect", OPENING, "the attempt begins"),
    LiveRule(OPENING, "lose", OPENING, "the model does not have the conversation yet, so the attempt fails"),
    LiveRule(OPENING, "connected", OPEN, "the model has the conversation so far; the drive begins"),
    LiveRule(OPENING, "fail", CLOSED, "the session could not begin; its run is kept"),
    LiveRule(OPEN, "send", OPEN, "the user says something, or decides"),
    LiveRule(OPEN, "lose", AWAY, "the calls that wait go on waiting, and the model is connected again"),
    LiveRule(OPEN, "end", CLOSING, "the user closed it, the run is over, or something failed"),
    LiveRule(AWAY, "send", AWAY, "messages and decisions are recorded; audio waits for the connection"),
    LiveRule(AWAY, "connect", AWAY, "another attempt begins"),
    LiveRule(AWAY, "lose", AWAY, "the attempt fails; another may follow"),
    LiveRule(AWAY, "connected", OPEN, "the model has the conversation so far"),
    LiveRule(AWAY, "end", CLOSING, "no attempt is left, or what ends an open session has happened"),
    LiveRule(CLOSING, "end", CLOSING, "closing twice does no harm"),
    LiveRule(CLOSING, "ended", CLOSED, "connection and drive have ended, and the last turns are recorded"),
)

TURN_RULES: tuple[LiveRule[TurnState, TurnStep], ...] = (
    LiveRule(UNDER_WAY, "finish", READY, "the reply is complete, or was stopped: what was said of it counts"),
    LiveRule(UNDER_WAY, "drop", DROPPED, "another reply or connection has begun: only complete replies are history"),
    LiveRule(AWAITED, "words", READY, "the transcript has come"),
    LiveRule(AWAITED, "no_words", READY, "the provider has no transcript"),
    LiveRule(AWAITED, "give_up", READY, "the transcript was awaited long enough, or cannot come any more"),
    LiveRule(AWAITED, "drop", DROPPED, "the run is closed: nothing can follow"),
    LiveRule(READY, "words", READY, "the transcript comes late, but before the message is recorded"),
    LiveRule(READY, "record", RECORDED, "the turns before it are recorded"),
    LiveRule(READY, "record_wordless", WORDLESS, "the turns before it are recorded; a note stands in for the words"),
    LiveRule(READY, "drop", DROPPED, "the run is closed, or the reply is empty"),
    LiveRule(WORDLESS, "words", RECORDED, "late words are recorded as a message of their own"),
)

NEXT_STATE = {(row.state, row.step): row.next for row in SESSION_RULES}
NEXT_TURN_STATE = {(row.state, row.step): row.next for row in TURN_RULES}
