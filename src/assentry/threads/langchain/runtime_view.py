"""The runtime of a hook or of a call as LangGraph's own classes."""

from __future__ import annotations

from typing import Any

from langgraph.prebuilt.tool_node import ToolRuntime as GraphToolRuntime
from langgraph.runtime import ExecutionInfo as GraphExecutionInfo
from langgraph.runtime import Runtime as GraphRuntime

from ...definitions.context import THREAD_CONFIG
from ..middleware_context import Runtime, ToolCallRequest


def graph_runtime(runtime: Runtime[Any]) -> GraphRuntime[Any]:
    """Return the runtime of a hook as LangGraph's."""
    info = GraphExecutionInfo(checkpoint_id="", checkpoint_ns="", task_id="", thread_id=runtime.thread_id)
    return GraphRuntime(context=runtime.context, store=None, stream_writer=runtime.stream_writer, execution_info=info)


def tool_runtime(request: ToolCallRequest, state: Any) -> GraphToolRuntime[Any, Any]:
    """Return the runtime of a call as LangGraph's."""
    runtime = request.runtime
    config: Any = {**(THREAD_CONFIG.get() or {})}
    return GraphToolRuntime(
        state=state,
        context=runtime.context,
        config=config,
        stream_writer=runtime.stream_writer,
        tool_call_id=request.tool_call["id"],
        store=None,
    )
