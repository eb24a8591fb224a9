"""Codex's and Cursor's hooks: what each of them takes for a yes and for a no."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from assentry import Approve, Edit, Reject
from assentry.store.calls import look_at_call

from .support import answer, codex, cursor, decided, made_store, run

ALL = '[[rule]]\nname = "all"\nverdict = "allow"\n'
LINE = {"command": "npm test"}


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "rules.toml"
    file.write_text(ALL)
    return str(file)


async def test_in_codex_a_call_passes_by_silence_and_its_end_is_recorded(tmp_path: Path, db: str, rules: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        options = ("--store", db, "--rules", rules)
        assert await run("codex", codex("PreToolUse", "Bash", LINE), *options, cwd=tmp_path) == (0, "", "")
        told = codex("PostToolUse", "Bash", LINE, tool_response="ok")
        assert await run("codex", told, *options, cwd=tmp_path) == (0, "", "")
        [record] = (await store.runs()).items
        assert (await look_at_call(store, record.id, by="codex")).state == "finished"


async def test_in_codex_an_edit_is_an_allow_and_a_refusal_has_a_reason(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        event = codex("PreToolUse", "Bash", LINE)
        said = (await decided("codex", event, db, store, Edit(arguments={"command": "npm test -- --ci"}))).said
        assert said["permissionDecision"] == "allow"
        assert said["updatedInput"] == {"command": "npm test -- --ci"}
        assert 'What ran was: Bash {"command":"npm test -- --ci"}' in said["additionalContext"]
        other = codex("PreToolUse", "Bash", LINE, "call_2")
        said = (await decided("codex", other, db, store, Reject("   "))).said
        assert said["permissionDecision"] == "deny"
        assert said["permissionDecisionReason"].strip()


async def test_codex_is_never_told_to_ask_as_it_would_go_on(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        event = codex("PreToolUse", "Bash", LINE)
        assert (await answer("codex", event, db, undecided="ask")).said["permissionDecision"] == "deny"
        ended = await run("codex", event, "--store", db, "--undecided", "ask", cwd=tmp_path)
        assert (ended.code, ended.out) == (2, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a file that takes nothing")
async def test_an_answer_that_cannot_be_written_is_a_refusal_with_words(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        program = [sys.executable, "-P", "-m", "assentry.cli", "hook", "run", "codex", "--store", db, "--wait", "0.01"]
        event = json.dumps(codex("PreToolUse", "Bash", LINE)).encode()
        pipe = asyncio.subprocess.PIPE
        line = f"{shlex.join(program)} > /dev/full"
        process = await asyncio.create_subprocess_shell(line, cwd=tmp_path, stdin=pipe, stderr=pipe)
        _, err = await process.communicate(event)
        assert process.returncode == 2
        assert b"the answer could not be written" in err


@pytest.mark.parametrize("agent", ["codex", "cursor"])
async def test_a_broken_event_is_denied(tmp_path: Path, db: str, agent: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        ended = await run(agent, None, "--store", db, cwd=tmp_path, raw=b"{")
        assert ended.code == 2
        assert ended.err.strip()


async def test_in_cursor_a_call_passes_by_an_explicit_permission(tmp_path: Path, db: str, rules: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        options = ("--store", db, "--rules", rules)
        ended = await run("cursor", cursor("preToolUse", "Shell", LINE), *options, cwd=tmp_path)
        assert (ended.code, json.loads(ended.out), ended.err) == (0, {"permission": "allow"}, "")
        told = cursor("postToolUseFailure", "Shell", LINE, error_message="no", failure_type="permission_denied")
        assert await run("cursor", told, *options, cwd=tmp_path) == (0, "", "")
        [record] = (await store.runs()).items
        status = await look_at_call(store, record.id, by="cursor")
        assert (status.state, status.error) == ("failed", "permission_denied: no")


async def test_in_cursor_an_edit_has_the_new_input_and_a_refusal_tells_both(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        event = cursor("preToolUse", "Shell", LINE, agent_message="I run the tests.")
        said = json.loads((await answer("cursor", event, db)).out)
        assert said["permission"] == "deny"
        assert "Nobody has decided in time" in said["agent_message"]
        assert said["user_message"] == said["agent_message"]
        other = event | {"tool_use_id": "tool_2"}
        said = json.loads((await decided("cursor", other, db, store, Edit(arguments={"command": "npm ci"}))).out)
        assert said == {"permission": "allow", "updated_input": {"command": "npm ci"}}


async def test_in_cursor_what_is_not_expected_is_denied_in_both_forms(tmp_path: Path) -> None:
    ended = await run("cursor", cursor("preToolUse", "Shell", LINE), "--store", "gone.db", cwd=tmp_path)
    assert ended.code == 2
    assert json.loads(ended.out)["permission"] == "deny"
    assert "There is no file" in ended.err


async def test_a_person_approves_for_each_agent(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        for agent, event in (
            ("codex", codex("PreToolUse", "apply_patch", {"command": "*** Begin Patch\n*** End Patch"})),
            ("cursor", cursor("preToolUse", "Delete", {"file_path": "/srv/shop/a.txt"})),
        ):
            ended = await decided(agent, event, db, store, Approve())
            assert (ended.code, "deny" in ended.out) == (0, False)
