"""Conditions on arguments: what satisfies them, and what does not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry.approval.condition import KINDS, BadCondition, is_normal_path, read_conditions, satisfies
from assentry.cli.condition import conditions_from, conditions_text
from assentry.core.digest import canonical, parse

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("value", "condition", "holds"),
    [
        (50, {"at_most": 50}, True),
        (50.0, {"at_most": 50}, True),
        (50.000001, {"at_most": 50}, False),
        (True, {"at_most": 50}, False),
        ("5", {"at_most": 50}, False),
        (None, {"at_most": 50}, False),
        ([5], {"at_most": 50}, False),
        (-(10**30), {"at_least": 0}, False),
        (9007199254740993, {"at_most": 9007199254740992.0}, False),
        (9007199254740993, {"below": 9007199254740993}, False),
        (5, {"above": 5}, False),
        (5, {"above": 4, "below": 6}, True),
        (5, {"above": 4, "below": 5}, False),
        (5, {"is": 5.0}, True),
        (True, {"is": 1}, False),
        ({"a": [1]}, {"is": {"a": [1.0]}}, True),
        ("b", {"one_of": ["a", "b"]}, True),
        (1, {"one_of": [True]}, False),
        ("ann@example.com", {"matches": "*@example.com"}, True),
        ("ann@example.com.evil.org", {"matches": "*@example.com"}, False),
        ("x\n@example.com", {"matches": "*@example.com"}, False),
        ("a/b", {"matches": "*"}, False),
        ("a/b", {"matches": "*/*"}, True),
        ("Ann", {"matches": "ann"}, False),
        ("ab", {"matches": "a??"}, False),
        ("", {"matches": "*"}, True),
        (5, {"matches": "5"}, False),
        ("a" * 4000, {"matches": "*a*a*a*a*a*a*b"}, False),
        ("a" * 4001, {"matches": "*"}, False),
        ("INV-7", {"starts_with": "INV-"}, True),
        ("inv-7", {"starts_with": "INV-"}, False),
        ("/srv/out/../../etc/passwd", {"starts_with": "/srv/out/"}, False),
        ("/srv/out/a\\..\\..", {"starts_with": "/srv/out/"}, False),
        ("/srv/out/..a", {"starts_with": "/srv/out/"}, True),
        ("/srv/../a", {"matches": "/srv/*/a"}, False),
        ("/srv/out/..", {"matches": "/srv/out/*"}, False),
        ("/srv/out/.", {"matches": "/srv/out/?"}, False),
        ("/srv/out/a.txt", {"matches": "/srv/out/*"}, True),
        ("So on ..", {"starts_with": "So on"}, True),
        ("reports/../../etc/passwd", {"starts_with": "reports"}, False),
        ("..", {"matches": "*"}, False),
        ("1.2.3", {"matches": "*"}, True),
        ("https://a.example/pub/%2e%2E/admin", {"starts_with": "https://a.example/pub/"}, False),
        ("https://a.example/pub/..%2fadmin", {"starts_with": "https://a.example/pub/"}, False),
        ("https://a.example/pub/%252e%252e/admin", {"starts_with": "https://a.example/pub/"}, False),
        ("https://a.example/pub/.\t./admin", {"starts_with": "https://a.example/pub/"}, False),
        ("https://a.example/pub/..;/admin", {"starts_with": "https://a.example/pub/"}, False),
        ("https://a.example/pub/..#", {"starts_with": "https://a.example/pub/"}, False),
        ("https://a.example/pub/a.txt?b=.c", {"starts_with": "https://a.example/pub/"}, True),
        ("abc", {"max_length": 3}, True),
        ("abcd", {"max_length": 3}, False),
        ("/srv/out/a.txt", {"under": "/srv/out"}, True),
        ("/srv/out/a/b.txt", {"under": "/"}, True),
        ("/srv/out", {"under": "/srv/out"}, False),
        ("/srv/outside/a", {"under": "/srv/out"}, False),
        ("/srv/out/../etc/passwd", {"under": "/srv/out"}, False),
        ("/srv/out/./a", {"under": "/srv/out"}, False),
        ("/srv/out//a", {"under": "/srv/out"}, False),
        ("/srv/out/a/", {"under": "/srv/out"}, False),
        ("/srv/out/a\0b", {"under": "/srv/out"}, False),
        ("/srv/out/a\nb", {"under": "/srv/out"}, False),
        ("/srv/out\\..\\x", {"under": "/srv/out"}, False),
        ("/srv/out/%2e%2e/x", {"under": "/srv/out"}, False),
        ("/srv/out/\uff0e\uff0e/x", {"under": "/srv/out"}, False),
        ("/srv/out/\u2025/x", {"under": "/srv/out"}, False),
        ("/srv/out/a\uff0f..\uff0fx", {"under": "/srv/out"}, False),
        ("/srv/out/.\u200b./x", {"under": "/srv/out"}, False),
        ("/srv/out/..\u202e/x", {"under": "/srv/out"}, False),
        ("/srv/out/\u62a5\u544a\uff0etxt", {"under": "/srv/out"}, True),
        ("out/a", {"under": "/srv/out"}, False),
        ("out/a", {"under": "out"}, True),
        ("/out/a", {"under": "out"}, False),
        ("out/a", {"under": "."}, True),
        ("../a", {"under": "."}, False),
        ("/etc/passwd", {"under": "."}, False),
        ("~/x", {"under": "."}, False),
        ("C:/Windows/x", {"under": "."}, False),
    ],
)
def test_an_argument_satisfies_a_condition_or_not(value: Any, condition: dict[str, Any], holds: bool) -> None:
    assert satisfies({"x": value}, read_conditions({"x": condition})) is holds


def test_a_rejection_covers_a_path_that_leads_elsewhere_too() -> None:
    for condition in ({"starts_with": "/etc/"}, {"matches": "/etc/*/*"}):
        where = read_conditions({"x": condition})
        assert satisfies({"x": "/etc/../srv"}, where, rejects=True) and not satisfies({"x": "/etc/../srv"}, where)


def test_no_text_is_too_long_for_a_rejection() -> None:
    long = "drop table" + " " * 4000
    where = {"sql": {"matches": "drop *", "starts_with": "drop"}}
    assert satisfies({"sql": long}, where, rejects=True)
    assert not satisfies({"sql": long}, where)
    assert not satisfies({"sql": "select" + long}, where, rejects=True)


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        ("/srv/../etc/passwd", {"under": "/etc"}),
        ("/etc/./passwd", {"under": "/etc"}),
        ("//etc//passwd", {"under": "/etc"}),
        ("/etc/passwd/", {"under": "/etc"}),
        ("\\etc\\passwd", {"under": "/etc"}),
        ("../../etc/passwd", {"under": "/etc"}),
        ("~root/x", {"under": "/etc"}),
        ("/srv/%2e%2e/etc/passwd", {"under": "/etc"}),
        ("a/../secret/x", {"under": "secret"}),
        ("etc/passwd", {"under": "/etc"}),
        ("./etc/passwd", {"under": "/etc"}),
        (".", {"under": "/etc"}),
        ("a/..", {"under": "/etc"}),
        ("\uff0fetc\uff0fpasswd", {"under": "/etc"}),
        ("/home/ann/secret/x", {"under": "secret"}),
        ("/home/ann/x", {"under": "."}),
        (["/etc/passwd"], {"under": "/etc"}),
        ("x" * 4001, {"matches": "*@evil.example"}),
        ("1000", {"at_least": 500}),
        ([1000], {"above": 500}),
    ],
)
def test_a_rejection_is_not_evaded_by_writing_a_value_in_another_way(value: Any, condition: dict[str, Any]) -> None:
    where = read_conditions({"x": condition})
    assert satisfies({"x": value}, where, rejects=True) and not satisfies({"x": value}, where)


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        ("/srv/a", {"under": "/etc"}),
        ("/etc/../srv/a", {"under": "/etc"}),
        ("/reports/", {"under": "/etc"}),
        ("reports/", {"under": "secret"}),
        ("./a", {"under": "secret"}),
        (".", {"under": "secret"}),
        (".", {"under": "."}),
        ("/", {"under": "secret"}),
        ("", {"under": "/etc"}),
        (None, {"under": "/etc"}),
        (5, {"under": "/etc"}),
        (None, {"at_least": 5}),
        (4, {"at_least": 5}),
        ("5", {"is": 5}),
        ("ann", {"matches": "ben"}),
    ],
)
def test_a_rejection_covers_nothing_that_is_certainly_something_else(value: Any, condition: dict[str, Any]) -> None:
    assert not satisfies({"x": value}, read_conditions({"x": condition}), rejects=True)


def test_a_missing_argument_satisfies_nothing() -> None:
    for condition in ({"is": None}, {"at_most": 5}, {"matches": "*"}):
        assert not satisfies({}, {"x": condition}, rejects=True)
        assert not satisfies({}, {"x": condition}) and not satisfies(None, {"x": condition})
    assert satisfies({}, {})


def test_a_name_may_point_into_an_object() -> None:
    where = read_conditions({"/customer/country": {"is": "PT"}, "/a~1b": {"at_most": 1}})
    assert satisfies({"customer": {"country": "PT"}, "a/b": 1}, where)
    for args in ({"customer": {}}, {"customer": "PT"}, {"customer": [{"country": "PT"}]}, {"/customer/country": "PT"}):
        assert not satisfies({**args, "a/b": 1}, where)


def test_a_kind_that_is_not_known_is_satisfied_by_nothing() -> None:
    assert not satisfies({"x": 1}, {"x": {"is": 1, "newer": 1}})
    assert not satisfies({"x": 1}, {"x": {}})


@pytest.mark.parametrize(
    "given",
    [
        [], "x", {"x": 5}, {"x": {}}, {"x": {"most": 1}}, {"x": {"at_most": True}}, {"x": {"at_most": "1"}},
        {"x": {"at_most": float("inf")}}, {"x": {"at_most": 2**63}}, {"x": {"one_of": "ab"}}, {"x": {"matches": ""}},
        {"x": {"under": "/a/../b"}}, {"x": {"under": "/a/"}}, {"x": {"under": "~"}}, {"x": {"max_length": -1}},
        {"": {"is": 1}}, {5: {"is": 1}}, {str(n): {"is": n} for n in range(51)},
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused(given: Any) -> None:
    with pytest.raises(BadCondition):
        read_conditions(given)


@given(
    st.sampled_from(sorted(KINDS)),
    json_values | st.integers(-100, 100),
    json_values | st.integers(-100, 100) | st.floats(-100, 100),
)
def test_no_condition_is_satisfied_by_a_value_of_another_kind_and_none_fails(kind: str, limit: Any, value: Any) -> None:
    held = satisfies({"x": value}, {"x": {kind: limit}})
    if kind in ("at_most", "at_least", "below", "above"):
        assert not held or (type(value) in (int, float) and type(limit) in (int, float))
    elif kind in ("starts_with", "matches", "under", "max_length"):
        assert not held or type(value) is str
    if held and KINDS[kind].problem(limit) is None:
        assert satisfies(parse(canonical({"x": value}).decode()), read_conditions({"x": {kind: limit}}))


@given(st.integers() | st.floats(-1e308, 1e308), st.integers(-(2**62), 2**62) | st.floats(-1e308, 1e308))
def test_numbers_are_compared_exactly(value: Any, limit: Any) -> None:
    held = satisfies({"x": value}, read_conditions({"x": {"at_most": limit}}))
    assert held is (Decimal(value) <= Decimal(limit))
    assert held is not satisfies({"x": value}, read_conditions({"x": {"above": limit}}))


@given(st.text(alphabet="ab/.~\\\0:", max_size=12), st.sampled_from(["/a", "a", "/a/b", ".", "/"]))
def test_a_path_below_a_folder_stays_below_it(path: str, folder: str) -> None:
    import posixpath

    if satisfies({"x": path}, {"x": {"under": folder}}):
        assert is_normal_path(path) and posixpath.normpath(path) == path
        root = "" if folder == "." else folder
        assert posixpath.normpath(posixpath.join("/w" if folder == "." else "", root, path)).startswith(
            "/w/" if folder == "." else folder
        )
        assert posixpath.isabs(path) is posixpath.isabs(folder)


@pytest.mark.parametrize(
    ("texts", "where"),
    [
        (["amount <= 50"], {"amount": {"at_most": 50}}),
        (["amount<=50", "amount>=1"], {"amount": {"at_most": 50, "at_least": 1}}),
        (["to = ann"], {"to": {"is": "ann"}}),
        (['to = "5"'], {"to": {"is": "5"}}),
        (["path under /srv/out"], {"path": {"under": "/srv/out"}}),
        (['to one_of ["a","b"]'], {"to": {"one_of": ["a", "b"]}}),
        (["to matches *@example.com"], {"to": {"matches": "*@example.com"}}),
    ],
)
def test_conditions_are_written_on_a_command_line(texts: list[str], where: Any) -> None:
    assert conditions_from(texts) == where
    assert conditions_from(conditions_text(where).split(" and ")) == where


@pytest.mark.parametrize("texts", [["amount"], ["amount <= much"], ["a < 1", "a < 2"], ["path under ../x"], [""]])
def test_what_is_no_condition_on_a_command_line_is_refused(texts: list[str]) -> None:
    with pytest.raises(BadCondition):
        conditions_from(texts)
