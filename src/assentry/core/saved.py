"""The parts of a saved run. Reading and writing them belongs in `codec`."""

from __future__ import annotations

from msgspec import Raw, Struct, field

from .facts import NOTHING, AnyFact
from .number import Count


class SavedSignature(Struct, forbid_unknown_fields=True):
    """The signature of a saved run: the key's name, and the authentication code."""

    key: str
    code: str


class Traced(Struct, omit_defaults=True):
    """The tracing settings of a run. They hold secrets, and are saved only on request."""

    endpoint: str
    api_key: str | None = None
    headers: dict[str, str] = {}
    workflow_name: str | None = None
    group_id: str | None = None
    metadata: dict[str, str] = {}
    include_sensitive_data: bool = False

    def __repr__(self) -> str:
        return f"<Traced to {self.endpoint!r}>"


class SavedRun(Struct, omit_defaults=True):
    """A saved run: the schema version, the version of Assentry, the journal, and the user's context."""

    schema: int
    assentry: str = field(name="assent")  # the key of the first saved runs
    journal: list[AnyFact]
    context: Raw = NOTHING
    context_kind: str | None = None
    signature: SavedSignature | None = None
    tracing: Traced | None = None
    stored: Count = 0
    """The number of facts that are in the run's store."""
