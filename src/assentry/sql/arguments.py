"""Checks of the arguments that the stores and the sessions in SQLite files share."""

from __future__ import annotations

import os
from typing import Any

from ..core import allowed
from ..core.wording import described
from ..errors import UsageError


def check_path(given: Any, name: str) -> str:
    """Return the absolute path of a file, which a change of the working directory does not affect; or `:memory:`."""
    if not isinstance(given, str | os.PathLike) or not isinstance(path := os.fspath(given), str):
        raise UsageError(f"{name} is that of a file, got {described(given)}.")
    if not path or "\0" in path:
        raise UsageError(f"{name} is that of a file, got {path!r}.")
    if path == ":memory:":
        return path
    path = os.path.realpath(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory; give the path of a file.")
    if not os.path.isdir(os.path.dirname(path)):
        raise UsageError(f"There is no directory {os.path.dirname(path)}; make it first.")
    return path


BUSY_TIMEOUT = allowed.seconds(0, 2_000_000)
