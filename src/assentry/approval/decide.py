"""Deciding: the one function that turns a person's decision into facts. It checks everything before it makes a fact.

Appending the facts to a journal does not belong here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from msgspec import Raw
from msgspec.structs import replace

from ..core import facts as f
from ..core.digest import canonical
from ..core.rules import verdict_of
from ..core.run import CallState, Run
from ..core.wording import described
from ..errors import (
    AlreadyDecided,
    DefinitionChanged,
    DigestMismatch,
    Forbidden,
    InvalidArguments,
    InvalidDecision,
    NotPending,
    QuestionNotFound,
)
from ..ids import new_id
from .answer import problem_with
from .decision import Approve, Decider, Decision, Edit, Reject, Respond, decider_from, decision_from
from .question import action_digest, limit_of, too_large
from .terms import GrantTerms, terms_from

Verdict = f.Approved | f.Refused | f.Finished | f.Answered
VERDICT_NAMES: dict[type, f.Verdict] = {Approve: "approve", Edit: "edit", Reject: "reject", Respond: "respond"}
FOR_ALWAYS = GrantTerms()
_PAST: dict[f.Verdict, str] = {"approve": "approved", "edit": "edited", "reject": "rejected", "respond": "answered"}


class Definition(Protocol):
    """The parts of a tool that a decision needs, from the tool itself or from its snapshot in the question."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> f.CallKind: ...
    @property
    def server(self) -> str | None: ...
    @property
    def fingerprint(self) -> str: ...

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the defaults filled in. Nothing is coerced."""

    def bind(self, args: dict[str, Any]) -> Any:
        """Raise `InvalidArguments` unless the arguments fit."""

    def takes(self, name: str) -> bool:
        """Return True if the tool can have an argument of this name."""


ToolOf = Callable[[CallState, str], Definition | None]
"""A function that returns the tool of this name for a decision on a call; None if there is none."""


def decide(
    root: Run,
    question_id: str,
    given: Decision | dict[str, Any],
    *,
    by: str | Decider,
    at: int,
    digest: str | None,
    tool_of: ToolOf,
    grant: GrantTerms | dict[str, Any] | bool | None = None,
) -> list[f.AnyFact]:
    """Return the facts that record a decision and, with `grant`, its grant; none if all is recorded already.

    Every decision becomes facts here and nowhere else, whether a state, a store or the run's own code records it. The
    decision must be well formed, from somebody with a name, about what the question shows (`digest`), in time, and one
    that the question allows. An edit must fit the tool, and an answer the question's schema.
    """
    decision = decision_from(given)
    terms = terms_from(grant, decision) if grant is not None else None
    who = decider_from(by)
    name = who.name
    path, state, asked = _find(root, question_id, digest)
    check_decider(root, asked, who)
    earlier = root.decided.get(question_id)
    facts: list[f.AnyFact] = []
    if earlier is None:
        _check_open(root, path, state, asked, decision, at)
        fact = _verdict(root, path, state, asked, decision, name, at, tool_of)
        facts.append(fact if who.shown is None else replace(fact, shown=who.shown, looked=who.looked))
    else:
        _check_repeated(root, question_id, decision, earlier, state, tool_of)
    if terms is not None and earlier is None:
        facts += _grant(root, state, asked, decision, terms, name, at, tool_of)
    elif terms is not None and not _was_given(root, state, decision, terms):
        raise NotPending(f"Question {question_id} was decided before; no grant was given.")
    return facts


def _was_given(root: Run, state: CallState, decision: Decision, terms: GrantTerms) -> bool:
    """Return True if the run has a grant with these terms: then the decision is only sent again."""
    verdict = "reject" if type(decision) is Reject else "approve"
    wanted = (state.turn.agent, state.tool, verdict, terms.max_uses, terms.pinned())
    return any(
        (each.agent, each.tool, each.verdict, each.max_uses, each.pins) == wanted and each.until == terms.until(each.at)
        for each in root.grants.values()
    )


def _find(root: Run, question_id: str, digest: str | None) -> tuple[tuple[str, ...], CallState, f.Asked]:
    """Find a question that is open or decided. Return its path, its call, and the call's latest question."""
    where = root.asked.get(question_id) if type(question_id) is str else None
    if where is None:
        raise QuestionNotFound(f"This run never asked a question with the id {described(question_id)}.")
    path, call = where
    state = root.at(path).calls[call]
    asked = state.question
    if asked is None or (asked.id != question_id and question_id not in root.decided):
        raise NotPending(f"Question {question_id} is not open any more.")
    if digest is not None and asked.id == question_id and digest != asked.digest:
        raise DigestMismatch(f"The decision is not about what question {question_id} shows; look at it again.")
    return path, state, asked


def check_decider(root: Run, asked: f.Asked, who: Decider) -> None:
    """Raise `Forbidden` if the question is not this person's to decide."""
    if root.began is not None and root.began.by == who.name:
        raise Forbidden(f"{who.name} asked for this run, and somebody else must decide in it.")
    if asked.reviewers and not may_decide(asked.reviewers, who):
        raise Forbidden(f"Question {asked.id} is for {', '.join(asked.reviewers)} to decide, not for {who.name}.")


def may_decide(reviewers: tuple[str, ...], who: Decider) -> bool:
    """Return True if these reviewers include the person, or one of the person's groups, or if anybody may decide."""
    names = (who.name, *(f"group:{group}" for group in who.groups))
    return not reviewers or any(name in reviewers for name in names)


def _check_open(
    root: Run, path: tuple[str, ...], state: CallState, asked: f.Asked, decision: Decision, at: int
) -> None:
    """Raise an error unless the question is open, its deadline has not passed, and it allows the decision."""
    if root.closed is not None or any(root.at(path[:n]).closed is not None for n in range(1, len(path) + 1)):
        raise NotPending(f"Question {asked.id} is not open any more: the run, or the agent it is of, has failed.")
    verdict, allowed = VERDICT_NAMES[type(decision)], state.allowed()
    if verdict not in allowed:
        fits = ", ".join(allowed)
        raise InvalidDecision(f"{verdict!r} does not answer question {asked.id}; it can be answered by: {fits}.")
    if asked.until is not None and at > asked.until and verdict != "reject":
        raise NotPending(f"Question {asked.id} is not open any more: its deadline has passed.")


def _verdict(
    root: Run,
    path: tuple[str, ...],
    state: CallState,
    asked: f.Asked,
    decision: Decision,
    by: str,
    at: int,
    tool_of: ToolOf,
) -> Verdict:
    """Return the fact that records a decision on an open question."""
    call = state.call.id
    if type(decision) is Approve:
        return f.Approved(call, by, asked.id, why=decision.note, at=at, path=path)
    if type(decision) is Reject:
        return f.Refused(call, by, asked.id, decision.message, at=at, path=path)
    if type(decision) is Edit:
        tool = _tool(tool_of, state, decision.tool or state.tool)
        args = edited_arguments(tool, decision, limit_of(root))
        bound = action_digest(root, path, state, tool.name, tool.fingerprint, args)
        other = tool.name if tool.name != state.tool else None
        raw = Raw(canonical(args))
        mark = tool.fingerprint if other else None
        return f.Approved(call, by, asked.id, raw, other, bound, decision.note, definition=mark, at=at, path=path)
    value = _answer(asked, decision)
    if asked.kind == "input":
        return f.Answered(call, by, asked.id, value, at=at, path=path)
    return f.Finished(call, value, by, asked.id, at=at, path=path)


def _tool(tool_of: ToolOf, state: CallState, name: str) -> Definition:
    """Return the tool of this name, or raise an error that says why a decision cannot use it."""
    tool = tool_of(state, name)
    if tool is None and name in (state.tool, state.call.tool):
        raise DefinitionChanged(f"The definition of tool {name!r} is not there any more; nothing was recorded.")
    if tool is None:
        raise InvalidDecision(f"The agent has no tool named {described(name)}; choose one of its tools.")
    if tool.kind != state.call.kind or tool.name != name:
        raise InvalidDecision(f"{name!r} is not of the kind that was proposed ({state.call.kind}); choose another.")
    return tool


def edited_arguments(tool: Definition, decision: Edit, limit: int = f.MAX_ARGUMENT_BYTES) -> dict[str, Any]:
    """Return the canonical arguments of an edit, or raise `InvalidArguments`."""
    try:
        args = tool.canonical(decision.arguments)
        if (size := len(canonical(args))) > limit:
            raise InvalidArguments(too_large(size, limit))
        tool.bind(args)
    except InvalidArguments as error:
        raise InvalidArguments(f"The arguments of this edit do not fit {tool.name}: {error}.") from None
    return args


def _answer(asked: f.Asked, decision: Decision) -> Raw:
    """Return a person's answer as JSON, or raise `InvalidDecision` if it does not fit the question's schema."""
    value = decision.output if type(decision) is Respond else None
    if asked.schema and (problem := problem_with(value, asked.schema)) is not None:
        raise InvalidDecision(f"This answer does not fit what was asked: {problem}.")
    return Raw(canonical(value))


def _grant(
    root: Run,
    state: CallState,
    asked: f.Asked,
    decision: Decision,
    terms: GrantTerms,
    by: str,
    at: int,
    tool_of: ToolOf,
) -> list[f.Granted]:
    """Return the fact that applies a decision to later calls too; none if the run has the same grant already."""
    if asked.kind != "approval":
        raise InvalidDecision(f"A question of kind {asked.kind!r} is answered once; it cannot be for always.")
    if type(decision) is Edit and decision.tool not in (None, state.call.tool):
        raise InvalidDecision("An edit that chooses another tool is for one call; it cannot be for always.")
    tool = _tool(tool_of, state, state.tool)
    for name in terms.pins or ():
        if not tool.takes(name):
            raise InvalidDecision(f"Tool {tool.name!r} has no parameter {described(name)} that a grant could pin.")
    grant = f.Granted(
        new_id("g"),
        state.turn.agent,
        tool.name,
        "reject" if type(decision) is Reject else "approve",
        by,
        tool.server,
        decision.message if type(decision) is Reject else None,
        tool.fingerprint,
        terms.max_uses,
        terms.until(at),
        terms.pinned(),
        at=at,
    )
    if terms != FOR_ALWAYS:
        return [grant]  # a grant with terms always adds to the others
    known = any(replace(grant, id=each.id, by=each.by, at=each.at) == each for each in root.grants.values())
    return [] if known else [grant]


def _check_repeated(
    root: Run, question_id: str, decision: Decision, earlier: f.CallFact, state: CallState, tool_of: ToolOf
) -> None:
    """Raise an error unless the decision equals the one that is recorded already."""
    replaced = earlier if type(earlier) is f.Asked else None
    if type(earlier) is f.Approved and state.approval is None:
        replaced = state.question  # the call changed after its approval
    if replaced is not None:
        raise NotPending(f"Question {question_id} was replaced by {replaced.id}: {replaced.why}")
    if not _repeats(decision, earlier, state, tool_of, limit_of(root)):
        raise already_decided(root, question_id, earlier)


def already_decided(root: Run, question_id: str, earlier: f.CallFact) -> AlreadyDecided:
    """Return the error of a decision on a question that has another one, which says who decided what and when."""
    by, verdict = getattr(earlier, "by", ""), verdict_of(earlier) or "respond"
    at = (root.began.at if root.began is not None else 0) + earlier.at
    when = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)).isoformat(" ", "seconds")
    return AlreadyDecided(
        f"Question {question_id} was {_PAST[verdict]} by {by} already, at {when}.", by=by, verdict=verdict, at=at
    )


def _repeats(decision: Decision, earlier: f.CallFact, state: CallState, tool_of: ToolOf, limit: int) -> bool:
    """Return True if the decision equals the recorded one. Notes and names are not compared."""
    if type(earlier) is f.Refused:
        return type(decision) is Reject and decision.message == earlier.message
    if type(earlier) is f.Approved:
        if not earlier.args:
            return type(decision) is Approve
        if type(decision) is not Edit or (decision.tool or state.call.tool) != (earlier.tool or state.call.tool):
            return False
        args = edited_arguments(_tool(tool_of, state, decision.tool or state.call.tool), decision, limit)
        return canonical(args) == bytes(earlier.args)
    recorded = earlier.output if type(earlier) is f.Finished else earlier.value if type(earlier) is f.Answered else None
    return type(decision) is Respond and recorded is not None and canonical(decision.output) == bytes(recorded)
