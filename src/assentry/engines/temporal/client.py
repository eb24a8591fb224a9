"""The client's side: begin runs on Temporal, see what waits, decide. It needs no agent code and no store.

`TemporalRuns` is also the port through which a store, and so the inbox, reaches the workflows of its runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
from pydantic import BaseModel
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import RawValue, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError, TemporalError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from ... import errors
from ...approval.decision import Decider, Decision, checked_name, decider_from, decision_from
from ...approval.terms import GrantTerms
from ...core import allowed
from ...core.run import ENDED
from ...core.wording import described
from ...errors import AlreadyDecided, AssentryError, EngineFailed, RunNotFound, UsageError
from ...ids import new_run_id, run_of_question
from ...runtime.saved_context import save_context
from ...runtime.value import input_json
from ...store.record import Entry
from ...store.store import Store
from . import message as m
from .workflow import ATTRIBUTES

PATIENCE = timedelta(seconds=10)
"""The time that a decision waits for a worker unless the caller says otherwise."""


class TemporalRun:
    """A run on Temporal, by its id: a workflow with the same id."""

    def __init__(self, runs: TemporalRuns, handle: WorkflowHandle[Any, Any]) -> None:
        self._runs = runs
        self.handle = handle
        """Temporal's own handle of the workflow."""
        self.id = handle.id

    def __repr__(self) -> str:
        return f"<TemporalRun {self.id}>"

    async def standing(self) -> m.Standing:
        """Return where the run stands, as its workflow knows it. A worker must be up, also for a run that is over."""
        with _translated(self.id):
            return m.from_wire(await self.handle.query("standing", result_type=RawValue), m.Standing)

    async def questions(self) -> tuple[m.Waiting, ...]:
        """Return the questions that wait for a person."""
        return (await self.standing()).questions

    async def settled(self) -> m.Standing:
        """Wait until the run waits for a person, is over, or cannot go on, and return where it stands."""
        while True:
            try:
                given = await self.handle.execute_update("settled", result_type=RawValue)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise _translate(error, self.id) from error
                return await self.standing()  # it is over
            found = m.from_wire(given, m.Standing)
            if found.status != "working" or found.failure is not None:
                return found

    async def follow(self, store: Store, *, after: int = 0) -> AsyncIterator[Entry]:
        """Yield the run's facts as they come, from the store that keeps them, until the run is over.

        Args:
            store: The store of the workers, or a copy of the same database.
            after: The number of facts to leave out.
        """
        while True:
            status = "working"
            try:
                status = (await store.record(self.id)).status
                for entry in await store.history(self.id, after=after, payloads=True):
                    after = entry.seq
                    yield entry
            except RunNotFound:
                pass  # it has not begun
            if status in ENDED:
                return
            await store.watch(1.0)

    async def result(self) -> Any:
        """Wait until the run is over, and return its final output: text, or JSON data.

        A run that was closed, or that used up its turns, raises the error that it failed with.
        """
        try:
            given = await self.handle.result()
        except WorkflowFailureError as error:
            raise _error_of(error.cause, self.id) from error
        except RPCError as error:
            raise _translate(error, self.id) from error
        standing = m.from_wire(given, m.Standing)
        return msgspec.json.decode(standing.output) if standing.output else None


class TemporalRuns:
    """The runs of a Temporal namespace.

    Args:
        client: A client of Temporal's, connected to the namespace.
        task_queue: The task queue of the workers that have an `AssentryPlugin`.
        patience: The time that a decision waits for a worker. After it the outcome is unknown; the same decision again
            is no error.
    """

    def __init__(self, client: Client, *, task_queue: str = m.QUEUE, patience: timedelta = PATIENCE) -> None:
        if not isinstance(client, Client):
            raise UsageError(f"client must be a Client of temporalio's, got {described(client)}.")
        allowed.check_option("TemporalRuns", "task_queue", task_queue, allowed.NAME, UsageError)
        given: Any = patience
        if not isinstance(given, timedelta) or given <= timedelta(0):
            raise UsageError(f"TemporalRuns: patience must be a timedelta above zero, got {described(patience)}.")
        self.client = client
        self.task_queue = task_queue
        self.patience = patience
        self._attributes: bool | None = None

    async def start(
        self,
        agent: str,
        input: str | list[dict[str, Any]],
        *,
        id: str | None = None,
        context: Any = None,
        max_turns: int | None = None,
        started_by: str | None = None,
        session: str | None = None,
        conversation_id: str | None = None,
        previous_response_id: str | None = None,
        follows: str | None = None,
        **workflow: Any,
    ) -> TemporalRun:
        """Start a run of an agent that a worker has, and return it at once.

        Args:
            agent: The agent's name.
            input: The user's message, or a list of items.
            id: The id of the run and of its workflow, if you have one of your own; a run that has it already is
                returned as it is. Whoever decides on its questions then needs the id too.
            context: The context of the run: a mapping, a dataclass, or a pydantic model. It is kept as JSON.
            max_turns: The most model calls.
            started_by: The user who asks for the run, and so decides nothing in it.
            session: The id of a session, which the plugin's `sessions` finds.
            conversation_id: A conversation that the provider keeps.
            previous_response_id: The response that the provider's conversation goes on from.
            follows: The id of a run that is over, whose conversation the new run continues.
            workflow: Further options of Temporal's `start_workflow`, such as `execution_timeout` or `memo`.
        """
        start = await self._start(
            agent, input, context, max_turns, started_by, session, conversation_id, previous_response_id, follows
        )
        allowed.check_option("start", "id", id, allowed.NONEMPTY.or_none, UsageError)
        run_id = id if id is not None else new_run_id()
        try:
            handle = await self.client.start_workflow(
                m.WORKFLOW,
                m.to_wire(start),
                id=run_id,
                task_queue=self.task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                result_type=RawValue,
                **workflow,
            )
        except WorkflowAlreadyStartedError:
            return self.get(run_id)
        return TemporalRun(self, handle)

    async def run(self, agent: str, input: str | list[dict[str, Any]], *, id: str, **options: Any) -> m.Standing:
        """Start a run, or find the one with this id, and wait until it waits for a person or is over.

        One request to the server does both, so a web handler that keeps nothing can call it again and again.
        """
        allowed.check_option("run", "id", id, allowed.NONEMPTY, UsageError)
        given = {name: options.pop(name, None) for name in _OPENING}
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            m.WORKFLOW,
            m.to_wire(await self._start(agent, input, *given.values())),
            id=id,
            task_queue=self.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            **options,
        )
        try:
            found = await self.client.execute_update_with_start_workflow(
                "settled", start_workflow_operation=start, result_type=RawValue
            )
        except (WorkflowAlreadyStartedError, RPCError):
            return await self.get(id).settled()  # it is over
        standing = m.from_wire(found, m.Standing)
        return standing if standing.status != "working" else await self.get(id).settled()

    async def _start(
        self,
        agent: str,
        input: str | list[dict[str, Any]],
        context: Any,
        max_turns: int | None,
        started_by: str | None,
        session: str | None,
        conversation_id: str | None,
        previous_response_id: str | None,
        follows: str | None = None,
    ) -> m.Start:
        """Return the workflow's input; raise an error that says what is wrong with the request."""
        if type(agent) is not str or not agent:
            raise UsageError(f"agent is the name of an agent that a worker has, got {described(agent)}.")
        texts = {
            "session": session,
            "conversation_id": conversation_id,
            "previous_response_id": previous_response_id,
            "follows": follows,
        }
        for name, given in texts.items():
            allowed.check_option("start", name, given, allowed.NONEMPTY.or_none, UsageError)
        if max_turns is not None and (type(max_turns) is not int or max_turns < 1):
            raise UsageError(f"max_turns must be a whole number from 1, got {described(max_turns)}.")
        if started_by is not None:
            checked_name(started_by, "started_by must say who asks for the run, as text that can be seen")
        kept = {"id": conversation_id, "previous": previous_response_id}
        conversation = {name: value for name, value in kept.items() if value is not None}
        return m.Start(
            m.Opening(
                agent,
                input_json(input),
                _context_text(context),
                max_turns,
                started_by,
                session,
                conversation or None,
                await self._has_attributes(),
                follows,
            )
        )

    async def _has_attributes(self) -> bool:
        """Return True if the search attributes of runs are registered."""
        if self._attributes is None:
            request = ListSearchAttributesRequest(namespace=self.client.namespace)
            try:
                known = (await self.client.operator_service.list_search_attributes(request)).custom_attributes
                self._attributes = all(key.name in known for key in ATTRIBUTES)
            except RPCError:  # not everybody may ask
                self._attributes = False
        return self._attributes

    def get(self, run_id: str) -> TemporalRun:
        """Return a run by its id. Nothing is looked up."""
        if type(run_id) is not str or not run_id:
            raise UsageError(f"A run's id is text, got {described(run_id)}.")
        return TemporalRun(self, self.client.get_workflow_handle(run_id, result_type=RawValue))

    async def decide(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        *,
        by: str | Decider,
        digest: str,
        grant: GrantTerms | dict[str, Any] | bool | None = None,
        run: str | None = None,
    ) -> m.Recorded:
        """Record a decision on an open question in its workflow.

        Of several deciders the first wins. The others get `AlreadyDecided`, which says who decided what and when. The
        same decision again is no error and changes nothing.

        Args:
            question_id: The question's id. It is enough to find the run, unless the run was given an id of its own.
            decision: `Approve()`, `Edit(...)`, `Reject(...)`, `Respond(...)`, or the JSON of one.
            by: The name of the decider, or a `Decider` with groups.
            digest: The question's digest, as it was shown to the decider.
            grant: True, or terms, to apply an approval or a rejection to later calls of the run too.
            run: The run's id, if it was given one of its own.
        """
        who = decider_from(by)
        if type(digest) is not str:
            raise UsageError(f"digest is that of the question as it was shown, got {described(digest)}.")
        if type(question_id) is not str or len(question_id) != 34:
            raise errors.QuestionNotFound(f"There is no question with the id {described(question_id)}.")
        plain = msgspec.to_builtins(decision_from(decision))
        terms = msgspec.to_builtins(grant) if isinstance(grant, GrantTerms) else grant
        text = m.DecisionText(question_id, plain, who.name, who.groups, who.shown, digest, terms, who.looked)
        run_id = run or run_of_question(question_id)
        try:
            return await self._update(run_id, "decide", text)
        except RunNotFound:
            return await self._decided(run_id, text)  # it may be over

    async def _decided(self, run_id: str, text: m.DecisionText) -> m.Recorded:
        """Return what a run that is over has recorded of a decision; raise the error that says what it has instead."""
        with _translated(run_id):
            handle: WorkflowHandle[Any, Any] = self.client.get_workflow_handle(run_id)
            given = await handle.query("decided", m.to_wire(text), result_type=RawValue, rpc_timeout=self.patience)
        found = m.from_wire(given, m.DecisionOutcome)
        if found.recorded is not None:
            return found.recorded
        failed = found.failure or m.Failure("NotPending", f"Question {text.question} is not open any more.")
        raise _error_named(failed.kind, failed.message, failed.details, run_id)

    async def cancel(self, run_id: str, *, by: str, why: str | None = None) -> m.Recorded:
        """Cancel a run: nothing new starts until `resume`."""
        allowed.check_option("cancel", "why", why, allowed.TEXT.or_none, UsageError)
        return await self._update(run_id, "tell", m.Word("cancel", checked_name(by), why))

    async def resume(self, run_id: str, *, by: str) -> m.Recorded:
        """Resume a cancelled run."""
        return await self._update(run_id, "tell", m.Word("resume", checked_name(by)))

    async def say(self, run_id: str, input: str, *, by: str = "user") -> m.Recorded:
        """Add a user message to a run. The model gets the message after the outputs of the open calls."""
        allowed.check_option("say", "input", input, allowed.NONEMPTY, UsageError)
        return await self._update(run_id, "tell", m.Word("say", checked_name(by), input))

    async def revoke(self, grant_id: str, *, by: str, run: str) -> m.Recorded:
        """Revoke a grant of a run. Later calls are judged without the grant."""
        allowed.check_option("revoke", "grant_id", grant_id, allowed.NONEMPTY, UsageError)
        return await self._update(run, "tell", m.Word("revoke", checked_name(by), grant_id))

    async def retry(self, run_id: str, *, by: str) -> m.Recorded:
        """Have a run go on that an error holds up."""
        return await self._update(run_id, "tell", m.Word("retry", checked_name(by)))

    async def _update(self, run_id: str, name: str, text: m.DecisionText | m.Word) -> m.Recorded:
        handle = self.get(run_id).handle
        with _translated(run_id):
            found = await handle.execute_update(
                name,
                m.to_wire(text),
                rpc_timeout=self.patience,
                result_type=RawValue,
            )
        return m.from_wire(found, m.Recorded)


_OPENING = (
    "context", "max_turns", "started_by", "session", "conversation_id", "previous_response_id", "follows",
)  # fmt: skip


def _context_text(context: Any) -> m.ContextText:
    """Return a context as JSON; raise `UsageError` if no worker could get it."""
    known = context is None or isinstance(context, Mapping | BaseModel) or dataclasses.is_dataclass(type(context))
    if not known:
        raise UsageError(
            f"A context of type {type(context).__qualname__} cannot be sent to a worker. Give a mapping, a dataclass "
            "or a pydantic model; or have the worker make it: AssentryPlugin(context=...)."
        )
    return m.ContextText(*save_context(context, None, False))


@contextmanager
def _translated(run_id: str) -> Iterator[None]:
    """Raise errors of Temporal's as Assentry's own."""
    try:
        yield
    except (TemporalError, RPCError) as error:
        raise _translate(error, run_id) from error


async def register_search_attributes(client: Client) -> list[str]:
    """Register the search attributes of runs in the client's namespace, and return the names of the new ones."""
    service, namespace = client.operator_service, client.namespace
    listed = await service.list_search_attributes(ListSearchAttributesRequest(namespace=namespace))
    missing: Any = {
        key.name: int(key.indexed_value_type) for key in ATTRIBUTES if key.name not in listed.custom_attributes
    }
    if missing:
        await service.add_search_attributes(AddSearchAttributesRequest(namespace=namespace, search_attributes=missing))
    return list(missing)


def _translate(error: Exception, run_id: str) -> Exception:
    if isinstance(error, WorkflowUpdateFailedError):
        return _error_of(error.cause, run_id)
    if isinstance(error, WorkflowUpdateRPCTimeoutOrCancelledError):
        return EngineFailed(
            f"No worker answered for run {run_id!r} in time. The decision may still be recorded; the same one again is "
            "no error. See that a worker of its task queue is up."
        )
    if isinstance(error, RPCError) and error.status is RPCStatusCode.NOT_FOUND:
        return RunNotFound(f"Temporal has no open run {run_id!r}: it is over, was purged, or never began.")
    if isinstance(error, RPCError):
        return EngineFailed(f"Temporal did not answer for run {run_id!r}: {error.message}")
    return error


def _error_of(cause: BaseException | None, run_id: str) -> Exception:
    """Return the error that a workflow has raised, as an error of the class that it names."""
    if isinstance(cause, ActivityError):
        cause = cause.cause  # such as the archive's, which refuses a workflow that was reset
    if not isinstance(cause, ApplicationError):
        return EngineFailed(f"The workflow of run {run_id!r} ended without a result: {cause}.")
    details: Mapping[str, Any] = cause.details[0] if cause.details and isinstance(cause.details[0], dict) else {}
    return _error_named(cause.type or "", cause.message, details, run_id)


def _error_named(name: str, message: str, details: Mapping[str, Any], run_id: str) -> Exception:
    kind = getattr(errors, name, None)
    if kind is AlreadyDecided:
        return AlreadyDecided(message, by=details.get("by"), verdict=details.get("verdict"), at=details.get("at"))
    if isinstance(kind, type) and issubclass(kind, AssentryError):
        return kind(message)
    return EngineFailed(f"Run {run_id!r} failed: {message}")
