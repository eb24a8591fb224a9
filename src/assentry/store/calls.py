"""Calls of programs outside, in a store: asking, starting, reporting, and what became of them.

A program outside drives such a run itself, with the same facts under the same lease as any driver. So a second program
with the same key gets the same ask, one of two starts the call, and a call that was started and never reported is in
doubt. What a request is, and the verdict on it, belong to `approval.foreign_call`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Literal
from weakref import WeakKeyDictionary

from msgspec import Raw, Struct
from msgspec.json import decode
from msgspec.structs import replace

from ..approval.decision import checked_name
from ..approval.foreign_call import (
    CALL,
    OUTSIDE,
    CallRequest,
    check_request,
    judge_foreign_call,
    proposed_mark,
    request_mark,
    session_thread,
)
from ..approval.question import action_digest, doubt_of, effective
from ..approval.rule_file import RuleFile
from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest, plain, same
from ..core.fold import fold
from ..core.mask import mask_secrets, masked_object, secrets_of
from ..core.rules import ASKED, DONE, NEW, READY, REFUSED, RUNNING
from ..core.run import CallState, Run, overdue
from ..core.wording import described, holds, shortened
from ..errors import (
    AgentStopped,
    AssentryError,
    Conflict,
    DigestMismatch,
    GrantEnded,
    InvalidArguments,
    InvalidInput,
    LeaseLost,
    NotPending,
    Overtaken,
    RunBusy,
    RunNotFound,
    TooManyAsks,
    UnreadableState,
    UsageError,
)
from ..ids import new_id
from .filter import Filter
from .news import MOST_NEWS
from .projection import Projection, anew
from .record import Change, Lease, RunRecord, Stored
from .rules import is_driven
from .stop import stop_in_words
from .store import Store
from .watch import StoreWatch

log = logging.getLogger("assentry")

CallPhase = Literal[
    "waiting", "approved", "running", "finished", "failed", "answered", "rejected", "doubt", "cancelled"
]
ATTEMPTS = 50
"""The most attempts to record a report that another writer overtakes."""
HOLD = 60.0
"""The seconds for which a start holds the run's lease, unless the program says otherwise."""
LONGEST_HOLD = 24 * 3600.0
LONGEST_HOLDER = 200
LONGEST_REPORT = 2000
"""The most characters of the arguments of a refused report that its run keeps."""
MOST_REPORTS = 10
"""The most refused reports, and the most late ones, that a run keeps."""
MOST_OPEN = 1000
"""The most open questions that one program may have at a time."""
TENDER = "outside"
"""The name under which the store itself holds the lease of such a run for a moment."""
OVERLAP = 2000
"""The milliseconds that looks for news overlap, since a fact may be written a little after its time."""
LOOK_AGAIN = 10.0
"""The seconds after which somebody who waits looks at the call itself, whatever the news say."""
TENDING = 0.01
"""The seconds before another look at a call that somebody else looks after just now."""
TENDED = 2.0
"""The seconds between two looks for runs whose program tells no more."""
ENDED = ("finished", "failed", "answered", "rejected")
"""The states of a call that has an outcome."""
FAILURE = "Failure"
"""The kind of error of a call whose program reported that it failed."""


class CallStatus(Struct, kw_only=True, omit_defaults=False):
    """What became of a call that a program outside put before the gate."""

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


# -- asking ------------------------------------------------------------------------------------------


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


def run_of_key(by: str, source: str, key: str) -> str:
    """Return the id of the run of an ask with a key: the same whenever it is asked for."""
    return f"run_{digest({'caller': by, 'source': source, 'key': key})[:32]}"


async def ask_about_call(
    store: Store, request: CallRequest, *, by: str, rules: RuleFile | None = None, owner: str | None = None
) -> tuple[CallStatus, bool]:
    """Put a call before the gate; return its status, and True if it was asked for the first time.

    The same request with the same key is one ask. Raises `Conflict` if the key was used for another call,
    `AgentStopped` while a stop holds for the program, and `TooManyAsks` if it has too many open questions.

    Args:
        store: The store.
        request: The call.
        by: The name of whoever asks.
        rules: The server's rules; without any, a person is asked.
        owner: The user of the caller's name, who may decide unless a rule forbids it.
    """
    check_request(request)
    checked_name(by, "`by` must say who asks, as text that can be seen")
    agent = agent_of_caller(by, request.source)
    if again := request.again:
        untaken, request = await _untaken_or_new(store, request, agent, by)
        if untaken is not None:
            return status_of(await _tended(store, untaken)), False
    run_id = new_id("run") if request.key is None else run_of_key(by, request.source, request.key)
    if request.key is not None and not again and (earlier := await _asked_before(store, run_id, request)) is not None:
        return earlier, False
    if (stop := await store.holding_stop(agent)) is not None:
        raise AgentStopped(f"{agent} is stopped, and nothing can be asked for it: {stop_in_words(stop)}.")
    await _check_room(store, by)
    await store.open()
    for _ in range(ATTEMPTS):
        now = int(store.clock() * 1000)
        made = await judge_foreign_call(
            request,
            run=run_id,
            caller=by,
            agent=agent,
            now=now,
            rules=rules or RuleFile(),
            standing=await store.grants_for([request.tool]),
            owner=owner,
        )
        change = anew(run_id, made.facts, now)
        change.definitions = {made.tool.fingerprint: made.tool.frozen()}
        try:
            await store.append(change)
        except GrantEnded:  # another call had its last use: judge without it
            continue
        except Overtaken:
            earlier = await _asked_before(store, run_id, request)
            if earlier is None:
                raise
            return earlier, False
        return status_of(Stored(record=change.record, facts=change.facts)), True
    raise _too_fast(run_id)


async def _asked_before(store: Store, run_id: str, request: CallRequest) -> CallStatus | None:
    """Return the status of an ask with this key; raise `Conflict` if it was about another call."""
    try:
        stored = await _tended(store, run_id)
    except RunNotFound:
        return None
    if stored.record.erased is not None or proposed_mark(stored.run()) != request_mark(request):
        raise Conflict("This key was used for another call: another tool, definition or arguments. Choose a new key.")
    return status_of(stored)


async def _untaken_or_new(store: Store, request: CallRequest, agent: str, by: str) -> tuple[str | None, CallRequest]:
    """Return the newest run about the same call whose outcome nobody took; else None, and the request for a new one.

    Equal calls are one thread of runs. The key of a new run is made from the newest, so that of two programs that ask
    at once both get the same run.
    """
    mark = request_mark(request)
    newest = await store.newest(session_thread(agent, mark))
    if newest is not None and newest.record.erased is None and newest.record.caller == by:
        run = newest.run()  # a session may have any name, that of this mark too
        if not _is_taken(run) and proposed_mark(run) == mark:
            return newest.record.id, request
    key = f"{mark}:{newest.record.id if newest is not None else ''}"
    return None, replace(request, key=key, session=mark)


def _is_taken(run: Run) -> bool:
    return run.concluded is not None or run.closed is not None or run.cancelled is not None


_open: WeakKeyDictionary[Store, dict[str, tuple[float, int]]] = WeakKeyDictionary()
"""By store and caller, the time of the last count of waiting runs, and their number with the asks since then."""


async def _check_room(store: Store, by: str) -> None:
    """Raise `TooManyAsks` if a caller has very many open questions. They are counted once in a second."""
    counts = _open.setdefault(store, {})
    counted, number = counts.get(by, (0.0, 0))
    await store.open()
    now = store.clock()
    if not counted <= now < counted + 1.0 or number >= MOST_OPEN:
        if len(counts) > MOST_OPEN:
            counts.clear()
        wanted = {"caller": by, "status": "waiting"}
        counted, number = now, await store.count(Filter(kind=RunRecord, equal=wanted, limit=MOST_OPEN))
    counts[by] = counted, number + 1
    if number >= MOST_OPEN:
        raise TooManyAsks(f"{by} has {MOST_OPEN:,} open questions. Wait until people have decided some of them.")


# -- what became of it -------------------------------------------------------------------------------


async def look_at_call(store: Store, run_id: str, *, by: str | None) -> CallStatus:
    """Return what became of a call; raise `RunNotFound` unless `by` asked about it. None is anybody."""
    return status_of(_own_call(await _tended(store, run_id), by))


def _own_call(stored: Stored, by: str | None) -> Stored:
    """Return a stored run if it is a call that this program asked about; else raise `RunNotFound`."""
    caller = stored.record.caller
    if caller is None or (by is not None and caller != by) or stored.record.erased is not None:
        raise RunNotFound(f"There is no ask {stored.record.id!r} of {by}.")
    return stored


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
        state=_phase_of(run, state),
        arguments=arguments,
        edited=state.edited,
        redact=_redact_of(run, state) or None,
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


def _phase_of(run: Run, state: CallState) -> CallPhase:
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


# -- reports -----------------------------------------------------------------------------------------


async def start_call(
    store: Store,
    run_id: str,
    *,
    by: str | None,
    holder: str,
    arguments: Mapping[str, Any] | None = None,
    hold: float = HOLD,
) -> CallStatus:
    """Record that a program is about to run its approved call, and give it the run's lease for `hold` seconds.

    Nobody else can start it then. The same holder's same start is no second one. `arguments` are those that are about
    to run: others than were approved are refused with `DigestMismatch`, which the run's journal then says.
    """
    worker, seconds = _worker(holder), _checked_hold(hold)
    given = None if arguments is None else _plain_arguments(arguments)
    for _ in range(ATTEMPTS):
        stored = _own_call(await _tended(store, run_id), by)
        run = stored.run()
        state = run.calls[CALL]
        if state.phase is RUNNING and stored.record.worker == worker:
            await _check_given(store, stored, given)
            return status_of(stored)
        _check_can_start(stored, run, state)
        await _check_given(store, stored, given)
        lease = Lease(run_id, worker, (stored.fence or 0) + 1)
        fact = f.Started(CALL, state.attempt + 1, lease.fence, at=_since_began(store, run))
        change = _change(store, stored, run, [fact])
        change.lease, change.take, change.hold = lease, True, seconds
        if (after := await _append(store, stored, change)) is not None:
            return status_of(after)
    raise _too_fast(run_id)


def _check_can_start(stored: Stored, run: Run, state: CallState) -> None:
    """Raise the error that says why a call cannot be started."""
    phase = _phase_of(run, state)
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


async def _check_given(store: Store, stored: Stored, given: dict[str, Any] | None) -> None:
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
    redact = _redact_of(run, state)
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


def _redact_of(run: Run, state: CallState) -> tuple[str, ...]:
    """Return the arguments to mask wherever nobody decides."""
    if state.question is not None:
        return state.question.redact
    named = run.definition.redact if run.definition is not None else None
    return (named or {}).get(state.call.tool, ())


async def renew_call(store: Store, run_id: str, *, by: str | None, holder: str, hold: float = HOLD) -> CallStatus:
    """Hold the run's lease for `hold` seconds more; raise `LeaseLost` if it is another's, or the call is in doubt."""
    worker, seconds = _worker(holder), _checked_hold(hold)
    stored = _own_call(await store.read(run_id), by)
    state = stored.run().calls[CALL]
    lease = Lease(run_id, worker, state.fence)
    if state.phase is not RUNNING or not await store.renew([lease], hold=seconds):
        raise LeaseLost("This call is not this program's any more: it was reported, or its time to report ran out.")
    return status_of(stored)


async def finish_call(
    store: Store,
    run_id: str,
    *,
    by: str | None,
    holder: str,
    output: Any = None,
    error: str | None = None,
    taken: bool = False,
) -> CallStatus:
    """Record the outcome of a call that this holder has started: its output, or the error with which it failed.

    With `taken` the outcome counts as taken, as `take_call` records it. A report that comes too late, when a person is
    asked how the call ended, is kept as evidence for that person, and raises `LeaseLost`. The same report again is no
    error.
    """
    worker = _worker(holder)
    if output is not None and error is not None:
        raise InvalidInput("A report has an output or an error, and this one has both.")
    value = Raw(canonical(_plain_output(output if error is None else error)))
    failed = None if error is None else FAILURE
    for _ in range(ATTEMPTS):
        stored = _own_call(await store.read(run_id), by)
        run = stored.run()
        state = run.calls[CALL]
        outcome = state.outcome
        if isinstance(outcome, f.Finished) and bytes(outcome.output) == bytes(value) and outcome.error == failed:
            return status_of(stored)
        at = _since_began(store, run)
        if state.phase is not RUNNING or stored.record.worker != worker:
            await _keep_late(store, stored, state, value)
        fact = f.Finished(CALL, value, error=failed, at=at)
        change = _change(store, stored, run, [fact, f.Concluded(source=CALL, at=at)] if taken else [fact])
        change.lease, change.release = Lease(run_id, worker, state.fence), True
        try:
            after = await _append(store, stored, change)
        except LeaseLost:
            continue
        if after is not None:
            return status_of(after)
    raise _too_fast(run_id)


async def take_call(store: Store, run_id: str, *, by: str | None) -> CallStatus:
    """Record that the program has taken the outcome of its call, so that the next equal call is a new one.

    Taking it again changes nothing. Raises `NotPending` while there is no outcome.
    """
    for _ in range(ATTEMPTS):
        stored = _own_call(await _tended(store, run_id), by)
        run = stored.run()
        status = status_of(stored)
        if _is_taken(run):
            return status
        if status.state not in ENDED:
            raise NotPending(f"This call is {status.state}: it has no outcome that could be taken.")
        at = _since_began(store, run)
        change = _change(store, stored, run, [f.Concluded(source=CALL, at=at)])
        change.lease, change.take, change.release = Lease(run_id, TENDER, (stored.fence or 0) + 1), True, True
        try:
            after = await _append(store, stored, change)
        except (LeaseLost, RunBusy):
            continue
        if after is not None:
            return status_of(after)
    raise _too_fast(run_id)


async def _keep_late(store: Store, stored: Stored, state: CallState, value: Raw) -> None:
    """Keep a report that does not count any more, and raise the error that says so."""
    if state.attempt == 0:
        raise Conflict("This call was not started; report the start first.")
    late = f.Witnessed(CALL, state.attempt, value, at=_since_began(store, stored.run()))
    known = [bytes(fact.output) for fact in stored.facts if type(fact) is f.Witnessed]
    if len(known) < MOST_REPORTS and bytes(value) not in known:
        await store.witness(stored.record.id, [late])
    raise LeaseLost("This report came too late, or is of another program: it is kept as evidence, and does not count.")


# -- what the store itself does for such runs --------------------------------------------------------


async def _tended(store: Store, run_id: str) -> Stored:
    """Return a run as it is now, after its deadline and the lease of its program."""
    for _ in range(ATTEMPTS):
        stored = await store.read(run_id)
        record = stored.record
        if record.caller is None or record.erased is not None:
            return stored
        await store.open()
        tended = record.worker == TENDER and is_driven(record.worker, record.until, int(store.clock() * 1000))
        if not tended and (after := await tend_call(store, stored)) is not None:
            return after
        await asyncio.sleep(TENDING)
    return await store.read(run_id)


async def tend_call(store: Store, stored: Stored, lease: Lease | None = None) -> Stored | None:
    """Record what time has done to a call: a passed deadline, or a lease that lapsed. None if others were first."""
    run, record = stored.run(), stored.record
    state = run.calls.get(CALL)
    if state is None and lease is None:
        return stored
    await store.open()
    at = _since_began(store, run)
    facts: list[f.AnyFact] = list(overdue(run, at))
    now = int(store.clock() * 1000)
    held = lease is None and is_driven(record.worker, record.until, now)
    if state is not None and not facts and state.phase is RUNNING and not held and run.cancelled is None:
        facts = [_doubt(run, state, at)]
    if not facts and lease is None:
        return stored
    change = _change(store, stored, run, facts)
    change.release = True
    change.lease = lease or Lease(record.id, TENDER, (stored.fence or 0) + 1)
    change.take = lease is None
    try:
        return await _append(store, stored, change)
    except (LeaseLost, RunBusy):
        return None


def _doubt(run: Run, state: CallState, at: int) -> f.Asked:
    """Return the question about a call that was started, and of which its program tells no more."""
    asked = state.question
    fields: dict[str, Any] = {"redact": _redact_of(run, state)}
    if asked is not None:
        fields |= {"reviewers": asked.reviewers, "risk": asked.risk}
    note = f"{run.began.agent if run.began else 'The program'} told nothing more of it."
    return doubt_of(run, (), state, note, at, fields)


async def tend_calls(store: Store) -> int:
    """Look after all runs of programs outside that are due; return their number.

    A question whose deadline has passed is rejected. A call that was started and is reported no more is in doubt.
    """
    leases = await store.claim(TENDER, agents=None, hold=30.0, limit=100, outside=True)
    for lease in leases:
        try:
            stored = await store.read(lease.run)
            if await tend_call(store, stored, lease) is None:
                await store.release(lease)
        except AssentryError as error:
            log.warning("The ask %s cannot be looked after: %s", lease.run, error)
            await store.release(lease, error=str(error))
    return len(leases)


async def keep_tending(store: Store) -> None:
    """Look after the runs of programs outside until cancelled."""
    while True:
        try:
            if await tend_calls(store):
                continue
        except Exception as error:  # whatever it is, deadlines and lapsed holds of all other calls wait for this task
            trace = None if isinstance(error, AssentryError) else error
            log.warning("The asks of programs outside cannot be looked after; trying again: %s", error, exc_info=trace)
        await asyncio.sleep(TENDED)


# -- waiting -----------------------------------------------------------------------------------------


class _Waiter:
    """Somebody who waits for the decision on one call."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.news = asyncio.Event()


class CallWatch(StoreWatch[_Waiter]):
    """Those who wait for decisions on one event loop: one look at the store for all of them."""

    name = "The watch over asks"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._since = 0

    async def look(self, first: bool) -> None:
        """Wake those about whose run there is news; the first look wakes nobody, as all have just read."""
        await self.store.open()
        now = int(self.store.clock() * 1000)
        since = (now if first else self._since) - OVERLAP
        self._since = now
        while True:
            found = await self.store.news(since)
            changed = {news.run for news in found if news.kind != "question.asked"}
            for member in self.members:
                if member.run in changed:
                    member.news.set()
            if len(found) < MOST_NEWS:
                return
            since = max(found[-1].at, since + 1)  # there may be more


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Store, CallWatch]] = WeakKeyDictionary()


def _watch_of(store: Store) -> CallWatch:
    """Return the watch over a store's asks on this event loop."""
    of_loop = _watches.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
    if store not in of_loop:
        of_loop[store] = CallWatch(store)
    return of_loop[store]


async def wait_for_call(
    store: Store,
    run_id: str,
    timeout: float | None,
    look: Callable[[], Awaitable[CallStatus]],
) -> CallStatus:
    """Return a call's status once it is decided, or as it is after `timeout` seconds."""
    status = await look()
    if not is_undecided(status) or timeout == 0:
        return status
    watch, waiter = _watch_of(store), _Waiter(run_id)
    try:
        async with asyncio.timeout(timeout):
            await watch.join(waiter).wait()
            while is_undecided(status := await look()):
                waiter.news.clear()
                await _news_or_deadline(store, status, waiter)
    except TimeoutError:
        pass
    finally:
        watch.leave(waiter)
    return status


async def _news_or_deadline(store: Store, status: CallStatus, waiter: _Waiter) -> None:
    """Wait for news of a call, or until its question's deadline has passed; then it is looked at again."""
    left = LOOK_AGAIN
    if status.until is not None:
        left = min(left, max(0.0, status.until / 1000 - store.clock()) + 0.002)
    with suppress(TimeoutError):
        async with asyncio.timeout(left):  # not `wait_for`: before Python 3.12 it may swallow the end of the whole wait
            await waiter.news.wait()


def is_undecided(status: CallStatus) -> bool:
    """Return True while a person is asked, before the call or because nobody knows how it ended."""
    return status.state in ("waiting", "doubt")


# -- parts -------------------------------------------------------------------------------------------


def _worker(holder: str) -> str:
    if type(holder) is not str or not 1 <= len(holder) <= LONGEST_HOLDER or not holds(holder) or "\0" in holder:
        raise UsageError(f"A holder is text of 1 to {LONGEST_HOLDER} characters without NUL, got {described(holder)}.")
    return f"{OUTSIDE}:{holder}"


def _checked_hold(hold: float) -> float:
    if type(hold) not in (int, float) or not 0 < hold <= LONGEST_HOLD:
        raise UsageError(f"hold is a number of seconds above 0, at most {LONGEST_HOLD:,.0f}; got {described(hold)}.")
    return float(hold)


def _plain_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        value = plain(dict(arguments))
    except (BadJSON, TypeError, ValueError) as error:
        raise InvalidArguments(f"These arguments are not a JSON object: {error}.") from None
    return value if type(value) is dict else {}


def _plain_output(output: Any) -> Any:
    try:
        return plain(output)
    except BadJSON as error:
        raise InvalidInput(f"This output is not JSON: {error}. Report it as JSON or text.") from None


def _since_began(store: Store, run: Run) -> int:
    return max(0, int(store.clock() * 1000) - (run.began.at if run.began is not None else 0))


def _change(store: Store, stored: Stored, run: Run, facts: list[f.AnyFact]) -> Change:
    """Fold facts into a run, and return the change that records them."""
    projection = Projection()
    for fact in facts:
        fold(run, fact)
        projection.note(run, fact)
    return projection.change(run, len(stored.facts), facts, store.clock())


async def _append(store: Store, stored: Stored, change: Change) -> Stored | None:
    """Write a change, and return the run after it; None if another writer was first."""
    try:
        await store.append(change)
    except Overtaken:
        return None
    facts = [*stored.facts, *change.facts]
    record = change.record
    lease = change.lease
    if lease is not None and not change.release:
        record.worker = lease.worker
    return Stored(record=record, facts=facts, fence=lease.fence if lease is not None else stored.fence)


def _too_fast(run_id: str) -> Overtaken:
    return Overtaken(f"Run {run_id!r} changes faster than this could be recorded; try again.")
