"""Parts that the tests of hooks share: recorded events in the agents' own words, and the command that they run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from assentry import Decision
from assentry.outside.hook.answer import HookOptions, answer_event
from assentry.outside.hook.dialect import HookReply
from assentry.outside.hook.known import AGENTS
from assentry.store import SQLiteStore, Store
from assentry.store.record import Question

SESSION = "29a7a5f2-db6b-49c4-a2fd-4128dd4185f1"


class Ended(NamedTuple):
    """A hook process that has ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> dict[str, Any]:
        """The decision, in the form of Claude Code and Codex."""
        found: dict[str, Any] = json.loads(self.out)["hookSpecificOutput"]
        return found


def claude(event: str, tool: str, arguments: dict[str, Any], call: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    """An event of Claude Code."""
    return {
        "session_id": SESSION,
        "transcript_path": "/home/ann/.claude/projects/shop/29a7.jsonl",
        "cwd": "/srv/shop",
        "prompt_id": "e9d499ad-ed97-489e-98d1-6f53e5389c3a",
        "permission_mode": "default",
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": arguments,
        "tool_use_id": call,
        **fields,
    }


def codex(event: str, tool: str, arguments: dict[str, Any], call: str = "call_1", **fields: Any) -> dict[str, Any]:
    """An event of Codex."""
    return {
        "session_id": SESSION,
        "turn_id": "turn-1",
        "transcript_path": None,
        "cwd": "/srv/shop",
        "hook_event_name": event,
        "model": "gpt-5.2-codex",
        "permission_mode": "default",
        "tool_name": tool,
        "tool_input": arguments,
        "tool_use_id": call,
        **fields,
    }


def cursor(event: str, tool: str, arguments: dict[str, Any], call: str = "tool_1", **fields: Any) -> dict[str, Any]:
    """An event of Cursor."""
    return {
        "conversation_id": SESSION,
        "generation_id": "gen-1",
        "model": "claude-sonnet-5",
        "hook_event_name": event,
        "cursor_version": "3.2.0",
        "workspace_roots": ["/srv/shop"],
        "user_email": "ann@example.com",
        "transcript_path": None,
        "tool_name": tool,
        "tool_input": arguments,
        "tool_use_id": call,
        **fields,
    }


async def begin(agent: str, *options: str, cwd: Path, env: dict[str, str] | None = None) -> asyncio.subprocess.Process:
    """Start the command that an agent runs, in an agent's way: in the project's folder."""
    words = ("-P", "-m", "assentry.cli", "hook", "run", agent, *options)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSENTRY_")}
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=cwd, env=kept | (env or {}), stdin=pipe, stdout=pipe, stderr=pipe
    )


async def run(
    agent: str, event: Any, *options: str, cwd: Path, env: dict[str, str] | None = None, raw: bytes | None = None
) -> Ended:
    """Run the command with an event, to its end."""
    process = await begin(agent, *options, cwd=cwd, env=env)
    out, err = await process.communicate(json.dumps(event).encode() if raw is None else raw)
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def answer(agent: str, event: Any, place: str, **options: Any) -> Ended:
    """Answer an event in this process."""
    given = HookOptions(**{"place": place, "source": AGENTS[agent].source, "wait": 0.01, **options})
    reply: HookReply = await answer_event(AGENTS[agent], json.dumps(event), given)
    return Ended(reply.code, reply.out.decode(), reply.words)


async def decided(agent: str, event: Any, place: str, store: Store, decision: Decision, **options: Any) -> Ended:
    """Answer an event in this process, while a person decides."""
    answering = asyncio.create_task(answer(agent, event, place, **{"wait": 60.0, **options}))
    await decide(store, decision)
    return await answering


async def asked(store: Store) -> Question:
    """Wait for the one open question of a store."""
    async with asyncio.timeout(60):
        while True:
            if found := (await store.questions()).items:
                return found[0]
            await asyncio.sleep(0.02)


async def decide(store: Store, decision: Decision, by: str = "ann") -> Question:
    """Decide on the one open question of a store, once there is one."""
    question = await asked(store)
    return await store.decide(question.id, decision, by=by, digest=question.digest)


@asynccontextmanager
async def made_store(path: Path) -> AsyncIterator[SQLiteStore]:
    """A store in a file, with its tables."""
    async with SQLiteStore(path) as store:
        await store.upgrade()
        yield store
