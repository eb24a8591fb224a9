"""The standing grants of a store: their log, which is a hash chain of its own, and how they are given. No I/O here.

The log has a row for each grant that was given and for each that was revoked. It is checked and exported as the journal
of a run is, under a name that no run has. The list of the grants is a projection of the log, with the number of uses,
which the journals of the runs have one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..approval.decide import check_decider
from ..approval.decision import Decider, Reject, check_size, decision_from
from ..approval.question import arguments_text
from ..approval.standing import STANDING, StandingGrant, StandingTerms, check_arguments
from ..approval.tool_snapshot import ToolSnapshot
from ..core import facts as f
from ..core.run import Run
from ..core.wording import described
from ..errors import GrantEnded, InvalidDecision, QuestionNotFound, RunElsewhere, UnreadableState
from ..ids import new_id
from .chain import ExactJournal, JournalRow, check_chain, tally_of
from .row_codec import START, Head, link

LOG = "standing-grants"
"""The name of the log, where an export has the id of a run."""
TWICE = 60_000
"""The milliseconds within which the same request is taken as one that was sent twice."""


class LogEntry(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An entry of the log: a grant that was given, or the id of one that was revoked."""

    at: int
    """The time in milliseconds since 1970."""
    by: str
    given: StandingGrant | None = None
    revoked: str | None = None


class LogRow(Struct, frozen=True):
    """A row of the log, with its own hash."""

    seq: int
    text: str
    hash: bytes


_encode = msgspec.json.Encoder().encode
_entry = msgspec.json.Decoder(LogEntry)


def next_row(last: tuple[int, bytes] | None, entry: LogEntry) -> LogRow:
    """Return the row of an entry, after a row with this number and hash."""
    seq, before = (0, START) if last is None else last
    text = _encode(entry)
    return LogRow(seq + 1, text.decode(), link(bytes(before), LOG, seq + 1, text))


def log_journal(rows: Sequence[tuple[Any, Any, Any]]) -> ExactJournal:
    """Return the log (seq, entry, hash) as a journal to the letter; raise `UnreadableState` if its chain is broken."""
    hashes = [_hash(seq, hash) for seq, _, hash in rows]
    linked = [
        (seq, _time(seq, text), text, before) for (seq, text, _), before in zip(rows, [START, *hashes], strict=False)
    ]
    last = hashes[-1] if hashes else START
    checked = check_chain(LOG, linked, 0, len(rows), None, None)
    if checked and checked[-1].hash != last:
        raise UnreadableState(f"The last entry of the log of standing grants, {len(rows)}, is not what was written.")
    return ExactJournal(LOG, checked, Head(last, tally_of(checked, None), START), None, {})


def _hash(seq: Any, hash: Any) -> bytes:
    if not isinstance(hash, bytes | memoryview) or len(hash) != len(START):
        raise UnreadableState(f"The hash of entry {seq} of the log of standing grants is damaged.")
    return bytes(hash)


def _time(seq: Any, text: Any) -> int:
    return read_entry(seq, text).at


def read_entry(seq: Any, text: Any) -> LogEntry:
    """Return the entry of a row; raise `UnreadableState` if it is damaged."""
    try:
        return _entry.decode(text)
    except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError) as error:
        raise UnreadableState(f"Entry {seq} of the log of standing grants is damaged: {error}.") from None


def grants_in(rows: Iterable[JournalRow]) -> dict[str, StandingGrant]:
    """Return the grants that a log leads to, without their uses."""
    found: dict[str, StandingGrant] = {}
    for row in rows:
        entry = read_entry(row.seq, row.text)
        if entry.given is not None:
            found[entry.given.id] = entry.given
        elif entry.revoked in found:
            found[entry.revoked] = replace(found[entry.revoked], revoked=entry.at, revoked_by=entry.by)
    return found


def log_differences(log: ExactJournal, listed: Iterable[StandingGrant], damaged: Iterable[str]) -> list[str]:
    """Return one sentence for each difference between the log and the list of standing grants."""
    known = grants_in(log.rows)
    said = [f"The row of standing grant {id!r} is not what was written." for id in damaged]
    for id in damaged:
        known.pop(id, None)
    for grant in listed:
        wanted = known.pop(grant.id, None)
        if wanted is None:
            said.append(f"Standing grant {grant.id!r} is in no entry of the log.")
        elif not is_as_logged(grant, wanted):
            said.append(f"Standing grant {grant.id!r} differs from the log.")
    return said + [f"Standing grant {id!r} is in the log, and not in the list." for id in known]


def is_as_logged(grant: StandingGrant, wanted: StandingGrant) -> bool:
    """Return True if a grant of the list is what the log leads to, besides its uses.

    Columns of Postgres hold U+FFFD in the place of the character 0.
    """
    listed, logged = (_encode(each).replace(rb"\u0000", "\ufffd".encode()) for each in (replace(grant, used=0), wanted))
    return listed == logged


# -- giving ------------------------------------------------------------------------------------------


class GrantOrder(Struct, frozen=True):
    """A standing grant to give: its terms, its verdict and its words."""

    terms: StandingTerms
    verdict: Literal["approve", "reject"]
    message: str | None = None


def order_of_grant(terms: StandingTerms, verdict: Any, message: Any) -> GrantOrder:
    """Return a checked order, or raise `InvalidDecision`."""
    if verdict not in ("approve", "reject"):
        raise InvalidDecision(f"A standing grant approves or rejects, got {described(verdict)}.")
    if message is not None and verdict == "approve":
        raise InvalidDecision("Only a rejection has a message for the model.")
    checked = decision_from(Reject(message))
    check_size("The message of this grant", message)
    return GrantOrder(terms, verdict, checked.message if isinstance(checked, Reject) else None)


def grant_from_question(
    run: Run, question: str, tool: ToolSnapshot, who: Decider, order: GrantOrder, now: int
) -> StandingGrant:
    """Return the standing grant that somebody gives from a question, open or settled.

    Whoever may decide the question may give it. It is for the agent that asked, by its place, and for the tool as it
    was defined then.
    """
    asked, state = _question_in(run, question)
    if run.began is not None and run.began.engine is not None:
        raise RunElsewhere(f"Runs on {run.began.engine} are not covered by standing grants, only those of this store.")
    check_decider(run, asked, who)
    if asked.kind != "approval" or state.call.kind not in ("tool", "agent"):
        raise InvalidDecision(
            "A standing grant is for calls of tools and of agents; this question asks for something else."
        )
    if tool.name != state.call.tool:
        raise InvalidDecision("An edit has chosen another tool for this call; give the grant from a question about it.")
    check_arguments(order.terms, tool.takes, asked.redact, arguments_text(state, asked))
    ends = order.terms.expires_in
    return StandingGrant(
        id=new_id(STANDING),
        agent=state.turn.agent,
        tool=tool.name,
        server=tool.server,
        definition=tool.fingerprint,
        verdict=order.verdict,
        where=order.terms.where,
        max_uses=order.terms.max_uses,
        until=None if ends is None else now + int(ends * 1000),
        message=order.message,
        by=who.name,
        groups=who.groups,
        at=now,
        question=question,
    )


def _question_in(run: Run, question: str) -> tuple[f.Asked, Any]:
    where = run.asked.get(question)
    state = run.at(where[0]).calls.get(where[1]) if where is not None else None
    asked = state.question if state is not None else None
    if state is None or asked is None or asked.id != question:
        raise QuestionNotFound(f"Question {question!r:.80} was replaced, or its run has gone on without it.")
    return asked, state


def is_same_grant(one: StandingGrant, other: StandingGrant) -> bool:
    """Return True if two grants from a question are the same request, sent twice: their ids and times may differ."""
    if not 0 <= one.at - other.at < TWICE or not other.in_force(one.at):
        return False
    names = ("question", "by", "verdict", "where", "max_uses", "message")
    return all(getattr(one, name) == getattr(other, name) for name in names) and _length(one) == _length(other)


def _length(grant: StandingGrant) -> int | None:
    return None if grant.until is None else grant.until - grant.at


def grant_ended(grant_id: str) -> GrantEnded:
    """Return the error of a write that uses a grant which has ended."""
    return GrantEnded(f"Standing grant {grant_id!r} was revoked or used up meanwhile; the call is judged again.")
