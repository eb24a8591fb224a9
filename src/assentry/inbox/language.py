"""The language of the pages: their texts in one catalogue, chosen by the person or else by the browser.

The words in the program and in the templates are English, and are the keys of the catalogues in `locale/`. What tools,
agents, models and people wrote is never translated, and what is recorded or sent to programs stays English.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib.resources import files

from babel import Locale, negotiate_locale
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from msgspec.json import encode
from starlette.requests import Request

LANGUAGES = {"en": "English", "ko": "한국어", "ja": "日本語", "zh": "中文"}
"""The languages of the pages, each by its own name."""
COOKIE = "assentry_language"
"""The cookie with the language that a person chose."""

_LANGUAGE: ContextVar[str] = ContextVar("language", default="en")


def choose_language(request: Request) -> str:
    """Set the language of the texts that are made for this request, and return it."""
    chosen = request.cookies.get(COOKIE, "")
    found = chosen if chosen in LANGUAGES else _wanted(request.headers.get("accept-language", ""))
    _LANGUAGE.set(found)
    return found


def _wanted(header: str) -> str:
    """Return the first language of an `Accept-Language` header that there is; English if there is none."""
    named = []
    for part in header[:500].split(","):
        tag, _, quality = part.strip().partition(";")
        try:
            weight = float(quality.strip().removeprefix("q=") or 1)
        except ValueError:
            weight = 0.0
        if weight > 0:
            named.append((-weight, tag.strip()))
    wanted = [tag for _, tag in sorted(named, key=lambda each: each[0])]
    return (negotiate_locale(wanted, list(LANGUAGES), sep="-") or "en").partition("_")[0]


def language() -> str:
    """Return the language of the texts now."""
    return _LANGUAGE.get()


def locale() -> Locale:
    """Return the locale of the texts now, to write numbers and times as its readers do."""
    return _locale(_LANGUAGE.get())


@cache
def _locale(language: str) -> Locale:
    return Locale(language)


def translate(text: str, **values: object) -> str:
    """Return a text in the reader's language, with values in the place of names: `translate("{n} left", n=3)`."""
    found = _catalogue(_LANGUAGE.get()).get(text, text)
    return found.format(**values) if values else found


def translate_count(one: str, many: str, count: int, **values: object) -> str:
    """Return the text for a number of things; `{n}` is the number, as its readers write it."""
    said = one if count == 1 else many
    found = _catalogue(_LANGUAGE.get()).get(said, said)
    return found.format(n=local_number(count), **values)


def local_number(count: int) -> str:
    """Return a number as its readers write it."""
    return _number(count, _LANGUAGE.get())


@lru_cache(1024)
def _number(count: int, language: str) -> str:
    return format_decimal(count, locale=_locale(language))


def script_texts() -> str:
    """Return the texts that the scripts may say, by their English ones, in the reader's language; none in English."""
    return _script_texts(_LANGUAGE.get())


@cache
def _script_texts(language: str) -> str:
    catalogue = _catalogue(language)
    return encode({text: catalogue[text] for text in texts_in_scripts() if text in catalogue}).decode()


@cache
def texts_in_scripts() -> tuple[str, ...]:
    """Return the English texts of the scripts: each is the text of a call, `t("...")`."""
    scripts = sorted(file.name for file in (files("assentry.inbox") / "static").iterdir() if file.name.endswith(".js"))
    sources = [(files("assentry.inbox") / "static" / name).read_text("utf-8") for name in scripts]
    found = [text for source in sources for text in re.findall(r'\bt\("((?:[^"\\]|\\.)*)"', source)]
    return tuple(dict.fromkeys(re.sub(r"\\(.)", r"\1", text) for text in found))


@cache
def _catalogue(language: str) -> dict[str, str]:
    """Return the texts of a language by their English ones."""
    if language == "en":
        return {}
    with (files("assentry.inbox") / "locale" / f"{language}.po").open("rb") as file:
        found = read_po(file, locale=language)
    return {each.id: each.string for each in found if type(each.id) is str and type(each.string) is str and each.string}
