"""The engine of the embedded model: loads it once for each process, and generates text.

It works on one thread of its own, one generation after another. Prompts and replies belong in `embedded`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ..core.facts import Usage
from ..errors import AssentryError, ModelFailed
from .embedded_parts import LIBRARY, check_files, weights_file

CONTEXT = 4096
"""The most tokens of a prompt and its reply together."""
PROMPT_CACHE = 64
"""MiB for prompts that were read before. Reading a prompt takes most of the time."""


class Generated(NamedTuple):
    """The end of a generation: its tokens, and True if it ended by itself rather than at its limit."""

    usage: Usage
    complete: bool


def grammar(schema: dict[str, Any]) -> str:
    """Return the grammar of a JSON schema, which a generation can be held to."""
    made: str = _library().json_schema_to_grammar(schema)
    return made


def _library() -> Any:
    """Import the library, after its files were compared with those that were published."""
    if LIBRARY.module not in sys.modules:
        check_files(LIBRARY)
    import xllamacpp

    return xllamacpp


async def generate(request: dict[str, Any]) -> AsyncIterator[str | Generated]:
    """Yield pieces of text, and then the counts. Closing the generator stops the engine after its current token."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()
    stopped, engine = threading.Event(), _engine

    def put(chunk: dict[str, Any] | BaseException | None) -> bool:
        """Pass a chunk to the event loop, and return True to stop the engine."""
        if not stopped.is_set():
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed
                stopped.set()
        return stopped.is_set()

    def work() -> None:
        try:
            if not stopped.is_set():
                engine.generate({**request, "stream": True}, put)
            put(None)
        except BaseException as error:
            put(error)

    waiting = engine.thread.submit(work)
    try:
        while (chunk := await chunks.get()) is not None:
            if isinstance(chunk, AssentryError):
                raise chunk
            if isinstance(chunk, BaseException):
                raise ModelFailed(f"The embedded model failed ({chunk}).", retryable=False) from chunk
            for piece in _read(chunk):
                yield piece
    finally:
        stopped.set()
        waiting.cancel()


def _read(chunk: dict[str, Any]) -> list[str | Generated]:
    error = chunk.get("error")
    if error is not None:
        raise ModelFailed(
            f"The embedded model failed ({error.get('message', error)}). It reads at most {CONTEXT} tokens.",
            retryable=False,
        )
    [choice] = chunk["choices"]
    read: list[str | Generated] = [choice["text"]] if choice["text"] else []
    if choice["finish_reason"] is not None:
        used, times = chunk["usage"], chunk.get("timings", {})
        usage = Usage(0, used["prompt_tokens"], used["completion_tokens"], times.get("cache_n", 0))
        read.append(Generated(usage, choice["finish_reason"] == "stop"))
    return read


class Engine:
    """The thread of the engine, and on it the loaded model."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1, "assentry-embedded")
        self.server: Any = None
        """The library's server; None until the thread has loaded it."""

    def generate(self, request: dict[str, Any], put: Callable[[Any], bool]) -> None:
        """Generate, on the engine's thread, until `put` returns True."""
        if self.server is None:
            self.server = _load()
        self.server.handle_completions(request, put)


def _load() -> Any:
    """Load the model. The library also listens on a loopback port, which a key that nobody knows keeps shut."""
    library = _library()
    settings = library.CommonParams()
    settings.model.path = str(weights_file())
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1  # two spin against whatever else runs
    settings.cache_ram_mib = PROMPT_CACHE
    settings.hostname, settings.port = "127.0.0.1", 0
    settings.n_threads_http, settings.webui, settings.api_keys = 1, False, [secrets.token_hex(32)]
    settings.verbosity = -1
    with _same_signal_handlers():
        return library.Server(settings)


@contextlib.contextmanager
def _same_signal_handlers() -> Iterator[None]:
    """Restore the handlers of SIGINT and SIGTERM, which the library replaces: Ctrl-C would stop its thread alone.

    Python sets handlers only on the main thread, and does not know of those that C code sets; so the system is asked.
    """
    if os.name != "posix":
        yield
        return
    import ctypes

    system = ctypes.CDLL(None)
    handlers = {number: ctypes.create_string_buffer(512) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in handlers.items():
        system.sigaction(int(number), None, handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            system.sigaction(int(number), handler, None)


def _after_fork() -> None:
    """Give a forked child an engine of its own: threads do not survive a fork."""
    global _engine
    import ctypes  # not for those who never fork

    # Never freed: to free it is to wait for its threads, which are the parent's.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_engine))
    _engine = Engine()


_engine = Engine()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
