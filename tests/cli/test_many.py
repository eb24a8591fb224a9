"""One decision on several questions: as a table, asked once, on a store and on a server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from assentry import Approve, Reject
from assentry.cli import source
from assentry.store import open_store
from assentry.store.record import Question
from tests.cli.test_cli import Cli, cli
from tests.cli.test_people import STORE, add_token, add_user, address, found, here
from tests.inbox.batch import ask_credits, make_credit
from tests.inbox.stores import cheap_hashes

__all__ = ["address", "cheap_hashes", "cli", "here"]

pytestmark = pytest.mark.usefixtures("cheap_hashes", "here")

BY = ("--by", "ann")


def ask(*amounts: float, **more: Any) -> list[Question]:
    async def work() -> list[Question]:
        async with open_store("runs.db") as store:
            return await ask_credits(store, *amounts, **more)

    return asyncio.run(work())


def decide(question: Question, decision: Any, by: str = "otto") -> None:
    async def work() -> None:
        async with open_store("runs.db") as store:
            await store.decide(question.id, decision, by=by, digest=question.digest)

    asyncio.run(work())


def ends(cli: Cli, *asked: Question) -> list[tuple[str | None, str | None]]:
    shown = [found(cli, "questions", "show", each.id, *STORE) for each in asked]
    return [(each["verdict"], each["by"]) for each in shown]


def ids(asked: list[Question]) -> list[str]:
    return [each.id for each in asked]


def test_several_are_shown_as_a_table_and_one_yes_decides_on_all(cli: Cli) -> None:
    asked = ask(10, 20, 30)
    code, out, err = cli("approve", *ids(asked), *STORE, *BY, stdin="y\n")
    assert code == 0 and out.count("approve by ann") == 3
    assert "3 calls of credit by Returns desk" in err and 'the same in all: currency = "EUR"' in err
    [head] = [line for line in err.splitlines() if line.startswith("QUESTION")]
    assert head.split() == ["QUESTION", "order", "amount", "WHAT", "WOULD", "HAPPEN"]
    assert "1043" in err and "Credit 20.00 EUR for order 1043" in err
    assert "Approve these 3 questions as ann? [y/N]" in err
    assert ends(cli, *asked) == [("approve", "ann")] * 3
    settled = [found(cli, "questions", "show", each.id, *STORE) for each in asked]
    assert len({each["shown"] for each in settled}) == 3 and all(len(each["shown"]) == 64 for each in settled)


def test_anything_but_yes_decides_on_none(cli: Cli) -> None:
    asked = ask(10, 20)
    for answer in ("\n", "n\n", "approve 2\n", ""):
        code, out, err = cli("approve", *ids(asked), *STORE, *BY, stdin=answer)
        assert (code, out) == (1, "") and "Nothing was decided." in err
    assert ends(cli, *asked) == [(None, None)] * 2


def test_a_rejection_of_several_has_one_reason(cli: Cli) -> None:
    asked = ask(10, 900)
    code, _, err = cli("reject", *ids(asked), "--message", "not now", *STORE, *BY, stdin="y\n")
    assert code == 0 and 'Reject these 2 questions with the message "not now" as ann? [y/N]' in err
    assert ends(cli, *asked) == [("reject", "ann")] * 2


def test_what_is_unlike_most_others_is_marked(cli: Cli) -> None:
    asked = [*ask(10, 10, 10), *ask(10, 10, 10, currency="USD")[:1]]
    _, _, err = cli("approve", *ids(asked), *STORE, *BY, stdin="n\n")
    marked = [line for line in err.splitlines() if '≠ "USD"' in line]
    assert len(marked) == 1 and asked[-1].id in marked[0] and err.count("≠") == 1


def test_a_long_value_is_printed_whole_and_nothing_hides_in_it(cli: Cli) -> None:
    asked = [*ask(10, reason="a" * 60 + "\u202e!"), *ask(10, reason="a" * 60 + "?")]
    _, _, err = cli("approve", *ids(asked), *STORE, *BY, stdin="n\n")
    assert 'reason = "' + "a" * 60 + '?"' in err and "a" * 60 + "\\u202e!" in err and "\u202e" not in err


def test_a_warning_takes_a_typed_word_and_yes_is_not_enough(cli: Cli) -> None:
    asked = ask(10, 900)
    words = ("approve", *ids(asked), *STORE, *BY)
    code, _, err = cli(*words, stdin="y\n")
    assert code == 1 and "WARNING: The credit is ten times what was paid." in err
    assert 'Approve these 2 questions as ann despite the warnings? Type "approve 2":' in err
    code, out, err = cli(*words, "--yes")
    assert (code, out) == (1, "") and "add --despite-warnings" in err
    assert ends(cli, *asked) == [(None, None)] * 2
    assert cli(*words, stdin="approve 2\n")[0] == 0
    assert ends(cli, *asked) == [("approve", "ann")] * 2


def test_one_question_with_a_warning_takes_a_typed_word_too(cli: Cli) -> None:
    asked = [*ask(900), *ask(10, tool=make_credit(risk="high"))]
    for each in asked:
        words = ("approve", each.id, *STORE, *BY)
        code, _, err = cli(*words, stdin="y\n")
        assert code == 1 and 'Approve as ann despite the warnings? Type "approve":' in err
        assert cli(*words, "--yes")[0] == 1
        assert ends(cli, each) == [(None, None)]
    assert cli("approve", asked[0].id, *STORE, *BY, stdin="approve\n")[0] == 0
    assert cli("approve", asked[1].id, *STORE, *BY, "--yes", "--despite-warnings")[0] == 0
    assert ends(cli, *asked) == [("approve", "ann")] * 2


def test_a_rejection_needs_no_second_word(cli: Cli) -> None:
    asked = ask(10, 900)
    assert cli("reject", *ids(asked), *STORE, *BY, "--yes")[0] == 0
    assert ends(cli, *asked) == [("reject", "ann")] * 2


def test_what_was_decided_before_or_is_not_there_is_left_out_and_named(cli: Cli) -> None:
    asked = ask(10, 20, 30)
    decide(asked[1], Reject("no"))
    code, out, err = cli("approve", *ids(asked), "q_none", *STORE, *BY, "--yes")
    assert code == 1 and out.count("approve by ann") == 2
    assert f"Left out: {asked[1].id}: It is settled: reject by otto" in err and "Left out: q_none: " in err
    assert ends(cli, *asked) == [("approve", "ann"), ("reject", "otto"), ("approve", "ann")]


def test_what_was_taken_after_it_was_shown_is_named_and_the_rest_stand(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(10, 20, 30)
    real = source.StoreSource.decide_many

    async def late(self: Any, *args: Any, **more: Any) -> Any:
        await self._store.decide(asked[0].id, Approve(), by="otto", digest=asked[0].digest)
        await self._store.decide(asked[1].id, Reject("no"), by="otto", digest=asked[1].digest)
        return await real(self, *args, **more)

    monkeypatch.setattr(source.StoreSource, "decide_many", late)
    code, out, err = cli("approve", *ids(asked), *STORE, *BY, stdin="y\n")
    assert code == 1 and f"{asked[0].id}: approve by otto" in out and f"{asked[2].id}: approve by ann" in out
    assert f"Not decided: {asked[1].id}: " in err and "was rejected by otto already" in err
    assert ends(cli, *asked) == [("approve", "otto"), ("reject", "otto"), ("approve", "ann")]


def test_questions_that_are_not_alike_are_refused_together(cli: Cli) -> None:
    asked = [*ask(10), *ask(20, tool=make_credit("Something else."))]
    code, out, err = cli("approve", *ids(asked), *STORE, *BY, "--yes")
    assert (code, out) == (1, "") and "The definition of 'credit' changed" in err
    assert ends(cli, *asked) == [(None, None)] * 2


def test_the_same_command_again_changes_nothing(cli: Cli) -> None:
    asked = ask(10, 20)
    words = ("approve", *ids(asked), *STORE, *BY, "--yes")
    assert cli(*words)[0] == 0
    code, _, err = cli(*words)
    assert code == 1 and err.count("It is settled: approve by ann") == 2


def test_the_outcome_is_json_for_programs(cli: Cli) -> None:
    asked = ask(10, 20)
    code, out, _ = cli("approve", *ids(asked), *STORE, *BY, "--yes", "--json")
    items = json.loads(out)["items"]
    assert code == 0 and [each["id"] for each in items] == ids(asked)
    assert all(each["question"]["verdict"] == "approve" and each["problem"] is None for each in items)


@pytest.mark.parametrize("place", [("runs.db", "A", "B"), ("--store", "runs.db", "A", "B"), ("A", "B")])
def test_questions_decide_takes_several(place: tuple[str, ...], cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask(10, 20)
    monkeypatch.setenv("ASSENTRY_STORE", "runs.db")
    words = [{"A": asked[0].id, "B": asked[1].id}.get(word, word) for word in place]
    assert cli("questions", "decide", *words, "approve", *BY, "--yes")[0] == 0
    assert ends(cli, *asked) == [("approve", "ann")] * 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("approve", "q_1", "q_2", "--digest", "d"), "--digest goes with one question"),
        (("edit", "q_1", "q_2", "--arguments", "{}"), "edit goes with one question"),
        (("respond", "q_1", "q_2", "--output", "1"), "respond goes with one question"),
    ],
)
def test_what_goes_with_one_question_only_is_misuse_with_several(words: tuple[str, ...], why: str, cli: Cli) -> None:
    code, out, err = cli(*words, *STORE, *BY)
    assert (code, out) == (2, "") and why in err


def test_a_viewer_of_the_store_decides_on_none(cli: Cli) -> None:
    asked = ask(10, 20)
    add_user(cli, "vic", "viewer")
    code, out, err = cli("approve", *ids(asked), *STORE, "--by", "vic", "--yes")
    assert (code, out) == (1, "") and err.count("vic is a viewer, and may not decide here") == 2
    assert ends(cli, *asked) == [(None, None)] * 2


def test_more_than_a_hundred_are_refused_in_one_line(cli: Cli) -> None:
    ask(10)
    code, out, err = cli("approve", *(f"q_{n}" for n in range(101)), *STORE, *BY, "--yes")
    assert (code, out, err.count("\n")) == (1, "", 1) and "At most 100 questions" in err


def test_several_are_decided_on_a_server(cli: Cli, address: str) -> None:
    asked = ask(10, 20, 900)
    token = add_token(cli, "ann", "reviewer")
    where = ("--server", address, "--token", token)
    decide(asked[1], Reject("no"))
    code, out, err = cli("approve", *ids(asked), *where, stdin="approve 2\n")
    assert code == 1 and out.count("approve by ann") == 2 and f"Left out: {asked[1].id}" in err
    assert ends(cli, *asked) == [("approve", "ann"), ("reject", "otto"), ("approve", "ann")]
    looker = ("--server", where[1], "--token", add_token(cli, "vic", "viewer"))
    more = ask(10, 20)
    code, out, err = cli("approve", *ids(more), *looker, "--yes")
    assert (code, out) == (1, "") and "vic is a viewer" in err
