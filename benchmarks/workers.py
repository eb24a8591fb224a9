"""Peers in processes of their own, as the benchmark sees them: orders out, answers in."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import IO, Any

from .environments import clean
from .peers import ROOT, Peer

START_SECONDS = 120
ANSWER_SECONDS = 1800


class Failed(Exception):
    """A peer did not do what was asked; says why."""


class Worker:
    """One peer's process."""

    def __init__(self, peer: Peer, python: Path, log: IO[str]) -> None:
        order = {"name": peer.driver, "options": dict(peer.options), "distributions": list(peer.environment.named)}
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=clean(),
            cwd=ROOT,
        )
        self._read = b""
        try:
            ready = self._done(START_SECONDS)
        except Failed:
            self.close()
            raise
        self.scenarios: list[str] = ready["scenarios"]
        self.versions: dict[str, str] = ready["versions"]

    @property
    def alive(self) -> bool:
        """Whether it can be asked again."""
        return self._process.poll() is None

    def execute(self, scenario: str, params: dict[str, int | str], inner: int) -> dict[str, Any]:
        """One repetition; raises Failed."""
        assert self._process.stdin is not None
        order = {"scenario": scenario, "params": params, "inner": inner}
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed("its process ended; see workers.log") from None
        return self._done(ANSWER_SECONDS)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(5)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _done(self, seconds: float) -> dict[str, Any]:
        answer = self._answer(seconds)
        if "error" in answer:
            raise Failed(f"{answer['error']}\n{answer['traceback']}")
        return answer

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        stream = self._process.stdout.fileno()
        end = time.monotonic() + seconds
        while b"\n" not in self._read:
            if not select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
                self._process.kill()
                raise Failed(f"no answer in {seconds:.0f} seconds")
            read = os.read(stream, 65536)
            if not read:
                raise Failed("its process ended; see workers.log")
            self._read += read
        line, self._read = self._read.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer
