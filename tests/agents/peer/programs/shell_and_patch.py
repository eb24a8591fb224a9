"""A shell and an editor of one's own, with approval by a person."""

import asyncio

from agents import Agent, ApplyPatchTool, Runner, ShellCommandRequest, ShellTool
from agents.editor import ApplyPatchOperation, ApplyPatchResult


async def run_shell(request: ShellCommandRequest) -> str:
    return " ".join(request.data.action.commands)


class Editor:
    def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"created {operation.path}")

    def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"updated {operation.path}")

    def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return ApplyPatchResult(output=f"deleted {operation.path}")


async def main() -> None:
    shell = ShellTool(executor=run_shell, needs_approval=True)
    patch = ApplyPatchTool(editor=Editor(), needs_approval=True)
    agent = Agent(name="Coder", instructions="Code.", model="gpt-5.6", tools=[shell, patch])
    result = await Runner.run(agent, "List the files, then write one.")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            print("waits:", item.name)
            state.approve(item)
        result = await Runner.run(agent, state)
    print(result.final_output)


asyncio.run(main())
