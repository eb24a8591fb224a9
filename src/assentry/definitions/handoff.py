"""Handoffs: calls by which the active agent hands over to another agent.

The order of a turn's handoffs is a rule of the core, and does not belong here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import TypeVar

from ..core import allowed
from ..core.digest import digest
from ..core.facts import CallKind
from ..core.transcript import Item
from ..errors import InvalidDefinition
from ..schema.parameters import NONE, Parameters
from ..schema.typed import parameters
from .agent_tool import AgentBase
from .context import RunContextWrapper, ToolContext
from .item import RunItem
from .tool import Approver, Enabled, Rule, Tool

T = TypeVar("T", default=Any)
A = TypeVar("A", bound=AgentBase, default=Any)
"""The types of the context and of the agent, for annotations."""

AN_AGENT = allowed.instance_of(AgentBase, "an Agent")


class HandoffInputData(Struct, frozen=True):
    """The conversation for the next agent, which `handoff(input_filter=...)` may change."""

    input_history: str | tuple[Item, ...]
    """The run's input."""
    pre_handoff_items: tuple[RunItem, ...]
    """The items that the run generated before the turn with the handoff."""
    new_items: tuple[RunItem, ...]
    """The items that the run generated in the turn with the handoff, including the handoff and its output."""
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[RunItem, ...] | None = None
    """The items of this turn that the next agent gets; None for all of `new_items`."""

    def clone(self, **changes: Any) -> HandoffInputData:
        """Return a copy with these fields changed."""
        return replace(self, **changes)


InputFilter = Callable[[HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]]
OnHandoff = Callable[..., Any]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Handoff(Tool, Generic[T, A]):
    """A handoff to another agent, as a tool that the model can call. Make one with `handoff`."""

    agent: A
    on_handoff: OnHandoff | None = None
    input_filter: InputFilter | None = None
    input: Parameters | None = None
    kind: CallKind = "handoff"

    def __post_init__(self) -> None:
        super().__post_init__()
        # An approval covers the target agent, so its name is part of the fingerprint.
        object.__setattr__(self, "fingerprint", digest({"tool": self.fingerprint, "agent": self.agent.name})[:32])

    @property
    def agent_name(self) -> str:
        """The name of the agent that takes over."""
        return self.agent.name

    @property
    def leads_to(self) -> str:
        """The name of the agent that takes over."""
        return self.agent.name

    @property
    def shape(self) -> dict[str, Any] | None:
        """The schema with all its defaults, if there is an `input_type`."""
        return None if self.input is None else self.input.loose

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in. Nothing is coerced."""
        return (self.input or NONE).canonical(args)

    def bind(self, args: dict[str, Any]) -> Any:
        """Return the arguments in the form that `on_handoff` takes, or raise `InvalidArguments`."""
        return (self.input or NONE).bind(args)

    def filter_for(self, settings: Any) -> InputFilter | None:
        """Return the filter that applies with these settings of the run; None if none applies."""
        own: InputFilter | None = self.input_filter or settings.handoff_input_filter
        return own

    async def enter(self, ctx: ToolContext[Any], bound: Any) -> Any:
        """Call `on_handoff`, if there is one. Only the door may use this method."""
        if self.on_handoff is not None:
            done = self.on_handoff(ctx) if self.input is None else self.on_handoff(ctx, bound)
            if inspect.isawaitable(done):
                await done


@allowed.names_options("handoff")
def handoff(
    agent: AgentBase,
    *,
    tool_name_override: str | None = None,
    tool_description_override: str | None = None,
    on_handoff: OnHandoff | None = None,
    input_type: Any = None,
    input_filter: InputFilter | None = None,
    is_enabled: Enabled = True,
    needs_approval: Rule = False,
    on_approval: Approver | None = None,
) -> Handoff:
    """Make a handoff to an agent, for `Agent(handoffs=[...])`.

    Args:
        agent: The agent that takes over.
        tool_name_override: The tool's name. The default is `transfer_to_` and the agent's name.
        tool_description_override: The tool's description for the model.
        on_handoff: A callback for when the handoff is taken. It receives the context and, if there is an
            `input_type`, the model's arguments.
        input_type: The type of the model's arguments: a pydantic model, a dataclass, a TypedDict.
        input_filter: A function that changes the conversation so far for the next agent.
        is_enabled: True if the model is offered the handoff, or a function of context and agent.
        needs_approval: True if a person must approve the handoff, or a function as for tools.
        on_approval: Code that decides in the person's place.
    """
    allowed.check_option("handoff", "agent", agent, AN_AGENT)
    name = tool_name_override or f"transfer_to_{re.sub(r'[^a-z0-9_]', '_', agent.name.lower())}"
    for option, value in (("on_handoff", on_handoff), ("input_filter", input_filter)):
        allowed.check_option(f"Handoff {name!r}", option, value, allowed.CALLABLE.or_none)
    if input_type is not None and on_handoff is None:
        raise InvalidDefinition(f"Handoff {name!r}: input_type is for on_handoff; give one, or leave it out.")
    if on_handoff is not None and not accepts(on_handoff, 1 if input_type is None else 2):
        given = "the context" if input_type is None else "the context and the model's arguments"
        raise InvalidDefinition(f"Handoff {name!r}: on_handoff must accept {given}.")
    shape = parameters(name, input_type) if input_type is not None else None
    default = f"Hand over to the agent {agent.name}. {agent.handoff_description or ''}".strip()
    return Handoff(
        name=name,
        description=tool_description_override or default,
        params_json_schema=(shape or NONE).json_schema,
        required=(shape or NONE).required,
        defaults=(shape or NONE).defaults,
        needs_approval=needs_approval,
        on_approval=on_approval,
        is_enabled=is_enabled,
        failure_error_function=None,
        agent=agent,
        on_handoff=on_handoff,
        input_filter=input_filter,
        input=shape,
    )


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Return True if the function can be called with `count` arguments, or if its signature is unknown."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # no signature is known
        return True
    return True
