"""Programs for the SDK run on the skin with their imports changed: same requests, same printed text."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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


DIFFERENT: dict[str, list[Difference]] = {}
"""By program. Everything else must be the same."""


@dataclass(frozen=True)
class Ran:
    """What became of a program."""

    printed: str
    requests: str


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
    return Ran(plain(done.stdout), plain(json.dumps(asked(api, f"{side}-{name}"), indent=1, sort_keys=True)))


def asked(api: LocalAPI, account: str) -> list[Any]:
    """Return the requests of a program, without how they ask for pages of a conversation."""
    found = []
    for each in api.account(account).requests:
        body = each["body"]
        if isinstance(body, dict):
            body = {key: lean(value) for key, value in body.items() if key not in LEFT_OUT and value not in (None, [])}
        query = "" if each["path"].startswith("conversations") else each["query"]
        found.append({**each, "query": query, "body": body})
    return found


def lean(value: Any) -> Any:
    """Return a part of a request without nulls, and without the titles of schemas, which repeat the names."""
    if isinstance(value, list):
        return [lean(each) for each in value]
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if each is not None and (key != "title" or type(each) is dict)}
        return {key: lean(each) for key, each in kept.items()}
    return value


def plain(text: str) -> str:
    """Return a text with the numbers of ids left out."""
    return re.sub(r"\b([a-z]+)_[0-9]{8}\b", r"\1_ID", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_with_its_imports_changed(name: str, api: LocalAPI, tmp_path: Path) -> None:
    theirs = run(api, name, PROGRAMS[name], "theirs", tmp_path / "theirs")
    ours = run(api, name, IMPORT.sub("from assentry.agents", PROGRAMS[name]), "ours", tmp_path / "ours")
    printed, requests = theirs.printed, theirs.requests
    for each in DIFFERENT.get(name, ()):
        assert each.theirs in printed + requests, "a difference that is listed must be one"
        printed, requests = printed.replace(each.theirs, each.ours), requests.replace(each.theirs, each.ours)
    assert ours.printed == printed
    assert ours.requests == requests


def test_every_difference_is_in_the_guide() -> None:
    listed = [each.guide for differences in DIFFERENT.values() for each in differences]
    assert [words for words in listed if words not in GUIDE] == []


def test_a_program_changes_nothing_but_its_imports() -> None:
    for text in PROGRAMS.values():
        changed = IMPORT.sub("from assentry.agents", text)
        assert [line for line in text.splitlines() if line not in changed.splitlines()] == [
            line for line in text.splitlines() if line.startswith("from agents")
        ]
