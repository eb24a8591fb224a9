"""Each dialect against a real server, and the embedded model itself: what comes is valid, whatever it is."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import Agent, EmbeddedModel, ModelRequest, ModelResponse, ModelSettings, Runner
from assentry.models.delta import as_dict
from tests.models.shop_program import DIALECTS, model_of, shop
from tests.runtime.support import python

ROOT = Path(__file__).parent.parent.parent
BRIEF = ModelRequest(None, [{"role": "user", "content": "What is the capital of France?"}])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_streamed_call_waits_for_a_person_and_another_process_goes_on(
    dialect: str, embedded_server: str, tmp_path: Path
) -> None:
    result = Runner.run_streamed(shop(dialect, embedded_server), "Refund 45 dollars on order 7.")
    deltas: list[dict[str, Any]] = [
        event.data async for event in result.stream_events() if event.type == "raw_response_event"
    ]
    [question] = result.interruptions
    assert question.name in ("refund", "look_up") and "approve" in question.allowed  # its arguments fit its schema
    pieces = [
        each["delta"] for each in map(as_dict, deltas) if each["type"] == "response.function_call_arguments.delta"
    ]
    assert json.loads("".join(pieces)) == json.loads(question.arguments)
    usage = result.context_wrapper.usage
    assert usage.requests == 1 and usage.input_tokens and usage.output_tokens

    file = tmp_path / "run.json"
    file.write_text(result.to_state().to_string(), "utf-8")
    command = [sys.executable, "-m", "tests.models.shop_program", dialect, embedded_server, str(file)]
    ended = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    assert found["ran"] == [json.loads(question.arguments)]
    assert len(found["asked"]) == 1  # the model was told the output, and asks again, as it must


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_deltas_of_words_add_up_to_the_words(dialect: str, embedded_server: str) -> None:
    *deltas, reply = [each async for each in model_of(dialect, embedded_server).stream(BRIEF)]
    assert isinstance(reply, ModelResponse)
    [message] = reply.output
    shown = [each["delta"] for each in map(as_dict, deltas) if each["type"] == "response.output_text.delta"]
    assert "".join(shown) == message["content"][0]["text"] != ""
    assert reply.usage.output_tokens >= len(shown) > 1


class Town(BaseModel):
    name: str
    sights: list[str]
    people: int | None


@pytest.mark.usefixtures("embedded")
async def test_the_embedded_models_output_fits_its_type() -> None:
    result = await Runner.run(Agent("a", model="embedded", output_type=Town), "I live in Paris.")
    assert isinstance(result.final_output, Town)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.usefixtures("embedded")
def test_a_forked_child_has_an_embedded_engine_of_its_own_and_ends() -> None:
    code = """
        import os
        from assentry import Agent, ModelSettings, Runner
        agent = Agent("a", model="embedded", model_settings=ModelSettings(max_tokens=3))
        Runner.run_sync(agent, "Hello!")
        child = os.fork()
        print(type(Runner.run_sync(agent, "Hello!").final_output).__name__, flush=True)
        if child:
            assert os.waitpid(child, 0)[1] == 0
    """
    ended = python(inspect.cleandoc(code))
    assert (ended.returncode, ended.stdout) == (0, "str\nstr\n"), ended.stderr


@pytest.mark.usefixtures("embedded")
async def test_the_embedded_engine_stops_when_its_stream_is_closed() -> None:
    long = ModelRequest(
        None, [{"role": "user", "content": "Tell me a story."}], settings=ModelSettings(max_tokens=3000)
    )
    events = EmbeddedModel().stream(long)
    for _ in range(4):
        await anext(events)
    await events.aclose()  # type: ignore[attr-defined]
    *_, reply = [each async for each in EmbeddedModel().stream(BRIEF)]  # else it would wait for minutes
    assert isinstance(reply, ModelResponse)
