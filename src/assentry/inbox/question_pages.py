"""The web pages of the inbox: HTML from the server, plain forms, and a redirect after each.

The script only adds to them. Words are made in `wording` and `conversation`, forms in `forms`, HTML in `templates/`.
"""

from __future__ import annotations

import functools
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from ..errors import NotFound, UnreadableState
from ..store.record import Question
from ..store.store import Store
from .audit_pages import add_audit_pages
from .auth import Authenticates
from .control_pages import add_control_pages
from .deciding import add_deciding
from .many_pages import add_many_pages
from .page_parts import PageContext, PageRoute, find_question_list, question_context, whole_page
from .permissions import seen_by
from .presence import Presence
from .run_pages import add_run_pages
from .statistics_pages import add_statistics_pages
from .templating import HEADERS, KEYS, render
from .views import KeptCounts

STATIC = Path(__file__).parent / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {file.name: KINDS[file.suffix] for file in STATIC.iterdir() if file.suffix in KINDS}
"""The files that a page may need, each with its type."""

YEAR = 365 * 24 * 3600
"""The seconds for which a browser keeps the choice of keys."""


def router(store: Store, auth: Authenticates, *, presence: Presence | None = None) -> APIRouter:
    """Return the routes of the pages."""
    pages = PageContext(store, auth, presence or Presence(), KeptCounts(store))
    made = APIRouter(route_class=PageRoute, include_in_schema=False)
    add_many_pages(made, pages)  # before the page of one question, whose address is /questions/{id}
    _add_questions(made, pages)
    add_deciding(made, pages)
    add_run_pages(made, pages)
    add_audit_pages(made, pages)
    add_statistics_pages(made, pages)
    add_control_pages(made, pages)
    made.add_api_route("/static/{name}", static, methods=["GET", "HEAD"], name="static")
    return made


@functools.cache
def _file(name: str) -> tuple[bytes, str]:
    """Return the content of a file, and its mark for browsers."""
    content = (STATIC / name).read_bytes()
    return content, f'"{sha256(content).hexdigest()[:32]}"'


async def static(request: Request, name: str) -> Response:
    """Return the style sheet, the script or the icon. A browser asks if its copy is still good."""
    if name not in FILES:
        raise HTTPException(404)
    content, mark = _file(name)
    headers = {"Cache-Control": "no-cache", "ETag": mark, "X-Content-Type-Options": "nosniff"}
    if request.headers.get("if-none-match") == mark:
        return Response(None, 304, headers)
    return Response(content, headers=headers, media_type=FILES[name])


async def _beside(pages: PageContext, id: str) -> Question | None:
    """Return the question that the list stands beside, if there is one."""
    try:
        return await pages.store.question(id) if id else None
    except (NotFound, UnreadableState):
        return None


def _add_questions(made: APIRouter, pages: PageContext) -> None:
    @made.get("/")
    async def front(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/questions", 303)

    @made.post("/keys")
    async def keys(request: Request) -> Response:
        _, sent = await pages.sent(request)
        base, target = request.scope.get("root_path", ""), sent.get("next", "")
        safe = target.startswith(f"{base}/") and not target.startswith("//") and "\\" not in target
        answer = RedirectResponse(target if safe else f"{base}/questions", 303)
        answer.set_cookie(KEYS, "off" if sent.get("keys") == "off" else "on", YEAR, path=f"{base}/", samesite="lax")
        return answer

    @made.get("/questions")
    async def questions(request: Request) -> Response:
        who = await pages.who(request)
        if request.query_params.get("part") == "count":
            return render(request, "count.html", waiting=await pages.waiting())
        current = request.query_params.get("at", "")
        found = await find_question_list(pages, who, request, await _beside(pages, current))
        template = "list.html" if request.query_params.get("part") == "list" else "questions.html"
        return render(request, template, who=who, list=found, now=pages.now(), current=current, section="questions")

    @made.get("/questions/{id}")
    async def question(request: Request, id: str) -> Response:
        who = await pages.who(request)
        whole, context = await question_context(pages, request, who, id)
        if request.query_params.get("part") == "notice":
            return render(request, "notice.html", who=who, **context)
        return await whole_page(pages, request, who, whole, context)

    @made.get("/questions/{id}/arguments.json")
    async def arguments(request: Request, id: str) -> Response:
        who = await pages.who(request)
        shown = seen_by(who, await pages.store.question(id))
        text = shown.arguments.encode(errors="backslashreplace")
        kind = "application/json" if text[:1] == b"{" else "text/plain; charset=utf-8"
        return Response(text, headers=HEADERS, media_type=kind)
