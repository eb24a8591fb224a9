"""Differences between the SDK's signatures and the skin's: parameters, fields and methods that ours does not have.

The comparison with LangChain uses it, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic
from typing_extensions import is_typeddict

IGNORED = {"self", "cls", "args", "kwargs"}
PYDANTIC = set(dir(pydantic.BaseModel))
"""Methods that a class has because it is pydantic's."""


def differences(name: str, theirs: Any, ours: Any, packages: tuple[str, ...] = ("agents",)) -> Iterator[str]:
    """Yield what a public object of these packages takes or has, and ours does not: `Agent(prompt)`, `Agent.clone`."""
    if theirs is ours or not str(getattr(theirs, "__module__", "")).startswith(packages):
        return
    if not isinstance(theirs, type):
        if callable(theirs) and inspect.isroutine(theirs):
            yield from _parameters(name, theirs, ours)
        return
    if not isinstance(ours, type):
        if not callable(ours):
            yield f"{name}: no class"
        return
    if is_typeddict(theirs):
        yield from (f"{name}[{key!r}]" for key in sorted(set(theirs.__annotations__) - _has(ours)))
        return
    if issubclass(theirs, enum.Enum):
        yield from (f"{name}.{each}" for each in sorted(set(theirs.__members__) - set(dir(ours))))
        return
    if not inspect.isabstract(theirs) and theirs.__init__ is not object.__init__:
        yield from _parameters(name, theirs, ours)
    yield from _members(name, theirs, ours)


def _members(name: str, theirs: type, ours: type) -> Iterator[str]:
    has = _has(ours)
    for each in sorted(_has(theirs)):
        if each.startswith("_") or each in PYDANTIC:
            continue
        if each not in has:
            yield f"{name}.{each}"
            continue
        theirs_static, ours_static = (
            inspect.getattr_static(theirs, each, None),
            inspect.getattr_static(ours, each, None),
        )
        if _is_function(theirs_static) and ours_static is not None:
            yield from _parameters(f"{name}.{each}", getattr(theirs, each), getattr(ours, each))


def _is_function(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, staticmethod | classmethod)


def _has(kind: type) -> set[str]:
    """Return the names that instances of a class have, as far as the class tells."""
    found = {name for name in dir(kind) if not name.startswith("__")}
    for each in kind.__mro__:
        if each.__module__ in ("typing", "builtins", "abc", "pydantic.main"):
            continue
        found |= {name for name in vars(each).get("__annotations__", {}) if not name.startswith("_")}
        with contextlib.suppress(OSError, TypeError):
            found |= set(re.findall(r"self\.([a-z]\w*)\b.*? = ", inspect.getsource(each)))
    if dataclasses.is_dataclass(kind):
        found |= {field.name for field in dataclasses.fields(kind)}
    return found


def _parameters(name: str, theirs: Any, ours: Any) -> Iterator[str]:
    try:
        before, after = inspect.signature(theirs).parameters, _taken(ours)
    except (TypeError, ValueError):
        return
    any_name = any(each.kind is each.VAR_KEYWORD for each in after.values())
    any_place = any(each.kind is each.VAR_POSITIONAL for each in after.values())
    theirs_places, ours_places = _places(before), _places(after)
    for each in before.values():
        if each.name in IGNORED or each.name.startswith("_") or each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL):
            continue
        taken = each.name in after and after[each.name].kind is not inspect.Parameter.POSITIONAL_ONLY
        if not taken and not any_name and each.kind is not each.POSITIONAL_ONLY:
            yield f"{name}({each.name})"
        elif each.name in theirs_places and taken and each.name not in ours_places:
            if not any_place:
                yield f"{name}({each.name}): by keyword"
        elif each.name in theirs_places and taken and theirs_places.index(each.name) != ours_places.index(each.name):
            yield f"{name}({each.name}): at another place"
    required = [
        each
        for each in after.values()
        if each.default is each.empty and each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    for each in required:
        if each.name not in IGNORED and (each.name not in before or before[each.name].default is not each.empty):
            yield f"{name}({each.name}): needed"


def _taken(ours: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(ours).parameters
    except NameError:  # a struct whose types are imported for type checkers only
        kind = inspect.Parameter.KEYWORD_ONLY
        return {name: inspect.Parameter(name, kind, default=None) for name in ours.__struct_fields__}


def _places(parameters: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters.values() if each.kind in kinds and each.name not in ("self", "cls")]
