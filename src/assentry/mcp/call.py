"""One `tools/call` under way at a server.

The request has a task of its own, so that it can outlast the tool body that began it: an older server asks for input in
the middle of a call, and the call is then held open until the answer comes.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from mcp import MCPError
from mcp.types import (
    INVALID_REQUEST,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
)
from pydantic import TypeAdapter, ValidationError

from ..core.wording import shortened, worded
from ..errors import MCPServerFailed, MCPToolFailed, OutcomeUnknown
from .http_transport import REQUEST_PROGRESS
from .sdk_words import CONNECTION_CLOSED, HEADER_MISMATCH, LIMIT, NO_REASON, NO_SESSION, PARSE_ERROR, TOO_LARGE

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Result = CallToolResult | InputRequiredResult
RESULT: TypeAdapter[Any] = TypeAdapter(Result)


class RequestUnsent(Exception):
    """The request certainly did not reach the server, so it may be sent again."""


class CallRefusedByServer(Exception):
    """The server refused the request with an error that the caller looks at."""

    def __init__(self, error: MCPError, words: str) -> None:
        super().__init__(words)
        self.error = error


class ServerCall:
    """A request of a tool, and the questions that the server asks during it."""

    def __init__(self, server: str, key: str, holdable: bool) -> None:
        self.server = server
        self.key = key
        self.holdable = holdable
        """True if the call may wait for a person; else the server's questions are refused."""
        self.posted = False
        """True once an HTTP request has begun to carry the call."""
        self.unsent = False
        """True if that request certainly did not reach the server."""
        self.status: int | None = None
        """The HTTP status of the response."""
        self.question: ElicitRequestParams | None = None
        """The question that the call waits at."""
        self.held = False
        """True while nobody waits for the call: its question was handed on to a person."""
        self.questions = 0
        """The number of questions so far."""
        self.task: asyncio.Task[Result]
        self._asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer: asyncio.Future[ElicitResult] | None = None

    def start(self, session: Any, params: CallToolRequestParams, progress: Progress | None) -> None:
        """Send the request."""
        context = contextvars.copy_context()
        context.run(REQUEST_PROGRESS.set, self)
        work = session.send_request(CallToolRequest(params=params), RESULT, progress_callback=progress)
        self.task = asyncio.get_running_loop().create_task(work, name=f"mcp {params.name}", context=context)
        self.task.add_done_callback(_retrieve)

    async def elicited(self, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Wait for the answer to a question of the server."""
        if not self.holdable:
            return refusal_error(
                "the client can ask its user only in a connection that stays open; this one ends with the run's pause"
            )
        if self.question is not None:
            return refusal_error("the client asks its user one question of a call at a time")
        self.question, self.questions = params, self.questions + 1
        answer: asyncio.Future[ElicitResult] = asyncio.get_running_loop().create_future()
        self._answer = answer
        if not self._asked.done():
            self._asked.set_result(None)
        try:
            return await answer
        finally:
            if self._answer is answer:
                self.question = None

    def answer(self, result: ElicitResult) -> None:
        """Give the server the answer to its question."""
        assert self._answer is not None
        self._asked = asyncio.get_running_loop().create_future()
        self.question = None
        self._answer.set_result(result)

    async def next(self, timeout: float | None) -> Result | ElicitRequestParams:
        """Return the result, or the server's next question.

        Raise `OutcomeUnknown` if it cannot be known what became of the call, and `RequestUnsent` if it never began.
        If the waiting task is cancelled, so is the call at the server.
        """
        self.held = False
        while self.question is None and not self.task.done():
            if self._asked.done():  # a question that the server took back
                self._asked = asyncio.get_running_loop().create_future()
            waiting: set[asyncio.Future[Any]] = {self.task, self._asked}
            try:
                done, _ = await asyncio.wait(waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                await self.cancel()
                raise
            if not done:
                await self._give_up(timeout)
        if self.task.done():
            return self._result()
        assert self.question is not None
        self.held = True
        return self.question

    async def _give_up(self, timeout: float | None) -> NoReturn:
        """Cancel a call that took too long, and raise what is known of it."""
        await self.cancel()
        if self.unsent:
            raise RequestUnsent(f"The MCP server {self.server!r} could not be reached.")
        raise OutcomeUnknown(
            f"The MCP server {self.server!r} did not answer within {timeout:g} seconds. It was told to stop, and what "
            "it did before is not known."
        )

    async def cancel(self) -> None:
        """Cancel the call, at the server too."""
        self.task.cancel()
        await asyncio.wait({self.task})

    def _result(self) -> Result:
        try:
            return self.task.result()
        except asyncio.CancelledError:
            raise OutcomeUnknown(f"The call at the MCP server {self.server!r} was cancelled.") from None
        except MCPError as error:
            raise self._explain(error) from error
        except ValidationError as error:
            raise MCPServerFailed(
                f"The MCP server {self.server!r} ran the call, and its result is not one that the protocol allows: "
                f"{shortened(str(error), 300)}"
            ) from error
        except Exception as error:
            if self.unsent:
                raise RequestUnsent(worded(error)) from error
            raise OutcomeUnknown(
                f"The connection to the MCP server {self.server!r} was lost during the call ({worded(error)})."
            ) from error

    def _explain(self, error: MCPError) -> Exception:
        """Return the exception that says what an error means for the call."""
        whose, words = f"The MCP server {self.server!r}", shortened(error.message, 2000)
        status = self.status or 0
        if self.unsent or (status == 404 and error.message in NO_SESSION):
            return RequestUnsent(f"{whose} could not be reached: {words}.")
        if status >= 400:
            words = f"{words}, HTTP {status}"
        if error.code == TOO_LARGE or LIMIT in words or (error.code == PARSE_ERROR and status == 200):
            return MCPServerFailed(f"{whose} ran the call, but its answer cannot be used: {words}.")
        if error.code == CONNECTION_CLOSED or (status >= 500 and error.message == NO_REASON):
            return OutcomeUnknown(
                f"The connection to the MCP server {self.server!r} ended during the call ({words}). What the server "
                "did is not known."
            )
        if error.code == HEADER_MISMATCH:
            return MCPServerFailed(f"{whose} has changed this tool since it was listed; nothing ran. Call it again.")
        return CallRefusedByServer(error, words)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Mark the exception of a task as seen: nobody may be waiting for a held call."""
    if not task.cancelled():
        task.exception()


def refusal_error(why: str) -> ErrorData:
    """Return the error that refuses a server's request."""
    return ErrorData(code=INVALID_REQUEST, message=f"Refused: {why}.")


def tool_failure(error: CallRefusedByServer) -> MCPToolFailed:
    """Return the failure that the model is told of."""
    return MCPToolFailed(str(error) or "The server refused the call and did not say why.")
