"""Forks: a new run on a thread that goes on from an earlier point, or from the present one with other messages.

A fork begins with the conversation up to its point: what calls had given by then is kept. Calls without an outcome are
copied as the reply that proposed them, so that the gate judges them anew. No question, approval or grant is copied.
The run that the thread had before is closed first, unless it is over: a thread has one run that can go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..core import facts as f
from ..core.fold import fold
from ..core.rules import ASKED, RUNNING
from ..core.run import ENDED, CallState, Run, Turn
from ..core.transcript import NOTE, Item, as_function, provider_id
from ..core.wording import described
from ..errors import Conflict, InvalidInput, Overtaken, RunBusy, UsageError
from ..ids import new_id
from ..runtime.agent_graph import AgentGraph
from ..runtime.session_sync import accepted_items
from ..runtime.value import input_json, output_json
from ..store.projection import Projection
from ..store.record import Stored
from ..store.rules import is_driven
from ..store.store import Store
from .history import ThreadHistory, no_point
from .message import REMOVE_ALL_MESSAGES, AIMessage, Message, RemoveMessage, ToolMessage
from .message_items import alike, as_list, given_message, items_of, messages_from
from .snapshot import END, START, ThreadPoint, next_steps, opening_facts
from .state import State
from .stream import GATE
from .threaded_agent import ThreadedAgent
from .view import items_by_message, view_of

HOLD = 10.0
"""The seconds that the lease of a run is held to close the run."""
NODES = {"model": "model", GATE: "model", "tools": START, START: START, END: END}
"""The step in whose place an update is made, by the names that `as_node` may have."""


class ForkPoint(NamedTuple):
    """The point to fork from, as read."""

    stored: Stored
    point: ThreadPoint
    before: list[Run]
    run: Run
    """The run up to the point; without any fact before its input."""

    @property
    def name(self) -> str:
        """The point as `Began.forked` names it."""
        return f"{self.stored.record.id}@{self.point.facts}"

    @property
    def is_end(self) -> bool:
        """True if the whole run is before the point, and is over."""
        return self.point.facts == self.stored.record.seq and self.stored.record.status in ENDED


async def read_point(history: ThreadHistory, point: ThreadPoint, *, input: bool) -> ForkPoint:
    """Read a point to fork from. With `input`, a point before a run's input stays without that input."""
    stored = await history.stored(point.run)
    if stored is None or point.facts > len(stored.facts):
        raise no_point(history.thread, point)
    if point.facts == 0 and not input:
        point = point._replace(facts=opening_facts(stored.facts))
    run = Run()
    for fact in stored.facts[: point.facts]:
        fold(run, fact)
    began = stored.facts[0]
    assert isinstance(began, f.Began)
    return ForkPoint(stored, point, await history.runs_before(began.follows), run)


# -- the conversation of a fork ---------------------------------------------------------------------


class ForkDraft:
    """The beginning of a fork: the run that it follows, and its own messages and updates."""

    def __init__(self, agent: ThreadedAgent, at: ForkPoint | None) -> None:
        self.agent, self.at = agent, at
        self.after_hooks = False
        """True if the program says that its messages stand as they are after the `after_model` hooks."""
        self.runs = [*at.before, at.run] if at is not None else []
        whole = view_of(self.runs)
        self._whole, self._edited = whole, whole.edited
        self._known = list(whole.messages)
        self.messages = list(whole.messages)
        self._open: set[str] = set()
        """The provider's ids of the calls that have no outcome at the point."""
        if at is not None and at.run.closed is None:
            _check_untouched(at.run)
            self._open = {provider_id(state) for state in at.run.open.values() if state.call.kind != "hook"}

    def _earlier(self) -> tuple[str | None, list[Run]]:
        """Return the run to follow, and the runs that are heard by following it."""
        if self.at is None or self._edited:
            return None, []
        if self.at.is_end:
            return self.at.stored.record.id, self.runs
        began = self.at.stored.facts[0]
        return (began.follows if isinstance(began, f.Began) else None), self.at.before

    # -- changes -----------------------------------------------------------------------------------

    def put(self, given: Any) -> None:
        """Add messages, replace those with a known id, and remove those that a `RemoveMessage` names."""
        added = [given_message(each) for each in as_list(given)]
        cleared = [n for n, each in enumerate(added) if _removes_all(each)]
        if cleared:
            self.messages, added = [], added[cleared[-1] + 1 :]
        self._check_results(added)
        for new in added:
            _check_calls(new)
            places = [n for n, each in enumerate(self.messages) if new.id is not None and each.id == new.id]
            if type(new) is RemoveMessage:
                if not places:
                    raise InvalidInput(f"A RemoveMessage names the message {new.id!r}, which the thread does not have.")
                del self.messages[places[0]]
            elif places:
                old = self.messages[places[0]]
                self.messages[places[0]] = old if alike(old, new) and _as_said(old, new) else new
            else:
                self.messages.append(new)
        self._check_pairs()

    def _check_results(self, added: Sequence[Message]) -> None:
        """Refuse the result of a call that has no outcome: only its tool, or a person who is asked, gives one."""
        without = _unanswered(self._known)
        for each in added:
            if isinstance(each, ToolMessage) and each.tool_call_id in without:
                raise UsageError(
                    f"The call {each.tool_call_id!r} of {without[each.tool_call_id]!r} has no outcome, and an update "
                    'gives none in the place of its tool. Answer with Command(resume={"decisions": [{"type": '
                    '"respond", "message": ...}]}) if the thread waits for it and allows that; or replace the '
                    "AIMessage by one without the call."
                )

    def _check_pairs(self) -> None:
        last = next((each for each in reversed(self.messages) if isinstance(each, AIMessage)), None)
        new = _unanswered(self.messages).keys() - _unanswered(self._known).keys() - set(_call_ids(last))
        if new or _orphans(self.messages) - _orphans(self._known):
            raise InvalidInput(
                "Each call among the messages needs its ToolMessage after it, and each ToolMessage its call; remove "
                "or give both."
            )

    def drop_calls(self) -> None:
        """Leave out the calls of the last message that have no outcome."""
        if (place := self._reply_place()) is not None:
            said = self.messages[place]
            assert isinstance(said, AIMessage)
            open_ = _unanswered(self.messages)
            kept = [call for call in said.tool_calls if call.get("id") not in open_]
            left = [replace(said, tool_calls=kept, invalid_tool_calls=[])] if kept or said.content else []
            self.messages[place : place + 1] = left

    @property
    def calls(self) -> list[str]:
        """The tools of the calls that are to be judged anew."""
        place = self._reply_place()
        open_ = _unanswered(self.messages)
        return [open_[id] for id in _call_ids(self.messages[place]) if id in open_] if place is not None else []

    def _reply_place(self) -> int | None:
        """Return the place of the last message of the model if it has calls without an outcome; else None.

        Calls that were given up when their run was closed are not judged again.
        """
        for place in range(len(self.messages) - 1, -1, -1):
            if isinstance(said := self.messages[place], AIMessage):
                is_new = not any(said is each for each in self._known)
                asked = set(_call_ids(said)) if is_new else self._open & set(_call_ids(said))
                return place if asked & _unanswered(self.messages).keys() else None
        return None

    # -- facts -------------------------------------------------------------------------------------

    def facts(self, values: State) -> tuple[str | None, list[f.AnyFact]]:
        """Return the run to follow, and the facts after `Began`; `values` are further updates of keys, as JSON."""
        follows, heard = self._earlier()
        base = view_of(heard)
        if [id(each) for each in self.messages[: len(base.messages)]] != [
            id(each) for each in self._known[: len(base.messages)]
        ]:
            follows, heard, base = None, [], view_of([])
        own = self.messages[len(base.messages) :]
        updates = [*self._whole.updates[len(base.updates) :], *([values] if values else [])]
        raw = self._recorded(items_by_message(self.runs[len(heard) :]))
        place = self._reply_place()
        cut = len(own) if place is None else place - len(base.messages)
        update = output_json(updates)[0] if updates else f.NOTHING
        items = accepted_items([item for each in own[:cut] for item in _kept(each, raw)])
        made: list[f.AnyFact] = [f.Said(input_json(items), update=update)]
        if cut < len(own):
            made += self._reply_facts(own[cut:], raw)
        return follows, made

    def _recorded(self, raw: Mapping[str, list[Item]]) -> dict[str, list[Item]]:
        """Return the recorded items of the messages that are as they were recorded."""
        unchanged = {id(each) for each in self._known}
        return {
            name: items
            for each in self.messages
            if id(each) in unchanged and (items := raw.get(name := each.id or "")) is not None
            if not self._edited or _is_recorded(each, items)
        }

    def _reply_facts(self, messages: Sequence[Message], raw: Mapping[str, list[Item]]) -> list[f.AnyFact]:
        """Return the reply with the calls to judge anew, and the messages that came after it."""
        said, rest = messages[0], list(messages[1:])
        mine = [each for each in rest if isinstance(each, ToolMessage) and each.tool_call_id in _call_ids(said)]
        later = [each for each in rest if not any(each is one for one in mine)]
        items = _kept(said, raw)
        answered = {each.tool_call_id for each in mine}
        known = {provider_id(state): state for state in self._last_calls()}
        placed = AgentGraph(self.agent).agent_at(self.agent.name)
        calls: list[f.Call] = []
        for number, item in enumerate(items):
            plain = as_function(item)
            if plain.get("type") != "function_call" or plain.get("call_id") in answered:
                continue
            name = plain.get("name") or ""
            old, tool = known.get(plain.get("call_id") or ""), placed.tools.get(name)
            id = f"c{len(calls) + 1}"
            if old is not None and old.call.tool == name:
                calls.append(f.Call(id, name, number, old.call.kind, old.call.definition))
            elif tool is None:
                calls.append(f.Call(id, name, number))
            else:
                calls.append(f.Call(id, name, number, tool.kind, tool.fingerprint))
        items += [item for each in mine for item in _kept(each, raw)]
        more = [item for each in later for item in _kept(each, raw)]
        is_known = any(said is each for each in self._known)
        if not is_known and not self.after_hooks and has_after_hooks(self.agent):
            raise UsageError(
                f"The calls of {', '.join(self.calls)} would be due without the agent's after_model hooks, which look "
                f"at what the model says. If they need not look at these calls, use update_state(as_node={GATE!r})."
            )
        reply = f.Replied(output_json(items)[0], calls=tuple(calls), note=f.COPIED_REPLY if is_known else f.GIVEN_REPLY)
        return [self._definition(), reply, *([f.Said(input_json(more))] if more else [])]

    def _last_calls(self) -> list[CallState]:
        return list(self.at.run.calls.values()) if self.at is not None else []

    def _definition(self) -> f.Defined:
        """Return the agent's definition when the reply was made, with its tools' marks; the present one if unknown."""
        run = self.at.run if self.at is not None else Run()
        turns = [entry for entry in run.entries if type(entry) is Turn and entry.definition is not None]
        was = turns[-1].definition if turns else None
        if was is None:
            return AgentGraph(self.agent).agent_at(self.agent.name).definition_fact()
        return replace(was, tools=was.tools or run.marks.get(was.digest, {}), at=0)


def has_after_hooks(agent: ThreadedAgent) -> bool:
    """Return True if the agent's middleware looks at each reply of the model before its calls are due."""
    hooks = getattr(agent.model, "hooks", None)
    return bool(hooks and hooks["after_model"])


def _removes_all(message: Message) -> bool:
    return type(message) is RemoveMessage and message.id == REMOVE_ALL_MESSAGES


def _as_said(one: Message, other: Message) -> bool:
    """Return True if two messages also agree in what only the program reads."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("name", "additional_kwargs", "response_metadata")
        if type(one) is type(other)
    )


def _call_ids(message: Message | None) -> list[str]:
    calls = [*message.tool_calls, *message.invalid_tool_calls] if isinstance(message, AIMessage) else []
    return [call["id"] for call in calls if call.get("id")]


def _check_calls(message: Message) -> None:
    """Raise `InvalidInput` unless each call of a message has an id of its own: its result is found by that."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    if len({call.get("id") for call in calls if call.get("id")}) < len(calls):
        raise InvalidInput("Each call of an AIMessage needs an id, and no two calls the same.")


def _unanswered(messages: Sequence[Message]) -> dict[str, str]:
    """Return the calls that have no ToolMessage after them: their ids, and their tools."""
    open_: dict[str, str] = {}
    for each in messages:
        if isinstance(each, AIMessage):
            calls = [*each.tool_calls, *each.invalid_tool_calls]
            open_ |= {call["id"]: str(call.get("name")) for call in calls if call.get("id")}
        elif isinstance(each, ToolMessage):
            open_.pop(each.tool_call_id, None)
    return open_


def _orphans(messages: Sequence[Message]) -> set[str]:
    """Return the ids that ToolMessages name and that no call before them has open."""
    open_: set[str] = set()
    out: set[str] = set()
    for each in messages:
        if isinstance(each, ToolMessage):
            out |= {each.tool_call_id} - open_
            open_.discard(each.tool_call_id)
        open_.update(_call_ids(each))
    return out


def _is_recorded(message: Message, items: list[Item]) -> bool:
    """Return True if these items are the message's."""
    was = messages_from(items, message.id or "")
    return len(was) == 1 and type(was[0]) is type(message) and alike(was[0], message)


def _kept(message: Message, raw: Mapping[str, list[Item]]) -> list[Item]:
    """Return a message as items that keep its id and fields; as the provider gave them, if it is unchanged."""
    made = items_of(message)
    note = {**({"id": message.id} if message.id else {}), **(made[0].get(NOTE) or {} if made else {})}
    items = raw.get(message.id or "") or made
    if not items:
        return []
    first = {key: value for key, value in items[0].items() if key != NOTE}
    return [{**first, NOTE: note} if note else first, *items[1:]]


# -- the runs that are left ---------------------------------------------------------------------------


def _check_untouched(run: Run) -> None:
    """Raise `Conflict` if a call without an outcome has done something: judged anew, it would be done twice."""
    for state in run.open.values():
        if state.call.kind == "hook":
            continue
        if _is_in_doubt(state) or state.steps or _has_worked(state.child):
            raise Conflict(
                f"A call of {state.tool!r} has begun and has no outcome, so it cannot be judged anew: it might do the "
                "same twice. Answer what it asks, or go on with invoke(None, config); or choose an earlier checkpoint."
            )


def _is_in_doubt(state: CallState) -> bool:
    asks = state.question.kind if state.phase is ASKED and state.question is not None else None
    return state.phase is RUNNING or asks == "doubt"


def _has_worked(run: Run | None) -> bool:
    """Return True if a nested agent has had a call that began."""
    return run is not None and any(state.attempt or _has_worked(state.child) for state in run.calls.values())


async def close_newest(store: Store, stored: Stored, why: str) -> None:
    """Close a thread's newest run, unless it is over. Its questions are withdrawn, and nothing of it runs any more.

    Raises `RunBusy` while somebody drives it, `Overtaken` if it has changed since it was read, and `Conflict` if it
    has a call whose outcome is not known.
    """
    record = stored.record
    if record.status in ENDED or record.erased is not None:
        return
    if is_driven(record.worker, record.until, int(store.clock() * 1000)):
        raise RunBusy(f"Thread {record.thread!r} is being worked on; wait until that is done, and try again.")
    run = stored.run()
    doubtful = _first_in_doubt(run)
    if doubtful is not None:
        raise Conflict(
            f"Thread {record.thread!r} has a call of {doubtful!r} that has begun, and nobody knows how it ended. Go on "
            "with invoke(None, config), and settle that first."
        )
    assert run.began is not None
    try:
        lease = await store.take(record.id, new_id("w"), seq=record.seq, hold=HOLD)
        fact = f.Closed(why, at=max(0, int(store.clock() * 1000) - run.began.at))
        projection = Projection()
        fold(run, fact)
        projection.note(run, fact)
        change = projection.change(run, record.seq, [fact], store.clock())
        change.lease, change.release = lease, True
        try:
            await store.append(change)
        except BaseException:
            await store.release(lease)
            raise
    except Overtaken:
        raise Overtaken(
            f"Thread {record.thread!r} has changed at the same moment: somebody has decided, or said something. "
            "Nothing was recorded. Look at the thread, and try again."
        ) from None


def _first_in_doubt(run: Run) -> str | None:
    for state in run.open.values():
        if state.call.kind != "hook" and _is_in_doubt(state):
            return state.tool
        inside = _first_in_doubt(state.child) if state.child is not None else None
        if inside is not None:
            return inside
    return None


# -- updates ------------------------------------------------------------------------------------------


def updated_step(as_node: Any, at: ForkPoint | None) -> str:
    """Return the step in whose place an update is made: "model", `START` or `END`."""
    if as_node is not None:
        if not isinstance(as_node, str) or as_node not in NODES:
            known = ", ".join(f'"{name}"' for name in NODES)
            raise UsageError(f"as_node is one of {known}, or None; got {described(as_node)}.")
        return NODES[as_node]
    if at is None or at.point.facts == 0:
        return START
    return START if next_steps(at.run) == ("model",) else "model"


def ending_facts(draft: ForkDraft, step: str) -> f.AnyFact:
    """Return the last fact of an updated run: nothing of it is owed until somebody goes on, or ever."""
    if step == START and draft.calls:
        raise UsageError(
            f"The calls of {', '.join(draft.calls)} have no outcome, so the model cannot be next. Leave as_node out, "
            "and they are judged anew; or replace the AIMessage by one without them."
        )
    if step == START or (step == "model" and draft.calls):
        return f.Cancelled("update_state", "The state was updated; it waits until somebody goes on.")
    return f.Closed("The state was updated, and nothing is due.")
