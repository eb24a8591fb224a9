"""The shared parts of the pages: who is there, the list of questions, one question, and errors as pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.routing import APIRoute
from msgspec import Struct

from ..errors import AssentryError, Conflict
from ..store.record import Page, Question
from ..store.store import Store
from .auth import Authenticates, identify_sender, sign_in_first
from .conflict import find_conflict
from .conversation import MOST_FACTS, Excerpt, entries_around, excerpt_of
from .csrf import MOST_FIELDS
from .failure import failure_page
from .forms import ABSENT, Field, SchemaForm, empty, in_author_order
from .headline import order_of, with_order
from .identity import Identity
from .json_values import size_of
from .language import choose_language, local_number, translate
from .loops import on_own_loop
from .mask import masked
from .permissions import JournalView, seen_by
from .presence import Presence
from .templating import list_query, query_string, render
from .views import KeptCounts, ListTab, ListView, PageCounts, View, count_words, tabs_of, view_of
from .wording import (
    DECIDING,
    Decided,
    QuestionRow,
    compare_texts,
    deadline_tag,
    decided_in,
    headline_of,
    is_expired,
    needs_second_act,
    people,
    place_of,
    preview_warnings,
    row_of,
    settled_row,
    settled_words,
    why_not_theirs,
)

PAGE = 50
"""Questions on a page of the list."""
MOST_TOLD = 5
"""The most stops that the head of each page tells of."""


class NeedsSignIn(Exception):
    """Nobody is signed in."""


class PageRoute(APIRoute):
    """A route whose errors are pages, answered on one of the inbox's own event loops."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the route's handler, with errors as pages."""
        handle = super().get_route_handler()

        async def safely(request: Request) -> Response:
            choose_language(request)
            try:
                return await handle(request)
            except NeedsSignIn:
                return sign_in_first(request)
            except AssentryError as error:
                return failure_page(request, error)

        return on_own_loop(safely)


class PageContext(Struct):
    """The shared parts of the pages."""

    store: Store
    auth: Authenticates
    presence: Presence
    counts: KeptCounts

    def now(self) -> int:
        """Return the store's time in milliseconds."""
        return int(self.store.clock() * 1000)

    async def who(self, request: Request) -> Identity:
        """Return who is signed in and may read; raise `NeedsSignIn` or `Forbidden`."""
        who = await identify_sender(self.auth, request)  # sees that a form is of a page of ours
        if who is None:
            raise NeedsSignIn
        request.state.who = who
        who.need("read")
        if "part" not in request.query_params:
            request.state.stops = (await self.store.stops(limit=MOST_TOLD)).items
        return who

    async def sent(self, request: Request) -> tuple[Identity, dict[str, str]]:
        """Return who sent a form, and its fields; raise `Forbidden` unless the form is of a page of ours."""
        who = await self.who(request)
        form = await request.form(max_fields=MOST_FIELDS, max_files=0)
        return who, {name: value for name, value in form.multi_items() if isinstance(value, str)}

    async def waiting(self, counts: PageCounts | None = None) -> str:
        """Return the number of open questions, for the head of a page; empty if there are none."""
        count, exact = await (counts or self.counts).number({})
        return count_words(count, exact) if count else ""


class QuestionList(Struct):
    """The list beside a question, as it was asked for."""

    rows: list[QuestionRow]
    next: str | None
    query: dict[str, str]
    tools: list[str]
    agents: list[str]
    count: str
    """The number of open questions, whatever the filters."""
    view: View = "all"
    tabs: list[ListTab] = []
    total: str = ""
    """The number of questions in the list; empty if it is not known."""
    place: str = ""
    """The place of the question that is looked at; empty if it is not known."""
    damaged: int = 0
    below: str | None = None
    """The id of the row below the question that is looked at, which may be settled and not in the list any more."""

    @property
    def soon(self) -> list[QuestionRow]:
        """The questions that are due soon."""
        return [row for row in self.rows if row.soon]

    @property
    def waiting(self) -> list[QuestionRow]:
        """The other questions."""
        return [row for row in self.rows if not row.soon]

    @property
    def stopped(self) -> bool:
        """True if a search has not looked at all questions."""
        return "q" in self.query and self.next is not None and len(self.rows) + self.damaged < PAGE

    @property
    def looked_at(self) -> str:
        """The questions that a stopped search has looked at, in words."""
        return translate("the next questions") if "after" in self.query else translate("the first questions")

    @property
    def filters(self) -> list[tuple[str, str]]:
        """The filters of the list, each with its name in words."""
        words = {"q": translate("with the words"), "tool": translate("tool"), "agent": translate("agent")}
        return [(word, self.query[name]) for name, word in words.items() if name in self.query]

    def link(self, **other: str | None) -> str:
        """Return the query string of the list, with other values."""
        return query_string({**self.query, **other})


async def find_question_list(
    pages: PageContext, who: Identity, request: Request, current: Question | None = None
) -> QuestionList:
    """Return the open questions that the request's filters want, beside a question."""
    query = list_query(request)
    view = view_of(who, query)
    page = await _page(pages, view, query)
    rows = await _rows(pages, view, page.items)
    tools = sorted({*[each.tool for each in page.items], query.get("tool", "")} - {""})
    agents = sorted({*[each.agent for each in page.items], query.get("agent", "")} - {""})
    below = None if current is None else _below(view, rows, current, pages.now())
    counts = PageCounts(pages.counts)
    found = QuestionList(rows, page.next, query, tools, agents, await pages.waiting(counts), view.name)
    found.tabs, found.damaged, found.below = await tabs_of(counts, view), len(page.damaged), below
    found.total, found.place = await _total_and_place(pages, counts, view, found, current)
    return found


async def _total_and_place(
    pages: PageContext, counts: PageCounts, view: ListView, found: QuestionList, current: Question | None
) -> tuple[str, str]:
    """Return the number of questions in a list, and the place of one on this page; empty if they are not known."""
    if "q" in found.query:
        return "", ""
    wanted = view.wanted()
    count, exact = await counts.number({name: each for name, each in wanted.items() if name != "newest"})
    ids = [row.id for row in found.rows]
    before = 0 if "after" not in found.query else None
    if before is None and exact:  # how many come after the beginning of the page is counted
        before = count - await pages.store.count_questions(**wanted, after=found.query["after"])
    if before is None or current is None or current.id not in ids:
        return count_words(count, exact), ""
    return count_words(count, exact), local_number(before + ids.index(current.id) + 1)


async def _page(pages: PageContext, view: ListView, query: dict[str, str]) -> Page[Question]:
    return await pages.store.questions(**view.wanted(), search=query.get("q"), limit=PAGE, after=query.get("after"))


async def _rows(pages: PageContext, view: ListView, questions: list[Question]) -> list[QuestionRow]:
    """Return questions as rows, in the order of the list."""
    asked, now = await with_order(pages.store, questions), pages.now()
    if view.settled:
        return [settled_row(each) for each in asked]
    return sorted([row_of(each, now, pages.presence.others(each.id, view.who.name)) for each in asked], key=place_of)


def _below(view: ListView, rows: list[QuestionRow], question: Question, now: int) -> str | None:
    """Return the id of the first row that comes after a question, at the place that it had when it was decided."""
    if view.settled:
        later = [(row.at, row.id) < (question.decided or now, question.id) for row in rows]
        return rows[later.index(True)].id if True in later else None
    place = place_of(row_of(question, min(now, question.decided or now), []))
    return next((row.id for row in rows if place_of(row) > place), None)


async def next_in_list(pages: PageContext, who: Identity, found: QuestionList) -> tuple[QuestionRow, str] | None:
    """Return the row below the question that is looked at, and the query string of its list; None at the end."""
    for row in found.rows:
        if row.id == found.below:
            return row, found.link()
    if found.next is None:
        return None
    further = {**found.query, "after": found.next}
    view = view_of(who, further)
    rows = await _rows(pages, view, (await _page(pages, view, further)).items)
    return (rows[0], query_string(further)) if rows else None


async def question_context(
    pages: PageContext, request: Request, who: Identity, id: str
) -> tuple[Question, dict[str, Any]]:
    """Return a question as it is stored, and the context of its page."""
    whole = await pages.store.question(id)
    pages.presence.saw(id, who.name)
    [ordered] = await with_order(pages.store, [whole])
    question = seen_by(who, ordered)
    now = pages.now()
    not_you = why_not_theirs(whole, who)
    fresh = await pages.store.successor(id, known=whole)
    context = {
        "question": question,
        "sentence": headline_of(question),
        "title": headline_of(masked(question)),  # a browser keeps titles in its history
        "deadline": deadline_tag(question, now, long=True) if question.verdict is None else None,
        "now": now,
        "opened": now,
        "steps": query_string({**list_query(request), "opened": str(now)}),
        "why_not": not_you,
        "may_grant": who.may("grant"),
        "reviewers": people(question.reviewers) if question.reviewers else "",
        "looking": pages.presence.others(id, who.name),
        "size": size_of(question.arguments),
        "masked": question is not ordered and bool(question.redact),
        "settled": settled_words(question, who) if question.verdict is not None else "",
        "fresh": fresh,
        "expired": is_expired(whole, now),
        "risky": whole.risk == "high",
        "warnings": preview_warnings(question),
        "preview_by": await _author_of_preview(pages, whole),
        "second": needs_second_act(whole),
        "undo": request.app.state.undo,
    }
    return whole, context


async def _author_of_preview(pages: PageContext, question: Question) -> str:
    """Return whose word the question's preview is."""
    if question.preview is not None and (await pages.store.record(question.run)).caller is not None:
        return translate("the program's own account")
    return translate("the tool's own preview")


async def whole_page(
    pages: PageContext, request: Request, who: Identity, whole: Question, context: dict[str, Any], *, status: int = 200
) -> Response:
    """Return the page of one question, with the list beside it."""
    talk, decided = await find_context(pages, who, whole, context["question"])
    found = await find_question_list(pages, who, request, whole)
    following = await next_in_list(pages, who, found) if whole.verdict is not None else None
    answer = answer_fields(whole) if _asks_for_answer(whole) and whole.verdict is None else None
    return render(
        request,
        "question.html",
        status=status,
        who=who,
        list=found,
        current=whole.id,
        talk=talk,
        section="questions",
        following=following,
        answer=answer,
        decided=decided,
        **context,
    )


async def find_context(
    pages: PageContext, who: Identity, question: Question, seen: Question
) -> tuple[Excerpt, Decided | None]:
    """Return the conversation around a question, and the content of the decision on it."""
    record = await pages.store.record(question.run)
    if record.erased is not None:
        return Excerpt(problem=translate("This run was erased.")), None
    if record.seq > MOST_FACTS:
        facts = local_number(record.seq)
        problem = translate("This run has {n} facts, too many to show what was said before.", n=facts)
        return Excerpt(problem=problem), None
    view = JournalView(who, pages.store, record, payloads=True)
    entries = await entries_around(view, record, question)
    decided = None
    if question.verdict is not None:
        decided = decided_in(entries, seen)
        if decided is None and (numbers := await view.find(f'"{question.id}"', *DECIDING)):
            decided = next(filter(None, [decided_in(await view.part(each - 1, 1), seen) for each in numbers]), None)
    return excerpt_of(entries, question), decided


def answer_schema_of(question: Question) -> Any:
    """Return the schema of an answer; a text if any answer fits."""
    given = question.schema if isinstance(question.schema, dict) and question.schema else {"type": "string"}
    return in_author_order(given, None)


def _asks_for_answer(question: Question) -> bool:
    """Return True if all that is wanted is an answer: a tool's body asks, or a program with nothing to run."""
    runs = question.kind == "doubt" or not {"approve", "edit"}.isdisjoint(question.allowed)
    return question.kind == "input" or ("respond" in question.allowed and not runs)


def answer_fields(question: Question) -> Field:
    """Return the empty form of an answer."""
    form = SchemaForm(answer_schema_of(question))
    value = empty(form.schema, form)
    return form.fields(value if value is not ABSENT else None)


async def conflict(pages: PageContext, request: Request, who: Identity, id: str, error: AssentryError) -> Response:
    """Return the page for a decision that came too late or was about something else; re-raise any other error."""
    found = await find_conflict(pages.store, id, error) if isinstance(error, Conflict) else None
    if found is None:
        raise error
    seen, now = (seen_by(who, each) for each in await with_order(pages.store, [found.decided_on, found.asked_now]))
    context = {"section": "questions", "now": pages.now(), "message": str(error)}
    if found.status == 409:
        context |= {"question": seen, "sentence": headline_of(seen), "settled": settled_words(seen, who)}
        return render(request, "first.html", status=409, who=who, **context)
    changes = compare_texts(seen.arguments, now.arguments, order_of(now))
    context |= {"question": now, "sentence": headline_of(now), "before": headline_of(seen), "changes": changes}
    return render(request, "changed.html", status=412, who=who, **context)


def question_url(request: Request, id: str) -> str:
    """Return the address of a question's page, with the filters of the list."""
    kept = query_string(list_query(request))
    return f"{request.scope.get('root_path', '')}/questions/{quote(id, safe='')}{kept}"
