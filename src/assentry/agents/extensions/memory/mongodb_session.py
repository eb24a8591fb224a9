"""The names of `agents.extensions.memory.mongodb_session`, none of which is here."""

from ...absent import not_here
from . import ELSEWHERE

raise not_here("agents.extensions.memory.mongodb_session", ELSEWHERE)
