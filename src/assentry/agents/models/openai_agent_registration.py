"""The names of `agents.models.openai_agent_registration`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InvalidDefinition
from ..absent import find_absent

__all__ = ["OpenAIAgentRegistrationConfig"]


@dataclass(frozen=True)
class OpenAIAgentRegistrationConfig:
    """The id under which OpenAI knows a program. Assentry sends it nowhere."""

    harness_id: str | None


def refuse_registration(whose: str, given: Any) -> None:
    """Raise `InvalidDefinition` if a program is to be registered with OpenAI."""
    id = given.get("harness_id") if isinstance(given, dict) else getattr(given, "harness_id", given)
    if id is not None:
        raise InvalidDefinition(
            f"{whose}: Assentry registers no agents with OpenAI, and sends no harness id. Leave it out."
        )


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
