"""Patterns of shell commands that may run, compared with the words of a command and not with its text."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

from ..core.wording import described
from ..errors import InvalidDefinition, UnclearCommand
from .shell_command import SimpleCommand, bash_grammar, check_name, parse_command

CommandPattern = tuple[str, ...]
"""The words of a command; `*` stands for any characters, and as the last word for any further words."""
UNQUOTED = re.compile(r"[\w@%+=:,./^*-]+")


@functools.lru_cache(maxsize=1000)
def read_command_patterns(given: tuple[str | tuple[str, ...], ...]) -> tuple[CommandPattern, ...]:
    """Return the words of each pattern; raise `InvalidDefinition` for one that can let nothing pass.

    Raises `UsageError` if the library that reads command lines is not installed, so that this is noticed early.
    """
    bash_grammar()
    return tuple(read_command_pattern(each) for each in given)


def read_command_pattern(given: Any) -> CommandPattern:
    """Return the words of a pattern, or raise `InvalidDefinition`."""
    if isinstance(given, str):
        words = given.split()
        if not all(UNQUOTED.fullmatch(word) for word in words):
            raise InvalidDefinition(f"{given!r} has quotes or other characters of the shell; give a list of its words.")
    elif isinstance(given, Sequence) and all(type(word) is str for word in given):
        words = list(given)
    else:
        raise InvalidDefinition(f"a pattern must be text or a list of words, got {described(given)}.")
    if not words:
        raise InvalidDefinition("a pattern names a command, and this one is empty.")
    try:
        check_name(words[0])
    except UnclearCommand as error:
        raise InvalidDefinition(f"{given!r} always needs approval: {error}") from None
    return tuple(words)


def allows_line(patterns: Sequence[CommandPattern], line: str) -> bool:
    """Return True if every command that a line may run fits a pattern; a line that is unclear may run others."""
    try:
        return allows_commands(patterns, parse_command(line))
    except UnclearCommand:
        return False


def allows_commands(patterns: Sequence[CommandPattern], commands: Sequence[SimpleCommand]) -> bool:
    """Return True if each of these commands fits a pattern, and there is one."""
    moves = any(command.name == "cd" for command in commands)
    return bool(commands) and all(_passes(patterns, command, moves) for command in commands)


def _passes(patterns: Iterable[CommandPattern], command: SimpleCommand, moves: bool) -> bool:
    if command.assignments or not all(redirect.harmless for redirect in command.redirects):
        return False
    if not command.argv:
        return bool(command.redirects)  # of a group, whose commands are judged by themselves
    if moves and "/" in command.name and not command.name.startswith("/"):
        return False  # another file than before the `cd`
    return any(_matches(pattern, command.argv) for pattern in patterns)


def _matches(pattern: CommandPattern, argv: tuple[str | None, ...]) -> bool:
    fixed = pattern
    if len(pattern) > 1 and pattern[-1] == "*":
        fixed, argv = pattern[:-1], argv[: len(pattern) - 1]
    return len(fixed) == len(argv) and all(map(_same, fixed, argv))


def _same(pattern: str, word: str | None) -> bool:
    """Return True if a word of a command is the pattern's."""
    if word is None or (pattern.startswith("*") and word.startswith("-")):
        return False
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), word, re.DOTALL) is not None
