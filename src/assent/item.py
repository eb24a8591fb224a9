"""What a run shows of itself to its user: items, each with the agent it belongs to."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .core.facts import QuestionKind, Verdict
from .core.transcript import content_text


class RunItem(Struct):
    """Something that a run generated."""

    agent: Any
    """The agent, or its name after `release_agents()`."""
    raw_item: dict[str, Any]
    """The provider's item, a plain dict of your own."""

    @property
    def agent_name(self) -> str:
        """The name of the agent, whether it is still held or not."""
        return self.agent if type(self.agent) is str else self.agent.name

    def to_input_item(self) -> dict[str, Any]:
        """The item as input for another run."""
        return self.raw_item

    def release_agent(self) -> None:
        """Keep the agent's name, and let go of the agent."""
        self.agent = self.agent_name


class MessageOutputItem(RunItem):
    """A message of the model."""

    type: Literal["message_output_item"] = "message_output_item"

    @property
    def text(self) -> str:
        """The message's text."""
        return content_text(self.raw_item.get("content"))


class ReasoningItem(RunItem):
    """The model's reasoning."""

    type: Literal["reasoning_item"] = "reasoning_item"


class OtherItem(RunItem):
    """Something a provider sent that Assent has no name for."""

    type: Literal["other_item"] = "other_item"


class ToolCallItem(RunItem):
    """A call that the model proposed."""

    type: Literal["tool_call_item"] = "tool_call_item"

    @property
    def tool_name(self) -> str:
        """The tool's name."""
        return str(self.raw_item.get("name", ""))

    @property
    def call_id(self) -> str | None:
        """The provider's id of the call."""
        return self.raw_item.get("call_id")


class HandoffCallItem(RunItem):
    """A call by which the model hands over to another agent."""

    type: Literal["handoff_call_item"] = "handoff_call_item"

    @property
    def tool_name(self) -> str:
        """The handoff's name as a tool."""
        return str(self.raw_item.get("name", ""))

    @property
    def call_id(self) -> str | None:
        """The provider's id of the call."""
        return self.raw_item.get("call_id")


class HandoffOutputItem(RunItem):
    """One agent has handed over to another; `agent` is the one that did."""

    source_agent: Any
    """The agent that handed over, or its name after `release_agents()`."""
    target_agent: Any
    """The agent that took over, or its name after `release_agents()`."""
    type: Literal["handoff_output_item"] = "handoff_output_item"

    def release_agent(self) -> None:
        """Keep the agents' names, and let go of the agents."""
        self.agent = self.agent_name
        for side in ("source_agent", "target_agent"):
            agent = getattr(self, side)
            setattr(self, side, agent if type(agent) is str else agent.name)


class MCPListToolsItem(RunItem):
    """The tools of a server that the provider talks to itself."""

    type: Literal["mcp_list_tools_item"] = "mcp_list_tools_item"


class MCPApprovalRequestItem(RunItem):
    """The provider asks whether it may call a tool of such a server."""

    type: Literal["mcp_approval_request_item"] = "mcp_approval_request_item"


class MCPApprovalResponseItem(RunItem):
    """What the provider was answered."""

    type: Literal["mcp_approval_response_item"] = "mcp_approval_response_item"


class Outcome(Struct, frozen=True):
    """How a call ended, who saw to it, and why."""

    status: Literal["finished", "failed", "edited", "rejected", "refused", "responded", "handed_off"]
    by: str
    """Who saw to it: "tool", or whoever decided."""
    reason: str | None = None
    approved_by: str | None = None
    """Who let it run: "rule", "rule:its_name", "grant:its_id", "code:its_name", or a person."""


class ToolCallOutputItem(RunItem):
    """What a call gave."""

    output: Any
    """The Python object in the process that ran the tool; its JSON form after a reload."""
    outcome: Outcome
    tool_name: str
    type: Literal["tool_call_output_item"] = "tool_call_output_item"

    @property
    def call_id(self) -> str | None:
        """The provider's id of the call."""
        return self.raw_item.get("call_id")


class Evidence(Struct, frozen=True):
    """A result of an attempt that came after the run had gone on without it."""

    attempt: int
    output: Any
    at: int
    """When it came, in milliseconds since 1970."""


class ToolApprovalItem(RunItem, eq=False):
    """A call that waits for a person: a question. Two items are equal if they are the same question."""

    id: str
    """The question's own id, unique over all runs."""
    digest: str
    """Of what is shown here; a decision is bound to it."""
    tool_name: str
    arguments: str
    """The canonical arguments as JSON text; what the model wrote, if that cannot be parsed."""
    call_id: str | None
    """The provider's id of the call."""
    reason: str
    """Why a person is asked."""
    allowed: tuple[Verdict, ...]
    """The decisions that fit."""
    kind: QuestionKind = "approval"
    path: tuple[str, ...] = ()
    """The agent calls this is under, outermost first."""
    question: Any = None
    """What a tool's body asks, for a question of kind "input"."""
    schema: dict[str, Any] | None = None
    """The JSON schema of the answer, for a question of kind "input"."""
    at: int = 0
    """When it was asked, in milliseconds since 1970."""
    until: int | None = None
    """When it is rejected if nobody has decided, in milliseconds since 1970."""
    due: int | None = None
    """When it is overdue, in milliseconds since 1970; it goes on waiting."""
    evidence: tuple[Evidence, ...] = ()
    """Results of the call that came too late to count."""
    replaces: str | None = None
    """The id of the question before, if this one is asked in its place."""
    type: Literal["tool_approval_item"] = "tool_approval_item"

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool_name

    def __eq__(self, other: object) -> bool:
        return type(other) is ToolApprovalItem and other.id == self.id and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.id)
