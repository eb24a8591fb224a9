"""Ready-made middleware of LangChain's."""

from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolEmulator,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelChoice,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    ModelRouterMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolErrorMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, call, show, thread, turn


def look(query: str) -> str:
    """Look something up."""
    print("looking", query)
    return f"Found {query}."


def send(to: str) -> str:
    """Send a mail."""
    print("sending", to)
    return f"Sent to {to}."


def lookups(count):
    return [turn(call("look", {"query": str(number)}, f"c{number}")) for number in range(1, count + 1)]


def case_model_call_limit():
    limit = ModelCallLimitMiddleware(run_limit=2, exit_behavior="end")
    show(create_agent(ScriptedChat(*lookups(4)), [look], middleware=[limit]).invoke({"messages": "Go"}))


def case_model_call_limit_of_a_thread():
    limit = ModelCallLimitMiddleware(thread_limit=1)
    agent = create_agent(ScriptedChat("One.", "Two."), middleware=[limit], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Hi"}, thread())
    show(agent.invoke({"messages": "Hi"}, thread()))


def case_model_call_limit_that_raises():
    limit = ModelCallLimitMiddleware(run_limit=1, exit_behavior="error")
    try:
        create_agent(ScriptedChat(*lookups(4)), [look], middleware=[limit]).invoke({"messages": "Go"})
    except Exception as error:
        print(type(error).__name__, error)


def case_tool_call_limit():
    limit = ToolCallLimitMiddleware(tool_name="look", run_limit=1)
    show(create_agent(ScriptedChat(*lookups(2), "Enough."), [look], middleware=[limit]).invoke({"messages": "Go"}))


def case_model_retry():
    retry = ModelRetryMiddleware(max_retries=2, initial_delay=0, jitter=False, backoff_factor=0)
    chat = ScriptedChat(ConnectionError("down"), ConnectionError("down"), "Hello.")
    show(create_agent(chat, middleware=[retry]).invoke({"messages": "Hi"}))


def case_model_retry_gives_up():
    retry = ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False, backoff_factor=0)
    chat = ScriptedChat(ConnectionError("down"), ConnectionError("down"))
    result = create_agent(chat, middleware=[retry]).invoke({"messages": "Hi"})
    print(result["messages"][-1].type, "down" in result["messages"][-1].content)


def case_tool_retry():
    tries = []

    def flaky() -> str:
        """Fail the first time."""
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("down")
        return "up"

    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False, backoff_factor=0)
    show(
        create_agent(ScriptedChat(turn(call("flaky")), "Fine."), [flaky], middleware=[retry]).invoke({"messages": "Go"})
    )
    print(len(tries))


def case_tool_error():
    def fail() -> str:
        """Fail."""
        raise ValueError("no luck")

    soften = ToolErrorMiddleware(lambda error, request: f"{request.tool_call['name']} failed: {error}")
    show(create_agent(ScriptedChat(turn(call("fail")), "Oh."), [fail], middleware=[soften]).invoke({"messages": "Go"}))


def case_model_fallback():
    fallback = ModelFallbackMiddleware(ScriptedChat("From the other."))
    show(create_agent(ScriptedChat(ConnectionError("down")), middleware=[fallback]).invoke({"messages": "Hi"}))


def case_summarization():
    writer = ScriptedChat("They said hello.")
    shorten = SummarizationMiddleware(writer, trigger=("messages", 4), keep=("messages", 2))
    chat = ScriptedChat("One.", "Two.", "Three.")
    agent = create_agent(chat, middleware=[shorten], checkpointer=InMemorySaver())
    for text in ("First", "Second", "Third"):
        result = agent.invoke({"messages": text}, thread())
    show(result)
    print([len(each) for each in chat.heard])


def case_pii_redacted():
    guard = PIIMiddleware("email", strategy="redact", apply_to_input=True)
    chat = ScriptedChat("Noted.")
    show(create_agent(chat, middleware=[guard]).invoke({"messages": "I am ann@example.com"}))
    show(chat.heard[0])


def case_pii_in_results():
    guard = PIIMiddleware("email", strategy="mask", apply_to_tool_results=True)

    def whois(name: str) -> str:
        """Look a person up."""
        return f"{name}@example.com"

    chat = ScriptedChat(turn(call("whois", {"name": "ann"})), "Found.")
    show(create_agent(chat, [whois], middleware=[guard]).invoke({"messages": "Ann?"}))


def case_pii_blocked():
    guard = PIIMiddleware("credit_card", strategy="block")
    try:
        create_agent(ScriptedChat("Never."), middleware=[guard]).invoke({"messages": "My card: 4111 1111 1111 1111"})
    except Exception as error:
        print(type(error).__name__)


def case_todo_list():
    todos = [{"content": "Look", "status": "in_progress"}, {"content": "Tell", "status": "pending"}]
    chat = ScriptedChat(turn(call("write_todos", {"todos": todos})), "Planned.")
    result = create_agent(chat, [look], middleware=[TodoListMiddleware()]).invoke({"messages": "Plan"})
    print(result["todos"], result["messages"][-1].content, chat.offered[0])


def case_context_editing():
    edit = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)])
    chat = ScriptedChat(*lookups(3), "Done.")
    result = create_agent(chat, [look], middleware=[edit]).invoke({"messages": "Go"})
    print([each.content for each in chat.heard[-1] if each.type == "tool"])
    print([each.content for each in result["messages"] if each.type == "tool"])


def case_tool_selector():
    chooser = ScriptedChat(turn(call("ToolSelectionResponse", {"tools": ["look"]})))
    chat = ScriptedChat("Hello.")
    select = LLMToolSelectorMiddleware(model=chooser, max_tools=1)
    create_agent(chat, [look, send], middleware=[select]).invoke({"messages": "Look"})
    print(chat.offered[0])


def case_tool_emulator():
    emulate = LLMToolEmulator(tools=["send"], model=ScriptedChat("As if it were sent."))
    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent, they say.")
    show(create_agent(chat, [send], middleware=[emulate]).invoke({"messages": "Mail"}))


def case_model_router():
    class Longer(BaseDecisionModel):
        model: str = "longer"

        @property
        def _provider(self):
            return "local"

        def _classify(self, state, questions):
            answer = {"type": "choice", "choice": "big", "probabilities": {"big": 1.0, "small": 0.0}, "confidence": 1.0}
            return ClassifierResponse.model_validate({"model": "longer", "answers": dict.fromkeys(questions, answer)})

    choices = {
        "small": ModelChoice(ScriptedChat("From the small one."), "Simple questions."),
        "big": ModelChoice(ScriptedChat("From the big one."), "All others."),
    }
    router = ModelRouterMiddleware(choices=choices, instructions="Choose.", classifier=Longer())
    show(create_agent(ScriptedChat("From the first."), middleware=[router]).invoke({"messages": "Why is it so?"}))


def case_beside_the_gate():
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    parts = [TodoListMiddleware(), ModelCallLimitMiddleware(run_limit=5), gate]
    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    agent = create_agent(chat, [send], middleware=parts, checkpointer=InMemorySaver())
    show(agent.invoke({"messages": "Mail"}, thread()))
    show(agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread()))


def case_retry_does_not_run_a_rejected_call():
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Left.")
    agent = create_agent(chat, [send], middleware=[retry, gate], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Mail"}, thread())
    print(agent.invoke(Command(resume={"decisions": [{"type": "reject"}]}), thread())["messages"][-1].content)
