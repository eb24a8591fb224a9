"""Guardrails on what goes in and what comes out, and the errors that they raise."""

import asyncio

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    TResponseInputItem,
    input_guardrail,
    output_guardrail,
)
from pydantic import BaseModel


class Homework(BaseModel):
    is_homework: bool
    reasoning: str


checker = Agent(name="Checker", instructions="Is it homework?", output_type=Homework)


@input_guardrail(run_in_parallel=False)
async def no_homework(
    context: RunContextWrapper[None], agent: Agent[None], input: str | list[TResponseInputItem]
) -> GuardrailFunctionOutput:
    """Ask another agent."""
    result = await Runner.run(checker, input, context=context.context)
    found = result.final_output_as(Homework)
    return GuardrailFunctionOutput(output_info=found, tripwire_triggered=found.is_homework)


@output_guardrail(name="short")
async def short_only(context: RunContextWrapper[None], agent: Agent[None], output: str) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info={"length": len(output)}, tripwire_triggered="loud" in output)


async def main() -> None:
    tutor = Agent(name="Tutor", instructions="Help.", input_guardrails=[no_homework])
    try:
        await Runner.run(tutor, "Solve 2x = 4.")
    except InputGuardrailTripwireTriggered as error:
        print("input:", error.guardrail_result.guardrail.get_name(), error.guardrail_result.output.output_info)

    speaker = Agent(name="Speaker", instructions="Speak.", output_guardrails=[short_only])
    result = await Runner.run(speaker, "Say it softly.")
    print(result.final_output, [each.output.output_info for each in result.output_guardrail_results])
    try:
        await Runner.run(speaker, "Say it loud.")
    except OutputGuardrailTripwireTriggered as error:
        print("output:", error.guardrail_result.guardrail.get_name(), error.guardrail_result.agent.name)


asyncio.run(main())
