"""The watch over a store: one run's trouble is its own, and a store is let go of after its last session."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from assentry import Approve, function_tool
from assentry.errors import StoreFailed, UnreadableState, UsageError
from assentry.realtime import RealtimeAgent, RealtimeRunner
from assentry.realtime.watch import watch_of
from assentry.store import MemoryStore, watch
from tests.realtime.fake_model import FakeModel, called, settle, until


@function_tool(needs_approval=True)
async def refund(amount: float) -> str:
    """Give money back."""
    return f"refunded {amount}"


AGENT = RealtimeAgent("Desk", tools=[refund])


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL", 0.01)
    monkeypatch.setattr(watch, "AWAY", 0.01)


class Damaged(MemoryStore):
    """A store in which one run cannot be read."""

    run = ""
    error: Exception = UnreadableState("damaged")

    async def read(self, run_id: str, since: int = 0) -> Any:
        if run_id == self.run:
            raise self.error
        return await super().read(run_id, since)


async def waiting(model: FakeModel, session: Any) -> Any:
    model.reply(called("refund", '{"amount": 9}'))
    [question] = await until(lambda: session.pending_approvals)
    await session._driver.writer.flush()
    return question


@pytest.mark.parametrize("error", [UnreadableState("damaged"), RuntimeError("a fault")])
def test_a_run_that_cannot_be_read_keeps_no_decision_from_the_others(error: Exception) -> None:
    async def main() -> None:
        store, models = Damaged(), [FakeModel(), FakeModel()]
        sessions = [await RealtimeRunner(AGENT, model=model, store=store).run() for model in models]
        async with sessions[0], sessions[1]:
            for each in zip(models, sessions, strict=True):
                await waiting(*each)
            first = next(iter(watch_of(store).members)).lease.run
            [(well, model)] = [each for each in zip(sessions, models, strict=True) if each[0].run_id != first]
            store.run, store.error = first, error
            [question] = well.pending_approvals
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            await until(lambda: model.outputs)
            store.run = ""

    asyncio.run(main())


def test_a_decision_that_is_made_is_no_error_though_the_store_is_away_afterwards() -> None:
    class Away(MemoryStore):
        away = False

        async def decide(self, *given: Any, **more: Any) -> Any:
            made = await super().decide(*given, **more)
            self.away = True
            return made

        async def read(self, run_id: str, since: int = 0) -> Any:
            if self.away:
                self.away = False
                raise StoreFailed("away")
            return await super().read(run_id, since)

    async def main() -> None:
        model, store = FakeModel(), Away()
        async with await RealtimeRunner(AGENT, model=model, store=store).run() as session:
            await waiting(model, session)
            await session.approve_tool_call("call_1")
            await until(lambda: model.outputs)

    asyncio.run(main())


def test_a_question_that_cannot_be_stored_ends_the_drive_and_is_not_tried_for_ever() -> None:
    class Away(MemoryStore):
        away, tries = False, 0

        async def append(self, *given: Any, **more: Any) -> Any:
            if self.away:
                self.tries += 1
                raise StoreFailed("away")
            return await super().append(*given, **more)

    async def main() -> None:
        model, store = FakeModel(), Away()
        events: list[Any] = []

        async def read() -> None:
            async for event in session:
                events.append(event.type)  # noqa: PERF401 - what came before the error counts

        async with await RealtimeRunner(AGENT, model=model, store=store).run() as session:
            await settle()
            store.away = True
            model.reply(called("refund", '{"amount": 9}'))
            with pytest.raises(StoreFailed, match="away"):
                await read()
            await settle()
            tries = store.tries
            await settle()
            assert store.tries == tries
        assert "tool_approval_required" not in events

    asyncio.run(main())


def test_a_store_without_news_is_looked_at_all_the_same() -> None:
    class Silent(MemoryStore):
        async def news(self, since: int, watched: Any = ()) -> Any:
            raise UsageError("A Silent has no news.")

    async def main() -> None:
        model, store = FakeModel(), Silent()
        async with await RealtimeRunner(AGENT, model=model, store=store).run() as session:
            question = await waiting(model, session)
            await store.decide(question.id, Approve(), by="ann", digest=question.digest)
            await until(lambda: model.outputs)

    asyncio.run(main())


def test_a_store_is_let_go_of_after_its_last_session() -> None:
    async def talk(store: MemoryStore) -> None:
        model = FakeModel()
        async with await RealtimeRunner(AGENT, model=model, store=store).run() as session:
            await waiting(model, session)

    async def main() -> None:
        store = MemoryStore()
        await talk(store)
        gone = weakref.ref(store)
        del store
        gc.collect()
        assert gone() is None

    asyncio.run(main())
