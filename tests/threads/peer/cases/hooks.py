"""Middleware of one's own."""

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRequest,
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from langchain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from scripted import EMAIL_POLICY, ScriptedChat, call, show, thread, turn


def send(to: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def case_dynamic_prompt():
    @dynamic_prompt
    def prompt(request: ModelRequest) -> str:
        return f"You help {request.runtime.context['user']}; message {len(request.messages)}."

    chat = ScriptedChat("Hello.")
    create_agent(chat, middleware=[prompt]).invoke({"messages": "Hi"}, context={"user": "Ann"})
    show(chat.heard[0])


def case_dynamic_prompt_that_is_a_message():
    @dynamic_prompt
    def prompt(request):
        return SystemMessage([{"type": "text", "text": "Be brief."}])

    chat = ScriptedChat("Hello.")
    create_agent(chat, middleware=[prompt]).invoke({"messages": "Hi"})
    print(chat.heard[0][0].content)


def case_order_of_hooks():
    class Log(AgentMiddleware):
        def __init__(self, label):
            super().__init__()
            self.label = label

        @property
        def name(self):
            return self.label

        def before_agent(self, state, runtime):
            print(self.label, "before agent")

        def before_model(self, state, runtime):
            print(self.label, "before model")

        def wrap_model_call(self, request, handler):
            print(self.label, "around model")
            return handler(request)

        def wrap_tool_call(self, request, handler):
            print(self.label, "around", request.tool_call["name"])
            return handler(request)

        def after_model(self, state, runtime):
            print(self.label, "after model")

        def after_agent(self, state, runtime):
            print(self.label, "after agent")

    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    create_agent(chat, [send], middleware=[Log("a"), Log("b")]).invoke({"messages": "Mail"})


def case_jump_to_the_end():
    class Closed(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state, runtime):
            return {"messages": [AIMessage("We are closed.")], "jump_to": "end"}

    show(create_agent(ScriptedChat("Never said."), middleware=[Closed()]).invoke({"messages": "Hi"}))


def case_jump_back_to_the_model():
    @after_model(can_jump_to=["model"])
    def insist(state, runtime):
        if "please" not in state["messages"][-1].content:
            return {"messages": [HumanMessage("Say please.")], "jump_to": "model"}
        return None

    show(create_agent(ScriptedChat("Give me.", "Give me, please."), middleware=[insist]).invoke({"messages": "Hi"}))


def case_jump_to_the_tools():
    @before_model(can_jump_to=["tools"])
    def directly(state, runtime):
        if state["messages"][-1].type == "human":
            message = AIMessage("", tool_calls=[call("send", {"to": "ann"}, "own")])
            return {"messages": [message], "jump_to": "tools"}
        return None

    show(create_agent(ScriptedChat("Sent."), [send], middleware=[directly]).invoke({"messages": "Mail"}))


def case_a_jump_that_is_not_declared():
    @before_agent
    def leave(state, runtime):
        return {"jump_to": "end"}

    show(create_agent(ScriptedChat("Hello."), middleware=[leave]).invoke({"messages": "Hi"}))


def case_hooks_by_name_in_a_stream():
    @before_model
    def log(state, runtime):
        return {"messages": [HumanMessage("noted")]} if len(state["messages"]) == 1 else None

    agent = create_agent(ScriptedChat("Hello."), middleware=[log])
    for chunk in agent.stream({"messages": "Hi"}, stream_mode="updates"):
        print({name: [each.content for each in (value or {}).get("messages", [])] for name, value in chunk.items()})


def case_retries_of_the_model():
    class Retry(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            for attempt in range(3):
                try:
                    return handler(request)
                except ConnectionError as error:
                    print("attempt", attempt, error)
            return AIMessage("No luck.")

    chat = ScriptedChat(ConnectionError("down"), ConnectionError("still down"), "Hello.")
    show(create_agent(chat, middleware=[Retry()]).invoke({"messages": "Hi"}))


def case_a_model_that_fails():
    try:
        create_agent(ScriptedChat(ConnectionError("down"))).invoke({"messages": "Hi"})
    except Exception as error:
        print("down" in str(error))


def case_another_model():
    better = ScriptedChat("From the better one.")

    @wrap_model_call
    def choose(request, handler):
        return handler(request.override(model=better))

    show(create_agent(ScriptedChat("From the first."), middleware=[choose]).invoke({"messages": "Hi"}))


def case_settings_of_the_model():
    @wrap_model_call
    def cool(request, handler):
        return handler(request.override(model_settings={"temperature": 0.1}))

    chat = ScriptedChat("Hello.")
    create_agent(chat, middleware=[cool]).invoke({"messages": "Hi"})
    print(chat.settings[0].get("temperature"))


def case_tool_choice():
    @wrap_model_call
    def force(request, handler):
        return handler(request.override(tool_choice="send" if len(request.messages) == 1 else None))

    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    create_agent(chat, [send], middleware=[force]).invoke({"messages": "Mail"})
    print([each["tool_choice"] for each in chat.script.asked_with])


def case_system_message_of_a_request():
    @wrap_model_call
    def extend(request, handler):
        blocks = [*request.system_message.content_blocks, {"type": "text", "text": "And kind."}]
        return handler(request.override(system_message=SystemMessage(content=blocks)))

    chat = ScriptedChat("Hello.")
    create_agent(chat, system_prompt="Be brief.", middleware=[extend]).invoke({"messages": "Hi"})
    print([each["text"] for each in chat.heard[0][0].content])


def case_tools_of_a_middleware():
    from langchain.tools import tool

    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    class Pinger(AgentMiddleware):
        tools = [ping]  # noqa: RUF012

    show(create_agent(ScriptedChat(turn(call("ping")), "Fine."), middleware=[Pinger()]).invoke({"messages": "?"}))


def case_changed_arguments_of_an_ungated_tool():
    @wrap_tool_call
    def redirect(request, handler):
        return handler(request.override(tool_call={**request.tool_call, "args": {"to": "bob"}}))

    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    show(create_agent(chat, [send], middleware=[redirect]).invoke({"messages": "Mail"}))


def case_state_in_wrap_tool_call():
    @wrap_tool_call
    def tell(request, handler):
        print(request.tool.name, len(request.state["messages"]), request.runtime.tool_call_id)
        return handler(request)

    create_agent(ScriptedChat(turn(call("send", {"to": "ann"})), "Sent."), [send], middleware=[tell]).invoke(
        {"messages": "Mail"}
    )


def case_a_result_changed_by_wrap_tool_call():
    @wrap_tool_call
    def redact(request, handler):
        result = handler(request)
        return ToolMessage(result.content.replace("ann", "***"), tool_call_id=result.tool_call_id, name=result.name)

    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    show(create_agent(chat, [send], middleware=[redact]).invoke({"messages": "Mail"}))


def case_hooks_beside_the_gate():
    @after_agent
    def close(state, runtime):
        print("closed with", len(state["messages"]))

    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    agent = create_agent(chat, [send], middleware=[close, gate], checkpointer=InMemorySaver())
    agent.invoke({"messages": "Mail"}, thread())
    print("waits")
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())


async def case_async_hooks():
    @wrap_model_call
    async def around(request, handler):
        response = await handler(request)
        print("model said", response.result[0].content)
        return response

    @wrap_tool_call
    async def around_tool(request, handler):
        result = await handler(request)
        print("tool said", result.content)
        return result

    chat = ScriptedChat(turn(call("send", {"to": "ann"})), "Sent.")
    await create_agent(chat, [send], middleware=[around, around_tool]).ainvoke({"messages": "Mail"})


def case_middleware_twice():
    gate = HumanInTheLoopMiddleware(EMAIL_POLICY)
    try:
        create_agent(ScriptedChat("x"), [send], middleware=[gate, gate], checkpointer=InMemorySaver())
    except Exception as error:
        print("refused", "middleware" in str(error).lower())
