"""The two places that questions, runs and grants come from: a store, or a server with its HTTP API."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from ..approval.decision import Decider, Decision
from ..approval.terms import GrantTerms
from ..core.wording import described, install_hint
from ..errors import AssentryError, Forbidden, GrantNotFound, Upstream, UsageError
from ..inbox.headline import ShownQuestion, with_order
from ..inbox.identity import ROLES, Identity
from ..store.filter import Filter
from ..store.open import open_store
from ..store.record import Entry, GrantRecord, Page, Question, RunRecord
from ..store.store import find_successor
from .temporal import attach_engine

if TYPE_CHECKING:
    from ..store.sql.store import SQLStore

T = TypeVar("T")

PATIENCE = 30.0
"""The seconds to wait for a server."""
UNKNOWN = " It is not known whether this was recorded: look at it again. The same decision again does no harm."
MOST_ENTRIES = 1000
"""The entries of a journal that are asked for at once."""


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

    async def runs(self, **filters: Any) -> Page[RunRecord]:
        """Return a page of runs."""

    async def run(self, id: str) -> RunRecord:
        """Return a run's record."""

    async def history(self, id: str) -> list[Entry]:
        """Return a run's journal."""

    async def grants(self, **filters: Any) -> Page[GrantRecord]:
        """Return a page of grants."""

    async def revoke(self, id: str, *, by: str | None) -> None:
        """Revoke a grant."""


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


class StoreSource:
    """A store, opened by whoever can read its database."""

    def __init__(self, store: SQLStore) -> None:
        self._store = store

    async def questions(self, **filters: Any) -> Page[ShownQuestion]:
        """Return a page of questions."""
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

    async def revoke(self, id: str, *, by: str | None) -> None:
        """Revoke a grant."""
        who = await self._who(by or "")
        if who is not None:
            who.need("grant")
        page = await self._store.page(Filter(kind=GrantRecord, equal={"id": id}, limit=1))
        if not page.items:
            raise GrantNotFound(f"The store has no grant {described(id)}.")
        await self._store.revoke(id, by=by or "", run=page.items[0].run)


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

    async def revoke(self, id: str, *, by: str | None) -> None:
        """Revoke a grant."""
        await self._send("DELETE", f"/api/grants/{quote(id, safe='')}")

    async def exported(self) -> AsyncIterator[bytes]:
        """Yield the lines of an export of all journals."""
        left = b""
        try:
            async with self._client.stream("GET", f"{self._address}/api/audit") as response:
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


class _Journal(msgspec.Struct):
    items: list[Entry]
    next: int | None


class _Problem(msgspec.Struct):
    """The part of a problem (RFC 9457) that is shown."""

    detail: str


def _refusal(response: Any, unknown: str = "") -> AssentryError:
    try:
        return AssentryError(msgspec.json.decode(response.content, type=_Problem).detail)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        unknown = unknown if response.status_code >= 500 else ""  # a proxy's answer, not the inbox's
        return Upstream(f"The server answers {response.status_code} {response.reason_phrase}.{unknown}")


def _word(value: Any) -> str:
    return "true" if value is True else str(value)
