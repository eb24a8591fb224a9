"""The names of `agents.voice`, none of which is here."""

from .absent import VOICE, not_here

raise not_here("agents.voice", VOICE)
