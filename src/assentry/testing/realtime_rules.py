"""Replies by simple rules, for demos without a model: call the tool that the user's words name, or say a sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from .model import ScriptedCall, call

Item = dict[str, Any]

# fmt: off
FILLERS = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "for", "from", "get", "give", "has",
    "have", "i", "if", "in", "is", "it", "its", "me", "my", "not", "of", "on", "one", "or", "our", "please", "set",
    "that", "the", "them", "then", "there", "this", "to", "us", "was", "we", "what", "when", "which", "who", "will",
    "with", "would", "you", "your",
))
# fmt: on
LONGEST_OUTPUT = 300
"""The characters of a tool's output that are said."""


def reply_by_rules(items: Sequence[Item], tools: Sequence[Mapping[str, Any]]) -> str | ScriptedCall:
    """Return a reply to the conversation: a tool's output in words, a call of a tool that fits, or a sentence."""
    last = items[-1] if items else {}
    if last.get("type") == "function_call_output":
        since = takewhile(lambda item: item.get("type") == "function_call_output", reversed(items))
        return _say_output("; ".join(str(item.get("output", "")) for item in reversed(list(since))))
    if last.get("role") == "system":
        return _say_output(_words_of(last))
    if last.get("role") == "assistant":
        return "Is there anything else?"
    said = _words_of(last)
    words = set(_words(said)) - FILLERS
    scores = [(len(words & _tool_words(tool)), -n) for n, tool in enumerate(tools)]
    best = max(scores, default=(0, 0))
    if best[0] == 0:
        names = ", ".join(str(tool["name"]).replace("_", " ") for tool in tools)
        return f'You said: "{said}". ' + (f"I can help with: {names}." if names else "I have no tools.")
    tool = tools[-best[1]]
    return call(str(tool["name"]), arguments_for(said, tool))


def _say_output(output: str) -> str:
    text = " ".join(output.split())
    return f"This came out: {text[:LONGEST_OUTPUT].rstrip('.') or 'nothing'}."


def _words_of(item: Item) -> str:
    parts = item.get("content") or []
    return " ".join(str(part.get("text") or part.get("transcript") or "") for part in parts).strip()


def _words(text: str) -> list[str]:
    return [word.removesuffix("s") if len(word) > 3 else word for word in re.findall(r"[^\W\d_]+", text.lower())]


def _tool_words(tool: Mapping[str, Any]) -> set[str]:
    return set(_words(f"{tool.get('name', '')} {tool.get('description', '')}")) - FILLERS


def arguments_for(said: str, tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments for a tool, picked from the user's words by its JSON schema."""
    schema = tool.get("parameters") or {}
    required = schema.get("required") or []
    pick = Picker(said, _tool_words(tool))
    out = {}
    for name, of in (schema.get("properties") or {}).items():
        value = pick.value(name, _plain(of, schema))
        if value is not None or name in required:
            out[name] = value
    return out


def _plain(of: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a property's schema without references and choices: the first choice that is not null."""
    if not isinstance(of, Mapping):
        return {}
    if isinstance(of.get("$ref"), str):
        name = of["$ref"].rpartition("/")[2]
        return _plain((schema.get("$defs") or {}).get(name), schema)
    for each in of.get("anyOf") or ():
        if each.get("type") != "null":
            return _plain(each, schema)
    return of


class Picker:
    """The words and numbers of a sentence, each used once."""

    def __init__(self, said: str, known: set[str]) -> None:
        self.said = said
        self.numbers = [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", said)]
        self.quoted = re.findall(r"[\"“']([^\"”']+)[\"”']", said)
        words = [word for word in re.findall(r"[\w@.+-]*\w", said) if not re.fullmatch(r"-?[\d.]+", word)]
        fresh = [word for word in words if word.lower() not in FILLERS and not known & set(_words(word))]
        self.words = sorted(fresh, key=lambda word: not word[0].isupper() and "@" not in word)

    def value(self, name: str, of: Mapping[str, Any]) -> Any:
        """Return a value for a property; None if the sentence has none for it."""
        kind = of.get("type")
        if of.get("enum"):
            return next((each for each in of["enum"] if str(each).lower() in self.said.lower()), of["enum"][0])
        if kind in ("integer", "number"):
            if not self.numbers:
                return of.get("default", 1)
            number = self.numbers.pop(0)
            return int(number) if kind == "integer" or number.is_integer() else number
        if kind == "boolean":
            return not re.search(r"\b(not?|without|never)\b", self.said.lower())
        if kind == "array":
            return [self.value(name, of.get("items") or {"type": "string"})]
        if kind == "object":
            return {each: self.value(each, part) for each, part in (of.get("properties") or {}).items()}
        return self._text(name, of)

    def _text(self, name: str, of: Mapping[str, Any]) -> str:
        if self.quoted:
            return str(self.quoted.pop(0))
        after = re.search(rf"\b{re.escape(name.replace('_', ' '))}\s+(?:is\s+)?([\w@.+-]*\w)", self.said, re.IGNORECASE)
        if after:
            word = str(after.group(1))
            self.words = [each for each in self.words if each != word]
            return word
        if self.words:
            return str(self.words.pop(0))
        return str(of.get("default") or self.said)
