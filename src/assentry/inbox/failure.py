"""Errors as pages for browsers, and as problems for programs."""

from __future__ import annotations

from fastapi import Request, Response

from .problem import handle, headers_of, known_of, problem_of
from .templating import render

FOR_PROGRAMS = ("/api", "/metrics", "/openapi.json", "/health")
"""The beginnings of the paths whose errors are problems for everybody."""
PAGE_WORDS: dict[int, tuple[str, str]] = {
    400: ("This cannot be done", ""),
    401: ("Sign in first", ""),
    403: ("This is not yours to decide", ""),
    404: ("There is nothing here", "The address may be mistyped, or what was here is gone."),
    405: ("There is nothing here", "This address takes a form, and cannot be opened by itself."),
    409: ("Something changed meanwhile", ""),
    413: ("This is too large", ""),
    414: ("This address is too long", ""),
    422: ("This does not fit", ""),
    429: ("Too many attempts", ""),
    502: ("The store cannot be reached", ""),
}
"""The heading and the words of an error's page; empty words for the error's own."""
BROKEN = ("Something went wrong", "")


def wants_page(request: Request) -> bool:
    """Return True if a browser asks for a page."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return "text/html" in request.headers.get("accept", "") and not path.startswith(FOR_PROGRAMS)


async def respond_to_error(request: Request, error: Exception) -> Response:
    """Return the response of an error; FastAPI calls this for every error of a route."""
    return failure_page(request, error) if wants_page(request) else await handle(request, error)


def failure_page(request: Request, error: Exception) -> Response:
    """Return the page of an error."""
    problem = problem_of(error, request)  # logs errors of the server
    who = getattr(request.state, "who", None) or getattr(request.state, "identity", None)
    heading, words = PAGE_WORDS.get(problem.status, BROKEN if problem.status >= 500 else ("This cannot be done", ""))
    if problem.status >= 500:  # an error of the server says nothing of its inside, but whether it changed something
        words = known_of(error)
    if problem.status == 404 and problem.type != "about:blank":
        words = problem.detail  # names what was looked for
    made = render(
        request,
        "problem.html",
        status=problem.status,
        who=who,
        code=problem.status,
        heading=heading,
        message=words or problem.detail,
    )
    made.headers.update(headers_of(error))
    return made
