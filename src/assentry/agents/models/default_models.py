"""The names of `agents.models.default_models`: OpenAI's default model, and the settings that go with its models."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ..absent import find_absent
from ..model_settings import ModelSettings

__all__ = ["get_default_model", "get_default_model_settings", "gpt_5_reasoning_settings_required", "is_gpt_5_default"]

OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME = "OPENAI_DEFAULT_MODEL"
DEFAULT_MODEL = "gpt-5.6-luna"
DATED = r"(?:-\d{4}-\d{2}-\d{2})?"
EFFORTS = {
    "none": re.compile(rf"gpt-5\.(?:(?:1|2|5|4(?:-mini|-nano)?|6(?:-sol|-terra|-luna)?){DATED}|3-codex)"),
    "low": re.compile(rf"gpt-5{DATED}|gpt-5\.2-codex"),
    "medium": re.compile(rf"gpt-5\.(?:2|4)-pro{DATED}"),
}
"""The effort of reasoning that models with these names are asked for. Of other names it is not known what they take."""
CHAT = re.compile(r"gpt-5(?:\.[123])?-chat-latest")
"""The models that take no effort of reasoning."""


def gpt_5_reasoning_settings_required(model_name: str) -> bool:
    """Return True if a model of this name has default settings of its own."""
    return model_name.startswith("gpt-5") and CHAT.fullmatch(model_name) is None


def is_gpt_5_default() -> bool:
    """Return True if the default model has default settings of its own."""
    return gpt_5_reasoning_settings_required(get_default_model())


def get_default_model() -> str:
    """Return the name of OpenAI's default model."""
    return os.environ.get(OPENAI_DEFAULT_MODEL_ENV_VARIABLE_NAME, DEFAULT_MODEL).lower()


def get_default_model_settings(model: str | None = None) -> ModelSettings:
    """Return the settings that a model of this name is asked with if nobody sets others."""
    name = get_default_model() if model is None else model
    if not gpt_5_reasoning_settings_required(name):
        return ModelSettings()
    effort = next((effort for effort, names in EFFORTS.items() if names.fullmatch(name)), None)
    return ModelSettings(verbosity="low", reasoning={"effort": effort} if effort is not None else None)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
