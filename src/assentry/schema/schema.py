"""Schemas of functions and types: the JSON schema that a model is offered, and the binding of JSON arguments.

    function ── hints, docstring ──► FunctionSchema ── json_schema ──► the model
    arguments ── canonical ──► judged by rules, shown to people ── bind ──► function(*args, **kwargs)

Arguments stay JSON until `bind`: canonical arguments only have the schema's defaults filled in, so that rules and
people judge all that runs. Calling the function, and handling arguments that do not fit, belong elsewhere.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, Unpack, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import SchemaError, SchemaValidator, core_schema, to_json

from ..core.digest import plain
from ..core.wording import described
from ..errors import InvalidArguments, InvalidDefinition
from .binding import Binding
from .defaults import defaults_of, has_defaults, with_defaults
from .docstring import Style, parse_docstring
from .form import DECIMAL, NAMES, PROBLEM, form_of, short, trimmed
from .injected import Injected, Recognizer, refuse_injected
from .parameters import Parameters
from .secret import is_secret
from .signature import POSITIONAL, Hinted, Signature, function_name, source_of, where
from .strict import Tightening, referred

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """The schema of a function for a model, and the binding of JSON arguments to a call of the function."""

    name: str
    description: str
    json_schema: Json
    """The object schema offered to the model."""
    injected: tuple[Injected, ...]
    """The parameters that are never shown to a model: the run's context and others, in their order."""
    required: frozenset[str]
    """The parameters without a default in the function; a strict schema requires the others too."""
    loose: Json = field(repr=False, compare=False)
    """The schema before it is made strict, with the defaults at every depth."""
    defaults: Json = field(repr=False, compare=False)
    """The defaults of the parameters, as JSON."""
    fills: bool = field(repr=False, compare=False)
    """True if there may be a default to fill in, at any depth."""
    secrets: tuple[str, ...] = field(repr=False, compare=False)
    """The parameters whose types are marked as `Secret`, or are secrets of pydantic's."""
    _binding: Binding = field(repr=False, compare=False)
    _call: Callable[[dict[str, Any]], tuple[list[Any], Json]] = field(repr=False, compare=False)
    _plain: dict[str, type] | None = field(repr=False, compare=False)
    """The type of each parameter, if all are JSON types: arguments of just these types need no validation."""

    @property
    def takes_context(self) -> bool:
        """True if the function's first parameter is the run's context."""
        return any(each.source == "context" for each in self.injected)

    def canonical(self, args: Json) -> Json:
        """Return a copy of `args` with the schema's defaults filled in at every depth; nothing present is changed."""
        return with_defaults(self.loose, args)

    def bind(self, args: Json) -> tuple[list[Any], dict[str, Any]]:
        """Validate `args` into the positional and keyword arguments of a call, without the injected ones."""
        if not self.defaults.keys() <= args.keys():
            args = {**self.defaults, **args}
        plain = self._plain
        if plain is not None and args.keys() == plain.keys():
            given = [*map(args.__getitem__, plain)]
            if [*map(type, given)] == [*plain.values()]:
                return given, {}
        return self._call(self._binding.read(args).__dict__)


def function_schema(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool = True,
    use_docstring: bool = True,
    docstring_style: Style | None = None,
    context_types: tuple[type, ...] = (),
    config: bool = False,
    recognize: Recognizer | None = None,
) -> FunctionSchema:
    """Read a function's signature, hints and docstring; raise `InvalidDefinition` if no model could call it.

    With `config`, a parameter of LangChain's type `RunnableConfig` is injected; otherwise it is refused. `recognize`
    says of further parameters how they are filled in.
    """
    if not callable(function):
        raise InvalidDefinition(f"A tool is made of a function, and a {type(function).__name__} cannot be called.")
    source = source_of(function)
    name = name or function_name(source)
    doc = parse_docstring(inspect.getdoc(source) if use_docstring else None, docstring_style)
    signature = Signature.read(function, name, source, context_types, config=config, recognize=recognize)
    parameters = [_parameter(*each, doc.params) for each in enumerate(signature.parameters)]
    model, loose = _build(name, parameters)
    _drop_unfit_defaults(loose)
    return FunctionSchema(
        name=name,
        description=doc.description if description is None else description,
        json_schema=Tightening(name, loose).top() if strict else loose,
        injected=signature.injected,
        required=frozenset(each.name for each in parameters if model.model_fields[each.field].is_required()),
        loose=loose,
        defaults=defaults_of(loose),
        fills=has_defaults(loose),
        secrets=tuple(each.name for each in parameters if is_secret(each.hint, (SecretStr, SecretBytes))),
        _binding=Binding.of(loose, model.__pydantic_core_schema__, model.__pydantic_validator__.validate_json),
        _call=partial(_call, parameters, _own_names(signature)),
        _plain=_plain_types(parameters),
    )


def type_schema(name: str, kind: Any, *, strict: bool = True) -> Parameters:
    """Read a type whose JSON is an object: a model, a dataclass, a TypedDict."""
    refuse_injected(f"{name!r}: a part of {described(kind)}", kind)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        loose = adapter.json_schema(by_alias=True, schema_generator=Generator)
    except Exception as error:
        raise InvalidDefinition(
            f"{name!r}: no schema can be made of {described(kind)} ({short(_first_line(error), PROBLEM)})."
        ) from error
    if "$ref" in loose:  # a type that refers to itself
        loose = {**loose["$defs"][referred(loose)], "$defs": loose["$defs"]}
    if loose.get("type") != "object" or "properties" not in loose:
        raise InvalidDefinition(f"{name!r}: {described(kind)} has no named fields; use a model or a dataclass.")
    _drop_unfit_defaults(loose)
    return Parameters(
        json_schema=Tightening(name, loose).top() if strict else loose,
        required=frozenset(loose.get("required", ())),
        defaults=defaults_of(loose),
        fill=partial(with_defaults, loose),
        validate=Binding.of(loose, adapter.core_schema, adapter.validate_json).read,
        loose=loose,
    )


# Building the pydantic model


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter as a field of the model. Its field name is generated: a parameter's may clash with the model's."""

    name: str
    field: str
    kind: inspect._ParameterKind
    hint: Any
    default: FieldInfo
    description: str | None


def _parameter(index: int, given: Hinted, said: dict[str, str]) -> _Parameter:
    hint, default = given.hint, _default(given)
    description = default.description or _annotated_text(hint) or said.get(given.name)
    if given.kind is inspect.Parameter.VAR_POSITIONAL:
        hint = GenericAlias(list, hint)
    elif given.kind is inspect.Parameter.VAR_KEYWORD:
        hint = get_args(hint)[0] if get_origin(hint) is Unpack else GenericAlias(dict, (str, hint))
    return _Parameter(given.name, f"p{index}", given.kind, hint, default, description)


def _default(given: Hinted) -> FieldInfo:
    # A factory makes them optional without putting a default into the schema.
    if given.kind is inspect.Parameter.VAR_POSITIONAL:
        return _field(default_factory=list)
    if given.kind is inspect.Parameter.VAR_KEYWORD:
        return _field(default_factory=dict)
    if given.default is inspect.Parameter.empty:
        return _field()
    return given.default if isinstance(given.default, FieldInfo) else _field(default=given.default)


def _field(**said: Any) -> FieldInfo:
    """Return a pydantic `Field` as the `FieldInfo` that it is; pydantic types it as the field's value."""
    made: FieldInfo = Field(**said)
    return made


def _annotated_text(hint: Any) -> str | None:
    texts = (each.description if isinstance(each, FieldInfo) else each for each in _metadata(hint))
    return next((each for each in texts if type(each) is str), None)


def _metadata(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _build(tool: str, parameters: Sequence[_Parameter]) -> tuple[type[BaseModel], Json]:
    for each in parameters:
        fields = [info for info in (*_metadata(each.hint), each.default) if isinstance(info, FieldInfo)]
        if any(info.alias or info.validation_alias for info in fields):
            raise InvalidDefinition(f"{where(tool, each.name)} has an alias; give the parameter itself that name.")
    try:
        return _attempt(tool, parameters)
    except Exception as error:
        culprit = next((each.name for each in parameters if _fails(tool, each)), None)
        place = where(tool, culprit) if culprit else f"Tool {tool!r}"
        raise InvalidDefinition(
            f"{place}: no schema can be made of it ({short(_first_line(error), PROBLEM)}); "
            "annotate it with a type that JSON can carry and pydantic knows."
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _fails(tool: str, parameter: _Parameter) -> bool:
    try:
        _attempt(tool, [parameter])
    except Exception:
        return True
    return False


def _attempt(tool: str, parameters: Iterable[_Parameter]) -> tuple[type[BaseModel], Json]:
    fields: dict[str, Any] = {each.field: _definition(each) for each in parameters}
    # The blank keeps the model's name apart from the user's own types in the schema's definitions.
    model = create_model(f"{tool} arguments", __config__=ConfigDict(extra="forbid"), **fields)
    return model, model.model_json_schema(by_alias=True, schema_generator=Generator)


def _plain_types(parameters: Sequence[_Parameter]) -> dict[str, type] | None:
    """Return the parameters' types by name, or None unless each is positional and takes exactly a JSON type."""
    for each in parameters:
        if each.hint not in _JSON_TYPES or each.kind not in POSITIONAL:
            return None
        if each.default.metadata or each.default.default is None:  # a constraint, or None as the default
            return None
    return {each.name: each.hint for each in parameters}


_JSON_TYPES: Final = (str, int, float, bool)


def _definition(parameter: _Parameter) -> Any:
    hint, name = parameter.hint, parameter.name
    if parameter.default.default is None and not _admits_none(hint):
        # `x: str = None` is wrong but common; the function evidently takes None.
        hint = hint | None
    named = _field(alias=name, validation_alias=name, serialization_alias=name, description=parameter.description)
    return Annotated[hint, named], parameter.default


def _admits_none(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_admits_none(each) for each in get_args(hint))
    if origin is Annotated:
        return _admits_none(get_args(hint)[0])
    if origin is Literal:
        return None in get_args(hint)
    return hint in (Any, object, None, NoneType)


class Exact(GenerateJsonSchema):
    """A generator of pydantic's schema without the input that binding refuses: unknown keys, and second spellings."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _closed(super().typed_dict_schema(schema))

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        # JSON parsers read a number as a float, which may have other digits.
        return {"type": "string", "format": "decimal", "pattern": f"^{DECIMAL}$"}

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        made, config = super().str_schema(schema), self._config
        changed = trimmed(
            schema.get("strip_whitespace", config.str_strip_whitespace),
            schema.get("to_lower", config.str_to_lower),
            schema.get("to_upper", config.str_to_upper),
        )
        return {**made, "format": changed} if changed else made

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        # Pydantic names the form that it would write, which need not be the one that it reads.
        format = {"base64": "base64url", "hex": "hex"}.get(self._config.val_json_bytes, "binary")
        return {**super().bytes_schema(schema), "format": format}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made, keys = super().dict_schema(schema), schema.get("keys_schema", {})
        kind = keys.get("type")
        if kind in NAMES:
            made["propertyNames"] = {"pattern": NAMES[kind]}
        elif kind == "enum":
            made["propertyNames"] = {"enum": [_as_name(each.value) for each in keys["members"]]}
        return made


def _closed(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Forbid unknown keys, unless the type says otherwise: nobody should judge an argument that nobody reads."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def _as_name(value: Any) -> Any:
    return value if isinstance(value, str) else to_json(value).decode()


class Generator(Exact):
    """A generator of schemas without pydantic's own titles, and without defaults that do not survive JSON."""

    _shared: Sequence[core_schema.CoreSchema] = ()

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Ignore the warning: a default that JSON cannot hold is left to the function."""

    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JsonSchemaValue:
        self._shared = schema["definitions"]
        return super().definitions_schema(schema)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if "default" in made and not self._comes_back(made["default"], schema):
            del made["default"]
        return made

    def _comes_back(self, encoded: Any, schema: core_schema.WithDefaultSchema) -> bool:
        """Return True if the default, read back from JSON, is the same.

        Filling in a default must not change the function's argument: a secret's default is `**********` in JSON.
        """
        default = schema.get("default")
        try:
            plain(encoded)
            value = self._validator(schema["schema"]).validate_json(to_json(encoded))
            shown = tuple(encoded) if type(default) is tuple else encoded
            return bool(value == default or shown == default)
        except Exception:  # a user's validator may raise anything
            return False

    def _validator(self, schema: core_schema.CoreSchema) -> SchemaValidator:
        try:
            return SchemaValidator(schema)
        except SchemaError:  # it refers to shared definitions, which are costly to build again
            return SchemaValidator(core_schema.definitions_schema(schema, list(self._shared)))

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def p_arguments_schema(
        self, arguments: list[core_schema.ArgumentsParameter], var_args_schema: core_schema.CoreSchema | None
    ) -> JsonSchemaValue:
        made = super().p_arguments_schema(arguments, var_args_schema)
        for item in made.get("prefixItems", ()):  # older versions of pydantic set titles here without asking
            item.pop("title", None)
        return made

    def generate(self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        made = super().generate(schema, mode)
        made.pop("title", None)
        for name, definition in made.get("$defs", {}).items():
            # Drop a title that only repeats the definition's name; keep one that somebody wrote.
            if name.endswith(re.sub(r"[^a-zA-Z0-9._-]", "_", definition.get("title", ""))):
                definition.pop("title", None)
        return made


def _drop_unfit_defaults(schema: Json) -> None:
    """Drop defaults that are not valid as arguments, such as 0 for a bool; the function fills them in itself."""
    definitions = schema.get("$defs", {})
    nodes: list[Any] = [schema]
    for node in nodes:  # the list grows during the loop
        if isinstance(node, list):
            nodes += node
        elif isinstance(node, dict):
            for each in node.get("properties", {}).values():
                if "default" in each and not form_of({**each, "$defs": definitions}).fits(each["default"]):
                    del each["default"]
            below = [*node.get("properties", {}).values(), *node.get("$defs", {}).values()]
            keys = ("items", "prefixItems", "anyOf", "oneOf", "additionalProperties")
            nodes += below + [node.get(key) for key in keys]


# Calling the function


def _call(parameters: Sequence[_Parameter], own: frozenset[str], values: dict[str, Any]) -> tuple[list[Any], Json]:
    """Return the positional and keyword arguments of a call; `own` are the names that `**kwargs` cannot hold."""
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for each in parameters:  # a signature has its parameters in this order
        value = values[each.field]
        if each.kind in POSITIONAL:
            positional.append(value)
        elif each.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        elif each.kind is inspect.Parameter.KEYWORD_ONLY:
            keyword[each.name] = value
        elif clash := own & value.keys():
            raise InvalidArguments(f"{each.name}.{min(clash)}: is a parameter of its own")
        else:
            keyword |= value
    return positional, keyword


def _own_names(signature: Signature) -> frozenset[str]:
    """Return the names that `**kwargs` cannot hold, since they are parameters of their own."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    own = (each.name for each in signature.parameters if each.kind in named)
    return frozenset((*own, *(each.name for each in signature.injected), *signature.bound))
