"""A Postgres server for as long as the benchmark runs: the tests' own, but a commit waits for the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.store.postgres import NotStarted
from tests.store.postgres import server as started

__all__ = ["VARIABLE", "NotStarted", "server"]

VARIABLE = "ASSENTRY_BENCHMARK_POSTGRES"
"""The server's address, for the drivers. Set it to use a server of your own: tables are made in it, and left."""


@contextmanager
def server() -> Iterator[None]:
    """Start a server and name it in the environment; raises NotStarted."""
    if VARIABLE in os.environ:
        yield
        return
    with started(durable=True) as made:
        os.environ[VARIABLE] = made.url
        try:
            yield
        finally:
            del os.environ[VARIABLE]
