"""The classes in which runs of the skin's agents show themselves, by Assentry's own."""

from __future__ import annotations

from typing import Any

from .items import ITEM_CLASSES

VIEW_CLASSES: dict[type[Any], type[Any]] = {**ITEM_CLASSES}
