"""The names of `agents.models.openai_chatcompletions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import InvalidDefinition
from ...models import openai_chat as own
from ..absent import find_absent
from .direct_call import DirectCalls

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OpenAIChatCompletionsModel"]

REPLAY = (
    "should_replay_reasoning_content is not in Assentry: reasoning is sent back to the server that gave it, and to no "
    "other. Leave it out, or leave reasoning out with RunConfig(call_model_input_filter=...)."
)


class OpenAIChatCompletionsModel(DirectCalls, own.OpenAIChatCompletionsModel):
    """A model of the Chat Completions API, OpenAI's or any server's.

    `strict_feature_validation` and `buffer_streamed_tool_calls` change nothing: what the API cannot be told is always
    an error, and a call is only made once it is complete.
    """

    def __init__(
        self,
        model: str,
        openai_client: AsyncOpenAI | None = None,
        should_replay_reasoning_content: Callable[[Any], bool] | None = None,
        *,
        strict_feature_validation: bool = False,
        buffer_streamed_tool_calls: bool = False,
    ) -> None:
        if should_replay_reasoning_content is not None:
            raise InvalidDefinition(f"OpenAIChatCompletionsModel: {REPLAY}")
        own.OpenAIChatCompletionsModel.__init__(self, model, openai_client)

    @property
    def model(self) -> str:
        """The model's name."""
        return self.name


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
