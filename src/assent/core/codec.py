"""The JSON format of a saved run. No other module knows the format.

The schema version says what the facts mean. An unknown version is refused. An older version is upgraded to the current
one, one version at a time.
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
from .fold import fold
from .number import Count
from .run import Run

SCHEMA = 1

UPGRADERS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""By version: a function that turns a saved run of this version, as plain JSON, into one of the next version."""


class SavedSignature(Struct):
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
    """A saved run: the schema version, the version of Assent, the journal, and the user's context."""

    schema: int
    assent: str
    journal: list[AnyFact]
    context: Raw = NOTHING
    context_kind: str | None = None
    signature: SavedSignature | None = None
    tracing: Traced | None = None
    stored: Count = 0
    """The number of facts that are in the run's store."""


class _Head(Struct):
    schema: int
    assent: str = ""


_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(_Head)


@functools.cache
def _decoder() -> msgspec.json.Decoder[SavedRun]:
    from .decoders import SAVED

    return SAVED


def encode(saved: SavedRun) -> bytes:
    """Return a saved run as JSON text."""
    return _encoder.encode(saved)


def decode(data: bytes | str) -> SavedRun:
    """Return a saved run from its JSON text, or raise `UnreadableState`."""
    try:
        if isinstance(data, bytes):
            data = data.decode()  # check that raw JSON is UTF-8 too: the decoder does not look into it
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


def _upgrade(text: bytes | str, version: int) -> SavedRun:
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
    """Return the run of a journal, or raise `UnreadableState` if its facts may not follow one another."""
    run = Run()
    try:
        for fact in journal:
            fold(run, fact)
    except IllegalFact as error:
        raise UnreadableState(f"This saved run is damaged: {error}") from None
    if run.began is None:
        raise UnreadableState("This saved run is damaged: its journal is empty.")
    return run
