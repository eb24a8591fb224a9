"""The steps in which a person decides: approve, edit, reject, answer, give a grant. Nothing is decided by GET."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from msgspec import Struct
from msgspec.structs import replace

from ..approval.decision import Approve, Decision, Edit, Reject, Respond
from ..approval.terms import GrantTerms
from ..approval.tool_snapshot import ToolSnapshot
from ..core.digest import BadJSON, canonical, parse, parse_object
from ..errors import AssentryError, Forbidden, InvalidArguments, InvalidDecision, NotFound, UnreadableState
from ..store.record import Question
from . import api
from .bounds import MOST_READ, is_too_long
from .difference import ChangedLine
from .edit_preview import EditEffect, effect_of_edit, pending_effect, proposed_effect
from .forms import ABSENT, Field, SchemaForm, apply_button, in_author_order, problem_at_field
from .grant_steps import ALL_RUNS, grant_context, standing_terms_in, terms_of
from .headline import arguments_in_order, in_signature_order, order_of
from .identity import Identity
from .json_values import TooLong, WrittenNumber, read_json, write_json
from .language import local_number, translate
from .looking import looked_for, opened_at
from .page_parts import (
    PageContext,
    answer_fields,
    answer_schema_of,
    conflict,
    find_context,
    question_context,
    question_url,
    whole_page,
)
from .templating import render
from .wording import compare_texts, needs_second_act, why_not_theirs

STEPS = ("approve", "edit", "reject", "respond", "always", "again")
NEEDS = {**{step: step for step in STEPS[:4]}, "always": "approve", "again": "approve"}
"""The verdict that a question must allow for each step."""

OWN_FIELDS = ("csrf", "digest", "opened", "held", "type", "note", "confirmed")
"""The fields that the step of an approval has itself; it carries the others of the form that led there."""


async def record_form_decision(
    pages: PageContext,
    request: Request,
    who: Identity,
    id: str,
    decision: Decision,
    sent: dict[str, str],
    grant: GrantTerms | None,
) -> None:
    """Record a decision of the signed-in person on what the form showed, as the API does."""
    who.need("decide")
    if grant is not None:
        who.need("grant")
    question, digest, looked = await pages.store.question(id), sent.get("digest", ""), looked_for(sent, pages.now())
    standing = await standing_terms_in(pages, who, question, sent)
    await api.record_decision(request.app.state.inbox, who, question, decision, digest, grant, looked)
    if standing is not None:
        await pages.store.give_standing_grant(id, by=who.decider(), terms=standing)
    pages.presence.gone(id, who.name)


async def tool_form(pages: PageContext, question: Question) -> SchemaForm | None:
    """Return the form of a question's tool; None if its definition is not there, or its arguments are no object."""
    text = await pages.store.definition(question.definition) if question.definition is not None else None
    try:
        snapshot = ToolSnapshot.read(text) if text is not None else None
    except UnreadableState:
        return None
    shape = (snapshot.shape or snapshot.schema) if snapshot is not None else None
    if snapshot is None or not shape or not isinstance(shape.get("properties"), dict):
        return None
    ordered = in_author_order(shape, snapshot.schema)
    schema = {**ordered, "properties": in_signature_order(ordered["properties"], snapshot.parameters)}
    return SchemaForm(schema, _read_or_none(question.arguments))


def _read_or_none(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return None


class EditDraft(Struct):
    """An edit under way: the form or the JSON text, and what is wrong with it."""

    field: Field | None
    text: str
    """The arguments as JSON text."""
    changes: list[ChangedLine]
    problem: str = ""
    problems: dict[str, str] = {}
    """The reason why a field does not fit, by the field's JSON pointer."""
    ready: bool = False
    """True if the arguments fit and differ, so that the edit can be sent."""
    count: int = 0


async def draft_of(pages: PageContext, question: Question, sent: dict[str, str] | None) -> EditDraft:
    """Return an edit from what was sent; without anything sent, the arguments as they are asked about."""
    form = await tool_form(pages, question)
    problems: dict[str, str] = {}
    act = (sent or {}).get("do", "")
    try:
        if sent is None:
            value = read_json(arguments_in_order(question.arguments, order_of(question)))
        elif "json" in sent:
            value = read_json(sent["json"])
        elif form is not None:
            value, problems = form.read(sent)
            value = apply_button({} if value is ABSENT else value, form, act)
        else:
            raise ValueError(translate("there is no form of this tool; write JSON"))
    except TooLong as error:
        why = translate(
            "These arguments cannot be edited here: {problem}. Reject them with a message, or use Store.decide.",
            problem=error,
        )
        return EditDraft(None, question.arguments, [], why)
    except ValueError as error:
        text = (sent or {}).get("json", question.arguments)
        return EditDraft(None, text, [], translate("This is not JSON: {problem}.", problem=error))
    as_json = form is None or not isinstance(value, dict) or act == "json" or ("json" in (sent or {}) and act != "form")
    made = EditDraft(None if as_json or form is None else form.fields(value, problems), "", [])
    made.problem, reason, runs = await _check_arguments(pages, question, write_json(value))
    if reason and not problems and made.field is not None and form is not None:
        problems = problem_at_field(made.field, reason)
        made.field = form.fields(value, problems)
    made.problems = problems
    if problems:
        made.problem = translate("Some values do not fit yet.")
    whole = value if made.problem or runs is None else as_it_runs(value, read_json(canonical(runs).decode()))
    made.text = write_json(whole, 2)
    made.changes = compare_texts(question.arguments, made.text, order_of(question))
    made.count = _count(question.arguments, whole)
    made.ready = bool(made.changes) and not made.problem
    return made


def as_it_runs(given: Any, runs: Any) -> Any:
    """Return the arguments that run. A number stays as it was written, unless that would be another number."""
    if isinstance(given, dict) and isinstance(runs, dict):
        known = {name: as_it_runs(each, runs[name]) for name, each in given.items() if name in runs}
        return {**known, **{name: each for name, each in runs.items() if name not in known}}
    if isinstance(given, list) and isinstance(runs, list) and len(given) == len(runs):
        return [as_it_runs(each, other) for each, other in zip(given, runs, strict=True)]
    if isinstance(given, WrittenNumber) and isinstance(runs, WrittenNumber) and Decimal(given) == Decimal(runs):
        return given
    return runs


def _count(before: str, value: Any) -> int:
    """Return the number of arguments that differ."""
    try:
        old = read_json(before)
    except ValueError:
        return 0
    if not isinstance(old, dict) or not isinstance(value, dict):
        return 1
    return sum(old.get(name, ABSENT) != value.get(name, ABSENT) for name in {**old, **value})


async def _check_arguments(pages: PageContext, question: Question, text: str) -> tuple[str, str, dict[str, Any] | None]:
    """Return why arguments do not fit, or "", the tool's own reason, and the arguments that would run, if known."""
    if is_too_long(text):
        return _too_long(), "", None
    try:
        args = parse_object(text)
        kept = await pages.store.definition(question.definition) if question.definition is not None else None
        if kept is None:
            return "", "", args
        tool = ToolSnapshot.read(kept)
        runs = tool.canonical(args)
        tool.bind(runs)
    except (BadJSON, InvalidArguments, UnreadableState) as error:
        said = translate("The arguments do not fit {tool}: {problem}.", tool=question.tool, problem=error)
        return said, str(error), None
    return "", "", runs


def add_deciding(made: APIRouter, pages: PageContext) -> None:
    """Add the routes of the steps."""

    @made.get("/questions/{id}/{step}")
    async def step_page(request: Request, id: str, step: str) -> Response:
        who = await pages.who(request)
        if step not in STEPS:
            raise NotFound(f"There is no step {step!r:.40}.")
        return await _step(pages, request, who, id, step, None)

    @made.post("/questions/{id}/edit")
    async def edit(request: Request, id: str) -> Response:
        who, sent = await pages.sent(request)
        return await _step(pages, request, who, id, "edit", sent)

    @made.post("/questions/{id}/always")
    async def always(request: Request, id: str) -> Response:
        who, sent = await pages.sent(request)
        return await _step(pages, request, who, id, "always", sent)

    @made.post("/questions/{id}/respond")
    async def respond(request: Request, id: str) -> Response:
        who, sent = await pages.sent(request)
        return await _respond(pages, request, who, id, sent)

    @made.post("/questions/{id}/decision")
    async def decision(request: Request, id: str) -> Response:
        who, sent = await pages.sent(request)
        given, grant = _decision(sent, pages.now())
        if type(given) is Approve and sent.get("confirmed") != "1" and await _needs_confirmation(pages, id, sent):
            return await _step(pages, request, who, id, "approve", sent)
        if isinstance(given, Edit) and not sent.get("read") and await _must_read(pages, id, sent):
            unread = InvalidDecision(translate("Say that you have read the warning. Nothing was recorded yet."))
            return await _again(pages, request, who, id, given, {**sent, "do": "form"}, unread)
        return await _record(pages, request, who, id, given, sent, grant)


async def _needs_confirmation(pages: PageContext, id: str, sent: dict[str, str]) -> bool:
    """Return True if an approval must be confirmed first. One of something else is refused as it is."""
    question = await pages.store.question(id)
    return question.verdict is None and question.digest == sent.get("digest") and needs_second_act(question)


async def _must_read(pages: PageContext, id: str, sent: dict[str, str]) -> bool:
    """Return True if whoever sends an edit must say that the warning was read: the form warned, or it is risky."""
    question = await pages.store.question(id)
    return question.verdict is None and bool(sent.get("warned") or question.risk == "high")


async def _record(
    pages: PageContext,
    request: Request,
    who: Identity,
    id: str,
    given: Decision,
    sent: dict[str, str],
    grant: GrantTerms | None = None,
) -> Response:
    """Record a decision and return to the question, or say who was first or what has changed."""
    try:
        await record_form_decision(pages, request, who, id, given, sent, grant)
    except (Forbidden, NotFound):
        raise
    except InvalidDecision as error:
        return await _again(pages, request, who, id, given, sent, error)
    except AssentryError as error:
        return await conflict(pages, request, who, id, error)
    return RedirectResponse(question_url(request, id), 303)


async def _again(
    pages: PageContext,
    request: Request,
    who: Identity,
    id: str,
    given: Decision,
    sent: dict[str, str],
    error: InvalidDecision,
) -> Response:
    """Return the step of a decision that did not fit, with what was sent and the reason."""
    step = {Edit: "edit", Respond: "respond", Reject: "reject"}.get(type(given), "")
    if not step or await _is_settled(pages, id):
        raise error
    return await _step(pages, request, who, id, step, sent, problem=str(error), status=422)


async def _is_settled(pages: PageContext, id: str) -> bool:
    return (await pages.store.question(id)).verdict is not None


async def _step(
    pages: PageContext,
    request: Request,
    who: Identity,
    id: str,
    step: str,
    sent: dict[str, str] | None,
    *,
    problem: str = "",
    status: int = 200,
) -> Response:
    """Return the page of a step. A question that is settled, or not this person's, is shown instead."""
    whole, context = await question_context(pages, request, who, id)
    if context["why_not"]:
        raise Forbidden(context["why_not"])
    if whole.verdict is not None or (context["expired"] and step != "reject"):
        return await whole_page(pages, request, who, whole, context, status=409 if sent is not None else 200)
    if NEEDS[step] not in whole.allowed:
        allowed = ", ".join(whole.allowed)
        raise InvalidDecision(
            translate("This question cannot be answered like that; it allows: {allowed}.", allowed=allowed)
        )
    context |= {"step": step, "sent": sent or {}, "problem": problem, "section": "questions"}
    context["opened"] = opened_at({**request.query_params, **(sent or {})}, pages.now())
    if (sent or {}).get("do") not in ("live", "preview"):
        context["waiting"] = await pages.waiting()
    part = (sent or {}).get("do") in ("live", "preview")
    if not part:
        context["talk"], _ = await find_context(pages, who, whole, context["question"])
    if step == "edit":
        context["draft"] = draft = await draft_of(pages, context["question"], sent)
        context["effect"] = await _effect(pages, who, context["question"], draft, (sent or {}).get("do", ""))
        if part:
            return render(request, "review.html", who=who, **context)
    elif step == "respond":
        context["answer"] = _answer(whole, sent)
    elif step == "approve":
        context["carried"] = {name: value for name, value in (sent or {}).items() if name not in OWN_FIELDS}
    elif step == "always":
        who.need("grant")
        context |= await grant_context(pages, context["question"], sent)
    return render(request, f"{step}.html", status=status, who=who, **context)


async def _effect(pages: PageContext, who: Identity, question: Question, draft: EditDraft, act: str) -> EditEffect:
    """Return the effect of a draft. A worker is asked if the person wants to see it, and not while the form is filled.

    Arguments that do not fit, or that are as proposed, are previewed by nobody.
    """
    if not draft.ready:
        return replace(proposed_effect(question), is_edit=not draft.problem)
    if act in ("review", "preview"):
        return await effect_of_edit(pages.store, question, draft.text, who.name)
    return pending_effect(question, draft.text)


def _answer(question: Question, sent: dict[str, str] | None) -> Field:
    if sent is None:
        return answer_fields(question)
    form = SchemaForm(answer_schema_of(question))
    value, problems = form.read(sent)
    return form.fields(apply_button(value, form, sent.get("do", "")), problems)


async def _respond(pages: PageContext, request: Request, who: Identity, id: str, sent: dict[str, str]) -> Response:
    """Record an answer; a button of the form returns the form instead."""
    question = await pages.store.question(id)
    if reason := why_not_theirs(question, who):
        raise Forbidden(reason)
    form = SchemaForm(answer_schema_of(question))
    value, problems = form.read(sent)
    if sent.get("do", "send") != "send" or problems:
        return await _step(pages, request, who, id, "respond", sent, status=422 if problems else 200)
    try:
        output = _outcome(sent.get("whole") or write_json(None if value is ABSENT else value))
    except InvalidDecision as error:
        return await _step(pages, request, who, id, "respond", sent, problem=str(error), status=422)
    return await _record(pages, request, who, id, Respond(output), sent)


def _outcome(text: str) -> Any:
    if is_too_long(text):
        raise InvalidDecision(_too_long())
    try:
        return parse(text)
    except BadJSON as error:
        raise InvalidDecision(translate("This answer is not JSON: {problem}.", problem=error)) from None


def _too_long() -> str:
    """Return the words that refuse JSON text of a form that is too long."""
    return translate(
        "This has more than {n} values, and the inbox reads no more. A long text is one value.",
        n=local_number(MOST_READ),
    )


def _decision(sent: dict[str, str], now: int) -> tuple[Decision, GrantTerms | None]:
    """Return the decision of a form, or raise `InvalidDecision`."""
    note = sent.get("note", "").strip().replace("\r\n", "\n") or None
    match sent.get("type"):
        case "approve":
            of_run = sent.get("grant") and sent.get("runs") != ALL_RUNS
            return Approve(note), terms_of(sent, now) if of_run else None
        case "reject":
            return Reject(sent.get("message", "").strip().replace("\r\n", "\n") or None), None
        case "edit":
            if is_too_long(sent.get("json", "")):
                raise InvalidArguments(_too_long())
            try:
                return Edit(parse_object(sent.get("json", "")), note=note), None
            except BadJSON as error:
                raise InvalidArguments(translate("These arguments are not JSON: {problem}.", problem=error)) from None
    raise InvalidDecision("This form says neither approve, edit, reject nor answer.")
