"""The results of tools: a value, a `ToolMessage`, or a `Command` that updates the state; ours or LangChain's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from ..core import facts as f
from ..core.facts import decode
from ..core.wording import described
from ..definitions.context import ToolContext
from ..errors import InvalidInput, UsageError
from ..runtime.scope import scope_of
from ..runtime.steps.door import BodyOutput
from ..runtime.value import input_json, output_json
from .foreign import is_graph_command, is_langchain_message
from .interrupts import Command
from .message import Message, RemoveMessage, ToolMessage
from .message_items import as_list, given_message, run_input
from .reply_state import keep_untracked
from .state import EMPTY, State
from .threaded_agent import ThreadedAgent

GRAPH = (
    "There is no graph here whose nodes it could choose, and only invoke takes answers: a tool gives a value, "
    'or a ToolMessage, or Command(update={"messages": [ToolMessage(...)], ...}).'
)


def read_result(tool: str, value: Any) -> Any:
    """Return what a body or a hook gave; messages and commands of LangChain as ours, and a list of them as one."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, list | tuple) and value and all(map(_is_result, value)):
        return _join_results(tool, [_own(each) for each in value])
    if isinstance(value, list) and value and all(map(_is_block, value)):
        return ToolMessage(value, name=tool)
    return _own(value) if _is_result(value) else value


def _is_block(value: Any) -> bool:
    """Return True for a block of a message's content."""
    return isinstance(value, dict) and value.get("type") in BLOCKS


BLOCKS = ("text", "image", "image_url", "file", "document", "search_result")
"""The types of blocks that a tool may return as a list, in the place of a message with them."""


def _is_result(value: Any) -> bool:
    return isinstance(value, ToolMessage | Command) or is_graph_command(value)


def _own(value: Any) -> ToolMessage | Command:
    if is_langchain_message(value):
        made = given_message(value)
        assert isinstance(made, ToolMessage)
        return made
    made = command_from(value)
    assert isinstance(made, ToolMessage | Command)
    return made


def command_from(value: Any) -> Any:
    """Return a `Command` of LangGraph as ours; any other value as it is."""
    if not is_graph_command(value):
        return value
    given = {name: getattr(value, name) for name in ("graph", "update", "resume") if getattr(value, name) is not None}
    return Command(**given, **({"goto": value.goto} if value.goto else {}))


def _join_results(tool: str, given: Sequence[ToolMessage | Command]) -> ToolMessage | Command:
    if len(given) == 1:
        return given[0]
    joined: State = {"messages": []}
    for each in given:
        update = update_of(f"The tool {tool!r}", each) if isinstance(each, Command) else {"messages": [each]}
        joined["messages"] += as_list(update.get("messages") or ())
        for name, value in update.items():
            if name != "messages" and name in joined:
                raise UsageError(f"The tool {tool!r} gave two updates of {name!r} at once; give one.")
            joined.setdefault(name, value)
    return Command(update=joined)


def update_of(whose: str, command: Command) -> State:
    """Return the update of a command that does nothing else, or raise `UsageError`."""
    other = [name for name in ("resume", "goto", "graph") if getattr(command, name) not in (None, (), ...)]
    if other:
        raise UsageError(f"{whose} gave a Command with {other[0]}. {GRAPH}")
    if not isinstance(command.update, Mapping):
        raise UsageError(f"{whose} gave a Command whose update is {described(command.update)}; it is a dict.")
    return dict(command.update)


def body_output(ctx: ToolContext[Any], given: ToolMessage | Command) -> BodyOutput:
    """Return the outcome of a call from the message or the command that its body gave."""
    agent, tool, call_id = ctx.agent, ctx.tool_name, ctx.call_id
    if isinstance(given, ToolMessage):
        return message_output(tool, call_id, given)
    whose = f"The tool {tool!r}"
    update = update_of(whose, given)
    messages = [given_message(each) for each in as_list(update.get("messages") or ())]
    own = [each for each in messages if isinstance(each, ToolMessage)]
    if len(own) != 1:
        raise UsageError(
            f"{whose} gave a Command with {len(own)} messages for its call; give one: Command(update={{"
            '"messages": [ToolMessage(..., tool_call_id=runtime.tool_call_id)], ...}).'
        )
    schema = agent.state_schema if isinstance(agent, ThreadedAgent) else EMPTY
    recorded = schema.check_update(whose, update)
    keep_untracked(scope_of(ctx).journal, schema, update)
    return message_output(tool, call_id, replace(own[0], name=tool))._replace(
        update=output_json([recorded])[0] if recorded else f.NOTHING,
        said=_said(whose, [each for each in messages if each is not own[0]]),
    )


def _said(whose: str, messages: Sequence[Message]) -> Raw:
    """Return further messages as input of the run."""
    if not messages:
        return f.NOTHING
    if any(isinstance(each, RemoveMessage) for each in messages):
        raise UsageError(f"{whose} gave a RemoveMessage; only hooks of a middleware can hide messages.")
    try:
        items = run_input(messages)
        return input_json([{"role": "user", "content": items}] if isinstance(items, str) else items)
    except InvalidInput as error:
        raise UsageError(f"{whose} gave messages that cannot be added: {error}") from None


def message_output(tool: str, call_id: str, given: ToolMessage) -> BodyOutput:
    """Return the outcome of a call from its message: the content for the model, and the rest beside it."""
    if given.tool_call_id not in ("", call_id):
        raise UsageError(
            f"The tool {tool!r} gave a ToolMessage for the call {described(given.tool_call_id)}; its own is "
            f"{call_id!r}, as runtime.tool_call_id."
        )
    failed = given.status == "error"
    more: State = {name: value for name in KEPT if (value := getattr(given, name)) not in (None, {})}
    if given.name != tool:
        more["name"] = given.name
    if not isinstance(given.content, str):
        more["content"] = given.content
    value = str(given.text) if failed else model_content(given.content)
    return BodyOutput(value, failed, more=output_json(more)[0] if more else f.NOTHING)


KEPT = ("id", "artifact", "additional_kwargs", "response_metadata")
"""The fields of a tool's message that are kept beside its output."""


def model_content(content: Any) -> Any:
    """Return a message's content for the model: blocks as content parts, where there are such parts."""
    if not isinstance(content, list):
        return content
    parts = [_part(each) for each in content]
    return content if None in parts or not parts else parts


def _part(block: Any) -> dict[str, Any] | None:
    """Return a block of a message's content as a part of a tool's output; None if there is no such part."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "text": block.get("text") or ""}
    if kind == "image_url":
        image = block.get("image_url")
        more = image if isinstance(image, dict) else {"url": image}
        return {"type": "image", "image_url": more.get("url"), "detail": more.get("detail")}
    if kind not in ("image", "file"):
        return None
    url = "image_url" if kind == "image" else "file_url"
    data = block.get("base64") or block.get("data")
    if block.get("file_id") or block.get("url") or block.get(url):
        part = {"type": kind, "file_id": block.get("file_id"), url: block.get("url") or block.get(url)}
    elif isinstance(data, str):
        address = f"data:{block.get('mime_type') or 'application/octet-stream'};base64,{data}"
        part = {"type": kind, ("image_url" if kind == "image" else "file_data"): address}
    else:
        return None
    return {**part, "filename": block.get("filename")} if kind == "file" else part


def result_json(given: ToolMessage | Command) -> Any:
    """Return a message or a command as JSON, to keep it with a question; `result_from` reads it."""
    if isinstance(given, ToolMessage):
        return decode(output_json(given.model_dump())[0])
    update = update_of("A tool", given)
    messages = [given_message(each).model_dump() for each in as_list(update.get("messages") or ())]
    return decode(output_json({"update": {**update, "messages": messages}})[0])


def result_from(kept: Any) -> ToolMessage | Command:
    """Return the message or the command of `result_json`."""
    if "update" in kept:
        return Command(update=kept["update"])
    made = given_message(kept)
    assert isinstance(made, ToolMessage)
    return made
