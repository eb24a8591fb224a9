"""Programs for the SDK run on the skin with their imports changed: same requests, same printed text."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import agents.agent_tool_input as theirs_input
import agents.extensions.handoff_prompt as theirs_prompt
import pytest

import assentry.agents.agent_tool_input as ours_input
import assentry.agents.extensions.handoff_prompt as ours_prompt
from tests.agents.peer.local_api import LocalAPI
from tests.agents.peer.test_sdk_names import GUIDE

HERE = Path(__file__).parent
PROGRAMS = {path.stem: path.read_text("utf-8") for path in sorted((HERE / "programs").glob("*.py"))}
IMPORT = re.compile(r"^from agents\b", re.MULTILINE)
LEFT_OUT = ("stream", "stream_options", "prompt_cache_key")
"""Parts of a request that are about how the answer comes, not about what is asked."""


@dataclass(frozen=True)
class Difference:
    """A difference by design: what stands for what, and the words of the guide that say so."""

    theirs: str
    ours: str
    guide: str


STRICT = ('": {\n     "properties": {', '": {\n     "additionalProperties": false,\n     "properties": {')
ANSWERED = "Answer 1 to: Do it. | from: done"
IN_ORDER = "outputs in the order of their calls"
WORDS = "texts that the SDK writes for the model"
DIFFERENT: dict[str, list[Difference]] = {
    "agents_as_tools": [
        Difference(theirs_input.STRUCTURED_INPUT_PREAMBLE, ours_input.STRUCTURED_INPUT_PREAMBLE, WORDS)
    ],
    "approvals": [
        Difference("['found', 'went to Tokyo', 'Too much.']", "['went to Tokyo', 'Too much.', 'found']", IN_ORDER),
        Difference("found ; went to Tokyo ; Too much.", "went to Tokyo ; Too much. ; found", IN_ORDER),
    ],
    "structured": [Difference(*STRICT, "names that a nested model does not have are ignored")],
    "tools": [Difference(*STRICT, "names that a nested model does not have are ignored")],
    "handoffs": [
        Difference(
            json.dumps(theirs_prompt.RECOMMENDED_PROMPT_PREFIX)[1:-1],
            json.dumps(ours_prompt.RECOMMENDED_PROMPT_PREFIX)[1:-1],
            WORDS,
        ),
        Difference(
            "'tool_call_output_item', 'message_output_item']\n",
            "'tool_call_output_item', 'handoff_call_item', 'handoff_output_item', 'message_output_item']\n"
            "Triage -> Refunds\n",
            "`new_items` lacks what the filter left out",
        ),
    ],
    "by_design": [
        Difference("one_state: False", "one_state: True", "`to_state()` gives a new copy each time"),
        Difference(f"resumed_twice: {ANSWERED}", "resumed_twice: raises StateSpent", "`StateSpent`"),
        Difference("finished: Answer 1 to: Hello.", "finished: raises RunFinished", "`RunFinished`"),
        Difference(
            "decided_twice: Answer 1 to: Do it. | from: Tool execution was not approved.",
            "decided_twice: raises AlreadyDecided",
            "a later decision replaces an earlier one",
        ),
        Difference("items: (2", "items: (1", "`to_input_list()` of a paused run has the open call"),
        Difference("'tool_approval_item', ", "", "`new_items` keeps the approval item of each call that was decided"),
        Difference("broken: raises UserError", "broken: 1", "a rule that raises fails the run"),
        Difference(
            "failed: raises UserError",
            "failed: raises LookupError",
            "`failure_error_function=None` raises a `UserError`",
        ),
        Difference(
            "['Gated', 'ask_first', 'Gated']", "['Gated', 'ask_first']", "`on_agent_start` comes again after a pause"
        ),
        Difference(
            "['Outer', 'inner']", "['Outer', 'inner', 'Inner', 'plain']", "run hooks are not told what an agent does"
        ),
        Difference(
            "more_turns: raises MaxTurnsExceeded", f"more_turns: {ANSWERED}", "`max_turns` is ignored on resume"
        ),
        Difference("waiting_session: 2", "waiting_session: 1", "a turn is in the session while it waits"),
        Difference(f"forgotten_session: {ANSWERED}", "forgotten_session: raises SessionMissing", "`SessionMissing`"),
    ],
}
"""By program. Everything else must be the same."""
PRINTED_ONLY = {"by_design"}
"""Programs whose requests differ as their lines do."""


@dataclass(frozen=True)
class Ran:
    """What became of a program."""

    printed: str
    requests: list[str]


@pytest.fixture(scope="module")
def api() -> Iterator[LocalAPI]:
    with LocalAPI() as server:
        yield server


def run(api: LocalAPI, name: str, text: str, side: str, folder: Path) -> Ran:
    folder.mkdir()
    (folder / "program.py").write_text(text, "utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI", "PYTHON"))}
    more = {"OPENAI_BASE_URL": api.url(f"{side}-{name}"), "OPENAI_API_KEY": "none", "PYTHONUTF8": "1"}
    if name != "tracing":
        more["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env=kept | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{side}: {done.stderr[-3000:]}"
    return Ran(plain(done.stdout), asked(api, f"{side}-{name}"))


def asked(api: LocalAPI, account: str) -> list[str]:
    """Return the requests of a program, without what does not matter."""
    found = []
    for each in api.account(account).requests:
        body = each["body"]
        if isinstance(body, dict):
            body = {key: lean(value) for key, value in body.items() if key not in LEFT_OUT and value not in (None, [])}
            body["input"] = sorted_outputs(body.get("input"))
        query = "" if each["path"].startswith("conversations") else each["query"]
        found.append(plain(json.dumps({**each, "query": query, "body": body}, indent=1, sort_keys=True)))
    return found


def sorted_outputs(items: Any) -> Any:
    """Return items with the outputs that stand together in the order of their texts."""
    if not isinstance(items, list):
        return items
    kept: list[Any] = []
    for _, group in groupby(items, lambda item: item.get("type") == "function_call_output"):
        kept += sorted(group, key=lambda item: str(item.get("output")))
    return kept


def lean(value: Any) -> Any:
    """Return a part of a request without nulls, and a schema without titles, defaults and unused definitions."""
    if isinstance(value, list):
        return [lean(each) for each in value]
    if not isinstance(value, dict):
        return value
    is_schema = "anyOf" in value or value.get("type") in ("object", "string", "integer", "boolean", "array")
    left_out = {"title", "default"} if is_schema else set()
    if "$defs" in value and "#/$defs/" not in json.dumps(value.get("properties")):
        left_out.add("$defs")
    return {key: lean(each) for key, each in value.items() if each is not None and key not in left_out}


def plain(text: str) -> str:
    """Return a text with the numbers of ids left out."""
    return re.sub(r"\b([a-z]+)_[0-9]{8}\b", r"\1_ID", text)


def adjusted(ran: Ran, differences: list[Difference]) -> Ran:
    """Return what became of a program, with what is known to differ put in the other's words."""
    texts = [ran.printed, *ran.requests]
    for each in differences:
        assert any(each.theirs in text for text in texts), "a difference that is listed must be one"
        texts = [text.replace(each.theirs, each.ours) for text in texts]
    return Ran(texts[0], texts[1:])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_with_its_imports_changed(name: str, api: LocalAPI, tmp_path: Path) -> None:
    theirs = run(api, name, PROGRAMS[name], "theirs", tmp_path / "theirs")
    ours = run(api, name, IMPORT.sub("from assentry.agents", PROGRAMS[name]), "ours", tmp_path / "ours")
    theirs = adjusted(theirs, DIFFERENT.get(name, []))
    assert ours.printed == theirs.printed
    if name not in PRINTED_ONLY:
        assert sorted(ours.requests) == sorted(theirs.requests)  # some are sent at the same time


def test_every_difference_is_in_the_guide() -> None:
    listed = [each.guide for differences in DIFFERENT.values() for each in differences]
    assert [words for words in listed if words not in GUIDE] == []


def test_a_program_changes_nothing_but_its_imports() -> None:
    for text in PROGRAMS.values():
        changed = IMPORT.sub("from assentry.agents", text)
        assert [line for line in text.splitlines() if line not in changed.splitlines()] == [
            line for line in text.splitlines() if line.startswith("from agents")
        ]
