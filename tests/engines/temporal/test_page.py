"""The programs of the page on Temporal, typed as they are printed, but for the server's address."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from .support import Server

pytestmark = pytest.mark.temporal
PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "howto" / "temporal.md"


async def test_the_programs_of_the_page_work_together(temporal: Server, tmp_path: Path) -> None:
    await temporal.client()
    blocks = re.findall(r'```python title="([\w.]+)"\n(.*?)```', PAGE.read_text("utf-8"), re.DOTALL)
    for name, text in blocks:
        (tmp_path / name).write_text(text.replace("localhost:7233", temporal.address))
    assert {"shop.py", "work.py", "begin.py", "facts.py"} == {name for name, _ in blocks}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    worker = await asyncio.create_subprocess_exec(sys.executable, "work.py", cwd=tmp_path, env=environment)
    try:
        for program, said in (("facts.py", ""), ("begin.py", 'refund {"order":7}\nYour money is on its way.\n')):
            run = await asyncio.create_subprocess_exec(
                sys.executable, program, cwd=tmp_path, env=environment, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(run.communicate(), 60)
            assert (run.returncode, out.decode()) == (0, said)
    finally:
        worker.kill()
        await worker.wait()
