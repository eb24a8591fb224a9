"""The machine of a live conversation: events of the model, the user and the connection in, facts and messages out.

Its methods return what the session does then, in this order: facts to record, events for the model and for the user.
They yield one after the other, and each is done before the next, so that the run has the facts that were yielded
before. States and steps are the tables in `rules`; what the model must be told is derived in `briefing`. Nothing here
does I/O, reads a clock or calls user code: that is the session's work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..core import facts as f
from ..core.rules import DONE
from ..core.run import Run
from ..core.transcript import Item
from ..core.wording import clean_text, described
from ..definitions.agent import Toolbox
from ..errors import InvalidInput, ModelFailed
from ..models.model import ModelResponse
from ..runtime.value import input_json
from . import event as e
from . import model as m
from . import rules as r
from .briefing import ModelBriefing, Offer, SendToModel
from .item import SessionHistory

UNHEARD = "[The user interrupted this reply after {seconds:.1f} seconds of its audio. The rest was not heard.]"
NO_WORDS = "[The user said something, and there is no transcript of it.]"
LATE_WORDS = "[Said before, and transcribed late:] {words}"
STEADY = 60.0
"""The seconds after which a connection is good. A reply shows it too. The attempts to connect are then counted anew."""

# -- what the session is to do ---------------------------------------------------------------------


class RecordReply(Struct):
    """Record a reply; `saw` inputs were heard by it, and the outcomes of the calls in `missed` were not."""

    response: ModelResponse
    saw: int
    tools: Toolbox
    missed: tuple[str, ...]


class Reconnect(Struct):
    """Connect to the model again, because of this loss."""

    error: ModelFailed


Command = list[f.Said] | RecordReply | Reconnect | SendToModel | e.RealtimeSessionEvent
"""Input to record, with its note; another command; or an event for the user."""
Commands = Iterator[Command]

# -- the turns -------------------------------------------------------------------------------------


class LiveTurn(Struct, eq=False):
    """A turn of the conversation, until it is recorded."""

    state: r.TurnState

    def step(self, step: r.TurnStep) -> bool:
        """Take a step; if it has no row, change nothing and return False."""
        found = r.NEXT_TURN_STATE.get((self.state, step))
        self.state = found or self.state
        return found is not None


class UserTurn(LiveTurn, eq=False):
    """A message of the user. It is recorded after the messages before it."""

    item_id: str | None
    """The provider's id of a spoken message; None for a typed one."""
    items: Any = None
    """A typed message."""
    words: str | None = None
    """The words of a spoken message, if they are known."""
    upto: int = 0
    """The number of inputs up to a spoken message, once it is recorded."""


class ModelTurn(LiveTurn, eq=False):
    """A reply of the model. It is recorded once it is complete, after the speech that it answers."""

    saw: int
    """The number of inputs that the model had when the reply began."""
    lacking: tuple[str, ...]
    """The calls whose outcomes the model did not have when the reply began."""
    after: tuple[UserTurn, ...]
    """The speech before the reply that was not recorded when it began."""
    event: m.RealtimeModelTurnEndedEvent | None = None
    offer: Offer | None = None


class ConnectAttempts(Struct):
    """The attempts to connect since a connection was good."""

    most: int
    delay: float
    tried: int = 0
    since: float = math.inf
    """The time at which the last connection was made; infinity once it was lost."""

    def next_delay(self, error: ModelFailed, now: float) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is none."""
        if now - self.since > STEADY:
            self.tried = 0
        self.since = math.inf
        if self.tried >= self.most or not error.retryable:
            return None
        self.tried += 1
        return self.delay * 2.0 ** (self.tried - 1)


class Conversation:
    """A live conversation: the session's state, the turns that are not recorded yet, and what the model has."""

    def __init__(self, model: ModelBriefing, attempts: ConnectAttempts) -> None:
        self.model, self.attempts, self.info = model, attempts, model.info
        self.state = r.NEW
        self.loss: ModelFailed | None = None
        """The loss of the last connection, or of the attempt under way; None while there is none."""
        self.history = SessionHistory()
        self._messages: list[UserTurn] = []
        """The user's messages that are not recorded yet, in their order."""
        self._speech: dict[str, UserTurn] = {}
        """The spoken messages of this connection, by the provider's id."""
        self._replies: list[ModelTurn] = []
        """The complete replies that are not recorded yet."""
        self._reply: ModelTurn | None = None
        """The reply under way."""
        self._cut: str | None = None
        """The note on the reply that was interrupted, until the user's next words."""

    def may(self, step: r.LiveStep) -> bool:
        """Return True if this step has a row now."""
        return (self.state, step) in r.NEXT_STATE

    def step(self, step: r.LiveStep) -> bool:
        """Take a step; if it has no row, change nothing and return False."""
        found = r.NEXT_STATE.get((self.state, step))
        self.state = found or self.state
        return found is not None

    # -- the connection ----------------------------------------------------------------------------

    def restore(self, offer: Offer, run: Run, past: Sequence[Item]) -> m.RealtimeModelSendItems | None:
        """Return the conversation so far, for a model that has nothing of it; None if there is none."""
        if self._reply is not None:
            self._reply.step("drop")
        self._reply = self._cut = None
        self._speech = {turn.item_id: turn for turn in self._messages if turn.item_id is not None}
        return self.model.restore(offer, run, past)

    def lose(self, reason: str, run: Run) -> Commands:
        """Give up the connection, or the attempt to make one, and the words that it would have brought."""
        was = self.state
        if self.step("lose"):
            self.loss = ModelFailed(f"The connection to the realtime model was lost: {reason}.")
            yield from self.give_up_words(run)
            if was is r.OPEN:
                yield Reconnect(self.loss)

    # -- the user and the clock --------------------------------------------------------------------

    def take_message(self, items: Any, run: Run) -> Commands:
        """Take a typed message."""
        self._messages.append(UserTurn(r.READY, None, items))
        yield from self._record(run)

    @property
    def waits_for_words(self) -> bool:
        """True if turns wait for a transcript. Call `give_up_words` if they have waited too long."""
        return bool(self._replies or (self._messages and any(turn.item_id is None for turn in self._messages)))

    def give_up_words(self, run: Run) -> Commands:
        """Record what is pending without the words that have not come."""
        for turn in self._messages:
            turn.step("give_up")
        yield from self._record(run)

    # -- the model ---------------------------------------------------------------------------------

    def _take_status(self, event: m.RealtimeModelConnectionStatusEvent, run: Run) -> Commands:
        if event.status == "disconnected":
            yield from self.lose(event.reason or "no reason given", run)

    def _begin_reply(self, event: m.RealtimeModelTurnStartedEvent, run: Run) -> Commands:
        self.attempts.tried = 0
        if self._reply is not None:
            self._reply.step("drop")
        self._reply = self._new_reply()
        yield e.RealtimeAgentStartEvent(self.model.agent(run), self.info)

    def _new_reply(self) -> ModelTurn:
        """Return a reply that is made with what the model has now."""
        speech = tuple(turn for turn in self._messages if turn.item_id is not None)
        return ModelTurn(r.UNDER_WAY, self.model.said, tuple(self.model.outcomes), speech)

    def _end_reply(self, event: m.RealtimeModelTurnEndedEvent, run: Run) -> Commands:
        reply, self._reply = self._reply or self._new_reply(), None
        if self.model.offer is not None and reply.step("finish"):
            reply.event, reply.offer = event, self.model.offer
            self._replies.append(reply)
            yield from self._record(run)
        yield e.RealtimeAgentEndEvent(self.model.agent(run), self.info)
        if event.status in ("failed", "incomplete"):
            why = event.reason or "the provider gave no reason"
            yield e.RealtimeError(ModelFailed(f"The reply is {event.status}: {why}."), self.info)

    def _interrupt_reply(self, event: m.RealtimeModelAudioInterruptedEvent, run: Run) -> Commands:
        self._cut = UNHEARD.format(seconds=event.heard_ms / 1000)
        yield e.RealtimeAudioInterrupted(event.item_id, event.content_index, self.info)

    def _take_speech(self, event: m.RealtimeModelInputAudioCommittedEvent, run: Run) -> Commands:
        if event.item_id not in self._speech:
            self._speech[event.item_id] = turn = UserTurn(r.AWAITED, event.item_id)
            self._messages.append(turn)
        return iter(())

    def _take_words(self, event: m.RealtimeModelInputAudioTranscriptionCompletedEvent, run: Run) -> Commands:
        words, turn = event.transcript, self._speech.get(event.item_id)
        if turn is None and words:  # of speech that the provider did not report, or that an earlier connection had
            turn = self._speech[event.item_id] = UserTurn(r.WORDLESS, event.item_id)
        late = turn is not None and turn.state is r.WORDLESS
        if turn is not None and turn.step("words" if words else "no_words"):
            turn.words = words or turn.words
            if not late:
                yield from self._record(run)
            elif run.closed is None:
                yield from self._say(_words(LATE_WORDS.format(words=words)), run, spoken=True)
        if self.history.set_transcript(event.item_id, words):
            yield e.RealtimeHistoryUpdated(self.history.items, self.info)

    def _take_item(self, event: m.RealtimeModelItemUpdatedEvent, run: Run) -> Commands:
        items, count = self.history.items, len(self.history.items)
        if self.history.put(event.item):
            added = len(items) > count
            yield e.RealtimeHistoryAdded(event.item, self.info) if added else e.RealtimeHistoryUpdated(items, self.info)

    def _delete_item(self, event: m.RealtimeModelItemDeletedEvent, run: Run) -> Commands:
        if self.history.delete(event.item_id):
            yield e.RealtimeHistoryUpdated(self.history.items, self.info)

    # -- the record --------------------------------------------------------------------------------

    def _record(self, run: Run) -> Commands:
        """Record messages and replies in their order, as far as the words are known."""
        if run.closed is not None:  # nothing can follow
            for turn in (*self._messages, *self._replies):
                turn.step("drop")
            self._messages.clear()
            self._replies.clear()
        while self._messages and self._messages[0].state is r.READY:
            yield from self._record_message(self._messages.pop(0), run)
        while self._replies and all(turn.upto for turn in self._replies[0].after):
            yield from self._record_reply(self._replies.pop(0), run)

    def _record_message(self, turn: UserTurn, run: Run) -> Commands:
        if turn.item_id is None:
            turn.step("record")
            yield from self._say(turn.items, run)
            return
        turn.step("record" if turn.words else "record_wordless")
        yield from self._say(_words(turn.words or NO_WORDS), run, spoken=True)
        turn.upto = run.said
        self.model.heard[turn.upto - 1] = turn.item_id

    def _say(self, items: Any, run: Run, *, spoken: bool = False) -> Commands:
        """Record input of the user; what was spoken the model has already."""
        before, facts = run.said, [f.Said(items)]
        if self._cut is not None:
            facts.insert(0, f.Said(input_json([{"role": "developer", "content": self._cut}]), by="runtime"))
        yield facts
        self._cut = None
        unsent = len(facts) if spoken else len(facts) - 1
        self.model.heard.update(dict.fromkeys(range(before, before + unsent)))
        if spoken and self.model.said == before:
            self.model.said = run.said

    def _record_reply(self, reply: ModelTurn, run: Run) -> Commands:
        event, offer = reply.event, reply.offer
        if event is None or offer is None or not (event.output or any(event.usage.numbers())):
            reply.step("drop")
            return
        saw = max(reply.saw, *(turn.upto for turn in reply.after), 0)
        saw = max(self.model.numbers.places_before(saw, run), run.said - len(run.unheard))
        tools = offer.tools
        if offer.place != run.agent:  # the agent that made the calls has handed over, so they are calls of no tool
            tools = replace(tools, tools={})
        missed = tuple(id for id in reply.lacking if id in run.calls and run.calls[id].phase is DONE)
        reply.step("record")
        yield RecordReply(ModelResponse(event.output, event.usage, event.response_id), saw, tools, missed)


TAKE: dict[type, Callable[[Conversation, Any, Run], Commands]] = {
    m.RealtimeModelConnectionStatusEvent: Conversation._take_status,
    m.RealtimeModelTurnStartedEvent: Conversation._begin_reply,
    m.RealtimeModelTurnEndedEvent: Conversation._end_reply,
    m.RealtimeModelAudioInterruptedEvent: Conversation._interrupt_reply,
    m.RealtimeModelInputAudioCommittedEvent: Conversation._take_speech,
    m.RealtimeModelInputAudioTranscriptionCompletedEvent: Conversation._take_words,
    m.RealtimeModelItemUpdatedEvent: Conversation._take_item,
    m.RealtimeModelItemDeletedEvent: Conversation._delete_item,
}
"""The method that takes each kind of event of the model; other events change nothing."""


def typed_input(message: Any) -> Any:
    """Return a typed message as input: a text, or a user's message of text and images. Raise `InvalidInput` otherwise.

    What no model can be told would stay in the conversation, and fail in every connection.
    """
    if isinstance(message, str) and message:
        return input_json(message)
    item = {"role": "user", "type": "message", **message} if isinstance(message, Mapping) else {}
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"type": "input_text", "text": content}]
    told = bool(content) and all(map(_can_be_told, parts))
    if not told or item["role"] != "user" or item["type"] != "message":
        raise InvalidInput(
            "A message of the user is a text, or a dict whose content is a text or parts of type input_text and "
            f"input_image; got {described(message)}."
        )
    return input_json([{"role": "user", **message}])


def _can_be_told(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    field = {"input_text": "text", "input_image": "image_url"}.get(kind) if isinstance(kind, str) else None
    return field is not None and isinstance(part.get(field), str)


def _words(words: str) -> Any:
    """Return the words of a spoken message as input. Characters that UTF-8 cannot hold are replaced."""
    return input_json(clean_text(words)[0])
