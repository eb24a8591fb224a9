"""Views of a run for users: items, interruptions, responses, output. Derived from the run, never stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from ..approval.question import effective, item_of
from ..core import facts as f
from ..core.facts import decode
from ..core.run import NATIVE, CallState, Run, Turn, questions, usage_of
from ..core.transcript import (
    Item,
    drop_unanswered,
    entry_items,
    items_in,
    output_item,
    output_text,
    reply_text,
    said_items,
    text_or_items,
    unanswered,
    without,
    without_notes,
)
from ..definitions.agent import schema_of
from ..definitions.item import (
    CompactionItem,
    HandoffCallItem,
    HandoffOutputItem,
    MCPApprovalRequestItem,
    MCPApprovalResponseItem,
    MCPListToolsItem,
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
from .agent_graph import AgentGraph

K = TypeVar("K")
Path = tuple[str, ...]
Outputs = dict[tuple[Path, str], Any]

FINAL = "final output"
"""The key of a run's own output among the live outputs of its calls."""


class View:
    """A run or one of its branches, with its agents and the live outputs of its bodies."""

    __slots__ = ("graph", "outputs", "path", "root", "run")

    def __init__(self, root: Run, graph: AgentGraph | None, outputs: Outputs, path: Path = ()) -> None:
        self.root = root
        self.run = root.at(path) if path else root
        self.graph = graph
        self.outputs = outputs
        self.path = path

    @property
    def began(self) -> int:
        """The run's start, in milliseconds since 1970."""
        return self.root.began.at if self.root.began else 0

    def class_of(self, own: type[K]) -> type[K]:
        """Return the class that stands for one of Assentry's own in this run."""
        return self.graph.class_of(own) if self.graph is not None else own

    def agent(self, turn: Turn) -> Any:
        """Return the agent of a turn; its name if no agents are available."""
        if self.graph is not None:
            return self.graph.agent_at(turn.agent).agent
        return turn.definition.agent if turn.definition is not None else turn.agent

    def items(self) -> list[RunItem]:
        """Return the items that the run generated, with the open questions last."""
        made: list[RunItem] = []
        for entry in self.run.entries:
            if type(entry) is Turn:
                made += self.turn_items(entry)
            elif type(entry) is f.Said:
                made += self.handler_items(entry)
        return made + list(self.interruptions())

    def handler_items(self, said: f.Said) -> Iterator[RunItem]:
        """Yield the message that an error handler's output has put into the conversation, if this is one."""
        if said.by == f.ERROR_HANDLER:
            agent = self.graph.agent_at(self.run.agent).agent if self.graph is not None else self.run.agent
            yield from (MessageOutputItem(agent, raw) for raw in said_items(said))

    def turn_items(self, turn: Turn) -> Iterator[RunItem]:
        """Yield the items of one reply, and the outputs of its calls."""
        yield from self.reply_items(turn)
        for state in turn.calls:
            output = self.output_of(state)
            if output is not None:
                yield output

    def reply_items(self, turn: Turn) -> Iterator[RunItem]:
        """Yield the items of one reply."""
        if type(turn.reply) is not f.Replied:
            return
        agent = self.agent(turn)
        handoffs = {state.call.item for state in turn.calls if state.call.kind == "handoff"}
        for number, raw in enumerate(without_notes(items_in(turn.reply.items))):
            kind = HandoffCallItem if number in handoffs else _KINDS.get(raw.get("type", "message"), OtherItem)
            yield self.class_of(kind)(agent, raw)

    def output_of(self, state: CallState) -> ToolCallOutputItem | HandoffOutputItem | MCPApprovalResponseItem | None:
        """Return the output of a call; None while the call has no outcome."""
        text = output_text(state)
        end = state.outcome
        if text is None or end is None or state.call.kind in ("output", "hook"):
            return None
        agent, raw = self.agent(state.turn), output_item(state, text)
        if state.call.kind == "hosted":
            return self.class_of(MCPApprovalResponseItem)(agent, raw)
        if type(end) is f.HandedOff:
            to = self.graph.agent_at(end.to).agent if self.graph is not None else end.name or end.to
            return self.class_of(HandoffOutputItem)(agent, raw, agent, to)
        key = self.path, state.call.id
        value: Any = text
        if key in self.outputs:
            value = self.outputs[key]
        elif type(end) is f.Finished:
            value = decode(end.output)
        return self.class_of(ToolCallOutputItem)(agent, raw, value, outcome=outcome_of(state), tool_name=state.tool)

    def interruptions(self) -> list[ToolApprovalItem]:
        """Return the open questions."""
        return [
            self.question(path, state, state.question)
            for path, state in questions(self.run, self.path)
            if state.question
        ]

    def question(self, path: Path, state: CallState, asked: f.Asked) -> ToolApprovalItem:
        """Return a question as the item that users see."""
        return item_of(self.agent(state.turn), self.began, path, state, asked, self.class_of(ToolApprovalItem))

    def responses(self) -> list[ModelResponse]:
        """Return the model's replies."""
        replies = (entry.reply for entry in self.run.entries if type(entry) is Turn)
        kind = self.class_of(ModelResponse)
        return [
            kind(without_notes(items_in(reply.items)), usage_of(reply), reply.id)
            for reply in replies
            if type(reply) is f.Replied
        ]

    def input(self) -> str | list[Item]:
        """Return the run's first input."""
        return said_value([said for said in all_said(self.run) if said.by != "session"][:1])

    def input_list(self) -> list[Item]:
        """Return the conversation as input for another run; calls without an output are left out."""
        # A handoff's filtered history is no new part of the conversation.
        talk = (entry for entry in self.run.entries if type(entry) is not f.HandedOff)
        heard = [item for entry in talk for item in entry_items(entry)]
        return drop_unanswered(heard + [item for said in self.run.unheard for item in said_items(said)])

    def filtered_list(self, *, as_heard: bool) -> tuple[list[Item], list[Item]]:
        """Return the input and the generated items as input for another run, as input filters of handoffs left them.

        With `as_heard`, items of earlier turns that a filter left out are left out; else only its choice of the input
        and of the handoff's own turn counts.
        """
        given: list[Item] = []
        made: list[Item] = []
        last = 0
        for entry in self.run.entries:
            items = entry_items(entry)
            if type(entry) is f.HandedOff and entry.history:
                first, since = (len(items), len(items)) if entry.split is None else entry.split
                given, made = items[:first], items[first:] if as_heard else made[:last] + items[since:]
            elif type(entry) is Turn:
                last = len(made)
                made += items
            elif type(entry) is f.Said and not made:
                given += items
            else:
                made += items
        made += [item for said in self.run.unheard for item in said_items(said)]
        out = unanswered(given + made)
        return [item for n, item in enumerate(given) if n not in out], without(made, {n - len(given) for n in out})

    def output(self) -> Any:
        """Return the final output; None while there is none."""
        done = self.run.concluded
        if done is None:
            return None
        shape = schema_of(self.graph.agent_at(self.run.agent).agent) if self.graph is not None else None
        if done.call is not None:
            value = effective(self.run.calls[done.call])["output"]
            return value if shape is None else shape.load(value)
        if shape is not None and done.output:
            return shape.load(done.output)
        if done.source is not None or done.output:
            key = self.path, done.source or FINAL
            if key in self.outputs:
                return self.outputs[key]
            end = self.run.calls[done.source].outcome if done.source is not None else None
            return decode(end.output if type(end) is f.Finished else done.output)
        text = reply_text(last_reply(self.run))
        return text if shape is None else shape.parse(text)


_KINDS: dict[str, type[RunItem]] = {
    "message": MessageOutputItem,
    "function_call": ToolCallItem,
    **dict.fromkeys(NATIVE, ToolCallItem),
    **dict.fromkeys(
        (
            "code_interpreter_call",
            "computer_call",
            "custom_tool_call",
            "file_search_call",
            "image_generation_call",
            "local_shell_call",
            "mcp_call",
            "program",
            "web_search_call",
        ),
        ToolCallItem,
    ),
    "compaction": CompactionItem,
    "reasoning": ReasoningItem,
    "mcp_list_tools": MCPListToolsItem,
    "mcp_approval_request": MCPApprovalRequestItem,
    "mcp_approval_response": MCPApprovalResponseItem,
}


def all_said(run: Run) -> list[f.Said]:
    """Return every input of a run, in order."""
    return [entry for entry in run.entries if type(entry) is f.Said] + run.unheard


def said_value(said: list[f.Said]) -> str | list[Item]:
    """Return inputs as one value: a single text as text, anything else as items."""
    if len(said) == 1:
        value = text_or_items(said[0])
        return value if isinstance(value, str) else without_notes(value)
    return [item for each in said for item in said_items(each)]


def last_reply(run: Run) -> f.Replied:
    """Return the model's last reply."""
    return next(e.reply for e in reversed(run.entries) if type(e) is Turn and type(e.reply) is f.Replied)


def outcome_of(state: CallState) -> Outcome:
    """Return the outcome of a call as structured data."""
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
