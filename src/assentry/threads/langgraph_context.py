"""The context in which LangGraph's own functions work inside a tool or a hook: `interrupt`, `get_store` and others."""

from __future__ import annotations

import sys
from typing import Any

from ..definitions.context import RunContextWrapper
from .injection import config_in
from .middleware_context import runtime_in


def enter_langgraph(ctx: RunContextWrapper[Any], agent: Any = None) -> None:
    """Let LangGraph's functions know the thread, for the rest of this task; do nothing if LangGraph is not imported."""
    if "langgraph.types" not in sys.modules:
        return
    from .langchain.graph_config import set_graph_config

    set_graph_config(config_in(ctx), runtime_in(ctx, agent))
