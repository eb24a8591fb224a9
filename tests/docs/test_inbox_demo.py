"""`make demo`: the shop with its inbox, as a person meets it, ended and begun again in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from assentry.store import Question, SQLiteStore

ROOT = Path(__file__).parent.parent.parent
WAIT = 60
"""Seconds after which something hangs. No test waits for it unless it fails."""


@contextlib.contextmanager
def demo(directory: Path) -> Iterator[str]:
    """Start the demo, give its link, and end it with Ctrl-C."""
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(ROOT / "examples" / "inbox.py"), "--scripted", "--no-browser", "--port", "0"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=directory, env=env, text=True, start_new_session=True, **pipes) as started:  # type: ignore[call-overload]
        try:
            for line in started.stdout:
                if found := re.search(r"http://\S+", line):
                    yield found[0]
                    break
            else:
                pytest.fail("the demo ended without a link")
        finally:
            started.send_signal(signal.SIGINT)
            out, _ = started.communicate(timeout=WAIT)
        assert started.returncode == 0 and "Traceback" not in out


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.05)


def ledger(directory: Path) -> list[str]:
    return [json.loads(line)[0] for line in (directory / "shop-ledger.jsonl").read_text("utf-8").splitlines()]


def questions(directory: Path) -> list[Question]:
    async def found() -> list[Question]:
        async with SQLiteStore(directory / "shop.db") as store:
            return (await store.questions()).items

    return asyncio.run(found())


def decide(directory: Path, tool: str, decision: dict[str, object]) -> None:
    async def work() -> None:
        async with SQLiteStore(directory / "shop.db") as store:
            [question] = (await store.questions(tool=tool)).items
            await store.decide(question.id, decision, by="you", digest=question.digest)

    asyncio.run(work())


def test_the_demo_asks_on_its_page_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with demo(tmp_path) as link:
        until(lambda: len(questions(tmp_path)) == 2)
        with httpx.Client(follow_redirects=True, timeout=WAIT) as browser:
            assert "This link signs you in" in browser.get(link).text
            address, _, code = link.partition("#")
            page = browser.post(address, data={"code": code})
            assert page.status_code == 200 and "Refund 899.00 EUR on order 1042" in page.text
        with httpx.Client(follow_redirects=True, timeout=WAIT) as other:
            again = other.post(address, data={"code": code})
            assert again.status_code == 401 and "Refund" not in again.text  # the link signs in once
        assert ledger(tmp_path) == ["looked up"]
        decide(tmp_path, "refund", {"type": "edit", "arguments": {"order": 1042, "amount": 89.9}})
        until(lambda: ledger(tmp_path) == ["looked up", "refunded"])
    with demo(tmp_path):
        decide(tmp_path, "send_mail", {"type": "reject", "message": "I call her."})
        until(lambda: [each.tool for each in questions(tmp_path)] == ["collect"])
        decide(tmp_path, "collect", {"type": "respond", "output": "Friday"})
        until(lambda: ledger(tmp_path) == ["looked up", "refunded", "printed", "booked"])
