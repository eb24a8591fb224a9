"""A grant as people see it, made from the fact that gave it: the only other place that says what a grant is."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from msgspec import Struct

from ..core import facts as f
from ..core.run import Run

G = TypeVar("G", bound="Grant")


class Grant(Struct, frozen=True):
    """A decision that holds for later calls too."""

    id: str
    agent: str
    """The place of the agent that the grant is for."""
    tool: str
    verdict: Literal["approve", "reject"]
    by: str
    at: int
    message: str | None = None
    max_uses: int | None = None
    used: int = 0
    until: int | None = None
    """The end of the grant, in milliseconds since 1970; None if the grant has no end."""
    pins: dict[str, Any] | None = None
    """The arguments that a call must have."""


def grant_of(run: Run, fact: f.Granted, kind: type[G], /, **more: Any) -> G:
    """Return a grant of a run, with its times since 1970; `more` are the fields that the fact does not have."""
    began = run.began.at if run.began is not None else 0
    shared = set(kind.__struct_fields__) & set(fact.__struct_fields__)
    values: dict[str, Any] = {name: getattr(fact, name) for name in shared} | more
    values["at"] = began + fact.at
    values["until"] = None if fact.until is None else began + fact.until
    values["pins"] = f.decode(fact.pins) if fact.pins else None
    return kind(**values, used=run.uses.get(fact.id, 0))
