"""What is measured: the cases, in groups, and what is shown of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from .peers import IN_DIALECT, IN_FRONT, IN_POSTGRES, IN_SQLITE, IN_TEMPORAL, LIVE, RUNTIMES, THREADS, WITH_MCP, Sides
from .recordings import DIALECTS

GROUPS = {
    "turns": "A run of so many turns, one tool call each",
    "fan-out": "A run of one turn with so many tool calls at once",
    "pause": "A pause after so many turns: saved, loaded, approved, resumed to the end",
    "approvals": "More than one approval",
    "stream": "A reply of so many deltas, read as they come",
    "held": "Many paused runs",
    "start": "A fresh process",
    "sqlite": "Runs that live in an SQLite file",
    "postgres": "Runs that live in Postgres",
    "inbox": "So many open questions in an SQLite file",
    "inbox-postgres": "So many open questions in Postgres",
    **{f"threads-{saver}": f"A thread to an interrupt and to the end, with the saver in {saver}" for saver in THREADS},
    **{dialect: f"{name}, by the official client over recorded replies" for dialect, name in DIALECTS.items()},
    "mcp": "A call of an MCP server over stdio that a rule lets pass",
    "gateway": "A call through the MCP gateway that a rule lets pass, beside the bare server",
    "realtime": "Live sessions, over WebSocket frames from memory",
    "temporal": "A run of so many turns as a Temporal workflow",
    "temporal-approvals": "The same with a person at every turn",
    "temporal-waiting": "Runs in Temporal that wait for a person",
}
SIDES = {
    "sqlite": IN_SQLITE,
    "postgres": IN_POSTGRES,
    "inbox": IN_SQLITE,
    "inbox-postgres": IN_POSTGRES,
    **{f"threads-{saver}": sides for saver, sides in THREADS.items()},
    **IN_DIALECT,
    "mcp": WITH_MCP,
    "gateway": IN_FRONT,
    "realtime": LIVE,
    **dict.fromkeys(("temporal", "temporal-approvals", "temporal-waiting"), IN_TEMPORAL),
}
"""Who is compared in a group, where it is not the runtimes."""

WHOLE = "whole"
"""All phases of an execution together."""

Kind = Literal["cpu", "wall", "metric"]


@dataclass(frozen=True)
class Measure:
    """Something that is shown of a case."""

    label: str
    kind: Kind
    name: str
    """A phase, WHOLE, or a metric."""
    plain: bool = False
    """Whether a metric is a number, not bytes."""


@dataclass(frozen=True)
class Case:
    """A scenario with its sizes."""

    name: str
    group: str
    label: str
    scenario: str
    params: Mapping[str, int | str] = field(default_factory=dict)
    repetitions: int = 1
    size: int | None = None
    """Where it stands on the plot's axis, if its group has one."""
    fresh: bool = False
    """Whether every repetition has a process of its own, since it measures memory, or is long."""
    means: bool = False
    """Whether its times are means already, and so a repetition executes it once."""

    @property
    def sides(self) -> Sides:
        """Who is compared."""
        return SIDES.get(self.group, RUNTIMES)


def counted(number: int, noun: str) -> str:
    """`1 turn`, `1,000 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def turns(n: int, repetitions: int) -> Case:
    """A run of n turns."""
    return Case(f"turns-{n}", "turns", counted(n, "turn"), "turns", {"n": n}, repetitions, n)


def fan_out(k: int, repetitions: int) -> Case:
    """A run of k calls at once."""
    return Case(f"fan-out-{k}", "fan-out", counted(k, "call"), "fanout", {"k": k}, repetitions, k)


def pause(prior: int, repetitions: int) -> Case:
    """A pause after so many turns."""
    return Case(f"pause-{prior}", "pause", counted(prior, "turn"), "pause", {"prior": prior}, repetitions, prior)


def stages(count: int, repetitions: int) -> Case:
    """So many approvals in a row."""
    return Case(
        f"stages-{count}", "approvals", f"{count} in a row, saved at each", "stages", {"stages": count}, repetitions
    )


def ask(k: int, repetitions: int) -> Case:
    """So many approvals at once."""
    return Case(f"ask-{k}", "approvals", f"{k} at once", "ask", {"k": k}, repetitions)


def nested(repetitions: int) -> Case:
    """An approval inside an agent that is a tool."""
    return Case("nested", "approvals", "inside an agent that is a tool", "nested", {}, repetitions)


def deltas(n: int, repetitions: int) -> Case:
    """A stream of n deltas."""
    return Case(f"deltas-{n}", "stream", counted(n, "delta"), "stream", {"n": n}, repetitions, n)


def held(runs: int, prior: int, repetitions: int) -> Case:
    """So many paused runs."""
    label = f"{counted(runs, 'run')} paused after {counted(prior, 'turn')}"
    return Case(f"held-{runs}", "held", label, "held", {"runs": runs, "prior": prior}, repetitions, fresh=True)


ANSWER = 1750
"""About how long an answer is in a run that lives in a database: with it, a turn has 2 kB of JSON."""


def stored(group: str, n: int, repetitions: int, runs: int = 1) -> Case:
    """A run of n turns in a database, weighed as the mean of so many."""
    params = {"n": n, "length": ANSWER, "runs": runs}
    return Case(f"{group}-{n}", group, f"{counted(n, 'turn')} of 2 kB", "stored", params, repetitions, n)


def stored_small(group: str, n: int, repetitions: int) -> Case:
    """The same with the short answers of the other cases."""
    params = {"n": n, "length": 128, "runs": 1}
    return Case(f"{group}-small-{n}", group, f"{counted(n, 'turn')} of 0.4 kB", "stored", params, repetitions)


def stored_even(group: str, n: int, repetitions: int) -> Case:
    """The same with answers that all have one length, which fits the pages of a file of 4096 badly."""
    params = {"n": n, "length": ANSWER, "runs": 1, "even": 1}
    return Case(f"{group}-even-{n}", group, f"{counted(n, 'turn')} of 2 kB, all alike", "stored", params, repetitions)


def commits(n: int, repetitions: int) -> Case:
    """The commits of a run of n turns and a question."""
    return Case("sqlite-commit", "sqlite", "one commit", "commit", {"n": n}, repetitions, means=True)


def parked(group: str, runs: int, prior: int, repetitions: int) -> Case:
    """So many runs that are begun, decided on, and ended."""
    label = f"{counted(runs, 'run')} of {counted(prior, 'turn')} and an approval"
    params = {"runs": runs, "prior": prior}
    return Case(f"{group}-parked-{runs}", group, label, "parked", params, repetitions, fresh=True)


def late(group: str, prior: int, cycles: int, repetitions: int) -> Case:
    """A run that waits for a person at every turn, after so many without."""
    label, params = f"a person at every turn after {counted(prior, 'turn')}", {"prior": prior, "cycles": cycles}
    return Case(f"{group}-late-{prior}", group, label, "late", params, repetitions, means=True)


def idle(group: str, first: int, runs: int) -> Case:
    """So many paused runs that nobody holds, after some."""
    label = f"{counted(runs, 'paused run')} more, after {first:,}"
    params = {"first": first, "runs": runs}
    return Case(f"{group}-idle-{first + runs}", group, label, "idle", params, 1, fresh=True)


def threads(prior: int, cycles: int, repetitions: int) -> tuple[Case, ...]:
    """Threads that wait after so many turns, on each saver."""
    label, params = f"after {counted(prior, 'turn')}", {"prior": prior, "cycles": cycles}
    return tuple(
        Case(f"threads-{saver}-{prior}", f"threads-{saver}", label, "thread", params, repetitions, prior, means=True)
        for saver in THREADS
    )


def dialects(deltas: int, n: int, times: int, spoken: Iterable[str] = DIALECTS) -> tuple[Case, ...]:
    """A reply of so many deltas, and a run of n turns, in each dialect; so many repetitions."""
    shown = {
        "deltas": (deltas, "dialect_stream", f"a delta of {deltas:,}"),
        "turns": (n, "dialect_turns", f"a turn, streamed, in a run of {n}"),
        "run": (n, "dialect_run", f"a turn, not streamed, in a run of {n}"),
    }
    return tuple(
        Case(f"{dialect}-{name}-{size}", dialect, label, scenario, {"dialect": dialect, "n": size}, times, means=True)
        for dialect in spoken
        for name, (size, scenario, label) in shown.items()
    )


def mcp(n: int, runs: int, repetitions: int) -> tuple[Case, ...]:
    """So many runs of n calls, with the server's tools listed once, and before every reply."""
    return tuple(
        Case(name, "mcp", label, "mcp_calls", {"n": n, "runs": runs, "cached": cached}, repetitions, means=True)
        for name, label, cached in (
            (f"mcp-{n}", "tools listed once", 1),
            (f"mcp-listed-{n}", "tools listed for every turn", 0),
        )
    )


def gateway(n: int, repetitions: int) -> Case:
    """So many calls through the gateway, and of the bare server."""
    label = f"{counted(n, 'call')}, SQLite"
    return Case(f"gateway-{n}", "gateway", label, "gateway_calls", {"n": n}, repetitions, fresh=True)


def realtime(n: int, replies: int, repetitions: int) -> tuple[Case, ...]:
    """So many replies of n deltas in a live session, of audio and of text."""
    params = {"n": n, "replies": replies}
    return (
        Case("realtime-audio", "realtime", "100 ms of audio", "realtime_audio", params, repetitions, means=True),
        Case("realtime-text", "realtime", "a word of text", "realtime_text", params, repetitions, means=True),
    )


def realtime_idle(sessions: int, prior: int, repetitions: int) -> tuple[Case, ...]:
    """So many live sessions with a call that waits, at once and after prior replies."""
    return tuple(
        Case(name, "realtime", label, "realtime_idle", {"sessions": sessions, "prior": many}, repetitions, fresh=True)
        for name, label, many in (
            ("realtime-idle", "a session with a call that waits", 0),
            (f"realtime-idle-{prior}", f"the same after {prior} replies", prior),
        )
    )


OUTPUT = 500
"""How long a tool's answer is in a run in Temporal."""


def temporal(n: int, repetitions: int) -> tuple[Case, Case]:
    """A run of n turns in Temporal, and one with a person at every turn."""
    params = {"n": n, "length": OUTPUT}
    turn, person = "temporal_turns", "temporal_approvals"
    label = counted(n, "turn")
    # Each starts a server and lets short runs come before, so a process of its own needs nothing more to be warm.
    return (
        Case(f"temporal-{n}", "temporal", label, turn, params, repetitions, n, fresh=True),
        Case(f"temporal-approvals-{n}", "temporal-approvals", label, person, params, repetitions, n, fresh=True),
    )


def temporal_waiting(runs: int, repetitions: int) -> Case:
    """So many runs in Temporal that wait for a person."""
    label = counted(runs, "run")
    name = f"temporal-waiting-{runs}"
    return Case(name, "temporal-waiting", label, "temporal_waiting", {"runs": runs}, repetitions, fresh=True)


def inbox(questions: int, repetitions: int, few: int = 1000, group: str = "inbox") -> Case:
    """So many open questions, and few."""
    label = counted(questions, "question")
    params = {"questions": questions, "few": few}
    return Case(f"{group}-{questions}", group, label, "inbox", params, repetitions, fresh=True)


def inboxes(group: str, questions: int, decisions: int, clients: int, most: int, repetitions: int) -> Case:
    """So many decisions over HTTP by many clients, on up to `most` inbox processes, among so many open questions."""
    label = f"{counted(decisions, 'decision')} of {clients} clients, {questions:,} open"
    params = {"questions": questions, "decisions": decisions, "clients": clients, "most": most}
    return Case(f"{group}-inboxes", group, label, "inboxes", params, repetitions, fresh=True)


def served(group: str, decisions: int, viewers: int, repetitions: int) -> Case:
    """So many decisions over HTTP, by one client and by many, and questions shown to as many viewers."""
    label = f"{counted(decisions, 'decision')} over HTTP, {viewers} at once"
    params = {"decisions": decisions, "viewers": viewers}
    return Case(f"{group}-served-{viewers}", group, label, "served", params, repetitions, fresh=True)


def viewed(group: str, looks: int, repetitions: int) -> Case:
    """So many looks at `/health` while a viewer opens the largest pages."""
    label = f"{counted(looks, 'look')} at /health while a viewer opens the largest pages"
    return Case(f"{group}-viewed", group, label, "viewed", {"looks": looks}, repetitions, fresh=True)


def asked_outside(group: str, asks: int, clients: int, repetitions: int) -> Case:
    """So many asks of programs outside over HTTP, by one and by many at once."""
    label = f"{counted(asks, 'ask')} of programs outside, {clients} at once"
    params = {"asks": asks, "clients": clients}
    return Case(f"{group}-asks", group, label, "asked_outside", params, repetitions, fresh=True)


def fresh_process(repetitions: int) -> tuple[Case, Case]:
    """Importing; importing and declaring an agent with two tools."""
    return (
        Case("import", "start", "import", "import", {}, repetitions),
        Case("declare", "start", "import, and an agent with two tools", "declare", {}, repetitions),
    )


CASES = (
    *(turns(1, 40), turns(10, 30), turns(100, 11), turns(400, 5)),
    *(fan_out(1, 40), fan_out(10, 40), fan_out(100, 20)),
    *(pause(0, 40), pause(10, 25), pause(100, 9), pause(400, 4)),
    *(stages(10, 9), ask(10, 15), ask(100, 7), nested(40)),
    *(deltas(100, 20), deltas(1000, 15), deltas(4000, 5)),
    held(1000, 10, 1),
    *fresh_process(15),
    *(stored("sqlite", 10, 5, runs=8), stored("sqlite", 80, 5), stored("sqlite", 400, 1)),
    *(stored_even("sqlite", 80, 3), stored_even("postgres", 80, 3)),
    *(stored_small("sqlite", 80, 3), commits(50, 30), parked("sqlite", 1000, 2, 1), idle("sqlite", 8000, 2000)),
    *(stored("postgres", 10, 5, runs=8), stored("postgres", 80, 5), stored("postgres", 400, 1)),
    *(stored_small("postgres", 80, 3), parked("postgres", 1000, 2, 1), idle("postgres", 1000, 4000)),
    *(late("sqlite", 10, 20, 5), late("sqlite", 400, 20, 3), late("sqlite", 1000, 20, 1)),
    *(late("postgres", 10, 20, 5), late("postgres", 400, 20, 1), late("postgres", 1000, 20, 1)),
    *(inbox(1000, 3), inbox(1000, 3, group="inbox-postgres")),
    *(inboxes("sqlite", 20_000, 3000, 48, 1, 3), inboxes("postgres", 20_000, 3000, 48, 4, 3)),
    *(served("sqlite", 500, 50, 3), served("postgres", 500, 50, 3)),
    *(viewed("sqlite", 1000, 1), viewed("postgres", 1000, 1)),
    *(asked_outside("sqlite", 500, 50, 3), asked_outside("postgres", 500, 50, 3)),
    *(*threads(0, 30, 15), *threads(10, 12, 7), *threads(100, 3, 3)),
    *dialects(1000, 10, 11),
    *mcp(20, 3, 7),
    gateway(300, 3),
    *(*realtime(1000, 3, 11), *realtime_idle(300, 20, 3)),
    *(*temporal(10, 5), *temporal(100, 3), *temporal(400, 1), temporal_waiting(1000, 1)),
)
"""What `make bench` measures."""

LONG = tuple(
    inbox(questions, 1, group=group)
    for group in ("inbox", "inbox-postgres")
    for questions in (10_000, 100_000, 1_000_000)
)
"""What is measured only if it is asked for by name: takes minutes, and gigabytes of disk."""

SMOKE = (
    *(turns(1, 2), turns(3, 2), fan_out(3, 2)),
    *(pause(0, 2), pause(3, 2), stages(2, 2), ask(3, 2), nested(2)),
    *(deltas(1, 2), deltas(20, 2), held(5, 2, 1)),
    *fresh_process(1),
    *(stored("sqlite", 3, 1), stored_small("sqlite", 2, 1), commits(3, 1), parked("sqlite", 3, 1, 1)),
    *(idle("sqlite", 2, 3), stored("postgres", 3, 1), parked("postgres", 3, 1, 1), inbox(200, 1, few=100)),
    *(inbox(200, 1, 100, "inbox-postgres"), inboxes("sqlite", 30, 5, 2, 1, 1), inboxes("postgres", 30, 5, 2, 2, 1)),
    *(served("sqlite", 5, 2, 1), served("postgres", 5, 2, 1), late("sqlite", 2, 2, 1), late("postgres", 2, 2, 1)),
    *(viewed("sqlite", 20, 1), asked_outside("sqlite", 5, 2, 1), asked_outside("postgres", 5, 2, 1)),
    *(*threads(0, 2, 1), *threads(2, 1, 1)),
    *dialects(3, 2, 1, ["chat"]),  # one, since importing the clients takes longest; the unit tests have the others
    replace(mcp(2, 1, 1)[0], fresh=True),  # without a repetition to warm up, since its servers take longest to start
    gateway(2, 1),
    *(*realtime(3, 2, 1), realtime_idle(2, 2, 1)[0]),
    *(*temporal(3, 1), temporal_waiting(3, 1)),
)
"""What `make bench-smoke` executes: everything once or twice, and small."""

QUICK_LEAVES_OUT = frozenset(
    {"threads-memory-100", "threads-sqlite-100", "threads-postgres-100"}
    | {"turns-400", "pause-400", "deltas-4000", "held-1000", "sqlite-400", "postgres-400"}
    | {"sqlite-late-1000", "postgres-late-400", "postgres-late-1000"}
    | {"temporal-400", "temporal-approvals-400", "temporal-waiting-1000"}
    | {"sqlite-parked-1000", "postgres-parked-1000", "sqlite-idle-10000", "postgres-idle-5000"}
)
QUICK_SCALE = 0.2

PAGES = tuple(
    f"page{which}"
    for which in (
        *("", " of an agent", " of a rare agent", " of a tool", " of an agent and a tool", " of old ones"),
        *(" of old ones of a rare agent", " of a run", " of settled ones", " further on"),
    )
)
INBOXES = (1, 2, 4)
"""Numbers of inbox processes."""
MEASURES: Mapping[str, Sequence[Measure]] = {
    "turns": [Measure("", "cpu", WHOLE)],
    "fanout": [Measure("", "cpu", WHOLE)],
    "pause": [
        Measure("whole", "cpu", WHOLE),
        Measure("to the pause", "cpu", "to pause"),
        Measure("encode", "cpu", "encode"),
        Measure("load", "cpu", "load"),
        Measure("approve", "cpu", "approve"),
        Measure("resume", "cpu", "resume"),
        Measure("saved state", "metric", "state_bytes"),
    ],
    "stages": [Measure("", "cpu", WHOLE)],
    "ask": [Measure("", "cpu", WHOLE)],
    "nested": [Measure("", "cpu", WHOLE)],
    "thread": [
        Measure("whole", "cpu", WHOLE),
        Measure("to the interrupt", "cpu", "to interrupt"),
        Measure("from the answer to the end", "cpu", "to the end"),
        Measure("whole, wall time", "wall", WHOLE),
    ],
    "stream": [Measure("", "cpu", WHOLE)],
    "held": [
        Measure("pause all", "cpu", "pause"),
        Measure("encode all", "cpu", "encode"),
        Measure("load, approve, resume all", "cpu", "resume"),
        Measure("memory of each while held", "metric", "held_bytes"),
    ],
    "import": [Measure("time", "cpu", WHOLE), Measure("memory of the process", "metric", "resident_bytes")],
    "declare": [Measure("time", "cpu", WHOLE), Measure("memory of the process", "metric", "resident_bytes")],
    "stored": [
        Measure("in the database", "metric", "stored_bytes"),
        Measure("times the transcript", "metric", "times_useful", plain=True),
        Measure("commits", "metric", "commits", plain=True),
        Measure("CPU time", "cpu", "run"),
        Measure("wall time", "wall", "run"),
    ],
    "commit": [
        Measure(f"of a {what}, {kind} time", "cpu" if kind == "CPU" else "wall", phase)
        for what, phase in (("turn", "turn"), ("question", "ask"), ("decision", "decide"))
        for kind in ("CPU", "wall")
    ],
    "parked": [
        Measure("CPU time", "cpu", WHOLE),
        Measure("wall time", "wall", WHOLE),
        Measure("begin them all, CPU time", "cpu", "pause"),
        Measure("decide on all and end them, CPU time", "cpu", "resume"),
    ],
    "late": [
        Measure("a decision, CPU time", "cpu", "decide"),
        Measure("a resume to the next question, CPU time", "cpu", "resume"),
        Measure("both, wall time", "wall", WHOLE),
    ],
    "dialect_stream": [Measure("", "cpu", "delta")],
    "dialect_turns": [Measure("", "cpu", "turn")],
    "dialect_run": [Measure("", "cpu", "turn")],
    "mcp_calls": [
        Measure("a call", "cpu", "call"),
        Measure("a call, wall time", "wall", "call"),
        Measure("µs of CPU time over the client's own call", "metric", "overhead_us", plain=True),
    ],
    "gateway_calls": [
        Measure("a call of the bare server, p50, ms", "metric", "bare_ms", plain=True),
        Measure("a call through the gateway, p50, ms", "metric", "gateway_ms", plain=True),
        Measure("ms that the gateway adds", "metric", "added_ms", plain=True),
    ],
    **{
        scenario: [
            Measure("", "cpu", "delta"),
            Measure("µs of CPU time over websockets' own", "metric", "overhead_us", plain=True),
        ]
        for scenario in ("realtime_audio", "realtime_text")
    },
    "realtime_idle": [Measure("memory", "metric", "session_bytes")],
    "idle": [
        Measure("memory of each", "metric", "idle_bytes"),
        Measure("in the database, each", "metric", "waiting_bytes"),
    ],
    "inboxes": [
        Measure(f"{what}, inboxes: {count}", "metric", name, plain=True)
        for count in INBOXES
        for what, name in (
            ("decisions a second", f"decisions_per_second_{count}"),
            ("a decision, p50, ms", f"decision_p50_ms_{count}"),
            ("a decision, p99, ms", f"decision_p99_ms_{count}"),
            ("CPU ms of the inboxes a decision", f"inbox_cpu_ms_{count}"),
            ("CPU ms of the clients a decision", f"client_cpu_ms_{count}"),
            ("CPU ms of the database server a decision", f"server_cpu_ms_{count}"),
            ("cores busy on the whole machine", f"machine_cores_{count}"),
        )
    ]
    + [Measure(f"memory of an inbox process, inboxes: {count}", "metric", f"inbox_bytes_{count}") for count in INBOXES],
    **{
        scenario: [
            Measure("history", "metric", "history_bytes"),
            Measure("history of a turn, among the first ten", "metric", "early_bytes"),
            Measure("history of a turn, among the last ten", "metric", "late_bytes"),
            Measure("events", "metric", "events", plain=True),
            Measure("turns until the server ended the run", "metric", "ended_at", plain=True),
            Measure("written elsewhere", "metric", "beside_bytes"),
            Measure("a turn, CPU time of the worker", "cpu", "turn"),
            Measure("a turn, CPU time of the server, ms", "metric", "server_ms", plain=True),
            Measure("a turn, wall time", "wall", "turn"),
        ]
        for scenario in ("temporal_turns", "temporal_approvals")
    },
    "temporal_waiting": [
        Measure("memory of each in the worker", "metric", "waiting_bytes"),
        Measure("memory of the worker's process", "metric", "worker_bytes"),
        Measure("memory of each in the server", "metric", "server_waiting_bytes"),
        Measure("memory of the server's process", "metric", "server_bytes"),
        Measure("begin one, CPU time of the worker", "cpu", "begin"),
    ],
    "asked_outside": [
        Measure(f"{words}, {who}: {what}", "metric", f"{name}_{way}_{count}", plain=True)
        for way, words in (
            ("allowed", "an ask that a rule lets pass"),
            ("described", "the same with a JSON schema"),
            ("waiting", "an ask about which a person is asked"),
            ("whole", "an ask, its start and its end"),
        )
        for count, who in (("one", "one program"), ("many", "all at once"))
        for what, name in (
            ("a second", "asks_per_second"),
            ("p50, ms", "ask_p50_ms"),
            ("p99, ms", "ask_p99_ms"),
            ("CPU ms of the inbox", "inbox_cpu_ms"),
            ("CPU ms of the clients", "client_cpu_ms"),
        )
    ],
    "served": [
        Measure("decisions a second, one client", "metric", "decisions_per_second_one", plain=True),
        Measure("decisions a second, many at once", "metric", "decisions_per_second_many", plain=True),
        Measure("a decision, one client, p99, ms", "metric", "decision_p99_ms_one", plain=True),
        Measure("a decision, many at once, p99, ms", "metric", "decision_p99_ms_many", plain=True),
        Measure("question to screen, p95, ms", "metric", "to_screen_p95_ms", plain=True),
        Measure("the page of a question at turn 5, p50, ms", "metric", "question_page_p50_ms_5", plain=True),
        Measure("the page of a question at turn 400, p50, ms", "metric", "question_page_p50_ms_400", plain=True),
    ],
    "viewed": [
        Measure("/health, p99, ms", "metric", "health_p99_ms", plain=True),
        Measure("/health, longest, ms", "metric", "health_max_ms", plain=True),
        Measure("/health without a viewer, p99, ms", "metric", "health_idle_p99_ms", plain=True),
    ],
    "inbox": [
        Measure("in the database", "metric", "stored_bytes"),
        Measure("of it indexes", "metric", "index_bytes"),
        Measure("in the database, each", "metric", "waiting_bytes"),
        Measure("decide from disk, wall time", "wall", "decide from disk"),
        Measure("first page over HTTP, p99, ms", "metric", "http_page_p99_ms", plain=True),
        *(Measure(f"{page}, wall time", "wall", page) for first in PAGES for page in (first, f"{first}, again")),
        *(
            Measure(f"{what} {where}, {kind} time", "cpu" if kind == "CPU" else "wall", f"{what} {where}")
            for what in ("decide", "resume", "claim")
            for kind in ("CPU", "wall")
            for where in ("among few", "among all")
        ),
    ],
}
"""What the tables show, by scenario."""


def scaled(cases: Sequence[Case], scale: float) -> list[Case]:
    """The same with more or fewer repetitions, at least one each."""
    return [replace(case, repetitions=max(1, round(case.repetitions * scale))) for case in cases]


def chosen(cases: Sequence[Case], names: Sequence[str]) -> list[Case]:
    """Those of these names or groups; raises ValueError for a name that is neither."""
    unknown = set(names) - {case.name for case in cases} - {case.group for case in cases}
    if unknown:
        raise ValueError(f"no such case or group: {', '.join(sorted(unknown))}")
    return [case for case in cases if case.name in names or case.group in names]
