"""HTML responses from the templates. Every value is escaped, and every page has the same strict policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, Undefined
from markupsafe import Markup
from msgspec.json import encode

from ..definitions.preview import warnings_first
from .escaping import has_many_marks, hidden_characters, shown_name, spell_out_hidden
from .folding import folded_changes, folded_commands, folded_diff, folded_text
from .identity import Identity
from .json_values import box, read_or_text, shown_arguments, shown_json

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


def render(
    request: Request, template: str, *, status: int = 200, who: Identity | None = None, **context: Any
) -> HTMLResponse:
    """Return a page. `who` is the signed-in user, if any; `kept` in a template is the query string of the list."""
    base = request.scope.get("root_path", "")
    page = environment().get_template(template)
    kept = query_string(list_query(request))
    text = page.render(base=base, who=who, site=request.app.title, path=request.url.path, kept=kept, **context)
    return HTMLResponse(text, status, HEADERS)


def list_query(request: Request) -> dict[str, str]:
    """Return the filters of the list in an address. Each page about a question passes them on to the next."""
    given = request.query_params
    return {name: given[name].strip() for name in ("q", "tool", "agent", "after") if given.get(name, "").strip()}


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
    made.filters |= {
        "show": spell_out_hidden,
        "name": shown_name,
        "lines": lambda text: spell_out_hidden(text, lines=True),
        "ago": ago,
        "utc": utc,
        "iso": iso,
        "left": left,
        "shown_json": shown_json,
        "boxed": lambda text: box(text, "JSON"),
        "shown_arguments": shown_arguments,
        "brief": brief,
        "plain": as_plain_json,
        "cell": cell,
        "folded": folded_text,
        "folded_diff": folded_diff,
        "folded_commands": folded_commands,
        "folded_changes": lambda lines: folded_changes((line.sign, line.text) for line in lines),
        "held": hidden_names,
        "warnings_first": warnings_first,
    }
    return made


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
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "now"


def left(until: int, now: int) -> str:
    """Return the time that is left in a word or two: "26 min"."""
    return ago(0, until - now) if until - now >= 60_000 else "under a minute"


def utc(at: int | None, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Return a time of the store as text."""
    try:
        return datetime.fromtimestamp((at or 0) / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return str(at)


def iso(at: int | None) -> str:
    """Return a time for the `datetime` attribute."""
    return utc(at, "%Y-%m-%dT%H:%M:%SZ")


def brief(digest: str) -> Markup:
    """Return the beginning and the end of a digest."""
    return spell_out_hidden(digest if len(digest) <= 20 else f"{digest[:8]}…{digest[-8:]}")
