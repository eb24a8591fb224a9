"""The part of a hook that differs from agent to agent: how events are read, answers written and settings kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from ...errors import UsageError

Scope = Literal["local", "project", "user"]
EventId = Annotated[str, Meta(min_length=1)]
"""A session's id, or a call's: calls without one could not be told apart."""


class ProposedCall(Struct, frozen=True, kw_only=True):
    """A call that the agent is about to make."""

    tool: str
    arguments: dict[str, Any]
    session: str
    call: str
    """The agent's id of the call."""
    cwd: str
    says: str | None = None
    """The agent's own words about the call."""
    server: str | None = None
    """The MCP server that the tool is of."""


class EndedCall(Struct, frozen=True, kw_only=True):
    """A call that the agent has made, or has not made after all."""

    tool: str
    session: str
    call: str
    arguments: dict[str, Any] | None = None
    """The arguments with which it ran; None if the agent does not say."""
    output: Any = None
    error: str | None = None


class HookReply(Struct, frozen=True):
    """The answer of a hook process: what it writes, and how it exits."""

    out: bytes = b""
    words: str = ""
    """The text for stderr."""
    code: int = 0


class HookDialect(ABC):
    """One agent's events, answers and settings."""

    agent: ClassVar[str]
    """The agent's name on the command line."""
    title: ClassVar[str]
    source: ClassVar[str]
    """The source of the agent's calls, unless the user names another."""
    can_ask: ClassVar[bool] = False
    """True if the agent has an answer with which it asks its own user, and does ask then."""
    shell: ClassVar[str] = "Bash"
    """The name of the tool that runs command lines."""
    paths: ClassVar[Mapping[str, str]] = {}
    """The argument with a path, by tool. Such a path is resolved before it is judged."""
    searches: ClassVar[frozenset[str]] = frozenset()
    """The tools that search the working directory if they are given no path."""
    readers: ClassVar[frozenset[str]] = frozenset()
    """The tools whose output is the content of files. Of it only the size is kept."""
    any_folder: ClassVar[bool] = False
    """True if each command line may run in a folder of its own, which rules do not see."""
    nested: ClassVar[bool] = True
    """True if the settings have groups of hooks, each with a matcher."""
    scopes: ClassVar[Mapping[Scope, str]]
    """The files of settings, below the project or the home folder; the first scope is the default."""
    off_switch: ClassVar[str | None] = None
    """The setting that turns all hooks off, if the agent has one."""
    notes: ClassVar[tuple[str, ...]] = ()
    """The sentences that a user of this agent must know."""

    @abstractmethod
    def read(self, event: dict[str, Any]) -> ProposedCall | EndedCall:
        """Return what an event tells; raise `UsageError` or `msgspec.ValidationError` if it is none of ours."""

    @abstractmethod
    def allow(self, changed: dict[str, Any] | None, note: str | None = None) -> HookReply:
        """Return the answer that lets a call pass, with these arguments if they are not the agent's own.

        `note` is for the model, of an agent that has a place for it.
        """

    @abstractmethod
    def deny(self, words: str) -> HookReply:
        """Return the answer that refuses a call, with the words for the agent."""

    def ask(self, words: str) -> HookReply:
        """Return the answer with which the agent asks its own user; by default it refuses, as most agents go on."""
        return self.deny(words)

    def fail(self, words: str) -> HookReply:
        """Return the answer to what was not expected: it refuses, whatever the event was."""
        return HookReply(words=words, code=2)

    @abstractmethod
    def entries(self, command: str, timeout: int) -> dict[str, dict[str, Any]]:
        """Return the entry of the settings for each event. `timeout` is longer than the hook waits for a person."""


def json_reply(value: Any) -> HookReply:
    """Return an answer in JSON."""
    return HookReply(out=msgspec.json.encode(value))


def unknown_event(title: str, name: object) -> UsageError:
    """Return the error about an event that no hook of ours is installed for."""
    return UsageError(f"{name!r:.80} is no event of {title} that this hook answers; install it anew.")


def mcp_server(tool: str) -> str | None:
    """Return the server in the name of an MCP tool, such as `mcp__github__create_issue`."""
    parts = tool.split("__")
    return parts[1] if len(parts) > 2 and parts[0] == "mcp" and parts[1] else None


def agents_words(arguments: Mapping[str, Any]) -> str | None:
    """Return the agent's description of a call, which some tools have among their arguments."""
    said = arguments.get("description")
    return said if type(said) is str and said.strip() else None
