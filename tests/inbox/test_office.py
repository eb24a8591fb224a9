"""The pages of an inbox's own affairs, without a script: users, tokens, webhooks, the own account, language, damage."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request

import assentry.inbox
from assentry.inbox.accounts import FRESH, accounts_of
from assentry.inbox.identity import Identity
from assentry.inbox.webhooks import Webhooks
from assentry.store import MemoryStore, Store
from assentry.store.damage import MOST_NOTED, DamageNotes, damage_of
from assentry.testing import FakeClock
from tests.inbox.office import PASSWORD, ask_refund, hire
from tests.inbox.reader import Reader
from tests.inbox.receiver import Receiver
from tests.inbox.stores import cheap_hashes
from tests.inbox.support import routes_of
from tests.store.place import Place

__all__ = ["cheap_hashes"]  # a fixture
pytestmark = pytest.mark.usefixtures("cheap_hashes")

BASE = "https://inbox.example/approve"
CLOCK = FakeClock()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Receiver() as receiver:
        yield receiver


async def office(store: Store | None = None) -> tuple[Store, FastAPI]:
    """An inbox with people of every role; Ada and Abe are administrators."""
    made = store or MemoryStore(clock=FakeClock(1_760_000_000))
    await hire(made)
    for name in ("ada", "abe"):
        await accounts_of(made).add_user(name, "admin", PASSWORD)
    return made, assentry.inbox.app(made, base_url=BASE)


async def role_of(store: Store, name: str) -> str:
    return {user.name: user.role for user in await accounts_of(store).users()}[name]


async def is_disabled(store: Store, name: str) -> bool:
    return {user.name: user.disabled for user in await accounts_of(store).users()}[name] is not None


# -- who may -----------------------------------------------------------------------------------------------------------

MANAGING = (
    "/users", "/user?name=ben", "/tokens", "/webhooks",
)  # fmt: skip
CHANGES = (
    ("/users", {"name": "eve", "role": "admin", "password": PASSWORD}),
    ("/user", {"name": "ben", "do": "role", "role": "admin"}),
    ("/user", {"name": "ben", "do": "link"}),
    ("/user", {"name": "ben", "do": "disable"}),
    ("/user", {"name": "ben", "do": "enable"}),
    ("/user", {"name": "ben", "do": "sign-out"}),
    ("/tokens/add", {"name": "eve", "role": "admin"}),
    ("/tokens/revoke", {"id": "any"}),
    ("/webhooks/add", {"url": "https://a.example", "event": "question.asked"}),
    ("/webhooks/hook_1/test", {}),
    ("/webhooks/hook_1/enable", {}),
    ("/webhooks/hook_1/disable", {}),
    ("/webhooks/hook_1/remove", {}),
)


async def everything(store: Store) -> Any:
    accounts = accounts_of(store)
    return await accounts.users(), await accounts.tokens(), await Webhooks(store).all()


@pytest.mark.parametrize("name", ["ann", "ben", "vera"])
async def test_nobody_but_an_administrator_manages(name: str) -> None:
    store, app = await office()
    before = await everything(store)
    async with Reader(app, name) as reader:
        csrf = (await reader.open("/me")).forms[0].values["csrf"]
        for path in MANAGING:
            await reader.open(path)
            assert reader.answer.status_code == 403, path
        for path, form in CHANGES:
            await reader.send(path, {"csrf": csrf, **form})
            assert reader.answer.status_code == 403, path
        links = (await reader.open("/questions")).links()
        assert not any(link in ("/users", "/tokens", "/webhooks") for link in links) and "/me" in links
    assert await everything(store) == before


async def test_a_form_without_the_token_of_the_sign_in_changes_nothing() -> None:
    store, app = await office()
    before = await everything(store)
    async with Reader(app, "ada") as reader:
        for path, form in (*CHANGES, ("/me/password", {"old": PASSWORD}), ("/me/sign-ins", {}), ("/damage/forget", {})):
            for csrf in ({}, {"csrf": "wrong"}):
                await reader.send(path, {**csrf, **form})
                assert reader.answer.status_code == 403, path
    assert await everything(store) == before


BEFORE_SIGNING_IN = {"/sign-in", "/sign-in/link", "/sign-in/link/x", "/language"}
"""The forms of people who are not signed in: they are taken from this site's pages only."""


async def test_no_form_of_any_page_is_taken_from_a_viewer_or_without_the_token_of_the_sign_in() -> None:
    _, app = await office()
    forms = {
        re.sub(r"{\w+}", "x", each.path)
        for each in routes_of(app)
        if "POST" in each.methods and not each.include_in_schema
    }
    assert len(forms) > 20
    own = {"/me/password", "/me/sign-ins", "/sign-out", "/keys"}
    async with Reader(app, "vera") as reader, Reader(app, "ada") as ada:
        csrf = (await reader.open("/me")).forms[0].values["csrf"]
        for path in forms - BEFORE_SIGNING_IN - {"/sign-out"}:
            await ada.send(path, {})
            assert ada.answer.status_code == 403, path
            if path not in own:
                await reader.send(path, {"csrf": csrf, "type": "approve"})
                assert reader.answer.status_code in (403, 404), path  # there is no question x


async def test_nothing_is_changed_by_opening_an_address() -> None:
    store, app = await office()
    before = await everything(store)
    async with Reader(app, "ada") as reader:
        for path, form in CHANGES:
            answer = await reader.client.get(path, params=form)
            assert answer.status_code in (200, 404, 405), path
        assert (await reader.client.get("/language?language=ko")).status_code == 405
        assert "assentry_language" not in reader.client.cookies
    assert await everything(store) == before


@pytest.mark.parametrize("path", [*MANAGING, *(path for path, _ in CHANGES)])
async def test_an_api_token_manages_nothing_not_even_an_administrators(path: str) -> None:
    store, app = await office()
    token = await accounts_of(store).add_token("boss", "admin")
    before = await everything(store)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        headers = {"Authorization": f"Bearer {token}"}
        method = "GET" if path in MANAGING else "POST"
        answer = await client.request(method, path, headers=headers, data={"name": "ben", "do": "disable"})
        assert answer.status_code == 403
        page = await client.get("/me", headers=headers)
        assert page.status_code == 200 and "/me/password" not in page.text
    after = await everything(store)
    assert (after[0], after[2]) == (before[0], before[2]) and len(after[1]) == 1


async def test_an_application_with_its_own_sign_in_has_no_pages_of_accounts() -> None:
    class Own:
        def identify(self, request: Request) -> Identity:
            return Identity("root", "admin", csrf=None)

    app = assentry.inbox.app(MemoryStore(), Own())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for path in ("/users", "/user?name=root", "/tokens"):
            assert (await client.get(path)).status_code == 404
        for path in ("/me/password", "/me/sign-ins", "/users", "/tokens/add"):
            assert (await client.post(path)).status_code == 404
        menu = (await client.get("/me")).text
        assert 'href="/users"' not in menu and 'href="/tokens"' not in menu and 'href="/webhooks"' in menu
        assert "/me/password" not in menu
        assert (await client.get("/webhooks")).status_code == 200


# -- users -------------------------------------------------------------------------------------------------------------


async def test_a_user_is_added_with_a_password_or_a_link_that_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "assentry")
    store, app = await office()
    async with Reader(app, "ada") as reader:
        await reader.open("/users")
        await reader.press("Add the user", name="eve", role="reviewer", groups="finance, release ,", password=PASSWORD)
        assert reader.answer.url.path == "/user" and "sign-in/link" not in reader.page.source
        await reader.open("/users")
        await reader.press("Add the user", name="fay", role="viewer")
        [link] = re.findall(rf"{BASE}/sign-in/link#([\w-]+)", reader.page.source)
        assert link not in (await reader.open("/user?name=fay")).source
    users = {user.name: user for user in await accounts_of(store).users()}
    assert (users["eve"].role, users["eve"].groups, users["eve"].password) == ("reviewer", ("finance", "release"), True)
    assert (users["fay"].role, users["fay"].password) == ("viewer", False)
    assert await accounts_of(store).use_link(link) is not None
    assert link not in caplog.text and PASSWORD not in caplog.text
    assert "'ada' added user 'eve' as reviewer" in caplog.text
    assert "'ada' added user 'fay' as viewer" in caplog.text


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("name", "ann", "There is a user &#39;ann&#39; already."),
        ("name", "deadline", "means something else in a journal"),
        ("name", "e\u200bve", "no character that cannot be seen"),
        ("groups", "a\u202eb", "no character that cannot be seen"),
        ("role", "king", "A role is one of"),
        ("password", "short", "A password needs at least 8 characters"),
    ],
)
async def test_an_error_stands_at_its_field_and_what_was_typed_stays(field: str, value: str, said: str) -> None:
    store, app = await office()
    async with Reader(app, "ada") as reader:
        await reader.open("/users")
        good = {"name": "eve", "role": "reviewer", "groups": "finance", "password": PASSWORD}
        page = await reader.press("Add the user", **(good | {field: value}))
        assert reader.answer.status_code == 400 and said in page.source
        if value != "ann":
            assert f'id="{field}-problem" role="alert"' in page.source
        form, _ = page.button("Add the user")
        assert form.values["groups"] == (value if field == "groups" else "finance")
        assert form.values["password"] == ""
    assert "eve" not in [user.name for user in await accounts_of(store).users()]


async def test_a_role_and_groups_are_changed_and_count_at_once() -> None:
    store, app = await office()
    async with Reader(app, "ada") as reader, Reader(app, "ben") as ben:
        assert (await ben.open("/api/audit")).text and ben.answer.status_code == 403
        await reader.open("/user?name=ben")
        await reader.press("Change", role="operator", groups="finance")
        assert (await role_of(store, "ben")) == "operator"
        await ben.open("/api/audit")
        assert ben.answer.status_code == 200
        page = await reader.open("/user?name=ben")
        assert page.button("Change")[0].values["groups"] == "finance"


async def test_a_user_is_disabled_and_enabled_again() -> None:
    store, app = await office()
    token = await accounts_of(store).add_token("ben", "reviewer")
    async with Reader(app, "ada") as reader, Reader(app, "ben") as ben:
        await reader.open("/user?name=ben")
        await reader.press("Disable the user")
        assert await is_disabled(store, "ben")
        await ben.open("/questions")
        assert ben.answer.url.path == "/sign-in"
        assert await accounts_of(store).identity_of_token(token) is None
        await reader.open("/user?name=ben")
        await reader.press("Enable the user", role="admin")
        assert not await is_disabled(store, "ben") and await role_of(store, "ben") == "reviewer"


async def test_a_user_is_signed_out_everywhere_and_may_come_back() -> None:
    store, app = await office()
    link = await accounts_of(store).sign_in_link("ben")
    async with Reader(app, "ada") as reader, Reader(app, "ben") as ben:
        await reader.open("/user?name=ben")
        await reader.press("Sign out everywhere")
        await ben.open("/questions")
        assert ben.answer.url.path == "/sign-in"
        assert await accounts_of(store).use_link(link) is None
        assert await accounts_of(store).check_password("ben", PASSWORD) is not None
        assert "Sign in" not in (await reader.open("/users")).text  # the administrator is still here


async def test_nobody_changes_the_own_role_so_the_last_administrator_stays_one() -> None:
    store, app = await office()
    async with Reader(app, "ada") as reader:
        page = await reader.open("/user?name=ada")
        assert "This is your own account" in page.text
        csrf = page.forms[0].values["csrf"]
        for form in ({"do": "role", "role": "viewer"}, {"do": "disable"}, {"do": "link"}, {"do": "sign-out"}):
            page = await reader.send("/user", {"csrf": csrf, "name": "ada", **form})
            assert reader.answer.status_code == 403 and "another administrator changes it" in page.text
        assert await role_of(store, "ada") == "admin" and not await is_disabled(store, "ada")


async def test_of_two_administrators_who_disable_each_other_one_stays(place: Place) -> None:
    async with place.store() as store:
        accounts = accounts_of(store)
        for name in ("ada", "abe"):
            await accounts.add_user(name, "admin")
        await accounts.disable_user("abe", by="ada")
        for change in (
            accounts.disable_user("ada", by="abe"),
            accounts.set_role("ada", "viewer", by="abe"),
            accounts.add_user("eve", "admin", by="abe"),
            accounts.add_token("eve", "admin", by="abe"),
            accounts.sign_in_link("ada", by="abe"),
            accounts.enable_user("abe", by="abe"),
        ):
            with pytest.raises(assentry.Forbidden, match="abe is no administrator any more"):
                await change
        assert await role_of(store, "ada") == "admin" and not await is_disabled(store, "ada")
        assert [user.name for user in await accounts.users()] == ["abe", "ada"]


async def test_a_user_that_is_not_there_is_said_to_be_missing() -> None:
    _, app = await office()
    async with Reader(app, "ada") as reader:
        await reader.open("/user?name=nobody")
        assert reader.answer.status_code == 404
        csrf = (await reader.open("/users")).forms[0].values["csrf"]
        await reader.send("/user", {"csrf": csrf, "name": "nobody", "do": "disable"})
        assert reader.answer.status_code == 404


async def test_an_old_sign_in_is_asked_for_the_password_before_a_change_of_weight() -> None:
    clock = FakeClock(1_760_000_000)
    store, app = await office(MemoryStore(clock=clock))
    async with Reader(app, "ada") as reader:
        assert "Your own password" not in (await reader.open("/users")).text
        clock.advance(FRESH / 1000)
        for path, button, form in (
            ("/users", "Add the user", {"name": "eve", "role": "admin", "password": PASSWORD}),
            ("/user?name=ben", "Change", {"role": "admin"}),
            ("/user?name=ben", "Make a sign-in link", {}),
            ("/tokens", "Make the token", {"name": "bot", "role": "admin"}),
            ("/webhooks", "Add the webhook", {"url": "https://a.example"}),
        ):
            before = await everything(store)
            for given in ({}, {"own_password": "wrong password"}):
                await reader.open(path)
                page = await reader.press(button, **form, **given)
                assert reader.answer.status_code == 400 and "This is not your password." in page.text, path
                assert 'id="own_password-problem"' in page.source and "sign-in/link#" not in page.source
            assert await everything(store) == before
            await reader.open(path)
            await reader.press(button, **form, own_password=PASSWORD)
            assert reader.answer.status_code == 200, path
        assert await role_of(store, "ben") == "admin"
        await reader.open("/user?name=vera")
        await reader.press("Disable the user")  # to stop somebody must be quick
        assert await is_disabled(store, "vera")


# -- tokens ------------------------------------------------------------------------------------------------------------


async def test_a_token_is_shown_once_and_never_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "assentry")
    store, app = await office()
    async with Reader(app, "ada") as reader:
        await reader.open("/tokens")
        page = await reader.press("Make the token", name="deploy-bot", role="agent", groups="ops", ends="30")
        [text] = re.findall(r"assentry_[0-9a-f]{16}_[\w-]+", page.source)
        identity = await accounts_of(store).identity_of_token(text)
        assert identity == Identity("deploy-bot", "agent", ("ops",))
        for path in ("/tokens", "/users", "/me"):
            assert text not in (await reader.open(path)).source
        [token] = await accounts_of(store).tokens()
        assert token.until is not None and token.until - token.made == 30 * 24 * 3600 * 1000
        await reader.open("/tokens")
        await reader.press("Revoke")
        assert await accounts_of(store).identity_of_token(text) is None
        assert "1 token that has ended" in reader.page.text
    secret = text.split("_", 2)[2]
    assert secret not in caplog.text
    assert f"'ada' made API token {token.id} for 'deploy-bot' as agent" in caplog.text
    assert f"'ada' revoked API token {token.id}" in caplog.text


async def test_no_token_is_made_in_the_name_of_another_user() -> None:
    store, app = await office()
    async with Reader(app, "ada") as reader:
        await reader.open("/tokens")
        page = await reader.press("Make the token", name="ben", role="reviewer")
        assert reader.answer.status_code == 403 and "would act for that user" in page.text
        assert await accounts_of(store).tokens() == []
        await reader.open("/tokens")
        await reader.press("Make the token", name="ada", role="viewer")
        assert [token.name for token in await accounts_of(store).tokens()] == ["ada"]


# -- webhooks ----------------------------------------------------------------------------------------------------------


async def test_a_webhook_is_added_tested_disabled_and_removed(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "assentry")
    store, app = await office()
    async with Reader(app, "ada") as reader:
        await reader.open("/webhooks")
        page = await reader.press("Add the webhook", url=f"{receiver.url}/services/a-secret-path", format="chat")
        [hook] = await Webhooks(store).all()
        assert hook.secret in page.source and hook.format == "chat"
        page = await reader.open("/webhooks")
        assert hook.secret not in page.source and "a-secret-path" not in page.source
        page = await reader.press("Test")
        assert "The test has arrived." in page.text
        assert receiver.got[0].json["text"].endswith(f"\n{BASE}/questions")
        receiver.answers = [500]
        page = await reader.press("Test")
        assert "The test failed: it answered 500" in page.text
        await reader.press("Disable")
        assert "Off since" in reader.page.text and "ada disabled it" in reader.page.text
        await reader.press("Enable")
        assert "Off since" not in reader.page.text
        await reader.press("Remove")
        assert await Webhooks(store).all() == [] and "No webhooks." in reader.page.text
    assert hook.secret not in caplog.text and "a-secret-path" not in caplog.text
    assert f"'ada' added webhook {hook.id} to 127.0.0.1" in caplog.text
    assert f"'ada' removed webhook {hook.id}" in caplog.text


@pytest.mark.parametrize(
    "url", ["http://other.example/x", "ftp://a.example", "https://me:you@a.example", "javascript:alert(1)", ""]
)
async def test_a_page_takes_no_address_that_the_command_line_refuses(url: str) -> None:
    store, app = await office()
    async with Reader(app, "ada") as reader:
        await reader.open("/webhooks")
        page = await reader.press("Add the webhook", url=url, allow_http="on")
        assert reader.answer.status_code == 400 and 'id="url-problem"' in page.source
        page = await reader.fill("Add the webhook", {"url": "https://a.example", "event": None})
        assert reader.answer.status_code == 400 and "Choose at least one event." in page.text
    assert await Webhooks(store).all() == []


async def test_why_messages_do_not_arrive_is_on_the_page(receiver: Receiver, place: Place) -> None:
    from assentry.inbox.dispatch import Dispatcher

    async with place.store() as store:
        await Webhooks(store).add(receiver.url)
        await ask_refund(store)
        receiver.answers = [503]
        await Dispatcher(store).send_due()
        _, app = await office(store)
        async with Reader(app, "ada") as reader:
            page = await reader.open("/webhooks")
            assert "1 message waits" in page.text and "The last attempt failed: it answered 503" in page.text
            await reader.press("Test")
        with pytest.raises(AssertionError):
            page.button("Enable")


# -- the own account ---------------------------------------------------------------------------------------------------


async def test_the_own_password_is_changed_and_other_sign_ins_end() -> None:
    store, app = await office()
    new = "another horse battery"
    async with Reader(app, "ben") as here, Reader(app, "ben") as elsewhere:
        await here.open("/me")
        page = await here.press("Change the password", old=PASSWORD, new=new, again=new)
        assert here.answer.url.path == "/me" and "Your password is changed." in page.text
        await elsewhere.open("/questions")
        assert elsewhere.answer.url.path == "/sign-in"
        assert (await here.open("/questions")) and here.answer.url.path == "/questions"
    assert await accounts_of(store).check_password("ben", new) is not None
    assert await accounts_of(store).check_password("ben", PASSWORD) is None


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("old", "wrong password", "This is not your password."),
        ("old", "", "This is not your password."),
        ("again", "something else", "The two passwords differ."),
        ("new", "ben", ""),
    ],
)
async def test_a_password_that_is_refused_is_said_at_its_field(field: str, value: str, said: str) -> None:
    store, app = await office()
    new = "another horse battery"
    async with Reader(app, "ben") as reader:
        await reader.open("/me")
        values = {"old": PASSWORD, "new": new, "again": new} | {field: value}
        if field == "new":
            values["again"] = value
        page = await reader.press("Change the password", **values)
        assert reader.answer.status_code == 400 and said in page.text and f'id="{field}-problem"' in page.source
        assert new not in page.source
    assert await accounts_of(store).check_password("ben", PASSWORD) is not None


async def test_guesses_of_the_own_password_are_limited() -> None:
    _, app = await office()
    async with Reader(app, "ben") as reader:
        statuses = []
        for _ in range(12):
            await reader.open("/me")
            await reader.press("Change the password", old="a guess of it", new="n" * 12, again="n" * 12)
            statuses.append(reader.answer.status_code)
    assert statuses[0] == 400 and statuses[-1] == 429


async def test_whoever_signed_in_by_a_link_sets_a_password() -> None:
    clock = FakeClock(1_760_000_000)
    store, app = await office(MemoryStore(clock=clock))
    await accounts_of(store).add_user("fay", "reviewer")
    new = "another horse battery"
    async with Reader(app, None) as reader:
        await reader.open("/sign-in/link")
        await reader.press("Sign in", code=f"#{await accounts_of(store).sign_in_link('fay')}")
        await reader.open("/me")
        clock.advance(FRESH / 1000)
        page = await reader.press("Change the password", new=new, again=new)
        assert reader.answer.status_code == 400 and "Get a new sign-in link first" in page.text
        clock.advance(-FRESH / 1000)
        await reader.open("/me")
        await reader.press("Change the password", new=new, again=new)
    assert await accounts_of(store).check_password("fay", new) is not None


async def test_own_sign_ins_are_listed_and_ended_one_or_all_and_nobody_elses() -> None:
    _, app = await office()
    async with (
        Reader(app, "ben") as here,
        Reader(app, "ben") as phone,
        Reader(app, "ben") as other,
        Reader(app, "ann") as ann,
    ):
        page = await here.open("/me")
        assert page.text.count("another browser") == 2 and page.source.count(">this browser<") == 1
        ids = [form.values["id"] for form in page.forms if "id" in form.values]
        csrf = (await ann.open("/me")).forms[0].values["csrf"]
        for id in ids:
            await ann.send("/me/sign-ins", {"csrf": csrf, "id": id})
        assert (await here.open("/me")).text.count("another browser") == 2
        await here.press("End")
        assert here.page.text.count("another browser") == 1
        await here.press("End")
        assert "another browser" not in here.page.text
        for reader, path in ((phone, "/sign-in"), (other, "/sign-in"), (here, "/questions"), (ann, "/questions")):
            await reader.open("/questions")
            assert reader.answer.url.path == path
        async with Reader(app, "ben"):
            await here.open("/me")
            await here.press("End all others")
            assert here.page.text.count("another browser") == 0


# -- the language ------------------------------------------------------------------------------------------------------


async def test_a_language_is_chosen_before_signing_in_and_leads_back() -> None:
    _, app = await office()
    async with Reader(app, None) as reader:
        await reader.open("/questions")
        await reader.press("日本語")
        assert reader.answer.url.path == "/sign-in" and 'lang="ja"' in reader.page.source
        assert dict(reader.answer.url.params) == {"next": "/questions"}
        cookie = reader.answer.history[0].headers["set-cookie"]
        assert cookie.startswith("assentry_language=ja;") and "HttpOnly" in cookie and "SameSite=lax" in cookie
        assert "Path=/;" in cookie and "Secure" not in cookie


async def test_a_language_is_chosen_in_the_menu_of_every_page() -> None:
    _, app = await office()
    async with Reader(app, "ben") as reader:
        await reader.open("/runs?agent=x")
        await reader.press("한국어")
        assert reader.answer.url.path == "/runs" and reader.answer.url.query == b"agent=x"
        assert '<html lang="ko"' in reader.page.source
        await reader.press("English")
        assert '<html lang="en"' in reader.page.source


@pytest.mark.parametrize(
    "next", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "questions", "", "/ö"]
)
async def test_choosing_a_language_leads_to_no_other_site(next: str) -> None:
    _, app = await office()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        answer = await client.post("/language", data={"language": "zh", "next": next})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_the_language_behind_a_proxy_belongs_to_the_inbox_alone() -> None:
    _, app = await office()
    transport = httpx.ASGITransport(app, root_path="/approve")
    async with httpx.AsyncClient(transport=transport, base_url="https://inbox.example") as client:
        answer = await client.post("/approve/language", data={"language": "zh", "next": "/other"})
        assert answer.headers["location"] == "/approve/"
        cookie = answer.headers["set-cookie"]
        assert "Path=/approve;" in cookie and "Secure" in cookie
        for data, headers in (
            ({"language": "xx"}, {}),
            ({}, {}),
            ({"language": "ko"}, {"Origin": "https://evil.example"}),
            ({"language": "ko"}, {"Sec-Fetch-Site": "cross-site"}),
        ):
            answer = await client.post("/approve/language", data=data, headers=headers)
            assert answer.status_code in (400, 403) and "set-cookie" not in answer.headers


# -- damage ------------------------------------------------------------------------------------------------------------


async def test_operators_are_told_of_a_damaged_row_on_every_page(place: Place) -> None:
    async with place.store() as store:
        _, app = await office(store)
        question = await ask_refund(store)
        async with Reader(app, "ann") as ann, Reader(app, "ben") as ben:
            assert "damaged" not in (await ann.open("/runs")).source.split("</header>")[1]
            assert "No damage was found." in (await ann.open("/damage")).text
            place.execute("UPDATE assentry_questions SET arguments = '{}'")
            await ben.open("/questions")
            for path in ("/runs", "/questions", "/me", "/audit", "/grants"):
                assert "1 damaged row of the store was refused." in (await ann.open(path)).text, path
                assert "damaged row" not in (await ben.open(path)).text.replace("damaged question left out", ""), path
            text = (await ann.open("/damage")).text
            assert question.id in text and "assentry db verify" in text and "assentry db rebuild" in text
            await ben.open("/damage")
            assert ben.answer.status_code == 403
            assert 'assentry_damaged_rows_total{kind="question"} 1' in (await ann.open("/metrics")).source
            await ann.open("/damage")
            await ann.press("It is repaired")
            assert "No damage was found." in ann.page.text
            await ann.open("/questions")
            assert "1 damaged row of the store" in (await ann.open("/runs")).text  # it was not
            await store.rebuild()
            await ann.open("/damage")
            await ann.press("It is repaired")
            assert "damaged row of" not in (await ann.open("/questions")).text


async def test_a_damaged_webhook_message_and_account_are_noted(place: Place) -> None:
    from assentry.inbox.dispatch import Dispatcher

    async with place.store() as store:
        _, app = await office(store)
        hook = await Webhooks(store).add("https://a.example")
        await ask_refund(store)
        place.execute("UPDATE assentry_outbox SET body = 'x'")
        await Dispatcher(store).send_due()
        place.execute("UPDATE assentry_webhooks SET events = 'x'")
        await Webhooks(store).all()
        async with Reader(app, "ada") as reader:
            place.execute("UPDATE assentry_users SET groups = 'x' WHERE name = 'ben'")
            await reader.open("/users")
            assert reader.answer.status_code == 422
            place.execute("UPDATE assentry_users SET groups = NULL WHERE name = 'ben'")
            text = (await reader.open("/damage")).text
        for words in (f"Webhook '{hook.id}' is damaged", "in the outbox is damaged", "The groups of a user"):
            assert words in text
        assert [row.kind for row in damage_of(store).rows] == ["message", "webhook", "other"]


async def test_operators_are_told_of_a_damaged_standing_grant(place: Place) -> None:
    async with place.store() as store:
        _, app = await office(store)
        grant = await store.give_standing_grant((await ask_refund(store)).id, by="ada")
        async with Reader(app, "ann") as ann:
            place.execute("UPDATE assentry_standing_grants SET max_uses = 99")
            assert await store.grants_for([grant.tool]) == []
            assert "1 damaged row of the store was refused." in (await ann.open("/runs")).text
            await ann.open("/grants")
            assert "1 damaged row of the store was refused." in (await ann.open("/damage")).text
            assert grant.id in ann.page.text and "log of standing grants" in ann.page.text


def test_each_damaged_row_is_noted_once_and_only_so_many_are_named() -> None:
    notes = DamageNotes()
    for n in range(MOST_NOTED + 50):
        notes.note("question", f"row {n}", n)
        notes.note("question", "row 0", n)
    assert len(notes.rows) == MOST_NOTED and notes.rows[0].at == 0
    assert notes.count == notes.total["question"] == MOST_NOTED + 50
    notes.forget()
    assert (notes.rows, notes.count, notes.total["question"]) == ([], 0, MOST_NOTED + 50)


# -- what is new -------------------------------------------------------------------------------------------------------


async def test_what_is_new_is_for_whoever_may_decide_it_and_tells_no_secret() -> None:
    from assentry.testing import call
    from tests.inbox.office import ask

    clock = FakeClock(1_760_000_000)
    store, app = await office(MemoryStore(clock=clock))
    since = int(clock() * 1000)
    clock.advance(5)
    key = await ask(store, "Ops", call("use_key", {"key": "hunter-2-hunter", "where": "vault"}), by="ann")
    released = await ask(store, "Repo", call("run_command", {"command": "ls"}))
    async with (
        Reader(app, "ann") as ann,
        Reader(app, "ben") as ben,
        Reader(app, "vera") as vera,
        Reader(app, None) as no,
    ):
        seen = {}
        for reader in (ann, ben, vera):
            await reader.open(f"/questions/new?after={since}")
            assert "hunter-2" not in reader.page.source
            seen[reader.name] = [each["id"] for each in reader.answer.json()["questions"]]
        assert seen == {"ann": [released.id], "ben": [key.id], "vera": []}
        for query in ("", "?after=x", f"?after={since + 9_000_000}"):
            assert (await ben.open(f"/questions/new{query}")) and ben.answer.json()["questions"] == []
        await no.open("/questions/new?after=0")
        assert no.answer.url.path == "/sign-in"
        clock.advance(3600)
        await ben.open(f"/questions/new?after={since}")
        assert ben.answer.json()["questions"] == []
