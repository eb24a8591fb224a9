"""A hosted MCP server, which the provider calls: with a person, with a callback, and with nobody.

    python examples/hosted_mcp.py person
    python examples/hosted_mcp.py callback
    python examples/hosted_mcp.py never

With OPENAI_API_KEY set, the server is a real one (DeepWiki) and the model is OpenAI's. Without, a script plays both. In
the third case the provider asks nobody: what it runs then is outside of Assentry's door.
"""

import os
import sys
from typing import Any

from assentry import Agent, HostedMCPTool, MCPToolApprovalRequest, Runner
from assentry.testing import ScriptedModel

QUESTION = "Which language is the repository openai/openai-python written in? Ask DeepWiki."


def decide(request: MCPToolApprovalRequest) -> dict[str, Any]:
    """Approve what only asks."""
    print(f"  [the callback sees] {request.data.name} {request.data.arguments}")
    return {"approve": request.data.name == "ask_question", "reason": "Only questions are asked here."}


def played(how: str) -> ScriptedModel:
    """In place of the provider: it asks to call the server, unless it need not ask."""
    wish = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "deepwiki",
        "name": "ask_question",
        "arguments": '{"repoName": "openai/openai-python"}',
    }
    return ScriptedModel(["It is Python."] if how == "never" else [[wish], "It is Python."])


def main(how: str) -> None:
    server = HostedMCPTool(
        tool_config={
            "type": "mcp",
            "server_label": "deepwiki",
            "server_url": "https://mcp.deepwiki.com/mcp",
            "require_approval": "never" if how == "never" else "always",
        },
        on_approval_request=decide if how == "callback" else None,
    )
    real = "OPENAI_API_KEY" in os.environ
    agent = Agent[Any](name="Reader", tools=[server], model="gpt-5.2" if real else played(how))
    result = Runner.run_sync(agent, QUESTION)
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            asked = f"Let the provider call {item.name} at {item.raw_item.server_label} with {item.arguments}? [y/N] "
            if input(asked).strip().lower() in ("y", "yes"):
                state.approve(item, by="you")
            else:
                state.reject(item, rejection_message="The user said no.", by="you")
        result = Runner.run_sync(agent, state)
    print(result.final_output)


if __name__ == "__main__":
    ways = ("person", "callback", "never")
    if sys.argv[1:] and sys.argv[1] not in ways:
        sys.exit(f"Say how: {', '.join(ways)}.")
    try:
        main(sys.argv[1] if sys.argv[1:] else "person")
    except (EOFError, KeyboardInterrupt):
        print("\nNothing was approved, and the provider calls nothing.")
