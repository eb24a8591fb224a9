"""The pages of users and of API tokens, for administrators."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from ..errors import NotFound
from .accounts import Token, User, check_account, checked_groups, checked_password
from .identity import ROLES, Identity, Role
from .office import OfficeContext, Refusal, back_to, check_fields, names_in, note_change, one, problems_of
from .templating import render

DAY = 24 * 3600
ENDS = {"30": 30 * DAY, "90": 90 * DAY, "365": 365 * DAY, "": None}
"""The times after which a new token expires, in seconds, by the days that its form names."""
PEOPLE: tuple[Role, ...] = ("viewer", "reviewer", "operator", "admin")
"""The roles that people have; an agent's is for tokens."""

Fields = dict[str, list[str]]


# -- users -------------------------------------------------------------------------------------------


def add_user_pages(made: APIRouter, office: OfficeContext) -> None:
    """Add the routes of users."""
    accounts = office.users.accounts

    @made.get("/users")
    async def users(request: Request) -> Response:
        return await _users_page(office, request, await office.manager(request))

    @made.post("/users")
    async def add(request: Request) -> Response:
        who, fields = await office.sent(request)
        name, role, groups = one(fields, "name").strip(), cast(Role, one(fields, "role")), one(fields, "groups")
        password = one(fields, "password") or None
        try:
            check_fields(
                name=lambda: check_account(name, "viewer"),
                role=lambda: check_account("name", role),
                groups=lambda: checked_groups(names_in(groups)),
                password=lambda: None if password is None else checked_password(name, password),
            )
            await office.confirm(request, who, fields)
            await accounts.add_user(name, role, password, names_in(groups), by=who.name)
            note_change(who, "added user %r as %s", name, role)
            link = await accounts.sign_in_link(name, by=who.name) if password is None else None
        except Refusal as error:
            return await _users_page(
                office, request, who, problems=problems_of(error), form=fields, status=error.status
            )
        if link is None:
            return back_to(request, f"/user?{urlencode({'name': name})}")
        return await _user_page(office, request, who, name, link=link)

    @made.get("/user")
    async def user(request: Request, name: str = "") -> Response:
        return await _user_page(office, request, await office.manager(request), name)

    @made.post("/user")
    async def change(request: Request) -> Response:
        who, fields = await office.sent(request)
        name = one(fields, "name")
        try:
            link = await _change_user(office, request, who, name, fields)
        except NotFound:
            raise
        except Refusal as error:
            return await _user_page(office, request, who, name, problems=problems_of(error), status=error.status)
        if link is not None:
            return await _user_page(office, request, who, name, link=link)
        return back_to(request, f"/user?{urlencode({'name': name})}")


async def _change_user(office: OfficeContext, request: Request, who: Identity, name: str, fields: Fields) -> str | None:
    """Do what a form about a user says; return the code of a new sign-in link, if it is that."""
    accounts, what = office.users.accounts, one(fields, "do")
    if what == "disable":
        await accounts.disable_user(name, by=who.name)
        note_change(who, "disabled user %r", name)
    elif what == "sign-out":
        await accounts.end_sign_ins(name, by=who.name)
        note_change(who, "ended all sign-ins of user %r", name)
    else:
        await office.confirm(request, who, fields)
    if what == "enable":
        await accounts.enable_user(name, by=who.name)
        note_change(who, "enabled user %r", name)
    elif what == "link":
        code = await accounts.sign_in_link(name, by=who.name)
        note_change(who, "made a sign-in link for user %r", name)
        return code
    elif what == "role":
        role, groups = cast(Role, one(fields, "role")), names_in(one(fields, "groups"))
        check_fields(role=lambda: check_account("name", role), groups=lambda: checked_groups(groups))
        await accounts.set_role(name, role, groups, by=who.name)
        note_change(who, "made user %r %s in the groups %s", name, role, groups)
    return None


async def _users_page(
    office: OfficeContext,
    request: Request,
    who: Identity,
    *,
    problems: dict[str, str] | None = None,
    form: Fields | None = None,
    status: int = 200,
) -> Response:
    accounts = office.users.accounts
    tokens = [token.name for token in await accounts.tokens() if _is_valid(token, office.pages.now())]
    return render(
        request,
        "users.html",
        status=status,
        who=who,
        users=[(user, tokens.count(user.name)) for user in await accounts.users()],
        seen=await accounts.seen(),
        given=form or {},
        roles=PEOPLE,
        **await _shared(office, request, "users", problems),
    )


async def _user_page(
    office: OfficeContext,
    request: Request,
    who: Identity,
    name: str,
    *,
    link: str | None = None,
    problems: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    accounts = office.users.accounts
    user = await _find_user(office, name)
    return render(
        request,
        "user.html",
        status=status,
        who=who,
        user=user,
        roles=PEOPLE if user.role in PEOPLE else ROLES,
        seen=(await accounts.seen()).get(name),
        tokens=[token for token in await accounts.tokens() if token.name == name],
        link=None if link is None else f"{office.address(request)}/sign-in/link#{link}",
        **await _shared(office, request, "users", problems),
    )


async def _find_user(office: OfficeContext, name: str) -> User:
    for user in await office.users.accounts.users():
        if user.name == name:
            return user
    raise NotFound(f"There is no user {name!r:.100}.")


async def _shared(
    office: OfficeContext, request: Request, section: str, problems: dict[str, str] | None
) -> dict[str, Any]:
    return {
        "problems": problems or {},
        "section": section,
        "now": office.pages.now(),
        "waiting": await office.pages.waiting(),
        "asks_password": await office.asks_password(request),
    }


# -- tokens ------------------------------------------------------------------------------------------


def add_token_pages(made: APIRouter, office: OfficeContext) -> None:
    """Add the routes of API tokens."""
    accounts = office.users.accounts

    @made.get("/tokens")
    async def tokens(request: Request) -> Response:
        return await _tokens_page(office, request, await office.manager(request))

    @made.post("/tokens/add")  # not /tokens: to load that anew must not send the form again
    async def add(request: Request) -> Response:
        who, fields = await office.sent(request)
        name, role, groups = one(fields, "name").strip(), cast(Role, one(fields, "role")), one(fields, "groups")
        try:
            check_fields(
                name=lambda: check_account(name, "viewer"),
                role=lambda: check_account("name", role),
                groups=lambda: checked_groups(names_in(groups)),
            )
            await office.confirm(request, who, fields)
            ends = ENDS.get(one(fields, "ends"), ENDS["90"])
            text = await accounts.add_token(name, role, names_in(groups), ends, by=who.name)
        except Refusal as error:
            found = problems_of(error)
            return await _tokens_page(office, request, who, problems=found, form=fields, status=error.status)
        note_change(who, "made API token %s for %r as %s", text.split("_")[1], name, role)
        return await _tokens_page(office, request, who, made=text)

    @made.post("/tokens/revoke")
    async def revoke(request: Request) -> Response:
        who, fields = await office.sent(request)
        await accounts.revoke_token(one(fields, "id"), by=who.name)
        note_change(who, "revoked API token %s", one(fields, "id"))
        return back_to(request, "/tokens")


def _is_valid(token: Token, now: int) -> bool:
    return token.revoked is None and (token.until is None or now < token.until)


async def _tokens_page(
    office: OfficeContext,
    request: Request,
    who: Identity,
    *,
    made: str | None = None,
    problems: dict[str, str] | None = None,
    form: Fields | None = None,
    status: int = 200,
) -> Response:
    now = office.pages.now()
    found = list(reversed(await office.users.accounts.tokens()))
    return render(
        request,
        "tokens.html",
        status=status,
        who=who,
        tokens=[token for token in found if _is_valid(token, now)],
        ended=[token for token in found if not _is_valid(token, now)],
        made=made,
        given=form or {},
        roles=("agent", *PEOPLE),
        ends=ENDS,
        **await _shared(office, request, "tokens", problems),
    )
