"""Answers from documents: a retriever as a tool, an artifact with the sources, and a typed answer."""

import re
from collections import Counter

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, dynamic_prompt
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import tool
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import BaseModel, Field
from scripted import ScriptedChat, call, turn

WORDS = ["battery", "screen", "warranty", "charge", "repair"]


class CountedWords(Embeddings):
    """An embedding that counts a few words."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(each) for each in texts]

    def embed_query(self, text: str) -> list[float]:
        found = Counter(re.findall(r"[a-z]+", text.lower()))
        return [found[word] + 0.01 for word in WORDS]


store = InMemoryVectorStore(CountedWords())
store.add_documents(
    [
        Document("The battery lasts ten hours; charge the battery at night.", metadata={"page": 3}),
        Document("A broken screen is not covered by the warranty.", metadata={"page": 9}),
        Document("Repair takes a week.", metadata={"page": 12}),
    ]
)
manual = create_retriever_tool(store.as_retriever(search_kwargs={"k": 1}), "manual", "Search the manual.")


@tool(response_format="content_and_artifact")
def search(query: str) -> tuple[str, list[Document]]:
    """Search the manual, with sources."""
    found = store.similarity_search(query, k=2)
    return "\n".join(each.page_content for each in found), found


class Answer(BaseModel):
    """An answer with its sources."""

    text: str = Field(description="The answer")
    pages: list[int] = Field(default_factory=list)


@dynamic_prompt
def with_context(request: ModelRequest) -> str:
    last = request.state["messages"][-1]
    if last.type != "human":
        return "Answer from what was found."
    [best] = store.similarity_search(last.text, k=1)
    return f"Perhaps this helps: {best.page_content}"


class Sources(AgentMiddleware):
    """Keeps the pages that tools found."""

    class State(AgentState):
        pages: list[int]

    state_schema = State

    def before_model(self, state, runtime):
        found = [each.artifact for each in state["messages"] if each.type == "tool" and each.artifact]
        return {"pages": sorted({one.metadata["page"] for each in found for one in each})}


chat = ScriptedChat(
    turn(call("manual", {"query": "battery"}, "c1")),
    turn(call("search", {"query": "screen warranty"}, "c2")),
    turn(call("Answer", {"text": "Ten hours; screens are not covered.", "pages": [3, 9]}, "c3")),
)
agent = create_agent(chat, [manual, search], middleware=[with_context, Sources()], response_format=ToolStrategy(Answer))
result = agent.invoke({"messages": "How long does the battery last?"})
for message in result["messages"]:
    message.pretty_print()
print(result["structured_response"])
print(result["pages"])
print([heard[0].content for heard in chat.heard])
