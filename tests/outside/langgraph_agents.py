"""Agents of LangChain that follow a script, and a tool that refunds: for the tests of graphs that ask."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.threads.chat_model import ScriptedChat

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "t1"}}
GO = {"messages": [("user", "Refund them.")]}


def calls(*args: dict[str, Any], text: str = "I refund.", name: str = "refund") -> AIMessage:
    """A reply with a call of a tool for each of these arguments; their ids are call_0, call_1, ..."""
    made = [{"name": name, "args": each, "id": f"call_{n}"} for n, each in enumerate(args)]
    return AIMessage(text, tool_calls=made)


class Refunds:
    """The tool, and what its body was entered with."""

    def __init__(self, error: str | None = None) -> None:
        self.paid: list[tuple[int, int]] = []

        @tool
        def refund(order: int, amount: int = 5) -> str:
            """Pay an order back."""
            self.paid.append((order, amount))
            if error is not None:
                raise RuntimeError(error)
            return f"paid {amount}"

        self.tool: BaseTool = refund


def agent(*steps: Any, tools: list[Any], middleware: list[Any], checkpointer: Any = None) -> Any:
    """An agent with a script, which keeps its threads in memory."""
    return create_agent(
        ScriptedChat(steps=list(steps)), tools, middleware=middleware, checkpointer=checkpointer or InMemorySaver()
    )


def results(state: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The text and the status of each tool's result in a thread, by call."""
    found = [each for each in state["messages"] if isinstance(each, ToolMessage)]
    return {each.tool_call_id: (str(each.content), each.status) for each in found}
