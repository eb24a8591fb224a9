"""Real MCP servers that others wrote: the versions the tests know, and an installer for them.

`make peers`, or `python -m tests.mcp.peers`, installs into `.venv/peers`, or into the folder that `ASSENTRY_MCP_PEERS`
names. The servers of Node's registry share one folder; those of PyPI have an environment for each major version of the
official SDK. What is there already is kept until a version below changes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.environments import NotMade, made
from benchmarks.peers import Environment

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = Path(os.environ.get("ASSENTRY_MCP_PEERS") or ROOT / ".venv" / "peers")

# All versions are here. Those of Node's registry speak protocol 2025-11-25.
NODE = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}
# AG-UI's client, for tests/outside: this version, and the one that CopilotKit and assistant-ui bring.
FRONTS = {
    "ag-ui-client-1": "npm:@ag-ui/client@1.0.0",
    "ag-ui-client-0": "npm:@ag-ui/client@0.0.59",
}
SDK_2 = Environment(  # protocol 2026-07-28
    "sdk-2",
    ("mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19", "mcp>=2.3,<3"),
    ("mcp-server-git", "mcp-server-time"),
)
SDK_1 = Environment(  # protocol 2025-11-25
    "sdk-1", ("mcp-server-calculator==0.2.1", "mcp>=1.30,<2"), ("mcp-server-calculator",)
)


class Missing(Exception):
    """A server is not installed; says what to do."""


def program(name: str) -> str:
    """Return the path of a server's program, such as `mcp-server-git`; raises Missing."""
    folders = [HOME / "node" / "node_modules" / ".bin", HOME / SDK_2.name / "bin", HOME / SDK_1.name / "bin"]
    for folder in folders:
        if (folder / name).exists():
            return str(folder / name)
    raise Missing(f"the MCP server {name} is not installed: make peers")


def install() -> None:
    """Install all servers; raises NotMade."""
    made(SDK_2, HOME)
    made(SDK_1, HOME)
    _install_node(HOME / "node")


def _install_node(folder: Path) -> None:
    stamp, wanted = folder / "stamp.json", json.dumps(NODE | FRONTS)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NotMade("node and npm are not installed")
    print(f"Making {folder} with {', '.join(NODE | FRONTS)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": NODE | FRONTS}))
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMade((done.stderr or done.stdout).strip()[-2000:])
    stamp.write_text(wanted)


if __name__ == "__main__":
    try:
        install()
    except NotMade as error:
        sys.exit(f"The MCP servers are not all installed, and tests with them are skipped: {error}")
