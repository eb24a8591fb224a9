"""The SDK's two methods for models that are Assentry's own, for programs that call a model without a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from ...models.delta import readable
from ...models.model import ModelRequest, ModelResponse, OutputSpec
from ..items import ModelResponse as ShownResponse
from ..model_settings import settings_from
from .interface import Model

METHODS = ("get_response", "stream_response")


class DirectCalls(Model):
    """A model of Assentry's own that also has the SDK's methods."""

    answers_itself: ClassVar[bool] = False
    """True for a subclass with methods of its own, which runs then call."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.answers_itself = cls.answers_itself or any(
            name in vars(each) for each in cls.__mro__[: cls.__mro__.index(DirectCalls)] for name in METHODS
        )

    def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Yield deltas, and then the reply."""
        return super().stream(request)  # type: ignore[misc,no-any-return]  # the class beside this one has it

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: Sequence[Any],
        output_schema: Any,
        handoffs: Sequence[Any],
        tracing: Any = None,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> Any:
        """Return the reply to a request."""
        kept = (previous_response_id, conversation_id, prompt)
        request = _request(system_instructions, input, model_settings, [*tools, *handoffs], output_schema, *kept)
        reply = [each async for each in self.stream(request)][-1]
        return ShownResponse(reply.output, reply.usage, reply.response_id)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: Sequence[Any],
        output_schema: Any,
        handoffs: Sequence[Any],
        tracing: Any = None,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: Any = None,
    ) -> AsyncIterator[Any]:
        """Yield the events of a reply."""
        kept = (previous_response_id, conversation_id, prompt)
        request = _request(system_instructions, input, model_settings, [*tools, *handoffs], output_schema, *kept)
        async for each in self.stream(request):
            if not isinstance(each, ModelResponse):
                yield readable(each)


def _request(
    told: str | None,
    input: Any,
    settings: Any,
    tools: Sequence[Any],
    output: Any,
    previous: str | None,
    conversation: str | None,
    prompt: Any,
) -> ModelRequest:
    items = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
    spec = None
    if output is not None and not output.is_plain_text():
        schema = output.json_schema() if callable(output.json_schema) else output.json_schema
        strict = getattr(output, "strict", None)
        name = output.name() if callable(output.name) else output.name
        spec = OutputSpec(name, schema, output.is_strict_json_schema() if strict is None else strict)
    hosted = [tool.config for tool in tools if getattr(tool, "config", None) is not None]
    specs = [tool.spec for tool in tools if getattr(tool, "config", None) is None]
    sent = settings_from("get_response", settings or {}).as_sent()
    return ModelRequest(told, items, specs, spec, sent, previous, conversation, hosted, prompt)
