"""Errors as pages for browsers, and as problems for programs."""

from __future__ import annotations

from fastapi import Request, Response

from .language import choose_language, translate
from .problem import handle, headers_of, known_of, problem_of
from .templating import render

FOR_PROGRAMS = ("/api", "/metrics", "/openapi.json", "/health")
"""The beginnings of the paths whose errors are problems for everybody."""


def page_words(status: int) -> tuple[str, str]:
    """Return the heading and the words of an error's page; empty words for the error's own."""
    heading, words = {
        400: (translate("This cannot be done"), ""),
        401: (translate("Sign in first"), ""),
        403: (translate("This is not yours to decide"), ""),
        404: (translate("There is nothing here"), translate("The address may be mistyped, or what was here is gone.")),
        405: (
            translate("There is nothing here"),
            translate("This address takes a form, and cannot be opened by itself."),
        ),
        409: (translate("Something changed meanwhile"), ""),
        413: (translate("This is too large"), ""),
        414: (translate("This address is too long"), ""),
        422: (translate("This does not fit"), ""),
        429: (translate("Too many attempts"), ""),
        502: (translate("The store cannot be reached"), ""),
    }.get(status, ("", ""))
    other = translate("Something went wrong") if status >= 500 else translate("This cannot be done")
    return heading or other, words


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
    choose_language(request)
    heading, words = page_words(problem.status)
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
