"""`assent questions`: list and show questions, and record decisions."""

from __future__ import annotations

from argparse import Namespace

from msgspec.json import encode

from ..approval.decision import Approve, Decision, Edit, Reject, Respond, checked_name
from ..store.open import open_store
from ..store.record import Question
from .write import confirmed, put, put_json, put_table, say, visible, when

HEAD = ("QUESTION", "KIND", "AGENT", "TOOL", "ASKED (UTC)", "UNTIL (UTC)", "ARGUMENTS")
SETTLED = ("QUESTION", "KIND", "AGENT", "TOOL", "DECIDED (UTC)", "VERDICT", "BY")
LONGEST = 100
"""Characters of the arguments in a list; `show` prints all of them."""


async def listed(options: Namespace) -> int:
    """Print a page of questions."""
    async with open_store(options.url, create=False) as store:
        page = await store.questions(
            run=options.run,
            agent=options.agent,
            tool=options.tool,
            older_than=options.older_than,
            settled=options.settled,
            limit=options.limit,
            after=options.after,
        )
    if options.json:
        put_json(page)
    else:
        put_table([SETTLED if options.settled else HEAD, *map(_ended if options.settled else _open, page.items)])
        if page.next is not None:
            say(f"There are more: --after '{page.next}'")
    return 1 if page.damaged else 0  # the store has logged the damaged questions


def _open(question: Question) -> tuple[str, ...]:
    text = question.arguments
    short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    until = when(question.until) if question.due is None else f"{when(question.due)} (waits on)"
    return question.id, question.kind, question.agent, question.tool, when(question.at), until, short


def _ended(question: Question) -> tuple[str, ...]:
    verdict, by = question.verdict or "", question.by or ""
    return question.id, question.kind, question.agent, question.tool, when(question.decided), verdict, by


async def show(options: Namespace) -> int:
    """Print a question, with its digest."""
    async with open_store(options.url, create=False) as store:
        question = await store.question(options.question)
    if options.json:
        put_json(question)
        return 0
    for name, value in _parts(question):
        put(f"{name}: {value}")
    return 0


def _parts(question: Question) -> list[tuple[str, str]]:
    """Return all fields of a question to print."""
    parts: list[tuple[str, str | None]] = [
        ("question", question.id),
        ("run", question.run),
        ("agent", question.agent),
        ("under", "/".join(question.path) or None),
        ("tool", question.tool),
        ("kind", question.kind),
        ("arguments", question.arguments),
        ("reason", question.reason),
        ("prompt", None if question.prompt is None else encode(question.prompt).decode()),
        ("schema", None if question.schema is None else encode(question.schema).decode()),
        ("evidence", encode(question.evidence).decode() if question.evidence else None),
        ("allowed", ", ".join(question.allowed)),
        ("asked", when(question.at)),
        ("until", None if question.until is None else when(question.until)),
        ("due", None if question.due is None else when(question.due)),
        ("replaces", question.replaces),
        ("digest", question.digest),
        ("verdict", question.verdict),
        ("by", question.by),
        ("decided", None if question.decided is None else when(question.decided)),
    ]
    return [(name, value) for name, value in parts if value is not None]


async def decide(options: Namespace) -> int:
    """Record a decision on the question as it was shown."""
    decision = _decision(options)
    checked_name(options.by)
    async with open_store(options.url, create=False) as store:
        digest = options.digest
        if digest is None:
            shown = await store.question(options.question)
            for name, value in _parts(shown):
                say(f"{name}: {value}")
            if shown.verdict is not None:
                say("It was decided already. Nothing was recorded.")
                return 1
            if not confirmed(f"{_worded(decision)} as {visible(options.by)}?"):
                say("Nothing was decided.")
                return 1
            digest = shown.digest
        question = await store.decide(options.question, decision, by=options.by, digest=digest)
    put(f"{question.id}: {question.verdict} by {question.by}, {when(question.decided)}")
    return 0


def _decision(options: Namespace) -> Decision:
    """Return the decision from the options; options that do not fit the verdict are misuse."""
    given = {name for name in ("message", "arguments", "output") if getattr(options, name) is not None}
    needs = {"edit": {"arguments"}, "respond": {"output"}}.get(options.verdict, set())
    takes = needs | ({"message"} if options.verdict == "reject" else set())
    if needs - given:
        options.misused(f"{options.verdict} needs --{(needs - given).pop()}")
    if given - takes:
        options.misused(f"--{min(given - takes)} does not go with {options.verdict}")
    if options.verdict == "edit":
        return Edit(options.arguments[0])
    if options.verdict == "respond":
        return Respond(options.output[0])
    return Reject(options.message) if options.verdict == "reject" else Approve()


def _worded(decision: Decision) -> str:
    """Return the decision as text, for the confirmation."""
    return encode(decision).decode()
