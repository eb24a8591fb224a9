"""One agent, one answer, and what it cost."""

import asyncio

from agents import Agent, Runner


async def main() -> None:
    agent = Agent(name="Poet", instructions="You answer in verse.")
    result = await Runner.run(agent, "Tell me about recursion.")
    print(result.final_output)
    print(result.last_agent.name, len(result.new_items), len(result.raw_responses), result.last_response_id is not None)
    usage = result.context_wrapper.usage
    print(usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens)
    print(usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens)
    for entry in usage.request_usage_entries:
        print("request", entry.input_tokens, entry.output_tokens)


asyncio.run(main())
