"""Containers whose first part is loaded when somebody looks at it: the part of a run before its snapshot.

They behave as a list and a dict do wherever a run is read or folded. They are neither, on purpose: an encoder that
looked past their methods would leave the first part out without an error.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    MutableMapping,
    MutableSequence,
    Sequence,
    ValuesView,
)
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class PastList(MutableSequence[T], Generic[T]):
    """A list whose first `count` items are loaded when one of them is needed."""

    __slots__ = ("_count", "_load", "tail")

    def __init__(self, count: int, load: Callable[[], Sequence[T]], tail: list[T] | None = None) -> None:
        self._count = count
        self._load = load
        self.tail: list[T] = [] if tail is None else tail
        """The items after the first part."""

    def __len__(self) -> int:
        return self._count + len(self.tail)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            late = step == 1 and start >= self._count
            return self.tail[start - self._count : max(stop - self._count, 0)] if late else list(self)[index]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError("list index out of range")
        return self.tail[number - self._count] if number >= self._count else self._load()[number]

    @overload
    def __setitem__(self, index: int, value: T) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[T]) -> None: ...
    def __setitem__(self, index: Any, value: Any) -> None:
        number = index + len(self) if isinstance(index, int) and index < 0 else index
        if isinstance(number, int) and number >= self._count:
            self.tail[number - self._count] = value
        else:
            self._whole()[index] = value

    def __delitem__(self, index: int | slice) -> None:
        if isinstance(index, slice) and index.step is None and index.stop is None and (index.start or 0) >= self._count:
            del self.tail[index.start - self._count :]
        else:
            del self._whole()[index]

    def _whole(self) -> list[T]:
        """Load the first part for good, and return all items."""
        self.tail, self._count = list(self), 0
        return self.tail

    def insert(self, index: int, value: T) -> None:
        """Insert an item before this index."""
        self._whole().insert(index, value)

    def append(self, value: T) -> None:
        """Append an item."""
        self.tail.append(value)

    def extend(self, values: Iterable[T]) -> None:
        """Append all of the items."""
        self.tail.extend(values)

    def __iter__(self) -> Iterator[T]:
        if self._count:
            yield from self._load()
        yield from self.tail

    def __reversed__(self) -> Iterator[T]:
        yield from reversed(self.tail)
        if self._count:
            yield from reversed(self._load())

    def __add__(self, other: Iterable[T]) -> list[T]:
        return [*self, *other]

    def __radd__(self, other: Iterable[T]) -> list[T]:
        return [*other, *self]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PastList | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> PastList[T]:
        """Return an independent list; the first part is shared."""
        return PastList(self._count, self._load, self.tail.copy())

    def __reduce__(self) -> tuple[type[list[T]], tuple[list[T]]]:
        return list, (list(self),)  # a pickle, or a deep copy, has all items

    def __repr__(self) -> str:
        return f"<PastList of {len(self)} items>"


class PastDict(MutableMapping[str, T], Generic[T]):
    """A dict whose first `count` values are loaded when one of them is needed. Their keys are never set again."""

    __slots__ = ("_count", "_has", "_load", "own")

    def __init__(
        self,
        count: int,
        has: Callable[[object], bool],
        load: Callable[[], dict[str, T]],
        own: dict[str, T] | None = None,
    ) -> None:
        self._count = count
        self._has = has
        self._load = load
        self.own: dict[str, T] = {} if own is None else own
        """The values after the first part."""

    def __len__(self) -> int:
        return self._count + len(self.own)

    def __contains__(self, key: object) -> bool:
        return key in self.own or (self._count > 0 and self._has(key))

    def __getitem__(self, key: str) -> T:
        if key in self.own:
            return self.own[key]
        if self._count and self._has(key):
            return self._load()[key]
        raise KeyError(key)

    def __setitem__(self, key: str, value: T) -> None:
        self.own[key] = value

    def __delitem__(self, key: str) -> None:
        del self.own[key]

    def __iter__(self) -> Iterator[str]:
        for part in self.parts():
            yield from part

    def __reversed__(self) -> Iterator[str]:
        for part in self.parts(newest_first=True):
            yield from reversed(part)

    def items(self) -> ItemsView[str, T]:
        """Return the keys and values, the newest first if reversed."""
        return _PastItems(self)

    def values(self) -> ValuesView[T]:
        """Return the values, the newest first if reversed."""
        return _PastValues(self)

    def parts(self, *, newest_first: bool = False) -> Iterator[dict[str, T]]:
        """Yield the first part, if there is one, and then the values after it; with `newest_first` the other way."""
        if newest_first:
            yield self.own
        if self._count:
            yield self._load()
        if not newest_first:
            yield self.own

    def copy(self) -> PastDict[T]:
        """Return an independent dict; the first part is shared."""
        return PastDict(self._count, self._has, self._load, self.own.copy())

    def __repr__(self) -> str:
        return f"<PastDict of {len(self)} items>"


class _PastItems(ItemsView[str, T]):
    """The items of a `PastDict`. The first part is loaded once, and in reverse only when it is reached."""

    _mapping: PastDict[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        for part in self._mapping.parts():
            yield from part.items()

    def __reversed__(self) -> Iterator[tuple[str, T]]:
        for part in self._mapping.parts(newest_first=True):
            yield from reversed(part.items())


class _PastValues(ValuesView[T]):
    """The values of a `PastDict`, as `_PastItems` has them."""

    _mapping: PastDict[T]

    def __iter__(self) -> Iterator[T]:
        for part in self._mapping.parts():
            yield from part.values()

    def __reversed__(self) -> Iterator[T]:
        for part in self._mapping.parts(newest_first=True):
            yield from reversed(part.values())


def past_of(items: Any) -> int:
    """Return the number of items of a list that are in its first part; 0 for a plain list."""
    return len(items) - len(items.tail) if isinstance(items, PastList) else 0
