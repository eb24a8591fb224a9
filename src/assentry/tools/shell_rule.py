"""Rules for shell commands: the ones that need no approval are named, and all others are asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..commands.command_pattern import CommandPattern, allows_commands, read_command_pattern
from ..commands.shell_command import bash_grammar
from ..core.digest import digest
from ..errors import InvalidDefinition, UnclearCommand
from .shell import ShellActionRequest


class CommandRule:
    """A rule of `ShellTool` that lets only named commands pass. `allow_commands` makes one."""

    def __init__(self, patterns: tuple[CommandPattern, ...]) -> None:
        self.patterns = patterns
        self.version = digest({"allow": [list(pattern) for pattern in patterns]})[:16]
        self.__qualname__ = "allow_commands"

    def __call__(self, ctx: Any, action: ShellActionRequest, call_id: str) -> bool:
        """Return True if a person must approve the commands."""
        try:
            return not allows_commands(self.patterns, action.parsed())
        except UnclearCommand:
            return True


def allow_commands(*patterns: str | Sequence[str]) -> CommandRule:
    """Return a rule for `ShellTool(needs_approval=...)` that lets these commands pass, and asks about all others.

    A pattern is the words of a command, as text (`"git log *"`) or as a sequence (`["git", "commit", "-m", "*"]`).
    Words are compared with the command's arguments, not with its text:

    - A `*` in a word stands for any characters. A word that begins with `*` matches no option.
    - A `*` as the last word stands for any further words, options too, or none. Use it only if no option of that
      command writes a file or runs a program.

    Every command of a line must pass. Also asked about are assignments, redirections to or from files, and everything
    that `parse_command` finds unclear. Needs `pip install ".[shell]"`.
    """
    if not patterns:
        raise InvalidDefinition("allow_commands needs at least one pattern, such as 'git status'.")
    bash_grammar()  # a missing library is noticed here, not at the first call
    return CommandRule(tuple(_pattern(each) for each in patterns))


def _pattern(given: str | Sequence[str]) -> CommandPattern:
    """Return the words of a pattern, or raise `InvalidDefinition`, which names the function that it was given to."""
    try:
        return read_command_pattern(given)
    except InvalidDefinition as error:
        raise InvalidDefinition(f"allow_commands: {error}") from None
