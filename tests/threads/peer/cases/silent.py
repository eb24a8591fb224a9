"""Differences that nobody would notice: what is called, what is raised, what is kept."""

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelResponse,
    after_model,
    before_model,
    wrap_model_call,
    wrap_tool_call,
)
from langchain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, asked, call, show, shown, thread, turn


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def send(to: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def adder(*more, **options):
    chat = ScriptedChat(turn(call("add", {"a": 1, "b": 2})), "Three.")
    return create_agent(chat, [add], middleware=list(more), **options)


class Log(BaseCallbackHandler):
    def on_chat_model_start(self, serialized, messages, **more):
        print("model starts with", len(messages[0]))

    def on_llm_end(self, response, **more):
        print("model ends:", response.generations[0][0].message.content)

    def on_tool_start(self, serialized, input_str, **more):
        print("tool starts:", serialized["name"], input_str)

    def on_tool_end(self, output, **more):
        print("tool ends:", output.content)


def case_callbacks():
    adder().invoke({"messages": "1 + 2?"}, config={"callbacks": [Log()]})


async def case_async_callbacks():
    class Quiet(AsyncCallbackHandler):
        async def on_tool_start(self, serialized, input_str, **more):
            print("tool starts:", serialized["name"])

        async def on_llm_new_token(self, token, **more):
            pass

        async def on_llm_end(self, response, **more):
            print("model ends")

    await adder().ainvoke({"messages": "1 + 2?"}, config={"callbacks": [Quiet()]})


def case_callbacks_of_a_failing_tool():
    class Errors(BaseCallbackHandler):
        def on_tool_error(self, error, **more):
            print("tool failed:", type(error).__name__, error)

    def fail() -> str:
        """Fail."""
        raise ValueError("no luck")

    agent = create_agent(ScriptedChat(turn(call("fail")), "So be it."), [fail])
    try:
        agent.invoke({"messages": "Go"}, config={"callbacks": [Errors()]})
    except ValueError as error:
        print("raised", error)


def case_callback_of_usage():
    from langchain_core.callbacks import get_usage_metadata_callback

    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    reply = turn(text="Hello.", usage_metadata=usage, response_metadata={"model_name": "scripted"})
    with get_usage_metadata_callback() as counted:
        create_agent(ScriptedChat(reply)).invoke({"messages": "Hi"})
    print(counted.usage_metadata)


def case_wrap_tool_call_raises():
    @wrap_tool_call
    def forbid(request, handler):
        raise PermissionError("Not on a Sunday.")

    try:
        show(adder(forbid).invoke({"messages": "1 + 2?"}))
    except PermissionError as error:
        print("raised", error)


def case_wrap_tool_call_catches():
    def fail() -> str:
        """Fail."""
        raise ValueError("no luck")

    @wrap_tool_call
    def soften(request, handler):
        try:
            return handler(request)
        except ValueError as error:
            return ToolMessage(f"It failed: {error}", tool_call_id=request.tool_call["id"], status="error")

    show(
        create_agent(ScriptedChat(turn(call("fail")), "Pity."), [fail], middleware=[soften]).invoke({"messages": "Go"})
    )


def case_message_with_text():
    try:
        show(create_agent(ScriptedChat("Hello.")).invoke({"messages": [{"role": "user", "text": "Hi"}]}))
    except Exception as error:
        print(shown(error))


def case_message_without_content():
    try:
        show(create_agent(ScriptedChat("Hello.")).invoke({"messages": [{"role": "user"}]}))
    except Exception as error:
        print(shown(error))


def case_message_of_an_unknown_role():
    try:
        show(create_agent(ScriptedChat("Hello.")).invoke({"messages": [{"role": "boss", "content": "Hi"}]}))
    except Exception as error:
        print(shown(error))


def case_cache_control():
    chat = ScriptedChat("Hello.")
    block = {"type": "text", "text": "A long text", "cache_control": {"type": "ephemeral"}}
    result = create_agent(chat).invoke({"messages": [HumanMessage([block])]})
    print(result["messages"][0].content)
    print(chat.heard[0][0].content)


def case_cache_control_in_the_system_prompt():
    chat = ScriptedChat("Hello.")
    block = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    create_agent(chat, system_prompt=SystemMessage([block])).invoke({"messages": "Hi"})
    print(chat.heard[0][0].type, chat.heard[0][0].content)


def case_response_metadata():
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    more = {"response_metadata": {"model_name": "m-1", "finish_reason": "stop"}, "usage_metadata": usage}
    chat = ScriptedChat(turn(text="Hello.", additional_kwargs={"mood": "good"}, **more))
    result = create_agent(chat).invoke({"messages": "Hi"})
    last = result["messages"][-1]
    print(last.response_metadata["model_name"], last.response_metadata["finish_reason"])
    print(last.usage_metadata["total_tokens"], last.additional_kwargs.get("mood"))


def case_artifact():
    from langchain.tools import tool

    @tool(response_format="content_and_artifact")
    def find(query: str):
        """Find documents."""
        return f"2 hits for {query}", [{"page": 1}, {"page": 7}]

    result = create_agent(ScriptedChat(turn(call("find", {"query": "x"})), "Two."), [find]).invoke({"messages": "x?"})
    print(result["messages"][2].content, result["messages"][2].artifact)


def case_names_of_messages():
    chat = ScriptedChat("Hello.")
    result = create_agent(chat, name="desk").invoke({"messages": [HumanMessage("Hi", name="ann", id="m1")]})
    print([(each.name, each.id == "m1") for each in result["messages"]], chat.heard[0][0].name)


def case_content_blocks_from_a_tool():
    def picture() -> list:
        """Take a picture."""
        return [{"type": "text", "text": "A cat"}, {"type": "image", "base64": "aGk=", "mime_type": "image/png"}]

    chat = ScriptedChat(turn(call("picture")), "A cat.")
    result = create_agent(chat, [picture]).invoke({"messages": "Look"})
    print(result["messages"][2].content)
    print(chat.heard[1][2].content)


def case_a_dict_from_a_tool():
    def weather(city: str) -> dict:
        """Tell the weather."""
        return {"city": city, "degrees": 21.5, "tags": ["mild", "früh"]}

    show(
        create_agent(ScriptedChat(turn(call("weather", {"city": "Ghent"})), "Mild."), [weather]).invoke(
            {"messages": "?"}
        )
    )


def case_nothing_from_a_tool():
    def wait() -> None:
        """Wait."""

    show(create_agent(ScriptedChat(turn(call("wait")), "Waited."), [wait]).invoke({"messages": "?"}))


def case_hook_appends_messages():
    @before_model
    def remind(state, runtime):
        if len(state["messages"]) == 1:
            return {"messages": [HumanMessage("Be brief.", name="rule")]}
        return None

    chat = ScriptedChat("Yes.")
    show(create_agent(chat, middleware=[remind]).invoke({"messages": "Is it so?"}))
    show(chat.heard[0])


def case_after_model_appends():
    @after_model
    def sign(state, runtime):
        return {"messages": [AIMessage("Signed, the desk.")]}

    show(create_agent(ScriptedChat("Yes."), middleware=[sign]).invoke({"messages": "Is it so?"}))


def case_after_model_raises():
    @after_model
    def check(state, runtime):
        if "secret" in state["messages"][-1].content:
            raise ValueError("The reply tells a secret.")

    agent = create_agent(ScriptedChat("The secret is 7."), middleware=[check], checkpointer=InMemorySaver())
    try:
        agent.invoke({"messages": "Tell me"}, thread())
    except ValueError as error:
        print("raised", error)
    show(agent.get_state(thread()).values)


def case_nested_wrap_model_call():
    @wrap_model_call
    def outer(request, handler):
        response = handler(request)
        print(type(response).__name__, response.result[0].content)
        return ModelResponse(result=[AIMessage(response.result[0].content.upper())])

    @wrap_model_call
    def inner(request, handler):
        handler(request)
        return AIMessage("from the inner one")

    show(create_agent(ScriptedChat("From the model."), middleware=[outer, inner]).invoke({"messages": "Hi"}))


def case_rewritten_messages():
    class Shorten(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            return handler(request.override(messages=request.messages[-1:]))

    chat = ScriptedChat("One.", "Two.")
    agent = create_agent(chat, middleware=[Shorten()], checkpointer=InMemorySaver())
    agent.invoke({"messages": "First"}, thread())
    show(agent.invoke({"messages": "Second"}, thread()))
    print([len(each) for each in chat.heard])


def case_two_sub_agents_that_ask():
    from langchain.tools import tool

    def expert(name):
        gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
        chat = ScriptedChat(turn(call("send", {"to": name})), f"{name} is told.")
        return create_agent(chat, [send], middleware=[gate], name=name)

    ann, bob = expert("ann"), expert("bob")

    @tool
    def tell_ann(text: str) -> str:
        """Tell Ann."""
        return ann.invoke({"messages": text})["messages"][-1].content

    @tool
    def tell_bob(text: str) -> str:
        """Tell Bob."""
        return bob.invoke({"messages": text})["messages"][-1].content

    chat = ScriptedChat(
        turn(call("tell_ann", {"text": "x"}, "c1"), call("tell_bob", {"text": "y"}, "c2")), "Both know."
    )
    agent = create_agent(chat, [tell_ann, tell_bob], checkpointer=InMemorySaver())
    waiting = agent.invoke({"messages": "Tell both"}, thread())["__interrupt__"]
    asked(sorted(waiting, key=lambda each: each.value["action_requests"][0]["args"]["to"]))
    answers = {each.id: {"decisions": [{"type": "approve"}]} for each in waiting}
    show(agent.invoke(Command(resume=answers), thread()))
