"""Characters that a reader cannot see, or takes for others: one table for the page and the command line.

The lists are of Unicode 18.0. A character that Python's own tables do not know yet counts as hidden, too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from unicodedata import category, name, normalize

HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u2d7f\u3000\u3164\ud800-"
    "\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001107f\U000110bd\U000110cd\U00013430-\U0001345f\U00016fe4"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
"""The characters that show nothing or reorder others, as ranges of a regular expression; a test derives them again."""
_ACCENT = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_PILED = f"(?<={_ACCENT}{{3}}){_ACCENT}"  # no language needs more upon one letter
_KEPT = "\U0001f000-\U0001faff"  # for emoji: one that is newer than the tables can be seen
PIECE = 50_000
"""The characters of a text that are looked at at once: the interpreter's lock is held meanwhile."""
MOST_UNKNOWN = 200
"""The most different characters of no known meaning in a text; with more, nothing but ASCII counts as seen."""


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return a compiled pattern. The patterns are long, so each is compiled when it is first needed."""
    return re.compile(text)


def _runs(more: str) -> str:
    """Return the pattern of a run of one hidden character; `more` are others that count as hidden."""
    return f"([{HIDDEN}{more}]|{_PILED})\\1*"


def is_hidden(char: str) -> bool:
    """Return True if a character shows nothing by itself, or changes how others are shown."""
    if " " <= char <= "~":
        return False
    return bool(_pattern(f"[{HIDDEN}]").match(char)) or _is_unknown(char)


def _is_unknown(char: str) -> bool:
    return category(char) == "Cn" and bool(_pattern(f"[^\x00-\x7f{HIDDEN}{_KEPT}]").match(char))


def hidden_parts(text: str, *, lines: bool) -> Iterator[tuple[str, str]]:
    """Yield the text in parts: seen text and the run of equal hidden characters after it.

    With `lines`, line breaks and tabs are seen text.
    """
    more, known = "" if lines else "\n\t", "".join(_characters(text))
    unknown = [each for each in known if _is_unknown(each)]
    if not unknown and not _pattern(f"[{HIDDEN}{more}]|{_ACCENT}").search(known):  # few characters stand for many
        yield text, ""
        return
    pattern = _pattern(_runs(more))
    if unknown:  # such a pattern is of this text alone, and is not kept
        others = "".join(sorted(unknown)) if len(unknown) <= MOST_UNKNOWN else "\x80-\U0010ffff"
        pattern = re.compile(_runs(f"{others}{more}"))
    at = begin = end = 0  # the end of what was yielded, and the run that was found last: it may go on in the next piece
    for start in range(0, len(text), PIECE):
        for found in pattern.finditer(text, start, start + PIECE):
            if _emoji(text, found.start()):
                continue
            if begin < end and (found.start() > end or text[begin] != found[0][0]):
                yield text[at:begin], text[begin:end]
                at = end
            begin, end = (begin if at < end == found.start() else found.start()), found.end()
    if begin < end:
        yield text[at:begin], text[begin:end]
    yield text[max(at, end) :], ""


def _characters(text: str) -> set[str]:
    """Return the different characters of a text."""
    found: set[str] = set()
    for start in range(0, len(text), PIECE):
        found.update(text[start : start + PIECE])
    return found


def _emoji(text: str, n: int) -> bool:
    """Return True for the joiner or selector of an ordinary emoji: it stands right after a symbol."""
    if text[n] not in "\u200d\ufe0f" or n == 0:
        return False
    before = text[n - 1]
    after = text[n + 1 : n + 2]
    if text[n] == "\ufe0f":
        return category(before) == "So"
    return (before == "\ufe0f" or category(before) in ("So", "Sk")) and (bool(after) and category(after) == "So")


# Names in letters that look like others

LOOKALIKES = frozenset(
    "аеорсухіјѕһԁԛԝѵӏАВЕКМНОРСТУХІЈЅԌԚԜҮ"  # Cyrillic
    "αινορυχγκΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳ"  # Greek
    "օսցհոզլՍՏՕ"  # Armenian
    "ᎪᏴᏟᎠᎬᏀᎻᎥᏙᏦᏞᎷᏢᏒᏚᎢᏙᏔᎽᏃᏎᏐᏂ"  # Cherokee
    "ꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜꓮ"  # Lisu
)
"""Letters of other scripts that look like letters of ours."""
_EAST = ("BOPOMOFO", "CJK", "HANGUL", "HIRAGANA", "IDEOGRAPHIC", "KATAKANA", "KATAKANA-HIRAGANA")
_WORD = re.compile(r"[^\W_]+")


def odd_letters(text: str) -> list[str]:
    """Return the letters of a name that stand among those of another script, or look like them, each once.

    A word in letters of one script is ordinary, unless every letter of that script in the name looks like a Latin one.
    Han, kana, hangul and Latin letters stand together in ordinary words.
    """
    if text.isascii():
        return []
    ordinary = {_script(each) for each in text if each.isalpha() and not _looks_latin(each)}
    return list(dict.fromkeys(char for word in _WORD.findall(text) for char in _odd(word, ordinary)))


def _odd(word: str, ordinary: set[str]) -> list[str]:
    letters = [each for each in word if not each.isascii() or each.isalpha()]
    foreign = [each for each in letters if _script(each) != "LATIN"]
    scripts = {_script(each) for each in letters}
    return foreign if len(scripts) > 1 or (scripts - ordinary and all(map(_looks_latin, foreign))) else []


def _looks_latin(char: str) -> bool:
    return char in LOOKALIKES or (not char.isascii() and normalize("NFKC", char).isascii())


def _script(char: str) -> str:
    """Return the script of a letter, from its name: Python has no table of scripts."""
    first = name(char, "UNKNOWN").partition(" ")[0]
    return "LATIN" if first in _EAST else first
