"""Decisions on many questions at once: which go together, the table that people see, and one decision after the other.

Each question is decided by its own digest, as it would be alone. Plain data: routes are elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.json import encode

from ..core.digest import BadJSON, canonical, parse_object
from ..core.wording import described
from ..definitions.preview import Sentence
from ..errors import AssentryError, InvalidDecision, NotFound, StoreFailed, UnreadableState, Upstream
from ..store.record import Question
from .bounds import is_too_long
from .headline import Translate, in_english, in_signature_order, order_of, reason_of

MOST_AT_ONCE = 100
"""The most questions that are decided at once."""
MOST_BYTES_AT_ONCE = 4_000_000
"""The most bytes of the questions that are decided at once."""
AT_A_TIME = 4
"""The most runs in which decisions are recorded at the same time."""
UNTRIED = "The store failed before this question's turn. Nothing was recorded about it."

Read = Question | AssentryError
"""A question as it was read, or the reason why it could not be."""
Recorded = Question | Exception
"""A question after its decision, or the reason why there is none."""


async def read_questions(ids: Iterable[str], read: Callable[[str], Awaitable[Question]]) -> dict[str, Read]:
    """Return questions by id. One that is not there, or damaged, is an error in its place.

    Raises `InvalidDecision` if they are too many, or too large together.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        raise InvalidDecision("No question is selected; select at least one.")
    if len(wanted) > MOST_AT_ONCE:
        raise InvalidDecision(
            f"At most {MOST_AT_ONCE} questions are decided at once, and {len(wanted):,} are selected. Select fewer."
        )
    found: dict[str, Read] = {}
    size = 0
    for id in wanted:
        try:
            question = await read(id)
        except (NotFound, UnreadableState) as error:
            found[id] = error
            continue
        size += len(encode(question))
        if size > MOST_BYTES_AT_ONCE:
            raise InvalidDecision(
                f"Together these questions have more than {MOST_BYTES_AT_ONCE // 1_000_000} MB, too much to be decided "
                "at once. Select fewer, or decide them one by one."
            )
        found[id] = question
    return found


def subject_of(question: Question) -> tuple[str, str, str]:
    """Return what the questions that are decided together have in common: tool, definition and kind.

    If a definition is not known, only questions of the same agent are taken to be alike.
    """
    return question.tool, question.definition or f"unknown, of {question.agent}", question.kind


def check_together(found: Iterable[Read]) -> None:
    """Raise `InvalidDecision` unless the questions are calls of one tool with one definition that wait for approval."""
    questions = [each for each in found if isinstance(each, Question)]
    others = sorted({each.kind for each in questions} - {"approval"})
    if others:
        raise InvalidDecision(f"A question of kind {others[0]!r} is decided alone. Nothing was recorded.")
    tools = sorted({each.tool for each in questions})
    if len(tools) > 1:
        names = ", ".join(described(each) for each in tools[:5])
        raise InvalidDecision(
            f"Only questions about one tool are decided at once, and these are about {len(tools)}: {names}. "
            "Nothing was recorded."
        )
    if len({subject_of(each) for each in questions}) > 1:
        raise InvalidDecision(
            f"The definition of {described(tools[0])} changed between these questions, so they are not alike. Only "
            "questions about one definition are decided at once. Nothing was recorded."
        )


def cautions_of(question: Question, translate: Translate = in_english) -> list[str]:
    """Return the reasons to look twice before approving: a high risk, a preview that failed, and its warnings."""
    preview = question.preview
    found = [translate("This call is marked as high risk.")] if question.risk == "high" else []
    if preview is not None:
        failed = preview.failed
        found += [translate("The preview failed: {why}", why=failed)] if failed is not None else []
        found += [each.text for each in preview.blocks if isinstance(each, Sentence) and each.warning]
    return found


async def decide_each(
    found: Mapping[str, Read], decide: Callable[[Question], Awaitable[Question]]
) -> dict[str, Recorded]:
    """Decide each question, and return what became of each. An error is in the place of a question; the rest stand.

    Questions of one run are decided one after the other, those of several runs a few at a time. If the store fails,
    what is not yet begun is left alone.
    """
    made: dict[str, Recorded] = dict(found)
    runs: dict[str, list[Question]] = {}
    for each in found.values():
        if isinstance(each, Question):
            runs.setdefault(each.run, []).append(each)
    turn, failed = asyncio.Semaphore(AT_A_TIME), False

    async def work(questions: list[Question]) -> None:
        nonlocal failed
        async with turn:
            for question in questions:
                try:
                    made[question.id] = StoreFailed(UNTRIED) if failed else await decide(question)
                except Exception as error:  # whatever it is, what became of the others must be told
                    made[question.id] = error
                    failed = failed or isinstance(error, Upstream)

    await asyncio.gather(*map(work, runs.values()))
    return made


# -- the table -----------------------------------------------------------------------------------------


class ArgumentCell(Struct, frozen=True):
    """An argument of one question, in a table of several."""

    name: str
    text: str | None
    """The value as JSON text; None if the call does not give the argument."""
    odd: bool = False
    """True if most of the others have the same value, and this one has another."""


class TableRow(Struct, frozen=True):
    """A question in a table."""

    question: Question
    warnings: list[str]
    cells: list[ArgumentCell]


class ArgumentTable(Struct, frozen=True):
    """Questions about one tool, with their arguments side by side."""

    rows: list[TableRow]
    same: dict[str, str]
    """The arguments that are the same in all questions, as JSON text."""
    columns: list[str]
    """The names of the arguments that differ."""
    agent: str | None
    """The agent, if it is the same in all questions."""
    reason: str | None
    """The reason for asking, if it is the same in all questions."""

    @property
    def is_wide(self) -> bool:
        """True if the arguments that differ are too many for a column each."""
        return len(self.columns) > MOST_COLUMNS

    @property
    def warned(self) -> list[TableRow]:
        """The rows with something to look at twice."""
        return [row for row in self.rows if row.warnings]

    @property
    def warnings(self) -> list[tuple[str, int]]:
        """The warnings, each once with the number of questions that have it; the most frequent first."""
        return Counter(text for row in self.rows for text in dict.fromkeys(row.warnings)).most_common()


MOST_COLUMNS = 5
UNREADABLE = "arguments"
"""The name of the only column if the arguments of a question cannot be told apart."""


def table_of(questions: Sequence[Question], translate: Translate = in_english) -> ArgumentTable:
    """Return the table of questions about one tool. A page gives the function that translates its texts."""
    given = [arguments_of(each) for each in questions]
    if any(each is None for each in given):
        given = [{UNREADABLE: each.arguments} for each in questions]
    known: list[dict[str, str]] = [each for each in given if each is not None]
    names = in_signature_order({name: 0 for each in known for name in each}, order_of(questions[0]))
    texts = {name: [each.get(name) for each in known] for name in names}
    same = {name: known[0][name] for name in names if len(set(texts[name])) == 1}
    columns = [name for name in names if name not in same]
    odd = {name: _odd(texts[name]) for name in columns}
    rows = [
        TableRow(
            each, cautions_of(each, translate), [ArgumentCell(name, texts[name][n], odd[name][n]) for name in columns]
        )
        for n, each in enumerate(questions)
    ]
    agents, reasons = {each.agent for each in questions}, {reason_of(each, translate) for each in questions}
    agent = agents.pop() if len(agents) == 1 else None
    return ArgumentTable(rows, same, columns, agent, reasons.pop() if len(reasons) == 1 else None)


def arguments_of(question: Question) -> dict[str, str] | None:
    """Return the arguments of a question as JSON text, by name; None if they cannot be told apart."""
    if is_too_long(question.arguments):
        return None
    try:
        return {name: canonical(each).decode() for name, each in parse_object(question.arguments).items()}
    except BadJSON:
        return None


def _odd(texts: list[str | None]) -> list[bool]:
    """Return for each value if more than half of the others have another one in common."""
    usual, count = Counter(texts).most_common(1)[0]
    return [count * 2 > len(texts) and each != usual for each in texts]
