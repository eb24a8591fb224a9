"""The human-in-the-loop middleware: the calls that need a person's decision.

The middleware has no hooks. Each tool that it names is replaced by a copy with an approval rule, the allowed decisions
and a description. The gate judges by these for every call, and they are part of what a person approves.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NotRequired, TypedDict

from ..core import allowed
from ..core.facts import Verdict
from ..definitions.context import RunContextWrapper
from ..definitions.tool import Tool, qualified_name
from ..errors import InvalidDefinition
from .interrupts import PREFIX
from .message import tool_call
from .middleware import AgentMiddleware
from .middleware_context import ToolCallRequest, runtime_in, state_in

DECISIONS: tuple[Verdict, ...] = ("approve", "edit", "reject", "respond")
DEFAULT: tuple[Verdict, ...] = ("approve", "edit", "reject")
TOOLS = allowed.list_of(allowed.NONEMPTY.fits, "names of tools")
SETTING = allowed.instance_of(Mapping, 'True, False or {"allowed_decisions": [...]}')
INTERRUPT_OPTIONS = allowed.Options(
    allowed_decisions=allowed.Values(
        f"a list of one or more of {', '.join(DECISIONS)}",
        lambda given: isinstance(given, list | tuple) and given and set(map(str, given)) <= set(DECISIONS),
    ),
    description=allowed.TEXT_OR_CALLABLE.or_none,
    when=allowed.CALLABLE.or_none,
)


class InterruptOnConfig(TypedDict):
    """The options for asking a person about a tool's calls."""

    allowed_decisions: list[Verdict]
    """The allowed decisions: `approve`, `edit`, `reject`, `respond`."""
    description: NotRequired[str | Callable[[dict[str, Any], dict[str, Any], Any], str]]
    """The text that the person reads, or a function of `(tool_call, state, runtime)` that returns the text."""
    when: NotRequired[Callable[[ToolCallRequest], bool]]
    """A function that returns True if a call needs a person; called once, when the call is made."""


class HumanInTheLoopMiddleware(AgentMiddleware):
    """A middleware that lets a person decide on calls of these tools before any call of the turn runs.

    Args:
        interrupt_on: A dict from tool names, or patterns such as `"delete_*"`, to `True` (approve, edit or reject),
            `False` (no question from this middleware; the tool's own rule still applies), or an `InterruptOnConfig`.
            A name is preferred to a pattern, and a pattern to a later pattern.
        description_prefix: The beginning of the default description of a call.
    """

    def __init__(
        self, interrupt_on: Mapping[str, bool | InterruptOnConfig], *, description_prefix: str = PREFIX
    ) -> None:
        whose = type(self).__name__
        allowed.check_option(whose, "interrupt_on", interrupt_on, allowed.instance_of(Mapping, "a dict by tool names"))
        allowed.check_option(whose, "the keys of interrupt_on", list(interrupt_on), TOOLS)
        allowed.check_option(whose, "description_prefix", description_prefix, allowed.TEXT)
        self.interrupt_on = {name: _config(name, given) for name, given in interrupt_on.items()}
        self.description_prefix = description_prefix

    def apply(self, tools: Sequence[Tool]) -> list[Tool]:
        """Return the tools; those named in `interrupt_on` are copies with the rule, decisions and description."""
        names = [tool.name for tool in tools]
        for pattern in self.interrupt_on:
            if pattern not in names and not any(fnmatchcase(name, pattern) for name in names):
                there = ", ".join(names) or "none"
                raise InvalidDefinition(f"interrupt_on names {pattern!r}, which no tool is called; there are: {there}.")
        return [self._apply_to(tool) for tool in tools]

    def _apply_to(self, tool: Tool) -> Tool:
        config = self._config(tool.name)
        if config is None:
            return tool
        if tool.kind == "hosted":
            raise InvalidDefinition(
                f"interrupt_on names {tool.name!r}, which the provider runs: this middleware cannot ask about it. Give "
                f"an MCP server require_approval in its tool_config, and say {{{tool.name!r}: False}} here."
            )
        when, text = config.get("when"), config.get("description")
        return replace(
            tool,
            needs_approval=True if when is None or tool.needs_approval is True else When(tool, when),
            allowed=tuple(config["allowed_decisions"]),
            describe=None if text is None else Described(tool, text),
        )

    def _config(self, name: str) -> InterruptOnConfig | None:
        if name in self.interrupt_on:
            return self.interrupt_on[name]
        return next((config for pattern, config in self.interrupt_on.items() if fnmatchcase(name, pattern)), None)


def _config(name: str, given: Any) -> InterruptOnConfig | None:
    """Return the checked options for a tool; None if its calls need no person."""
    if given is False:
        return None
    if given is True:
        return {"allowed_decisions": list(DEFAULT)}
    allowed.check_option("HumanInTheLoopMiddleware", f"interrupt_on[{name!r}]", given, SETTING)
    INTERRUPT_OPTIONS.check_items(
        f"HumanInTheLoopMiddleware: interrupt_on[{name!r}]", {"allowed_decisions": None, **given}
    )
    made: Any = {**given, "allowed_decisions": list(dict.fromkeys(given["allowed_decisions"]))}
    return made  # type: ignore[no-any-return]


class When:
    """A `when` function as the approval rule of a tool; the tool's own rule is called first."""

    def __init__(self, tool: Tool, when: Callable[[ToolCallRequest], Any]) -> None:
        self.tool, self.when = tool, when
        self.__qualname__ = qualified_name(when)
        self.version = getattr(when, "version", None)

    async def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> Any:
        own = self.tool.needs_approval
        verdict = await _await_verdict(own(ctx, args, call_id)) if callable(own) else False
        if verdict is not False:
            return verdict
        call, state = tool_call(self.tool.name, args, call_id), functools.partial(state_in, ctx)
        return await _await_verdict(self.when(ToolCallRequest(call, self.tool, state, runtime_in(ctx))))


async def _await_verdict(verdict: Any) -> Any:
    return await verdict if inspect.isawaitable(verdict) else verdict


class Described:
    """A `description` option in the form that the gate calls."""

    def __init__(self, tool: Tool, text: Any) -> None:
        self.tool, self.text = tool, text
        self.__qualname__ = qualified_name(text) if callable(text) else "text"
        self.version = getattr(text, "version", None) if callable(text) else None

    def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> Any:
        if not callable(self.text):
            return self.text
        return self.text(tool_call(self.tool.name, args, call_id), state_in(ctx), runtime_in(ctx))
