"""The agents whose hooks are known, by their names on the command line."""

from __future__ import annotations

from .claude import ClaudeDialect
from .codex import CodexDialect
from .cursor import CursorDialect
from .dialect import HookDialect

AGENTS: dict[str, HookDialect] = {each.agent: each for each in (ClaudeDialect(), CodexDialect(), CursorDialect())}
