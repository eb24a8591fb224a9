"""The settings of live sessions in the SDK's form, as Assentry's own sessions take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from ...core import allowed
from ...errors import UsageError

VOICE = "ash"
"""The voice of a session that names none."""
SWITCHES = allowed.Options(tracing_disabled=allowed.BOOL, async_tool_calls=allowed.BOOL, assentry_events=allowed.BOOL)
"""The settings that only this form of sessions has."""


def split_config(config: Any) -> tuple[Any, dict[str, Any]]:
    """Return the settings that Assentry's own sessions have, and the switches among them; raise `UsageError`."""
    given: Any = plain_settings(config)
    switches: dict[str, Any] = {}
    if isinstance(given, Mapping):
        given = dict(given)
        switches = {name: given.pop(name) for name in SWITCHES.options if name in given}
    SWITCHES.check_items("RealtimeRunner: config", switches, UsageError)
    if switches.get("async_tool_calls") is False:
        raise UsageError("async_tool_calls must be True: a conversation goes on while tools run and people decide.")
    if switches.get("tracing_disabled") and isinstance(given.get("model_settings", {}), Mapping):
        given["model_settings"] = {**given.get("model_settings", {}), "tracing": None}
    return given, switches


def with_voice(model_config: Any, defaults: Mapping[str, Any]) -> Any:
    """Return the options of a connection with a voice, if neither they nor the runner's settings name one."""
    options: Any = plain_settings(model_config)
    settings = (options or {}).get("initial_model_settings") or {} if isinstance(options, Mapping | None) else None
    if not isinstance(settings, Mapping):
        return options  # which is refused
    both: dict[str, Any] = {**defaults, **settings}
    for name in ("tools", "handoffs"):
        if name in both:
            raise UsageError(f"{name} belong to the RealtimeAgent: RealtimeAgent({name}=[...]).")
    spoken = (both.get("audio") or {}).get("output") or {}
    named = "voice" in both or "voice" in spoken
    return {**(options or {}), "initial_model_settings": dict(settings) if named else {"voice": VOICE, **settings}}


def plain_settings(given: Any) -> Any:
    """Return settings with the client's objects as dicts."""
    if isinstance(given, BaseModel):
        return given.model_dump(exclude_unset=True)
    if isinstance(given, Mapping):
        return {name: plain_settings(value) for name, value in given.items()}
    return given
