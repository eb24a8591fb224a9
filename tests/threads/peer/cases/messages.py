"""Messages: their methods, and what becomes of them elsewhere."""

from langchain.agents import create_agent
from langchain.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage, trim_messages
from langgraph.checkpoint.memory import InMemorySaver
from scripted import ScriptedChat, call, show, thread, turn


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def result():
    chat = ScriptedChat(turn(call("add", {"a": 1, "b": 2}), text="I add."), "Three.")
    return create_agent(chat, [add]).invoke({"messages": [HumanMessage("1 + 2?", name="ann")]})


def case_pretty_print():
    for message in result()["messages"]:
        message.pretty_print()


def case_pretty_repr():
    print(HumanMessage("Hi").pretty_repr())


def case_model_dump():
    dumped = [message.model_dump() for message in result()["messages"]]
    print([(each["type"], each["content"], each["name"]) for each in dumped])
    print(sorted(dumped[0]), dumped[2]["tool_call_id"], dumped[1]["tool_calls"])


def case_model_dump_json():
    import json

    dumped = json.loads(result()["messages"][0].model_dump_json())
    print(dumped["type"], dumped["content"], dumped["additional_kwargs"])


def case_content_blocks():
    for message in result()["messages"]:
        print(message.content_blocks)


def case_content_blocks_of_an_image():
    message = HumanMessage(
        content_blocks=[{"type": "text", "text": "See"}, {"type": "image", "url": "https://example.com/a.png"}]
    )
    print([each["type"] for each in message.content_blocks], message.content_blocks[1]["url"])


def case_text():
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    print(AIMessage(blocks).text, HumanMessage("x").text, AIMessage(blocks).text())


def case_equality_and_copies():
    message = HumanMessage("Hi", id="m1")
    print(message == HumanMessage("Hi", id="m1"), message.model_copy(update={"content": "Ho"}).content)


def case_fields_set_later():
    message = AIMessage("Hi")
    message.content = "Ho"
    message.additional_kwargs["seen"] = True
    message.response_metadata = {"model_name": "m"}
    print(message.content, message.additional_kwargs, message.response_metadata)


def case_repr():
    print(repr(HumanMessage("Hi", id="m1")))
    print(str(ToolMessage("3", tool_call_id="c1")))


def case_sums_of_chunks():
    whole = AIMessageChunk("Hel", id="x") + AIMessageChunk("lo", id="x")
    print(whole.content, type(whole).__name__, whole.id)


def case_trim_messages():
    said = [SystemMessage("s"), HumanMessage("1"), AIMessage("2"), HumanMessage("3")]
    show(trim_messages(said, max_tokens=2, token_counter=len, strategy="last", include_system=True))


def case_invalid_tool_calls():
    broken = {"name": "add", "args": '{"a": 1', "id": "c1", "error": "cut off", "type": "invalid_tool_call"}
    message = AIMessage("", invalid_tool_calls=[broken])
    print(message.invalid_tool_calls[0]["name"], message.tool_calls)


def case_dicts_and_tuples_as_input():
    chat = ScriptedChat("Hello.")
    said = [
        ("system", "Be kind."),
        ("human", "Hi"),
        {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": "So?"},
    ]
    show(create_agent(chat).invoke({"messages": said}))


def case_a_tool_call_in_the_history():
    said = [
        {"role": "user", "content": "1 + 2?"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "add", "args": {"a": 1, "b": 2}, "id": "c1"}]},
        {"role": "tool", "content": "3", "tool_call_id": "c1"},
        {"role": "user", "content": "And twice?"},
    ]
    chat = ScriptedChat("Six.")
    create_agent(chat, [add]).invoke({"messages": said})
    show(chat.heard[0])


def case_fastapi():
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    app = FastAPI()
    agent = create_agent(ScriptedChat("Hello."), checkpointer=InMemorySaver())

    @app.post("/chat/{name}")
    def chat(name: str, text: str):
        return agent.invoke({"messages": text}, thread(name))

    answer = TestClient(app).post("/chat/one", params={"text": "Hi"}).json()
    print([(each["type"], each["content"]) for each in answer["messages"]])


def case_json_of_a_result():
    import json

    from langchain_core.load import dumps

    print(json.loads(dumps(HumanMessage("Hi")))["kwargs"]["content"])


def case_messages_to_dict_and_back():
    from langchain_core.messages import messages_from_dict, messages_to_dict

    show(messages_from_dict(messages_to_dict([HumanMessage("Hi"), AIMessage("Ho")])))


def case_buffer_string():
    from langchain_core.messages import get_buffer_string

    print(get_buffer_string(result()["messages"]))
