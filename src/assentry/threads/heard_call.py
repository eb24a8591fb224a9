"""Calls that somebody listens to: LangChain's callbacks in the config, or a stream of events."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..core.wording import described
from ..errors import UsageError
from ..runtime.driver import Driver
from .observer import CallObserver, Listener, Start


class HeardCall:
    """One call of an agent, of which a listener hears as the run that all others are part of."""

    def __init__(self, listener: Listener, root: Any) -> None:
        self.listener, self.root = listener, root

    def observe(self, driver: Driver) -> None:
        """Have the listener hear of what the driver does."""
        driver.scope.hooks.observer = CallObserver(driver.scope, self.listener, self.root)

    async def end(self, state: Any) -> None:
        """Tell the listener that the call has ended."""
        await self.listener.end(self.root, state)

    async def fail(self, error: BaseException) -> None:
        """Tell the listener that the call has failed."""
        await self.listener.fail(self.root, error)


async def listen_to_call(agent: str, input: Any, config: Any, listener: Listener | None = None) -> HeardCall | None:
    """Tell a listener, or the config's callbacks, that a call begins; None if nobody listens."""
    config = config if isinstance(config, Mapping) else {}
    if listener is None:
        if not has_callbacks(config):
            return None
        listener = _callback_listener(config, agent)
    options = config.get("configurable")
    thread = options.get("thread_id") if isinstance(options, Mapping) else None
    metadata = {"thread_id": thread} if thread is not None else {}
    root = await listener.start(Start("chain", config.get("run_name") or agent, input, metadata=metadata))
    return HeardCall(listener, root)


def has_callbacks(config: Mapping[str, Any]) -> bool:
    """Return True if a config has callbacks, or if the call is made inside a run of LangChain's that has."""
    if config.get("callbacks"):
        return True
    theirs: Any = sys.modules.get("langchain_core.runnables.config")
    return theirs is not None and bool((theirs.var_child_runnable_config.get() or {}).get("callbacks"))


def _callback_listener(config: Mapping[str, Any], agent: str) -> Listener:
    try:
        from .langchain.callback import CallbackListener
    except ImportError:
        raise UsageError(
            "config: callbacks are LangChain's handlers, and langchain-core is not installed: pip install "
            f"'assentry[langchain]'; got {described(config.get('callbacks'))}."
        ) from None
    return CallbackListener(config, agent)
