"""Events of a call: of the agent, its models and its tools, with LangChain and without."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from assentry import UsageError
from assentry.testing import ScriptedModel, call
from assentry.threads import InMemorySaver, ThreadAgent, create_agent
from tests.threads.support import Ran, decide, office, say, thread

Make = Callable[..., ThreadAgent]


@pytest.fixture(params=["without LangChain", "with LangChain"], autouse=True)
def imported(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run each test with our events, and with LangChain's."""
    if request.param == "without LangChain":
        monkeypatch.delitem(sys.modules, "langchain_core", raising=False)
        return False
    pytest.importorskip("langchain_core")
    return True


def reader(*steps: Any) -> ThreadAgent:
    return create_agent(ScriptedModel(steps), Ran().tools(), checkpointer=InMemorySaver(), name="bob")


async def events_of(agent: ThreadAgent, **options: Any) -> list[dict[str, Any]]:
    config = {**thread(), "tags": ["x"], "metadata": {"user": 7}}
    return [event async for event in agent.astream_events(say("hi"), config, **options)]


async def test_events_are_those_of_the_agent_its_models_and_its_tools() -> None:
    events = await events_of(reader(call("read_data"), "All rows."))
    named = [(event["event"], event["name"]) for event in events]
    assert named[:4] == [
        ("on_chain_start", "bob"),
        ("on_chain_start", "model"),
        ("on_chat_model_start", "ScriptedModel"),
        ("on_chat_model_end", "ScriptedModel"),
    ]
    assert [each for each in named if "tool" in each[0]] == [
        ("on_tool_start", "read_data"),
        ("on_tool_end", "read_data"),
    ]
    assert [each for each in named if each[0] == "on_chain_stream"] == [("on_chain_stream", "bob")] * 3
    assert named[-1] == ("on_chain_end", "bob")
    tokens = [each["data"]["chunk"].content for each in events if each["event"] == "on_chat_model_stream"]
    assert "".join(tokens) == "All rows."


async def test_an_event_has_its_run_its_parents_tags_and_metadata() -> None:
    events = await events_of(reader(call("read_data"), "Rows."))
    assert all(
        event.keys() == {"event", "data", "name", "tags", "run_id", "metadata", "parent_ids"} for event in events
    )
    assert all(event["tags"] == ["x"] and event["metadata"]["user"] == 7 for event in events)
    root = events[0]
    assert root["parent_ids"] == []
    assert root["data"]["input"] == say("hi")
    [start] = [event for event in events if event["event"] == "on_tool_start"]
    [end] = [event for event in events if event["event"] == "on_tool_end"]
    assert start["run_id"] == end["run_id"]
    assert start["data"]["input"] == {"table": "records"}
    assert end["data"]["output"].content == "rows of records"
    assert start["parent_ids"][0] == root["run_id"]
    assert len(start["parent_ids"]) == 2
    assert start["metadata"]["langgraph_node"] == "tools"
    model = next(event for event in events if event["event"] == "on_chat_model_start")
    assert model["data"]["input"]["messages"][0][0].content == "hi"
    assert events[-1]["data"]["output"]["messages"][-1].content == "Rows."


@pytest.mark.parametrize(
    ("filters", "kinds"),
    [
        ({"include_types": ["tool"]}, ["on_tool_start", "on_tool_end"]),
        ({"include_names": ["read_data"]}, ["on_tool_start", "on_tool_end"]),
        ({"include_types": ["tool"], "exclude_names": ["read_data"]}, []),
        ({"exclude_types": ["chain", "chat_model"]}, ["on_tool_start", "on_tool_end"]),
        ({"include_tags": ["y"]}, []),
        ({"exclude_tags": ["x"]}, []),
        ({"include_types": None, "exclude_types": ["chain", "chat_model"]}, ["on_tool_start", "on_tool_end"]),
    ],
    ids=str,
)
async def test_filters_choose_events(filters: Any, kinds: list[str]) -> None:
    events = await events_of(reader(call("read_data"), "Rows."), **filters)
    assert [event["event"] for event in events] == kinds


async def test_a_pause_and_a_tools_error_are_events() -> None:
    agent, _ = office(call("write_file", {"path": "a"}), "Done.")
    events = await events_of(agent)
    [*_, chunk, end] = events
    assert chunk["event"] == "on_chain_stream"
    assert list(chunk["data"]["chunk"]) == ["__interrupt__"]
    assert end["event"] == "on_chain_end"
    resumed = [event["event"] async for event in agent.astream_events(decide("approve"), thread(), version="v2")]
    assert resumed.count("on_tool_start") == resumed.count("on_tool_end") == 1

    def fails() -> str:
        """Fail."""
        raise KeyError("row")

    failing = create_agent(ScriptedModel([call("fails"), "Sorry."]), [fails], checkpointer=InMemorySaver())
    [error] = [event for event in await events_of(failing) if event["event"] == "on_tool_error"]
    assert isinstance(error["data"]["error"], KeyError)
    assert error["data"]["tool_call_id"]


def test_events_can_be_read_without_async() -> None:
    events = list(reader("Hello.").stream_events(say("hi"), thread(), version="v2"))
    assert (events[0]["event"], events[-1]["event"]) == ("on_chain_start", "on_chain_end")


async def test_an_error_of_the_run_is_raised() -> None:
    with pytest.raises(Exception, match="no more"):
        await events_of(reader())


async def test_whoever_stops_reading_stops_the_run_which_can_go_on() -> None:
    agent = reader(call("read_data"), "Rows.")
    async with aclosing(agent.astream_events(say("hi"), thread())) as events:
        async for event in events:
            if event["event"] == "on_tool_start":
                break
    result = await agent.ainvoke(None, thread())
    assert result["messages"][-1].text == "Rows."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"version": "v4"}, '"v2" and "v3"'),
        ({"version": 2}, '"v2" and "v3"'),
        ({"version": "v3", "stream_mode": "updates"}, "takes no stream_mode"),
        ({"include_name": ["a"]}, "include_names"),
        ({"include_names": "a"}, "include_names"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_once(options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        reader("ok").astream_events(say("hi"), thread(), **options)
