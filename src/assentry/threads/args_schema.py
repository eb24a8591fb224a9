"""The arguments of a tool by a schema of their own: a model of pydantic, or a JSON schema."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection
from typing import Annotated, Any, get_type_hints

from pydantic import AliasChoices, AliasPath, BaseModel, create_model

from ..errors import InvalidArguments, InvalidDefinition
from ..schema.foreign import ForeignSchema
from ..schema.injected import Injected
from ..schema.parameters import Parameters
from ..schema.schema import type_schema
from ..schema.signature import Signature, source_of
from ..schema.unchanged import find_change, user_code
from .foreign import langchain_bases
from .injection import Slot, recognize

Json = dict[str, Any]


def model_hints(kind: type[BaseModel]) -> dict[str, tuple[Any, Any]]:
    """Return the hint and the default of each field of a model, with the marks in the hint."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except Exception:  # a name that is only there for type checkers
        hints = {}
    out = {}
    for name, each in kind.model_fields.items():
        default = inspect.Parameter.empty if each.is_required() else each.get_default(call_default_factory=True)
        hint = hints.get(name, each.annotation)
        out[name] = (Annotated[hint, *each.metadata] if each.metadata else hint, default)
    return out


def model_slots(tool: str, kind: type[BaseModel]) -> dict[str, Slot]:
    """Return the fields of a model that the thread fills in."""
    return find_slots(tool, model_hints(kind))


def find_slots(tool: str, hints: dict[str, tuple[Any, Any]]) -> dict[str, Slot]:
    """Return the parameters that the thread fills in, by their hints and defaults."""
    made = {name: recognize(f"Tool {tool!r}: parameter {name!r}", *each) for name, each in hints.items()}
    return {name: slot for name, slot in made.items() if slot is not None}


def model_parameters(tool: str, kind: type[BaseModel], left_out: Collection[str]) -> Parameters:
    """Return the schema that a model is offered of a model of pydantic, without some fields, and its check."""
    closed = _input_names(kind, left_out)
    if kind.model_fields.keys() & set(left_out) or langchain_bases(kind):  # or LangChain made it from a function
        kept: Any = {name: (each.annotation, each) for name, each in kind.model_fields.items() if name not in left_out}
        kind = create_model(kind.__name__, __config__=kind.model_config, **kept)
    read = type_schema(tool, kind, strict=False)
    loose = {key: value for key, value in read.json_schema.items() if key != "description"}
    return Parameters(loose, read.required, read.defaults, read.fill, _checked(kind, read, closed), read.loose)


def _input_names(kind: type[BaseModel], fields: Collection[str]) -> set[str]:
    """Return the names by which arguments could fill fields of a model: their own names, and their aliases."""
    names = set(fields)
    for name in kind.model_fields.keys() & names:
        alias = kind.model_fields[name].validation_alias
        for each in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            first = each.path[0] if isinstance(each, AliasPath) else each
            names |= {str(first)} if first is not None else set()
    return names


def _checked(kind: type[BaseModel], read: Parameters, closed: Collection[str]) -> Callable[[Json], Any]:
    """Return a check that arguments fit, and that pydantic's lax validation does not change them either.

    Arguments never have one of the `closed` names, even if the model allows any others.
    """
    code = user_code(kind.__pydantic_core_schema__)

    def check(args: Json) -> Any:
        assert read.validate is not None
        _check_open(args, closed)
        value = read.validate(args)
        try:
            changed = find_change(args, kind.model_validate(copy.deepcopy(args)), code)
        except Exception as error:  # a validator of the user's may raise anything
            raise InvalidArguments(f"arguments: {error}") from None
        if changed is not None:
            raise InvalidArguments(changed)
        return value

    return check


def _check_open(args: Json, closed: Collection[str]) -> None:
    """Raise `InvalidArguments` if arguments name a parameter that only the thread fills in."""
    if (named := next((name for name in args if name in closed), None)) is not None:
        raise InvalidArguments(f'"{named}": there is no such argument')


def written_parameters(schema: Json, left_out: Collection[str] = ()) -> Parameters:
    """Return a JSON schema, without some properties, and its check."""
    properties = {name: each for name, each in (schema.get("properties") or {}).items() if name not in left_out}
    required = [name for name in schema.get("required") or () if name not in left_out]
    kept = {key: value for key, value in schema.items() if key not in ("title", "description")}
    closed = {"additionalProperties": False} if properties else {}
    schema = {"type": "object", **closed, **kept, "properties": properties, "required": required}
    foreign = ForeignSchema(schema)

    def check(args: Json) -> Json:
        _check_open(args, left_out)
        if problem := foreign.problem(args):
            raise InvalidArguments(problem)
        return args

    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    return Parameters(schema, frozenset(required), defaults, foreign.filled, check, schema)


class ArgsSchema:
    """The schema of a function whose arguments are described apart: they are its keyword arguments."""

    fills = True
    secrets: tuple[str, ...] = ()

    def __init__(self, name: str, description: str, function: Callable[..., Any], given: Any) -> None:
        is_model = inspect.isclass(given) and issubclass(given, BaseModel)
        if not is_model and not isinstance(given, dict):
            raise InvalidDefinition(f"Tool {name!r}: args_schema is a pydantic model or a JSON schema, a dict.")
        self.name, self.description = name, description
        signature = Signature.read(function, name, source_of(function), (), config=True, recognize=recognize)
        slots: dict[str, Any] = {each.name: each.source for each in signature.injected}
        if is_model:
            slots |= model_slots(name, given)
            self._read = model_parameters(name, given, slots)
        else:
            self._read = written_parameters(given, slots)
        self.injected = tuple(Injected(each, None, source) for each, source in slots.items())
        self.json_schema, self.required = self._read.json_schema, self._read.required
        self.loose, self.defaults = self._read.loose or self.json_schema, self._read.defaults
        _check_names(name, function, {*self.json_schema["properties"], *slots})

    def canonical(self, args: Json) -> Json:
        """Return the arguments with the schema's defaults filled in; nothing is coerced."""
        return self._read.canonical(args)

    def bind(self, args: Json) -> tuple[list[Any], Json]:
        """Return the keyword arguments of a call, or raise `InvalidArguments`."""
        assert self._read.validate is not None
        value = self._read.validate(args)
        if isinstance(value, BaseModel):
            return [], {name: getattr(value, name) for name in type(value).model_fields}
        return [], copy.deepcopy(value)


def _check_names(tool: str, function: Callable[..., Any], named: Collection[str]) -> None:
    """Raise `InvalidDefinition` if a call by the names of the schema could not be one of the function."""
    parameters = inspect.signature(function).parameters.values()
    takes = {each.name for each in parameters}
    missing = [each.name for each in parameters if each.default is each.empty and each.kind not in MANY]
    if (other := next((each for each in missing if each not in named), None)) is not None:
        raise InvalidDefinition(f"Tool {tool!r}: its function needs {other!r}, which its args_schema does not have.")
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return
    if (other := next((each for each in named if each not in takes), None)) is not None:
        raise InvalidDefinition(f"Tool {tool!r}: its args_schema has {other!r}, which its function does not take.")


MANY = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
