"""The places where a program's calls are kept: a store, or an inbox with its HTTP API. Both do the same."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from .. import errors
from ..approval.foreign_call import CallRequest
from ..approval.rule_file import RuleFile
from ..core.digest import BadJSON, plain
from ..core.wording import described, install_hint
from ..definitions.preview import Preview
from ..errors import AssentryError, InvalidInput, TooManyAsks, Upstream, UsageError
from ..store.call_status import CallStatus, is_undecided
from ..store.call_watch import wait_for_call
from ..store.calls import ask_about_call, finish_call, look_at_call, renew_call, run_of_key, start_call, take_call
from ..store.open import open_store
from ..store.store import Store

PATIENCE = 30.0
"""The seconds to wait for an inbox, besides those that the inbox itself waits for a person."""
LONGEST_WAIT = 25.0
"""The seconds that one request waits for a decision."""
ATTEMPTS = 4
"""The attempts of a request that may be sent again. Each request here may: it has a key, or says who reports."""
OUTCOME_ATTEMPTS = 8
"""The attempts of the report of an outcome: without it a person is asked, so an inbox may restart meanwhile."""
PAUSE = 0.25
"""The seconds before the second attempt; each later one waits twice as long, at most `LONGEST_PAUSE`."""
LONGEST_PAUSE = 15.0
REFUSALS = {
    "urn:assentry:" + re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower(): kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, AssentryError)
}
"""The errors by the type of the problem with which an inbox refuses a request."""


class CallPlace(ABC):
    """A place where a program asks about its calls and reports."""

    @abstractmethod
    async def ask(self, request: CallRequest) -> CallStatus:
        """Put a call before the gate."""

    @abstractmethod
    async def find(self, source: str, key: str) -> CallStatus:
        """Return the ask with this key."""

    @abstractmethod
    async def look(self, id: str) -> CallStatus:
        """Return what became of a call."""

    @abstractmethod
    async def wait(self, id: str, timeout: float | None) -> CallStatus:
        """Return what became of a call once it is decided, or as it is after `timeout` seconds."""

    @abstractmethod
    async def start(self, id: str, holder: str, arguments: dict[str, Any] | None, hold: float) -> CallStatus:
        """Report that a call is about to run."""

    @abstractmethod
    async def renew(self, id: str, holder: str, hold: float) -> CallStatus:
        """Report that a call still runs."""

    @abstractmethod
    async def finish(self, id: str, holder: str, output: Any, error: str | None, taken: bool = False) -> CallStatus:
        """Report how a call ended; with `taken`, the outcome counts as taken."""

    @abstractmethod
    async def take(self, id: str) -> CallStatus:
        """Report that the outcome was taken."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what was opened."""


class StorePlace(CallPlace):
    """A store that the program itself reaches."""

    def __init__(self, store: Store, by: str, rules: RuleFile | None, own: bool) -> None:
        self._store = store
        self._by = by
        self._rules = rules
        self._own = own

    async def ask(self, request: CallRequest) -> CallStatus:
        """Put a call before the gate."""
        status, _ = await ask_about_call(self._store, request, by=self._by, rules=self._rules)
        return status

    async def find(self, source: str, key: str) -> CallStatus:
        """Return the ask with this key."""
        return await self.look(run_of_key(self._by, source, key))

    async def look(self, id: str) -> CallStatus:
        """Return what became of a call."""
        return await look_at_call(self._store, id, by=self._by)

    async def wait(self, id: str, timeout: float | None) -> CallStatus:
        """Return what became of a call once it is decided, or as it is after `timeout` seconds."""
        return await wait_for_call(self._store, id, timeout, lambda: self.look(id))

    async def start(self, id: str, holder: str, arguments: dict[str, Any] | None, hold: float) -> CallStatus:
        """Report that a call is about to run."""
        return await start_call(self._store, id, by=self._by, holder=holder, arguments=arguments, hold=hold)

    async def renew(self, id: str, holder: str, hold: float) -> CallStatus:
        """Report that a call still runs."""
        return await renew_call(self._store, id, by=self._by, holder=holder, hold=hold)

    async def finish(self, id: str, holder: str, output: Any, error: str | None, taken: bool = False) -> CallStatus:
        """Report how a call ended."""
        by = self._by
        return await finish_call(self._store, id, by=by, holder=holder, output=output, error=error, taken=taken)

    async def take(self, id: str) -> CallStatus:
        """Report that the outcome was taken."""
        return await take_call(self._store, id, by=self._by)

    async def close(self) -> None:
        """Close the store, if it was opened for this place."""
        if self._own:
            await self._store.close()


class InboxPlace(CallPlace):
    """An inbox, reached over HTTP with a token of the role "agent"."""

    def __init__(self, address: str, token: str | None) -> None:
        if not token:
            raise UsageError("An inbox needs token=..., of the role agent: assentry tokens add NAME --role agent.")
        self._address = _checked_address(address)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "Content-Type": "application/json"}
        try:
            import httpx
        except ModuleNotFoundError:
            raise UsageError(f"An inbox is reached with httpx: {install_hint('client')}.") from None
        self._failure = httpx.HTTPError
        try:
            self._client = httpx.AsyncClient(headers=headers, timeout=PATIENCE + LONGEST_WAIT)
        except UnicodeEncodeError:
            raise UsageError("The token is not one: it has characters that no token has.") from None

    async def ask(self, request: CallRequest) -> CallStatus:
        """Put a call before the gate."""
        return await self._send("POST", "/api/asks", request)

    async def find(self, source: str, key: str) -> CallStatus:
        """Return the ask with this key."""
        return await self._send("GET", "/api/asks", params={"source": source, "key": key})

    async def look(self, id: str) -> CallStatus:
        """Return what became of a call."""
        return await self._send("GET", _path(id))

    async def wait(self, id: str, timeout: float | None) -> CallStatus:
        """Return what became of a call once it is decided, or as it is after `timeout` seconds.

        An inbox that cannot be reached is asked again until the time is over: people take days, and servers restart.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause = PAUSE
        while True:
            left = LONGEST_WAIT if end is None else max(0.0, min(LONGEST_WAIT, end - time.monotonic()))
            over = end is not None and end - time.monotonic() <= left
            try:
                status = await self._send("GET", _path(id), params={"wait": round(left, 3)}, attempts=1)
            except (Upstream, TooManyAsks):
                if end is not None and time.monotonic() + pause >= end:
                    raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            if over or not is_undecided(status):
                return status
            pause = PAUSE

    async def start(self, id: str, holder: str, arguments: dict[str, Any] | None, hold: float) -> CallStatus:
        """Report that a call is about to run."""
        return await self._report(id, "start", {"holder": holder, "arguments": arguments, "hold": hold})

    async def renew(self, id: str, holder: str, hold: float) -> CallStatus:
        """Report that a call still runs."""
        return await self._report(id, "renew", {"holder": holder, "hold": hold})

    async def finish(self, id: str, holder: str, output: Any, error: str | None, taken: bool = False) -> CallStatus:
        """Report how a call ended."""
        body = {"holder": holder, "output": output, "error": error}
        return await self._report(id, "finish", {**body, "taken": True} if taken else body, OUTCOME_ATTEMPTS)

    async def take(self, id: str) -> CallStatus:
        """Report that the outcome was taken."""
        return await self._send("POST", f"{_path(id)}/take", {})

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _report(self, id: str, report: str, body: dict[str, Any], attempts: int | None = None) -> CallStatus:
        return await self._send("POST", f"{_path(id)}/{report}", body, attempts=attempts)

    async def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, Any] | None = None,
        attempts: int | None = None,
    ) -> CallStatus:
        """Send a request, again if it is not known whether it arrived, and return the status in the response."""
        content = None if body is None else _json_of(body)
        problem = Upstream(f"The inbox at {self._address} was not asked.")
        for attempt in range(attempts or ATTEMPTS):
            if attempt:
                await asyncio.sleep(min(PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE))
            try:
                response = await self._client.request(method, self._address + path, content=content, params=params)
            except self._failure as error:
                why = str(error) or type(error).__name__
                problem = Upstream(f"The inbox at {self._address} cannot be reached: {why}")
                continue
            if response.status_code >= 500:
                problem = Upstream(f"The inbox at {self._address} answers {response.status_code}.")
                continue
            if not response.is_success:
                raise _refusal(response.status_code, response.content)
            try:
                return msgspec.json.decode(response.content, type=CallStatus)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise Upstream(f"What answers at {self._address} is no inbox.") from None
        raise problem


def _json_of(body: Any) -> bytes:
    """Return a request's body as JSON; raise `InvalidInput` for what a store would refuse, in place of changing it."""
    if isinstance(body, CallRequest):
        body = msgspec.structs.asdict(body)
        if isinstance(body["preview"], Preview):
            body["preview"] = msgspec.to_builtins(body["preview"])
    try:
        return msgspec.json.encode(plain(body))
    except BadJSON as error:
        raise InvalidInput(f"This cannot be sent to the inbox as JSON: {error}.") from None


class _Problem(msgspec.Struct):
    """The parts of a problem (RFC 9457) that make an error."""

    type: str
    detail: str


def _refusal(status: int, content: bytes) -> AssentryError:
    try:
        problem = msgspec.json.decode(content, type=_Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Upstream(f"What answers is no inbox: it refuses the request with {status}.")
    kind = REFUSALS.get(problem.type, UsageError if status in (400, 413, 415, 422) else AssentryError)
    return kind(problem.detail)


def _path(id: str) -> str:
    return f"/api/asks/{quote(id, safe='')}"


def _checked_address(address: str) -> str:
    """Return an inbox's address without a slash at its end; raise `UsageError` if it is none."""
    parts = urlsplit("")
    try:
        parts = urlsplit(address)
        known = parts.port is None or parts.port > 0  # raises ValueError if it is none
    except ValueError:
        known = False
    if not known or not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise UsageError(f"An inbox's address is https://host or https://host/prefix, got {described(address)}.")
    return address.rstrip("/")


def open_call_place(place: Store | str, source: str, token: str | None, rules: RuleFile | None) -> CallPlace:
    """Return the place that a store, a store's address or an inbox's address means."""
    if isinstance(place, str) and place.partition("://")[0] in ("http", "https"):
        if rules is not None:
            raise UsageError("The rules are the inbox's: start it with `assentry serve --rules FILE`.")
        return InboxPlace(place, token)
    if token is not None:
        raise UsageError(f"A token is for an inbox, whose address begins with https://; {described(place)} is none.")
    if isinstance(place, str):
        return StorePlace(open_store(place), source, rules, own=True)
    if not isinstance(place, Store):
        raise UsageError(f"Approvals takes a store, its address or an inbox's address, got {described(place)}.")
    return StorePlace(place, source, rules, own=False)
