"""Sessions, threads, MCP servers and the Agents SDK's names, on Temporal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Approve, Respond, RunConfig, Runner, SQLiteSession
from assentry import agents as sdk
from assentry.cli.command import main
from assentry.errors import Conflict, RunNotFound, UsageError
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call
from tests.mcp.support import act, lines, raw, script

from .story import Log, Story, check_story, noting, scripted, send
from .support import Server, working

pytestmark = pytest.mark.temporal


async def seen_through(runs: Any, run: Any) -> Any:
    """Approve everything, and return the output."""
    while (now := await run.settled()).questions:
        for each in now.questions:
            await runs.decide(each.id, Approve(), by="ann", digest=each.digest)
    assert now.failure is None, now.failure
    return await run.result()


# -- sessions ----------------------------------------------------------------------------------------


def desk(log: Log) -> Agent[Any]:
    return scripted(
        "Desk", send("ann"), "Sent.", [send("bob"), send("cid")], "Sent both.",
        tools=[noting(log, needs_approval=True)],
    )  # fmt: skip


async def test_a_session_has_two_runs_and_nothing_twice(temporal: Server, tmp_path: Path) -> None:
    agent, log = desk([]), []
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(
            await temporal.client(), agent, store, sessions=lambda id: SQLiteSession(id, tmp_path / "sessions.db")
        ) as runs,
    ):
        first = await runs.start("Desk", "Write to Ann.", session="s")
        assert await seen_through(runs, first) == "Sent."
        second = await runs.start("Desk", "And to the others.", session="s")
        assert await seen_through(runs, second) == "Sent both."
    kept = await SQLiteSession("s", tmp_path / "sessions.db").get_items()

    by_runner, own = desk(log), SQLiteSession("s", tmp_path / "own.db")
    for said in ("Write to Ann.", "And to the others."):
        result = await Runner.run(by_runner, said, session=own)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                state.approve(item)
            result = await Runner.run(by_runner, state, session=own)
    assert kept == await own.get_items()
    assert [list(each.input) for each in agent.model.requests] == [
        list(each.input) for each in by_runner.model.requests
    ]


async def test_a_session_that_is_not_there_is_named(temporal: Server, tmp_path: Path) -> None:
    client = await temporal.client()
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(client, desk([]), store) as runs:
            run = await runs.start("Desk", "Go.", session="s")
            now = await run.settled()
            assert now.failure is not None and now.failure.kind == "UsageError"
            assert now.failure.message == ("The run is to be kept in session 's'; give the plugin sessions=...")
        async with working(
            client, desk([]), store, sessions=lambda id: SQLiteSession(id, tmp_path / "sessions.db")
        ) as runs:
            await runs.retry(run.id, by="ann")  # now there is one
            assert await seen_through(runs, runs.get(run.id)) == "Sent."


async def test_what_the_function_for_sessions_returns_must_be_a_session(temporal: Server, tmp_path: Path) -> None:
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), desk([]), store, sessions=lambda id: {"id": id}) as runs,  # type: ignore[arg-type,return-value]
    ):
        run = await runs.start("Desk", "Go.", session="s")
        now = await run.settled()
        assert now.failure is not None and now.failure.kind == "UsageError"
        assert "session" in now.failure.message
        await runs.client.get_workflow_handle(run.id).terminate()


# -- runs that follow others -------------------------------------------------------------------------


async def test_a_run_follows_another_and_has_its_conversation(temporal: Server, tmp_path: Path) -> None:
    agent = desk([])
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        first = await runs.start("Desk", "Write to Ann.")
        assert (await first.settled()).questions
        with pytest.raises(Conflict, match="not over"):
            await failure(await runs.start("Desk", "Too early.", follows=first.id))
        assert await seen_through(runs, first) == "Sent."
        second = await runs.start("Desk", "And to the others.", follows=first.id)
        assert await seen_through(runs, second) == "Sent both."
        heard = [list(each.input) for each in agent.model.requests]
        assert len(heard) == 4 and heard[2][: len(heard[1])] == heard[1]
        assert [item.get("content") for item in heard[3] if item.get("role") == "user"] == [
            "Write to Ann.",
            "And to the others.",
        ]
        began = (await store.read(second.id)).facts[0]
        assert (began.follows, began.thread) == (first.id, first.id)  # type: ignore[union-attr]
        with pytest.raises(RunNotFound):
            await failure(await runs.start("Desk", "Whom?", follows="nobody"))


async def failure(run: Any) -> None:
    """Raise the error that holds a run up, which is ended here."""
    now = await run.settled()
    await run.handle.terminate()
    assert now.failure is not None
    errors: dict[str, Any] = {"Conflict": Conflict, "RunNotFound": RunNotFound, "UsageError": UsageError}
    raise errors[now.failure.kind](now.failure.message)


# -- MCP servers -------------------------------------------------------------------------------------


async def test_a_server_whose_tool_changes_after_the_approval(temporal: Server, tmp_path: Path) -> None:
    file = tmp_path / "log"
    server = raw("changes", file, require_approval="always")
    agent = Agent("Agent", mcp_servers=[server], model=ScriptedModel([act(), "Done."]))
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        server,
        working(await temporal.client(), agent, store) as runs,
    ):
        run = await runs.start("Agent", "Act.")
        [asked] = (await run.settled()).questions
        file.with_suffix(".changed").touch()
        await runs.decide(asked.id, Approve(), by="ann", digest=asked.digest)
        [again] = (await run.settled()).questions
        assert "has changed its tool 'act'" in again.why
        assert lines(file) == []
        await runs.decide(again.id, Approve(), by="ann", digest=again.digest)
        assert await run.result() == "Done."
        assert lines(file) == ["called it"]
        assert await store.verify(run.id) == []


async def test_a_server_that_asks_by_elicitation(temporal: Server, tmp_path: Path) -> None:
    """Nobody holds the server open: each activity that needs it starts it."""
    file = tmp_path / "log"
    agent = Agent(
        "Agent",
        mcp_servers=[script("modern", file, "k")],
        model=ScriptedModel([call("book", {"city": "Rome"}), "Done."]),
    )
    async with (
        SQLiteStore(tmp_path / "runs.db") as store,
        working(await temporal.client(), agent, store) as runs,
    ):
        run = await runs.start("Agent", "Book.")
        for prompt, answer in (("Which day in Rome?", {"day": "Monday"}), ("Which floor in Rome?", {"floor": 3})):
            [asked] = (await run.settled()).questions
            assert asked.kind == "input" and prompt in bytes(asked.prompt).decode()
            await runs.decide(asked.id, Respond(answer), by="ann", digest=asked.digest)
        assert await run.result() == "Done."
        assert lines(file) == ["Rome Monday 3"]


# -- the Agents SDK's names --------------------------------------------------------------------------


async def test_an_agent_of_the_agents_sdk(temporal: Server, tmp_path: Path) -> None:
    def tell(log: Log) -> Story:
        @sdk.function_tool(needs_approval=True)
        async def refund(ctx: sdk.RunContextWrapper[Any], order: int) -> str:
            log.append((order, ctx.context["shop"]))
            return f"refunded {order}"

        helper = sdk.Agent(name="Helper", model=ScriptedModel(["Helped."]))
        agent = sdk.Agent(
            name="Shop",
            instructions="Help.",
            tools=[refund, helper.as_tool(tool_name="help", tool_description="Help.")],
            model=ScriptedModel([[call("refund", {"order": 7}), call("help", {"input": "Go."})], "Done."]),
        )
        return Story(agent, context={"shop": "lamps"}, config=sdk.RunConfig(workflow_name="Refunds"))

    told = await check_story(tell, await temporal.client(), tmp_path)
    assert told.log == [(7, "lamps")]


# -- the audit ---------------------------------------------------------------------------------------


async def test_a_run_is_exported_and_verified_offline(
    temporal: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        async with working(await temporal.client(), desk([]), store, run_config=RunConfig()) as runs:
            run = await runs.start("Desk", "Write to Ann.", started_by="eve")
            assert await seen_through(runs, run) == "Sent."
        assert await store.verify(run.id) == []

    async def audit(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(main, ["audit", *words])  # it has an event loop of its own
        return code, capsys.readouterr().out

    export = tmp_path / "a.jsonl"
    store_url = f"sqlite:///{tmp_path / 'runs.db'}"
    assert await audit("export", "--store", store_url, "--out", str(export)) == (0, "")
    assert await audit("verify", "--file", str(export)) == (0, "1 run is as written.\n")
    text = export.read_text()
    assert "Write to Ann." in text
    export.write_text(text.replace("Write to Ann.", "Write to Bob."))
    assert (await audit("verify", "--file", str(export)))[0] == 1
