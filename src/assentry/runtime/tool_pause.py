"""Questions that pause the run, from a tool's body or from code around the model, and steps that run once.

A body that asks is entered again from the top for each answer. Its earlier questions are matched by order and
digest, so that an answer to one question never passes for an answer to another. A question that has changed is
asked anew. If asking anew might repeat an effect, the body is stopped with `ReplayMismatch`.

The door and the model call record the questions; this module only makes them.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from msgspec import Raw

from ..approval.answer import answer_schema, earlier_answer_schema, typed_answer
from ..approval.question import approved_preview
from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest
from ..core.facts import decode
from ..core.run import CallState, Run, Turn
from ..core.wording import described, holds, shortened
from ..definitions.calling import in_thread, is_async
from ..definitions.deadline import Deadline
from ..definitions.preview import read_preview
from ..errors import Conflict, OutcomeUnknown, ReplayMismatch, UsageError
from ..ids import new_id
from ..models.delta import RawItem
from .journal import Journal
from .sync import RunLoop
from .value import output_json, question_json

log = logging.getLogger("assentry")

OURS = "assent:"
"""The prefix of step names that are reserved for the runtime."""
KEPT = "kept reply"
"""The name of a call that keeps the model's replies after an exception; it is refused at once, and never runs."""
ANEW = " this where something else was asked, and answered, before; that answer counts for nothing."
"""The end of a question's reason if code asks something else than it asked before."""


class Paused(BaseException):
    """The signal that leaves a body or a hook until its question is answered.

    A `BaseException`, so that `except Exception` in a body does not catch it.
    """


class Asks(Protocol):
    """The interface through which code asks a person: a body or a hook."""

    def ask_sync(self, question: Any, schema: Any) -> Any:
        """Return the person's answer; raise `Paused` if it is not given yet."""


HERE: ContextVar[Asks | None] = ContextVar("assentry_asks", default=None)
"""The body or hook that the current code runs in."""


class Body:
    """One entry into the body of one call."""

    __slots__ = (
        "_asks",
        "_begun",
        "_run_loop",
        "_steps",
        "args",
        "asked",
        "deadline",
        "entered",
        "fault",
        "journal",
        "mismatch",
        "path",
        "pending",
        "raised",
        "ran",
        "report",
        "state",
        "tried",
        "unknown",
    )

    def __init__(
        self, journal: Journal, path: tuple[str, ...], state: CallState, args: dict[str, Any], run_loop: RunLoop
    ) -> None:
        self.journal = journal
        self.args = args
        self.path = path
        self.state = state
        self._run_loop = run_loop
        self.asked: dict[str, Any] = {}
        """The fields of the body's questions that say who may decide; see `asked_of`."""
        self.deadline: Deadline | None = None
        """The deadline of the body's questions."""
        self._asks = 0
        self._steps: dict[str, int] = {}
        self._begun: set[asyncio.Future[None]] = set()
        """A future for each step that has begun and not ended."""
        self.pending: tuple[f.AnyFact, ...] | None = None
        """The facts with which the body is left before its end: its unanswered question, or one about the call."""
        self.mismatch: ReplayMismatch | None = None
        self.entered = False
        """True while the body runs; before and after, its asks and steps are refused."""
        self.tried = False
        """True once the code around the body has entered a body, or has the recorded outcome of one."""
        self.ran = False
        """True once the code around the body has the value of a body."""
        self.fault: Exception | None = None
        """The exception that the code around the body raised itself."""
        self.report: Callable[[float, float | None, str | None], None] | None = None
        """The function that passes on the body's progress; None if nobody follows the run."""
        self.raised: Exception | None = None
        """The exception that a body raised to the code around it."""
        self.unknown: dict[str, OutcomeUnknown] = {}
        """The bodies, by the names of their tools, that could not tell their outcome to the code around them."""

    def _identity(self) -> dict[str, Any]:
        return {"run": self.journal.run.id, "path": list(self.path), "call": self.state.call.id}

    def arguments(self) -> str:
        """Return the arguments that run, as canonical JSON text."""
        return canonical(self.args).decode()

    def written(self) -> str:
        """Return the arguments as the model wrote them; as canonical JSON text if a person has edited them."""
        return self.arguments() if self.state.edited else self.state.proposal.arguments

    def item(self) -> RawItem | None:
        """Return the call as the provider's item; None if the runtime proposed it."""
        items = self.state.turn.items
        return RawItem(decode(items[self.state.call.item])) if items else None

    def preconditions(self) -> dict[str, Any]:
        """Return the preconditions of the preview on which the call was approved."""
        shown = read_preview(approved_preview(self.state)[0])
        return dict(shown.preconditions) if shown is not None else {}

    def key(self) -> str:
        """Return the idempotency key: made of run, call, tool and effective arguments, the same for every attempt."""
        return self.key_of(self.state.tool, self.arguments())

    def key_of(self, tool: str, arguments: str) -> str:
        """Return the idempotency key of a call of this tool inside the body."""
        return digest({**self._identity(), "tool": tool, "arguments": arguments})[:32]

    async def ask(self, question: Any, schema: Any) -> Any:
        """Return the person's answer; raise `Paused` if it is not given yet."""
        return self.ask_sync(question, schema)

    def ask_sync(self, question: Any, schema: Any) -> Any:
        """Return the person's answer; raise `Paused` if it is not given yet."""
        self._still_goes()
        (prompt, text), shape = _prompt(question), answer_schema(schema)
        place = {**self._identity(), "ask": self._asks, "prompt": text}
        shown = _question_digest(place, shape)
        number, self._asks = self._asks, self._asks + 1
        before: f.Asked | None = None
        if number < len(self.state.answers):
            before, answered = self.state.answers[number]
            if before.digest == shown or _is_earlier_digest(before, place, schema):
                return typed_answer(schema, decode(answered.value))
            if not self._may_ask_anew(number):
                self.mismatch = ReplayMismatch(
                    f"Tool {self.state.tool!r} asked {shortened(bytes(prompt).decode())} where it had asked "
                    f"{shortened(bytes(before.prompt).decode())} before its answers came. A body that asks must ask "
                    "the same, in the same order, each time it is entered; wrap what may differ in ctx.step."
                )
                raise Paused
            _warn(f"Tool {self.state.tool!r}", before)
        why, now = f"{self.state.tool} asks{ANEW if before is not None else '.'}", self.journal.now()
        asked = f.Asked(
            self.state.call.id,
            new_id("q"),
            why,
            shown,
            "input",
            prompt=prompt,
            schema=shape,
            until=self.deadline.until(now) if self.deadline is not None else None,
            due=self.deadline.due(now) if self.deadline is not None else None,
            voids=before.id if before is not None else None,
            at=now,
            path=self.path,
            **self.asked,
        )
        self.pending = (asked,)
        raise Paused

    def _may_ask_anew(self, number: int) -> bool:
        """Return True if this is the last answered question and the body has taken no step.

        A body that asks something else may follow another course, on which recorded steps would stand for other steps.
        """
        steps = self._begun or any(not step.name.startswith(OURS) for step in self.state.steps)
        return number == len(self.state.answers) - 1 and not steps

    def _still_goes(self) -> None:
        """Stop a body that caught `Paused`, that is over, or whose lease is lost, at its next ask or step."""
        if self.pending is not None or self.mismatch is not None:
            raise Paused
        self._check_entered()
        if self.journal.writer is not None:
            self.journal.writer.check()

    def _check_entered(self) -> None:
        """Raise `Conflict` if the run does not wait for the body, such as a thread that outlasted its grace period."""
        if not self.entered:
            raise Conflict(f"Nothing can be done in this call of {self.state.tool!r}: it has not begun, or is over.")

    async def holds_lease(self) -> bool:
        """Ask the store if this drive still holds the lease; return False if the body is over."""
        if not self.entered:
            return False
        return self.journal.writer is None or await self.journal.writer.holds()

    def holds_lease_sync(self) -> bool:
        """Do the same as `holds_lease`, for a body that runs in a thread."""
        return self.entered and self._run_loop.wait_for(self.holds_lease)

    def recorded_step(self, name: str) -> tuple[int, f.Stepped | None]:
        """Return the number of the next step of this name, and the recorded step if there is one."""
        if type(name) is not str or not name or not holds(name):
            raise UsageError(f"A step needs a name, got {described(name)}.")
        self._still_goes()
        number = self._steps.get(name, 0)
        self._steps[name] = number + 1
        done = (step for step in self.state.steps if step.name == name and step.number == number)
        return number, next(done, None)

    def marks(self) -> dict[str, Any]:
        """Return the numbers of questions and steps so far, as JSON values; see `go_to`."""
        return {"asks": self._asks, "steps": dict(self._steps)}

    def go_to(self, marks: dict[str, Any]) -> None:
        """Count on from these marks: code around the body has the recorded outcome of a body that came this far."""
        self._asks, self._steps, self.tried = marks["asks"], marks["steps"], True

    async def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """Return the step's recorded value; if there is none, run the step and record its value."""
        number, done = self.recorded_step(_own(name))
        if done is None:
            ended: asyncio.Future[None] = self._run_loop.loop.create_future()
            self._begun.add(ended)
            try:
                value = (await fn()) if is_async(fn) else await in_thread(fn)
                if inspect.isawaitable(value):
                    value = await value
                done = self.record(name, number, value)  # still legal: a body that asks is left after its steps
                if self.journal.writer is not None:
                    await self.journal.writer.flush()
            finally:
                self._begun.remove(ended)
                ended.set_result(None)
        return decode(done.value)

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress to whoever follows the stream; once the body is over, nobody does."""
        if self.entered and self.report is not None:
            self._run_loop.do(lambda: self.report(progress, total, message) if self.report is not None else None)

    async def await_steps(self) -> None:
        """Wait for the steps that are under way; a step that is not recorded would run again."""
        while self._begun:
            await asyncio.wait(self._begun)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any:
        """Do the same as `step`, for a body that runs in a thread; the fact is recorded on the event loop."""
        number, done = self.recorded_step(_own(name))
        if done is None:
            made = done = self._make_step(name, number, fn())
            self._run_loop.do(lambda: self._add_late(made))
            if self.journal.writer is not None:
                self._run_loop.wait_for(self.journal.writer.flush)
        return decode(done.value)

    def _add_late(self, step: f.Stepped) -> None:
        """Record a thread's step; raise `Conflict` if the run has stopped waiting for the thread meanwhile."""
        self._check_entered()
        self.journal.add(step)

    def record_late(self, name: str, number: int, value: Any) -> None:
        """Record a step, from a body's thread too; raise `Conflict` if the run has stopped waiting for the body."""
        step = self._make_step(name, number, value)
        self._run_loop.do(lambda: self._add_late(step))

    def answered_by(self) -> str:
        """Return who gave the answer that the last question returned."""
        return self.state.answers[self._asks - 1][1].by

    def record(self, name: str, number: int, value: Any) -> f.Stepped:
        """Record a step."""
        step = self._make_step(name, number, value)
        self.journal.add(step)
        return step

    def _make_step(self, name: str, number: int, value: Any) -> f.Stepped:
        now, output = self.journal.now(), output_json(value)[0]
        return f.Stepped(self.state.call.id, name, output, number, at=now, path=self.path)


def _own(name: str) -> str:
    """Return the step's name; raise `UsageError` if the name has the runtime's prefix."""
    if type(name) is str and name.startswith(OURS):
        raise UsageError(f"Names of steps that begin with {OURS!r} are the runtime's, got {described(name)}.")
    return name


class Hook:
    """Code around one model call, which may ask a person too.

    A hook's question records the model's replies so far in the journal. When the hook is entered again, it gets those
    replies, so that the model is not called again, and the answers since the last recorded reply, in their order. It
    also gets the same input as on its first entry; later input is for the next reply.

    Replies are recorded, too, if the code after the model raises an exception: it is entered again with them, as long
    as nothing else was said.
    """

    __slots__ = ("_asks", "_calls", "_journal", "_kept", "_replies", "keeps", "path", "pending", "reviewers", "saw")

    def __init__(self, journal: Journal, path: tuple[str, ...], saw: int, reviewers: tuple[str, ...] = ()) -> None:
        self._journal = journal
        self.path = path
        run = journal.run.at(path)
        first = asked_at(run)
        self.reviewers = reviewers
        self.saw = saw if first is None else first
        """The number of inputs that the hook gets."""
        self._calls = _hook_calls(run)
        self._replies: list[Any] = []
        """The model's replies since the last question."""
        self._asks = 0
        self._kept = kept_replies(run)
        """The replies that the code after the model was left with by an exception, and the questions before them."""
        self.keeps = False
        """True if an exception of the code after the model leaves the replies to be kept."""
        self.pending: tuple[f.Proposed, f.Asked] | None = None
        """The unanswered question that the hook stopped at."""

    def still_goes(self) -> None:
        """Raise `Paused` again in a hook that caught it and went on."""
        if self.pending is not None:
            raise Paused

    def recorded_reply(self) -> Any:
        """Return the recorded reply of the model at this point; None if the model was not called yet."""
        if self._asks < len(self._calls):
            kept = decode(self._calls[self._asks].args)["replies"]
        else:
            kept = self._kept["replies"] if self._kept.get("asks") == self._asks else ()
        if len(self._replies) >= len(kept):
            return None
        self._replies.append(kept[len(self._replies)])
        return self._replies[-1]

    def keep(self, reply: Any) -> None:
        """Keep a reply, as JSON, for the question that the hook may ask."""
        self._replies.append(reply)

    def kept_facts(self) -> tuple[f.AnyFact, ...]:
        """Return the facts that keep the replies after an exception; none if they are kept already."""
        run, now, path = self._journal.run.at(self.path), self._journal.now(), self.path
        kept = {"replies": self._replies, "asks": self._asks, "said": run.said}
        if not self.keeps or not self._replies or kept == self._kept:
            return ()
        call = f"c{len(run.calls) + 1}"
        return (
            f.Proposed(f.Call(call, KEPT, 0, "hook"), output_json(kept)[0], self.saw, at=now, path=path),
            f.Refused(call, "runtime", message="The code after the model raised an exception.", at=now, path=path),
            f.Told(call, at=now, path=path),
        )

    def ask_sync(self, question: Any, schema: Any) -> Any:
        """Return the person's answer; raise `Paused` if it is not given yet."""
        self.still_goes()
        (prompt, text), shape = _prompt(question), answer_schema(schema)
        run, number = self._journal.run.at(self.path), self._asks
        place = {"run": self._journal.run.id, "path": list(self.path), "turn": run.turns, "ask": number, "prompt": text}
        shown = _question_digest(place, shape)
        self._asks = number + 1
        before: f.Asked | None = None
        if number < len(self._calls):
            before, outcome = self._calls[number].question, self._calls[number].outcome
            is_this = before is not None and (before.digest == shown or _is_earlier_digest(before, place, schema))
            if is_this and type(outcome) is f.Finished:
                self._replies = []
                return typed_answer(schema, decode(outcome.output))
            _warn("The code around the model", before)
        now, call = self._journal.now(), f"c{len(run.calls) + 1}"
        args = output_json({"replies": self._replies})[0]
        self.pending = (
            f.Proposed(f.Call(call, "interrupt", 0, "hook"), args, self.saw, at=now, path=self.path),
            f.Asked(
                call,
                new_id("q"),
                f"The code around the model asks{ANEW if before is not None else '.'}",
                shown,
                allowed=("respond",),
                prompt=prompt,
                schema=shape,
                voids=before.id if before is not None else None,
                at=now,
                path=self.path,
                reviewers=self.reviewers,
            ),
        )
        raise Paused


def _question_digest(place: dict[str, Any], shape: Raw) -> str:
    """Return the digest of a question's place, prompt and schema."""
    return digest({**place, "schema": bytes(shape).decode() if shape else None})


def _is_earlier_digest(before: f.Asked, place: dict[str, Any], schema: Any) -> bool:
    """Return True if this question was recorded by an older Assentry, which wrote a type's schema differently."""
    if schema is None or isinstance(schema, dict):
        return False
    return before.digest == _question_digest(place, earlier_answer_schema(schema))


def asked_at(run: Run) -> int | None:
    """Return the number of inputs that the hook had when it first asked since the last reply.

    None if the hook has not asked, or if the number was not recorded.
    """
    calls = _hook_calls(run)
    reply = calls[0].turn.reply if calls else None
    return reply.saw if reply is not None else None


def _hook_calls(run: Run) -> list[CallState]:
    """Return the hooks' valid questions since the model's last reply, as calls.

    A question that is asked anew voids the earlier question in its place and all after that.
    """
    found: list[CallState] = []
    for entry in reversed(run.entries):
        if type(entry) is Turn:
            if type(entry.reply) is f.Replied:
                break
            found += [state for state in entry.calls if state.call.kind == "hook" and state.question is not None]
    standing: list[CallState] = []
    for state in reversed(found):
        void = state.question.voids if state.question is not None else None
        upto = (n for n, old in enumerate(standing) if old.question is not None and old.question.id == void)
        standing = [*standing[: next(upto, None)], state]
    return standing


def kept_replies(run: Run) -> dict[str, Any]:
    """Return what the code after the model was left with by an exception; empty if anything was said since."""
    last = run.entries[-1] if run.entries else None
    if type(last) is not Turn or type(last.reply) is not f.Proposed or last.reply.proposal.tool != KEPT:
        return {}
    kept: dict[str, Any] = decode(last.reply.args)
    return kept if kept["said"] == run.said else {}


def _warn(who: str, before: f.Asked | None) -> None:
    """Log a warning for the developer, who may not see the questions that people are asked."""
    log.warning(
        "%s asked something else than before its answers came: it is asked anew, and the answer to question %s counts "
        "for nothing. Code that asks must ask the same, in the same order, each time it is entered",
        who,
        before.id if before is not None else None,
    )


def _prompt(question: Any) -> tuple[Raw, str]:
    try:
        return question_json(question)
    except BadJSON as error:
        raise UsageError(f"A question is text or JSON: {error}.") from None
