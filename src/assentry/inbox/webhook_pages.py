"""The page of webhooks, for administrators. What it refuses as an address, `assentry webhooks` refuses too."""

from __future__ import annotations

from typing import cast
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response

from ..errors import NotFound
from ..store.outbox import EVENTS, FORMATS, Webhook, WebhookFormat
from .dispatch import Dispatcher
from .identity import Identity
from .language import translate
from .office import FieldProblem, OfficeContext, Refusal, back_to, check_fields, note_change, one, problems_of
from .templating import render
from .webhooks import Webhooks, check_url

SHOWN_PATH = 12
"""The characters of an address's path that are shown."""


def add_webhook_pages(made: APIRouter, office: OfficeContext) -> None:
    """Add the routes of webhooks."""
    hooks = Webhooks(office.store)

    @made.get("/webhooks")
    async def webhooks(request: Request) -> Response:
        return await _page(office, request, await office.manager(request))

    @made.post("/webhooks/add")
    async def add(request: Request) -> Response:
        who, fields = await office.sent(request)
        url, events = one(fields, "url").strip(), fields.get("event", [])
        try:
            check_fields(url=lambda: check_url(url))
            if not events or not set(events) <= set(EVENTS):
                raise FieldProblem({"event": translate("Choose at least one event.")})
            await office.confirm(request, who, fields)
            format = cast(WebhookFormat, one(fields, "format") or "standard")
            new = await hooks.add(url, events, format=format)
        except Refusal as error:
            found = problems_of(error)
            return await _page(office, request, who, problems=found, form=fields, status=error.status)
        note_change(who, "added webhook %s to %s", new.id, urlsplit(new.url).hostname)  # the path may be a secret
        return await _page(office, request, who, made=new)

    @made.post("/webhooks/{id}/{what}")
    async def change(request: Request, id: str, what: str) -> Response:
        who, _ = await office.sent(request)
        if what == "test":
            hook = await hooks.find(id)
            problem = await Dispatcher(office.store, base_url=office.base_url).test(hook)
            note_change(who, "sent a test to webhook %s", id)
            return await _page(office, request, who, tested=(id, problem))
        if what not in CHANGES:
            raise NotFound(f"A webhook is not changed by {what!r:.40}.")
        if what == "enable":
            await hooks.enable(id)
        elif what == "disable":
            await hooks.disable(id, by=who.name)
        else:
            await hooks.remove(id)
        note_change(who, f"{CHANGES[what]} webhook %s", id)
        return back_to(request, "/webhooks")


CHANGES = {"enable": "enabled", "disable": "disabled", "remove": "removed"}


async def _page(
    office: OfficeContext,
    request: Request,
    who: Identity,
    *,
    made: Webhook | None = None,
    tested: tuple[str, str | None] | None = None,
    problems: dict[str, str] | None = None,
    form: dict[str, list[str]] | None = None,
    status: int = 200,
) -> Response:
    hooks = Webhooks(office.store)
    found = await hooks.all()
    return render(
        request,
        "webhooks.html",
        status=status,
        who=who,
        hooks=found,
        messages=await hooks.waiting(),
        errors=await hooks.errors(),
        places={hook.id: _place(hook.url) for hook in found},
        made=made,
        tested=tested,
        problems=problems or {},
        given=form or {},
        events=EVENTS,
        formats=FORMATS,
        base_url=office.base_url,
        section="webhooks",
        now=office.pages.now(),
        waiting=await office.pages.waiting(),
        asks_password=await office.asks_password(request),
    )


def _place(url: str) -> str:
    """Return an address to tell it from others. The path of a chat's webhook is a secret, so its end is left out."""
    parts = urlsplit(url)
    path = parts.path if len(parts.path) <= SHOWN_PATH else f"{parts.path[:SHOWN_PATH]}…"
    return f"{parts.scheme}://{parts.netloc}{path}"
