"""What bodies give besides text: images and files, progress, and that they cannot know how they ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from assentry import (
    Happened,
    OutcomeUnknown,
    Runner,
    ToolCallOutputItem,
    ToolContext,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    ToolProgressEvent,
    function_tool,
)
from assentry.testing import call
from tests.runtime.support import heard, outcomes, reloaded, scripted, told

PIXEL = "data:image/png;base64,iVBORw0KGgo="


async def test_an_image_reaches_the_model_as_an_image() -> None:
    @function_tool
    async def draw() -> Any:
        """Draw."""
        return [ToolOutputText("A dot."), ToolOutputImage(PIXEL, detail="low"), ToolOutputFileContent(file_id="f1")]

    agent = scripted(call("draw", {}), "Seen.", tools=[draw])
    result = await Runner.run(agent, "go")
    assert heard(agent)[-1]["output"] == [
        {"type": "input_text", "text": "A dot."},
        {"type": "input_image", "image_url": PIXEL, "detail": "low"},
        {"type": "input_file", "file_id": "f1"},
    ]
    assert result.to_input_list()[-2]["output"][0]["type"] == "input_text"


IMAGE = {"type": "image", "image_url": PIXEL, "detail": "low"}


@pytest.mark.parametrize(
    ("output", "parts"),
    [
        (IMAGE, [{**IMAGE, "type": "input_image"}]),
        ([IMAGE], [{**IMAGE, "type": "input_image"}]),
        (
            (ToolOutputText("A dot."), IMAGE),
            [{"type": "input_text", "text": "A dot."}, {**IMAGE, "type": "input_image"}],
        ),
        ({"type": "text", "text": "A dot."}, [{"type": "input_text", "text": "A dot."}]),
        (
            {"type": "file", "file_url": "u", "filename": "f"},
            [{"type": "input_file", "file_url": "u", "filename": "f"}],
        ),
        ({"type": "image", "file_id": "f1", "more": 1}, [{"type": "input_image", "file_id": "f1"}]),
    ],
)
async def test_a_part_may_be_a_dict_also_after_a_reload(output: Any, parts: Any) -> None:
    @function_tool
    async def draw() -> Any:
        """Draw."""
        return output

    @function_tool(needs_approval=True)
    async def send() -> str:
        """Send."""
        return "sent"

    agent = scripted([call("draw", {}), call("send", {})], "Seen.", tools=[draw, send])
    result = await Runner.run(agent, "go")
    (given,) = (item for item in result.new_items if isinstance(item, ToolCallOutputItem))
    assert given.output == output and given.raw_item["output"] == parts
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state)
    assert heard(agent)[-2]["output"] == parts


@pytest.mark.parametrize(
    "output",
    [
        [{"type": "input_image", "image_url": PIXEL}],
        {"type": "image"},
        {"type": "image", "detail": "low"},
        {"type": "image", "image_url": 3},
        {"type": "image", "image_url": PIXEL, "detail": "huge"},
        {"type": "text"},
        {"type": "file", "filename": "f"},
        {"type": ["image"]},
        {"image_url": PIXEL},
        [IMAGE, "and text"],
        [],
    ],
)
async def test_a_value_that_only_looks_like_parts_is_text(output: Any) -> None:
    @function_tool
    async def draw() -> Any:
        """Draw."""
        return output

    agent = scripted(call("draw", {}), "Seen.", tools=[draw])
    await Runner.run(agent, "go")
    assert type(heard(agent)[-1]["output"]) is str


async def test_an_edited_call_that_gives_an_image_says_what_ran() -> None:
    @function_tool(needs_approval=True)
    async def draw(what: str) -> Any:
        """Draw."""
        return ToolOutputImage(PIXEL)

    agent = scripted(call("draw", {"what": "a"}), "Seen.", tools=[draw])
    state = (await Runner.run(agent, "go")).to_state()
    state.edit(state.get_interruptions()[0], {"what": "b"})
    await Runner.run(agent, await reloaded(agent, state))
    image, words = heard(agent)[-1]["output"]
    assert image["type"] == "input_image" and '{"what":"b"}' in words["text"]


@pytest.mark.parametrize("blocks", [False, True])
async def test_progress_is_an_event_and_never_part_of_the_run(blocks: bool) -> None:
    async def body(ctx: ToolContext[Any]) -> str:
        """Load."""
        ctx.progress(1, 2, "half")
        ctx.progress(2, 2)
        return "loaded"

    def blocking(ctx: ToolContext[Any]) -> str:
        """Load."""
        assert threading.current_thread() is not threading.main_thread()
        ctx.progress(1, 2, "half")
        ctx.progress(2, 2)
        return "loaded"

    load = function_tool(name_override="load")(blocking if blocks else body)
    agent = scripted(call("load", {}, "call_1"), "Done.", tools=[load])
    run = Runner.run_streamed(agent, "go")
    events = [event async for event in run.stream_events()]
    assert [event for event in events if isinstance(event, ToolProgressEvent)] == [
        ToolProgressEvent("load", "call_1", 1, 2, "half"),
        ToolProgressEvent("load", "call_1", 2, 2),
    ]
    assert "half" not in run.to_state().to_string()
    assert (await Runner.run(scripted(call("load", {}), "Done.", tools=[load]), "go")).final_output == "Done."


class Line:
    """A connection that is lost in the middle of a request, the first so many times."""

    def __init__(self, lost: int = 1, **options: Any) -> None:
        self.sent = 0

        @function_tool(**options)
        async def send(to: str) -> str:
            """Send."""
            self.sent += 1
            if self.sent <= lost:
                raise OutcomeUnknown("The connection was lost.")
            return f"sent to {to}"

        self.agent = scripted(call("send", {"to": "ann"}), "Done.", tools=[send])


async def test_a_body_that_cannot_know_its_outcome_is_a_doubt_for_a_person_and_never_repeated() -> None:
    line = Line()
    result = await Runner.run(line.agent, "go")
    [item] = result.interruptions
    assert item.kind == "doubt" and "The connection was lost." in item.reason and line.sent == 1
    state = await reloaded(line.agent, result.to_state())
    state.respond(state.get_interruptions()[0], "It arrived.")
    assert told(await Runner.run(line.agent, state)) == ["It arrived."]
    assert line.sent == 1


async def test_a_person_may_let_it_run_again() -> None:
    line = Line()
    state = (await Runner.run(line.agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    assert told(await Runner.run(line.agent, state)) == ["sent to ann"]
    assert line.sent == 2


async def test_an_idempotent_tool_is_tried_again_and_then_a_person_is_asked() -> None:
    line = Line(idempotent=True)
    assert told(await Runner.run(line.agent, "go")) == ["sent to ann"]
    line = Line(lost=9, idempotent=True)
    result = await Runner.run(line.agent, "go")
    assert (line.sent, result.interruptions[0].kind) == (3, "doubt")


async def test_a_probe_says_how_it_ended() -> None:
    line = Line(probe=lambda ctx, args: Happened("It arrived."))
    result = await Runner.run(line.agent, "go")
    assert told(result) == ["It arrived."] and outcomes(result)[0].by == "probe"
    line = Line(probe=lambda ctx, args: None)
    [item] = (await Runner.run(line.agent, "go")).interruptions
    assert "The connection was lost. Its probe" in item.reason
