"""Whether JSON fits the types of an official client's parameters, to the last key: pydantic ignores strange ones."""

import collections.abc
import types
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import pydantic
from typing_extensions import TypeAliasType, get_type_hints, is_typeddict

Path = str


def misfit(value: Any, kind: Any, path: Path = "body") -> str | None:
    """What does not fit; None if all fits."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Annotated, Required, NotRequired):
        return misfit(value, args[0], path)
    if origin in (Union, types.UnionType):
        wrong = [misfit(value, each, path) for each in args]
        return None if None in wrong else max((each for each in wrong if each), key=len)
    if origin is Literal:
        return None if value in args else f"{path}: {value!r:.80} is none of {args}"
    if is_typeddict(kind):
        return _misfit_object(value, kind, path)
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        return f"{path}: it is an answer's type, {kind.__name__}"
    if isinstance(kind, TypeAliasType):
        return misfit(value, kind.__value__, path)
    if origin is dict or origin is collections.abc.Mapping:
        return None if isinstance(value, dict) else f"{path}: {value!r:.80} is no object"
    if origin is not None:  # a list by any name: Iterable, List, SequenceNotStr
        return _misfit_list(value, args[0], path)
    if kind in (Any, object):
        return None
    kind = (int, float) if kind is float else kind
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return None if fits else f"{path}: {value!r:.80} is no {kind}"


def _misfit_list(value: Any, kind: Any, path: Path) -> str | None:
    if not isinstance(value, list):
        return f"{path}: {value!r:.80} is no list"
    return next((wrong for n, each in enumerate(value) if (wrong := misfit(each, kind, f"{path}[{n}]"))), None)


def _misfit_object(value: Any, kind: Any, path: Path) -> str | None:
    if not isinstance(value, dict):
        return f"{path}: {value!r:.80} is no object"
    hints = get_type_hints(kind)
    missing = sorted(kind.__required_keys__ - value.keys())
    strange = sorted(value.keys() - hints.keys())
    if missing or strange:
        return f"{path}: {missing} is missing and {strange} is unknown in {kind.__name__}"
    return next((wrong for key in value if (wrong := misfit(value[key], hints[key], f"{path}.{key}"))), None)
