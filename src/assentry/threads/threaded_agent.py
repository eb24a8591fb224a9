"""The agent that `create_agent` makes: an ordinary agent that knows the state of its threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.facts import Release
from ..definitions.agent import Agent, toolbox_of
from ..definitions.tool import Tool
from ..errors import UsageError
from .interrupts import PREFIX
from .message import Message, SystemMessage
from .review import EDIT_NOTICE, GIVEN_UP, SET_ASIDE, InterruptMode, edit_notice_text, rejection_text
from .state import EMPTY, State, StateSchema
from .view import StateView


@dataclass(eq=False, repr=False)
class ThreadedAgent(Agent[Any]):
    """An agent with threads.

    Its questions keep its own prefix, and its calls its own words and mode, even as a tool of another agent.
    """

    description_prefix: str = PREFIX
    edit_notice: str | None = EDIT_NOTICE
    interrupt_mode: InterruptMode | None = None
    """The mode of the agent's own middleware; None if it has none."""
    state_schema: StateSchema = EMPTY
    """The keys of the thread's state beside its messages."""
    system_message: SystemMessage | None = None
    """The instructions as they were given, if they were a message with content blocks."""
    names_messages: bool = False
    """True if the model's messages have the agent's name: the program has named the agent."""
    speaks_langchain: bool = False
    """True if messages are shown in LangChain's classes: the agent was given an object of LangChain."""

    memory: Any = None
    """The store across threads that tools and hooks get; `create_agent(store=...)`."""

    direct: frozenset[str] = frozenset()
    """The tools whose output ends the run, if all calls of the turn are theirs."""

    ending: frozenset[str] = frozenset()
    """The tools with which the model gives the final output: one such call ends the run."""

    make_tool: Callable[[Any], Tool] | None = None
    """Makes a tool of the agent from what a middleware offers at run time, with the same rules and hooks."""
    added: dict[str, tuple[Any, Tool]] = field(default_factory=dict)
    """The tools that middleware offered at run time, by name, each after the object that it was made from."""

    def add_tool(self, given: Any) -> Tool:
        """Return what a middleware offers at run time as a tool of the agent, which is offered only there.

        A name stands for one object: a call that was approved must not run another.
        """
        known = next((tool for one, tool in self.added.values() if one is given or tool is given), None)
        if known is not None:
            return known
        if self.make_tool is None:
            raise UsageError(f"The agent {self.name!r} takes no tools at run time.")
        made = replace(self.make_tool(given), is_enabled=False)
        if made.name in toolbox_of(self).tools:
            raise UsageError(
                f"A middleware offers a tool named {made.name!r}, and another one of this name was there before. Offer "
                "the same object each time; what differs between calls, it can take from runtime: ToolRuntime."
            )
        self.added[made.name] = given, made
        self.tools = [*self.tools, made]
        if getattr(made, "return_direct", False):
            self.direct |= {made.name}
            self.tool_use_behavior = {"stop_at_tool_names": [*self.ending, *self.direct]}
        return made

    def may_end_after(self, tools: Collection[str]) -> bool:
        """Return True if a call of a turn gives the output, or all are of tools whose output ends the run."""
        return not self.ending.isdisjoint(tools) or self.direct.issuperset(tools)

    def rejection_text(self, tool: str, call_id: str, message: str | None) -> str | None:
        """Return the text that tells the model of a rejection; None if the user said something else instead."""
        if message and message.startswith((SET_ASIDE, GIVEN_UP)):
            return None
        return rejection_text(tool, call_id, message)

    def edit_notice_text(self, ran: Sequence[tuple[str, dict[str, Any]]]) -> str | None:
        """Return the words that tell the model what ran after an edit."""
        return edit_notice_text(self.edit_notice, ran)

    @property
    def nested_release(self) -> Release | None:
        """The release of approved calls that fits the mode; None if the agent has no such middleware."""
        if self.interrupt_mode is None:
            return None
        return "each" if self.interrupt_mode == "per_call" else "batch"

    def show_messages(self, messages: Iterable[Message]) -> list[Any]:
        """Return messages in the classes that the program uses."""
        if not self.speaks_langchain:
            return list(messages)
        from .langchain.message import to_langchain

        return [to_langchain(each) for each in messages]

    def show_state(self, view: StateView) -> State:
        """Return the state of a thread for the program's code."""
        state = view.state(self.state_schema)
        return {**state, "messages": self.show_messages(state["messages"])}


def shown_state(agent: Agent[Any], view: StateView) -> State:
    """Return the state of a thread as the code of this agent sees it."""
    return agent.show_state(view) if isinstance(agent, ThreadedAgent) else view.state()
