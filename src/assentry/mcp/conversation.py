"""A call of an MCP tool from beginning to end, with the questions that the server asks on the way.

Each round is a request that ends with the result or with questions. Questions are recorded as a step of the tool's body
and asked with `ctx.ask`, so the answer may come days later and in another process. A result is not recorded as a step:
it is the call's outcome, and the door records that.

A server of protocol 2026-07-28 ends the request when it needs input and hands out a state, with which anyone may go on.
An older server asks inside the open request. That request is then held, and only this process can go on with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from jsonschema import Draft202012Validator
from mcp.types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)
from msgspec import Struct
from pydantic import ValidationError

from ..core.digest import canonical, plain
from ..core.wording import clean_text, shortened, worded
from ..definitions.context import ToolContext
from ..errors import MCPServerFailed, OutcomeUnknown
from .call import CallRefusedByServer, RequestUnsent, ServerCall, tool_failure
from .connected import ConnectedServer
from .link import ServerConnection
from .sdk_words import INVALID_PARAMS, URL_ELICITATION_REQUIRED

ROUND_STEP = "mcp round"
"""The name of the steps that record a server's questions."""
ROUNDS = 10
"""The most rounds of questions in one call."""
PAUSES = (0.05, 0.1, 0.2, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25)
"""The seconds to wait when a server wants to be asked again later."""
QUESTIONS = 20
"""The most questions in one round."""
LARGEST_MESSAGE = 100_000
"""The most bytes of a question's schema, and characters of a server's state: both are kept in the journal."""
DONE, DECLINE = "done", "decline"
AGAIN = "The server no longer has the request that you answered; answer again. "


class Request(Struct, frozen=True):
    """One question of a server: a form to fill in, or a page to open."""

    id: str
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None


class Round(Struct, frozen=True):
    """The questions that a request ended with, and how to go on after the answers."""

    kind: Literal["continued", "held", "visit"]
    requests: list[Request]
    state: str | None = None
    again: bool = False
    """True if the server had forgotten the call, which was begun anew."""


class Complete(Exception):
    """The signal that leaves a step, unrecorded, with the call's result."""

    def __init__(self, result: CallToolResult) -> None:
        self.result = result


async def converse(
    server: ConnectedServer,
    ctx: ToolContext[Any],
    name: str,
    args: dict[str, Any],
    idempotent: bool,
    look: LastLook,
    meta: dict[str, Any] | None = None,
) -> CallToolResult:
    """Call a tool, ask what the server asks, and return the result.

    Args:
        server: The server.
        ctx: The context of the tool's body.
        name: The tool's name at the server.
        args: The arguments.
        idempotent: True if the user says that the tool may be called again.
        look: The last look at the tool.
        meta: What is sent with the call as `_meta`.
    """
    rounds = CallRounds(server, ctx, name, args, idempotent, look, meta)
    for _ in range(ROUNDS):
        try:
            said = await rounds.step(ROUND_STEP, rounds.go_on)
        except Complete as done:
            return done.result
        await rounds.ask(msgspec.convert(said, Round))
    await rounds.give_up()
    raise MCPServerFailed(f"The MCP server {server.name!r} asked {ROUNDS} times in one call; the call was given up.")


class LastLook(NamedTuple):
    """The door's last look at a tool, right before its body."""

    check: Callable[[], Awaitable[None]]
    """A function that lists the tools again and raises `NotAsShown` if the tool has changed."""
    changes: int
    """The server's number of changes at that time."""


class CallRounds:
    """The rounds of one call."""

    def __init__(
        self,
        server: ConnectedServer,
        ctx: ToolContext[Any],
        name: str,
        args: dict[str, Any],
        idempotent: bool,
        look: LastLook,
        meta: dict[str, Any] | None = None,
    ) -> None:
        self._server, self._ctx, self._name, self._args, self._idempotent = server, ctx, name, args, idempotent
        self._look, self._meta = look, meta
        self._given: list[tuple[Round, dict[str, ElicitResult]]] = []
        """The rounds that are answered, with the answers."""

    async def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """Record a step of the tool's body."""
        return await self._ctx.step(name, fn)

    async def ask(self, said: Round) -> None:
        """Ask the person each question of a round."""
        answers = {}
        for request in said.requests:
            question = f"{AGAIN if said.again else ''}{_question_text(self._server.name, request)}"
            schema = request.schema if request.url is None else {"enum": [DONE, DECLINE]}
            answer = await self._ctx.ask(question, schema=schema)
            answers[request.id] = _elicitation(request, answer)
        self._given.append((said, answers))

    async def give_up(self) -> None:
        """Cancel the call if it is held."""
        call = (await self._server.link()).calls.get(self._ctx.idempotency_key)
        if call is not None:
            await call.cancel()

    async def go_on(self) -> Round:
        """Send the next request and return the questions it ends with; raise `Complete` with its result."""
        again = resent = False
        while True:
            link, waits = await self._server.link(), self._server.busy
            try:
                async with self._server.turn():
                    changed = self._server.stale or self._server.changes != self._look.changes
                    if not self._given and (waits or resent or changed):  # the door looked before that
                        await self._look.check()
                    return await self._round(link, again)
            except RequestUnsent as error:
                await self._server.drop(link)
                if resent:
                    raise MCPServerFailed(f"{error} The call was not sent.") from error
                resent = True
            except OutcomeUnknown as unknown:
                if link.alive:
                    raise
                await self._server.drop(link)  # its end may bring the reason
                raise OutcomeUnknown(f"{unknown}{link.stderr.as_suffix()}") from unknown
            except CallRefusedByServer as refused:
                again = self._begins_again(refused, again)
                if again:
                    continue
                if refused.error.code == URL_ELICITATION_REQUIRED:
                    return Round("visit", _pages(refused.error.data))
                raise tool_failure(refused) from refused.error

    def _begins_again(self, refused: CallRefusedByServer, again: bool) -> bool:
        """Return True if the server has forgotten the call, and the call was not begun again already."""
        return bool(self._given) and self._given[-1][0].kind == "continued" and not again and _is_expired(refused)

    async def _round(self, link: ServerConnection, again: bool) -> Round:
        last = self._given[-1] if self._given else None
        if last is not None and last[0].kind == "held":
            outcome: Any = await self._resume_held(link)
        elif last is not None and last[0].kind == "continued" and not again:
            if not link.modern:  # it was replaced by an older server, which knows of no state
                again, outcome = True, await self._send(link)
            else:
                outcome = await self._send(link, responses=last[1] or None, state=last[0].state)
        else:
            outcome = await self._send(link)
        for pause in PAUSES:
            if not isinstance(outcome, InputRequiredResult) or outcome.input_requests:
                break
            await asyncio.sleep(pause)
            outcome = await self._poll(link, outcome.request_state)
        if isinstance(outcome, CallToolResult):
            raise Complete(outcome)
        if isinstance(outcome, InputRequiredResult):
            return Round("continued", self._requests(outcome), outcome.request_state, again)
        return await self._holding(link, outcome, again)

    def _begin(self, link: ServerConnection, responses: Any = None, state: str | None = None) -> ServerCall:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            self._ctx.progress(done, total, message)

        return link.begin(
            self._ctx.idempotency_key,
            self._name,
            self._args,
            holdable=self._server.stays_open or self._idempotent,
            responses=responses,
            state=state,
            progress=progress,
            meta=self._meta,
        )

    async def _send(self, link: ServerConnection, responses: Any = None, state: str | None = None) -> Any:
        return await self._begin(link, responses, state).next(self._server.call_timeout)

    async def _poll(self, link: ServerConnection, state: str | None) -> Any:
        """Ask a server that wanted more time. Whatever happens, what it was asked first is not asked again."""
        try:
            return await self._send(link, state=state)
        except (RequestUnsent, CallRefusedByServer) as error:
            raise OutcomeUnknown(f"The MCP server {self._server.name!r} was working on the call: {error}") from error

    # Calls that are held open

    async def _holding(self, link: ServerConnection, params: ElicitRequestParams, again: bool) -> Round:
        """Return the question of a call that is held; cancel the call if the question cannot be asked."""
        call = link.calls[self._ctx.idempotency_key]
        try:
            said = Round("held", [_request(self._server.name, str(call.questions), params)], again=again)
        except MCPServerFailed:
            await call.cancel()
            raise
        await link.drop_oldest(self._server.max_held_calls)
        return said

    async def _resume_held(self, link: ServerConnection) -> Any:
        """Give the answer to the call that waits for it. If that call is gone, begin anew where that is allowed."""
        held = [(said.requests[0], answers) for said, answers in self._given if said.kind == "held"]
        request, answers = held[-1]
        call = link.calls.get(self._ctx.idempotency_key)
        if call is not None and call.questions == len(held) and self._is_at(call, request):
            call.answer(answers[request.id])
            return await call.next(self._server.call_timeout)
        if call is not None:
            link.forget(call)
            if call.task.done():  # the server did not wait for the answer
                return await call.next(None)
            await call.cancel()
        if not self._idempotent:
            await self._allow_repeat()
        call = self._begin(link)
        for request, answers in held:
            outcome = await call.next(self._server.call_timeout)
            if isinstance(outcome, CallToolResult | InputRequiredResult):
                return outcome
            if _request(self._server.name, request.id, outcome) != request:
                await call.cancel()
                raise MCPServerFailed(
                    f"The MCP server {self._server.name!r} asked something else when it was called again; the call "
                    "was cancelled."
                )
            call.answer(answers[request.id])
        return await call.next(self._server.call_timeout)

    def _is_at(self, call: ServerCall, request: Request) -> bool:
        """Return True if the call waits for the answer to this question."""
        return call.question is not None and _request(self._server.name, request.id, call.question) == request

    async def _allow_repeat(self) -> None:
        """Raise `OutcomeUnknown` the first time; return when the body is entered again, since a person let it."""
        first = False

        async def note() -> bool:
            nonlocal first
            first = True
            return True

        await self.step(f"mcp lost {len(self._given)}", note)
        if first:
            raise OutcomeUnknown(
                f"The MCP server {self._server.name!r} had begun this call and waited for an answer. The connection "
                "in which it waited is gone, so the answer cannot reach it. Calling again may repeat what it did "
                "before it asked."
            )

    # Questions

    def _requests(self, result: InputRequiredResult) -> list[Request]:
        found = []
        for key, each in (result.input_requests or {}).items():
            if not isinstance(each, ElicitRequest):
                raise MCPServerFailed(
                    f"The MCP server {self._server.name!r} asks for {each.method}, which it was not offered; the call "
                    "was given up."
                )
            found.append(_request(self._server.name, key, each.params))
        if not found:
            raise MCPServerFailed(f"The MCP server {self._server.name!r} did not finish the call.")
        if len(found) > QUESTIONS or len(result.request_state or "") > LARGEST_MESSAGE:
            raise MCPServerFailed(f"The MCP server {self._server.name!r} asks too many questions at once.")
        return found


def _request(server: str, key: str, params: ElicitRequestParams) -> Request:
    """Return a server's question as it is recorded, or raise `MCPServerFailed` if nobody can be asked this."""
    if isinstance(params, ElicitRequestURLParams):
        _host(server, params.url)
        return Request(key, _message(params), url=params.url)
    try:
        schema = {**plain(params.requested_schema), "type": "object"}
        Draft202012Validator.check_schema(schema)
    except Exception as error:
        raise MCPServerFailed(
            f"The MCP server {server!r} asks for an answer in a form that is not a JSON schema: "
            f"{shortened(worded(error), 300)}"
        ) from error
    if len(canonical(schema)) > LARGEST_MESSAGE:
        raise MCPServerFailed(
            f"The MCP server {server!r} asks for an answer in a form of more than {LARGEST_MESSAGE:,} bytes."
        )
    return Request(key, _message(params), schema)


def _message(params: ElicitRequestParams) -> str:
    return clean_text(shortened(params.message, 4000))[0]


def _pages(data: Any) -> list[Request]:
    """Return the pages that a server of protocol 2025-11-25 wants to be visited before the call."""
    try:
        pages = [ElicitRequestURLParams.model_validate(each) for each in data["elicitations"]]
    except (ValidationError, KeyError, TypeError) as error:
        raise MCPServerFailed("The MCP server asks for pages to be opened, but names none.") from error
    return [_request("", page.elicitation_id or str(number), page) for number, page in enumerate(pages)]


def _host(server: str, url: str) -> str:
    """Return the host of a page in ASCII, so that look-alike letters are seen; raise if it is no page."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
    except (ValueError, UnicodeError):
        host, parts = "", urlsplit("")
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise MCPServerFailed(
            f"The MCP server {server!r} asks to open {shortened(url, 200)!r}, which is not a web page."
        )
    return host


def _question_text(server: str, request: Request) -> str:
    if request.url is None:
        return f"The MCP server {server!r} asks: {request.message}"
    return (
        f"The MCP server {server!r} asks you to open a page at {_host(server, request.url)}: {request.message} "
        f'The page is {request.url} . Answer "{DONE}" when you are done there, or "{DECLINE}".'
    )


def _elicitation(request: Request, answer: Any) -> ElicitResult:
    if request.url is not None:
        return ElicitResult(action="accept" if answer == DONE else "decline")
    try:
        return ElicitResult(action="accept", content=answer)
    except ValidationError as error:
        raise MCPServerFailed("The MCP server asked for an answer in a form that the protocol cannot carry.") from error


def _is_expired(refused: CallRefusedByServer) -> bool:
    """Return True if the server says that it does not accept the state any more, and so did nothing."""
    error = refused.error
    reason = error.data.get("reason") if isinstance(error.data, dict) else None
    return error.code == INVALID_PARAMS and (
        reason == "invalid_request_state" or "requeststate" in error.message.lower().replace("_", "").replace(" ", "")
    )
