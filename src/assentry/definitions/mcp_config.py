"""Settings of an agent for the tools of its MCP servers."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from typing_extensions import TypedDict

from ..core import allowed
from ..core.wording import worded
from ..errors import AssentryError
from ..models.model import ToolSpec
from ..schema.strict import Tightening
from .tool import FailureText, Tool

log = logging.getLogger("assentry.mcp")


class MCPConfig(TypedDict, total=False):
    """Settings for the tools of an agent's MCP servers."""

    convert_schemas_to_strict: bool
    """If True, the model is offered a strict form of each tool's schema, where there is one."""
    failure_error_function: FailureText | None
    """A function that words a failure for the model, for servers without one of their own; None raises it to you."""
    include_server_in_tool_names: bool
    """If True, the names that the model is offered begin with the server's name."""


MCP_OPTIONS = allowed.Options(
    convert_schemas_to_strict=allowed.BOOL,
    include_server_in_tool_names=allowed.BOOL,
    failure_error_function=allowed.CALLABLE.or_none,
)


def configured_tool(tool: Tool, config: MCPConfig) -> Tool:
    """Return a server's tool with an agent's settings. People agree to its fingerprint, which only a name changes."""
    named = tool.named_with_server() if config.get("include_server_in_tool_names") else tool
    changes: dict[str, Any] = {}
    if "failure_error_function" in config and not (tool.source is not None and tool.source.words_failures):
        changes["failure_error_function"] = config["failure_error_function"]
    made = replace(named, **changes)
    if config.get("convert_schemas_to_strict"):
        schema = {"type": "object", "properties": {}, **tool.params_json_schema}
        try:
            strict = Tightening(tool.name, schema).top()
        except (AssentryError, AttributeError, KeyError, TypeError, RecursionError) as error:
            log.debug("The schema of the tool %r has no strict form: %s", tool.name, worded(error))
        else:
            object.__setattr__(made, "spec", ToolSpec(made.name, made.description, strict, True, made.native))
    return made
