"""Inside a tool's body: questions that pause the run, and steps that happen once.

A body that asks is entered again from the top for each answer. What it asked before is matched by
order and digest: a body that asks something else the second time is stopped, for an answer to one
question must never pass for an answer to another.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from ..approval.answer import schema_of, typed
from ..approval.question import new_id
from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest, holds, plain
from ..core.facts import decode
from ..core.run import CallState
from ..errors import ReplayMismatch, UsageError
from ..tools.function import in_thread, is_async
from .blocking import Home
from .journal import Journal
from .value import output_json


class Paused(BaseException):
    """Leaves a body that waits for an answer. Not an Exception, so that bodies do not catch it."""


class Body:
    """One entry of one call's body."""

    __slots__ = ("_asks", "_begun", "_home", "_journal", "_state", "_steps", "args", "mismatch", "path", "pending")

    def __init__(
        self, journal: Journal, path: tuple[str, ...], state: CallState, args: dict[str, Any], home: Home
    ) -> None:
        self._journal = journal
        self.args = args
        self.path = path
        self._state = state
        self._home = home
        self._asks = 0
        self._steps: dict[str, int] = {}
        self._begun: set[asyncio.Future[None]] = set()
        """Steps that have begun and not ended."""
        self.pending: f.Asked | None = None
        """The question that the body left with."""
        self.mismatch: ReplayMismatch | None = None

    def _identity(self) -> dict[str, Any]:
        return {"run": self._journal.run.id, "path": list(self.path), "call": self._state.call.id}

    def arguments(self) -> str:
        """The arguments that run, as canonical JSON text."""
        return canonical(self.args).decode()

    def key(self) -> str:
        """The idempotency key: of run, call and effective arguments, the same for every attempt."""
        return digest({**self._identity(), "tool": self._state.tool, "arguments": self.arguments()})[:32]

    async def ask(self, question: Any, schema: Any) -> Any:
        """The person's answer, or out of the body until there is one."""
        return self.ask_sync(question, schema)

    def ask_sync(self, question: Any, schema: Any) -> Any:
        """The person's answer, or out of the body until there is one."""
        self._still_goes()
        try:
            prompt = Raw(canonical(plain(question)))
        except BadJSON as error:
            raise UsageError(f"A question is text or JSON: {error}.") from None
        shape = schema_of(schema)
        shown = digest(
            {
                **self._identity(),
                "ask": self._asks,
                "prompt": bytes(prompt).decode(),
                "schema": bytes(shape).decode() if shape else None,
            }
        )
        number, self._asks = self._asks, self._asks + 1
        if number < len(self._state.answers):
            asked, answered = self._state.answers[number]
            if asked.digest != shown:
                self.mismatch = ReplayMismatch(
                    f"Tool {self._state.tool!r} asked {bytes(prompt).decode():.80} where it had asked "
                    f"{bytes(asked.prompt).decode():.80} before its answers came. A body that asks must ask the "
                    "same, in the same order, each time it is entered; wrap what may differ in ctx.step."
                )
                raise Paused
            return typed(schema, decode(answered.value))
        why = f"{self._state.tool} asks."
        self.pending = f.Asked(
            self._state.call.id,
            new_id("q"),
            why,
            shown,
            "input",
            prompt=prompt,
            schema=shape,
            at=self._journal.now(),
            path=self.path,
        )
        raise Paused

    def _still_goes(self) -> None:
        """A body that caught `Paused` and went on gets no further than its next ask or step."""
        if self.pending is not None or self.mismatch is not None:
            raise Paused

    def _replayed(self, name: str) -> tuple[int, f.Stepped | None]:
        if type(name) is not str or not name or not holds(name):
            raise UsageError(f"A step needs a name, got {name!r:.80}.")
        self._still_goes()
        number = self._steps.get(name, 0)
        self._steps[name] = number + 1
        done = (step for step in self._state.steps if step.name == name and step.number == number)
        return number, next(done, None)

    async def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """The step's value: recorded, or made now and recorded."""
        number, done = self._replayed(name)
        if done is None:
            ended: asyncio.Future[None] = self._home.loop.create_future()
            self._begun.add(ended)
            try:
                value = (await fn()) if is_async(fn) else await in_thread(fn)
                if inspect.isawaitable(value):
                    value = await value
                done = self._stepped(name, number, value)
                self._journal.add(done)
            finally:
                self._begun.remove(ended)
                ended.set_result(None)
        return decode(done.value)

    async def settle(self) -> None:
        """Wait for the steps that a body left behind: what is done unrecorded would be done again."""
        while self._begun:
            await asyncio.wait(self._begun)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any:
        """The step's value, in a body that runs in a thread: the journal belongs to the loop."""
        number, done = self._replayed(name)
        if done is None:
            made = done = self._stepped(name, number, fn())
            self._home.do(lambda: self._journal.add(made))
        return decode(done.value)

    def _stepped(self, name: str, number: int, value: Any) -> f.Stepped:
        now, output = self._journal.now(), output_json(value)[0]
        return f.Stepped(self._state.call.id, name, output, number, at=now, path=self.path)
