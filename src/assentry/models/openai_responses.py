"""OpenAI's Responses API: a request as its parameters, and its events as deltas and a reply.

Items are in its format everywhere in Assentry, so nothing is translated. The client belongs in `openai_client`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from ..core import allowed
from ..core.facts import Usage
from ..core.transcript import Item
from ..errors import ModelFailed
from .client import client_with
from .failure import arguments_failure, stream_failure
from .model import MCPToolChoice, ModelRequest, ModelResponse, ModelSettings, OutputSpec, ToolSpec
from .openai_client import limit_retries, openai_failure, reported_failure, shared_client
from .wire import responses_items

if TYPE_CHECKING:
    from openai import AsyncOpenAI, AsyncStream
    from openai.types.responses import ResponseStreamEvent

FINAL_EVENTS = ("response.completed", "response.failed", "response.incomplete", "error")
CHOICES = ("auto", "required", "none")
SAME = (
    "temperature",
    "top_p",
    "truncation",
    "reasoning",
    "metadata",
    "store",
    "extra_headers",
    "extra_query",
    "top_logprobs",
    "prompt_cache_retention",
    "prompt_cache_options",
    "context_management",
)
"""Settings that the client has under the same name."""
LOGPROBS = "message.output_text.logprobs"
HOSTED_CHOICES = ("file_search", "web_search", "web_search_preview", "image_generation", "code_interpreter", "mcp")
"""The names of tools that the provider runs, as choices. A tool of the agent's own with such a name comes first."""
PAUSE = 0.5
"""The seconds before a request that was refused for its rate is made again; doubled each time."""
INCOMPLETE = {
    "max_output_tokens": "Allow more with ModelSettings(max_tokens=...).",
    "content_filter": "The provider's content filter stopped it; change the request.",
}


class OpenAIResponsesModel:
    """A model of OpenAI's Responses API, or of a server that speaks it. Needs `pip install ".[openai]"`.

    Without an `openai_client` one is made for each event loop when the model is first asked, from `OPENAI_API_KEY`,
    `OPENAI_BASE_URL` and the other `OPENAI_...` environment variables. Your own client, an `openai.AsyncOpenAI`, is
    used as it is; its connections belong to the event loop that it is first used in. Retries and timeouts are the
    client's. A failure raises `ModelFailed`, whose cause is the client's own exception.
    """

    provider = "openai"
    """The provider's name in traces."""

    def __init__(self, model: str, openai_client: AsyncOpenAI | None = None) -> None:
        allowed.check_option("OpenAIResponsesModel", "model", model, allowed.NAME)
        allowed.check_option("OpenAIResponsesModel", "openai_client", openai_client, client_with("responses"))
        self.name = model
        """The model's name."""
        self._client = openai_client

    def __repr__(self) -> str:
        return f"OpenAIResponsesModel({self.name!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ResponseStreamEvent | ModelResponse]:
        """Yield the API's events as they come, and then the reply. Closing the generator closes the HTTP response."""
        events = await self._open(request)
        reply: ModelResponse | None = None
        try:
            # Read to the end, not only to the reply: a connection that was not read to its end is not used again.
            while (event := await self._next(events, reply)) is not None:
                end = (
                    _end(event) if getattr(event, "type", None) in FINAL_EVENTS else None
                )  # before the consumer can change the event
                yield event
                reply = self._reply(end) if end is not None else reply
        finally:
            await events.close()
        if reply is None:
            raise stream_failure(self.name, "it ended without a final event")
        yield reply

    async def _open(self, request: ModelRequest) -> AsyncStream[ResponseStreamEvent]:
        client = limit_retries(self._client or await shared_client(), request)
        wanted = responses_parameters(self.name, request)
        try:
            if request.conversation_id is not None:
                return await _open_once(client, wanted)
            events: AsyncStream[ResponseStreamEvent] = await client.responses.create(**wanted, stream=True)
        except TypeError as error:
            raise arguments_failure("OpenAI's client", error) from error
        except Exception as error:
            raise openai_failure(self.name, error) from error
        return events

    async def _next(
        self, events: AsyncStream[ResponseStreamEvent], reply: ModelResponse | None
    ) -> ResponseStreamEvent | None:
        """Return the next event; None at the end, or if the connection breaks after the reply."""
        try:
            return await anext(events, None)
        except Exception as error:
            if reply is not None:
                return None
            raise openai_failure(self.name, error) from error

    def _reply(self, event: Item) -> ModelResponse:
        """Return the reply in a final event, or raise `ModelFailed` if there is none."""
        response = event.get("response") or {}
        if event["type"] == "response.completed":
            return ModelResponse(response.get("output") or [], _usage(response), response.get("id"))
        if event["type"] == "response.incomplete":
            why = (response.get("incomplete_details") or {}).get("reason") or "no reason is given"
            raise ModelFailed(
                f"The model {self.name!r} stopped before its reply was complete ({why}). {INCOMPLETE.get(why, '')}",
                retryable=False,
            )
        error = response.get("error") or event
        raise reported_failure(self.name, error.get("code"), error.get("message"))


async def _open_once(client: AsyncOpenAI, wanted: dict[str, Any]) -> AsyncStream[ResponseStreamEvent]:
    """Ask in a conversation that the API keeps, and ask again only if the API has refused the request.

    The client's own retries would repeat a request whose answer was lost, and the conversation would have it twice.
    """
    from openai import RateLimitError

    once: Any = client.with_options(max_retries=0).responses
    for tries in range(client.max_retries + 1):
        try:
            events: AsyncStream[ResponseStreamEvent] = await once.create(**wanted, stream=True)
            return events
        except RateLimitError:
            if tries == client.max_retries:
                raise
            await asyncio.sleep(PAUSE * 2**tries)
    raise AssertionError


def _end(event: ResponseStreamEvent) -> Item:
    """Return a final event as a dict. Items are sent back later, so fields that the server did not set are left out."""
    return event.to_dict(mode="json", exclude_unset=True, warnings=False)


def responses_parameters(name: str, request: ModelRequest) -> dict[str, Any]:
    """Return the arguments for the client's `responses.create`."""
    settings = request.settings
    include = [*(settings.response_include or ()), *((LOGPROBS,) if settings.top_logprobs is not None else ())]
    wanted: dict[str, Any] = {
        "model": name if request.prompt is None or request.names_model else None,
        "instructions": request.instructions,
        "input": responses_items(request.input),
        "previous_response_id": request.previous_response_id,
        "conversation": request.conversation_id,
        "prompt": request.prompt,
        "text": _text(request.output, settings),
        "tools": [*map(_tool, request.tools), *request.hosted] or None,
        "tool_choice": _choice(settings.tool_choice, request.tools),
        "parallel_tool_calls": settings.parallel_tool_calls if request.tools or request.prompt else None,
        "max_output_tokens": settings.max_tokens,
        "include": list(dict.fromkeys(include)) or None,
        "extra_body": {**_settings_given(settings, settings.SENT_IN_BODY), **(settings.extra_body or {})} or None,
        **_settings_given(settings, SAME),
    }
    said = {key: value for key, value in wanted.items() if value is not None}
    return {**said, **(settings.extra_args or {})}


def _settings_given(settings: ModelSettings, names: tuple[str, ...]) -> dict[str, Any]:
    every = {name: getattr(settings, name) for name in names}
    return {name: value for name, value in every.items() if value is not None}


def _tool(spec: ToolSpec) -> Item:
    if spec.native is not None:
        return {"type": spec.native, **({"environment": {"type": "local"}} if spec.native == "shell" else {})}
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": spec.strict,
    }


def _choice(choice: str | MCPToolChoice | None, tools: Sequence[ToolSpec]) -> str | Item | None:
    if isinstance(choice, MCPToolChoice):
        return {"type": "mcp", "server_label": choice.server_label, "name": choice.name}
    if choice is None or choice in CHOICES:
        return choice
    tool = next((tool for tool in tools if tool.name == choice), None)
    if tool is None and choice in HOSTED_CHOICES:
        return {"type": choice}
    native = tool.native if tool is not None else None
    return {"type": "function", "name": choice} if native is None else {"type": native}


def _text(output: OutputSpec | None, settings: ModelSettings) -> Item | None:
    text: Item = {}
    if output is not None:
        schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
        text["format"] = {"type": "json_schema", **schema}
    if settings.verbosity is not None:
        text["verbosity"] = settings.verbosity
    return text or None


def _usage(response: Item) -> Usage:
    """Return the token usage. A server that is not OpenAI's may leave out some counts."""
    used = response.get("usage") or {}
    cached = (used.get("input_tokens_details") or {}).get("cached_tokens")
    reasoned = (used.get("output_tokens_details") or {}).get("reasoning_tokens")
    counts = (used.get("input_tokens"), used.get("output_tokens"), cached, reasoned)
    return Usage(1, *(count or 0 for count in counts))
