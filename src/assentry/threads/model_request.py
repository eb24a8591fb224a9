"""The request to the model that `wrap_model_call` gets, and what it gives."""

from __future__ import annotations

from typing import Any, Generic

from msgspec import Struct

from ..core.wording import described
from ..errors import UsageError
from .foreign import langchain_bases
from .interrupts import Command
from .message import AIMessage, Message, SystemMessage
from .middleware_context import C, R, Runtime
from .state import State

FIELDS = (
    "model",
    "messages",
    "system_message",
    "tool_choice",
    "tools",
    "response_format",
    "state",
    "runtime",
    "model_settings",
)


class ModelRequest(Generic[C]):
    """A request to the model. Change the request with `override`, and pass the result to the handler."""

    messages: list[Message]
    """The messages, without the system message."""
    tools: list[Any]
    """The tools that the model is offered."""
    tool_choice: Any
    model_settings: Any
    """Settings that override the agent's own: a dict, or `ModelSettings`."""

    def __init__(
        self,
        *,
        model: Any,
        messages: list[Any],
        system_message: SystemMessage | None = None,
        system_prompt: str | None = None,
        tool_choice: Any = None,
        tools: list[Any] | None = None,
        response_format: Any = None,
        state: State | None = None,
        runtime: Runtime[C] | None = None,
        model_settings: Any = None,
    ) -> None:
        if system_prompt is not None and system_message is not None:
            raise UsageError("A request to the model has a system_prompt or a system_message, not both.")
        self.model = model
        self.messages = messages
        told: Any = system_message if system_prompt is None else system_prompt
        self.system_message: SystemMessage | None = SystemMessage(told) if isinstance(told, str) else told
        self.tool_choice = tool_choice
        self.tools = [] if tools is None else tools
        self.response_format = response_format
        self.state = {"messages": []} if state is None else state
        self.runtime = runtime
        self.model_settings = {} if model_settings is None else model_settings

    def __repr__(self) -> str:
        return f"ModelRequest({len(self.messages)} messages, {len(self.tools)} tools)"

    @property
    def system_prompt(self) -> str | None:
        """The text of the system message."""
        said: Any = self.system_message
        return None if said is None else str(said.text)

    @system_prompt.setter
    def system_prompt(self, text: str | None) -> None:
        self.system_message = None if text is None else SystemMessage(text)

    def override(self, **changes: Any) -> ModelRequest[C]:
        """Return a copy of the request with these fields changed. `system_prompt` sets `system_message`."""
        other = sorted(changes.keys() - {*FIELDS, "system_prompt"})
        if other:
            fields = ", ".join((*FIELDS, "system_prompt"))
            raise UsageError(f"A request to the model has no {other[0]!r} that could be changed; it has {fields}.")
        parts = {name: getattr(self, name) for name in FIELDS}
        if "system_prompt" in changes and "system_message" not in changes:
            del parts["system_message"]
        return type(self)(**{**parts, **changes})


class ModelResponse(Struct, Generic[R]):
    """The result of a model call: the model's message, and the messages that a middleware adds."""

    result: list[Message]
    structured_response: Any = None
    """The structured output, if there is any."""


class ExtendedModelResponse(Struct, Generic[R]):
    """The result of a model call, with a `Command` that updates the state of the thread."""

    model_response: ModelResponse[R]
    command: Command | None = None


ModelCallResult = ModelResponse | AIMessage | ExtendedModelResponse
"""Anything that `wrap_model_call` may give."""


def read_model_result(given: Any) -> tuple[ModelResponse, list[Any]]:
    """Return what `wrap_model_call` gave, in LangChain's classes too, as a response and the commands beside it."""
    commands = []
    if _is(given, ExtendedModelResponse):
        commands = [] if given.command is None else [given.command]
        given = given.model_response
    if isinstance(given, ModelResponse):
        return given, commands
    if _is(given, ModelResponse):
        return ModelResponse(list(given.result), given.structured_response), commands
    if isinstance(given, Message | list):
        return ModelResponse(given if isinstance(given, list) else [given]), commands
    raise UsageError(
        f"wrap_model_call gives what its handler gave, or an AIMessage of assentry.threads; it gave {described(given)}."
    )


def _is(given: Any, kind: type) -> bool:
    """Return True for an instance of a class, or of LangChain's class with the same name."""
    own: type = type(given)
    return isinstance(given, kind) or any(name.endswith(f".{kind.__name__}") for name in langchain_bases(own))
