"""The same agent on three providers: OpenAI, Anthropic, and the model that is embedded. Only the name differs.

    python examples/three_providers.py

Each provider whose key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY) is asked, and so is the embedded model if it is
installed (`assentry models install embedded`). Whoever proposes the refund, the same person approves it.
"""

import importlib.util
import os
from typing import Any

from assentry import Agent, Runner, function_tool


@function_tool(needs_approval=True)
async def refund(order: int, amount: float) -> str:
    """Give money back for an order."""
    return f"refunded {amount:.2f} on order {order}"


def models() -> list[str]:
    """The names of the models that can be asked here."""
    keys = {"OPENAI_API_KEY": "gpt-5.2", "ANTHROPIC_API_KEY": "anthropic/claude-opus-4-5"}
    found = [name for key, name in keys.items() if key in os.environ]
    return [*found, "embedded"] if importlib.util.find_spec("xllamacpp") else found


def main() -> None:
    names = models()
    if not names:
        print(
            "Set OPENAI_API_KEY or ANTHROPIC_API_KEY, or install the embedded model: assentry models install embedded"
        )
    for name in names:
        agent = Agent[Any](name="Clerk", instructions="You handle refunds.", tools=[refund], model=name)
        print(f"{name}:")
        result = Runner.run_sync(agent, "Refund 45 on order 7.")
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                if input(f"  {item.name} {item.arguments}? [y/N] ").strip().lower() in ("y", "yes"):
                    state.approve(item, by="you")
                else:
                    state.reject(item, rejection_message="Not today.", by="you")
            result = Runner.run_sync(agent, state)
        print(f"  {result.final_output}")


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nNothing was refunded.")
