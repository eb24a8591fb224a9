"""Errors as problems (RFC 9457). Each comes from the one tree of errors, or from HTTP itself."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from msgspec import Struct
from msgspec.structs import replace
from starlette.exceptions import HTTPException

from ..core.wording import clean_text
from ..errors import (
    AlreadyDecided,
    AssentryError,
    DigestMismatch,
    NotSignedIn,
    StoreFailed,
    TooManyAttempts,
    UnreadableState,
)
from ..store.damage import damage_of
from ..store.record import Question
from .language import translate

log = logging.getLogger("assentry")

MEDIA_TYPE = "application/problem+json"
LONGEST_DETAIL = 2000
"""The most characters of a detail."""


class Difference(Struct):
    """A field of a question, before and after it changed."""

    before: Any
    after: Any


class Invalid(Struct):
    """A part of a request that is not valid."""

    where: str
    why: str


class Problem(Struct, omit_defaults=True, kw_only=True):
    """An error, for programs and for people."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    by: str | None = None
    """Whoever decided the question."""
    verdict: str | None = None
    """The end of the question."""
    at: int | None = None
    """The time of the decision, in milliseconds since 1970."""
    digest: str | None = None
    """The digest of what is asked now."""
    question: Question | None = None
    """The question as it is now."""
    replaced_by: str | None = None
    """The id of the question that took this one's place."""
    changes: dict[str, Difference] = {}
    """The fields that differ in the question that took this one's place."""
    errors: list[Invalid] = []
    """The parts of the request that are not valid."""


STATUSES: dict[type[AssentryError], int] = {DigestMismatch: 412}
"""The statuses that HTTP has a better word for than the tree."""


def http_status_of(error: AssentryError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), error.status)


def known_of(error: Exception) -> str:
    """Return what is known of a request that an error of the server ended."""
    if isinstance(error, StoreFailed) and not error.unknown:
        return translate("Nothing was changed. Try again later.")
    return translate(
        "Something went wrong here, and it is not known whether anything changed. Look again before you try again."
    )


def problem_of(error: Exception, request: Request) -> Problem:
    """Return the problem of an error. An error of the server says nothing of its inside."""
    instance = request.url.path
    if isinstance(error, RequestValidationError):
        errors = [Invalid(".".join(map(str, each["loc"])), str(each["msg"])) for each in error.errors()]
        detail = f"The request is not valid: {'; '.join(f'{each.where}: {each.why}' for each in errors)}."
        title = "The request is not valid."
        return _make_problem("urn:assentry:invalid-request", title, 422, detail, instance, errors=errors)
    if isinstance(error, HTTPException):
        phrase = HTTPStatus(error.status_code).phrase
        return _make_problem("about:blank", phrase, error.status_code, str(error.detail), instance)
    if isinstance(error, UnreadableState):
        _note_damage(error, request)
    if not isinstance(error, AssentryError):
        log.error("A request failed", exc_info=error)
        return _make_problem("about:blank", "Internal Server Error", 500, known_of(error), instance)
    status, title = http_status_of(error), (type(error).__doc__ or "").split("\n", 1)[0]
    if status >= 500:
        log.error("A request failed: %s", error, exc_info=error)
    detail = str(error) if status < 500 else f"{title} {known_of(error)}"
    made = _make_problem(_type(type(error)), title, status, detail, instance)
    if isinstance(error, AlreadyDecided):
        made = replace(made, by=error.by, verdict=error.verdict, at=error.at)
    return made


def _note_damage(error: UnreadableState, request: Request) -> None:
    """Note a row that ended a request, so that operators are told."""
    inbox = getattr(request.app.state, "inbox", None)
    if inbox is not None:
        damage_of(inbox.store).note("other", str(error), int(inbox.store.clock() * 1000))


def _make_problem(type: str, title: str, status: int, detail: str, instance: str, **more: Any) -> Problem:
    detail, instance = clean_text(detail)[0][:LONGEST_DETAIL], clean_text(instance)[0][:LONGEST_DETAIL]
    return Problem(type=type, title=title, status=status, detail=detail, instance=instance, **more)


def _type(kind: type[AssentryError]) -> str:
    return "urn:assentry:" + re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def respond(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """Return the response of a problem."""
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)


async def handle(request: Request, error: Exception) -> Response:
    """Return the response of an error; FastAPI calls this for every error of a route."""
    return respond(problem_of(error, request), headers_of(error))


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers that belong to an error."""
    if isinstance(error, NotSignedIn):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooManyAttempts):
        return {"Retry-After": str(error.retry_after)}
    return dict(error.headers or {}) if isinstance(error, HTTPException) else {}
