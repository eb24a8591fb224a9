"""The page about the rules file: its example is read as a file, and judges the calls of its table as the table says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from assentry.approval.foreign_call import CallRequest
from assentry.approval.rule_file import CallRule, RuleFile
from assentry.store import MemoryStore
from assentry.store.calls import ask_about_call

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "rules-file.md"
TEXT = PAGE.read_text("utf-8")
STATES = {"runs": "approved", "a person is asked": "waiting", "finance is asked": "waiting", "refused": "rejected"}


SOURCES = {"anns-laptop": "claude-code"}
"""What callers call themselves, if it matters."""


class Row(NamedTuple):
    """A call of the page's table, and what the page says of it."""

    caller: str
    call: str
    verdict: str
    by: str


def rows() -> list[Row]:
    """Return the rows of the table of calls."""
    found = re.findall(r"^\| `([\w-]+)` \| `(.+)` \| ([\w ]+) \| (.+) \|$", TEXT, re.MULTILINE)
    return [Row(*each) for each in found]


@pytest.fixture
def rules(tmp_path: Path) -> RuleFile:
    """The page's example, read from a file as a server reads it."""
    [example] = [each.content for each in MarkdownIt().parse(TEXT) if each.type == "fence" and each.info == "toml"]
    file = tmp_path / "rules.toml"
    file.write_text(example, "utf-8")
    return RuleFile.read(file)


def test_the_table_has_rows() -> None:
    assert len(rows()) == 12


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.caller} {row.call}")
async def test_the_example_judges_a_call_as_the_page_says(row: Row, rules: RuleFile) -> None:
    parts = re.fullmatch(r"(?:(\w+): )?(\w+) (.+)", row.call)
    assert parts is not None
    request = CallRequest(
        source=SOURCES.get(row.caller, "shop"), tool=parts[2], arguments=json.loads(parts[3]), server=parts[1]
    )
    async with MemoryStore() as store:
        status, _ = await ask_about_call(store, request, by=row.caller, rules=rules)
        assert status.state == STATES[row.verdict]
        number = re.match(r"rule (\d)", row.by)
        if number is None:
            assert status.by is None
            return
        rule = rules.rule[int(number[1]) - 1]
        if rule.verdict != "ask":
            assert status.by == f"rule:{rule.name}"
            return
        assert status.reason == rule.reason
        question = await store.question(status.question or "")
        assert (question.reviewers, question.risk) == (("group:finance",), "high")


def test_every_field_of_a_rule_is_on_the_page() -> None:
    named = re.findall(r"^\| `(\w+)` \|", TEXT.partition("## The fields of a rule")[2], re.MULTILINE)
    assert sorted(named) == sorted(CallRule.__struct_fields__)


async def test_a_rule_for_one_caller_lets_no_other_pass_that_takes_its_source(rules: RuleFile) -> None:
    request = CallRequest(source="billing-bot", tool="refund", arguments={"amount": 20, "currency": "EUR"})
    async with MemoryStore() as store:
        mine, _ = await ask_about_call(store, request, by="billing-bot", rules=rules)
        theirs, _ = await ask_about_call(store, request, by="eve", rules=rules)
    assert (mine.state, theirs.state) == ("approved", "waiting")
