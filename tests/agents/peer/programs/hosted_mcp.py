"""An MCP server that the provider talks to: approved by a callback, and by a person."""

import asyncio

from agents import Agent, HostedMCPTool, MCPToolApprovalFunctionResult, MCPToolApprovalRequest, Runner


def decide(request: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
    print("asked:", request.data.name, request.data.arguments)
    return {"approve": False, "reason": "Not today."}


async def main() -> None:
    by_callback = HostedMCPTool(
        tool_config={
            "type": "mcp",
            "server_label": "wiki",
            "server_url": "https://example.com/mcp",
            "require_approval": "always",
        },
        on_approval_request=decide,
    )
    result = await Runner.run(Agent(name="Reader", tools=[by_callback]), "Which language?")
    print(result.final_output, [item.type for item in result.new_items])

    by_person = HostedMCPTool(
        tool_config={
            "type": "mcp",
            "server_label": "wiki",
            "server_url": "https://example.com/mcp",
            "require_approval": "always",
        }
    )
    agent = Agent(name="Reader", tools=[by_person])
    result = await Runner.run(agent, "Which language?")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            print("waits:", item.name)
            state.approve(item)
        result = await Runner.run(agent, state)
    print(result.final_output, [item.type for item in result.new_items if item.type != "tool_approval_item"])


asyncio.run(main())
