"""Rules for shell commands: the ones that need no approval are named, and all others are asked about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..core.digest import digest
from ..core.wording import described
from ..errors import InvalidDefinition, UnclearCommand
from .shell import ShellActionRequest
from .shell_command import SimpleCommand, bash_grammar, check_name

Pattern = tuple[str, ...]
UNQUOTED = re.compile(r"[\w@%+=:,./^*-]+")


class CommandRule:
    """A rule of `ShellTool` that lets only named commands pass. `allow_commands` makes one."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self.patterns = patterns
        self.version = digest({"allow": [list(pattern) for pattern in patterns]})[:16]
        self.__qualname__ = "allow_commands"

    def __call__(self, ctx: Any, action: ShellActionRequest, call_id: str) -> bool:
        """Return True if a person must approve the commands."""
        try:
            commands = action.parsed()
        except UnclearCommand:
            return True
        moves = any(command.name == "cd" for command in commands)
        return not commands or not all(self._passes(command, moves) for command in commands)

    def _passes(self, command: SimpleCommand, moves: bool) -> bool:
        if command.assignments or not all(redirect.harmless for redirect in command.redirects):
            return False
        if not command.argv:
            return bool(command.redirects)  # of a group, whose commands are judged by themselves
        if moves and "/" in command.name and not command.name.startswith("/"):
            return False  # another file than before the `cd`
        return any(_matches(pattern, command.argv) for pattern in self.patterns)


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


def _pattern(given: Any) -> Pattern:
    """Return the words of a pattern, or raise `InvalidDefinition`."""
    if isinstance(given, str):
        words = given.split()
        if not all(UNQUOTED.fullmatch(word) for word in words):
            raise InvalidDefinition(
                f"allow_commands: {given!r} has quotes or other characters of the shell; give a list of its words."
            )
    elif isinstance(given, Sequence) and all(type(word) is str for word in given):
        words = list(given)
    else:
        raise InvalidDefinition(f"allow_commands: a pattern must be text or a list of words, got {described(given)}.")
    if not words:
        raise InvalidDefinition("allow_commands: a pattern names a command, and this one is empty.")
    try:
        check_name(words[0])
    except UnclearCommand as error:
        raise InvalidDefinition(f"allow_commands: {given!r} always needs approval: {error}") from None
    return tuple(words)


def _matches(pattern: Pattern, argv: tuple[str | None, ...]) -> bool:
    fixed = pattern
    if len(pattern) > 1 and pattern[-1] == "*":
        fixed, argv = pattern[:-1], argv[: len(pattern) - 1]
    return len(fixed) == len(argv) and all(map(_same, fixed, argv))


def _same(pattern: str, word: str | None) -> bool:
    """Return True if a word of a command is the pattern's."""
    if word is None or (pattern.startswith("*") and word.startswith("-")):
        return False
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), word, re.DOTALL) is not None
