"""The names of `agents.extensions.handoff_prompt`."""

from __future__ import annotations

__all__ = ["RECOMMENDED_PROMPT_PREFIX", "prompt_with_handoff_instructions"]

RECOMMENDED_PROMPT_PREFIX = (
    "# System context\n"
    "Several agents share this conversation. Each agent has instructions and tools of its own, and hands the "
    "conversation over to another agent when that agent is better suited. An agent hands over by calling a function "
    "whose name is usually `transfer_to_<agent_name>`. The user does not see these transfers: never mention them, and "
    "continue the conversation as if nothing had changed.\n"
)
"""Instructions for agents that hand over to others, to be put before their own."""


def prompt_with_handoff_instructions(prompt: str) -> str:
    """Return the prompt with the instructions for handoffs before it."""
    return f"{RECOMMENDED_PROMPT_PREFIX}\n\n{prompt}"
