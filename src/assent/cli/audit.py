"""`assent audit`: check the journals, export them, and seal them."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from msgspec.json import encode

from ..store.audit import Heads, check_export, exported
from ..store.open import open_store
from .database import compared, concluded, writing
from .write import put, say, when


async def verify(options: Namespace) -> int:
    """Check the journals of a database or of an export, and compare them with a seal if one is given."""
    if (options.seal is None) != (options.key is None):
        options.misused("--seal and --key go together")
    heads = _heads(options)
    if options.file is None:
        code = await compared(options.url, heads)
    else:
        code = _check(Path(options.file), heads)
    if options.seal is not None and code == 0:
        put(f"They go on from the seal of {when(options.sealed_at)} (UTC).")
    return code


def _check(path: Path, heads: Heads) -> int:
    with path.open("rb") as file:
        found = check_export(file, heads)
    for sentence in found.problems:
        put(sentence)
    return concluded(found.runs - len(found.problems), len(found.problems), found.others)


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
    damaged: list[str] = []
    with writing(options.out) as file:
        async with open_store(options.url, create=False) as store:
            async for line in exported(store, damaged):
                if file is not None:
                    file.write(line.decode())
                else:
                    sys.stdout.buffer.write(line)
    sys.stdout.flush()
    for sentence in damaged:
        say(f"assent: left out: {sentence}")
    return 1 if damaged else 0


async def seal(options: Namespace) -> int:
    """Sign the heads of all runs, and write the seal to a file or to stdout."""
    from ..inbox.audit import read_key, sealed  # imports cryptography

    key = read_key(Path(options.key))
    async with open_store(options.url, create=False) as store:
        made = await sealed(store, key)
    with writing(options.out) as file:
        (file or sys.stdout).write(encode(made).decode() + "\n")
    for sentence in made.damaged:
        say(f"assent: not sealed: {sentence}")
    return 1 if made.damaged else 0


async def key(options: Namespace) -> int:
    """Make a key pair for seals."""
    from ..inbox.audit import make_key  # imports cryptography

    made = make_key(Path(options.file_name))
    put(f"key: {made}")
    say(f"{options.file_name} signs, and stays secret: keep it where the database's host cannot read it.")
    say(f"{options.file_name}.pub checks.")
    return 0
