"""The hook in front of an inbox that runs: its rules, its people, and a token that may only ask."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import assentry.inbox
from assentry import Approve, Edit, Reject
from assentry.store.calls import look_at_call
from tests.inbox.support import Tokens, served

from .support import answer, asked, claude, decide, made_store, run

RULES = '[[rule]]\nname = "look"\nverdict = "allow"\ntool = "Bash"\ncommands = ["ls"]\n'
PUSH = {"command": "git push"}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return file


async def test_the_inboxs_rules_let_a_call_pass_and_its_end_is_reported(tmp_path: Path, rules: Path) -> None:
    token = tmp_path / "token"
    token.write_text("laptop:agent:\n")
    token.chmod(0o600)
    async with (
        made_store(tmp_path / "runs.db") as store,
        served(assentry.inbox.app(store, Tokens(), rules=rules)) as at,
    ):
        options = ("--server", at, "--token-file", str(token))
        ended = await run("claude", claude("PreToolUse", "Bash", {"command": "ls"}), *options, cwd=tmp_path)
        assert (ended.code, ended.said["permissionDecision"], ended.err) == (0, "allow", "")
        told = claude("PostToolUse", "Bash", {"command": "ls"}, tool_response={"stdout": "a.txt"})
        assert await run("claude", told, *options, cwd=tmp_path) == (0, "", "")
        [record] = (await store.runs()).items
        status = await look_at_call(store, record.id, by="laptop")
        assert (status.state, status.by, status.source) == ("finished", "rule:look", "claude-code")


async def test_a_person_decides_in_the_inbox_while_the_agent_waits(tmp_path: Path, rules: Path) -> None:
    async with (
        made_store(tmp_path / "runs.db") as store,
        served(assentry.inbox.app(store, Tokens(), rules=rules)) as at,
    ):
        env = {"ASSENTRY_SERVER": at, "ASSENTRY_TOKEN": "laptop:agent:"}
        event = claude("PreToolUse", "Bash", PUSH)
        waiting = asyncio.create_task(run("claude", event, "--wait", "60", cwd=tmp_path, env=env))
        await asked(store)
        await decide(store, Edit(arguments={"command": "git push --dry-run"}))
        ended = await waiting
        assert ended.said["permissionDecision"] == "allow"
        assert ended.said["updatedInput"] == {"command": "git push --dry-run"}


@pytest.mark.parametrize("token", ["ann:viewer:", "ann:reviewer:", ":", "nonsense", "übel"])
async def test_a_token_that_may_not_ask_lets_nothing_pass(tmp_path: Path, rules: Path, token: str) -> None:
    async with (
        made_store(tmp_path / "runs.db") as store,
        served(assentry.inbox.app(store, Tokens(), rules=rules)) as at,
    ):
        ended = await answer("claude", claude("PreToolUse", "Bash", {"command": "ls"}), at, token=token)
        assert (ended.code, ended.out) == (2, "")
        assert (await store.runs()).items == []


async def test_what_answers_is_no_inbox_and_nothing_passes(tmp_path: Path) -> None:
    async def something(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b'{"permission": "allow"}'})  # type: ignore[operator]

    async with served(something) as at:
        ended = await answer("claude", claude("PreToolUse", "Bash", PUSH), at, token="t")
        assert (ended.code, ended.out) == (2, "")


async def test_the_one_who_asks_never_decides(tmp_path: Path, rules: Path) -> None:
    async with (
        made_store(tmp_path / "runs.db") as store,
        served(assentry.inbox.app(store, Tokens(), rules=rules)) as at,
    ):
        event = claude("PreToolUse", "Bash", PUSH)
        waiting = asyncio.create_task(answer("claude", event, at, token="laptop:agent:", wait=60.0))
        with pytest.raises(assentry.Forbidden):
            await decide(store, Approve(), by="laptop:claude-code")
        await decide(store, Reject())
        await waiting
