"""What a run looks like from outside: items, interruptions, responses, output. Derived, never stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.json import decode

from ..agent import Agent
from ..approval.question import item_of
from ..core import facts as f
from ..core.run import CallState, Run, Turn, questions
from ..core.transcript import Item, entry_items, output_item, output_text, reply_text, said_items
from ..item import (
    MessageOutputItem,
    OtherItem,
    Outcome,
    ReasoningItem,
    RunItem,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)
from ..models.model import ModelResponse

Outputs = dict[tuple[tuple[str, ...], str], Any]


class View:
    """A run, the agents behind its names, and the live outputs of its bodies."""

    __slots__ = ("agent", "outputs", "run")

    def __init__(self, run: Run, agent: Agent[Any] | str, outputs: Outputs) -> None:
        self.run = run
        self.agent = agent
        self.outputs = outputs

    @property
    def began(self) -> int:
        """When the run began, in milliseconds since 1970."""
        return self.run.began.at if self.run.began else 0

    def items(self) -> list[RunItem]:
        """Everything the run generated, and last what waits."""
        made = [item for entry in self.run.entries if type(entry) is Turn for item in self.turn_items(entry)]
        return made + list(self.interruptions())

    def turn_items(self, turn: Turn) -> Iterator[RunItem]:
        """One reply and its outputs."""
        if type(turn.reply) is f.Replied:
            yield from self.reply_items(turn.reply)
        for state in turn.calls:
            output = self.output_of((), state)
            if output is not None:
                yield output

    def reply_items(self, reply: f.Replied) -> Iterator[RunItem]:
        """The items of one reply."""
        for raw in decode(reply.items):
            yield _KINDS.get(raw.get("type", "message"), OtherItem)(self.agent, raw)

    def output_of(self, path: tuple[str, ...], state: CallState) -> ToolCallOutputItem | None:
        """What a call gave; None while it has no outcome."""
        text = output_text(state)
        if text is None or state.outcome is None:
            return None
        key = path, state.call.id
        value: Any = text
        if key in self.outputs:
            value = self.outputs[key]
        elif type(state.outcome) is f.Finished:
            value = decode(state.outcome.output)
        return ToolCallOutputItem(self.agent, output_item(state, text), value, outcome_of(state), state.tool)

    def interruptions(self) -> list[ToolApprovalItem]:
        """The open questions."""
        return [
            item_of(self.agent, self.began, path, state, state.question)
            for path, state in questions(self.run)
            if state.question
        ]

    def responses(self) -> list[ModelResponse]:
        """The model's replies."""
        replies = (entry.reply for entry in self.run.entries if type(entry) is Turn)
        return [
            ModelResponse(decode(reply.items), f.Usage(*reply.usage), reply.id)
            for reply in replies
            if type(reply) is f.Replied
        ]

    def input(self) -> str | list[Item]:
        """What the run was first given."""
        first = next((entry for entry in [*self.run.entries, *self.run.unheard] if type(entry) is f.Said), None)
        value: str | list[Item] = decode(first.items) if first is not None else []
        return value

    def input_list(self) -> list[Item]:
        """The talk as input for another run; a call without its output is left out."""
        heard = [item for entry in self.run.entries for item in entry_items(entry)]
        return heard + [item for said in self.run.unheard for item in said_items(said)]

    def output(self) -> Any:
        """The final output; None while there is none."""
        if self.run.concluded is None:
            return None
        last = next(e.reply for e in reversed(self.run.entries) if type(e) is Turn and type(e.reply) is f.Replied)
        return reply_text(last)


_KINDS: dict[str, type[RunItem]] = {
    "message": MessageOutputItem,
    "function_call": ToolCallItem,
    "reasoning": ReasoningItem,
}


def outcome_of(state: CallState) -> Outcome:
    """How a call ended, structured."""
    end = state.outcome
    if type(end) is f.Refused:
        return Outcome("rejected" if end.by != "runtime" else "refused", end.by, state.words or end.why)
    if type(end) is f.Finished:
        if end.asked is not None:
            return Outcome("responded", end.by)
        given = state.approval
        by = given.by if given else "runtime"
        if end.error is not None:
            return Outcome("failed", end.by, end.error, by)
        if state.edited:
            return Outcome("edited", by, given.why if given else None, by)
        return Outcome("finished", end.by, end.note, by)
    return Outcome("handed_off", "tool")
