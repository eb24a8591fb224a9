"""The shared parts of the pages of an inbox's own affairs: who manages, fields, errors, and the log of changes.

Whoever manages must have signed in as a person: no API token changes accounts. What a page refuses, `assentry users`
and `assentry tokens` may still do, for whoever has the database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from msgspec import Struct

from ..errors import AssentryError, Forbidden, UsageError
from ..store.store import Store
from .auth import Auth, root_of
from .identity import Identity
from .page_parts import PageContext

log = logging.getLogger("assentry")

A_YEAR = 365 * 24 * 3600
SEE_OTHER = {"Cache-Control": "no-store"}
PASSWORD = "own_password"
"""The field in which somebody gives the own password again."""


class OfficeContext(Struct):
    """The shared parts of these pages."""

    pages: PageContext
    auth: Auth | None
    """The sign-in by users of the store; None if the application brings its own."""
    base_url: str | None

    @property
    def store(self) -> Store:
        """The store of the inbox."""
        return self.pages.store

    @property
    def users(self) -> Auth:
        """The sign-in by users of the store; the routes that need it are there only with it."""
        assert self.auth is not None
        return self.auth

    async def manager(self, request: Request) -> Identity:
        """Return the administrator behind a request."""
        return self._checked(await self.pages.who(request))

    async def sent(self, request: Request) -> tuple[Identity, dict[str, list[str]]]:
        """Return the administrator who sent a form, and its fields."""
        who = await self.manager(request)
        form = await request.form(max_files=0)
        return who, {name: [str(each) for each in form.getlist(name)] for name in form}

    def _checked(self, who: Identity) -> Identity:
        who.need("manage")
        if self.auth is not None and who.csrf is None:
            raise Forbidden("An API token manages nothing here: sign in as a person, or use the command line.")
        return who

    async def asks_password(self, request: Request) -> bool:
        """Return True if whoever is signed in is asked for the own password before a change of weight."""
        return self.auth is not None and not await self.auth.is_fresh(request)

    async def confirm(self, request: Request, who: Identity, fields: dict[str, list[str]]) -> None:
        """Raise `FieldProblem` unless the sign-in is fresh, or the form has the own password."""
        if self.auth is None:
            return
        try:
            await self.auth.confirm(request, who, one(fields, PASSWORD))
        except Forbidden as error:
            raise FieldProblem({PASSWORD: str(error)}) from None

    def address(self, request: Request) -> str:
        """Return the address of the inbox for a link."""
        return self.base_url or f"{request.url.scheme}://{request.headers.get('host', '')}{root_of(request)}"


class FieldProblem(Exception):
    """A field of a form cannot be taken; `problems` says why, by the field's name. Its page is shown again."""

    status = 400

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__(" ".join(problems.values()))
        self.problems = problems


Refusal = (AssentryError, FieldProblem)
"""The errors after which a form is shown again."""


def one(fields: dict[str, list[str]], name: str) -> str:
    """Return the value of a field; empty if there is none."""
    return fields.get(name, [""])[0]


def names_in(text: str) -> list[str]:
    """Return the names in a field, between commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def check_fields(**checks: Callable[[], object]) -> None:
    """Run a check for each field; raise `FieldProblem` with the errors of all."""
    problems: dict[str, str] = {}
    for field, check in checks.items():
        try:
            check()
        except UsageError as error:
            problems[field] = str(error)
    if problems:
        raise FieldProblem(problems)


def problems_of(error: AssentryError | FieldProblem) -> dict[str, str]:
    """Return the errors of a form by field; under "" what is about no field."""
    return error.problems if isinstance(error, FieldProblem) else {"": str(error)}


def note_change(who: Identity, words: str, *values: object) -> None:
    """Log who changed what. No secret is in it."""
    log.info(f"%r {words}", who.name, *values)


def back_to(request: Request, path: str) -> Response:
    """Return the redirect after a form."""
    return RedirectResponse(f"{root_of(request)}{path}", 303, SEE_OTHER)
