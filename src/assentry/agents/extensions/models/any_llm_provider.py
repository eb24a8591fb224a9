"""The module `agents.extensions.models.any_llm_provider`, which Assentry does not have."""

from ...absent import not_here

raise not_here(
    "agents.extensions.models.any_llm_provider",
    "Assentry asks other providers by LiteLLM; use a name such as litellm/gemini/gemini-3-pro",
)
