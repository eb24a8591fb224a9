"""Every error Assent raises, by who must act on it.

    AssentError
    ├── UsageError               the developer: the program, or what it was given, must change
    │   ├── InvalidDefinition    an agent, a tool or a rule that cannot be defined like this
    │   ├── InvalidInput         input that cannot become part of a run
    │   ├── InvalidDecision      a decision that does not fit the question
    │   │   └── InvalidArguments arguments that do not fit the tool's schema
    │   ├── UnreadableState      a saved run that is damaged, or is something else
    │   │   ├── UnknownSchema    a saved run of a schema version this Assent cannot read
    │   │   └── BadSignature     a saved run that is not as it was signed
    │   ├── ContextMissing       a context that was not saved, or cannot be
    │   ├── RunUnfinished        something asked of a run before its stream has ended
    │   ├── SessionMissing       a run that is kept in a session, resumed without it
    │   ├── ReplayMismatch       a tool body that asked other questions when entered again
    │   ├── ScriptExhausted      a scripted model, or person, that has nothing more to say
    │   └── MaxTurnsExceeded     a run that used up its turns
    ├── Conflict                 the caller: what this was about is not so any more
    │   ├── IllegalFact          a fact that cannot follow the journal
    │   ├── AlreadyDecided       a question that has another answer already
    │   ├── NotPending           a question that is not open any more
    │   ├── DigestMismatch       a decision about something other than what is asked
    │   ├── StateSpent           a state that was resumed already
    │   ├── RunFinished          a run with nothing left to do
    │   ├── ThreadWaiting        a thread that waits for an answer, and was given something else
    │   ├── RunBusy              a run that somebody else drives
    │   ├── Overtaken            a run that somebody else has written to meanwhile
    │   ├── LeaseLost            a run that somebody else has taken over
    │   └── DefinitionChanged    a tool that is not what was asked about
    ├── Forbidden                who may not
    │   └── TripwireTriggered    a guardrail stopped the run for good
    │       ├── InputGuardrailTripwireTriggered
    │       ├── OutputGuardrailTripwireTriggered
    │       ├── ToolInputGuardrailTripwireTriggered
    │       └── ToolOutputGuardrailTripwireTriggered
    ├── NotFound                 what is not there
    │   ├── RunNotFound
    │   ├── AgentNotFound
    │   ├── QuestionNotFound
    │   ├── GrantNotFound
    │   └── ToolNotFound
    └── Upstream                 the outside world: a model, a server, a database
        ├── ModelFailed
        ├── ModelRefused         a model that would not give the output it was asked for
        ├── UnansweredRequest    a provider that asks for something which no tool here answers
        ├── AgentFailed          an agent that is a tool, and did not come to an output
        ├── InvalidOutput        an output that does not fit the agent's output type
        ├── SessionFailed
        └── StoreFailed

A pause, a refusal, an expiry and a tool's failure are facts in the journal, not exceptions.
An error's first docstring line is its message when it is raised without one.
"""

from __future__ import annotations

from typing import Any, ClassVar


class AssentError(Exception):
    """Assent could not go on."""

    status: ClassVar[int] = 500
    """The HTTP status this error maps to."""

    state: Any = None
    """The run as a `RunState` to resume, on every error that leaves a run; None if nothing had begun."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n", 1)[0])


class UsageError(AssentError):
    """The program, or what it was given, must change."""

    status = 400


class InvalidDefinition(UsageError):
    """An agent, a tool or a rule cannot be defined like this."""


class InvalidInput(UsageError):
    """The input cannot become part of a run."""


class InvalidDecision(UsageError):
    """The decision does not fit the question."""

    status = 422

    question: str | None = None
    """The id of the question, where a store refused the decision."""


class InvalidArguments(InvalidDecision):
    """The arguments do not fit the tool's schema."""


class UnreadableState(UsageError):
    """The saved run is damaged, or is not a saved run."""

    status = 422


class UnknownSchema(UnreadableState):
    """The saved run has a schema version that this version of Assent cannot read."""


class BadSignature(UnreadableState):
    """The saved run is not as it was signed, or was not signed with a key that is known."""


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


class ScriptExhausted(UsageError):
    """The script has nothing more to say."""


class MaxTurnsExceeded(UsageError):
    """The run used up its turns; resume its `.state` with a higher `max_turns`."""


class Conflict(AssentError):
    """What this was about is not so any more; look again."""

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
        """Who decided,"""
        self.verdict = verdict
        """what,"""
        self.at = at
        """and when, in milliseconds since 1970."""


class NotPending(Conflict):
    """The question is not open any more."""


class DigestMismatch(Conflict):
    """The decision is about something other than what is asked; look at the question again."""


class StateSpent(Conflict):
    """This state was resumed already; go on with the state of the newest result."""


class RunFinished(Conflict):
    """The run has nothing left to do; give it new input with `state.add_input(...)`."""


class ThreadWaiting(Conflict):
    """The thread waits for an answer; give it, or say what becomes of the question."""


class RunBusy(Conflict):
    """Somebody else drives the run; wait until it is done, or until its lease has run out."""


class Overtaken(Conflict):
    """Somebody else has written to the run meanwhile; load it again."""


class LeaseLost(Conflict):
    """Somebody else has taken the run over; what was not written is not part of it."""


class DefinitionChanged(Conflict):
    """A tool is not what was asked about, or is gone."""


class Forbidden(AssentError):
    """You may not do this."""

    status = 403


class TripwireTriggered(Forbidden):
    """A guardrail stopped the run for good."""

    def __init__(self, message: str | None = None, guardrail_result: Any = None) -> None:
        super().__init__(message)
        self.guardrail_result = guardrail_result
        """Which guardrail it was, and what it found."""

    @property
    def guardrail(self) -> Any:
        """The guardrail that stopped the run."""
        return self.guardrail_result.guardrail if self.guardrail_result is not None else None

    @property
    def output(self) -> Any:
        """What the guardrail found."""
        return self.guardrail_result.output if self.guardrail_result is not None else None


class InputGuardrailTripwireTriggered(TripwireTriggered):
    """An input guardrail stopped the run for good."""


class OutputGuardrailTripwireTriggered(TripwireTriggered):
    """An output guardrail stopped the run for good."""


class ToolInputGuardrailTripwireTriggered(TripwireTriggered):
    """A tool's input guardrail stopped the run for good; the tool did not run."""


class ToolOutputGuardrailTripwireTriggered(TripwireTriggered):
    """A tool's output guardrail stopped the run for good; the tool had run."""


class NotFound(AssentError):
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


class ToolNotFound(NotFound):
    """The model called a tool that the agent does not have."""


class Upstream(AssentError):
    """Something outside Assent failed."""

    status = 502


class ModelFailed(Upstream):
    """The model did not give a complete reply.

    Its `retryable` is False if the same request would come to the same again: the key is wrong, or the talk too long.
    """

    def __init__(self, message: str | None = None, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether the same request may well succeed later."""


class ModelRefused(Upstream):
    """The model refused to give the output it was asked for."""


class UnansweredRequest(Upstream):
    """The model's reply asks for something that no tool here answers; resume its state with other input."""


class AgentFailed(Upstream):
    """An agent that is a tool did not come to an output."""


class InvalidOutput(Upstream):
    """The model's output does not fit the agent's output type; give it another try with `state.add_input(...)`."""


class SessionFailed(Upstream):
    """The session could not be read or written."""


class StoreFailed(Upstream):
    """The store could not be read or written."""

    unknown: bool = False
    """False if nothing was written. True if the change, or a part of it, was or may be; the message says which."""
