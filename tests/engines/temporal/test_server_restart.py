"""The server is killed and started again, while runs wait and while bodies run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from assentry import Approve, Edit, Reject, Respond

from .processes import Nursery, Place, asked, start
from .support import Server

pytestmark = pytest.mark.temporal

WAITING = 8


@pytest.fixture
def restarted(temporal: Server, nursery: Nursery, tmp_path: Path) -> Iterator[Place]:
    """A place on a server of its own."""
    (tmp_path / "server").mkdir()
    server = Server(tmp_path / "server")
    server.start()
    yield Place(server, nursery, tmp_path)
    nursery.kill_all()
    server.stop()


async def test_the_server_is_killed_while_runs_wait_and_a_body_runs(restarted: Place) -> None:
    place = restarted
    runs = await place.runs(patience=timedelta(seconds=60))
    await asyncio.gather(place.worker().up(), place.worker().up())
    waiting = [await start(runs, f"refund {order}") for order in range(WAITING)]
    questions = [await asked(run) for run in waiting]
    held = await start(runs, "hold 100, pay 101")
    await place.did("begin hold 100")

    place.server.stop(kill=True)
    (place.folder / "go").touch()
    await place.did("end hold 100")  # it ends while there is no server
    place.server.start()
    runs = await place.runs(patience=timedelta(seconds=60))
    decisions = [
        Reject("no") if order % 3 == 0 else Edit({"order": order + 10}) if order % 3 == 1 else Approve()
        for order in range(WAITING)
    ]
    async with asyncio.timeout(120):
        await asyncio.gather(
            *(
                runs.decide(question.id, decision, by="ann", digest=question.digest)
                for question, decision in zip(questions, decisions, strict=True)
            )
        )
        outputs = await asyncio.gather(*(runs.get(run.id).result() for run in waiting))
        ended = runs.get(held.id)
        standing = await ended.settled()
        if standing.status == "waiting":  # the server gave up the body before its worker could report
            [doubt] = standing.questions
            assert doubt.kind == "doubt"
            await runs.decide(doubt.id, Respond("held"), by="ann", digest=doubt.digest)
        output = await ended.result()
    assert output.endswith(" | done: pay 101")
    for order, output in enumerate(outputs):
        wanted = {0: "no", 1: f"done: refund {order + 10}", 2: f"done: refund {order}"}[order % 3]
        assert output == wanted
    done = place.done()
    assert len(done) == len(set(done))  # nothing twice
    refunds = {order + 10 * (order % 3 == 1) for order in range(WAITING) if order % 3}
    assert {line for line in done if "refund" in line} == {
        f"{word} refund {order}" for word in ("begin", "end") for order in refunds
    }
    for run in (*waiting, held):
        assert await place.problems(run) == []
