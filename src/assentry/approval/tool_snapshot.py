"""The snapshot of a tool from when a question was asked: enough to check a decision, and nothing that can run.

Arguments that pass here fit the tool's JSON schema of that time, read as the tool itself reads them. Only the tool has
the user's own validators, so the door checks the arguments again before the tool runs.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from msgspec import Struct

from ..core.digest import digest
from ..core.facts import CallKind
from ..definitions.tool import has_parameter, parameter_order
from ..errors import InvalidArguments, UnreadableState
from ..schema.defaults import with_defaults
from ..schema.foreign import ForeignSchema
from ..schema.form import at
from .answer import misfit, over_limit


class ToolSnapshot(Struct, frozen=True):
    """A tool's definition, read from the JSON of `Tool.frozen`."""

    name: str
    description: str
    schema: dict[str, Any]
    defaults: dict[str, Any]
    server: str | None
    version: str | None
    rule: bool | str
    kind: CallKind = "tool"
    agent: str | None = None
    """The name of the agent that a call goes to, if the tool is a handoff or an agent used as a tool."""
    shape: dict[str, Any] | None = None
    """The schema with all its defaults, if the strict schema for models leaves them out."""
    foreign: bool = False
    """True if a server wrote the schema. It may be of any draft, and arguments are checked as JSON Schema says."""
    order: tuple[str, ...] = ()
    """The names of the parameters as the signature has them, if that cannot be told from the schema."""

    @classmethod
    def read(cls, text: bytes) -> ToolSnapshot:
        """Return the tool from the JSON that `Tool.frozen` made, or raise `UnreadableState`."""
        try:
            return _decoder().decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnreadableState(f"The definition of a tool is damaged: {error}.") from None

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters, in the order of the tool's signature."""
        return parameter_order(self.schema, self.order)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the definition, the same as the tool's own."""
        parts = ("name", "description", "schema", "defaults", "server", "version", "rule")
        own = digest({part: getattr(self, part) for part in parts})[:32]
        return own if self.agent is None else digest({"tool": own, "agent": self.agent})[:32]

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the defaults filled in. Nothing is coerced."""
        if self.foreign:
            return ForeignSchema(self.schema).filled(args)
        try:
            return with_defaults(self.shape or self.schema, args)
        except (AttributeError, KeyError, TypeError) as error:
            raise UnreadableState(f"The definition of tool {self.name!r} is damaged: {error!r}.") from None

    def bind(self, args: dict[str, Any]) -> None:
        """Raise `InvalidArguments` unless the arguments fit."""
        if self.foreign:
            if wrong := ForeignSchema(self.schema).problem(args):
                raise InvalidArguments(wrong)
            return
        for name in args:
            if not self.takes(name):
                raise InvalidArguments(at(name, "there is no such argument"))
        shape = self.shape or self.schema
        try:
            problem = misfit(args, shape) or over_limit(args, shape)
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise UnreadableState(f"The definition of tool {self.name!r} is damaged: {error!r}.") from None
        if problem is not None:
            raise InvalidArguments(problem)

    def takes(self, name: str) -> bool:
        """Return True if the tool can have an argument of this name."""
        return has_parameter(self.schema, name)


@functools.cache
def _decoder() -> msgspec.json.Decoder[ToolSnapshot]:
    return msgspec.json.Decoder(ToolSnapshot)
