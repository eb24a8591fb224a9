"""The numbers, tables and plot of the page on scale, from results of the benchmark.

    python -m benchmarks.scale results/20261118-170000 ...   # gather the medians into scale.json
    ASSENTRY_WRITE=1 python -m pytest tests/docs/test_scale_page.py   # then write tables and plot anew

`scale.json` is in the repository, and everything here is made from it. What it holds by hand is `machine`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from .cases import INBOXES, Measure
from .plot import Panel, picture
from .report import digits, size, time
from .summary import Summary

HERE = Path(__file__).resolve().parent
FILE = HERE / "scale.json"
CARRIERS = {
    "SQLite": ("assentry-sqlite", "sqlite", "inbox"),
    "Postgres": ("assentry-postgres", "postgres", "inbox-postgres"),
}
"""The name on the page; the peer, and the groups of its cases."""
SIZES = (10_000, 100_000, 1_000_000)
"""Numbers of waiting runs that were measured."""
MANY = 10_000_000
"""The number of waiting runs that is worked out."""
IDLE = {"SQLite": "sqlite-idle-10000", "Postgres": "postgres-idle-5000"}
COLOURS = {"SQLite": "#0072b2", "Postgres": "#d55e00", "Temporal": "#009e73"}
WAITS = {"8 hours": 8 * 3600, "a day": 86_400, "a week": 7 * 86_400, "30 days": 30 * 86_400}
CALM = 0.1
"""The most cores that other programs may use in a round of decisions that counts."""
THINKING = 30
"""The seconds that a person takes for a decision."""
PAGE = 8192
"""The bytes of a page of Postgres."""
INDEXES = {
    "assentry_journal_pkey": "reading and writing a run's journal",
    "assentry_questions_agent": "the list of one agent's questions",
    "assentry_questions_open": "the list of the inbox",
    "assentry_questions_pkey": "a question by its id: each decision",
    "assentry_questions_run": "the questions of a run",
    "assentry_questions_tool": "the list of one tool's questions",
    "assentry_runs_began": "the list of runs",
    "assentry_runs_pkey": "a run by its row's number",
    "assentry_runs_rested": "runs that are old enough to be erased",
    "assentry_runs_run": "a run by its id",
    "assentry_runs_status": "the list of runs with one status",
}
"""The indexes that have an entry for each waiting run, and their use."""

Results = Mapping[str, Any]


def load() -> Results:
    """Read the gathered results."""
    found: Results = json.loads(FILE.read_text("utf-8"))
    return found


# -- gathering ----------------------------------------------------------------------------------------


def gather(records: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the medians that the page shows."""
    every, records = records, [dict(record) | {"metrics": calm(record["metrics"])} for record in records]
    summary = Summary(records)
    made: dict[str, Any] = {"machine": dict(machine), "waiting": {}, "indexes": {}, "written": {}, "inboxes": {}}
    for name, (peer, group, inbox) in CARRIERS.items():

        def of(case: str, kind: Any, what: str, peer: str = peer) -> float | None:
            return summary.values(case, Measure("", kind, what)).get(peer)

        made["indexes"][name] = {
            each: of(f"{inbox}-{SIZES[-1]}", "metric", f"bytes of {each}")
            for each in INDEXES
            if of(f"{inbox}-{SIZES[-1]}", "metric", f"bytes of {each}") is not None
        }
        made["waiting"][name] = {str(count): _waiting(of, f"{inbox}-{count}", count) for count in SIZES}
        made["written"][name] = of(IDLE[name], "metric", "waiting_bytes")
        made["inboxes"][name] = {
            str(count): _inboxes(of, records, f"{group}-inboxes", count) | _all_rounds(every, f"{group}-inboxes", count)
            for count in INBOXES
            if of(f"{group}-inboxes", "metric", f"decisions_per_second_{count}") is not None
        }
    return made


def calm(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without those of the rounds of decisions in which other programs took part of the machine."""
    busy = set()
    for count in INBOXES:
        own = sum(metrics.get(f"{who}_cores_{count}", 0) for who in ("inbox", "client", "server"))
        if metrics.get(f"machine_cores_{count}", 0) - own > CALM:
            busy.add(f"_{count}")
    return {name: value for name, value in metrics.items() if not any(name.endswith(end) for end in busy)}


def _waiting(of: Any, case: str, count: int) -> dict[str, Any]:
    phases = {"first_read": "page", "page": "page, again", "decide": "decide among all", "resume": "resume among all"}
    found = {f"{name}_ms": of(case, "wall", phase) / 1e6 for name, phase in phases.items()}
    found["resume_cpu_ms"] = of(case, "cpu", "resume among all") / 1e6
    found["from_disk_ms"] = of(case, "wall", "decide from disk") / 1e6
    found["http_page_p99_ms"] = of(case, "metric", "http_page_p99_ms")
    return {"bytes": of(case, "metric", "stored_bytes"), "index_bytes": of(case, "metric", "index_bytes")} | {
        name: round(value, 3) for name, value in found.items()
    }


def _inboxes(of: Any, records: Iterable[Mapping[str, Any]], case: str, count: int) -> dict[str, Any]:
    rate = f"decisions_per_second_{count}"
    rates = [record["metrics"][rate] for record in records if record["case"] == case and rate in record["metrics"]]
    names = ("decision_p50_ms", "decision_p99_ms", "inbox_cpu_ms", "client_cpu_ms", "server_cpu_ms", "machine_cores")
    found = {name: of(case, "metric", f"{name}_{count}") for name in names}
    found |= {"per_second": of(case, "metric", rate), "lowest": min(rates), "highest": max(rates)}
    made = {name: round(value, 3) for name, value in found.items() if value is not None}
    return made | {"bytes": of(case, "metric", f"inbox_bytes_{count}"), "rounds": len(rates)}


def _all_rounds(records: Iterable[Mapping[str, Any]], case: str, count: int) -> dict[str, Any]:
    rate = f"decisions_per_second_{count}"
    rates = [record["metrics"][rate] for record in records if record["case"] == case and rate in record["metrics"]]
    return {"all_rounds": len(rates), "all_per_second": round(median(rates), 3)}


# -- tables ----------------------------------------------------------------------------------------


def tables(results: Results) -> dict[str, list[str]]:
    """The lines of each table of the page, by what it shows."""
    return {
        "waiting": waiting_table(results),
        "inboxes": inboxes_table(results),
        "bytes": bytes_table(results),
        "indexes": indexes_table(results),
        "rates": rates_table(results),
    }


def waiting_table(results: Results) -> list[str]:
    """A million waiting runs."""
    found = [results["waiting"][name][str(SIZES[-1])] for name in CARRIERS]
    few = [results["waiting"][name][str(SIZES[0])] for name in CARRIERS]
    rows = [
        ("on disk", [size(each["bytes"]) for each in found]),
        ("of it indexes", [size(each["index_bytes"]) for each in found]),
        ("a waiting run", [f"{each['bytes'] / SIZES[-1]:,.0f} B" for each in found]),
        ("a waiting run that the runtime wrote", [f"{results['written'][name]:,.0f} B" for name in CARRIERS]),
        *(
            (
                label,
                [
                    f"{milliseconds(each[key])} ({milliseconds(less[key])})"
                    for each, less in zip(found, few, strict=True)
                ],
            )
            for label, key in (
                ("the first page, from the store", "page_ms"),
                ("the same, right after the store is opened", "first_read_ms"),
                ("the first page over HTTP, 99th percentile", "http_page_p99_ms"),
                ("a decision", "decide_ms"),
                ("a resume to the end", "resume_ms"),
                ("a decision whose pages come from the disk", "from_disk_ms"),
            )
        ),
    ]
    return _table(["1,000,000 waiting runs (10,000)", "one SQLite file", "one Postgres"], rows)


def inboxes_table(results: Results) -> list[str]:
    """Decisions a second, by inbox processes."""
    rows = []
    for name in CARRIERS:
        for count, found in results["inboxes"][name].items():
            rows.append(
                (
                    f"{name}, {count} inbox{'es' if count != '1' else ''}",
                    [
                        f"{found['per_second']:.0f} ({found['lowest']:.0f} to {found['highest']:.0f})",
                        f"{found['decision_p50_ms']:.0f} and {found['decision_p99_ms']:.0f} ms",
                        f"{found['inbox_cpu_ms']:.1f} ms",
                        f"{found['server_cpu_ms']:.1f} ms" if "server_cpu_ms" in found else "",
                        f"{found['client_cpu_ms']:.2f} ms",
                        f"{found['machine_cores']:.1f} of {results['machine']['cores']}",
                        f"{found['rounds']} of {found['all_rounds']}",
                        f"{found['all_per_second']:.0f}",
                    ],
                )
            )
    head = ["processes", "decisions a second", "median, 99th percentile", "CPU: inboxes", "Postgres", "clients"]
    return _table([*head, "cores busy", "rounds counted", "with all rounds"], rows)


def bytes_table(results: Results) -> list[str]:
    """Ten million waiting runs in one Postgres, in bytes."""
    million = results["waiting"]["Postgres"][str(SIZES[-1])]
    index = million["index_bytes"] / SIZES[-1]
    rows = million["bytes"] / SIZES[-1] - index
    written = results["written"]["Postgres"]
    entries = entries_in_a_page(results)
    lines = [
        ("rows", [f"{MANY:,} × {rows:,.0f} B", size(MANY * rows)]),
        ("indexes", [f"{MANY:,} × {index:,.0f} B", size(MANY * index)]),
        ("both, as the runtime writes them", [f"{MANY:,} × {written:,.0f} B", size(MANY * written)]),
        (
            f"inner pages of the indexes, 1 for {entries} leaves or more",
            [f"{size(MANY * index)} / {entries}", size(MANY * index / entries)],
        ),
    ]
    return _table(["ten million waiting runs in Postgres", "reckoning", "comes to"], lines)


def entries_in_a_page(results: Results) -> int:
    """The entries that a page holds, in the index whose entries are the longest."""
    longest = max(weight for name, weight in results["indexes"]["Postgres"].items() if name != "assentry_journal_pkey")
    return int(PAGE / (longest / SIZES[-1]))


def indexes_table(results: Results) -> list[str]:
    """The indexes in Postgres, the largest first."""
    found = sorted(results["indexes"]["Postgres"].items(), key=lambda each: -each[1])
    lines = [
        (f"`{name}`", [f"{weight / SIZES[-1]:.0f} B", size(weight * MANY / SIZES[-1]), INDEXES[name]])
        for name, weight in found
    ]
    return _table(["index", "a waiting run", "ten million", "used for"], lines, last="---")


def rates_table(results: Results) -> list[str]:
    """The work that ten million waiting runs bring, by how long each waits."""
    spent = results["inboxes"]["Postgres"][str(INBOXES[-1])]
    resume = results["waiting"]["Postgres"][str(SIZES[-1])]["resume_cpu_ms"]
    lines = []
    for wait, seconds in WAITS.items():
        rate = MANY / seconds
        cores = [rate * each / 1000 for each in (spent["inbox_cpu_ms"], resume, spent["server_cpu_ms"])]
        cells = [digits(rate), *(digits(each, 2) for each in cores), f"{rate * THINKING:,.0f}"]
        lines.append((wait, [f"{MANY:,} / {seconds:,}", *cells]))
    head = ["a run waits", "reckoning", "decisions a second", "cores: inboxes", "workers", "Postgres, decisions"]
    return _table([*head, "people at work"], lines)


def milliseconds(value: float) -> str:
    """A time of milliseconds with two digits."""
    return f"{digits(value, 2)} ms"


def _table(head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], last: str = "---:") -> list[str]:
    lines = [head, *([label, *cells] for label, cells in rows)]
    written = ["| " + " | ".join(cells) + " |" for cells in lines]
    return [written[0], "|---" + "|---:" * (len(head) - 2) + f"|{last}|", *written[1:]]


def with_table(page: str, table: Sequence[str]) -> str:
    """The page with this table in place of the one that has the same first line; raises ValueError if none has."""
    lines = page.split("\n")
    start = lines.index(table[0])
    end = start
    while lines[end].startswith("|"):
        end += 1
    return "\n".join([*lines[:start], *table, *lines[end:]])


# -- the plot ----------------------------------------------------------------------------------------


def draw(results: Results) -> str:
    """The plot."""
    waiting = results["waiting"]
    ticks = [f"{count:,}" for count in SIZES]

    def panel(title: str, key: str, scale: float, write: Any) -> Panel:
        columns = [{name: sizes[str(count)][key] * scale for name, sizes in waiting.items()} for count in SIZES]
        return Panel(title, ticks, columns, write, labelled=True)

    stored = panel("Bytes on disk, by waiting runs", "bytes", 1, size)
    million = stored.columns[-1]
    more = {name: value * MANY / SIZES[-1] for name, value in million.items() if name == "Postgres"}
    counts = [str(count) for count in INBOXES]
    rates = [
        {name: found[count]["per_second"] for name, found in results["inboxes"].items() if count in found}
        for count in counts
    ]
    drawn = [
        Panel(
            stored.title,
            [*ticks, f"{MANY:,}"],
            [*stored.columns, more],
            size,
            hollow=frozenset({f"{MANY:,}"}),
            labelled=True,
        ),
        panel("A page of the inbox, by waiting runs", "page_ms", 1e6, time),
        panel("A decision, by waiting runs", "decide_ms", 1e6, time),
        Panel("Decisions a second, by inbox processes", counts, rates, lambda rate: f"{rate:.0f} /s", labelled=True),
    ]
    return picture(drawn, list(waiting), COLOURS, across=2)


def main(folders: Sequence[str]) -> None:
    """Gather the results of these folders."""
    records = [json.loads(line) for folder in folders for line in Path(folder, "raw.jsonl").read_text().splitlines()]
    FILE.write_text(json.dumps(gather(records, load()["machine"]), indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
