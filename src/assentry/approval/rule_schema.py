"""The JSON schema of a rule: what would let a call pass by mistake is refused when the file is read.

JSON Schema passes over a keyword that it does not know, formats are not checked, and NaN limits nothing. In a rule that
allows, each would be a hole. How arguments are checked by a schema belongs to `schema.foreign`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.digest import BadJSON, plain
from ..core.wording import described
from ..schema.bounded import UNBOUNDED, check_json_schema, without_unbounded

Json = dict[str, Any]

_ONE = ("items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if", "then", "else")
"""Keywords with a schema in them."""
_SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
"""Keywords with a list of schemas in them."""
_STORED = ("$defs", "definitions")
_NAMED = ("properties", "patternProperties", "dependentSchemas", "dependencies", *_STORED)
"""Keywords with schemas by name in them."""
_PARTNERS = ("then", "else", "minContains", "maxContains", "exclusiveMinimum", "exclusiveMaximum", *_STORED)
"""Keywords that another one looks at."""
_NOTES = (
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
    *("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"),
)
"""Keywords that nobody takes for a check."""


class BadRuleSchema(ValueError):
    """This is no schema for a rule."""


def check_rule_schema(schema: Json) -> None:
    """Raise `BadRuleSchema` unless a rule may look at arguments by this schema."""
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import NoSuchResource, Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    try:
        plain(schema)
        check_json_schema(schema)
    except SchemaError as error:
        raise BadRuleSchema(f"schema is no JSON schema: {error.message:.300}") from None
    except BadJSON as error:
        raise BadRuleSchema(f"schema is no JSON schema: {error}") from None
    except Exception as error:  # it is nested too deeply, or is too much to check
        raise BadRuleSchema(f"schema is no JSON schema: {error!s:.300}") from None
    if without_unbounded(schema) != schema:
        raise BadRuleSchema(f"schema has {UNBOUNDED}")
    kind = validator_for(schema, Draft202012Validator)
    known = {*kind.VALIDATORS, *_PARTNERS, *_NOTES} - {"format"}
    dialect = specification_with(kind.META_SCHEMA["$schema"], default=DRAFT202012)
    resolver = Registry().resolver_with_root(dialect.create_resource(schema))
    for part in _parts(schema):
        if unknown := next((name for name in part if name not in known), None):
            raise BadRuleSchema(
                f"schema has {described(unknown)}, which checks nothing here: misspelt, or of another draft"
            )
        try:
            resolver.lookup(part.get("$ref", "#"))
        except (NoSuchResource, Unresolvable):
            raise BadRuleSchema(f"schema refers to {described(part['$ref'])}, which is not in it") from None


def _parts(schema: Any) -> Iterator[Json]:
    """Yield a schema and all schemas in it."""
    open_ = [schema]
    while open_:
        part = open_.pop()
        if type(part) is not dict:  # True or False
            continue
        yield part
        open_ += [part[name] for name in _ONE if name in part]
        for name in _SEVERAL:
            open_ += part[name] if type(part.get(name)) is list else []
        for name in _NAMED:
            open_ += part.get(name, {}).values()
