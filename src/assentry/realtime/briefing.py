"""The part of the conversation that a realtime model has, and the part that it must be told.

It is derived from the run each time that the run has changed: inputs, outcomes of calls, and questions that wait. So
nothing is told twice, however a fact came into the journal. Nothing here does I/O: the session sends what comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Any

from msgspec import Struct

from ..core import facts as f
from ..core.rules import ASKED, DONE, verdict_of
from ..core.run import CallState, Run, Turn, awaits_model, questions
from ..core.transcript import Item, as_function, items_in, output_item, output_text, said_items, without_notes
from ..definitions.agent import Toolbox
from ..definitions.item import ToolApprovalItem
from ..runtime import input_order
from ..runtime.agent_graph import AgentGraph
from ..runtime.view import Outputs, View, all_said
from . import event as e
from . import model as m

SENT = ("message", "function_call", "function_call_output")
"""The types of items that a realtime model can be given."""


class Offer(Struct):
    """The tools that the model was offered, and the place of the agent whose tools they are."""

    place: str
    tools: Toolbox


class SendToModel(Struct):
    """Send an event, if there is one, and note then what the model has."""

    event: m.RealtimeModelSendEvent | None = None
    configure: bool = False
    """True to tell the model which agent it speaks for now."""
    call: str = ""
    """The call whose outcome the model has then."""
    upto: int = 0
    """The number of inputs that the model has then."""


News = Iterator[SendToModel | e.RealtimeSessionEvent]


class ModelBriefing:
    """The account of what the model has, and of the questions that the user was told of."""

    def __init__(self, graph: AgentGraph, outputs: Outputs, info: e.RealtimeEventInfo) -> None:
        self.graph, self.outputs, self.info = graph, outputs, info
        self.offer: Offer | None = None
        """The tools that the model was offered last."""
        self.place = ""
        """The place of the agent that the user was told of last."""
        self.said = 0
        """The number of inputs that the model has."""
        self.outcomes: dict[str, bool] = {}
        """The calls whose outcome the model does not have; True if the outcome is known, and on its way."""
        self.heard: dict[int, str | None] = {}
        """The numbers of inputs that are not sent: the model has heard them. Speech has the provider's id."""
        self.numbers = InputNumbers()
        self._queued = 0
        """The number of inputs that the model has, or that are on their way to it."""
        self._asked: dict[str, str] = {}
        """The provider's call id of each open question that the user was told of, by question id."""

    def agent(self, run: Run) -> Any:
        """Return the active agent."""
        return self.graph.agent_at(run.agent).agent

    def note(self, fact: f.AnyFact, run: Run) -> Sequence[e.RealtimeSessionEvent]:
        """Take note of a new fact, and return the events for the user that follow from the fact alone."""
        if type(fact) is f.Replied and not fact.path:
            self.outcomes.update((call.id, False) for call in fact.calls)
        elif type(fact) is f.Started and not fact.path:
            state = run.calls[fact.call]
            return [e.RealtimeToolStart(*self._call(state), self.info, _provider_id(state))]
        return ()

    def has(self, sent: SendToModel) -> None:
        """Note what the model has now."""
        self.outcomes.pop(sent.call, None)
        self.said = max(self.said, sent.upto)

    def look(self, run: Run, unstored: Collection[str]) -> News:
        """Tell the user and the model what has changed in the run, but for the questions that are not stored yet."""
        self.numbers.run = run
        if self.place and run.agent != self.place:
            before, self.place = self.graph.agent_at(self.place).agent, run.agent
            yield e.RealtimeHandoffEvent(before, self.agent(run), self.info)
            yield SendToModel(configure=True)
        yield from self._tell_questions(run, unstored)
        yield from self._tell_outcomes(run)
        if self.offer is not None:  # the first connection has all inputs from `restore`
            yield from self._tell_inputs(run)

    def _tell_questions(self, run: Run, unstored: Collection[str]) -> News:
        found = list(questions(run)) if run.open else []
        now = {state.question.id: (path, state) for path, state in found if state.question is not None}
        for id in [id for id in self._asked if id not in now]:
            call_id, fact = self._asked.pop(id), run.decided.get(id)
            verdict = verdict_of(fact)
            if verdict is not None:
                yield e.RealtimeToolApprovalDecided(call_id, id, verdict, getattr(fact, "by", ""), self.info)
        for id, (path, state) in now.items():
            if id in self._asked or id in unstored or state.question is None:
                continue
            item = self._view(run).question(path, state, state.question)
            self._asked[id] = call_id = item.call_id or ""
            agent, tool, _ = self._call(state)
            yield e.RealtimeToolApprovalRequired(agent, tool, call_id, item.arguments, self.info, item)
            yield SendToModel(note_to_model(_waits(state, item)))

    def _tell_outcomes(self, run: Run) -> News:
        for id in [id for id, known in self.outcomes.items() if not known]:
            state = run.calls.get(id)
            if state is not None and state.phase is not DONE:
                continue
            text = output_text(state) if state is not None else None
            if state is None or text is None:
                del self.outcomes[id]
                continue
            self.outcomes[id] = True
            value = getattr(self._view(run).output_of(state), "output", text)
            yield e.RealtimeToolEnd(*self._call(state), value, self.info, _provider_id(state))
            sent = m.RealtimeModelSendItems([_output(state, text)], start_response=not _goes_on(state.turn))
            yield SendToModel(sent, call=id)

    def _tell_inputs(self, run: Run) -> News:
        if run.said == self._queued:
            return
        first, places = run.said - len(run.unheard), self.numbers.places()
        for number in range(self._queued, run.said):
            if number not in self.heard:
                place = places.get(number, number)
                fact = run.unheard[place - first] if place >= first else all_said(run)[place]
                items = _named([dict(item) for item in said_items(fact)], number)
                yield SendToModel(m.RealtimeModelSendItems(items, start_response=True))
        self._queued = run.said
        yield SendToModel(upto=run.said)

    def restore(self, offer: Offer, run: Run, past: Sequence[Item]) -> m.RealtimeModelSendItems | None:
        """Return the conversation so far, for a model that has nothing of it; None if there is none.

        From now on the model is told what is new.
        """
        self.offer, self.place = offer, run.agent
        self._queued = self.said = run.said
        news = [run.calls[id] for id in self.outcomes if id in run.calls and run.calls[id].phase is DONE]
        self.outcomes = {id: False for id, state in run.open.items() if type(state.turn.reply) is f.Replied}
        items = self._history(run, news, list(past))
        for item, (_, state) in zip(self._view(run).interruptions(), questions(run), strict=True):
            items.append({"role": "system", "content": _waits(state, item)})
        soon = any(_goes_on(state.turn) for state in run.open.values())
        start = bool(run.unheard) or (awaits_model(run) and not soon)
        return m.RealtimeModelSendItems(items, start_response=start) if items else None

    def _history(self, run: Run, news: list[CallState], items: list[Item]) -> list[Item]:
        """Return all items of the conversation, with the outcomes last that the model has not answered."""
        said = 0
        for entry in [*run.entries, *run.unheard]:
            if type(entry) is f.HandedOff and entry.history:
                items = items_in(entry.history)
            elif type(entry) is Turn:
                items += _turn_items(entry, news)
            elif type(entry) is f.Said:
                number = self.numbers.of(said)
                items += _named(said_items(entry), number, self.heard.get(number))
                said += 1
        items += [_output(state, text) for state in news if (text := output_text(state)) is not None]
        return [each for each in map(as_function, items) if each.get("type", "message") in SENT]

    def _view(self, run: Run) -> View:
        return View(run, self.graph, self.outputs)

    def _call(self, state: CallState) -> tuple[Any, Any, str]:
        """Return the agent, the tool and the arguments of a call, as events have them."""
        placed = self.graph.of(state)
        args = bytes(state.args).decode() if state.args else state.proposal.arguments
        return placed.agent, placed.tools.get(state.tool), args or ""


class InputNumbers:
    """The numbers of inputs: they are numbered as they come, and keep their numbers.

    A drive that begins again puts the inputs that others have stored meanwhile before those of this session that were
    not stored. So the place of an input in the run can differ from its number.
    """

    def __init__(self) -> None:
        self.run = Run()
        """The run as it was looked at last, before a restart replaces it."""
        self._numbers: list[int] = []
        """The numbers of the first inputs, by place; those of all others are their places."""

    def of(self, place: int) -> int:
        """Return the number of the input at a place."""
        return self._numbers[place] if place < len(self._numbers) else place

    def places(self) -> dict[int, int]:
        """Return the places by number, where they may differ."""
        return {number: place for place, number in enumerate(self._numbers)}

    def places_before(self, number: int, run: Run) -> int:
        """Return the number of inputs of the run, from the first on, whose numbers are all less than this."""
        if not self._numbers:
            return number
        return next((place for place in range(run.said) if self.of(place) >= number), run.said)

    def restart(self, run: Run) -> None:
        """Note the places of the inputs, because the drive has begun again with the stored facts, in their order."""
        before, self.run = all_said(self.run), run
        new, places = count(len(before)), input_order.places(before, all_said(run))
        self._numbers = [next(new) if was is None else self.of(was) for was in places]


def note_to_model(words: str) -> m.RealtimeModelSendItems:
    """Return a note of the system that the model answers."""
    return m.RealtimeModelSendItems([{"role": "system", "content": words}], start_response=True)


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
    inner = [state.child or Run() for state in turn.calls if state.phase not in (ASKED, DONE)]
    return any(next(questions(run), None) is None for run in inner)


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
