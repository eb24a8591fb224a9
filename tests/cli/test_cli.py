"""The command line: data on stdout, messages on stderr, and one clear line for whatever is wrong."""

import asyncio
import contextlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assentry
from assentry import SQL, Agent, Diff, Mail, Money, Preview, Runner, Sentence, Shell, Table, Text, function_tool
from assentry.cli import main
from assentry.cli.worker import find
from assentry.core import facts as f
from assentry.store import Store, open_store
from assentry.testing import ScriptedModel, call
from tests.runtime.support import HANGS, SOURCES
from tests.store.support import Script, asked, js, replied

SHOP = """
import asyncio
from pathlib import Path
from assentry import Agent, AgentRegistry, function_tool
from assentry.testing import ScriptedModel, call

@function_tool(needs_approval=True)
async def send(to: str) -> str:
    with Path("sent.txt").open("a") as file:
        file.write(to + "\\n")
    if to == "slow":
        Path("entered").touch()
        while not Path("leave").exists():
            await asyncio.sleep(0.01)
    return f"sent to {to}"

def think(request):
    if any(item.get("type") == "function_call_output" for item in request.input):
        return "done"
    return call("send", {"to": request.input[0]["content"]})

agent = Agent("Shop", tools=[send], model=ScriptedModel(think for _ in range(1000)))
agents = AgentRegistry()
agents.add(agent, version="1")
listed = [agent]
nobody = []
"""

Cli = Callable[..., tuple[int, str, str]]


def process(*command: str, cwd: Path, **options: Any) -> subprocess.Popen[str]:
    """A process as a user would start it."""
    env = os.environ | {"PYTHONPATH": str(SOURCES), "PYTHONUTF8": "1", "COLUMNS": "200"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *command], cwd=cwd, env=env, encoding="utf-8", **pipes, **options)


def ended(started: subprocess.Popen[str], stdin: str = "") -> tuple[int, str, str]:
    out, err = started.communicate(stdin, timeout=HANGS)
    return started.returncode, out, err


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory but for a module with agents; it is the working directory."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSENTRY_STORE", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    return tmp_path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """`cli("runs", "list", ...)`: how it ended, and what it wrote to stdout and stderr."""

    def run(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        try:
            code = main(words)
        except SystemExit as left:
            code = int(str(left.code or 0))
        return (code, *capsys.readouterr())

    return run


def begin(shop: Path, *inputs: str) -> list[str]:
    """Runs that wait; their ids."""

    async def work() -> list[str]:
        async with open_store("runs.db") as store:
            return [(await Runner.run(find("shop:agent"), each, store=store)).run_id for each in inputs]

    return asyncio.run(work())


def found(cli: Cli, *words: str) -> Any:
    """What a command gives as JSON."""
    code, out, err = cli(*words, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_a_preview_comes_first_and_is_shown_whole(shop: Path, cli: Cli) -> None:
    blocks = (
        Sentence("It is late.", warning=True),
        Text("one\ntwo\x1b[2J", title="Log"),
        Diff.between("a.txt", "one\n", "two\n"),
        SQL("DELETE FROM t", {"id": 7}, rows=3, dialect="sqlite"),
        Money("899.00", "EUR", label="In all"),
        Mail(("ann@example.com",), "Hello", "Dear Ann,\nbye.", cc=("bea@example.com",), attachments=("a.pdf",)),
        Shell(("ls -l", "rm x"), cwd="/srv"),
        Table(("name", "count"), (("lamp", 2), ("\u202etfel", None)), caption="Stock"),
    )

    @function_tool(needs_approval=True, preview=lambda ctx, args: Preview("Send a mail to ann", blocks, {"rows": 3}))
    async def send(to: str) -> str:
        """Send."""
        return to

    async def ask() -> None:
        agent = Agent("Shop", tools=[send], model=ScriptedModel([call("send", {"to": "ann"})]))
        async with open_store("runs.db") as store:
            await Runner.run(agent, "go", store=store)

    asyncio.run(ask())
    code, out, err = cli("questions", "list", "runs.db")
    assert (code, err) == (0, "") and "Send a mail to ann" in out and "WHAT WOULD HAPPEN" in out
    [question] = found(cli, "questions", "list", "runs.db")["items"]
    assert question["preview"]["sentence"] == "Send a mail to ann"
    assert question["preview"]["blocks"][4] == {
        "type": "money",
        "amount": "899.00",
        "currency": "EUR",
        "label": "In all",
    }
    code, out, err = cli("questions", "show", "runs.db", question["id"])
    lines = out.splitlines()
    assert lines[0] == "preview: Send a mail to ann"
    assert "\x1b" not in out and "\u202e" not in out and "two\\u001b[2J" in out
    for line in (
        "WARNING: It is late.",
        "- one",
        "+ two",
        "sqlite: DELETE FROM t",
        'with {"id":7}',
        "rows: 3",
        "In all: 899.00 EUR",
    ):
        assert f"  {line}" in lines
    for line in ("To: ann@example.com", "Cc: bea@example.com", "Attached: a.pdf", "bye.", "in /srv", "$ rm x", "Stock"):
        assert f"  {line}" in lines
    assert "  as long as rows is 3" in lines and "  name   count" in lines


# -- the story -----------------------------------------------------------------------------------


def test_a_run_is_listed_decided_gone_on_with_shown_erased_and_purged(shop: Path, cli: Cli) -> None:
    [run] = begin(shop, "ann")
    [record] = found(cli, "runs", "list", "runs.db")["items"]
    assert (record["id"], record["agent"], record["status"]) == (run, "Shop", "waiting")
    [question] = found(cli, "questions", "list", "runs.db")["items"]
    assert (question["tool"], question["arguments"]) == ("send", '{"to":"ann"}')

    decide = ("questions", "decide", "runs.db", question["id"], "approve", "--by", "bea")
    code, out, err = cli(*decide, "--digest", question["digest"])
    assert (code, err) == (0, "")
    assert out.startswith(f"{question['id']}: approve by bea")

    assert cli("worker", "shop:agents", "--store", "runs.db", "--once") == (0, "Drives: 1\n", "")
    assert (shop / "sent.txt").read_text() == "ann\n"

    code, out, err = cli("runs", "show", "runs.db", run)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()[4:]]
    assert [line[3] for line in lines][-6:] == ["asked", "approved", "started", "finished", "replied", "concluded"]
    [approved] = [line for line in lines if line[3] == "approved"]
    assert approved[4:6] == ["c1", "bea"]
    shown = found(cli, "runs", "show", "runs.db", run)
    assert shown["run"]["status"] == "done"
    assert [entry["fact"]["fact"] for entry in shown["history"]][-1] == "concluded"

    assert cli("db", "verify", "runs.db", run)[:2] == (0, "1 run is as written.\n")
    assert cli("runs", "erase", "runs.db", run)[0] == 0
    code, out, _ = cli("runs", "show", "runs.db", run)
    assert code == 0 and "bea" in out and "sent to" not in out
    assert cli("db", "verify", "runs.db")[:2] == (0, "1 run is as written.\n")
    assert cli("runs", "purge", "runs.db", "--older-than", "1d", "--yes")[:2] == (0, "Deleted 0 runs.\n")
    assert cli("runs", "purge", "runs.db", "--older-than", "0", "--yes")[:2] == (0, "Deleted 1 run.\n")
    assert found(cli, "runs", "list", "runs.db") == {"items": [], "next": None, "damaged": []}


@pytest.mark.parametrize("name", ["agent", "agents", "listed"])
def test_a_worker_takes_a_registry_an_agent_or_a_list(name: str, shop: Path, cli: Cli) -> None:
    [run] = begin(shop, "ann")
    [question] = found(cli, "questions", "list", "runs.db")["items"]
    cli("questions", "decide", "runs.db", question["id"], "reject", "--by", "b", "--digest", question["digest"])
    assert cli("worker", f"shop:{name}", "--store", "runs.db", "--once") == (0, "Drives: 1\n", "")
    assert found(cli, "runs", "show", "runs.db", run)["run"]["status"] == "done"
    assert not (shop / "sent.txt").exists()


@pytest.mark.parametrize("url", ["runs.db", "sqlite:///runs.db", "./runs.db"])
def test_the_store_may_be_in_the_environment(url: str, shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    [run] = begin(shop, "ann")
    monkeypatch.setenv("ASSENTRY_STORE", url)
    assert found(cli, "runs", "list")["items"][0]["id"] == run
    assert found(cli, "runs", "show", run)["run"]["id"] == run
    assert cli("worker", "shop:agent", "--once") == (0, "Drives: 0\n", "")
    [question] = found(cli, "questions", "list")["items"]
    decide = ("questions", "decide", question["id"], "approve", "--by", "ann", "--digest", question["digest"])
    assert cli(*decide)[0] == 0
    assert cli("runs", "show", "other.db", run)[0] == 1, "what is typed goes first"


def test_lists_are_filtered_and_paged(shop: Path, cli: Cli) -> None:
    runs = begin(shop, "a", "b", "c")
    first = found(cli, "runs", "list", "runs.db", "--limit", "2")
    rest = found(cli, "runs", "list", "runs.db", "--limit", "2", "--after", first["next"])
    assert [each["id"] for each in first["items"] + rest["items"]] == runs
    code, out, err = cli("runs", "list", "runs.db", "--limit", "2")
    assert (code, len(out.splitlines())) == (0, 3)
    assert first["next"] in err
    for words, count in (
        (("--agent", "Shop"), 3),
        (("--agent", "Other"), 0),
        (("--status", "waiting"), 3),
        (("--status", "done"), 0),
    ):
        assert len(found(cli, "runs", "list", "runs.db", *words)["items"]) == count, words
    for words, count in (
        (("--run", runs[0]), 1),
        (("--tool", "send"), 3),
        (("--tool", "refund"), 0),
        (("--agent", "Shop"), 3),
        (("--older-than", "1h"), 0),
        (("--older-than", "0s"), 3),
        (("--search", "SEND"), 3),
        (("--search", runs[0]), 1),
        (("--search", "nowhere"), 0),
        (("--settled",), 0),
    ):
        assert len(found(cli, "questions", "list", "runs.db", *words)["items"]) == count, words


# -- deciding ------------------------------------------------------------------------------------


@pytest.fixture
def question(shop: Path, cli: Cli) -> dict[str, Any]:
    begin(shop, "ann")
    [asked] = found(cli, "questions", "list", "runs.db")["items"]
    assert isinstance(asked, dict)
    return asked


def verdict(cli: Cli, question: dict[str, Any]) -> Any:
    return found(cli, "questions", "show", "runs.db", question["id"])["verdict"]


def test_without_a_digest_the_question_is_shown_and_only_yes_is_yes(question: dict[str, Any], cli: Cli) -> None:
    words = ("questions", "decide", "runs.db", question["id"], "approve", "--by", "ann")
    for answer in ("", "n\n", "\n", "sure?\n"):
        code, out, err = cli(*words, stdin=answer)
        assert (code, out) == (1, "")
        assert '{"to":"ann"}' in err and question["digest"] in err and "Nothing was decided" in err
    assert verdict(cli, question) is None
    code, out, err = cli(*words, stdin="y\n")
    assert code == 0 and "approve by ann" in out
    assert verdict(cli, question) == "approve"
    code, out, err = cli(*words, stdin="y\n")
    assert (code, out) == (1, "") and "decided already" in err and "[y/N]" not in err


def test_a_question_that_was_replaced_names_the_one_that_took_its_place(shop: Path, cli: Cli) -> None:
    async def ask() -> None:
        async with open_store("runs.db") as store:
            script = await Script(store).begin()
            await script.write(replied("c1", arguments='{"to":"ann"}'), asked("c1", "q1"))
            await script.write(asked("c1", "q2", replaces="q1", args=js({"to": "mallory"})))

    asyncio.run(ask())
    code, out, err = cli("questions", "decide", "runs.db", "q1", "approve", "--by", "ann", stdin="y\n")
    assert (code, out) == (1, "") and "Nothing was recorded. Question q2 took its place." in err


def test_all_four_verdicts_can_be_given(shop: Path, cli: Cli) -> None:
    begin(shop, "a", "b", "c", "d")
    asked = found(cli, "questions", "list", "runs.db")["items"]
    given: tuple[tuple[str, ...], ...] = (
        ("approve",),
        ("reject", "--message", "not now"),
        ("edit", "--arguments", '{"to": "bea"}'),
        ("respond", "--output", "null"),
    )
    for each, words in zip(asked, given, strict=True):
        told = ("--by", "ann", "--digest", each["digest"])
        code, _, err = cli("questions", "decide", "runs.db", each["id"], *words, *told)
        assert (code, err) == (0, ""), words
    assert cli("worker", "shop:agent", "--store", "runs.db", "--once")[1] == "Drives: 4\n"
    assert sorted((shop / "sent.txt").read_text().split()) == ["a", "bea"]
    settled = found(cli, "questions", "list", "runs.db", "--settled")["items"]
    assert {each["verdict"] for each in settled} == {"approve", "reject", "edit", "respond"}
    code, out, _ = cli("questions", "list", "runs.db", "--settled")
    assert code == 0 and "VERDICT" in out


def test_a_decision_that_was_made_already_or_is_about_something_else_is_refused(
    question: dict[str, Any], cli: Cli
) -> None:
    words = ("questions", "decide", "runs.db", question["id"])
    code, out, err = cli(*words, "approve", "--by", "ann", "--digest", "0" * 64)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert verdict(cli, question) is None
    assert cli(*words, "reject", "--by", "ann", "--digest", question["digest"])[0] == 0
    code, out, err = cli(*words, "approve", "--by", "bob", "--digest", question["digest"])
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "ann" in err
    assert verdict(cli, question) == "reject"


def test_an_edit_that_does_not_fit_the_schema_is_refused(question: dict[str, Any], cli: Cli) -> None:
    words = ("questions", "decide", "runs.db", question["id"], "edit", "--by", "ann", "--digest", question["digest"])
    code, _, err = cli(*words, "--arguments", '{"to": 5}')
    assert (code, err.count("\n")) == (1, 1)
    assert verdict(cli, question) is None


@pytest.mark.parametrize(
    "words",
    [
        ("edit",),
        ("respond",),
        ("approve", "--message", "x"),
        ("reject", "--output", "1"),
        ("edit", "--arguments", "[]"),
        ("edit", "--arguments", '{"a": 1, "a": 2}'),
        ("respond", "--output", "{"),
        ("allow",),
    ],
)
def test_words_that_do_not_fit_the_verdict_are_misuse(
    words: tuple[str, ...], question: dict[str, Any], cli: Cli
) -> None:
    told = ("--by", "ann", "--digest", question["digest"])
    code, out, err = cli("questions", "decide", "runs.db", question["id"], *words, *told)
    assert (code, out) == (2, "") and "error:" in err
    assert verdict(cli, question) is None


def test_who_decides_must_be_said(question: dict[str, Any], cli: Cli) -> None:
    words = ("questions", "decide", "runs.db", question["id"], "approve", "--digest", question["digest"])
    assert cli(*words)[0] == 2
    for blank in ("", " ", "\u200b", "\t"):
        assert cli(*words, "--by", blank)[0] == 1
        assert cli(*words[:-2], "--by", blank, stdin="y\n")[0] == 1
    assert verdict(cli, question) is None


def test_what_a_model_wrote_cannot_steer_the_terminal(shop: Path, cli: Cli) -> None:
    begin(shop, "ann\x1b[2K\u202e\n  bea")
    for words in (("runs", "list"), ("questions", "list")):
        _, out, _ = cli(*words, "runs.db")
        assert "\x1b" not in out and "\u202e" not in out and len(out.splitlines()) == 2
    [asked] = found(cli, "questions", "list", "runs.db")["items"]
    _, out, _ = cli("questions", "show", "runs.db", asked["id"])
    assert "\x1b" not in out and "\u202e" not in out
    assert r"\u202e\n  bea" in out, "nothing is left out either"


def test_a_question_is_shown_with_what_came_too_late(shop: Path, cli: Cli) -> None:
    async def doubt() -> str:
        async with open_store("runs.db") as store:
            script = await Script(store).begin()
            await script.write(replied("c1"), f.Approved("c1", "rule"), f.Started("c1"), asked(kind="doubt"))
            await store.witness("r1", [f.Witnessed("c1", 1, js("It was sent."), at=9)])
            return "q1"

    _, out, _ = cli("questions", "show", "runs.db", asyncio.run(doubt()))
    assert '"output":"It was sent."' in out


# -- keeping -------------------------------------------------------------------------------------


def test_a_purge_asks_first(shop: Path, cli: Cli) -> None:
    begin(shop, "ann")
    words = ("runs", "purge", "runs.db", "--older-than", "0", "--status", "waiting,done")
    code, out, err = cli(*words, stdin="n\n")
    assert (code, out) == (1, "") and "Delete all runs that are waiting or done" in err
    assert len(found(cli, "runs", "list", "runs.db")["items"]) == 1
    assert cli(*words, stdin="y\n")[:2] == (0, "Deleted 1 run.\n")


def test_a_run_that_is_not_over_is_not_erased(shop: Path, cli: Cli) -> None:
    [run] = begin(shop, "ann")
    code, out, err = cli("runs", "erase", "runs.db", run)
    assert (code, out, err.count("\n")) == (1, "", 1)


def test_a_run_with_nothing_to_do_is_not_tried_again(shop: Path, cli: Cli) -> None:
    [run] = begin(shop, "ann")

    async def cancel() -> None:
        async with open_store("runs.db") as store:
            await store.cancel(run, by="ann")

    asyncio.run(cancel())
    code, out, err = cli("runs", "retry", "runs.db", run)
    assert (code, out) == (1, "") and "cancelled" in err


def test_a_run_that_was_left_alone_is_tried_again(shop: Path, cli: Cli) -> None:
    [run] = begin(shop, "ann")
    [asked] = found(cli, "questions", "list", "runs.db")["items"]
    cli("questions", "decide", "runs.db", asked["id"], "approve", "--by", "ann", "--digest", asked["digest"])

    async def leave_alone() -> None:
        async with open_store("runs.db") as store:
            [lease] = await store.claim("w", agents=None, hold=30, limit=1)
            await store.release(lease, again_in=10**9, error="ContextMissing: gone")

    asyncio.run(leave_alone())
    assert cli("worker", "shop:agent", "--store", "runs.db", "--once")[1] == "Drives: 0\n"
    assert "failed 1 times: ContextMissing" in cli("runs", "list", "runs.db")[1]
    assert cli("runs", "retry", "runs.db", run)[0] == 0
    assert cli("worker", "shop:agent", "--store", "runs.db", "--once")[1] == "Drives: 1\n"


def test_the_database_is_made_and_its_records_can_be_made_anew(shop: Path, cli: Cli) -> None:
    assert cli("db", "upgrade", "sqlite:///new.db") == (0, "The store is ready.\n", "")
    assert (shop / "new.db").exists()
    assert found(cli, "runs", "list", "new.db")["items"] == []
    begin(shop, "ann", "bea")
    before = found(cli, "questions", "list", "runs.db")
    assert cli("db", "rebuild", "runs.db") == (0, "Made the records of 2 runs anew.\n", "")
    assert found(cli, "questions", "list", "runs.db") == before


def test_a_damaged_journal_is_found_and_named(shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = begin(shop, "ann", "bea")
    whole = open_store

    def damaged(url: str, **options: Any) -> Store:
        store: Any = whole(url, **options)
        lines = store.lines

        async def broken(run_id: str) -> Any:
            if run_id == runs[1]:
                raise assentry.UnreadableState(f"Fact 2 of run {run_id!r} is not what was written: its hash is wrong.")
            return await lines(run_id)

        store.lines = broken
        return store  # type: ignore[no-any-return]

    monkeypatch.setattr("assentry.cli.database.open_store", damaged)
    code, out, err = cli("db", "verify", "runs.db")
    assert (code, out.count("\n")) == (1, 1)
    assert runs[1] in out and "1 of 2" in err


NUMBER = "(SELECT id FROM assentry_runs WHERE run = ?)"


def changed(statement: str, *values: Any) -> None:
    """Change a row behind the store's back."""
    with contextlib.closing(sqlite3.connect("runs.db")) as database, database:
        database.execute(statement, values)


def test_records_that_do_not_fit_their_journal_are_named_by_run(shop: Path, cli: Cli) -> None:
    runs = begin(shop, "ann", "bea", "cleo")
    changed("UPDATE assentry_runs SET status = 'done' WHERE run = ?", runs[0])
    changed(
        "UPDATE assentry_questions SET arguments = '{}' WHERE run = (SELECT id FROM assentry_runs WHERE run = ?)",
        runs[1],
    )
    code, out, err = cli("db", "verify", "runs.db")
    assert code == 1
    first, second = out.splitlines()
    assert first == f"The record of run {runs[0]!r} differs from its journal: status."
    assert f"of run {runs[1]!r} differs from the journal: arguments." in second
    assert err == "assentry: 2 of 3 runs are damaged\n"
    assert cli("db", "verify", "runs.db", runs[2])[:2] == (0, "1 run is as written.\n")
    assert cli("db", "rebuild", "runs.db")[0] == 0
    assert cli("db", "verify", "runs.db") == (0, "3 runs are as written.\n", "")


def test_a_question_whose_row_was_changed_hides_no_other(shop: Path, cli: Cli) -> None:
    runs = begin(shop, "ann", "bea")
    changed(
        "UPDATE assentry_questions SET arguments = '{}' WHERE run = (SELECT id FROM assentry_runs WHERE run = ?)",
        runs[0],
    )
    code, out, _ = cli("questions", "list", "runs.db", "--json")
    page = json.loads(out)
    assert code == 1
    assert [item["run"] for item in page["items"]] == [runs[1]]
    [damaged] = page["damaged"]
    code, out, err = cli("questions", "show", "runs.db", damaged)
    assert (code, out) == (1, "") and "is not what was written" in err


def test_a_run_whose_record_is_gone_is_named(shop: Path, cli: Cli) -> None:
    runs = begin(shop, "ann", "bea")
    changed("DELETE FROM assentry_runs WHERE run = ?", runs[0])
    code, out, err = cli("db", "verify", "runs.db")
    assert code == 1 and "There is a journal of run number 1, and no record of that run." in out
    assert "more things are not as they should be" in err


def test_a_role_that_was_changed_and_a_run_that_nothing_wakes_are_named(shop: Path, cli: Cli) -> None:
    [run] = begin(shop, "ann")
    words = ("users", "add", "bob", "--role", "viewer", "--password-stdin", "--store", "runs.db")
    assert cli(*words, stdin="correct horse")[0] == 0
    assert cli("db", "verify", "runs.db")[0] == 0
    changed("UPDATE assentry_users SET role = 'admin'")
    code, out, _ = cli("db", "verify", "runs.db")
    assert code == 1 and "The row of user 'bob', with the role 'admin', is not what was written." in out
    assert cli("users", "change", "bob", "--role", "viewer", "--store", "runs.db")[0] == 0
    assert cli("db", "verify", "runs.db")[0] == 0
    [asked] = json.loads(cli("questions", "list", "runs.db", "--json")[1])["items"]
    cli("questions", "decide", "runs.db", asked["id"], "approve", "--by", "ann", "--digest", asked["digest"])
    changed("UPDATE assentry_runs SET wake = NULL")
    code, out, err = cli("db", "verify", "runs.db")
    assert code == 1 and f"Run {run!r} is under way, and nothing wakes it" in out and "1 of 1 runs are damaged" in err
    assert cli("runs", "retry", "runs.db", run)[0] == 0
    assert cli("db", "verify", "runs.db")[0] == 0


def test_runs_are_compared_with_what_was_written_down(shop: Path, cli: Cli) -> None:
    runs = begin(shop, "ann", "bea", "cleo")
    assert cli("db", "verify", "runs.db", "--write", "heads") == (0, "3 runs are as written.\n", "")
    assert [json.loads(line)["run"] for line in (shop / "heads").read_text().splitlines()] == runs
    for question in found(cli, "questions", "list", "runs.db")["items"]:
        words = (question["id"], "reject", "--by", "bea", "--digest", question["digest"])
        assert cli("questions", "decide", "runs.db", *words)[0] == 0
    assert cli("worker", "shop:agent", "--store", "runs.db", "--once")[0] == 0
    assert cli("runs", "erase", "runs.db", runs[0])[0] == 0
    assert cli("db", "verify", "runs.db", "--against", "heads") == (0, "3 runs are as written.\n", "")
    assert cli("db", "verify", "runs.db", "--write", "heads", "--against", "heads")[0] == 0

    async def begin_anew() -> None:
        async with open_store("runs.db") as store:
            await store.purge(unchanged_for=0)
            await Script(store, runs[0], "Shop").begin()
            other = await Script(store, runs[1], "Shop").begin()
            for _ in range(20):
                await other.write(f.Said(js("something else")))

    asyncio.run(begin_anew())
    code, out, _ = cli("db", "verify", "runs.db", "--against", "heads")
    assert code == 1
    first, second, third = sorted(out.splitlines())
    assert f"of run {runs[1]!r} are not those that were written down" in second + third + first
    assert f"Run {runs[0]!r} has 2 facts, and had" in out
    assert f"Run {runs[2]!r}, of" in out and "is not there" in out
    assert cli("db", "verify", "runs.db", "--against", "shop.py")[0] == 1


def test_the_database_is_written_anew(shop: Path, cli: Cli) -> None:
    begin(shop, "ann")
    assert cli("db", "vacuum", "runs.db")[0] == 0
    assert cli("db", "verify", "runs.db")[0] == 0


def test_a_retry_that_fails_half_way_says_that_the_run_is_held(
    shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run] = begin(shop, "ann")

    async def away(*given: Any, **more: Any) -> None:
        raise assentry.StoreFailed("The store cannot be reached. Nothing was written.")

    monkeypatch.setattr("assentry.store.sql.store.SQLStore.release", away)
    code, _, err = cli("runs", "retry", "runs.db", run)
    assert code == 1 and f"Run {run} is held for 10 seconds" in err


# -- whatever is wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("runs", "list", "nope.db"), "nope.db"),
        (("runs", "show", "runs.db", "run_x"), "run_x"),
        (("runs", "erase", "runs.db", "run_x"), "run_x"),
        (("runs", "retry", "runs.db", "run_x"), "run_x"),
        (("questions", "show", "runs.db", "q_x"), "q_x"),
        (("questions", "decide", "runs.db", "q_x", "approve", "--by", "a", "--digest", "d"), "q_x"),
        (("db", "verify", "runs.db", "run_x"), "run_x"),
        (("runs", "list", "mysql://host/db"), "mysql"),
        (("runs", "list", "sqlite://runs.db"), "sqlite:///file.db"),
        (("runs", "list", "."), "directory"),
        (("runs", "list", "shop.py"), "not an SQLite database"),
        (("runs", "list", "runs.db", "--limit", "0"), "limit"),
        (("runs", "list", "runs.db", "--after", "x"), "after"),
        (("worker", "nope:agents", "--store", "runs.db"), "no module 'nope'"),
        (("worker", "shop:nope", "--store", "runs.db"), "no 'nope'"),
        (("worker", "shop:send", "--store", "runs.db"), "FunctionTool"),
        (("worker", "shop:nobody", "--store", "runs.db"), "at least one agent"),
        (("worker", "shop", "--store", "runs.db"), "module:name"),
        (("worker", "broken:agents", "--store", "runs.db"), "ZeroDivisionError"),
        (("worker", "lacking:agents", "--store", "runs.db"), "no_such_library"),
        (("worker", "shop:agent", "--store", "runs.db", "--concurrency", "0"), "concurrency"),
        (("worker", "shop:agent", "--store", "runs.db", "--concurrency", str(2**70)), "concurrency"),
        (("worker", "shop:agent", "--store", "runs.db", "--lease", "0"), "lease"),
        (("worker", "shop:agent", "--store", "runs.db", "--name", " "), "name"),
        (("questions", "list", "runs.db", "--limit", str(2**70)), "limit"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, tuple) else "",
)
def test_what_is_wrong_is_said_in_one_line(words: tuple[str, ...], says: str, shop: Path, cli: Cli) -> None:
    (shop / "broken.py").write_text("1 / 0")
    (shop / "lacking.py").write_text("import no_such_library")
    begin(shop, "ann")
    code, out, err = cli(*words)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert says in err and err.startswith("assentry: ")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("runs",),
        ("runs", "list"),
        ("runs", "show"),
        ("runs", "list", "runs.db", "--status", "happy"),
        ("runs", "purge", "runs.db"),
        ("runs", "purge", "runs.db", "--older-than", "long"),
        ("runs", "purge", "runs.db", "--older-than", "999999999w"),
        ("runs", "purge", "runs.db", "--older-than", "-1"),
        ("runs", "purge", "runs.db", "--older-than", "1e300"),
        ("questions", "list", "runs.db", "--older-than", "nan"),
        ("questions", "list", "runs.db", "--limit", "5.5"),
        ("questions", "list", "runs.db", "--limit", "9" * 5000),
        ("worker", "shop:agent", "--store", "runs.db", "--lease", "101000d"),
        ("runs", "purge", "runs.db", "--older-than", "1d", "--status", "happy"),
        ("worker", "shop:agent"),
        ("db", "drop", "runs.db"),
    ],
)
def test_misuse_shows_the_usage(words: tuple[str, ...], shop: Path, cli: Cli) -> None:
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert err.startswith("usage: assentry")


def test_help_and_version_are_there(cli: Cli) -> None:
    assert cli("--version") == (0, f"assentry {assentry.__version__}\n", "")
    for words in ((), ("runs",), ("runs", "purge"), ("worker",), ("questions", "decide"), ("db", "verify")):
        code, out, err = cli(*words, "--help")
        assert (code, err) == (0, "") and out.startswith("usage: assentry")


@pytest.mark.parametrize(
    ("room", "url", "extra"), [("sqlite", "a.db", "store"), ("postgres", "postgresql://h", "postgres")]
)
def test_a_library_that_is_missing_is_named_with_what_to_install(
    room: str, url: str, extra: str, shop: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"assentry.store.{room}", None)
    code, out, err = cli("db", "upgrade", url)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f'pip install ".[{extra}]"' in err


# -- as a process --------------------------------------------------------------------------------


def test_a_reader_who_has_enough_is_no_error(shop: Path) -> None:
    begin(shop, "ann")
    reads, writes = os.pipe()
    os.close(reads)
    code = subprocess.run(
        [sys.executable, "-m", "assentry.cli", "runs", "list", "runs.db"],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stdout=writes,
        stderr=subprocess.PIPE,
        timeout=HANGS,
    )
    os.close(writes)
    assert code.stderr == b""


@pytest.mark.parametrize("patience", ["drain", "cut off"])
def test_a_worker_ends_in_order_on_sigterm(patience: str, shop: Path, cli: Cli) -> None:
    [run] = begin(shop, "slow")
    [asked] = found(cli, "questions", "list", "runs.db")["items"]
    cli("questions", "decide", "runs.db", asked["id"], "approve", "--by", "ann", "--digest", asked["digest"])
    options = ("--store", "runs.db", "--poll", "0.1", "--drain", "1h")
    worker = process("-m", "assentry.cli", "worker", "shop:agent", *options, cwd=shop)
    try:
        wait_for(shop / "entered", worker)
        worker.send_signal(signal.SIGTERM)
        if patience == "drain":
            (shop / "leave").touch()
        else:
            worker.send_signal(signal.SIGINT)
        code, out, err = ended(worker)
    finally:
        worker.kill()
    assert (code, out) == (0, ""), err
    assert "is at work for Shop" in err and "The worker has ended" in err
    record = found(cli, "runs", "show", "runs.db", run)["run"]
    assert record["worker"] is None, "the lease was given back"
    (shop / "leave").touch()
    cli("worker", "shop:agent", "--store", "runs.db", "--once")
    assert (shop / "sent.txt").read_text() == "slow\n", "no body is entered twice"
    record = found(cli, "runs", "show", "runs.db", run)["run"]
    assert record["status"] == ("done" if patience == "drain" else "waiting")


def wait_for(file: Path, worker: subprocess.Popen[str]) -> None:
    """Until the file is there: the process has come so far."""
    while not file.exists():
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(0.02)
        assert worker.poll() is None, worker.communicate()


# -- addresses -----------------------------------------------------------------------------------


def test_an_address_leads_to_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = str(tmp_path / "a b.db")
    for url in ("a b.db", "sqlite:///a%20b.db", f"sqlite:///{there}", there):
        assert there in repr(open_store(url)), url


@pytest.mark.parametrize(
    "url", ["", None, 5, "sqlite://", "sqlite:///", "sqlite://host/a.db", "sqlite:///a.db?x=1", "redis://x"]
)
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(assentry.UsageError):
        open_store(url)


def test_a_file_that_must_be_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(assentry.UsageError, match="no file"):
        open_store(str(tmp_path / "a.db"), create=False)
    assert not (tmp_path / "a.db").exists()


def test_an_address_may_name_its_driver() -> None:
    assert "shop on host" in repr(open_store("postgresql+psycopg://ann@host/shop"))


def test_the_questions_that_somebody_may_decide_are_listed(shop: Path, cli: Cli) -> None:
    @function_tool(needs_approval=True, reviewers=("ann", "group:ops"))
    async def send(to: str) -> str:
        """Send."""
        return to

    async def ask() -> None:
        agent = Agent("Shop", tools=[send], model=ScriptedModel([call("send", {"to": "ann"})]))
        async with open_store("runs.db") as store:
            await Runner.run(agent, "go", store=store)

    asyncio.run(ask())
    assert len(found(cli, "questions", "list", "runs.db", "--for", "ann")["items"]) == 1
    assert found(cli, "questions", "list", "runs.db", "--for", "bob")["items"] == []
    code, _, err = cli("questions", "list", "runs.db", "--for-me")
    assert code == 2 and "--for-me goes with a server; with a store, use --for NAME" in err
