"""Rules about command lines: a rule that allows fits only if every part of a line is certain to be allowed."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from assentry.approval.rule_file import RuleFile
from assentry.commands.command_pattern import read_command_patterns
from assentry.commands.shell_command import bash_grammar
from assentry.errors import UsageError

RULES = """
[[rule]]
name = "look"
verdict = "allow"
tool = "Bash"
commands = ["git status", "ls *", ["git", "commit", "-m", "*"]]
"""


def fits(arguments: Any, rules: str = RULES) -> bool:
    return RuleFile.parse(rules).rule_for("claude-code", "Bash", None, arguments) is not None


@pytest.mark.parametrize(
    "line",
    ["git status", "ls -la src", "git status && ls", "git status | ls", 'git commit -m "a b"', "ls 2>&1", "(ls; ls)"],
)
def test_a_line_of_allowed_commands_fits(line: str) -> None:
    assert fits({"command": line})


@pytest.mark.parametrize(
    "line",
    [
        "", " ", "git push", "git status && git push", "git status; rm x", "ls $(rm x)", "ls `rm x`", "ls > x",
        "X=1 ls", "eval ls", "sudo ls", "ls <<E\nE", "git status\nrm x", "ls &\nrm x", "ls <(rm x)",
        "function ls { rm x; }; ls",
        "git commit --amend", "git status --porcelain", "'ls", "ls; \u2028rm x", "./ls",
        "cd /; ls", "alias ls=rm; ls",
    ],
)  # fmt: skip
def test_a_line_with_any_other_or_unclear_part_does_not_fit(line: str) -> None:
    assert not fits({"command": line})


@pytest.mark.parametrize("arguments", [None, {}, {"command": None}, {"command": ["ls"]}, {"cmd": "ls"}])
def test_arguments_without_a_command_line_do_not_fit(arguments: Any) -> None:
    assert not fits(arguments)


def test_the_argument_can_have_another_name_and_other_conditions_hold_too() -> None:
    rules = RULES + 'argument = "cmd"\nwhere = { cwd = { under = "/srv" } }\n'
    assert fits({"cmd": "ls", "cwd": "/srv/shop"}, rules)
    assert not fits({"cmd": "ls", "cwd": "/etc"}, rules)
    assert not fits({"command": "ls", "cwd": "/srv/shop"}, rules)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("allow", "deny"), "only a rule that allows has commands"),
        (("allow", "ask"), "only a rule that allows has commands"),
        (('"git status"', '"sudo *"'), "always needs approval"),
        (('"git status"', '"ls | wc"'), "quotes or other characters"),
        (('"git status"', '""'), "this one is empty"),
        (('["git status", "ls *", ["git", "commit", "-m", "*"]]', "[]"), "commands is a list"),
        (("commands", "commnads"), "unknown field"),
        (('"git status"', "5"), "commands"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_when_the_file_is_read(change: tuple[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RuleFile.parse(RULES.replace(*change))


def test_an_argument_without_commands_is_refused() -> None:
    with pytest.raises(UsageError, match="argument is for commands"):
        RuleFile.parse('[[rule]]\nname = "a"\nverdict = "allow"\nargument = "cmd"\n')


def test_without_the_library_the_file_is_refused_and_no_call_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    read = RuleFile.parse(RULES)
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    bash_grammar.cache_clear()
    read_command_patterns.cache_clear()
    with pytest.raises(UsageError, match=r"look.*needs tree-sitter, which is not installed"):
        RuleFile.parse(RULES)
    with pytest.raises(UsageError, match="not installed"):
        read.rule_for("claude-code", "Bash", None, {"command": "ls"})
    monkeypatch.undo()
    bash_grammar.cache_clear()
    assert fits({"command": "ls"})
