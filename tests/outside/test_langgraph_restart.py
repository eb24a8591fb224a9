"""Threads of LangGraph in a database, taken again after their process was killed; `make test-peers` has the saver."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite", reason="langgraph-checkpoint-sqlite is not installed")

from assentry import Approve, Respond
from tests.outside.desk import Desk, Effects, desk, output_of, start_program

PROGRAM = Path(__file__).parent / "langgraph_program.py"
WAYS = ("middleware", "batched", "per_call")


class Clock:
    """A clock that a test turns forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


async def asked_and_killed(at: Desk, folder: Path, way: str) -> None:
    """Start a program, and kill it while a person is asked."""
    program = await start_program(PROGRAM, folder, way)
    await at.questions()
    program.kill()
    await program.wait()


@pytest.mark.parametrize("way", WAYS)
async def test_a_thread_whose_process_was_killed_while_it_waited_goes_on_in_another(way: str, tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        await asked_and_killed(at, tmp_path, way)
        program = await start_program(PROGRAM, tmp_path, way)
        await at.decide(Approve())
        assert await output_of(program) == "going on\n['paid 50']"
        assert Effects(tmp_path).lines() == ["7 50"]
        assert await at.runs() == ["finished"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_call_whose_process_was_killed_in_its_body_is_in_doubt_and_not_run_again(
    way: str, tmp_path: Path
) -> None:
    clock = Clock()
    async with desk("store", tmp_path, clock=clock) as at:
        await asked_and_killed(at, tmp_path, way)
        program = await start_program(PROGRAM, tmp_path, way, "dies")
        await at.decide(Approve())
        await program.wait()
        assert Effects(tmp_path).lines() == ["7 50"]
        assert (await output_of(await start_program(PROGRAM, tmp_path, way))).endswith("RunBusy")
        clock.ahead = 61  # the hold has run out
        assert await at.runs() == ["doubt"]
        [question] = await at.questions()
        assert question.kind == "doubt"
        program = await start_program(PROGRAM, tmp_path, way)
        await at.decide(Respond("paid 50, says the bank"))
        said = await output_of(program)
        # LangGraph writes its checkpoints behind the run, so that a killed one may be at the interrupt still.
        assert said.endswith("['paid 50, says the bank']") or (way != "middleware" and said.endswith("Conflict"))
        assert Effects(tmp_path).lines() == ["7 50"]


async def test_of_two_processes_on_one_thread_one_runs_the_call(tmp_path: Path) -> None:
    async with desk("store", tmp_path) as at:
        await asked_and_killed(at, tmp_path, "middleware")
        programs = [await start_program(PROGRAM, tmp_path, "middleware") for _ in range(2)]
        await at.decide(Approve())
        said = [await output_of(each) for each in programs]
        assert Effects(tmp_path).lines() == ["7 50"]
        assert any("paid 50" in each for each in said), said
