"""The names of `agents.extensions.handoff_filters`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...definitions.handoff import HandoffInputData
from ...definitions.item import RunItem
from ..handoffs.history import default_handoff_history_mapper, nest_handoff_history

__all__ = ["default_handoff_history_mapper", "nest_handoff_history", "remove_all_tools"]


def remove_all_tools(handoff_input_data: HandoffInputData) -> HandoffInputData:
    """Return the data of a handoff without calls, their outputs and reasoning: only messages are left."""
    history, given = handoff_input_data.input_history, handoff_input_data.input_items
    return handoff_input_data.clone(
        input_history=history if isinstance(history, str) else tuple(each for each in history if _is_message(each)),
        pre_handoff_items=_messages(handoff_input_data.pre_handoff_items),
        new_items=_messages(handoff_input_data.new_items),
        input_items=given if given is None else _messages(given),
    )


def _is_message(item: dict[str, Any]) -> bool:
    kind = str(item.get("type", "message"))
    return kind != "reasoning" and not kind.startswith(("mcp_", "program", "tool_search")) and "call" not in kind


def _messages(items: Iterable[RunItem]) -> tuple[RunItem, ...]:
    return tuple(item for item in items if _is_message(item.to_input_item()))
