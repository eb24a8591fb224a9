"""The names of `agents.extensions.visualization`, none of which is here."""

from ..absent import not_here

WHY = "Assentry draws no graphs of agents; read agent.handoffs and agent.tools, and draw them with graphviz yourself"

raise not_here("agents.extensions.visualization", WHY)
