"""The pages of an inbox's own affairs: the language, one's own account, damaged rows; and all their routes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from ..errors import Forbidden, UsageError
from ..store.damage import damage_of
from ..store.store import Store
from .auth import Auth, Authenticates, cookie_name, is_secure, root_of
from .csrf import check_origin
from .dispatch import has_outbox
from .identity import Identity
from .language import COOKIE, LANGUAGES, translate
from .news_pages import add_news_pages
from .office import SEE_OTHER, FieldProblem, OfficeContext, Refusal, back_to, note_change, problems_of
from .page_parts import PageContext, PageRoute
from .presence import Presence
from .templating import local_path, render
from .user_pages import add_token_pages, add_user_pages
from .views import KeptCounts
from .webhook_pages import add_webhook_pages

A_YEAR = 365 * 24 * 3600


def office_routes(store: Store, remembered: Authenticates, auth: Auth | None, base_url: str | None) -> APIRouter:
    """Return the routes of these pages; those of accounts only if the users of the store sign in."""
    office = OfficeContext(PageContext(store, remembered, Presence(), KeptCounts(store)), auth, base_url)
    made = APIRouter(route_class=PageRoute, include_in_schema=False)
    _add_language(made, office)
    _add_own_page(made, office)
    _add_damage(made, office)
    add_news_pages(made, office.pages)
    if auth is not None:
        _add_own_account(made, office)
        add_user_pages(made, office)
        add_token_pages(made, office)
    if has_outbox(store):
        add_webhook_pages(made, office)
    return made


def _add_language(made: APIRouter, office: OfficeContext) -> None:
    @made.post("/language")
    async def choose(request: Request) -> Response:
        if office.auth is not None:
            check_origin(request, office.auth.origins)
        form = await request.form(max_fields=10, max_files=0)
        language, next = str(form.get("language", "")), local_path(str(form.get("next", "")))
        if language not in LANGUAGES:
            raise UsageError(f"The pages are in {', '.join(LANGUAGES)}.")
        root = root_of(request)
        target = next if next.startswith(f"{root}/") else f"{root}/"
        response = RedirectResponse(target, 303, SEE_OTHER)
        response.set_cookie(
            COOKIE, language, max_age=A_YEAR, path=root or "/", secure=is_secure(request), httponly=True, samesite="lax"
        )
        return response


# -- the own account ---------------------------------------------------------------------------------


def _add_own_page(made: APIRouter, office: OfficeContext) -> None:
    @made.get("/me")
    async def me(request: Request) -> Response:
        return await own_page(office, request, await office.pages.who(request))


async def own_page(
    office: OfficeContext,
    request: Request,
    who: Identity,
    *,
    problems: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Return the page of somebody's own account."""
    context: dict[str, Any] = {"has_password": False, "sign_ins": [], "fresh": False}
    person = office.auth is not None and who.csrf is not None
    if office.auth is not None and person:
        known = {user.name: user for user in await office.auth.accounts.users()}
        context = {
            "has_password": who.name in known and known[who.name].password,
            "sign_ins": await office.auth.accounts.sign_ins(who.name, _cookie(request)),
            "fresh": await office.auth.is_fresh(request),
        }
    return render(
        request,
        "me.html",
        status=status,
        who=who,
        person=person,
        now=office.pages.now(),
        waiting=await office.pages.waiting(),
        problems=problems or {},
        done=request.query_params.get("done", ""),
        section="me",
        **context,
    )


def _cookie(request: Request) -> str:
    return request.cookies.get(cookie_name(request), "")


def _add_own_account(made: APIRouter, office: OfficeContext) -> None:
    accounts = office.users.accounts

    @made.post("/me/password")
    async def change_password(request: Request) -> Response:
        who, form = await office.pages.sent(request)
        _need_person(who)
        try:
            await _check_old_password(office, request, who, form.get("old", ""))
            if form.get("new", "") != form.get("again", ""):
                raise FieldProblem({"again": translate("The two passwords differ. Nothing was changed.")})
            try:
                await accounts.set_password(who.name, form.get("new", ""))
            except UsageError as error:
                raise FieldProblem({"new": str(error)}) from None
        except Refusal as error:
            return await own_page(office, request, who, problems=problems_of(error), status=error.status)
        note_change(who, "changed the own password")
        return await office.users.sign_in_anew(request, who.name, f"{root_of(request)}/me?done=password")

    @made.post("/me/sign-ins")
    async def end_sign_ins(request: Request) -> Response:
        who, form = await office.pages.sent(request)
        _need_person(who)
        if form.get("id"):
            await accounts.end_sign_in(who.name, form["id"])
        else:
            await accounts.end_sign_ins(who.name, keep=_cookie(request))
        return back_to(request, "/me?done=sign-ins")


def _need_person(who: Identity) -> None:
    if who.csrf is None:
        raise Forbidden("An API token has no account here.")


async def _check_old_password(office: OfficeContext, request: Request, who: Identity, old: str) -> None:
    """Raise `FieldProblem` if the password is wrong. Whoever has none must have signed in a few minutes ago."""
    users = {user.name: user for user in await office.users.accounts.users()}
    if who.name in users and not users[who.name].password:
        if not await office.users.is_fresh(request):
            raise FieldProblem({"": translate("Get a new sign-in link first: this sign-in is too old for that.")})
        return
    if not await office.users.knows_password(request, who, old):
        raise FieldProblem({"old": translate("This is not your password.")})


# -- damaged rows ------------------------------------------------------------------------------------


def _add_damage(made: APIRouter, office: OfficeContext) -> None:
    notes = damage_of(office.store)

    @made.get("/damage")
    async def damage(request: Request) -> Response:
        who = await office.pages.who(request)
        who.need("audit")
        waiting = await office.pages.waiting()
        return render(
            request, "damage.html", who=who, rows=notes.rows, count=notes.count, waiting=waiting, section="damage"
        )

    @made.post("/damage/forget")
    async def forget(request: Request) -> Response:
        who = await office.pages.who(request)
        who.need("audit")
        notes.forget()
        note_change(who, "said that the damaged rows are repaired")
        return back_to(request, "/damage")
