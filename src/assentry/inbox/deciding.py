"""The steps in which a person decides: approve, edit, reject, answer, give a grant. Nothing is decided by GET."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from msgspec import Struct

from ..approval.decision import Approve, Decision, Edit, Reject, Respond
from ..approval.terms import GrantTerms
from ..approval.tool_snapshot import ToolSnapshot
from ..core.digest import BadJSON, canonical, parse, parse_object
from ..errors import AssentryError, Forbidden, InvalidArguments, InvalidDecision, NotFound, UnreadableState
from ..store.record import Question
from . import api
from .bounds import is_too_long, refusal_of
from .difference import ChangedLine
from .forms import ABSENT, Field, SchemaForm, apply_button
from .headline import arguments_in_order, in_signature_order, order_of
from .identity import Identity
from .json_values import TooLong, WrittenNumber, read_json, write_json
from .page_parts import (
    PageContext,
    answer_fields,
    answer_schema_of,
    conflict,
    question_context,
    question_url,
    whole_page,
)
from .templating import render
from .wording import compare_texts, terms_words, why_not

GRANT_ENDS = {"hour": 3600, "day": 86400, "week": 7 * 86400}
"""The ends of a grant to choose from, in seconds."""
STEPS = ("edit", "reject", "respond", "always", "again")
NEEDS = {"edit": "edit", "reject": "reject", "respond": "respond", "always": "approve", "again": "approve"}
"""The verdict that a question must allow for each step."""


async def record_form_decision(
    pages: PageContext,
    request: Request,
    who: Identity,
    id: str,
    decision: Decision,
    digest: str,
    grant: GrantTerms | None,
) -> None:
    """Record a decision of the signed-in person on what the form showed, as the API does."""
    who.need("decide")
    if grant is not None:
        who.need("grant")
    await api.record_decision(request.app.state.inbox, who, await pages.store.question(id), decision, digest, grant)
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
    return SchemaForm({**shape, "properties": in_signature_order(shape["properties"], snapshot.parameters)})


class EditDraft(Struct):
    """An edit under way: the form or the JSON text, and what is wrong with it."""

    field: Field | None
    text: str
    """The arguments as JSON text."""
    changes: list[ChangedLine]
    problem: str = ""
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
            value = apply_button(value, form, act)
        else:
            raise ValueError("there is no form of this tool; write JSON")
    except TooLong as error:
        why = f"These arguments cannot be edited here: {error}. Reject them with a message, or use Store.decide."
        return EditDraft(None, question.arguments, [], why)
    except ValueError as error:
        text = (sent or {}).get("json", question.arguments)
        return EditDraft(None, text, [], f"This is not JSON: {error}.")
    as_json = form is None or not isinstance(value, dict) or act == "json" or ("json" in (sent or {}) and act != "form")
    made = EditDraft(None if as_json or form is None else form.fields(value, problems), "", [])
    made.problem, runs = await _check_arguments(pages, question, write_json(value))
    if problems:
        made.problem = "Some values do not fit yet."
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


async def _check_arguments(pages: PageContext, question: Question, text: str) -> tuple[str, dict[str, Any] | None]:
    """Return why arguments do not fit the tool, or "", and the arguments that would run, if they are known."""
    if is_too_long(text):
        return refusal_of("This edit"), None
    try:
        args = parse_object(text)
        kept = await pages.store.definition(question.definition) if question.definition is not None else None
        if kept is None:
            return "", args
        tool = ToolSnapshot.read(kept)
        runs = tool.canonical(args)
        tool.bind(runs)
    except (BadJSON, InvalidArguments, UnreadableState) as error:
        return f"The arguments do not fit {question.tool}: {error}.", None
    return "", runs


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
        return await _record(pages, request, who, id, given, sent, grant)


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
        await record_form_decision(pages, request, who, id, given, sent.get("digest", ""), grant)
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
    if whole.verdict is not None:
        return await whole_page(pages, request, who, whole, context, status=409 if sent is not None else 200)
    if NEEDS[step] not in whole.allowed:
        raise InvalidDecision(f"This question cannot be answered like that; it allows: {', '.join(whole.allowed)}.")
    context |= {"step": step, "sent": sent or {}, "problem": problem, "section": "questions"}
    if (sent or {}).get("do") != "live":
        context["waiting"] = await pages.waiting()
    if step == "edit":
        context["draft"] = await draft_of(pages, context["question"], sent)
        if sent is not None and sent.get("do") == "live":
            return render(request, "review.html", who=who, **context)
    elif step == "respond":
        context["answer"] = _answer(whole, sent)
    elif step == "always":
        who.need("grant")
        context |= _terms(pages, context["question"], sent)
    return render(request, f"{step}.html", status=status, who=who, **context)


def _answer(question: Question, sent: dict[str, str] | None) -> Field:
    if sent is None:
        return answer_fields(question)
    form = SchemaForm(answer_schema_of(question))
    value, problems = form.read(sent)
    return form.fields(apply_button(value, form, sent.get("do", "")), problems)


async def _respond(pages: PageContext, request: Request, who: Identity, id: str, sent: dict[str, str]) -> Response:
    """Record an answer; a button of the form returns the form instead."""
    question = await pages.store.question(id)
    if reason := why_not(question, who):
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
        raise InvalidDecision(refusal_of("This answer"))
    try:
        return parse(text)
    except BadJSON as error:
        raise InvalidDecision(f"This answer is not JSON: {error}.") from None


def _decision(sent: dict[str, str], now: int) -> tuple[Decision, GrantTerms | None]:
    """Return the decision of a form, or raise `InvalidDecision`."""
    note = sent.get("note", "").strip().replace("\r\n", "\n") or None
    match sent.get("type"):
        case "approve":
            return Approve(note), terms_of(sent, now) if sent.get("grant") else None
        case "reject":
            return Reject(sent.get("message", "").strip().replace("\r\n", "\n") or None), None
        case "edit":
            if is_too_long(sent.get("json", "")):
                raise InvalidArguments(refusal_of("This edit"))
            try:
                return Edit(parse_object(sent.get("json", "")), note=note), None
            except BadJSON as error:
                raise InvalidArguments(f"These arguments are not JSON: {error}.") from None
    raise InvalidDecision("This form says neither approve, edit, reject nor answer.")


def terms_of(sent: dict[str, str], now: int) -> GrantTerms:
    """Return the terms that a form gives, or raise `InvalidDecision`.

    `until` is the end that was put in words, however long ago; `end` is one to choose, from now on.
    """
    uses = sent.get("uses", "").strip()
    if uses and not (uses.isascii() and uses.isdecimal() and len(uses) <= 7 and 0 < int(uses) <= 1_000_000):
        raise InvalidDecision("The number of times is a whole number from 1 to 1,000,000, or empty.")
    if is_too_long(sent.get("pins", "")):
        raise InvalidDecision(refusal_of("The list of pinned arguments"))
    try:
        pins = parse_object(sent["pins"]) if sent.get("pins") else None
    except BadJSON as error:
        raise InvalidDecision(f"The pinned arguments are not JSON: {error}.") from None
    end = sent.get("end", "")
    if end and end not in GRANT_ENDS:
        raise InvalidDecision(f"A grant ends after an hour, a day, a week, or never; got {end!r:.40}.")
    lasts = float(GRANT_ENDS[end]) if end else None
    if until := sent.get("until", ""):
        if not (until.isascii() and until.isdecimal() and len(until) <= 15):
            raise InvalidDecision(f"The end of a grant is a time in milliseconds, got {until!r:.40}.")
        lasts = (int(until) - now) / 1000
        if lasts <= 0:
            raise InvalidDecision("The time that was put in words is over; go back and see the terms in words again.")
    return GrantTerms(int(uses) if uses else None, lasts, pins or None)


def _terms(pages: PageContext, question: Question, sent: dict[str, str] | None) -> dict[str, Any]:
    """Return the context of the step that gives a grant: the arguments to pin, and the terms in words."""
    try:
        value = read_json(arguments_in_order(question.arguments, order_of(question)))
    except ValueError:
        value = {}
    args = value if isinstance(value, dict) else {}
    if sent is None:
        return {"args": args, "pinned": list(args), "uses": "5", "end": "day", "words": "", "pins": "", "until": ""}
    pinned = [name for name in args if f"pin:{name}" in sent]
    pins = write_json({name: args[name] for name in pinned}) if pinned else ""
    now = pages.now()
    terms = terms_of({**sent, "pins": pins, "until": ""}, now)
    until = terms.until(now)
    words = terms_words(question.tool, question.agent, {name: args[name] for name in pinned}, terms.max_uses, until)
    form = {"args": args, "pinned": pinned, "uses": sent.get("uses", ""), "end": sent.get("end", "")}
    shown = words if sent.get("do") == "review" else ""
    return {**form, "words": shown, "pins": pins, "until": "" if until is None else until}
