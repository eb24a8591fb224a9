"""Structured output."""

from dataclasses import dataclass

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from pydantic import BaseModel, Field
from scripted import ScriptedChat, call, shown, turn
from typing_extensions import TypedDict

SCHEMA = {
    "title": "Person",
    "description": "A person.",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}


class Person(BaseModel):
    """A person."""

    name: str
    age: int = Field(ge=0)


ANN = turn(call("Person", {"name": "Ann", "age": 30}))


def ask(chat, **options):
    result = create_agent(chat, **options).invoke({"messages": "Who?"})
    print(result["structured_response"])
    return result


def case_a_type():
    ask(ScriptedChat(ANN), response_format=Person)


def case_tool_strategy():
    result = ask(ScriptedChat(ANN), response_format=ToolStrategy(Person))
    print([each.type for each in result["messages"]])


def case_tool_message_content():
    result = ask(ScriptedChat(ANN), response_format=ToolStrategy(Person, tool_message_content="Noted."))
    print(result["messages"][-1].content)


def case_tool_strategy_of_a_union():
    class Place(BaseModel):
        """A place."""

        city: str

    ask(ScriptedChat(turn(call("Place", {"city": "Ghent"}))), response_format=ToolStrategy(Person | Place))


def case_json_schema():
    ask(ScriptedChat(ANN), response_format=ToolStrategy(SCHEMA))


def case_json_schema_as_it_is():
    ask(ScriptedChat(ANN), response_format=SCHEMA)


def case_dataclass():
    @dataclass
    class Person:
        """A person."""

        name: str
        age: int

    ask(ScriptedChat(ANN), response_format=ToolStrategy(Person))


def case_typed_dict():
    class Person(TypedDict):
        """A person."""

        name: str
        age: int

    ask(ScriptedChat(ANN), response_format=ToolStrategy(Person))


def case_provider_strategy():
    ask(ScriptedChat('{"name": "Ann", "age": 30}'), response_format=ProviderStrategy(Person))


def case_retry_of_invalid_output():
    bad = turn(call("Person", {"name": "Ann", "age": -1}, "c1"))
    result = ask(ScriptedChat(bad, ANN), response_format=ToolStrategy(Person))
    print([each.type for each in result["messages"]], result["messages"][2].status)


def case_invalid_output_not_handled():
    bad = turn(call("Person", {"name": "Ann", "age": -1}))
    try:
        ask(ScriptedChat(bad), response_format=ToolStrategy(Person, handle_errors=False))
    except Exception as error:
        print(shown(error))


def case_handled_with_words_of_ones_own():
    bad = turn(call("Person", {"name": "Ann", "age": -1}, "c1"))
    chat = ScriptedChat(bad, ANN)
    ask(chat, response_format=ToolStrategy(Person, handle_errors="Ages are not negative."))
    print(chat.heard[1][-1].content)


def case_tools_beside_it():
    def look(name: str) -> str:
        """Look somebody up."""
        return f"{name} is 30."

    chat = ScriptedChat(turn(call("look", {"name": "Ann"}, "c0")), ANN)
    ask(chat, tools=[look], response_format=ToolStrategy(Person))
    print(sorted(chat.offered[0]))
