"""An inbox that is served on this machine, and people with real browsers: for all tests of the pages."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from assentry.store import SQLiteStore, Store
from assentry.store.record import Question
from tests.inbox.office import PASSWORD, hire, make_app
from tests.inbox.stores import cheap_hashes

__all__ = ["cheap_hashes", "chromium", "desk", "patient_desk"]  # fixtures

PICTURES = Path(__file__).parent.parent.parent / "docs" / "images" / "inbox"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--font-render-hinting=none",
]  # fmt: skip
WAIT = 60_000
"""The milliseconds that a browser on a busy machine may take."""


@pytest.fixture(scope="module")  # no longer: while it is there, no other test can have an event loop
def chromium() -> Iterator[Browser]:
    """A browser for all tests. Where none is installed they are skipped; in CI they fail."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("CI"):
            raise RuntimeError("There is no Chromium: apt-get install chromium.")
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        expect.set_options(timeout=WAIT)
        yield browser
        browser.close()


class Clock:
    """A clock that a test can turn back, so that questions have ages."""

    def __init__(self) -> None:
        self.behind = 0.0
        self.stopped_at: float | None = None

    def __call__(self) -> float:
        return time.time() - self.behind if self.stopped_at is None else self.stopped_at


class Desk:
    """An inbox that is served on this machine, and people with browsers."""

    def __init__(self, store: Store, chromium: Browser, clock: Clock, undo: float = 0) -> None:
        self.store, self.clock, self._chromium = store, clock, chromium
        self._contexts: list[BrowserContext] = []
        self.problems: list[str] = []
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        config = uvicorn.Config(make_app(store, undo), ws="none", log_level="warning", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]}, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the store, in a thread of its own: the browser's driver has the loop of this one."""
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(asyncio.run(work)))
        thread.start()
        thread.join()
        return found[0]

    def browser(self, name: str | None = "ann", **options: Any) -> Page:
        """Open a browser, and sign in."""
        options = {"viewport": {"width": 1320, "height": 900}, "reduced_motion": "reduce", **options}
        context = self._chromium.new_context(**options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: self._noted(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._noted(str(error)))
        if name is not None:
            page.goto(f"{self.url}/sign-in")
            page.get_by_label("Name").fill(name)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("**/questions")
        return page

    def _noted(self, text: str) -> None:
        if "Failed to load resource" not in text:  # the browser's own word for a 409, which is a page here
            self.problems.append(text)

    def see(self, page: Page, question: Question, step: str = "") -> None:
        page.goto(f"{self.url}/questions/{question.id}{step}")

    def verdict(self, question: Question) -> str | None:
        found: Question = self.do(self.store.question(question.id))
        return found.verdict

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self._server.should_exit = True
        self._thread.join(60)


def _open_desk(chromium: Browser, path: Path, undo: float) -> Iterator[Desk]:
    clock = Clock()
    store = SQLiteStore(path / "inbox.db", clock=clock)
    made = Desk(store, chromium, clock, undo)
    made.do(hire(store))
    yield made
    made.close()
    made.do(store.close())
    assert made.problems == []  # no error of the script, and nothing that the page's policy had to stop


@pytest.fixture
def desk(chromium: Browser, tmp_path: Path, cheap_hashes: None) -> Iterator[Desk]:
    """A desk where decisions are sent at once."""
    yield from _open_desk(chromium, tmp_path, 0)


@pytest.fixture
def patient_desk(chromium: Browser, tmp_path: Path, cheap_hashes: None) -> Iterator[Desk]:
    """A desk where decisions can be undone for a while."""
    yield from _open_desk(chromium, tmp_path, 5)


def picture(page: Page, name: str) -> None:
    """Write a picture for the docs, if asked to."""
    if os.environ.get("ASSENTRY_WRITE"):
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.mouse.move(0, 0)
        page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")


def live(page: Page) -> Page:
    """Wait until the page hears of news."""
    expect(page.locator("#live")).to_be_visible()
    return page


def drawn(page: Page) -> None:
    """Wait until the page has been drawn, with its style sheets."""
    page.wait_for_load_state("load")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def shown(page: Page) -> Page:
    """Wait until a key may act on the question."""
    live(page)
    drawn(page)
    return page


def stop_time(page: Page) -> None:
    """Let no time pass in a page whose clock is installed, but what a test lets pass."""
    page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 1)


def until(page: Page, true: Callable[[], bool]) -> None:
    """Let the browser go on until this is true."""
    end = time.monotonic() + WAIT / 1000
    while not true():
        assert time.monotonic() < end, "it never was"
        page.wait_for_timeout(10)
