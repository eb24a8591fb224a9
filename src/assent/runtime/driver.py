"""The driver: pays what a run owes until nothing is owed. All runs, plain, sync or streamed, use it.

There is no path for resuming: a run that was paused, saved or broken off owes what it owes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, ClassVar

import msgspec

from ..agent import Agent, by_name
from ..approval.decision import Approve, Decision, Reject
from ..approval.gate import Arguments, Case, Judgement, grant_for, judge, read_arguments
from ..approval.question import new_id
from ..context import RunContextWrapper
from ..core import facts as f
from ..core.digest import described, digest
from ..core.digest import text as clean_text
from ..core.run import CallState, Run, owed
from ..core.transcript import Item, provider_id, transcript
from ..errors import ModelFailed, ToolNotFound, UnreadableState, UsageError
from ..item import ToolApprovalItem
from ..models.model import Model, ModelRequest, ModelResponse, ToolSpec
from ..tools.tool import Tool
from .config import RunConfig, ToolErrorFormatterArgs
from .decider import Always, always, record
from .definition import definition, resolve, same_definition
from .door import enter
from .journal import Journal
from .value import output_json

log = logging.getLogger("assent")

Path = tuple[str, ...]


class Driver:
    """One drive of one run."""

    def __init__(
        self,
        journal: Journal,
        agent: Agent[Any],
        config: RunConfig,
        context: Any,
        outputs: dict[tuple[Path, str], Any],
        on_delta: Callable[[Item], None] | None = None,
    ) -> None:
        self.journal = journal
        self.agent = agent
        self.config = config
        self.ctx: RunContextWrapper[Any] = RunContextWrapper(context, self)
        self.outputs = outputs
        """What bodies gave in this process, as Python objects."""
        self.on_delta = on_delta
        self.busy: dict[tuple[Path, str | None], asyncio.Task[None]] = {}
        self.failure: BaseException | None = None
        self.tools: dict[str, Tool] = by_name(agent.name, agent.tools)
        self.read: dict[tuple[Path, str], Arguments] = {}
        """What the gate let pass in this drive, as it read it, for the door: nobody has seen or changed it since."""
        self.defined: tuple[Any, ...] = ()
        self.offered: tuple[Tool, ...] | None = None
        self.specs: tuple[ToolSpec, ...] = ()
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.task: asyncio.Task[Any] | None = None
        self.cancels = 0
        limit = config.max_parallel_tools
        self.slots = asyncio.Semaphore(limit) if limit is not None else None

    # -- the loop --------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Go on until the run waits for somebody or is over."""
        self.task = asyncio.current_task()
        self.cancels = self.task.cancelling() if self.task else 0
        try:
            await self._drive()
        finally:
            for task in self.busy.values():
                task.cancel()
            if self.busy:
                await asyncio.wait(self.busy.values())

    async def _drive(self) -> None:
        busy = self.busy
        while True:
            if self.stopping():  # a body may have caught the cancellation, and the run stops all the same
                raise asyncio.CancelledError
            todo = owed(self.journal.run, busy)
            if busy:
                todo = [effect for effect in todo if (effect.path, effect.call) not in busy]
            if self.failure is not None:
                if not busy:
                    raise self.failure
                await self._wait()
            elif not todo:
                if not busy:
                    return
                await self._wait()
            elif len(todo) == 1 and not busy:
                work = self._PERFORM[type(todo[0])](self, todo[0])
                # A body has a task of its own: what it does to its task is not done to the run's.
                await (asyncio.create_task(work) if type(todo[0]) is f.Execute else work)
            else:
                await self._perform(todo)

    def stopping(self) -> bool:
        """Whether the task this is asked in was told to stop since the drive began."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > (self.cancels if task is self.task else 0)

    async def _perform(self, todo: list[f.AnyEffect]) -> None:
        """What is quick is done now, and what takes its time is begun."""
        judging = [effect for effect in todo if type(effect) is f.Judge]
        if judging:
            await self._judge_all(judging)
        for effect in todo:
            kind = type(effect)
            if kind is f.AskModel or kind is f.Execute:
                if not judging:
                    key = effect.path, effect.call
                    self.busy[key] = asyncio.create_task(self._PERFORM[kind](self, effect))
            elif kind is not f.Judge:
                await self._PERFORM[kind](self, effect)

    async def _wait(self) -> None:
        done, _ = await asyncio.wait(self.busy.values(), return_when=asyncio.FIRST_COMPLETED)
        for key in [key for key, task in self.busy.items() if task in done]:
            task = self.busy.pop(key)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            self.failure = self.failure or error

    # -- effects ---------------------------------------------------------------------------------

    async def _ask_model(self, effect: f.AskModel) -> None:
        run = self.journal.run.at(effect.path) if effect.path else self.journal.run
        model = self._model()
        await self._offer(run, effect.path)
        told = self.agent.instructions
        if callable(told):
            made = told(self.ctx, self.agent)
            told = await made if inspect.isawaitable(made) else made
        request = ModelRequest(told, self._heard(run), self.specs)
        reply = await self._reply(model, request)
        self.journal.add(self._replied(run, reply, effect))

    def _heard(self, run: Run) -> list[Item]:
        try:
            return transcript(run)
        except (msgspec.MsgspecError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise UnreadableState(f"This run is damaged: an item of its transcript cannot be read ({error}).") from None

    def _model(self) -> Model:
        model = self.config.model or self.agent.model
        if model is None:
            raise UsageError(f"Agent {self.agent.name!r} has no model; give Agent(model=...) or RunConfig(model=...).")
        return model

    async def _offer(self, run: Run, path: Path) -> None:
        """Record the agent's definition where it is a new one, and settle which tools the model is offered."""
        agent = self.agent
        parts = (tuple(agent.tools), agent.instructions, agent.model)
        if parts != self.defined or run.definition is None:
            self.tools, self.defined = by_name(agent.name, agent.tools), parts
            fact = definition(agent, self.tools, path)
            if run.definition is None or not same_definition(run.definition, fact):
                self.journal.add(fact)
        enabled = tuple([tool for tool in agent.tools if tool.is_enabled is True or await self.enabled(tool)])
        if enabled != self.offered:
            self.offered = enabled
            self.specs = tuple(tool.spec for tool in enabled)

    async def enabled(self, tool: Tool) -> bool:
        """Whether the model is offered the tool now."""
        if type(tool.is_enabled) is bool:
            return tool.is_enabled
        answer = tool.is_enabled(self.ctx, self.agent)
        answer = await answer if inspect.isawaitable(answer) else answer
        return answer is True

    async def _reply(self, model: Model, request: ModelRequest) -> ModelResponse:
        reply: ModelResponse | None = None
        show = self.on_delta
        events = model.stream(request)
        try:
            async for event in events:
                if isinstance(event, ModelResponse):
                    reply = event
                elif show is not None:
                    show(event)
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        if reply is None:
            raise ModelFailed(f"The model {model.name!r} ended its stream without a complete reply.")
        return reply

    def _replied(self, run: Run, reply: ModelResponse, effect: f.AskModel) -> f.Replied:
        calls: list[f.Call] = []
        number = len(run.calls)
        for index, item in enumerate(reply.output):
            name = called(item)
            if name is not None:
                tool = next((tool for tool in self.offered or () if tool.name == name), None)
                number += 1
                id, name = f"c{number}", clean_text(name)[0]
                calls.append(f.Call(id, name, index, tool.kind, tool.fingerprint) if tool else f.Call(id, name, index))
        items, note = output_json(reply.output)
        return f.Replied(
            items,
            None if effect.saw == run.said else effect.saw,
            tuple(calls),
            reply.usage.numbers(),
            clean_text(reply.response_id)[0] if reply.response_id else None,
            note,
            at=self.journal.now(),
            path=effect.path,
        )

    async def _judge(self, effect: f.Judge) -> None:
        case = self._case(effect)
        self._judged([(case, await judge(case))])

    async def _judge_all(self, effects: list[f.Judge]) -> None:
        cases = [self._case(effect) for effect in effects]
        if any(case.tool is not None and type(case.tool.needs_approval) is not bool for case in cases):
            verdicts = await asyncio.gather(*map(judge, cases))  # rules may take their time
        else:
            verdicts = [await judge(case) for case in cases]
        self._judged(list(zip(cases, verdicts, strict=True)))

    def _case(self, effect: f.Judge) -> Case:
        root = self.journal.run
        state = self._state(effect)
        tool = self.tool_for(state, state.tool)
        args = read_arguments(tool, state.proposal.arguments) if tool is not None else None
        return Case(root, effect.path, state, tool, args, self.agent, self.ctx, self.journal.now())

    def _judged(self, judged: list[tuple[Case, Judgement]]) -> None:
        self.journal.append([fact for _, fact in judged])
        for case, fact in judged:
            if type(fact) is f.Approved and fact.digest is None and case.args is not None:
                self.read[fact.path, fact.call] = case.args
        if self.config.tool_not_found == "raise":
            for case, fact in judged:
                if type(fact) is f.Refused and fact.why == "tool_not_found":
                    name = case.state.tool
                    raise ToolNotFound(
                        f"The model called the tool {name!r}, which agent {self.agent.name!r} does not have."
                    )

    async def _execute(self, effect: f.Execute) -> None:
        if self.slots is None:
            await enter(self, effect.path, self._state(effect))
        else:
            async with self.slots:
                await enter(self, effect.path, self._state(effect))

    async def _settle(self, effect: f.Settle) -> None:
        """Nobody here knows how this call ended, so a person is asked; never is it run again unasked."""
        state = self._state(effect)
        why = (
            f"{state.tool} was started and how it ended is not known. Respond with its result if it happened, "
            "approve to run it (again), reject to give it up."
        )
        shown = {"run": self.journal.run.id, "path": list(effect.path), "call": state.call.id, "doubt": state.attempt}
        asked = f.Asked(
            state.call.id, new_id("q"), why, digest(shown), "doubt", at=self.journal.now(), path=effect.path
        )
        self.journal.add(asked)

    async def _tell(self, effect: f.Tell) -> None:
        state = self._state(effect)
        refused = state.outcome
        text = None
        if state.words is None and isinstance(refused, f.Refused):
            text = await self._wording(state, refused)
        self.journal.add(f.Told(state.call.id, text, path=effect.path))

    async def _wording(self, state: CallState, refused: f.Refused) -> str:
        kind, default = refusal(state, refused)
        formatter = self.config.tool_error_formatter
        if formatter is None:
            return default
        call_id = provider_id(state)
        try:
            text = formatter(ToolErrorFormatterArgs(kind, state.tool, call_id, default, refused.by, self.ctx))
            text = await text if inspect.isawaitable(text) else text
            if text is None:
                return default
            if type(text) is str:
                return clean_text(text)[0]
            log.warning("tool_error_formatter gave %.80r, not text; the default text is used", text)
        except Exception:
            log.warning("tool_error_formatter failed; the default text is used", exc_info=True)
        return default

    async def _conclude(self, effect: f.Conclude) -> None:
        self.journal.add(f.Concluded(path=effect.path))

    _PERFORM: ClassVar[dict[type[f.Effect], Callable[..., Any]]] = {
        f.AskModel: _ask_model,
        f.Judge: _judge,
        f.Execute: _execute,
        f.Settle: _settle,
        f.Tell: _tell,
        f.Conclude: _conclude,
    }

    # -- what others need to know ----------------------------------------------------------------

    def _state(self, effect: f.AnyEffect) -> CallState:
        run = self.journal.run
        return (run.at(effect.path) if effect.path else run).calls[effect.call or ""]

    def tool_for(self, state: CallState, name: str) -> Tool | None:
        """The tool that was offered under this name, as it was offered; None if none was."""
        return resolve(state, name, self.tools)

    def usage(self) -> f.Usage:
        """What the run has used so far."""
        return self.journal.run.usage

    def decide(self, item: ToolApprovalItem, approve: bool, always_: bool, message: str | None) -> None:
        """A decision made by code of the run itself; from a body in a thread too, for the journal is the loop's."""
        decision: Decision = Approve() if approve else Reject(message)
        lasting = always(always_, "approve" if approve else "reject")
        if threading.get_ident() == self.thread:
            record(self.journal, self.tools, item.id, decision, "code", item.digest, lasting)
        else:
            asyncio.run_coroutine_threadsafe(self._record(item, decision, lasting), self.loop).result()

    async def _record(self, item: ToolApprovalItem, decision: Decision, lasting: Always) -> None:
        record(self.journal, self.tools, item.id, decision, "code", item.digest, lasting)

    def verdict(self, tool_name: str, call_id: str) -> bool | None:
        """Whether a call, by the provider's id, may run; None while it is not decided.

        A call that was not made yet has the verdict of a grant, if one covers the tool.
        """
        for state in reversed(self.journal.run.calls.values()):
            if state.call.tool == tool_name and state.proposal.call_id == call_id:
                if type(state.outcome) is f.Refused:
                    return False
                return True if state.approval is not None else None
        tool = self.tools.get(tool_name)
        grant = grant_for(self.journal.run, self.journal.run.agent, tool) if tool is not None else None
        return grant.verdict == "approve" if grant is not None else None


def called(item: Any) -> str | None:
    """The name a reply's item calls, if it is a call; `ModelFailed` if it is not what an item should be."""
    if not isinstance(item, dict) or type(item.get("type", "")) is not str:
        raise ModelFailed(f"The model's output is a list of items (dicts), got {described(item)}.")
    if item.get("type") != "function_call":
        return None
    name, *rest = (item.get(key) for key in ("name", "arguments"))
    ids = [each for each in (item.get("call_id"), item.get("id")) if each is not None]
    if not isinstance(name, str) or not all(type(each) is str for each in (*rest, *ids)):
        raise ModelFailed(f"The model sent a call whose name, arguments or id is not text: {described(item)}")
    return name


def refusal(state: CallState, refused: f.Refused) -> tuple[Any, str]:
    """What kind of refusal it is, and the default words for it."""
    if refused.why == "tool_not_found" and refused.by == "runtime":
        return "tool_not_found", f"There is no tool named {state.tool!r}. The call did not run."
    if refused.by == "runtime":
        return "invalid_arguments", f"The call did not run: {refused.why}."
    return "approval_rejected", "The call was not approved and did not run."
