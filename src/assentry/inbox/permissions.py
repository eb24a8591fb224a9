"""The view that somebody has of questions, journals and grants: secret arguments only if they may decide about them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.json import encode
from msgspec.structs import replace

from ..approval.decide import may_decide
from ..store.record import MOST, Entry, GrantRecord, Question, RunRecord
from ..store.store import Store, part_of_history
from .identity import Identity
from .mask import SECRET_KINDS, AnyQuestion, masked, masked_grant, masked_journal, secret_tools

HOSTED_CALL = "mcp_call"
"""The type of the items that report calls of hosted MCP servers: nobody says which of their arguments are secret."""


def may_see(who: Identity, question: Question) -> bool:
    """Return True if somebody may decide a question, and so sees all of its arguments."""
    return who.may("decide") and question.started_by != who.name and may_decide(question.reviewers, who.decider())


def seen_by(who: Identity, question: AnyQuestion) -> AnyQuestion:
    """Return a question as somebody may see it."""
    return question if may_see(who, question) else masked(question)


def listed_for(who: Identity, question: AnyQuestion) -> AnyQuestion:
    """Return a question for a list: masked for everybody, with its digests for whoever may decide it."""
    hides = masked(question)
    if hides is question or not may_see(who, question):
        return hides
    return replace(hides, digest=question.digest, shown=question.shown)


class JournalView:
    """The journal of a run as somebody may see it, read in parts.

    Of a run that calls no tool with secret arguments, only the part is read, and the few facts that say what is secret.
    Of any other run all facts are read, since a later one may quote a secret of an earlier one. If tools of a run have
    secret arguments, whoever may not decide sees no arguments of a hosted server's calls. A fact that the record does
    not count is not shown: it may have been written after the view looked for secrets.

    Args:
        who: The reader.
        store: The store of the run.
        record: The run's record.
        payloads: True for facts with their large payloads.
        known: All entries of the journal, if somebody has just read them without payloads. They spare reads, unless a
            payload is stored apart.
    """

    def __init__(
        self,
        who: Identity,
        store: Store,
        record: RunRecord,
        *,
        payloads: bool = False,
        known: list[Entry] | None = None,
    ) -> None:
        self._who, self._store, self._run, self.seq = who, store, record.id, record.seq
        self._known = None if known is None or any("blobs" in each.fact for each in known) else known
        self._trusted = who.may("decide") and (record.started_by is None or record.started_by != who.name)
        self._payloads = payloads
        self._plain: bool | None = None
        self._whole: tuple[list[Entry], list[Question]] | None = None

    async def _history(
        self,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Mapping[str, str] | None = None,
        payloads: bool = False,
    ) -> list[Entry]:
        """Return a part of the journal as it is, of the known entries or else of the store."""
        if self._known is None:
            return await self._store.history(self._run, after=after, limit=limit, kinds=kinds, payloads=payloads)
        return part_of_history(self._known, after, limit, kinds)

    async def is_plain(self) -> bool:
        """Return True if nothing can be masked."""
        if self._plain is None:
            telling = await self._history(kinds=SECRET_KINDS)
            tools = secret_tools(telling, trusted=self._trusted)
            if tools and not self._trusted:
                tools.add(HOSTED_CALL)
            self._plain = tools is not None and not any([await self._names(each) for each in tools])
        return self._plain

    async def _names(self, tool: str) -> bool:
        """Return True if a fact besides the definitions names a tool, or a type of item."""
        text = encode(tool)
        found = await self._history(kinds={"": text.decode()}, payloads=True)
        return any(entry.fact.get("fact") != "defined" and text in encode(entry.fact) for entry in found)

    async def part(self, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries after the first `after`, at most `limit`, up to the last one that the record counts."""
        known = max(0, self.seq - after)
        limit = known if limit is None else min(limit, known)
        if await self.is_plain():
            return await self._history(after=after, limit=limit, payloads=self._payloads)
        if self._whole is None:
            entries = await self._history(payloads=self._payloads)
            self._whole = entries, await all_questions(self._store, self._run)
        shown = slice(after, after + limit)
        return masked_journal(*self._whole, lambda each: may_see(self._who, each), trusted=self._trusted, shown=shown)

    async def find(self, text: str, *kinds: str) -> list[int]:
        """Return the numbers of the facts of these kinds whose JSON may have this text."""
        found = await self._history(kinds=dict.fromkeys(kinds, text))
        return [entry.seq for entry in found]


async def all_questions(store: Store, run: str) -> list[Question]:
    """Return all questions of a run, open and settled."""
    found: list[Question] = []
    for settled in (False, True):
        after: str | None = None
        while True:
            page = await store.questions(run=run, settled=settled, limit=MOST, after=after)
            found += page.items
            after = page.next
            if after is None:
                break
    return found


async def grants_seen_by(who: Identity, store: Store, grants: list[GrantRecord]) -> list[GrantRecord]:
    """Return grants as somebody may see them."""
    runs = {grant.run for grant in grants if grant.pins}
    barred = {run: [each for each in await all_questions(store, run) if not may_see(who, each)] for run in runs}
    return [masked_grant(grant, barred.get(grant.run, ())) for grant in grants]


async def may_have_journal(who: Identity, store: Store, run: str) -> bool:
    """Return True if nothing in the journal of a run is masked for somebody; an administrator sees everything."""
    if who.may("manage"):
        return True
    record = await store.record(run)
    view = JournalView(who, store, record)
    return await view.is_plain() or await view.part() == (await store.lines(run))[: record.seq]
