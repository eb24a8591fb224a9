"""Secret arguments: masked wherever nobody decides, whole for who does."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import msgspec
import pytest
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

from assentry import Edit, Preview, RunConfig, Runner, Secret, Sentence, Tracing, function_tool
from assentry.cli import main
from assentry.core.mask import MASK, mask_secrets, masked_text
from assentry.inbox.mask import masked, masked_journal
from assentry.store import SQLiteStore
from assentry.testing import call
from tests.runtime.support import scripted
from tests.tracing.otlp import Receiver

CARD = 'four-one-"1111"\né'
PIN = 826_417_539_264  # long enough not to be in an id or a time by chance


class Card(BaseModel):
    number: Secret[str]


@dataclass
class Account:
    inner: list[Card]


class Typed(TypedDict):
    pin: Secret[int]


def test_the_type_of_a_parameter_says_that_it_is_secret() -> None:
    @function_tool(redact=["named"])
    def pay(
        named: str,
        card: Secret[str],
        maybe: Optional[Secret[str]],  # noqa: UP045
        many: list[Secret[int]],
        model: Card,
        deep: Account,
        typed: Typed,
        pydantics: SecretStr,
        plain: str = "",
    ) -> str:
        """Pay."""
        return ""

    @function_tool
    def same(card: str) -> str:
        """Pay."""
        return ""

    assert pay.redact == ("named", "card", "maybe", "many", "model", "deep", "typed", "pydantics")
    assert pay.params_json_schema["properties"]["card"] == same.params_json_schema["properties"]["card"]


def test_a_type_that_refers_to_itself_is_read_once() -> None:
    assert function_tool(walk).redact == ()


class Node(BaseModel):
    name: str
    next: Optional[Node] = None  # noqa: UP045


def walk(node: Node) -> str:
    """Walk."""
    return node.name


@pytest.mark.parametrize("text", ["{", "[]", '{"a":1,"a":2}', ""])
def test_arguments_that_cannot_be_read_are_masked_as_a_whole(text: str) -> None:
    assert masked_text(text, ["a"]) == json.dumps(MASK)


def test_a_secret_that_is_cut_short_is_hidden_too() -> None:
    assert mask_secrets("got 0123456789...", {"0123456789abcdef"}) == f"got {MASK}..."
    assert mask_secrets("0123456789abcdef0123456789abcdef!", {"0123456789abcdef"}) == f"{MASK}{MASK}!"
    assert mask_secrets("nothing", {"0123456789abcdef"}) == "nothing"


def preview(ctx: Any, args: dict[str, Any]) -> Preview:
    return Preview(f"Pay with {args['card']!s}.".replace("\n", " "), (Sentence(f"The card is {args['card']}."),))


def paying(body: Any = None) -> Any:
    @function_tool(needs_approval=True, preview=preview)
    async def pay(card: Secret[str], pin: Secret[int], to: str) -> str:
        """Pay."""
        raise ValueError(f"declined: {card} {pin}")

    return pay


def spotless(text: str) -> bool:
    quoted = json.dumps(CARD)[1:-1], json.dumps(CARD, ensure_ascii=False)[1:-1], repr(CARD)[1:-1]
    return not any(each in text for each in (CARD, *quoted, str(PIN), "four-one"))


async def stored(path: Path, arguments: Any, tracing: Tracing | None = None) -> Any:
    """A run that waits in a store, and its agent and config."""
    clerk = scripted(call("pay", arguments), "Done.", tools=[paying()])
    config = None if tracing is None else RunConfig(tracing=tracing)
    async with SQLiteStore(path) as store:
        await Runner.run(clerk, "Pay the bill.", store=store, run_config=config)
    return clerk, config


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Receiver() as receiver:
        yield receiver


async def test_no_span_no_log_and_no_journal_shows_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, receiver: Receiver
) -> None:
    caplog.set_level(logging.DEBUG)
    tracing = Tracing(endpoint=receiver.url, include_sensitive_data=True)
    clerk, config = await stored(tmp_path / "a.db", {"card": CARD, "pin": PIN, "to": "ann"}, tracing)
    async with SQLiteStore(tmp_path / "a.db") as store:
        [question] = (await store.questions()).items
        assert json.loads(question.arguments)["card"] == CARD, "who decides sees it"
        hides = masked(question)
        assert json.loads(hides.arguments) == {"card": MASK, "pin": MASK, "to": "ann"}
        assert spotless(msgspec.json.encode(hides).decode()) and hides.preview and MASK in hides.preview.sentence
        other = {"card": CARD, "pin": PIN + 1, "to": "bob"}
        await store.decide(question.id, Edit(other), by="ann", digest=question.digest)
        await Runner.run(clerk, await store.load(question.run), store=store, run_config=config)
        history = masked_journal(await store.history(question.run), (await store.questions(settled=True)).items)
        text = msgspec.json.encode(history).decode()
        assert spotless(text) and str(PIN + 1) not in text and '"bob"' in text
    assert tracing.flush()
    said = b"".join(receiver.bodies).decode("utf-8", "replace")
    assert spotless(said) and str(PIN + 1) not in said and said.count(MASK) > 3
    assert "bob" in said and "declined" in said
    assert spotless(caplog.text)


async def test_the_reason_of_a_call_that_cannot_run_quotes_no_secret(tmp_path: Path) -> None:
    await stored(tmp_path / "a.db", {"card": 777123456789, "pin": CARD * 20, "to": "ann"})
    async with SQLiteStore(tmp_path / "a.db") as store:
        [question] = (await store.questions()).items
        assert "four-one" in question.reason
        text = msgspec.json.encode(masked(question)).decode()
        assert spotless(text) and "777123" not in text and "This call cannot run as it is" in text


async def test_another_argument_that_quotes_a_secret_does_not_show_it(tmp_path: Path) -> None:
    quoting = f"ann, with the card {CARD} and the pin {PIN}"
    await stored(tmp_path / "a.db", {"card": CARD, "pin": PIN, "to": quoting})
    async with SQLiteStore(tmp_path / "a.db") as store:
        hides = masked((await store.questions()).items[0])
    assert spotless(hides.arguments)
    assert json.loads(hides.arguments) == {
        "card": MASK, "pin": MASK, "to": f"ann, with the card {MASK} and the pin {MASK}"
    }  # fmt: skip


async def test_a_question_without_secrets_stays_as_it_is(tmp_path: Path) -> None:
    await stored(tmp_path / "a.db", {"card": CARD, "pin": PIN, "to": "ann"})
    async with SQLiteStore(tmp_path / "a.db") as store:
        [question] = (await store.questions()).items
    plain = msgspec.structs.replace(question, redact=())
    assert masked(plain) is plain
    entries: list[Any] = []
    assert masked_journal(entries, [plain]) == entries


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_list_of_the_command_line_is_masked(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    path = str(tmp_path / "a.db")
    asyncio.run(stored(tmp_path / "a.db", {"card": CARD, "pin": PIN, "to": "ann"}))
    assert main(["questions", "list", path, *options]) == 0
    out, err = capsys.readouterr()
    assert spotless(out + err) and MASK in out
