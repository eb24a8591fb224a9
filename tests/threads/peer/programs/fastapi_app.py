"""A web service: a chat, its open questions, and their answers."""

from typing import Any, Literal

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.messages import HumanMessage
from langchain.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel
from scripted import ScriptedChat, call, turn


@tool
async def refund(order: int, amount: float) -> str:
    """Pay money back."""
    return f"{amount} paid back for order {order}"


agent = create_agent(
    ScriptedChat(
        turn(call("refund", {"order": 7, "amount": 12.5})),
        "It is paid back.",
        "You are welcome.",
    ),
    [refund],
    middleware=[HumanInTheLoopMiddleware({"refund": {"allowed_decisions": ["approve", "reject"]}})],
    checkpointer=InMemorySaver(),
)
app = FastAPI()


class Said(BaseModel):
    text: str


class Decided(BaseModel):
    interrupt_id: str
    type: Literal["approve", "reject"]
    message: str | None = None


def config_of(thread_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


def shown(result: dict[str, Any]) -> dict[str, Any]:
    waiting = [{"id": each.id, **each.value} for each in result.get("__interrupt__", [])]
    return {"messages": result["messages"], "waiting": waiting}


@app.post("/threads/{thread_id}/messages")
async def say(thread_id: str, said: Said):
    return shown(await agent.ainvoke({"messages": [HumanMessage(said.text)]}, config_of(thread_id)))


@app.get("/threads/{thread_id}")
async def look(thread_id: str):
    state = await agent.aget_state(config_of(thread_id))
    if not state.values:
        raise HTTPException(404, "There is no such thread.")
    return {"next": state.next, "messages": [message.model_dump() for message in state.values["messages"]]}


@app.post("/threads/{thread_id}/decisions")
async def decide(thread_id: str, decided: Decided):
    decision = decided.model_dump(include={"type", "message"}, exclude_none=True)
    command = Command(resume={decided.interrupt_id: {"decisions": [decision]}})
    return shown(await agent.ainvoke(command, config_of(thread_id)))


@app.post("/threads/{thread_id}/stream")
async def stream(thread_id: str, said: Said):
    async def lines():
        given = {"messages": [{"role": "user", "content": said.text}]}
        async for token, metadata in agent.astream(given, config_of(thread_id), stream_mode="messages"):
            if metadata["langgraph_node"] == "model" and token.text:
                yield f"data: {token.text}\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


with TestClient(app) as client:
    print(client.get("/threads/one").status_code)
    answer = client.post("/threads/one/messages", json={"text": "I want my money back"}).json()
    print([(each["type"], each["content"]) for each in answer["messages"]])
    [waiting] = answer["waiting"]
    print(waiting["action_requests"][0]["args"], waiting["review_configs"][0]["allowed_decisions"])
    print(client.get("/threads/one").json()["next"])
    answer = client.post("/threads/one/decisions", json={"interrupt_id": waiting["id"], "type": "approve"}).json()
    print([(each["type"], each["content"]) for each in answer["messages"]], answer["waiting"])
    print(client.post("/threads/one/stream", json={"text": "Thanks"}).text)
    print(len(client.get("/threads/one").json()["messages"]))
