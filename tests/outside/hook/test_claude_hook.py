"""The command that Claude Code runs, with events as Claude Code writes them, over a real store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assentry import Approve, Edit, Reject, Respond
from assentry.store.call_status import CallStatus
from assentry.store.calls import look_at_call

from .support import SESSION, answer, asked, begin, claude, decide, decided, made_store, run

RULES = """
[[rule]]
name = "look"
verdict = "allow"
tool = "Bash"
commands = ["git status", "ls"]

[[rule]]
name = "never"
verdict = "deny"
tool = "WebFetch"
reason = "Nothing leaves this machine."
"""
STATUS = {"command": "git status", "description": "See what changed"}
PUSH = {"command": "git push", "description": "Publish"}


async def status_of(store: Any) -> CallStatus:
    """The one call of a store."""
    [record] = (await store.runs()).items
    return await look_at_call(store, record.id, by="claude-code")


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "runs.db")


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    return str(file)


# -- the command itself ------------------------------------------------------------------------------------


async def test_a_call_that_a_rule_allows_passes_and_is_recorded_from_start_to_end(
    tmp_path: Path, db: str, rules: str
) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        options = ("--store", db, "--rules", rules)
        ended = await run("claude", claude("PreToolUse", "Bash", STATUS), *options, cwd=tmp_path)
        assert (ended.code, ended.err) == (0, "")
        assert ended.said["hookEventName"] == "PreToolUse"
        assert ended.said["permissionDecision"] == "allow"
        assert "updatedInput" not in ended.said
        status = await status_of(store)
        assert (status.state, status.by, status.tool, status.arguments) == ("running", "rule:look", "Bash", STATUS)
        told = claude("PostToolUse", "Bash", STATUS, tool_response={"stdout": "clean", "stderr": ""}, duration_ms=13)
        assert await run("claude", told, *options, cwd=tmp_path) == (0, "", "")
        status = await status_of(store)
        assert (status.state, status.output) == ("finished", {"stdout": "clean", "stderr": ""})


async def test_a_person_decides_while_the_agent_waits(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        event = claude("PreToolUse", "Bash", PUSH)
        waiting = asyncio.create_task(run("claude", event, "--store", db, "--wait", "60", cwd=tmp_path))
        question = await asked(store)
        assert not waiting.done()
        assert question.agent == "claude-code"
        await decide(store, Approve())
        ended = await waiting
        assert (ended.code, ended.said["permissionDecision"]) == (0, "allow")
        assert (await status_of(store)).by == "ann"


async def test_nobody_decides_in_time_and_the_call_is_denied_and_its_question_is_over(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        ended = await run("claude", claude("PreToolUse", "Bash", PUSH), "--store", db, "--wait", "0.1", cwd=tmp_path)
        assert (ended.code, ended.said["permissionDecision"]) == (0, "deny")
        status = await status_of(store)
        assert (status.state, status.by) == ("rejected", "deadline")
        assert (status.question or "nothing") in ended.said["permissionDecisionReason"]
        assert "It has not run, and this call will not." in ended.said["permissionDecisionReason"]
        assert (await store.questions()).items == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
async def test_a_hook_that_is_told_to_end_denies(tmp_path: Path, db: str, name: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        process = await begin("claude", "--store", db, "--wait", "60", cwd=tmp_path)
        assert process.stdin is not None
        process.stdin.write(json.dumps(claude("PreToolUse", "Bash", PUSH)).encode())
        process.stdin.close()
        await asked(store)
        process.send_signal(getattr(signal, name))
        out, err = await process.communicate()
        assert (process.returncode, out) == (2, b"")
        assert b"Nothing is allowed" in err


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"null", b"\xff", b'{"hook_event_name": "PreToolUse"}',
        json.dumps(claude("PreToolUse", "Bash", STATUS) | {"tool_input": "ls"}).encode(),
        json.dumps(claude("PreToolUse", "Bash", STATUS) | {"tool_use_id": None}).encode(),
        json.dumps(claude("PreToolUse", "Bash", STATUS) | {"tool_use_id": ""}).encode(),
        json.dumps(claude("PreToolUse", "Bash", STATUS) | {"session_id": ""}).encode(),
        json.dumps(claude("BeforeEverything", "Bash", STATUS)).encode(),
        json.dumps(claude("PreToolUse", "Bash", STATUS)).encode().replace(b'"cwd"', b'"tool_name": "Read", "cwd"'),
    ],
)  # fmt: skip
async def test_what_cannot_be_read_is_denied_with_exit_code_2(tmp_path: Path, raw: bytes, rules: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        ended = await run("claude", None, "--store", str(tmp_path / "runs.db"), "--rules", rules, cwd=tmp_path, raw=raw)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.strip()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "Give --store or --server"),
        (("--store", "nothing.db"), "There is no file"),
        (("--store", "runs.db", "--server", "http://127.0.0.1:9"), "not both"),
        (("--store", "runs.db", "--rules", "nothing.toml"), "cannot be read"),
        (("--server", "http://127.0.0.1:9"), "needs a token"),
        (("--store", "runs.db", "--wait", "0"), "--wait is above 0"),
        (("--store", "runs.db", "--no-such-option"), "unrecognized arguments"),
    ],
)
async def test_a_hook_that_cannot_work_denies(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        ended = await run("claude", claude("PreToolUse", "Bash", STATUS), *options, cwd=tmp_path)
        assert (ended.code, ended.out) == (2, "")
        assert words in ended.err
        assert not (tmp_path / "nothing.db").exists()


async def test_an_inbox_that_is_away_lets_nothing_pass(tmp_path: Path) -> None:
    env = {"ASSENTRY_TOKEN": "t", "ASSENTRY_SERVER": "http://127.0.0.1:9"}
    ended = await run("claude", claude("PreToolUse", "Bash", STATUS), "--wait", "1", cwd=tmp_path, env=env)
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be reached" in ended.err


async def test_files_of_the_project_are_not_imported(tmp_path: Path, db: str, rules: str) -> None:
    for name in ("json", "asyncio", "msgspec", "assentry"):
        (tmp_path / f"{name}.py").write_text("import os\nos._exit(0)\n")
    async with made_store(tmp_path / "runs.db"):
        ended = await run("claude", claude("PreToolUse", "WebFetch", {}), "--store", db, "--rules", rules, cwd=tmp_path)
    assert ended.said["permissionDecision"] == "deny"
    assert "Nothing leaves this machine." in ended.said["permissionDecisionReason"]


# -- what the answers are ----------------------------------------------------------------------------------


async def test_an_edit_is_an_allow_with_the_persons_arguments(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        event = claude("PreToolUse", "Bash", PUSH)
        changed = {"command": "git push --dry-run", "description": "Publish"}
        ended = await decided("claude", event, db, store, Edit(arguments=changed))
        assert (await answer("claude", event, db)).said == ended.said  # again, as after a restart of the hook
        assert ended.said["permissionDecision"] == "allow"
        assert ended.said["updatedInput"] == changed
        assert ended.said["additionalContext"] == (
            "A person changed this call before it ran. What ran was: "
            'Bash {"command":"git push --dry-run","description":"Publish"}'
        )
        told = claude("PostToolUse", "Bash", changed, tool_response="Everything up-to-date")
        assert await answer("claude", told, db) == (0, "", "")
        assert (await status_of(store)).state == "finished"


async def test_a_rejection_is_told_with_the_persons_words(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        event = claude("PreToolUse", "Bash", PUSH)
        ended = await decided("claude", event, db, store, Reject("Not on a Friday."))
        assert (ended.code, ended.said["permissionDecision"]) == (0, "deny")
        assert ended.said["permissionDecisionReason"] == "Bash was refused by ann: Not on a Friday."


async def test_an_answer_in_the_tools_place_is_told_and_nothing_runs(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        event = claude("PreToolUse", "Bash", PUSH)
        ended = await decided("claude", event, db, store, Respond({"branch": "main"}))
        assert ended.said["permissionDecision"] == "deny"
        reason = ended.said["permissionDecisionReason"]
        assert reason == 'Bash did not run. ann answered in its place: {"branch":"main"}'


async def test_a_call_that_has_ended_does_not_run_again(tmp_path: Path, db: str, rules: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        event, options = claude("PreToolUse", "Bash", STATUS), {"rules": rules}
        assert (await answer("claude", event, db, **options)).said["permissionDecision"] == "allow"
        assert (await answer("claude", event, db, **options)).said[
            "permissionDecision"
        ] == "allow"  # two hooks, one call
        await answer("claude", claude("PostToolUse", "Bash", STATUS, tool_response=""), db, **options)
        assert (await answer("claude", event, db, **options)).said["permissionDecision"] == "deny"


async def test_the_same_id_with_other_arguments_is_denied(tmp_path: Path, db: str, rules: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        await answer("claude", claude("PreToolUse", "Bash", STATUS), db, rules=rules)
        ended = await answer("claude", claude("PreToolUse", "Bash", {"command": "ls"}), db, rules=rules)
        assert (ended.code, ended.out) == (2, "")


async def test_the_agent_asks_its_own_user_only_if_told_to(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db"):
        event = claude("PreToolUse", "Bash", PUSH)
        assert (await answer("claude", event, db, undecided="ask")).said["permissionDecision"] == "ask"
        assert (await answer("claude", event, db)).said["permissionDecision"] == "deny"


async def test_the_agents_words_its_session_and_its_server_are_in_the_question(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        event = claude("PreToolUse", "mcp__github__create_issue", {"title": "x", "description": "I report the bug."})
        await decided("claude", event, db, store, Reject())
        [question] = (await store.questions(settled=True)).items
        assert (question.agent, question.tool) == ("claude-code", "mcp__github__create_issue")
        facts = msgspec.json.encode((await store.read(question.run)).facts).decode()
        assert f"claude-code/{SESSION}" in facts
        assert facts.count("I report the bug.") == 2  # what the agent says, and an argument


# -- the end of a call -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (claude("PostToolUseFailure", "Bash", STATUS, error="Exit code 1", is_interrupt=False), "Exit code 1"),
        (claude("PostToolUseFailure", "Bash", STATUS, error="stop", is_interrupt=True), "Interrupted: stop"),
        (claude("PermissionDenied", "Bash", STATUS, reason="not safe"), "own permissions refused it. not safe"),
    ],
)
async def test_a_failure_and_a_refusal_of_the_agents_own_are_reported(
    tmp_path: Path, db: str, rules: str, event: dict[str, Any], words: str
) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        await answer("claude", claude("PreToolUse", "Bash", STATUS), db, rules=rules)
        assert await answer("claude", event, db) == (0, "", "")
        status = await status_of(store)
        assert status.state == "failed"
        assert words in (status.error or "")


async def test_the_end_of_a_call_that_nobody_asked_about_is_no_news(tmp_path: Path, db: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        assert await answer("claude", claude("PostToolUse", "Bash", STATUS, tool_response=""), db) == (0, "", "")
        assert (await store.runs()).items == []


async def test_a_report_that_cannot_be_made_does_not_stop_the_agent(tmp_path: Path) -> None:
    told = claude("PostToolUse", "Bash", STATUS, tool_response="")
    ended = await answer("claude", told, str(tmp_path / "gone.db"))
    assert (ended.code, ended.out) == (1, "")
    assert "could not be reported" in ended.err


async def test_other_arguments_than_were_approved_are_found_out_and_kept(tmp_path: Path, db: str, rules: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        await answer("claude", claude("PreToolUse", "Bash", STATUS), db, rules=rules)
        told = claude("PostToolUse", "Bash", {"command": "rm -rf src"}, tool_response="")
        ended = await answer("claude", told, db)
        assert ended.code == 1
        assert "other arguments than were approved" in ended.err
        status = await status_of(store)
        assert status.state == "failed"
        assert b"rm -rf src" in msgspec.json.encode((await store.read(status.id)).facts)


@pytest.mark.parametrize("tool", ["Read", "Grep", "Edit"])
async def test_of_a_files_content_only_the_size_is_kept(tmp_path: Path, db: str, tool: str) -> None:
    allow = tmp_path / "all.toml"
    allow.write_text('[[rule]]\nname = "all"\nverdict = "allow"\n')
    async with made_store(tmp_path / "runs.db") as store:
        arguments = {"pattern": "x", "path": "/srv/shop"} if tool == "Grep" else {"file_path": "/srv/shop/a.txt"}
        await answer("claude", claude("PreToolUse", tool, arguments), db, rules=str(allow))
        told = claude("PostToolUse", tool, arguments, tool_response={"file": {"content": "password=hunter2"}})
        await answer("claude", told, db)
        status = await status_of(store)
        assert status.state == "finished"
        assert "hunter2" not in repr(status.output)


async def test_a_long_output_is_kept_in_part(tmp_path: Path, db: str, rules: str) -> None:
    async with made_store(tmp_path / "runs.db") as store:
        await answer("claude", claude("PreToolUse", "Bash", STATUS), db, rules=rules)
        await answer("claude", claude("PostToolUse", "Bash", STATUS, tool_response={"stdout": "x" * 50_000}), db)
        output = (await status_of(store)).output
        assert 1000 < len(output) < 3000
        assert "50013 characters" in output


# -- files -------------------------------------------------------------------------------------------------


async def test_a_file_that_changed_since_it_was_shown_is_not_changed(tmp_path: Path, db: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    async with made_store(tmp_path / "runs.db") as store:
        arguments = {"file_path": str(file), "content": "new\n"}
        event = claude("PreToolUse", "Write", arguments, cwd=str(tmp_path))
        waiting = asyncio.create_task(answer("claude", event, db, wait=60.0))
        await asked(store)
        file.write_text("somebody else's work\n")
        await decide(store, Approve())
        ended = await waiting
        assert ended.said["permissionDecision"] == "deny"
        assert "has changed since it was shown" in ended.said["permissionDecisionReason"]
        assert (await status_of(store)).state == "failed"


async def test_a_path_is_judged_where_it_leads_and_given_back_so(tmp_path: Path, db: str) -> None:
    project, secret = tmp_path / "project", tmp_path / "secret"
    (project / "in").mkdir(parents=True)
    secret.mkdir()
    (secret / "key.txt").write_text("k")
    os.symlink(secret, project / "link")
    (project / "a.txt").write_text("a")
    rules = tmp_path / "rules.toml"
    where = json.dumps(str(project))
    rules.write_text(
        f'[[rule]]\nname = "read"\nverdict = "allow"\ntool = "Read"\nwhere = {{ file_path = {{ under = {where} }} }}\n'
    )
    async with made_store(tmp_path / "runs.db"):
        for number, (path, decision) in enumerate(
            [
                (f"{project}/a.txt", "allow"),
                (f"{project}/in/../a.txt", "allow"),
                ("a.txt", "allow"),
                (f"{project}/../secret/key.txt", "deny"),
                (f"{project}/link/key.txt", "deny"),
                ("link/key.txt", "deny"),
                ("../project/link/../secret/key.txt", "deny"),
            ]
        ):
            event = claude("PreToolUse", "Read", {"file_path": path}, f"toolu_{number}", cwd=str(project))
            ended = await answer("claude", event, db, rules=str(rules))
            assert ended.said["permissionDecision"] == decision, path
            if decision == "allow":
                told = ended.said.get("updatedInput", {"file_path": path})
                assert told == {"file_path": str(project / "a.txt")}
