"""The asking program and the inbox are killed at every step: the call happens once, or a person is asked about it."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from assentry import Approve, Respond
from assentry.core import facts as f
from assentry.store import SQLiteStore
from tests.outside import kill_program as program
from tests.runtime.support import HANGS

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.outside.kill_program"])
LATER = 120.0
"""Seconds after which the hold of a dead program has run out."""


class Scene:
    """A file, an inbox in front of it if there is to be one, and the program that asks."""

    def __init__(self, folder: Path, port: int | None) -> None:
        self.folder, self.port, self.later = folder, port, 0.0
        self.path = folder / "runs.db"
        self.inbox: BaseProcess | None = None

    def serve(self, moment: str = "", number: int = 0) -> BaseProcess:
        """Start the inbox, in the place of one that runs."""
        self.stop()
        self.inbox = context.Process(
            target=program.be_inbox, args=(str(self.path), self.port, self.later, moment, number)
        )
        self.inbox.start()
        return self.inbox

    def stop(self) -> None:
        if self.inbox is not None:
            self.inbox.kill()
            self.inbox.join()
            self.inbox = None

    def pass_time(self) -> None:
        """Let the holds run out; an inbox is killed and another one started, whose clock is ahead."""
        self.later += LATER
        if self.port is not None:
            self.serve()

    def ask(self, moment: str = "") -> BaseProcess:
        address = str(self.path) if self.port is None else f"http://127.0.0.1:{self.port}"
        asker = context.Process(target=program.be_asker, args=(address, str(self.folder), moment, self.later))
        asker.start()
        return asker

    def store(self) -> SQLiteStore:
        return SQLiteStore(self.path, clock=lambda: time.time() + self.later)

    @property
    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def outcome(self) -> str:
        return (self.folder / "outcome").read_text()


@contextmanager
def set_in(folder: Path, kind: str) -> Iterator[Scene]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scene = Scene(folder, port if kind == "inbox" else None)
    asyncio.run(scene.store().upgrade())
    if kind == "inbox":
        scene.serve()
    try:
        yield scene
    finally:
        scene.stop()


async def attend(scene: Scene, asker: BaseProcess, moment: str = "", number: int = 0) -> bool:
    """Be the person while a program asks; start an inbox that died again. Return True if one died."""
    died = False
    async with scene.store() as store:
        async with asyncio.timeout(HANGS):
            while asker.is_alive():
                await settle(scene, store)
                if scene.inbox is not None and not scene.inbox.is_alive():
                    died = True
                    scene.serve()
                await store.watch(0.02)
    asker.join()
    return died


async def settle(scene: Scene, store: SQLiteStore) -> None:
    """Decide what is asked: pay, once. In doubt the person looks at the bank's account first."""
    for question in (await store.questions()).items:
        happened = question.kind == "doubt" and scene.effects
        decision: Any = Respond(scene.effects[0]) if happened else Approve()
        await store.decide(question.id, decision, by="ann", digest=question.digest)


async def is_sound(scene: Scene) -> list[Any]:
    """Return the kinds of facts of the one run, which is what its journal says."""
    async with scene.store() as store:
        (record,) = (await store.runs()).items
        assert await store.verify(record.id) == []
        return [type(fact) for fact in (await store.read(record.id)).facts]


SHORT = ("after start", "after effect", "after finish")
"""The moments for a program that reaches the store itself; the store's own tests have the others."""
CASES = [*(("inbox", moment) for moment in program.MOMENTS), *(("store", moment) for moment in SHORT)]


@pytest.mark.parametrize(("kind", "moment"), CASES)
def test_a_program_is_killed_at_every_step_and_the_call_happens_once(kind: str, moment: str, tmp_path: Path) -> None:
    with set_in(tmp_path, kind) as scene:
        first = scene.ask(moment)
        asyncio.run(attend(scene, first))
        assert first.exitcode == -signal.SIGKILL
        second = scene.ask()
        asyncio.run(attend(scene, second))
        begun = moment in ("after start", "before effect", "after effect", "before finish")
        assert scene.outcome == ("RunBusy" if begun else "paid 10")
        if begun:
            assert scene.effects == (["paid 10"] if moment in ("after effect", "before finish") else [])
            scene.pass_time()
            third = scene.ask()
            asyncio.run(attend(scene, third))
            assert scene.outcome == "paid 10"
        assert scene.effects == ["paid 10"]
        kinds = asyncio.run(is_sound(scene))
        doubts = sum(kind is f.Asked for kind in kinds) - 1
        assert doubts == begun
        assert kinds.count(f.Started) == (2 if moment in ("after start", "before effect") else 1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_inbox_is_killed_around_every_write_and_the_program_goes_on(when: str, tmp_path: Path) -> None:
    deaths = 0
    for number in range(1, 10):
        folder = tmp_path / str(number)
        folder.mkdir()
        with set_in(folder, "inbox") as scene:
            scene.serve(f"{when} write", number)
            died = asyncio.run(attend(scene, scene.ask()))
            assert scene.outcome == "paid 10"
            assert scene.effects == ["paid 10"]
            kinds = asyncio.run(is_sound(scene))
            assert (kinds.count(f.Started), kinds.count(f.Finished)) == (1, 1)
        deaths += died
        if not died:
            break
    assert deaths == 3  # the ask, the start, the outcome
