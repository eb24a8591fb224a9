"""Ids that are unique over all runs and stores.

Every id of Assentry's own in a journal is made here. An engine may bind the ids of questions to a run, so that whoever
has a question's id finds its run without a look into a store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

random_bytes: Callable[[int], bytes] = os.urandom
"""The source of randomness."""

_RUN, _OWN = 24, 8
"""The hex digits of a question's id that are its run's, and those of its own."""
_run: ContextVar[str | None] = ContextVar("run", default=None)


def new_id(prefix: str) -> str:
    """Return a random id, unique over all runs."""
    if prefix == "q" and (run := _run.get()) is not None:
        return f"q_{run}{random_bytes(_OWN // 2).hex()}"
    return f"{prefix}_{random_bytes(16).hex()}"


def new_run_id() -> str:
    """Return the id of a run to which the ids of its questions can be bound."""
    return f"run_{random_bytes(_RUN // 2).hex()}{'0' * _OWN}"


def run_of_question(question_id: str) -> str:
    """Return the id of the run that a question's id is bound to, if it is bound to one."""
    return f"run_{question_id[2 : 2 + _RUN]}{'0' * _OWN}"


@contextmanager
def bound_to_run(run_id: str) -> Iterator[None]:
    """Bind the ids of new questions to this run, if its id is of the form that `new_run_id` makes."""
    bound = len(run_id) == len("run_") + _RUN + _OWN and run_id.endswith("0" * _OWN) and run_id.startswith("run_")
    token = _run.set(run_id[4 : 4 + _RUN] if bound else None)
    try:
        yield
    finally:
        _run.reset(token)
