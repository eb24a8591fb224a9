"""The HTTP API: questions and decisions, runs and their journals, grants, events, health and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from msgspec import Struct
from starlette.exceptions import HTTPException

from ..approval.decision import Decider, Decision, decision_from
from ..approval.terms import GrantTerms, terms_from
from ..core.facts import QuestionKind
from ..core.run import Status
from ..errors import AgentNotFound, Conflict, DigestMismatch, GrantNotFound, InvalidDecision
from ..store.audit import export_journals
from ..store.filter import LONGEST_SEARCH, Filter
from ..store.record import MOST, GrantRecord, Question, Settlement
from ..store.starting import LONGEST_KEY
from ..store.store import Store
from . import openapi as d
from .auth import Authenticates, who_sent
from .conflict import find_conflict
from .feed import Feeds
from .headline import shown_hash, shown_of, with_order
from .identity import Identity
from .loops import OwnLoopRoute
from .metrics import MEDIA_TYPE, KeptHealth, KeptTally, Metrics
from .model import (
    NO_NUL,
    AgentList,
    GiveGrant,
    GrantPage,
    Health,
    JournalPage,
    KnownAgent,
    QuestionPage,
    RunPage,
    StartRun,
    read_as,
    read_object,
)
from .permissions import JournalView, grants_seen_by, listed_for, may_have_journal, seen_by
from .problem import Difference, Problem, problem_of, respond
from .streams import CountedStream, Streams

# The dependencies are coroutines: FastAPI calls any other function in a thread, which takes much longer than the call.


async def exact(request: Request) -> None:
    """Raise an error for a parameter that the route does not have, or has twice, and for a body that is no JSON."""
    route: APIRoute = request.scope["route"]
    known = {field.alias for field in route.dependant.query_params}
    given = [name for name, _ in request.query_params.multi_items()]
    wrong = [name for name in given if name not in known or given.count(name) > 1]
    if wrong:
        errors = [{"loc": ("query", name), "msg": "this parameter is unknown, or given twice"} for name in wrong]
        raise RequestValidationError(errors)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and kind != "application/json":
        raise HTTPException(415, "The body must be JSON; send Content-Type: application/json.")


router = APIRouter(dependencies=[Depends(exact)], route_class=OwnLoopRoute)
quick_router = APIRouter(dependencies=[Depends(exact)])
"""The routes that the server's own event loop answers: their work does not grow with what is stored."""

JSON_LINES = "application/jsonl"
Text = Annotated[str | None, Query(max_length=200, pattern=NO_NUL)]
Search = Annotated[str | None, Query(max_length=LONGEST_SEARCH, pattern=NO_NUL)]
Limit = Annotated[int, Query(ge=1, le=MOST)]
After = Annotated[str | None, Query(max_length=400, pattern=NO_NUL, description="The `next` of the page before.")]
Seconds = Annotated[float | None, Query(ge=0, le=3e9, allow_inf_nan=False)]
Moment = Annotated[int | None, Query(ge=0, lt=2**53, description="Milliseconds since 1970.")]
Id = Annotated[str, Path(max_length=200, pattern=NO_NUL)]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The digest that was shown, in quotes.")]

IdempotencyKey = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=LONGEST_KEY, pattern=r"^[!-~]+$", description="Any text."),
]


class Inbox(Struct):
    """The shared parts of the routes."""

    store: Store
    auth: Authenticates
    feeds: Feeds
    metrics: Metrics
    tally: KeptTally
    health: KeptHealth
    streams: Streams
    agents: Collection[str] | None = None
    """The agents whose runs may be started; None for all."""


async def inbox_of(request: Request) -> Inbox:
    """Return what the routes share."""
    inbox: Inbox = request.app.state.inbox
    return inbox


async def somebody(request: Request) -> Identity:
    """Return who sent the request; the guard has seen to it that there is somebody."""
    who: Identity = request.state.identity
    return who


async def reader(request: Request) -> Identity:
    """Return who sent the request and may read."""
    who = await somebody(request)
    who.need("read")
    return who


Here = Annotated[Inbox, Depends(inbox_of)]
Somebody = Annotated[Identity, Depends(somebody)]
Reader = Annotated[Identity, Depends(reader)]


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """Return a value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


# -- questions ---------------------------------------------------------------------------------------


@router.get("/api/questions", responses=d.answers("QuestionPage", 400))
async def list_questions(
    inbox: Here,
    who: Reader,
    run: Text = None,
    agent: Text = None,
    tool: Text = None,
    kind: QuestionKind | None = None,
    for_me: bool = False,
    by: Text = None,
    verdict: Settlement | None = None,
    decided_after: Moment = None,
    decided_before: Moment = None,
    settled: bool = False,
    older_than: Seconds = None,
    search: Search = None,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """List open questions, the oldest first, or settled ones, by the time of their end.

    A page of a search looks at no more than 10,000 questions. It may have few items, or none, although it is not the
    last page: only a `next` that is null says so.

    `for_me` selects the questions that whoever asks may decide.
    `by`, `verdict`, `decided_after` and `decided_before` (milliseconds since 1970) select settled questions only.

    Secret arguments are masked for everybody, and digests of them left out for whoever may not decide.
    """
    decider = Decider(who.name, who.groups) if for_me else None
    page = await inbox.store.questions(
        run=run, agent=agent, tool=tool, kind=kind, decider=decider, by=by, verdict=verdict,
        decided_after=decided_after, decided_before=decided_before, settled=settled, older_than=older_than,
        search=search, limit=limit, after=after,
    )  # fmt: skip
    shown = [listed_for(who, each) for each in await with_order(inbox.store, page.items)]
    return json_response(QuestionPage(shown, page.next, page.damaged))


@router.get("/api/questions/{id}", responses=d.answers("ShownQuestion", 404, etag=True))
async def get_question(inbox: Here, who: Reader, id: Id) -> Response:
    """Return a question. Secret arguments are masked for whoever may not decide it, and digests of them left out."""
    [shown] = await with_order(inbox.store, [await inbox.store.question(id)])
    question = seen_by(who, shown)
    answer = json_response(question)
    if question.digest:
        answer.headers["ETag"] = f'"{question.digest}"'
    return answer


@router.post(
    "/api/questions/{id}/decision",
    responses=d.answers("Question", 400, 404, 409, 412, 413, 415, 428, etag=True),
    openapi_extra=d.body("Approve", "Edit", "Reject", "Respond", "DecisionWithGrant"),
)
async def decide_question(request: Request, inbox: Here, who: Somebody, id: Id, if_match: IfMatch = None) -> Response:
    """Decide a question. The same decision again changes nothing. The author is whoever sends the request."""
    who.need("decide")
    digest = digest_in(if_match)
    decision, grant = read_decision(await request.body())
    if grant is not None:
        who.need("grant")
    question = await inbox.store.question(id)
    try:
        decided = await record_decision(inbox, who, question, decision, digest, grant)
    except Conflict as error:
        return await respond_to_conflict(request, inbox, who, question, error)
    return json_response(decided, ETag=f'"{decided.digest}"')


async def record_decision(
    inbox: Inbox,
    who: Identity,
    question: Question,
    decision: Decision,
    digest: str,
    grant: GrantTerms | None,
    looked: int | None = None,
) -> Question:
    """Record a decision, and count it. `looked` is for how many milliseconds the question was open, if known."""
    by = _decider(who, question, digest, looked)
    decided = await inbox.store.decide(question.id, decision, by=by, digest=digest, grant=grant, known=question)
    _count(inbox, question, decided)
    return decided


def _decider(who: Identity, question: Question, digest: str, looked: int | None = None) -> Decider:
    """Return who decides and what they were shown; raise `DigestMismatch` if that is something else."""
    if digest != question.digest:
        raise DigestMismatch(f"If-Match is not the digest of question {question.id}; look at it again.")
    return who.decider(shown_hash(question), looked)


def _count(inbox: Inbox, question: Question, decided: Question) -> None:
    if question.verdict is None and decided.decided is not None:
        inbox.metrics.decided(str(decided.verdict), max(0, decided.decided - question.at) / 1000)


def digest_in(if_match: str | None) -> str:
    """Return the digest in an `If-Match` header; raise 428 without one."""
    given = (if_match or "").strip()
    if not given or given == "*":
        raise HTTPException(428, "Send the digest of the question that was shown, as If-Match; any (*) is not enough.")
    return given.removeprefix("W/").strip('"')


def read_decision(body: bytes) -> tuple[Decision, GrantTerms | None]:
    """Return the decision in a body, plain or with the terms of a grant."""
    given = read_object(body)
    if "type" in given or "decision" not in given:
        return decision_from(given), None
    if given.keys() - {"decision", "grant"}:
        raise InvalidDecision('Send a decision, or {"decision": {...}, "grant": {...}}, and nothing else.')
    decision = decision_from(given["decision"])
    return decision, terms_from(given.get("grant"), decision)


NOT_COMPARED = ("id", "digest", "at", "until", "due", "replaces")
"""The fields in which a question differs from the one that it replaces, even if nothing changed."""


async def respond_to_conflict(
    request: Request, inbox: Inbox, who: Identity, question: Question, error: Conflict
) -> Response:
    """Return the response to a decision that came too late, or was about something else."""
    return respond(await conflict_problem(request, inbox, who, question, error))


async def conflict_problem(
    request: Request, inbox: Inbox, who: Identity, question: Question, error: Conflict
) -> Problem:
    """Return the problem of a decision that came too late, or was about something else."""
    problem, found = problem_of(error, request), await find_conflict(inbox.store, question.id, error)
    if found is not None and found.status == 412:
        problem.question = seen_by(who, found.asked_now)
        problem.status, problem.digest, problem.replaced_by = 412, problem.question.digest or None, found.replaced_by
        problem.changes = compare_questions(who, found.decided_on, found.asked_now)
    elif found is not None:
        settled = found.decided_on
        problem.status, problem.by, problem.verdict, problem.at = 409, settled.by, settled.verdict, settled.decided
    return problem


def compare_questions(who: Identity, before: Question, after: Question) -> dict[str, Difference]:
    """Return the fields that differ, as somebody may see them."""
    old, new = shown_of(seen_by(who, before)), shown_of(seen_by(who, after))
    return {
        name: Difference(old.get(name), new.get(name))
        for name in {**old, **new}
        if name not in NOT_COMPARED and old.get(name) != new.get(name)
    }


# -- runs --------------------------------------------------------------------------------------------


@router.get("/api/runs", responses=d.answers("RunPage", 400))
async def list_runs(
    inbox: Here,
    who: Reader,
    agent: Text = None,
    status: Status | None = None,
    thread: Text = None,
    unchanged_for: Seconds = None,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """List runs, the oldest first."""
    page = await inbox.store.runs(
        agent=agent, status=status, thread=thread, unchanged_for=unchanged_for, limit=limit, after=after
    )
    return json_response(RunPage(page.items, page.next))


@router.post(
    "/api/runs",
    status_code=202,
    responses=d.answers("RunRecord", 400, 404, 409, 413, 415, status=202, location=True),
    openapi_extra=d.body("StartRun"),
)
async def start_run(request: Request, inbox: Here, who: Somebody, idempotency_key: IdempotencyKey = None) -> Response:
    """Start a run of an agent that a worker has announced. A worker drives it.

    With the same `Idempotency-Key`, the same user's same request starts one run, however often it is sent.
    """
    who.need("start")
    order: StartRun = read_as(await request.body(), StartRun)
    if inbox.agents is not None and order.agent not in inbox.agents:
        raise AgentNotFound(f"Runs of these agents can be started here: {', '.join(sorted(inbox.agents))}.")
    await inbox.store.open()
    record = await inbox.store.start(order.agent, order.input, by=who.name, key=idempotency_key)
    return json_response(record, 202, Location=f"{request.scope.get('root_path', '')}/api/runs/{record.id}")


@router.get("/api/agents", responses=d.answers("AgentList"))
async def list_agents(inbox: Here, who: Somebody) -> Response:
    """List the agents whose runs can be started."""
    who.need("start")
    known = await inbox.store.agents()
    allowed = [each for each in known if inbox.agents is None or each.name in inbox.agents]
    return json_response(AgentList([KnownAgent(each.name, each.seen) for each in allowed]))


@router.get("/api/runs/{id}", responses=d.answers("RunRecord", 404))
async def get_run(inbox: Here, who: Reader, id: Id) -> Response:
    """Return a run's record."""
    return json_response(await inbox.store.record(id))


@router.get("/api/runs/{id}/journal", responses=d.answers("JournalPage", 404))
async def get_journal(
    inbox: Here, who: Reader, id: Id, limit: Limit = 100, after: Annotated[int, Query(ge=0, lt=2**53)] = 0
) -> Response:
    """Return a page of a run's journal.

    Secret arguments are masked for whoever may not decide about them, and hashes of what is masked left out. Those of
    calls that nobody was asked about are masked for everybody.
    """
    record = await inbox.store.record(id)
    page = await JournalView(who, inbox.store, record).part(after, limit)
    return json_response(JournalPage(page, page[-1].seq if page and page[-1].seq < record.seq else None))


# -- grants ------------------------------------------------------------------------------------------


@router.get("/api/grants", responses=d.answers("GrantPage", 400))
async def list_grants(
    inbox: Here,
    who: Reader,
    run: Text = None,
    agent: Text = None,
    tool: Text = None,
    revoked: bool = False,
    limit: Limit = 50,
    after: After = None,
) -> Response:
    """List the grants that were not revoked, or with `revoked` all of them, the oldest first.

    Secret arguments are masked for whoever may not decide about them.
    """
    page = await inbox.store.grants(run=run, agent=agent, tool=tool, revoked=revoked, limit=limit, after=after)
    return json_response(GrantPage(await grants_seen_by(who, inbox.store, page.items), page.next))


@router.post(
    "/api/grants",
    status_code=201,
    responses=d.answers("GrantRecord", 400, 404, 409, 412, 413, 415, 428, status=201, location=True),
    openapi_extra=d.body("GiveGrant"),
)
async def give_grant(request: Request, inbox: Here, who: Somebody, if_match: IfMatch = None) -> Response:
    """Decide an open question, and let the decision hold for later calls of its run too, within these terms."""
    who.need("grant")
    digest = digest_in(if_match)
    order: GiveGrant = read_as(await request.body(), GiveGrant)
    terms = terms_from(order.terms, order.decision) or GrantTerms()
    question = await inbox.store.question(order.question)
    try:
        by = _decider(who, question, digest)
        decided, grant = await inbox.store.decide_and_grant(
            question.id, order.decision, by=by, digest=digest, grant=terms
        )
    except Conflict as error:
        return await respond_to_conflict(request, inbox, who, question, error)
    _count(inbox, question, decided)
    if grant is None:
        return respond(problem_of(Conflict(f"Question {question.id} was decided before; no grant was given."), request))
    return json_response(grant, 201, Location=f"{request.scope.get('root_path', '')}/api/grants/{grant.id}")


@router.delete("/api/grants/{id}", status_code=204, responses=d.answers(None, 404, 409, status=204))
async def revoke_grant(inbox: Here, who: Somebody, id: Id) -> Response:
    """Revoke a grant. Later calls are judged without it. A grant that was revoked before stays so."""
    who.need("grant")
    page = await inbox.store.page(Filter(kind=GrantRecord, equal={"id": id}, limit=1))
    if not page.items:
        raise GrantNotFound(f"The store has no grant {id!r:.80}.")
    if page.items[0].revoked is None:
        await inbox.store.revoke(id, by=who.name, run=page.items[0].run)
    return Response(status_code=204)


# -- audit -------------------------------------------------------------------------------------------


@router.get("/api/audit", responses=d.plain_response(JSON_LINES, 400))
async def export_audit(inbox: Here, who: Somebody) -> Response:
    """Export the journals of all runs as JSON Lines, exactly, with their hashes; `assentry audit verify` checks them.

    Runs with arguments that are masked for whoever asks are left out, and named in the last line.
    """
    who.need("audit")
    await inbox.store.open()
    lines = export_journals(inbox.store, may_have=lambda run: may_have_journal(who, inbox.store, run))
    first = await anext(lines)  # an error after this could only cut the response off

    async def every() -> AsyncIterator[bytes]:
        yield first
        async for line in lines:
            yield line

    named = {"Content-Disposition": 'attachment; filename="journals.jsonl"'}
    return StreamingResponse(every(), 200, named, JSON_LINES)


# -- events, health, metrics -------------------------------------------------------------------------


@quick_router.get("/api/events", responses=d.stream())
async def stream_events(
    request: Request,
    inbox: Here,
    who: Reader,
    run: Text = None,
    since: Annotated[int | None, Query(ge=0, lt=2**53, description="Milliseconds since 1970.")] = None,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", pattern=r"^[0-9]{1,15}$")] = None,
) -> Response:
    """Stream news of questions and runs as server-sent events, each at least once. A user has at most 100 streams."""
    last = int(last_event_id) if last_event_id is not None else since

    async def is_known() -> bool:
        found = await who_sent(inbox.auth, request)
        return found is not None and found.may("read")

    inbox.streams.begin(who.name)
    made = CountedStream(inbox.feeds.stream(run, last, is_known), 200, {"X-Accel-Buffering": "no"}, "text/event-stream")
    made.streams, made.name = inbox.streams, who.name
    return made


@quick_router.get("/health", responses=d.answers("Health", public=True))
async def health(inbox: Here) -> Response:
    """Say that the inbox is there, and that its store could be read within the last 15 seconds."""
    await inbox.health.check()
    return json_response(Health())


@quick_router.get("/metrics", responses=d.plain_response(MEDIA_TYPE))
async def metrics(inbox: Here, who: Reader) -> Response:
    """Return numbers for Prometheus. The open questions are counted at most every 10 seconds."""
    tally = await inbox.tally.get()
    return Response(inbox.metrics.text(tally, int(inbox.store.clock() * 1000)), media_type=MEDIA_TYPE)
