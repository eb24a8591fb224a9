"""The names of `agents.testing`, none of which is here."""

from .absent import TESTING, not_here

raise not_here("agents.testing", TESTING)
