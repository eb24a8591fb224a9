"""A tool as it was when a question about it was asked: enough to check a decision, and nothing that could run.

What it lets pass fits the tool's JSON schema as it was, read as the tool itself reads it. Only the tool knows the
validators that the user wrote, so the door checks again before anything runs.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..core.digest import digest
from ..core.facts import CallKind
from ..errors import InvalidArguments, UnreadableState
from ..tools.defaults import Planning, filled
from ..tools.form import at
from ..tools.tool import takes
from .answer import misfit, over_limit


class FrozenTool(Struct, frozen=True):
    """The definition of a tool, read back from where it was kept."""

    name: str
    description: str
    schema: dict[str, Any]
    defaults: dict[str, Any]
    server: str | None
    version: str | None
    rule: bool | str
    kind: CallKind = "tool"
    agent: str | None = None
    """The name of the agent that a call goes to, if the tool is another agent."""
    shape: dict[str, Any] | None = None
    """The schema with all its defaults, where the strict one that models are shown does not say them."""

    @classmethod
    def read(cls, text: bytes) -> FrozenTool:
        """From the JSON that `Tool.frozen` gave, or `UnreadableState`."""
        try:
            return _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UnreadableState(f"The definition of a tool is damaged: {error}.") from None

    @property
    def fingerprint(self) -> str:
        """Of the definition: the same as the tool's own."""
        parts = ("name", "description", "schema", "defaults", "server", "version", "rule")
        own = digest({part: getattr(self, part) for part in parts})[:32]
        return own if self.agent is None else digest({"tool": own, "agent": self.agent})[:32]

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments with the defaults filled in; nothing is coerced."""
        shape = self.shape or self.schema
        try:
            return filled(Planning(shape.get("$defs", {})).top(shape), args)
        except RecursionError:
            raise InvalidArguments("arguments: nested too deeply") from None
        except (AttributeError, KeyError, TypeError) as error:
            raise UnreadableState(f"The definition of tool {self.name!r} is damaged: {error!r}.") from None

    def bind(self, args: dict[str, Any]) -> None:
        """See that the arguments fit, or raise `InvalidArguments`."""
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
        """Whether there can be an argument of this name."""
        return takes(self.schema, name)


_decode = msgspec.json.Decoder(FrozenTool).decode
