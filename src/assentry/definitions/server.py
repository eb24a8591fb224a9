"""Servers that give an agent tools: their tools as they were last listed, which the server may change at any time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any


class ToolServer(ABC):
    """A server whose tools an agent may call. The runtime lists them before each model call."""

    name: str
    """The server's name, part of the fingerprint of each of its tools."""
    tools: tuple[Any, ...] = ()
    """The tools, each a `Tool`, as they were last listed. The tuple is another one only if the list has changed."""
    words_failures: bool = False
    """True if the server says itself how the failures of its tools are worded."""
    listed: bool = False
    """True once the tools were listed."""

    @abstractmethod
    async def refresh(self, *, fresh: bool = False) -> None:
        """List the tools, and give them to `adopt`. A cache may be used unless `fresh`."""

    @abstractmethod
    def kept_open(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that keeps the server open during a drive.

        It connects the server if nobody has, and closes what it has opened.
        """

    def adopt(self, tools: Sequence[Any]) -> None:
        """Replace the list of tools. A tool whose definition is the same stays the same object."""
        known = {tool.name: tool for tool in self.tools}
        kept = tuple(
            old if (old := known.get(tool.name)) is not None and old.fingerprint == tool.fingerprint else tool
            for tool in tools
        )
        if not self.listed or len(kept) != len(self.tools) or any(map(lambda a, b: a is not b, kept, self.tools)):
            self.tools = kept
        self.listed = True
