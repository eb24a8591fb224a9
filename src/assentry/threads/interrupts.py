"""Interrupts: the open questions of a thread, and the conversion of answers to decisions.

All calls of an agent that wait for a decision are one interrupt together, or one each, as the run was begun. Each
question from `interrupt` in a tool or a middleware is an interrupt of its own. An answer is checked completely before
any part is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple

from msgspec import Struct
from typing_extensions import TypeVar

from ..approval.decide import edited_arguments
from ..approval.decision import Approve, Decision, Edit, Reject, Respond, decision_from
from ..approval.question import effective, raw_text
from ..core import facts as f
from ..core.digest import BadJSON, digest, same
from ..core.facts import AnyFact, decode
from ..core.rules import verdict_of
from ..core.run import CallState, Run, questions
from ..core.transcript import provider_id
from ..core.wording import described, holds
from ..definitions.tool import Tool
from ..errors import AlreadyDecided, InvalidDecision, NotPending, RunFinished, UsageError
from ..runtime.tool_pause import HERE
from .review import ActionRequest, HITLRequest, ReviewConfig, ToolApprovalRequest, decision_schema

Path = tuple[str, ...]
Chosen = tuple[str, Decision, str]
ToolAt = Callable[[CallState, str], Tool | None]
"""A function that returns the tool of this name of the agent that made the call."""

PrefixAt = Callable[[CallState], str]
"""A function that returns the prefix of a call's default description."""

PREFIX = "Tool execution requires approval"
RESPONSE: dict[str, Any] = {
    "title": "HITLResponse",
    "type": "object",
    "properties": {"decisions": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "object"}}},
    "required": ["decisions"],
    "additionalProperties": False,
}
"""JSON schema of the answer to a question about a call that a middleware has changed."""
INNER_TITLE = "HITLResponse to an agent in a tool"
"""The title of the schema of an answer to calls of an agent that a tool's body runs."""
ID = re.compile(r"[0-9a-f]{32}")
A = TypeVar("A", default=Any)
"""The type that an annotation names, such as `Command[Any]`."""


class Interrupt(Struct, Generic[A], frozen=True, repr_omit_defaults=True):
    """A question that a thread waits for. Answer with `Command(resume=...)`."""

    value: Any
    id: str
    response_schema: dict[str, Any] | None = None
    """JSON schema of the answer, if the tool or middleware declared one."""


@dataclass(frozen=True, init=False)
class Command(Generic[A]):
    """The answer to a thread's open interrupts; or, from a tool or a hook, an update of the thread's state.

    `resume` is `{"decisions": [...]}` for waiting calls, or any JSON for a question from `interrupt`. If several
    interrupts are open, give a dict by their ids: `{interrupt.id: answer}`. `by` is the name of the person who answers.

    `update` is a dict: "messages", among them the `ToolMessage` of a tool's own call, and keys of the `state_schema`.
    There is no graph whose nodes `goto` and `graph` could choose: whoever uses such a command is told so.
    """

    PARENT: ClassVar[str] = "__parent__"
    resume: Any
    by: str
    update: Any
    goto: Any
    graph: str | None

    def __init__(
        self,
        *,
        resume: Any = ...,
        by: str = "user",
        update: Any = None,
        goto: Any = (),
        graph: str | None = None,
        **other: Any,
    ) -> None:
        empty = resume is ... and update is None and goto == () and graph is None
        if empty or other:
            raise UsageError(
                "A Command answers what a thread waits for, with resume=..., or updates the state, with update={...}; "
                f"got {', '.join(sorted(other)) or 'nothing'}. A tool gives a value, a ToolMessage, or such an update."
            )
        values = {"resume": resume, "by": by, "update": update, "goto": goto, "graph": graph}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def answer(self) -> Any:
        """Return the answer; raise `UsageError` if the command is something else."""
        if self.resume is ... or self.update is not None or self.goto != () or self.graph is not None:
            raise UsageError(
                "A thread is given answers with Command(resume=...), and nothing else; a Command with update, goto or "
                "graph cannot be given to it. Give new values of the state's keys with the messages of an input."
            )
        return self.resume


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
    alone: bool
    """True if each call has its own interrupt, which is answered with one decision."""

    @property
    def asked(self) -> f.Asked:
        """The question of a tool or a middleware."""
        return _question_of(self.states[0][1])


def _question_of(state: CallState) -> f.Asked:
    assert state.question is not None, "the call waits for a person"
    return state.question


def pending(run: Run) -> list[Pending]:
    """Return the open interrupts of a run.

    The calls of one agent that need decisions are one interrupt if the agent's calls are released as a batch, and one
    each if not. Each other question is an interrupt of its own.
    """
    groups: dict[tuple[Path, str], list[tuple[Path, CallState]]] = {}
    single: list[Pending] = []
    for path, state in questions(run):
        asked, alone = _question_of(state), not run.at(path).batch
        if asked.kind == "input" or state.call.kind == "hook":
            single.append(Pending(_id([asked.id]), [(path, state)], False, alone))
        else:
            groups.setdefault((path, asked.id if alone else ""), []).append((path, state))
    made = [
        Pending(_id([_question_of(state).id for _, state in states]), states, True, bool(question))
        for (_, question), states in groups.items()
    ]
    return made + single


def _id(questions: list[str]) -> str:
    return questions[0].removeprefix("q_") if len(questions) == 1 else digest({"questions": questions})[:32]


def interrupts(run: Run, prefix: PrefixAt, tool_at: ToolAt) -> list[Interrupt]:
    """Return the open interrupts of a run in the public form."""
    out: list[Interrupt] = []
    for each in pending(run):
        state = each.states[0][1]
        if each.decides:
            request: HITLRequest | None = _request(run, each.states, prefix)
        elif (request := _inside(each.asked)) is not None:
            _add_prefix(request, prefix(state))
        elif (inner := _inner(each.asked)) is not None:
            out.append(Interrupt(inner, each.id))
            continue
        if request is not None and each.alone:
            name = request["action_requests"][0]["name"]
            out.append(_interrupt_of_one(each.id, state, request, tool_at(state, name)))
        elif request is not None:
            out.append(Interrupt(request, each.id))
        else:
            schema = decode(each.asked.schema) if each.asked.schema else None
            out.append(Interrupt(decode(each.asked.prompt), each.id, schema))
    return out


def inner_response(value: Any) -> dict[str, Any] | None:
    """Return the schema of the answer to the calls of an agent that a body runs; None if the value is none such."""
    actions = value.get("action_requests") if isinstance(value, dict) else None
    if not isinstance(actions, list) or "review_configs" not in value:
        return None
    decisions = {**RESPONSE["properties"]["decisions"], "minItems": len(actions), "maxItems": len(actions)}
    return {**RESPONSE, "title": INNER_TITLE, "properties": {"decisions": decisions}}


def _inner(asked: f.Asked) -> HITLRequest | None:
    """Return the request of a question about calls of an agent that a body runs; None for other questions."""
    schema = decode(asked.schema) if asked.schema else None
    is_inner = isinstance(schema, dict) and schema.get("title") == INNER_TITLE
    return decode(asked.prompt) if is_inner else None


def _interrupt_of_one(id: str, state: CallState, request: HITLRequest, tool: Tool | None) -> Interrupt:
    """Return the interrupt of a call that is decided alone."""
    [action], [review] = request["action_requests"], request["review_configs"]
    schema = decision_schema(review["allowed_decisions"], action["name"], tool)
    return Interrupt(alone_request(provider_id(state), action), id, schema)


def alone_request(call_id: str, action: ActionRequest) -> ToolApprovalRequest:
    """Return a call in the form that is shown to a person who decides on it alone."""
    value: ToolApprovalRequest = {
        "type": "tool_approval",
        "tool_call_id": call_id,
        "name": action["name"],
        "args": action["args"],
        "description": action["description"],
    }
    if "path" in action:
        value["path"] = action["path"]
    if "preview" in action:
        value["preview"] = action["preview"]
    return value


def _inside(asked: f.Asked) -> HITLRequest | None:
    """Return the request of a question about a call that a middleware has changed; None for other questions."""
    return decode(asked.prompt) if asked.schema and decode(asked.schema) == RESPONSE else None


def _add_prefix(request: HITLRequest, prefix: str) -> None:
    """Put the current prefix into default descriptions: the prefix is not part of the recorded question."""
    for action in request["action_requests"]:
        if action["description"].startswith(f"{PREFIX}\n\nTool: {action['name']}\n"):
            action["description"] = prefix + action["description"].removeprefix(PREFIX)


def _request(run: Run, states: list[tuple[Path, CallState]], prefix: PrefixAt) -> HITLRequest:
    actions: list[ActionRequest] = []
    reviews: list[ReviewConfig] = []
    for path, state in states:
        asked = _question_of(state)
        try:
            args = effective(state, asked)
        except BadJSON:
            args = {"raw": raw_text(state)}
        action = action_request(state.tool, args, asked, prefix(state))
        if state.call.kind == "hosted":  # two servers may have a tool of this name
            action["description"] += f"\nMCP server: {state.proposal.server_label}"
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
        text = str(decode(asked.prompt)) if asked.prompt else default_description(prefix, tool, args)
        if asked.why and not asked.why.endswith(" asks for approval."):
            text += f"\n\nNote: {asked.why}"
    action: ActionRequest = {"name": tool, "args": args, "arguments": args, "description": text}
    if asked.preview:
        action["preview"] = shown = decode(asked.preview)
        action["description"] += f"\n\nPreview: {shown.get('sentence') or shown.get('failed')}"
    return action


def default_description(prefix: str, tool: str, args: dict[str, Any]) -> str:
    """Return the text about a call that has no description of its own."""
    return f"{prefix}\n\nTool: {tool}\nArgs: {args}"


def waits_for(run: Run) -> str:
    """Return a phrase that names what a run waits for, for error messages."""
    calls = [state.tool for each in pending(run) if each.decides for _, state in each.states]
    asks = [state.tool for each in pending(run) if not each.decides for _, state in each.states]
    parts = [f"a decision on {', '.join(calls)}"] if calls else []
    parts += [f"an answer to {', '.join(asks)}"] if asks else []
    return " and ".join(parts) or "nobody"


# -- answers --------------------------------------------------------------------------------------


class Answer:
    """A `Command` as a function from the current run to decisions, for `Store.decide_all`."""

    def __init__(self, thread: str, resume: Any, tool_at: ToolAt) -> None:
        self.thread, self.resume, self.tool_at = thread, resume, tool_at
        self.chosen: list[Chosen] = []
        self.shown: list[Pending] = []

    def __call__(self, run: Run) -> list[Chosen]:
        """Return the decisions, completely checked, or raise the reason why nothing can be recorded."""
        for question, _, _ in self.chosen:  # open in the last call; another person may have answered since
            if (already := _already_answered(run, question)) is not None:
                raise already
        self.shown = pending(run)
        self.chosen = [chosen for each, answer in self._answers(run) for chosen in self._chosen(run, each, answer)]
        return self.chosen

    @contextmanager
    def name_position(self) -> Iterator[None]:
        """Add the position of the decision to an `InvalidDecision` from the store."""
        try:
            yield
        except InvalidDecision as error:
            for each in self.shown:
                for number, (_, state) in enumerate(each.states):
                    if _question_of(state).id == error.question:
                        with _name_position(state.tool, number, len(each.states)):
                            raise
            raise

    def _answers(self, run: Run) -> list[tuple[Pending, Any]]:
        """Return each interrupt that is answered, with its answer."""
        resume, open_ = self.resume, {each.id: each for each in self.shown}
        if isinstance(resume, dict) and resume and all(isinstance(key, str) and ID.fullmatch(key) for key in resume):
            for key in resume:
                if key not in open_:
                    raise _stale(run, self.thread, key)
            return [(open_[key], answer) for key, answer in resume.items()]
        if not open_:
            raise _nothing(run, self.thread)
        if len(open_) > 1:
            raise InvalidDecision(
                f"Thread {self.thread!r} waits for {len(open_)} answers; say which this is: "
                f"Command(resume={{id: answer}}), with the ids {', '.join(open_)}."
            )
        [each] = open_.values()
        if resume is None and not each.decides:
            raise InvalidDecision(f"resume=None answers nothing; if None is the answer, give {{{each.id!r}: None}}.")
        return [(each, resume)]

    def _chosen(self, run: Run, each: Pending, answer: Any) -> Iterator[Chosen]:
        if not each.decides:
            if (request := _inside(each.asked)) is not None:
                if each.alone:
                    decision_alone(answer, request["action_requests"][0], _allowed(request))
                    answer = {"decisions": [answer]}
                name = request["action_requests"][0]["name"]
                decision_inside(answer, request, self.tool_at(each.states[0][1], name))
            elif (request := _inner(each.asked)) is not None:
                _decisions(answer, request, lambda _, edit: edit)
            yield each.asked.id, Respond(answer), each.asked.digest
            return

        def check(number: int, edit: Edit) -> Edit:
            return _redirected(each.states[number][1], edit, self.tool_at)

        request = _request(run, each.states, lambda _: PREFIX)
        if each.alone:
            decision_alone(answer, request["action_requests"][0], _allowed(request))
            answer = {"decisions": [answer]}
        decisions = _decisions(answer, request, check)
        for (_, state), decision in zip(each.states, decisions, strict=True):
            yield _question_of(state).id, decision, _question_of(state).digest


def _already_answered(run: Run, question: str) -> AlreadyDecided | None:
    """Return the error for a question that is already answered, with the person and the verdict; None if not."""
    decided = run.decided.get(question)
    if decided is None or verdict_of(decided) is None:
        return None
    return _already(f"Interrupt {question.removeprefix('q_')}", decided)


def _already(what: str, decided: AnyFact, more: str = "") -> AlreadyDecided:
    by, verdict = getattr(decided, "by", ""), verdict_of(decided)
    return AlreadyDecided(f"{what} was answered by {by} already ({verdict}).{more}", by=by, verdict=verdict)


def _stale(run: Run, thread: str, key: str) -> Exception:
    already = _already_answered(run, f"q_{key}")
    if already is not None:
        return already
    waits = ", ".join(each.id for each in pending(run)) or "nobody"
    return NotPending(f"Thread {thread!r} has no open interrupt {key}: it waits for {waits}. Nothing was recorded.")


def _nothing(run: Run, thread: str) -> Exception:
    if run.concluded is not None or run.closed is not None:
        return RunFinished(f"Thread {thread!r} waits for nobody; its last run is over. Send a new message.")
    last = next((fact for fact in reversed(run.decided.values()) if verdict_of(fact) is not None), None)
    nobody, more = f"Thread {thread!r} waits for nobody", " invoke(None) goes on with it."
    return NotPending(f"{nobody}.{more}") if last is None else _already(f"{nobody}: its question", last, more)


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


def decision_inside(answer: Any, request: HITLRequest, tool: Tool | None) -> Decision:
    """Return the decision on a call that a middleware has changed, or raise `InvalidDecision`."""
    name = request["action_requests"][0]["name"]
    decision = decision_from(_decisions(answer, request, lambda _, edit: edit)[0])
    if type(decision) is not Edit:
        return decision
    if decision.tool != name:
        raise InvalidDecision(
            f"A call that a middleware has made cannot be made one of another tool: the name is {name!r}, "
            f"not {described(decision.tool)}."
        )
    if tool is None:
        raise InvalidDecision(f"The agent has no tool named {name!r} any more, so no edit of its call can run.")
    edited_arguments(tool, decision)
    return decision


def _decisions(answer: Any, request: HITLRequest, check: Callable[[int, Edit], Edit]) -> list[Decision]:
    """Return the decisions of a `HITLResponse`, one for each shown call, or raise `InvalidDecision`."""
    actions, reviews = request["action_requests"], request["review_configs"]
    names = ", ".join(action["name"] for action in actions)
    given = answer.get("decisions") if isinstance(answer, dict) and answer.keys() == {"decisions"} else None
    if not isinstance(given, list):
        raise InvalidDecision(
            f'The answer must be {{"decisions": [...]}}, with a decision for each of: {names}; got {described(answer)}.'
        )
    if len(given) != len(actions):
        many = f"{len(actions)} decisions, one for each of: {names}, in this order"
        one = f"1 decision, on {names}"
        raise InvalidDecision(f"There must be {one if len(actions) == 1 else many}; got {len(given)}.")
    made: list[Decision] = []
    for number, (action, review) in enumerate(zip(actions, reviews, strict=True)):
        with _name_position(action["name"], number, len(actions)):
            decision = single_decision(given[number], action, review["allowed_decisions"])
            made.append(check(number, decision) if type(decision) is Edit else decision)
    return made


PLACES = {"edit": "edit.edited_action", "reject": "reject.message", "respond": "respond.message"}
"""The part of a decision that is wrong if its type is right."""


def _allowed(request: HITLRequest) -> list[str]:
    return request["review_configs"][0]["allowed_decisions"]


def decision_alone(given: Any, action: ActionRequest, allowed: Sequence[str]) -> Decision:
    """Return the decision on a call that is decided alone, or raise `InvalidDecision` with the place of the fault."""
    tool = action["name"]
    kind = given.get("type") if isinstance(given, dict) else None
    where = PLACES.get(kind, "type") if type(kind) is str and kind in allowed else "type"
    try:
        if where == "type" and kind not in allowed:
            tags = ", ".join(map(repr, allowed))
            raise InvalidDecision(
                f'The answer is one decision, whose "type" is one of the expected tags: {tags}; got {described(given)}.'
            )
        decision = single_decision(given, action, allowed)
        if type(decision) is Edit and decision.tool != tool:
            where = "edit.edited_action.name"
            raise InvalidDecision(f"An edit of one call keeps its tool: the name is {tool!r}.")
        return decision
    except InvalidDecision as error:
        raise InvalidDecision(f"The decision on {tool} does not fit at {where}: {error}") from None


@contextmanager
def _name_position(tool: str, number: int, count: int) -> Iterator[None]:
    """Add the position of the decision to an `InvalidDecision` if there are several decisions."""
    try:
        yield
    except InvalidDecision as error:
        if count > 1:
            error.args = (f"Decision {number + 1} of {count}, on {tool}: {error}",)
        raise


SHAPES = {
    "approve": '{"type": "approve"}',
    "edit": '{"type": "edit", "edited_action": {"name": ..., "args": {...}}}',
    "reject": '{"type": "reject", "message": ...}',
    "respond": '{"type": "respond", "message": ...}',
}
ACTION = ActionRequest.__annotations__.keys()
"""The keys allowed in an edited action: clients often change the shown request and send all of it back."""


def single_decision(given: Any, action: ActionRequest, allowed: Sequence[str]) -> Decision:
    """Return a decision on one shown call, or raise `InvalidDecision`."""
    tool = action["name"]
    kind = given.get("type") if isinstance(given, dict) else None
    if type(kind) is not str or kind not in SHAPES or kind not in allowed:
        fits = ", ".join(f'"{each}"' for each in allowed)
        raise InvalidDecision(f'A decision on {tool} is a dict whose "type" is one of: {fits}; got {described(given)}.')
    unknown = given.keys() - {"type", "message", *(("edited_action",) if kind == "edit" else ())}
    if unknown:
        more = ", ".join(sorted(map(repr, unknown)))
        raise InvalidDecision(f"A decision of type {kind!r} on {tool} has no {more}; it is {SHAPES[kind]}.")
    message = given.get("message")
    message = str(message) if isinstance(message, str) else message  # the text of a message is a subclass
    if message is not None and (type(message) is not str or not holds(message)):
        raise InvalidDecision(f"The message of a decision on {tool} is text, got {described(message)}.")
    if kind == "edit":
        return _edit(given, action)
    if kind == "respond" and message is None:
        raise InvalidDecision(f'A decision of type "respond" on {tool} needs its "message", a text.')
    return Approve(message) if kind == "approve" else Reject(message) if kind == "reject" else Respond(message)


def _edit(given: dict[str, Any], shown: ActionRequest) -> Edit:
    action = given.get("edited_action")
    if isinstance(action, dict) and action.keys() <= ACTION:
        changed = [action[key] for key in ("args", "arguments") if key in action]
        name, args = action.get("name"), _edited_arguments(changed, shown)
        if type(name) is str and name and isinstance(args, dict):
            return Edit(args, name, given.get("message"))
    raise InvalidDecision(
        f'An edit of {shown["name"]} needs "edited_action": {{"name": ..., "args": {{...}}}}, got {described(action)}.'
    )


def _edited_arguments(given: list[Any], shown: ActionRequest) -> Any:
    """Return the arguments of an edit; if "args" and "arguments" differ, the one that was changed counts."""
    if len(given) > 1 and not same(*given):
        was = shown["args"]
        given = [args for args in given if not same(args, was)]
        if len(given) > 1:
            given = [args for args in given if not _alike(args, was)]
        if len(given) != 1:
            raise InvalidDecision(
                f'The "args" and the "arguments" of an edit of {shown["name"]} are not the same; give one of them.'
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
