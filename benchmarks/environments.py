"""The peers' environments: one each, made when there is none or what it should hold has changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .peers import ROOT, Environment

# Nobody reports anywhere while being measured.
UNTRACED = {
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LANGSMITH_TRACING_V2": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": "none",
}


class NotMade(Exception):
    """An environment could not be made; says why."""


def clean() -> dict[str, str]:
    """The variables for a peer's process: Python's own settings left out, so that bytecode is written and read."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | UNTRACED | {"PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}


def made(environment: Environment, home: Path) -> Path:
    """The environment's interpreter; makes the environment first if need be, or raises NotMade."""
    folder = home / environment.name
    python = folder / "bin" / "python"
    stamp, wanted = folder / "stamp.json", _wanted(environment)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"Making {folder} with {', '.join(environment.requirements)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    for command in _commands(folder, python, environment):
        _run(command)
    # Imports are measured with warm bytecode, and not every installer writes it. What does not compile is not imported.
    subprocess.run([python, "-m", "compileall", "-qq", "-j0", folder / "lib"], env=clean(), check=False)
    stamp.write_text(wanted)
    return python


def _commands(folder: Path, python: Path, environment: Environment) -> list[Sequence[str | Path]]:
    # Not editable, not even for the checkout: what is measured is what users install.
    if uv := shutil.which("uv"):
        # uv keeps the wheel it built of a folder as long as pyproject.toml is the same.
        more: list[str | Path] = ["--reinstall-package", environment.named[0]] if environment.local else []
        if environment.overrides:
            listed = folder.parent / f"{folder.name}-overrides.txt"
            listed.write_text("\n".join(environment.overrides))
            more += ["--override", listed]
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, folder],
            [uv, "pip", "install", "--quiet", "--python", python, *more, *environment.requirements],
        ]
    made: list[str | Path] = [sys.executable, "-m", "venv", folder]
    pip: list[str | Path] = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    if not environment.overrides:
        return [made, [*pip, *environment.requirements]]
    # pip overrides nothing: what is pinned comes last, after the requirements of a version that can be installed.
    pinned = [each for each in environment.requirements if "==" in each]
    return [made, [*pip, *(each.partition("==")[0] for each in environment.requirements)], [*pip, "--no-deps", *pinned]]


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, env=clean(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMade((done.stderr or done.stdout).strip()[-2000:])


def _wanted(environment: Environment) -> str:
    """What the stamp of a good environment says."""
    source = _fingerprint() if environment.local else None
    wanted = {"python": sys.version, "requirements": environment.requirements, "source": source}
    return json.dumps(wanted | ({"overrides": environment.overrides} if environment.overrides else {}))


def _fingerprint() -> str:
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
