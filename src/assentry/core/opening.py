"""The first facts of a run, whoever begins it: a runner, a thread, a live session, or a store for its inbox.

Pure: the id, the time and the input are arguments. What an agent requires of its runs is a template (`run_template` in
`runtime/drive`), which a worker announces to its store.
"""

from __future__ import annotations

from collections.abc import Sequence

from .facts import Began, Said


def first_facts(
    template: Began,
    run: str,
    at: int,
    said: Sequence[Said] = (),
    *,
    by: str | None = None,
    stored: bool = False,
    live: bool = False,
    conversation: dict[str, str] | None = None,
    session: str | None = None,
    thread: str | None = None,
    follows: str | None = None,
    trace: dict[str, str] | None = None,
    forked: str | None = None,
    engine: str | None = None,
    caller: str | None = None,
) -> tuple[Began, *tuple[Said, ...]]:
    """Return the first facts of a run of the template's agent, begun at `at`, in milliseconds since 1970."""
    began = Began(
        template.agent,
        template.max_turns,
        run,
        template.version,
        template.release,
        template.guards,
        live,
        trace,
        conversation,
        session,
        stored,
        thread,
        follows,
        by,
        template.max_argument_bytes,
        forked,
        engine,
        caller,
        at=at,
    )
    return (began, *said)
