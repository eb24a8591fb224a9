"""Every command can print what it did for programs: one document of JSON, or lines of it."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Runner
from assentry.cli.command import parser
from assentry.store import SQLiteStore
from assentry.store.record import Question
from assentry.testing import ScriptedModel
from tests.cli.test_cli import Cli, cli
from tests.cli.test_terminal import made
from tests.inbox.office import PASSWORD
from tests.inbox.stores import cheap_hashes

__all__ = ["cheap_hashes", "cli", "made"]  # fixtures

pytestmark = pytest.mark.usefixtures("cheap_hashes")

WITHOUT = {
    "worker": "works until it is stopped, and prints nothing",
    "serve": "serves until it is stopped, and prints its address",
    "temporal worker": "works until it is stopped, and prints nothing",
    "gateway": "serves until its client goes, and stdout is the client's",
    "hook run": "answers in the agent's own JSON",
    "hook rules": "prints a file of rules, which programs read as it is",
    "migrate": "prints a diff, which programs read as it is",
    "audit export": "prints JSON Lines in any case",
    "audit seal": "prints JSON in any case",
}
"""The commands without `--json`, each with the reason."""


def commands(of: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command that does something, with its words."""
    inner = [action for action in of._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        yield name, of
    for action in inner:
        for word, each in action.choices.items():
            yield from commands(each, f"{name} {word}".strip())


def test_every_command_has_json_or_a_reason() -> None:
    without = {name for name, each in commands(parser()) if "--json" not in each._option_string_actions}
    assert without == WITHOUT.keys()


def document(cli: Cli, *words: str, stdin: str = "", code: int = 0) -> Any:
    """Return the one document that a command prints."""
    ended, out, err = cli(*words, "--json", stdin=stdin)
    assert (ended, out.count("\n")) == (code, 1), err
    return json.loads(out)


def test_a_user_is_printed_as_it_is_after_each_change(made: dict[str, Question], cli: Cli) -> None:
    words = ("--role", "viewer", "--group", "ops", "--password-stdin")
    added = document(cli, "users", "add", "bea", *words, stdin=f"{PASSWORD}\n")
    assert (added["name"], added["role"], added["groups"]) == ("bea", "viewer", ["ops"])
    assert document(cli, "users", "change", "bea", "--role", "operator") == added | {"role": "operator", "groups": []}
    assert document(cli, "users", "disable", "bea")["disabled"] > 0
    enabled = document(cli, "users", "enable", "bea")
    assert enabled["disabled"] is None
    assert document(cli, "users", "password", "bea", "--password-stdin", stdin=f"{PASSWORD}2\n") == enabled
    assert document(cli, "users", "list") == [enabled]
    link = document(cli, "users", "link", "bea", "--base-url", "https://inbox.example.com")
    assert link["name"] == "bea" and link["link"].startswith("https://inbox.example.com/sign-in/link#")


def test_a_revoked_token_is_printed_without_its_secret(made: dict[str, Question], cli: Cli) -> None:
    token = document(cli, "tokens", "add", "bot", "--role", "agent")
    revoked = document(cli, "tokens", "revoke", token["id"][:6])
    assert revoked["revoked"] > 0 and document(cli, "tokens", "list") == [revoked]
    assert token["token"] not in json.dumps(revoked)


def test_a_webhook_is_printed_without_its_secret(made: dict[str, Question], cli: Cli) -> None:
    hook = document(cli, "webhooks", "add", "https://127.0.0.1:9/hook")
    short = hook["id"][:10]
    off = document(cli, "webhooks", "disable", short)
    assert off["id"] == hook["id"] and off["disabled"] > 0 and "secret" not in off
    on = document(cli, "webhooks", "enable", short)
    assert on["disabled"] is None and document(cli, "webhooks", "list") == [on]
    tested = document(cli, "webhooks", "test", short, code=1)
    assert tested["id"] == hook["id"] and "failed" not in tested and tested["problem"]
    assert document(cli, "webhooks", "remove", short) == on
    assert document(cli, "webhooks", "list") == []


def test_runs_are_printed_after_they_were_erased_retried_and_purged(made: dict[str, Question], cli: Cli) -> None:
    async def finish() -> str:
        async with SQLiteStore("runs.db") as store:
            return (await Runner.run(Agent("Shop", model=ScriptedModel(["done"])), "go", store=store)).run_id

    run = asyncio.run(finish())
    erased = document(cli, "runs", "erase", "runs.db", run[:12])
    assert (erased["id"], erased["status"]) == (run, "done") and erased["erased"] > 0
    waiting = made["refund"].run
    assert document(cli, "runs", "retry", "runs.db", waiting[:12])["id"] == waiting
    assert document(cli, "runs", "purge", "runs.db", "--older-than", "0s", "--yes") == {"runs": 1}


def test_the_database_says_what_was_done(made: dict[str, Question], cli: Cli) -> None:
    assert document(cli, "db", "upgrade", "runs.db") == {"ready": True}
    assert document(cli, "db", "vacuum", "runs.db") == {"vacuumed": True}
    runs = document(cli, "db", "rebuild", "runs.db")["runs"]
    assert document(cli, "db", "verify", "runs.db") == {
        "runs": runs, "damaged": 0, "problems": [], "others": [], "withheld": []
    }  # fmt: skip


def test_one_run_is_verified_by_the_beginning_of_its_id(made: dict[str, Question], cli: Cli) -> None:
    run = made["refund"].run
    assert document(cli, "db", "verify", "runs.db", run[:12])["runs"] == 1
    code, out, err = cli("db", "verify", "runs.db", "run_zzzzzz")
    assert code == 1 and "run_zzzzzz" in out + err


def test_decisions_are_lines_of_json(made: dict[str, Question], cli: Cli) -> None:
    order, refund = made["place_order"], made["refund"]
    for each in (order, refund):
        assert cli("reject", each.id, "--digest", each.digest, "--by", "ann")[0] == 0
    lines = cli("audit", "decisions", "--json")[1].splitlines()
    assert {json.loads(line)["tool"] for line in lines} == {"place_order", "refund"}
    assert cli("audit", "decisions", "--format", "jsonl")[1].splitlines() == lines
    [only] = cli("audit", "decisions", "--json", "--run", order.run[:12])[1].splitlines()
    assert json.loads(only)["run"] == order.run


def test_a_key_pair_is_named(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "seal.key"
    made = document(cli, "audit", "key", str(file))
    assert made == {"key": made["key"], "private": str(file), "public": f"{file}.pub"} and made["key"]


def test_models_are_listed_with_their_status(cli: Cli) -> None:
    listed = document(cli, "models", "list")
    assert [each["model"] for each in listed][-1] == "embedded" and all(each["status"] for each in listed)
