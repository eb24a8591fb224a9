"""Settings of a model: the agent's, the run's on top of them, and the client's own objects in them."""

import asyncio

from agents import Agent, ModelSettings, RunConfig, Runner, function_tool
from openai.types.shared import Reasoning


@function_tool
def one(name: str) -> str:
    """Do one thing."""
    return "one"


async def main() -> None:
    settings = ModelSettings(
        temperature=0.2,
        top_p=0.9,
        max_tokens=500,
        parallel_tool_calls=False,
        truncation="auto",
        reasoning=Reasoning(effort="low", summary="auto"),
        verbosity="high",
        metadata={"team": "blue"},
        store=True,
        response_include=["reasoning.encrypted_content"],
        extra_body={"safety_identifier": "somebody"},
    )
    agent = Agent(name="Tuned", instructions="Tune.", model="gpt-5.6", model_settings=settings, tools=[one])
    result = await Runner.run(agent, "Go.")
    print(result.final_output, [item.type for item in result.new_items])
    config = RunConfig(model="gpt-5.6-sol", model_settings=ModelSettings(temperature=0.7, tool_choice="one"))
    print((await Runner.run(agent, "Again.", run_config=config)).final_output)
    both = settings.resolve(ModelSettings(temperature=0.5, extra_args={"user": "ann"}))
    print(both.temperature, both.top_p, both.extra_args)


asyncio.run(main())
