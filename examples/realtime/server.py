"""A support desk to type and speak to, with approvals in the browser. Run it with `python examples/realtime/server.py`.

Open the address that it prints. With OPENAI_API_KEY the model is OpenAI's. Without a key it is a local one, which
follows a script and speaks in tones. It needs `pip install ".[inbox,realtime]"`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import secrets
import signal
import webbrowser
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, WebSocket
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from local_model import think, transcribe
from room import Begin, Rooms
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response
from support_desk import support_desk

from assentry import RunState
from assentry.realtime import RealtimeRunner, RealtimeSession, RealtimeSessionModelSettings
from assentry.realtime.config import RealtimeAudioInputConfig
from assentry.store import SQLiteStore, Store
from assentry.testing import RealtimeServer

STATIC = Path(__file__).parent / "static"
HOSTS = ["127.0.0.1", "localhost"]
"""The names of this server. Under another name a foreign site could read the page, and the token in it."""
LARGEST = 262_144
"""The bytes of the largest message that a browser may send: five seconds of audio."""
PROTOCOL = "assentry.realtime"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self)",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def make_app(begin: Begin, turns: str = "manual") -> FastAPI:
    """Return the app: the page, and a WebSocket for each conversation, which `begin` begins."""
    rooms = Rooms(begin, turns)
    token = secrets.token_urlsafe(32)
    page = (STATIC / "page.html").read_text("utf-8").replace("{{token}}", token)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await rooms.close()

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=HOSTS)
    app.mount("/static", StaticFiles(directory=STATIC))

    @app.middleware("http")
    async def add_headers(request: Any, answer: Any) -> Response:
        response: Response = await answer(request)
        response.headers.update(HEADERS)
        return response

    @app.get("/")
    async def show() -> HTMLResponse:
        return HTMLResponse(page)

    @app.websocket("/ws/{name}")
    async def talk(socket: WebSocket, name: str) -> None:
        if not may_enter(socket, token) or not re.fullmatch(r"[\w-]{16,64}", name):
            await socket.close(1008)  # before it is accepted: the browser gets a 403
            return
        await socket.accept(PROTOCOL)
        await rooms.visit(name, socket)

    return app


def may_enter(socket: WebSocket, token: str) -> bool:
    """Return True if the socket was opened by the page: it has the page's token, and the page's origin."""
    origin = urlsplit(socket.headers.get("origin", ""))
    offered = [each.strip() for each in socket.headers.get("sec-websocket-protocol", "").split(",")]
    shown = next((each.removeprefix("token.") for each in offered if each.startswith("token.")), "")
    return (
        origin.netloc == socket.headers.get("host")
        and PROTOCOL in offered
        and secrets.compare_digest(shown.encode(), token.encode())
    )


def sessions(url: str | None, model: str | None, store: Store | None) -> Begin:
    """Return the function that begins a session: with the local model at `url`, or with OpenAI's."""
    heard: RealtimeAudioInputConfig = {"transcription": {"model": "gpt-4o-mini-transcribe"}, "turn_detection": None}
    if url is None:
        heard["turn_detection"] = {"type": "semantic_vad"}
    settings: RealtimeSessionModelSettings = {"output_modalities": ["audio"], "audio": {"input": heard}}
    if model is not None:
        settings["model_name"] = model
    runner = RealtimeRunner(support_desk, config={"model_settings": settings}, store=store)

    async def begin(past: RunState[Any] | None) -> RealtimeSession:
        run = past if past is None or store is None else await store.load(past.run_id)
        return await runner.run(state=run, model_config={} if url is None else {"url": url})

    return begin


class Server(uvicorn.Server):
    """A server that prints its address."""

    def __init__(self, app: FastAPI, port: int, opens: bool) -> None:
        limits: dict[str, Any] = {"ws_max_size": LARGEST, "timeout_graceful_shutdown": 2}
        super().__init__(uvicorn.Config(app, "127.0.0.1", port, ws="websockets-sansio", log_level="warning", **limits))
        self._opens = opens

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started:
            address = f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}"
            print(f"Talk to the support desk: {address}", flush=True)
            with contextlib.suppress(webbrowser.Error):
                _ = self._opens and webbrowser.open(address)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in good order at Ctrl-C."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows has no handlers; Ctrl-C stops it all the same
                loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description="A support desk to talk to, with approvals in the browser.")
    made.add_argument("--port", type=int, default=8322, help="the port of the page (8322); 0 for any free one")
    made.add_argument("--no-browser", action="store_true", help="only print the address")
    made.add_argument("--model", metavar="NAME", help="a realtime model of OpenAI's; only with OPENAI_API_KEY")
    made.add_argument("--store", metavar="FILE", help="keep the runs in this SQLite file, for the inbox too")
    return made.parse_args()


async def main(chosen: argparse.Namespace) -> None:
    async with contextlib.AsyncExitStack() as stack:
        store = await stack.enter_async_context(SQLiteStore(chosen.store)) if chosen.store else None
        url = None
        if not os.environ.get("OPENAI_API_KEY"):
            print("There is no OPENAI_API_KEY, so a local model follows a script and answers in tones.")
            url = (await stack.enter_async_context(RealtimeServer(responder=think, transcripts=transcribe))).url
        app = make_app(sessions(url, chosen.model, store), "manual" if url else "detected")
        server = Server(app, chosen.port, not chosen.no_browser)
        await server.serve()
    if not server.started:
        raise SystemExit(1)  # uvicorn has said why


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(options()))
