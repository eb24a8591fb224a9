"""The values that options may have, and what the errors say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from assentry.core import allowed
from assentry.errors import InvalidDefinition, UsageError

NAN, INFINITY = float("nan"), float("inf")


class Text(str):
    """A text of a user's own class."""


@pytest.mark.parametrize(
    ("values", "fit", "unfit"),
    [
        (allowed.BOOL, [True, False], [0, 1, None, "True"]),
        (allowed.CALLABLE, [print, str, lambda: 1], [None, "print", True]),
        (allowed.CALLABLE.or_none, [None, print], ["", 0, False]),
        (allowed.BOOL_OR_CALLABLE, [True, False, print], [None, 1, "yes"]),
        (allowed.TEXT, ["", "a", "é"], [None, b"a", "\ud800", Text("a"), 1]),
        (allowed.NONEMPTY, ["a", " "], ["", None, "\ud800"]),
        (allowed.NAME, ["a"], ["", " ", "\n", None, "\ud800"]),
        (allowed.NAMES, [[], ["a"], ("a",), {"a"}, frozenset()], ["a", None, ["a", ""], ["\ud800"], {"a": 1}]),
        (allowed.LIST, [[], (), [1]], ["", {}, None, {1}]),
        (allowed.COUNT, [1, 2**63 - 1], [0, -1, 2**63, True, 1.0, "1", None]),
        (allowed.whole_number(0, 3), [0, 3], [-1, 4, False]),
        (allowed.seconds(), [0, 0.5, 60], [-1, NAN, INFINITY, -INFINITY, True, "1", None]),
        (allowed.seconds(0.1, 60), [0.1, 60], [0, 61, NAN]),
        (allowed.POSITIVE_SECONDS, [1, 0.001], [0, 0.0, -1, NAN, INFINITY, True, "1"]),
        (allowed.one_of("a", "b"), ["a", "b", Text("a")], ["", "c", None, [], {}]),
        (allowed.instance_of(dict), [{}], [[], None]),
        (allowed.dict_of_texts(), [{}, {"a": "b"}], [None, {"a": 1}, {1: "a"}, {"a": "\ud800"}, ["a"]]),
    ],
    ids=lambda each: each.words if isinstance(each, allowed.Values) else "",
)
def test_an_option_takes_these_values_and_no_others(values: allowed.Values, fit: list[Any], unfit: list[Any]) -> None:
    for value in fit:
        allowed.check_option("Thing", "option", value, values)
    for value in unfit:
        with pytest.raises(InvalidDefinition, match=r"^Thing: option must be .*, got .*\.$"):
            allowed.check_option("Thing", "option", value, values)


def test_the_error_names_the_class_the_option_the_value_and_what_may_come() -> None:
    options = allowed.Options(name=allowed.NAME, release=allowed.one_of("each", "batch", "all"))
    with pytest.raises(UsageError) as caught:
        options.check("Thing 'a'", SimpleNamespace(name="a", release="every"), UsageError)
    assert str(caught.value) == 'Thing \'a\': release must be "each", "batch" or "all", got \'every\'.'
    assert type(caught.value) is UsageError
    options.check("Thing", SimpleNamespace(name="a", release="all"))


def test_the_error_of_a_list_shows_the_item_that_does_not_fit() -> None:
    with pytest.raises(InvalidDefinition, match=r"Thing: names must be a list of names, got 5 in it\."):
        allowed.check_option("Thing", "names", [*map(str, range(99)), 5], allowed.NAMES)


def test_the_error_of_a_secret_option_shows_only_a_type() -> None:
    with pytest.raises(InvalidDefinition, match=r"^Thing: headers must be a dict of texts or None, got a str\.$"):
        allowed.check_option("Thing", "headers", "token abc", allowed.dict_of_texts().secret.or_none)


def test_the_error_of_an_unknown_name_has_the_nearest_one() -> None:
    options = allowed.Options(timeout=allowed.seconds(), headers=allowed.LIST)
    options.check_items("Thing", {"timeout": 1})
    with pytest.raises(InvalidDefinition) as caught:
        options.check_items("Thing", {"time_out": 1})
    said = "Thing: there is no option 'time_out'; did you mean 'timeout'? There are: headers, timeout."
    assert str(caught.value) == said
    with pytest.raises(InvalidDefinition, match=r"no option 5\. There are: headers, timeout\."):
        options.check_items("Thing", {5: 1})  # type: ignore[dict-item]
    with pytest.raises(
        InvalidDefinition, match=r"^Thing: timeout must be a number of seconds from 0 to 100 years, got '"
    ):
        options.check_items("Thing", {"timeout": "1"})
