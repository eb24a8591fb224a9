"""The facts a journal is made of: what happened, in the past tense, frozen, and nothing else.

A fact holds names, numbers and JSON, never a live object. JSON that Assent does not read itself
(a provider's items, arguments, outputs) stays as the bytes it came as. New fields need defaults;
a new meaning is a new fact; a field is never given another meaning.

`at` is when it happened, in milliseconds since the run began (`Began` itself: since 1970); a fact
that follows at once from the one before may leave it out. `path` is where: empty in the run
itself, else the ids of the agent calls it happened under, outermost first.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import astuple

from ..errors import UnreadableState
from .number import Count, Time

NOTHING = Raw()
"""No JSON: an optional field that is not set. It is falsy, and `{}` or `""` as JSON is not."""

CallKind = Literal["tool", "agent", "handoff", "output", "hosted", "hook"]
QuestionKind = Literal["approval", "input", "doubt"]
Verdict = Literal["approve", "edit", "reject", "respond"]
Release = Literal["each", "batch"]

_decode = Decoder().decode


def decode(json: Raw) -> Any:
    """The value of a fact's JSON, or `UnreadableState`: it was not looked into when its journal was loaded."""
    try:
        return _decode(json)
    except (MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableState(f"This run is damaged: a value in it cannot be read ({error}).") from None


class Usage(Struct):
    """What the model calls of a run have used."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens, those that the provider had kept."""
    reasoning_tokens: int = 0
    """Of the output tokens, those that were reasoning."""

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def add(self, other: Usage) -> None:
        """Count another usage into this one."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cached_tokens += other.cached_tokens
        self.reasoning_tokens += other.reasoning_tokens

    def numbers(self) -> tuple[int, ...]:
        """The fields in their order, without the zeros at the end."""
        every: tuple[int, ...] = astuple(self)
        while every and every[-1] == 0:
            every = every[:-1]
        return every


class Call(Struct, frozen=True, array_like=True, gc=False):
    """A call as it was proposed."""

    id: str
    """Our own id, unique in its run; the provider's is in the item."""
    tool: str
    item: Count = 0
    """Which of the reply's items it is."""
    kind: CallKind = "tool"
    definition: str | None = None
    """The fingerprint of the tool that was offered under this name; None if none was."""


class Fact(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True, tag_field="fact", tag=str.lower):
    """Something that happened."""

    at: Time = 0
    path: tuple[str, ...] = ()


# -- of a run ------------------------------------------------------------------------------------


MAX_ARGUMENT_BYTES = 10_000_000
"""How large the arguments of a call may be, unless the run says otherwise."""


class Began(Fact, frozen=True):
    """The run, or with a path the branch that an agent call opens, came to be."""

    agent: str
    max_turns: Count
    run: str = ""
    version: str = ""
    release: Release = "each"
    guards: tuple[str, ...] = ()
    live: bool = False
    trace: dict[str, str] | None = None
    conversation: dict[str, str] | None = None
    session: str | None = None
    """The session the run's talk is kept in, if it is."""
    stored: bool = False
    """Whether the run lives in a store: then it goes on there, and nowhere else."""
    thread: str | None = None
    """The conversation that the run is a part of,"""
    follows: str | None = None
    """and the run before it there: what was said in that one, and before it, is heard in this one too."""
    max_argument_bytes: int = MAX_ARGUMENT_BYTES
    """The size above which nobody reads the arguments of a call."""

    @property
    def call(self) -> str | None:
        """The agent call that opens this branch; None for the run itself."""
        return self.path[-1] if self.path else None


class Said(Fact, frozen=True):
    """Somebody gave input: a JSON text (a user's message) or a list of provider items."""

    items: Raw
    by: str = "user"


class Awaited(Fact, frozen=True):
    """These input guardrails must look at what was said since, before anything runs."""

    guards: tuple[str, ...]


class Defined(Fact, frozen=True):
    """The agent is defined like this from now on."""

    agent: str
    digest: str = ""
    """Of the names and fingerprints of all its tools."""
    tools: dict[str, str] = {}
    """The start of each tool's fingerprint, to say which has changed; left out where there are many, and where an
    earlier fact of the run says it for the same digest."""
    model: str = ""
    instructions: str = ""
    """A digest of the text, or the name of the function that makes it."""
    finishing: bool = False
    """Whether the outputs of a turn's calls may end the run."""
    output: str = ""
    """A digest of the type of its output, and of the rule for it; empty for text that needs nobody."""


class Replied(Fact, frozen=True):
    """The model replied. `saw`: how many `Said` it had heard, if that was not all of them."""

    items: Raw
    saw: Count | None = None
    calls: tuple[Call, ...] = ()
    usage: tuple[Count, ...] = ()
    id: str | None = None
    note: str | None = None


class Proposed(Fact, frozen=True):
    """The runtime itself proposes a call: a final output to approve, or a hook that asks."""

    proposal: Call
    args: Raw
    saw: Count | None = None
    """How many `Said` the hook had heard that asks."""


class Concluded(Fact, frozen=True):
    """The run has its output: `output`, else what the call `source` gave, else the last reply's text.

    `call` is the call that proposed the output, where it had to be approved.
    """

    output: Raw = NOTHING
    source: str | None = None
    call: str | None = None


class Continued(Fact, frozen=True):
    """The outputs of the turn's calls did not end the run; the model is asked."""


class Guarded(Fact, frozen=True):
    """A guardrail was run."""

    where: Literal["input", "output", "tool_input", "tool_output"]
    name: str
    tripped: bool = False
    output: Raw = NOTHING
    call: str | None = None
    message: str | None = None
    """What the model is told instead, where a tool's guardrail stopped the call or its output."""
    agent: str | None = None
    """The place of the agent whose output it looked at, if that is not the one the run began with."""


class Granted(Fact, frozen=True):
    """Somebody decided for later calls too: of this tool, by the agent at this place."""

    id: str
    agent: str
    tool: str
    verdict: Literal["approve", "reject"]
    by: str
    server: str | None = None
    message: str | None = None
    definition: str | None = None
    """The tool's fingerprint: what is approved for always is the tool as it is."""
    max_uses: Count | None = None
    """How many calls it lets pass."""
    until: Time | None = None
    """Until when it holds."""
    pins: Raw = NOTHING
    """The arguments that a call must have: a JSON object, compared with the canonical arguments."""


class Revoked(Fact, frozen=True):
    """A grant was taken back; what it let pass stays passed."""

    grant: str
    by: str


class Limited(Fact, frozen=True):
    """The run has another limit of turns from now on."""

    max_turns: Count


class Cancelled(Fact, frozen=True):
    """Somebody stopped the run. Nothing is owed until it is resumed."""

    by: str
    why: str | None = None


class Resumed(Fact, frozen=True):
    """Somebody let a cancelled run go on."""

    by: str


class Saved(Fact, frozen=True):
    """The first `upto` entries of the talk are in the session."""

    upto: Count


class Closed(Fact, frozen=True):
    """The run ended for good without an output."""

    why: str
    error: str | None = None


# -- of a call -----------------------------------------------------------------------------------


class Asked(Fact, frozen=True):
    """A person is asked. `digest` is of what was shown; `fills` are the defaults that were filled into the
    proposed arguments, or `args` all of them; `allowed` is set where not every answer of its kind will do;
    an empty `why` says that every call of the tool is asked about."""

    call: str
    id: str
    why: str
    digest: str
    kind: QuestionKind = "approval"
    allowed: tuple[Verdict, ...] | None = None
    args: Raw = NOTHING
    prompt: Raw = NOTHING
    schema: Raw = NOTHING
    until: Time | None = None
    replaces: str | None = None
    """The question before about what has changed since: one that was open, or one that was approved."""
    fills: Raw = NOTHING
    due: Time | None = None
    """When it is overdue. It goes on waiting; after `until` it does not."""
    voids: str | None = None
    """The question in whose place the code asks this one, entered again: the answer to that counts for nothing."""


class Approved(Fact, frozen=True):
    """The call may run: as it is, or with other arguments, or another tool as it is defined now (then
    `digest` is of those)."""

    call: str
    by: str
    asked: str | None = None
    args: Raw = NOTHING
    tool: str | None = None
    digest: str | None = None
    why: str | None = None
    fills: Raw = NOTHING
    definition: str | None = None


class Refused(Fact, frozen=True):
    """The call will not run."""

    call: str
    by: str
    asked: str | None = None
    message: str | None = None
    why: str | None = None


class Told(Fact, frozen=True):
    """The text that tells the model of a refusal was settled; it is in the refusal if it is not here."""

    call: str
    text: str | None = None


class Answered(Fact, frozen=True):
    """A person answered what a tool's body asked."""

    call: str
    by: str
    asked: str
    value: Raw


class Redefined(Fact, frozen=True):
    """A tool that changed while its call waited was accepted as it is now."""

    call: str
    fingerprint: str
    by: str


class Started(Fact, frozen=True):
    """The tool's body is about to be entered. Recorded before it is."""

    call: str
    attempt: Count = 1
    fence: Count = 0
    """The fence of the lease under which it was begun; 0 without a store."""


class Left(Fact, frozen=True):
    """This attempt came to nothing, and the call is taken through the door again. Either the body was not entered,
    or it had no effect, or it may be entered twice: `by` says who says so."""

    call: str
    attempt: Count
    by: str = "runtime"
    fence: Count = 0
    """The fence of that attempt's `Started`: an attempt that was begun under another lease is another attempt."""


class Stepped(Fact, frozen=True):
    """A step inside a body is done; entered again, the body gets this value."""

    call: str
    name: str
    value: Raw
    number: Count = 0
    """Which step of this name it is in the body: steps may end in another order than they began."""


class Finished(Fact, frozen=True):
    """The call has its outcome: from the body, or from a person in its place."""

    call: str
    output: Raw
    by: str = "tool"
    asked: str | None = None
    error: str | None = None
    note: str | None = None


class Witnessed(Fact, frozen=True):
    """A result that came too late to count, kept as evidence."""

    call: str
    attempt: Count
    output: Raw


class HandedOff(Fact, frozen=True):
    """Another agent has taken over: its place, and its name. `history`, if set, is what it hears of the talk so far."""

    call: str
    to: str
    history: Raw = NOTHING
    name: str = ""


RunFact = (
    Began
    | Said
    | Awaited
    | Defined
    | Replied
    | Proposed
    | Concluded
    | Continued
    | Guarded
    | Granted
    | Revoked
    | Limited
    | Cancelled
    | Resumed
    | Saved
    | Closed
)
CallFact = (
    Asked
    | Approved
    | Refused
    | Told
    | Answered
    | Redefined
    | Started
    | Left
    | Stepped
    | Finished
    | Witnessed
    | HandedOff
)
AnyFact = RunFact | CallFact


# -- effects: what must happen next, derived from a run and never stored -------------------------


class Effect(Struct, frozen=True, gc=False):
    """Something that must happen next, to this call or, without one, to the run itself."""

    call: str | None = None
    path: tuple[str, ...] = ()


class AskModel(Effect, frozen=True):
    """Ask the model; its reply will have heard `saw` inputs."""

    saw: int = 0


class Guard(Effect, frozen=True):
    """Run the input guardrail of this name."""

    name: str = ""


class Judge(Effect, frozen=True):
    """Let the gate judge this call."""


class Execute(Effect, frozen=True):
    """Take this call through the door."""


class Settle(Effect, frozen=True):
    """This call was started and its outcome is not known here: find out, or ask."""


class Tell(Effect, frozen=True):
    """Settle the text that tells the model of this refusal."""


class Conclude(Effect, frozen=True):
    """See whether the reply, or the output call that was approved, ends the run."""


class Return(Effect, frozen=True):
    """The branch under this call has ended: give its output to the call."""


AnyEffect = AskModel | Guard | Judge | Execute | Settle | Tell | Conclude | Return
