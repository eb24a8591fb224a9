"""The facts of a journal, which say what happened, and the effects, which say what must happen next.

A fact holds names, numbers and JSON, never a live object. JSON that Assentry does not read itself (a provider's items,
arguments, outputs) stays as the bytes that came in. New fields need defaults. A new meaning needs a new fact; a field
never gets another meaning.

`at` is the time of a fact, in milliseconds since the run began (for `Began` itself: since 1970). A fact that follows at
once from the fact before may leave the time out. `path` is empty in the run itself; in a branch it has the ids of the
agent calls above the fact, outermost first.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import astuple

from ..errors import UnreadableState
from .number import Count, Time

NOTHING = Raw()
"""No JSON: the value of an optional field that is not set. It is falsy; the JSON texts `{}` and `""` are not."""

CallKind = Literal["tool", "agent", "handoff", "output", "hosted", "hook"]
QuestionKind = Literal["approval", "input", "doubt"]
Verdict = Literal["approve", "edit", "reject", "respond"]
Risk = Literal["low", "high"]
Release = Literal["each", "batch"]
HandledError = Literal["max_turns", "model_refusal", "invalid_final_output"]
"""The errors that an error handler can give a final output for."""
ERROR_HANDLER = "error_handler"
"""The author of a message that an error handler's output puts into the conversation."""
OWN_AUTHORS = ("session", ERROR_HANDLER, "runtime")
"""The authors of `Said` that only the runtime may name: input guardrails do not check all of what they said."""

COPIED_REPLY = "Copied from the point that this run was forked from; the model was not asked again."
GIVEN_REPLY = "Given by the program, which changed the messages; the model did not say it so."
"""The notes of a `Replied` with which a fork begins: its calls are judged anew."""
OUTSIDE_REPLY = "Given by a program outside, which asked about this call; no model of Assentry's was asked."
"""The note of the `Replied` with the call of a program outside."""

_decode = Decoder().decode


def decode(json: Raw) -> Any:
    """Return the value of a fact's JSON, or raise `UnreadableState`. Loading a journal does not check this JSON."""
    try:
        return _decode(json)
    except (MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableState(f"This run is damaged: a value in it cannot be read ({error}).") from None


class Usage(Struct):
    """The requests and tokens that the model calls of a run have used."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input tokens that came from the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output tokens that was reasoning."""

    @property
    def total_tokens(self) -> int:
        """The sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    def add(self, other: Usage) -> None:
        """Add another usage to this one."""
        self.requests += other.requests
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cached_tokens += other.cached_tokens
        self.reasoning_tokens += other.reasoning_tokens

    def numbers(self) -> tuple[int, ...]:
        """Return the fields in order, without the zeros at the end."""
        every: tuple[int, ...] = astuple(self)
        while every and every[-1] == 0:
            every = every[:-1]
        return every


class Call(Struct, frozen=True, array_like=True, gc=False):
    """A call as it was proposed."""

    id: str
    """Our own id, unique in its run; the provider's id is in the item."""
    tool: str
    item: Count = 0
    """The index of the call's item in the reply."""
    kind: CallKind = "tool"
    definition: str | None = None
    """The fingerprint of the tool that was offered under this name; None if no tool was."""


class Fact(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True, tag_field="fact", tag=str.lower):
    """Something that happened."""

    at: Time = 0
    path: tuple[str, ...] = ()


# -- facts of a run ------------------------------------------------------------------------------


MAX_ARGUMENT_BYTES = 10_000_000
"""The default size limit of a call's arguments."""


class Began(Fact, frozen=True):
    """The run began. With a path: an agent call opened a branch."""

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
    """The session that keeps the run's conversation, if any."""
    stored: bool = False
    """True if the run is in a store. Such a run continues only in its store."""
    thread: str | None = None
    """The thread that the run is a part of, if any."""
    follows: str | None = None
    """The run before this run in the thread. The conversation of the earlier runs is part of this run's input."""
    by: str | None = None
    """The user who asked for the run, if known. This user decides nothing in it."""
    max_argument_bytes: int = MAX_ARGUMENT_BYTES
    """The size limit of a call's arguments. Larger arguments are not read."""
    forked: str | None = None
    """The point that this run was forked from, if any: a run, `@`, and the number of its facts up to there."""
    engine: str | None = None
    """The engine that is the authority on this run, such as "temporal"; None if a store is, or the run's holder.

    A store may have a copy of such a run. Whoever decides in it asks the engine."""
    caller: str | None = None
    """The program outside that drives this run: it brought the call, and runs the body itself; None for other runs.

    No worker drives such a run, and no model is asked in it: it is over when its call is."""

    @property
    def call(self) -> str | None:
        """The id of the agent call that opens this branch; None for the run itself."""
        return self.path[-1] if self.path else None


class Said(Fact, frozen=True):
    """Somebody gave input: a JSON text (a user's message) or a list of provider items."""

    items: Raw
    by: str = "user"
    update: Raw = NOTHING
    """Updates of the thread's state that came with the input: a JSON list of objects, in order."""


class Awaited(Fact, frozen=True):
    """New input must be checked by these input guardrails before anything runs."""

    guards: tuple[str, ...]


class Defined(Fact, frozen=True):
    """The agent has this definition from now on."""

    agent: str
    digest: str = ""
    """The digest of the names and fingerprints of all the agent's tools."""
    tools: dict[str, str] = {}
    """The start of each tool's fingerprint, to tell later which tool has changed.

    It is left out if there are many tools, or if an earlier fact of the run has it for the same digest."""
    model: str = ""
    instructions: str = ""
    """A digest of the text, or the name of the function that returns the text."""
    finishing: bool = False
    """True if the outputs of a turn's calls may end the run."""
    output: str = ""
    """A digest of the output type and its approval rule; empty for text that needs no approval."""
    redact: dict[str, tuple[str, ...]] | None = None
    """The arguments to mask wherever nobody decides, by tool; None in journals that do not say."""


class Replied(Fact, frozen=True):
    """The model replied. `saw` is the number of `Said` facts that the model had received, if not all."""

    items: Raw
    saw: Count | None = None
    calls: tuple[Call, ...] = ()
    usage: tuple[Count, ...] = ()
    id: str | None = None
    note: str | None = None
    missed: tuple[str, ...] = ()
    """In a live run, the calls that had their outcome before the reply, and whose outcome it was made without."""
    update: Raw = NOTHING
    """Updates of the thread's state by the code around the model: a JSON list of objects, in order."""


class Proposed(Fact, frozen=True):
    """The runtime itself proposed a call: a final output to approve, or a hook's question."""

    proposal: Call
    args: Raw
    saw: Count | None = None
    """The number of `Said` facts that the hook had received."""


class Concluded(Fact, frozen=True):
    """The run has its output: `output`, else the output of the call `source`, else the last reply's text.

    `call` is the call that proposed the output, if the output had to be approved.
    """

    output: Raw = NOTHING
    source: str | None = None
    call: str | None = None
    handled: HandledError | None = None
    """The error in whose place an error handler gave the output; `output` is set then."""
    saw: Count | None = None
    """The number of `Said` facts before, if an error handler gave the output. All of them are answered by it."""


class Continued(Fact, frozen=True):
    """The outputs of the turn's calls did not end the run; the model is called next."""


class Guarded(Fact, frozen=True):
    """A guardrail ran."""

    where: Literal["input", "output", "tool_input", "tool_output"]
    name: str
    tripped: bool = False
    output: Raw = NOTHING
    call: str | None = None
    message: str | None = None
    """The text that the model gets instead, if a tool's guardrail stopped the call or its output."""
    agent: str | None = None
    """The place of the agent whose output was checked, if the run began with another agent."""


class Granted(Fact, frozen=True):
    """Somebody decided for later calls too: calls of this tool by the agent at this place."""

    id: str
    agent: str
    tool: str
    verdict: Literal["approve", "reject"]
    by: str
    server: str | None = None
    message: str | None = None
    definition: str | None = None
    """The tool's fingerprint. An approval does not cover a changed tool."""
    max_uses: Count | None = None
    """The number of calls that the grant may decide."""
    until: Time | None = None
    """The time when the grant ends."""
    pins: Raw = NOTHING
    """The arguments that a call must have: a JSON object, compared with the canonical arguments."""


class Revoked(Fact, frozen=True):
    """A grant was revoked. Calls that it has already approved stay approved."""

    grant: str
    by: str


class Limited(Fact, frozen=True):
    """The run's limit of turns changed."""

    max_turns: Count


class Cancelled(Fact, frozen=True):
    """Somebody cancelled the run. Nothing is owed until the run is resumed."""

    by: str
    why: str | None = None


class Resumed(Fact, frozen=True):
    """Somebody resumed a cancelled run."""

    by: str


class Switched(Fact, frozen=True):
    """The run went on in a live session, or, after one, as text."""

    live: bool


class Saved(Fact, frozen=True):
    """The first `upto` entries of the conversation were written to the session.

    Inputs that the model has not heard yet are the next entries, and are counted if they were written before it hears
    them.
    """

    upto: Count


class Closed(Fact, frozen=True):
    """The run ended for good without an output."""

    why: str
    error: str | None = None


# -- facts of a call -----------------------------------------------------------------------------


class Asked(Fact, frozen=True):
    """A person was asked.

    `digest` covers what was shown. `fills` are the defaults that were added to the proposed arguments; `args` are all
    arguments, if they differ otherwise. `allowed` is set if not every verdict for this kind of question fits. An empty
    `why` means that every call of the tool needs approval.
    """

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
    """The earlier question, open or approved, that this question replaces because the call has changed."""
    fills: Raw = NOTHING
    due: Time | None = None
    """The time from which the question is overdue. An overdue question stays open; after `until` it does not."""
    voids: str | None = None
    """The answered question that this question replaces, because the code asked something else when entered again.

    The answer to the earlier question no longer counts."""
    preview: Raw = NOTHING
    """The call's effect, as the tool's own side says: the JSON of a `Preview`. The digest covers it."""
    definition: Raw = NOTHING
    """The definition of a tool that a server defines, to show later how it has changed."""
    reviewers: tuple[str, ...] = ()
    """The users, and the groups as "group:name", who may decide; empty if anybody may."""
    redact: tuple[str, ...] = ()
    """The arguments to mask wherever nobody decides: in lists, messages and logs."""
    risk: Risk | None = None
    """The risk of the call, as its tool or its rule says; None if neither says any."""


class Approved(Fact, frozen=True):
    """The call was approved: as it is, with other arguments, or with another tool as now defined.

    For other arguments or another tool, `digest` covers the new action.
    """

    call: str
    by: str
    asked: str | None = None
    args: Raw = NOTHING
    tool: str | None = None
    digest: str | None = None
    why: str | None = None
    fills: Raw = NOTHING
    definition: str | None = None
    shown: str | None = None
    """The hash of what the person was shown, if a person decided."""
    looked: int | None = None
    """The milliseconds that the person had the question open, if a page knew it."""
    preview: Raw = NOTHING
    """The preview that the code saw which decided in a person's place; the digest covers it."""
    terms: Raw = NOTHING
    """The terms of the standing grant that approved: a JSON object. Those of a run's own grant are in its `Granted`."""


class Refused(Fact, frozen=True):
    """The call was refused and will not run."""

    call: str
    by: str
    asked: str | None = None
    message: str | None = None
    why: str | None = None
    shown: str | None = None
    """The hash of what the person was shown, if a person decided."""
    looked: int | None = None
    """The milliseconds that the person had the question open, if a page knew it."""
    terms: Raw = NOTHING
    """The terms of the standing grant that refused: a JSON object. Those of a run's own grant are in its `Granted`."""


class Told(Fact, frozen=True):
    """The text that tells the model of a refusal was settled. Without `text`, the refusal's message is used."""

    call: str
    text: str | None = None


class Answered(Fact, frozen=True):
    """A person answered a question of a tool's body."""

    call: str
    by: str
    asked: str
    value: Raw
    shown: str | None = None
    """The hash of what the person was shown, if a person decided."""
    looked: int | None = None
    """The milliseconds that the person had the question open, if a page knew it."""


class Redefined(Fact, frozen=True):
    """A tool that changed while its call waited was accepted in its new form."""

    call: str
    fingerprint: str
    by: str


class Started(Fact, frozen=True):
    """The tool's body is about to be entered. The fact is recorded before that."""

    call: str
    attempt: Count = 1
    fence: Count = 0
    """The fencing token of the lease under which the attempt started; 0 without a store."""


class Left(Fact, frozen=True):
    """An attempt ended without a result, and the call goes through the door again.

    Either the body was not entered, or it had no effect, or it may be entered twice. `by` names who said so.
    """

    call: str
    attempt: Count
    by: str = "runtime"
    fence: Count = 0
    """The fencing token of the attempt's `Started`: an attempt under another lease is another attempt."""


REPLACEMENT = "assent:instead"
"""The name of a step that says which call runs in place of the body's own.

Its value is `{"tool": ..., "arguments": ...}`, with `"edited": true` if a person has changed the arguments."""


class Stepped(Fact, frozen=True):
    """A step inside a body was done. When the body is entered again, the step returns this value."""

    call: str
    name: str
    value: Raw
    number: Count = 0
    """The number of the step among steps of the same name: steps may end in another order than they began."""


class Finished(Fact, frozen=True):
    """The call has its outcome: from the body, or from a person in the body's place."""

    call: str
    output: Raw
    by: str = "tool"
    asked: str | None = None
    error: str | None = None
    note: str | None = None
    parts: bool = False
    """True if the output is a list of content parts for the model, such as images."""
    shown: str | None = None
    """The hash of what the person was shown, if a person decided."""
    looked: int | None = None
    """The milliseconds that the person had the question open, if a page knew it."""
    notice: str | None = None
    """The words that tell the model what ran, if a person changed the call; empty for none, None for the usual ones."""
    update: Raw = NOTHING
    """Updates of the thread's state by the tool: a JSON list of objects, in order."""
    more: Raw = NOTHING
    """Fields of the output's message beside its text, as a JSON object; the model does not get them."""


class Witnessed(Fact, frozen=True):
    """A result came too late to count. It is kept as evidence."""

    call: str
    attempt: Count
    output: Raw


class HandedOff(Fact, frozen=True):
    """Another agent took over. `to` is its place; `history`, if set, replaces the conversation before the handoff."""

    call: str
    to: str
    history: Raw = NOTHING
    name: str = ""
    split: tuple[Count, Count] | None = None
    """The numbers of items in `history` that are input, and that are input or of earlier turns; None if not known."""


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
    | Switched
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
    """Something that must happen next: to this call or, without a call, to the run itself."""

    call: str | None = None
    path: tuple[str, ...] = ()


class AskModel(Effect, frozen=True):
    """Call the model with the first `saw` inputs."""

    saw: int = 0


class Guard(Effect, frozen=True):
    """Run the input guardrail of this name."""

    name: str = ""


class Judge(Effect, frozen=True):
    """Let the gate judge this call."""


class Execute(Effect, frozen=True):
    """Take this call through the door."""


class Settle(Effect, frozen=True):
    """Find out the unknown outcome of this started call, or ask a person."""


class Tell(Effect, frozen=True):
    """Settle the text that tells the model of this refusal."""


class Conclude(Effect, frozen=True):
    """Decide whether the reply, or the approved output call, ends the run."""


class Return(Effect, frozen=True):
    """Give the output of the branch under this call, which has ended, to the call."""


AnyEffect = AskModel | Guard | Judge | Execute | Settle | Tell | Conclude | Return
