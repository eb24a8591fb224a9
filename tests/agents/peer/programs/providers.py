"""A provider of one's own, and the settings for all runs."""

import asyncio
import os

from agents import (
    Agent,
    Model,
    ModelProvider,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    set_default_openai_api,
    set_default_openai_client,
    set_default_openai_key,
)
from openai import AsyncOpenAI

client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="other")


class Other(ModelProvider):
    def get_model(self, model_name: str | None) -> Model:
        return OpenAIChatCompletionsModel(model=model_name or "unnamed", openai_client=client)


async def main() -> None:
    agent = Agent(name="One", instructions="Be brief.")
    print((await Runner.run(agent, "Hello.", run_config=RunConfig(model_provider=Other()))).final_output)
    set_default_openai_key("another", use_for_tracing=False)
    set_default_openai_client(client, use_for_tracing=False)
    print((await Runner.run(agent, "Hello again.")).final_output)
    set_default_openai_api("chat_completions")
    print((await Runner.run(agent, "And again.")).final_output)


asyncio.run(main())
