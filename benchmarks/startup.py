"""What it costs to begin: importing a peer, and declaring an agent, each in a fresh process."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from .environments import clean
from .peers import ROOT, Peer
from .workers import Failed

SCENARIOS = frozenset({"import", "declare"})

# Isolated, so that nothing but the environment is on the path. The first process of a peer is not counted: it leaves
# bytecode and a warm page cache for the others.
PROBE = """
import json, os, sys, time
{before}
wall, cpu = time.perf_counter_ns(), time.process_time_ns()
{measured}
cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
metrics = {{}}
if os.path.exists("/proc/self/statm"):
    with open("/proc/self/statm") as file:
        metrics["resident_bytes"] = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
print(json.dumps({{"wall": {{"start": wall}}, "cpu": {{"start": cpu}}, "metrics": metrics}}))
"""


def start(peer: Peer, python: Path, scenario: str) -> dict[str, Any]:
    """One fresh process; raises Failed."""
    if scenario == "import":
        code = PROBE.format(before="", measured=peer.imports)
    else:
        driver = f"from benchmarks.drivers.{peer.driver} import make; make(**{dict(peer.options)!r})"
        code = PROBE.format(before=f"sys.path.insert(0, {str(ROOT)!r})", measured=driver)
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, env=clean(), cwd="/", check=False)
    if done.returncode:
        raise Failed(done.stderr.strip()[-2000:])
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
