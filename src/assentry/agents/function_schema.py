"""The names of `agents.function_schema`, none of which is here."""

from .absent import not_here

WHY = "function_tool reads a function's signature; take params_json_schema of the tool that it makes"

raise not_here("agents.function_schema", WHY)
