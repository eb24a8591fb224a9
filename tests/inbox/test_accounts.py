"""Users, tokens and sign-ins: who somebody is, and from when on they are nobody."""

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from assentry import Forbidden, NotFound, UnreadableState, UsageError
from assentry.inbox import accounts as module
from assentry.inbox.accounts import Accounts, accounts_of
from assentry.inbox.identity import ROLES, Identity
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.testing import FakeClock
from tests.inbox.stores import cheap_hashes, clock, each_store

__all__ = ["cheap_hashes", "clock", "each_store"]

pytestmark = pytest.mark.usefixtures("cheap_hashes")

COSTLY = module._hasher

PASSWORD = "correct horse battery"
OTHER = "staple of another horse"
DAY = 24 * 3600


# -- users -----------------------------------------------------------------------------------------


async def test_a_user_is_known_by_name_and_password(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "reviewer", PASSWORD, groups=["finance", "finance", "ops"])
        assert await accounts.check_password("ann", PASSWORD) == Identity("ann", "reviewer", ("finance", "ops"))
        for name, password in (("ann", OTHER), ("ann", ""), ("Ann", PASSWORD), ("bob", PASSWORD), ("", PASSWORD)):
            assert await accounts.check_password(name, password) is None
        [user] = await accounts.users()
        assert (user.name, user.role, user.groups, user.password, user.disabled) == (
            "ann",
            "reviewer",
            ("finance", "ops"),
            True,
            None,
        )


async def test_the_same_store_has_the_same_accounts(each_store: Store) -> None:
    async with each_store as store:
        await accounts_of(store).add_user("ann", "viewer", PASSWORD)
        assert [user.name for user in await accounts_of(store).users()] == ["ann"]


async def test_accounts_in_a_file_are_there_after_a_restart(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        await accounts_of(store).add_user("ann", "viewer", PASSWORD)
        token = await accounts_of(store).add_token("robot", "agent")
        cookie = await accounts_of(store).sign_in("ann")
    async with SQLiteStore(tmp_path / "runs.db") as store:
        accounts = accounts_of(store)
        assert await accounts.identity_of_token(token) == Identity("robot", "agent")
        signed_in = await accounts.identity_of_cookie(cookie)
        assert signed_in is not None and signed_in.name == "ann"


async def test_accounts_in_memory_end_with_their_store() -> None:
    store = MemoryStore()
    await accounts_of(store).add_user("ann", "viewer")
    known, accounts = weakref.ref(store), weakref.ref(accounts_of(store))
    del store
    gc.collect()
    assert known() is None and accounts() is None


async def test_a_store_of_another_kind_needs_its_own_authentication() -> None:
    class Other:
        pass

    with pytest.raises(UsageError, match="A Other has no table of users"):
        accounts_of(Other())  # type: ignore[arg-type]


async def test_no_secret_is_stored(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "viewer", PASSWORD)
        secrets = [PASSWORD, await accounts.add_token("robot", "agent"), await accounts.sign_in("ann")]
        secrets.append(await accounts.sign_in_link("ann"))
        await store.vacuum()
    stored = _bytes_in(tmp_path)
    assert b"$argon2id$" in stored
    for secret in (*secrets, secrets[1].split("_", 2)[2]):
        assert secret.encode() not in stored


def _bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_two_users_with_one_password_have_different_hashes(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        for name in ("ann", "bea"):
            await accounts_of(store).add_user(name, "viewer", PASSWORD)
        hashes = await store._read(lambda transaction: [row[3] for row in transaction.rows(module.sql.USERS)])
        assert len(set(hashes)) == 2


async def test_a_name_is_given_once(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "viewer", PASSWORD)
        with pytest.raises(UsageError, match="There is a user 'ann' already"):
            await accounts.add_user("ann", "admin", OTHER)
        assert await accounts.check_password("ann", PASSWORD) == Identity("ann", "viewer")
        assert await accounts.check_password("ann", OTHER) is None


async def test_of_many_who_add_one_name_at_once_one_succeeds(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        ends = await asyncio.gather(
            *(accounts.add_user("ann", "viewer", groups=[str(n)]) for n in range(8)), return_exceptions=True
        )
        assert ends.count(None) == 1 and sum(isinstance(end, UsageError) for end in ends) == 7


BAD_NAMES: list[Any] = [
    "",
    " ",
    "\u200b",
    "\u3164",
    " ann",
    "ann ",
    "an\nn",
    "ann\x00",
    "ann\u202e",
    "an\u200bn",
    "\udc80",
    "a\u0301nn",
    "x" * 101,
    "group:finance",
    "Group:finance",
    "grant:g_1",
    "rule",
    "Deadline",
    None,
    7,
    b"ann",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
async def test_a_name_that_could_be_mistaken_is_refused(name: Any) -> None:
    accounts = accounts_of(store := MemoryStore())
    for add in (accounts.add_user, accounts.add_token):
        with pytest.raises(UsageError, match="A name"):
            await add(name, "viewer")
    if isinstance(name, str):
        with pytest.raises(UsageError, match="A group's name"):
            await accounts.add_user("ann", "viewer", groups=[name])
    assert await accounts.users() == [] and await accounts.tokens() == []
    await store.close()


@pytest.mark.parametrize("name", ["tool", "Runtime", "server:files", "probe", "on_change"])
async def test_a_name_that_the_journal_has_for_its_own_authors_is_nobodys(name: str) -> None:
    accounts = accounts_of(store := MemoryStore())
    for add in (accounts.add_user, accounts.add_token):
        with pytest.raises(UsageError, match="means something else in a journal"):
            await add(name, "reviewer")
    await accounts.add_user("ann", "viewer", groups=[name])
    await store.close()


@pytest.mark.parametrize("role", ["", "Admin", "root", None, 1, ["admin"]])
async def test_a_role_that_is_none_is_refused(role: Any) -> None:
    accounts = accounts_of(store := MemoryStore())
    for add in (accounts.add_user, accounts.add_token):
        with pytest.raises(UsageError, match="A role is one of viewer, reviewer, operator, admin, agent"):
            await add("ann", role)
    await store.close()


async def test_a_text_in_place_of_groups_is_refused() -> None:
    accounts = accounts_of(store := MemoryStore())
    with pytest.raises(UsageError, match="Groups are a list of names, got 'finance'"):
        await accounts.add_user("ann", "viewer", groups="finance")
    await store.close()


BAD_PASSWORDS: list[tuple[Any, str]] = [
    ("", "at least 8 characters; this one has 0"),
    ("short12", "at least 8 characters; this one has 7"),
    ("x" * 1001, "at most 1000 characters"),
    ("aaaaaaaaaaaa", "too easy"),
    ("abababababab", "too easy"),
    ("Ann-Example", "too easy"),
    ("\udc80" * 12, "must be text"),
    (12345678, "must be text"),
    (b"correct horse", "must be text"),
]


@pytest.mark.parametrize(("password", "why"), BAD_PASSWORDS)
async def test_a_weak_password_is_refused_and_never_repeated(password: Any, why: str) -> None:
    accounts = accounts_of(store := MemoryStore())
    with pytest.raises(UsageError, match=why) as caught:
        await accounts.add_user("ann-example", "viewer", password)
    assert not password or str(password) not in str(caught.value)
    assert await accounts.users() == []
    await accounts.add_user("ann-example", "viewer", PASSWORD)
    with pytest.raises(UsageError, match=why):
        await accounts.set_password("ann-example", password)
    assert await accounts.check_password("ann-example", PASSWORD) is not None
    await store.close()


async def test_a_password_is_the_same_however_its_characters_are_composed() -> None:
    accounts = accounts_of(store := MemoryStore())
    await accounts.add_user("ann", "viewer", "cafe\u0301-creme")
    assert await accounts.check_password("ann", "caf\u00e9-creme") is not None
    await store.close()


@pytest.mark.parametrize("password", [None, 7, b"x", "\udc80", "x" * 100_000])
async def test_a_password_that_can_be_none_is_nobodys(password: Any) -> None:
    accounts = accounts_of(store := MemoryStore())
    await accounts.add_user("ann", "viewer", PASSWORD)
    assert await accounts.check_password("ann", password) is None
    assert await accounts.check_password(password, PASSWORD) is None
    await store.close()


async def test_a_user_without_a_password_signs_in_by_link_only() -> None:
    accounts = accounts_of(store := MemoryStore())
    await accounts.add_user("ann", "viewer")
    for password in ("", PASSWORD):
        assert await accounts.check_password("ann", password) is None
    assert not (await accounts.users())[0].password
    assert await accounts.use_link(await accounts.sign_in_link("ann")) is not None
    await store.close()


async def test_a_damaged_hash_is_nobodys_password(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "viewer", PASSWORD)
        await store._write(lambda transaction: module.sql.change_user(transaction, "ann", password="plain", stamp="s"))
        assert await accounts.check_password("ann", "plain") is None


@pytest.mark.parametrize("groups", ["x", "[1]", "{}"])
async def test_groups_in_the_table_that_are_none_let_nobody_in(tmp_path: Path, groups: str) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "viewer", PASSWORD)
        cookie = await accounts.sign_in("ann")
        await store._write(lambda transaction: module.sql.change_user(transaction, "ann", role="viewer", groups=groups))
        with pytest.raises(UnreadableState, match="The groups of a user or a token are damaged"):
            await accounts.identity_of_cookie(cookie)


async def test_a_role_in_the_table_that_is_none_is_nobodys(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "viewer", PASSWORD)
        cookie = await accounts.sign_in("ann")
        await store._write(lambda transaction: module.sql.change_user(transaction, "ann", role="root", groups=None))
        assert await accounts.check_password("ann", PASSWORD) is None
        assert await accounts.identity_of_cookie(cookie) is None


def test_a_hash_costs_what_the_standard_recommends() -> None:
    assert (COSTLY.type.name, COSTLY.memory_cost, COSTLY.time_cost) == ("ID", 65536, 3)  # RFC 9106, section 4
    assert COSTLY.verify(COSTLY.hash(PASSWORD), PASSWORD)


async def test_a_hash_is_checked_even_if_there_is_no_such_user(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = accounts_of(store := MemoryStore())
    await accounts.add_user("ann", "viewer", PASSWORD)
    await accounts.add_user("bea", "viewer")
    await accounts.add_user("eve", "viewer", PASSWORD)
    await accounts.disable_user("eve")
    checked: list[str] = []
    hasher = module._hasher

    class Watched:
        def verify(self, hash: str, password: str) -> Any:
            checked.append(threading.current_thread().name)
            assert hash.split("$")[1:4] == hashed.split("$")[1:4]  # the same costs
            return hasher.verify(hash, password)

    hashed = hasher.hash("x")
    module._decoy()
    monkeypatch.setattr(module, "_hasher", Watched())
    for name in ("ann", "bea", "eve", "nobody", "\udc80"):
        await accounts.check_password(name, OTHER)
    assert len(checked) == 5
    assert threading.current_thread().name not in checked  # the event loop goes on meanwhile
    await store.close()


# -- tokens ----------------------------------------------------------------------------------------


async def test_a_token_is_somebody_until_it_is_revoked(each_store: Store, clock: FakeClock) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        text = await accounts.add_token("robot", "agent", groups=["ops"])
        id = text.split("_")[1]
        assert text.startswith("assentry_") and len(text) > 60
        assert await accounts.identity_of_token(text) == Identity("robot", "agent", ("ops",))
        clock.advance(1000)
        assert await accounts.identity_of_token(text) is not None
        [token] = await accounts.tokens()
        assert (token.id, token.name, token.until, token.revoked) == (id, "robot", None, None)
        assert token.used == int(clock() * 1000)
        await accounts.revoke_token(id)
        assert await accounts.identity_of_token(text) is None
        first = (await accounts.tokens())[0].revoked
        clock.advance(5)
        await accounts.revoke_token(id)
        assert (await accounts.tokens())[0].revoked == first is not None


async def test_a_token_expires(each_store: Store, clock: FakeClock) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        text = await accounts.add_token("ci", "operator", expires_in=60)
        clock.advance(59.5)
        assert await accounts.identity_of_token(text) is not None
        clock.advance(0.5)
        assert await accounts.identity_of_token(text) is None


@pytest.mark.parametrize("expires_in", [-1, float("nan"), float("inf"), "1d"])
async def test_a_token_expires_after_a_number_of_seconds(expires_in: Any) -> None:
    accounts = accounts_of(store := MemoryStore())
    with pytest.raises(UsageError, match="expires_in is a number of seconds"):
        await accounts.add_token("ci", "viewer", expires_in=expires_in)
    await store.close()


async def test_a_changed_token_is_nobodys(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        text = await accounts.add_token("robot", "agent")
        other = await accounts.add_token("boss", "admin")
        mark, id, secret = text.split("_", 2)
        forged: list[Any] = [
            text[:-1],
            text + "x",
            text[:-1] + ("A" if text[-1] != "A" else "B"),
            f"{mark}_{other.split('_')[1]}_{secret}",
            f"{mark}_{id}_",
            f"{mark}_{id}",
            f"{mark}__{secret}",
            f"other_{id}_{secret}",
            text.upper(),
            f" {text}",
            "",
            "_",
            "assentry_%_%",
            "assentry_' OR 1=1 --_x",
            "assentry_\udc80_x",
            "assentry_x\u00e4_y",
            "assentry_" + "x" * 100_000,
            None,
            7,
            text.encode(),
        ]
        for each in forged:
            assert await accounts.identity_of_token(each) is None
        assert await accounts.identity_of_token(text) is not None


async def test_a_token_with_a_users_name_ends_with_the_user(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "operator")
        text = await accounts.add_token("ann", "reviewer")
        assert await accounts.identity_of_token(text) == Identity("ann", "reviewer")
        await accounts.disable_user("ann")
        assert await accounts.identity_of_token(text) is None
        await accounts.enable_user("ann")
        assert await accounts.identity_of_token(text) is not None


@pytest.mark.parametrize("id", ["nope", "", None, "\udc80"])
async def test_revoking_a_token_that_is_none_says_so(id: Any) -> None:
    accounts = accounts_of(store := MemoryStore())
    with pytest.raises(NotFound, match="There is no token"):
        await accounts.revoke_token(id)
    await store.close()


async def test_an_agent_may_start_runs_and_never_decides() -> None:
    accounts = accounts_of(store := MemoryStore())
    for role in ROLES:
        identity = await accounts.identity_of_token(await accounts.add_token(f"a {role}", role))
        assert identity is not None and identity.csrf is None
        decides = role in ("reviewer", "operator", "admin")
        assert identity.may("decide") is decides
        if not decides:
            with pytest.raises(Forbidden, match=f"a {role} is an? {role}, and may not decide here"):
                identity.decider()
    await store.close()


# -- sign-ins --------------------------------------------------------------------------------------


async def _signed_in(accounts: Accounts, name: str = "ann") -> str:
    await accounts.add_user(name, "reviewer", PASSWORD, groups=["ops"])
    return await accounts.sign_in(name)


async def test_a_cookie_is_a_user_with_a_csrf_token_of_its_own(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        first = await _signed_in(accounts)
        second = await accounts.sign_in("ann")
        one, two = await accounts.identity_of_cookie(first), await accounts.identity_of_cookie(second)
        assert one is not None and two is not None
        assert (one.name, one.role, one.groups) == ("ann", "reviewer", ("ops",))
        assert one.csrf and two.csrf and one.csrf != two.csrf and one.csrf not in (first, second)
        await accounts.sign_out(first)
        assert await accounts.identity_of_cookie(first) is None
        assert await accounts.identity_of_cookie(second) is not None


async def test_a_forged_cookie_is_nobodys(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        cookie = await _signed_in(accounts)
        link = await accounts.sign_in_link("ann")
        token = await accounts.add_token("ann", "admin")
        hash = module._digest("cookie", cookie)
        forged: list[Any] = ["", "ann", cookie[:-1], cookie + "x", cookie.swapcase(), hash, link, token, "\udc80"]
        for each in [*forged, "x" * 100_000, "\u00e4", None, 7, cookie.encode()]:
            assert await accounts.identity_of_cookie(each) is None
            await accounts.sign_out(each)
        assert await accounts.identity_of_token(cookie) is None
        assert await accounts.use_link(cookie) is None
        assert await accounts.identity_of_cookie(cookie) is not None


async def test_a_new_password_ends_every_sign_in_and_link(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        cookies = [await _signed_in(accounts), await accounts.sign_in("ann")]
        others = await _signed_in(accounts, "bea")
        link = await accounts.sign_in_link("ann")
        await accounts.set_password("ann", OTHER)
        for cookie in cookies:
            assert await accounts.identity_of_cookie(cookie) is None
        assert await accounts.use_link(link) is None
        assert await accounts.identity_of_cookie(others) is not None
        assert await accounts.check_password("ann", PASSWORD) is None
        assert await accounts.check_password("ann", OTHER) is not None


async def test_a_row_of_a_sign_in_that_outlives_the_password_is_worth_nothing(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "runs.db") as store:
        accounts = accounts_of(store)
        cookie = await _signed_in(accounts)
        [row] = await store._read(lambda transaction: [sql_find(transaction, cookie)])
        await accounts.set_password("ann", OTHER)
        await store._write(lambda transaction: transaction.do(module.sql.ADD_SIGNIN, **row._asdict()))
        assert await accounts.identity_of_cookie(cookie) is None


def sql_find(transaction: Any, cookie: str) -> Any:
    found = module.sql.find_signin(transaction, module._digest("cookie", cookie))
    assert found is not None
    return found[0]


async def test_a_password_that_changes_while_it_is_checked_signs_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = accounts_of(store := MemoryStore())
    await accounts.add_user("ann", "viewer", PASSWORD)
    verified = Accounts._verified

    async def slowly(self: Accounts, name: str, password: str) -> Any:
        row = await verified(self, name, password)
        await self.set_password("ann", OTHER)
        return row

    monkeypatch.setattr(Accounts, "_verified", slowly)
    cookie = await accounts.sign_in_by_password("ann", PASSWORD)
    assert cookie is not None
    assert await accounts.identity_of_cookie(cookie) is None
    await store.close()


async def test_a_disabled_user_is_nobody_and_stays_signed_out_when_enabled(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        cookie = await _signed_in(accounts)
        link = await accounts.sign_in_link("ann")
        await accounts.disable_user("ann")
        assert (await accounts.users())[0].disabled is not None
        for _ in range(2):
            assert await accounts.identity_of_cookie(cookie) is None
            assert await accounts.use_link(link) is None
            await accounts.enable_user("ann")
            await accounts.disable_user("ann")
        assert await accounts.check_password("ann", PASSWORD) is None
        assert await accounts.sign_in_by_password("ann", PASSWORD) is None
        for enter in (accounts.sign_in, accounts.sign_in_link):
            with pytest.raises(Forbidden, match="The user 'ann' is disabled"):
                await enter("ann")
        await accounts.enable_user("ann")
        assert await accounts.check_password("ann", PASSWORD) is not None


async def test_a_new_role_counts_from_the_next_request_on(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        cookie = await _signed_in(accounts)
        await accounts.set_role("ann", "viewer")
        identity = await accounts.identity_of_cookie(cookie)
        assert identity is not None and (identity.role, identity.groups) == ("viewer", ())


async def test_a_sign_in_ends_when_it_is_idle_and_in_any_case_after_two_weeks(
    each_store: Store, clock: FakeClock
) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        idle, busy = await _signed_in(accounts), await accounts.sign_in("ann")
        days = 0.0
        while days < 13.5:
            clock.advance(DAY / 2)
            days += 0.5
            assert await accounts.identity_of_cookie(busy) is not None
        assert await accounts.identity_of_cookie(idle) is None
        clock.advance(DAY / 2)
        assert await accounts.identity_of_cookie(busy) is None


async def test_sign_ins_that_are_over_are_deleted(tmp_path: Path, clock: FakeClock) -> None:
    async with SQLiteStore(tmp_path / "runs.db", clock=clock) as store:
        accounts = accounts_of(store)
        await _signed_in(accounts)
        clock.advance(15 * DAY)
        await accounts.sign_in("ann")
        count = await store._read(
            lambda transaction: len(transaction.connection.execute("SELECT 1 FROM assentry_signins").fetchall())
        )
        assert count == 1


async def test_a_link_signs_in_once(each_store: Store) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "viewer")
        link = await accounts.sign_in_link("ann")
        assert await accounts.identity_of_cookie(link) is None
        used = await asyncio.gather(*(accounts.use_link(link) for _ in range(8)))
        [cookie] = [value for value in used if value is not None]
        signed_in = await accounts.identity_of_cookie(cookie)
        assert signed_in is not None and signed_in.name == "ann"
        assert await accounts.use_link(link) is None


async def test_a_link_is_short_lived(each_store: Store, clock: FakeClock) -> None:
    async with each_store as store:
        accounts = accounts_of(store)
        await accounts.add_user("ann", "viewer")
        early, late = await accounts.sign_in_link("ann"), await accounts.sign_in_link("ann")
        clock.advance(599)
        assert await accounts.use_link(early) is not None
        clock.advance(1)
        assert await accounts.use_link(late) is None


@pytest.mark.parametrize("link", ["", "nope", None, "\udc80", "x" * 100_000])
async def test_a_link_that_is_none_signs_nobody_in(link: Any) -> None:
    accounts = accounts_of(store := MemoryStore())
    assert await accounts.use_link(link) is None
    await store.close()


@pytest.mark.parametrize("name", ["nobody", "", None, "\udc80"])
async def test_a_user_that_is_none_is_named(name: Any) -> None:
    accounts = accounts_of(store := MemoryStore())
    works = [
        accounts.sign_in(name),
        accounts.sign_in_link(name),
        accounts.disable_user(name),
        accounts.enable_user(name),
    ]
    for work in works:
        with pytest.raises(NotFound, match="There is no user"):
            await work
    if name == "nobody":
        with pytest.raises(NotFound, match="There is no user 'nobody'"):
            await accounts.set_password(name, PASSWORD)
        with pytest.raises(NotFound, match="There is no user 'nobody'"):
            await accounts.set_role(name, "viewer")
    await store.close()
