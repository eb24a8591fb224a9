"""A program in the words of the Agents SDK whose agent has no model runs as it is, with neither key nor network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.test_programs import WEATHER

PROGRAM = re.sub(r"model = ScriptedModel\(\[.*?\n\]\)\n", "", WEATHER, flags=re.DOTALL)
PROGRAM = PROGRAM.replace(", model=model)", ")").replace("How warm is it?", "How warm is it in Reykjavik?")


def test_a_program_whose_agent_has_no_model_runs_as_it_is_written(embedded: None, tmp_path: Path) -> None:
    assert "model=" not in PROGRAM
    (tmp_path / "weather.py").write_text(PROGRAM, "utf-8")
    keyless = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "ASSENTRY_MODEL"))}
    ended = subprocess.run(
        [sys.executable, "weather.py"],
        input="y\n" * 10,
        cwd=tmp_path,
        env=keyless | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip()
    for asked in re.findall(r"get_temperature (\{.*?\})\? ", ended.stdout):
        assert json.loads(asked).keys() == {"city"}
