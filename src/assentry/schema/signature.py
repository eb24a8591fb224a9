"""A function's parameters, with resolved annotations; the context and other injected parameters are set apart."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, get_type_hints

from msgspec import Struct

from ..errors import InvalidDefinition
from .hint import bare, parts
from .injected import UNTYPED, Injected, Recognizer, refuse_injected, source_of_value


def source_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has the name, docstring and globals: without partials and decorators."""
    while isinstance(function, functools.partial):
        function = function.func
    source: Callable[..., Any] = inspect.unwrap(function)
    return source


def _bound(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names that partials fill in: a call could replace those values, and a model must not."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func
    return frozenset(names)


def function_name(source: Callable[..., Any]) -> str:
    """Return the name by which a model can call the function."""
    name = getattr(source, "__name__", "")
    if not name.isidentifier():
        raise InvalidDefinition(
            f"A {type(source).__name__} has no name of its own that a model could call; give one with name_override."
        )
    return str(name)


class Hinted(Struct, frozen=True):
    """A parameter of the signature, with its annotation resolved."""

    name: str
    kind: inspect._ParameterKind
    hint: Any
    default: Any


class Signature(Struct, frozen=True):
    """The parameters that a model fills in, and those that are injected: the context and what other code expects."""

    injected: tuple[Injected, ...]
    parameters: list[Hinted]
    bound: frozenset[str] = frozenset()
    """The names that a `functools.partial` fills in."""

    @classmethod
    def read(
        cls,
        function: Callable[..., Any],
        name: str,
        source: Callable[..., Any],
        context_types: tuple[type, ...],
        *,
        config: bool = False,
        recognize: Recognizer | None = None,
    ) -> Signature:
        try:
            found = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError, NameError) as error:
            raise InvalidDefinition(f"Tool {name!r}: its signature cannot be read ({error}).") from error
        names, bound = _namespace(source), _bound(function)
        injected: list[Injected] = []
        parameters = []
        for position, each in enumerate(found):
            if each.name in bound and each.kind is inspect.Parameter.KEYWORD_ONLY:
                continue
            if position == 0 and _is_context(each, names, context_types):
                if each.kind not in POSITIONAL:
                    raise InvalidDefinition(f"{where(name, each.name)} is the context, which must be positional.")
                injected.append(Injected(each.name, 0, "context"))
                continue
            hint = _hint(each, names, name)
            if mentions(hint, context_types):
                raise InvalidDefinition(f"{where(name, each.name)} is a context; only the first can be, by itself.")
            if filled := _injected(each, position, hint, name, config, recognize):
                injected.append(filled)
            else:
                parameters.append(Hinted(each.name, each.kind, hint, each.default))
        return cls(tuple(injected), parameters, bound)


def _injected(
    parameter: inspect.Parameter, position: int, hint: Any, tool: str, config: bool, recognize: Recognizer | None
) -> Injected | None:
    """Return how a parameter that code fills in gets its value; None if it is an argument of the model's."""
    here, single = where(tool, parameter.name), parameter.kind in (*POSITIONAL, inspect.Parameter.KEYWORD_ONLY)
    place = position if parameter.kind in POSITIONAL else None
    fill = recognize(here, hint, parameter.default) if recognize is not None and single else None
    if fill is not None:
        return Injected(parameter.name, place, fill)
    source = source_of_value(hint)
    if source == "config" and not config:
        raise InvalidDefinition(
            f"{here} is a RunnableConfig, which only a plain function in the tools of "
            "assentry.threads.create_agent gets; take ctx: ToolContext as the first parameter, and read ctx.context."
        )
    if source is not None and single:
        return Injected(parameter.name, place, source)
    refuse_injected(here, hint, parameter.default)
    return None


POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _namespace(source: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals for string annotations; for a callable object, those of its `__call__`."""
    return getattr(source, "__globals__", None) or getattr(type(source).__call__, "__globals__", {})


def _hint(parameter: inspect.Parameter, names: dict[str, Any], tool: str) -> Any:
    """Return one parameter's resolved annotation.

    Each is resolved alone, so that an unused return type cannot fail, and an error names the parameter.
    """
    if parameter.annotation is inspect.Parameter.empty:
        if parameter.name in UNTYPED:
            raise _untyped(parameter, tool)
        return Any

    def holder() -> None: ...

    holder.__annotations__ = {"hint": parameter.annotation}
    try:
        hint = get_type_hints(holder, globalns=names, include_extras=True)["hint"]
    except Exception as error:
        raise InvalidDefinition(
            f"{where(tool, parameter.name)}: its annotation {parameter.annotation!r} cannot be resolved ({error}); "
            "import or define its names in the function's module, not only for type checkers."
        ) from error
    if hint is Any and parameter.name == "runtime":  # LangChain fills it in by its name, whatever its type
        raise _untyped(parameter, tool)
    return hint


def _untyped(parameter: inspect.Parameter, tool: str) -> InvalidDefinition:
    if parameter.name == "runtime":
        how = "write runtime: ToolRuntime for the call and its thread"
    else:
        how = "write ctx: ToolContext as the first parameter for the context of the call"
    return InvalidDefinition(
        f"{where(tool, parameter.name)} has no type, so that a model would fill it in: {how}, or give the argument "
        "its type."
    )


def _is_context(parameter: inspect.Parameter, names: dict[str, Any], context_types: tuple[type, ...]) -> bool:
    """Return True if the parameter is a context.

    The context's own type need not exist at run time: `Context[Unknown]` is a context too.
    """
    annotation = parameter.annotation
    if type(annotation) is not str:
        return _is_one_of(annotation, context_types)
    try:
        return _is_one_of(_hint(parameter, names, ""), context_types)
    except InvalidDefinition:
        written = annotation.partition("[")[0].strip().rpartition(".")[2]
        return written in {each.__name__ for each in context_types}


def _is_one_of(hint: Any, types: tuple[type, ...]) -> bool:
    hint = bare(hint)
    return inspect.isclass(hint) and issubclass(hint, types)


def mentions(hint: Any, types: tuple[type, ...]) -> bool:
    """Return True if one of these types is in a hint, at any depth."""
    return any(_is_one_of(each, types) for each in parts(hint, fields=False))


def where(tool: str, parameter: str) -> str:
    """Return a parameter's name for messages."""
    return f"Tool {tool!r}: parameter {parameter!r}"
