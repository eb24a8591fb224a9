"""Every error that Assentry raises, grouped by who must act on it.

    AssentryError
    ├── UsageError               the developer must change the program or its input
    │   ├── InvalidDefinition    an agent, a tool or a rule that cannot be defined like this
    │   │   └── UnknownOption    a keyword that a class or a function does not have
    │   ├── InvalidInput         input that cannot become part of a run
    │   ├── InvalidDecision      a decision that does not fit the question
    │   │   └── InvalidArguments arguments that do not fit the tool's schema
    │   ├── UnreadableState      a saved run that is damaged, or data that is no saved run
    │   │   ├── UnknownSchema    a saved run with a schema version that this Assentry cannot read
    │   │   └── BadSignature     a saved run that was changed after signing, or signed with an unknown key
    │   ├── UnclearCommand       a shell command that cannot be judged for certain
    │   ├── ContextMissing       a context that was not saved, or cannot be
    │   ├── RunUnfinished        a use of a run before its stream has ended
    │   ├── SessionMissing       a run with a session that was resumed without the session
    │   ├── ReplayMismatch       a tool body that asked other questions when it was entered again
    │   ├── ScriptExhausted      a scripted model or person without a next line
    │   ├── NotInAssentry        a name of another library that Assentry does not have
    │   └── MaxTurnsExceeded     a run that used up its turns
    ├── Conflict                 the caller must look again: something has changed
    │   ├── IllegalFact          a fact that cannot follow the journal
    │   ├── AlreadyDecided       a question that has another answer already
    │   ├── NotPending           a question that is not open any more
    │   ├── DigestMismatch       a decision that is not about what the question shows
    │   ├── StateSpent           a state that was resumed already
    │   ├── RunFinished          a run with nothing left to do
    │   ├── ThreadWaiting        a thread that waits for an answer and got other input
    │   ├── RunBusy              a run that another driver holds
    │   ├── Overtaken            a run that another writer has changed meanwhile
    │   │   └── GrantEnded       a standing grant that was revoked or used up meanwhile
    │   ├── LeaseLost            a run that another driver has taken over
    │   ├── AgentStopped         a run of an agent that somebody has stopped
    │   ├── RunElsewhere         a run whose authority is an engine that this process has no way to
    │   ├── NotDecided           a call of a program outside that nobody has decided in time
    │   ├── PatchRefused         a patch that does not fit the files as they are
    │   ├── NotAsShown           something that is not as the person was shown, found before anything was done
    │   └── DefinitionChanged    a tool that has changed since the question was asked
    ├── Forbidden                the caller may not do this
    │   ├── NotSignedIn          a caller whom nobody knows, or not any more
    │   ├── TooManyAttempts      a sign-in after too many that failed
    │   ├── TooManyStreams       an event stream of a user who has many open
    │   ├── TooManyAsks          an ask of a program that has very many open questions
    │   ├── NotApproved          a call of a program outside that must not run
    │   └── TripwireTriggered    a guardrail stopped the run for good
    │       ├── InputGuardrailTripwireTriggered
    │       ├── OutputGuardrailTripwireTriggered
    │       ├── ToolInputGuardrailTripwireTriggered
    │       └── ToolOutputGuardrailTripwireTriggered
    ├── NotFound                 the thing asked for does not exist
    │   ├── RunNotFound
    │   ├── AgentNotFound
    │   ├── QuestionNotFound
    │   ├── GrantNotFound
    │   ├── StopNotFound
    │   └── ToolNotFound
    └── Upstream                 a model, a server or a database failed
        ├── MCPServerFailed      an MCP server that cannot be reached, or whose answer cannot be used
        ├── MCPToolFailed        a tool of an MCP server that reported an error
        ├── ModelFailed
        │   └── ModelTimedOut    a model that took longer than the settings allow
        ├── ModelRefused         a model that refused to give the output
        ├── UnexpectedReply      a reply that cannot be used; ToolNotFound is one too
        │   ├── UnansweredRequest  a provider's request that no tool here answers
        │   └── InvalidOutput    an output that does not fit the agent's output type
        ├── AgentFailed          an agent used as a tool that gave no output
        ├── ToolTimedOut         a tool that took longer than it may
        ├── OutcomeUnknown       a tool that cannot know if its effect happened
        ├── EngineFailed         an engine, such as Temporal, that did not answer
        ├── SessionFailed
        └── StoreFailed

A pause, a refusal, an expiry and a tool's failure are facts in the journal, not exceptions.
The first line of an error's docstring is its default message.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AssentryError(Exception):
    """Assentry could not go on."""

    status: ClassVar[int] = 500
    """The HTTP status that this error maps to."""

    state: Any = None
    """The run as a `RunState` to resume. It is set on every error that leaves a run; None if no run had begun."""

    run_data: Any = None
    """The run as a result, with its items, replies and guardrail results up to the error; None if no run had begun."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n", 1)[0])

    @property
    def message(self) -> str:
        """The error's text."""
        return str(self)


class UsageError(AssentryError):
    """The program, or what it was given, must change."""

    status = 400


class InvalidDefinition(UsageError, ValueError):
    """An agent, a tool or a rule cannot be defined like this."""


class UnknownOption(InvalidDefinition, TypeError):
    """There is no such option."""


class InvalidInput(UsageError):
    """The input cannot become part of a run."""


class InvalidDecision(UsageError, ValueError):
    """The decision does not fit the question."""

    status = 422

    question: str | None = None
    """The id of the question, if a store refused the decision."""


class InvalidArguments(InvalidDecision):
    """The arguments do not fit the tool's schema."""


class UnreadableState(UsageError):
    """The saved run is damaged, or is not a saved run."""

    status = 422


class UnknownSchema(UnreadableState):
    """The saved run has a schema version that this version of Assentry cannot read."""


class BadSignature(UnreadableState):
    """The saved run was changed after it was signed, or was not signed with a known key."""


class UnclearCommand(UsageError):
    """The shell command cannot be judged for certain."""


class ContextMissing(UsageError):
    """The run's context was not saved, or cannot be; give one."""


class RunUnfinished(UsageError):
    """The run's stream has not ended; read `stream_events()` to its end first."""


class ReplayMismatch(UsageError):
    """A tool body asked something else when it was entered again, after steps or further questions.

    A body that asks runs again from the top after each answer, so it must ask the same
    questions in the same order. Nothing after the mismatch ran. Without steps, and at the
    last question that was answered, it is asked anew instead.
    """


class SessionMissing(UsageError):
    """The run is kept in a session; give the same session when it is resumed."""


class NotInAssentry(UsageError, ImportError):
    """Assentry does not have this name of another library."""


class ScriptExhausted(UsageError):
    """The script has no next line; add one."""


class MaxTurnsExceeded(UsageError):
    """The run used up its turns; resume its `.state` with a higher `max_turns`."""


class Conflict(AssentryError):
    """Something has changed meanwhile; look again."""

    status = 409


class IllegalFact(Conflict):
    """The fact cannot follow this journal; nothing was changed."""


class AlreadyDecided(Conflict):
    """The question has another answer already."""

    def __init__(
        self, message: str | None = None, *, by: str | None = None, verdict: str | None = None, at: int | None = None
    ) -> None:
        super().__init__(message)
        self.by = by
        """The name of whoever decided."""
        self.verdict = verdict
        """The decision: "approve", "edit", "reject" or "respond"."""
        self.at = at
        """The time of the decision, in milliseconds since 1970."""


class NotPending(Conflict):
    """The question is not open any more."""


class DigestMismatch(Conflict):
    """The decision is about something other than what is asked; look at the question again."""


class StateSpent(Conflict):
    """This state was resumed already; go on with the state of the newest result."""


class RunFinished(Conflict):
    """The run has nothing left to do; give it new input with `state.add_input(...)`."""


class ThreadWaiting(Conflict):
    """The thread waits for an answer; give it, or say with `on_pending` what becomes of the question."""


class RunBusy(Conflict):
    """Somebody else drives the run; wait until it is done, or until its lease has run out."""


class Overtaken(Conflict):
    """Somebody else has written to the run meanwhile; load it again."""


class GrantEnded(Overtaken):
    """A standing grant was revoked or used up while a call was judged by it; the call is judged again."""


class LeaseLost(Conflict):
    """Somebody else has taken over the run; facts that were not written are not part of it."""


class AgentStopped(Conflict):
    """Somebody has stopped the agent; nothing begins in its runs until the stop is lifted."""

    stop: str | None = None
    """The id of the stop."""
    agent: str | None = None
    """The agent that is stopped; None if all are."""


class RunElsewhere(Conflict):
    """The run's authority is an engine, such as Temporal, and this process has no way to it."""


class NotDecided(Conflict):
    """Nobody has decided yet; wait again, or come back later."""

    def __init__(self, message: str | None = None, call: Any = None) -> None:
        super().__init__(message)
        self.call = call
        """The call's status."""


class PatchRefused(Conflict):
    """The patch does not fit the files as they are; no file was changed."""


class NotAsShown(Conflict):
    """Something is not as the person was shown, and nothing was done.

    A tool body raises it before its effect. The call is then asked about again, with a new preview.
    """


class DefinitionChanged(Conflict):
    """A tool has changed since a person was asked about it, or is gone."""


class Forbidden(AssentryError):
    """You may not do this."""

    status = 403


class NotSignedIn(Forbidden):
    """You are not signed in; sign in, or send `Authorization: Bearer TOKEN`."""

    status = 401


class TooManyAttempts(Forbidden):
    """There were too many attempts; wait before the next one."""

    status = 429

    def __init__(self, message: str | None = None, *, retry_after: int = 60) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """The seconds to wait."""


class TooManyStreams(Forbidden):
    """This user has too many event streams open; close one first."""

    status = 429


class TooManyAsks(Forbidden):
    """The program has too many open questions."""

    status = 429


class NotApproved(Forbidden):
    """The call of a program outside must not run."""

    def __init__(self, message: str | None = None, call: Any = None) -> None:
        super().__init__(message)
        self.call = call
        """The call's status: who refused it, and why."""


class TripwireTriggered(Forbidden):
    """A guardrail stopped the run for good."""

    def __init__(self, message: str | None = None, guardrail_result: Any = None) -> None:
        super().__init__(message)
        self.guardrail_result = guardrail_result
        """The guardrail and its output."""

    @property
    def guardrail(self) -> Any:
        """The guardrail that stopped the run."""
        return self.guardrail_result.guardrail if self.guardrail_result is not None else None

    @property
    def output(self) -> Any:
        """The guardrail's output."""
        return self.guardrail_result.output if self.guardrail_result is not None else None


class InputGuardrailTripwireTriggered(TripwireTriggered):
    """An input guardrail stopped the run for good."""


class OutputGuardrailTripwireTriggered(TripwireTriggered):
    """An output guardrail stopped the run for good."""


class ToolInputGuardrailTripwireTriggered(TripwireTriggered):
    """A tool's input guardrail stopped the run for good; the tool did not run."""


class ToolOutputGuardrailTripwireTriggered(TripwireTriggered):
    """A tool's output guardrail stopped the run for good; the tool had run."""


class NotFound(AssentryError):
    """There is no such thing."""

    status = 404


class RunNotFound(NotFound):
    """The store has no such run."""


class AgentNotFound(NotFound):
    """The registry has no such agent, or no such version of it."""


class QuestionNotFound(NotFound):
    """The run never asked such a question."""


class GrantNotFound(NotFound):
    """The run has no such grant."""


class StopNotFound(NotFound):
    """There is no such stop."""


class Upstream(AssentryError):
    """Something outside Assentry failed."""

    status = 502


class MCPServerFailed(Upstream):
    """The MCP server cannot be reached, or its answer cannot be used."""


class MCPToolFailed(Upstream):
    """The tool of the MCP server reported an error."""


class ModelFailed(Upstream):
    """The model did not give a complete reply.

    Its `retryable` is False if the same request would come to the same again: the key is wrong, or the talk too long.
    """

    def __init__(self, message: str | None = None, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable
        """True if the same request may succeed later."""


class ModelTimedOut(ModelFailed):
    """The model did not reply within `ModelSettings(timeout=...)`."""

    def __init__(self, message: str | None = None, *, timeout_seconds: float = 0) -> None:
        super().__init__(message)
        self.timeout_seconds = timeout_seconds
        """The seconds that an attempt may take."""


class ModelRefused(Upstream):
    """The model refused to give the output it was asked for."""

    def __init__(self, message: str | None = None, *, refusal: str = "") -> None:
        super().__init__(message)
        self.refusal = refusal
        """The model's own words."""


class UnexpectedReply(Upstream):
    """The model's reply cannot be used."""


class ToolNotFound(NotFound, UnexpectedReply):
    """The model called a tool that the agent does not have."""


class UnansweredRequest(UnexpectedReply):
    """The model's reply asks for something that no tool here answers; resume its state with other input."""


class AgentFailed(Upstream):
    """An agent used as a tool gave no output."""


class InvalidOutput(UnexpectedReply):
    """The model's output does not fit the agent's output type; give it another try with `state.add_input(...)`."""


class ToolTimedOut(Upstream, TimeoutError):
    """The tool took longer than it may."""

    def __init__(self, message: str | None = None, *, tool_name: str = "", timeout_seconds: float = 0) -> None:
        super().__init__(message)
        self.tool_name = tool_name
        """The tool's name."""
        self.timeout_seconds = timeout_seconds
        """The seconds that the tool may take."""


class OutcomeUnknown(Upstream):
    """The tool cannot know if its effect happened.

    Raise it in a tool's body, for example when the connection is lost in the middle of a request. The call is then in
    doubt: it is settled by the tool's probe, repeated if the tool is idempotent, or else put to a person.
    """


class EngineFailed(Upstream):
    """The engine that drives the run did not answer."""


class SessionFailed(Upstream):
    """The session could not be read or written."""


class StoreFailed(Upstream):
    """The store could not be read or written."""

    unknown: bool = False
    """True if the change, or a part of it, was or may have been written; the message says which. Else False."""
