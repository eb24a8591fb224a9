"""The names of `agents.extensions.memory.dapr_session`, none of which is here."""

from ...absent import not_here
from . import ELSEWHERE

raise not_here("agents.extensions.memory.dapr_session", ELSEWHERE)
