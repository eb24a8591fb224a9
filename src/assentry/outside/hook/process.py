"""The life of one hook process: it reads an event from stdin, writes one answer, and never leaves without a verdict."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from ...core.wording import worded
from .answer import PROMPT, HookOptions, answer_event
from .dialect import HookDialect, HookReply

LONGEST_EVENT = 32_000_000
"""The most bytes of an event."""
MARGIN = 2 * PROMPT + 5.0
"""The seconds that a hook takes at most, besides those for which it waits for a person."""
SETTINGS_MARGIN = 60
"""The seconds by which the timeout in the agent's settings is longer than a hook waits. It must be above `MARGIN`."""
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")


class HookProcess:
    """This process as a hook. Its stdout is kept for the answer: whatever else is printed goes to stderr."""

    def __init__(self, dialect: HookDialect) -> None:
        self.dialect = dialect
        self._out = os.dup(1)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def end(self, reply: HookReply) -> NoReturn:
        """Write an answer and end. Only the first answer of a process is written."""
        if not self._lock.acquire(blocking=False):
            threading.Event().wait()  # another thread is writing its answer, and ends the process
        code, words = reply.code, reply.words
        try:
            _write(self._out, reply.out)
        except OSError as error:  # Codex takes exit code 2 for a no only if there are words with it
            code, words = 2, words or f"Nothing is allowed: the answer could not be written ({error})."
        with suppress(OSError):
            sys.stderr.flush()
            if words:
                os.write(2, f"{words}\n".encode(errors="replace"))
        os._exit(code)

    def refuse(self, why: str) -> NoReturn:
        """End with the answer that lets nothing pass."""
        self.end(self.dialect.fail(f"Nothing is allowed: {why}"))

    def guard(self, wait: float) -> None:
        """Refuse if a signal ends this process, or if it takes longer than it may."""
        for name in SIGNALS:
            if name in signal.Signals.__members__:
                signal.signal(signal.Signals[name], self._told_to_end)
        timer = threading.Timer(wait + MARGIN, self.refuse, ("the hook took too long.",))
        timer.daemon = True
        timer.start()

    def _told_to_end(self, number: int, frame: FrameType | None) -> None:
        if not self._lock.locked():  # else the answer is being written, by the thread that this interrupts
            self.refuse("the hook was told to end.")

    async def run(self, options: HookOptions) -> NoReturn:
        """Answer the event on stdin."""
        self.guard(options.wait)
        try:
            text = sys.stdin.buffer.read(LONGEST_EVENT + 1)
            if len(text) > LONGEST_EVENT:
                self.refuse("the event is too long.")
            async with asyncio.timeout(options.wait + MARGIN - 2):
                reply = await answer_event(self.dialect, text.decode(), options)
        except BaseException as error:
            self.refuse(worded(error))
        self.end(reply)


def _write(descriptor: int, content: bytes) -> None:
    """Write everything: a pipe may take a part at a time."""
    while content:
        content = content[os.write(descriptor, content) :]
