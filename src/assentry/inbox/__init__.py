"""The inbox: where people decide. An HTTP API and web pages over a store, without any agent code."""

from __future__ import annotations

from collections.abc import Collection
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..core.wording import install_hint
from ..errors import UsageError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..store.store import Store

__all__ = ["app"]


def app(
    store: Store,
    auth: Any = None,
    *,
    title: str = "Assentry",
    agents: Collection[str] | None = None,
    base_url: str | None = None,
    undo: float = 5.0,
    rules: str | PathLike[str] | None = None,
) -> FastAPI:
    """Return the inbox of a store, to be served or mounted: `main.mount("/assentry", assentry.inbox.app(store))`.

    Args:
        store: The store with the questions. It stays yours: the inbox does not close it.
        auth: An object whose method `identify(request)` returns an `Identity`, or None for nobody; it may be
            asynchronous. If omitted, the users and tokens of the store sign in.
        title: The name in the API's description.
        agents: The names of the agents whose runs may be started here; if omitted, all that workers have announced.
        base_url: The address at which people open the inbox, such as `https://inbox.example.com/approve`. Messages to
            webhooks link to it, and so do sign-in links; without it, messages have no links.
        undo: The seconds for which a page holds a decision back, so that it can be undone; 0 sends it at once.
        rules: A file of rules for the calls of programs outside; without it, a person is asked about each.
    """
    try:
        from .server import make_app
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("assentry"):
            raise
        raise UsageError(f"The inbox needs {error.name}: {install_hint('inbox')}.") from None
    return make_app(store, auth, title, agents, base_url, undo, rules)
