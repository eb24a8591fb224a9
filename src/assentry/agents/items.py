"""The names of `agents.items`."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import field
from msgspec.json import encode

from ..core.digest import BadJSON, canonical, parse_object
from ..core.run import NATIVE
from ..core.transcript import value_text
from ..definitions import item as own
from ..definitions.agent import Agent, toolbox_of
from ..definitions.agent_tool import AgentTool
from ..definitions.content import tool_output_parts
from ..definitions.function_tool import FunctionTool
from ..definitions.tool import Tool
from ..errors import UsageError
from ..models.model import ModelResponse as OwnResponse
from ..runtime.value import output_json
from .absent import find_absent
from .tool import ToolOrigin, ToolOriginType
from .typed_item import plain_item, typed_item
from .usage import Usage

if TYPE_CHECKING:
    from openai.types.responses import Response, ResponseInputItemParam, ResponseOutputItem, ResponseStreamEvent

    TResponse: TypeAlias = Response
    TResponseInputItem: TypeAlias = ResponseInputItemParam
    TResponseOutputItem: TypeAlias = ResponseOutputItem
    TResponseStreamEvent: TypeAlias = ResponseStreamEvent
else:  # the client is imported only for its objects
    TResponse = TResponseOutputItem = TResponseStreamEvent = Any
    TResponseInputItem = dict[str, Any]

__all__ = [
    "CompactionItem",
    "HandoffCallItem",
    "HandoffOutputItem",
    "InputItem",
    "ItemHelpers",
    "MCPApprovalRequestItem",
    "MCPApprovalResponseItem",
    "MCPListToolsItem",
    "MessageOutputItem",
    "ModelResponse",
    "ReasoningItem",
    "RunItem",
    "RunItemBase",
    "TResponse",
    "TResponseInputItem",
    "TResponseOutputItem",
    "TResponseStreamEvent",
    "ToolApprovalItem",
    "ToolCallItem",
    "ToolCallItemTypes",
    "ToolCallOutputItem",
    "ToolCallOutputTypes",
]

RunItemBase = own.RunItem
ToolCallItemTypes = Any
ToolCallOutputTypes = Any


class ClientItem:
    """An item whose `raw_item` is an object of OpenAI's client, made when it is first read."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __post_init__(self) -> None:
            """Leave the provider's item as it is until it is read."""

        @property
        def raw_item(self) -> Any:
            """The provider's item, as an object of OpenAI's client; a `RawItem` if the client is not installed."""
            held = _raw_item.__get__(self)
            if type(held) is dict:
                held = typed_item(held)
                _raw_item.__set__(self, held)
            return held

        @raw_item.setter
        def raw_item(self, value: Any) -> None:
            _raw_item.__set__(self, value)

    def to_input_item(self) -> Any:
        """Return the item as input for a model, a dict."""
        return plain_item(_raw_item.__get__(self))


class ToolItem:
    """An item of a call that knows its tool, as long as its agent has the tool."""

    __slots__ = ()

    @property
    def tool_origin(self) -> ToolOrigin | None:
        """The thing that the tool comes from: a function, an MCP server, or an agent."""
        item: Any = self
        return origin_of(tool_of(item.agent, item.tool_name), _raw_item.__get__(self))


class MessageOutputItem(ClientItem, own.MessageOutputItem):
    """A message of the model."""

    @property
    def text(self) -> str:
        """The message's text."""
        return ItemHelpers.text_message_output(self)


class ReasoningItem(ClientItem, own.ReasoningItem):
    """The model's reasoning."""


class ToolCallItem(ToolItem, ClientItem, own.ToolCallItem):
    """A call that the model proposed, or a call of a tool that the provider ran itself."""

    @property
    def description(self) -> str | None:
        """The tool's description, if the agent has the tool."""
        tool = tool_of(self.agent, self.tool_name)
        return tool.description if tool is not None else None

    @property
    def title(self) -> str | None:
        """The tool's title, if it is one of an MCP server that gives it one."""
        title: str | None = getattr(tool_of(self.agent, self.tool_name), "title", None)
        return title

    @property
    def tool_name(self) -> Any:
        """The tool's name; None for a tool of the provider that has no name."""
        raw = _raw_item.__get__(self)
        return NATIVE.get(read(raw, "type")) or read(raw, "name")

    @property
    def call_id(self) -> str | None:
        """The provider's id of the call."""
        return id_of(_raw_item.__get__(self))


class HandoffCallItem(ClientItem, own.HandoffCallItem):
    """A call by which the model hands over to another agent."""

    @property
    def tool_name(self) -> str:
        """The handoff's name as a tool."""
        return str(read(_raw_item.__get__(self), "name"))

    @property
    def call_id(self) -> str | None:
        """The provider's id of the call."""
        return id_of(_raw_item.__get__(self))


class MCPListToolsItem(ClientItem, own.MCPListToolsItem):
    """The tools of an MCP server that the provider itself calls."""


class MCPApprovalRequestItem(ClientItem, own.MCPApprovalRequestItem):
    """A provider's request to call a tool of an MCP server."""


class InputItem(own.RunItem):
    """Input that was added to a run before it was resumed."""

    type: Literal["input_item"] = "input_item"
    input_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """An id for the input."""


class ToolCallOutputItem(ToolItem, own.ToolCallOutputItem):
    """The output of a call."""

    outcome: own.Outcome = own.Outcome("finished", "tool")
    tool_name: str = ""
    custom_data: dict[str, Any] | None = None
    """Always None."""


class ToolApprovalItem(ToolItem, ClientItem, own.ToolApprovalItem, eq=False):
    """A question: a call that waits for a person. Two items are equal if they are the same question."""

    if not TYPE_CHECKING:

        @property
        def arguments(self) -> str:
            """The arguments that will run, in the model's own order, and in its own text unless they were changed."""
            return in_the_order_of(_arguments.__get__(self), read(_raw_item.__get__(self), "arguments"))

        __eq__ = own.ToolApprovalItem.__eq__
        __hash__ = own.ToolApprovalItem.__hash__

    @property
    def qualified_name(self) -> str:
        """The tool's name."""
        return self.tool_name

    def to_input_item(self) -> Any:
        """Raise `UsageError`: a question is no input for a model."""
        raise UsageError("A ToolApprovalItem is a question to a person, and no input for a model; leave it out.")


HandoffOutputItem = own.HandoffOutputItem
MCPApprovalResponseItem = own.MCPApprovalResponseItem
CompactionItem = own.CompactionItem
RunItem: TypeAlias = (
    InputItem
    | MessageOutputItem
    | HandoffCallItem
    | HandoffOutputItem
    | ToolCallItem
    | ToolCallOutputItem
    | ReasoningItem
    | MCPListToolsItem
    | MCPApprovalRequestItem
    | MCPApprovalResponseItem
    | CompactionItem
    | ToolApprovalItem
)
"""An item that a run generated."""


class ModelResponse(OwnResponse):
    """A complete reply of a model: its items as objects of OpenAI's client, its usage, and the provider's id for it."""

    request_id: str | None = None
    """Always None."""
    raw_usage: dict[str, Any] | None = None
    """Always None."""

    if TYPE_CHECKING:
        output: list[TResponseOutputItem]  # type: ignore[assignment]
    else:

        def __post_init__(self) -> None:
            self.usage = Usage.of(self.usage)

        @property
        def output(self) -> list[Any]:
            """The reply's items, as objects of OpenAI's client; `RawItem`s if the client is not installed."""
            held = _output.__get__(self)
            if any(type(each) is dict for each in held):
                held = [typed_item(each) for each in held]
                _output.__set__(self, held)
            return held

        @output.setter
        def output(self, value: list[Any]) -> None:
            _output.__set__(self, value)

    def to_input_items(self) -> list[Any]:
        """Return the reply as input for a model, a list of dicts."""
        return [plain_item(each) for each in _output.__get__(self)]


def read(raw: Any, name: str) -> Any:
    """Return a field of a dict or of an object; None if it has none."""
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)


def id_of(raw: Any) -> str | None:
    """Return the provider's id of a call."""
    given: str | None = read(raw, "call_id") or read(raw, "id")
    return given


def tool_of(agent: Any, name: str | None) -> Tool | None:
    """Return the agent's tool of a name; None if it has none, or if only the agent's name is known."""
    return toolbox_of(agent).tools.get(name or "") if isinstance(agent, Agent) else None


def origin_of(tool: Tool | None, raw: Any) -> ToolOrigin | None:
    """Return the origin of a function tool, or of a tool that the provider called on an MCP server; else None."""
    if read(raw, "type") == "mcp_call":
        return ToolOrigin(ToolOriginType.MCP, mcp_server_name=read(raw, "server_label"))
    if isinstance(tool, AgentTool):
        return ToolOrigin(ToolOriginType.AGENT_AS_TOOL, agent_name=tool.agent.name, agent_tool_name=tool.name)
    if tool is not None and tool.source is not None:
        return ToolOrigin(ToolOriginType.MCP, mcp_server_name=tool.server)
    return ToolOrigin(ToolOriginType.FUNCTION) if isinstance(tool, FunctionTool) else None


def in_the_order_of(arguments: str, proposed: Any) -> str:
    """Return canonical arguments in the order of the model's own text; that text itself if nothing was changed.

    A number of more digits than a float has is rounded before it runs, so it is shown as it runs.
    """
    try:
        theirs, value = parse_object(proposed if type(proposed) is str else ""), parse_object(arguments)
    except BadJSON:
        return arguments
    if canonical(theirs) == canonical(value) and not _is_rounded(proposed):
        return str(proposed)
    return encode(ordered(value, theirs)).decode()


def _is_rounded(text: str) -> bool:
    """Return True if a number in a JSON text is not the one that a reader of it gets."""
    numbers: list[str] = []
    json.loads(text, parse_float=numbers.append)
    return any(Decimal(number) != Decimal(repr(float(number))) for number in numbers)


def ordered(value: Any, like: Any) -> Any:
    """Return a JSON value with the keys of its objects in the order of another value; new keys come last."""
    if type(value) is dict and type(like) is dict:
        names = [*(name for name in like if name in value), *(name for name in value if name not in like)]
        return {name: ordered(value[name], like.get(name)) for name in names}
    if type(value) is list and type(like) is list:
        return [ordered(each, like[number] if number < len(like) else None) for number, each in enumerate(value)]
    return value


class ItemHelpers:
    """Functions that read items."""

    @classmethod
    def extract_last_content(cls, message: Any) -> str:
        """Return the last text or refusal of a message; empty if there is none."""
        last = _parts(message)[-1:]
        return (read(last[0], "text") or read(last[0], "refusal") or "") if last else ""

    @classmethod
    def extract_last_text(cls, message: Any) -> str | None:
        """Return the text at the end of a message; None if the message ends with anything else."""
        last = _parts(message)[-1:]
        text: str | None = read(last[0], "text") if last else None
        return text

    @classmethod
    def extract_text(cls, message: Any) -> str | None:
        """Return all text of a message; None if there is none."""
        return "".join(read(part, "text") or "" for part in _parts(message)) or None

    @classmethod
    def extract_refusal(cls, message: Any) -> str | None:
        """Return the refusal in a message; None if there is none."""
        return "".join(read(part, "refusal") or "" for part in _parts(message)) or None

    @classmethod
    def input_to_new_input_list(cls, input: str | list[TResponseInputItem]) -> list[TResponseInputItem]:
        """Return text or items as a new list of items."""
        if isinstance(input, str):
            return [{"content": input, "role": "user"}]
        return [plain_item(each) for each in input]  # type: ignore[misc]

    @classmethod
    def text_message_outputs(cls, items: Iterable[Any]) -> str:
        """Return the text of all messages among the items."""
        return "".join(cls.text_message_output(each) for each in items if isinstance(each, own.MessageOutputItem))

    @classmethod
    def text_message_output(cls, message: own.MessageOutputItem) -> str:
        """Return the text of a message."""
        return cls.extract_text(message.raw_item) or ""

    @classmethod
    def tool_call_output_item(cls, tool_call: Any, output: Any) -> Any:
        """Return the item that gives a call's output to the model."""
        parts = tool_output_parts(output)
        shown = output_text_of(output) if parts is None else parts
        return {"call_id": read(tool_call, "call_id"), "output": shown, "type": "function_call_output"}


def output_text_of(output: Any) -> str:
    """Return a tool's output as text for the model: text as it is, anything else as JSON."""
    return value_text(output_json(output)[0])


def _parts(message: Any) -> list[Any]:
    """Return the parts of a message's content; none for any other item."""
    content = read(message, "content") if read(message, "type") == "message" else None
    return content if isinstance(content, list) else [{"text": content}] if content else []


_raw_item: Any = own.RunItem.__dict__["raw_item"]
_arguments: Any = own.ToolApprovalItem.__dict__["arguments"]
_output: Any = OwnResponse.__dict__["output"]
"""The places in which Assentry's own items hold what the classes here show in another form."""

ITEM_CLASSES: dict[type[Any], type[Any]] = {
    OwnResponse: ModelResponse,
    own.HandoffCallItem: HandoffCallItem,
    own.MCPApprovalRequestItem: MCPApprovalRequestItem,
    own.MCPListToolsItem: MCPListToolsItem,
    own.MessageOutputItem: MessageOutputItem,
    own.ReasoningItem: ReasoningItem,
    own.ToolApprovalItem: ToolApprovalItem,
    own.ToolCallItem: ToolCallItem,
    own.ToolCallOutputItem: ToolCallOutputItem,
}
"""The classes here, by Assentry's own."""

if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
