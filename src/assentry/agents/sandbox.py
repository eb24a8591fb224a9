"""The names of `agents.sandbox`, none of which is here."""

from .absent import not_here

WHY = "Assentry runs no sandboxes; give ShellTool an executor that runs commands in a container of yours"

raise not_here("agents.sandbox", WHY)
