"""The two places that questions, runs and grants come from: a store, or a server with its HTTP API."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from ..approval.decision import Decider, Decision
from ..approval.standing import GiveStandingGrant, StandingGrant, is_standing
from ..approval.terms import GrantTerms
from ..core.wording import described, holds, install_hint
from ..errors import AssentryError, DigestMismatch, Forbidden, GrantNotFound, Upstream, UsageError
from ..inbox.headline import ShownQuestion, with_order
from ..inbox.identity import ROLES, Identity
from ..inbox.many import check_together, decide_each, read_questions
from ..store.beginning import WithId
from ..store.filter import Filter
from ..store.open import open_store
from ..store.record import Entry, GrantRecord, Page, Question, RunRecord
from ..store.rules import check_unfinished
from ..store.statistics import Statistics
from ..store.stop import AgentStop
from ..store.store import find_successor
from .temporal import attach_engine

if TYPE_CHECKING:
    from ..store.sql.store import SQLStore

T = TypeVar("T")

Kind = Literal["question", "run", "grant"]
KINDS: dict[Kind, WithId] = {"question": Question, "run": RunRecord, "grant": GrantRecord}
WHOLE = re.compile("[a-z]+_[0-9a-f]{32}")
"""An id that Assentry made."""
FEWEST = 6
"""The fewest characters that stand for an id, so that one cannot be named by accident."""
CANDIDATES = 5
"""The ids that an error names."""
PATIENCE = 30.0
"""The seconds to wait for a server."""
UNKNOWN = " It is not known whether this was recorded: look at it again. The same decision again does no harm."
MOST_ENTRIES = 1000
"""The entries of a journal that are asked for at once."""


class ManyOutcome(msgspec.Struct):
    """The outcome for one of several questions: the question after the decision, or a problem in words."""

    id: str
    question: Question | None
    problem: str | None = None


class Source(Protocol):
    """A place of questions, runs and grants. Filters are those of `Store`; `by` is None if the server knows."""

    async def questions(self, **filters: Any) -> Page[ShownQuestion]:
        """Return a page of questions."""

    async def question(self, id: str) -> ShownQuestion:
        """Return a question."""

    async def successor(self, question: Question) -> Question | None:
        """Return the question that took a settled one's place."""

    async def decide(
        self, id: str, decision: Decision, *, digest: str, by: str | None, shown: str | None, grant: GrantTerms | None
    ) -> Question:
        """Decide a question and return it."""

    async def decide_many(
        self, decision: Decision, *, digests: dict[str, str], by: str | None, shown: dict[str, str]
    ) -> list[ManyOutcome]:
        """Decide each question by its digest, and return what became of each."""

    async def runs(self, **filters: Any) -> Page[RunRecord]:
        """Return a page of runs."""

    async def run(self, id: str) -> RunRecord:
        """Return a run's record."""

    async def history(self, id: str) -> list[Entry]:
        """Return a run's journal."""

    async def grants(self, **filters: Any) -> Page[GrantRecord]:
        """Return a page of grants."""

    async def standing_grants(self, **filters: Any) -> Page[StandingGrant]:
        """Return a page of standing grants."""

    async def give_standing_grant(self, order: GiveStandingGrant, *, digest: str, by: str | None) -> StandingGrant:
        """Give a standing grant from a question; `digest` is the question's as it was shown."""

    async def revoke(self, id: str, *, by: str | None) -> None:
        """Revoke a grant, of a run or a standing one."""

    async def cancel(self, id: str, *, by: str | None, why: str | None) -> RunRecord:
        """Cancel a run, and return its record."""

    async def resume(self, id: str, *, by: str | None) -> RunRecord:
        """Resume a run, and return its record."""

    async def stop(self, agent: str | None, *, by: str | None, why: str) -> AgentStop:
        """Stop an agent, or all agents."""

    async def lift(self, id: str, *, by: str | None) -> AgentStop:
        """Lift a stop."""

    async def stops(self, **filters: Any) -> Page[AgentStop]:
        """Return a page of stops."""

    async def whole_id(self, kind: Kind, given: str) -> str:
        """Return the id that begins with what was given; raise `UsageError` if several do."""


@asynccontextmanager
async def source(options: Namespace) -> AsyncIterator[Source]:
    """Open the store or the server that the options name."""
    if options.server is None:
        async with open_store(options.url, create=False) as store:
            await attach_engine(store, getattr(options, "temporal", None))
            yield StoreSource(store)
    else:
        async with server(options) as there:
            yield there


@asynccontextmanager
async def server(options: Namespace) -> AsyncIterator[ServerSource]:
    """Open the server that the options name."""
    httpx = _httpx()
    headers = {"Authorization": f"Bearer {options.token}", "Accept": "application/json"}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        yield ServerSource(check_server(options.server), client, httpx.HTTPError, unsent)


def check_server(url: str) -> str:
    """Return a server's address without a slash at its end; raise `UsageError` if it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError if it is none
    except ValueError:
        port = -1
        parts = urlsplit("")
    if port == -1 or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"A server's address is https://host or https://host/prefix, got {described(url)}.")
    return url.rstrip("/")


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise UsageError(f"A server is reached with httpx: {install_hint('inbox')}") from None
    return httpx


def only_one(ids: Sequence[str], given: str) -> str:
    """Return the one of these ids that begins with what was given, or what was given if none does."""
    found = sorted(each for each in ids if each.startswith(given)) if len(given) >= FEWEST else []
    if given in found or not found:
        return given
    if len(found) > 1:
        named = [*found[:CANDIDATES], *(["others"] if len(found) > CANDIDATES else [])]
        raise UsageError(f"Several ids begin with {given}: {', '.join(named)}. Give more of the one that is meant.")
    return found[0]


def needs_search(given: str) -> bool:
    """Return True if this may be the beginning of an id."""
    return len(given) >= FEWEST and holds(given) and WHOLE.fullmatch(given) is None


class StoreSource:
    """A store, opened by whoever can read its database."""

    def __init__(self, store: SQLStore) -> None:
        self._store = store

    async def questions(self, **filters: Any) -> Page[ShownQuestion]:
        """Return a page of questions."""
        if (name := filters.get("decider")) is not None:
            who = await self._who(name)
            filters["decider"] = Decider(name, () if who is None else who.groups)
        page = await self._store.questions(**filters)
        return Page(await with_order(self._store, page.items), page.next, page.damaged)

    async def question(self, id: str) -> ShownQuestion:
        """Return a question."""
        [question] = await with_order(self._store, [await self._store.question(id)])
        return question

    async def successor(self, question: Question) -> Question | None:
        """Return the question that took a settled one's place."""
        return await self._store.successor(question.id, known=question)

    async def decide(
        self, id: str, decision: Decision, *, digest: str, by: str | None, shown: str | None, grant: GrantTerms | None
    ) -> Question:
        """Decide a question and return it. The store's users have their roles and groups here too."""
        who = await self._who(by or "")
        if who is not None and grant is not None:
            who.need("grant")
        decider = Decider(by or "", (), shown) if who is None else who.decider(shown)
        return await self._store.decide(id, decision, by=decider, digest=digest, grant=grant)

    async def decide_many(
        self, decision: Decision, *, digests: dict[str, str], by: str | None, shown: dict[str, str]
    ) -> list[ManyOutcome]:
        """Decide each question by its digest, and return what became of each."""
        found = await read_questions(digests, self.question)
        check_together(found.values())

        async def decide(question: Question) -> Question:
            id = question.id
            return await self.decide(id, decision, digest=digests[id], by=by, shown=shown[id], grant=None)

        made = await decide_each(found, decide)
        return [
            ManyOutcome(id, each) if isinstance(each, Question) else ManyOutcome(id, None, str(each))
            for id, each in made.items()
        ]

    async def _who(self, name: str) -> Identity | None:
        """Return the store's user of this name; None if there is none. Raises `Forbidden` if the user is disabled."""
        from ..store.sql.account import find_user, groups_of

        row = await self._store._read(lambda transaction: find_user(transaction, name))
        if row is None:
            return None
        if row.disabled is not None or row.role not in ROLES:
            raise Forbidden(f"The user {name!r} is disabled.")
        return Identity(row.name, row.role, groups_of(row.groups))

    async def runs(self, **filters: Any) -> Page[RunRecord]:
        """Return a page of runs."""
        return await self._store.runs(**filters)

    async def run(self, id: str) -> RunRecord:
        """Return a run's record."""
        return await self._store.record(id)

    async def history(self, id: str) -> list[Entry]:
        """Return a run's journal."""
        return await self._store.history(id)

    async def grants(self, **filters: Any) -> Page[GrantRecord]:
        """Return a page of grants."""
        return await self._store.grants(**filters)

    async def standing_grants(self, **filters: Any) -> Page[StandingGrant]:
        """Return a page of standing grants."""
        return await self._store.standing_grants(**filters)

    async def give_standing_grant(self, order: GiveStandingGrant, *, digest: str, by: str | None) -> StandingGrant:
        """Give a standing grant from a question. The store's users have their roles and groups here too."""
        who = await self._who(by or "")
        if who is not None:
            who.need("grant")
        question = await self._store.question(order.question)
        if question.digest != digest:
            raise DigestMismatch(f"This is not the digest of question {question.id}; look at it again.")
        decider = Decider(by or "") if who is None else who.decider()
        return await self._store.give_standing_grant(
            order.question, by=decider, terms=order.terms, verdict=order.verdict, message=order.message
        )

    async def revoke(self, id: str, *, by: str | None) -> None:
        """Revoke a grant, of a run or a standing one."""
        who = await self._who(by or "")
        if who is not None:
            who.need("grant")
        if is_standing(id):
            await self._store.revoke_standing_grant(id, by=by or "")
            return
        page = await self._store.page(Filter(kind=GrantRecord, equal={"id": id}, limit=1))
        if not page.items:
            raise GrantNotFound(f"The store has no grant {described(id)}.")
        await self._store.revoke(id, by=by or "", run=page.items[0].run)

    async def _may_stop(self, by: str | None) -> str:
        """Return who stops or cancels; raise `Forbidden` if it is a user of the store whose role does not allow it."""
        if (who := await self._who(by or "")) is not None:
            who.need("stop")
        return by or ""

    async def cancel(self, id: str, *, by: str | None, why: str | None) -> RunRecord:
        """Cancel a run, and return its record."""
        check_unfinished(await self._store.record(id))
        await self._store.cancel(id, by=await self._may_stop(by), why=why)
        return await self._store.record(id)

    async def resume(self, id: str, *, by: str | None) -> RunRecord:
        """Resume a run, and return its record."""
        check_unfinished(await self._store.record(id))
        await self._store.resume(id, by=await self._may_stop(by))
        return await self._store.record(id)

    async def stop(self, agent: str | None, *, by: str | None, why: str) -> AgentStop:
        """Stop an agent, or all agents."""
        return await self._store.stop(agent, by=await self._may_stop(by), why=why)

    async def lift(self, id: str, *, by: str | None) -> AgentStop:
        """Lift a stop."""
        return await self._store.lift(id, by=await self._may_stop(by))

    async def stops(self, **filters: Any) -> Page[AgentStop]:
        """Return a page of stops."""
        return await self._store.stops(**filters)

    async def whole_id(self, kind: Kind, given: str) -> str:
        """Return the id that begins with what was given; raise `UsageError` if several do."""
        if not needs_search(given):
            return given
        return only_one(await self._store.ids(KINDS[kind], given, limit=CANDIDATES + 1), given)


class ServerSource:
    """A server, reached by its HTTP API. The token says who asks."""

    def __init__(
        self, address: str, client: Any, failure: type[Exception], unsent: tuple[type[Exception], ...] = ()
    ) -> None:
        self._address, self._client, self._failure = address, client, failure
        self._unsent = unsent
        """The failures after which a request certainly did not reach the server."""

    async def questions(self, **filters: Any) -> Page[ShownQuestion]:
        """Return a page of questions."""
        return await self._get("/api/questions", Page[ShownQuestion], filters)

    async def question(self, id: str) -> ShownQuestion:
        """Return a question."""
        return await self._get(f"/api/questions/{quote(id, safe='')}", ShownQuestion)

    async def successor(self, question: Question) -> Question | None:
        """Return the question that took a settled one's place."""
        return await find_successor(self.questions, question)

    async def decide(
        self, id: str, decision: Decision, *, digest: str, by: str | None, shown: str | None, grant: GrantTerms | None
    ) -> Question:
        """Decide a question and return it."""
        body = decision if grant is None else {"decision": decision, "grant": grant}
        headers = {"If-Match": f'"{digest}"', "Content-Type": "application/json"}
        path = f"/api/questions/{quote(id, safe='')}/decision"
        sent = await self._send("POST", path, content=msgspec.json.encode(body), headers=headers)
        return self._read(sent, Question, UNKNOWN)

    async def decide_many(
        self, decision: Decision, *, digests: dict[str, str], by: str | None, shown: dict[str, str]
    ) -> list[ManyOutcome]:
        """Decide each question by its digest, and return what became of each. What was shown, the server knows."""
        questions = [{"id": id, "digest": digest} for id, digest in digests.items()]
        body = msgspec.json.encode({"decision": decision, "questions": questions})
        headers = {"Content-Type": "application/json"}
        sent = await self._send("POST", "/api/decisions", content=body, headers=headers)
        items = self._read(sent, _Outcomes, UNKNOWN).items
        return [
            ManyOutcome(each.id, each.question, None if each.problem is None else each.problem.detail) for each in items
        ]

    async def runs(self, **filters: Any) -> Page[RunRecord]:
        """Return a page of runs."""
        return await self._get("/api/runs", Page[RunRecord], filters)

    async def run(self, id: str) -> RunRecord:
        """Return a run's record."""
        return await self._get(f"/api/runs/{quote(id, safe='')}", RunRecord)

    async def history(self, id: str) -> list[Entry]:
        """Return a run's journal."""
        found: list[Entry] = []
        after: int | None = 0
        while after is not None:
            query = {"limit": MOST_ENTRIES, "after": after}
            page = await self._get(f"/api/runs/{quote(id, safe='')}/journal", _Journal, query)
            found += page.items
            after = page.next
        return found

    async def grants(self, **filters: Any) -> Page[GrantRecord]:
        """Return a page of grants."""
        return await self._get("/api/grants", Page[GrantRecord], filters)

    async def standing_grants(self, **filters: Any) -> Page[StandingGrant]:
        """Return a page of standing grants."""
        return await self._get("/api/standing-grants", Page[StandingGrant], filters)

    async def give_standing_grant(self, order: GiveStandingGrant, *, digest: str, by: str | None) -> StandingGrant:
        """Give a standing grant from a question."""
        headers = {"If-Match": f'"{digest}"', "Content-Type": "application/json"}
        content = msgspec.json.encode(order)
        sent = await self._send("POST", "/api/standing-grants", content=content, headers=headers)
        return self._read(sent, StandingGrant, UNKNOWN)

    async def revoke(self, id: str, *, by: str | None) -> None:
        """Revoke a grant, of a run or a standing one."""
        place = "standing-grants" if is_standing(id) else "grants"
        await self._send("DELETE", f"/api/{place}/{quote(id, safe='')}")

    async def cancel(self, id: str, *, by: str | None, why: str | None) -> RunRecord:
        """Cancel a run, and return its record."""
        return await self._post(f"/api/runs/{quote(id, safe='')}/cancel", RunRecord, {"why": why})

    async def resume(self, id: str, *, by: str | None) -> RunRecord:
        """Resume a run, and return its record."""
        return await self._post(f"/api/runs/{quote(id, safe='')}/resume", RunRecord, {})

    async def stop(self, agent: str | None, *, by: str | None, why: str) -> AgentStop:
        """Stop an agent, or all agents."""
        return await self._post("/api/stops", AgentStop, {"agent": agent, "why": why})

    async def lift(self, id: str, *, by: str | None) -> AgentStop:
        """Lift a stop."""
        return await self._post(f"/api/stops/{quote(id, safe='')}/lift", AgentStop, {})

    async def stops(self, **filters: Any) -> Page[AgentStop]:
        """Return a page of stops."""
        return await self._get("/api/stops", Page[AgentStop], filters)

    async def _post(self, path: str, kind: type[T], body: dict[str, Any]) -> T:
        headers = {"Content-Type": "application/json"}
        return self._read(await self._send("POST", path, content=msgspec.json.encode(body), headers=headers), kind)

    async def whole_id(self, kind: Kind, given: str) -> str:
        """Return the id that begins with what was given; raise `UsageError` if several do."""
        if not needs_search(given):
            return given
        query = {"kind": kind, "beginning": given, "limit": CANDIDATES + 1}
        return only_one((await self._get("/api/ids", _IdList, query)).items, given)

    async def statistics(self, **filters: Any) -> Statistics:
        """Return the figures of a period."""
        return await self._get("/api/statistics", Statistics, filters)

    def exported_decisions(self, form: str, filters: dict[str, Any]) -> AsyncIterator[bytes]:
        """Yield the lines of an export of decisions."""
        given = {name: _word(value) for name, value in filters.items() if value is not None}
        return self.exported(f"/api/decisions.{form}", given)

    async def exported(self, path: str = "/api/audit", query: dict[str, str] | None = None) -> AsyncIterator[bytes]:
        """Yield the lines of an export, of all journals if nothing else is said."""
        left = b""
        try:
            async with self._client.stream("GET", self._address + path, params=query or {}) as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response)
                async for chunk in response.aiter_bytes():
                    *lines, left = (left + chunk).split(b"\n")
                    for line in lines:
                        yield line + b"\n"
        except self._failure as error:
            why = str(error) or type(error).__name__
            raise Upstream(f"The server at {self._address} cannot be reached, or cut the export off: {why}") from None
        if left:
            yield left

    async def _get(self, path: str, kind: type[T], query: dict[str, Any] | None = None) -> T:
        given = {
            name: _word(value) for name, value in (query or {}).items() if value is not None and value is not False
        }
        return self._read(await self._send("GET", path, params=given), kind)

    async def _send(self, method: str, path: str, **more: Any) -> Any:
        """Send a request and return the response; raise an error with the server's words if it was refused."""
        unknown = "" if method == "GET" else UNKNOWN
        try:
            response = await self._client.request(method, self._address + path, **more)
        except self._failure as error:
            why = (str(error) or type(error).__name__).removesuffix(".")
            if unknown and not isinstance(error, self._unsent):
                raise Upstream(f"The server at {self._address} did not answer ({why}).{unknown}") from None
            raise Upstream(f"The server at {self._address} cannot be reached: {why}") from None
        if not response.is_success:
            raise _refusal(response, unknown)
        return response

    def _read(self, response: Any, kind: type[T], unknown: str = "") -> T:
        try:
            return msgspec.json.decode(response.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Upstream(f"The server at {self._address} did not answer as an inbox: {error}.{unknown}") from None


class _IdList(msgspec.Struct):
    """Ids that begin with a text."""

    items: list[str]


class _Journal(msgspec.Struct):
    items: list[Entry]
    next: int | None


class _Problem(msgspec.Struct):
    """The part of a problem (RFC 9457) that is shown."""

    detail: str


class _Outcome(msgspec.Struct):
    id: str
    question: Question | None
    problem: _Problem | None


class _Outcomes(msgspec.Struct):
    items: list[_Outcome]


def _refusal(response: Any, unknown: str = "") -> AssentryError:
    try:
        return AssentryError(msgspec.json.decode(response.content, type=_Problem).detail)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        unknown = unknown if response.status_code >= 500 else ""  # a proxy's answer, not the inbox's
        return Upstream(f"The server answers {response.status_code} {response.reason_phrase}.{unknown}")


def _word(value: Any) -> str:
    return "true" if value is True else str(value)
