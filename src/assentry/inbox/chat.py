"""A message to a chat: one text, `{"text": ...}`, as the incoming webhooks of Slack, Mattermost and Teams take it.

Models and tools write parts of it, and a chat reads marks in a text: `<!channel>` and `@here` call people, `<url|text>`
and `[text](url)` are links. So each part loses its marks before it goes into the text. The only link is the inbox's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from ..core.hidden import hidden_parts
from ..definitions.preview import Sentence
from ..store.outbox import Message
from ..store.record import Question
from .headline import sentence_of
from .mask import masked

LONGEST_PART = 600
"""The most characters of a part that others wrote."""
MOST_WARNINGS = 3
_LOOKALIKES = str.maketrans(
    {
        "@": "\uff20",
        "*": "\u2217",
        "~": "\u223c",
        "`": "\u02cb",
        "[": "\uff3b",
        "]": "\uff3d",
        "|": "\uff5c",
        "\\": "\uff3c",
        "#": "\uff03",
        "!": "\uff01",
    }
)
"""The marks of chats, and characters that look like them and mean nothing there."""
_ADDRESS = re.compile(r"(?i)(?<=\w)\.(?=[^\W\d_])")
_EDGE = re.compile(r"(?<!\w)_|_(?!\w)|__+")
_SCHEME = re.compile(r":(?=/)")


def chat_body(message: Message, question: Question | None, link: str | None) -> bytes:
    """Return the body of a message to a chat; secret arguments are masked in it."""
    lines = _lines(message, None if question is None else masked(question))
    return msgspec.json.encode({"text": "\n".join([*lines, link] if link is not None else lines)})


def _lines(message: Message, question: Question | None) -> list[str]:
    if message.event == "webhook.test":
        return ["This is a test. Questions of agents will arrive here."]
    settled = message.subject.verdict
    if question is None:
        return ["A question was asked." if settled is None else f"A question was settled: {settled}."]
    agent, sentence, tool = plain_words(question.agent), plain_words(sentence_of(question)), plain_words(question.tool)
    if settled is not None:
        ended = question.verdict or settled
        by = f" by {plain_words(question.by)}" if question.by else ""
        return [f"Settled: {ended}{by}. {agent} asked: {sentence}"]
    return [f"{agent} asks: {sentence}", f"Tool: {tool}", *_risk(question), *_deciding(question)]


def _risk(question: Question) -> list[str]:
    """Return the risk and the first warnings of a question."""
    said = [f"Risk: {question.risk}"] if question.risk is not None else []
    blocks = question.preview.blocks if question.preview is not None else ()
    warnings = [block.text for block in blocks if isinstance(block, Sentence) and block.warning]
    said += [f"Warning: {plain_words(text)}" for text in warnings[:MOST_WARNINGS]]
    left = len(warnings) - MOST_WARNINGS
    return [*said, f"{left} more warnings are in the inbox."] if left > 0 else said


def _deciding(question: Question) -> list[str]:
    """Return who may decide, and until when."""
    people = ", ".join(plain_words(name) for name in question.reviewers) or "everybody whose role decides"
    said = [f"Who may decide: {people}"]
    if question.started_by is not None:
        said[0] += f", but not {plain_words(question.started_by)}, who asked for it"
    if question.until is not None:
        said.append(f"Deadline: {_time(question.until)}; then it is rejected")
    elif question.due is not None:
        said.append(f"Due: {_time(question.due)}")
    return said


def _time(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%a %d %b %Y, %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return str(at)


def plain_words(text: str) -> str:
    """Return text that others wrote as one line without marks: it calls nobody, links nowhere and styles nothing."""
    cut = text if len(text) <= LONGEST_PART else f"{text[:LONGEST_PART]}…"
    seen = "".join(f"{part}(U+{ord(run[0]):04X})" if run else part for part, run in hidden_parts(cut, lines=False))
    words = _ADDRESS.sub("\u2024", _SCHEME.sub("\uff1a", seen.translate(_LOOKALIKES)))
    words = _EDGE.sub(lambda found: "\uff3f" * len(found[0]), words)
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
