"""The description of the API (OpenAPI 3.1): what each route takes and answers, with every status and header."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from .model import any_of, components, ref
from .problem import MEDIA_TYPE

TEXT = {"schema": {"type": "string"}}
ETAG = "The digest of the question, in quotes; left out if arguments are masked."
ALWAYS = (401, 403, 414, 422, 500, 502)
"""The statuses that every route with an identity can answer."""
STATUS_WORDS = {
    400: "The request cannot be understood.",
    401: "Nobody is signed in, or the token is not valid.",
    403: "The identity may not do this.",
    404: "There is no such thing.",
    409: "Somebody else was first; `by`, `verdict` and `at` say who decided what and when.",
    412: "The question is another now; `digest` and `question` are the current ones, `changes` what differs.",
    413: "The body is too large.",
    414: "The address is too long.",
    415: "The body is not JSON.",
    422: "The request does not fit; `errors` names the parts, if they are parts of the address.",
    428: "`If-Match` is missing.",
    429: "The user has too many event streams, or the program too many open questions.",
    500: "The inbox failed.",
    502: "The store failed.",
}


def answers(
    name: str | None,
    *more: int,
    status: int = 200,
    etag: bool = False,
    location: bool = False,
    public: bool = False,
) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route: a shape, or nothing, and problems."""
    fine: dict[str, Any] = {"description": HTTPStatus(status).phrase, "headers": {}}
    if name is not None:
        fine["content"] = {"application/json": {"schema": ref(name)}}
    if etag:
        fine["headers"]["ETag"] = {"description": ETAG, **TEXT}
    if location:
        fine["headers"]["Location"] = {"description": "The address of what was made.", "required": True, **TEXT}
    failed = (500, 502) if public else (*ALWAYS, *more)
    return {status: fine, **{each: problem(each) for each in sorted(failed)}}


def problem(status: int) -> dict[str, Any]:
    """Return the description of a problem."""
    made: dict[str, Any] = {"description": STATUS_WORDS[status], "content": {MEDIA_TYPE: {"schema": ref("Problem")}}}
    if status == 401:
        made["headers"] = {"WWW-Authenticate": {"required": True, **TEXT}}
    return made


def plain_response(media_type: str, *more: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route that answers with text."""
    fine = {"description": "OK", "content": {media_type: TEXT}}
    return {200: fine, **{each: problem(each) for each in sorted((*ALWAYS, *more))}}


def stream() -> dict[int | str, dict[str, Any]]:
    """Return the responses of the event stream."""
    return plain_response("text/event-stream", 429)


def body(*names: str) -> dict[str, Any]:
    """Return the description of a body that fits one of these shapes."""
    schema = ref(names[0]) if len(names) == 1 else any_of(names)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def description(app: FastAPI, root: str) -> dict[str, Any]:
    """Return the whole description."""
    made: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes, summary=app.summary)
    made["components"] = {
        "schemas": components(),
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    made["security"] = [{"token": []}]
    made["servers"] = [{"url": root or "/"}]
    made["paths"]["/health"]["get"]["security"] = []
    for path in made["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                response["content"] = _typed(response.get("content", {}))
                if not response["content"]:
                    del response["content"]
    return made


def _typed(content: dict[str, Any]) -> dict[str, Any]:
    """Leave out the media type that FastAPI adds to responses that have another."""
    return {kind: about for kind, about in content.items() if kind != "application/json" or "$ref" in str(about)}
