"""The agent that `create_agent` makes: an ordinary agent that knows the state of its threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..definitions.agent import Agent
from .interrupts import PREFIX
from .message import Message, SystemMessage
from .state import EMPTY, State, StateSchema
from .view import StateView


@dataclass(eq=False, repr=False)
class ThreadedAgent(Agent[Any]):
    """An agent with threads. Its questions keep its own prefix, even as a tool of another agent."""

    description_prefix: str = PREFIX
    state_schema: StateSchema = EMPTY
    """The keys of the thread's state beside its messages."""
    system_message: SystemMessage | None = None
    """The instructions as they were given, if they were a message with content blocks."""
    speaks_langchain: bool = False
    """True if messages are shown in LangChain's classes: the agent was given an object of LangChain."""

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
