"""Checks of what a program outside reports about its call; refused and late reports are kept for people to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw
from msgspec.json import decode

from ..approval.foreign_call import CALL, OUTSIDE
from ..approval.question import action_digest, effective
from ..core import facts as f
from ..core.digest import BadJSON, canonical, plain, same
from ..core.mask import mask_secrets, masked_object, secrets_of
from ..core.run import CallState, Run
from ..core.wording import described, holds, shortened
from ..errors import (
    Conflict,
    DigestMismatch,
    InvalidArguments,
    InvalidInput,
    LeaseLost,
    NotPending,
    RunBusy,
    UsageError,
)
from .call_status import phase_of, redact_of
from .call_writing import since_began
from .record import Stored
from .store import Store

LONGEST_HOLD = 24 * 3600.0
LONGEST_HOLDER = 200
LONGEST_REPORT = 2000
"""The most characters of the arguments of a refused report that its run keeps."""
MOST_REPORTS = 10
"""The most refused reports, and the most late ones, that a run keeps."""


def worker_of_holder(holder: str) -> str:
    """Return the worker's name for a lease's holder; raise `UsageError` if it is no name."""
    if type(holder) is not str or not 1 <= len(holder) <= LONGEST_HOLDER or not holds(holder) or "\0" in holder:
        raise UsageError(f"A holder is text of 1 to {LONGEST_HOLDER} characters without NUL, got {described(holder)}.")
    return f"{OUTSIDE}:{holder}"


def checked_hold(hold: float) -> float:
    """Return the seconds of a hold; raise `UsageError` if they are none, or too many."""
    if type(hold) not in (int, float) or not 0 < hold <= LONGEST_HOLD:
        raise UsageError(f"hold is a number of seconds above 0, at most {LONGEST_HOLD:,.0f}; got {described(hold)}.")
    return float(hold)


def plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return reported arguments as JSON; raise `InvalidArguments` if they are no JSON object."""
    try:
        value = plain(dict(arguments))
    except (BadJSON, TypeError, ValueError) as error:
        raise InvalidArguments(f"These arguments are not a JSON object: {error}.") from None
    return value if type(value) is dict else {}


def plain_output(output: Any) -> Any:
    """Return a reported output as JSON; raise `InvalidInput` if it is none."""
    try:
        return plain(output)
    except BadJSON as error:
        raise InvalidInput(f"This output is not JSON: {error}. Report it as JSON or text.") from None


def check_can_start(stored: Stored, run: Run, state: CallState) -> None:
    """Raise the error that says why a call cannot be started."""
    phase = phase_of(run, state)
    if phase == "running":
        raise RunBusy("Another program, or another attempt of this one, has started this call already.")
    if phase == "waiting":
        raise NotPending("This call still waits for a person's decision; it must not run.")
    if phase == "doubt":
        raise Conflict("This call was started before and nobody knows how it ended; a person is asked.")
    if phase != "approved":
        raise NotPending(f"This call is {phase}, and cannot be started.")
    # A caller's digest is compared as the door does it: what runs is what was approved, tool and arguments alike.
    if state.digest is not None:
        mark = state.fingerprint or state.call.definition or ""
        if state.digest != action_digest(run, (), state, state.tool, mark, effective(state), state.preview):
            raise DigestMismatch(f"The call of {state.tool!r} is not the one that was approved; it must not run.")


async def check_given(store: Store, stored: Stored, given: dict[str, Any] | None) -> None:
    """Raise `DigestMismatch`, and say so in the journal, if a program reports other arguments than were approved."""
    if given is None:
        return
    state = stored.run().calls[CALL]
    if same(given, effective(state)):
        return
    await _tell_people(store, stored, state, given)
    raise DigestMismatch(f"Others than these arguments were approved for {state.tool!r}; it must not run with these.")


async def _tell_people(store: Store, stored: Stored, state: CallState, given: dict[str, Any]) -> None:
    """Record a refused report for people to see: each once, and only so many, since a program may repeat itself."""
    run = stored.run()
    redact = redact_of(run, state)
    secrets = secrets_of(given, redact)
    text = shortened(mask_secrets(canonical(masked_object(given, redact)).decode(), secrets), LONGEST_REPORT)
    words = f"A report was refused: the program was about to run {state.tool} with other arguments: {text}"
    told = [said.items for said in run.unheard if said.by == OUTSIDE]
    if len(told) < MOST_REPORTS and not any(_text_of(items) == words for items in told):
        await store.say(stored.record.id, words, by=OUTSIDE)


def _text_of(items: Raw) -> str:
    """Return the text of an input that `Store.say` has recorded."""
    given = decode(items)
    return str(given[0].get("content", "")) if type(given) is list and given and type(given[0]) is dict else str(given)


async def keep_late(store: Store, stored: Stored, state: CallState, value: Raw) -> None:
    """Keep a report that does not count any more, and raise the error that says so."""
    if state.attempt == 0:
        raise Conflict("This call was not started; report the start first.")
    late = f.Witnessed(CALL, state.attempt, value, at=since_began(store, stored.run()))
    known = [bytes(fact.output) for fact in stored.facts if type(fact) is f.Witnessed]
    if len(known) < MOST_REPORTS and bytes(value) not in known:
        await store.witness(stored.record.id, [late])
    raise LeaseLost("This report came too late, or is of another program: it is kept as evidence, and does not count.")
