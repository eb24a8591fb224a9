"""Migration to schema version 8: a run may have an engine, such as Temporal, that is the authority on it.

No table changes. An older process would decide in the store's copy of such a run, of which the engine never hears; the
new version turns it away.
"""

from __future__ import annotations

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Change nothing but the version."""
