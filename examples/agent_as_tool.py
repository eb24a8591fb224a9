"""An agent that is a tool of another, with approval at both layers.

    python examples/agent_as_tool.py

A chef plans a dinner and has a buyer do the shopping. Sending the buyer needs you, and so does each thing that the
buyer would pay for; looking at prices needs nobody. Whoever asks, you decide at one place, on the outer run, and the
buyer goes on where it stopped. Say no to the truffle, and see what the two of them make of it.
"""

from typing import Any

from assentry import Agent, ModelRequest, Runner, ToolApprovalItem, function_tool
from assentry.testing import ScriptedModel, call

PRICES = {"eggs": 3.20, "truffle": 180.00}


@function_tool
async def price(article: str) -> str:
    """Look up a price."""
    return f"{PRICES[article]:.2f}"


@function_tool(needs_approval=True)
async def buy(article: str, amount: float) -> str:
    """Buy something."""
    print(f"... buying {article} for {amount:.2f}")
    return f"Bought {article} for {amount:.2f}."


def shop(request: ModelRequest) -> Any:
    """In place of the buyer's model: looks at the prices, buys, and says what became of it."""
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    if not outputs:
        return [call("price", {"article": article}) for article in PRICES]
    if len(outputs) == len(PRICES):
        prices = zip(PRICES, map(float, outputs), strict=True)
        return [call("buy", {"article": article, "amount": amount}) for article, amount in prices]
    return " ".join(outputs[len(PRICES) :])


def cook(request: ModelRequest) -> Any:
    """In place of the chef's model: sends the buyer, and plans with what comes back."""
    said = request.input[-1]
    if said.get("type") != "function_call_output":
        return ["I need a few things first.", call("send_buyer", {"input": "Eggs and a truffle for four, please."})]
    return f"I was told: {said['output']} Dinner is at eight."


buyer = Agent[Any](name="Buyer", tools=[price, buy], model=ScriptedModel([shop] * 3))
send_buyer = buyer.as_tool("send_buyer", "Have somebody go shopping.", needs_approval=True)
chef = Agent[Any](name="Chef", tools=[send_buyer], model=ScriptedModel([cook] * 2))


def approved(item: ToolApprovalItem) -> bool:
    """Ask at the prompt; what an inner agent asks stands further to the right."""
    indent = "  " * len(item.path)
    return input(f"{indent}{item.agent_name}: {item.name} {item.arguments}? [y/N] ").strip().lower() in ("y", "yes")


def main() -> None:
    result = Runner.run_sync(chef, "Dinner for four, please.")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            if approved(item):
                state.approve(item, by="you")
            else:
                state.reject(item, by="you")
        result = Runner.run_sync(chef, state)
    print(result.final_output)


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print("\nYou left the kitchen, so nothing more is bought.")
