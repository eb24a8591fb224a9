"""JSON with one spelling: of any value one text, of any text one value or `BadJSON`, and nothing else escapes."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assentry.core.digest import BadJSON, canonical, digest, parse, parse_object, plain
from assentry.core.wording import clean_text, described, holds, shortened

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)
any_text = st.text(st.characters(exclude_categories=[]), max_size=40)

MARKS = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    '"a"',
    '"a":',
    " ",
    "\n",
    "\t",
    "//",
    "'a'",
    "\ufeff",
    "\x00",
    "é",
    "\ud800",
]
NUMBERS = ["1", "-", "0", "01", "1.5", "1e5", "1e999", "-1e999", "9" * 30, "9" * 5000, "." + "9" * 400]
NAMES = ["true", "null", "NaN", "Infinity", "-Infinity", "undefined"]
ESCAPES = ["\\", "\\u", "\\ud83d", "\\ude00", '"\\ud800"', '"\\u0000"']
NESTS = ["[" * 50, "]" * 50, '{"a":' * 30, "}" * 30]
tokens = st.sampled_from([*MARKS, *NUMBERS, *NAMES, *ESCAPES, *NESTS])
soup = st.lists(tokens, max_size=12).map("".join)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """The text of a value with a piece of it taken out, doubled, or replaced."""
    whole = draw(values.map(json.dumps) | values.map(lambda value: canonical(value).decode()))
    start = draw(st.integers(0, len(whole)))
    end = draw(st.integers(start, min(len(whole), start + 5)))
    return whole[:start] + draw(tokens | st.just("") | st.just(whole[start:end] * 2)) + whole[end:]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: 1 is not 1.0, nor true, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(repr(one) == repr(other))


def shuffled(value: Any, order: Callable[[list[Any]], list[Any]]) -> Any:
    if type(value) is dict:
        return {key: shuffled(value[key], order) for key in order(list(value))}
    return [shuffled(each, order) for each in value] if type(value) is list else value


def attempt(function: Callable[[Any], Any], value: Any) -> list[Any] | BadJSON:
    """What the function gives, or how it refuses; whatever else it raises is not caught."""
    try:
        return [function(value)]
    except BadJSON as error:
        str(error).encode()
        return error


# -- one text for a value ------------------------------------------------------------------------------


@given(values)
def test_the_canonical_text_gives_the_value_back(value: Any) -> None:
    assert same(parse(canonical(value).decode()), value)


@given(values)
def test_the_canonical_text_is_canonical(value: Any) -> None:
    once = canonical(value)
    assert canonical(parse(once.decode())) == once


@given(values, st.randoms(use_true_random=False))
def test_the_order_of_keys_never_matters(value: Any, chance: Any) -> None:
    other = shuffled(value, lambda keys: chance.sample(keys, len(keys)))
    assert canonical(other) == canonical(value)
    assert digest({"value": other}) == digest({"value": value})


@given(values, values)
@example(1, 1.0)
@example(1, True)
@example(0, False)
@example(0.0, -0.0)
@example(0, -0.0)
@example("1", 1)
@example(None, "null")
@example([], {})
@example([[]], [])
@example({"a": 1}, {"a": "1"})
@example(["a", "b"], ["a,b"])
@example("é", "e\u0301")
@example(2**53, 2**53 + 1)
@example(2**64, 2**64 + 1)
@example(10**22, 1e22)
def test_two_values_share_a_text_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == same(one, other)
    assert (digest({"v": one}) == digest({"v": other})) == same(one, other)


@given(values)
def test_other_spellings_of_a_value_have_one_canonical_text(value: Any) -> None:
    for spelling in (json.dumps(value), json.dumps(value, indent=3), json.dumps(value, ensure_ascii=False)):
        assert canonical(parse(spelling)) == canonical(value)


@given(values)
def test_the_digest_is_sha_256_of_the_canonical_text(value: Any) -> None:
    assert digest({"v": value}) == hashlib.sha256(canonical({"v": value})).hexdigest()


def code_units(key: str) -> list[int]:
    """The UTF-16 code units of a key, worked out by hand."""
    out: list[int] = []
    for point in map(ord, key):
        out += [point] if point < 0x10000 else [0xD800 + (point - 0x10000 >> 10), 0xDC00 + (point - 0x10000 & 0x3FF)]
    return out


@given(st.dictionaries(words, st.just(0), max_size=12))
def test_keys_are_in_the_order_of_their_utf_16_code_units(value: dict[str, int]) -> None:
    assert list(json.loads(canonical(value))) == sorted(value, key=code_units)


def test_keys_are_in_the_order_of_rfc_8785() -> None:
    value = {"€": 1, "\r": 2, "\ufb33": 3, "1": 4, "😀": 5, "\x80": 6, "ö": 7}  # the example of its section 3.2.3
    assert list(json.loads(canonical(value))) == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


def test_there_is_no_white_space_and_no_needless_escape() -> None:
    assert canonical({"b": [1, 2.5, True, None], "a": 'é"\\\n\x01/'}).decode() == (
        '{"a":"é\\"\\\\\\n\\u0001/","b":[1,2.5,true,null]}'
    )


# -- one value for a text, or none ---------------------------------------------------------------------


@given(any_text | soup | damaged())
@example("")
@example(" ")
@example('"\\ud83d\\ude00"')
@example('{"\\ud800": 1}')
@example('{"a": 1, "\\u0061": 2}')
@example("9" * 5000)
@example("-" + "9" * 5000)
@example('["é", ' + "9" * 5000 + "]")
@example("1e999")
@example("-1e999")
@example("[" * 100_000)
@example('{"a":' * 100_000)
def test_any_text_is_one_value_or_bad_json(given_text: str) -> None:
    outcome = attempt(parse, given_text)
    if isinstance(outcome, BadJSON):
        return
    [value] = outcome
    assert same(parse(canonical(value).decode()), value)
    assert same(plain(value), value)


@pytest.mark.parametrize(
    "bad",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        '{"a": NaN}',
        "1e999",
        "-1e999",
        "[1e400]",
        '{"a": 1, "a": 1}',
        '{"a": 1, "\\u0061": 2}',
        '{"b": {"a": 1, "a": 2}}',
        '{"": 1, "": 2}',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '{"\\ud800": 1}',
        '"\ud800"',
        '["\udfff"]',
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "9" * 5000,
        "-" + "9" * 5000,
        "",
        " ",
        "{",
        "[1,]",
        "{'a': 1}",
        "01",
        "1 2",
        "\ufeff{}",
        '"\n"',
        "undefined",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_has_no_single_meaning_is_refused(bad: str) -> None:
    with pytest.raises(BadJSON):
        parse(bad)
    with pytest.raises(BadJSON):
        parse_object(bad)


def test_a_surrogate_pair_is_one_character() -> None:
    assert parse('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize("other", ["[]", '"{}"', "1", "1.5", "true", "null"])
def test_arguments_are_an_object(other: str) -> None:
    assert parse_object('{"a": 1}') == {"a": 1}
    with pytest.raises(BadJSON, match="expected a JSON object"):
        parse_object(other)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('{"é":', "}")])
def test_what_is_parsed_can_be_spelt_however_deep_it_is(opening: str, closing: str) -> None:
    for depth in (100, 300, 400, 500, 600, 700, 800, 900, 950, 2000, 5000, 20_000):
        try:
            value = parse(opening * depth + "1" + closing * depth)
        except BadJSON:
            continue
        canonical(value)


def test_ten_megabytes_are_one_value() -> None:
    value = {"text": "x" * 10_000_000}
    assert parse(canonical(value).decode()) == value


# -- values from a user's code ---------------------------------------------------------------------------


@given(values)
def test_a_json_value_is_plain_as_it_is_and_the_copy_is_its_own(value: Any) -> None:
    copy = plain(value)
    assert same(copy, value)
    assert type(value) not in (dict, list) or copy is not value


@given(values)
def test_plain_twice_is_plain_once(value: Any) -> None:
    assert same(plain(plain((value,))), [value])


odd = st.one_of(
    st.floats(),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.sets(st.integers(), max_size=2),
    st.just(object()),
    st.just(2**64),
    any_text,
    st.dictionaries(st.integers() | st.none() | st.booleans() | any_text | st.tuples(), scalars, max_size=3),
)
mixed = st.recursive(
    scalars | odd,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(any_text, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(mixed)
@example(["é", 2**64])
@example({"a": float("nan")})
@example({1: "a", "1": "b"})
def test_any_value_is_plain_json_or_bad_json(value: Any) -> None:
    outcome = attempt(plain, value)
    if isinstance(outcome, BadJSON):
        return
    [made] = outcome
    assert same(parse(canonical(made).decode()), made)


@pytest.mark.parametrize("huge", [10**5000, -(10**5000)], ids=["positive", "negative"])
def test_a_huge_integer_of_a_user_is_refused(huge: int) -> None:
    with pytest.raises(BadJSON):
        plain({"n": huge})


def test_what_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(BadJSON):
        plain(loop)


class Colour(str, enum.Enum):  # noqa: UP042 - users have such enums, and their `str()` is not their value
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


def test_a_member_of_an_enum_of_texts_is_its_value() -> None:
    assert plain({"c": Colour.RED}) == {"c": "red"}


def test_a_subclass_of_a_json_type_is_plain() -> None:
    made = plain({"n": Size.BIG, "t": (1, 2)})
    assert made == {"n": 3, "t": [1, 2]} and type(made["n"]) is int


# -- text that UTF-8 can hold ----------------------------------------------------------------------------


def halves(value: str) -> int:
    """How many characters of a text are half of a surrogate pair whose other half is not beside it."""
    count, position = 0, 0
    while position < len(value):
        high = 0xD800 <= ord(value[position]) < 0xDC00
        low = 0xDC00 <= ord(value[position]) < 0xE000
        paired = high and position + 1 < len(value) and 0xDC00 <= ord(value[position + 1]) < 0xE000
        count += (high or low) and not paired
        position += 2 if paired else 1
    return count


surrogates = st.text(st.sampled_from("a\ufffd\ufeffé😀\ud800\ud83d\udc00\ude00\udfff"), max_size=12)


@given(any_text | surrogates)
def test_text_is_made_such_that_utf_8_can_hold_it(value: str) -> None:
    made, replaced = clean_text(value)
    assert holds(made)
    assert replaced == halves(value)
    assert (made == value) == holds(value)
    assert clean_text(made) == (made, 0)


@given(any_text | surrogates)
def test_holds_says_whether_utf_8_can_hold_it(value: str) -> None:
    assert holds(value) == (not any(0xD800 <= ord(each) < 0xE000 for each in value))


@given(st.text(), st.integers(1, 200))
def test_what_is_shortened_says_how_long_it_was(words: str, limit: int) -> None:
    short = shortened(words, limit)
    assert short == words if len(words) <= limit else short == f"{words[:limit]}... ({len(words)} characters)"


def test_a_value_that_cannot_be_described_is_named_by_its_type() -> None:
    class Mute:
        def __repr__(self) -> str:
            raise ValueError

    assert described(Mute()) == "a Mute"
    assert described("x" * 100) == f"'{'x' * 79}... (102 characters)"
