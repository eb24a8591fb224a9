"""The sentence that a question begins with, and the order of its arguments, wherever a person sees them."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from assentry import Agent, Edit, Reject, Runner, function_tool
from assentry.approval.tool_snapshot import ToolSnapshot
from assentry.cli import main
from assentry.core.digest import canonical
from assentry.definitions.tool import Tool
from assentry.inbox.bounds import MOST_READ
from assentry.inbox.headline import ShownQuestion, arguments_in_order, sentence_of, shown_hash, with_order
from assentry.store import MemoryStore, SQLiteStore, Store
from assentry.store.outbox import Message, Subject
from assentry.store.record import Question
from assentry.testing import ScriptedModel, call
from tests.inbox.office import hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes
from tests.inbox.support import client

__all__ = ["cheap_hashes"]  # a fixture
pytestmark = pytest.mark.usefixtures("cheap_hashes")


@function_tool(needs_approval=True)
async def pay(to: str, amount: float, currency: str = "EUR", memo: str = "", address: str = "") -> str:
    """Pay somebody."""
    return "paid"


@function_tool(needs_approval=True, strict_mode=False)
async def loosely(to: str, amount: float, zone: str = "", note: str = "", code: str = "") -> str:
    """Pay somebody."""
    return "paid"


@function_tool(needs_approval=True, preview=lambda ctx, args: f"Pay {args['amount']:.2f} to {args['to']}")
async def previewed(to: str, amount: float) -> str:
    """Pay somebody."""
    return "paid"


ORDER = ("to", "amount", "currency", "memo", "address")
GIVEN = {"to": "mallory@example.com", "amount": 9000.0, "memo": 'x", to "bob@example.com', "address": "here"}


async def asked(store: Store, tool: Tool = pay, arguments: Any = GIVEN) -> Question:
    model = ScriptedModel([call(tool.name, arguments), "Done."])
    [item] = (await Runner.run(Agent("Clerk", tools=[tool], model=model), "go", store=store)).interruptions
    return await store.question(item.id)


async def office() -> tuple[Store, FastAPI]:
    store = MemoryStore()
    await hire(store)
    return store, make_app(store)


def question(arguments: Any, *order: str, tool: str = "pay", **more: Any) -> ShownQuestion:
    text = arguments if isinstance(arguments, str) else canonical(arguments).decode()
    given = {"id": "q", "run": "r", "agent": "Clerk", "tool": tool, "kind": "approval", "digest": "d", "at": 0}
    return ShownQuestion(**given, arguments=text, reason="", allowed=("approve",), call="c", order=order, **more)  # type: ignore[arg-type]


# -- the sentence ------------------------------------------------------------------------------------------------------


async def test_a_note_that_looks_like_another_argument_does_not_hide_who_is_paid() -> None:
    store, app = await office()
    note = "x, to bob@example.com, amount 5"
    made = await asked(store, arguments={"to": "mallory@example.com", "amount": 9000.0, "address": note})
    words = 'Run pay with to "mallory@example.com", amount 9000.0, currency "EUR" and 2 more: memo, address'
    async with Reader(app) as reader:
        assert words in (await reader.open("/questions")).text
        page = await reader.open(f"/questions/{made.id}")
        assert words in page.text and words in page.source[: page.source.index("</title>")].replace("&#34;", '"')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Run pay"),
        ({"a": "", "b": True, "c": None}, 'Run pay with a "", b true, c null'),
        ({"a": [1, 2], "b": {"x": 1}, "c": {}}, "Run pay with a 2 items, b {…}, c {}"),
        ({"a": 12345678901234567890, "b": 1.0}, "Run pay with a 12345678901234567890, b 1.0"),
        ({"a": "one\ntwo"}, 'Run pay with a "one\\ntwo"'),
        ({"a": "x" * 60}, f'Run pay with a "{"x" * 40}"… (60 characters)'),
        ({'to "bob", b': 1}, 'Run pay with "to \\"bob\\", b" 1'),
        ({"a b": 1, "ünï": 2}, 'Run pay with "a b" 1, "ünï" 2'),
        (
            {f"n{n:02}": n for n in range(12)},
            "Run pay with n00 0, n01 1, n02 2 and 9 more: n03, n04, n05, n06, n07, n08, …",
        ),
        ("{not json", "Run pay with arguments that are not JSON"),
        ("", "Run pay"),
    ],
)
def test_the_words_of_a_call_without_a_preview(arguments: Any, words: str) -> None:
    assert sentence_of(question(arguments)) == words


@pytest.mark.parametrize("mark", ["\u201d", "\u201c", "\uff02", "\u2033", "\u02ba", "''", "\u2019\u2019", "``"])
def test_what_looks_like_a_quotation_mark_ends_no_text(mark: str) -> None:
    made = sentence_of(question({"memo": f"x{mark}, to {mark}bob"}))
    assert mark not in made and json.loads(made.partition("memo ")[2]) == f"x{mark}, to {mark}bob"


NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
VALUES = st.one_of(
    st.text(max_size=40), st.integers(), st.booleans(), st.none(),
    st.text(st.sampled_from('", abtomunt\\\n1\u201d\''), max_size=40),
)  # fmt: skip


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=3))
def test_no_value_can_look_like_another_argument(arguments: dict[str, Any]) -> None:
    """What is said can be read back, so it has one meaning only."""
    rest = sentence_of(question(arguments)).removeprefix("Run pay with ")
    found: dict[str, Any] = {}
    while rest:
        name, _, rest = rest.partition(" ")
        found[name], end = json.JSONDecoder().raw_decode(rest)
        rest = rest[end:].removeprefix(", ")
    assert found == arguments


# -- the order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", [pay, loosely], ids=lambda tool: tool.name)
def test_a_snapshot_keeps_the_order_of_the_signature_and_the_fingerprint(tool: Tool) -> None:
    kept = ToolSnapshot.read(tool.frozen())
    assert kept.parameters == list(tool.params_json_schema["properties"])
    assert kept.fingerprint == tool.fingerprint
    # Questions that are open across an upgrade stay open: these fingerprints are of an earlier version.
    assert (
        tool.fingerprint
        == {"pay": "c4f12e2e864a0f7bf4f48c090c839b10", "loosely": "8d2ea8aba5b33fffefb14715c5c872a0"}[tool.name]
    )


def test_an_older_snapshot_has_the_order_of_what_is_required() -> None:
    parts = msgspec.json.decode(loosely.frozen())
    assert parts.pop("order") == ["to", "amount", "zone", "note", "code"]
    assert ToolSnapshot.read(canonical(parts)).parameters == ["to", "amount", "code", "note", "zone"]


@pytest.mark.parametrize(
    ("schema", "order"),
    [
        ({}, []),
        ({"properties": True}, []),
        ({"properties": {"b": 1, "a": 1}, "required": 3}, ["a", "b"]),
        ({"properties": {"a": 1, "b": 1}, "required": [[], "b", "gone"]}, ["b", "a"]),
    ],
)
def test_a_schema_that_is_odd_has_an_order_too(schema: Any, order: list[str]) -> None:
    parts = {**msgspec.json.decode(pay.frozen()), "schema": schema, "order": ["gone"]}
    assert ToolSnapshot.read(canonical(parts)).parameters == order


async def test_arguments_stand_in_the_order_of_the_signature_on_every_page() -> None:
    store, app = await office()
    made = await asked(store)
    async with Reader(app) as reader:
        zone = (await reader.open(f"/questions/{made.id}")).source.partition("Exact arguments")[2]
        assert tuple(re.findall(r"<dt>(\w+)</dt>", zone))[:5] == ORDER
        for step in ("reject", "respond"):
            assert (
                tuple(re.findall(r"<dt>(\w+)</dt>", (await reader.open(f"/questions/{made.id}/{step}")).source))
                == ORDER
            )
        fields = [
            given["name"]
            for _, given in (await reader.open(f"/questions/{made.id}/always")).tags
            if given.get("name", "")[:4] == "how:"
        ]
        assert tuple(name[4:] for name in fields) == ORDER
        fields = [
            given["name"]
            for _, given in (await reader.open(f"/questions/{made.id}/edit")).tags
            if given.get("name", "")[:3] == "v:/"
        ]
        assert tuple(name[3:] for name in fields) == ORDER
        await reader.press("as JSON")
        assert (
            tuple(
                re.findall(
                    r"&#34;(\w+)&#34;:", reader.page.source.partition("<textarea")[2].partition("</textarea>")[0]
                )
            )
            == ORDER
        )
        await store.decide(made.id, Edit({"to": "bob", "amount": 5.0}), by="ben", digest=made.digest)
        page = await reader.open(f"/questions/{made.id}")
        assert list(
            dict.fromkeys(
                re.findall(r'"(\w+)":', page.text.partition("What runs instead")[2].partition("What was proposed")[0])
            )
        ) == list(ORDER)
        timeline = (await reader.open(f"/runs/{made.run}")).text
        assert 'It runs with {"to":"bob","amount":5.0,"currency":"EUR","memo":"","address":""}' in timeline


async def test_the_api_gives_the_order_and_leaves_the_arguments_canonical() -> None:
    store, _ = await office()
    made = await asked(store)
    async with client(store) as ann:
        one = (await ann.get(f"/api/questions/{made.id}")).json()
        [same] = (await ann.get("/api/questions")).json()["items"]
    assert one == same and tuple(one["order"]) == ORDER
    assert one["arguments"] == made.arguments == canonical({**GIVEN, "currency": "EUR"}).decode()
    [shown] = await with_order(store, [made])
    assert shown_hash(shown) == shown_hash(made)  # the hash of what was shown is the same wherever it is shown


async def test_a_question_whose_definition_is_not_there_is_shown_all_the_same() -> None:
    store, app = await office()
    made = await asked(store)
    store._definitions.clear()  # type: ignore[attr-defined]
    async with Reader(app) as reader:
        assert "Run pay with address" in (await reader.open(f"/questions/{made.id}")).text
        assert reader.answer.status_code == 200


def test_arguments_that_are_no_object_are_printed_as_they_are() -> None:
    assert arguments_in_order("[1]", ("a",)) == "[1]" and arguments_in_order("{x", ()) == "{x"
    assert (
        arguments_in_order('{"a":1.0,"b":{"z":1,"y":2},"c":"é\\n"}', ("c", "gone", "b"))
        == '{"c":"é\\n","b":{"y":2,"z":1},"a":1.0}'
    )


# -- after an edit -----------------------------------------------------------------------------------------------------


async def test_after_an_edit_the_headline_says_that_it_is_the_proposals() -> None:
    store, app = await office()
    made = await asked(store, previewed, {"to": "mallory", "amount": 9000.0})
    other = await asked(store, previewed, {"to": "carol", "amount": 7.0})
    await store.decide(made.id, Edit({"to": "bob", "amount": 5.0}), by="ben", digest=made.digest)
    await store.decide(other.id, Reject("no"), by="ben", digest=other.digest)
    words = "Proposed, then edited: Pay 9000.00 to mallory"
    async with Reader(app) as reader:
        page = await reader.open(f"/questions/{made.id}")
        assert (
            words in page.source[: page.source.index("</title>")] and f'<h1 id="sentence">{words}</h1>' in page.source
        )
        assert "The headline and the preview are those of the proposal" in page.text
        assert "What was proposed before the edit" in page.text and "Proposed arguments before the edit" in page.text
        assert page.text.count("Pay 9000.00") == page.text.count(words) + 1  # in the zone of the proposal
        assert words in (await reader.open("/audit")).text and "Pay 7.00 to carol" in reader.page.text
        assert "edited: Pay 7.00" not in reader.page.text
        assert "those of the proposal" in (await reader.open(f"/questions/{made.id}?part=notice")).text
        assert "those of the proposal" not in (await reader.open(f"/questions/{other.id}")).text


async def test_a_webhook_says_that_a_sentence_is_the_proposals() -> None:
    from assentry.inbox.webhooks import body_of

    store, _ = await office()
    made = await asked(store, previewed, {"to": "mallory", "amount": 9000.0})
    await store.decide(made.id, Edit({"to": "bob", "amount": 5.0}), by="ben", digest=made.digest)
    [shown] = await with_order(store, [await store.question(made.id)])
    told = Message(
        id="m", webhook="w", event="question.settled", subject=Subject(made.id, made.run, "edit", "ben"), at=0
    )
    data = json.loads(body_of(told, shown, None))["data"]
    assert data["sentence"] == "Proposed, then edited: Pay 9000.00 to mallory"
    assert list(data["arguments"]) == ["to", "amount"]


# -- on the command line -----------------------------------------------------------------------------------------------


def test_the_command_line_shows_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "runs.db")

    async def work() -> list[Question]:
        async with SQLiteStore(database) as store:
            made = [await asked(store), await asked(store, previewed, {"to": "mallory", "amount": 9000.0})]
            edited = await asked(store)
            await store.decide(edited.id, Edit({"to": "bob", "amount": 5.0}), by="ben", digest=edited.digest)
            return [*made, edited]

    plain, _, edited = asyncio.run(work())

    def shown(*words: str) -> str:
        assert main(words) == 0
        return capsys.readouterr().out

    table = shown("questions", "list", database)
    assert 'Run pay with to "mallory@example.com", amount 9000.0' in table and "Pay 9000.00 to mallory" in table
    lines = shown("questions", "show", database, plain.id).split("\n")
    assert any(
        line.startswith('arguments: {"to":"mallory@example.com","amount":9000.0,"currency":"EUR",') for line in lines
    )
    lines = shown("questions", "show", database, edited.id).split("\n")
    assert lines[0] == 'approved instead: pay {"to":"bob","amount":5.0,"currency":"EUR","memo":"","address":""}'
    assert lines[1].startswith("The preview and the arguments are those of the proposal;")
    [line] = [line for line in shown("runs", "show", database, edited.run).split("\n") if " approved " in line]
    assert '{"args":{"address":"","amount":5.0,"currency":"EUR","memo":"","to":"bob"},"asked"' in line


def test_arguments_that_are_too_long_to_read_are_told_by_their_length() -> None:
    text = '{"numbers":[' + ",".join("1" * (MOST_READ + 2)) + "]}"
    assert sentence_of(question(text)) == f"Run pay with arguments that are {len(text):,} characters long"
    assert arguments_in_order(text, ("b", "numbers")) is text
