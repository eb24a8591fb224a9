"""The status of a call of a program outside, read from its run. No I/O."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.json import decode

from ..approval.foreign_call import CALL
from ..approval.question import effective
from ..core import facts as f
from ..core.digest import BadJSON
from ..core.rules import ASKED, DONE, NEW, READY, REFUSED, RUNNING
from ..core.run import CallState, Run
from ..errors import UnreadableState
from .record import Stored

CallPhase = Literal[
    "waiting", "approved", "running", "finished", "failed", "answered", "rejected", "doubt", "cancelled"
]
ENDED = ("finished", "failed", "answered", "rejected")
"""The states of a call that has an outcome."""


class CallStatus(Struct, kw_only=True, omit_defaults=False):
    """The status of a call that a program outside put before the gate."""

    id: str
    """The id of the call's run."""
    source: str
    tool: str
    state: CallPhase
    arguments: dict[str, Any] | None
    """The arguments that may run, or that a person is asked about; None if they cannot be read."""
    edited: bool = False
    """True if a person changed the arguments."""
    redact: tuple[str, ...] | None = None
    """The arguments to mask wherever nobody decides; None if there are none."""
    attempt: int = 0
    """The number of starts that were reported. Above 0 the call may have run, whatever its state."""
    verdict: Literal["approve", "edit", "reject", "respond"] | None = None
    by: str | None = None
    """Whoever decided: a person, `rule:NAME`, `grant:ID`, `deadline`."""
    reason: str | None = None
    """The reason why a person is asked, or why the call was refused."""
    message: str | None = None
    """The words for the agent of whoever refused the call."""
    note: str | None = None
    """The note of whoever approved the call."""
    output: Any = None
    """The call's output, or a person's answer in its place."""
    error: str | None = None
    """The error that the program reported."""
    question: str | None = None
    """The id of the question, open or settled."""
    digest: str | None = None
    until: int | None = None
    """The deadline of the open question, in milliseconds since 1970."""
    link: str | None = None
    """The path of the question's page."""


def agent_of_caller(by: str, source: str) -> str:
    """Return the name under which the calls of a source are judged.

    It has the caller's name in it, so that nobody gets another program's name, or its grants. A colon in the caller's
    name is escaped, so that no two programs have one name.
    """
    if by == source and ":" not in source:
        return source
    return f"{_prefix(by)}{source}"


def _prefix(by: str) -> str:
    return f"{by.replace('%', '%25').replace(':', '%3A')}:"


def _source_of(began: f.Began) -> str:
    """Return the source that the program gave."""
    return began.agent.removeprefix(_prefix(began.caller or ""))


def status_of(stored: Stored) -> CallStatus:
    """Return the status of a stored call."""
    run = stored.run()
    state = run.calls.get(CALL)
    if state is None or run.began is None:
        raise UnreadableState(f"Run {stored.record.id!r} is no ask of a program outside.")
    asked = state.question
    try:
        arguments: dict[str, Any] | None = effective(state, asked if state.phase is ASKED else None)
    except BadJSON:
        arguments = None
    made = CallStatus(
        id=run.id,
        source=_source_of(run.began),
        tool=state.tool,
        state=phase_of(run, state),
        arguments=arguments,
        edited=state.edited,
        redact=redact_of(run, state) or None,
        attempt=state.attempt,
        question=asked.id if asked is not None else None,
        digest=state.digest,
        link=f"/questions/{asked.id}" if asked is not None else None,
    )
    if asked is not None and state.phase is ASKED:
        made.reason = asked.why or None
        made.until = None if asked.until is None else run.began.at + asked.until
    _add_verdict(made, run, state)
    _add_outcome(made, state)
    return made


def redact_of(run: Run, state: CallState) -> tuple[str, ...]:
    """Return the arguments to mask wherever nobody decides."""
    if state.question is not None:
        return state.question.redact
    named = run.definition.redact if run.definition is not None else None
    return (named or {}).get(state.call.tool, ())


def phase_of(run: Run, state: CallState) -> CallPhase:
    """Return the state of a call."""
    if state.phase is ASKED and state.question is not None and state.question.kind == "doubt":
        return "doubt"  # in a cancelled run too: nobody may take it for a call that did nothing
    if run.cancelled is not None and state.phase in (NEW, ASKED, READY):
        return "cancelled"
    if state.phase is ASKED:
        return "waiting"
    if state.phase is DONE and isinstance(state.outcome, f.Finished):
        if state.outcome.asked is not None:
            return "answered"
        return "failed" if state.outcome.error is not None else "finished"
    if run.closed is not None or state.phase in (REFUSED, DONE):
        return "rejected"
    return "approved" if state.phase is READY else "running" if state.phase is RUNNING else "waiting"


def _add_verdict(made: CallStatus, run: Run, state: CallState) -> None:
    """Add who decided what, if somebody has: last, if a person was asked how the call ended."""
    outcome, approval = state.outcome, state.approval
    latest = run.decided.get(state.passed) if state.passed is not None else None
    if type(latest) is f.Approved:
        approval = latest
    if isinstance(outcome, f.Refused):
        made.verdict, made.by, made.message = "reject", outcome.by, state.words
        made.reason = outcome.why or made.reason
    elif isinstance(outcome, f.Finished) and outcome.asked is not None:
        made.verdict, made.by = "respond", outcome.by
    elif approval is not None and state.phase is not ASKED:
        made.verdict, made.by, made.note = "edit" if state.edited else "approve", approval.by, approval.why


def _add_outcome(made: CallStatus, state: CallState) -> None:
    if isinstance(state.outcome, f.Finished):
        output = decode(state.outcome.output)
        if state.outcome.error is None:
            made.output = output
        else:
            made.error = output if type(output) is str else str(output)


def is_undecided(status: CallStatus) -> bool:
    """Return True while a person is asked, before the call or because nobody knows how it ended."""
    return status.state in ("waiting", "doubt")
