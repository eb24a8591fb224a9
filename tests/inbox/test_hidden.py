"""Characters that nobody sees, and names that are not what they look like: on the page and on the command line."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

import assentry.inbox
from assentry import Agent, Runner, function_tool
from assentry.cli import main, write
from assentry.core import hidden
from assentry.core.hidden import MOST_UNKNOWN, hidden_parts, is_hidden, odd_letters
from assentry.inbox import escaping as page
from assentry.store import open_store
from assentry.testing import ScriptedModel, call

IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8 "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
"""Default_Ignorable_Code_Point, of DerivedCoreProperties-18.0.0.txt."""
FORMAT = (
    "00AD 0600-0605 061C 06DD 070F 0890-0891 08E2 180E 200B-200F 202A-202E 2060-2064 2066-206F FEFF FFF9-FFFB 110BD "
    "110CD 13430-1343F 1BCA0-1BCA3 1D173-1D17A E0001 E0020-E007F"
)
"""General_Category=Cf, of UnicodeData-18.0.0.txt."""
BLANK = "2800 13440-13442 13447-13455 16FE4 1D159"
"""Letters, marks and symbols that are blank, or change signs that are not there."""


def characters(ranges: str) -> list[str]:
    ends = [each.partition("-") for each in ranges.split()]
    return [chr(n) for first, _, last in ends for n in range(int(first, 16), int(last or first, 16) + 1)]


@pytest.mark.parametrize("ranges", [IGNORABLE, FORMAT, BLANK])
def test_what_shows_nothing_is_spelled_out_on_the_page_and_on_the_command_line(ranges: str) -> None:
    for char in characters(ranges):
        assert is_hidden(char)
        assert f"U+{ord(char):04X}" in page.spell_out_hidden(f"a{char}b")
        assert page.spell_out_hidden(f"a{char}b", lines=True) != f"a{char}b"
        assert page.hidden_characters(f"a{char}b")
        assert "\\u" in write.spell_out(f"a{char}b") and char not in write.spell_out(f"a{char}b")


def test_whatever_the_tables_of_python_do_not_know_is_spelled_out() -> None:
    for number in range(0x110000):
        char = chr(number)
        kind = unicodedata.category(char)
        if kind in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs") and char not in " \n\t":
            assert is_hidden(char), hex(number)
        if kind == "Cn" and not 0x1F000 <= number <= 0x1FAFF:
            assert is_hidden(char), hex(number)
    assert not any(map(is_hidden, "aZ09~äßéñ漢字שלוםعربی😀"))
    assert page.spell_out_hidden("a\u0378b") == 'a<u class="ch">U+0378 unassigned</u>b'
    assert write.spell_out("a\u0378b") == "a\\u0378b"


def test_a_text_of_many_unknown_characters_is_spelled_out_whole() -> None:
    unknown = "".join(chr(n) for n in range(0x40000, 0x40000 + MOST_UNKNOWN + 1))
    assert [run for _, run in hidden_parts(f"ok ä{unknown}", lines=True)][:2] == ["ä", unknown[0]]


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("Größe 5 €", "日本語", "👩‍🚀 ❤️", "ру́сский"):
        assert page.spell_out_hidden(text) == text and write.spell_out(text) == text


ODD = {
    "рay": "р",
    "pаypal": "а",
    "рау": "рау",
    "send_рау": "рау",
    "ｐay": "ｐ",
    "𝐩𝐚𝐲": "𝐩𝐚𝐲",
    "Ωmega": "Ω",
    "٣abc": "٣",
}


@pytest.mark.parametrize(("name", "letters"), ODD.items())
def test_a_name_with_letters_that_look_like_others_is_marked(name: str, letters: str) -> None:
    assert odd_letters(name) == list(letters)
    for each in letters:
        assert f"U+{ord(each):04X}" in page.shown_name(name)
        assert f"U+{ord(each):04X}" in write.spelled_name(name)


@pytest.mark.parametrize(
    "name",
    ["pay", "send_2", "Größe", "оплата", "ελληνικά", "送信tool", "日本語ツール", "Shop магазин", "Отдел с клиентами"],
)
def test_an_ordinary_name_is_not_marked(name: str) -> None:
    assert odd_letters(name) == []
    assert page.shown_name(name) == Markup(name) and write.spelled_name(name) == name


def test_every_name_of_a_tool_or_an_agent_on_a_page_is_looked_at() -> None:
    """A template that shows a name without the mark is found here."""
    for each in (Path(assentry.inbox.__file__).parent / "templates").glob("*.html"):
        assert not re.findall(r"\{\{ (?:\w+\.)?(?:tool|agent) \| show \}\}", each.read_text("utf-8")), each.name


def test_the_command_line_warns_of_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    @function_tool(name_override="рay", needs_approval=True)
    async def act() -> str:
        return "done"

    async def ask() -> str:
        agent = Agent(name="Cаshier", tools=[act], model=ScriptedModel([call("рay")]))
        async with open_store(str(tmp_path / "runs.db")) as store:
            return (await Runner.run(agent, "Go.", store=store)).interruptions[0].id or ""

    id, where = asyncio.run(ask()), ("--store", str(tmp_path / "runs.db"))
    for words in (("questions", "list"), ("questions", "show", id)):
        assert main([*words, *where]) == 0
        out = capsys.readouterr().out
        assert "U+0440 cyrillic small letter er" in out and "U+0430 cyrillic small letter a" in out


@pytest.mark.parametrize("lines", [False, True])
def test_a_long_text_is_looked_at_in_pieces(lines: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern holds the interpreter's lock until it is done: on a whole text it would stop the inbox."""
    compiled, runs, seen = hidden._pattern, hidden._runs("" if lines else "\n\t"), list[int]()

    class Pattern:
        def finditer(self, text: str, start: int, end: int) -> Any:
            seen.append(end - start)
            return compiled(runs).finditer(text, start, end)

    monkeypatch.setattr(hidden, "_pattern", lambda text: Pattern() if text == runs else compiled(text))
    text = "é" * (hidden.PIECE - 1) + "\u200b" * 3 + "x" * hidden.PIECE + "\u202e" + "y\n"
    parts = list(hidden.hidden_parts(text, lines=lines))
    assert "".join(part for pair in parts for part in pair) == text
    assert {char for _, run in parts for char in run} == {"\u200b", "\u202e", *("" if lines else "\n")}
    assert len(seen) == 3 and set(seen) == {hidden.PIECE}
