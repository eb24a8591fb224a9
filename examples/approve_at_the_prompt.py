"""Approve at the prompt, with the state on disk.

    python examples/approve_at_the_prompt.py

An agent rolls out a release: staging needs nobody, production needs you. While it waits, the run is the file
`rollout.json`. Leave with Ctrl-C or the end of input, start again, tomorrow or on another machine that has the file,
and you are asked the same question; what has run already does not run again.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from assentry import Agent, ModelRequest, Runner, RunState, function_tool
from assentry.testing import ScriptedModel, call

STATE = Path("rollout.json")


async def goes_live(_ctx: object, params: dict[str, Any], _call_id: str) -> bool:
    return bool(params["stage"] == "production")


@function_tool(needs_approval=goes_live)
async def deploy(version: str, stage: str) -> str:
    """Put a version of the program on a stage."""
    print(f"... deploying {version} to {stage}")
    return f"{version} is on {stage}."


def think(request: ModelRequest) -> Any:
    """In place of a real model: proposes both calls, and in the end repeats what it was told."""
    outputs = [item["output"] for item in request.input if item.get("type") == "function_call_output"]
    if outputs:
        return " ".join(outputs)
    return [call("deploy", {"version": "2.1", "stage": stage}) for stage in ("staging", "production")]


agent = Agent[Any](
    name="Release manager",
    instructions="Roll out what you are told to, first to staging, then to production.",
    tools=[deploy],
    model=ScriptedModel([think, think]),
)


def approved(name: str, arguments: str) -> bool:
    return input(f"Run {name} with {arguments}? [y/N] ").strip().lower() in ("y", "yes")


def main() -> None:
    start: str | RunState[Any] = "Roll out 2.1."
    if STATE.exists():
        start = asyncio.run(RunState.from_json(agent, json.loads(STATE.read_text())))
        print(f"Going on with {STATE}.")
    result = Runner.run_sync(agent, start)
    while result.interruptions:
        state = result.to_state()
        STATE.write_text(json.dumps(state.to_json()))
        for item in result.interruptions:
            if approved(item.name, item.arguments):
                state.approve(item)
            else:
                state.reject(item)
        result = Runner.run_sync(agent, state)
    STATE.unlink(missing_ok=True)
    print(result.final_output)


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        print(f"\nThe run waits in {STATE}; start again to decide.")
