"""A saved run as JSON, and back: the one place that knows the format.

The schema version says what the facts mean. A version this module does not know is refused; an
older one is taken up to today's by the upgraders, one version at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..errors import IllegalFact, UnknownSchema, UnreadableState
from .facts import NOTHING, AnyFact
from .number import Count
from .replay import fold_all
from .run import Run

SCHEMA = 1

UPGRADERS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From a version: what makes a saved run of it, as plain JSON, one of the next version."""


class Signature(Struct):
    """Which key signed a saved run, and the authentication code."""

    key: str
    code: str


class Traced(Struct, omit_defaults=True):
    """Where a run's spans go. It holds secrets, and is saved only on request."""

    endpoint: str
    api_key: str | None = None
    headers: dict[str, str] = {}
    workflow_name: str | None = None
    group_id: str | None = None
    metadata: dict[str, str] = {}
    include_sensitive_data: bool = False

    def __repr__(self) -> str:
        return f"<Traced to {self.endpoint!r}>"


class Saved(Struct, omit_defaults=True):
    """A saved run: which format, which Assent wrote it, the journal, and the user's context."""

    schema: int
    assent: str
    journal: list[AnyFact]
    context: Raw = NOTHING
    context_kind: str | None = None
    signature: Signature | None = None
    tracing: Traced | None = None
    stored: Count = 0
    """How many of the facts are in the store that the run lives in."""


class _Head(Struct):
    schema: int
    assent: str = ""


_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(_Head)


@functools.cache
def _decoder() -> msgspec.json.Decoder[Saved]:
    from .decoders import SAVED

    return SAVED


def encode(saved: Saved) -> bytes:
    """The JSON text of a saved run."""
    return _encoder.encode(saved)


def decode(data: bytes | str) -> Saved:
    """A saved run from its JSON text; `UnreadableState` says what is wrong with it."""
    try:
        if isinstance(data, bytes):
            data = data.decode()  # what is kept as it is, is not looked into otherwise
        saved = _decoder().decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, UnicodeDecodeError, RecursionError) as error:
        version = _version(data, error)
        if version == SCHEMA:
            raise UnreadableState(f"This saved run is damaged: {error}.") from None
        return _upgrade(data, version)
    return saved if saved.schema == SCHEMA else _upgrade(data, saved.schema)


def _version(data: bytes | str, error: Exception) -> int:
    try:
        return _head.decode(data).schema
    except msgspec.ValidationError:
        raise UnreadableState("This is JSON, but not a run that Assent has saved: it has no schema version.") from None
    except (msgspec.DecodeError, UnicodeEncodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableState(f"This is not the whole text of a saved run: {error}.") from None


def _upgrade(text: bytes | str, version: int) -> Saved:
    path = list(takewhile(UPGRADERS.__contains__, range(version, SCHEMA)))
    if version > SCHEMA or len(path) < SCHEMA - version:
        raise UnknownSchema(
            f"This saved run has schema version {version}; this Assent reads versions up to {SCHEMA}. "
            "Load it with the version of Assent that wrote it, or a newer one."
        )
    try:
        data: dict[str, Any] = msgspec.json.decode(text)
        for step in path:
            data = UPGRADERS[step](data)
        return _decoder().decode(_encoder.encode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableState(f"This saved run is damaged: {error}.") from None


def replay(journal: list[AnyFact]) -> Run:
    """Fold a journal from its beginning; `UnreadableState` if its facts do not follow one another."""
    run = Run()
    try:
        fold_all(run, journal)
    except IllegalFact as error:
        raise UnreadableState(f"This saved run is damaged: {error}") from None
    if run.began is None:
        raise UnreadableState("This saved run is damaged: its journal is empty.")
    return run
