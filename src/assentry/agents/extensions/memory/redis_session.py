"""The names of `agents.extensions.memory.redis_session`, none of which is here."""

from ...absent import not_here
from . import ELSEWHERE

raise not_here("agents.extensions.memory.redis_session", ELSEWHERE)
