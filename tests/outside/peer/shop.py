"""An agent of the OpenAI Agents SDK that pays orders back, with the SDK's own scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agents import Agent, FunctionTool, function_tool
from agents.testing import ModelStep, ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


def refund_call(order: int = 7, amount: int = 50, id: str = "call_1", tool: str = "refund") -> ResponseFunctionToolCall:
    arguments = json.dumps({"order": order, "amount": amount})
    return ResponseFunctionToolCall(id=f"fc_{id}", call_id=id, name=tool, arguments=arguments, type="function_call")


def telling(call: Any) -> list[Any]:
    """Say what the calls of the last turn gave."""
    outputs = [item for item in call.input if item.get("type") == "function_call_output"]
    told = "; ".join(sorted(f"{item['call_id']}: {item['output']}" for item in outputs))
    text = ResponseOutputText(text=told, type="output_text", annotations=[])
    return [ResponseOutputMessage(id="m", role="assistant", status="completed", type="message", content=[text])]


def calling(*calls: ResponseFunctionToolCall) -> ScriptedModel:
    """A model that makes these calls at once, and then says what they gave."""
    return ScriptedModel([list(calls or (refund_call(),)), ModelStep.respond(telling)])


def done() -> ScriptedModel:
    """A model that says what the calls gave; for a run that goes on."""
    return ScriptedModel([ModelStep.respond(telling)])


def refund_tool(body: Callable[[int, int], Any], **options: Any) -> FunctionTool:
    @function_tool(needs_approval=True, **options)
    def refund(order: int, amount: int) -> Any:
        """Pay an order back."""
        return body(order, amount)

    return refund


def shop(model: ScriptedModel, *tools: FunctionTool) -> Agent[Any]:
    return Agent("shop", model=model, tools=list(tools))
