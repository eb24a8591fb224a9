"""`assentry users`, `assentry tokens`, decisions and grants: on a store, and on a server that `assentry serve` runs."""

import asyncio
import getpass
import json
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Approve, RunConfig, Runner, Secret, function_tool
from assentry.cli import main, source
from assentry.inbox.accounts import accounts_of
from assentry.store import open_store
from assentry.testing import ScriptedModel, call
from tests.cli.test_cli import Cli, cli, ended, process
from tests.inbox.stores import cheap_hashes

__all__ = ["cheap_hashes", "cli"]

pytestmark = pytest.mark.usefixtures("cheap_hashes", "here")

PASSWORD = "correct horse battery"
STORE = ("--store", "runs.db")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and no address in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("ASSENTRY_STORE", "ASSENTRY_SERVER", "ASSENTRY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def add_user(cli: Cli, name: str, role: str, *more: str) -> None:
    words = ("users", "add", name, "--role", role, "--password-stdin", *STORE, *more)
    assert cli(*words, stdin=f"{PASSWORD}\n") == (0, f"Added {name}, {role}.\n", "")


def add_token(cli: Cli, name: str, role: str, *more: str) -> str:
    code, out, err = cli("tokens", "add", name, "--role", role, *STORE, *more)
    assert code == 0 and "shown only once" in err and out.count("\n") == 1
    return out.strip()


def found(cli: Cli, *words: str) -> Any:
    code, out, err = cli(*words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def ask(*mails: str, reviewers: tuple[str, ...] = (), started_by: str | None = None) -> None:
    """Runs in runs.db that wait, one for each mail."""

    @function_tool(needs_approval=True, reviewers=reviewers)
    async def send(to: str, key: Secret[str] = "hidden-key") -> str:
        """Send a mail."""
        return to

    async def work() -> None:
        async with open_store("runs.db") as store:
            for to in mails:
                agent = Agent(
                    "Shop", tools=[send], model=ScriptedModel([call("send", {"to": to, "key": "my-secret"}), "done"])
                )
                await Runner.run(agent, "go", store=store, run_config=RunConfig(started_by=started_by))

    asyncio.run(work())


def questions(cli: Cli, *place: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = found(cli, "questions", *(place or STORE))["items"]
    return items


# -- users and tokens ------------------------------------------------------------------------------


def test_users_are_added_listed_changed_and_disabled(cli: Cli) -> None:
    add_user(cli, "ann", "reviewer", "--group", "finance", "--group", "ops")
    add_user(cli, "bea", "viewer")
    code, out, _ = cli("users", "list", *STORE)
    assert code == 0 and "ann   reviewer  finance, ops" in out and PASSWORD not in out
    assert cli("users", *STORE) == cli("users", "list", *STORE)
    assert cli("users", "change", "bea", "--role", "operator", "--group", "ops", *STORE)[0] == 0
    assert cli("users", "disable", "bea", *STORE)[1].startswith("Disabled bea.")
    ann, bea = found(cli, "users", "list", *STORE)
    assert (ann["name"], ann["disabled"], ann["groups"], ann["password"]) == ("ann", None, ["finance", "ops"], True)
    assert (bea["role"], bea["groups"]) == ("operator", ["ops"]) and bea["disabled"] > 0
    assert cli("users", "enable", "bea", *STORE)[0] == 0
    assert found(cli, "users", "list", *STORE)[1]["disabled"] is None


def check(name: str, password: str) -> bool:
    async def work() -> bool:
        async with open_store("runs.db") as store:
            return await accounts_of(store).check_password(name, password) is not None

    return asyncio.run(work())


@pytest.mark.parametrize("end", ["\n", "\r\n", "", "\nmore\n"])
def test_a_password_is_the_first_line_of_stdin(end: str, cli: Cli) -> None:
    words = ("users", "add", "ann", "--role", "viewer", "--password-stdin", *STORE)
    assert cli(*words, stdin=f" {PASSWORD} {end}")[0] == 0
    assert check("ann", f" {PASSWORD} ") and not check("ann", PASSWORD)


def test_a_password_is_changed(cli: Cli) -> None:
    add_user(cli, "ann", "viewer")
    words = ("users", "password", "ann", "--password-stdin", *STORE)
    assert cli(*words, stdin="another horse battery\n")[0] == 0
    assert check("ann", "another horse battery") and not check("ann", PASSWORD)


class Terminal:
    def isatty(self) -> bool:
        return True


def test_a_password_is_asked_for_twice_at_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    typed: list[str] = []
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda prompt: typed.pop(0))
    words = ("users", "add", "ann", "--role", "viewer", *STORE)
    typed += [PASSWORD, "something else"]
    assert main(words) == 1
    assert capsys.readouterr().err == "assentry: The two passwords differ. Nothing was changed.\n"
    typed += [PASSWORD, PASSWORD]
    assert main(words) == 0 and typed == [] and check("ann", PASSWORD)


@pytest.mark.parametrize(
    ("words", "stdin", "why"),
    [
        (("users", "add", "ann", "--role", "viewer"), "", "no terminal to ask for the password"),
        (("users", "add", "ann", "--role", "viewer", "--password-stdin"), "short\n", "at least 8 characters"),
        (("users", "add", "ann", "--role", "viewer", "--password-stdin"), "", "at least 8 characters"),
        (("users", "add", " ", "--role", "viewer", "--password-stdin"), f"{PASSWORD}\n", "text that can be seen"),
        (("users", "add", "group:x", "--role", "viewer", "--password-stdin"), f"{PASSWORD}\n", "something else"),
        (("users", "add", "bea", "--role", "viewer", "--password-stdin"), f"{PASSWORD}\n", "a user 'bea' already"),
        (("users", "add", "ann", "--role", "viewer", "--group", "", "--password-stdin"), f"{PASSWORD}\n", "A group's"),
        (("users", "disable", "ann"), "", "There is no user 'ann'"),
        (("users", "enable", "ann"), "", "There is no user 'ann'"),
        (("users", "change", "ann", "--role", "viewer"), "", "There is no user 'ann'"),
        (("users", "password", "ann", "--password-stdin"), f"{PASSWORD}\n", "There is no user 'ann'"),
        (("tokens", "add", "\t", "--role", "agent"), "", "text that can be seen"),
        (("tokens", "revoke", "nope"), "", "There is no token 'nope'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: tuple[str, ...], stdin: str, why: str, cli: Cli) -> None:
    add_user(cli, "bea", "viewer")
    code, out, err = cli(*words, *STORE, stdin=stdin)
    assert (code, out, err.count("\n")) == (1, "", 1) and why in err
    assert [user["name"] for user in found(cli, "users", *STORE)] == ["bea"] and found(cli, "tokens", *STORE) == []


@pytest.mark.parametrize(
    "words",
    [
        ("users", "add", "ann", *STORE),
        ("users", "add", "ann", "--role", "root", *STORE),
        ("users", "add", "--role", "viewer", *STORE),
        ("users", "list"),
        ("tokens", "add", "ann", *STORE),
        ("tokens", "add", "ann", "--role", "agent", "--expires", "soon", *STORE),
        ("serve",),
        ("serve", *STORE, "--port", "70000"),
        ("serve", *STORE, "--port", "http"),
        ("approve", *STORE),
        ("approve", "q"),
        ("approve", "q", *STORE, "--message", "x"),
        ("edit", "q", *STORE),
        ("respond", "q", *STORE),
        ("questions", "list", "runs.db", "--store", "other.db"),
        ("questions", "list", *STORE, "--server", "http://localhost", "--token", "t"),
        ("questions", "list", "--server", "http://localhost"),
        ("approve", "q", "--server", "http://localhost", "--token", "t", "--by", "ann"),
        ("grants", "revoke", "g", "--server", "http://localhost", "--token", "t", "--by", "ann"),
        ("grants", "give", "q", *STORE, "--for", "ever"),
        ("users", "list", "--server", "http://localhost", "--token", "t"),
    ],
)
def test_misuse_shows_the_usage(words: tuple[str, ...], cli: Cli) -> None:
    code, out, err = cli(*words)
    assert (code, out) == (2, "") and err.startswith("usage: assentry")


def test_a_token_is_printed_once_and_can_be_revoked(cli: Cli) -> None:
    text = add_token(cli, "robot", "agent", "--expires", "90d", "--group", "ops")
    code, out, _ = cli("tokens", *STORE)
    id = text.split("_")[1]
    assert code == 0 and id in out and text not in out and text.split("_", 2)[2] not in out
    [token] = found(cli, "tokens", "list", *STORE)
    assert (token["id"], token["name"], token["role"], token["groups"]) == (id, "robot", "agent", ["ops"])
    assert token["until"] - token["made"] == 90 * 86400 * 1000 and "hash" not in token
    assert cli("tokens", "revoke", id, *STORE)[:2] == (0, f"Revoked {id}.\n")
    assert found(cli, "tokens", *STORE)[0]["revoked"] > 0
    made = found(cli, "tokens", "add", "ci", "--role", "viewer", *STORE)
    assert made["token"].startswith(f"assentry_{made['id']}_") and made["role"] == "viewer"


def test_what_is_missing_is_named_with_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "assentry.inbox.accounts", None)
    code, out, err = cli("tokens", "add", "robot", "--role", "agent", *STORE)
    assert (code, out) == (1, "") and 'pip install ".[inbox]"' in err
    monkeypatch.setitem(sys.modules, "httpx", None)
    code, out, err = cli("questions", "--server", "http://localhost", "--token", "t")
    assert (code, out) == (1, "") and 'pip install ".[inbox]"' in err


def test_a_link_without_an_address_says_what_goes_before_it(cli: Cli) -> None:
    add_user(cli, "bea", "viewer")
    code, out, err = cli("users", "link", "bea", *STORE)
    assert code == 0 and out.startswith("/sign-in/link#") and "--base-url" in err
    code, out, err = cli("users", "link", "bea", *STORE, "--base-url", "https://inbox.example.com")
    assert code == 0 and out.startswith("https://inbox.example.com/sign-in/link#") and "--base-url" not in err


# -- decisions on a store --------------------------------------------------------------------------


def test_a_store_is_named_in_its_place_or_by_an_option_or_by_the_environment(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("ann")
    [question] = questions(cli)
    assert questions(cli, "list", "runs.db") == [question]
    shown = found(cli, "questions", "show", question["id"], *STORE)
    assert found(cli, "questions", "show", *STORE, question["id"]) == shown
    assert found(cli, "questions", "show", "runs.db", question["id"]) == shown
    assert found(cli, "runs", *STORE) == found(cli, "runs", "list", "runs.db")
    assert found(cli, "runs", "show", question["run"], *STORE) == found(cli, "runs", "show", "runs.db", question["run"])
    monkeypatch.setenv("ASSENTRY_STORE", "runs.db")
    assert found(cli, "questions", "show", question["id"]) == shown
    assert cli("db", "verify", "--store", "runs.db")[0] == 0
    monkeypatch.setenv("ASSENTRY_SERVER", "http://localhost:1")
    assert cli("questions")[0] == 2
    assert cli("questions", *STORE)[0] == 0


DECISIONS = [
    (("approve",), "approve"),
    (("reject", "--message", "no"), "reject"),
    (("edit", "--arguments", '{"to": "bea", "key": "k"}'), "edit"),
    (("respond", "--output", '"sent by hand"'), "respond"),
]


@pytest.mark.parametrize(("words", "verdict"), DECISIONS)
def test_each_decision_has_a_command(words: tuple[str, ...], verdict: str, cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    told = (question["id"], "--by", "ann", "--digest", question["digest"], *STORE)
    decided = found(cli, words[0], *told, *words[1:])
    assert (decided["verdict"], decided["by"], decided["shown"]) == (verdict, "ann", None)
    assert questions(cli) == []


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (("approve",), "Approve as ann? [y/N]"),
        (("reject",), "Reject as ann? [y/N]"),
        (("reject", "--message", "not \u202ehers"), 'Reject with the message "not \\u202ehers" as ann? [y/N]'),
        (("edit", "--arguments", '{"to": "bea"}'), 'Approve with the arguments {"to":"bea"} as ann? [y/N]'),
        (("respond", "--output", '"by hand"'), 'Answer "by hand" as ann? [y/N]'),
    ],
)
def test_the_decision_is_confirmed_in_words(words: tuple[str, ...], asked: str, cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    code, _, err = cli(words[0], question["id"], *STORE, "--by", "ann", *words[1:], stdin="n\n")
    assert code == 1 and asked in err


def test_without_a_digest_the_question_is_shown_and_a_yes_decides(cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    words = ("approve", question["id"], *STORE, "--by", "ann")
    code, out, err = cli(*words, stdin="\n")
    assert (code, out) == (1, "") and "tool: send" in err and "Nothing was decided" in err
    code, out, err = cli(*words, stdin="y\n")
    assert code == 0 and "approve by ann" in out and "Approve as ann? [y/N]" in err
    settled = found(cli, "questions", "show", question["id"], *STORE)
    assert len(settled["shown"]) == 64
    assert cli(*words, stdin="y\n")[0] == 1


def test_the_login_name_decides_if_nobody_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "carol")
    ask("ann")
    [question] = questions(cli)
    assert found(cli, "approve", question["id"], "--digest", question["digest"], *STORE)["by"] == "carol"

    def nobody() -> str:
        raise OSError

    monkeypatch.setattr(getpass, "getuser", nobody)
    code, _, err = cli("approve", question["id"], "--digest", question["digest"], *STORE)
    assert code == 2 and "--by NAME says who decides" in err


def test_users_of_the_store_have_their_roles_and_groups_here_too(cli: Cli) -> None:
    ask("ann", reviewers=("group:finance",), started_by="fay")
    for name, role, group in (("vic", "viewer", "finance"), ("rob", "reviewer", "ops"), ("fay", "admin", "finance")):
        add_user(cli, name, role, "--group", group)
    add_user(cli, "dan", "reviewer", "--group", "finance")
    cli("users", "disable", "dan", *STORE)
    [question] = questions(cli)
    words = ("approve", question["id"], "--digest", question["digest"], *STORE, "--by")
    for name, why in (
        ("vic", "vic is a viewer, and may not decide here"),
        ("rob", "group:finance"),
        ("fay", "fay"),
        ("dan", "The user 'dan' is disabled"),
        ("nobody", "group:finance"),
    ):
        code, out, err = cli(*words, name)
        assert (code, out, err.count("\n")) == (1, "", 1) and why in err
    add_user(cli, "ann", "reviewer", "--group", "finance")
    assert cli(*words, "ann")[0] == 0


def test_a_grant_is_given_listed_and_revoked(cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    words = ("grants", "give", question["id"], "--by", "ann", *STORE, "--uses", "3", "--for", "1h")
    code, out, err = cli(*words, "--pin", '{"to": "ann"}', stdin="y\n")
    assert code == 0 and "approve by ann" in out and '"max_uses":3,"expires_in":3600.0,"pins":{"to":"ann"}' in err
    [grant] = found(cli, "grants", *STORE)["items"]
    assert (grant["max_uses"], grant["pins"], grant["tool"], grant["by"]) == (3, {"to": "ann"}, "send", "ann")
    code, out, _ = cli("grants", "list", *STORE)
    assert code == 0 and "0 of 3" in out and '{"to":"ann"}' in out and "in force" in out
    add_user(cli, "vic", "reviewer")
    assert cli("grants", "revoke", grant["id"], *STORE, "--by", "vic")[0] == 1
    assert cli("grants", "revoke", grant["id"], *STORE, "--by", "bea")[:2] == (0, f"Revoked {grant['id']}.\n")
    assert found(cli, "grants", *STORE)["items"] == []
    [gone] = found(cli, "grants", "--revoked", *STORE)["items"]
    assert gone["revoked_by"] == "bea"
    code, _, err = cli("grants", "revoke", "nope", *STORE, "--by", "bea")
    assert (code, err) == (1, "assentry: The store has no grant 'nope'.\n")


@pytest.mark.parametrize("uses", [("--uses", "1"), ("--for", "1s")])
def test_a_grant_that_is_used_up_or_ended_is_not_listed_as_in_force(
    cli: Cli, uses: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("ann")
    [question] = questions(cli)
    digest = ("--digest", question["digest"])
    assert cli("grants", "give", question["id"], "--all-runs", *uses, *digest, "--by", "ann", *STORE)[0] == 0
    ask("ann")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 5)
    code, out, _ = cli("grants", "list", "--all-runs", *STORE)
    assert code == 0 and ("used up" if uses[0] == "--uses" else "ended") in out and "in force" not in out


def test_a_grant_over_all_runs_is_given_listed_and_revoked(cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    words = ("grants", "give", question["id"], "--by", "ann", *STORE, "--all-runs", "--uses", "3", "--for", "1h")
    code, out, err = cli(*words, "--where", "to starts_with a", stdin="n\n")
    assert (code, out) == (1, "") and "in all of its runs, where: to starts_with a, up to 3 times, for 1h? [y/N]" in err
    code, out, err = cli(*words, "--where", "to starts_with a", stdin="y\n")
    assert code == 0 and "where: to starts_with a" in out
    [grant] = found(cli, "grants", "--all-runs", *STORE)["items"]
    assert (grant["max_uses"], grant["where"], grant["tool"]) == (3, {"to": {"starts_with": "a"}}, "send")
    assert questions(cli) == [question] and found(cli, "grants", *STORE)["items"] == []
    code, out, _ = cli("grants", "list", "--all-runs", *STORE)
    assert code == 0 and "0 of 3" in out and "to starts_with a" in out and "in force" in out
    assert cli("grants", "revoke", grant["id"], *STORE, "--by", "bea")[:2] == (0, f"Revoked {grant['id']}.\n")
    assert found(cli, "grants", "--all-runs", *STORE)["items"] == []
    [gone] = found(cli, "grants", "--all-runs", "--revoked", *STORE)["items"]
    assert gone["revoked_by"] == "bea"
    for wrong in (["--where", "to"], ["--where", "none = 1"], ["--pin", "{}"], ["--message", "no"]):
        assert cli(*words, *wrong, "--digest", question["digest"])[0] in (1, 2)
    assert cli(*words[:6], "--where", "to = ann")[0] == 2
    assert len(found(cli, "grants", "--all-runs", "--revoked", *STORE)["items"]) == 1
    add_user(cli, "rob", "reviewer")
    words = ("grants", "give", question["id"], "--by", "rob", "--digest", question["digest"], "--all-runs", *STORE)
    assert cli(*words)[0::2] == (1, "assentry: rob is a reviewer, and may not grant here.\n")


def test_a_grant_over_all_runs_is_given_unasked_with_yes(cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    words = ("grants", "give", question["id"], "--by", "ann", *STORE, "--all-runs", "--where", "to starts_with a")
    code, out, err = cli(*words, "--yes", stdin="")
    assert code == 0 and "where: to starts_with a" in out and "[y/N]" not in err


def test_who_may_only_review_gives_no_grant(cli: Cli) -> None:
    ask("ann")
    add_user(cli, "rob", "reviewer")
    [question] = questions(cli)
    words = ("grants", "give", question["id"], "--by", "rob", "--digest", question["digest"], *STORE)
    assert cli(*words)[0::2] == (1, "assentry: rob is a reviewer, and may not grant here.\n")
    assert len(questions(cli)) == 1


def test_a_settled_question_takes_no_grant(cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    known = (question["id"], "--digest", question["digest"], *STORE)
    assert cli("approve", *known, "--by", "ann")[0] == 0
    for terms in ((), ("--uses", "3")):
        code, _, err = cli("grants", "give", *known, "--by", "bea", *terms)
        assert code == 1 and "was decided before; no grant was given" in err
    assert found(cli, "grants", "--revoked", *STORE)["items"] == []


# -- on a server -----------------------------------------------------------------------------------

Served = Callable[..., tuple[str, ...]]


@pytest.fixture
def address(here: Path) -> Iterator[str]:
    """The address of `assentry serve`, in a process of its own."""
    started = process("-m", "assentry.cli", "serve", *STORE, "--port", "0", cwd=here)
    assert started.stderr is not None
    line = started.stderr.readline()
    while "The inbox is at" not in line:
        assert line, "the server has ended"
        line = started.stderr.readline()
    yield line.split()[4].rstrip(";")
    started.send_signal(signal.SIGTERM)
    code, out, err = ended(started)
    assert (code, out) == (0, "") and err == "The inbox has ended.\n"


def test_a_server_is_asked_as_a_store_is(address: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("ann", "bea", "cay")
    token = add_token(cli, "olga", "operator")
    there = ("--server", address, "--token", token)
    local = questions(cli)
    assert questions(cli, *there) == local and len(local) == 3
    assert [each["id"] for each in questions(cli, *there, "--limit", "2")] == [each["id"] for each in local[:2]]
    assert questions(cli, *there, "--tool", "other") == []
    first, second, third = local
    shown = found(cli, "questions", "show", first["id"], *there)
    assert shown == found(cli, "questions", "show", first["id"], *STORE) and shown["order"] == ["to", "key"]
    assert '\narguments: {"to":"ann","key":"my-secret"}\n' in cli("questions", "show", first["id"], *there)[1]
    assert found(cli, "runs", *there) == found(cli, "runs", *STORE)
    assert found(cli, "runs", "show", first["run"], *there) == found(cli, "runs", "show", first["run"], *STORE)
    monkeypatch.setenv("ASSENTRY_SERVER", f"{address}/")
    monkeypatch.setenv("ASSENTRY_TOKEN", token)
    code, out, err = cli("approve", first["id"], stdin="y\n")
    assert code == 0 and "approve by olga" in out and err.count(" as ") == 0
    words = ("reject", second["id"], "--digest", second["digest"], "--message", "not now")
    assert (decided := found(cli, *words))["verdict"] == "reject" and decided["by"] == "olga"
    assert cli("grants", "give", third["id"], "--uses", "2", "--digest", third["digest"])[0] == 0
    [grant] = found(cli, "grants")["items"]
    assert (grant["max_uses"], grant["by"]) == (2, "olga")
    assert cli("grants", "revoke", grant["id"])[0] == 0
    assert questions(cli, "list", *there) == [] and found(cli, "grants")["items"] == []
    words = ("grants", "give", third["id"], "--all-runs", "--where", "to = cay", "--digest", third["digest"])
    assert (standing := found(cli, *words))["by"] == "olga" and standing["where"] == {"to": {"is": "cay"}}
    assert found(cli, "grants", "--all-runs")["items"] == [standing]
    assert cli("grants", "revoke", standing["id"])[0] == 0
    assert found(cli, "grants", "--all-runs")["items"] == []


def test_the_journals_of_a_server_are_exported_and_verified(address: str, cli: Cli, here: Path) -> None:
    ask("ann", "bea")
    ask("cay", reviewers=("rob",))
    olga, rita = add_token(cli, "olga", "operator"), add_token(cli, "rita", "admin")
    there = ("--server", address, "--token")
    assert cli("audit", "verify", *there, rita) == (0, "3 runs are as written.\n", "")
    code, out, err = cli("audit", "export", *there, rita)
    assert (code, err) == (0, "") and out == cli("audit", "export", *STORE)[1]
    assert cli("audit", "export", *there, rita, "--out", "a.jsonl") == (0, "", "")
    assert (here / "a.jsonl").read_text() == out and "my-secret" in out
    assert cli("audit", "verify", "--file", "a.jsonl") == (0, "3 runs are as written.\n", "")
    cli("audit", "key", "k")
    assert cli("audit", "seal", *STORE, "--key", "k", "--out", "a.seal") == (0, "", "")
    code, out, err = cli("audit", "verify", *there, rita, "--seal", "a.seal", "--key", "k.pub")
    assert (code, err) == (0, "") and "They go on from the seal of" in out
    # Whoever may not decide about secret arguments does not get the run that has them.
    [hidden] = [each["run"] for each in questions(cli) if each["reviewers"]]
    code, out, err = cli("audit", "verify", *there, olga)
    assert (code, out) == (0, "2 runs are as written.\n") and hidden in err and "not checked" in err
    code, out, err = cli("audit", "export", *there, olga)
    assert code == 0 and "cay" not in out and hidden in err
    told = {"runs": 2, "damaged": 0, "problems": [], "others": [], "withheld": [hidden]}
    assert found(cli, "audit", "verify", *there, olga) == told
    code, _, err = cli("audit", "verify", *there, add_token(cli, "vera", "viewer"))
    assert (code, err) == (1, "assentry: vera is a viewer, and may not audit here.\n")
    assert cli("audit", "verify", "--file", "a.jsonl", *there, rita)[0] == 2
    code, _, err = cli("audit", "verify", "--server", "http://127.0.0.1:1", "--token", "t")
    assert code == 1 and "The server at http://127.0.0.1:1 cannot be reached" in err


def test_a_server_whose_journal_was_changed_is_found_out(address: str, cli: Cli, here: Path) -> None:
    ask("ann", "bea")
    rita = add_token(cli, "rita", "admin")
    with sqlite3.connect("runs.db") as connection:
        changed = "UPDATE assentry_journal SET fact = replace(fact, 'ann', 'eve') WHERE run = 1"
        assert connection.execute(changed).rowcount
    connection.close()
    code, out, _ = cli("audit", "verify", "--server", address, "--token", rita)
    assert code == 1 and "is not what was written" in out
    assert cli("audit", "export", "--server", address, "--token", rita)[0] == 1
    for place in (STORE, ("--server", address, "--token", rita)):
        code, out, _ = cli("audit", "verify", *place, "--json")
        assert code == 1 and json.loads(out)["problems" if place is STORE else "others"]


def test_a_server_says_that_nobody_can_decide_while_there_are_only_agents(cli: Cli, here: Path) -> None:
    def first_line() -> str:
        started = process("-m", "assentry.cli", "serve", *STORE, "--port", "0", cwd=here)
        assert started.stderr is not None
        line = started.stderr.readline()
        started.send_signal(signal.SIGTERM)
        ended(started)
        return str(line)

    add_token(cli, "robot", "agent")
    assert "Nobody can decide yet: assentry users add" in first_line()
    add_user(cli, "bea", "viewer")
    assert "Nobody can decide yet" not in first_line()


def test_a_servers_refusal_is_its_own_sentence(address: str, cli: Cli) -> None:
    ask("ann")
    [question] = questions(cli)
    robot, vic, rob = (
        add_token(cli, name, role) for name, role in (("r2", "agent"), ("vic", "viewer"), ("rob", "reviewer"))
    )
    words = ("approve", question["id"], "--digest", question["digest"], "--server", address, "--token")
    for token, why in (
        ("wrong", "nobody has this token. It is mistyped, revoked or has expired"),
        (robot, "r2 is an agent, and may not decide here."),
        (vic, "vic is a viewer, and may not decide here."),
    ):
        code, out, err = cli(*words, token)
        assert (code, out, err.count("\n")) == (1, "", 1) and why in err
    stale = ("approve", question["id"], "--digest", "0" * 64, "--server", address, "--token", rob)
    code, out, err = cli(*stale)
    assert (code, out, err.count("\n")) == (1, "", 1) and "digest" in err
    assert cli(*words, rob)[0] == 0
    code, out, err = cli("reject", *words[1:], rob)
    assert (code, out, err.count("\n")) == (1, "", 1) and "rob" in err
    code, _, err = cli("questions", "show", "q/../../health", "--server", address, "--token", rob)
    assert code == 1 and err.count("\n") == 1
    code, _, err = cli("questions", "--limit", "0", "--server", address, "--token", rob)
    assert code == 1 and "limit" in err


def test_a_server_that_is_none_is_named(cli: Cli) -> None:
    code, out, err = cli("questions", "--server", "http://127.0.0.1:1", "--token", "t")
    assert (code, out, err.count("\n")) == (1, "", 1) and "The server at http://127.0.0.1:1 cannot be reached" in err


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host", "http://", "http://h:port", "http://h?x=1", "http://[::1"]
)
def test_an_address_that_is_none_is_named(url: str, cli: Cli) -> None:
    code, out, err = cli("questions", "--server", url, "--token", "t")
    assert (code, out, err.count("\n")) == (1, "", 1) and "A server's address is https://host" in err


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"\xff", b'{"items": [{"id": 1}], "next": null}'])
async def test_an_answer_of_something_else_is_an_error(body: bytes) -> None:
    class Reply:
        is_success, content = True, body

    class Client:
        async def request(self, *words: Any, **more: Any) -> Any:
            return Reply()

    place = source.ServerSource("http://host", Client(), OSError)
    with pytest.raises(source.Upstream, match="The server at http://host did not answer as an inbox"):
        await place.questions(limit=1)


@pytest.mark.parametrize("failure", ["no answer", "<html>", "504"])
async def test_a_decision_whose_answer_is_lost_is_not_said_to_have_failed(failure: str) -> None:
    class Reply:
        is_success, content = failure != "504", b"<html>"
        status_code, reason_phrase = 504, "Gateway Timeout"

    class Client:
        async def request(self, *words: Any, **more: Any) -> Any:
            if failure == "no answer":
                raise TimeoutError("it took too long")
            return Reply()

    place = source.ServerSource("http://host", Client(), OSError, (ConnectionRefusedError,))
    for work in (
        place.decide("q", Approve(), digest="d", by=None, shown=None, grant=None),
        *([] if failure == "<html>" else [place.revoke("g", by=None)]),  # whose answer is not read
    ):
        with pytest.raises(source.Upstream, match="It is not known whether this was recorded"):
            await work
    with pytest.raises(source.Upstream) as caught:
        await place.questions(limit=1)
    assert "not known" not in str(caught.value)


async def test_a_decision_that_was_never_sent_is_not_said_to_be_unknown() -> None:
    class Client:
        async def request(self, *words: Any, **more: Any) -> Any:
            raise ConnectionRefusedError("nobody listens")

    place = source.ServerSource("http://host", Client(), OSError, (ConnectionRefusedError,))
    with pytest.raises(source.Upstream, match=r"cannot be reached: nobody listens$"):
        await place.decide("q", Approve(), digest="d", by=None, shown=None, grant=None)


def test_a_port_that_is_taken_ends_the_server(address: str, here: Path) -> None:
    words = ("-m", "assentry.cli", "serve", *STORE, "--port", address.rpartition(":")[2])
    code, out, err = ended(process(*words, cwd=here))  # the first line says that nobody can sign in
    assert (code, out, err.count("\n")) == (1, "", 2) and "Address already in use" in err
