"""Sessions that OpenAI keeps, through its own client, against a server of the API."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from assentry import Agent, InvalidDefinition, OpenAIConversationsSession, Runner, RunState, function_tool
from assentry.errors import SessionFailed, SessionMissing, UsageError
from assentry.testing import ScriptedModel, call
from tests.sessions.conversations_server import ConversationsServer, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ConversationsServer]:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
        yield server


@function_tool(needs_approval=True)
async def send(to: str) -> str:
    return f"sent to {to}"


def texts(items: list[dict[str, Any]]) -> list[str]:
    return [part["text"] for item in items for part in item.get("content", ()) if "text" in part]


async def test_items_come_out_in_the_order_in_which_they_went_in(server: ConversationsServer) -> None:
    session = OpenAIConversationsSession()
    assert await session.get_items() == [] and session.session_id == ""
    await session.add_items([{"role": "user", "content": f"{n}"} for n in range(250)])
    assert texts(await session.get_items()) == [f"{n}" for n in range(250)]
    assert texts(await session.get_items(3)) == ["247", "248", "249"]
    assert await session.get_items(0) == []
    newest = await session.pop_item()
    assert newest is not None and texts([newest]) == ["249"]
    assert texts(await session.get_items(1)) == ["248"]


async def test_no_request_has_more_items_than_the_api_takes(server: ConversationsServer) -> None:
    await OpenAIConversationsSession().add_items([{"role": "user", "content": "x"}] * 45)
    assert server.writes == [20, 20, 5]


async def test_a_cleared_session_begins_a_new_conversation(server: ConversationsServer) -> None:
    session = OpenAIConversationsSession()
    await session.add_items([{"role": "user", "content": "a"}])
    first = session.session_id
    await session.clear_session()
    assert server.items == {} and await session.pop_item() is None
    await session.add_items([{"role": "user", "content": "b"}])
    assert session.session_id != first and texts(await session.get_items()) == ["b"]


async def test_history_is_kept_over_runs_and_through_an_approval(server: ConversationsServer) -> None:
    model = ScriptedModel([call("send", {"to": "ann"}), "It is sent.", "You are welcome."])
    agent = Agent(name="Clerk", tools=[send], model=model)
    session = OpenAIConversationsSession()
    result = await Runner.run(agent, "Send it.", session=session)
    assert (
        session.session_id.startswith("conv_") and texts(await session.get_items()) == []
    )  # a turn that waits is not kept
    saved = result.to_state().to_string()

    again = OpenAIConversationsSession(session.session_id)
    state = await RunState.from_string(agent, saved)
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, session=again)
    kept = await again.get_items()
    assert [item["type"] for item in kept] == ["message", "function_call", "function_call_output", "message"]
    await Runner.run(agent, "Thanks.", session=again)
    heard = model.requests[-1].input
    assert [item.get("type", item.get("role")) for item in heard] == [
        "message",
        "function_call",
        "function_call_output",
        "message",
        "user",
    ]
    assert len(server.items) == 1


async def test_a_run_is_resumed_with_its_own_conversation_only(server: ConversationsServer) -> None:
    agent = Agent(name="Clerk", tools=[send], model=ScriptedModel([call("send", {"to": "ann"})]))
    session = OpenAIConversationsSession()
    state = (await Runner.run(agent, "Send it.", session=session)).to_state()
    with pytest.raises(SessionMissing):
        await Runner.run(agent, state, session=OpenAIConversationsSession("conv_other"))


async def test_a_conversation_that_fails_is_named_and_the_run_can_go_on(server: ConversationsServer) -> None:
    agent = Agent(name="Clerk", model=ScriptedModel(["Hello."]))
    session = OpenAIConversationsSession()
    server.failing = 400
    with pytest.raises(SessionFailed, match="Not now") as caught:
        await Runner.run(agent, "Hello?", session=session)
    assert "sk-planted" not in str(caught.value)
    server.failing = None
    await session.open()
    server.items.clear()
    with pytest.raises(SessionFailed, match=session.session_id):
        await session.get_items()


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True])
async def test_a_limit_is_a_whole_number(server: ConversationsServer, limit: Any) -> None:
    with pytest.raises(UsageError, match="limit"):
        await OpenAIConversationsSession("conv_1").get_items(limit)


@pytest.mark.parametrize(
    ("conversation", "client"), [("", None), (7, None), (None, "sk"), (None, openai.OpenAI(api_key="x"))]
)
def test_bad_settings_are_refused(conversation: Any, client: Any) -> None:
    with pytest.raises(InvalidDefinition, match="OpenAIConversationsSession"):
        OpenAIConversationsSession(conversation, client)
