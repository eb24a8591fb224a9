"""`assentry questions`: list and show questions."""

from __future__ import annotations

from argparse import Namespace

from msgspec.structs import replace

from ..inbox.headline import sentence_of
from ..inbox.mask import masked
from ..store.record import Question
from .preview import edit_lines, question_lines
from .source import source
from .table import Cell, Column, TimeCell, print_lines, print_table
from .write import put_json, say, spelled_name

_ABOUT = (
    Column("QUESTION", "id"),
    Column("KIND", least=130),
    Column("AGENT", "text", least=100),
    Column("TOOL", "text"),
)
OPEN = (
    *_ABOUT,
    Column("ASKED (UTC)", "time", brief="ASKED"),
    Column("UNTIL (UTC)", "time", brief="UNTIL"),
    Column("WHAT WOULD HAPPEN", "text"),
)
SETTLED = (*_ABOUT, Column("DECIDED (UTC)", "time", brief="DECIDED"), Column("VERDICT"), Column("BY", "text"))
LONGEST_IN_LIST = 100
"""Characters of a sentence in a list; `show` prints everything."""


async def print_questions(options: Namespace) -> int:
    """Print a page of questions."""
    ended = (options.by, options.verdict, options.decided_after, options.decided_before)
    options.settled = options.settled or any(each is not None for each in ended)
    if options.decider is not None and options.server is not None:
        options.misused("--for does not go with a server, whose token says who asks: use --for-me")
    if options.for_me and options.server is None:
        options.misused("--for-me goes with a server; with a store, use --for NAME")
    whose = {"for_me": True} if options.for_me else {} if options.decider is None else {"decider": options.decider}
    async with source(options) as place:
        page = await place.questions(
            **whose,
            run=options.run and await place.whole_id("run", options.run),
            agent=options.agent,
            tool=options.tool,
            older_than=options.older_than,
            search=options.search,
            settled=options.settled,
            by=options.by,
            verdict=options.verdict,
            decided_after=options.decided_after,
            decided_before=options.decided_before,
            limit=options.limit,
            after=options.after,
        )
    # Whoever can list them here may decide them, or a server has left the digests out.
    page.items = [replace(masked(each), digest=each.digest, shown=each.shown) for each in page.items]
    if options.json:
        put_json(page)
    else:
        print_table(SETTLED if options.settled else OPEN, map(_ended if options.settled else _open, page.items))
        if page.next is not None:
            say(f"There are more: --after '{page.next}'")
    return 1 if page.damaged else 0  # the store has logged the damaged questions


def _open(question: Question) -> tuple[Cell, ...]:
    text = sentence_of(question)
    short = text if len(text) <= LONGEST_IN_LIST else text[: LONGEST_IN_LIST - 1] + "…"
    until = TimeCell(question.until) if question.due is None else TimeCell(question.due, "waits on")
    return (
        question.id,
        question.kind,
        spelled_name(question.agent),
        spelled_name(question.tool),
        TimeCell(question.at),
        until,
        short,
    )


def _ended(question: Question) -> tuple[Cell, ...]:
    verdict, by = question.verdict or "", question.by or ""
    return (
        question.id,
        question.kind,
        spelled_name(question.agent),
        spelled_name(question.tool),
        TimeCell(question.decided),
        verdict,
        by,
    )


async def print_question(options: Namespace) -> int:
    """Print a question, with its digest."""
    async with source(options) as place:
        question = await place.question(await place.whole_id("question", options.question))
        history = await place.history(question.run) if question.verdict == "edit" and not options.json else []
    if options.json:
        put_json(question)
        return 0
    print_lines([*edit_lines(question, history), *question_lines(question)])
    return 0
