"""The way from an agent's event to the answer: ask, wait for a person, report the start, answer; later report the end.

Everything that is not a clear yes in time is a no. A call is found again by the agent's session and its id of the call,
so no process has to live from the start of a call to its end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ...core.digest import BadJSON, digest, parse_object, same
from ...core.wording import clean_text, shortened, worded
from ...errors import AssentryError, DigestMismatch, NotDecided, RunNotFound, UsageError
from ...store.call_status import CallStatus, is_undecided
from ..approvals import RUNNABLE, Approvals, AskedCall, edit_note, why_not
from .dialect import EndedCall, HookDialect, HookReply, ProposedCall
from .effect import show_effect
from .place_path import resolve_paths

HELD = 4 * 3600.0
"""The seconds for which a started call is the agent's; if nothing was reported by then, it is in doubt."""
PROMPT = 20.0
"""The seconds within which the place must answer everything that needs no person."""
GRACE = 5.0
"""The seconds after the question's deadline within which the place must tell of it."""
LONGEST_OUTPUT = 2000
"""The most characters of a call's output that are kept."""
LONGEST_SAID = 4000


class HookOptions(Struct, frozen=True, kw_only=True):
    """The settings of a hook."""

    place: str
    source: str
    token: str | None = None
    rules: str | None = None
    wait: float = 600.0
    """The seconds to wait for a person."""
    undecided: Literal["deny", "ask"] = "deny"


async def answer_event(dialect: HookDialect, text: str, options: HookOptions) -> HookReply:
    """Return the answer to an event, which is the text of a JSON object."""
    try:
        told = dialect.read(parse_object(text))
    except (BadJSON, msgspec.ValidationError, UsageError) as error:
        return dialect.fail(f"The event of {dialect.title} cannot be read, so nothing is allowed: {error}")
    if isinstance(told, EndedCall):
        try:
            return await _report(dialect, told, options)
        except Exception as error:  # the call has run; only the record of it is missing
            return HookReply(words=f"The end of {told.tool} could not be reported: {worded(error)}", code=1)
    try:
        return await _judge(dialect, told, options)
    except TimeoutError:
        return dialect.fail(f"{options.place} did not answer in time, so {told.tool} must not run.")
    except AssentryError as error:
        return dialect.fail(f"{told.tool} must not run: {error}")
    except Exception as error:
        return dialect.fail(f"{told.tool} must not run, as the hook has failed: {worded(error)}")


async def _judge(dialect: HookDialect, call: ProposedCall, options: HookOptions) -> HookReply:
    """Put a call before the gate, and return its answer once it is decided and its start is recorded."""
    arguments = resolve_paths(dialect, call)
    effect = show_effect(dialect, call, arguments)
    async with _approvals(options) as approvals:
        async with asyncio.timeout(PROMPT):
            # A call that is made again has another id, and is another ask: with `again=True` its run would not be under
            # the agent's session, nor could the report of its end find it.
            asked = await approvals.ask(
                call.tool,
                arguments,
                key=_key(call),
                session=shortened_name(call.session),
                server=call.server,
                says=None if call.says is None else clean_text(shortened(call.says, LONGEST_SAID))[0],
                preview=effect.preview,
                deadline=options.wait,  # nobody approves a call that the agent has given up
            )
        with suppress(NotDecided):
            await asked.decision(options.wait + GRACE)
        status = asked.status
        if is_undecided(status) or status.by == "deadline":
            words = undecided_words(call.tool, status)
            return dialect.ask(words) if options.undecided == "ask" else dialect.deny(words)
        if status.state not in RUNNABLE:
            return dialect.deny(refusal_words(status))
        async with asyncio.timeout(PROMPT):
            approved = await asked.start(hold=HELD, holder=_holder(call))
            await asked.leave()
            if effect.changed():
                words = f"It did not run: {effect.path} has changed since it was shown."
                await asked.fail(words, holder=_holder(call))
                return dialect.deny(f"{words} Look at it again, and make the call anew.")
    return dialect.allow(None if same(approved, call.arguments) else approved, edit_note(asked.status))


async def _report(dialect: HookDialect, call: EndedCall, options: HookOptions) -> HookReply:
    """Report the end of a call; a call that was never started here is none of ours."""
    async with asyncio.timeout(PROMPT), _approvals(options) as approvals:
        try:
            asked = await approvals.find(_key(call))
        except RunNotFound:
            return HookReply()
        if asked.status.state not in ("running", "doubt"):
            return HookReply()
        problem = await _other_arguments(asked, call)
        if problem is not None:
            await asked.fail(problem, holder=_holder(call))
            return HookReply(words=problem, code=1)
        if call.error is not None:
            await asked.fail(shortened(clean_text(call.error)[0], LONGEST_OUTPUT), holder=_holder(call))
        else:
            await asked.finish(kept_output(dialect, call), holder=_holder(call))
    return HookReply()


async def _other_arguments(asked: AskedCall, call: EndedCall) -> str | None:
    """Return what is wrong, and have the journal say it, if a call ran with other arguments than were approved."""
    approved = asked.status.arguments
    if call.arguments is None or approved is None or asked.status.state != "running" or same(call.arguments, approved):
        return None
    try:
        await asked.start(call.arguments, holder=_holder(call))
    except DigestMismatch:
        return f"{call.tool} ran with other arguments than were approved; somebody else has changed them."
    finally:
        await asked.leave()
    return None


def _approvals(options: HookOptions) -> Approvals:
    """Return the place that decides. A store must be there already: a new one would have nobody to look at it."""
    from ...store.open import open_store

    place: Any = options.place
    if place.partition("://")[0] not in ("http", "https"):
        place = open_store(place, create=False)
    return Approvals(place, source=options.source, token=options.token, rules=options.rules)


def _key(call: ProposedCall | EndedCall) -> str:
    """Return the key of a call: the same for a hook that is run twice, and for the report of its end."""
    return digest({"session": call.session, "call": call.call})


def _holder(call: ProposedCall | EndedCall) -> str:
    return f"hook:{_key(call)}"


def shortened_name(name: str) -> str | None:
    """Return the name of a session, as long as a name may be; None if it has none."""
    clean = clean_text(name)[0]
    return clean if 0 < len(clean) <= 200 else None if not clean else digest({"session": clean})


def kept_output(dialect: HookDialect, call: EndedCall) -> Any:
    """Return as much of an output as is kept: its beginning, or only its size if it is the content of files."""
    text = call.output if type(call.output) is str else msgspec.json.encode(call.output).decode()
    if call.tool in dialect.readers:
        return {"characters": len(text)}
    return call.output if len(text) <= LONGEST_OUTPUT else clean_text(shortened(text, LONGEST_OUTPUT))[0]


def undecided_words(tool: str, status: CallStatus) -> str:
    """Return the words about a call that nobody has decided on in time."""
    return (
        f"Nobody has decided in time whether {tool} may run ({status.question}). It has not run, and this call will "
        "not. Do something else meanwhile, or make the call again later, which asks anew; do not look for another way."
    )


def refusal_words(status: CallStatus) -> str:
    """Return the words about a call that must not run."""
    if status.state == "answered":
        said = status.output if type(status.output) is str else msgspec.json.encode(status.output).decode()
        return f"{status.tool} did not run. {status.by or 'A person'} answered in its place: {said}"
    if status.state == "finished":
        return f"{status.tool} has run already, and does not run a second time."
    return why_not(status)
