"""The pages on which a person decides many questions at once: the table, and what became of each question."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from msgspec import Struct

from ..approval.decision import Approve, Decision, Reject
from ..errors import InvalidDecision
from ..store.record import Question
from .headline import ShownQuestion, with_order
from .identity import Identity
from .language import translate
from .looking import looked_for, opened_at
from .many import (
    MOST_AT_ONCE,
    Read,
    cautions_of,
    check_together,
    read_questions,
    subject_of,
    table_of,
)
from .many_api import decide_many
from .model import QuestionOutcome
from .page_parts import PageContext
from .permissions import seen_by
from .templating import list_query, render
from .wording import deadline_tag, headline_of, is_expired, settled_words, why_not_theirs

FIELD = "q:"
"""The beginning of the names of the fields that have the digests."""


MOST_PAGES = 20
"""The most pages of questions that are looked through for more like one."""


class LeftOut(Struct, frozen=True):
    """A selected question that is not decided with the others, and why."""

    id: str
    sentence: str
    why: str


class SelectionPart(Struct, frozen=True):
    """Selected questions that could be decided together."""

    tool: str
    agents: list[str]
    ids: list[str]


class Selection(Struct):
    """The selected questions: those that go together, and the others."""

    questions: list[ShownQuestion]
    left_out: list[LeftOut]
    parts: list[SelectionPart]
    """The parts to choose from, if the selected questions do not go together."""
    verdicts: Collection[str]
    """The verdicts that all of these questions allow, of approve and reject."""
    more: bool = False
    """True if there are more questions like these than are decided at once."""


def add_many_pages(made: APIRouter, pages: PageContext) -> None:
    """Add the routes of the table."""

    @made.get("/questions/many")
    async def table(request: Request) -> Response:
        who = await pages.who(request)
        ids = [each for name, each in request.query_params.multi_items() if name == "id"]
        return await _table(pages, request, who, ids, alike="alike" in request.query_params)

    @made.post("/questions/many")
    async def decide(request: Request) -> Response:
        who, sent = await pages.sent(request)
        who.need("decide")
        return await _decide(pages, request, who, sent)


async def _table(
    pages: PageContext,
    request: Request,
    who: Identity,
    ids: Iterable[str],
    *,
    alike: bool = False,
    sent: dict[str, str] | None = None,
    problem: str = "",
) -> Response:
    """Return the table of the selected questions; with `alike`, of all open questions like the first of them."""
    ids, more = await _alike(pages, who, list(ids)) if alike else (list(ids), False)
    found = await read_questions(ids, pages.store.question)
    chosen = await select(pages, who, found)
    chosen.more = more
    for each in chosen.questions:
        pages.presence.saw(each.id, who.name)
    shown = [seen_by(who, each) for each in chosen.questions]
    given = sent or {}
    ticked = [name.removeprefix(FIELD) for name in given if name.startswith(FIELD)] if sent else ids
    now = pages.now()
    return render(
        request,
        "many.html",
        status=422 if problem else 200,
        who=who,
        section="questions",
        waiting=await pages.waiting(),
        chosen=chosen,
        table=table_of(shown, translate) if shown else None,
        sentences={each.id: headline_of(each) for each in shown},
        deadlines={each.id: deadline_tag(each, now) for each in shown},
        others={each.id: pages.presence.others(each.id, who.name) for each in shown},
        ids=" ".join(each.id for each in shown),
        ticked=ticked,
        sent=given,
        problem=problem,
        now=now,
        opened=opened_at({**given}, now),
        undo=request.app.state.undo,
        address=lambda ids: _address(request, ids),
    )


def _address(request: Request, ids: Iterable[str]) -> str:
    """Return the address of the table of these questions, with the filters of the list."""
    kept = urlencode([*[("id", each) for each in ids], *list_query(request).items()])
    return f"{request.scope.get('root_path', '')}/questions/many?{kept}"


async def _alike(pages: PageContext, who: Identity, ids: list[str]) -> tuple[list[str], bool]:
    """Return the ids of all open questions like the first of these that somebody may decide, and if there are more."""
    if not ids:
        return [], False
    first = await pages.store.question(ids[0])
    found = [first.id]
    after: str | None = None
    for _ in range(MOST_PAGES):
        page = await pages.store.questions(tool=first.tool, kind=first.kind, limit=MOST_AT_ONCE, after=after)
        for each in page.items:
            if each.id != first.id and subject_of(each) == subject_of(first) and not why_not_theirs(each, who):
                if len(found) == MOST_AT_ONCE:
                    return found, True
                found.append(each.id)
        after = page.next
        if after is None:
            return found, False
    return found, True


async def select(pages: PageContext, who: Identity, found: dict[str, Read]) -> Selection:
    """Return the questions that go together, and say of each other one why it does not."""
    left_out = [LeftOut(id, "", str(each)) for id, each in found.items() if not isinstance(each, Question)]
    asked = await with_order(pages.store, [each for each in found.values() if isinstance(each, Question)])
    fit: list[ShownQuestion] = []
    for each in asked:
        if why := _unfit(each, who, pages.now()):
            left_out.append(LeftOut(each.id, headline_of(seen_by(who, each)), why))
        else:
            fit.append(each)
    parts: dict[tuple[str, str, str], list[ShownQuestion]] = {}
    for each in fit:
        parts.setdefault(subject_of(each), []).append(each)
    if len(parts) > 1:
        choice = [
            SelectionPart(some[0].tool, sorted({each.agent for each in some}), [each.id for each in some])
            for some in parts.values()
        ]
        return Selection([], left_out, choice, ())
    runnable = [each for each in fit if "approve" in each.allowed]
    if runnable and len(runnable) < len(fit):
        why = translate("It cannot be approved as it is; edit it, or reject it.")
        left_out += [
            LeftOut(each.id, headline_of(seen_by(who, each)), why) for each in fit if "approve" not in each.allowed
        ]
    fit = runnable or fit
    verdicts = [each for each in ("approve", "reject") if all(each in question.allowed for question in fit)]
    return Selection(fit, left_out, [], verdicts)


def _unfit(question: Question, who: Identity, now: int) -> str:
    """Return why a question is not decided together with others; empty if it can be."""
    if question.verdict is not None:
        return settled_words(question, who)
    if is_expired(question, now):
        return translate("Its deadline has passed.")
    if reason := why_not_theirs(question, who):
        return reason
    if question.kind != "approval":
        return translate("It asks for an answer of its own, and is decided alone.")
    if not {"approve", "reject"} & set(question.allowed):
        return translate("It can be neither approved nor rejected.")
    return ""


# -- deciding ------------------------------------------------------------------------------------------


async def _decide(pages: PageContext, request: Request, who: Identity, sent: dict[str, str]) -> Response:
    """Record the decision on each question that is ticked, and return what became of each."""
    digests = {name.removeprefix(FIELD): digest for name, digest in sent.items() if name.startswith(FIELD)}
    decision = _decision(sent)
    found = await read_questions(digests, pages.store.question)
    check_together(found.values())
    if isinstance(decision, Approve) and not sent.get("confirm") and _is_risky(found.values()):
        why = translate("Nothing was decided yet: some of these have warnings. Say below that you looked at them.")
        ids = list(dict.fromkeys([*sent.get("ids", "").split(), *digests]))
        return await _table(pages, request, who, ids, sent=sent, problem=why)
    looked = looked_for(sent, pages.now())
    outcomes = await decide_many(request, request.app.state.inbox, who, decision, found, digests, looked)
    for each in outcomes:
        pages.presence.gone(each.id, who.name)
    questions = await with_order(pages.store, [each for each in found.values() if isinstance(each, Question)])
    return render(
        request,
        "many_done.html",
        who=who,
        section="questions",
        waiting=await pages.waiting(),
        endings=[_ending(who, each) for each in outcomes],
        verdict=sent.get("type"),
        sentences={each.id: headline_of(seen_by(who, each)) for each in questions},
        unknown=any(each.status >= 500 for each in outcomes),
    )


def _is_risky(found: Iterable[Read]) -> bool:
    return any(isinstance(each, Question) and cautions_of(each) for each in found)


def _decision(sent: dict[str, str]) -> Decision:
    """Return the decision of the form; raise `InvalidDecision` if it says none."""
    words = sent.get("words", "").strip().replace("\r\n", "\n") or None
    match sent.get("type"):
        case "approve":
            return Approve(words)
        case "reject":
            return Reject(words)
    raise InvalidDecision("This form says neither approve nor reject. Nothing was recorded.")


class Ending(Struct, frozen=True):
    """The outcome for one question, for the page."""

    id: str
    tone: str
    tag: str
    words: str = ""
    link: str = ""
    """The id of the question to look at now; empty if there is none."""
    done: bool = False


def _ending(who: Identity, outcome: QuestionOutcome) -> Ending:
    """Return what became of one question in words."""
    id, problem, question = outcome.id, outcome.problem, outcome.question
    if question is not None:
        mine = question.by == who.name
        tone = ("stop" if question.verdict == "reject" else "ok") if mine else "info"
        return Ending(id, tone, settled_words(question, who), link=id, done=True)
    assert problem is not None
    if problem.status == 409 and problem.verdict is not None:
        if problem.verdict == "reject" and problem.by == "deadline":
            return Ending(id, "stop", translate("Its deadline has passed"), link=id)
        if problem.verdict in ("replaced", "void"):
            return Ending(id, "", translate("Closed with its run"), link=id)
        return Ending(id, "info", translate("{name} was first", name=problem.by), _verdict_words(problem.verdict), id)
    if problem.status == 412:
        words = translate("Something else is asked now. Look at it again.")
        return Ending(id, "warn", translate("Changed meanwhile"), words, problem.replaced_by or id)
    if problem.status == 403:
        return Ending(id, "", translate("Not yours to decide"), problem.detail, id)
    if problem.status == 404:
        return Ending(id, "", translate("Not there"), problem.detail)
    if problem.status >= 500:
        return Ending(id, "stop", translate("Failed"), problem.detail, id)
    return Ending(id, "warn", translate("Not decided"), problem.detail, id)


def _verdict_words(verdict: str) -> str:
    words = {
        "approve": translate("It was approved."),
        "edit": translate("It was approved with changes."),
        "reject": translate("It was rejected."),
        "respond": translate("It was answered."),
    }
    return words.get(verdict, "")
