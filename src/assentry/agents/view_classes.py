"""The classes in which runs of the skin's agents show themselves, by Assentry's own."""

from __future__ import annotations

from typing import Any

from ..definitions.context import ToolContext as OwnToolContext
from .items import ITEM_CLASSES
from .tool_context import ToolContext

VIEW_CLASSES: dict[type[Any], type[Any]] = {**ITEM_CLASSES, OwnToolContext: ToolContext}
