"""The same inbox, command line and audit for runs on Temporal: real processes of `assentry`, and a real server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assentry import Agent, Approve, Reject, Runner, function_tool
from assentry.engines.temporal import TemporalRuns
from assentry.errors import AlreadyDecided, RunElsewhere, StoreFailed
from assentry.store import MemoryStore, SQLiteStore
from assentry.testing import ScriptedModel, call

from .support import Server, free_port, tool_agent, working

pytestmark = pytest.mark.temporal

AGENTS = '''
from assentry import Agent, function_tool
from assentry.testing import ScriptedModel, call

@function_tool(needs_approval=True)
async def refund(order_id: int, amount: float = 5.0) -> str:
    """Give a customer money back."""
    with open("effects", "a") as file:
        file.write(f"{order_id} {amount}\\n")
    return f"Refunded {amount:.2f}."

def answer(request):
    done = sum(item.get("type") == "function_call_output" for item in request.input)
    return call("refund", {"order_id": done + 1}) if done < 3 else "Done."

agents = [Agent(name="Shop", tools=[refund], model=ScriptedModel([answer] * 1000))]
'''


async def assentry(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run a command of the command line to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "assentry.cli", *words, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@asynccontextmanager
async def running(folder: Path, says: str, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command that goes on, once it has said that it does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "assentry.cli", *words, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    heard = ""
    try:
        while says not in heard:
            line = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
            assert line, f"it ended: {heard}"
            heard += line
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def test_the_inbox_and_the_command_line_decide_in_workflows(temporal: Server, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(AGENTS)
    place, port = ("--store", "runs.db"), free_port()
    await temporal.client()
    _, token, _ = await assentry(tmp_path, "tokens", "add", "ann", "--role", "reviewer", *place)
    ann = {"Authorization": f"Bearer {token.split()[-1]}"}
    _, token, _ = await assentry(tmp_path, "tokens", "add", "cid", "--role", "admin", *place)
    cid = {"Authorization": f"Bearer {token.split()[-1]}"}
    worker = ("temporal", "worker", "shop:agents", "--address", temporal.address, "--task-queue", "assentry", *place)
    serve = ("serve", "--port", str(port), "--temporal", temporal.address, *place)
    base = f"http://127.0.0.1:{port}"
    async with running(tmp_path, "at work", *worker), running(tmp_path, "inbox is at", *serve):  # noqa: SIM117
        async with httpx.AsyncClient(base_url=base, timeout=30) as http:
            begun = await http.post("/api/runs", json={"agent": "Shop", "input": "Refund me."}, headers=cid)
            assert begun.status_code in (200, 201, 202), begun.text
            run = begun.json()["id"]
            question = await _question(http, ann)
            assert question["run"] == run and question["tool"] == "refund"
            decided = await decide(http, ann, question, {"type": "approve"})
            assert decided.status_code == 200, decided.text
            assert (decided.json()["verdict"], decided.json()["by"]) == ("approve", "ann")
            late = await decide(http, ann, question, {"type": "reject"})
            assert late.status_code == 409 and "ann" in late.text

            second = await _question(http, ann)
            code, _, said = await assentry(
                tmp_path, "edit", second["id"], "--arguments", '{"order_id": 9, "amount": 1.5}', "--by", "ann",
                "--digest", second["digest"], *place,
            )  # fmt: skip
            assert code == 1 and "--temporal" in said  # the store has only a copy
            code, out, said = await assentry(
                tmp_path, "edit", second["id"], "--arguments", '{"order_id": 9, "amount": 1.5}', "--by", "ann",
                "--digest", second["digest"], "--temporal", temporal.address, *place,
            )  # fmt: skip
            assert code == 0 and "edit by ann" in out, said

            third = await _question(http, ann)
            given = await decide(http, ann, third, {"type": "reject", "message": "Enough."})
            assert given.status_code == 200, given.text
            runs = TemporalRuns(await temporal.client())
            assert await runs.get(run).result() == "Done."
    assert (tmp_path / "effects").read_text() == "1 5.0\n9 1.5\n"
    code, out, said = await assentry(tmp_path, "db", "verify", "runs.db")
    assert code == 0, said
    code, out, said = await assentry(tmp_path, "audit", "export", "--out", "audit.jsonl", *place)
    assert code == 0, said
    code, out, said = await assentry(tmp_path, "audit", "verify", "--file", "audit.jsonl")
    assert code == 0, said


async def decide(http: httpx.AsyncClient, who: dict[str, str], question: Any, decision: Any) -> httpx.Response:
    shown = {**who, "If-Match": f'"{question["digest"]}"'}
    return await http.post(f"/api/questions/{question['id']}/decision", json=decision, headers=shown)


async def _question(http: httpx.AsyncClient, who: dict[str, str]) -> dict[str, Any]:
    for _ in range(600):
        page = (await http.get("/api/questions", headers=who)).json()
        if page["items"]:
            found: dict[str, Any] = page["items"][0]
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("nothing was asked")


@function_tool(needs_approval=True)
async def wipe(disk: str) -> str:
    return f"{disk} is empty"


def admin(*script: Any) -> Agent[Any]:
    return tool_agent(ScriptedModel([call("wipe", {"disk": "sda"}), *script]), wipe, name="Admin")


async def test_a_store_without_the_way_to_the_engine_refuses(temporal: Server, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        agent = admin("Done.")
        async with working(await temporal.client(), agent, store) as runs:
            run = await runs.start("Admin", "Make room.")
            asked = (await run.settled()).questions[0]
            for work in (
                store.decide(asked.id, Approve(), by="ann", digest=asked.digest),
                store.cancel(run.id, by="ann"),
                store.say(run.id, "Hello?"),
            ):
                with pytest.raises(RunElsewhere, match="another engine"):
                    await work
            with pytest.raises(RunElsewhere, match="workflow on temporal"):  # a copy is not driven here, ever
                await Runner.run(agent, await store.load(run.id))
            assert await store.claim("w", agents=None, hold=10, limit=10) == []
            assert await store.lost() == []
            store.engine = runs
            await store.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            assert await run.result() == "Done."


async def test_a_decision_reaches_the_workflow_though_the_copy_is_behind(temporal: Server, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:  # noqa: SIM117
        async with working(await temporal.client(), admin("Done."), store) as runs:
            run = await runs.start("Admin", "Make room.")
            asked = (await run.settled()).questions[0]
            behind = MemoryStore()  # it has not heard of anything
            behind.engine = runs
            with pytest.raises(StoreFailed, match="is recorded"):
                await behind.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            with pytest.raises(AlreadyDecided, match="ann"):
                await behind.decide(asked.id, Reject(), by="bob", digest=asked.digest)
            assert await run.result() == "Done."


@pytest.mark.parametrize("nested", [False, True])
async def test_a_stop_in_the_store_keeps_a_workflow_out_of_its_bodies_until_it_is_lifted(
    temporal: Server, tmp_path: Path, nested: bool
) -> None:
    wiped: list[str] = []

    @function_tool(needs_approval=True)
    async def erase(disk: str) -> str:
        wiped.append(disk)
        return f"{disk} is empty"

    agent = tool_agent(ScriptedModel([call("erase", {"disk": "sda"}), "Done."]), erase, name="Admin")
    if nested:
        admin = agent.as_tool("admin", "Looks after the disks.")
        agent = tool_agent(ScriptedModel([call("admin", {"input": "Make room."}), "Done."]), admin, name="Lead")
    async with SQLiteStore(tmp_path / "runs.db") as store:  # noqa: SIM117
        async with working(await temporal.client(), agent, store) as runs:
            run = await runs.start(agent.name, "Make room.")
            asked = (await run.settled()).questions[0]
            stop = await store.stop("Admin", by="otto", why="It wipes the wrong disk.")
            store.engine = runs
            await store.decide(asked.id, Approve(), by="ann", digest=asked.digest)
            async with asyncio.timeout(60):
                while not any(each.fact["fact"] == "left" for each in await store.history(run.id)):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert not wiped
            await store.lift(stop.id, by="otto")
            assert await run.result() == "Done."
            assert wiped == ["sda"]


async def test_runs_are_found_by_their_search_attributes(temporal: Server, tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        client = await temporal.client()
        async with working(client, admin("Done."), store, queue="searched") as runs:
            run = await runs.start("Admin", "Make room.")
            await run.settled()
            query = "AssentryStatus = 'waiting' AND AssentryTools = 'wipe' AND AssentryAgent = 'Admin'"
            for _ in range(200):
                if run.id in [found.id async for found in client.list_workflows(query)]:
                    break
                await asyncio.sleep(0.05)  # Temporal's index of workflows follows
            else:
                raise AssertionError("the run was not found")
