"""Protection of requests with a cookie: they must come from a page of the inbox itself."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.requests import Request

from ..errors import Forbidden
from .identity import Identity
from .language import translate

SAFE = ("GET", "HEAD")
"""The methods that change nothing."""
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
FIELD = "csrf"
HEADER = "x-csrf-token"
MOST_FIELDS = 20_000
"""The most fields of a form; a form made from a large schema has many."""
PORTS = {"http": "80", "https": "443"}


async def check_csrf(request: Request, identity: Identity, *, forms: bool = True) -> None:
    """Raise `Forbidden` unless a request by cookie carries the sign-in's CSRF token, in a header or a form's field.

    Requests by API token, and requests that change nothing, need none. Without `forms`, only the header counts.
    """
    if identity.csrf is None or request.method in SAFE:
        return
    given = request.headers.get(HEADER)
    if forms and given is None and request.headers.get("content-type", "").partition(";")[0].strip().lower() in FORMS:
        field = (await request.form(max_fields=MOST_FIELDS, max_files=0)).get(FIELD)
        given = field if isinstance(field, str) else None
    if given is None or not hmac.compare_digest(given.encode(errors="replace"), identity.csrf.encode()):
        raise Forbidden(
            translate(
                "This request did not come from a page of this inbox, or the page is from before you signed in. "
                "Load the page again."
            )
        )


def check_origin(request: Request, origins: Collection[str] = ()) -> None:
    """Raise `Forbidden` if the browser says that the request comes from another site.

    A browser compares the page's origin with the address that it sends to, which a proxy may not pass on. Only older
    browsers leave `Sec-Fetch-Site` out; then the origin is compared with the Host header.
    """
    origin = request.headers.get("origin")
    if origin is not None and origin in origins:
        return
    site = request.headers.get("sec-fetch-site")
    if site == "same-origin":
        return
    if site in ("cross-site", "same-site"):
        raise Forbidden("This request comes from a page of another site.")
    if origin is not None and not _is_own(origin, request):
        raise Forbidden(
            f"This request comes from {origin[:200]}, not from this inbox. Behind a proxy, have the proxy pass on the "
            "Host header with its port: in nginx, `proxy_set_header Host $http_host`."
        )


def origin_of(address: str) -> str:
    """Return the origin of an address, as a browser sends it."""
    parts = urlsplit(address.lower())
    return f"{parts.scheme}://{parts.netloc}".removesuffix(f":{PORTS.get(parts.scheme)}")


def _is_own(origin: str, request: Request) -> bool:
    """Return True if the origin is the host that the request was sent to. A page over https posts over https."""
    scheme, _, host = origin.lower().partition("://")
    if scheme not in PORTS or not host or (request.url.scheme == "https" and scheme != "https"):
        return False
    own = request.headers.get("host", "").lower()
    return bool(own) and host.removesuffix(f":{PORTS[scheme]}") == own.removesuffix(f":{PORTS[scheme]}")


def is_loopback(request: Request) -> bool:
    """Return True if the request was sent to this machine by its own name."""
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
