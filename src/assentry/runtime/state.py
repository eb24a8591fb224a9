"""A paused run as an object: decide on its questions, save it, load it, and give it back to the runner."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import msgspec
from msgspec import Raw, Struct
from typing_extensions import TypeVar

from ..approval.decision import Approve, Decider, Decision, Edit, Reject, Respond, checked_name
from ..approval.grant import Grant, grant_of
from ..approval.question import check_readable
from ..approval.terms import GrantTerms, always
from ..core import codec
from ..core import facts as f
from ..core.number import counted
from ..core.run import Run, questions, status
from ..core.transcript import forget
from ..core.wording import described
from ..definitions.agent import Agent
from ..definitions.item import ToolApprovalItem
from ..errors import (
    GrantNotFound,
    IllegalFact,
    InvalidDecision,
    InvalidInput,
    RunFinished,
    StateSpent,
    UnreadableState,
    UsageError,
)
from ..tracing import settings as tracing
from ..tracing.settings import Tracing
from ..version import __version__
from . import saved_context
from .agent_graph import AgentGraph
from .config import RunConfig
from .definition_check import UNREADABLE, OnChange, damaged_state, fit
from .journal import NOT_STORED, Journal, StoredPart, made_outside
from .scope import Scope
from .signature import SigningKey, sign, verify_signature
from .value import input_json
from .view import Outputs, View

if TYPE_CHECKING:
    from ..store.record import Stored

T = TypeVar("T", default=Any)
A = TypeVar("A", default=Any)
"""The types of the context and of the agent, for annotations."""


class Peek(Struct, frozen=True):
    """The parts of a saved run that can be read without any agent."""

    schema: int
    assentry: str
    run: str
    agent: str
    status: str
    waiting: list[ToolApprovalItem]
    """The open questions; each item's `.agent` is the agent's name."""


class RunState(Generic[T, A]):
    """A paused run as your own data. Decide on its questions, then resume it, once."""

    _borrows = False
    """True if the run object is still shared with the drive that left it. Saving needs only the facts."""
    _spent = False
    _kept = NOT_STORED
    """The parts that a store has, if the run lives in a store."""
    _heard = 0
    """The number of facts that an earlier drive in this process passed to its hooks and its stream."""
    _untold: Sequence[f.AnyFact] = ()
    """Those of the `_heard` facts that hooks were not told of yet."""

    def __init__(
        self,
        journal: Journal,
        graph: AgentGraph,
        context: Any,
        outputs: Outputs | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._held = journal
        self._graph = graph
        self._context = context
        self._outputs: Outputs = outputs if outputs is not None else {}
        self._tracing = tracing
        self.changes: list[str] = []
        """The changes in the agent's definition since the state was saved."""

    @property
    def _journal(self) -> Journal:
        """The journal, with a run object that is not shared."""
        held = self._held
        if self._borrows:
            self._borrows = False
            moved = held.run.seq != len(held.facts)  # a cancelled body may still record steps from its thread
            held.run = codec.replay(held.facts) if moved else held.run.fork()
        return held

    def __repr__(self) -> str:
        run = self._journal.run
        parts = ["spent" if self._spent else status(run), counted(run.turns, "turn")]
        if status(run) == "waiting":
            parts.append(counted(len(self.get_interruptions()), "question"))
        return f"<RunState of run {run.id}: {', '.join(parts)}>"

    # -- looking ---------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._journal.run.id

    @property
    def status(self) -> str:
        """The run's status.

        "working": the run has something to do, so resume it. "waiting": a person must answer first.
        "done": the run has its output. "exhausted": its turns are used up. "cancelled" and "closed": the run
        was stopped, for now or for good. "idle": there is nothing to do.
        """
        return status(self._journal.run)

    @property
    def context(self) -> Any:
        """Your context object, if the state has one."""
        return None if self._context is saved_context.MISSING else self._context

    def get_interruptions(self) -> list[ToolApprovalItem]:
        """Return the open questions, in the order of the calls."""
        return self._view().interruptions()

    def grants(self) -> list[Grant]:
        """Return the decisions that hold for later calls too."""
        run = self._journal.run
        return [grant_of(run, each, Grant) for each in run.grants.values()]

    def _view(self) -> View:
        return View(self._journal.run, self._graph, self._outputs)

    # -- deciding --------------------------------------------------------------------------------

    def approve(self, item: ToolApprovalItem, always_approve: bool = False, *, by: str = "local") -> None:
        """Let the call run as it was shown; with `always_approve`, approve later calls of this tool too."""
        self.decide(_item(item).id, Approve(), by, item.digest, always("always_approve", always_approve))

    def reject(
        self,
        item: ToolApprovalItem,
        always_reject: bool = False,
        rejection_message: str | None = None,
        *,
        by: str = "local",
    ) -> None:
        """Reject the call, and tell the model so; with `always_reject`, reject later calls of this tool too."""
        self.decide(_item(item).id, Reject(rejection_message), by, item.digest, always("always_reject", always_reject))

    def edit(
        self, item: ToolApprovalItem, arguments: dict[str, Any], *, tool: str | None = None, by: str = "local"
    ) -> None:
        """Run the call with these arguments, which must fit the tool's schema."""
        self.decide(_item(item).id, Edit(arguments, tool), by, item.digest)

    def respond(self, item: ToolApprovalItem, output: Any, *, by: str = "local") -> None:
        """Answer in the tool's place, or answer a question of the tool's body."""
        self.decide(_item(item).id, Respond(output), by, item.digest)

    def decide(
        self,
        question_id: str,
        decision: Decision | dict[str, Any],
        by: str | Decider = "local",
        digest: str | None = None,
        grant: GrantTerms | dict[str, Any] | bool | None = None,
    ) -> None:
        """Record a decision on an open question: an object, or its JSON form.

        With `digest` the decision is refused unless the question still has this digest. With `grant` an approval
        or a rejection holds for later calls of the tool too: for all of them, or within the terms.
        """
        self._usable()
        self._journal.decide(question_id, decision, by, digest, self._graph.tool_of, grant)

    def revoke(self, grant_id: str, by: str = "local") -> None:
        """Revoke a grant: later calls are judged without it."""
        self._usable()
        checked_name(by)
        if type(grant_id) is not str or grant_id not in self._journal.run.grants:
            raise GrantNotFound(f"This run has no grant {described(grant_id)}; see state.grants().")
        self._journal.add(f.Revoked(grant_id, by, at=self._journal.now()))

    def add_input(self, input: str | list[dict[str, Any]]) -> None:
        """Add input: the model gets it after the outputs of the open calls.

        A finished run with new input can be resumed.
        """
        self._usable()
        items = input_json(input)
        if input == []:
            raise InvalidInput("There is nothing in this input; give text, or items.")
        try:
            self._journal.add(f.Said(items, at=self._journal.now()))
        except IllegalFact:
            raise RunFinished("The run is closed; it takes no more input.") from None

    def _release(self) -> None:
        """Drop the references to the agents; if calls are open, keep their tools, which decisions need."""
        agent = self._graph.root
        if self._journal.run.open:
            shown = Agent(
                agent.name,
                tools=agent.tools,
                handoffs=agent.handoffs,
                output_type=agent.output_type,
                output_needs_approval=agent.output_needs_approval,
            )
            classes = self._graph.view_classes
            self._graph = AgentGraph(shown)
            self._graph.view_classes = classes
        else:
            self._graph = self._graph.names()

    def _usable(self) -> None:
        if self._spent:
            raise StateSpent()

    # -- saving ----------------------------------------------------------------------------------

    def to_string(
        self,
        *,
        context_serializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
        key: SigningKey | None = None,
    ) -> str:
        """Return the run as JSON text, to keep anywhere for any time.

        A context that is a mapping, a dataclass or a pydantic model is saved with the run. Any other context needs
        `context_serializer`, or is left out with a warning. With `strict_context`, every context but a mapping
        needs `context_serializer`, or `ContextMissing` is raised.
        With `include_tracing_api_key` the endpoint of `RunConfig(tracing=...)`, its key and its headers are saved
        too, so that another process can continue the trace without being given them.
        With `key` the text is signed, so that `from_string(..., keys=[...])` refuses a changed text.
        """
        self._usable()
        context, kind = saved_context.save_context(self._context, context_serializer, strict_context)
        traced = tracing.save_tracing(self._tracing) if include_tracing_api_key else None
        saved = codec.SavedRun(
            codec.SCHEMA, __version__, list(self._held.facts), context, kind, tracing=traced, stored=self._kept.facts
        )
        if key is not None:
            sign(saved, key)
        return codec.encode_run(saved).decode()

    def to_json(
        self,
        *,
        context_serializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        include_tracing_api_key: bool = False,
        key: SigningKey | None = None,
    ) -> dict[str, Any]:
        """Return the run as a JSON object; see `to_string`."""
        text = self.to_string(
            context_serializer=context_serializer,
            strict_context=strict_context,
            include_tracing_api_key=include_tracing_api_key,
            key=key,
        )
        data: dict[str, Any] = f.decode(Raw(text))
        return data

    @classmethod
    async def from_string(
        cls,
        agent: Agent[T],
        text: str | bytes,
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        on_change: OnChange = "refuse",
        keys: Iterable[SigningKey] | None = None,
    ) -> RunState[T]:
        """Load a saved run, in any process that has the agent's code.

        If a tool that a waiting call needs has changed or is gone, `on_change` decides: "refuse" raises
        `DefinitionChanged`, "ask" puts the call to a person again, whatever was decided before, and "accept"
        continues with the tool as it is now.

        With `keys` only a run that was signed with one of them is loaded; give the old keys beside the new
        one until the runs that were signed with the old keys are done.
        """
        if not isinstance(text, str | bytes):
            raise UnreadableState(f"A saved run is JSON text, got {type(text).__name__}; for a dict use from_json.")
        if not isinstance(agent, Agent):
            raise UsageError(f"The first argument is the agent, got {described(agent)}.")
        if on_change not in ("refuse", "ask", "accept"):
            raise UsageError(f'on_change is "refuse", "ask" or "accept", got {described(on_change)}.')
        if keys is not None:
            verify_signature(text, keys)
        saved = codec.decode_run(text)
        run = codec.replay(saved.journal)
        context = saved_context.load_context(
            saved.context, saved.context_kind, context_override, context_deserializer, strict_context
        )
        traced = tracing.load_tracing(saved.tracing)
        state = cls(Journal(saved.journal, run, time.time), AgentGraph(agent), context, tracing=traced)
        begun_by(agent, run)
        state._kept = StoredPart(saved.stored)
        state.changes += fit(state._journal, state._graph, on_change)
        if state.changes:
            warnings.warn(f"Agent {agent.name!r} is not what it was: {'; '.join(state.changes)}.", stacklevel=2)
        return state

    @classmethod
    async def from_json(
        cls,
        agent: Agent[T],
        data: dict[str, Any],
        *,
        context_override: Any = None,
        context_deserializer: Callable[[Any], Any] | None = None,
        strict_context: bool = False,
        on_change: OnChange = "refuse",
        keys: Iterable[SigningKey] | None = None,
    ) -> RunState[T]:
        """Load a saved run from the object that `to_json` returned; see `from_string` for the options."""
        if not isinstance(data, dict):
            raise UnreadableState(f"A saved run is a JSON object, got {type(data).__name__}; for text use from_string.")
        try:
            text = msgspec.json.encode(data)
        except (TypeError, ValueError, RecursionError) as error:
            raise UnreadableState(f"This is not a saved run as JSON: {error}.") from None
        return await cls.from_string(
            agent,
            text,
            context_override=context_override,
            context_deserializer=context_deserializer,
            strict_context=strict_context,
            on_change=on_change,
            keys=keys,
        )

    @staticmethod
    def peek(text: str | bytes) -> Peek:
        """Return a saved run's status and open questions, without any agent."""
        if not isinstance(text, str | bytes):
            raise UnreadableState(f"A saved run is JSON text, got {type(text).__name__}.")
        saved = codec.decode_run(text)
        run = codec.replay(saved.journal)
        try:
            for _, state in questions(run):
                check_readable(state)
            waiting = View(run, None, {}).interruptions()
        except UNREADABLE as error:
            raise damaged_state(error) from None
        return Peek(saved.schema, saved.assentry, run.id, agent_name(run), status(run), waiting)


class Resumption(NamedTuple):
    """The parts of a state that the next drive goes on with."""

    state: RunState[Any]
    journal: Journal
    graph: AgentGraph
    context: Any
    outputs: Outputs
    tracing: Tracing | None
    kept: StoredPart
    unseen: Sequence[f.AnyFact]
    """The decisions and inputs since the last drive."""
    untold: Sequence[f.AnyFact]
    """The facts of the last drive that hooks were not told of."""

    def spend(self) -> None:
        """Let nobody else resume the state."""
        self.state._spent = True


def resumption(state: RunState[Any]) -> Resumption:
    """Return the parts of a state to resume; raise `StateSpent` if it was resumed before."""
    state._usable()
    journal, unseen = state._journal, made_outside(state._held.facts, state._heard)
    parts = (state._graph, state._context, state._outputs, state._tracing, state._kept)
    return Resumption(state, journal, *parts, unseen, state._untold)


def begun_by(agent: Agent[Any], run: Run) -> f.Began:
    """Return the fact that began the run; raise `UsageError` if another agent began it."""
    if run.began is None or run.began.agent != agent.name:
        made = run.began.agent if run.began else ""
        raise UsageError(f"This run was begun by agent {made!r}; resume it with that agent, not {agent.name!r}.")
    return run.began


def state_of(agent: Agent[Any], stored: Stored, context: Any, config: RunConfig) -> RunState[Any]:
    """Make a state from a run of a store.

    If a tool has changed since a question was asked, `RunConfig(on_change=...)` decides, and may make a new question.
    """
    run = stored.run()
    begun_by(agent, run)
    saved = stored.context
    context = saved_context.load_context(
        Raw(saved.json) if saved.json else f.NOTHING, saved.kind, context, config.context_deserializer, False
    )
    graph = AgentGraph(agent)
    state: RunState[Any] = graph.class_of(RunState)(Journal(stored.facts.copy(), run, config.clock), graph, context)
    known = saved if saved.kind != saved_context.LEFT_OUT else None
    state.changes += fit(state._journal, state._graph, config.on_change)
    before = stored.before.snapshot if stored.before is not None else None
    state._kept = StoredPart(len(stored.facts), None, stored.fence, known, before)
    return state


def left_by(scope: Scope) -> RunState[Any]:
    """Return the run's state after a drive: the same state for every caller, or the run could be resumed twice."""
    taken = scope.control.state
    if isinstance(taken, RunState):
        return taken
    journal, outputs = scope.journal.copy(), dict(scope.outputs)
    forget(journal.run)
    writer = scope.journal.writer
    if writer is not None and writer.unwritten:  # put the stored facts first, as they are in the store
        waiting = {id(fact) for fact in writer.unwritten}
        journal.facts = [fact for fact in journal.facts if id(fact) not in waiting] + writer.unwritten
    kind = scope.graph.class_of(RunState)
    scope.control.state = state = kind(journal, scope.graph, scope.ctx.context, outputs, scope.config.tracing)
    state._borrows = True
    state._heard, state._untold = len(journal.facts), tuple(scope.hooks.noted)
    if writer is not None:
        state._kept = writer.stored_part()
    return state


def agent_name(run: Run) -> str:
    """Return the name of the active agent, as far as the run itself knows it."""
    if run.definition is not None:
        return run.definition.agent
    handed = next((e for e in reversed(run.entries) if isinstance(e, f.HandedOff)), None)
    return handed.name if handed is not None else run.agent


def _item(item: ToolApprovalItem) -> ToolApprovalItem:
    if not isinstance(item, ToolApprovalItem):
        raise InvalidDecision(f"Give an item of `interruptions`, got {described(item)}; by id, use state.decide().")
    return item
