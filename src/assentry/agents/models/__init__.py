"""The modules of `agents.models`, and the names of the package itself."""

from __future__ import annotations

from .default_models import (
    get_default_model,
    get_default_model_settings,
    gpt_5_reasoning_settings_required,
    is_gpt_5_default,
)
from .openai_agent_registration import OpenAIAgentRegistrationConfig

__all__ = [
    "OpenAIAgentRegistrationConfig",
    "get_default_model",
    "get_default_model_settings",
    "gpt_5_reasoning_settings_required",
    "is_gpt_5_default",
]
