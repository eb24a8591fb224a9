"""The prefix under which a proxy serves the inbox, whether the proxy takes it off the path or leaves it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import UsageError


class Prefixed:
    """An application under a prefix, such as `/approvals`."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its whole path: the prefix, and what follows it."""
        if scope["type"] in ("http", "websocket"):
            path = scope["path"]
            inner = path.removeprefix(self._prefix) if f"{path}/".startswith(f"{self._prefix}/") else path
            scope = {**scope, "root_path": self._prefix, "path": self._prefix + (inner or "/")}
        await self._app(scope, receive, send)


def under_prefix(app: Any, prefix: str) -> ASGIApp:
    """Return the inbox under a prefix; raise `UsageError` if the prefix could not be told from a path of the inbox."""
    if not prefix:
        return app  # type: ignore[no-any-return]
    first = prefix.split("/")[1]
    if first in {path.split("/")[1] for path in _paths(app)}:
        raise UsageError(f"The inbox has pages under /{first} itself; serve it under another prefix than {prefix}.")
    return Prefixed(app, prefix)


def _paths(router: Any) -> Iterator[str]:
    """Yield the paths of all routes, those of included routers too."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        yield from _paths(inner) if inner is not None else [route.path]
