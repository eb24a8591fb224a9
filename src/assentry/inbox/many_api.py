"""The HTTP API's route for decisions on many questions at once."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Depends, Request, Response

from ..approval.decision import Decision, decision_from
from ..errors import Conflict, InvalidInput
from ..store.record import Question
from . import openapi as d
from .api import Here, Inbox, Somebody, conflict_problem, exact, json_response, record_decision
from .identity import Identity
from .loops import OwnLoopRoute
from .many import Read, Recorded, check_together, decide_each, read_questions
from .model import DecideMany, QuestionOutcome, QuestionOutcomes, read_as
from .problem import problem_of

router = APIRouter(dependencies=[Depends(exact)], route_class=OwnLoopRoute)


@router.post(
    "/api/decisions",
    responses=d.answers("QuestionOutcomes", 400, 413, 415),
    openapi_extra=d.body("DecideMany"),
)
async def decide_questions(request: Request, inbox: Here, who: Somebody) -> Response:
    """Approve or reject questions about one tool, each by its own digest. What became of each is in the answer.

    Those that changed meanwhile, or that somebody else decided, have the status and the problem that they would have
    alone; the rest stand. The same decision again changes nothing. Questions about another tool, or another definition
    of it, are refused before anything is recorded.
    """
    who.need("decide")
    order: DecideMany = read_as(await request.body(), DecideMany)
    digests = {each.id: each.digest for each in order.questions}
    if len(digests) != len(order.questions):
        raise InvalidInput("A question is named twice. Nothing was recorded.")
    decision = decision_from(order.decision)
    found = await read_questions(digests, inbox.store.question)
    return json_response(QuestionOutcomes(await decide_many(request, inbox, who, decision, found, digests)))


async def decide_many(
    request: Request,
    inbox: Inbox,
    who: Identity,
    decision: Decision,
    found: Mapping[str, Read],
    digests: Mapping[str, str],
    looked: int | None = None,
) -> list[QuestionOutcome]:
    """Decide each question by its digest; return what became of each. Raises an error if they do not go together."""
    check_together(found.values())

    async def decide(question: Question) -> Question:
        return await record_decision(inbox, who, question, decision, digests[question.id], None, looked)

    made = await decide_each(found, decide)
    return [await _outcome(request, inbox, who, id, found[id], made[id]) for id in digests]


async def _outcome(
    request: Request, inbox: Inbox, who: Identity, id: str, before: object, result: Recorded
) -> QuestionOutcome:
    """Return what became of one question, as its own route would say it."""
    if isinstance(result, Question):
        return QuestionOutcome(id, 200, question=result)
    if isinstance(result, Conflict) and isinstance(before, Question):
        problem = await conflict_problem(request, inbox, who, before, result)
    else:
        problem = problem_of(result, request)
    return QuestionOutcome(id, problem.status, problem=problem)
