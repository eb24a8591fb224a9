"""The names of `agents.extensions.memory.encrypt_session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from ....sessions import encrypted
from ....sessions.session import Session as OwnSession
from ...absent import find_absent
from ...memory.session import Session, SessionABC

if TYPE_CHECKING:
    from ...items import TResponseInputItem
    from ...memory.session_settings import SessionSettings

__all__ = ["EncryptedEnvelope", "EncryptedSession"]


class EncryptedEnvelope(TypedDict):
    """An encrypted item, as the session inside keeps it."""

    __enc__: Literal[1]
    v: int
    kid: str
    payload: str


class EncryptedSession(encrypted.EncryptedSession, SessionABC):
    """A conversation that another session keeps, encrypted. Items older than `ttl` seconds are not returned any more.

    An item that the key does not fit is an error here, and not left out.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: Session | OwnSession,
        encryption_key: str,
        ttl: int = 600,
        max_scan_items: int | None = None,
    ) -> None:
        super().__init__(session_id, underlying_session, encryption_key, ttl, max_scan_items)  # type: ignore[arg-type]

    if TYPE_CHECKING:
        session_settings: SessionSettings | None

        async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]: ...  # type: ignore[override]
        async def add_items(self, items: list[TResponseInputItem]) -> None: ...  # type: ignore[override]
        async def pop_item(self) -> TResponseInputItem | None: ...  # type: ignore[override]


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
