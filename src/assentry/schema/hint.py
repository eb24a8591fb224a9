"""The parts of a type hint: what is inside a union, an alias, an `Annotated`, a generic or the fields of a class."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict


def parts(hint: Any, *, fields: bool = True) -> Iterator[Any]:
    """Yield a hint and everything inside it, at any depth: types, metadata and, with `fields`, types of fields."""
    waiting, seen = [hint], {}
    for each in waiting:  # the list grows during the loop
        if id(each) not in seen:
            seen[id(each)] = each  # kept alive, or its id could be another's
            yield each
            waiting += [*_inside(each), *(_fields(each) if fields else ())]


def bare(hint: Any, *, optional: bool = False) -> Any:
    """Return the type without `Annotated`, aliases and type arguments; with `optional`, without None beside it too."""
    while True:
        origin = get_origin(hint)
        inner = _aliased(origin or hint)
        if origin is Annotated:
            hint = get_args(hint)[0]
        elif inner is not None:
            hint = inner
        elif optional and origin in (Union, UnionType):
            others = [each for each in get_args(hint) if each is not NoneType]
            if len(others) != 1:
                return hint
            hint = others[0]
        else:
            return origin or hint


def marks_of(hint: Any) -> list[Any]:
    """Return the metadata of a hint itself: of `Annotated`, through aliases and beside None, and not deeper."""
    found: list[Any] = []
    while True:
        origin = get_origin(hint)
        inner = _aliased(origin or hint)
        if origin is Annotated:
            found += get_args(hint)[1:]
            hint = get_args(hint)[0]
        elif inner is not None:
            hint = inner
        elif origin in (Union, UnionType):
            others = [each for each in get_args(hint) if each is not NoneType]
            if len(others) != 1:
                return found
            hint = others[0]
        else:
            return found


def _inside(hint: Any) -> list[Any]:
    if isinstance(hint, str | bytes | int):  # a value of a Literal, or a text in Annotated
        return []
    inside = [get_origin(hint), *get_args(hint), _aliased(hint)]
    if is_typeddict(hint):  # its bases are not in its MRO
        inside += getattr(hint, "__orig_bases__", ())
    elif isinstance(hint, dataclasses.InitVar):
        inside.append(hint.type)
    elif not inspect.isclass(hint):  # the limits of a type variable
        inside += [getattr(hint, "__bound__", None), *getattr(hint, "__constraints__", ())]
    nested = [part for each in inside if isinstance(each, list) for part in each]  # the arguments of a Callable
    return [each for each in [*inside, *nested] if each is not None and not isinstance(each, list)]


def _aliased(hint: Any) -> Any:
    """Return the type behind a `NewType` or a `type` statement; None for anything else."""
    name = {"NewType": "__supertype__", "TypeAliasType": "__value__"}.get(type(hint).__name__)
    try:
        return getattr(hint, name) if name is not None else None
    except Exception:  # the value of a `type` statement is read late, and may name what is not there
        return None


def _fields(kind: Any) -> list[Any]:
    """Return the types of the fields of a model, a dataclass, a named tuple or a TypedDict, with their metadata."""
    if not inspect.isclass(kind):
        return []
    if getattr(kind, "__pydantic_complete__", None) is False and hasattr(kind, "model_rebuild"):
        kind.model_rebuild(raise_errors=False)  # a name that was not there yet may be there by now
    models = getattr(kind, "__pydantic_fields__", None)
    if models is not None:
        return [part for each in models.values() for part in (each.annotation, *each.metadata)]
    if not (dataclasses.is_dataclass(kind) or is_typeddict(kind) or hasattr(kind, "_fields")):
        return []
    try:
        return list(get_type_hints(kind, include_extras=True).values())
    except Exception:  # pydantic says what is wrong with such a type
        return []
