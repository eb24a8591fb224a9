"""Prompts that the provider keeps: an agent names one, with its version and the values of its variables."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NotRequired, Required

from msgspec import Struct
from typing_extensions import TypedDict

from ..core import allowed
from ..core.digest import BadJSON, digest, plain
from ..errors import UsageError
from .context import RunContextWrapper
from .settings import plain_settings


class Prompt(TypedDict):
    """A prompt that the provider keeps."""

    id: Required[str]
    version: NotRequired[str | None]
    variables: NotRequired[dict[str, Any] | None]
    """The values of the prompt's variables: text, or an image or a file as an item's content part."""


class GenerateDynamicPromptData(Struct, frozen=True):
    """The argument of a function that chooses an agent's prompt."""

    context: RunContextWrapper[Any]
    agent: Any


DynamicPromptFunction = Callable[[GenerateDynamicPromptData], Prompt | Awaitable[Prompt]]
"""A function that chooses an agent's prompt for each model call."""

PROMPT_KEYS = ("id", "version", "variables")


def _is_prompt(given: Any) -> bool:
    return isinstance(given, Mapping) and type(given.get("id")) is str and all(key in PROMPT_KEYS for key in given)


A_PROMPT = allowed.Values('a dict such as {"id": "pmpt_1", "version": "2", "variables": {}}', _is_prompt)
PROMPT_OR_FUNCTION = allowed.Values(
    f"{A_PROMPT.words}, or a function that returns one", lambda given: callable(given) or _is_prompt(given)
).or_none


async def resolve_prompt(ctx: RunContextWrapper[Any], agent: Any) -> dict[str, Any] | None:
    """Return the agent's prompt for the next model call, as plain JSON; None if the agent has none."""
    prompt, whose = agent.prompt, f"Agent {agent.name!r}"
    if callable(prompt):
        prompt = prompt(GenerateDynamicPromptData(ctx, agent))
        prompt = await prompt if inspect.isawaitable(prompt) else prompt
        allowed.check_option(whose, "prompt", prompt, A_PROMPT, UsageError)
    if prompt is None:
        return None
    try:
        return {key: plain(plain_settings(value)) for key, value in prompt.items() if value is not None}
    except BadJSON as error:
        raise UsageError(f"{whose}: the prompt must be made of JSON values; {error}.") from None


def prompt_mark(prompt: Any) -> str:
    """Return a mark of an agent's prompt: its id and version, or the function's name."""
    if callable(prompt):
        return str(getattr(prompt, "__qualname__", type(prompt).__qualname__))
    return digest({"id": prompt["id"], "version": prompt.get("version")})[:16]
