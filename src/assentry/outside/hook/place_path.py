"""Paths of the agent's own tools, resolved before anybody judges them.

A rule compares paths as text, so `notes/../../etc` or a symbolic link would lead it astray. What is judged, shown and
approved is therefore the path where it leads, and the agent is given that path back. A link that is made between the
approval and the call is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...errors import InvalidArguments
from .dialect import HookDialect, ProposedCall


def resolve_paths(dialect: HookDialect, call: ProposedCall) -> dict[str, Any]:
    """Return the arguments of a call, with the path of a built-in tool as it is after all links and `..`."""
    name = dialect.paths.get(call.tool)
    if name is None:
        return call.arguments
    given = call.arguments.get(name)
    if given is None and call.tool in dialect.searches and call.cwd:
        return {**call.arguments, name: os.path.realpath(call.cwd)}
    if type(given) is not str or not given:
        return call.arguments
    return {**call.arguments, name: real_path(given, call.cwd)}


def real_path(path: str, cwd: str) -> str:
    """Return where a path leads; raise `InvalidArguments` if that cannot be said."""
    try:
        whole = os.path.join(cwd, os.path.expanduser(path))
        real = os.path.realpath(whole)
    except ValueError as error:
        raise InvalidArguments(f"{path!r:.200} is no path: {error}.") from None
    if not os.path.isabs(whole):
        raise InvalidArguments(f"{path!r:.200} is relative, and the agent does not say to which folder.")
    return real


def is_inside(path: str, folder: str) -> bool:
    """Return True if a resolved path is in a folder."""
    root = os.path.realpath(folder) if folder else ""
    return bool(root) and (path == root or path.startswith(root.rstrip(os.sep) + os.sep))


def argument_path(dialect: HookDialect, tool: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the path among the arguments of a built-in tool; None if there is none."""
    found = arguments.get(dialect.paths.get(tool, ""))
    return found if type(found) is str else None
