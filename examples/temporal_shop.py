"""A shop on Temporal: a server, two workers and the inbox, each in its own process. Run it with `make demo-temporal`.

Open the link that it prints, and approve a refund. The bank takes its time: kill the worker that pays meanwhile, with
the command that is printed, and watch. The other worker goes on with everything else. The refund that was cut off is
not paid a second time: nobody knows how it ended, so you are asked.

With `--alone` the program plays all parts itself, and ends.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from pathlib import Path
from typing import Any

from assentry import Agent, Approve, ModelRequest, Respond, function_tool
from assentry.testing import ScriptedModel, call

FOLDER = Path(os.environ.get("ASSENTRY_DEMO", "temporal-demo")).absolute()
BANK = FOLDER / "bank.txt"
ORDERS = ("lamp", "chair", "table")


@function_tool(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Give a customer money back. The bank takes its time."""
    with BANK.open("a", encoding="utf-8") as bank:
        bank.write(f"{order}: begun by worker {os.getpid()}\n")
    time.sleep(float(os.environ.get("ASSENTRY_DEMO_SECONDS", "15")))
    with BANK.open("a", encoding="utf-8") as bank:
        bank.write(f"{order}: paid {amount:.2f}\n")
    return f"{amount:.2f} is on its way."


def think(request: ModelRequest) -> Any:
    """In place of a real model: gives back what the customer asks for."""
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    wish = str(request.input[0]["content"])
    return f"About your {wish}: {outputs[-1]}" if outputs else call("refund", {"order": wish, "amount": 89.9})


agents = [Agent[Any]("Shop", tools=[refund], model=ScriptedModel(think for _ in range(10_000)))]


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description="A shop on Temporal, with two workers and an inbox.")
    made.add_argument("--alone", action="store_true", help="decide and kill a worker by itself, and end")
    made.add_argument("--no-browser", action="store_true", help="only print the link")
    return made.parse_args()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Processes:
    """The processes of the demo."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, log: str) -> subprocess.Popen[bytes]:
        with (FOLDER / log).open("ab") as output:
            where, same = Path(__file__).parent, {**os.environ, "ASSENTRY_DEMO": str(FOLDER)}
            made = subprocess.Popen(command, cwd=where, env=same, stdout=output, stderr=subprocess.STDOUT)
        self.all.append(made)
        return made

    def assentry(self, *words: str, log: str) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-m", "assentry.cli", *words, "--store", str(FOLDER / "runs.db"), log=log)

    def end(self) -> None:
        for each in reversed(self.all):
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)
        for each in self.all:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(30)
            if each.poll() is None:
                each.kill()


async def main(chosen: argparse.Namespace) -> None:
    from assentry.engines.temporal import TemporalRuns, connect
    from assentry.errors import EngineFailed
    from assentry.inbox.accounts import accounts_of
    from assentry.store import SQLiteStore

    FOLDER.mkdir(exist_ok=True)
    new = not (FOLDER / "runs.db").exists()
    port, page = free_port(), free_port()
    address, processes = f"127.0.0.1:{port}", Processes()
    server = Path(sys.executable).with_name("temporal")
    where = ("--headless", "--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(FOLDER / "temporal.db"))
    attributes = ("AssentryStatus=Keyword", "AssentryAgent=Keyword", "AssentryTools=KeywordList")
    words = [word for each in attributes for word in ("--search-attribute", each)]
    try:
        print("Starting Temporal's dev server, two workers, and the inbox ...", flush=True)
        processes.start(str(server), "server", "start-dev", *where, "--log-level", "error", *words, log="temporal.log")
        client = None
        while client is None:
            with contextlib.suppress(EngineFailed):
                client = await connect(address)
        async with SQLiteStore(FOLDER / "runs.db") as store:
            work = ("temporal", "worker", "temporal_shop:agents", "--address", address, "--heartbeat", "5s")
            workers = [processes.assentry(*work, log=f"worker-{number}.log") for number in (1, 2)]
            processes.assentry("serve", "--port", str(page), "--temporal", address, log="inbox.log")
            accounts = accounts_of(store)
            if "you" not in [user.name for user in await accounts.users()]:
                await accounts.add_user("you", "operator")
            link = f"http://127.0.0.1:{page}/sign-in/link#{await accounts.sign_in_link('you')}"
            runs = TemporalRuns(client)
            if new:
                for order in ORDERS:
                    await runs.start("Shop", order, started_by="anna@example.com")
            store.engine = runs
            pids = ", ".join(str(worker.pid) for worker in workers)
            if chosen.alone:
                await play(store, {worker.pid: worker for worker in workers})
                return
            print(f"Decide here (the link signs you in, once): {link}")
            print(f"The workers are {pids}. While one pays ({BANK} says which): kill -9 PID")
            print("Ctrl-C ends; a second start goes on.", flush=True)
            await asyncio.to_thread(_await_page, page)
            with contextlib.suppress(webbrowser.Error):
                _ = chosen.no_browser or webbrowser.open(link)
            await asyncio.Event().wait()
    finally:
        processes.end()


def _await_page(port: int) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)


async def play(store: Any, workers: dict[int, subprocess.Popen[bytes]]) -> None:
    """Approve everything, kill the worker that pays for the lamp, and answer for what it left in doubt."""
    killed, doubts, done = False, 0, 0
    while done < len(ORDERS):
        for question in (await store.questions()).items:
            if question.kind == "doubt":
                print(f"In doubt: {question.reason}")
                doubts += 1
                await store.decide(question.id, Respond("The bank says: paid."), by="you", digest=question.digest)
            else:
                print(f"Approved: {question.tool} {question.arguments}")
                await store.decide(question.id, Approve(), by="you", digest=question.digest)
        lines = BANK.read_text(encoding="utf-8").splitlines() if BANK.exists() else []
        lamp = next((line for line in lines if line.startswith("lamp: begun")), None)
        if lamp is not None and not killed:
            pid = int(lamp.rpartition(" ")[2])
            workers[pid].kill()
            workers[pid].wait()
            killed = True
            print("The worker that pays for the lamp was killed in the middle.")
        done = len((await store.runs(status="done")).items)
        await asyncio.sleep(0.05)
    begun = [line.partition(":")[0] for line in BANK.read_text(encoding="utf-8").splitlines() if "begun" in line]
    print(f"Done: {done} runs, {doubts} in doubt; every refund was begun once: {len(begun) == len(set(begun))}.")


if __name__ == "__main__":
    chosen = options()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(chosen))
    print("\nUntil next time." if not chosen.alone else "", end="")
