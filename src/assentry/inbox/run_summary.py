"""A run in short, for its page and for the list of runs: what it is about, where it stands, and what it cost.

Every part is bounded: a run of more than `MOST_FACTS` facts has no sums, and a list reads the beginnings of runs only
as long as they are short in sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..core.facts import Usage
from ..core.run import UNDER_WAY
from ..core.transcript import content_text
from ..errors import RunNotFound, UnreadableState
from ..store.damage import damage_of
from ..store.record import MOST, Entry, Question, RunRecord
from ..store.stop import AgentStop
from ..store.store import Store
from .conversation import MOST_FACTS, FactJSON
from .headline import with_order
from .identity import Identity
from .permissions import JournalView, listed_for
from .wording import headline_of

LONGEST_WORDS = 240
"""The most characters of the user's words in a headline."""
BEGINNING = 4
"""The facts in which a run's first input is looked for."""
SHORT = 25
"""The most facts of a run that a list reads whole, with those of others: longer ones are read in parts."""
MOST_LISTED = 20_000
"""The facts of all runs of a list, beyond which no further words are shown: looking for secrets reads all facts."""
MOST_LINKED = 10
"""The most open questions that a run's page links to."""


class RunWords(Struct, frozen=True):
    """The user's first words in a run; empty if there are none, or nobody may see them."""

    text: str = ""
    is_cut: bool = False


class RunCost(Struct, frozen=True):
    """The resources that a run has used so far."""

    turns: int
    usage: Usage
    calls: int
    """The calls whose bodies were entered."""
    lasted: int
    """The milliseconds from the beginning to the last change, or until now."""
    waited: int
    """The milliseconds of these in which people were asked."""


class RunStanding(Struct):
    """The state of a run, besides its record."""

    open: list[tuple[str, str]] = []
    """The ids of the first open questions, and each in a sentence, as the reader may see it."""
    ended: FactJSON = {}
    """The fact that cancelled or closed the run."""
    stop: AgentStop | None = None
    """A stop that holds for the run's agent."""
    is_left_alone: bool = False
    """True if the last drive failed, and no worker tries again by itself."""


async def words_of(view: JournalView) -> RunWords:
    """Return the user's first words, as the reader may see them."""
    return _first_words(await view.part(0, BEGINNING))


def _first_words(entries: Iterable[Entry]) -> RunWords:
    said = next((each.fact for each in entries if each.fact.get("fact") == "said"), {})
    text = " ".join(_words(said.get("items")).split())
    if len(text) <= LONGEST_WORDS:
        return RunWords(text)
    return RunWords(text[:LONGEST_WORDS].rstrip() + "…", is_cut=True)


def _words(items: object) -> str:
    """Return the text of the newest message of a user in an input."""
    if isinstance(items, str):
        return items
    messages = [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []
    users = [content_text(each.get("content")) for each in messages if each.get("role") == "user"]
    return next((text for text in reversed(users) if text), "")


async def words_of_runs(who: Identity, store: Store, runs: Sequence[RunRecord]) -> dict[str, RunWords]:
    """Return the users' first words in the runs of a list, by the run's id."""
    shown, read = list[RunRecord](), 0
    for run in runs:
        read += run.seq
        if run.erased is None and read <= MOST_LISTED:
            shown.append(run)
    known = await store.histories([run.id for run in shown if run.seq <= SHORT])
    return {run.id: await _listed_words(JournalView(who, store, run, known=known.get(run.id)), store) for run in shown}


async def _listed_words(view: JournalView, store: Store) -> RunWords:
    """Return the user's first words for a list, which is there without them if a run is damaged or was deleted."""
    try:
        return await words_of(view)
    except RunNotFound:
        return RunWords()
    except UnreadableState as error:
        damage_of(store).note("other", str(error), int(store.clock() * 1000))
        return RunWords()


async def cost_of(store: Store, record: RunRecord, now: int) -> RunCost | None:
    """Return what a run has used; None if it was erased, or is too long to be summed up."""
    if record.erased is not None or record.seq > MOST_FACTS:
        return None
    run = (await store.load(record.id)).run(talks=False)
    started = await store.history(record.id, kinds={"started": ""})
    calls = {(tuple(each.fact.get("path") or ()), each.fact.get("call")) for each in started}
    end = now if record.status in UNDER_WAY else record.changed
    asked = [each for settled in (False, True) for each in await _questions(store, record.id, settled)]
    waited = _covered([(each.at, end if each.decided is None else each.decided) for each in asked])
    return RunCost(run.turns, run.usage, len(calls), max(0, end - record.began), waited)


async def _questions(store: Store, run: str, settled: bool) -> list[Question]:
    return (await store.questions(run=run, settled=settled, limit=MOST)).items


def _covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return the length of time that is in at least one of these spans."""
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


async def standing_of(who: Identity, store: Store, record: RunRecord, view: JournalView) -> RunStanding:
    """Return where a run stands."""
    made = RunStanding(stop=await store.holding_stop(record.agent))
    if record.waiting:
        page = await store.questions(run=record.id, limit=MOST_LINKED)
        shown = [listed_for(who, each) for each in await with_order(store, page.items)]
        made.open = [(each.id, headline_of(each)) for each in shown]
    if record.status in ("cancelled", "closed") and record.erased is None and record.seq <= MOST_FACTS:
        numbers = await view.find("", record.status)
        made.ended = next((each.fact for each in await view.part(numbers[-1] - 1, 1)), {}) if numbers else {}
    made.is_left_alone = record.status == "working" and record.wake is None and record.worker is None
    return made
