"""Calls of programs outside, in a store: asking, starting, reporting, and what became of them.

A program outside drives such a run itself, with the same facts under the same lease as any driver. So a second program
with the same key gets the same ask, one of two starts the call, and a call that was started and never reported is in
doubt. What a request is, and the verdict on it, belong to `approval.foreign_call`;
waiting for the verdict to `call_watch`, and what time does to such runs to `call_tending`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Raw
from msgspec.structs import replace

from ..approval.decision import checked_name
from ..approval.foreign_call import (
    CALL,
    CallRequest,
    check_request,
    judge_foreign_call,
    proposed_mark,
    request_mark,
    session_thread,
)
from ..approval.rule_file import RuleFile
from ..core import facts as f
from ..core.digest import canonical, digest
from ..core.rules import RUNNING
from ..core.run import Run
from ..errors import (
    AgentStopped,
    Conflict,
    GrantEnded,
    InvalidInput,
    LeaseLost,
    NotPending,
    Overtaken,
    RunBusy,
    RunNotFound,
    TooManyAsks,
)
from ..ids import new_id
from .call_report import (
    check_can_start,
    check_given,
    checked_hold,
    keep_late,
    plain_arguments,
    plain_output,
    worker_of_holder,
)
from .call_status import ENDED, CallStatus, agent_of_caller, status_of
from .call_tending import TENDER, read_tended
from .call_writing import ATTEMPTS, append_change, change_of_call, since_began, too_fast
from .filter import Filter
from .projection import anew
from .record import Lease, RunRecord, Stored
from .stop import stop_in_words
from .store import Store

HOLD = 60.0
"""The seconds for which a start holds the run's lease, unless the program says otherwise."""
MOST_OPEN = 1000
"""The most open questions that one program may have at a time."""
FAILURE = "Failure"
"""The kind of error of a call whose program reported that it failed."""


# -- asking ------------------------------------------------------------------------------------------


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
            return status_of(await read_tended(store, untaken)), False
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
    raise too_fast(run_id)


async def _asked_before(store: Store, run_id: str, request: CallRequest) -> CallStatus | None:
    """Return the status of an ask with this key; raise `Conflict` if it was about another call."""
    try:
        stored = await read_tended(store, run_id)
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
    return status_of(_own_call(await read_tended(store, run_id), by))


def _own_call(stored: Stored, by: str | None) -> Stored:
    """Return a stored run if it is a call that this program asked about; else raise `RunNotFound`."""
    caller = stored.record.caller
    if caller is None or (by is not None and caller != by) or stored.record.erased is not None:
        raise RunNotFound(f"There is no ask {stored.record.id!r} of {by}.")
    return stored


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
    worker, seconds = worker_of_holder(holder), checked_hold(hold)
    given = None if arguments is None else plain_arguments(arguments)
    for _ in range(ATTEMPTS):
        stored = _own_call(await read_tended(store, run_id), by)
        run = stored.run()
        state = run.calls[CALL]
        if state.phase is RUNNING and stored.record.worker == worker:
            await check_given(store, stored, given)
            return status_of(stored)
        check_can_start(stored, run, state)
        await check_given(store, stored, given)
        lease = Lease(run_id, worker, (stored.fence or 0) + 1)
        fact = f.Started(CALL, state.attempt + 1, lease.fence, at=since_began(store, run))
        change = change_of_call(store, stored, run, [fact])
        change.lease, change.take, change.hold = lease, True, seconds
        if (after := await append_change(store, stored, change)) is not None:
            return status_of(after)
    raise too_fast(run_id)


async def renew_call(store: Store, run_id: str, *, by: str | None, holder: str, hold: float = HOLD) -> CallStatus:
    """Hold the run's lease for `hold` seconds more; raise `LeaseLost` if it is another's, or the call is in doubt."""
    worker, seconds = worker_of_holder(holder), checked_hold(hold)
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
    worker = worker_of_holder(holder)
    if output is not None and error is not None:
        raise InvalidInput("A report has an output or an error, and this one has both.")
    value = Raw(canonical(plain_output(output if error is None else error)))
    failed = None if error is None else FAILURE
    for _ in range(ATTEMPTS):
        stored = _own_call(await store.read(run_id), by)
        run = stored.run()
        state = run.calls[CALL]
        outcome = state.outcome
        if isinstance(outcome, f.Finished) and bytes(outcome.output) == bytes(value) and outcome.error == failed:
            return status_of(stored)
        at = since_began(store, run)
        if state.phase is not RUNNING or stored.record.worker != worker:
            await keep_late(store, stored, state, value)
        fact = f.Finished(CALL, value, error=failed, at=at)
        change = change_of_call(store, stored, run, [fact, f.Concluded(source=CALL, at=at)] if taken else [fact])
        change.lease, change.release = Lease(run_id, worker, state.fence), True
        try:
            after = await append_change(store, stored, change)
        except LeaseLost:
            continue
        if after is not None:
            return status_of(after)
    raise too_fast(run_id)


async def take_call(store: Store, run_id: str, *, by: str | None) -> CallStatus:
    """Record that the program has taken the outcome of its call, so that the next equal call is a new one.

    Taking it again changes nothing. Raises `NotPending` while there is no outcome.
    """
    for _ in range(ATTEMPTS):
        stored = _own_call(await read_tended(store, run_id), by)
        run = stored.run()
        status = status_of(stored)
        if _is_taken(run):
            return status
        if status.state not in ENDED:
            raise NotPending(f"This call is {status.state}: it has no outcome that could be taken.")
        at = since_began(store, run)
        change = change_of_call(store, stored, run, [f.Concluded(source=CALL, at=at)])
        change.lease, change.take, change.release = Lease(run_id, TENDER, (stored.fence or 0) + 1), True, True
        try:
            after = await append_change(store, stored, change)
        except (LeaseLost, RunBusy):
            continue
        if after is not None:
            return status_of(after)
    raise too_fast(run_id)
