"""A model that follows a script: no API key, no network, the same replies every time."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ..core.facts import Usage
from ..errors import ScriptExhausted, UsageError
from ..models.model import ModelRequest, ModelResponse

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call in a script; make it with `call`."""

    name: str
    arguments: str
    call_id: str | None = None


def call(name: str, arguments: dict[str, Any] | str | None = None, call_id: str | None = None) -> ScriptedCall:
    """Make a tool call for a script. Text is sent unchanged, so that a test can send invalid JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ScriptedCall(name, text, call_id)


Step = str | ScriptedCall | list[Any] | Exception | ModelResponse | Callable[[ModelRequest], Any]
"""Final text, a call, a list of calls and text, an exception, a whole response, or a function of the request."""


class ScriptedModel:
    """A model that replies with one step after another, across runs; it raises `ScriptExhausted` after the last."""

    def __init__(self, steps: Iterable[Step], *, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        """The requests so far, each with a copy of its input."""
        self._steps = iter(tuple(steps) if isinstance(steps, Sequence) else steps)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Yield the next step: its text word by word, then the response."""
        self.requests.append(replace(request, input=list(request.input)))
        try:
            step = next(self._steps)
        except StopIteration:
            raise ScriptExhausted(
                f"The scripted model {self.name!r} was asked for step {len(self.requests)} and has no more. "
                "Give it one step for each time the model is asked."
            ) from None
        if callable(step):
            step = step(request)
            step = await step if inspect.isawaitable(step) else step
        if isinstance(step, Exception):
            raise step
        response = step if isinstance(step, ModelResponse) else self._response(step, len(request.input))
        for item in response.output:
            for delta in _deltas(item):
                yield delta
        yield response

    def _response(self, step: Any, number: int) -> ModelResponse:
        """Return the response of a step.

        Ids contain the length of the conversation, so that another process that continues the run does not repeat ids.
        """
        parts = step if isinstance(step, list) else [step]
        output = [self._item(part, f"{number}_{n}") for n, part in enumerate(parts)]
        usage = Usage(requests=1, input_tokens=10, output_tokens=5)
        return ModelResponse(output, usage, f"resp_{number}")

    def _item(self, part: Any, id: str) -> Item:
        if isinstance(part, str):
            content = [{"type": "output_text", "text": part, "annotations": []}]
            return {
                "type": "message",
                "id": f"msg_{id}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        if isinstance(part, ScriptedCall):
            return {
                "type": "function_call",
                "id": f"fc_{id}",
                "call_id": part.call_id or f"call_{id}",
                "name": part.name,
                "arguments": part.arguments,
                "status": "completed",
            }
        if isinstance(part, dict):
            return part
        raise UsageError(
            f"A script's step is text, call(...), a list of these, an exception or a function; got {part!r:.80}."
        )


def _deltas(item: Item) -> Iterable[Item]:
    if item.get("type") == "message":
        content = item.get("content", "")
        for part in [{"text": content}] if isinstance(content, str) else content:
            words = part.get("text", "").split(" ")
            for n, word in enumerate(words):
                text = word if n == len(words) - 1 else word + " "
                yield {"type": "response.output_text.delta", "item_id": item.get("id"), "delta": text}
