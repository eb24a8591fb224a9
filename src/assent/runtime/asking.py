"""Inside a tool's body, or code around the model: questions that pause the run, and steps that happen once.

A body that asks is entered again from the top for each answer. What it asked before is matched by
order and digest: a body that asks something else the second time is stopped, for an answer to one
question must never pass for an answer to another.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from msgspec import Raw

from ..approval.answer import schema_of, typed
from ..approval.deadline import Deadline
from ..approval.question import new_id
from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest, holds
from ..core.facts import decode
from ..core.run import CallState, Run, Turn
from ..errors import ReplayMismatch, UsageError
from ..tools.function import in_thread, is_async
from .blocking import Home
from .journal import Journal
from .value import output_json, question_json


class Paused(BaseException):
    """Leaves a body that waits for an answer. Not an Exception, so that bodies do not catch it."""


class Asks(Protocol):
    """What code that asks needs: a body, or a hook."""

    def ask_sync(self, question: Any, schema: Any) -> Any:
        """The person's answer, or out of here until there is one."""


HERE: ContextVar[Asks | None] = ContextVar("assent_asks", default=None)
"""The body or the hook that the code which runs now is in."""


class Body:
    """One entry of one call's body."""

    __slots__ = (
        "_asks",
        "_begun",
        "_home",
        "_journal",
        "_state",
        "_steps",
        "args",
        "deadline",
        "mismatch",
        "path",
        "pending",
        "raised",
        "ran",
    )

    def __init__(
        self, journal: Journal, path: tuple[str, ...], state: CallState, args: dict[str, Any], home: Home
    ) -> None:
        self._journal = journal
        self.args = args
        self.path = path
        self._state = state
        self._home = home
        self.deadline: Deadline | None = None
        """How long a question of the body's waits."""
        self._asks = 0
        self._steps: dict[str, int] = {}
        self._begun: set[asyncio.Future[None]] = set()
        """Steps that have begun and not ended."""
        self.pending: f.Asked | None = None
        """The question that the body left with."""
        self.mismatch: ReplayMismatch | None = None
        self.ran = False
        """Whether the code around it has what it gave,"""
        self.raised: Exception | None = None
        """or else what it raised."""

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
        prompt, shape = _prompt(question), schema_of(schema)
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
        why, now = f"{self._state.tool} asks.", self._journal.now()
        self.pending = f.Asked(
            self._state.call.id,
            new_id("q"),
            why,
            shown,
            "input",
            prompt=prompt,
            schema=shape,
            until=self.deadline.until(now) if self.deadline is not None else None,
            due=self.deadline.due(now) if self.deadline is not None else None,
            at=now,
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
                if self._journal.flush is not None:
                    await self._journal.flush()
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
            if self._journal.flush is not None:
                self._home.wait_for(self._journal.flush)
        return decode(done.value)

    def _stepped(self, name: str, number: int, value: Any) -> f.Stepped:
        now, output = self._journal.now(), output_json(value)[0]
        return f.Stepped(self._state.call.id, name, output, number, at=now, path=self.path)

    def other(self, tool: str, args: dict[str, Any]) -> Body:
        """This entry as another tool sees it that runs in the call's place: it asks and steps where the call does."""
        return _Other(self, tool, args)


class _Other(Body):
    """Another tool's view of a body: other arguments and another key, and all else the body's own."""

    __slots__ = ("_body", "_tool")

    def __init__(self, body: Body, tool: str, args: dict[str, Any]) -> None:
        super().__init__(body._journal, body.path, body._state, args, body._home)
        self._body, self._tool = body, tool

    def key(self) -> str:
        return digest({**self._identity(), "tool": self._tool, "arguments": self.arguments()})[:32]

    def ask_sync(self, question: Any, schema: Any) -> Any:
        return self._body.ask_sync(question, schema)

    async def step(self, name: str, fn: Callable[[], Any]) -> Any:
        return await self._body.step(name, fn)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any:
        return self._body.step_sync(name, fn)


class Hook:
    """Code around one asking of the model, which may ask a person too.

    Its question leaves the model's replies so far in the journal. Entered again, it gets those, and the answers that
    were given since the model's last recorded reply, by their order: so the model is not asked again, and an answer is
    to what was asked.
    """

    __slots__ = ("_asks", "_calls", "_fresh", "_journal", "_replies", "mismatch", "path", "pending")

    def __init__(self, journal: Journal, path: tuple[str, ...]) -> None:
        self._journal = journal
        self.path = path
        self._calls = _hook_calls(journal.run.at(path))
        self._replies = [reply for state in self._calls for reply in decode(state.args)["replies"]]
        self._fresh: list[Any] = []
        self._asks = 0
        self.pending: tuple[f.Proposed, f.Asked] | None = None
        """The question that the hook left with."""
        self.mismatch: ReplayMismatch | None = None

    def still_goes(self) -> None:
        """A hook that caught `Paused` and went on gets no further."""
        if self.pending is not None or self.mismatch is not None:
            raise Paused

    def replied(self) -> Any:
        """What the model replied at this point before the hook was left; None if it was not asked yet."""
        return self._replies.pop(0) if self._replies else None

    def keep(self, reply: Any) -> None:
        """Keep a reply, as JSON, in case that the hook is left."""
        self._fresh.append(reply)

    def ask_sync(self, question: Any, schema: Any) -> Any:
        """The person's answer, or out of the hook until there is one."""
        self.still_goes()
        prompt, shape = _prompt(question), schema_of(schema)
        run, number = self._journal.run.at(self.path), self._asks
        place = {"run": self._journal.run.id, "path": list(self.path), "turn": run.turns, "ask": number}
        shown = digest({**place, "prompt": bytes(prompt).decode(), "schema": bytes(shape).decode() if shape else None})
        self._asks = number + 1
        if number < len(self._calls):
            return typed(schema, self._answer(self._calls[number], shown, prompt))
        now, call = self._journal.now(), f"c{len(run.calls) + 1}"
        args = output_json({"replies": self._fresh})[0]
        self.pending = (
            f.Proposed(f.Call(call, "interrupt", 0, "hook"), args, at=now, path=self.path),
            f.Asked(
                call,
                new_id("q"),
                "The code around the model asks.",
                shown,
                allowed=("respond",),
                prompt=prompt,
                schema=shape,
                at=now,
                path=self.path,
            ),
        )
        raise Paused

    def _answer(self, state: CallState, shown: str, prompt: Raw) -> Any:
        asked, outcome = state.question, state.outcome
        if asked is None or asked.digest != shown or type(outcome) is not f.Finished:
            was = bytes(asked.prompt).decode() if asked is not None else ""
            self.mismatch = ReplayMismatch(
                f"The code around the model asked {bytes(prompt).decode():.80} where it had asked {was:.80} before its "
                "answers came. It must ask the same, in the same order, each time it is entered."
            )
            raise Paused
        return decode(outcome.output)


def _hook_calls(run: Run) -> list[CallState]:
    """What hooks asked since the model last replied."""
    found: list[CallState] = []
    for entry in reversed(run.entries):
        if type(entry) is Turn:
            if type(entry.reply) is f.Replied:
                break
            found += [state for state in entry.calls if state.call.kind == "hook"]
    return found[::-1]


def _prompt(question: Any) -> Raw:
    try:
        return question_json(question)
    except BadJSON as error:
        raise UsageError(f"A question is text or JSON: {error}.") from None
