"""A saved run in which any value is another: what comes of it is an error of Assentry's, if one does."""

import json
import logging
import warnings
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from assentry import Agent, ModelRequest, ModelResponse, RunConfig, Runner, RunState, Usage
from assentry.errors import InvalidDecision, UnreadableState
from assentry.testing import ScriptedModel
from tests.runtime.damaged import MAKERS, OTHERS, damaged, tried, ways
from tests.runtime.support import soon

EACH = 6
"""How many other values are tried for each value of a saved run, beside its absence."""


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_saved_run_with_another_value_in_it_raises_nothing_but_errors_of_assentry(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent, data = await MAKERS[kind]()
    caplog.set_level(logging.CRITICAL)
    chance, number = Random(kind), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        await tried(agent, json.dumps(data), 0)
        for way in ways(data):
            for other in [..., *chance.sample(OTHERS, EACH)]:
                number += 1
                try:
                    await soon(tried(agent, damaged(data, way, other), number))
                except BaseException as error:
                    error.add_note(f"{kind}: {way} was {other!r:.60}")
                    raise


async def test_a_question_whose_schema_is_no_object_cannot_be_loaded() -> None:
    agent, data = await MAKERS["asking"]()
    [asked] = [fact for fact in data["journal"] if fact["fact"] == "asked"][-1:]
    for schema in ("x", None, [], 5, True):
        asked["schema"] = schema
        with pytest.raises(UnreadableState):
            await RunState.from_json(agent, data)
        with pytest.raises(UnreadableState):
            RunState.peek(json.dumps(data))


async def test_a_question_whose_schema_is_no_schema_takes_no_answer_and_can_be_rejected() -> None:
    agent, data = await MAKERS["asking"]()
    [asked] = [fact for fact in data["journal"] if fact["fact"] == "asked"][-1:]
    for schema in ({"type": 5}, {"$ref": "#/nowhere"}, {"$ref": 5}, {"pattern": "("}, {"properties": "x"}):
        asked["schema"] = schema
        state = await RunState.from_json(agent, data)
        [item] = state.get_interruptions()
        with pytest.raises(InvalidDecision):
            state.respond(item, {"town": "Bonn"} if "properties" in schema else "Bonn", by="ann")
        state.reject(item, by="ann")
        result = await Runner.run(agent, state, run_config=RunConfig(model=ScriptedModel(["done"])))
        assert result.final_output == "done"


class Odd:
    """A model whose message has this content."""

    name = "odd"

    def __init__(self, content: Any) -> None:
        self.content = content

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield ModelResponse([{"type": "message", "role": "assistant", "content": self.content}], Usage(requests=1), "r")


@pytest.mark.parametrize(
    "content", [5, {"text": "x"}, ["x"], [{"text": 5}], [{"type": "refusal", "refusal": 5}], None, [None]], ids=str
)
async def test_a_reply_whose_content_is_no_text_ends_a_run_without_text(content: Any) -> None:
    assert (await Runner.run(Agent("agent", model=Odd(content)), "go")).final_output == ""
