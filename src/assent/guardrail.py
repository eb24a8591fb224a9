"""Guardrails: functions of yours that look at what goes in and what comes out, and may stop the run.

Input and output guardrails belong to an agent or to `RunConfig`; a tool has guardrails of its own.
A guardrail looks and says; it decides nothing about approval and can only make a run stricter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, Literal, overload

from msgspec import Struct
from typing_extensions import TypeVar

from .context import RunContextWrapper, ToolContext
from .core.digest import described, holds
from .core.transcript import Item
from .errors import InvalidDefinition

G = TypeVar("G")
T = TypeVar("T", default=Any)
"""The type of the context, for annotations such as `InputGuardrail[Shop]`."""


class GuardrailFunctionOutput(Struct, frozen=True):
    """What an input or output guardrail found."""

    output_info: Any
    """Anything you want to keep of it; it is in the results, and as JSON in the journal."""
    tripwire_triggered: bool = False
    """Whether the run must stop here."""

    def __post_init__(self) -> None:
        if type(self.tripwire_triggered) is not bool:
            raise InvalidDefinition(f"tripwire_triggered is True or False, got {described(self.tripwire_triggered)}.")


InputCheck = Callable[
    [RunContextWrapper[Any], Any, str | list[Item]], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]
]
OutputCheck = Callable[[RunContextWrapper[Any], Any, Any], GuardrailFunctionOutput | Awaitable[GuardrailFunctionOutput]]


class _Guardrail(Struct, Generic[G], frozen=True):
    guardrail_function: G
    name: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.guardrail_function):
            raise InvalidDefinition(f"A guardrail is a function, got {self.guardrail_function!r:.80}.")
        if self.name is not None and not (type(self.name) is str and self.name and holds(self.name)):
            raise InvalidDefinition(f"A guardrail's name is text, got {self.name!r:.80}.")

    def get_name(self) -> str:
        """The guardrail's name: the one it was given, or its function's."""
        return self.name or str(getattr(self.guardrail_function, "__name__", type(self.guardrail_function).__name__))


class InputGuardrail(_Guardrail[InputCheck], Generic[T], frozen=True):
    """Looks at a run's input: a function of context, agent and input. No tool runs before it is in."""

    run_in_parallel: bool = True
    """Whether the model may be asked meanwhile; False asks it only when this guardrail is in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.run_in_parallel) is not bool:
            raise InvalidDefinition(
                f"A guardrail's run_in_parallel is True or False, got {self.run_in_parallel!r:.80}."
            )


class OutputGuardrail(_Guardrail[OutputCheck], Generic[T], frozen=True):
    """Looks at a run's final output: a function of context, agent and output."""


class InputGuardrailResult(Struct, frozen=True):
    """What an input guardrail found in a run."""

    guardrail: InputGuardrail
    output: GuardrailFunctionOutput


class OutputGuardrailResult(Struct, frozen=True):
    """What an output guardrail found in a run."""

    guardrail: OutputGuardrail
    agent: Any
    agent_output: Any
    output: GuardrailFunctionOutput


# -- of tools --------------------------------------------------------------------------------------

Behavior = Literal["allow", "reject_content", "raise_exception"]


class ToolGuardrailFunctionOutput(Struct, frozen=True):
    """What a tool's guardrail found. Make it with `allow`, `reject_content` or `raise_exception`."""

    output_info: Any = None
    behavior: Behavior = "allow"
    message: str | None = None
    """What the model is told, for "reject_content"."""

    def __post_init__(self) -> None:
        if self.behavior not in ("allow", "reject_content", "raise_exception"):
            raise InvalidDefinition(f"A tool guardrail cannot {self.behavior!r:.80}; see ToolGuardrailFunctionOutput.")
        if self.behavior == "reject_content" and type(self.message) is not str:
            raise InvalidDefinition(f"reject_content needs the text that the model is told, got {self.message!r:.80}.")

    @classmethod
    def allow(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """Nothing is wrong."""
        return cls(output_info)

    @classmethod
    def reject_content(cls, message: str, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """The call does not run, or its output is held back: this is told instead, and kept instead."""
        return cls(output_info, "reject_content", message)

    @classmethod
    def raise_exception(cls, output_info: Any = None) -> ToolGuardrailFunctionOutput:
        """The run stops here for good."""
        return cls(output_info, "raise_exception")


class ToolInputGuardrailData(Struct, frozen=True):
    """What a tool's input guardrail is told."""

    context: ToolContext[Any]
    """The call's context; `.arguments` are the canonical arguments, as JSON text."""
    agent: Any


class ToolOutputGuardrailData(ToolInputGuardrailData, frozen=True):
    """What a tool's output guardrail is told."""

    output: Any
    """What the tool's body returned."""


ToolInputCheck = Callable[
    [ToolInputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]
ToolOutputCheck = Callable[
    [ToolOutputGuardrailData], ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
]


class ToolInputGuardrail(_Guardrail[ToolInputCheck], Generic[T], frozen=True):
    """Looks at a call's arguments before its body is entered, edited ones too."""


class ToolOutputGuardrail(_Guardrail[ToolOutputCheck], Generic[T], frozen=True):
    """Looks at what a tool's body gave before anyone else does."""


class ToolInputGuardrailResult(Struct, frozen=True):
    """What a tool's input guardrail found in a run."""

    guardrail: ToolInputGuardrail
    output: ToolGuardrailFunctionOutput


class ToolOutputGuardrailResult(Struct, frozen=True):
    """What a tool's output guardrail found in a run."""

    guardrail: ToolOutputGuardrail
    output: ToolGuardrailFunctionOutput


# -- decorators --------------------------------------------------------------------------------------


@overload
def input_guardrail(function: InputCheck, /) -> InputGuardrail: ...
@overload
def input_guardrail(
    *, name: str | None = None, run_in_parallel: bool = True
) -> Callable[[InputCheck], InputGuardrail]: ...
def input_guardrail(
    function: InputCheck | None = None, /, *, name: str | None = None, run_in_parallel: bool = True
) -> InputGuardrail | Callable[[InputCheck], InputGuardrail]:
    """Make an input guardrail of a function of context, agent and input; bare, or with options."""

    def make(function: InputCheck) -> InputGuardrail:
        return InputGuardrail(function, name, run_in_parallel)

    return make if function is None else make(function)


@overload
def output_guardrail(function: OutputCheck, /) -> OutputGuardrail: ...
@overload
def output_guardrail(*, name: str | None = None) -> Callable[[OutputCheck], OutputGuardrail]: ...
def output_guardrail(
    function: OutputCheck | None = None, /, *, name: str | None = None
) -> OutputGuardrail | Callable[[OutputCheck], OutputGuardrail]:
    """Make an output guardrail of a function of context, agent and final output; bare, or with options."""

    def make(function: OutputCheck) -> OutputGuardrail:
        return OutputGuardrail(function, name)

    return make if function is None else make(function)


@overload
def tool_input_guardrail(function: ToolInputCheck, /) -> ToolInputGuardrail: ...
@overload
def tool_input_guardrail(*, name: str | None = None) -> Callable[[ToolInputCheck], ToolInputGuardrail]: ...
def tool_input_guardrail(
    function: ToolInputCheck | None = None, /, *, name: str | None = None
) -> ToolInputGuardrail | Callable[[ToolInputCheck], ToolInputGuardrail]:
    """Make a tool's input guardrail of a function of `ToolInputGuardrailData`; bare, or with options."""

    def make(function: ToolInputCheck) -> ToolInputGuardrail:
        return ToolInputGuardrail(function, name)

    return make if function is None else make(function)


@overload
def tool_output_guardrail(function: ToolOutputCheck, /) -> ToolOutputGuardrail: ...
@overload
def tool_output_guardrail(*, name: str | None = None) -> Callable[[ToolOutputCheck], ToolOutputGuardrail]: ...
def tool_output_guardrail(
    function: ToolOutputCheck | None = None, /, *, name: str | None = None
) -> ToolOutputGuardrail | Callable[[ToolOutputCheck], ToolOutputGuardrail]:
    """Make a tool's output guardrail of a function of `ToolOutputGuardrailData`; bare, or with options."""

    def make(function: ToolOutputCheck) -> ToolOutputGuardrail:
        return ToolOutputGuardrail(function, name)

    return make if function is None else make(function)


Guardrail = InputGuardrail | OutputGuardrail | ToolInputGuardrail | ToolOutputGuardrail
K = TypeVar("K", bound=Guardrail)


def checked(whose: str, option: str, kind: type[K], given: Any) -> list[K]:
    """The guardrails as a list, each of the kind that belongs there."""
    found = list(given) if isinstance(given, list | tuple) else None
    for each in [given] if found is None else found:
        if found is None or not isinstance(each, kind):
            raise InvalidDefinition(
                f"{whose}: {option} is a list of {kind.__name__}, made by the decorator of that name; got {each!r:.80}."
            )
    return found or []


def named(guardrails: Iterable[K]) -> dict[str, K]:
    """The guardrails by name; of those with one name, the later ones are numbered."""
    out: dict[str, K] = {}
    for each in guardrails:
        name, number = each.get_name(), 1
        while name in out:
            number += 1
            name = f"{each.get_name()}#{number}"
        out[name] = each
    return out
