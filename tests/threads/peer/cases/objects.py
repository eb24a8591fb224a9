"""LangChain's own objects: tools of all kinds, and chat models that are bound."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.messages import AIMessage, HumanMessage
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException, create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel
from scripted import ScriptedChat, call, show, thread, turn


def gated(one_tool, args):
    """Ask about the tool, and approve."""
    gate = HumanInTheLoopMiddleware({one_tool.name: {"allowed_decisions": ["approve", "reject"]}})
    chat = ScriptedChat(turn(call(one_tool.name, args)), "Done.")
    agent = create_agent(chat, [one_tool], middleware=[gate], checkpointer=InMemorySaver())
    show(agent.invoke({"messages": "Go"}, thread()))
    show(agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread()))
    print(chat.offered[0])


def case_decorated():
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    gated(double, {"number": 4})


def case_structured_tool():
    def multiply(a: int, b: int) -> int:
        return a * b

    gated(StructuredTool.from_function(multiply, name="times", description="Multiply."), {"a": 3, "b": 4})


def case_base_tool_subclass():
    class Query(BaseModel):
        sql: str

    class Database(BaseTool):
        name: str = "database"
        description: str = "Ask the database."
        args_schema: type[BaseModel] = Query
        rows: int = 3

        def _run(self, sql: str) -> str:
            return f"{self.rows} rows for {sql}"

    gated(Database(rows=5), {"sql": "SELECT 1"})


async def case_async_base_tool():
    class Slow(BaseTool):
        name: str = "slow"
        description: str = "Be slow."

        def _run(self, text: str) -> str:
            return "sync " + text

        async def _arun(self, text: str) -> str:
            return "async " + text

    chat = ScriptedChat(turn(call("slow", {"text": "x"})), "Done.")
    show(await create_agent(chat, [Slow()]).ainvoke({"messages": "Go"}))


def case_tool_with_one_input():
    gated(Tool(name="search", func=lambda query: f"hits for {query}", description="Search."), {"__arg1": "cats"})


def case_retriever_tool():
    class Library(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            return [Document("Cats purr."), Document(f"About {query}.")]

    gated(create_retriever_tool(Library(), "library", "Search the library."), {"query": "cats"})


def case_community_tool():
    from langchain_community.tools import ReadFileTool

    with open("note.txt", "w") as file:
        file.write("Buy milk.")
    gated(ReadFileTool(), {"file_path": "note.txt"})


def case_tool_exception_handled():
    def fail() -> str:
        """Fail."""
        raise ToolException("out of paper")

    printer = StructuredTool.from_function(fail, name="printer", handle_tool_error=True)
    show(create_agent(ScriptedChat(turn(call("printer")), "Oh."), [printer]).invoke({"messages": "Print"}))


def case_edit_of_their_tool():
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    gate = HumanInTheLoopMiddleware({"double": {"allowed_decisions": ["approve", "edit"]}}, edit_notice=None)
    chat = ScriptedChat(turn(call("double", {"number": 4})), "Done.")
    agent = create_agent(chat, [double], middleware=[gate], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Go"}, thread())
    edit = {"type": "edit", "edited_action": {"name": "double", "args": {"number": 5}}}
    show(agent.invoke(Command(resume={"decisions": [edit]}), thread()))


def case_runnable_as_a_tool():
    from langchain_core.runnables import RunnableLambda

    shout = RunnableLambda(lambda given: given["text"].upper()).as_tool(
        name="shout", description="Shout.", arg_types={"text": str}
    )
    gated(shout, {"text": "hello"})


def case_hosted_tool_as_a_dict():
    chat = ScriptedChat("Found it.")
    create_agent(chat, [{"type": "web_search_preview"}]).invoke({"messages": "Search"})
    print(chat.script.asked_with[0]["tools"])


def case_bound_model():
    chat = ScriptedChat("Hello.")
    show(create_agent(chat.bind(temperature=0.2)).invoke({"messages": "Hi"}))
    print(chat.settings[0].get("temperature"))


def case_model_with_retry():
    chat = ScriptedChat(ConnectionError("down"), "Hello.")
    patient = chat.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    show(create_agent(patient).invoke({"messages": "Hi"}))


def case_model_with_config():
    chat = ScriptedChat("Hello.")
    show(create_agent(chat.with_config(tags=["x"])).invoke({"messages": "Hi"}))


def case_model_with_fallbacks():
    chat = ScriptedChat(ConnectionError("down")).with_fallbacks([ScriptedChat("From the other.")])
    show(create_agent(chat).invoke({"messages": "Hi"}))


def case_fake_chat_model_with_our_messages():
    chat = GenericFakeChatModel(messages=iter([AIMessage("Hello."), "Again."]))
    agent = create_agent(chat, checkpointer=InMemorySaver())
    agent.invoke({"messages": "Hi"}, thread())
    show(agent.invoke({"messages": "Hi"}, thread()))


def case_chat_model_asked_with_our_messages():
    answer = ScriptedChat("Hello.").invoke([HumanMessage("Hi", name="ann"), ("user", "So?")])
    print(answer.text)
