"""Shell command lines, read so that rules can judge the commands in them.

tree-sitter's grammar for bash reads the text. That grammar is made for editors: it accepts more than bash does, and
reads some text differently. So every byte of the text must be accounted for here, by a small list of forms that bash
reads in one way only; see `shell_tokens`. Anything else raises `UnclearCommand`, and a rule that raises asks a person.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.wording import holds, install_hint
from ..errors import UnclearCommand, UsageError
from .shell_tokens import COPIES, Tokens

if TYPE_CHECKING:
    from tree_sitter import Language, Node


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LONGEST_LINE = 4_000
"""The most characters of a call's command lines that are read."""
DEEPEST_LINE = 40
"""The most levels of nested commands that are read."""

RESERVED = _names("! { } [[ ]] case coproc do done elif else esac fi for function if in select then time until while")
"""Words that are no commands where a command is expected."""
BUILTINS = _names(
    ". [ alias bg bind break builtin caller command compgen complete compopt continue declare dirs disown enable eval "
    "exec export fc fg getopts hash help history jobs let local logout mapfile popd pushd read readarray readonly "
    "return set shift shopt source suspend test times trap typeset ulimit umask unalias unset wait"
)
"""Builtins of bash that may run text, set variables, or change how later commands are read. They are unclear."""
RUNNERS = _names(
    "arch ash at bash batch busybox bwrap caffeinate cgexec chronic chroot chrt coproc crontab csh dash dbus-launch "
    "dbus-run-session doas dumb-init entr env expect fakeroot faketime firejail fish flock gdb gosu ionice ksh "
    "linux32 linux64 ltrace mksh newgrp nice nohup nsenter numactl parallel perf pkexec proot proxychains rbash "
    "rlwrap run-parts runuser screen script setarch setpriv setsid sg sh ssh start-stop-daemon stdbuf strace su "
    "su-exec sudo systemd-run taskset tcsh time timeout tini tmux torsocks toybox unbuffer unshare valgrind watch "
    "xargs xvfb-run yash zsh"
)
"""Programs that run the command in their arguments. They are unclear, since that command is not judged."""
FIND_ACTIONS = ("-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from")
"""The beginnings of the options with which `find` runs commands, or changes files."""

NAME = re.compile(r"[A-Za-z0-9_./+:-]+")
PLAIN = re.compile(r"(?:[A-Za-z0-9_@%+=:,./^-]|\\[ -~]|[*?\[\]~])+")
ESCAPED = re.compile(r"\\(.)")
RAW = re.compile(r"'[^'\0]*'")
QUOTED = re.compile(r'(?:[^"\\$`\0]|\\[ -~])*')
VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*$])|\$\{[A-Za-z_][A-Za-z0-9_]*\}")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
NOT_ASCII = re.compile(r"[^\x01-\x7f]")
DIGITS = re.compile(r"[0-9]{1,3}")

WRITES = frozenset({">", ">>", ">|", "&>", "&>>"})
NESTED = _names(
    "program list pipeline subshell compound_statement negated_command if_statement elif_clause else_clause "
    "while_statement do_group"
)
"""The nodes of the grammar that hold commands and tokens, and nothing else."""
SIMPLE = frozenset({"command", "redirected_statement", "variable_assignment", "variable_assignments"})


@dataclass(frozen=True)
class Redirect:
    """A redirection of a command, such as `2> errors.txt`."""

    operator: str
    target: str | None
    """The file or the descriptor; None if it is known only when the command runs."""
    descriptor: int | None = None

    @property
    def harmless(self) -> bool:
        """True if it touches no file: it joins two descriptors, or it is of /dev/null."""
        if self.operator in COPIES:
            return self.target is not None and self.target.isdigit()
        return self.target == "/dev/null" and (self.operator == "<" or self.operator in WRITES)


@dataclass(frozen=True)
class SimpleCommand:
    """One command of a command line, such as `git log -3` in `cd src && git log -3 | head`."""

    argv: tuple[str | None, ...] = ()
    """The words, with quotes removed. None stands for any number of words that are known only when the command runs.

    The name is always known. It is empty for assignments, or redirections of several commands, that stand alone.
    """
    assignments: tuple[str, ...] = ()
    """Assignments in front of the command, as they are written."""
    redirects: tuple[Redirect, ...] = ()

    @property
    def name(self) -> str:
        """The first word; empty if there is none."""
        return (self.argv[0] or "") if self.argv else ""


def parse_command(text: str) -> list[SimpleCommand]:
    """Return every command that a line may run, in the order of the text. Needs `pip install ".[shell]"`.

    Commands inside of pipelines, lists, groups, subshells, `if`, `while` and `$(...)` are part of it. Raise
    `UnclearCommand` if the line may run anything else: what cannot be read with certainty, commands whose name is known
    only when they run, functions, here-documents, and commands that run others, such as `eval`, `sudo` and `xargs`.
    """
    if type(text) is not str or not holds(text) or "\0" in text:
        raise UnclearCommand("A command line must be text without NUL that UTF-8 can hold.")
    check_length(len(text))
    if "<<" in text:  # not even in quotes: this is the part of the grammar that is least like bash
        raise UnclearCommand("The command line has a here-document, or looks as if it had one.")
    root = _parse_tree(text)
    if root.has_error:
        raise UnclearCommand("The command line is not one that bash can read for certain.")
    reader = _Reader(text)
    reader.block(root.children, 0, len(text), 0)
    return reader.found


def check_length(length: int) -> None:
    """Raise `UnclearCommand` if command lines are too long to be read while others wait."""
    if length > LONGEST_LINE:
        raise UnclearCommand(f"The command lines have {length} characters; at most {LONGEST_LINE} are read.")


def _parse_tree(text: str) -> Node:
    """Return the tree of a text, whose positions are those of characters.

    The grammar gets ASCII only: its scanner can crash on other characters. They are read here, and only in quotes.
    """
    from tree_sitter import Parser

    return Parser(bash_grammar()).parse(NOT_ASCII.sub("x", text).encode()).root_node


@functools.cache
def bash_grammar() -> Language:
    """Return the grammar; raise `UsageError` if it is not installed."""
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError as error:
        raise UsageError(
            f"Reading command lines needs tree-sitter, which is not installed ({error.name}): " + install_hint("shell")
        ) from None
    return tree_sitter.Language(tree_sitter_bash.language())


def check_name(name: str) -> None:
    """Raise `UnclearCommand` unless a command of this name runs one program, and nothing but that program."""
    if not NAME.fullmatch(name) or name.startswith(("-", "+")):
        raise UnclearCommand(f"{name!r} may not be the name of a command.")
    if name in RESERVED:
        raise UnclearCommand(f"{name!r} is a reserved word of the shell.")
    if name in BUILTINS:
        raise UnclearCommand(f"{name!r} is a builtin that may run text or change later commands.")
    if name.rsplit("/", 1)[-1] in RUNNERS:
        raise UnclearCommand(f"{name!r} runs the command in its arguments.")


def _check_arguments(argv: tuple[str | None, ...]) -> None:
    """Raise `UnclearCommand` if the arguments make a harmless program run others, or set variables."""
    name, rest = (argv[0] or "").rsplit("/", 1)[-1], argv[1:]
    if name == "printf" and (None in rest or any(word and word.startswith("-") for word in rest[:1])):
        raise UnclearCommand("printf may set a variable here.")
    if name == "find" and (None in rest or any(word and word.startswith(FIND_ACTIONS) for word in rest)):
        raise UnclearCommand("find may run commands or change files here.")


class _Reader:
    """One reading of a command line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[SimpleCommand] = []
        self.latest = 0
        """The position of the simple command that was read last."""

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte]

    def block(self, nodes: list[Node], start: int, end: int, depth: int) -> None:
        """Read a whole text, or the inside of one `$(...)`."""
        tokens = Tokens(self.source, start, nested=depth > 0)
        for node in nodes:
            self.statement(node, tokens, depth + 1)
        tokens.end(end)

    def statement(self, node: Node, tokens: Tokens, depth: int) -> None:
        """Read a command, a compound command, or a token between commands."""
        if depth > DEEPEST_LINE:
            raise UnclearCommand("The command line is nested too deeply.")
        if not node.is_named:
            tokens.structure(node.start_byte, node.end_byte)
        elif node.type == "comment":
            tokens.comment(node.start_byte, node.end_byte)
        elif node.type in NESTED:
            for child in node.children:
                self.statement(child, tokens, depth + 1)
        elif node.type in SIMPLE:
            self.simple(list(_parts(node)), tokens, depth)
        else:
            raise _not_read(node)

    def simple(self, parts: list[Node], tokens: Tokens, depth: int) -> None:
        """Read one simple command, or a compound command with redirections."""
        argv: list[str | None] = []
        assignments: list[str] = []
        redirects: list[Redirect] = []
        compound = parts[0].type in NESTED
        begins = not compound
        if compound:
            self.statement(parts.pop(0), tokens, depth + 1)
        last = self.latest if compound and tokens.last == "word" else None  # `a && b > x` is only of b
        place = len(self.found)  # before the commands inside of its words
        for part in parts:
            if part.type == "file_redirect":
                redirects.append(self.redirect(part, tokens, begins, depth))
            elif part.type == "variable_assignment" and not argv and not compound:
                assignments.append(self.assignment(part, tokens, begins, depth))
            elif compound:
                raise _not_read(part)
            else:
                argv.append(self.argument(part, tokens, begins, depth))
            begins = False
        if argv:
            if argv[0] is None:
                raise UnclearCommand("The name of a command is known only when it runs.")
            check_name(argv[0])
            _check_arguments(tuple(argv))
        if last is not None:
            before = self.found[last]
            self.found[last] = replace(before, redirects=(*before.redirects, *redirects))
            return
        self.latest = place
        self.found.insert(place, SimpleCommand(tuple(argv), tuple(assignments), tuple(redirects)))

    def argument(self, node: Node, tokens: Tokens, begins: bool, depth: int) -> str | None:
        """Read the name of a command, or one of its arguments."""
        inner = node
        if node.type == "command_name":
            [inner] = node.children if len(node.children) == 1 else [node]
        tokens.add("word", inner.start_byte, inner.end_byte, begins)
        return self.word(inner, depth)

    def assignment(self, node: Node, tokens: Tokens, begins: bool, depth: int) -> str:
        """Read an assignment, such as `LANG=C`."""
        text = self.text(node)
        tokens.add("word", node.start_byte, node.end_byte, begins)
        found = ASSIGNMENT.match(text)
        if found is None or len(node.children) > 3:
            raise _not_read(node)
        value = node.children[2] if len(node.children) == 3 else None
        start = node.start_byte + found.end()
        if (value.start_byte, value.end_byte) != (start, node.end_byte) if value else start != node.end_byte:
            raise _not_read(node)
        if value is not None:
            self.word(value, depth)
        return text

    def redirect(self, node: Node, tokens: Tokens, begins: bool, depth: int) -> Redirect:
        """Read a redirection, such as `2> errors.txt`."""
        parts = list(node.children)
        descriptor = None
        if parts[0].type == "file_descriptor":
            number = parts.pop(0)
            if not DIGITS.fullmatch(self.text(number)) or number.end_byte != parts[0].start_byte:
                raise _not_read(node)
            tokens.add("number", number.start_byte, number.end_byte, begins)
            descriptor, begins = int(self.text(number)), False
        if len(parts) != 2:  # the grammar takes the words that follow for more targets
            raise _not_read(node)
        operator, target = parts
        tokens.add("redirect", operator.start_byte, operator.end_byte, begins)
        tokens.add("word", target.start_byte, target.end_byte)
        return Redirect(self.text(operator), self.word(target, depth), descriptor)

    def word(self, node: Node, depth: int) -> str | None:
        """Return the value of a word; None if it is known only when the command runs."""
        if depth > DEEPEST_LINE:
            raise UnclearCommand("The command line is nested too deeply.")
        text = self.text(node)
        kind = node.type
        if kind in ("word", "number") and PLAIN.fullmatch(text):
            expands = any(each in "*?[]~" for each in ESCAPED.sub("", text))
            return None if expands else ESCAPED.sub(r"\1", text)
        if kind == "raw_string" and RAW.fullmatch(text):
            return text[1:-1]
        if kind in ("simple_expansion", "expansion") and VARIABLE.fullmatch(text):
            return None
        if kind == "command_substitution" and text.startswith("$(") and not text.startswith("$(("):
            self.block(node.children[1:-1], node.start_byte + 2, node.end_byte - 1, depth + 1)
            return None
        if kind == "string":
            return self.string(node, depth)
        if kind == "concatenation":
            return self.joined(node, depth)
        raise _not_read(node)

    def joined(self, node: Node, depth: int) -> str | None:
        values, at = [], node.start_byte
        for child in node.children:
            if child.start_byte != at or child.type == "concatenation":
                raise _not_read(node)
            values.append(self.word(child, depth + 1))
            at = child.end_byte
        if at != node.end_byte:
            raise _not_read(node)
        return None if None in values else "".join(value for value in values if value is not None)

    def string(self, node: Node, depth: int) -> str | None:
        """Return the value of a text in double quotes. The text between its expansions must be plain."""
        text = self.text(node)
        if len(text) < 2 or text[0] != '"' or text[-1] != '"':
            raise _not_read(node)
        plain, at, known = [], node.start_byte + 1, True
        for child in node.children:
            if child.type in ("simple_expansion", "expansion", "command_substitution"):
                plain.append(self.source[at : child.start_byte])
                self.word(child, depth + 1)
                at, known = child.end_byte, False
            elif child.type not in ("string_content", '"'):
                raise _not_read(node)
        plain.append(self.source[at : node.end_byte - 1])
        if not all(QUOTED.fullmatch(part) for part in plain):
            raise _not_read(node)
        return re.sub(r'\\([$`"\\])', r"\1", plain[0]) if known else None


def _parts(node: Node) -> Iterator[Node]:
    """Yield the parts of a simple command. A redirected command is one command with its redirections."""
    if node.type == "variable_assignment":
        yield node
        return
    for child in node.children:
        if child.type in SIMPLE and child.type != "variable_assignment":
            yield from _parts(child)
        else:
            yield child


def _not_read(node: Node) -> UnclearCommand:
    kind = node.type.replace("_", " ")
    return UnclearCommand(f"The command line has a part that cannot be read for certain: {kind}.")
