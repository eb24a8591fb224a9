"""A worker that takes requests from a queue, in one program, and a reviewer that answers, in another."""

import asyncio

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.messages import AnyMessage
from langchain.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command
from scripted import ScriptedChat, call, turn

REQUESTS = [("order-1", 20), ("order-2", 500), ("order-3", 80)]
PAID: list[int] = []


@tool
async def pay(amount: int) -> str:
    """Pay an amount."""
    await asyncio.sleep(0)
    PAID.append(amount)
    return f"paid {amount}"


class Audit(AgentMiddleware):
    """Counts what tools were asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def awrap_tool_call(self, request, handler):
        self.seen.append(request.tool_call["name"])
        return await handler(request)

    async def abefore_agent(self, state, runtime):
        self.seen.append("begin")


def over_100(request) -> bool:
    return request.tool_call["args"]["amount"] > 100


def build(saver, *replies):
    audit = Audit()
    gate = HumanInTheLoopMiddleware({"pay": {"allowed_decisions": ["approve", "edit", "reject"], "when": over_100}})
    return create_agent(ScriptedChat(*replies), [pay], middleware=[audit, gate], checkpointer=saver), audit


def last(messages: list[AnyMessage]) -> str:
    return f"{messages[-1].type}: {messages[-1].text}"


async def work(queue: asyncio.Queue) -> None:
    async with AsyncSqliteSaver.from_conn_string("worker.db") as saver:
        while not queue.empty():
            name, amount = queue.get_nowait()
            agent, audit = build(saver, turn(call("pay", {"amount": amount}, f"pay-{name}")), "Paid.")
            config = {"configurable": {"thread_id": name}, "metadata": {"source": "queue"}}
            async for chunk in agent.astream({"messages": [("user", f"Pay {amount}")]}, config, stream_mode="updates"):
                print(name, sorted(key for key in chunk if not key.endswith(("before_agent", "after_model"))))
            print(audit.seen)


async def review() -> None:
    async with AsyncSqliteSaver.from_conn_string("worker.db") as saver:
        agent, audit = build(saver, "Then less.")
        for name, _ in REQUESTS:
            config = {"configurable": {"thread_id": name}}
            state = await agent.aget_state(config)
            print(name, state.next, last(state.values["messages"]))
            if state.interrupts:
                edited = {"name": "pay", "args": {"amount": 100}}
                decision = {"type": "edit", "edited_action": edited}
                result = await agent.ainvoke(Command(resume={"decisions": [decision]}), config)
                print(last(result["messages"]), audit.seen)
        await saver.adelete_thread("order-1")
        print((await agent.aget_state({"configurable": {"thread_id": "order-1"}})).values)


async def main() -> None:
    queue: asyncio.Queue = asyncio.Queue()
    for each in REQUESTS:
        queue.put_nowait(each)
    await work(queue)
    print(PAID)
    await review()
    print(PAID)


asyncio.run(main())
