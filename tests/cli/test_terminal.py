"""What people see in a terminal: tables that fit it, colours where it has them, short ids; and what programs read."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assentry import ids
from assentry.cli.source import only_one
from assentry.cli.table import in_brief, short_ids
from assentry.errors import UsageError
from assentry.store import GrantRecord, SQLiteStore
from assentry.store.record import Question
from assentry.testing import call
from tests.cli.test_cli import HANGS, SOURCES, Cli, cli
from tests.inbox.office import ask, ask_everything, ask_refund, hire
from tests.inbox.stores import cheap_hashes

__all__ = ["cheap_hashes", "cli"]  # fixtures

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
Screen = Callable[..., str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Question]:
    """The questions of every kind, in the store `runs.db` of the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSENTRY_STORE", "runs.db")

    async def fill() -> dict[str, Question]:
        async with SQLiteStore("runs.db") as store:
            return await ask_everything(store)

    return asyncio.run(fill())


def screen(*words: str, columns: int = 80, **variables: str) -> str:
    """Run a command in a terminal of so many columns, and return what it wrote."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    environment = kept | {"PYTHONPATH": str(SOURCES), "PYTHONUTF8": "1", "TERM": "xterm-256color", **variables}
    command = [sys.executable, "-m", "assentry.cli", *words]
    started = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    found = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError as error:  # Linux says so when the other end is closed
            if error.errno != errno.EIO:
                raise
            break
        if not part:
            break
        found += part
    os.close(master)
    assert started.wait(HANGS) == 0, found
    return found.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize("words", [("questions",), ("runs",), ("runs", "show")])
def test_a_table_fits_the_terminal(made: dict[str, Question], words: tuple[str, ...], columns: int) -> None:
    more = ["runs.db", made["refund"].run] if words[-1] == "show" else []
    text = screen(*words, *more, columns=columns)
    assert "\x1b[" in text
    lines = COLOUR.sub("", text).splitlines()
    assert max(map(len, lines)) <= columns
    assert "(UTC)" not in text and (" ago" in text or "now" in text)


def test_a_terminal_that_is_too_narrow_for_columns_gets_lines(made: dict[str, Question]) -> None:
    text = COLOUR.sub("", screen("questions", columns=40))
    assert max(map(len, text.splitlines())) <= 40
    assert re.search(rf"^QUESTION +{made['execute_sql'].id[:8]}\w+ *\n^TOOL +execute_sql *$", text, re.MULTILINE)


@pytest.mark.parametrize("words", [("statistics",), ("audit", "decisions")])
def test_decisions_and_their_figures_fit_the_terminal(made: dict[str, Question], cli: Cli, words: Any) -> None:
    order = made["place_order"]
    assert cli("reject", order.id, "--digest", order.digest, "--by", "ann", "--message", "No. " * 40)[0] == 0
    text = COLOUR.sub("", screen(*words, columns=80))
    assert max(map(len, text.splitlines())) <= 80
    assert "place_order" in text and "ann" in text
    wide = cli(*words)[1]
    assert ("HALF WITHIN" in wide and "ANSWERED" in wide) or "DECIDED (UTC)" in wide


def test_a_terminal_without_colours_gets_none(made: dict[str, Question]) -> None:
    assert "\x1b" not in screen("questions", NO_COLOR="1", TERM="dumb")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", screen("questions", NO_COLOR="1"))


def test_wide_letters_take_two_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def fill() -> None:
        async with SQLiteStore("runs.db") as store:
            await ask(store, "상점 도우미", call("write", {"text": "램프가 부러졌어요. " * 20}))

    asyncio.run(fill())
    from rich.cells import cell_len

    lines = COLOUR.sub("", screen("questions", "--store", "runs.db", columns=80)).splitlines()
    assert max(map(cell_len, lines)) <= 80 and any("부러" in line for line in lines)


def test_what_a_model_wrote_cannot_steer_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evil = "\x1b]0;owned\x07[bold]x[/bold]\x1b[2J\u202e:smile:"

    async def fill() -> Question:
        async with SQLiteStore("runs.db") as store:
            return await ask_refund(store, memo=evil)

    question = asyncio.run(fill())
    shown = ""
    for words in (("questions",), ("runs", "show", question.run), ("questions", "show", question.id)):
        shown = COLOUR.sub("", screen(*words, "--store", "runs.db", columns=200))
        assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
    assert "\\u001b]0;owned\\u0007[bold]x[/bold]\\u001b[2J\\u202e:smile:" in shown.replace("\\\\u", "\\u")


def test_a_pipe_gets_whole_ids_and_times(made: dict[str, Question], cli: Cli) -> None:
    code, out, err = cli("questions")
    assert (code, err) == (0, "") and "\x1b" not in out
    assert out.splitlines()[0].split("  ")[0] == "QUESTION"
    assert all(question.id in out for question in made.values())
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", out)


LISTS = [
    ("questions", "list"), ("questions", "list", "--settled"), ("runs", "list"), ("grants", "list"), ("users", "list"),
    ("tokens", "list"), ("webhooks", "list"),
]  # fmt: skip


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_every_list_is_one_document_of_json(
    made: dict[str, Question], cheap_hashes: None, cli: Cli, words: Any
) -> None:
    code, out, err = cli(*words, "--json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    assert out.count("\n") == 1 and isinstance(value if isinstance(value, list) else value["items"], list)


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_every_list_can_be_seen_in_a_terminal(made: dict[str, Question], cheap_hashes: None, words: Any) -> None:
    async def fill() -> None:
        async with SQLiteStore("runs.db") as store:
            await hire(store)

    asyncio.run(fill())
    assert max(map(len, COLOUR.sub("", screen(*words, columns=70)).splitlines())) <= 70


# -- short ids ---------------------------------------------------------------------------------------------------------


def test_the_shortest_beginning_that_no_other_has_is_shown() -> None:
    ids = ["q_0123456789", "q_0123456700", "q_ffffffffff", "short", ""]
    assert short_ids(ids) == {
        "q_0123456789": "q_012345678",
        "q_0123456700": "q_012345670",
        "q_ffffffffff": "q_ffffffff",
        "short": "short",
        "": "",
    }
    assert only_one(ids, "q_012345678") == ids[0]
    assert only_one(ids, "q_0123456789") == ids[0]
    assert only_one(ids, "nothing") == "nothing"
    assert only_one(ids, "short") == "short"
    assert only_one(ids, "q_fff") == "q_fff"  # too little to name anything
    with pytest.raises(UsageError, match=r"Several ids begin with q_01234: q_0123456700, q_0123456789\. Give more"):
        only_one(ids, "q_01234")


def test_a_time_is_said_in_brief() -> None:
    at = 1_000_000_000_000
    said = [in_brief(at, at / 1000 + after) for after in (0, 5, 240, 7300, 200_000, -240)]
    assert said == ["now", "5 s ago", "4 min ago", "2 h ago", "2 d ago", "in 4 min"]
    assert in_brief(None, 0) == "-"


def test_the_beginning_of_an_id_is_enough_everywhere(made: dict[str, Question], cli: Cli) -> None:
    refund, order = made["refund"], made["place_order"]
    short, run = refund.id[:10], refund.run[:12]
    assert json.loads(cli("questions", "show", "runs.db", short, "--json")[1])["id"] == refund.id
    assert json.loads(cli("runs", "show", "runs.db", run, "--json")[1])["run"]["id"] == refund.run
    assert [each["id"] for each in json.loads(cli("questions", "--run", run, "--json")[1])["items"]] == [refund.id]
    given = ("--digest", refund.digest, "--by", "ann")
    assert cli("grants", "give", short, *given)[0] == 0
    [grant] = json.loads(cli("grants", "--json")[1])["items"]
    code, out, _ = cli("grants", "revoke", grant["id"][:10], "--by", "ann")
    assert (code, out) == (0, f"Revoked {grant['id']}.\n")
    assert cli("reject", order.id[:10], "--digest", order.digest, "--by", "ann")[0] == 0
    code, _, err = cli("questions", "show", "runs.db", "q_zzzzzz")
    assert code == 1 and "q_zzzzzz" in err


def test_a_beginning_that_several_ids_have_names_them(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSENTRY_STORE", "runs.db")

    async def fill() -> None:
        random = iter(range(1000))
        monkeypatch.setattr(ids, "random_bytes", lambda n: bytes(n - 1) + bytes([next(random)]))
        async with SQLiteStore("runs.db") as store:
            await ask_everything(store)

    asyncio.run(fill())
    code, out, err = cli("questions", "show", "runs.db", "q_00000")
    assert (code, out) == (1, "")
    assert err.count("q_0000000") == 5 and "others. Give more of the one that is meant." in err
    assert cli("approve", "q_00000", "--by", "ann", stdin="y\n")[0] == 1
    assert {each["verdict"] for each in json.loads(cli("questions", "--json")[1])["items"]} == {None}


def test_a_grant_is_no_question(made: dict[str, Question]) -> None:
    async def found() -> list[list[str]]:
        async with SQLiteStore("runs.db") as store:
            return [await store.ids(kind, "q_", limit=100) for kind in (Question, GrantRecord)]

    questions, grants = asyncio.run(found())
    assert questions == sorted(question.id for question in made.values()) and grants == []
