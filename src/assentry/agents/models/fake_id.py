"""The names of `agents.models.fake_id`."""

from __future__ import annotations

from ...models.agents_sdk import FAKE_ID

__all__ = ["FAKE_RESPONSES_ID"]

FAKE_RESPONSES_ID = FAKE_ID
"""The id of items that no provider has given one."""
