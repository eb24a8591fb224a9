"""A live session: a run whose model speaks and listens. Its calls pass the same gate and the same door as any other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from ..approval.decision import Approve, Decider, Decision, Edit, Reject, Respond
from ..approval.terms import always as always_grant
from ..core.digest import described
from ..core.rules import verdict_of
from ..core.run import CallState, Run
from ..definitions.guardrail import OutputGuardrailResult
from ..definitions.item import ToolApprovalItem
from ..errors import (
    AlreadyDecided,
    AssentError,
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
from ..runtime.steps.model_call import prepared
from . import event as e
from . import item as i
from . import model as m
from .config import RealtimeModelConfig, RealtimeSessionModelSettings
from .conversation import Conversation, Offer, typed_input
from .driver import LiveDriver
from .event_queue import EventQueue
from .guard import ReplyGuard
from .watch import watch_of

log = logging.getLogger("assent")

STEADY = 60.0
"""The seconds after which a connection is good. A reply shows it too. The attempts to connect are then counted anew."""

Sent = tuple[m.RealtimeModelSendEvent | None, Callable[[], None]]


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
        self._attempts, self._delay = attempts, delay
        self._tried = 0
        """The attempts to connect since a connection was good."""
        self._since = 0.0
        """The time at which the last connection was made."""
        self._scope = driver.scope
        self._info = e.RealtimeEventInfo(self._scope.ctx)
        self._events = EventQueue(self._info)
        self._reader: asyncio.Future[None] | None = None
        self._outbox: list[Sent] = []
        self._mail = asyncio.Event()
        self._connected = asyncio.Event()
        """Set while the model has the conversation, and once the session has ended."""
        self._lost: str | None = None
        """The reason why the connection was lost; None while there is one."""
        self._talk = Conversation(self._scope, self._info, self._emit, self._post, transcript_wait)
        self._talk.on_over = lambda: self._end(None) if self._drive is not None else None
        self._guard = ReplyGuard(self._scope, guard_length, self._tripped, self._troubled)
        self._drive: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: asyncio.Task[None] | None = None
        self._over = False
        """True once the session has ended, or could not begin."""
        self._error: BaseException | None = None
        self.history: list[i.RealtimeItem] = []
        """The conversation so far, without audio."""
        self._places: dict[str, int] = {}
        driver.on_restart = self._talk.restarted

    # -- opening and closing ---------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Connect to the model, and begin."""
        if self._drive is not None or self._over:
            raise UsageError("This session was entered already; make another with runner.run().")
        if self._model.serves not in (None, self):
            raise UsageError("This realtime model serves another session; close that first, or give each its own.")
        writer = self._driver.writer
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
        self._over = True
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
        if self._drive is None:
            return
        ending = self._end(None)
        if asyncio.current_task() not in self._driver.tasks.busy.values():
            await asyncio.shield(ending)

    def _end(self, error: BaseException | None) -> asyncio.Task[None]:
        if self._ending is None:
            self._error = error
            self._ending = asyncio.create_task(self._finish())
        return self._ending

    async def _finish(self) -> None:
        """End the connection and the drive, and then the iteration, whatever fails meanwhile."""
        assert self._drive is not None
        try:
            await self._wind_down(self._drive)
            self._keep_error(self._drive)
            self._talk.look()
        except Exception as error:
            self._error = self._error or error
        finally:
            self._over = True
            self._scope.control.state = None  # a drive that failed has made its state before the last words were in
            if self._error is not None:
                keep_state(self._error, self._scope)
            self._connected.set()
            self._emit(None)

    async def _wind_down(self, drive: asyncio.Task[None]) -> None:
        grace, writer = self._scope.config.cancel_grace, self._driver.writer
        self._talk.close()
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
        if not self._over:
            raise RunUnfinished("The session is open; close it first, or decide with its own methods.")
        return left_by(self._scope)

    @property
    def run_id(self) -> str:
        """The run's id, in a store too."""
        return self._scope.journal.run.id

    @property
    def agent(self) -> Any:
        """The active agent."""
        return self._scope.graph.seat(self._scope.journal.run.agent).agent

    @property
    def model(self) -> m.RealtimeModel:
        """The model, to send it events of its own protocol."""
        return self._model

    # -- the user ----------------------------------------------------------------------------------

    async def send_message(self, message: str | Mapping[str, Any]) -> None:
        """Send a typed message: a text, or a user's message as the Responses API has it."""
        self._see_that_it_is_open()
        self._talk.typed(typed_input(message))

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
        self._see_that_it_is_open()
        await self._connected.wait()
        self._see_that_it_is_open()
        await self._model.send_event(event)

    def _see_that_it_is_open(self) -> None:
        if self._drive is None and not self._over:
            raise UsageError("Enter the session first: async with session: ...")
        if self._ending is not None or self._over or self._scope.journal.run.closed is not None:
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
        self._see_that_it_is_open()
        question = self._question(call_id)
        journal, writer = self._scope.journal, self._driver.writer
        if writer is None:
            journal.decide(question.id, decision, by, question.digest, self._scope.graph.tool_of, grant)
            return
        await writer.flush()  # the question is in the store before it is decided there
        await writer.store.decide(question.id, decision, by=by, digest=question.digest, grant=grant)
        with suppress(AssentError):  # the decision is made: the watch brings it here if this does not
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
            asked = state.question
            if wanted in (state.proposal.call_id, asked.id if asked else None):
                fact = run.decided.get(asked.id) if asked is not None else None
                verdict = verdict_of(fact)
                if fact is None or verdict is None:
                    raise NotPending(f"Nobody is asked about the call {call_id!r}.")
                raise AlreadyDecided(
                    f"The call {call_id!r} was decided already: {verdict}, by {getattr(fact, 'by', '?')}."
                )
        open_ids = ", ".join(repr(item.call_id) for item in waiting) or "none"
        raise QuestionNotFound(f"There is no call {described(call_id)} in this session; waiting: {open_ids}.")

    # -- events for the user -----------------------------------------------------------------------

    def __aiter__(self) -> Self:
        """Iterate over the events, until the session ends; an error that ended it is raised then."""
        return self

    async def __anext__(self) -> e.RealtimeSessionEvent:
        """Return the next event."""
        while not self._events:
            if self._reader is not None and not self._reader.done():
                raise UsageError("Another task iterates over this session already; give each event to both yourself.")
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        event = self._events.pop()
        if event is not None:
            return event
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    def _emit(self, event: e.RealtimeSessionEvent | None) -> None:
        self._events.push(event)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # -- events of the model -----------------------------------------------------------------------

    def on_event(self, event: m.RealtimeModelEvent) -> None:
        """Take an event of the model."""
        self._emit(e.RealtimeRawModelEvent(event, self._info))
        take = TAKE.get(type(event))
        if take is not None:
            take(self, event)

    def _audio(self, event: m.RealtimeModelAudioEvent) -> None:
        self._emit(e.RealtimeAudio(event, event.item_id, event.content_index, self._info))

    def _audio_done(self, event: m.RealtimeModelAudioDoneEvent) -> None:
        self._emit(e.RealtimeAudioEnd(event.item_id, event.content_index, self._info))

    def _audio_interrupted(self, event: m.RealtimeModelAudioInterruptedEvent) -> None:
        self._talk.interrupted(event)
        self._emit(e.RealtimeAudioInterrupted(event.item_id, event.content_index, self._info))

    def _delta(self, event: m.RealtimeModelTranscriptDeltaEvent | m.RealtimeModelOutputTextDeltaEvent) -> None:
        self._guard.heard(event.delta)

    def _turn_started(self, event: m.RealtimeModelTurnStartedEvent) -> None:
        self._tried = 0
        self._guard.began()
        self._talk.began_reply()
        self._emit(e.RealtimeAgentStartEvent(self.agent, self._info))

    def _turn_ended(self, event: m.RealtimeModelTurnEndedEvent) -> None:
        agent = self.agent
        self._guard.ended()
        self._talk.ended_reply(event)
        self._emit(e.RealtimeAgentEndEvent(agent, self._info))
        if event.status in ("failed", "incomplete"):
            why = event.reason or "the provider gave no reason"
            self._troubled(ModelFailed(f"The reply is {event.status}: {why}."))

    def _committed(self, event: m.RealtimeModelInputAudioCommittedEvent) -> None:
        self._talk.spoken(event.item_id)

    def _transcribed(self, event: m.RealtimeModelInputAudioTranscriptionCompletedEvent) -> None:
        self._talk.transcribed(event.item_id, event.transcript)
        place = self._places.get(event.item_id)
        item = self.history[place] if place is not None else None
        if isinstance(item, i.UserMessageItem) and event.transcript is not None:
            for part in item.content:
                if isinstance(part, i.InputAudio):
                    part.transcript = event.transcript
            self._emit(e.RealtimeHistoryUpdated(self.history, self._info))

    def _silent(self, event: m.RealtimeModelInputAudioTimeoutTriggeredEvent) -> None:
        self._emit(e.RealtimeInputAudioTimeoutTriggered(self._info))

    def _item(self, event: m.RealtimeModelItemUpdatedEvent) -> None:
        item = event.item
        place = self._places.get(item.item_id)
        if place is None:
            self._places[item.item_id] = len(self.history)
            self.history.append(item)
            self._emit(e.RealtimeHistoryAdded(item, self._info))
        elif self.history[place] != item:
            self.history[place] = item
            self._emit(e.RealtimeHistoryUpdated(self.history, self._info))

    def _item_deleted(self, event: m.RealtimeModelItemDeletedEvent) -> None:
        place = self._places.pop(event.item_id, None)
        if place is not None:
            del self.history[place]
            self._places = {item.item_id: n for n, item in enumerate(self.history)}
            self._emit(e.RealtimeHistoryUpdated(self.history, self._info))

    def _failed(self, event: m.RealtimeModelErrorEvent) -> None:
        self._emit(e.RealtimeError(event.error, self._info))

    def _troubled(self, error: Exception) -> None:
        self._emit(e.RealtimeError(error, self._info))

    def _tripped(self, results: list[OutputGuardrailResult], text: str, words: str) -> None:
        self._post(m.RealtimeModelSendInterrupt(), _nothing)
        note = [{"role": "system", "content": words}]
        self._post(m.RealtimeModelSendItems(note, start_response=True), _nothing)
        self._emit(e.RealtimeGuardrailTripped(results, text, self._info))

    # -- the connection ----------------------------------------------------------------------------

    def _status(self, event: m.RealtimeModelConnectionStatusEvent) -> None:
        if event.status != "disconnected" or self._ending is not None:
            return
        self._lost = event.reason or "no reason given"
        if self._connected.is_set():
            self._connected.clear()
            self._talk.lost()
            self._outbox.clear()
            if asyncio.get_running_loop().time() - self._since > STEADY:
                self._tried = 0
            self._begin(self._reconnect(self._loss()))

    def _loss(self) -> ModelFailed:
        return ModelFailed(f"The connection to the realtime model was lost: {self._lost}.")

    async def _connect(self) -> None:
        """Connect, and tell the model who speaks and what was said so far."""
        self._lost = None
        await self._model.connect(self._options)
        update, offer = await self._configured()
        await self._model.send_event(update)
        self._outbox.clear()
        restored = self._talk.restored(offer)  # what comes from now on is posted, and sent after this
        if restored is not None:
            await self._model.send_event(restored)
        if self._lost is not None:
            raise self._loss()
        self._since = asyncio.get_running_loop().time()
        self._connected.set()
        self._mail.set()
        self._talk.look_soon()

    async def _reconnect(self, error: ModelFailed) -> None:
        """Connect again, a few times; if that fails, end the session with the error. The run loses nothing."""
        while self._tried < self._attempts:
            self._troubled(error)
            self._tried += 1
            await asyncio.sleep(self._delay * 2 ** (self._tried - 1))
            try:
                await self._connect()
                return
            except ModelFailed as failed:
                self._talk.lost()
                error = failed
                if not failed.retryable:
                    break
            except Exception as failure:
                self._end(failure)
                return
        self._end(error)

    async def _configured(self) -> tuple[m.RealtimeModelSendSessionUpdate, Offer]:
        """Return the settings that make the model the active agent, and the tools that it is offered."""
        run = self._scope.journal.run
        seat = self._scope.graph.seat(run.agent)
        hooks = self._scope.hooks
        if hooks.wants(seat.agent):
            hooks.hear()
            if run.definition is None:
                await hooks.tell(self._scope.ctx, "agent_start", seat.agent)
        told, offer = await prepared(self._scope, run, seat.agent, ())
        self._guard.follow(seat)
        settings: RealtimeSessionModelSettings = {**self._settings}
        voice = getattr(seat.agent, "voice", None)
        if voice is not None:
            settings["voice"] = voice
        told = settings.pop("instructions", told)
        return m.RealtimeModelSendSessionUpdate(settings, told, offer.specs), Offer(seat.place, offer)

    def _post(self, event: m.RealtimeModelSendEvent | None, after: Callable[[], None]) -> None:
        self._outbox.append((event, after))
        self._mail.set()

    async def _deliver(self) -> None:
        """Send what is posted, in order. A failed send is told; what it was about is told again after a reconnect."""
        while True:
            await self._mail.wait()
            self._mail.clear()
            while self._outbox and self._connected.is_set():
                event, after = self._outbox.pop(0)
                try:
                    if event is None:
                        event, self._talk.offer = await self._configured()
                    if not isinstance(event, m.RealtimeModelSendItems) or event.items:
                        await self._model.send_event(event)
                    after()
                except ModelFailed as error:
                    self._troubled(error)
                except Exception as error:
                    self._end(error)
                    return


def _nothing() -> None:
    return None


def _calls(run: Run) -> Iterator[CallState]:
    """Yield the calls of a run and of its nested agents, the newest first."""
    for state in reversed(run.calls.values()):
        if state.child is not None:
            yield from _calls(state.child)
        yield state


TAKE: dict[type, Callable[[RealtimeSession, Any], None]] = {
    m.RealtimeModelConnectionStatusEvent: RealtimeSession._status,
    m.RealtimeModelTurnStartedEvent: RealtimeSession._turn_started,
    m.RealtimeModelTurnEndedEvent: RealtimeSession._turn_ended,
    m.RealtimeModelAudioEvent: RealtimeSession._audio,
    m.RealtimeModelAudioDoneEvent: RealtimeSession._audio_done,
    m.RealtimeModelAudioInterruptedEvent: RealtimeSession._audio_interrupted,
    m.RealtimeModelTranscriptDeltaEvent: RealtimeSession._delta,
    m.RealtimeModelOutputTextDeltaEvent: RealtimeSession._delta,
    m.RealtimeModelInputAudioCommittedEvent: RealtimeSession._committed,
    m.RealtimeModelInputAudioTranscriptionCompletedEvent: RealtimeSession._transcribed,
    m.RealtimeModelInputAudioTimeoutTriggeredEvent: RealtimeSession._silent,
    m.RealtimeModelItemUpdatedEvent: RealtimeSession._item,
    m.RealtimeModelItemDeletedEvent: RealtimeSession._item_deleted,
    m.RealtimeModelErrorEvent: RealtimeSession._failed,
}
"""The method that takes each kind of event of the model."""
