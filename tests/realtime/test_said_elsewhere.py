"""Input that another process stores while the session has messages which are not stored yet."""

import asyncio
from typing import Any

import pytest

from assentry import RunConfig, Runner
from assentry.core.codec import replay
from assentry.errors import Overtaken
from assentry.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from assentry.realtime.watch import watch_of
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel
from tests.realtime.fake_model import FakeModel, said, settle, until

SLOW = RunConfig(write_lag=60)
"""Nothing is written in the background before a test says so."""


class Talk:
    """A session whose messages are stored when a test says so, and which looks for nothing by itself."""

    def __init__(self) -> None:
        self.model, self.store = FakeModel(), MemoryStore()
        self.agent = RealtimeAgent("Desk", model=ScriptedModel(["It is on its way."]))
        config: Any = {"reconnect": {"attempts": 1, "delay": 0}}
        self.runner = RealtimeRunner(self.agent, model=self.model, store=self.store, run_config=SLOW, config=config)

    async def session(self) -> RealtimeSession:
        return await self.runner.run()

    async def begin(self, session: RealtimeSession) -> None:
        assert session._driver.writer is not None
        self.live, self.writer = session, session._driver.writer
        watch_of(self.store).leave(self.writer)

    async def say(self, text: str) -> None:
        """Say something here, and wait until the model was told."""
        await self.live.send_message(text)
        await until(lambda: text in self.told)
        await settle()

    async def elsewhere(self, text: str) -> None:
        await self.store.say(self.live.run_id, text, by="ben")

    async def reply_to_ours(self, session: RealtimeSession) -> None:
        """Say something here and have it answered, while others say something too."""
        await self.begin(session)
        await self.say("ours")
        self.model.reply(said("Hello."))
        await self.elsewhere("theirs")

    async def restart(self) -> None:
        """Begin the drive again with the stored facts, as after a decision of others that ours cannot follow."""
        assert self.writer.unwritten
        run = self.live._scope.journal.run
        self.live._driver.tasks.fail((), Overtaken("Others have changed the run."))
        self.live._driver.wake()
        await until(lambda: self.live._scope.journal.run is not run)
        await settle()

    @property
    def told(self) -> list[str]:
        return [item["content"] for item in self.model.items]

    @property
    def ids(self) -> list[str]:
        return [item["id"] for item in self.model.items]


def texts(facts: Any) -> list[str]:
    found = [bytes(fact.items).decode() for fact in facts]
    return ["ours" if "ours" in each else "theirs" for each in found]


def test_a_restart_tells_what_others_said_and_repeats_nothing() -> None:
    async def main() -> None:
        talk = Talk()
        async with await talk.session() as session:
            await talk.begin(session)
            await talk.say("ours")
            await talk.elsewhere("theirs")
            await talk.restart()
            assert talk.told == ["ours", "theirs"] and len(set(talk.ids)) == 2
            talk.model.reply(said("Hello, both."))
            await talk.say("ours, again")
            assert talk.told == ["ours", "theirs", "ours, again"] and len(set(talk.ids)) == 3
        run = session.to_state()._journal.run
        assert texts(run.entries[:2]) == ["theirs", "ours"] and texts(run.unheard) == ["ours"]

    asyncio.run(main())


def test_a_restart_after_a_merge_tells_nothing_twice() -> None:
    async def main() -> None:
        talk = Talk()
        async with await talk.session() as session:
            await talk.begin(session)
            await talk.say("ours")
            await talk.elsewhere("theirs")
            await talk.writer.catch_up()
            await until(lambda: "theirs" in talk.told)
            ids = dict(zip(talk.told, talk.ids, strict=True))
            await talk.say("ours, again")
            await talk.restart()
            assert talk.told == ["ours", "theirs", "ours, again"]
            talk.model.sent.clear()
            talk.model.drop()
            await until(lambda: len(talk.told) == 3)
            assert ids.items() <= dict(zip(talk.told, talk.ids, strict=True)).items()  # as before, in this order
            assert talk.told == ["theirs", "ours", "ours, again"]

    asyncio.run(main())


def test_a_reply_that_did_not_hear_what_others_said_does_not_count_as_its_answer() -> None:
    async def main() -> None:
        talk = Talk()
        session = await talk.session()
        async with session:
            await talk.reply_to_ours(session)
            await talk.restart()
        assert "theirs" in texts(session.to_state()._journal.run.unheard)
        result = await Runner.run(talk.agent, await talk.store.load(session.run_id), store=talk.store)
        assert result.final_output == "It is on its way."

    asyncio.run(main())


@pytest.mark.parametrize("how", ["a write", "a look"])
def test_what_others_said_is_not_answered_by_a_reply_that_is_stored_after_it(how: str) -> None:
    async def main() -> None:
        talk = Talk()
        session = await talk.session()
        async with session:
            await talk.reply_to_ours(session)
            try:
                await (talk.writer.flush() if how == "a write" else talk.writer.catch_up())
            except Overtaken:
                talk.live._driver.wake()
            await until(lambda: "theirs" in talk.told)
            await settle()
            assert talk.told == ["ours", "theirs"]
        stored = await talk.store.load(session.run_id)
        assert "theirs" in texts(replay(stored.facts).unheard)

    asyncio.run(main())
