"""Models that were written for the OpenAI Agents SDK: `get_response` and `stream_response` as one stream.

They are known by these two methods, and the SDK is not imported. The classes of their arguments are those of the
package that the model was written for.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import asdict

from ..core.facts import Usage
from ..core.transcript import Item
from ..errors import ModelFailed
from .model import ModelRequest, ModelResponse, ModelSettings, OutputSpec, ToolSpec
from .openai_client import reported_failure

HOME = ".models.interface"
"""The end of the name of the module that has the SDK's base class of models."""
FINAL = {"response.completed": True, "response.incomplete": True, "response.failed": False}
"""The types of the last event, and whether its response is a reply."""


FAKE_ID = "__fake_id__"
"""The id of items that no provider has given one. Providers refuse it, so it is left out."""


def is_sdk_model(given: Any) -> bool:
    """Return True if the object is a model that was written for the SDK."""
    return callable(getattr(given, "get_response", None)) and callable(getattr(given, "stream_response", None))


class OfferedTool:
    """A tool or a handoff as such a model gets it, to be offered and not to be called."""

    def __init__(self, spec: ToolSpec) -> None:
        self.name = spec.name
        self.description = spec.description
        self.params_json_schema = spec.parameters
        self.strict_json_schema = spec.strict

    def __repr__(self) -> str:
        return f"<OfferedTool {self.name!r}>"


class OfferedOutput:
    """The schema of the final output as such a model gets it."""

    def __init__(self, spec: OutputSpec) -> None:
        self._spec = spec

    def is_plain_text(self) -> bool:
        """Return False: for text, a model gets no schema."""
        return False

    def name(self) -> str:
        """Return the name of the output type."""
        return self._spec.name

    def json_schema(self) -> dict[str, Any]:
        """Return the schema."""
        return self._spec.schema

    def is_strict_json_schema(self) -> bool:
        """Return True if the schema is strict."""
        return self._spec.strict


class NoTracing:
    """Tracing that is off, for a model that is of no package which says how."""

    def is_disabled(self) -> bool:
        """Return True."""
        return True

    def include_data(self) -> bool:
        """Return False."""
        return False


class AgentsSDKModel:
    """A model that was written for the SDK, as a `Model`."""

    def __init__(self, given: Any) -> None:
        self.given = given
        named = getattr(given, "model", None)
        self.name: str = named if isinstance(named, str) and named else type(given).__name__
        """The model's name: its attribute `model`, or its class's name."""
        self.provider = "agents_sdk"
        """The provider's name in traces."""

    def __repr__(self) -> str:
        return f"AgentsSDKModel({self.given!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """Yield the model's events if somebody sees them, and then its reply."""
        args, more = _arguments(self.given, request)
        if not request.streamed:
            yield _reply(await self.given.get_response(*args, **more))
            return
        reply: ModelResponse | None = None
        async for event in self.given.stream_response(*args, **more):
            yield event
            kind = getattr(event, "type", None)
            if kind in FINAL:
                if not FINAL[kind]:
                    error = getattr(event.response, "error", None)
                    raise reported_failure(self.name, getattr(error, "code", None), getattr(error, "message", None))
                reply = _reply(event.response, event.response.id)
        if reply is None:
            raise ModelFailed(f"The model {self.name!r} ended its stream without a complete reply.")
        yield reply

    def get_retry_advice(self, request: Any) -> Any:
        """Return the model's own advice about a failure; None if it gives none."""
        advise = getattr(self.given, "get_retry_advice", None)
        return advise(request) if callable(advise) else None


def _arguments(given: Any, request: ModelRequest) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the model's two methods."""
    home = next((kind.__module__ for kind in type(given).__mro__ if kind.__module__.endswith(HOME)), "")
    tracing = getattr(sys.modules.get(home), "ModelTracing", None)
    args: tuple[Any, ...] = (
        request.instructions,
        list(request.input),
        _settings(sys.modules.get(f"{home.removesuffix(HOME)}.model_settings"), request.settings),
        [OfferedTool(spec) for spec in request.tools],
        OfferedOutput(request.output) if request.output is not None else None,
        [],
        tracing.DISABLED if tracing is not None else NoTracing(),
    )
    more = {"previous_response_id": request.previous_response_id, "conversation_id": request.conversation_id}
    return args, {**more, "prompt": request.prompt}


def _settings(home: Any, settings: ModelSettings) -> Any:
    """Return the settings in the class that the model was written for."""
    if home is None:
        return settings
    known = home.ModelSettings.__dataclass_fields__
    said = {name: value for name, value in asdict(settings).items() if value is not None and name in known}
    return home.ModelSettings(**said)


def _reply(response: Any, id: str | None = None) -> ModelResponse:
    usage = _usage(response.usage) if getattr(response, "usage", None) is not None else Usage(1)
    return ModelResponse([_item(each) for each in response.output], usage, id or getattr(response, "response_id", None))


def _item(given: Any) -> Item:
    if isinstance(given, dict):
        item: Item = dict(given)
    else:
        item = {"type": given.type, **given.model_dump(mode="json", exclude_unset=True, warnings=False)}
    if item.get("id") == FAKE_ID:
        del item["id"]
    return item


def _usage(used: Any) -> Usage:
    if isinstance(used, Usage):
        return Usage(max(used.requests, 1), *used.numbers()[1:])
    cached = getattr(getattr(used, "input_tokens_details", None), "cached_tokens", None)
    reasoned = getattr(getattr(used, "output_tokens_details", None), "reasoning_tokens", None)
    counts = (used.input_tokens, used.output_tokens, cached, reasoned)
    return Usage(getattr(used, "requests", None) or 1, *(count or 0 for count in counts))
