"""The filter of a list of questions, runs or grants: made from a caller's arguments, and applied by every store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from ..approval.decide import may_decide
from ..approval.decision import Decider, checked_name
from ..approval.standing import StandingGrant
from ..core.number import is_count
from ..core.wording import described, holds
from ..errors import InvalidDecision, UsageError
from .record import MOST, GrantRecord, Page, Question, RunRecord

T = TypeVar("T", default=Any)

LONGEST_SEARCH = 200
"""The most characters of a search."""
MOST_SEARCHED = 10_000
"""The most questions that one page of a search looks at: a search has no index."""

MOST_COUNTED = 10_000
"""The most questions that are counted at once."""


class Fields(NamedTuple):
    """The fields that the list of a kind of record uses."""

    order: str
    """The time by which the list is sorted; the id comes second."""
    age: str
    """The time from which the age counts."""
    end: str | None
    """The field that is None until the end."""


FIELDS: dict[type, Fields] = {
    Question: Fields("at", "at", "verdict"),
    RunRecord: Fields("began", "changed", None),
    GrantRecord: Fields("at", "at", "revoked"),
    StandingGrant: Fields("at", "at", "revoked"),
}
SETTLED = Fields("decided", "at", "verdict")
"""The fields of a list of questions that are not open any more: it is sorted by the time of their end."""


def fields_of(kind: type, ended: bool | None) -> Fields:
    """Return the fields that a list uses."""
    return SETTLED if kind is Question and ended else FIELDS[kind]


class Filter(Struct, Generic[T], frozen=True, kw_only=True):
    """The items of a list that are wanted, and the page of them."""

    kind: type[T]
    """`Question`, `RunRecord`, `GrantRecord` or `StandingGrant`."""
    equal: dict[str, str]
    """The values that fields must have."""
    age: float | None = None
    """The least age in seconds: of a question since it was asked, of a run since it changed."""
    ended: bool | None = None
    """True for settled questions or revoked grants, False for the others, None for both."""
    decided_after: int | None = None
    """The time from which settled questions must have ended, in milliseconds since 1970."""
    decided_before: int | None = None
    """The time before which settled questions must have ended, in milliseconds since 1970."""
    asleep: bool = False
    """True for runs that no worker is to drive at any time: those without a `wake`."""
    decider: Decider | None = None
    """Whoever is to be able to decide: reviewers are these names or nobody in particular, and the run is another's."""
    search: str | None = None
    """Text that a question must contain; see `searched`."""
    reach: int = MOST_SEARCHED
    """The most questions that a search looks at, of those that fit the rest of the filter.

    If there are more, the page has what was found among these, perhaps nothing, and its `next` goes on after them.
    """
    limit: int
    start: tuple[int, str] | None = None
    """The time and the id of the last item of the page before."""
    newest: bool = False
    """True for the newest items first, False for the oldest."""

    @property
    def fields(self) -> Fields:
        """The fields that this list uses."""
        return fields_of(self.kind, self.ended)

    def place(self, item: T) -> tuple[int, str]:
        """Return the place of an item in the list."""
        return getattr(item, self.fields.order) or 0, item.id  # type: ignore[attr-defined]

    def fits(self, item: T, now: int) -> bool:
        """Return True if an item is on this page or a later one, unless the search does not find it."""
        return (
            all(getattr(item, name) == value for name, value in self.equal.items())
            and (self.age is None or getattr(item, self.fields.age) <= now - self.age * 1000)
            and (self.ended is None or (getattr(item, self.fields.end or "") is not None) is self.ended)
            and self._is_in_time(getattr(item, self.fields.order) or 0)
            and (self.decider is None or is_for(self.decider, item))
            and not (self.asleep and getattr(item, "wake", None) is not None)
            and (self.start is None or self._follows(self.place(item), self.start))
        )

    def _is_in_time(self, at: int) -> bool:
        late = self.decided_after is None or at >= self.decided_after
        return late and (self.decided_before is None or at < self.decided_before)

    def finds(self, item: T) -> bool:
        """Return True if an item has the text of the search, or nothing is searched for."""
        return self.search is None or any(self.search.lower() in text.lower() for text in searched(item))

    def _follows(self, place: tuple[int, str], other: tuple[int, str]) -> bool:
        return place < other if self.newest else place > other

    def page(self, items: Iterable[T], now: int) -> Page[T]:
        """Return the page of all of a store's items."""
        every = sorted((item for item in items if self.fits(item, now)), key=self.place, reverse=self.newest)
        near = every if self.search is None else every[: self.reach]
        found = [item for item in near if self.finds(item)]
        last = found[self.limit - 1] if len(found) > self.limit else near[-1] if len(near) < len(every) else None
        return Page(found[: self.limit], None if last is None else cursor(*self.place(last)))


def is_for(who: Decider, question: Any) -> bool:
    """Return True if somebody may decide a question, as far as reviewers and the asker of its run say."""
    return question.started_by != who.name and may_decide(question.reviewers, who)


def names_of(who: Decider) -> list[str]:
    """Return the names by which somebody may be among the reviewers of a question."""
    return [who.name, *(f"group:{group}" for group in who.groups)]


def checked_decider(who: str | Decider | None) -> Decider | None:
    """Return whose questions are wanted; raise `UsageError` if it is no name of a person."""
    if who is None or isinstance(who, Decider):
        return who
    try:
        return Decider(checked_name(who))
    except InvalidDecision as error:
        raise UsageError(f"decider is a person: {error}") from None


def searched(question: Any) -> list[str]:
    """Return the texts of a question that a search looks at.

    A search must not find out masked arguments, which the reason and the preview may quote.
    """
    texts = [question.id, question.run, question.agent, question.tool]
    if not question.redact:
        texts += [question.reason, question.arguments, msgspec.json.encode(question.preview).decode()]
    return texts


def equal(**given: str | None) -> dict[str, str]:
    """Return the fields whose value was given; raise `UsageError` if one is not text."""
    for name, value in given.items():
        if value is not None and type(value) is not str:
            raise UsageError(f"{name} is text, got {described(value)}.")
    return {name: value for name, value in given.items() if value is not None}


def check_end(
    settled: bool, *, decided_after: int | None = None, decided_before: int | None = None, **more: str | None
) -> None:
    """Raise `UsageError` for a filter by the end of questions that are open, or by a time that is none."""
    times = {"decided_after": decided_after, "decided_before": decided_before}
    given = [name for name, value in {**more, **times}.items() if value is not None]
    if given and not settled:
        raise UsageError(f"{' and '.join(given)} select settled questions: pass settled=True too.")
    for name, value in times.items():
        if value is not None and not is_count(value, 0):
            raise UsageError(f"{name} is a time in milliseconds since 1970, got {described(value)}.")


_cursor = msgspec.json.Decoder(tuple[int, str])


def cursor(at: int, id: str) -> str:
    """Return the cursor of the page after this item. Callers must treat a cursor as opaque."""
    return msgspec.json.encode((at, id)).decode()


def checked_search(search: str | None) -> str | None:
    """Return the text to search for; raise `UsageError` if it is not text, or too long."""
    if search is not None and (type(search) is not str or not holds(search) or len(search) > LONGEST_SEARCH):
        raise UsageError(f"search is text of at most {LONGEST_SEARCH} characters, got {described(search)}.")
    return search or None


def page_start(limit: int, after: str | None) -> tuple[int, str] | None:
    """Return the time and the id in a cursor; raise `UsageError` if the cursor or the limit is invalid."""
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise UsageError(f"limit is a whole number from 1 to {MOST}, got {described(limit)}.")
    try:
        start = None if after is None else _cursor.decode(after)
    except (msgspec.DecodeError, TypeError, UnicodeEncodeError, RecursionError):
        start = (-1, "")
    if start is not None and (not is_count(start[0], 0) or not holds(start[1])):
        raise UsageError(f"after is the `next` of the page before, got {described(after)}.")
    return start
