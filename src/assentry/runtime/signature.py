"""Signatures of saved runs: they prove that a holder of the secret wrote the run, and that it was not changed since."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from ..core import codec
from ..core.digest import BadJSON, canonical, check_keys
from ..core.wording import described
from ..errors import BadSignature, UsageError

SHORTEST = 16
"""The minimum length of a secret in bytes; a shorter one could be guessed."""


class SigningKey(Struct, frozen=True, repr_omit_defaults=True):
    """A secret for signing saved runs, and the id by which a signature names it."""

    id: str
    secret: bytes

    def __post_init__(self) -> None:
        if type(self.id) is not str or not self.id:
            raise UsageError("A signing key needs an id, as text.")
        if type(self.secret) is not bytes or len(self.secret) < SHORTEST:
            raise UsageError(f"The secret of signing key {self.id!r} must be at least {SHORTEST} random bytes.")

    def __repr__(self) -> str:
        return f"<SigningKey {self.id!r}>"


def sign(saved: codec.SavedRun, key: SigningKey) -> None:
    """Put the key's signature on a saved run."""
    if not isinstance(key, SigningKey):
        raise UsageError(f"A state is signed with a SigningKey, got a {type(key).__name__}.")
    saved.signature = None
    saved.signature = codec.SavedSignature(key.id, _code(codec.encode_run(saved), key))


def verify_signature(text: str | bytes, keys: Iterable[SigningKey]) -> None:
    """Raise `BadSignature` unless one of the keys has signed exactly this text."""
    known = {}
    for key in keys:
        if not isinstance(key, SigningKey):
            raise UsageError(f"`keys` are SigningKeys, got a {type(key).__name__}.")
        known[key.id] = key
    try:
        check_keys(text if isinstance(text, str) else text.decode())
    except BadJSON as error:
        raise BadSignature(f"This saved run is not what was signed: {error}.") from None
    except UnicodeDecodeError:
        pass  # raised below
    try:
        data = msgspec.json.decode(text)
        found = data.pop("signature")
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, AttributeError, TypeError, RecursionError):
        data, found = None, None
    if found is None:
        raise BadSignature("This saved run has no signature; it may have been stripped of it.")
    try:
        given = msgspec.convert(found, codec.SavedSignature)
    except msgspec.ValidationError as error:  # a field that no code covers could say anything
        raise BadSignature(f"The signature of this saved run is not one of Assentry's: {error}.") from None
    signer = known.get(given.key)
    if signer is None:
        raise BadSignature(
            f"This saved run was signed with the key {described(given.key)}, which is not among the keys given."
        )
    import hmac

    code = _code(msgspec.json.encode(data), signer)
    if not hmac.compare_digest(code.encode(), given.code.encode()):
        raise BadSignature(f"This saved run is not what was signed with the key {described(given.key)}.")


def _code(text: bytes, key: SigningKey) -> str:
    """Return the HMAC of the canonical JSON: a database may change the order of keys and the spacing."""
    import hmac  # imported at first use: it loads OpenSSL

    return hmac.new(key.secret, canonical(msgspec.json.decode(text)), "sha256").hexdigest()
