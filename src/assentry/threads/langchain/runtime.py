"""The runtime of a tool's call in LangGraph's class."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..tool_runtime import ToolRuntime


def to_langchain_runtime(runtime: ToolRuntime) -> Any:
    """Return the runtime of a call as LangGraph's `ToolRuntime`."""
    from langgraph.prebuilt import tool_node

    info = runtime.execution_info
    given = {name: getattr(runtime, name) for name in runtime.__struct_fields__ if name != "execution_info"}
    fields = {each.name for each in dataclasses.fields(tool_node.ToolRuntime)}
    if info is not None and "execution_info" in fields:
        from langgraph.runtime import ExecutionInfo

        named = {each.name for each in dataclasses.fields(ExecutionInfo)}
        known = {name: getattr(info, name) for name in info.__struct_fields__ if name in named}
        given["execution_info"] = ExecutionInfo(**known)
    return tool_node.ToolRuntime(**{name: value for name, value in given.items() if name in fields})
