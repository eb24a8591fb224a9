"""Guardrails around a tool's call: what it is called with, and what it returns."""

import asyncio
import json

from agents import (
    Agent,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)


@tool_input_guardrail
def no_secrets(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    arguments = json.loads(data.context.tool_arguments)
    print("called with", data.context.tool_name, arguments, data.agent.name)
    if "Tokyo" in arguments.values():
        return ToolGuardrailFunctionOutput.reject_content(message="Not to Tokyo.", output_info={"blocked": True})
    return ToolGuardrailFunctionOutput.allow(output_info="fine")


@tool_output_guardrail
def no_numbers(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    if "7" in str(data.output):
        return ToolGuardrailFunctionOutput.reject_content("A number was removed.")
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[no_secrets])
def fly(city: str) -> str:
    """Fly somewhere."""
    return f"flew to {city}"


@function_tool(tool_output_guardrails=[no_numbers])
def number() -> str:
    """Say a number."""
    return "7"


async def main() -> None:
    agent = Agent(name="Pilot", instructions="Fly.", tools=[fly, number])
    result = await Runner.run(agent, "Off we go.")
    print(result.final_output)
    print([each.output.behavior["type"] for each in result.tool_input_guardrail_results])
    print([each.output.behavior["type"] for each in result.tool_output_guardrail_results])


asyncio.run(main())
