"""The items that a run shows to its user, each with the agent that the item belongs to.

Items are views of the journal. Making them from facts does not belong here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ..core.facts import QuestionKind, Risk, Verdict
from ..core.transcript import content_text
from ..models.delta import RawItem
from .preview import Preview

ViewClasses = Mapping[type[Any], type[Any]]
"""The classes that stand for Assentry's own classes of items, replies, results and states."""


class RunItem(Struct):
    """An item that a run generated."""

    agent: Any
    """The agent, or its name after `release_agents()`."""
    raw_item: Any
    """The provider's item, a `RawItem`: a dict of your own whose keys can be read as attributes too."""

    def __post_init__(self) -> None:
        if type(self.raw_item) is not RawItem:
            self.raw_item = RawItem(self.raw_item)

    @property
    def agent_name(self) -> str:
        """The agent's name, also after `release_agents()`."""
        return self.agent if type(self.agent) is str else self.agent.name

    def to_input_item(self) -> dict[str, Any]:
        """Return the item as input for another run."""
        return dict(self.raw_item)

    def release_agent(self) -> None:
        """Replace the agent by its name, so that the agent can be freed."""
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
    """An item of a provider that Assentry has no name for."""

    type: Literal["other_item"] = "other_item"


class CompactionItem(RunItem):
    """A provider's short form of the conversation before it."""

    type: Literal["compaction_item"] = "compaction_item"


class ToolCallItem(RunItem):
    """A call that the model proposed, or a call of a tool that the provider ran itself."""

    type: Literal["tool_call_item"] = "tool_call_item"

    @property
    def tool_name(self) -> str:
        """The tool's name; the kind of a call that the provider has its own form for, such as "web_search"."""
        return str(self.raw_item.get("name") or str(self.raw_item.get("type")).removesuffix("_call"))

    @property
    def call_id(self) -> str | None:
        """The provider's id of the call."""
        given: str | None = self.raw_item.get("call_id") or self.raw_item.get("id")
        return given


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
        given: str | None = self.raw_item.get("call_id")
        return given


class HandoffOutputItem(RunItem):
    """The output of a handoff from one agent to another; `agent` is the agent that handed over."""

    source_agent: Any
    """The agent that handed over, or its name after `release_agents()`."""
    target_agent: Any
    """The agent that took over, or its name after `release_agents()`."""
    type: Literal["handoff_output_item"] = "handoff_output_item"

    def release_agent(self) -> None:
        """Replace the agents by their names, so that the agents can be freed."""
        self.agent = self.agent_name
        for side in ("source_agent", "target_agent"):
            agent = getattr(self, side)
            setattr(self, side, agent if type(agent) is str else agent.name)


class MCPListToolsItem(RunItem):
    """The tools of an MCP server that the provider itself calls."""

    type: Literal["mcp_list_tools_item"] = "mcp_list_tools_item"


class MCPApprovalRequestItem(RunItem):
    """A provider's request to call a tool of an MCP server."""

    type: Literal["mcp_approval_request_item"] = "mcp_approval_request_item"


class MCPApprovalResponseItem(RunItem):
    """The answer to a provider's `MCPApprovalRequestItem`."""

    type: Literal["mcp_approval_response_item"] = "mcp_approval_response_item"


class Outcome(Struct, frozen=True):
    """The end of a call: its status, its author, and the reason."""

    status: Literal["finished", "failed", "edited", "rejected", "refused", "responded", "handed_off"]
    by: str
    """The author of the outcome: "tool", or the name of whoever decided."""
    reason: str | None = None
    approved_by: str | None = None
    """The author of the approval: "rule", "rule:its_name", "grant:its_id", "code:its_name", or a person."""


class ToolCallOutputItem(RunItem):
    """The output of a call."""

    output: Any
    """The Python object in the process that ran the tool; its JSON form after a reload."""
    outcome: Outcome
    tool_name: str
    type: Literal["tool_call_output_item"] = "tool_call_output_item"

    @property
    def call_id(self) -> str | None:
        """The provider's id of the call."""
        given: str | None = self.raw_item.get("call_id")
        return given


class Evidence(Struct, frozen=True):
    """The result of an attempt that came after the run had continued without the result."""

    attempt: int
    output: Any
    at: int
    """The time when the result came, in milliseconds since 1970."""


class ToolApprovalItem(RunItem, eq=False):
    """A question: a call that waits for a person. Two items are equal if they are the same question."""

    id: str
    """The question's own id, unique over all runs."""
    digest: str
    """The digest of the action that is shown. A decision is bound to this digest."""
    tool_name: str
    arguments: str
    """The canonical arguments as JSON text; the model's own text if it cannot be parsed."""
    call_id: str | None
    """The provider's id of the call."""
    reason: str
    """The reason for the question."""
    allowed: tuple[Verdict, ...]
    """The decisions that fit the question."""
    kind: QuestionKind = "approval"
    path: tuple[str, ...] = ()
    """The ids of the agent calls that the question is under, outermost first."""
    question: Any = None
    """The question of a tool's body or of code around the model, or the tool's description of the call; else None."""
    schema: dict[str, Any] | None = None
    """The JSON schema of the answer; None if there is no schema."""
    at: int = 0
    """The time of the question, in milliseconds since 1970."""
    until: int | None = None
    """The time when the call is rejected if nobody has decided, in milliseconds since 1970."""
    due: int | None = None
    """The time from which the question is overdue, in milliseconds since 1970. An overdue question stays open."""
    evidence: tuple[Evidence, ...] = ()
    """Results of the call that came too late to count."""
    replaces: str | None = None
    """The id of the earlier question that this question replaces, if any."""
    reviewers: tuple[str, ...] = ()
    """The users, and the groups as "group:name", who may decide; empty if anybody may."""
    redact: tuple[str, ...] = ()
    """The arguments to mask wherever nobody decides: in lists, messages and logs."""
    preview: Preview | None = None
    """The call's effect, as the tool's own side says; None if the tool has no preview."""
    risk: Risk | None = None
    """The risk of the call, as its tool or its rule says; None if neither says any."""
    type: Literal["tool_approval_item"] = "tool_approval_item"

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolApprovalItem) and other.id == self.id and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.id)
