"""The names of `agents.extensions.experimental.hosted_multi_agent`, none of which is here."""

from ...absent import not_here

WHY = "Nobody would be asked before agents of the provider call tools; use handoffs, or agents as tools"

raise not_here("agents.extensions.experimental.hosted_multi_agent", WHY)
