"""Interrupts: the open questions of a thread, and the conversion of answers to decisions.

All calls that wait for a decision are one interrupt together. Each question from `interrupt` in a tool or a middleware
is an interrupt of its own. An answer is checked completely before any part is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from msgspec import Struct

from ..approval.decide import edited
from ..approval.decision import Approve, Decision, Edit, Reject, Respond, decision_from
from ..approval.question import effective, raw_text
from ..core import facts as f
from ..core.digest import BadJSON, described, digest, holds, same
from ..core.facts import decode
from ..core.number import counted
from ..core.rules import verdict_of
from ..core.run import CallState, Run, questions
from ..errors import AlreadyDecided, InvalidDecision, NotPending, RunFinished, UsageError
from ..runtime.tool_pause import HERE
from ..tools.tool import Tool

Path = tuple[str, ...]
Chosen = tuple[str, Decision, str]
ToolAt = Callable[[CallState, str], Tool | None]
"""A function that returns the tool of this name of the agent that made the call."""

PrefixAt = Callable[[CallState], str]
"""A function that returns the prefix of a call's default description."""

PREFIX = "Tool execution requires approval"
RESPONSE = {
    "title": "HITLResponse",
    "type": "object",
    "properties": {"decisions": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "object"}}},
    "required": ["decisions"],
    "additionalProperties": False,
}
"""JSON schema of the answer to a question about a call that a middleware has changed."""
ID = re.compile(r"[0-9a-f]{32}")


class ActionRequest(TypedDict):
    """A call that waits for a decision."""

    name: str
    args: dict[str, Any]
    arguments: dict[str, Any]
    """The same as `args`."""
    description: str
    path: NotRequired[list[str]]
    """The tool names of the nested agents that lead to the call; absent for the agent's own calls."""


class ReviewConfig(TypedDict):
    """The decisions that are allowed on a waiting call."""

    action_name: str
    allowed_decisions: list[str]


class HITLRequest(TypedDict):
    """The value of an interrupt that needs decisions: two lists of the same length and order."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class EditedAction(TypedDict):
    """The tool call that runs in place of the proposed call."""

    name: str
    args: dict[str, Any]


class HITLDecision(TypedDict):
    """A person's decision on one call: `approve`, `edit`, `reject` or `respond`."""

    type: Literal["approve", "edit", "reject", "respond"]
    edited_action: NotRequired[EditedAction]
    message: NotRequired[str]


class HITLResponse(TypedDict):
    """The answer to a `HITLRequest`: one decision for each call, in order."""

    decisions: list[HITLDecision]


class Interrupt(Struct, frozen=True, repr_omit_defaults=True):
    """A question that a thread waits for. Answer with `Command(resume=...)`."""

    value: Any
    id: str
    response_schema: dict[str, Any] | None = None
    """JSON schema of the answer, if the tool or middleware declared one."""


@dataclass(frozen=True, init=False)
class Command:
    """The answer to a thread's open interrupts.

    `resume` is `{"decisions": [...]}` for waiting calls, or any JSON for a question from `interrupt`. If several
    interrupts are open, give a dict by their ids: `{interrupt.id: answer}`. `by` is the name of the person who answers.
    """

    resume: Any
    by: str = "user"

    def __init__(self, *, resume: Any = ..., by: str = "user", **other: Any) -> None:
        if resume is ... or other:
            raise UsageError(
                f"A Command answers what a thread waits for, with resume=..., and does nothing else; got "
                f"{', '.join(sorted(other)) or 'nothing'}. "
                "The state of a thread is its messages: a tool gives its result, or a ToolMessage, and a hook gives "
                '{"messages": [...]}.'
            )
        object.__setattr__(self, "resume", resume)
        object.__setattr__(self, "by", by)


def interrupt(value: Any, *, response_schema: Any = None) -> Any:
    """Ask a person, from inside a tool or a middleware, and return the answer.

    `value` is text, or any JSON. `response_schema` describes the answer: a type, to which the answer is converted, or a
    JSON schema. An answer that does not fit is refused, and the question stays open.

    The run pauses here. After the answer the tool or the hook is entered again from the top, and each `interrupt` that
    has an answer returns that answer at once. Before an `interrupt`, do nothing that must not happen twice, and ask the
    same question each time.
    """
    asks = HERE.get()
    if asks is None:
        raise UsageError("interrupt() asks from inside a tool or a middleware of an agent that runs, and nowhere else.")
    return asks.ask_sync(value, response_schema)


# -- open questions -------------------------------------------------------------------------------


class Pending(NamedTuple):
    """An interrupt, with its questions."""

    id: str
    states: list[tuple[Path, CallState]]
    decides: bool
    """True if the interrupt is about calls that need decisions; False for a question of a tool or a middleware."""


def pending(run: Run) -> list[Pending]:
    """Return the open interrupts of a run: one for all calls that need decisions, and one for each other question."""
    batch: list[tuple[Path, CallState]] = []
    single: list[Pending] = []
    for path, state in questions(run):
        asked = state.question
        if asked is not None and (asked.kind == "input" or state.call.kind == "hook"):
            single.append(Pending(_id([asked.id]), [(path, state)], False))
        else:
            batch.append((path, state))
    ids = [state.question.id for _, state in batch if state.question is not None]
    return [Pending(_id(ids), batch, True), *single] if batch else single


def _id(questions: list[str]) -> str:
    return questions[0].removeprefix("q_") if len(questions) == 1 else digest({"questions": questions})[:32]


def interrupts(run: Run, prefix: PrefixAt) -> list[Interrupt]:
    """Return the open interrupts of a run in the public form."""
    out: list[Interrupt] = []
    for each in pending(run):
        if each.decides:
            out.append(Interrupt(_request(run, each.states, prefix), each.id))
        else:
            state = each.states[0][1]
            asked = state.question
            assert asked is not None
            request = _inside(asked)
            if request is not None:
                out.append(Interrupt(_begun(request, prefix(state)), each.id))
            else:
                out.append(Interrupt(decode(asked.prompt), each.id, decode(asked.schema) if asked.schema else None))
    return out


def _inside(asked: f.Asked) -> HITLRequest | None:
    """Return the request of a question about a call that a middleware has changed; None for other questions."""
    return decode(asked.prompt) if asked.schema and decode(asked.schema) == RESPONSE else None


def _begun(request: HITLRequest, prefix: str) -> HITLRequest:
    """Put the current prefix into default descriptions: the prefix is not part of the recorded question."""
    for action in request["action_requests"]:
        default = f"{PREFIX}\n\nTool: {action['name']}\n"
        if action["description"].startswith(default):
            action["description"] = prefix + action["description"].removeprefix(PREFIX)
    return request


def _request(run: Run, states: list[tuple[Path, CallState]], prefix: PrefixAt) -> HITLRequest:
    actions: list[ActionRequest] = []
    reviews: list[ReviewConfig] = []
    for path, state in states:
        assert state.question is not None
        args = _args(state, state.question)
        action = action_request(state.tool, args, state.question, prefix(state))
        if path:
            action["path"] = [run.at(path[:depth]).calls[hop].tool for depth, hop in enumerate(path)]
        actions.append(action)
        reviews.append({"action_name": state.tool, "allowed_decisions": list(state.allowed())})
    return {"action_requests": actions, "review_configs": reviews}


def action_request(tool: str, args: dict[str, Any], asked: f.Asked, prefix: str) -> ActionRequest:
    """Return a call in the form that is shown to a person."""
    if asked.kind == "doubt":
        text = asked.why
    else:
        text = str(decode(asked.prompt)) if asked.prompt else f"{prefix}\n\nTool: {tool}\nArgs: {args}"
        if asked.why and not asked.why.endswith(" asks for approval."):
            text += f"\n\nNote: {asked.why}"
    return {"name": tool, "args": args, "arguments": args, "description": text}


def _args(state: CallState, asked: f.Asked) -> dict[str, Any]:
    try:
        return effective(state, asked)
    except BadJSON:
        return {"raw": raw_text(state)}


def waits_for(run: Run) -> str:
    """Return a phrase that names what a run waits for, for error messages."""
    calls = [state.tool for each in pending(run) if each.decides for _, state in each.states]
    asks = [state.tool for each in pending(run) if not each.decides for _, state in each.states]
    parts = [f"a decision on {', '.join(calls)}"] if calls else []
    parts += [f"an answer to {', '.join(asks)}"] if asks else []
    return " and ".join(parts) or "nobody"


# -- answers --------------------------------------------------------------------------------------


def answers(run: Run, thread: str, resume: Any, tool_at: ToolAt) -> list[Chosen]:
    """Return the decisions of an answer, completely checked, or raise the reason why nothing can be recorded."""
    open_ = {each.id: each for each in pending(run)}
    if isinstance(resume, dict) and resume and all(isinstance(key, str) and ID.fullmatch(key) for key in resume):
        for key in resume:
            if key not in open_:
                raise _stale(run, thread, key)
        return [chosen for key, answer in resume.items() for chosen in _chosen(open_[key], answer, tool_at)]
    if not open_:
        raise _nothing(run, thread)
    if len(open_) > 1:
        ids = ", ".join(open_)
        raise InvalidDecision(
            f"Thread {thread!r} waits for {len(open_)} answers; say which this is: Command(resume={{id: answer}}), "
            f"with the ids {ids}."
        )
    [each] = open_.values()
    if resume is None and not each.decides:
        raise InvalidDecision(f"resume=None answers nothing; if None is the answer, give {{{each.id!r}: None}}.")
    return list(_chosen(each, resume, tool_at))


def answered(run: Run, question: str) -> AlreadyDecided | None:
    """Return the error for a question that is already answered, with the person and the verdict; None if not."""
    decided = run.decided.get(question)
    if decided is None or verdict_of(decided) is None:
        return None
    return _already(decided, f"Interrupt {question.removeprefix('q_')} was answered by")


def _already(fact: f.CallFact, answered_by: str, advice: str = "") -> AlreadyDecided:
    """Return the error for a question that this fact has settled, with the person and the verdict."""
    by, verdict = getattr(fact, "by", ""), verdict_of(fact)
    return AlreadyDecided(f"{answered_by} {by} already ({verdict}).{advice}", by=by, verdict=verdict)


def _stale(run: Run, thread: str, key: str) -> Exception:
    already = answered(run, f"q_{key}")
    if already is not None:
        return already
    waits = ", ".join(each.id for each in pending(run))
    now = f"it waits for {waits}" if waits else "it waits for nobody"
    return NotPending(f"Thread {thread!r} has no open interrupt {key}: {now}. Nothing was recorded.")


def _nothing(run: Run, thread: str) -> Exception:
    last = next((fact for fact in reversed(run.decided.values()) if verdict_of(fact) is not None), None)
    if run.concluded is not None or run.closed is not None:
        return RunFinished(f"Thread {thread!r} waits for nobody; its last run is over. Say something new.")
    if last is not None:
        words = f"Thread {thread!r} waits for nobody: its question was answered by"
        return _already(last, words, " invoke(None) goes on with it.")
    return NotPending(f"Thread {thread!r} waits for nobody. invoke(None) goes on with it.")


def _chosen(each: Pending, answer: Any, tool_at: ToolAt) -> Iterator[Chosen]:
    if not each.decides:
        state = each.states[0][1]
        asked = state.question
        assert asked is not None
        if (request := _inside(asked)) is not None:
            [review], [action] = request["review_configs"], request["action_requests"]
            decision_inside(answer, action, review["allowed_decisions"], tool_at(state, action["name"]))
        yield asked.id, Respond(answer), asked.digest
        return
    shown = [_shown(state) for _, state in each.states]
    for number, decision in enumerate(decisions_of(answer, shown)):
        state = each.states[number][1]
        assert state.question is not None
        if type(decision) is Edit:
            with placed(state.tool, number, len(shown)):
                decision = _redirected(state, decision, tool_at)
        yield state.question.id, decision, state.question.digest


def _redirected(state: CallState, edit: Edit, tool_at: ToolAt) -> Edit:
    """Return an edit that names a tool only if the tool changes; raise `InvalidDecision` if it may not be chosen."""
    if edit.tool == state.tool:
        return Edit(edit.arguments, note=edit.note)
    other = tool_at(state, edit.tool or "")
    if other is None:
        raise InvalidDecision(f"The agent has no tool named {described(edit.tool)}; choose one of its tools.")
    if other.needs_approval is not False and other.allowed is not None and "edit" not in other.allowed:
        raise InvalidDecision(f"{edit.tool!r} needs approval itself and may not be edited, so no edit can choose it.")
    return edit


def decision_inside(answer: Any, action: ActionRequest, allowed: Sequence[str], tool: Tool | None) -> Decision:
    """Return the decision on a call that a middleware has changed, or raise `InvalidDecision`."""
    name = action["name"]
    [given] = decisions_of(answer, [Shown(name, allowed, lambda: action["args"])])
    decision = decision_from(given)
    if type(decision) is not Edit:
        return decision
    if decision.tool != name:
        raise InvalidDecision(
            f"A call that a middleware has made cannot be made one of another tool: the name is {name!r}, "
            f"not {described(decision.tool)}."
        )
    if tool is None:
        raise InvalidDecision(f"The agent has no tool named {name!r} any more, so no edit of its call can run.")
    edited(tool, decision)
    return decision


class Shown(NamedTuple):
    """The parts of a shown call that an answer is checked against."""

    tool: str
    allowed: Sequence[str]
    args: Callable[[], dict[str, Any]]


def _shown(state: CallState) -> Shown:
    assert state.question is not None
    return Shown(state.tool, state.allowed(), partial(_args, state, state.question))


def decisions_of(answer: Any, shown: Sequence[Shown]) -> list[Decision]:
    """Return the decisions of a `HITLResponse`, one for each shown call, or raise `InvalidDecision`."""
    if not isinstance(answer, dict) or answer.keys() != {"decisions"} or not isinstance(answer["decisions"], list):
        names = ", ".join(each.tool for each in shown)
        raise InvalidDecision(
            f'The answer must be {{"decisions": [...]}}, with a decision for each of: {names}; got {described(answer)}.'
        )
    given = answer["decisions"]
    if len(given) != len(shown):
        names, wanted = ", ".join(each.tool for each in shown), counted(len(shown), "decision")
        raise InvalidDecision(f"There must be {wanted}, one for each of: {names}, in this order; got {len(given)}.")
    made: list[Decision] = []
    for number, each in enumerate(shown):
        with placed(each.tool, number, len(shown)):
            made.append(_decision(given[number], each))
    return made


@contextmanager
def placed(tool: str, number: int, count: int) -> Iterator[None]:
    """Add the position of the decision to an `InvalidDecision` if there are several decisions."""
    try:
        yield
    except InvalidDecision as error:
        if count > 1:
            error.args = (f"Decision {number + 1} of {count}, on {tool}: {error}",)
        raise


KEYS = {
    "approve": {"type", "message"},
    "edit": {"type", "edited_action", "message"},
    "reject": {"type", "message"},
    "respond": {"type", "message"},
}
ARGS = ("args", "arguments")
ACTION = ActionRequest.__annotations__.keys()
"""The keys allowed in an edited action: clients often change the shown request and send all of it back."""
SHAPES = {
    "approve": '{"type": "approve"}',
    "edit": '{"type": "edit", "edited_action": {"name": ..., "args": {...}}}',
    "reject": '{"type": "reject", "message": ...}',
    "respond": '{"type": "respond", "message": ...}',
}


def _decision(given: Any, shown: Shown) -> Decision:
    tool, allowed = shown.tool, shown.allowed
    kind = given.get("type") if isinstance(given, dict) else None
    if type(kind) is not str or kind not in KEYS or kind not in allowed:
        fits = ", ".join(f'"{each}"' for each in allowed)
        raise InvalidDecision(f'A decision on {tool} is a dict whose "type" is one of: {fits}; got {described(given)}.')
    if not given.keys() <= KEYS[kind]:
        more = ", ".join(sorted(map(repr, given.keys() - KEYS[kind])))
        raise InvalidDecision(f"A decision of type {kind!r} on {tool} has no {more}; it is {SHAPES[kind]}.")
    message = given.get("message")
    if message is not None and (type(message) is not str or not holds(message)):
        raise InvalidDecision(f"The message of a decision on {tool} is text, got {described(message)}.")
    if kind == "approve":
        return Approve(message)
    if kind == "reject":
        return Reject(message)
    if kind == "respond":
        if message is None:
            raise InvalidDecision(f'A decision of type "respond" on {tool} needs its "message", a text.')
        return Respond(message)
    return _edit(given, shown)


def _edit(given: dict[str, Any], shown: Shown) -> Edit:
    action = given.get("edited_action")
    if isinstance(action, dict) and action.keys() <= ACTION:
        name, args = action.get("name"), _changed([action[key] for key in ARGS if key in action], shown)
        if type(name) is str and name and isinstance(args, dict):
            return Edit(args, name, given.get("message"))
    raise InvalidDecision(
        f'An edit of {shown.tool} needs "edited_action": {{"name": ..., "args": {{...}}}}, got {described(action)}.'
    )


def _changed(given: Sequence[Any], shown: Shown) -> Any:
    """Return the arguments of an edit; if "args" and "arguments" differ, the one that was changed counts."""
    if len(given) > 1 and not same(*given):
        was = shown.args()
        given = [args for args in given if not same(args, was)]
        if len(given) > 1:
            given = [args for args in given if not _alike(args, was)]
        if len(given) != 1:
            raise InvalidDecision(
                f'The "args" and the "arguments" of an edit of {shown.tool} are not the same; give one of them.'
            )
    return given[0] if given else None


def _alike(one: Any, other: Any) -> bool:
    """Return True if two values are the same JSON with `1` equal to `1.0`: browsers turn `1.0` into `1`."""
    try:
        return same(_whole(one), _whole(other))
    except RecursionError:
        return False


def _whole(value: Any) -> Any:
    """Return a value with whole floats as integers."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
