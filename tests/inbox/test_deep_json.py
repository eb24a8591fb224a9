"""JSON from outside that is nested too deeply is bad input, wherever it comes in: an error in words, and no crash."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import Agent, AssentryError, BadSignature, Runner, RunState, SigningKey, function_tool
from assentry.cli import main
from assentry.store import MemoryStore, open_store
from assentry.testing import ScriptedModel, call
from tests.inbox.office import ask, hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes
from tests.inbox.support import client
from tests.inbox.test_openapi import described
from tests.runtime.support import scripted, sending

__all__ = ["cheap_hashes"]  # a fixture

ROOT = Path(__file__).parent.parent.parent
READERS = {"DecodeError", "MsgspecError", "JSONDecodeError"}
"""The errors of those who read JSON and handle what is wrong with it."""
DEPTHS = [300, 600, 900, 980, 1_100, 100_000]


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def test_whoever_reads_json_handles_text_that_is_nested_too_deeply() -> None:
    """A parser raises `RecursionError`, which is none of its own errors; a new place that forgets it is found here."""
    forgot = []
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Try):
                named = {name for handler in node.handlers if handler.type for name in _names(handler.type)}
                if named & READERS and not named & {"RecursionError", "Exception", "BaseException"}:
                    forgot.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert forgot == []


def _names(node: ast.AST) -> set[str]:
    parts = (each for each in ast.walk(node) if isinstance(each, ast.Attribute | ast.Name))
    return {each.attr if isinstance(each, ast.Attribute) else each.id for each in parts}


@pytest.mark.parametrize("depth", DEPTHS)
async def test_no_route_of_the_api_takes_it(depth: int) -> None:
    store = MemoryStore()
    question = await ask(store, "Writer", call("write", {"text": "x"}))
    deep = objects(depth)
    bodies = [
        deep,
        lists(depth),
        f'{{"type": "edit", "arguments": {deep}}}',
        f'{{"decision": {{"type": "edit", "arguments": {deep}}}}}',
        f'{{"decision": {{"type": "approve"}}, "grant": {{"pins": {deep}}}}}',
        f'{{"agent": "Writer", "input": {lists(depth)}, "context": {deep}}}',
        f'{{"question": "{question.id}", "pins": {deep}}}',
    ]
    paths = [path for path, operations in described()["paths"].items() if "post" in operations]
    assert len(paths) > 2
    async with client(store, "root", "admin") as web:
        for path in paths:
            for body in bodies:
                where = path.replace("{id}", question.id).replace("{run}", question.run)
                headers = {"Content-Type": "application/json", "If-Match": f'"{question.digest}"'}
                answer = await web.post(where, content=body, headers=headers)
                assert 400 <= answer.status_code < 500, (path, body[:60], answer.text[:200])
        for path in ("/api/questions", "/api/runs"):
            answer = await web.get(path, params={"after": lists(min(depth, 1_200))})
            assert answer.status_code == 422
    assert (await store.question(question.id)).decided is None


@pytest.mark.usefixtures("cheap_hashes")
@pytest.mark.parametrize("depth", DEPTHS)
async def test_the_page_says_so(depth: int) -> None:
    store = MemoryStore()
    await hire(store)
    question = await ask(store, "Writer", call("write", {"text": "x"}))
    fields = {"type": "edit", "digest": question.digest, "arguments": objects(depth)}
    async with Reader(make_app(store)) as reader:
        await reader.open(f"/questions/{question.id}/edit?json=1")
        csrf = reader.page.button("Check the change")[0].values["csrf"]
        for step in ("edit", "decision", "review"):
            await reader.send(f"/questions/{question.id}/{step}", {**fields, "csrf": csrf, "json": objects(depth)})
            assert reader.answer.status_code < 500
    assert (await store.question(question.id)).decided is None


@pytest.mark.parametrize("depth", DEPTHS)
async def test_a_model_that_writes_it_is_told(depth: int) -> None:
    class Answer(BaseModel):
        any: Any

    send, sent = sending()

    @function_tool(strict_mode=False)
    async def keep(value: dict[str, Any]) -> str:
        return "kept"

    for text in (objects(depth), lists(depth), f'{{"to": {lists(depth)}}}'):
        result = await Runner.run(scripted(call("send", text), "Done.", tools=[send]), "Go.")
        assert result.final_output == "Done." and sent == []
    result = await Runner.run(scripted(call("keep", f'{{"value": {objects(depth)}}}'), "Done.", tools=[keep]), "Go.")
    assert result.final_output == "Done."
    with contextlib.suppress(AssentryError):
        model = ScriptedModel([f'{{"any": {lists(depth)}}}'] * 5)
        await Runner.run(Agent(name="A", model=model, output_type=Answer), "Go.")


@pytest.mark.parametrize("depth", DEPTHS)
async def test_a_saved_run_with_it_is_refused(depth: int) -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[send])
    key = SigningKey("k", b"a secret of 32 random bytes, say")
    text = (await Runner.run(agent, "Go.")).to_state().to_string(key=key)
    for bad in (f'{text[:-1]},"more":{lists(depth)}}}', f'{text[:-1]},"context":{lists(depth)}}}', lists(depth)):
        with pytest.raises(BadSignature):
            await RunState.from_string(agent, bad, keys=[key])
        with contextlib.suppress(AssentryError):
            await RunState.from_string(agent, bad)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_command_line_says_so(depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(tmp_path / "runs.db")

    async def begin() -> Any:
        send, _ = sending(needs_approval=True)
        async with open_store(where) as store:
            result = await Runner.run(scripted(call("send", {"to": "ann"}), tools=[send]), "Go.", store=store)
            return result.interruptions[0]

    item, deep = asyncio.run(begin()), tmp_path / "deep.json"
    deep.write_text(lists(depth) + "\n")
    more = ("--store", where, "--by", "ann", "--digest", item.digest)
    for words in (
        ("edit", item.id, "--arguments", objects(depth), *more),
        ("grants", "give", item.id, "--pin", objects(depth), *more),
        ("audit", "verify", str(deep)),
        ("db", "verify", where, "--against", str(deep)),
    ):
        try:
            code = main(words)
        except SystemExit as left:
            code = int(str(left.code))
        out, err = capsys.readouterr()
        assert code != 0 and err + out, words[:2]
        assert "Traceback" not in err


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_seal_with_it_is_refused(depth: int) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from assentry.inbox.audit import read_seal

    key = Ed25519PrivateKey.generate().public_key()
    for text in (lists(depth), f'{{"type": "assentry.seal", "heads": {lists(depth)}}}', json.dumps({"x": 1})):
        with pytest.raises(AssentryError):
            read_seal(text.encode(), key)
