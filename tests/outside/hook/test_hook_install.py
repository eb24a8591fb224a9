"""Putting the hook into an agent's settings, and taking it out again."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assentry.approval.rule_file import RuleFile
from assentry.cli import main
from assentry.outside.hook.known import AGENTS
from assentry.outside.hook.process import MARGIN, SETTINGS_MARGIN
from assentry.outside.hook.starter_rules import starter_rules

FILES = {"claude": ".claude/settings.local.json", "codex": ".codex/hooks.json", "cursor": ".cursor/hooks.json"}
OTHERS: dict[str, Any] = {
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "permissions": {"allow": ["Bash(npm test)"], "deny": []},
    "größe": "ß",
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "check.sh", "timeout": 5}]},
            {"matcher": "Edit", "hooks": []},
        ],
        "PostToolUse": [],
    },
    "model": "opus",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one; the home folder is another."""
    made = tmp_path / "it's a project"
    made.mkdir()
    monkeypatch.chdir(made)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    (tmp_path / "home").mkdir()
    for name in ("ASSENTRY_STORE", "ASSENTRY_SERVER", "ASSENTRY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return made


def install(agent: str, *options: str) -> int:
    return main(["hook", "install", agent, *(options or ("--store", "runs.db"))])


def hooks(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["hooks"]
    return found


@pytest.mark.parametrize("agent", AGENTS)
def test_what_was_installed_is_removed_and_nothing_else_is_left(project: Path, agent: str, capsys: Any) -> None:
    assert install(agent) == 0
    file = project / FILES[agent]
    assert "A hook is no boundary." in capsys.readouterr().err
    assert set(hooks(file)) == set(AGENTS[agent].entries("x", 1))
    before = file.read_text()
    assert install(agent) == 0
    assert file.read_text() == before
    assert "nothing was changed" in capsys.readouterr().err
    assert main(["hook", "remove", agent]) == 0
    assert "hooks" not in json.loads(file.read_text())
    assert main(["hook", "remove", agent]) == 0
    assert "has no hook of Assentry's" in capsys.readouterr().err


def test_everything_else_in_the_file_stays_as_it_is(project: Path) -> None:
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    text = json.dumps(OTHERS, indent=4, ensure_ascii=False)
    file.write_text(text)
    file.chmod(0o640)
    assert install("claude") == 0
    made = json.loads(file.read_text())
    assert list(made) == list(OTHERS)
    assert made["hooks"]["Stop"] == OTHERS["hooks"]["Stop"]
    assert made["hooks"]["PreToolUse"][:2] == OTHERS["hooks"]["PreToolUse"]
    assert len(made["hooks"]["PreToolUse"]) == 3
    assert file.stat().st_mode & 0o777 == 0o640
    assert install("claude", "--store", "runs.db", "--wait", "30") == 0  # another wait takes the place of the first
    assert len(hooks(file)["PreToolUse"]) == 3
    assert main(["hook", "remove", "claude"]) == 0
    kept = {event: groups for event, groups in OTHERS["hooks"].items() if groups}
    assert file.read_text() == json.dumps({**OTHERS, "hooks": kept}, indent=4, ensure_ascii=False)


def test_a_hook_of_others_in_the_same_group_stays(project: Path) -> None:
    assert install("claude") == 0
    file = project / ".claude/settings.local.json"
    made = json.loads(file.read_text())
    other = {"type": "command", "command": "log.sh hook run claude"}
    made["hooks"]["PreToolUse"][0]["hooks"].append(other)
    file.write_text(json.dumps(made))
    assert main(["hook", "remove", "claude"]) == 0
    assert hooks(file) == {"PreToolUse": [{"matcher": "*", "hooks": [other]}]}


@pytest.mark.parametrize(
    "text",
    [
        '{"hooks": {}', "[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', '{"hooks": {"PreToolUse": ["x"]}}',
        '{"hooks": {"PreToolUse": [{"hooks": "x"}]}}', '{"a": 1, "a": 2}', '// settings\n{}', "null", "\ufeff{}",
    ],
)  # fmt: skip
def test_a_file_that_is_not_what_it_should_be_is_refused_and_not_touched(project: Path, text: str, capsys: Any) -> None:
    file = project / ".claude/settings.local.json"
    file.parent.mkdir()
    file.write_text(text)
    for words in (["install", "claude", "--store", "runs.db"], ["remove", "claude"]):
        assert main(["hook", *words]) == 1
        assert "was not changed" in capsys.readouterr().err
    assert file.read_text() == text
    assert os.listdir(file.parent) == [file.name]


def test_a_dry_run_prints_the_change_and_writes_nothing(project: Path, capsys: Any) -> None:
    assert install("claude", "--store", "runs.db", "--rules", "rules.toml", "--dry-run") == 0
    shown = capsys.readouterr()
    assert '+            "onFailure": "block"' in shown.out
    assert os.listdir(project) == []


def test_programs_read_what_changes_as_json(project: Path, capsys: Any) -> None:
    file = str(project / ".claude/settings.local.json")
    for words, changes, changed in (
        (["install", "claude", "--store", "runs.db", "--dry-run"], True, False),
        (["install", "claude", "--store", "runs.db"], True, True),
        (["install", "claude", "--store", "runs.db"], False, False),
        (["remove", "claude"], True, True),
        (["remove", "claude"], False, False),
    ):
        assert main(["hook", *words, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told == {"settings": file, "changed": changed, "changes": changes}


def test_a_link_to_settings_that_are_kept_elsewhere_stays_one(project: Path, tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}")
    (project / ".codex").mkdir()
    os.symlink(kept, project / ".codex/hooks.json")
    assert install("codex") == 0
    assert (project / ".codex/hooks.json").is_symlink()
    assert "PreToolUse" in hooks(kept)


@pytest.mark.parametrize(
    ("agent", "scope", "path"),
    [
        ("claude", "project", ".claude/settings.json"),
        ("claude", "user", "../home/.claude/settings.json"),
        ("codex", "user", "../home/.codex/hooks.json"),
        ("cursor", "user", "../home/.cursor/hooks.json"),
    ],
)
def test_the_scope_says_which_settings(project: Path, agent: str, scope: str, path: str) -> None:
    assert install(agent, "--store", "runs.db", "--scope", scope) == 0
    assert hooks(project / path)
    assert main(["hook", "remove", agent, "--scope", scope]) == 0


def test_the_agent_waits_longer_than_the_hook(project: Path) -> None:
    assert SETTINGS_MARGIN > MARGIN
    for agent, file in FILES.items():
        assert install(agent, "--store", "runs.db", "--wait", "7m") == 0
        first = next(iter(hooks(project / file).values()))[0]
        judged = first["hooks"][0] if "hooks" in first else first
        assert judged["timeout"] == 7 * 60 + SETTINGS_MARGIN


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_hook_that_cannot_even_start_denies(project: Path, agent: str) -> None:
    assert install(agent) == 0
    command = hooks(project / FILES[agent])["PreToolUse"][0]["hooks"][0]["command"]
    words = shlex.split(command)
    assert words[:5] == [sys.executable, "-P", "-m", "assentry.cli", "hook"]
    assert words[words.index("--store") + 1] == str(project / "runs.db")
    for broken in (
        command.replace(shlex.quote(sys.executable), "/nowhere/python"),
        command.replace("assentry.cli", "assentry.no_such"),
        command.replace("-m assentry.cli", "-c 'import os; os.kill(os.getpid(), 9)'"),
    ):
        assert broken != command
        ended = subprocess.run(["sh", "-c", broken], input=b"{}", capture_output=True)
        assert (ended.returncode, ended.stdout) == (2, b"")
        if agent == "codex":  # to it, exit code 2 without words is no refusal; not every shell says "Killed"
            assert b"The hook did not allow it." in ended.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--store", "runs.db", "--scope", "local"), "no local settings"),
        (("--store", "runs.db", "--undecided", "ask"), "would let the call pass"),
        (("--store", "runs.db", "--token-file", "t"), "A store has none"),
        (("--server", "http://127.0.0.1:9", "--rules", "r"), "The rules are the inbox's"),
        (("--server", "http://127.0.0.1:9", "--token-file", "none"), "cannot be read"),
        (("--server", "http://ann:pw@127.0.0.1:9", "--token-file", "token"), "An inbox's address is"),
        (("--store", "postgresql://ann:pw@127.0.0.1:1/db"), ""),
        (("--store", "runs.db", "--wait", "25h"), "at most 24h"),
        (("--store", "runs.db", "--rules", "bad.toml"), "this is no rules file"),
        (("--store", "runs.db", "--project", "nowhere"), "There is no folder"),
        ((), "Give --store or --server"),
    ],
)
def test_what_could_not_work_is_not_installed(project: Path, options: tuple[str, ...], words: str, capsys: Any) -> None:
    (project / "bad.toml").write_text("x = 1")
    (project / "token").write_text("t")
    (project / "token").chmod(0o600)
    assert main(["hook", "install", "codex", *options]) == 1
    assert words in capsys.readouterr().err
    assert not (project / ".codex").exists()


@pytest.mark.parametrize("scope", ["local", "project", "user"])
def test_a_hook_that_the_settings_turn_off_is_not_installed(project: Path, scope: str, capsys: Any) -> None:
    folder = (Path.home() if scope == "user" else project) / ".claude"
    folder.mkdir()
    file = folder / ("settings.local.json" if scope == "local" else "settings.json")
    file.write_text('{"disableAllHooks": true}')
    assert install("claude") == 1
    assert f"{file} has disableAllHooks" in capsys.readouterr().err
    assert file.read_text() == '{"disableAllHooks": true}'
    assert list(project.rglob("*.db")) == []
    file.write_text('{"disableAllHooks": false}')
    assert install("claude") == 0


def test_a_token_that_others_can_read_is_refused_and_none_is_written(project: Path, capsys: Any) -> None:
    (project / "token").write_text("very-secret\n")
    (project / "token").chmod(0o644)
    words = ("--server", "https://inbox.example.com", "--token-file", "token")
    assert install("claude", *words) == 1
    assert "chmod 600" in capsys.readouterr().err
    (project / "token").chmod(0o600)
    assert install("claude", *words) == 0
    text = (project / ".claude/settings.local.json").read_text()
    assert "very-secret" not in text
    command = json.loads(text)["hooks"]["PostToolUse"][0]["hooks"][0]["command"]
    assert str(project / "token") in shlex.split(command)


def test_starter_rules_are_written_once_and_not_over_others(project: Path, capsys: Any) -> None:
    assert install("claude", "--store", "runs.db", "--rules", "rules.toml") == 0
    text = (project / "rules.toml").read_text()
    assert main(["hook", "rules", "claude"]) == 0
    assert capsys.readouterr().out == text
    (project / "rules.toml").write_text('[[rule]]\nname = "mine"\nverdict = "ask"\n')
    assert install("claude", "--store", "runs.db", "--rules", "rules.toml") == 0
    assert "mine" in (project / "rules.toml").read_text()


@pytest.mark.parametrize(
    ("tool", "arguments", "verdict"),
    [
        ("Read", {"file_path": "/srv/shop/a.py"}, "allow"),
        ("Read", {"file_path": "/srv/shop/.env"}, "ask"),
        ("Read", {"file_path": "/srv/shop/conf/Prod.PEM"}, "ask"),
        ("Read", {"file_path": "/srv/shop/credentials.json"}, "ask"),
        ("Read", {"file_path": "/srv/shop/.htpasswd"}, "ask"),
        ("Read", {"file_path": "/srv/shop/id_rsa.pub"}, "ask"),
        ("Read", {"file_path": "/srv/shop/home/.ssh/config"}, "ask"),
        ("Read", {"file_path": "/srv/shop/ssh/config"}, "allow"),
        ("Read", {"file_path": "/srv/shopping/a.py"}, None),
        ("Read", {"file_path": "/etc/passwd"}, None),
        ("Read", {}, None),
        ("Grep", {"pattern": "TODO", "path": "/srv/shop"}, "allow"),
        ("Grep", {"pattern": "../x", "path": "/srv/shop/src"}, "allow"),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop/.env"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "glob": ".env"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "glob": "**/.e*"}, None),
        ("Grep", {"pattern": "KEY"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "glob": "a .env"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "glob": "[.]env"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "output_mode": "content"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "output_mode": "content", "glob": "*env"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "output_mode": "content", "type": "py", "glob": "*env"}, None),
        ("Grep", {"pattern": "KEY", "path": "/srv/shop", "output_mode": "content", "type": "sh"}, None),
        ("Grep", {"pattern": "def", "path": "/srv/shop", "output_mode": "content", "type": "py"}, "allow"),
        ("Grep", {"pattern": "def", "path": "/srv/shop", "output_mode": "count"}, "allow"),
        ("Glob", {"pattern": "src/*.py", "path": "/srv/shop"}, "allow"),
        ("Glob", {"pattern": "/etc/*", "path": "/srv/shop"}, None),
        ("Glob", {"pattern": "../*", "path": "/srv/shop"}, None),
        ("Bash", {"command": "git status && git diff"}, "allow"),
        ("Bash", {"command": "git log --oneline", "description": "d", "timeout": 5}, "allow"),
        ("Bash", {"command": "git log --output=x"}, None),
        ("Bash", {"command": "git status; rm -rf ."}, None),
        ("Bash", {"command": "git status > out"}, None),
        ("Bash", {"command": "git status", "dangerouslyDisableSandbox": True}, None),
        ("Bash", {"command": "git status", "run_in_background": True}, None),
        ("Edit", {"file_path": "/srv/shop/a.py"}, None),
        ("WebFetch", {"url": "https://example.com"}, None),
        ("TodoWrite", {"todos": []}, "allow"),
        ("Agent", {"description": "d", "prompt": "p", "subagent_type": "Explore"}, "allow"),
        ("Agent", {"description": "d", "prompt": "p", "isolation": "worktree"}, None),
        ("Agent", {"description": "d", "prompt": "p", "isolation": "remote"}, None),
        ("Task", {"description": "d", "prompt": "p", "mode": "bypassPermissions"}, None),
        ("mcp__github__Read", {"file_path": "/srv/shop/a.py"}, None),
    ],
)
def test_starter_rules_allow_reading_in_the_project_and_ask_about_the_rest(
    tool: str, arguments: dict[str, Any], verdict: str | None
) -> None:
    rules = RuleFile.parse(starter_rules(AGENTS["claude"], Path("/srv/shop")))
    rule = rules.rule_for("claude-code", tool, None, arguments)
    assert (None if rule is None else rule.verdict) == verdict


def test_starter_rules_let_git_pass_only_where_the_folder_is_known() -> None:
    verdicts = {}
    for name, dialect in AGENTS.items():
        rules = RuleFile.parse(starter_rules(dialect, Path("/srv/shop")))
        for line in ("git status", "ls"):
            rule = rules.rule_for(dialect.source, dialect.shell, None, {"command": line})
            verdicts[name, line] = rule is not None and rule.verdict
    assert [pair for pair, verdict in verdicts.items() if verdict != "allow"] == [("codex", "git status")]


@pytest.mark.parametrize("agent", AGENTS)
def test_starter_rules_of_each_agent_can_be_read_wherever_the_project_is(agent: str, tmp_path: Path) -> None:
    odd = tmp_path / 'with "quotes", ünïcode and $signs'
    odd.mkdir()
    assert RuleFile.parse(starter_rules(AGENTS[agent], odd)).rule
