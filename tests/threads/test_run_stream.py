"""Runs of `stream_events(version="v3")`: sequences that drive the run when they are read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assentry.testing import ScriptedModel, call
from assentry.threads import InMemorySaver, ThreadAgent, create_agent, get_stream_writer
from tests.threads.support import decide, office, say, thread


def reader() -> ThreadAgent:
    def read_data(table: str = "records") -> str:
        """Read a table."""
        get_stream_writer()("reading")
        return f"rows of {table}"

    steps = [["I look.", call("read_data")], "All rows."]
    return create_agent(ScriptedModel(steps), [read_data], checkpointer=InMemorySaver())


def test_messages_come_part_by_part_and_drive_the_run() -> None:
    run = reader().stream_events(say("hi"), thread(), version="v3")
    shown = []
    for message in run.messages:
        shown.append(list(message.text))
        assert message.done
    assert shown == [["I ", "look."], ["All ", "rows."]]
    assert [message.output.text for message in run.messages] == ["I look.", "All rows."]
    assert [len(message.tool_calls.get()) for message in run.messages] == [1, 0]
    assert str(next(iter(run.messages)).text) == "I look."


def test_the_output_drives_the_run_to_its_end_and_the_rest_can_be_read_afterwards() -> None:
    run = reader().stream_events(say("hi"), thread(), version="v3")
    assert [each.text for each in run.output["messages"]] == ["hi", "I look.", "rows of records", "All rows."]
    assert (run.interrupted, run.interrupts) == (False, [])
    [made] = run.tool_calls
    assert (made.tool_name, made.input, made.output.content, made.error) == ("read_data", {}, "rows of records", None)
    assert list(run.custom) == ["reading"]
    assert [list(update) for update in run.updates] == [["model"], ["tools"], ["model"]]
    assert len(list(run.values)) == 4
    assert [name for name, _ in run.interleave("messages", "tool_calls")] == ["messages", "tool_calls", "messages"]
    assert {event["method"] for event in run} == {"values", "messages", "updates", "custom"}


def test_a_pause_is_in_the_interrupts() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "Done.")
    run = agent.stream_events(say("hi"), thread(), version="v3")
    assert run.interrupted
    assert run.interrupts[0].value["action_requests"][0]["name"] == "write_file"
    assert run.output.keys() == {"messages"}
    assert ran == []
    run = agent.stream_events(decide("approve"), thread(), version="v3")
    assert [made.tool_name for made in run.tool_calls] == ["write_file"]
    assert ran == [("write_file", "a", "")]


def test_a_rejected_call_is_none_of_the_tool_calls() -> None:
    agent, _ = office(call("write_file", {"path": "a"}), "Done.")
    agent.invoke(say("hi"), thread())
    run = agent.stream_events(decide("reject"), thread(), version="v3")
    assert list(run.tool_calls) == []
    assert run.output["messages"][-1].text == "Done."


async def test_an_async_run_can_be_read_by_several_at_once() -> None:
    run = await reader().astream_events(say("hi"), thread(), version="v3")

    async def texts() -> list[str]:
        return [await message.text async for message in run.messages]

    async def values() -> int:
        return len([each async for each in run.values])

    assert await asyncio.gather(texts(), values()) == [["I look.", "All rows."], 4]
    assert (await run.output())["messages"][-1].text == "All rows."
    assert not await run.interrupted()
    assert [(await message.output).text async for message in run.messages] == ["I look.", "All rows."]


async def test_tokens_of_an_async_run_come_as_they_are_made() -> None:
    run = await reader().astream_events(say("hi"), thread(), version="v3")
    async for message in run.messages:
        assert not message.done
        assert [part async for part in message.text]


def test_a_run_that_is_left_is_stopped_and_can_go_on() -> None:
    agent = reader()
    with agent.stream_events(say("hi"), thread(), version="v3") as run:
        next(iter(run.messages))
    assert agent.invoke(None, thread())["messages"][-1].text == "All rows."


def test_an_error_of_the_run_is_raised_by_whoever_reads() -> None:
    agent: Any = create_agent(ScriptedModel([]), checkpointer=InMemorySaver())
    run = agent.stream_events(say("hi"), thread(), version="v3")
    with pytest.raises(Exception, match="no more"):
        _ = run.output
