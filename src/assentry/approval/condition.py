"""Conditions on the arguments of a call, as plain JSON: `{"amount": {"at_most": 50}, "path": {"under": "/srv/out"}}`.

A name is a top-level argument, or a JSON pointer into nested objects: `/customer/country`. All conditions must hold.
An argument that is missing, or of another type, satisfies nothing: numbers are compared with numbers only, and patterns
with text only. Nothing is coerced, looked up or read from a disk. A verdict that holds calls back is not evaded by
writing a value in another way: see `may_satisfy`. Who uses conditions, and for what, belongs elsewhere.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..core.digest import BadJSON, plain
from ..core.wording import described

Conditions = dict[str, dict[str, Any]]
"""Conditions by the argument's name: the kind of each, and its limit."""

MOST_CONDITIONS = 50
"""The most arguments that conditions may name."""
MOST_CHOICES = 100
"""The most values of a `one_of`."""
LONGEST_LIMIT = 1000
"""The most characters of a pattern, a beginning or a folder."""
LONGEST_TEXT = 4000
"""The most characters of an argument that a pattern looks at; a longer one matches those of rejections only."""
_CONTROLS = re.compile("[\x00-\x1f\x7f]")
_CODED = r"%(?:25)*"
_END = rf"[/\\]|{_CODED}(?:2f|5c)"
_LEADING_UP = re.compile(rf"(?:^|{_END})\s*(?:\.|{_CODED}2e){{1,2}}\s*(?:$|[;?#]|{_END})", re.IGNORECASE)
"""A part `.` or `..` of a path or an address. Readers of addresses decode `%2e`, and pass over what follows a `;`."""
_MISSING = object()


class BadCondition(ValueError):
    """These are not conditions on arguments."""


class ConditionKind(NamedTuple):
    """A kind of condition."""

    problem: Callable[[Any], str | None]
    """Returns what is wrong with a limit; None if it is one."""
    holds: Callable[[Any, Any], bool]
    """Returns True if a value satisfies a limit. The value may be anything that JSON has."""


def read_conditions(given: Any) -> Conditions:
    """Return conditions as plain JSON data, or raise `BadCondition`."""
    try:
        value = plain(given)
    except BadJSON as error:
        raise BadCondition(f"conditions are JSON: {error}") from None
    if type(value) is not dict:
        raise BadCondition(f"conditions are an object by argument, got {described(given)}")
    if len(value) > MOST_CONDITIONS:
        raise BadCondition(f"at most {MOST_CONDITIONS} arguments can have a condition")
    for name, limits in value.items():
        _check(name, limits)
    return value


def _check(name: str, limits: Any) -> None:
    if not name or name == "/":
        raise BadCondition("a condition names an argument")
    if type(limits) is not dict or not limits:
        raise BadCondition(f'the condition on {described(name)} is an object such as {{"at_most": 50}}')
    for kind, limit in limits.items():
        if kind not in KINDS:
            raise BadCondition(f"{described(kind)} is no condition; there are: {', '.join(KINDS)}")
        problem = KINDS[kind].problem(limit)
        if problem is not None:
            raise BadCondition(f"{kind} of {described(name)} {problem}, got {described(limit)}")


def satisfies(args: Mapping[str, Any] | None, conditions: Conditions, *, rejects: bool = False) -> bool:
    """Return True if the arguments satisfy all conditions. A kind that is not known here is satisfied by nothing.

    A path with a part `..` satisfies no beginning and no pattern. With `rejects`, for the conditions of a verdict that
    holds calls back, it does, and so does a value that cannot be compared.
    """
    if args is None:
        return False
    for name, limits in conditions.items():
        value = _find(args, name)
        if value is _MISSING or not limits or (not rejects and _leads_up(value, limits)):
            return False
        if not all(_holds(kind, value, limit, rejects) for kind, limit in limits.items()):
            return False
    return True


def _holds(kind: str, value: Any, limit: Any, rejects: bool) -> bool:
    if kind not in KINDS:
        return False
    return KINDS[kind].holds(value, limit) or (rejects and may_satisfy(kind, value, limit))


def may_satisfy(kind: str, value: Any, limit: Any) -> bool:
    """Return True if a value that does not satisfy a condition may mean one that does.

    Text may be read as a number, a list or an object may have a text or a number in it, and a path may be written with
    `..` in it, or from another folder than the condition. Equal values are equal JSON.
    """
    if kind in ("is", "one_of"):
        return False
    if type(value) is not str:
        return type(value) in (list, dict)
    if kind == "under":
        return _may_be_under(value, limit)
    return kind in NUMBER_KINDS or (kind == "matches" and len(value) > LONGEST_TEXT)


def first_name(name: str) -> str:
    """Return the top-level argument that the name of a condition begins with."""
    return _steps(name)[0]


def _steps(name: str) -> list[str]:
    if not name.startswith("/"):
        return [name]
    return [step.replace("~1", "/").replace("~0", "~") for step in name[1:].split("/")]


def _find(args: Mapping[str, Any], name: str) -> Any:
    value: Any = args
    for step in _steps(name):
        if not isinstance(value, Mapping) or step not in value:
            return _MISSING
        value = value[step]
    return value


# -- equality ----------------------------------------------------------------------------------------


def same_value(value: Any, other: Any) -> bool:
    """Return True if two JSON values are equal. 5 equals 5.0, or a rejection would not cover a call that writes 5.0.

    True does not equal 1. Elsewhere values are compared by their JSON text, as digests are: see `core.digest.same`.
    """
    kinds = {type(value), type(other)}
    if kinds <= {int, float}:
        return bool(value == other)
    if len(kinds) > 1:
        return False
    if kinds == {dict}:
        return value.keys() == other.keys() and all(same_value(value[key], other[key]) for key in other)
    if kinds == {list}:
        return len(value) == len(other) and all(map(same_value, value, other))
    return bool(value == other)


def _is_choice(limit: Any) -> str | None:
    fits = type(limit) is list and 0 < len(limit) <= MOST_CHOICES
    return None if fits else f"is a list of 1 to {MOST_CHOICES} values"


def _is_among(value: Any, limit: Any) -> bool:
    return type(limit) is list and any(same_value(value, each) for each in limit)


# -- numbers -----------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _number_problem(limit: Any) -> str | None:
    fits = type(limit) is float or (type(limit) is int and abs(limit) < 2**63)  # larger ones would be rounded when read
    return None if fits else "is a number of at most 64 bits"


def _count_problem(limit: Any) -> str | None:
    return None if type(limit) is int and limit >= 0 else "is a whole number from 0"


# Python compares whole numbers with fractions exactly, however large they are: nothing is rounded to a float first.
def _at_most(value: Any, limit: Any) -> bool:
    return _is_number(value) and _is_number(limit) and bool(value <= limit)


def _at_least(value: Any, limit: Any) -> bool:
    return _is_number(value) and _is_number(limit) and bool(value >= limit)


def _below(value: Any, limit: Any) -> bool:
    return _is_number(value) and _is_number(limit) and bool(value < limit)


def _above(value: Any, limit: Any) -> bool:
    return _is_number(value) and _is_number(limit) and bool(value > limit)


# -- text --------------------------------------------------------------------------------------------


def _text_problem(limit: Any) -> str | None:
    fits = type(limit) is str and 0 < len(limit) <= LONGEST_LIMIT
    return None if fits else f"is text of 1 to {LONGEST_LIMIT} characters"


def _starts_with(value: Any, limit: Any) -> bool:
    return type(value) is str and type(limit) is str and limit != "" and value.startswith(limit)


def _leads_up(value: Any, limits: Mapping[str, Any]) -> bool:
    """Return True if a text is to begin somehow or to match, and is a path or an address with a part that leads up."""
    return type(value) is str and not limits.keys().isdisjoint(("starts_with", "matches")) and has_part_up(value)


def has_part_up(text: str) -> bool:
    """Return True if a text, read as a path or an address, has a part `.` or `..`, however it is written.

    Readers of addresses pass over line breaks, others over characters that nobody sees, and some read full-width dots
    and slashes as plain ones.
    """
    if not text.isascii():
        text = "".join(each for each in unicodedata.normalize("NFKC", text) if each.isprintable() or each.isspace())
    return _LEADING_UP.search(_CONTROLS.sub("", text)) is not None


def _is_short(value: Any, limit: Any) -> bool:
    return type(value) is str and type(limit) is int and len(value) <= limit


def _matches(value: Any, limit: Any) -> bool:
    """Return True if a pattern fits the whole text. `*` and `?` stand for characters that are no `/` and no control.

    All positions in the pattern are followed at once, so that no pattern takes long.
    """
    if type(value) is not str or type(limit) is not str or len(value) > LONGEST_TEXT:
        return False
    places = _after_stars({0}, limit)
    for char in value:
        joker = char != "/" and not _CONTROLS.match(char)
        following = set()
        for place in places:
            wanted = limit[place : place + 1]
            if wanted == "*":
                following |= {place} if joker else set()
            elif (wanted == "?" and joker) or (wanted == char and wanted != "?"):
                following.add(place + 1)
        places = _after_stars(following, limit)
        if not places:
            return False
    return len(limit) in places


def _after_stars(places: set[int], pattern: str) -> set[int]:
    """Add the places that follow when a star stands for nothing."""
    out = set(places)
    for place in places:
        after = place
        while pattern[after : after + 1] == "*":
            after += 1
            out.add(after)
    return out


# -- folders -----------------------------------------------------------------------------------------


def is_normal_path(path: Any) -> bool:
    """Return True if a path is written in the one way in which it leads where it says, as far as its text tells.

    It has no `..`, `.` or empty part, no backslash and no control character, and begins with no home (`~`) or drive
    (`C:`). Whether a part is a symbolic link is not looked at.
    """
    if type(path) is not str or not path or "\\" in path or _CONTROLS.search(path):
        return False
    parts = path.removeprefix("/").split("/")
    if path == "/":
        return True
    if not path.startswith("/") and (parts[0].startswith("~") or ":" in parts[0]):
        return False
    return not any(part in ("", ".", "..") for part in parts)


def _folder_problem(limit: Any) -> str | None:
    fits = limit == "." or (is_normal_path(limit) and len(limit) <= LONGEST_LIMIT)
    return None if fits else "is a folder such as /srv/out or reports, without .., ~ or a / at its end"


def _is_under(value: Any, limit: Any) -> bool:
    """Return True if a path is below a folder by its text alone; `.` is any path that is relative."""
    if not is_normal_path(value) or value == "/" or type(limit) is not str or has_part_up(value):
        return False
    if limit == ".":
        return not value.startswith("/")
    return is_normal_path(limit) and bool(value.startswith(limit if limit == "/" else f"{limit}/"))


def _may_be_under(value: str, limit: Any) -> bool:
    """Return True if a path is below a folder once its parts `..` are followed, or if its text does not tell."""
    if not value:
        return False
    path = posixpath.normpath(value.replace("\\", "/"))
    path = f"/{path.lstrip('/')}" if path.startswith("/") else path
    if path == "/":
        return False
    if type(limit) is str and path.startswith("/") is not limit.startswith("/"):
        return True  # only whoever knows the working folder can tell
    if path == ".":
        return False
    return _is_under(path, limit) or has_part_up(path) or not is_normal_path(path)


KINDS: dict[str, ConditionKind] = {
    "is": ConditionKind(lambda limit: None, same_value),
    "one_of": ConditionKind(_is_choice, _is_among),
    "at_most": ConditionKind(_number_problem, _at_most),
    "at_least": ConditionKind(_number_problem, _at_least),
    "below": ConditionKind(_number_problem, _below),
    "above": ConditionKind(_number_problem, _above),
    "starts_with": ConditionKind(_text_problem, _starts_with),
    "matches": ConditionKind(_text_problem, _matches),
    "under": ConditionKind(_folder_problem, _is_under),
    "max_length": ConditionKind(_count_problem, _is_short),
}
"""The kinds of conditions. Two on one argument must both hold: `{"at_least": 1, "at_most": 50}`."""
NUMBER_KINDS = ("at_most", "at_least", "below", "above")
