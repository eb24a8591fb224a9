"""Who is behind a request, and which requests of a browser are not its user's own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from assentry import AssentryError, NotSignedIn, TooManyAttempts, UsageError
from assentry.inbox import auth as module
from assentry.inbox.accounts import Accounts, accounts_of
from assentry.inbox.auth import Auth, identify_sender
from assentry.inbox.csrf import origin_of
from assentry.inbox.identity import Identity
from assentry.inbox.limit import MOST_KEYS, Limit, Memory
from assentry.store import MemoryStore
from assentry.testing import FakeClock
from tests.inbox.stores import cheap_hashes, clock

__all__ = ["cheap_hashes", "clock"]

pytestmark = pytest.mark.usefixtures("cheap_hashes")

PASSWORD = "correct horse battery"
LOCAL, SECURE = "http://localhost:8000", "https://inbox.example.com"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def inbox(auth: Any) -> FastAPI:
    """A small application that says who is there."""
    app = FastAPI()
    if isinstance(auth, Auth):
        app.include_router(auth.router())

    @app.exception_handler(AssentryError)
    async def problem(request: Request, error: AssentryError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, error.status)

    @app.api_route("/who", methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
    async def who(request: Request) -> Any:
        identity = await identify_sender(auth, request)
        if identity is None:
            raise NotSignedIn
        form = await request.form() if request.headers.get("content-type") == FORM["content-type"] else {}
        return {"name": identity.name, "csrf": identity.csrf, "form": dict(form)}

    return app


class Site:
    """An inbox with one user, its authentication, and browsers that look at it."""

    def __init__(self, accounts: Accounts, auth: Auth, app: Any) -> None:
        self.accounts, self.auth, self.app = accounts, auth, app

    def browser(self, base: str = LOCAL, address: str = "203.0.113.7", **options: Any) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url=base, **options)


@asynccontextmanager
async def site(clock: FakeClock | None = None, **options: Any) -> AsyncIterator[Site]:
    async with MemoryStore() as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "reviewer", PASSWORD)
        auth = Auth(store, clock=clock or FakeClock(), **options)
        yield Site(accounts, auth, inbox(auth))


async def sign_in(browser: httpx.AsyncClient, name: str = "ann", password: str = PASSWORD, **more: Any) -> Any:
    return await browser.post("/sign-in", data={"name": name, "password": password}, **more)


async def csrf_of(browser: httpx.AsyncClient) -> str:
    csrf = (await browser.get("/who")).json()["csrf"]
    assert isinstance(csrf, str)
    return csrf


# -- tokens ----------------------------------------------------------------------------------------


async def test_a_token_is_enough_for_every_method_and_needs_no_csrf_token() -> None:
    async with site() as here, here.browser() as client:
        token = await here.accounts.add_token("robot", "agent")
        for scheme in ("Bearer", "bearer", "BEARER"):
            for method in ("GET", "POST", "DELETE"):
                reply = await client.request(method, "/who", headers={"authorization": f"{scheme} {token}"})
                assert (reply.status_code, reply.json()["name"], reply.json()["csrf"]) == (200, "robot", None)


async def test_without_a_token_or_a_cookie_nobody_is_there_even_on_loopback() -> None:
    async with site() as here, here.browser(address="127.0.0.1") as client:
        reply = await client.get("/who")
        assert reply.status_code == 401 and "not signed in" in reply.json()["detail"]


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer x", "Bearer assentry_a_b", "Bearer \udce4"])
async def test_a_wrong_token_is_nobodys_even_with_a_cookie(header: str) -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        headers = [(b"authorization", header.encode(errors="surrogateescape"))]
        assert (await browser.get("/who", headers=headers)).status_code == 401
        assert (await browser.get("/who")).status_code == 200


async def test_a_token_is_not_taken_from_the_address_or_the_cookie() -> None:
    async with site() as here, here.browser() as client:
        token = await here.accounts.add_token("robot", "admin")
        for query in ("token", "access_token", "authorization"):
            assert (await client.get("/who", params={query: token})).status_code == 401
        assert (await client.get("/who", headers={"cookie": f"assentry_session={token}"})).status_code == 401


async def test_the_password_of_a_proxy_does_not_hide_the_cookie() -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        assert (await browser.get("/who", headers={"authorization": "Basic YTpi"})).status_code == 200


# -- the cookie ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "name", "secure"),
    [
        ("http://localhost:8000", "assentry_session", False),
        ("http://127.0.0.1:8000", "assentry_session", False),
        ("http://[::1]:8000", "assentry_session", False),
        ("https://localhost", "__Host-assentry_session", True),
        ("https://inbox.example.com", "__Host-assentry_session", True),
        ("http://inbox.example.com", "__Host-assentry_session", True),
        ("http://localhost.example.com", "__Host-assentry_session", True),
        ("http://127.0.0.1.example.com", "__Host-assentry_session", True),
    ],
)
async def test_the_cookie_is_for_this_host_and_out_of_reach_for_scripts(base: str, name: str, secure: bool) -> None:
    async with site() as here, here.browser(base) as browser:
        reply = await sign_in(browser)
        assert (reply.status_code, reply.headers["location"]) == (303, "/")
        pair, *parts = reply.headers["set-cookie"].split("; ")
        assert pair.partition("=")[0] == name
        assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(parts) and ("Secure" in parts) is secure
        assert not any(part.lower().startswith("domain") for part in parts)
        assert reply.headers["cache-control"] == "no-store"


async def test_a_cookie_without_the_prefix_is_not_read_where_cookies_are_secure() -> None:
    async with site() as here, here.browser(SECURE) as browser:
        value = await here.accounts.sign_in("ann")
        assert (await browser.get("/who", headers={"cookie": f"assentry_session={value}"})).status_code == 401
        assert (await browser.get("/who", headers={"cookie": f"__Host-assentry_session={value}"})).status_code == 200


@pytest.mark.parametrize("value", ["", "ann", "admin", "x" * 5000, '"', "a=b", "%00"])
async def test_a_forged_cookie_is_nobodys(value: str) -> None:
    async with site() as here, here.browser() as browser:
        assert (await browser.get("/who", headers={"cookie": f"assentry_session={value}"})).status_code == 401


@pytest.mark.parametrize("host", ["", "[::1", "::1", "a b", "localhost:notaport", "\udce4"])
async def test_a_host_that_is_none_is_no_loopback(host: str) -> None:
    async with site() as here, here.browser() as browser:
        value = await here.accounts.sign_in("ann")
        scope = [(b"host", host.encode(errors="surrogateescape")), (b"cookie", f"assentry_session={value}".encode())]
        reply = await browser.get("/who", headers=scope)
        assert reply.status_code == (200 if host == "localhost:notaport" else 401)


async def test_a_cookie_ends_with_the_password_and_with_the_user() -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        assert (await browser.get("/who")).json()["name"] == "ann"
        await here.accounts.set_password("ann", "another horse battery")
        assert (await browser.get("/who")).status_code == 401
        await sign_in(browser, password="another horse battery")
        assert (await browser.get("/who")).status_code == 200
        await here.accounts.disable_user("ann")
        assert (await browser.get("/who")).status_code == 401


async def test_signing_in_again_ends_the_sign_in_before() -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        first = browser.cookies["assentry_session"]
        await sign_in(browser)
        assert browser.cookies["assentry_session"] != first
        assert await here.accounts.identity_of_cookie(first) is None


async def test_a_cookie_that_was_planted_is_not_signed_in() -> None:
    async with site() as here, here.browser() as browser:
        browser.cookies.set("assentry_session", "planted", domain="localhost.local")
        await sign_in(browser)
        assert await here.accounts.identity_of_cookie("planted") is None


# -- requests of other sites -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_request_by_cookie_needs_the_csrf_token(method: str) -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        csrf = await csrf_of(browser)
        for headers in ({}, {"x-csrf-token": ""}, {"x-csrf-token": csrf[:-1]}, {"x-csrf-token": csrf + "x"}):
            reply = await browser.request(method, "/who", headers=headers)
            assert reply.status_code == 403 and "Load the page again" in reply.json()["detail"]
        assert (await browser.request(method, "/who", headers={"x-csrf-token": csrf})).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_reading_needs_no_csrf_token(method: str) -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        assert (await browser.request(method, "/who", headers={"origin": "https://evil.example"})).status_code == 200


async def test_a_form_carries_the_csrf_token_as_a_field() -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        csrf = await csrf_of(browser)
        reply = await browser.post("/who", data={"csrf": csrf, "more": "1"})
        assert reply.json()["form"] == {"csrf": csrf, "more": "1"}
        many = urlencode({"csrf": csrf} | {f"f{n}": "x" for n in range(3000)})
        assert (await browser.post("/who", content=many, headers=FORM)).status_code == 200
        assert (await browser.post("/who", files={"csrf": (None, csrf)})).status_code == 200
        for data in ({}, {"csrf": ""}, {"csrf": "wrong"}, {"CSRF": csrf}):
            assert (await browser.post("/who", data=data, headers=FORM)).status_code == 403
        assert (await browser.post("/who", json={"csrf": csrf})).status_code == 403
        assert (await browser.post("/who", params={"csrf": csrf})).status_code == 403
        both = await browser.post("/who", data={"csrf": csrf}, headers={"x-csrf-token": "wrong"})
        assert both.status_code == 403


async def test_the_csrf_token_of_another_sign_in_is_refused() -> None:
    async with site() as here, here.browser() as browser, here.browser() as other:
        await here.accounts.add_user("eve", "reviewer", PASSWORD)
        await sign_in(browser)
        await sign_in(other, "eve")
        stolen = await csrf_of(other)
        assert (await browser.post("/who", headers={"x-csrf-token": stolen})).status_code == 403
        before = await csrf_of(browser)
        await sign_in(browser)
        assert (await browser.post("/who", headers={"x-csrf-token": before})).status_code == 403


OWN = [None, "http://localhost:8000", "HTTP://LOCALHOST:8000"]
FOREIGN = [
    "null",
    "",
    "http://localhost",
    "http://localhost:8001",
    "http://evil.example",
    "http://localhost:8000.evil.example",
    "http://evil.example/http://localhost:8000",
    "file://localhost:8000",
    "localhost:8000",
]


@pytest.mark.parametrize("origin", [*OWN, *FOREIGN])
async def test_a_request_by_cookie_comes_from_a_page_of_this_host(origin: str | None) -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        headers = {"x-csrf-token": await csrf_of(browser)} | ({} if origin is None else {"origin": origin})
        reply = await browser.post("/who", headers=headers)
        assert reply.status_code == (200 if origin in OWN else 403)


async def test_a_page_over_http_sends_nothing_over_https() -> None:
    async with site() as here, here.browser(SECURE) as browser:
        await sign_in(browser)
        headers = {"x-csrf-token": await csrf_of(browser)}
        for origin, status in ((SECURE, 200), (f"{SECURE}:443", 200), ("http://inbox.example.com", 403)):
            assert (await browser.post("/who", headers=headers | {"origin": origin})).status_code == status


@pytest.mark.parametrize("fetched", ["cross-site", "same-site"])
async def test_a_browser_says_that_another_site_asks(fetched: str) -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        headers = {"x-csrf-token": await csrf_of(browser), "sec-fetch-site": fetched}
        assert (await browser.post("/who", headers=headers)).status_code == 403
        assert (await browser.post("/who", headers=headers | {"sec-fetch-site": "same-origin"})).status_code == 200


async def test_another_origin_can_be_allowed() -> None:
    async with site(origins=[SECURE]) as here, here.browser() as browser:
        await sign_in(browser)
        headers = {"x-csrf-token": await csrf_of(browser), "origin": SECURE, "sec-fetch-site": "same-site"}
        assert (await browser.post("/who", headers=headers)).status_code == 200
        assert (await browser.post("/who", headers={"origin": SECURE})).status_code == 403
    with pytest.raises(UsageError, match="origins are a list"):
        Auth(MemoryStore(), origins=SECURE)


# -- signing in and out ----------------------------------------------------------------------------


async def test_a_wrong_name_and_a_wrong_password_look_the_same() -> None:
    async with site() as here, here.browser() as browser:
        replies = [await sign_in(browser, "ann", "wrong password"), await sign_in(browser, "bob", "wrong password")]
        for reply, name in zip(replies, ("ann", "bob"), strict=True):
            assert reply.status_code == 401 and "set-cookie" not in reply.headers
            assert "The name or the password is wrong." in reply.text and "wrong password" not in reply.text
            assert f'value="{name}"' in reply.text
        assert replies[0].text.replace("ann", "bob") == replies[1].text


async def test_what_was_typed_is_escaped() -> None:
    async with site() as here, here.browser() as browser:
        reply = await sign_in(browser, '"><script>alert(1)</script>', "wrong password")
        assert "<script>" not in reply.text and "&lt;script&gt;" in reply.text


@pytest.mark.parametrize(
    ("next", "to"),
    [
        ("/questions/q_1?a=b", "/questions/q_1?a=b"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/a\\b", "/"),
        ("/\t/evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("questions", "/"),
        ("/ü", "/"),
        ("/\r\nset-cookie: a=b", "/"),
    ],
)
async def test_after_signing_in_the_browser_stays_on_this_host(next: str, to: str) -> None:
    async with site() as here, here.browser() as browser:
        reply = await browser.post("/sign-in", data={"name": "ann", "password": PASSWORD, "next": next})
        assert (reply.status_code, reply.headers["location"]) == (303, to)
        again = await browser.get("/sign-in", params={"next": next})
        assert (again.status_code, again.headers["location"]) == (303, to)


async def test_the_page_keeps_where_to_go_on() -> None:
    async with site() as here, here.browser() as browser:
        assert 'name="next" value="/runs"' in (await browser.get("/sign-in?next=/runs")).text
        assert "evil" not in (await browser.get("/sign-in?next=//evil.example")).text
        reply = await browser.post("/sign-in", data={"name": "ann", "password": "no", "next": "/runs"})
        assert 'name="next" value="/runs"' in reply.text


async def test_another_site_signs_nobody_in() -> None:
    async with site() as here, here.browser() as browser:
        reply = await sign_in(browser, headers={"origin": "https://evil.example"})
        assert reply.status_code == 403 and "set-cookie" not in reply.headers


async def test_over_plain_http_the_browser_would_drop_the_cookie_and_the_page_says_so() -> None:
    async with site() as here, here.browser("http://inbox.lan:8000") as browser:
        reply = await sign_in(browser, headers={"origin": "http://inbox.lan:8000"})
        assert reply.status_code == 400 and "Sign in over https" in reply.text
        behind_proxy = await sign_in(browser, headers={"origin": "https://inbox.lan:8000"})
        assert behind_proxy.status_code == 303


@pytest.mark.parametrize(
    "body",
    [b"", b"name=ann", b"password=x", b"\xff\xfe", b"&".join([b"a=b"] * 100), b"x" * 20_000, b"name=%00&password=%ff"],
)
async def test_a_form_that_is_none_signs_nobody_in(body: bytes) -> None:
    async with site() as here, here.browser() as browser:
        reply = await browser.post("/sign-in", content=body, headers=FORM)
        assert reply.status_code in (400, 401) and "set-cookie" not in reply.headers


async def test_nobody_signs_in_or_out_by_get() -> None:
    async with site() as here, here.browser() as browser:
        reply = await browser.get("/sign-in", params={"name": "ann", "password": PASSWORD})
        assert reply.status_code == 200 and "set-cookie" not in reply.headers
        assert (await browser.get("/sign-out")).status_code == 405


async def test_signing_out_ends_the_sign_in_and_the_cookie() -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        value, csrf = browser.cookies["assentry_session"], await csrf_of(browser)
        assert (await browser.post("/sign-out")).status_code == 403
        assert await here.accounts.identity_of_cookie(value) is not None
        reply = await browser.post("/sign-out", data={"csrf": csrf})
        assert (reply.status_code, reply.headers["location"]) == (303, "/sign-in")
        assert "assentry_session" not in browser.cookies
        assert await here.accounts.identity_of_cookie(value) is None
        assert (await browser.post("/sign-out")).status_code == 303


async def test_a_link_signs_in_once() -> None:
    async with site() as here, here.browser() as browser, here.browser() as other:
        link = await here.accounts.sign_in_link("ann")
        assert (await browser.head("/sign-in/link")).status_code == 405
        reply = await browser.post("/sign-in/link", data={"code": link})
        assert (reply.status_code, reply.headers["location"]) == (303, "/")
        assert (await browser.get("/who")).json()["name"] == "ann"
        again = await other.post("/sign-in/link", data={"code": link})
        assert again.status_code == 401 and "This link was used, or is too old" in again.text
        assert (await other.get("/who")).status_code == 401


async def test_a_link_may_be_pasted_whole() -> None:
    async with site() as here, here.browser() as browser:
        link = await here.accounts.sign_in_link("ann")
        whole = f" https://inbox.example.com/sign-in/link#{link} "
        assert (await browser.post("/sign-in/link", data={"code": whole})).status_code == 303


async def test_opening_a_link_signs_nobody_in_and_does_not_use_it_up() -> None:
    async with site() as here, here.browser() as scanner, here.browser() as browser:
        link = await here.accounts.sign_in_link("ann")
        for _ in range(3):
            reply = await scanner.get(f"/sign-in/link#{link}")
            assert reply.status_code == 200 and "set-cookie" not in reply.headers
            assert 'action="/sign-in/link"' in reply.text and 'method="post"' in reply.text
            assert reply.headers["cache-control"] == "no-store"
        assert (await scanner.get("/who")).status_code == 401
        assert (await browser.post("/sign-in/link", data={"code": link})).status_code == 303


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_link_with_its_code_in_the_path_is_refused_with_a_sentence(method: str) -> None:
    async with site() as here, here.browser() as browser:
        link = await here.accounts.sign_in_link("ann")
        reply = await browser.request(method, f"/sign-in/link/{link}")
        assert reply.status_code == 400 and "Get a new link" in reply.text and link not in reply.text
        assert "set-cookie" not in reply.headers


async def test_a_link_is_not_used_from_another_site() -> None:
    async with site() as here, here.browser() as browser:
        link = await here.accounts.sign_in_link("ann")
        headers = {"origin": "https://evil.example"}
        reply = await browser.post("/sign-in/link", data={"code": link}, headers=headers)
        assert reply.status_code == 403 and "set-cookie" not in reply.headers
        assert (await browser.post("/sign-in/link", data={"code": link})).status_code == 303


async def test_links_are_right_under_a_prefix() -> None:
    async with site() as here:
        outer = FastAPI()
        outer.mount("/assentry", here.app)
        here.app = outer
        async with here.browser(follow_redirects=False) as browser:
            assert 'action="/assentry/sign-in"' in (await browser.get("/assentry/sign-in")).text
            reply = await browser.post("/assentry/sign-in", data={"name": "ann", "password": PASSWORD})
            assert reply.headers["location"] == "/assentry/"
            csrf = (await browser.get("/assentry/who")).json()["csrf"]
            left = await browser.post("/assentry/sign-out", data={"csrf": csrf})
            assert left.headers["location"] == "/assentry/sign-in"


# -- limits ----------------------------------------------------------------------------------------


async def test_after_too_many_failures_a_name_must_wait_at_that_address(clock: FakeClock) -> None:
    async with site(clock) as here, here.browser() as browser:
        for _ in range(module.PER_NAME):
            assert (await sign_in(browser, password="wrong password")).status_code == 401
        reply = await sign_in(browser)
        assert reply.status_code == 429 and "set-cookie" not in reply.headers
        assert reply.headers["retry-after"] == "900" and "Try again in 15 minutes" in reply.text
        clock.advance(899)
        assert (await sign_in(browser)).headers["retry-after"] == "1"
        clock.advance(1)
        assert (await sign_in(browser)).status_code == 303


async def test_nobody_locks_somebody_else_out(clock: FakeClock) -> None:
    async with (
        site(clock) as here,
        here.browser(address="198.51.100.1") as own,
        here.browser(address="198.51.100.2") as new,
        here.browser(address="198.51.100.3") as stranger,
    ):
        assert (await sign_in(own)).status_code == 303
        for n in range(module.PER_NAME_ANYWHERE):
            async with here.browser(address=f"203.0.{n // 50}.{n % 50}") as browser:
                assert (await sign_in(browser, password="wrong password")).status_code == 401
            if n == module.PER_NAME:
                assert (await sign_in(new)).status_code == 303  # a few failures elsewhere stop nobody
        assert (await own.get("/who")).json()["name"] == "ann"  # who is signed in stays so
        assert (await sign_in(own)).status_code == 303  # and who has signed in here before can do so again
        assert (await sign_in(new)).status_code == 303
        reply = await sign_in(stranger)
        assert reply.status_code == 429 and reply.headers["retry-after"] == "3600"
        clock.advance(module.LONG_WINDOW)
        assert (await sign_in(stranger)).status_code == 303


async def test_an_address_that_has_signed_in_gets_no_more_guesses_than_others(clock: FakeClock) -> None:
    async with site(clock) as here, here.browser() as browser:
        assert (await sign_in(browser)).status_code == 303
        for _ in range(module.PER_NAME):
            assert (await sign_in(browser, password="wrong password")).status_code == 401
        assert (await sign_in(browser)).status_code == 429


def test_a_memory_forgets_the_oldest_key_first() -> None:
    memory = Memory()
    for n in range(MOST_KEYS + 1):
        memory.add(str(n))
        memory.add("1")
    assert "0" not in memory and "1" in memory and str(MOST_KEYS) in memory


async def test_after_too_many_failures_an_address_must_wait_whatever_the_name(clock: FakeClock) -> None:
    async with site(clock) as here, here.browser() as browser, here.browser(address="198.51.100.1") as other:
        for n in range(module.PER_ADDRESS):
            assert (await sign_in(browser, f"user {n}", "wrong password")).status_code == 401
        assert (await sign_in(browser)).status_code == 429
        assert (await sign_in(other)).status_code == 303
        clock.advance(module.WINDOW)
        assert (await sign_in(browser)).status_code == 303


async def test_one_client_does_not_get_more_attempts_by_its_many_ipv6_addresses(clock: FakeClock) -> None:
    async with site(clock) as here:
        for n in range(module.PER_ADDRESS):
            async with here.browser(address=f"2001:db8:1:2::{n:x}") as browser:
                assert (await sign_in(browser, f"user {n}", "wrong password")).status_code == 401
        async with (
            here.browser(address="2001:db8:1:2:ffff::1") as same,
            here.browser(address="2001:db8:1:3::1") as other,
        ):
            assert (await sign_in(same)).status_code == 429
            assert (await sign_in(other)).status_code == 303


async def test_clients_behind_mapped_addresses_are_counted_apart(clock: FakeClock) -> None:
    async with site(clock) as here:
        async with here.browser(address="::ffff:203.0.113.7") as browser:
            for n in range(module.PER_ADDRESS):
                await sign_in(browser, f"user {n}", "wrong password")
            assert (await sign_in(browser)).status_code == 429
        async with here.browser(address="::ffff:203.0.113.8") as other:
            assert (await sign_in(other)).status_code == 303


async def test_who_signs_in_often_never_waits(clock: FakeClock) -> None:
    async with site(clock) as here, here.browser() as browser:
        for _ in range(module.PER_ADDRESS + 1):
            assert (await sign_in(browser)).status_code == 303
        for _ in range(3):
            for _ in range(module.PER_NAME - 1):
                await sign_in(browser, password="wrong password")
            assert (await sign_in(browser)).status_code == 303
            clock.advance(module.WINDOW)


async def test_a_name_that_must_wait_is_not_checked(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site(clock) as here, here.browser() as browser:
        for _ in range(module.PER_NAME):
            await sign_in(browser, password="wrong password")

        async def never(self: Accounts, name: str, password: str) -> Any:
            raise AssertionError

        monkeypatch.setattr(Accounts, "_verified", never)
        assert (await sign_in(browser)).status_code == 429


def test_a_limit_forgets_the_oldest_key_first(clock: FakeClock) -> None:
    limit = Limit(1, 60, clock)
    for n in range(MOST_KEYS + 1):
        limit.take(str(n))
    limit.take("0")
    with pytest.raises(TooManyAttempts, match="Try again in 1 minute") as caught:
        limit.take(str(MOST_KEYS))
    assert caught.value.retry_after == 60
    limit.give_back("never")
    limit.forget("never")


# -- an authentication of the user's own -----------------------------------------------------------


class Own:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def identify(self, request: Request) -> Any:
        return self.answer


class Later(Own):
    async def identify(self, request: Request) -> Any:
        return self.answer


@pytest.mark.parametrize("kind", [Own, Later])
async def test_an_authentication_of_ones_own_may_be_asynchronous_or_not(kind: type[Own]) -> None:
    auth = kind(Identity("ann", "viewer"))
    async with Site(None, auth, inbox(auth)).browser() as browser:  # type: ignore[arg-type]
        assert (await browser.post("/who")).json()["name"] == "ann"
        auth.answer = None
        assert (await browser.get("/who")).status_code == 401
        auth.answer = "ann"
        with pytest.raises(TypeError, match="identify returns an Identity or None, got 'ann'"):
            await browser.get("/who")
        auth.answer = Identity("ann", "viewer", csrf="secret")
        assert (await browser.post("/who")).status_code == 403
        assert (await browser.post("/who", headers={"x-csrf-token": "secret"})).status_code == 200


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("https://Inbox.example.com/approvals", "https://inbox.example.com"),
        ("https://inbox.example.com:443", "https://inbox.example.com"),
        ("https://inbox.example.com:8443/", "https://inbox.example.com:8443"),
        ("http://localhost:8000", "http://localhost:8000"),
    ],
)
def test_the_address_of_an_inbox_has_an_origin(address: str, origin: str) -> None:
    assert origin_of(address) == origin


async def test_a_browser_that_knows_the_origin_is_believed_where_the_proxy_changes_the_host() -> None:
    async with site() as here, here.browser() as browser:
        await sign_in(browser)
        headers = {"x-csrf-token": await csrf_of(browser), "origin": SECURE}
        assert (await browser.post("/who", headers=headers)).status_code == 403
        assert (await browser.post("/who", headers=headers | {"sec-fetch-site": "same-origin"})).status_code == 200
