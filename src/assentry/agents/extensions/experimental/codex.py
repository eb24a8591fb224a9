"""The names of `agents.extensions.experimental.codex`, none of which is here."""

from ...absent import CODEX, not_here

raise not_here("agents.extensions.experimental.codex", CODEX)
