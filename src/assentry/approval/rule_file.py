"""Rules for the calls of programs outside, as a file says them: the first rule that fits decides.

A server runs no code of its users, so these rules are data: globs over source, tool and server, conditions on the
arguments, and a verdict. Nothing here reads a call or records anything.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..core.facts import Risk
from ..core.wording import described, holds
from ..definitions.context import RunContextWrapper
from ..definitions.tool import Ask
from ..errors import UsageError
from ..schema.foreign import ForeignSchema
from .condition import BadCondition, Conditions, read_conditions, satisfies
from .rule_schema import BadRuleSchema, check_rule_schema

MOST_RULES = 1000


class CallRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule for calls of programs outside. What is left out fits everything."""

    name: str
    verdict: Literal["allow", "ask", "deny"]
    caller: str = "*"
    """The name of whoever asks: the token's, or the source of a program that reaches the store itself."""
    source: str = "*"
    """The name that the program gives itself. Only `caller` is sure: whoever has a token may give any source."""
    tool: str = "*"
    server: str | None = None
    where: Conditions | None = None
    """Conditions on the arguments, by name: `{amount = {at_most = 50}}`; all must hold."""
    schema: dict[str, Any] | None = None
    """A JSON schema that the arguments must fit."""
    commands: tuple[str | tuple[str, ...], ...] | None = None
    """Patterns of shell commands, for a rule that allows: every part of the command line must fit one of them."""
    argument: str = "command"
    """The argument with the command line that `commands` is about."""
    definitions: tuple[str, ...] | None = None
    """The definitions of tools that a rule that allows knows, as programs say them: a changed tool is none of them."""
    reason: str | None = None
    """The reason, for the person who is asked, or for the program that is refused."""
    reviewers: tuple[str, ...] = ()
    deadline: float | None = None
    risk: Risk | None = None
    owner: bool = True
    """False if the owner of the token that asks may not decide."""

    @property
    def why(self) -> str:
        """The reason of a verdict, in words."""
        return self.reason or f"The rule {self.name!r} {'forbids it' if self.verdict == 'deny' else 'asks a person'}."

    def fits(
        self,
        source: str,
        tool: str,
        server: str | None,
        args: Mapping[str, Any] | None,
        caller: str = "",
        definition: str | None = None,
    ) -> bool:
        """Return True if the rule is about this call. `args` is None for arguments that cannot be read or run.

        A rule that looks at arguments is about no such call, unless it forbids: then only its names count.
        """
        if not fnmatchcase(caller, self.caller) or not fnmatchcase(source, self.source):
            return False
        if not fnmatchcase(tool, self.tool):
            return False
        if self.server is not None and not fnmatchcase(server or "", self.server):
            return False
        if self.definitions is not None and definition not in self.definitions:
            return False
        if args is None:
            return self.verdict == "deny" or (self.where, self.schema, self.commands) == (None, None, None)
        if self.where is not None and not satisfies(args, self.where, rejects=self.verdict != "allow"):
            return False
        if self.commands is not None and not self._allows_line(args):
            return False
        if self.schema is None:
            return True
        fits = ForeignSchema(self.schema).fits(dict(args))
        return self.verdict != "allow" if fits is None else fits  # what cannot be told lets nothing pass

    def _allows_line(self, args: Mapping[str, Any]) -> bool:
        """Return True if every command of the command line is certain to be one that may run."""
        from ..commands.command_pattern import allows_line, read_command_patterns

        line = args.get(self.argument)
        return type(line) is str and allows_line(read_command_patterns(self.commands or ()), line)


class AppliedRule:
    """A rule of a file in the form in which the gate asks a tool's rule; its verdicts are by `rule:NAME`."""

    def __init__(self, rule: CallRule) -> None:
        self.rule = rule
        self.__qualname__ = rule.name

    def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool | Ask:
        """Return the verdict. A denial is the gate's own case; here it asks, so that it can never let a call pass."""
        return False if self.rule.verdict == "allow" else Ask(risk=self.rule.risk, reason=self.rule.why)


class RuleFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of a server, in order."""

    rule: tuple[CallRule, ...] = ()

    @classmethod
    def read(cls, path: str | PathLike[str]) -> RuleFile:
        """Return the rules of a TOML file, or raise `UsageError`, which names what is wrong."""
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"The rules file {str(path)!r} cannot be read: {error}.") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str = "the rules") -> RuleFile:
        """Return the rules of a TOML text."""
        try:
            made = msgspec.convert(tomllib.loads(text), cls)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
            raise UsageError(f"{name}: this is no rules file: {error}.") from None
        if len(made.rule) > MOST_RULES:
            raise UsageError(f"{name}: at most {MOST_RULES} rules, got {len(made.rule)}.")
        seen: set[str] = set()
        for number, rule in enumerate(made.rule, 1):
            _check_rule(rule, f"{name}: rule {number}", seen)
        return made

    def rule_for(
        self,
        source: str,
        tool: str,
        server: str | None,
        args: Mapping[str, Any] | None,
        caller: str = "",
        definition: str | None = None,
    ) -> CallRule | None:
        """Return the first rule that fits a call; None if none does, so that a person is asked."""
        call = (source, tool, server, args, caller, definition)
        return next((rule for rule in self.rule if rule.fits(*call)), None)


def _check_rule(rule: CallRule, where: str, seen: set[str]) -> None:
    """Raise `UsageError` unless a rule can be used as it is."""
    if not rule.name.strip() or not holds(rule.name) or rule.name in seen:
        raise UsageError(f"{where}: each rule has a name of its own, got {described(rule.name)}.")
    seen.add(rule.name)
    try:
        if rule.where is not None:
            read_conditions(rule.where)
        if rule.schema is not None:
            check_rule_schema(rule.schema)
    except (BadCondition, BadRuleSchema) as error:
        raise UsageError(f"{where} ({rule.name}): {error}.") from None
    for field in ("caller", "source", "tool"):
        if not getattr(rule, field):
            raise UsageError(f"{where} ({rule.name}): {field} fits nothing. Leave it out, and it fits everything.")
    if not all(name.removeprefix("group:").strip() for name in rule.reviewers):
        raise UsageError(f'{where} ({rule.name}): reviewers are names, and groups as "group:name".')
    if rule.definitions is not None and (rule.verdict != "allow" or not all(rule.definitions or ("",))):
        raise UsageError(f"{where} ({rule.name}): definitions are for a rule that allows: a list of texts, none empty.")
    _check_commands(rule, where)
    if rule.deadline is not None and not 0 < rule.deadline < 3e9:
        raise UsageError(f"{where} ({rule.name}): deadline is a number of seconds above 0, got {rule.deadline}.")
    if rule.verdict != "ask":
        extra = [name for name in ("reviewers", "deadline", "risk") if getattr(rule, name)]
        if extra or not rule.owner:
            raise UsageError(f"{where} ({rule.name}): only a rule that asks has {', '.join(extra) or 'owner'}.")


def _check_commands(rule: CallRule, where: str) -> None:
    """Raise `UsageError` unless the patterns of commands can be used, and so can the library that reads them."""
    if rule.commands is None:
        if rule.argument != "command":
            raise UsageError(f"{where} ({rule.name}): argument is for commands, and there are none.")
        return
    if rule.verdict != "allow":  # no list of commands is certain to have every way to do something
        raise UsageError(f"{where} ({rule.name}): only a rule that allows has commands.")
    if not rule.commands or not rule.argument:
        raise UsageError(f'{where} ({rule.name}): commands is a list such as ["git status", "ls"], argument a name.')
    from ..commands.command_pattern import read_command_patterns

    try:
        read_command_patterns(rule.commands)
    except UsageError as error:
        raise UsageError(f"{where} ({rule.name}): commands: {error}") from None
