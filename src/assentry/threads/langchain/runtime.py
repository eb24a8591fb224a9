"""The runtime of a tool's call, and of a hook, in LangGraph's classes."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..middleware_context import Runtime
from ..tool_runtime import ToolRuntime


def to_langchain_runtime(runtime: ToolRuntime) -> Any:
    """Return the runtime of a call as LangGraph's `ToolRuntime`."""
    from langgraph.prebuilt import tool_node

    return _made(tool_node.ToolRuntime, runtime)


def to_hook_runtime(runtime: Runtime) -> Any:
    """Return the runtime of a hook as LangGraph's `Runtime`."""
    from langgraph import runtime as langgraph_runtime

    return _made(langgraph_runtime.Runtime, runtime)


def _made(kind: Any, runtime: Any) -> Any:
    """Return a runtime in LangGraph's class, with the fields that the class has."""
    fields = {each.name for each in dataclasses.fields(kind)}
    given = {name: getattr(runtime, name) for name in runtime.__struct_fields__ if name in fields}
    info = runtime.execution_info
    if info is not None and "execution_info" in fields:
        from langgraph.runtime import ExecutionInfo

        named = {each.name for each in dataclasses.fields(ExecutionInfo)}
        known = {name: getattr(info, name) for name in info.__struct_fields__ if name in named}
        given["execution_info"] = ExecutionInfo(**known)
    return kind(**given)
