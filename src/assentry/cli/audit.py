"""`assentry audit`: check the journals, export them, and seal them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryFile

from msgspec.json import encode

from ..store.audit import Checked, Heads, check_export, export_journals, last_line
from ..store.open import open_store
from .database import compare_store, print_result, writing
from .source import server
from .write import put, put_json, say, when


async def verify_export(options: Namespace) -> int:
    """Check the journals of a database or of an export, and compare them with a seal if one is given."""
    if (options.seal is None) != (options.key is None):
        options.misused("--seal and --key go together")
    if options.file is not None and options.server is not None:
        options.misused("give a file or a server, not both")
    heads = _heads(options)
    if options.file is not None:
        found = _check_file(Path(options.file), heads)
    elif options.server is not None:
        found = await _check_server(options, heads)
    else:
        found = await compare_store(options.url, heads)
    code = print_result(found, json=options.json)
    if options.seal is not None and code == 0 and not options.json:
        put(f"They go on from the seal of {when(options.sealed_at)} (UTC).")
    return code


async def _check_server(options: Namespace, heads: Heads) -> Checked:
    """Check the journals of a server here, from its export: its own word for them counts for nothing."""
    with TemporaryFile() as file:
        async with server(options) as there:
            async for line in there.exported():
                file.write(line)
        file.seek(0)
        return check_export(file, heads)


def _check_file(path: Path, heads: Heads) -> Checked:
    with path.open("rb") as file:
        return check_export(file, heads)


def _heads(options: Namespace) -> Heads:
    """Return the heads of the seal, whose signature is checked first."""
    if options.seal is None:
        return Heads(())
    from ..inbox.audit import read_public_key, read_seal  # imports cryptography

    seal = read_seal(Path(options.seal).read_bytes(), read_public_key(Path(options.key)))
    options.sealed_at = seal.at
    return Heads(seal.heads, purged=options.purged)


async def export(options: Namespace) -> int:
    """Write all journals as JSON Lines, to a file or to stdout."""
    line = b""
    with writing(options.out) as file:
        async with _lines(options) as lines:
            async for line in lines:
                if file is not None:
                    file.write(line.decode())
                else:
                    sys.stdout.buffer.write(line)
    sys.stdout.flush()
    end = last_line(line)
    if end is None:
        say("assentry: the export was cut off")
        return 1
    for sentence in end.damaged:
        say(f"assentry: left out: {sentence}")
    if end.withheld:
        say(f"assentry: left out, since this token may not see all of them: {', '.join(end.withheld)}")
    return 1 if end.damaged else 0


@asynccontextmanager
async def _lines(options: Namespace) -> AsyncIterator[AsyncIterator[bytes]]:
    """Give the lines of an export, of a store or of a server."""
    if options.server is not None:
        async with server(options) as there:
            yield there.exported()
    else:
        async with open_store(options.url, create=False) as store:
            yield export_journals(store)


async def seal(options: Namespace) -> int:
    """Sign the heads of all runs, and write the seal to a file or to stdout."""
    from ..inbox.audit import read_key, seal_runs  # imports cryptography

    key = read_key(Path(options.key))
    async with open_store(options.url, create=False) as store:
        made = await seal_runs(store, key)
    with writing(options.out) as file:
        (file or sys.stdout).write(encode(made).decode() + "\n")
    for sentence in made.damaged:
        say(f"assentry: not sealed: {sentence}")
    return 1 if made.damaged else 0


async def make_key_pair(options: Namespace) -> int:
    """Make a key pair for seals."""
    from ..inbox.audit import make_key  # imports cryptography

    made = make_key(Path(options.file_name))
    if options.json:
        put_json({"key": made, "private": options.file_name, "public": f"{options.file_name}.pub"})
        return 0
    put(f"key: {made}")
    say(f"{options.file_name} signs, and stays secret: keep it where the database's host cannot read it.")
    say(f"{options.file_name}.pub checks.")
    return 0
