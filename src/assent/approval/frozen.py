"""A tool as it was when a question about it was asked: enough to check a decision, and nothing that could run.

What it lets pass fits the tool's JSON schema as it was. The tool itself may know more, such as a validator of the
user's, or read more into a value, such as a number out of a text: so the door checks again before anything runs.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from ..core.digest import canonical, digest
from ..core.facts import CallKind
from ..errors import InvalidArguments, UnreadableState
from ..tools.defaults import Planning, filled
from ..tools.tool import takes
from .answer import problem_with

if TYPE_CHECKING:
    from jsonschema import FormatChecker


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
                raise InvalidArguments(f"{name:.80}: there is no such argument")
        problem = problem_with(args, Raw(canonical(self.shape or self.schema)), formats())
        if problem is not None:
            raise InvalidArguments(problem)

    def takes(self, name: str) -> bool:
        """Whether there can be an argument of this name."""
        return takes(self.schema, name)


_decode = msgspec.json.Decoder(FrozenTool).decode


@functools.cache
def formats() -> FormatChecker:
    """The formats in a tool's schema, read as generously as the tool itself reads them."""
    from datetime import date, datetime, time, timedelta
    from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
    from uuid import UUID

    from jsonschema import FormatChecker
    from pydantic import AnyUrl, TypeAdapter

    kinds: dict[str, Any] = {
        "date": date,
        "date-time": datetime,
        "time": time,
        "duration": timedelta,
        "uuid": UUID,
        "uri": AnyUrl,
        "ipv4": IPv4Address,
        "ipv6": IPv6Address,
        "ipv4interface": IPv4Interface,
        "ipv6interface": IPv6Interface,
        "ipv4network": IPv4Network,
        "ipv6network": IPv6Network,
    }
    checker = FormatChecker(formats=())
    for name, kind in kinds.items():
        checker.checks(name, ValueError)(functools.partial(_fits, TypeAdapter(kind)))
    return checker


def _fits(adapter: Any, value: Any) -> bool:
    """Whether a text is of the type, or raise `ValueError`; what is no text has no format."""
    if isinstance(value, str):
        adapter.validate_json(msgspec.json.encode(value))
    return True
