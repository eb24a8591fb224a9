"""Hooks in an agent's settings file: ours are put in and taken out, and everything else stays as it is.

A file that cannot be read as what it should be is refused and not touched. A change is written beside the file and
takes its place at once.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from ...core.digest import BadJSON, check_keys
from ...errors import UsageError
from .dialect import HookDialect

OURS = re.compile(r"\bassentry\b.*\shook run (\w+)(\s|$)")
"""The command of a hook of ours, in whatever way it is started."""


def read_settings(path: Path) -> str | None:
    """Return the text of a settings file; None if there is none. Raise `UsageError` if it cannot be read."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read, and was not changed: {error}.") from None


def with_hooks(text: str | None, dialect: HookDialect, entries: dict[str, dict[str, Any]], path: Path) -> str:
    """Return the text of a settings file with our hooks, in place of those of an earlier installation."""
    settings = _parsed(text, dialect, path)
    hooks = _without_ours(settings, dialect)
    if not dialect.nested:
        settings.setdefault("version", 1)
    for event, entry in entries.items():
        hooks.setdefault(event, []).append(entry)
    settings["hooks"] = hooks
    return _text(settings, text)


def without_hooks(text: str, dialect: HookDialect, path: Path) -> str:
    """Return the text of a settings file without our hooks."""
    settings = _parsed(text, dialect, path)
    before = json.dumps(settings)
    hooks = _without_ours(settings, dialect)
    if hooks:
        settings["hooks"] = hooks
    else:
        settings.pop("hooks", None)
    return text if json.dumps(settings) == before else _text(settings, text)


def installed_events(text: str | None, dialect: HookDialect, path: Path) -> list[str]:
    """Return the events for which a hook of ours is in a settings file."""
    hooks = _parsed(text, dialect, path).get("hooks", {})
    return [event for event, groups in hooks.items() if any(_has_ours(group, dialect) for group in groups)]


def turns_hooks_off(text: str | None, dialect: HookDialect, path: Path) -> bool:
    """Return True if a settings file says that no hook is to run."""
    return dialect.off_switch is not None and bool(_parsed(text, dialect, path).get(dialect.off_switch))


def write_settings(path: Path, before: str | None, after: str) -> None:
    """Put a new text in the place of a settings file, unless somebody else has changed it since it was read."""
    real = Path(os.path.realpath(path))  # a link to a file that is kept elsewhere stays one
    real.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(after.encode())
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, real.stat().st_mode & 0o777 if real.exists() else 0o600)
        if read_settings(real) != before:
            raise UsageError(f"{path} was changed by somebody else at the same time; nothing was written. Try again.")
        os.replace(name, real)
    except BaseException:
        os.unlink(name)
        raise


def _parsed(text: str | None, dialect: HookDialect, path: Path) -> dict[str, Any]:
    """Return the settings, after a look at the parts that are changed here."""
    if text is None or not text.strip():
        return {}
    try:
        check_keys(text)
        settings = json.loads(text)
    except (BadJSON, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON, and was not changed: {error}.") from None
    hooks = settings.get("hooks", {}) if type(settings) is dict else None
    groups = (
        [each for value in hooks.values() for each in (value if type(value) is list else [None])]
        if (type(hooks) is dict)
        else [None]
    )
    if not all(_is_group(each, dialect) for each in groups):
        raise UsageError(f"{path} has hooks in a form that is not {dialect.title}'s, and was not changed.")
    return settings if type(settings) is dict else {}


def _is_group(group: Any, dialect: HookDialect) -> bool:
    if type(group) is not dict:
        return False
    hooks = group.get("hooks", []) if dialect.nested else [group]
    return type(hooks) is list and all(type(hook) is dict for hook in hooks)


def _has_ours(group: dict[str, Any], dialect: HookDialect) -> bool:
    return any(_is_ours(hook, dialect) for hook in (group.get("hooks", []) if dialect.nested else [group]))


def _is_ours(hook: dict[str, Any], dialect: HookDialect) -> bool:
    command = hook.get("command")
    found = OURS.search(command) if type(command) is str else None
    return found is not None and found[1] == dialect.agent


def _without_ours(settings: dict[str, Any], dialect: HookDialect) -> dict[str, Any]:
    """Return the hooks of others, by event. A group or an event that had ours alone is gone."""
    kept: dict[str, Any] = {}
    for event, groups in settings.get("hooks", {}).items():
        left = []
        for group in groups:
            if not _has_ours(group, dialect):
                left.append(group)
            elif dialect.nested and (others := [hook for hook in group["hooks"] if not _is_ours(hook, dialect)]):
                left.append({**group, "hooks": others})
        if left or not groups:
            kept[event] = left
    return kept


def _text(settings: dict[str, Any], before: str | None) -> str:
    """Return settings as text, indented as they were."""
    found = re.search(r"^([ \t]+)\S", before or "", re.MULTILINE)
    made = json.dumps(settings, indent=found[1] if found else 2, ensure_ascii=False)
    return made if before is not None and before.strip() and not before.endswith("\n") else f"{made}\n"
