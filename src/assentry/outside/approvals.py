"""Asking before acting, for programs that Assentry does not drive.

A program puts a call before the gate, waits for the verdict, runs the call itself and reports how it ended. The store,
or the inbox in front of it, is the authority: it keeps the facts, and gives the call to one program only.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from os import PathLike
from types import TracebackType
from typing import Any, Self

from typing_extensions import Unpack

from ..approval.foreign_call import CallRequest
from ..approval.rule_file import RuleFile
from ..core import allowed
from ..core.digest import canonical
from ..core.mask import mask_secrets, masked_object, secrets_of
from ..core.wording import described, edit_words, shortened
from ..errors import (
    AssentryError,
    Conflict,
    LeaseLost,
    NotApproved,
    NotDecided,
    NotPending,
    Upstream,
    UsageError,
)
from ..ids import new_id
from ..store.call_status import CallStatus, is_undecided
from ..store.calls import HOLD
from ..store.store import Store
from .options import CallOptions
from .place import CallPlace, open_call_place

log = logging.getLogger("assentry")

RENEWALS = 3
"""A lease is renewed so often while it holds, so that one renewal may fail."""
LAPSE = 0.001
"""The seconds of a hold that is given up."""
RUNNABLE = ("approved", "running")
RAN = ("running", "finished", "failed")
LONGEST_EDIT = 2000
"""The most characters of changed arguments that the model is told."""


class Approvals:
    """The place where a program asks before it acts.

    Args:
        place: A store, a store's address such as `sqlite:///runs.db`, or the address of an inbox.
        source: The program's name, as people see it and as rules and grants name it.
        token: The token for an inbox, of the role "agent".
        rules: The rules for a store that the program reaches itself, or a file of them. An inbox has its own.
    """

    def __init__(
        self,
        place: Store | str,
        *,
        source: str,
        token: str | None = None,
        rules: RuleFile | str | PathLike[str] | None = None,
    ) -> None:
        allowed.check_option("Approvals", "source", source, allowed.NAME)
        self.source = source
        read = rules if rules is None or isinstance(rules, RuleFile) else RuleFile.read(rules)
        self._place = open_call_place(place, source, token, read)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what was opened for this object: a store by its address, or connections to an inbox."""
        await self._place.close()

    async def ask(self, tool: str, arguments: Mapping[str, Any] | str, **options: Unpack[CallOptions]) -> AskedCall:
        """Put a call before the gate. A rule or a grant decides, or a person is asked.

        The same call with the same `key` is one ask, whoever asks again. With `again=True` the call itself is the key
        until its outcome is taken (see `AskedCall.take`); the next equal call is a new ask then. Raises `InvalidInput`
        if the request is wrong, and `Conflict` if the key was used for another call.
        """
        request = ask_request(self.source, tool, arguments, options)
        if request.key is None and not request.again:  # so that a request whose response was lost can be sent again
            request = ask_request(self.source, tool, arguments, {**options, "key": new_id("ask")})
        return AskedCall(self._place, await self._place.ask(request))

    async def find(self, key: str) -> AskedCall:
        """Return the ask with this key, or raise `RunNotFound`."""
        return AskedCall(self._place, await self._place.find(self.source, key))

    async def load(self, id: str) -> AskedCall:
        """Return the ask with this id, or raise `RunNotFound`."""
        return AskedCall(self._place, await self._place.look(id))

    async def run(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        body: Callable[..., Any],
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Ask about a call, wait for the decision, and run it with the approved arguments; see `AskedCall.run`."""
        return await (await self.ask(tool, arguments, **options)).run(body, timeout=timeout)


def ask_request(source: str, tool: str, arguments: Mapping[str, Any] | str, options: Mapping[str, Any]) -> CallRequest:
    """Return the request that these options make; raise `UsageError` for an option that there is not."""
    unknown = [name for name in options if name not in CallOptions.__annotations__]
    if unknown:
        raise UsageError(f"An ask has no option {unknown[0]!r}.")
    given = dict(options)
    for name in ("reviewers", "redact", "allowed"):
        if isinstance(given.get(name), list | set | frozenset):
            given[name] = tuple(given[name])
    if isinstance(arguments, Mapping):
        arguments = dict(arguments)
    elif type(arguments) is not str:
        raise UsageError(f"The arguments are a mapping, or the text of a JSON object, got {described(arguments)}.")
    return CallRequest(source=source, tool=tool, arguments=arguments, **given)


class AskedCall:
    """A call that was put before the gate."""

    def __init__(self, place: CallPlace, status: CallStatus) -> None:
        self._place = place
        self.status = status
        """What became of the call, as it was last seen."""
        self._holder = new_id("holder")
        self._renewal: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """The id of the ask, by which it can be loaded again."""
        return self.status.id

    async def refresh(self) -> CallStatus:
        """Look at the call again, and return its status."""
        self.status = await self._place.look(self.id)
        return self.status

    async def decision(self, timeout: float | None = None) -> CallStatus:
        """Wait until the call is decided, and return its status; raise `NotDecided` after `timeout` seconds.

        Nothing is lost then: the question stays open, and the call can be waited for again, by its id or its key.
        """
        self.status = await self._place.wait(self.id, timeout)
        if is_undecided(self.status):
            raise NotDecided(f"Nobody has decided yet whether {self.status.tool} may run.", self.status)
        return self.status

    async def start(
        self, arguments: Mapping[str, Any] | None = None, *, hold: float = HOLD, holder: str | None = None
    ) -> dict[str, Any]:
        """Report that the call is about to run, and return the arguments that were approved.

        Only one program gets this far. The call is held for it, and the hold renewed until it reports; without a
        report the call is in doubt after `hold` seconds.

        Args:
            arguments: The arguments that are about to run; others than were approved raise `DigestMismatch`.
            hold: The seconds for which nobody else may assume that the program is gone.
            holder: A text of the program's own, if another process of it is to report the end.
        """
        given, holder = None if arguments is None else dict(arguments), holder or self._holder
        self.status = await self._place.start(self.id, holder, given, hold)
        self._holder = holder  # not before: another start of this object may hold the call
        self._stop_renewing()
        if self.status.arguments is None:
            raise Conflict(f"The arguments of {self.status.tool} cannot be read; it must not run.")
        self._renewal = asyncio.create_task(self._keep_renewing(hold))
        return self.status.arguments

    async def finish(self, output: Any = None, *, holder: str | None = None, taken: bool = False) -> CallStatus:
        """Report the call's output. Raises `LeaseLost` if it comes too late to count; it is kept as evidence then.

        With `taken` the outcome counts as taken, as `take` reports it.
        """
        return await self._report(holder, output, None, taken)

    async def fail(self, error: str, *, holder: str | None = None, taken: bool = False) -> CallStatus:
        """Report that the call has failed, and that nothing more of it will happen."""
        return await self._report(holder, None, error, taken)

    async def take(self) -> CallStatus:
        """Report that whoever wanted the outcome has it: the next equal ask with `again=True` is a new one."""
        self.status = await self._place.take(self.id)
        return self.status

    async def run(
        self, body: Callable[..., Any], *, timeout: float | None = None, arguments: Mapping[str, Any] | None = None
    ) -> Any:
        """Wait for the decision, run the body with the approved arguments, report its outcome, and return its output.

        `body` is called with the arguments by name; it may be async. What a person answered in the call's place is
        returned, and so is the output of a call that has run already. Raises `NotApproved` if the call must not run,
        and `DigestMismatch` if `arguments` are given and are not those that were approved.
        """
        approved = await self.enter(timeout, arguments)
        if approved is None:
            return self.status.output
        try:
            output = body(**approved)
            if inspect.isawaitable(output):
                output = await output
        except Exception as error:
            await self.report_failure(f"{type(error).__name__}: {error}")
            raise
        except BaseException:  # it may have happened in part: whoever comes next finds the call in doubt
            await self.leave()
            raise
        await self.finish(output)
        return output

    async def enter(
        self, timeout: float | None = None, arguments: Mapping[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Wait for the decision, report the start, and return the approved arguments; None if there is an output.

        Raises `NotApproved` if the call must not run.
        """
        while True:
            status = await self.decision(timeout)
            if status.state in ("finished", "answered"):
                return None
            if status.state not in RUNNABLE:
                raise NotApproved(why_not(status), status)
            try:
                return await self.start(arguments, holder=new_id("holder"))  # a second `run` is another program
            except NotPending:  # whoever ran it told nothing more, and a person is asked just now
                continue

    async def report_failure(self, error: str) -> None:
        """Report that the body has failed; its own error matters more than one of the report."""
        try:
            await self.fail(error)
        except AssentryError as problem:
            log.warning("That %s failed could not be reported: %s", self.status.tool, problem)

    async def leave(self) -> None:
        """Hold the call no longer: without a report it is in doubt once its hold has run out."""
        self._stop_renewing()

    async def lose(self) -> None:
        """Give up the hold on a call whose outcome nobody can know: a person is asked at once how it ended."""
        self._stop_renewing()
        with suppress(LeaseLost):  # then it is in doubt already
            await self._place.renew(self.id, self._holder, LAPSE)
        await asyncio.sleep(2 * LAPSE)
        await self.refresh()

    async def _report(self, holder: str | None, output: Any, error: str | None, taken: bool) -> CallStatus:
        self._stop_renewing()
        self.status = await self._place.finish(self.id, holder or self._holder, output, error, taken)
        return self.status

    def _stop_renewing(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    async def _keep_renewing(self, hold: float) -> None:
        """Renew the hold until it is lost, or the call is reported."""
        while True:
            await asyncio.sleep(hold / RENEWALS)
            try:
                await self._place.renew(self.id, self._holder, hold)
            except Upstream as error:  # it holds on for a while; another attempt comes before it ends
                log.info("The hold on %s could not be renewed; trying again: %s", self.status.tool, error)
            except AssentryError as error:  # lost, or the token was revoked: it runs out without a report
                log.warning("The hold on %s is not renewed any more: %s", self.status.tool, error)
                return


def why_not(status: CallStatus) -> str:
    """Return why a call must not run, in words for whoever asked."""
    if status.state == "failed":
        return f"{status.tool} has run already, and failed: {status.error}"
    begun = " It was started before, and may have run." if status.attempt else ""
    if status.state == "cancelled":
        return f"The ask about {status.tool} was cancelled.{begun}"
    words = status.message or status.reason
    return f"{status.tool} was refused by {status.by}{f': {words}' if words else '.'}{begun}"


def edit_note(status: CallStatus) -> str | None:
    """Return the words for the model about a call that ran as a person had changed it; None for any other call.

    The arguments that the ask masks are masked here, since the person may have typed them.
    """
    if not status.edited or status.state not in RAN or status.arguments is None:
        return None
    names = status.redact or ()
    text = canonical(masked_object(status.arguments, names)).decode()
    text = mask_secrets(text, secrets_of(status.arguments, names))
    return edit_words([(status.tool, shortened(text, LONGEST_EDIT))])


def text_with_edit(text: str, status: CallStatus) -> str:
    """Return a call's text for the model, and after it what ran if a person changed the call."""
    note = edit_note(status)
    return text if note is None else f"{text}\n\n[{note}]"
