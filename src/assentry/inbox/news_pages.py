"""The news for somebody: the questions that a notification in the browser tells of."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from msgspec import Struct
from msgspec.json import encode

from ..core.wording import shortened
from ..errors import NotFound, UnreadableState
from .headline import with_order
from .identity import Identity
from .mask import masked
from .page_parts import PageContext
from .permissions import may_see
from .templating import HEADERS
from .wording import headline_of

FURTHEST = 10 * 60 * 1000
"""The most milliseconds that are looked back: who comes back later has the list."""
OVERLAP = 3_000
"""The milliseconds that looks overlap, since a fact may be written a little after its time."""
MOST = 20
"""The most questions in an answer, the newest ones."""


class NewQuestion(Struct):
    """A question in a notification; secret arguments are masked in its sentence for everybody."""

    id: str
    sentence: str


class NewQuestions(Struct):
    """The open questions that somebody may decide and that were asked since a time."""

    at: int
    """The time to ask from next."""
    questions: list[NewQuestion]


def add_news_pages(made: APIRouter, pages: PageContext) -> None:
    """Add the route that notifications are made from. It comes before that of one question."""

    @made.get("/questions/new")
    async def new_questions(request: Request) -> Response:
        who = await pages.who(request)
        now, given = pages.now(), request.query_params.get("after", "")
        after = int(given) if given.isascii() and given.isdecimal() and len(given) < 16 else now
        found = await _asked_since(pages, who, max(after, now - FURTHEST)) if after < now else []
        body = encode(NewQuestions(max(0, now - OVERLAP), found))
        return Response(body, headers=HEADERS, media_type="application/json")


async def _asked_since(pages: PageContext, who: Identity, since: int) -> list[NewQuestion]:
    """Return the newest open questions that somebody may decide, the oldest first."""
    asked = [news.id for news in await pages.store.news(since, []) if news.kind == "question.asked"]
    found = []
    for id in asked[-MOST:]:
        try:
            [question] = await with_order(pages.store, [await pages.store.question(id)])
        except (NotFound, UnreadableState):
            continue
        if question.verdict is None and may_see(who, question):
            found.append(NewQuestion(question.id, shortened(headline_of(masked(question)), 300)))
    return found
