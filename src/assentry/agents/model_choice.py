"""The model that an agent of the skin is run with: names are looked up when the agent runs, as in the SDK."""

from __future__ import annotations

import os
from typing import Any

from ..models.default import VARIABLE, default_model
from ..models.model import Model, ModelSettings
from ..models.named import model_from
from .models.default_models import (
    OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME,
    get_default_model,
    get_default_model_settings,
)


def initial_settings(model: Any) -> ModelSettings:
    """Return the settings of an agent with this model that is given none."""
    if model is None or isinstance(model, str):
        return get_default_model_settings(model)
    return get_default_model_settings("")


def choose_model(agent: Any, config: Any) -> tuple[Model, ModelSettings]:
    """Return the model that an agent is run with, and its settings; the class of agents has it as `model_choice`."""
    settings: ModelSettings = agent.model_settings
    model = config.own_model or provided_model(f"Agent {agent.name!r}", agent.model, config.model_provider)
    if settings == initial_settings(agent.model):
        settings = _settings_for(agent, config, model)
    return model, settings.resolve(config.model_settings)


def _settings_for(agent: Any, config: Any, model: Model) -> ModelSettings:
    """Return the default settings for the model that was found, which may be another than the agent's."""
    if config.model is not None:
        return initial_settings(config.model)
    if agent.model is None and config.model_provider is None:
        openai = getattr(model, "provider", None) == "openai"
        return get_default_model_settings(model.name.lower() if openai else "")
    return agent.model_settings  # type: ignore[no-any-return]


def provided_model(whose: str, model: Any, provider: Any) -> Model:
    """Return the model that was given, or that the provider has for its name; without a provider, Assentry's own."""
    if model is not None and not isinstance(model, str):
        return model_from(whose, model)
    if provider is not None:
        return model_from(whose, getattr(provider, "get_model", provider)(model))
    if model is not None:
        return model_from(whose, model)
    named = OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME in os.environ and not os.environ.get(VARIABLE)
    return default_model(whose, get_default_model(), always=named)
