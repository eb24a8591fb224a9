"""Secrets of any length are masked in every outlet; very short ones also where they stand alone in other texts."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assentry import (
    SQL,
    Diff,
    Mail,
    Money,
    Preview,
    RunConfig,
    Runner,
    Secret,
    Sentence,
    Shell,
    Table,
    Text,
    Tracing,
    function_tool,
)
from assentry.cli import main
from assentry.core.mask import MASK, mask_secrets
from assentry.inbox.dispatch import Dispatcher
from assentry.inbox.mask import masked, masked_journal
from assentry.inbox.webhooks import Webhooks
from assentry.store import SQLiteStore
from assentry.testing import call
from tests.inbox.office import hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.receiver import Receiver
from tests.inbox.stores import cheap_hashes
from tests.inbox.support import client
from tests.runtime.support import scripted
from tests.tracing.otlp import Receiver as Spans

__all__ = ["cheap_hashes"]  # a fixture

SHORT = ["9§3", "§§", "§"]
"""Secrets with a character that is in no id, no time and no page."""
WORDS = ["sql", "tool", "fact", "asked", "sentence", "text", "update", "0", "1", "ann", "a"]
"""Secrets that are words of Assentry's own."""


def preview(ctx: Any, args: dict[str, Any]) -> Preview:
    cvv = args["cvv"]
    return Preview(
        f"Pay with {cvv}.",
        (
            Sentence(f"The code is {cvv}."),
            Text(f"cvv={cvv}", title=cvv),
            Diff("a.txt", f"+{cvv}"),
            SQL(f"SELECT '{cvv}'", {"cvv": cvv}, rows=1),
            Money("1", "EUR", cvv),
            Mail((cvv,), f"Code {cvv}", cvv),
            Shell((f"pay {cvv}",)),
            Table(("code",), ((cvv,), (1,))),
        ),
    )


@function_tool(needs_approval=True, preview=preview, reviewers=("ann",))
async def pay(cvv: Secret[str], pin: Secret[int], to: str) -> str:
    """Pay."""
    raise ValueError(f"declined: {cvv}")


async def asked(path: Path, cvv: str, pin: int = 7, **config: Any) -> Any:
    clerk = scripted(call("pay", {"cvv": cvv, "pin": pin, "to": "bob"}), "Done.", tools=[pay])
    async with SQLiteStore(path) as store:
        result = await Runner.run(clerk, "Pay.", store=store, run_config=RunConfig(**config))
        return clerk, result.interruptions[0], await store.question(result.interruptions[0].id)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Receiver() as receiver:
        yield receiver


@pytest.mark.usefixtures("cheap_hashes")
@pytest.mark.parametrize("secret", SHORT)
async def test_a_short_secret_is_in_no_message_no_answer_no_page_no_span_and_no_log(
    secret: str, tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said: dict[str, str] = {}
    with Spans() as spans:
        tracing = Tracing(endpoint=spans.url, include_sensitive_data=True)
        async with SQLiteStore(tmp_path / "a.db") as store:
            await Webhooks(store).add(receiver.url)
        clerk, item, question = await asked(tmp_path / "a.db", secret, tracing=tracing)
        assert secret in question.arguments, "who decides sees it"
        async with SQLiteStore(tmp_path / "a.db") as store:
            await Dispatcher(store).send_due()
            await store.decide(item.id, {"type": "approve"}, by="ann", digest=item.digest)
            await Runner.run(clerk, await store.load(question.run), store=store, run_config=RunConfig(tracing=tracing))
            await Dispatcher(store).send_due()
            said |= await _read(store, question)
        assert tracing.flush()
        said["spans"] = b"".join(spans.bodies).decode("utf-8", "replace")
    said["webhooks"] = "".join(repr(each) + json.dumps(each.json, ensure_ascii=False) for each in receiver.got)
    said["logs"] = caplog.text
    assert receiver.got and "declined" in said["spans"]
    for where, text in said.items():
        assert secret not in text, where


async def _read(store: Any, question: Any) -> dict[str, str]:
    """Return everything that a viewer can read over HTTP."""
    await hire(store)
    found = {}
    async with client(store, "vera", "viewer") as web:
        for path in ("questions", "questions?settled=true", f"questions/{question.id}", "runs", f"runs/{question.run}"):
            found[path] = (await web.get(f"/api/{path}")).text
        found["journal"] = (await web.get(f"/api/runs/{question.run}/journal")).text
    async with Reader(make_app(store), "vera") as reader:
        run = f"/runs/{question.run}"
        for path in ("/questions", "/audit", f"/questions/{question.id}", "/runs", run, f"{run}?all=1"):
            found[f"page {path}"] = (await reader.open(path)).source
            assert reader.answer.status_code == 200, path
    return found


@pytest.mark.parametrize("options", [[], ["--json"], ["--settled"]])
def test_a_short_secret_is_in_no_list_of_the_command_line(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.db"
    _, item, _ = asyncio.run(asked(path, "9§3"))
    if "--settled" in options:
        assert main(["reject", item.id, "--store", str(path), "--by", "ann", "--digest", item.digest]) == 0
    capsys.readouterr()
    assert main(["questions", "list", str(path), *options]) == 0
    out, err = capsys.readouterr()
    assert item.id in out and "9§3" not in out + err


@pytest.mark.usefixtures("cheap_hashes")
@pytest.mark.parametrize("word", WORDS)
async def test_a_secret_that_is_a_word_of_ours_breaks_no_outlet(word: str, tmp_path: Path) -> None:
    _, item, question = await asked(tmp_path / "a.db", word, 0)
    hides = masked(question)
    assert json.loads(hides.arguments) == {"cvv": MASK, "pin": MASK, "to": "bob"}
    assert hides.preview is not None and hides.preview.sentence == f"Pay with {MASK}."
    assert [type(each) for each in hides.preview.blocks] == [type(each) for each in question.preview.blocks]
    async with SQLiteStore(tmp_path / "a.db") as store:
        await store.decide(item.id, {"type": "reject"}, by="ann", digest=item.digest)
        before = await store.history(question.run)
        after = masked_journal(before, (await store.questions(settled=True)).items)
        for name in ("fact", "at", "call", "calls", "path", "usage", "kind", "max_turns"):
            assert [entry.fact.get(name) for entry in after] == [entry.fact.get(name) for entry in before]
        for text in (await _read(store, question)).values():
            assert text
    msgspec.json.encode(hides)


def test_a_short_secret_is_hidden_where_it_is_no_part_of_a_longer_word_or_number() -> None:
    assert mask_secrets("CVV 123, cvv123, '123'; not 1234 or 0123", {"123"}) == (
        f"CVV {MASK}, cvv{MASK}, '{MASK}'; not 1234 or 0123"
    )
    assert mask_secrets("ok, okay, OK_ok", {"ok"}) == f"{MASK}, okay, OK_{MASK}"
