"""The two directions between a live run and its model: replies become facts, and facts are told to the model.

What the model must be told is derived from the run, each time that the run has changed: inputs, outcomes of calls, and
questions that wait. So nothing is told twice, however a fact came into the journal. Sending is the session's work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..core import facts as f
from ..core.digest import described
from ..core.digest import text as clean_text
from ..core.rules import ASKED, DELEGATED, DONE, verdict_of
from ..core.run import CallState, Run, Turn, awaits_model, questions
from ..core.transcript import Item, as_function, items_in, output_item, output_text, said_items, without_notes
from ..definitions.agent import Toolbox
from ..definitions.item import ToolApprovalItem
from ..errors import InvalidInput, ModelFailed, Overtaken
from ..models.model import ModelResponse
from ..runtime import input_order
from ..runtime.scope import Scope
from ..runtime.steps.model_call import replied
from ..runtime.value import input_json
from ..runtime.view import all_said
from . import event as e
from . import model as m

log = logging.getLogger("assent")

UNHEARD = "[The user interrupted this reply after {seconds:.1f} seconds of its audio. The rest was not heard.]"
NO_WORDS = "[The user said something, and there is no transcript of it.]"
LATE_WORDS = "[Said before, and transcribed late:] {words}"
SENT = ("message", "function_call", "function_call_output")
"""The types of items that a realtime model can be given."""


class Speech(Struct, eq=False):
    """A spoken message of the user. It is recorded once its words are known, or known to be missing."""

    item_id: str
    words: str | None = None
    known: bool = False
    upto: int = 0
    """The number of inputs up to this one, once it is recorded."""


class Typed(Struct, eq=False):
    """A typed message of the user that is recorded after the speech before it."""

    items: Any
    known: bool = True


class Reply(Struct, eq=False):
    """A reply. It is recorded once it is complete, after the speech that it answers."""

    saw: int
    lacking: tuple[str, ...]
    """The calls whose outcomes the model did not have when the reply began."""
    after: tuple[Speech, ...]
    """The speech before the reply that was not recorded when it began."""
    event: m.RealtimeModelTurnEndedEvent | None = None
    """The end of the reply; None while it is under way."""
    offer: Offer | None = None


class Offer(Struct):
    """The tools that the model was offered, and the place of the agent whose tools they are."""

    place: str
    tools: Toolbox


class Conversation:
    """The conversation of a live session, as the model has it and as the journal has it."""

    def __init__(
        self,
        scope: Scope,
        info: e.RealtimeEventInfo,
        emit: Callable[[e.RealtimeSessionEvent], None],
        send: Callable[[m.RealtimeModelSendEvent | None, Callable[[], None]], None],
        wait: float,
    ) -> None:
        self.scope, self.journal, self.info = scope, scope.journal, info
        self.emit = emit
        self.send = send
        """Sends an event and then calls the function; for None, tells the model of the active agent first."""
        self.wait = wait
        self.offer: Offer | None = None
        """The tools that the model was offered last."""
        self.ready = False
        """True if the model has the whole conversation, so that news can be sent."""
        self.place = ""
        """The place of the agent that the model speaks for."""
        self._run = self.journal.run
        """The run before a restart replaces it."""
        self._numbers: dict[int, int] = {}
        """The numbers of inputs here, by their places in the run, where they differ.

        Inputs are numbered as they come, and keep their numbers. A drive that begins again puts those that others have
        stored meanwhile before those of this session that were not stored."""
        self._queued = self._said = 0
        """The number of inputs that are on their way to the model, and of those that it has."""
        self._item_ids: dict[int, str] = {}
        """The provider's ids of spoken messages, by the numbers of the inputs."""
        self._not_sent: set[int] = set()
        """The numbers of inputs that the model has heard, or need not hear."""
        self._untold: dict[str, None] = {}
        """The calls whose outcome is not on its way to the model."""
        self._lacking: dict[str, None] = {}
        """The calls whose outcome the model does not have."""
        self._asked: dict[str, tuple[str, str]] = {}
        """The provider's call id and the question's id of each question that is open, by question id."""
        self._inputs: list[Speech | Typed] = []
        """The user's messages that are not recorded yet, in their order."""
        self._replies: list[Reply] = []
        """The complete replies that are not recorded yet."""
        self._spoken: dict[str, bool] = {}
        """The ids of spoken messages in this connection; True if the words are recorded."""
        self._timer: asyncio.TimerHandle | None = None
        self._turn: Reply | None = None
        """The reply under way."""
        self._cut: str | None = None
        """The note on the reply that was interrupted, until the user's next words."""
        self._looking = False
        self._storing: asyncio.Task[None] | None = None
        """The task that stores questions, before anybody is told of them."""
        self.on_over: Callable[[], object] = _nothing
        """Called when the run was cancelled or closed."""
        self.journal.listen(self._heard)

    # -- from the model to the journal -------------------------------------------------------------

    def typed(self, items: Any) -> None:
        """Record a typed message, after the speech before it."""
        self._inputs.append(Typed(items))
        self._record()

    def _say(self, items: Any, *, heard: bool = False) -> None:
        """Record input of the user; with `heard`, the model has it already."""
        facts = [f.Said(items, at=self.journal.now())]
        number = self.journal.run.said
        if self._cut is not None:
            note = input_json([{"role": "developer", "content": self._cut}])
            facts.insert(0, f.Said(note, by="runtime", at=self.journal.now()))
            self._not_sent.add(number)
            number += 1
        if heard:
            self._not_sent.add(number)
        before = self.journal.run.said
        self.journal.append(facts)
        self._cut = None
        if heard and self._said == before:
            self._said = self.journal.run.said

    def interrupted(self, event: m.RealtimeModelAudioInterruptedEvent) -> None:
        """Note that the user did not hear all of a reply."""
        self._cut = UNHEARD.format(seconds=event.heard_ms / 1000)

    def spoken(self, item_id: str) -> None:
        """Take note of a spoken message, whose words come later."""
        if item_id not in self._spoken:
            self._spoken[item_id] = False
            self._inputs.append(Speech(item_id))

    def transcribed(self, item_id: str, words: str | None) -> None:
        """Take the words of a spoken message; None if there are none."""
        speech = next((s for s in self._inputs if isinstance(s, Speech) and s.item_id == item_id), None)
        if speech is not None:
            speech.words, speech.known = words or speech.words, True
            self._record()
        elif words and not self._spoken.get(item_id) and self.journal.run.closed is None:
            self._spoken[item_id] = True
            self._say(_words(LATE_WORDS.format(words=words)), heard=True)

    def began_reply(self) -> None:
        """Note what the model has heard: the reply that begins is made with it."""
        speech = tuple(each for each in self._inputs if isinstance(each, Speech))
        self._turn = Reply(self._said, tuple(self._lacking), speech)

    def ended_reply(self, event: m.RealtimeModelTurnEndedEvent) -> None:
        """Record a reply, after the speech that it answers."""
        if self._turn is None:
            self.began_reply()
        reply, self._turn = self._turn, None
        if reply is not None and self.offer is not None:
            reply.event, reply.offer = event, self.offer
            self._replies.append(reply)
            self._record()

    def give_up_words(self) -> None:
        """Record what is pending without the words that have not come."""
        for each in self._inputs:
            if isinstance(each, Speech):
                each.known = True
        self._record()

    def _record(self) -> None:
        """Record messages and replies in their order, as far as the words are known; do not wait long for the rest."""
        if self.journal.run.closed is not None:  # nothing can follow
            self._inputs.clear()
            self._replies.clear()
        while self._inputs and self._inputs[0].known:
            self._record_input(self._inputs.pop(0))
        while self._replies and all(speech.upto for speech in self._replies[0].after):
            self._record_reply(self._replies.pop(0))
        waiting = self._replies or any(isinstance(each, Typed) for each in self._inputs)
        if self._timer is not None and not waiting:
            self._timer.cancel()
            self._timer = None
        elif self._timer is None and waiting:
            self._timer = asyncio.get_running_loop().call_later(self.wait, self.give_up_words)

    def _record_input(self, message: Speech | Typed) -> None:
        if isinstance(message, Typed):
            self._say(message.items)
            return
        self._spoken[message.item_id] = bool(message.words)
        self._say(_words(message.words or NO_WORDS), heard=True)
        message.upto = self.journal.run.said
        self._item_ids[message.upto - 1] = message.item_id

    def _record_reply(self, reply: Reply) -> None:
        event, offer, run = reply.event, reply.offer, self.journal.run
        if event is None or offer is None or not (event.output or any(event.usage.numbers())):
            return
        saw = self._places_before(max(reply.saw, *(speech.upto for speech in reply.after), 0))
        saw = max(saw, run.said - len(run.unheard))
        tools = offer.tools
        if offer.place != run.agent:  # the agent that made the calls has handed over, so they are calls of no tool
            tools = replace(tools, tools={})
        try:
            fact = replied(self.scope, run, ModelResponse(event.output, event.usage, event.response_id), saw, tools)
        except ModelFailed as error:
            self.emit(e.RealtimeError(error, self.info))
            return
        missed = tuple(id for id in reply.lacking if id in run.calls and run.calls[id].phase is DONE)
        self.journal.add(replace(fact, missed=missed))
        for call in fact.calls:
            self._untold[call.id] = self._lacking[call.id] = None

    # -- from the journal to the model -------------------------------------------------------------

    def _heard(self, fact: f.AnyFact) -> None:
        if type(fact) is f.Started and not fact.path:
            state = self.journal.run.calls[fact.call]
            self.emit(e.RealtimeToolStart(*self._shown(state), self.info, _provider_id(state)))
        self.look_soon()

    def look_soon(self) -> None:
        """Look at the run once the facts of this moment are all in."""
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self.look)

    def look(self) -> None:
        """Tell the user and the model what has changed in the run."""
        self._looking = False
        run = self._run = self.journal.run
        if self.place and run.agent != self.place:
            self._hand_over(run)
        self._tell_questions(run)
        self._tell_outcomes(run)
        if self.ready:
            self._tell_inputs(run)
        if run.cancelled is not None or run.closed is not None:
            self.on_over()

    def _hand_over(self, run: Run) -> None:
        seats = self.scope.graph.seat
        before, after = seats(self.place).agent, seats(run.agent).agent
        self.place = run.agent
        self.emit(e.RealtimeHandoffEvent(before, after, self.info))
        if self.ready:
            self.send(None, _nothing)

    def _tell_outcomes(self, run: Run) -> None:
        for id in list(self._untold):
            state = run.calls.get(id)
            if state is not None and state.phase is not DONE:
                continue
            del self._untold[id]
            text = output_text(state) if state is not None else None
            if state is None or text is None:
                self._lacking.pop(id, None)
                continue
            output = self.scope.view(()).output_of(state)
            value = getattr(output, "output", text)
            self.emit(e.RealtimeToolEnd(*self._shown(state), value, self.info, _provider_id(state)))
            if self.ready:
                items = [_output(state, text)]
                told = m.RealtimeModelSendItems(items, start_response=not _goes_on(state.turn))
                self.send(told, lambda id=id: self._lacking.pop(id, None))  # type: ignore[misc]

    def restarted(self) -> None:
        """Note the places of the inputs, because the drive has begun again with the stored facts, in their order."""
        before, self._run = all_said(self._run), self.journal.run
        number_of, new, numbers = self._numbers, len(before), {}
        for place, was in enumerate(input_order.places(before, all_said(self._run))):
            if was is None:
                number, new = new, new + 1
            else:
                number = number_of.get(was, was)
            if number != place:
                numbers[place] = number
        self._numbers = numbers
        self.look_soon()

    def _places_before(self, number: int) -> int:
        """Return the number of inputs of the run, from the first on, whose numbers are all less than this."""
        if not self._numbers:
            return number
        said = range(self.journal.run.said)
        return next((place for place in said if self._numbers.get(place, place) >= number), len(said))

    def _tell_inputs(self, run: Run) -> None:
        first = run.said - len(run.unheard)
        places = {number: place for place, number in self._numbers.items()}
        for number in range(self._queued, run.said):
            if number in self._not_sent:
                self._not_sent.discard(number)
                continue
            place = places.get(number, number)
            fact = run.unheard[place - first] if place >= first else all_said(run)[place]
            items = [dict(item) for item in said_items(fact)]
            self.send(m.RealtimeModelSendItems(_named(items, number), start_response=True), _nothing)
        if run.said != self._queued:
            self._queued = upto = run.said
            self.send(m.RealtimeModelSendItems(()), lambda: self._has_heard(upto))

    def _has_heard(self, upto: int) -> None:
        self._said = max(self._said, upto)

    def _tell_questions(self, run: Run) -> None:
        found = list(questions(run)) if run.open else []
        now = {state.question.id: (path, state) for path, state in found if state.question is not None}
        for id in [id for id in self._asked if id not in now]:
            call_id, _ = self._asked.pop(id)
            fact = run.decided.get(id)
            verdict = verdict_of(fact)
            if fact is not None and verdict is not None:
                by = getattr(fact, "by", "")
                self.emit(e.RealtimeToolApprovalDecided(call_id, id, verdict, by, self.info))
        unstored = self._unstored() if now else ()
        for id, (path, state) in now.items():
            if id in self._asked or id in unstored or state.question is None:
                continue
            item = self.scope.view(()).question(path, state, state.question)
            self._asked[id] = item.call_id or "", id
            self.emit(self._required(state, item))
            if self.ready:
                note = [{"role": "system", "content": _waits(state, item)}]
                self.send(m.RealtimeModelSendItems(note, start_response=True), _nothing)

    def _unstored(self) -> set[str]:
        """Return the questions that are not in the run's store yet; nobody is told of them before they are."""
        writer = self.journal.writer
        found = {fact.id for fact in writer.unwritten if type(fact) is f.Asked} if writer is not None else set()
        if found and self._storing is None:
            self._storing = asyncio.create_task(self._store())
        return found

    async def _store(self) -> None:
        writer = self.journal.writer
        try:
            if writer is not None:
                await writer.flush()
        except Overtaken:
            pass  # the drive begins again, with what others have stored
        except Exception:
            log.debug("A live run's question could not be stored; the drive ends with the error", exc_info=True)
            return
        finally:
            self._storing = None
        self.look_soon()

    def _required(self, state: CallState, item: ToolApprovalItem) -> e.RealtimeToolApprovalRequired:
        agent, tool, _ = self._shown(state)
        return e.RealtimeToolApprovalRequired(agent, tool, item.call_id or "", item.arguments, self.info, item)

    def _shown(self, state: CallState) -> tuple[Any, Any, str]:
        """Return the agent, the tool and the arguments of a call, as events have them."""
        seat = self.scope.graph.of(state)
        args = bytes(state.args).decode() if state.args else state.proposal.arguments
        return seat.agent, seat.tools.get(state.tool), args or ""

    # -- a new connection ------------------------------------------------------------------------------

    def restored(self, offer: Offer) -> m.RealtimeModelSendItems | None:
        """Return the conversation so far, for a model that has nothing of it; None if there is none.

        From now on the model is told what is new.
        """
        self.look()  # the user hears of what happened meanwhile; the model has it from here
        run = self.journal.run
        self.offer, self.place, self.ready = offer, run.agent, True
        self._queued = self._said = run.said
        self._not_sent.clear()
        self._turn = self._cut = None
        self._spoken.clear()
        news = [run.calls[id] for id in self._lacking if id in run.calls and run.calls[id].phase is DONE]
        self._untold = {id: None for id, state in run.open.items() if type(state.turn.reply) is f.Replied}
        self._lacking = dict(self._untold)
        items = self._history(run, news)
        waiting = self.scope.view(()).interruptions()
        for item, (_, state) in zip(waiting, questions(run), strict=True):
            items.append({"role": "system", "content": _waits(state, item)})
        soon = any(_goes_on(state.turn) for state in run.open.values())
        start = bool(run.unheard) or (awaits_model(run) and not soon)
        return m.RealtimeModelSendItems(items, start_response=start) if items else None

    def _history(self, run: Run, news: list[CallState]) -> list[Item]:
        """Return all items of the conversation, with the outcomes last that the model has not answered."""
        items = list(self.scope.journal.past)
        said = 0
        for entry in [*run.entries, *run.unheard]:
            if type(entry) is f.HandedOff and entry.history:
                items = items_in(entry.history)
            elif type(entry) is Turn:
                items += _turn_items(entry, news)
            elif type(entry) is f.Said:
                number = self._numbers.get(said, said)
                items += _named(said_items(entry), number, self._item_ids.get(number))
                said += 1
        items += [_output(state, text) for state in news if (text := output_text(state)) is not None]
        return [each for each in map(as_function, items) if each.get("type", "message") in SENT]

    def lost(self) -> None:
        """Note that the model is gone, and what it was saying: only complete replies are history."""
        self.ready = False
        self.give_up_words()

    def close(self) -> None:
        """Record what is pending, and stop waiting for words."""
        self.give_up_words()
        self.ready = False


def _nothing() -> None:
    return None


def typed_input(message: Any) -> Any:
    """Return a typed message as input: a text, or a user's message of text and images. Raise `InvalidInput` otherwise.

    What no model can be told would stay in the conversation, and fail in every connection.
    """
    if isinstance(message, str) and message:
        return input_json(message)
    if not isinstance(message, Mapping):
        raise InvalidInput(f"A message is a text or a dict, got {described(message)}.")
    item = {"role": "user", **message}
    content = item.get("content")
    if item["role"] != "user" or item.get("type", "message") != "message":
        raise InvalidInput(f"A message of the user has the role user, got {described(item)}.")
    parts = content if isinstance(content, list) else [{"type": "input_text", "text": content}]
    if not content or not all(map(_can_be_told, parts)):
        raise InvalidInput(f"A message is a text, or parts of type input_text and input_image, got {described(item)}.")
    return input_json([item])


def _can_be_told(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    field = {"input_text": "text", "input_image": "image_url"}.get(kind) if isinstance(kind, str) else None
    return field is not None and isinstance(part.get(field), str)


def _words(words: str) -> Any:
    """Return the words of a spoken message as input. Characters that UTF-8 cannot hold are replaced."""
    return input_json(clean_text(words)[0])


def _provider_id(state: CallState) -> str:
    return state.proposal.call_id or state.call.id


def _output(state: CallState, text: str) -> Item:
    """Return a call's outcome as an item whose output is text, which is all that a realtime model takes."""
    item = as_function(output_item(state, text))
    parts = item["output"]
    if not isinstance(parts, str):
        texts = [part["text"] if isinstance(part.get("text"), str) else f"[{part.get('type')}]" for part in parts]
        item = {**item, "output": "\n".join(texts)}
    return item


def _turn_items(turn: Turn, late: list[CallState]) -> list[Item]:
    """Return the items of a turn, with the calls that still wait, and without the outcomes of those that are late."""
    if type(turn.reply) is not f.Replied:
        return []
    items = without_notes(items_in(turn.reply.items))
    texts = [(state, output_text(state)) for state in turn.calls if state not in late]
    return items + [_output(state, text) for state, text in texts if text is not None]


def _named(items: list[Item], number: int, id: str | None = None) -> list[Item]:
    """Return the items of an input with their id, or ids of their own, the same in every connection."""
    return [{"id": id or f"said_{number}_{n}", **item} for n, item in enumerate(items)]


def _goes_on(turn: Turn) -> bool:
    """Return True if another call of the turn will soon have its outcome, for which nobody is asked."""
    return any(state.phase not in (ASKED, DONE) and not _asks_inside(state) for state in turn.calls)


def _asks_inside(state: CallState) -> bool:
    return state.phase is DELEGATED and state.child is not None and next(questions(state.child), None) is not None


def _waits(state: CallState, item: ToolApprovalItem) -> str:
    """Return what the model is told of a question to a person."""
    call = f"The call of {item.name!r} with the id {item.call_id!r}"
    if state.question is not None and state.question.kind == "input":
        what = f"{call} waits for a person's answer to a question of its own."
    elif state.question is not None and state.question.kind == "doubt":
        what = f"{call} was cut off, and a person is asked how it ended."
    else:
        what = f"{call} waits for a person's approval. It has not run."
    return (
        f"{what} Tell the user so in a few words, go on with the conversation, and do not call it again: "
        "its outcome will follow."
    )
