"""`assentry questions`: list and show questions."""

from __future__ import annotations

from argparse import Namespace

from msgspec.structs import replace

from ..inbox.headline import sentence_of
from ..inbox.mask import masked
from ..store.record import Question
from .preview import edit_lines, question_lines
from .source import source
from .write import put, put_json, put_table, say, spelled_name, when

HEAD = ("QUESTION", "KIND", "AGENT", "TOOL", "ASKED (UTC)", "UNTIL (UTC)", "WHAT WOULD HAPPEN")
SETTLED = ("QUESTION", "KIND", "AGENT", "TOOL", "DECIDED (UTC)", "VERDICT", "BY")
LONGEST_IN_LIST = 100
"""Characters of a sentence in a list; `show` prints everything."""


async def print_questions(options: Namespace) -> int:
    """Print a page of questions."""
    async with source(options) as place:
        page = await place.questions(
            run=options.run,
            agent=options.agent,
            tool=options.tool,
            older_than=options.older_than,
            search=options.search,
            settled=options.settled,
            limit=options.limit,
            after=options.after,
        )
    # Whoever can list them here may decide them, or a server has left the digests out.
    page.items = [replace(masked(each), digest=each.digest, shown=each.shown) for each in page.items]
    if options.json:
        put_json(page)
    else:
        put_table([SETTLED if options.settled else HEAD, *map(_ended if options.settled else _open, page.items)])
        if page.next is not None:
            say(f"There are more: --after '{page.next}'")
    return 1 if page.damaged else 0  # the store has logged the damaged questions


def _open(question: Question) -> tuple[str, ...]:
    text = sentence_of(question)
    short = text if len(text) <= LONGEST_IN_LIST else text[: LONGEST_IN_LIST - 1] + "…"
    until = when(question.until) if question.due is None else f"{when(question.due)} (waits on)"
    return (
        question.id,
        question.kind,
        spelled_name(question.agent),
        spelled_name(question.tool),
        when(question.at),
        until,
        short,
    )


def _ended(question: Question) -> tuple[str, ...]:
    verdict, by = question.verdict or "", question.by or ""
    return (
        question.id,
        question.kind,
        spelled_name(question.agent),
        spelled_name(question.tool),
        when(question.decided),
        verdict,
        by,
    )


async def print_question(options: Namespace) -> int:
    """Print a question, with its digest."""
    async with source(options) as place:
        question = await place.question(options.question)
        history = await place.history(question.run) if question.verdict == "edit" and not options.json else []
    if options.json:
        put_json(question)
        return 0
    for line in [*edit_lines(question, history), *question_lines(question)]:
        put(line)
    return 0
