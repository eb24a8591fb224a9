"""The decisions that a person can make: approve, edit, reject, respond. Their JSON form is the same everywhere."""

from __future__ import annotations

from typing import Any
from unicodedata import category

import msgspec
from msgspec import Struct

from ..core.digest import BadJSON, plain
from ..core.hidden import is_hidden
from ..core.wording import described, holds, worded
from ..errors import InvalidArguments, InvalidDecision


class _Decision(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="type", tag=str.lower):
    pass


class Approve(_Decision, frozen=True):
    """The decision to run the call as it was shown."""

    note: str | None = None


class Edit(_Decision, frozen=True):
    """The decision to run the call with these arguments instead, and with another tool if `tool` is given."""

    arguments: dict[str, Any]
    tool: str | None = None
    note: str | None = None


class Reject(_Decision, frozen=True):
    """The decision not to run the call. The model is told so, with `message` if given."""

    message: str | None = None


class Respond(_Decision, frozen=True):
    """The decision to answer in the tool's place, or to answer a question of the tool's body."""

    output: Any


Decision = Approve | Edit | Reject | Respond
"""Any decision that a person can make on a question."""
MAX_TEXT_BYTES = 64 * 1024
"""The most bytes that a person's text has: a message, a note, an answer in words. Data has the limits of the run."""


def decision_from(data: Any) -> Decision:
    """Return the checked decision from its JSON form (`{"type": "approve"}`) or from a decision object."""
    if isinstance(data, _Decision):
        return _copy_plain(data)  # type: ignore[arg-type]
    try:
        return _copy_plain(msgspec.convert(data, Decision))
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise InvalidDecision(
            f"This is not a decision: {worded(error)}. "
            "Give Approve(), Edit(arguments), Reject(message) or Respond(output), "
            'or their JSON, such as {"type": "approve"}.'
        ) from None


def _copy_plain(decision: Decision) -> Decision:
    """Return the decision with its own copy of plain JSON, typed as strictly as one that came as JSON."""
    if type(decision) is Approve and decision.note is None:
        return decision  # it has no data to check
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
    for name in ("message", "note", "output"):
        check_size(f"The {name} of this {type(decision).__name__}", getattr(again, name, None))
    return again


def check_size(what: str, text: Any) -> None:
    """Raise `InvalidDecision` if a person's text is too long to be recorded; other values are data, and pass."""
    size = len(text.encode()) if type(text) is str else 0
    if size > MAX_TEXT_BYTES:
        raise InvalidDecision(
            f"{what} has {size:,} bytes, and at most {MAX_TEXT_BYTES:,} (64 KiB) are recorded: shorten it, or keep it "
            "elsewhere and say where. Nothing was recorded."
        )


class Decider(Struct, frozen=True):
    """Somebody who decides: a name, the groups that the name is in, a hash of what was shown, and for how long."""

    name: str
    groups: tuple[str, ...] = ()
    shown: str | None = None
    looked: int | None = None
    """The milliseconds that the question was open before them; None if nobody knows."""


# fmt: off
OURS = (
    "rule", "grant", "server", "group", "runtime", "deadline", "probe", "tool", "idempotent", "on_change", "outside",
)
# fmt: on
"""The names that the journal gives to authors who are no people, alone or before a colon."""


def decider_from(by: str | Decider) -> Decider:
    """Return whoever decides; raise `InvalidDecision` if the name is not visible text, or is not a person's."""
    who = by if isinstance(by, Decider) else Decider(by)
    checked_name(who.name)
    check_size("The name of whoever decides", who.name)
    if who.name.partition(":")[0] in OURS:
        raise InvalidDecision(
            f"The name {described(who.name)} is reserved for Assentry itself; give the name of the person."
        )
    return who


def checked_name(by: str, what: str = "`by` must say who decides, as text that can be seen") -> str:
    """Return the name of whoever decides, or raise `InvalidDecision` if it is not visible text."""
    if type(by) is not str or not holds(by) or all(c in " \n\t" or is_hidden(c) or category(c) == "Mn" for c in by):
        raise InvalidDecision(f"{what}; got {described(by)}.")
    return by
