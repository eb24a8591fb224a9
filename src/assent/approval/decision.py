"""What a person can say: approve, edit, reject, respond. The same as JSON everywhere."""

from __future__ import annotations

from typing import Any
from unicodedata import category

import msgspec
from msgspec import Struct

from ..core.digest import BadJSON, described, holds, plain, worded
from ..errors import InvalidArguments, InvalidDecision


class _Decision(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type", tag=str.lower):
    pass


class Approve(_Decision, frozen=True):
    """Run the call as it was shown."""

    note: str | None = None


class Edit(_Decision, frozen=True):
    """Run the call with these arguments instead, and with another tool if one is named."""

    arguments: dict[str, Any]
    tool: str | None = None
    note: str | None = None


class Reject(_Decision, frozen=True):
    """Do not run the call; the model is told so, in these words if given."""

    message: str | None = None


class Respond(_Decision, frozen=True):
    """Answer in the tool's place, or what the tool's body asked."""

    output: Any


Decision = Approve | Edit | Reject | Respond
"""What a person can say to a question."""


def decision_from(data: Any) -> Decision:
    """A decision from its JSON form (`{"type": "approve"}`), or a decision as it is."""
    if isinstance(data, _Decision):
        return _checked(data)  # type: ignore[arg-type]
    try:
        return _checked(msgspec.convert(data, Decision))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidDecision(
            f"This is not a decision: {worded(error)}. "
            "Give Approve(), Edit(arguments), Reject(message) or Respond(output), "
            'or their JSON, such as {"type": "approve"}.'
        ) from None


def _checked(decision: Decision) -> Decision:
    """The decision with plain JSON of its own: one built in Python is as typed as one that came as JSON."""
    if type(decision) is Approve and decision.note is None:
        return decision  # it says no more than its type
    fields = {name: getattr(decision, name) for name in decision.__struct_fields__}
    if type(decision) is Edit:
        try:
            arguments = plain(decision.arguments)
        except BadJSON as error:
            raise InvalidArguments(f"These arguments are not JSON: {error}.") from None
        if type(arguments) is not dict:
            raise InvalidDecision(f"An edit's arguments must be a dict, got {described(arguments)}.")
    try:
        again: Decision = msgspec.convert({"type": type(decision).__name__.lower(), **plain(fields)}, Decision)
    except (BadJSON, msgspec.ValidationError) as error:
        raise InvalidDecision(f"This {type(decision).__name__} cannot be recorded: {error}.") from None
    return again


UNSEEN = {"Cc", "Cf", "Mn", "Zl", "Zp", "Zs"}
"""Kinds of characters that show nothing by themselves: white space, control, zero width, marks on other characters."""
BLANKS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols that Unicode draws as nothing."""


def checked_name(by: str, what: str = "`by` must say who decides, as text that can be seen") -> str:
    """The name of whoever decides, or `InvalidDecision`."""
    if type(by) is not str or not holds(by) or all(c in BLANKS or category(c) in UNSEEN for c in by):
        raise InvalidDecision(f"{what}; got {described(by)}.")
    return by
