"""The names of `agents.extensions.sandbox`, none of which is here."""

from ..absent import SANDBOX, not_here

raise not_here("agents.extensions.sandbox", SANDBOX)
