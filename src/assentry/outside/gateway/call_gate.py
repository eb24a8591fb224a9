"""One call of a client, from the gate to its result.

A call is found again by itself: the same tool, definition and arguments of the same source are one ask until its
outcome was handed on. So a client that gave up waiting calls again, and gets the first call's outcome.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from mcp import MCPError, types

from ...core.digest import canonical, digest
from ...errors import AssentryError, InvalidInput, MCPServerFailed, NotDecided, OutcomeUnknown, RunBusy
from ...mcp.tool import MCPTool
from ...store.call_status import ENDED, CallStatus, is_undecided
from ...tools.user_question import NAME, read_user_question
from ..approvals import Approvals, AskedCall
from ..options import CallOptions
from ..user_question import reply_in_words, user_question_options
from .upstream import PageWanted, Relay, UpstreamServer
from .wording import (
    TOO_LARGE,
    answered_result,
    failure_text,
    kept_result,
    problem_result,
    refused_result,
    reply_result,
    waiting_result,
    with_edit,
)

log = logging.getLogger("assentry.gateway")

MOST_CALLS = 100
"""The most calls that are open at a time; a further one is refused at once."""
TICK = 3.0
"""The seconds between two notes to a client that waits."""
POLL = 0.25
"""The seconds between two looks at a call that another gateway runs."""
CHANGES = 5
"""The most times that a tool may change during one call."""
LARGEST_KEPT = 512 * 1024
"""The most bytes of a result that is kept in the run; a larger one is handed on, and not kept."""
GRACE = 1.0
"""The seconds that calls at the server have to end when the gateway ends: clients kill it soon after."""
STEP = 1e-6
"""The progress of one note while the client waits: little, so that the tool's own progress comes after it."""


class ClientCall:
    """A call of a client, while somebody waits for its result."""

    def __init__(self, name: str, args: dict[str, Any], relay: Relay, wait: float, awaited: str = "approval") -> None:
        self.name, self.args, self.relay, self.awaited = name, args, relay, awaited
        self.end = time.monotonic() + wait
        self.waited = False
        """True if a person was asked, so that the tool may have changed since it was looked at."""
        self._notes = 0

    @property
    def left(self) -> float:
        """The seconds before the client is told to call again."""
        return self.end - time.monotonic()

    async def note(self, words: str) -> None:
        """Tell the client that its call goes on."""
        self._notes += 1
        await self.relay.progress(self._notes * STEP, None, words)


class BegunCall:
    """A call that runs at the server, and the clients that wait for it."""

    def __init__(self) -> None:
        self.task: asyncio.Task[types.CallToolResult]
        self.waiting: list[Relay] = []

    async def is_awaited(self) -> bool:
        """Return True if the outcome can be handed on to a client."""
        return any([await client.is_there() for client in self.waiting])


def definition_of(tool: MCPTool, identity: str) -> str:
    """Return the mark of a tool's definition at a server: approvals, and rules with `definitions`, are bound to it."""
    return digest({"tool": tool.fingerprint, "server": identity})


class CallGate:
    """The gate in front of a server's tools.

    Args:
        approvals: The place where calls are asked about, by the client's name.
        upstream: The server.
        identity: A text that tells the server from others; an approval is for the tool of this one.
        wait: The seconds for which a client's call waits; then the client is told to call again.
        inbox: The address of the inbox, for links.
    """

    def __init__(
        self,
        approvals: Mapping[str, Approvals],
        upstream: UpstreamServer,
        *,
        identity: str,
        wait: float,
        inbox: str | None,
    ) -> None:
        self._approvals, self._upstream, self._identity = approvals, upstream, identity
        self._wait, self._inbox = wait, inbox
        self._open = 0
        self._begun: dict[str, BegunCall] = {}
        """The calls that run at the server, by the id of the ask."""
        self._paged: set[str] = set()
        """The open questions whose page a client was told to open."""

    async def call(self, name: str, args: dict[str, Any], relay: Relay) -> types.CallToolResult:
        """Put a call before the gate, and return its result, or a result that says why there is none."""
        return await self._counted(self._judged, ClientCall(name, args, relay, self._wait))

    async def ask_user(self, args: dict[str, Any], relay: Relay) -> types.CallToolResult:
        """Ask a person a model's question, and return the answer, or a result that says why there is none."""
        return await self._counted(self._answered, ClientCall(NAME, args, relay, self._wait, "an answer"))

    async def _counted(
        self, work: Callable[[ClientCall], Coroutine[Any, Any, types.CallToolResult]], call: ClientCall
    ) -> types.CallToolResult:
        """Do the work of a call, unless too many are open, and return its result or its error in words."""
        if self._open >= MOST_CALLS:
            return problem_result(f"The gateway has {MOST_CALLS} open calls. Wait for some of them, then call again.")
        self._open += 1
        try:
            return await work(call)
        except AssentryError as error:
            return problem_result(str(error))
        finally:
            self._open -= 1

    async def close(self) -> None:
        """Give the calls that run a little time to end; the outcome of those that do not is in doubt."""
        tasks = {begun.task for begun in self._begun.values()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _judged(self, call: ClientCall) -> types.CallToolResult:
        """Ask about a call as the tool is now; if the tool changes before it runs, ask anew."""
        for _ in range(CHANGES):
            tool = await self._upstream.tool(call.name, fresh=call.waited)
            if tool is None:
                raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {call.name}")
            tool.bind(tool.canonical(call.args))  # the model hears at once of arguments that the server would refuse
            asked = await self._approvals[call.relay.source].ask(
                tool.remote,
                call.args,
                again=True,
                schema=tool.params_json_schema,
                description=tool.description,
                definition=definition_of(tool, self._identity),
                server=self._upstream.name,
            )
            result = await self._result(call, asked, tool)
            if result is not None:
                return result
        return problem_result(f"The server keeps changing {call.name}; it was not called.")

    async def _answered(self, call: ClientCall) -> types.CallToolResult:
        """Ask a person what the arguments say, and return the reply."""
        question = read_user_question(call.args)
        options: CallOptions = {**user_question_options(question), "again": True}
        asked = await self._approvals[call.relay.source].ask(NAME, call.args, **options)
        await self._decided(call, asked)
        if is_undecided(asked.status) or not await call.relay.is_there():
            return waiting_result(asked.status, self._link_of(asked.status), "an answer to")
        status = await asked.take()
        return reply_result(reply_in_words(question, status), status)

    async def _result(self, call: ClientCall, asked: AskedCall, tool: MCPTool) -> types.CallToolResult | None:
        """Return the result of an ask; None if the tool has changed since."""
        while True:
            await self._decided(call, asked)
            status = asked.status
            if not await call.relay.is_there():  # nothing runs and nothing is handed on for nobody
                return waiting_result(status, self._link_of(status))
            if status.state in ENDED:
                return await self._take(asked, tool)
            if status.state == "cancelled":
                return refused_result(status)
            if is_undecided(status) or (status.state == "running" and call.left <= 0):
                return waiting_result(status, self._link_of(status))
            if status.state == "running" and status.id not in self._begun:
                await self._wait_for_others(call, asked)
                continue
            just_listed = not call.waited and asked.status.question is None and (status.by or "").startswith("rule:")
            if status.state == "approved" and not just_listed and not await self._is_unchanged(tool):
                return None
            try:
                return await self._begin(call, asked, tool)
            except RunBusy:  # another gateway was faster
                await asked.refresh()

    async def _decided(self, call: ClientCall, asked: AskedCall) -> None:
        """Wait for the decision as long as the client may, and tell the client so meanwhile."""
        if not is_undecided(asked.status) or call.left <= 0:
            return
        call.waited, status = True, asked.status
        if call.relay.is_sent_to_pages and (page := self._page_of(status)) is not None:
            raise PageWanted(self._page_words(call), page)
        telling = [asyncio.create_task(tell(call, status)) for tell in (self._tell, self._show_page)]
        try:
            with suppress(NotDecided):
                await asked.decision(timeout=call.left)
                self._paged.discard(status.question or "")
        finally:
            for task in telling:
                task.cancel()
            await asyncio.gather(*telling, return_exceptions=True)

    async def _tell(self, call: ClientCall, status: CallStatus) -> None:
        """Tell the client again and again what its call waits for."""
        words = "how the call ended" if status.state == "doubt" else call.awaited
        while True:
            await call.note(f"Waiting for {words} ({self._link_of(status)})")
            await asyncio.sleep(TICK)

    async def _show_page(self, call: ClientCall, status: CallStatus) -> None:
        """Have the client's user open the question's page, once. Whatever the client answers decides nothing."""
        page = self._page_of(status)
        if page is not None:
            await call.relay.show_page(self._page_words(call), page)

    def _page_of(self, status: CallStatus) -> str | None:
        """Return the address of the question's page, the first time; None if there is none."""
        if self._inbox is None or status.link is None or status.question is None or status.question in self._paged:
            return None
        self._paged.add(status.question)
        return self._link_of(status)

    def _page_words(self, call: ClientCall) -> str:
        return f"{call.name} waits for {call.awaited} in the inbox."

    async def _wait_for_others(self, call: ClientCall, asked: AskedCall) -> None:
        """Wait while another gateway runs the call, as long as the client may."""
        await call.note("Another client's equal call runs")
        for _ in range(int(TICK / POLL)):
            if call.left <= 0 or (await asked.refresh()).state != "running":
                return
            await asyncio.sleep(POLL)

    async def _is_unchanged(self, tool: MCPTool) -> bool:
        """Look at the tool's definition again."""
        now = await self._upstream.tool(tool.remote, fresh=True)
        return now is not None and now.fingerprint == tool.fingerprint

    async def _take(self, asked: AskedCall, tool: MCPTool) -> types.CallToolResult:
        """Return the outcome that an ask has, and record that it was handed on."""
        status = asked.status
        await asked.take()
        if status.state == "answered":
            return answered_result(status, tool.listed.output_schema)
        return refused_result(status) if status.state == "rejected" else kept_result(status)

    async def _begin(self, call: ClientCall, asked: AskedCall, approved: MCPTool) -> types.CallToolResult:
        """Run an approved call, or join it if it runs here, and return its result.

        It runs in a task of its own: a client that goes away in the middle ends nothing, and the result is kept for
        its next equal call.
        """
        joined = self._begun.get(asked.id)
        begun = joined or BegunCall()
        if joined is None:
            self._begun[asked.id] = begun
            begun.task = asyncio.create_task(self._run(call, asked, begun, approved), name=f"gateway call {asked.id}")
            begun.task.add_done_callback(lambda _: self._forget(asked.id))
        begun.waiting.append(call.relay)
        try:
            if joined is not None and not (await asyncio.wait({begun.task}, timeout=max(0.0, call.left)))[0]:
                return waiting_result(await asked.refresh(), self._link_of(asked.status))
            return await asyncio.shield(begun.task)
        finally:
            begun.waiting.remove(call.relay)

    def _forget(self, id: str) -> None:
        """Drop a call that has ended. Its error was reported; nobody may be there to hear of it."""
        task = self._begun.pop(id).task
        if not task.cancelled():
            task.exception()

    async def _run(
        self, call: ClientCall, asked: AskedCall, begun: BegunCall, approved: MCPTool
    ) -> types.CallToolResult:
        """Start a call, send it to the server, and report its outcome."""
        args = await asked.start()
        status = asked.status
        try:
            result = await self._upstream.call(call.name, args, call.relay, approved=approved)
        except (MCPError, MCPServerFailed) as error:
            await self._report(asked.fail(str(error), taken=await begun.is_awaited()), asked)
            raise
        except (OutcomeUnknown, asyncio.CancelledError) as error:
            await asked.lose()
            words = str(error) or "The gateway ended during the call."
            return problem_result(f"{words} A person is asked ({self._link_of(asked.status)}).", asked.status)
        except Exception:
            await asked.lose()
            raise
        if result.is_error:
            await self._report(asked.fail(failure_text(result), taken=await begun.is_awaited()), asked)
        else:
            await self._report(_finish(asked, result, begun.is_awaited), asked)
        return with_edit(result, status)

    async def _report(self, report: Awaitable[Any], asked: AskedCall) -> None:
        """Report an outcome. The client gets it in any case; that it could not be recorded is for the log."""
        try:
            await report
        except AssentryError as error:
            log.warning("The outcome of %s (%s) could not be recorded: %s", asked.status.tool, asked.id, error)

    def _link_of(self, status: CallStatus) -> str:
        if self._inbox is not None and status.link is not None:
            return f"{self._inbox}{status.link}"
        return f"question {status.question}" if status.question is not None else f"ask {status.id}"


async def _finish(asked: AskedCall, result: types.CallToolResult, taken: Callable[[], Awaitable[bool]]) -> None:
    """Report a result in the form in which it can be handed on later."""
    kept: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"result_type"})
    try:
        size = len(canonical(kept))
    except ValueError:
        size = LARGEST_KEPT + 1
    if size > LARGEST_KEPT:
        kept = problem_result(TOO_LARGE).model_dump(by_alias=True, mode="json", exclude_none=True)
    try:
        await asked.finish(kept, taken=await taken())
    except InvalidInput:
        await asked.finish(problem_result(TOO_LARGE).model_dump(by_alias=True, exclude_none=True), taken=await taken())
