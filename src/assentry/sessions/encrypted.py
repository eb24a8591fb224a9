"""A session that encrypts what another session keeps. Needs `pip install ".[encrypt]"`.

Key derivation and envelopes are those of the OpenAI Agents SDK's session of the same name, so that each reads what the
other has written.
"""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

from ..core import allowed
from ..core.transcript import Item
from ..core.wording import described, install_hint
from ..errors import SessionFailed, UsageError
from .session import SAME, Session, SessionAround, compacts, get_all, replace_latest_of
from .stored import LIMIT, SESSION_ID, texts_of

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

PURPOSE = b"agents.session-store.hkdf.v1"
KEY_ID = "hkdf-v1"
TTL = allowed.seconds().or_none
KEY = allowed.Values("text that is not empty", lambda value: isinstance(value, str) and value).secret
COUNT = allowed.COUNT.or_none


class EncryptedSession(SessionAround):
    """A conversation that another session keeps, encrypted with a key of yours. Needs `pip install ".[encrypt]"`.

    Each item is encrypted by itself, with a key that is derived from `encryption_key` and `session_id`: a Fernet key
    (`Fernet.generate_key().decode()`), or other text that cannot be guessed. Items older than `ttl` seconds are not
    returned any more; without a `ttl` they stay. An item of another key or another session is `SessionFailed`, and
    stays where it is. Items that are not encrypted are left out. `max_scan_items` limits how many items one call reads.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        encryption_key: str,
        ttl: float | None = None,
        max_scan_items: int | None = None,
    ) -> None:
        whose = type(self).__name__
        allowed.check_option(whose, "session_id", session_id, SESSION_ID, UsageError)
        allowed.check_option(whose, "encryption_key", encryption_key, KEY, UsageError)
        allowed.check_option(whose, "ttl", ttl, TTL, UsageError)
        allowed.check_option(whose, "max_scan_items", max_scan_items, COUNT, UsageError)
        if not isinstance(underlying_session, Session):
            raise UsageError(f"{whose}: underlying_session must be a session, got {described(underlying_session)}.")
        if compacts(underlying_session):
            raise UsageError(
                f"{whose}: a session that compacts its history cannot read what is encrypted. Put it outside: "
                "OpenAIResponsesCompactionSession(session_id, EncryptedSession(...))."
            )
        self.session_id = session_id
        self.underlying_session = underlying_session
        self.ttl = ttl
        self.max_scan_items = max_scan_items
        self.cipher = _cipher(encryption_key, session_id)

    def __getattr__(self, name: str) -> Any:
        """Return what only the session inside has, such as `close`."""
        if name.startswith("_") or name in ("underlying_session", "open"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.underlying_session, name)

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items that can be read, oldest first; all of them without a limit."""
        limit = getattr(self.session_settings, "limit", None) if limit is None else limit
        allowed.check_option(type(self).__name__, "limit", limit, LIMIT, UsageError)
        if limit is None:
            stored = await get_all(self.underlying_session)
            self._check_scanned(len(stored))
            return [item for _, item in self._readable(stored)]
        window, scanned = limit, 0
        while window:
            stored = await self.underlying_session.get_items(window)
            scanned += len(stored)
            self._check_scanned(scanned)
            found = [item for _, item in self._readable(stored)]
            if len(found) >= limit or len(stored) < window:
                return found[-limit:]
            window *= 2  # some of them have expired
        return []

    async def add_items(self, items: list[Item]) -> None:
        """Append all of the items in their order, encrypted, or none."""
        before = SAME.set(self._is_same)
        try:
            await super().add_items(self._encrypted(items))
        finally:
            SAME.reset(before)

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none. Expired items on the way are removed."""
        while True:
            for newest in await self.underlying_session.get_items(1):
                self._check_readable(newest)
            item = await self.underlying_session.pop_item()
            if item is None:
                return None
            try:  # others may have written one of another key meanwhile
                self._check_readable(item)
            except SessionFailed:
                await self.underlying_session.add_items([item])
                raise
            found = self._decrypted(item)
            if found is not None:
                return found

    def _check_readable(self, item: Item) -> None:
        """Raise `SessionFailed` if an item is not encrypted, or not with this key."""
        if not _is_envelope(item):
            raise SessionFailed(
                f"The newest item of session {self.session_id!r} is not encrypted, so it was not removed. Remove it by "
                "the session inside."
            )
        self._decrypted(item)

    async def clear_session(self) -> None:
        """Remove all items of the session inside, whoever encrypted them."""
        await self.underlying_session.clear_session()

    async def replace_latest(self, old: list[Item], new: list[Item]) -> bool:
        """Replace the latest items with others, if they are `old` and nothing came after them; return True if so."""
        stored = await get_all(self.underlying_session)
        found = self._readable(stored)
        latest = found[len(found) - len(old) :] if 0 < len(old) <= len(found) else []
        if [item for _, item in latest] != old:
            return False
        first = latest[0][0] if latest else 0
        return await replace_latest_of(self.underlying_session, stored[first:], self._encrypted(new))

    def _readable(self, stored: list[Item]) -> list[tuple[int, Item]]:
        """Return the items that have not expired, with their positions."""
        found = [(at, self._decrypted(item)) for at, item in enumerate(stored) if _is_envelope(item)]
        return [(at, item) for at, item in found if item is not None]

    def _encrypted(self, items: list[Item]) -> list[Item]:
        tokens = [self.cipher.encrypt(text.encode()).decode() for text in texts_of(items)]
        return [{"__enc__": 1, "v": 1, "kid": KEY_ID, "payload": token} for token in tokens]

    def _decrypted(self, envelope: Item) -> Item | None:
        """Return the item; None if it has expired. Raises `SessionFailed` if it cannot be decrypted."""
        found = self._content(envelope)
        if found is not None:
            old = self.ttl is not None and self.cipher.extract_timestamp(envelope["payload"]) + self.ttl < time.time()
            return None if old else found
        raise SessionFailed(
            f"Session {self.session_id!r} has an item that its encryption_key does not fit: it was encrypted with "
            "another key, or for another session_id, or is damaged. Nothing was changed. Give the key that it was "
            "written with, or clear the session."
        )

    def _content(self, envelope: Item) -> Item | None:
        """Return the item, however old; None if it cannot be decrypted."""
        from cryptography.fernet import InvalidToken

        try:
            found = json.loads(self.cipher.decrypt(envelope["payload"]))
        except (InvalidToken, TypeError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def _is_same(self, stored: str, new: str) -> bool:
        """Return True if two envelopes, as JSON, have the same item in them."""
        return stored == new or self._content(json.loads(stored)) == self._content(json.loads(new))

    def _check_scanned(self, count: int) -> None:
        if self.max_scan_items is not None and count > self.max_scan_items:
            raise SessionFailed(
                f"Session {self.session_id!r} has more to read than max_scan_items={self.max_scan_items}. Raise it, or "
                "remove old items by the session inside."
            )


def _is_envelope(item: Any) -> bool:
    return isinstance(item, dict) and item.get("__enc__") == 1 and {"payload", "kid", "v"} <= item.keys()


def _cipher(encryption_key: str, session_id: str) -> Fernet:
    """Return the cipher of one session."""
    try:
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise UsageError(
            f"EncryptedSession needs cryptography, which is not installed ({error}): {install_hint('encrypt')}"
        ) from error
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=session_id.encode(), info=PURPOSE)
    return Fernet(base64.urlsafe_b64encode(derived.derive(_key_bytes(encryption_key))))


def _key_bytes(text: str) -> bytes:
    """Return the 32 bytes of a Fernet key, or other text as it is."""
    try:
        key = base64.urlsafe_b64decode(text)
    except ValueError:
        return text.encode()
    return key if len(key) == 32 else text.encode()
