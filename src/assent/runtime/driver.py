"""The driver: pays what a run owes until nothing is owed. All runs, plain, sync or streamed, use it.

There is no path for resuming: a run that was paused, saved or broken off owes what it owes.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec.structs import replace

from ..agent import Agent, schema_of
from ..approval.decision import Approve, Decision, Reject
from ..approval.gate import Arguments, Case, Judgement, grant_for, judge, read_arguments
from ..approval.question import new_id
from ..context import RunContextWrapper
from ..core import facts as f
from ..core.digest import described, digest
from ..core.digest import text as clean_text
from ..core.run import CallState, Run, Turn, owed, status
from ..core.transcript import Item, news, provider_id, transcript
from ..errors import (
    Conflict,
    IllegalFact,
    ModelFailed,
    NotFound,
    SessionFailed,
    ToolNotFound,
    TripwireTriggered,
    UnreadableState,
    UsageError,
)
from ..hooks import RunHooks
from ..item import ToolApprovalItem
from ..models.model import Model, ModelRequest, ModelResponse, OutputSpec, ToolSpec
from ..sessions.session import Session
from ..tools.delegation import AgentTool
from ..tools.tool import Tool
from .branch import close_branch
from .cast import Cast, Seat
from .concluding import conclude
from .config import RunConfig, ToolErrorFormatterArgs
from .decider import Always, always, record
from .definition import resolve, same_definition
from .door import enter
from .event import AgentUpdatedStreamEvent, RawResponsesStreamEvent, events, verdict_of
from .guarding import guard_call, guard_input, input_guardrails, tripwire
from .history import keep, patience
from .journal import Journal
from .value import output_json
from .view import Outputs, View

if TYPE_CHECKING:
    from .observe import Observer

log = logging.getLogger("assent")

Path = tuple[str, ...]
Key = tuple[Path, str | None]


class Offer:
    """What one agent's model was offered last in this drive."""

    __slots__ = ("choosy", "names", "output", "parts", "specs", "tools")

    def __init__(self) -> None:
        self.parts: tuple[Any, ...] = ()
        """What the definition was made of that was recorded last."""
        self.tools: dict[str, Tool] | None = None
        """All the agent's tools."""
        self.names: dict[str, Tool] = {}
        """Those that are enabled."""
        self.choosy = False
        """Whether they may be others in the next turn."""
        self.specs: tuple[ToolSpec, ...] = ()
        self.output: OutputSpec | None = None


class Driver:
    """One drive of one run."""

    def __init__(
        self,
        journal: Journal,
        cast: Cast,
        config: RunConfig,
        context: Any,
        outputs: Outputs,
        *,
        hooks: RunHooks[Any] | None = None,
        session: Session | None = None,
    ) -> None:
        self.journal = journal
        self.cast = cast
        self.config = config
        self.hooks = hooks
        self.session = session
        self.kept: int | None = None
        """How many items of the run are in the session."""
        self.writing: asyncio.Task[None] | None = None
        """What is being written to the session."""
        self.loading: asyncio.Timeout | None = None
        """The limit on reading the session, which there is once the run is told to stop."""
        self.ctx: RunContextWrapper[Any] = RunContextWrapper(context, self)
        self.outputs = outputs
        """What bodies gave in this process, as Python objects."""
        self.observer: Observer | None = None
        """Makes spans of the run, if it is traced."""
        self.on_delta: Callable[[Item], None] | None = None
        self.gentle = False
        """Whether the drive can be told to stop while bodies go on: then nothing is awaited in the drive itself."""
        self.stop: Literal["immediate", "after_turn"] | None = None
        self.busy: dict[Key, asyncio.Task[None]] = {}
        self.dropped: set[asyncio.Task[None]] = set()
        """Work that was cancelled on purpose, because what it is for has failed."""
        self.broken: dict[Path, BaseException] = {}
        """What failed, and why: the run itself, or a branch. Nothing new is begun there."""
        self.tripped: set[Path] = set()
        """Where a guardrail has stopped the run, from the moment it has."""
        self.errors: dict[Path, Exception] = {}
        """Why branches were closed in this drive."""
        self.unseen: list[f.AnyFact] = []
        """What was recorded while nobody drove the run."""
        self.mute = False
        """Whether a hook has raised what it thought of that: it is told the rest when the run is resumed."""
        self.faults: list[Exception] = []
        """What hooks have raised."""
        self.noted: list[f.AnyFact] = []
        """Questions and verdicts that hooks are to be told of."""
        self.streams: dict[Path, tuple[AgentTool, str]] = {}
        self.waiting: list[tuple[AgentTool, dict[str, Any]]] = []
        """Events of branches that are to be given to somebody."""
        self.flushing: asyncio.Lock | None = None
        self.read: dict[tuple[Path, str], Arguments] = {}
        """What the gate let pass in this drive, as it read it, for the door: nobody has seen or changed it since."""
        self.offers: dict[Path, Offer] = {}
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
        assert self.task is not None, "a coroutine that runs is in a task"
        self.cancels = self.task.cancelling()
        self._listen()
        try:
            if self.stop == "immediate":  # before it had begun
                await self._wind_down()
                return
            await self._drive(self.task)
            if self.session is not None:
                await keep(self, self.session)
        except asyncio.CancelledError:
            if self.stop != "immediate" or self.task is None:
                raise
            self.task.uncancel()
            await self._wind_down()
        finally:
            left = [*self.busy.values(), *([self.writing] if self.writing is not None else [])]
            for work in left:
                work.cancel()
            if left:
                await asyncio.wait(left)
            self._close_tripped()

    def _listen(self) -> None:
        if self.hooks is not None or any(seat.agent.hooks is not None for seat in self.cast.seats()):
            for fact in self.unseen:
                self._note(fact)
            self.journal.listen(self._note)
        for path, state in open_branches(self.journal.run):
            tool = self.cast.of(state).tools.get(state.tool)
            if isinstance(tool, AgentTool):
                self.stream_branch(path, tool, state)
        for fact in self.unseen if self.streams else ():
            self._branch_fact(fact)

    async def _drive(self, task: asyncio.Task[Any]) -> None:
        busy = self.busy
        for path in [(), *(path for path, _ in open_branches(self.journal.run))]:
            cut_off = tripwire(self, path)
            if cut_off is not None:
                self._fail(path, cut_off)
        while True:
            if task.cancelling() > self.cancels:  # a body may have caught the cancellation; the run stops all the same
                raise asyncio.CancelledError
            if (self.noted and not self.mute) or self.waiting:
                await self._attempt((), self._deliver())
            todo = owed(self.journal.run, busy)
            if busy or self.broken or self.stop is not None:
                todo = self._allowed(todo)
                if self.broken and self._give_up():
                    continue
            if not todo:
                if not busy:
                    return
                await self._wait()
            elif len(todo) == 1 and not busy and not self.gentle:
                effect = todo[0]
                work = self._PERFORM[type(effect)](self, effect)
                try:
                    # A body has a task of its own: what it does to its task is not done to the run's.
                    await (asyncio.create_task(work) if type(effect) is f.Execute else work)
                except Exception as error:
                    self._fail(effect.path, error)
            else:
                await self._perform(todo)

    async def _attempt(self, path: Path, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self._fail(path, error)

    def stopping(self) -> bool:
        """Whether the task this is asked in was told to stop since the drive began."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > (self.cancels if task is self.task else 0)

    def _allowed(self, todo: list[f.AnyEffect]) -> list[f.AnyEffect]:
        """What may be begun now of what is owed."""
        todo = [effect for effect in todo if key_of(effect) not in self.busy]
        if self.broken:
            todo = [effect for effect in todo if not any(under(effect.path, path) for path in self.broken)]
        if self.stop == "after_turn" and not self.busy and any(type(e) is f.AskModel and not e.path for e in todo):
            self.journal.add(f.Cancelled("local", at=self.journal.now()))
            return []
        return todo

    async def _perform(self, todo: list[f.AnyEffect]) -> None:
        """What is quick is done now, and what takes its time is begun."""
        judging = [effect for effect in todo if type(effect) is f.Judge]
        if judging:
            await self._judge_all(judging)
        guards = [key for key in [*map(key_of, todo), *self.busy] if is_guard(key[1])]
        held = {path for path, call in guards if self._blocks(path, call)}
        begun = False
        for effect in todo:
            kind = type(effect)
            if kind in _LONG:
                if not judging and not (kind is f.AskModel and effect.path in held):
                    begun = True
                    self.busy[key_of(effect)] = asyncio.create_task(self._PERFORM[kind](self, effect))
            elif kind is not f.Judge:
                begun = True
                await self._attempt(effect.path, self._PERFORM[kind](self, effect))
        if not begun and not judging:
            await self._wait()  # the model, for a guardrail that it may not overlap

    def _blocks(self, path: Path, key: str | None) -> bool:
        """Whether the model must wait for this guardrail."""
        run = self.run_at(path)
        seat = self.cast.seat(run.began.agent if run.began is not None else run.agent)
        guardrail = input_guardrails(seat, self.config, path).get((key or "")[1:])
        return guardrail is None or not guardrail.run_in_parallel  # which one is missing, nobody knows

    async def _wait(self) -> None:
        done, _ = await asyncio.wait(self.busy.values(), return_when=asyncio.FIRST_COMPLETED)
        for key in [key for key, task in self.busy.items() if task in done]:
            task = self.busy.pop(key)
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            if error is not None and (task not in self.dropped or isinstance(error, TripwireTriggered)):
                self._fail(key[0], error)
            self.dropped.discard(task)

    # -- failing and stopping ----------------------------------------------------------------------

    def _fail(self, path: Path, error: BaseException) -> None:
        """Nothing new is begun in what failed, its model is not waited for, and its bodies come to their end.

        What fails in a branch is the outcome of its call, unless it is a fault of the program, or of its use.
        """
        fault = isinstance(error, UsageError | Conflict | NotFound) or any(error is each for each in self.faults)
        if not isinstance(error, Exception) or fault:
            path = ()
        if isinstance(error, TripwireTriggered) and not isinstance(self.broken.get(path), TripwireTriggered):
            self.broken[path] = error  # it closes the run, whatever else has failed
        self.broken.setdefault(path, error)
        for (where, call), task in self.busy.items():
            if under(where, path) and (call is None or is_guard(call)) and task not in self.dropped:
                self.dropped.add(task)
                task.cancel()

    def stopped(self, path: Path) -> bool:
        """Whether a guardrail has stopped this run or branch, or one that it is in."""
        return any(under(path, where) for where in self.tripped)

    def _give_up(self) -> bool:
        """Close the branches that failed and in which nothing runs any more; raise what failed in the run itself."""
        closed = False
        for path, error in sorted(self.broken.items(), key=lambda each: -len(each[0])):  # inner branches first
            if any(under(where, path) for where, _ in self.busy):
                continue
            if path or isinstance(error, TripwireTriggered):
                del self.broken[path]
                self._close(path, error)
                closed = True
            if not path:
                raise error
            if isinstance(error, Exception):
                self.errors[path] = error
        return closed

    def _close(self, path: Path, error: BaseException) -> None:
        why = clean_text(str(error))[0] or type(error).__name__
        self.journal.add(f.Closed(why, type(error).__name__, at=self.journal.now(), path=path))

    def _close_tripped(self) -> None:
        """A tripwire closes what it guards, whatever else has stopped the run meanwhile."""
        ended = [(path, task) for (path, _), task in self.busy.items() if not task.cancelled()]
        errors = [*self.broken.items(), *((path, task.exception()) for path, task in ended)]
        for path, error in sorted(errors, key=lambda each: -len(each[0])):
            if isinstance(error, TripwireTriggered) and self.run_at(path).closed is None:
                self._close(path, error)

    def halt(self, mode: Literal["immediate", "after_turn"]) -> None:
        """Stop the run: before the next turn, or at once, with some grace for what has begun. Once is enough."""
        if self.stop == "immediate":
            return
        self.stop = mode
        if mode == "immediate" and self.task is not None:
            self.task.cancel()
        self.limit_loading()

    def limit_loading(self) -> None:
        """A session that is being read when the run is told to stop has some time for it, as bodies have."""
        if self.loading is not None and self.stop == "immediate":
            self.loading.reschedule(self.loop.time() + patience(self.config))

    async def _wind_down(self) -> None:
        run = self.journal.run
        if status(run) in ("working", "waiting"):
            self.journal.add(f.Cancelled("local", at=self.journal.now()))
        bodies = [task for (path, call), task in self.busy.items() if self._is_body(path, call)]
        for task in self.busy.values():
            if task not in bodies:
                task.cancel()
        if bodies:
            await asyncio.wait(bodies, timeout=self.config.cancel_grace)
        for task in self.busy.values():
            task.cancel()
        if self.busy:
            await asyncio.wait(self.busy.values())
        for (path, _), task in self.busy.items():
            error = None if task.cancelled() else task.exception()
            if isinstance(error, TripwireTriggered):
                self._fail(path, error)
            elif error is not None and not isinstance(error, IllegalFact):
                log.warning("While a run was stopped, this failed", exc_info=error)
        self.busy.clear()
        if self.broken:
            self._give_up()
        if self.session is not None:
            await self._kept(self.session)

    async def _kept(self, session: Session) -> None:
        try:
            async with asyncio.timeout(patience(self.config)):
                await keep(self, session)
        except TimeoutError:
            raise SessionFailed(
                f"Session {session.session_id!r} did not take what was done before the run was stopped. Resume the "
                "state to write it."
            ) from None

    def _is_body(self, path: Path, call: str | None) -> bool:
        state = self.run_at(path).calls.get(call or "")
        return state is not None and state.attempt > 0

    # -- the model -------------------------------------------------------------------------------

    async def _ask_model(self, effect: f.AskModel) -> None:
        path = effect.path
        run = self.journal.run.at(path) if path else self.journal.run
        seat = self.cast.seat(run.agent)
        agent = seat.agent
        if self.session is not None and not path:
            await keep(self, self.session)
        if run.definition is None and (self.hooks is not None or agent.hooks is not None):
            await self.tell("agent_start", agent)
        model = self._model(agent)
        offer = await self._offer(run, seat, path)
        told = agent.instructions
        if callable(told):
            made = told(self.ctx, agent)
            told = await made if inspect.isawaitable(made) else made
        request = self._request(run, agent, told, offer)
        hooked = self.hooks is not None or agent.hooks is not None
        if hooked:
            await self.tell("llm_start", agent, told, msgspec.json.decode(msgspec.json.encode(request.input)))
        work = self._reply(model, request, path)
        reply = await (work if self.observer is None else self.observer.reply(path, agent, model, request, work))
        self.journal.add(self._replied(run, reply, effect, offer))
        if hooked:
            await self.tell("llm_end", agent, reply)

    def _request(self, run: Run, agent: Agent[Any], told: str | None, offer: Offer) -> ModelRequest:
        settings = agent.model_settings.resolve(self.config.model_settings)
        if settings.tool_choice is not None and agent.reset_tool_choice and run.turns:
            last = next((entry for entry in reversed(run.entries) if type(entry) is Turn), None)
            if last is not None and last.calls and last.agent == run.agent:
                settings = replace(settings, tool_choice=None)
        kept = run.began.conversation if run.began is not None else None
        if not kept:
            return ModelRequest(told, self._heard(run, transcript), offer.specs, offer.output, settings)
        replies = (e.reply for e in reversed(run.entries) if type(e) is Turn and type(e.reply) is f.Replied)
        reply, conversation = next(replies, None), kept.get("id")
        chain = reply.id if reply is not None and conversation is None else None
        known = conversation is not None or chain is not None
        if not known:  # the provider has nothing of this run, and at most what was before it
            chain = kept.get("previous")
        heard = self._heard(run, news if known else transcript)
        return ModelRequest(told, heard, offer.specs, offer.output, settings, chain, conversation)

    def _heard(self, run: Run, hear: Callable[[Run], list[Item]]) -> list[Item]:
        try:
            return hear(run)
        except (msgspec.MsgspecError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise UnreadableState(f"This run is damaged: an item of its transcript cannot be read ({error}).") from None

    def _model(self, agent: Agent[Any]) -> Model:
        model = self.config.model or agent.model
        if model is None:
            raise UsageError(f"Agent {agent.name!r} has no model; give Agent(model=...) or RunConfig(model=...).")
        return model

    async def _offer(self, run: Run, seat: Seat, path: Path) -> Offer:
        """Record the agent's definition where it is a new one, and settle which tools the model is offered."""
        agent, tools = seat.agent, seat.tools
        offer = self.offers.get(path)
        if offer is None:
            offer = self.offers[path] = Offer()
        parts = (tools, agent.instructions, agent.model, agent.output_type, agent.tool_use_behavior)
        if run.definition is None or parts != offer.parts:
            offer.parts = parts
            fact = seat.defined(path)
            if run.definition is None or not same_definition(run.definition, fact):
                known = fact.digest in self.journal.run.marks
                self.journal.add(msgspec.structs.replace(fact, tools={}) if known else fact)
            shape = schema_of(agent)
            schema = shape.json_schema if shape is not None else None
            offer.output = OutputSpec(shape.name, schema, shape.strict) if shape is not None and schema else None
        if offer.choosy or tools is not offer.tools:
            names = {name: t for name, t in tools.items() if t.is_enabled is True or await self.enabled(t, agent)}
            offer.choosy = any(t.is_enabled is not True for t in tools.values())
            offer.tools, offer.names = tools, names
            offer.specs = tuple(tool.spec for tool in names.values())
        return offer

    async def enabled(self, tool: Tool, agent: Agent[Any]) -> bool:
        """Whether the agent's model is offered the tool now."""
        if type(tool.is_enabled) is bool:
            return tool.is_enabled
        answer = tool.is_enabled(self.ctx, agent)
        answer = await answer if inspect.isawaitable(answer) else answer
        return answer is True

    async def _reply(self, model: Model, request: ModelRequest, path: Path) -> ModelResponse:
        reply: ModelResponse | None = None
        show = self.on_delta if not path else self._branch_delta(path)
        events = model.stream(request)
        try:
            async for event in events:
                if isinstance(event, ModelResponse):
                    reply = event
                elif show is not None:
                    show(event)
                    if self.waiting:
                        await self.flush()
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        if reply is None:
            raise ModelFailed(f"The model {model.name!r} ended its stream without a complete reply.")
        return reply

    def _replied(self, run: Run, reply: ModelResponse, effect: f.AskModel, offer: Offer) -> f.Replied:
        calls: list[f.Call] = []
        number = len(run.calls)
        for index, item in enumerate(reply.output):
            name = called(item)
            if name is not None:
                tool = offer.names.get(name)
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

    # -- calls -----------------------------------------------------------------------------------

    async def _judge(self, effect: f.Judge) -> None:
        await self._judge_all([effect])

    async def _judge_all(self, effects: list[f.Judge]) -> None:
        try:
            cases = [self._case(effect) for effect in effects]
            if len(cases) > 1 and any(takes_time(case, self.config) for case in cases):
                verdicts = await all_of(map(self._judged_one, cases))  # rules may take their time
            else:
                verdicts = [await self._judged_one(case) for case in cases]
            self._judged([(case, fact) for case, fact in zip(cases, verdicts, strict=True) if fact is not None])
        except Exception as error:
            self._fail(effects[0].path, error)

    async def _judged_one(self, case: Case) -> Judgement | None:
        """The verdict on a case; None if a guardrail that looks before it has failed where the case is."""
        tool, args = case.tool, case.args
        if tool is not None and args is not None and args.value is not None and early(case, self.config):
            try:
                refused = await guard_call(self, case.path, case.state, tool, args.value)
            except Exception as error:
                self._fail(case.path, error)
                return None
            if refused is not None:
                return refused
        return await judge(case)

    def _case(self, effect: f.Judge) -> Case:
        root = self.journal.run
        state = self._state(effect)
        seat = self.cast.of(state)
        tool = resolve(state, seat.tool(state.call.kind, state.tool))
        args = read_arguments(tool, state.proposal.arguments) if tool is not None else None
        return Case(root, effect.path, state, tool, args, seat.agent, self.ctx, self.journal.now())

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
                        f"The model called the tool {name!r}, which agent {case.agent.name!r} does not have."
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
        silent = state.words is None or (state.call.kind == "output" and not state.words)  # which nobody could hear
        if silent and isinstance(refused, f.Refused):
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
        await conclude(self, effect)

    async def _guard(self, effect: f.Guard) -> None:
        await guard_input(self, effect)

    async def _return(self, effect: f.Return) -> None:
        await close_branch(self, effect)

    _PERFORM: ClassVar[dict[type[f.Effect], Callable[..., Any]]] = {
        f.AskModel: _ask_model,
        f.Guard: _guard,
        f.Judge: _judge,
        f.Execute: _execute,
        f.Settle: _settle,
        f.Tell: _tell,
        f.Conclude: _conclude,
        f.Return: _return,
    }

    # -- telling ---------------------------------------------------------------------------------

    async def tell(self, what: str, agent: Agent[Any], *args: Any) -> None:
        """Tell the hooks of the run, and then those of the agent. What they raise stops the run, wherever it is."""
        try:
            await self._told(what, agent, *args)
        except Exception as error:
            self.faults.append(error)
            raise

    async def _told(self, what: str, agent: Agent[Any], *args: Any) -> None:
        if self.hooks is not None:
            await _called(getattr(self.hooks, f"on_{what}")(self.ctx, agent, *args))
        if what == "handoff":
            (target,) = args
            if target.hooks is not None:
                await _called(target.hooks.on_handoff(self.ctx, target, agent))
        elif agent.hooks is not None:
            name = what.removeprefix("agent_")
            await _called(getattr(agent.hooks, f"on_{name}")(self.ctx, agent, *args))

    def _note(self, fact: f.AnyFact) -> None:
        if isinstance(fact, f.Asked) or verdict_of(fact) is not None:
            self.noted.append(fact)

    async def _deliver(self) -> None:
        """Tell hooks of questions and verdicts, and branches' listeners of their events."""
        await self.flush()
        while self.noted and not self.mute:
            self.mute = True
            await self._tell_of(self.noted[0])
            self.mute = False
            del self.noted[0]

    async def _tell_of(self, fact: Any) -> None:
        state = self.run_at(fact.path).calls[fact.call]
        agent = self.cast.of(state).agent
        if self.hooks is None and agent.hooks is None:
            return
        view, settled = self.view(()), verdict_of(fact)
        if settled is None:
            await self.tell("approval_requested", agent, view.question(fact.path, state, fact))
            return
        id, verdict, by = settled
        asked = next(each for each in reversed(self.journal.facts) if isinstance(each, f.Asked) and each.id == id)
        await self.tell("approval_decided", agent, view.question(fact.path, state, asked), verdict, by)

    def stream_branch(self, path: Path, tool: AgentTool, state: CallState) -> None:
        """Give the events of this branch to whoever wants them."""
        if tool.on_stream is None:
            return
        if self.flushing is None:
            self.flushing = asyncio.Lock()
            self.journal.listen(self._branch_fact)
        self.streams[path] = tool, provider_id(state)
        self._branch_event(path, [AgentUpdatedStreamEvent(self.cast.seat(self.run_at(path).agent).agent)])

    def _branch_fact(self, fact: f.AnyFact) -> None:
        if fact.path in self.streams:
            self._branch_event(fact.path, events(self.view(fact.path), fact))

    def _branch_delta(self, path: Path) -> Callable[[Item], None] | None:
        if path not in self.streams:
            return None
        return lambda data: self._branch_event(path, [RawResponsesStreamEvent(data)])

    def _branch_event(self, path: Path, found: Any) -> None:
        tool, call_id = self.streams[path]
        for event in found:
            self.waiting.append((tool, {"event": event, "agent": tool.agent, "call_id": call_id}))

    async def flush(self) -> None:
        """Give the events of branches to whoever wants them, in their order; what they raise is only logged."""
        if self.flushing is None:
            return
        async with self.flushing:
            while self.waiting:
                tool, payload = self.waiting.pop(0)
                try:
                    await _called(tool.on_stream(payload))  # type: ignore[misc]
                except Exception:
                    log.warning("on_stream of %r failed; the run goes on", tool.name, exc_info=True)

    # -- what others need to know ----------------------------------------------------------------

    @property
    def agent(self) -> Agent[Any]:
        """The agent the run began with."""
        return self.cast.root

    def run_at(self, path: Path) -> Run:
        """The run, or the branch under these calls."""
        return self.journal.run.at(path) if path else self.journal.run

    def view(self, path: Path) -> View:
        """The run, or a branch, as it looks from outside."""
        return View(self.journal.run, self.cast, self.outputs, path)

    def _state(self, effect: f.AnyEffect) -> CallState:
        run = self.journal.run
        return (run.at(effect.path) if effect.path else run).calls[effect.call or ""]

    def tool_for(self, state: CallState) -> Tool | None:
        """The tool that a call was offered, as it was offered; None if none was."""
        return resolve(state, self.cast.of(state).tool(state.call.kind, state.tool))

    def usage(self) -> f.Usage:
        """What the run has used so far."""
        return self.journal.run.usage

    def decide(self, item: ToolApprovalItem, approve: bool, always_: bool, message: str | None) -> None:
        """A decision made by code of the run itself; from a body in a thread too, for the journal is the loop's."""
        decision: Decision = Approve() if approve else Reject(message)
        lasting = always(always_, "approve" if approve else "reject")
        if threading.get_ident() == self.thread:
            record(self.journal, self.cast, item.id, decision, "code", item.digest, lasting)
        else:
            asyncio.run_coroutine_threadsafe(self._record(item, decision, lasting), self.loop).result()

    async def _record(self, item: ToolApprovalItem, decision: Decision, lasting: Always) -> None:
        record(self.journal, self.cast, item.id, decision, "code", item.digest, lasting)

    def verdict(self, tool_name: str, call_id: str, path: Path = ()) -> bool | None:
        """Whether a call, by the provider's id, may run; None while it is not decided.

        Calls of the run or branch that asks come first, since providers' ids are not unique over branches; where
        calls of several others differ, nothing can be said. A call that was not made yet has the verdict of a
        grant, if one covers the tool.
        """
        root = self.journal.run
        here = self.run_at(path)
        for runs in ([here], [run for run in (root, *branches(root)) if run is not here]):
            made = [call for run in runs if (call := _called_as(run, tool_name, call_id)) is not None]
            if made:
                verdicts = {
                    type(call.outcome) is not f.Refused and (call.approval is not None or None) for call in made
                }
                return verdicts.pop() if len(verdicts) == 1 else None
        tool = self.cast.seat(here.agent).tools.get(tool_name)
        grant = grant_for(root, here.agent, tool) if tool is not None else None
        return grant.verdict == "approve" if grant is not None else None


def _called_as(run: Run, tool_name: str, call_id: str) -> CallState | None:
    """The last call of a tool that has this id of the provider's."""
    calls = reversed(run.calls.values())
    return next((each for each in calls if each.call.tool == tool_name and each.proposal.call_id == call_id), None)


_LONG = (f.AskModel, f.Execute, f.Guard, f.Conclude, f.Return)
"""What may take its time, and is begun rather than done."""


async def all_of(work: Iterable[Coroutine[Any, Any, Judgement | None]]) -> list[Judgement | None]:
    """What each gives, or what the first to fail raised once all have ended: nothing is left running."""
    given = await asyncio.gather(*work, return_exceptions=True)
    for each in given:
        if isinstance(each, BaseException):
            raise each
    return given  # type: ignore[return-value]


async def _called(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


def key_of(effect: f.AnyEffect) -> Key:
    """What tells one effect from another while it is being paid."""
    return effect.path, f"?{effect.name}" if type(effect) is f.Guard else effect.call


def is_guard(call: str | None) -> bool:
    """Whether this part of a key is an input guardrail's."""
    return call is not None and call.startswith("?")


def under(path: Path, branch: Path) -> bool:
    """Whether a path is of this branch, or of one inside it."""
    return path[: len(branch)] == branch


def branches(run: Run) -> list[Run]:
    """Every branch of a run, at any depth."""
    children = run.children()
    return children + [inner for child in children for inner in branches(child)]


def open_branches(run: Run, path: Path = ()) -> list[tuple[Path, CallState]]:
    """The branches that are being worked on, each with the call that opened it."""
    out: list[tuple[Path, CallState]] = []
    for id, state in run.open.items():
        if state.child is not None:
            out += [((*path, id), state), *open_branches(state.child, (*path, id))]
    return out


def takes_time(case: Case, config: RunConfig) -> bool:
    """Whether judging a case may run code of the user's."""
    tool = case.tool
    if tool is None:
        return False
    return early(case, config) or type(tool.needs_approval) is not bool or tool.on_approval is not None


def early(case: Case, config: RunConfig) -> bool:
    """Whether the tool's guardrails look at a case before a person is asked about it."""
    tool, args = case.tool, case.args
    if not config.pre_approval_tool_input_guardrails or tool is None or not tool.tool_input_guardrails:
        return False
    return tool.needs_approval is not False and args is not None and args.problem is None


def called(item: Any) -> str | None:
    """The name a reply's item calls, if it is a call; `ModelFailed` if it is not what an item should be."""
    if not isinstance(item, dict) or type(item.get("type", "")) is not str:
        raise ModelFailed(f"The model's output is a list of items (dicts), got {described(item)}.")
    if item.get("type") != "function_call":
        return None
    name, arguments = item.get("name"), item.get("arguments")
    call_id, id = item.get("call_id", ""), item.get("id", "")
    if not (type(name) is type(arguments) is str and type(call_id or "") is type(id or "") is str):
        raise ModelFailed(f"The model sent a call whose name, arguments or id is not text: {described(item)}")
    return name


def refusal(state: CallState, refused: f.Refused) -> tuple[Any, str]:
    """What kind of refusal it is, and the default words for it."""
    if refused.why == "tool_not_found" and refused.by == "runtime":
        return "tool_not_found", f"There is no tool named {state.tool!r}. The call did not run."
    if refused.by == "runtime":
        return "invalid_arguments", f"The call did not run: {refused.why}."
    if state.call.kind == "output":
        return "approval_rejected", "This output was not approved; give another one."
    return "approval_rejected", "The call was not approved and did not run."
