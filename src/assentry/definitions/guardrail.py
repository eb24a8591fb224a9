"""Guardrails: your functions that check inputs and outputs, and may stop the run.

Input and output guardrails belong to an agent or to `RunConfig`; a tool has its own guardrails.
A guardrail only checks. It never approves anything, and can only make a run stricter.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, Literal, overload

from msgspec import Struct
from typing_extensions import TypeVar

from ..core import allowed
from ..core.wording import described
from ..errors import UsageError
from .context import RunContextWrapper, ToolContext

F = TypeVar("F")
G = TypeVar("G")
T = TypeVar("T", default=Any)
"""The type of the context, for annotations such as `InputGuardrail[Shop]`."""


class GuardrailFunctionOutput(Struct, frozen=True):
    """The result of an input or output guardrail function."""

    output_info: Any
    """Any details to keep. They are in the results, and as JSON in the journal."""
    tripwire_triggered: bool = False
    """True if the run must stop here."""

    def __post_init__(self) -> None:
        allowed.check_option(type(self).__name__, "tripwire_triggered", self.tripwire_triggered, allowed.BOOL)


InputCheck = Callable[[RunContextWrapper[Any], Any, Any], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]]
"""A function of context, agent and input: a text, or a list of items."""
OutputCheck = Callable[[RunContextWrapper[Any], Any, Any], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]]


GUARDRAIL_OPTIONS = allowed.Options(guardrail_function=allowed.CALLABLE, name=allowed.NONEMPTY.or_none)


class _Guardrail(Struct, Generic[G], frozen=True):
    guardrail_function: G
    name: str | None = None

    def __post_init__(self) -> None:
        GUARDRAIL_OPTIONS.check(type(self).__name__, self)

    def get_name(self) -> str:
        """Return the guardrail's name, or its function's name if none was given."""
        return self.name or str(getattr(self.guardrail_function, "__name__", type(self.guardrail_function).__name__))

    async def look(self, kind: type[F], *args: Any) -> F:
        """Call the function, and return its result; raise `UsageError` if that is not one of this kind."""
        found = self.guardrail_function(*args)  # type: ignore[operator]
        found = await found if inspect.isawaitable(found) else found
        if not isinstance(found, kind):
            raise UsageError(
                f"The guardrail {self.get_name()!r} must return a {kind.__name__}, and gave {described(found)}."
            )
        return found


class InputGuardrail(_Guardrail[InputCheck], Generic[T], frozen=True):
    """A check of a run's input: a function of context, agent and input. No tool runs before the check has passed."""

    run_in_parallel: bool = True
    """True if the model may be called at the same time; False to call the model only after the check has passed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed.check_option(type(self).__name__, "run_in_parallel", self.run_in_parallel, allowed.BOOL)

    async def run(self, agent: Any, input: str | list[Any], context: RunContextWrapper[T]) -> InputGuardrailResult:
        """Check an input outside of a run, as in a test."""
        return InputGuardrailResult(self, await self.look(GuardrailFunctionOutput, context, agent, input))


class OutputGuardrail(_Guardrail[OutputCheck], Generic[T], frozen=True):
    """A check of a run's final output: a function of context, agent and output."""

    async def run(self, context: RunContextWrapper[T], agent: Any, agent_output: Any) -> OutputGuardrailResult:
        """Check an output outside of a run, as in a test."""
        found = await self.look(GuardrailFunctionOutput, context, agent, agent_output)
        return OutputGuardrailResult(self, agent, agent_output, found)


class InputGuardrailResult(Struct, frozen=True):
    """The result of an input guardrail in a run."""

    guardrail: InputGuardrail
    output: GuardrailFunctionOutput


class OutputGuardrailResult(Struct, frozen=True):
    """The result of an output guardrail in a run."""

    guardrail: OutputGuardrail
    agent: Any
    agent_output: Any
    output: GuardrailFunctionOutput


# -- guardrails of tools ---------------------------------------------------------------------------

Behavior = Literal["allow", "reject_content", "raise_exception"]
BEHAVIOR = allowed.one_of("allow", "reject_content", "raise_exception")


class ToolGuardrailFunctionOutput(Struct, frozen=True):
    """The result of a tool's guardrail function. Make one with `allow`, `reject_content` or `raise_exception`."""

    output_info: Any = None
    behavior: Behavior = "allow"
    message: str | None = None
    """The text that the model gets instead, for "reject_content"."""

    def __post_init__(self) -> None:
        allowed.check_option(type(self).__name__, "behavior", self.behavior, BEHAVIOR)
        if self.behavior == "reject_content":
            allowed.check_option("reject_content", "message", self.message, allowed.instance_of(str, "text"))

    @classmethod
    def allow(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Let the call run, or its output pass."""
        return cls(output_info)

    @classmethod
    def reject_content(cls, message: str, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Stop the call, or hold back its output. The model gets `message` instead, and the journal keeps `message`."""
        return cls(output_info, "reject_content", message)

    @classmethod
    def raise_exception(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Stop the run for good."""
        return cls(output_info, "raise_exception")


class ToolInputGuardrailData(Struct, frozen=True):
    """The argument of a tool's input guardrail function."""

    context: ToolContext[Any]
    """The call's context; `.arguments` are the canonical arguments, as JSON text."""
    agent: Any


class ToolOutputGuardrailData(ToolInputGuardrailData, frozen=True):
    """The argument of a tool's output guardrail function."""

    output: Any
    """The return value of the tool's body."""


ToolInputCheck = Callable[
    [ToolInputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]
ToolOutputCheck = Callable[
    [ToolOutputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]


class ToolInputGuardrail(_Guardrail[ToolInputCheck], Generic[T], frozen=True):
    """A check of a call's arguments, including edited ones, before the tool's body is entered."""

    async def run(self, data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        """Check a call outside of a run, as in a test."""
        return await self.look(ToolGuardrailFunctionOutput, data)


class ToolOutputGuardrail(_Guardrail[ToolOutputCheck], Generic[T], frozen=True):
    """A check of the output of a tool's body, before the model or a person sees the output."""

    async def run(self, data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        """Check an output outside of a run, as in a test."""
        return await self.look(ToolGuardrailFunctionOutput, data)


class ToolInputGuardrailResult(Struct, frozen=True):
    """The result of a tool's input guardrail in a run."""

    guardrail: ToolInputGuardrail
    output: ToolGuardrailFunctionOutput


class ToolOutputGuardrailResult(Struct, frozen=True):
    """The result of a tool's output guardrail in a run."""

    guardrail: ToolOutputGuardrail
    output: ToolGuardrailFunctionOutput


Guardrail = InputGuardrail | OutputGuardrail | ToolInputGuardrail | ToolOutputGuardrail
K = TypeVar("K", bound=Guardrail)


# -- decorators --------------------------------------------------------------------------------------


def _decorate(kind: Callable[..., K], function: Any, *options: Any) -> K | Callable[[Any], K]:
    return kind(function, *options) if function is not None else lambda function: kind(function, *options)


@overload
def input_guardrail(function: InputCheck, /) -> InputGuardrail: ...
@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[InputCheck], InputGuardrail]: ...
def input_guardrail(
    function: InputCheck | None = None, /, *, name: str | None = None, run_in_parallel: bool = True
) -> InputGuardrail | Callable[[InputCheck], InputGuardrail]:
    """Make an input guardrail from a function of context, agent and input. Use it bare or with options."""
    return _decorate(InputGuardrail, function, name, run_in_parallel)


@overload
def output_guardrail(function: OutputCheck, /) -> OutputGuardrail: ...
@overload
def output_guardrail(*, name: str | None = None) -> Callable[[OutputCheck], OutputGuardrail]: ...
def output_guardrail(
    function: OutputCheck | None = None, /, *, name: str | None = None
) -> OutputGuardrail | Callable[[OutputCheck], OutputGuardrail]:
    """Make an output guardrail from a function of context, agent and final output. Use it bare or with options."""
    return _decorate(OutputGuardrail, function, name)


@overload
def tool_input_guardrail(function: ToolInputCheck, /) -> ToolInputGuardrail: ...
@overload
def tool_input_guardrail(*, name: str | None = None) -> Callable[[ToolInputCheck], ToolInputGuardrail]: ...
def tool_input_guardrail(
    function: ToolInputCheck | None = None, /, *, name: str | None = None
) -> ToolInputGuardrail | Callable[[ToolInputCheck], ToolInputGuardrail]:
    """Make a tool's input guardrail from a function of `ToolInputGuardrailData`. Use it bare or with options."""
    return _decorate(ToolInputGuardrail, function, name)


@overload
def tool_output_guardrail(function: ToolOutputCheck, /) -> ToolOutputGuardrail: ...
@overload
def tool_output_guardrail(*, name: str | None = None) -> Callable[[ToolOutputCheck], ToolOutputGuardrail]: ...
def tool_output_guardrail(
    function: ToolOutputCheck | None = None, /, *, name: str | None = None
) -> ToolOutputGuardrail | Callable[[ToolOutputCheck], ToolOutputGuardrail]:
    """Make a tool's output guardrail from a function of `ToolOutputGuardrailData`. Use it bare or with options."""
    return _decorate(ToolOutputGuardrail, function, name)


def guardrails_of(kind: type[Guardrail]) -> allowed.Values:
    """Return the lists of guardrails of one kind, as the values that an option may have."""
    return allowed.list_of(lambda each: isinstance(each, kind), f"a list of {kind.__name__}, made by its decorator")


def guardrails_by_name(guardrails: Iterable[K]) -> dict[str, K]:
    """Return the guardrails by name. A name that occurs again gets a number."""
    out: dict[str, K] = {}
    for each in guardrails:
        name, number = each.get_name(), 1
        while name in out:
            number += 1
            name = f"{each.get_name()}#{number}"
        out[name] = each
    return out
