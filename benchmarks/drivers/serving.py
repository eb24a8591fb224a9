"""The inbox over HTTP: a server in a process of its own, and clients that cost little themselves."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from assentry import Agent, Edit, Preview, Runner, Text, function_tool
from assentry.inbox.accounts import accounts_of
from assentry.store import Question, Store, open_store
from assentry.testing import ScriptedModel, call
from assentry.testing.store_checks.draft import asking

from ..clock import Clock
from .processes import cpu_of, cpu_of_machine, resident_of
from .waiting import Inbox

HEALTH_TICK = 0.01
"""The seconds between two looks at `/health`."""
TICK = 0.05
"""The seconds between two questions that viewers wait for."""

VIEWERS = 50
"""The viewers of the list of a large inbox."""
AGES = (5, 400)
"""The turns in which runs ask the questions whose pages are compared."""


class Client:
    """One connection to the server."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token = port, token

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._writer.close()

    async def send(self, method: str, path: str, body: bytes = b"", digest: str = "") -> None:
        """Send a request."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
        if body:
            head += f'Content-Type: application/json\r\nContent-Length: {len(body)}\r\nIf-Match: "{digest}"\r\n'
        self._writer.write(head.encode() + b"\r\n" + body)
        await self._writer.drain()

    async def head(self) -> dict[str, str]:
        """Read the beginning of a response that is fine."""
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        if lines[0].split(" ")[1] not in ("200", "201"):
            raise RuntimeError(lines[0] + (await self._reader.read(2000)).decode())
        return headers

    async def ask(self, *request: Any) -> bytes:
        """Send a request, and return the body of the response."""
        await self.send(*request)
        return await self._reader.readexactly(int((await self.head())["content-length"]))

    async def decide(self, question: Question) -> None:
        """Approve a question."""
        await self.ask("POST", f"/api/questions/{question.id}/decision", b'{"type":"approve"}', question.digest)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Read the stream of events."""
        await self.send("GET", "/api/events")
        await self.head()
        while True:
            line = await self._reader.readline()
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@asynccontextmanager
async def server(url: str) -> AsyncIterator[int]:
    """Start a server of the store at this address, and give its port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.drivers.serving", url), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


async def asked(store: Store, count: int) -> list[Question]:
    """Store so many runs, each with an open question."""
    return [question for _ in range(count) for question in (await asking(store.clock).write(store)).asked]


async def measure(clock: Clock, store: Store, url: str, decisions: int, viewers: int) -> None:
    """Time decisions of one client and of as many as there are viewers, pages, and the way of a question to them."""
    token = await accounts_of(store).add_token("ann", "reviewer")
    async with server(url) as port, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(port, token)) for _ in range(viewers)]
        for name, some in (("one", clients[:1]), ("many", clients)):
            questions = await asked(store, decisions + len(some))
            await asyncio.gather(*(each.decide(questions.pop()) for each in some))  # opens what must be open
            times = await through(some, [_deciding(question) for question in questions], clock, f"decide, {name}")
            clock.metric(f"decisions_per_second_{name}", decisions / (clock.wall[f"decide, {name}"] / 1e9))
            clock.metric(f"decision_p99_ms_{name}", percentile(times, 99))
        clock.metric("to_screen_p95_ms", percentile(await _to_screens(store, port, token, viewers, decisions), 95))
        await _measure_ages(clock, store, clients[0], decisions)


async def _measure_ages(clock: Clock, store: Store, client: Client, looks: int) -> None:
    """Time the page of a question that a young run asks, and of one that an old run asks, in turn."""
    pages = {turn: f"/questions/{(await _asked_at(store, turn)).id}" for turn in AGES}
    times: dict[int, list[float]] = {turn: [] for turn in AGES}
    for number in range(looks + 1):
        for turn, page in pages.items():
            begin = time.perf_counter()
            await client.ask("GET", page)
            if number:  # the first one opens what must be open
                times[turn].append((time.perf_counter() - begin) * 1000)
    for turn, each in times.items():
        clock.metric(f"question_page_p50_ms_{turn}", percentile(each, 50))


async def _asked_at(store: Store, turn: int) -> Question:
    """Return the question of a run that asks in this turn; each turn before it ran a tool whose output has 2 kB."""

    @function_tool
    async def look(n: int) -> str:
        return "x" * 2000

    @function_tool(needs_approval=True)
    async def pay(amount: int) -> str:
        return "paid"

    steps = [*(call("look", {"n": n}) for n in range(turn - 1)), call("pay", {"amount": 5}), "Done."]
    agent = Agent(name="Clerk", tools=[look, pay], model=ScriptedModel(steps))
    result = await Runner.run(agent, "Go on.", store=store, max_turns=turn + 1)
    return await store.question(result.interruptions[0].id)


async def measure_pages(clock: Clock, store: Store, url: str, count: int) -> None:
    """Time the first page of the open questions: by the API, and as a list with its views, by one and by 50 viewers."""
    token = await accounts_of(store).add_token("ann", "reviewer")
    async with server(url) as port, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(port, token)) for _ in range(VIEWERS)]
        await _page(clients[0])  # opens what must be open
        times = await through(clients[:1], [_page] * count, clock, "pages over HTTP")
        clock.metric("http_page_p99_ms", percentile(times, 99))
        for name, some in (("one", clients[:1]), ("many", clients)):
            await asyncio.gather(*map(_list, some))
            times = await through(some, [_list] * count, clock, f"lists with views, {name}")
            clock.metric(f"http_list_p50_ms_{name}", percentile(times, 50))
            clock.metric(f"http_list_p99_ms_{name}", percentile(times, 99))


async def measure_inboxes(
    clock: Clock, store: Store, place: Any, inbox: Inbox, decisions: int, clients: int, most: int
) -> None:
    """Time decisions by so many clients at once, on 1, 2, 4 ... `most` processes of `assentry serve`."""
    tokens = [await accounts_of(store).add_token(f"reviewer {n}", "reviewer") for n in range(clients)]
    counts = [2**power for power in range(most.bit_length())]
    random.shuffle(counts)  # what comes later may find warmer caches, or larger tables
    left = iter(inbox.spread(len(counts) * (decisions + clients)))
    for count in counts:
        questions = [await store.question(next(left)) for _ in range(decisions + clients)]
        await _decide_on(clock, place, questions, tokens, count)


async def _decide_on(clock: Clock, place: Any, questions: list[Question], tokens: Sequence[str], count: int) -> None:
    """Start so many inbox processes, and let each token's client decide there until no question is left."""
    async with AsyncExitStack() as stack:
        inboxes = [await stack.enter_async_context(serve(place.address)) for _ in range(count)]
        ports = itertools.cycle(port for _, port in inboxes)
        clients = [await stack.enter_async_context(Client(next(ports), token)) for token in tokens]
        await asyncio.gather(*(each.decide(questions.pop()) for each in clients))  # opens what must be open
        spent = {
            "inbox": lambda: cpu_of(pid for pid, _ in inboxes),
            "client": time.process_time,
            "server": place.server_cpu,
            "machine": cpu_of_machine,
        }
        before, phase = {who: read() for who, read in spent.items()}, f"decide, inboxes {count}"
        times = await through(clients, [_deciding(question) for question in questions], clock, phase)
        after, wall = {who: read() for who, read in spent.items()}, clock.wall[phase] / 1e9
        clock.metric(f"inbox_bytes_{count}", resident_of(inboxes[0][0]))
    clock.metric(f"decisions_per_second_{count}", len(questions) / wall)
    clock.metric(f"decision_p50_ms_{count}", percentile(times, 50))
    clock.metric(f"decision_p99_ms_{count}", percentile(times, 99))
    for who, first in before.items():
        if first is not None and (last := after[who]) is not None:
            clock.metric(f"{who}_cpu_ms_{count}", (last - first) * 1000 / len(questions))
            clock.metric(f"{who}_cores_{count}", (last - first) / wall)


@asynccontextmanager
async def serve(url: str, *options: str) -> AsyncIterator[tuple[int, int]]:
    """Start `assentry serve` on a free port of this machine; give its process id and its port."""
    command = (sys.executable, "-m", "assentry.cli", "serve", "--store", url, "--host", "127.0.0.1", "--port", "0")
    process = await asyncio.create_subprocess_exec(*command, *options, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        said, found = "", None
        while found is None and (line := (await process.stderr.readline()).decode()):
            said, found = said + line, re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, f"assentry serve did not start: {said}"
        yield process.pid, int(found[1])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def measure_health(clock: Clock, store: Store, url: str, looks: int) -> None:
    """Time `/health` while a viewer opens the largest pages and searches that there are, one after the other."""
    token = await accounts_of(store).add_token("vera", "viewer")
    addresses = await _largest(store)
    async with server(url) as port:
        async with Client(port, token) as monitor:
            await monitor.ask("GET", "/health")  # opens what must be open
            clock.metric("health_idle_p99_ms", percentile(await _healths(monitor, looks), 99))
        async with _viewer(port, token, addresses), Client(port, token) as monitor:
            times = await _healths(monitor, looks)
        clock.metric("health_p99_ms", percentile(times, 99))
        clock.metric("health_max_ms", max(times))


async def _healths(client: Client, looks: int) -> list[float]:
    times = []
    for _ in range(looks):
        began = time.perf_counter()
        await client.ask("GET", "/health")
        times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(HEALTH_TICK)
    return times


@asynccontextmanager
async def _viewer(port: int, token: str, addresses: Sequence[str]) -> AsyncIterator[None]:
    """Let a viewer open these addresses, in a process of its own: reading large pages takes time too."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.drivers.serving", "view", str(port), token, *addresses),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        await process.stdout.readline()  # after the first page
        yield
        assert process.returncode is None, "the viewer has ended"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def view(port: int, token: str, addresses: Sequence[str]) -> None:
    """Open one address after the other, without an end."""
    async with Client(port, token) as client:
        for address in itertools.cycle(addresses):
            await client.ask("GET", address)
            print(address, flush=True)


async def _largest(store: Store) -> list[str]:
    """Store questions about as large as they may be, and return the addresses of their pages."""
    lines = "\n".join(f"line {n} of a text" for n in range(2_000))

    @function_tool(needs_approval=True, preview=lambda ctx, args: Preview("Write", (Text("lorem ipsum\n" * 80_000),)))
    async def write(text: str = "", numbers: list[int] | None = None) -> str:
        return "written"

    async def ask(**arguments: Any) -> Question:
        agent = Agent(name="Writer", tools=[write], model=ScriptedModel([call("write", arguments), "Done."]))
        result = await Runner.run(agent, "Go on.", store=store)
        return await store.question(result.interruptions[0].id)

    edited = await ask(text=lines)
    await store.decide(edited.id, Edit({"text": lines.replace("7", "8")}), by="ann", digest=edited.digest)
    large, many = await ask(text="lorem ipsum " * 800_000), await ask(numbers=[1] * 2_000_000)
    paths = [f"/questions/{each.id}" for each in (edited, large, many)]
    search = f"q={'lorem ' * 30}x"
    return [*paths, f"/runs/{edited.run}", "/audit", "/questions", f"/questions?{search}".replace(" ", "+"), *paths]


def _deciding(question: Question) -> Callable[[Client], Awaitable[Any]]:
    return lambda client: client.decide(question)


def _list(client: Client) -> Awaitable[Any]:
    return client.ask("GET", "/questions?part=list")


def _page(client: Client) -> Awaitable[Any]:
    return client.ask("GET", "/api/questions")


async def through(
    clients: Sequence[Client], work: list[Callable[[Client], Awaitable[Any]]], clock: Clock, phase: str
) -> list[float]:
    """Do all of the work, each client one piece at a time; the milliseconds of each piece."""
    left, times = iter(work), []

    async def do(client: Client) -> None:
        for piece in left:
            began = time.perf_counter()
            await piece(client)
            times.append((time.perf_counter() - began) * 1000)

    with clock.phase(phase):
        await asyncio.gather(*map(do, clients))
    return times


async def _to_screens(store: Store, port: int, token: str, viewers: int, count: int) -> list[float]:
    """The milliseconds from a question's commit to each of the viewers."""
    written: dict[str, float] = {}
    times: list[float] = []
    ready = asyncio.Semaphore(0)

    async def view(client: Client) -> None:
        left = set(range(count))
        async for event in client.events():
            ready.release()
            if event.get("kind") == "question.asked" and event["id"] in written:
                times.append((time.perf_counter() - written[event["id"]]) * 1000)
                left.pop()
                if not left:
                    return

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(port, token)) for _ in range(viewers)]
        tasks = [asyncio.create_task(view(client)) for client in clients]
        for _ in clients:
            await ready.acquire()
        for _ in range(count):
            draft = asking(store.clock)
            [id] = draft.run.asked
            written[id] = time.perf_counter()  # a viewer may be quicker than the writer
            await draft.write(store)
            await asyncio.sleep(TICK)
        await asyncio.gather(*tasks)
    return times


def percentile(times: Sequence[float], percent: int) -> float:
    """The time within which so many of a hundred were done."""
    return sorted(times)[min(len(times) - 1, len(times) * percent // 100)]


async def main(url: str) -> None:
    """Serve the inbox of a store on a free port, and print the port."""
    import uvicorn

    import assentry.inbox
    from assentry.cli.serve import SWITCH
    from assentry.inbox.connection import TimedConnection

    sys.setswitchinterval(SWITCH)  # as `assentry serve` does
    made = assentry.inbox.app(open_store(url))
    # Connections stay open, however long the others take.
    config = uvicorn.Config(made, http=TimedConnection, log_level="error", access_log=False, timeout_keep_alive=3600)
    # asyncio sends small writes at once only on a socket whose protocol is named, which bind_socket does not do.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(500)
    print(listening.getsockname()[1], flush=True)
    await uvicorn.Server(config).serve([listening])


if __name__ == "__main__":
    if sys.argv[1] == "view":
        asyncio.run(view(int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
    else:
        asyncio.run(main(sys.argv[1]))
