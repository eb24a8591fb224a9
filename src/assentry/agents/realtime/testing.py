"""The names of `agents.realtime.testing`, none of which is here."""

from ..absent import not_here

WHY = "Assentry's own is assentry.testing.RealtimeServer, which a live session connects to"

raise not_here("agents.realtime.testing", WHY)
