"""The names of `agents.memory.session_settings`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core import allowed
from ...core.wording import described
from ...errors import UsageError
from ..absent import find_absent

__all__ = ["SessionSettings", "coerce_session_settings", "resolve_session_limit"]

LIMIT = allowed.whole_number(0).or_none


@dataclass
class SessionSettings:
    """Settings of a session."""

    limit: int | None = None
    """The number of the latest items that are loaded; None for all."""

    def __post_init__(self) -> None:
        """Refuse a limit that is no count."""
        allowed.check_option(type(self).__name__, "limit", self.limit, LIMIT, UsageError)

    def resolve(self, override: SessionSettings | dict[str, Any] | None) -> SessionSettings:
        """Return these settings with those of `override` that are not None."""
        if override is None:
            return self
        given = coerce_session_settings(override).to_dict()
        return dataclasses.replace(self, **{name: value for name, value in given.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dict."""
        return dataclasses.asdict(self)


def coerce_session_settings(value: SessionSettings | dict[str, Any]) -> SessionSettings:
    """Return settings that may be given as a dict."""
    given: Any = value
    if isinstance(given, SessionSettings):
        return given
    if not isinstance(given, dict) or not given.keys() <= {"limit"}:
        raise UsageError(
            f"Session settings are SessionSettings(limit=...) or {{'limit': ...}}, got {described(given)}."
        )
    return SessionSettings(**given)


def resolve_session_limit(explicit_limit: int | None, settings: SessionSettings | dict[str, Any] | None) -> int | None:
    """Return the limit that is given, or else that of the settings."""
    if explicit_limit is not None or settings is None:
        return explicit_limit
    return coerce_session_settings(settings).limit


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
