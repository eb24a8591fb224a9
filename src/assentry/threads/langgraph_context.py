"""The context in which LangGraph's own functions work inside a tool or a hook: `interrupt`, `get_store` and others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..definitions.context import RunContextWrapper
from .injection import config_in
from .middleware_context import runtime_in


@contextmanager
def langgraph_context(ctx: RunContextWrapper[Any], agent: Any = None) -> Iterator[None]:
    """Let LangGraph's functions know the thread in a `with` block; do nothing if LangGraph is not imported."""
    if "langgraph.types" not in sys.modules:
        yield
        return
    from .langchain.graph_config import graph_config

    with graph_config(config_in(ctx), runtime_in(ctx, agent)):
        yield
