"""Seals: the signed heads of all runs, to be kept elsewhere. A database that was rewritten since does not fit its seal.

Whoever can write the database can recompute every hash in it, and cannot sign with a key that is not there.
"""

from __future__ import annotations

import base64
import os
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.digest import canonical
from ..core.wording import install_hint
from ..errors import BadSignature, UnreadableState, UsageError
from ..store.audit import SavedHead, heads_of
from ..store.store import Store

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
        load_pem_public_key,
    )
except ImportError as error:
    raise UsageError(f"Seals need more ({error}): {install_hint('inbox')}") from None


class Seal(Struct, kw_only=True, forbid_unknown_fields=True):
    """The heads of all runs at a time, signed with an Ed25519 key."""

    type: Literal["assentry.seal"] = "assentry.seal"
    version: Literal[1] = 1
    at: int
    """The time on the store's clock, in milliseconds since 1970."""
    heads: list[SavedHead]
    damaged: list[str] = []
    """A sentence for each run that is not sealed because it was damaged already."""
    key: str
    """The id of the key."""
    signature: str = ""

    def signed(self) -> bytes:
        """Return the bytes that are signed: canonical JSON of all but the signature."""
        whole = msgspec.to_builtins(self)
        return canonical({name: value for name, value in whole.items() if name != "signature"})


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a key: the beginning of its hash."""
    return sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def make_key(path: Path) -> str:
    """Make a key pair, in `path` and `path.pub`, and return its id. No file is replaced."""
    key, public = Ed25519PrivateKey.generate(), Path(f"{path}.pub")
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if public.exists():
        raise UsageError(f"There is a file {public} already.")
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"There is a file {path} already.") from None
    with os.fdopen(file, "wb") as opened:
        opened.write(private)
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return key_id(key.public_key())


def read_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key; raise `UsageError` if the file has none."""
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path} is not a private key for seals; `assentry audit key` makes one.")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key, or that of a private key; raise `UsageError` if the file has none."""
    given = path.read_bytes()
    if b"PRIVATE KEY" in given:
        return read_key(path).public_key()
    try:
        key = load_pem_public_key(given)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{path} is not a public key for seals; `assentry audit key` makes one, with the name .pub.")
    return key


async def seal_runs(store: Store, key: Ed25519PrivateKey) -> Seal:
    """Return the seal of all runs. Damaged runs are not sealed, and named."""
    await store.open()
    at = int(store.clock() * 1000)
    heads, damaged = await heads_of(store)
    seal = Seal(at=at, heads=heads, damaged=damaged, key=key_id(key.public_key()))
    return replace(seal, signature=base64.b64encode(key.sign(seal.signed())).decode())


def read_seal(text: bytes, key: Ed25519PublicKey) -> Seal:
    """Read a seal; raise `BadSignature` if this key has not signed it as it is."""
    try:
        seal = msgspec.json.decode(text, type=Seal)
        signature = base64.b64decode(seal.signature, validate=True)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UnreadableState(f"This is not a seal, or it is damaged: {error}.") from None
    if seal.key != key_id(key):
        raise BadSignature(f"The seal was signed with key {seal.key}, and this is key {key_id(key)}.")
    try:
        key.verify(signature, seal.signed())
    except InvalidSignature:
        raise BadSignature("The seal was changed after it was signed.") from None
    return seal
