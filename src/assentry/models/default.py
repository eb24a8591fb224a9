"""The default model, for agents and runs that name none."""

from __future__ import annotations

import os

from ..errors import UsageError
from .embedded_parts import INSTALL, missing_parts
from .model import Model
from .named import EMBEDDED, model_from
from .openai_client import has_openai_key

VARIABLE = "ASSENTRY_MODEL"
OPENAI_DEFAULT = "gpt-5.2"

_set: Model | None = None


def set_default_model(model: Model | str | None) -> None:
    """Set the model of all agents that have none, in this process; None for no such model.

    `RunConfig(model=...)` and an agent's own model take precedence. Without this, the environment decides:
    `ASSENTRY_MODEL` is a model's name; else a key in `OPENAI_API_KEY` selects OpenAI's model, `OPENAI_DEFAULT_MODEL` or
    "gpt-5.2"; else the embedded model is used if it is installed.
    """
    global _set
    _set = None if model is None else model_from("set_default_model", model)


def default_model(whose: str, openai: str | None = None, *, always: bool = False) -> Model:
    """Return the default model, or raise `UsageError` with the ways to get one.

    `openai` is the name of OpenAI's model that is used with a key, and with `always` also without.
    """
    if _set is not None:
        return _set
    named = os.environ.get(VARIABLE)
    if named:
        return model_from(VARIABLE, named)
    if has_openai_key() or always:
        return model_from("OPENAI_DEFAULT_MODEL", openai or os.environ.get("OPENAI_DEFAULT_MODEL") or OPENAI_DEFAULT)
    if not missing_parts():
        return model_from(whose, EMBEDDED)
    raise UsageError(
        f"{whose} has no model; give Agent(model=...) or RunConfig(model=...), call set_default_model(...), set "
        f"{VARIABLE} to a model's name or OPENAI_API_KEY to a key, or install the embedded model: {INSTALL}"
    )
