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
from msgspec import Struct

from ..errors import IllegalFact, UnknownSchema, UnreadableState
from .facts import AnyFact
from .fold import fold
from .run import Run
from .saved import SavedRun as SavedRun
from .saved import SavedSignature as SavedSignature
from .saved import Traced as Traced

SCHEMA = 1

UPGRADERS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""By version: a function that turns a saved run of this version, as plain JSON, into one of the next version."""


class _Head(Struct):
    schema: int
    assentry: str = msgspec.field(default="", name="assent")


_encoder = msgspec.json.Encoder()
_head = msgspec.json.Decoder(_Head)


@functools.cache
def _decoder() -> msgspec.json.Decoder[SavedRun]:
    from .decoders import SAVED

    return SAVED


def encode_run(saved: SavedRun) -> bytes:
    """Return a saved run as JSON text."""
    return _encoder.encode(saved)


def decode_run(data: bytes | str) -> SavedRun:
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
        raise UnreadableState(
            "This is JSON, but not a run that Assentry has saved: it has no schema version."
        ) from None
    except (msgspec.DecodeError, UnicodeEncodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableState(f"This is not the whole text of a saved run: {error}.") from None


def _upgrade(text: bytes | str, version: int) -> SavedRun:
    path = list(takewhile(UPGRADERS.__contains__, range(version, SCHEMA)))
    if version > SCHEMA or len(path) < SCHEMA - version:
        raise UnknownSchema(
            f"This saved run has schema version {version}; this Assentry reads versions up to {SCHEMA}. "
            "Load it with the version of Assentry that wrote it, or a newer one."
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
