"""The command: `python -m benchmarks`, which is `make bench`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from . import history_plot, postgres, report, temporal_server
from .cases import CASES, LONG, QUICK_LEAVES_OUT, QUICK_SCALE, SMOKE, Case, chosen, scaled
from .environments import NotMade, made
from .measure import Bench, Record
from .peers import ALL, PEERS, SUBJECTS, Peer
from .plot import plot
from .summary import Summary

HERE = Path(__file__).resolve().parent


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Assentry beside its peers.")
    parser.add_argument("--cases", type=_names, metavar="NAMES", help="only these cases or groups, by comma")
    parser.add_argument("--peers", type=_names, metavar="NAMES", help="only these peers, by comma")
    parser.add_argument("--scale", type=float, metavar="FACTOR", help="so many times the repetitions")
    parser.add_argument("--quick", action="store_true", help="few repetitions, and without the largest cases")
    parser.add_argument("--smoke", action="store_true", help="only see that it works: tiny, no peers, this interpreter")
    parser.add_argument("--list", action="store_true", help="say which cases and peers there are")
    parser.add_argument("--seed", type=int, default=1, help="for the order of the peers")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the results go (default: a new one)")
    parser.add_argument(
        "--environments", type=Path, metavar="FOLDER", default=HERE / ".environments", help="where the peers live"
    )
    asked = parser.parse_args(arguments)
    try:
        asked.cases = _cases(asked)
    except ValueError as error:
        parser.error(str(error))
    if unknown := set(asked.peers or ()) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    return asked


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _cases(asked: argparse.Namespace) -> list[Case]:
    cases: Sequence[Case] = SMOKE if asked.smoke else CASES
    if asked.cases:
        cases = chosen(cases if asked.smoke else (*CASES, *LONG), asked.cases)
    elif asked.quick:
        cases = [case for case in cases if case.name not in QUICK_LEAVES_OUT]
    return scaled(cases, asked.scale or (QUICK_SCALE if asked.quick else 1.0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; the exit code."""
    asked = options(arguments)
    if asked.list:
        print("peers:", *PEERS)
        for case in (*asked.cases, *(LONG if not asked.smoke else ())):
            print(f"{case.name}: {case.scenario} {dict(case.params)}, {case.repetitions} times ({case.group})")
        return 0
    peers = [peer for peer in ALL if not asked.peers or peer.name in asked.peers]
    return smoke(asked, peers) if asked.smoke else bench(asked, peers)


def smoke(asked: argparse.Namespace, peers: Sequence[Peer]) -> int:
    """Execute everything once, small, with this interpreter; fails if anything does, and judges no times."""
    own = [peer for peer in peers if not peer.rival]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assentry-benchmark-")))
        absent = _served(stack, own) | incomplete(own)
        for name, why in absent.items():
            print(f"{name} is left out: {why}", file=sys.stderr)
        pythons = {peer.name: Path(sys.executable) for peer in own if peer.name not in absent}
        summary, failures = measure(pythons, asked.cases, folder, asked.seed, {})
    print(report.tables(summary, asked.cases))
    return 1 if failures else 0


def bench(asked: argparse.Namespace, peers: Sequence[Peer]) -> int:
    """Make what is missing, measure, write the results; fails only if Assentry does."""
    folder = asked.out or HERE / "results" / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True, exist_ok=True)
    peers = [peer for peer in peers if any(peer.name in case.sides for case in asked.cases)]
    with ExitStack() as stack:
        absent = _served(stack, peers)
        failures = dict(absent)
        pythons: dict[str, Path] = {}
        for peer in peers:
            if peer.name in failures:
                continue
            try:
                pythons[peer.name] = made(peer.environment, asked.environments)
            except NotMade as error:
                failures[peer.name] = str(error)
        for name, why in failures.items():
            print(f"{name} is left out: {why}", file=sys.stderr)
        _, failures = measure(pythons, asked.cases, folder, asked.seed, failures)
    print((folder / "summary.md").read_text())
    print(f"Results: {folder}")
    return 1 if any(who.split(",")[0] in SUBJECTS for who in failures if who not in absent) else 0


def _served(stack: ExitStack, peers: Sequence[Peer]) -> dict[str, str]:
    """Start a Postgres server if somebody needs it; who has to do without it, and why."""
    if not any(peer.postgres for peer in peers):
        return {}
    try:
        stack.enter_context(postgres.server())
    except postgres.NotStarted as error:
        return {peer.name: str(error) for peer in peers if peer.postgres}
    return {}


def incomplete(peers: Sequence[Peer]) -> dict[str, str]:
    """Return who cannot be run by this interpreter, and what is missing."""
    found = {peer.name: [name for name in peer.needs if not _installed(name)] for peer in peers}
    return {name: f"not installed: {', '.join(missing)}" for name, missing in found.items() if missing}


def _installed(name: str) -> bool:
    if name == temporal_server.DISTRIBUTION:  # has no module
        return temporal_server.program() is not None
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even its package is there
        return False


def measure(
    pythons: Mapping[str, Path], cases: Sequence[Case], folder: Path, seed: int, left_out: Mapping[str, str]
) -> tuple[Summary, dict[str, str]]:
    """Run the cases, and write everything about it into the folder; what came out, and what failed."""
    records: list[Record] = []
    with (folder / "raw.jsonl").open("w") as raw, (folder / "workers.log").open("w") as log:

        def record(measured: Record) -> None:
            records.append(measured)
            raw.write(json.dumps(measured) + "\n")
            raw.flush()

        with Bench(pythons, record, log, seed) as running:
            running.run(cases)
    summary, failures = Summary(records), {**left_out, **running.failures}
    (folder / "plot.svg").write_text(plot(summary, cases))
    if history_plot.longest(records):
        (folder / "history.svg").write_text(history_plot.draw(records))
    (folder / "summary.md").write_text(report.page(summary, cases, running.versions, failures, "plot.svg"))
    (folder / "details.md").write_text(report.details(summary, cases))
    return summary, failures


if __name__ == "__main__":
    sys.exit(main())
