"""The names of `agents.computer`, none of which is here."""

from .absent import COMPUTER, not_here

raise not_here("agents.computer", COMPUTER)
