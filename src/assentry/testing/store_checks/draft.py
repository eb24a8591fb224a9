"""Runs written by hand: facts are folded one by one, as a driver does, and written to a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self
from uuid import uuid4

from msgspec import Raw
from msgspec.json import encode

from ...approval.question import action_digest
from ...approval.tool_snapshot import ToolSnapshot
from ...core import facts as f
from ...core.codec import replay
from ...core.facts import AnyFact
from ...core.fold import fold
from ...core.run import Run
from ...store.projection import Projection
from ...store.record import Change, Question
from ...store.rules import needs_lease
from ...store.store import Store

AGENT = "Clerk"


def _tool(name: str, **properties: Any) -> ToolSnapshot:
    schema = {"type": "object", "properties": properties, "required": ["to"], "additionalProperties": False}
    return ToolSnapshot(name, f"Does what {name} says.", schema, {}, None, None, True)


SEND = _tool("send", to={"type": "string"}, copies={"type": "integer", "minimum": 1, "default": 1})
SHRED = _tool("shred", to={"type": "string"})
DEFINITIONS = {tool.fingerprint: encode(tool) for tool in (SEND, SHRED)}


def json(value: Any) -> Raw:
    """Return a value as raw JSON, as facts hold it."""
    return Raw(encode(value))


class RunDraft:
    """A run, with its unwritten facts."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        agent: str = AGENT,
        id: str | None = None,
        thread: str | None = None,
        by: str | None = None,
        caller: str | None = None,
    ) -> None:
        self.clock = clock
        self.id = id or f"run_{uuid4().hex}"
        self.run = Run()
        self.seq = 0
        self.facts: list[AnyFact] = []
        self.projection = Projection()
        began = int(clock() * 1000)
        self.add(
            f.Began(agent, 10, self.id, stored=True, thread=thread, by=by, caller=caller, at=began),
            f.Said(json("Write to Ann.")),
        )

    @classmethod
    async def read(cls, store: Store, run_id: str) -> RunDraft:
        """Read a run from a store, to continue it."""
        facts = (await store.read(run_id)).facts
        draft = cls(store.clock, id=run_id)
        draft.run, draft.seq, draft.facts, draft.projection = replay(facts), len(facts), [], Projection()
        return draft

    @property
    def now(self) -> int:
        """Milliseconds since the run began."""
        return int(self.clock() * 1000) - (self.run.began.at if self.run.began is not None else 0)

    def add(self, *facts: AnyFact) -> Self:
        """Fold facts into the run; `write` stores them."""
        for fact in facts:
            fold(self.run, fact)
            self.projection.note(self.run, fact)
            self.facts.append(fact)
        return self

    def propose(self, *tools: ToolSnapshot, agent: str = AGENT, args: Any = None) -> list[str]:
        """Add a reply in which the model calls these tools; return the ids of the calls."""
        first = len(self.run.calls)
        calls = [f.Call(f"c{first + n}", tool.name, n, "tool", tool.fingerprint) for n, tool in enumerate(tools)]
        text = encode({"to": "ann"} if args is None else args).decode()
        items = [
            {"type": "function_call", "call_id": f"call_{call.id}", "name": call.tool, "arguments": text}
            for call in calls
        ]
        marks = {tool.name: tool.fingerprint[:8] for tool in (SEND, SHRED)}
        self.add(f.Defined(agent, "d1", marks, at=self.now), f.Replied(json(items), calls=tuple(calls), at=self.now))
        return [call.id for call in calls]

    def ask(self, call: str, **more: Any) -> str:
        """Add a question about a call; return the id of the question."""
        state = self.run.calls[call]
        digest = action_digest(self.run, (), state, state.tool, state.call.definition or "", {"to": "ann"})
        id = more.pop("id", None) or f"q_{uuid4().hex}"
        self.add(f.Asked(call, id, "It is a letter.", digest, at=self.now, **more))
        return id

    def conclude(self) -> Self:
        """Add the final reply, and conclude the run."""
        return self.add(f.Replied(json([{"role": "assistant", "content": "Done."}]), at=self.now), f.Concluded())

    def change(self, **more: Any) -> Change:
        """Return the unwritten facts as one change."""
        change = self.projection.change(self.run, self.seq, self.facts, self.clock())
        self.facts = []
        if change.asked:
            change.definitions = dict(DEFINITIONS)
        for name, value in more.items():
            setattr(change, name, value)
        return change

    async def write(self, store: Store, **more: Any) -> Change:
        """Write the unwritten facts and return the change; acquire a lease for this write if the change needs one."""
        change = self.change(**more)
        if change.lease is None and needs_lease(change):
            change.lease = await store.take(self.id, "draft", seq=self.seq, hold=60)
            change.release = True
        await store.append(change)
        self.seq += len(change.facts)
        return change


def asking(
    clock: Callable[[], float],
    tools: Sequence[ToolSnapshot] = (SEND,),
    *,
    agent: str = AGENT,
    by: str | None = None,
    **asked: Any,
) -> RunDraft:
    """Return a waiting run: the model has called these tools, and each call has an open question."""
    draft = RunDraft(clock, agent=agent, by=by)
    for call in draft.propose(*tools, agent=agent):
        draft.ask(call, **asked)
    return draft


def branching(clock: Callable[[], float]) -> RunDraft:
    """Return a waiting run: a nested agent has called a tool, and the call has an open question."""
    draft, path = RunDraft(clock), ("c0",)
    items = json([{"type": "function_call", "call_id": "call_1", "name": "send", "arguments": '{"to":"ann"}'}])
    draft.add(
        f.Defined(AGENT, "d0"),
        f.Replied(items, calls=(f.Call("c0", "helper", 0, "agent", SHRED.fingerprint),)),
        f.Approved("c0", "rule"),
        f.Began("Helper", 5, path=path, at=draft.now),
        f.Said(json("Send it."), path=path),
        f.Defined("Helper", "d1", path=path),
        f.Replied(items, calls=(f.Call("c0", "send", 0, "tool", SEND.fingerprint),), path=path),
        f.Asked("c0", f"q_{uuid4().hex}", "It is a letter.", "0" * 64, path=path, at=draft.now),
    )
    return draft


async def put_asking(store: Store, tools: Sequence[ToolSnapshot] = (SEND,), **more: Any) -> list[Question]:
    """Store a waiting run, and return its questions."""
    return (await asking(store.clock, tools, **more).write(store)).asked


async def put_begun(store: Store, **more: Any) -> RunDraft:
    """Store a run that a worker should drive, and return the run."""
    draft = RunDraft(store.clock, **more)
    await draft.write(store)
    return draft


async def put_ended(store: Store, **more: Any) -> RunDraft:
    """Store a finished run, and return the run."""
    draft = RunDraft(store.clock, **more).conclude()
    await draft.write(store)
    return draft
