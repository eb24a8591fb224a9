"""The names of `agents.sandbox`, none of which is here."""

from .absent import SANDBOX, not_here

raise not_here("agents.sandbox", SANDBOX)
