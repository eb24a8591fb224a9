"""Checks that a store detects and names rows that were changed outside of its methods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from ...core import facts as f
from ...errors import UnreadableState
from ...store.row_codec import pack, redacted
from ...store.store import Store
from ..clock import FakeClock
from .draft import RunDraft, json, put_asking
from .expect import alike, raises, same_facts, true

Damage = Callable[[Store, str, int, bytes], Awaitable[None] | None]
"""A function that replaces the row with this number, of this store and run, with a text."""


def checks(damage: Damage) -> tuple[Callable[[Store, FakeClock], Awaitable[None]], ...]:
    """Return the checks that damage rows."""

    async def replace(store: Store, run_id: str, seq: int, text: bytes) -> None:
        done = damage(store, run_id, seq, text)
        if isawaitable(done):
            await done

    async def notices_damage(store: Store, clock: FakeClock) -> None:
        """A row that is not what was written is noticed, and named."""
        (question,), (other,) = await put_asking(store), await put_asking(store)
        await store.decide(question.id, {"type": "reject"}, by="ann", digest=question.digest)
        facts = (await store.read(question.run)).facts
        seq, refused = len(facts), facts[-1]
        forged = pack(f.Approved(question.call, "ann", question.id, at=refused.at))[0]
        said = pack(f.Said(json("Something else."), at=0))[0]
        texts = [pack(fact)[0] for fact in facts]
        hostile = (
            (seq, forged),
            (2, said),
            (2, redacted(texts[1])),
            (1, b"not JSON"),
            (3, b"{}"),
            (3, b'{"fact":"unheard of"}'),
            (seq, texts[-1].replace(b'"ann"', b'"bob"')),
        )
        for number, text in hostile:
            await replace(store, question.run, number, text)
            for work in (store.read, store.lines, lambda run, after=number - 1: store.read(run, after)):
                sentence = f"A row that was changed to {text!r:.80} is noticed."
                error = await raises(UnreadableState, work(question.run), sentence)
                true(question.run in str(error) and str(number) in str(error), f"{sentence} The error names the row.")
            found = await store.histories([question.run, other.run])
            alike(list(found), [other.run], "Of several histories only the damaged one is left out.")
            await raises(UnreadableState, store.rebuild(), "Records are not made anew from rows that were changed.")
            await replace(store, question.run, number, texts[number - 1])
            same_facts((await store.read(question.run)).facts, facts, "A row that is as it was can be read.")
        await (await RunDraft.read(store, question.run)).add(f.Cancelled("ann", at=9)).write(store)

    return (notices_damage,)
