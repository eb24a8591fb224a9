"""Programs that are killed: one that asks before it acts, and an inbox. Each kills itself at the moment it is told."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

import assentry.inbox
from assentry import Approvals
from assentry.outside import place as place_module
from assentry.outside.place import CallPlace
from assentry.store import SQLiteStore
from tests.inbox.support import Tokens

BOT = "billing-bot"
KEY = "invoice 7"
STEPS = ("ask", "wait", "start", "finish")
MOMENTS = tuple(f"{when} {step}" for step in (*STEPS, "effect") for when in ("before", "after"))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()  # it is on its way


def dying(method: Callable[..., Any], step: str, moment: str) -> Callable[..., Any]:
    """The same method, which is the last thing that this process does, or tries to do, if it is the moment."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        if moment == f"before {step}":
            die()
        result = await method(*args, **kwargs)
        if moment == f"after {step}":
            die()
        return result

    return call


def add_effect(path: Path, amount: int) -> str:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"paid {amount}\n".encode())
    os.fsync(file)
    os.close(file)
    return f"paid {amount}"


def be_asker(address: str, folder: str, moment: str, later: float) -> None:
    """Ask, wait, pay and report; write down what came of it."""
    place_module.ATTEMPTS = place_module.OUTCOME_ATTEMPTS = 1000
    place_module.PAUSE, place_module.LONGEST_PAUSE = 0.02, 0.1
    token = f"{BOT}:agent" if address.startswith("http") else None

    async def main() -> str:
        given = address if token else SQLiteStore(address, clock=lambda: time.time() + later)
        async with Approvals(given, source=BOT, token=token) as approvals:
            place: CallPlace = approvals._place
            for step in STEPS:
                setattr(place, step, dying(getattr(place, step), step, moment))

            async def pay(amount: int) -> str:
                async def effect() -> str:
                    return add_effect(Path(folder, "effects"), amount)

                made: str = await dying(effect, "effect", moment)()
                return made

            try:
                return str(await approvals.run("pay", {"amount": 10}, pay, key=KEY))
            except Exception as error:
                return type(error).__name__

    Path(folder, "outcome").write_text(asyncio.run(main()))


def be_inbox(path: str, port: int, later: float, moment: str, number: int) -> None:
    """Serve the inbox of a file; the clock is `later` seconds ahead. It dies around its n-th write."""
    store = SQLiteStore(path, clock=lambda: time.time() + later)
    append, count = store.append, [0]

    async def noted(change: Any) -> None:
        count[0] += 1
        await dying(append, "write", moment if count[0] == number else "")(change)

    store.append = noted  # type: ignore[method-assign]
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    config = uvicorn.Config(assentry.inbox.app(store, Tokens()), ws="none", log_level="error")
    uvicorn.Server(config).run(sockets=[bound])
