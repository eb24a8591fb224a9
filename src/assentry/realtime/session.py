"""A live session: a run whose model speaks and listens. Its calls pass the same gate and the same door as any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from msgspec.structs import replace

from ..approval.decision import Approve, Decider, Decision, Edit, Reject, Respond
from ..approval.terms import always as always_grant
from ..core import facts as f
from ..core.rules import verdict_of
from ..core.run import CallState, Run
from ..core.wording import described
from ..definitions.guardrail import OutputGuardrailResult
from ..definitions.item import ToolApprovalItem
from ..definitions.prompt import resolve_prompt
from ..errors import (
    AlreadyDecided,
    AssentryError,
    InvalidInput,
    ModelFailed,
    NotPending,
    Overtaken,
    QuestionNotFound,
    RunUnfinished,
    UsageError,
)
from ..runtime.drive import close_run, drive_run, end_drive, keep_state, open_run
from ..runtime.state import RunState, left_by
from ..runtime.steps.model_call import make_reply, prepare_request
from . import event as e
from . import item as i
from . import model as m
from .briefing import ModelBriefing, Offer, SendToModel, note_to_model
from .config import RealtimeModelConfig, RealtimeSessionModelSettings
from .conversation import TAKE, Command, ConnectAttempts, Conversation, Reconnect, RecordReply, typed_input
from .driver import LiveDriver
from .event_queue import EventQueue
from .guard import ReplyGuard
from .rules import CLOSED, NEW, OPEN, OPENING
from .watch import watch_of

log = logging.getLogger("assentry")


class RealtimeSession(m.RealtimeModelListener):
    """A live session, from `RealtimeRunner.run`. Enter it, send to it, and iterate over its events.

    The run goes on as long as the session is open. Afterwards `to_state()` is the run: it can be saved, decided on,
    and continued as text or in another session.
    """

    def __init__(
        self,
        driver: LiveDriver,
        model: m.RealtimeModel,
        options: RealtimeModelConfig,
        settings: RealtimeSessionModelSettings,
        *,
        attempts: int,
        delay: float,
        transcript_wait: float,
        guard_length: int,
    ) -> None:
        self._driver, self._model, self._options, self._settings = driver, model, options, settings
        self._scope, self._transcript_wait = driver.scope, transcript_wait
        self._info = e.RealtimeEventInfo(self._scope.ctx)
        self._events = EventQueue(self._info)
        briefing = ModelBriefing(self._scope.graph, self._scope.outputs, self._info)
        self._conversation = Conversation(briefing, ConnectAttempts(attempts, delay))
        self._guard = ReplyGuard(self._scope, guard_length, self._stop_reply, self._emit_error)
        self._outbox: list[SendToModel] = []
        self._mail = asyncio.Event()
        self._connected = asyncio.Event()
        """Set while the session is open, and once it has ended."""
        self._timer: asyncio.TimerHandle | None = None
        """The timer that ends the wait for transcripts."""
        self._looking = False
        """True if a look at the run is scheduled."""
        self._storing: asyncio.Task[None] | None = None
        """The task that stores questions, before anybody is told of them."""
        self._drive: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._scope.journal.listen(self._note)
        driver.on_restart = self._note_restart

    # -- opening and closing ---------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Connect to the model, and begin."""
        if not self._conversation.may("enter"):
            raise UsageError("This session was entered already; make another with runner.run().")
        if self._model.serves not in (None, self):
            raise UsageError("This realtime model serves another session; close that first, or give each its own.")
        writer = self._driver.writer
        self._conversation.step("enter")
        self._model.serves = self
        self._model.add_listener(self)
        try:
            if writer is not None:
                await writer.store.open()
            await open_run(self._driver, now=True)
            await self._connect()
        except BaseException as error:
            await self._give_up(error)
            raise
        self._drive = asyncio.create_task(drive_run(self._driver))
        self._drive.add_done_callback(self._drove)
        self._begin(self._deliver())
        if writer is not None:
            watch_of(writer.store).join(writer)
        return self

    async def _give_up(self, error: BaseException) -> None:
        """Let go of everything, because the session could not begin, and put the run's state on the error."""
        self._conversation.step("fail")
        try:
            await self._disconnect()
            await self._scope.servers.close()
        finally:
            await close_run(self._driver, error)

    async def _disconnect(self) -> None:
        try:
            self._model.remove_listener(self)
            await self._model.close()
        except Exception:
            log.warning("The connection of a live session was not closed in order", exc_info=True)
        self._model.serves = None

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task that ends with the session."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aexit__(self, *_: object) -> None:
        """Close the session. The run stays as it is."""
        await self.close()

    async def close(self) -> None:
        """Close the connection and end the session; calls that wait go on waiting in the run. Closing twice is fine.

        A tool's body may close the session too. The session then ends after the body.
        """
        ending = self._end(None)
        if ending is not None and asyncio.current_task() not in self._driver.tasks.busy.values():
            await asyncio.shield(ending)

    def _end(self, error: BaseException | None) -> asyncio.Task[None] | None:
        """Begin to end the session, unless that has begun; None if it was not open."""
        if self._conversation.step("end") and self._ending is None:
            self._error = error
            self._ending = asyncio.create_task(self._finish())
        return self._ending

    async def _finish(self) -> None:
        """End the connection and the drive, and then the iteration, whatever fails meanwhile."""
        assert self._drive is not None
        try:
            await self._wind_down(self._drive)
            self._keep_error(self._drive)
            self._look()
        except Exception as error:
            self._error = self._error or error
        finally:
            self._conversation.step("ended")
            self._scope.control.state = None  # a drive that failed has made its state before the last words were in
            if self._error is not None:
                keep_state(self._error, self._scope)
            self._connected.set()
            self._emit(None)

    async def _wind_down(self, drive: asyncio.Task[None]) -> None:
        grace, writer = self._scope.config.cancel_grace, self._driver.writer
        self._give_up_words()
        self._guard.close()
        for task in self._tasks:
            task.cancel()
        if writer is not None:
            watch_of(writer.store).leave(writer)
        await self._disconnect()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        self._driver.leave()
        await end_drive(self._driver, drive)

    def _keep_error(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Overtaken) and self._error is None:
            self._error = error

    def _drove(self, task: asyncio.Task[None]) -> None:
        if self._ending is None:  # it failed, or somebody cancelled or closed the run
            self._end(None if task.cancelled() else task.exception())

    def to_state(self) -> RunState[Any]:
        """Return the run as a state to decide on, save and continue, once the session is closed."""
        if self._conversation.state is not CLOSED:
            raise RunUnfinished("The session is open; close it first, or decide with its own methods.")
        return left_by(self._scope)

    @property
    def run_id(self) -> str:
        """The run's id, in a store too."""
        return self._scope.journal.run.id

    @property
    def agent(self) -> Any:
        """The active agent."""
        return self._conversation.model.agent(self._scope.journal.run)

    @property
    def history(self) -> list[i.RealtimeItem]:
        """The conversation so far, without audio."""
        return self._conversation.history.items

    @property
    def model(self) -> m.RealtimeModel:
        """The model, to send it events of its own protocol."""
        return self._model

    # -- the user ----------------------------------------------------------------------------------

    async def send_message(self, message: str | Mapping[str, Any]) -> None:
        """Send a typed message: a text, or a user's message as the Responses API has it."""
        self._check_open()
        self._perform(self._conversation.take_message(typed_input(message), self._scope.journal.run))

    async def send_audio(self, audio: bytes, *, commit: bool = False) -> None:
        """Send audio of the user in the session's format; with `commit`, the user's turn ends with it.

        While the connection is made again, this waits.
        """
        if not isinstance(audio, bytes | bytearray | memoryview):
            raise InvalidInput(f"Audio is bytes, got {described(audio)}.")
        if not isinstance(commit, bool):
            raise InvalidInput(f"commit is True or False, got {described(commit)}.")
        await self._send(m.RealtimeModelSendAudio(bytes(audio), commit))

    async def interrupt(self) -> None:
        """Stop the reply under way; what was not heard of it is cut off. Tools that have begun go on."""
        await self._send(m.RealtimeModelSendInterrupt())

    async def _send(self, event: m.RealtimeModelSendEvent) -> None:
        self._check_open()
        await self._connected.wait()
        self._check_open()
        await self._model.send_event(event)

    def _check_open(self) -> None:
        if self._conversation.state in (NEW, OPENING):
            raise UsageError("Enter the session first: async with session: ...")
        if not self._conversation.may("send") or self._scope.journal.run.closed is not None:
            raise UsageError("The session is closed; its run is session.to_state().")

    # -- deciding ----------------------------------------------------------------------------------

    @property
    def pending_approvals(self) -> list[ToolApprovalItem]:
        """The questions that wait for a person, with those of nested agents."""
        return self._scope.view(()).interruptions()

    async def approve_tool_call(self, call_id: str, *, always: bool = False, by: str | Decider = "local") -> None:
        """Let a call run as it was shown; with `always`, later calls of its tool in this run too."""
        await self._decide(call_id, Approve(), by, always_grant("always", always))

    async def reject_tool_call(
        self,
        call_id: str,
        *,
        always: bool = False,
        rejection_message: str | None = None,
        by: str | Decider = "local",
    ) -> None:
        """Refuse a call; the model is told the message. With `always`, later calls of its tool in this run too."""
        await self._decide(call_id, Reject(rejection_message), by, always_grant("always", always))

    async def edit_tool_call(
        self, call_id: str, arguments: dict[str, Any], *, note: str | None = None, by: str | Decider = "local"
    ) -> None:
        """Let a call run with other arguments, which must fit the tool."""
        await self._decide(call_id, Edit(arguments, note=note), by, None)

    async def respond_tool_call(self, call_id: str, output: Any, *, by: str | Decider = "local") -> None:
        """Answer in the tool's place, or answer the question of a tool's body."""
        await self._decide(call_id, Respond(output), by, None)

    async def _decide(self, call_id: str, decision: Decision, by: str | Decider, grant: Any) -> None:
        self._check_open()
        question = self._question(call_id)
        journal, writer = self._scope.journal, self._driver.writer
        if writer is None:
            journal.decide(question.id, decision, by, question.digest, self._scope.graph.tool_of, grant)
            return
        await writer.flush()  # the question is in the store before it is decided there
        await writer.store.decide(question.id, decision, by=by, digest=question.digest, grant=grant)
        with suppress(AssentryError):  # the decision is made: the watch brings it here if this does not
            await writer.catch_up()

    def _question(self, call_id: Any) -> ToolApprovalItem:
        """Return the open question about a call, by the provider's id of the call or the question's own."""
        waiting = self.pending_approvals
        wanted = call_id or object()  # an empty id names no call
        found = [item for item in waiting if wanted in (item.id, item.call_id)]
        if len(found) == 1:
            return found[0]
        if found:
            ids = ", ".join(item.id for item in found)
            raise UsageError(f"Several calls have the id {call_id!r}; name the question instead: {ids}.")
        run = self._scope.journal.run
        for state in _calls(run):
            asked = state.question.id if state.question is not None else ""
            if wanted in (state.proposal.call_id, asked):
                fact = run.decided.get(asked)
                verdict, by = verdict_of(fact), getattr(fact, "by", "?")
                if verdict is None:
                    raise NotPending(f"Nobody is asked about the call {call_id!r}.")
                raise AlreadyDecided(f"The call {call_id!r} was decided already: {verdict}, by {by}.")
        open_ids = ", ".join(repr(item.call_id) for item in waiting) or "none"
        raise QuestionNotFound(f"There is no call {described(call_id)} in this session; waiting: {open_ids}.")

    # -- events for the user -----------------------------------------------------------------------

    def __aiter__(self) -> Self:
        """Iterate over the events, until the session ends; an error that ended it is raised then."""
        return self

    async def __anext__(self) -> e.RealtimeSessionEvent:
        """Return the next event."""
        event = await self._events.next()
        if event is not None:
            return event
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def _emit(self, event: e.RealtimeSessionEvent | None) -> None:
        self._events.push(event)

    def _emit_error(self, error: Exception) -> None:
        self._emit(e.RealtimeError(error, self._info))

    # -- the machine and the run -------------------------------------------------------------------

    def on_event(self, event: m.RealtimeModelEvent) -> None:
        """Take an event of the model."""
        self._emit(e.RealtimeRawModelEvent(event, self._info))
        pass_on, take = PASS_ON.get(type(event)), TAKE.get(type(event))
        if pass_on is not None:
            self._emit(pass_on(event, self._info))
            return
        self._guard.take(event)
        if take is not None:
            self._perform(take(self._conversation, event, self._scope.journal.run))

    def _perform(self, commands: Iterable[Command]) -> None:
        """Do what the conversation asks for, and wait for transcripts only as long as is allowed."""
        for command in commands:
            PERFORM.get(type(command), RealtimeSession._emit)(self, command)
        waits = self._conversation.waits_for_words
        if waits and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._transcript_wait, self._give_up_words)
        elif not waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up_words(self) -> None:
        self._perform(self._conversation.give_up_words(self._scope.journal.run))

    def _record_input(self, facts: list[f.Said]) -> None:
        now = self._scope.journal.now()
        self._scope.journal.append([f.Said(fact.items, by=fact.by, at=now) for fact in facts])

    def _record_reply(self, command: RecordReply) -> None:
        journal = self._scope.journal
        try:
            fact = make_reply(self._scope, journal.run, command.response, command.saw, command.tools)
        except ModelFailed as error:
            self._emit_error(error)
        else:
            journal.add(replace(fact, missed=command.missed))

    def _note(self, fact: f.AnyFact) -> None:
        for event in self._conversation.model.note(fact, self._scope.journal.run):
            self._emit(event)
        self._look_soon()

    def _note_restart(self) -> None:
        self._conversation.model.numbers.restart(self._scope.journal.run)
        self._look_soon()

    def _look_soon(self) -> None:
        """Look at the run once the facts of this moment are all in."""
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Tell the user and the model what has changed in the run."""
        self._looking = False
        run = self._scope.journal.run
        self._perform(self._conversation.model.look(run, self._unstored()))
        if run.cancelled is not None or run.closed is not None:
            self._end(None)

    def _unstored(self) -> set[str]:
        """Return the questions that are not in the run's store yet; nobody is told of them before they are."""
        writer = self._driver.writer
        found = {fact.id for fact in writer.unwritten if type(fact) is f.Asked} if writer is not None else set()
        if found and self._storing is None:
            self._storing = asyncio.create_task(self._store())
        return found

    async def _store(self) -> None:
        try:
            if self._driver.writer is not None:
                await self._driver.writer.flush()
        except Overtaken:
            pass  # the drive begins again, with what others have stored
        except Exception:
            log.debug("A live run's question could not be stored; the drive ends with the error", exc_info=True)
            return
        finally:
            self._storing = None
        self._look_soon()

    def _stop_reply(self, results: list[OutputGuardrailResult], text: str, words: str) -> None:
        self._post(SendToModel(m.RealtimeModelSendInterrupt()))
        self._post(SendToModel(note_to_model(words)))
        self._emit(e.RealtimeGuardrailTripped(results, text, self._info))

    # -- the connection ----------------------------------------------------------------------------

    async def _connect(self) -> None:
        """Connect, and tell the model who speaks and what was said so far."""
        conversation, journal = self._conversation, self._scope.journal
        conversation.step("connect")
        conversation.loss = None
        await self._model.connect(self._options)
        update, offer = await self._configure()
        await self._model.send_event(update)
        self._look()  # the user hears of what happened meanwhile; the model has it from here
        self._outbox.clear()
        restored = conversation.restore(offer, journal.run, journal.past)  # what comes from now on is sent after this
        if offer.place != journal.run.agent:  # another agent took over after the settings were made
            self._post(SendToModel(configure=True))
        if restored is not None:
            await self._model.send_event(restored)
        if conversation.loss is not None:
            raise conversation.loss
        conversation.step("connected")
        conversation.attempts.since = asyncio.get_running_loop().time()
        self._connected.set()
        self._mail.set()
        self._look_soon()

    def _begin_reconnect(self, command: Reconnect) -> None:
        self._connected.clear()
        self._begin(self._reconnect(command.error))

    async def _reconnect(self, error: ModelFailed) -> None:
        """Connect again, a few times; if that fails, end the session with the error. The run loses nothing."""
        conversation, clock = self._conversation, asyncio.get_running_loop().time
        while (delay := conversation.attempts.next_delay(error, clock())) is not None:
            self._emit_error(error)
            await asyncio.sleep(delay)
            try:
                await self._connect()
                return
            except ModelFailed as failed:
                error = failed
                self._perform(conversation.lose(str(failed), self._scope.journal.run))
            except Exception as failure:
                self._end(failure)
                return
        self._end(error)

    async def _configure(self) -> tuple[m.RealtimeModelSendSessionUpdate, Offer]:
        """Return the settings that make the model the active agent, and the tools that it is offered."""
        run = self._scope.journal.run
        placed = self._scope.graph.agent_at(run.agent)
        hooks = self._scope.hooks
        if hooks.wants(placed.agent):
            hooks.hear()
            if run.definition is None:
                await hooks.tell_of_agent((), "agent_start", placed.agent)
        told, offer = await prepare_request(self._scope, run, placed.agent, ())
        self._guard.follow(placed)
        settings: RealtimeSessionModelSettings = {**self._settings}
        voice, prompt = getattr(placed.agent, "voice", None), await resolve_prompt(self._scope.ctx, placed.agent)
        if voice is not None:
            settings["voice"] = voice
        if prompt is not None:
            settings["prompt"] = prompt
        told = settings.pop("instructions", told)
        return m.RealtimeModelSendSessionUpdate(settings, told, offer.specs), Offer(placed.place, offer)

    async def settings_of_agent(self) -> m.RealtimeModelSendSessionUpdate:
        """Return what a model would be sent for the active agent. The session need not be entered for this."""
        try:
            update, _ = await self._configure()
        finally:
            if self._conversation.state is NEW:
                await self._scope.servers.close()
        return update

    def _post(self, command: SendToModel) -> None:
        self._outbox.append(command)
        self._mail.set()

    async def _deliver(self) -> None:
        """Send what is posted, in order. A failed send is told; what it was about is told again after a reconnect."""
        while True:
            await self._mail.wait()
            self._mail.clear()
            while self._outbox and self._conversation.state is OPEN:
                command = self._outbox.pop(0)
                try:
                    event: m.RealtimeModelSendEvent | None = command.event
                    if command.configure:
                        event, self._conversation.model.offer = await self._configure()
                    if event is not None:
                        await self._model.send_event(event)
                    self._conversation.model.has(command)
                except ModelFailed as error:
                    self._emit_error(error)
                except Exception as error:
                    self._end(error)
                    return


def _calls(run: Run) -> Iterator[CallState]:
    """Yield the calls of a run and of its nested agents, the newest first."""
    for state in reversed(run.calls.values()):
        if state.child is not None:
            yield from _calls(state.child)
        yield state


PERFORM: dict[type, Callable[[RealtimeSession, Any], None]] = {
    list: RealtimeSession._record_input,
    RecordReply: RealtimeSession._record_reply,
    Reconnect: RealtimeSession._begin_reconnect,
    SendToModel: RealtimeSession._post,
}
"""The method that performs each command of the conversation; all others are events for the user."""

PASS_ON: dict[type, Callable[[Any, e.RealtimeEventInfo], e.RealtimeSessionEvent]] = {
    m.RealtimeModelAudioEvent: lambda event, info: e.RealtimeAudio(event, event.item_id, event.content_index, info),
    m.RealtimeModelAudioDoneEvent: lambda event, info: e.RealtimeAudioEnd(event.item_id, event.content_index, info),
    m.RealtimeModelInputAudioTimeoutTriggeredEvent: lambda _, info: e.RealtimeInputAudioTimeoutTriggered(info),
    m.RealtimeModelErrorEvent: lambda event, info: e.RealtimeError(event.error, info),
}
"""The events of the model that are passed on to the user, and change nothing."""
