"""HTML responses from the templates. Every value is escaped, and every page has the same strict policy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, Undefined
from markupsafe import Markup, escape
from msgspec import Struct
from msgspec.json import encode

from ..definitions.preview import warnings_first
from ..store.damage import DamageNotes
from .csrf import SAFE
from .escaping import has_many_marks, hidden_characters, shown_name, spell_out_hidden
from .folding import folded_changes, folded_commands, folded_diff, folded_text
from .headline import reason_of
from .identity import Identity
from .json_values import box, read_or_text, shown_arguments, shown_cell, shown_json, shown_number
from .language import LANGUAGES, choose_language, language, local_number, script_texts, translate, translate_count

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # With "no-referrer" a browser would send "Origin: null" with a form, and the form would be refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every page."""

KEYS = "assentry_keys"
"""The cookie in which somebody turns single keys off: its value is "off"."""


class Office(Struct):
    """The features of an inbox besides questions and runs, for the menu of its pages."""

    accounts: bool = False
    """True if the users of the store sign in."""
    webhooks: bool = False
    damage: DamageNotes | None = None


NO_OFFICE = Office()


LOCAL = re.compile(r"/(?![/\\])[!-\[\]-~]*")
"""A path on this host: printable, without a backslash, and not `//host`."""


def local_path(path: str) -> str:
    """Return a path on this host; empty text for any other address."""
    return path if LOCAL.fullmatch(path) else ""


def here_of(request: Request) -> str:
    """Return the address of a page on this host, to come back to it; empty if it was made by a form.

    The code in a sign-in link's address is not repeated, nor where to go on if that is on another host.
    """
    base, path = request.scope.get("root_path", ""), request.url.path
    if path.removeprefix(base).startswith("/sign-in"):
        return f"{base}/sign-in{query_string({'next': local_path(request.query_params.get('next', ''))})}"
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{path}{query}" if request.method in SAFE else ""


def render(
    request: Request, template: str, *, status: int = 200, who: Identity | None = None, **context: Any
) -> HTMLResponse:
    """Return a page. `who` is the signed-in user, if any; `kept` in a template is the query string of the list."""
    base = request.scope.get("root_path", "")
    page = environment().get_template(template)
    kept = query_string(list_query(request))
    context.setdefault("stops", getattr(request.state, "stops", ()))
    context |= {"language": choose_language(request), "languages": LANGUAGES}
    context["keys"] = "off" if request.cookies.get(KEYS) == "off" else "on"
    office: Office = getattr(request.app.state, "office", NO_OFFICE)
    context |= {"office": office, "here": here_of(request)}
    context["script_texts"] = script_texts()
    text = page.render(base=base, who=who, site=request.app.title, path=request.url.path, kept=kept, **context)
    return HTMLResponse(text, status, HEADERS)


def list_query(request: Request) -> dict[str, str]:
    """Return the filters of the list in an address. Each page about a question passes them on to the next."""
    given = request.query_params
    return {
        name: given[name].strip() for name in ("view", "q", "tool", "agent", "after") if given.get(name, "").strip()
    }


def query_string(values: Mapping[str, str | None]) -> str:
    """Return the query string of these values, without the empty ones."""
    some = {name: value for name, value in values.items() if value}
    return f"?{urlencode(some)}" if some else ""


@cache
def environment() -> Environment:
    """Return the templates, with the filters that they use."""
    made = Environment(
        loader=PackageLoader("assentry.inbox"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=Undefined,
    )
    made.globals |= {"_": in_words, "_n": count_in_words}
    made.filters |= {
        "show": spell_out_hidden,
        "name": shown_name,
        "lines": lambda text: spell_out_hidden(text, lines=True),
        "ago": ago,
        "utc": local_time,
        "utc_text": utc,
        "number": shown_number,
        "as_code": lambda text: Markup("<code>{}</code>").format(spell_out_hidden(text)),
        "iso": iso,
        "span": span,
        "local_number": local_number,
        "left": left,
        "shown_json": shown_json,
        "boxed": lambda text: box(text, "JSON"),
        "shown_arguments": shown_arguments,
        "brief": brief,
        "plain": as_plain_json,
        "cell": cell,
        "shown_cell": shown_cell,
        "folded": folded_text,
        "folded_diff": folded_diff,
        "folded_commands": folded_commands,
        "folded_changes": folded_changes,
        "held": hidden_names,
        "warnings_first": warnings_first,
        "why": lambda question: reason_of(question, translate),
    }
    return made


def in_words(text: str, **values: Any) -> Markup:
    """Return a text of the page in the reader's language; the values in it are escaped."""
    said = _escaped_text(text, language())
    return said.format(**values) if values else said


@lru_cache(4096)
def _escaped_text(text: str, language: str) -> Markup:
    """Return a text in the reader's language as HTML; pages have each text many times."""
    return escape(translate(text))


def count_in_words(one: str, many: str, count: int, **values: Any) -> Markup:
    """Return a text of the page about a number of things in the reader's language."""
    said = {name: f"{{{name}}}" for name in values}
    found = escape(translate_count(one, many, count, **said))
    return found.format(**values) if values else found


def as_plain_json(value: Any) -> Any:
    """Return a value of the store as `read_json` gives it, with its numbers as text; if it is too long, its JSON."""
    return read_or_text(encode(value).decode())


def cell(value: Any) -> Markup:
    """Return a value of a preview's table."""
    return spell_out_hidden(value) if isinstance(value, str) else spell_out_hidden(encode(value).decode())


def hidden_names(text: str) -> list[str]:
    """Return the names of the first hidden characters in a text; none if it is shown with escapes."""
    return [] if has_many_marks(text) else hidden_characters(text)[:3]


def ago(at: int, now: int) -> str:
    """Return an age in a word or two: "4 min"."""
    seconds = max(0, now - at) // 1000
    if seconds >= 86400:
        return translate("{n} d", n=seconds // 86400)
    if seconds >= 3600:
        return translate("{n} h", n=seconds // 3600)
    return translate("{n} min", n=seconds // 60) if seconds >= 60 else translate("now")


def left(until: int, now: int) -> str:
    """Return the time that is left in a word or two: "26 min"."""
    return ago(0, until - now) if until - now >= 60_000 else translate("under a minute")


def utc(at: int | None, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Return a time of the store as text; the month is a number where it has no English name."""
    if language() != "en":
        form = form.replace("%d %b %Y", "%Y-%m-%d").replace("%d %b", "%m-%d")
    try:
        return datetime.fromtimestamp((at or 0) / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return str(at)


def span(milliseconds: int) -> str:
    """Return a length of time in a word or two: "12 s", "4 min"."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    return translate("{n} s", n=milliseconds // 1000) if milliseconds < 60_000 else ago(0, milliseconds)


def local_time(at: int | None, form: str = "%Y-%m-%d %H:%M:%S UTC") -> Markup:
    """Return a time of the store as HTML. A script puts the reader's own time there, and its zone into the title."""
    return Markup('<span class="moment" data-utc="{}" title="{}">{}</span>').format(at or 0, utc(at), utc(at, form))


def iso(at: int | None) -> str:
    """Return a time for the `datetime` attribute."""
    return utc(at, "%Y-%m-%dT%H:%M:%SZ")


def brief(digest: str) -> Markup:
    """Return the beginning and the end of a digest."""
    return spell_out_hidden(digest if len(digest) <= 20 else f"{digest[:8]}…{digest[-8:]}")
