"""Sessions of users' own whose methods get the run's context."""

from __future__ import annotations

from typing import Any

from assentry import EncryptedSession, OpenAIResponsesCompactionSession, Runner
from tests.runtime.support import reloaded, scripted, sending
from tests.sessions.test_session_runs import Plain, sends, stored


class Tenants(Plain):
    """A session that notes for whom its methods are called."""

    def __init__(self, session_id: str = "tenants") -> None:
        super().__init__(session_id)
        self.seen: list[Any] = []

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        self.seen.append(wrapper and wrapper.context)
        return await super().get_items(limit)

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        self.seen.append(wrapper and wrapper.context)
        await super().add_items(items)

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        return await super().pop_item()

    async def clear_session(self, *, wrapper: Any = None) -> None:
        await super().clear_session()


async def test_methods_that_take_a_wrapper_get_the_runs_context() -> None:
    session = Tenants()
    send, _ = sending(needs_approval=True)
    agent = scripted(sends("ann"), "done", tools=[send])
    state = (await Runner.run(agent, "go", session=session, context={"tenant": 1})).to_state()
    state = await reloaded(agent, state)
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=session, context={"tenant": 2})
    assert session.seen == [{"tenant": 1}, {"tenant": 2}, {"tenant": 2}]
    assert await stored(session) == ["go", "call ann", "out ann", "> done"]


async def test_a_session_around_passes_the_context_on() -> None:
    inside = Tenants()
    around = OpenAIResponsesCompactionSession("tenants", EncryptedSession("tenants", inside, "key"))
    await Runner.run(scripted("done"), "go", session=around, context="ann")
    assert set(inside.seen) == {"ann"} and len(inside.seen) > 1
    assert around.underlying_session.underlying_session is inside  # type: ignore[attr-defined]


class Half(Plain):
    """A session of which only one method takes a wrapper."""

    seen: Any = "nothing"

    async def add_items(self, items: list[Any], wrapper: Any = None) -> None:
        self.seen = wrapper
        await super().add_items(items)


async def test_a_session_gets_it_only_if_all_of_its_methods_take_it() -> None:
    session = Half()
    await Runner.run(scripted("done"), "go", session=session, context="ann")
    assert session.seen is None
