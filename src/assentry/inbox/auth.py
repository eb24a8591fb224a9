"""Authentication of requests: API tokens, the cookie of a signed-in user, and the routes that sign in and out."""

from __future__ import annotations

import inspect
import ipaddress
import time
from collections.abc import Callable, Collection
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..core.wording import described
from ..errors import AssentryError, Forbidden, NotSignedIn, TooManyAttempts, UsageError
from ..store.store import Store
from .accounts import LASTS, accounts_of
from .csrf import SAFE, check_csrf, check_origin, is_loopback
from .identity import Identity
from .language import choose_language, translate
from .limit import Limit, Memory
from .templating import local_path, render

COOKIE = "assentry_session"
LONGEST_FORM = 16 * 1024
"""The most bytes of the sign-in form, which anybody can send."""
PER_NAME, PER_ADDRESS, WINDOW = 10, 30, 15 * 60
"""The failed attempts from one address, for one name and for all names, in so many seconds."""
PER_NAME_ANYWHERE, LONG_WINDOW = 200, 3600
"""The failed attempts for one name from all addresses that never signed in with it, in so many seconds."""


class Authenticates(Protocol):
    """The authentication of an inbox: `Auth`, or an object of the user's own."""

    def identify(self, request: Request) -> Any:
        """Return the `Identity` behind a request, or None; may be asynchronous."""


async def who_sent(auth: Authenticates, request: Request) -> Identity | None:
    """Return who is behind a request, by any authentication; None if nobody is known."""
    found = auth.identify(request)
    who = await found if inspect.isawaitable(found) else found
    if who is not None and not isinstance(who, Identity):
        raise TypeError(f"identify returns an Identity or None, got {described(who)}.")
    return who


async def identify_sender(auth: Authenticates, request: Request) -> Identity | None:
    """Return who is behind a request with a form; raise `Forbidden` if the form is not from a page of the inbox."""
    who = await who_sent(auth, request)
    if who is not None:
        await check_csrf(request, who)
    return who


class Auth:
    """The authentication by users and API tokens of a store.

    Args:
        store: The store with the users and tokens.
        origins: Other origins whose pages may send requests, such as `https://inbox.example.com` for a proxy that does
            not pass on the Host header.
        clock: A function that returns seconds, for the limits on sign-ins.
    """

    def __init__(
        self, store: Store, *, origins: Collection[str] = (), clock: Callable[[], float] = time.monotonic
    ) -> None:
        if isinstance(origins, str):
            raise UsageError(f"origins are a list, got {origins!r:.80}.")
        self.accounts = accounts_of(store)
        self.origins = tuple(origins)
        self._pairs, self._addresses = Limit(PER_NAME, WINDOW, clock), Limit(PER_ADDRESS, WINDOW, clock)
        self._anywhere = Limit(PER_NAME_ANYWHERE, LONG_WINDOW, clock)
        self._familiar = Memory()
        """The names that have signed in, each with the address."""

    async def identify(self, request: Request) -> Identity | None:
        """Return who is behind a request, by its token or its cookie; None if nobody is known.

        A token that is worth nothing is nobody's, whatever the cookie says. Raises `Forbidden` if a request by cookie
        comes from another site. Whoever reads the request's body calls `check_csrf` besides.
        """
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.accounts.identity_of_token(text.strip())
        value = request.cookies.get(cookie_name(request))
        identity = None if value is None else await self.accounts.identity_of_cookie(value)
        if identity is not None and request.method not in SAFE:
            check_origin(request, self.origins)
        return identity

    async def sign_in(self, request: Request, name: str, password: str) -> str:
        """Return the value of the cookie for a name and a password.

        Raises `TooManyAttempts` after too many failures, and `NotSignedIn` if the name or the password is wrong.
        """
        check_origin(request, self.origins)
        _check_cookie_is_kept(request)
        address, name_key = _address(request), name[:200]
        pair = f"{address} {name_key}"
        self._addresses.take(address)
        self._pairs.take(pair)
        stranger = pair not in self._familiar
        if stranger:  # others can use this limit up, so it must not stop whoever was here before
            self._anywhere.take(name_key)
        value = await self.accounts.sign_in_by_password(name, password)
        if value is None:
            raise NotSignedIn(translate("The name or the password is wrong."))
        self._addresses.give_back(address)
        self._pairs.forget(pair)
        if stranger:
            self._anywhere.give_back(name_key)
        self._familiar.add(pair)
        return value

    async def confirm(self, request: Request, who: Identity, password: str) -> None:
        """Raise `Forbidden` unless somebody signed in a few minutes ago, or gives the own password again."""
        if await self.is_fresh(request):
            return
        if not await self.knows_password(request, who, password):
            raise Forbidden(
                translate("This is not your password. You signed in a while ago, so it is asked for again.")
            )

    async def is_fresh(self, request: Request) -> bool:
        """Return True if the sign-in behind a request began a few minutes ago."""
        return await self.accounts.is_fresh(request.cookies.get(cookie_name(request), ""))

    async def knows_password(self, request: Request, who: Identity, password: str) -> bool:
        """Return True if this is the password of whoever is signed in; failures count as those of sign-ins do."""
        address = _address(request)
        pair = f"{address} {who.name[:200]}"
        self._addresses.take(address)
        self._pairs.take(pair)
        if await self.accounts.check_password(who.name, password) is None:
            return False
        self._addresses.give_back(address)
        self._pairs.forget(pair)
        return True

    async def sign_in_anew(self, request: Request, name: str, next: str) -> Response:
        """Return a redirect that signs somebody in who is known already, with a new cookie."""
        return await self._signed_in(request, await self.accounts.sign_in(name), next)

    def router(self) -> APIRouter:
        """Return the routes that sign in and out: `/sign-in`, `/sign-in/link` and `/sign-out`."""
        made = APIRouter(include_in_schema=False)
        made.add_api_route("/sign-in", self._get_form, methods=["GET"])
        made.add_api_route("/sign-in", self._post_form, methods=["POST"])
        made.add_api_route("/sign-in/link", self._get_link, methods=["GET"])
        made.add_api_route("/sign-in/link", self._post_link, methods=["POST"])
        made.add_api_route("/sign-in/link/{token}", self._get_old_link, methods=["GET", "POST"])
        made.add_api_route("/sign-out", self._post_sign_out, methods=["POST"])
        return made

    async def _get_form(self, request: Request, next: str = "", unsent: str = "") -> Response:
        if await self.identify(request) is not None:
            return _to(request, next)
        return _page(request, next=local_path(next), unsent=bool(unsent))

    async def _post_form(self, request: Request) -> Response:
        fields: dict[str, str] = {}
        choose_language(request)
        try:
            fields = await _fields(request)
            value = await self.sign_in(request, fields.get("name", ""), fields.get("password", ""))
        except AssentryError as error:
            return _failed(request, error, fields.get("name", ""), local_path(fields.get("next", "")))
        return await self._signed_in(request, value, fields.get("next", ""))

    async def _get_link(self, request: Request) -> Response:
        """Return a page with a button: programs that open links in mails and chats must not use the link up.

        The code is behind the `#` of the link, which browsers do not send: servers and proxies log addresses.
        """
        return render(request, "link.html")

    async def _post_link(self, request: Request) -> Response:
        choose_language(request)
        try:
            check_origin(request, self.origins)
            _check_cookie_is_kept(request)
            code = (await _fields(request)).get("code", "").rpartition("#")[2].strip()
            value = await self.accounts.use_link(code)
            if value is None:
                raise NotSignedIn(translate("This link was used, or is too old. Sign in, or get a new link."))
        except AssentryError as error:
            return _failed(request, error)
        return await self._signed_in(request, value, "")

    async def _get_old_link(self, request: Request, token: str) -> Response:
        """Refuse a code in a path: whoever reads the logs could have used it."""
        return _failed(request, UsageError("This link is of an earlier kind, and signs nobody in. Get a new link."))

    async def _post_sign_out(self, request: Request) -> Response:
        name = cookie_name(request)
        try:
            known = await self.identify(request)
            if known is not None:
                await check_csrf(request, known)
                await self.accounts.sign_out(request.cookies.get(name, ""))
        except Forbidden as error:
            return _failed(request, error)
        response = RedirectResponse(f"{root_of(request)}/sign-in", 303, {"Cache-Control": "no-store"})
        response.delete_cookie(name, path="/", secure=is_secure(request), httponly=True, samesite="lax")
        return response

    async def _signed_in(self, request: Request, value: str, next: str) -> Response:
        """Return the redirect that sets the cookie. The sign-in that the browser had before ends."""
        name = cookie_name(request)
        await self.accounts.sign_out(request.cookies.get(name, ""))
        response = _to(request, next)
        response.set_cookie(
            name, value, max_age=LASTS // 1000, path="/", secure=is_secure(request), httponly=True, samesite="lax"
        )
        return response


def cookie_name(request: Request) -> str:
    """Return the name of the cookie. A browser lets nobody but this host set a cookie with the prefix `__Host-`."""
    return f"__Host-{COOKIE}" if is_secure(request) else COOKIE


def is_secure(request: Request) -> bool:
    """Return True if the cookie is for https only: always, but for plain http on this machine."""
    return request.scope["scheme"] == "https" or not is_loopback(request)


def _check_cookie_is_kept(request: Request) -> None:
    """Raise `UsageError` for a page over plain http, where a browser would drop the cookie in silence."""
    plain = request.scope["scheme"] == "http" and request.headers.get("origin", "").lower().startswith("http://")
    if plain and not is_loopback(request):
        raise UsageError("Sign in over https: over plain http, browsers keep the sign-in only on localhost.")


def _address(request: Request) -> str:
    """Return the client's address; of IPv6 the network, since a client has many addresses in one."""
    host = request.client.host if request.client is not None else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped is not None:
        return host
    return str(ipaddress.IPv6Network((address.packed, 64), strict=False))


# -- parts of the routes -----------------------------------------------------------------------------------------------


def _failed(request: Request, error: AssentryError, name: str = "", next: str = "") -> Response:
    """Return the sign-in page with an error."""
    response = _page(request, error=str(error), name=name, next=next, status=error.status)
    if isinstance(error, TooManyAttempts):
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _to(request: Request, next: str) -> Response:
    return RedirectResponse(local_path(next) or f"{root_of(request)}/", 303, {"Cache-Control": "no-store"})


def sign_in_first(request: Request) -> Response:
    """Return a redirect to the sign-in page, and from there back; after a form it says that nothing was recorded."""
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    query = {"next": target} if request.method in SAFE else {"unsent": "1"}
    return RedirectResponse(f"{root_of(request)}/sign-in?{urlencode(query)}", 303)


def root_of(request: Request) -> str:
    """Return the prefix of the inbox's paths."""
    root: str = request.scope.get("root_path", "")
    return root


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a small form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            raise UsageError("This form is too long.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise UsageError("This is not a form that signs in.") from None


def _page(
    request: Request, *, error: str = "", name: str = "", next: str = "", unsent: bool = False, status: int = 200
) -> Response:
    return render(request, "sign_in.html", status=status, error=error, name=name, next=next, unsent=unsent)
