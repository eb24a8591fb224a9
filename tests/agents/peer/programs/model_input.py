"""The input of a model, changed just before it is sent; and a prompt that the provider keeps."""

import asyncio

from agents import Agent, ModelSettings, RunConfig, Runner
from agents.run import CallModelData, ModelInputData


def shorten(data: CallModelData[None]) -> ModelInputData:
    print("asked by", data.agent.name, len(data.model_data.input), data.model_data.instructions)
    return ModelInputData(input=data.model_data.input[-1:], instructions="Be very brief.")


async def main() -> None:
    agent = Agent(name="Guide", instructions="Be brief.")
    history = [{"role": "user", "content": "Hello."}, {"role": "user", "content": "Where is Ghent?"}]
    config = RunConfig(call_model_input_filter=shorten, model_settings=ModelSettings(temperature=0.1))
    print((await Runner.run(agent, history, run_config=config)).final_output)  # type: ignore[arg-type]
    prompted = Agent(name="Prompted", prompt={"id": "pmpt_1", "version": "2", "variables": {"style": "verse"}})
    print((await Runner.run(prompted, "Hello.")).final_output)


asyncio.run(main())
