"""Checks of standing grants: giving, using and revoking decisions that hold in all runs of an agent.

A store that keeps none refuses to give one, and no further check applies to it.
"""

from __future__ import annotations

from ...approval.decision import Approve
from ...core import facts as f
from ...errors import Forbidden, GrantEnded, GrantNotFound, InvalidDecision, UsageError
from ...store.record import Change
from ...store.store import Store
from ..clock import FakeClock
from .draft import SEND, SHRED, RunDraft, put_asking
from .expect import alike, only, raises

TERMS = {"where": {"to": {"starts_with": "a"}}, "max_uses": 2, "expires_in": 60}


async def _keeps_none(store: Store) -> bool:
    """Return True if the store keeps no standing grants, and says so."""
    (question,) = await put_asking(store)
    try:
        grant = await store.give_standing_grant(question.id, by="ann")
    except InvalidDecision:
        raise
    except UsageError:
        alike(await store.grants_for(["send"]), [], "A store that keeps no standing grants has none.")
        return True
    await store.revoke_standing_grant(grant.id, by="ann")
    return False


async def gives_standing_grants(store: Store, clock: FakeClock) -> None:
    """A grant over all runs is given from a question, listed with its terms, and revoked once."""
    if await _keeps_none(store):
        return
    (question,) = await put_asking(store)
    now = int(clock() * 1000)
    grant = await store.give_standing_grant(question.id, by="ann", terms=TERMS)
    alike((grant.agent, grant.tool, grant.verdict, grant.by), ("Clerk", "send", "approve", "ann"), "It says for what.")
    alike((grant.where, grant.max_uses, grant.until), (TERMS["where"], 2, now + 60_000), "A grant has its terms.")
    alike((grant.definition, grant.at, grant.used), (SEND.fingerprint, now, 0), "A grant is of a tool as it was.")
    alike((await store.question(question.id)).verdict, None, "A standing grant settles no question.")
    alike((await store.standing_grants()).items, [grant], "A grant is listed as it was given.")
    alike((await store.standing_grants(agent="Clerk", tool="shred")).items, [], "A list has what its filter wants.")
    alike(await store.grants_for(["shred", "send"]), [grant], "The gate gets the grants of the tools that it judges.")
    alike(await store.grants_for(["shred"]), [], "The gate gets the grants of the tools that it judges.")
    alike(await store.give_standing_grant(question.id, by="ann", terms=TERMS), grant, "The same twice gives one.")
    (other,) = await put_asking(store, (SHRED,), reviewers=("group:board",))
    await raises(Forbidden, store.give_standing_grant(other.id, by="ann"), "Who may not decide gives no grant.")
    work = store.give_standing_grant(question.id, by="ann", terms={"where": {"none": {"is": 1}}})
    await raises(InvalidDecision, work, "Terms that do not fit the tool are refused.")
    clock.advance(1)
    gone = await store.revoke_standing_grant(grant.id, by="eve")
    alike((gone.revoked, gone.revoked_by), (now + 1_000, "eve"), "A revoked grant says by whom, and when.")
    alike(await store.revoke_standing_grant(grant.id, by="bob"), gone, "Revoking twice is once.")
    alike(await store.grants_for(["send"]), [], "A revoked grant decides nothing.")
    alike(len((await store.standing_grants(revoked=True)).items), 2, "A revoked grant is kept.")
    await raises(GrantNotFound, store.revoke_standing_grant("always_none", by="eve"), "Only a grant can be revoked.")
    alike(await store.verify_standing(), [], "The list of grants fits their log.")
    alike(len((await store.standing_log()).rows), 4, "Each grant that is given or revoked is in the log.")


async def _used(store: Store, grant: str) -> Change:
    """Return the change of a run in which a grant approves a call; its lease is held."""
    draft = RunDraft(store.clock)
    await draft.write(store)
    lease = await store.take(draft.id, "w1", seq=draft.seq, hold=60)
    (call,) = draft.propose(SEND)
    return draft.add(f.Approved(call, f"grant:{grant}", at=draft.now)).change(lease=lease)


async def counts_standing_uses(store: Store, clock: FakeClock) -> None:
    """A use is counted with the facts, and a grant that has ended refuses them."""
    if await _keeps_none(store):
        return
    (question,) = await put_asking(store)
    grant = await store.give_standing_grant(question.id, by="ann", terms={"max_uses": 2})
    changes = [await _used(store, grant.id) for _ in range(3)]
    for change in changes[:2]:
        await store.append(change)
    await raises(GrantEnded, store.append(changes[2]), "No more calls are approved than the terms say.")
    alike((await store.read(changes[2].record.id)).record.seq, changes[2].seq, "A refused change leaves nothing.")
    alike(only((await store.standing_grants()).items, "It is listed.").used, 2, "Uses are counted exactly.")
    free = await store.give_standing_grant(question.id, by="ann")
    change = await _used(store, free.id)
    await store.revoke_standing_grant(free.id, by="ann")
    await raises(GrantEnded, store.append(change), "A grant that was revoked meanwhile approves nothing.")
    await store.decide(question.id, Approve(), by="bob", digest=question.digest)
    await store.rebuild()
    alike(only((await store.standing_grants()).items, "It is listed.").used, 2, "Rebuilding counts nothing twice.")


STANDING_CHECKS = (gives_standing_grants, counts_standing_uses)
