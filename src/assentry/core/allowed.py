"""The values that options may have, and the errors for those that do not fit.

A class declares a table of its options, and checks it when an object is made. Nothing is converted: a bool is no
number, and text is no list. What is said of several options together belongs to the class itself.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar

from msgspec import Struct, StructMeta
from msgspec.structs import replace

from ..errors import InvalidDefinition, UnknownOption, UsageError
from .number import LARGEST, LONGEST_SECONDS
from .wording import described, holds

F = TypeVar("F")
LISTS = (list, tuple)


class Values(Struct, frozen=True):
    """The values that an option may have."""

    words: str
    """The values in words, as they follow "must be"."""
    fits: Callable[[Any], Any]
    types: tuple[type, ...] = ()
    """Types whose every instance fits; no function is called for them."""
    is_secret: bool = False
    """True if a message shows only the type of a wrong value."""
    item: Callable[[Any], Any] | None = None
    """The check of one item of a list; a message then shows the first item that does not fit."""

    @property
    def or_none(self) -> Values:
        """These values, and None."""
        return replace(self, words=f"{self.words} or None", types=(*self.types, NoneType))

    def in_words(self, words: str) -> Values:
        """Return these values with other words."""
        return replace(self, words=words)

    @property
    def secret(self) -> Values:
        """These values, of which no message shows any."""
        return replace(self, is_secret=True)


def check_option(
    whose: str, option: str, value: Any, allowed: Values, error: type[UsageError] = InvalidDefinition
) -> None:
    """Raise `error` unless the option may have the value."""
    if type(value) in allowed.types or allowed.fits(value):
        return
    got = f"a {type(value).__name__}" if allowed.is_secret else described(value)
    if allowed.item is not None and isinstance(value, LISTS) and not allowed.is_secret:
        got = f"{described(next(each for each in value if not allowed.item(each)))} in it"
    raise error(f"{whose}: {option} must be {allowed.words}, got {got}.")


class Options:
    """The options of a class or a dict, and the values that they may have."""

    def __init__(self, **options: Values) -> None:
        self.options = options
        self._values_of = attrgetter(*options)
        self._types = [allowed.types for allowed in options.values()]
        self._fits = [allowed.fits for allowed in options.values()]

    def check(self, whose: str, given: object, error: type[UsageError] = InvalidDefinition) -> None:
        """Raise `error` unless the attributes of an object may have their values."""
        for value, types, fits in zip(self._values_of(given), self._types, self._fits):  # noqa: B905  # `strict` costs
            if type(value) not in types and not fits(value):
                self.check_items(whose, {option: getattr(given, option) for option in self.options}, error)

    def check_items(
        self, whose: str, given: Mapping[str, Any], error: type[UsageError] = InvalidDefinition, within: str = ""
    ) -> None:
        """Raise `error` unless the keys of a dict are options, and may have their values.

        `within` comes before the names in messages, for a dict that is part of another.
        """
        check_names(whose, given, self.options, error, within)
        for option, value in given.items():
            check_option(whose, f"{within}{option}", value, self.options[option], error)


def check_names(
    whose: str,
    given: Iterable[Any],
    known: Collection[str],
    error: type[UsageError] = InvalidDefinition,
    within: str = "",
) -> None:
    """Raise `error` for a name that is not known, with the nearest one and all that are known."""
    for name in given:
        if name in known:
            continue
        from difflib import get_close_matches  # only for this message

        near = get_close_matches(str(name), known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        unknown = described(f"{within}{name}" if within else name)
        raise error(f"{whose}: there is no option {unknown}{hint} There are: {', '.join(sorted(known))}.")


def _raise_unknown(whose: str, given: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raise `UnknownOption` if a keyword is no parameter of the function."""
    parameters = inspect.signature(function).parameters
    if all(each.kind is not inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        check_names(whose, given, [name for name in parameters if name not in ("self", "cls")], UnknownOption)


def names_options(whose: str) -> Callable[[F], F]:
    """Return a decorator of a function, or of a class for its `__init__`: an unknown keyword raises `UnknownOption`."""

    def decorate(target: Any) -> Any:
        function = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            try:
                return function(*args, **options)
            except TypeError:
                _raise_unknown(whose, options, function)
                raise

        if isinstance(target, type):
            target.__init__ = call  # type: ignore[misc]
            return target
        if inspect.iscoroutinefunction(function) and hasattr(inspect, "markcoroutinefunction"):  # since Python 3.12
            inspect.markcoroutinefunction(call)
        return call

    return decorate


class NamesOptions(StructMeta):
    """The metaclass of structs whose unknown keywords raise `UnknownOption`."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        try:
            return super().__call__(*args, **options)
        except TypeError:
            check_names(self.__name__, options, self.__struct_fields__, UnknownOption)
            raise


def is_text(value: Any) -> bool:
    """Return True if the value is text that UTF-8 can hold."""
    return type(value) is str and holds(value)


def _is_name(value: Any) -> bool:
    return is_text(value) and bool(value.strip())


def one_of(*choices: str) -> Values:
    """Return the values that are one of these texts."""
    *most, last = [f'"{each}"' for each in choices]
    return Values(f"{', '.join(most)} or {last}", choices.__contains__)


def instance_of(kind: type, words: str = "") -> Values:
    """Return the values that are instances of a class."""
    return Values(words or f"a {kind.__name__}", lambda value: isinstance(value, kind), (kind,))


def list_of(item: Callable[[Any], Any], words: str) -> Values:
    """Return the values that are lists or tuples whose every item fits."""
    return Values(words, lambda value: isinstance(value, LISTS) and (not value or all(map(item, value))), item=item)


def dict_of_texts(fits: Callable[[Any], Any] = is_text) -> Values:
    """Return the values that are dicts whose keys and values fit."""
    return Values(
        "a dict of texts",
        lambda value: isinstance(value, Mapping) and all(fits(each) for pair in value.items() for each in pair),
    )


def whole_number(least: int = 1, most: int = LARGEST) -> Values:
    """Return the values that are whole numbers in a range."""
    end = "2**63 - 1" if most == LARGEST else most
    return Values(f"a whole number from {least} to {end}", lambda value: type(value) is int and least <= value <= most)


def number(least: float, most: float) -> Values:
    """Return the values that are numbers in a range; NaN is in none."""
    return Values(
        f"a number from {least} to {most}", lambda value: type(value) in (int, float) and least <= value <= most
    )


def seconds(least: float = 0, most: float = LONGEST_SECONDS) -> Values:
    """Return the values that are a number of seconds in a range; NaN is in none."""
    end = "100 years" if most == LONGEST_SECONDS else most
    return number(least, most).in_words(f"a number of seconds from {least} to {end}")


ANYTHING = Values("anything", lambda value: True)
BOOL = Values("True or False", lambda value: False, (bool,))
CALLABLE = Values("a callable", callable)
BOOL_OR_CALLABLE = Values("True, False or a callable", callable, (bool,))
TEXT = Values("text that UTF-8 can hold", is_text)
TEXT_OR_CALLABLE = Values("text or a callable", lambda value: callable(value) or is_text(value))
NONEMPTY = Values("text that is not empty", lambda value: is_text(value) and value)
NAME = Values("text that is not blank", _is_name)
NAMES = Values(
    "a list of names",
    lambda value: isinstance(value, (*LISTS, set, frozenset)) and (not value or all(map(_is_name, value))),
    item=_is_name,
)
LIST = Values("a list", lambda value: isinstance(value, LISTS), LISTS)
COUNT = whole_number()
POSITIVE_SECONDS = Values(
    "a number of seconds above zero, at most 100 years",
    lambda value: type(value) in (int, float) and 0 < value <= LONGEST_SECONDS,
)
