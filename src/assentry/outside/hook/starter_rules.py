"""Rules to begin with: reading inside of the project passes, some commands pass, everything else is asked about."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .dialect import HookDialect
from .secret_file import SECRET_FILE

COMMANDS = ("pwd", "ls", "ls -l", "ls -a", "ls -la")
"""Commands that write nothing and run nothing else, in whatever folder."""
GIT_COMMANDS = (
    "git status", "git status --short", "git diff", "git diff --stat", "git log", "git log --oneline",
    "git branch --show-current",
)  # fmt: skip
"""Commands that only look, but run programs that the configuration of the folder's repository names."""
OWN = (
    "TodoWrite", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode",
    "ToolSearch", "update_plan",
)  # fmt: skip
"""Tools with which an agent plans, or asks its own user."""
HELPERS = ("Agent", "Task")
"""Tools that begin a helper, whose calls come here as well."""
HELPER_OPTIONS = ("description", "prompt", "subagent_type", "model", "effort", "run_in_background", "name")
"""The arguments of a helper that works here: another, `isolation`, makes a worktree or sends the work elsewhere."""
HIDDEN = r"(^|[/{,*\s\[])\."
OUTWARD = r"^[/~]|\.\."
SOURCES = (
    "c", "cpp", "cs", "css", "go", "html", "java", "js", "kotlin", "lua", "php", "py", "rust", "scala", "swift", "ts",
)  # fmt: skip
"""The types of files, as ripgrep names them, of which a search may show lines: none is of files of secrets."""


def starter_rules(dialect: HookDialect, project: Path) -> str:
    """Return a file of rules for an agent that works in a project."""
    folder = os.path.realpath(project)
    below, itself = {"under": folder}, {"is": folder}
    secret = {"properties": {"file_path": {"pattern": SECRET_FILE}}, "required": ["file_path"]}
    rules = [
        _rule("read secrets", "ask", "Read", reason="The file may hold secrets.", schema=secret),
        _rule("read in the project", "allow", "Read", where={"file_path": below}),
    ]
    if dialect.searches:
        inward = {"properties": {"pattern": {"not": {"pattern": OUTWARD}}}}
        rules += [
            "# A search looks into hidden files, too. So only names are shown, or lines of files of these types.\n"
            + _rule("search below the project", "allow", "Grep", where={"path": below}, schema=_search()),
            _rule("search in the project", "allow", "Grep", where={"path": itself}, schema=_search()),
            _rule("list below the project", "allow", "Glob", where={"path": below}, schema=inward),
            _rule("list in the project", "allow", "Glob", where={"path": itself}, schema=inward),
        ]
    commands = COMMANDS if dialect.any_folder else COMMANDS + GIT_COMMANDS
    line = _only({"command": {"type": "string"}, "description": {}, "timeout": {}})
    helper = _only({name: {} for name in HELPER_OPTIONS})
    rules += [
        "# Every part of a command line must be one of these; a `*` as the last word is any further words. Git runs\n"
        "# what the configuration of the repository says, so leave it out where you do not trust that.\n"
        + _rule("commands that only look", "allow", dialect.shell, commands=commands, schema=line),
        *(_rule(f"the agent's own {tool}", "allow", tool) for tool in OWN),
        *(_rule(f"a helper by {tool}", "allow", tool, schema=helper) for tool in HELPERS),
    ]
    head = (
        f"# Rules for the calls of {dialect.title}. The first rule that fits a call decides; if none fits, a person\n"
        "# is asked. Paths of the agent's own tools are resolved before they are judged, links and `..` too.\n"
    )
    return "\n".join([head, *rules])


def _search() -> dict[str, object]:
    """Return the schema of a search that shows no lines of files of secrets."""
    names = {"properties": {"output_mode": {"enum": ["files_with_matches", "count"]}}}
    lines = {
        "properties": {"type": {"enum": list(SOURCES)}},
        "required": ["type"],
        "not": {"required": ["glob"]},  # to ripgrep a glob matters more than a type
    }
    paths = {"path": {"not": {"pattern": SECRET_FILE}}, "glob": {"not": {"pattern": HIDDEN}}}
    return {"properties": paths, "anyOf": [names, lines]}


def _only(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the schema of arguments that has no others than these."""
    return {"properties": properties, "additionalProperties": False}


def _rule(
    name: str,
    verdict: str,
    tool: str,
    *,
    reason: str | None = None,
    where: Mapping[str, object] | None = None,
    commands: Sequence[str] = (),
    schema: Mapping[str, object] | None = None,
) -> str:
    """Return a rule as TOML."""
    lines = ["[[rule]]", f"name = {_toml(name)}", f"verdict = {_toml(verdict)}", f"tool = {_toml(tool)}"]
    if reason is not None:
        lines.append(f"reason = {_toml(reason)}")
    if where is not None:
        lines.append(f"where = {_toml(where)}")
    if commands:
        lines += ["commands = [", *(f"    {_toml(each)}," for each in commands), "]"]
    if schema is not None:
        lines.append(f"schema = {_toml(schema)}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Return a value as TOML on one line. Its texts and lists look as in JSON."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml(each)}' for key, each in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)
