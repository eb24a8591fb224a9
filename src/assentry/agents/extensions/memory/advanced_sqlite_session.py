"""The names of `agents.extensions.memory.advanced_sqlite_session`, none of which is here."""

from ...absent import not_here
from . import ADVANCED

raise not_here("agents.extensions.memory.advanced_sqlite_session", ADVANCED)
