"""The events of one request: a run of the front's own, from `RUN_STARTED` to `RUN_FINISHED` or `RUN_ERROR`.

Nothing here knows if the front still listens: one that goes away leaves the work to go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from ...approval.decision import Decider
from ...core import facts as f
from ...core.run import CallState, Run, Turn, status
from ...core.transcript import output_text
from ...core.wording import holds
from ...errors import AssentryError, RunUnfinished
from ...models.delta import as_dict
from ...runtime.agent_graph import AgentGraph
from ...runtime.drive import drive_run
from ...runtime.driver import Driver
from .interrupt import SHOWN, call_id_of, interrupts_of
from .talk import (
    Masks,
    count_replies,
    ids_of,
    proposed_arguments,
    result_id,
    send_snapshot,
    shown_calls,
    text_of_reply,
    thread_messages,
    turn_id,
)
from .thread import FrontThread, ServedAgent

log = logging.getLogger("assentry")

Send = Callable[[BaseEvent], None]


class LiveFront:
    """A drive's deltas and facts as events for a front that has the messages with these ids."""

    def __init__(self, driver: Driver, masks: Masks, has: list[str], send: Send) -> None:
        self._journal, self._masks, self._has, self._send = driver.journal, masks, has, send
        self._open: str | None = None
        """The id of the message whose text is under way."""
        driver.gentle = True
        driver.scope.hooks.on_delta = lambda data: self._show(self._delta, data)
        driver.journal.listen(lambda fact: self._show(self._fact, fact))

    def _show(self, show: Callable[[Any], None], what: Any) -> None:
        """Show a part of the drive. What cannot be shown must not stop the run; the last snapshot has it."""
        try:
            show(what)
        except Exception:
            log.exception("A part of a run cannot be shown to its front")

    def _delta(self, data: Any) -> None:
        given = as_dict(data)
        text = given.get("delta") if given.get("type") == "response.output_text.delta" else None
        if isinstance(text, str) and text and holds(text):
            run = self._journal.run
            self._write(turn_id(run, count_replies(run)), text)

    def _write(self, id: str, text: str) -> None:
        """Send a part of a message's text."""
        if self._open != id:
            self.close_text()
            if id in self._has:
                return  # the reply is made anew; the last snapshot has it
            self._has.append(id)
            self._open = id
            self._send(TextMessageStartEvent(message_id=id, role="assistant"))
        self._send(TextMessageContentEvent(message_id=id, delta=text))

    def close_text(self) -> None:
        """End the message whose text is under way."""
        if self._open is not None:
            self._send(TextMessageEndEvent(message_id=self._open))
            self._open = None

    def _fact(self, fact: f.AnyFact) -> None:
        run = self._journal.run
        if fact.path:
            return
        if isinstance(fact, f.Replied):
            turn = run.entries[-1]
            if type(turn) is Turn:
                self._replied(run, turn, fact)
        elif isinstance(fact, f.Finished | f.Told | f.HandedOff):
            self._result(run, run.calls[fact.call])

    def _replied(self, run: Run, turn: Turn, reply: f.Replied) -> None:
        id, text = turn_id(run, count_replies(run) - 1), text_of_reply(reply)
        if id not in self._has and text:
            self._write(id, text)
        self.close_text()
        for state in shown_calls(turn):
            call = call_id_of(run, state)
            if id not in self._has:
                self._has.append(id)
            self._send(ToolCallStartEvent(tool_call_id=call, tool_call_name=state.proposal.name, parent_message_id=id))
            self._send(ToolCallArgsEvent(tool_call_id=call, delta=proposed_arguments(state, self._masks)))
            self._send(ToolCallEndEvent(tool_call_id=call))

    def _result(self, run: Run, state: CallState) -> None:
        call, text = call_id_of(run, state), output_text(state)
        if text is not None and state.call.kind in SHOWN and result_id(call) not in self._has:
            self._has.append(result_id(call))
            self._send(ToolCallResultEvent(message_id=result_id(call), tool_call_id=call, content=text, role="tool"))


async def serve_front(
    served: ServedAgent, given: RunAgentInput, who: Decider | None, context: object, send: Send
) -> None:
    """Do what a request asks for, and send its events, the last of which says how it ended."""
    send(RunStartedEvent(thread_id=given.thread_id, run_id=given.run_id, protocol_version=PROTOCOL_VERSION))
    try:
        opened = await FrontThread(served, given.thread_id, who, context).open(given)
        graph = AgentGraph(served.agent)
        masks, has = graph.redactions(), ids_of(given.messages)
        before = thread_messages(opened.runs, masks)
        if opened.driver is not None:
            if has != ids_of(before):
                send_snapshot(has, before, send)
            live = LiveFront(opened.driver, masks, has, send)
            try:
                await drive_run(opened.driver)
            finally:
                live.close_text()
        runs = opened.runs
        send_snapshot(has, thread_messages(runs, masks), send)
        outcome = _outcome(runs[-1], graph, who, given) if runs else RunFinishedSuccessOutcome()
        send(RunFinishedEvent(thread_id=given.thread_id, run_id=given.run_id, outcome=outcome))
    except AssentryError as error:
        send(_error_event(error))
    except Exception:
        log.exception("A run for a front failed")
        send(RunErrorEvent(message="The agent failed. Send an empty request to look again.", code="Failed"))


def _error_event(error: AssentryError) -> RunErrorEvent:
    """Return an error as an event. Those that are not the front's to mend are told to the log, not to the front."""
    code = type(error).__name__
    if error.status < 500:
        return RunErrorEvent(message=str(error), code=code)
    log.warning("A run for a front ended with %s: %s", code, error)
    return RunErrorEvent(message="The agent could not go on. Send an empty request to try again.", code=code)


def _outcome(run: Run, graph: AgentGraph, who: Decider | None, given: RunAgentInput) -> RunFinishedOutcome:
    now = status(run)
    if now in ("cancelled", "closed"):  # a client from before 1.0 fails at an outcome that it does not know
        return RunFinishedCancelledOutcome() if given.protocol_version else RunFinishedSuccessOutcome()
    interrupts = list(interrupts_of(run, graph, who))
    if interrupts:
        return RunFinishedInterruptOutcome(interrupts=interrupts)
    if now == "working":
        raise RunUnfinished("The run was stopped before its end. Send an empty request to go on.")
    return RunFinishedSuccessOutcome()
