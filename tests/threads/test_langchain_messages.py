"""Messages of LangChain, as they are: converted both ways, and through a thread, without loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core import messages as lc
from langchain_core.documents import Document

from assentry import InvalidInput
from assentry.testing import ScriptedModel
from assentry.threads import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    InMemorySaver,
    Message,
    RemoveMessage,
    SqliteSaver,
    SystemMessage,
    ToolMessage,
    create_agent,
)
from assentry.threads.langchain.message import from_langchain, to_langchain
from tests.draws import examples
from tests.threads.support import thread

WORDS = st.text('ab é{}"', max_size=6)
NAMES = st.text("abc", min_size=1, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
DATA = st.dictionaries(NAMES, JSON, max_size=2)
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}, WORDS),
    st.builds(lambda text: {"type": "text", "text": text}, WORDS),
    st.builds(lambda text: {"type": "reasoning", "reasoning": text}, WORDS),
    st.builds(lambda url: {"type": "image", "url": url}, NAMES),
    WORDS,
)
CONTENT = WORDS | st.lists(BLOCKS, min_size=1, max_size=3)
COMMON: dict[str, Any] = {
    "content": CONTENT,
    "id": st.none() | NAMES,
    "name": st.none() | NAMES,
    "additional_kwargs": DATA,
    "response_metadata": DATA,
}
USAGE = st.none() | st.builds(
    lambda read, wrote: {
        "input_tokens": read,
        "output_tokens": wrote,
        "total_tokens": read + wrote,
        "input_token_details": {"cache_read": read},
    },
    st.integers(0, 9),
    st.integers(0, 9),
)
INVALID = st.builds(
    lambda id, name: {"name": name, "args": "{", "id": id, "error": "Bad.", "type": "invalid_tool_call"}, NAMES, NAMES
)
SPOKEN: dict[str, Any] = {**COMMON, "usage_metadata": USAGE, "invalid_tool_calls": st.lists(INVALID, max_size=1)}


def _calls(type: str) -> Any:
    def call(name: str, args: Any, number: int) -> dict[str, Any]:
        return {"name": name, "args": args, "id": f"c{number}", "type": type}

    return st.builds(call, NAMES, DATA, st.integers(1, 3))


def _unique(calls: Any) -> Any:
    return st.lists(calls, max_size=2, unique_by=lambda call: call["id"])


ANSWER: dict[str, Any] = {
    **COMMON,
    "tool_call_id": NAMES,
    "status": st.sampled_from(["success", "error"]),
    "artifact": JSON,
}
OURS = st.one_of(
    st.builds(HumanMessage, **COMMON),
    st.builds(SystemMessage, **COMMON),
    st.builds(AIMessage, **SPOKEN, tool_calls=_unique(_calls("tool_call"))),
    st.builds(
        AIMessageChunk,
        **SPOKEN,
        tool_call_chunks=st.lists(
            st.builds(
                lambda name: {"name": name, "args": "{", "id": "c", "index": 0, "type": "tool_call_chunk"}, NAMES
            ),
            max_size=1,
        ),
        chunk_position=st.sampled_from([None, "last"]),
    ),
    st.builds(ToolMessage, **ANSWER),
    st.builds(RemoveMessage, id=NAMES),
)
EXTRA: dict[str, Any] = {"example": st.booleans(), "ours": JSON}
ROLES = st.sampled_from(["user", "assistant", "system"])


def _theirs(kind: Any, **fields: Any) -> Any:
    return st.fixed_dictionaries(fields).map(lambda drawn: kind(**drawn))


THEIRS = st.one_of(
    _theirs(lc.HumanMessage, **COMMON, **EXTRA),
    _theirs(lc.SystemMessage, **COMMON),
    _theirs(lc.AIMessage, **SPOKEN, tool_calls=_unique(_calls("tool_call")), **EXTRA),
    _theirs(lc.ToolMessage, **ANSWER),
    _theirs(lc.ChatMessage, **COMMON, role=ROLES),
    _theirs(lc.RemoveMessage, id=NAMES),
    _theirs(
        lc.AIMessageChunk,
        content=WORDS,
        tool_call_chunks=st.lists(
            st.sampled_from(["", "{", "{}"]).map(lambda args: {"name": "a", "args": args, "id": "c", "index": 0}),
            max_size=1,
        ),
    ),
)


@settings(max_examples=examples(300))
@given(OURS)
def test_our_messages_are_the_same_after_a_conversion_to_langchain_and_back(message: Message) -> None:
    theirs = to_langchain(message)
    assert from_langchain(theirs) == message
    assert type(from_langchain(theirs)) is type(message)
    assert theirs.model_dump()["content"] == message.content


@settings(max_examples=examples(300))
@given(THEIRS)
def test_messages_of_langchain_are_the_same_after_a_conversion_to_ours_and_back(message: Any) -> None:
    again = to_langchain(from_langchain(message))
    assert again == message
    assert type(again) is type(message)


CONVERSED = st.one_of(
    _theirs(lc.HumanMessage, **COMMON, **EXTRA),
    _theirs(lc.SystemMessage, **COMMON),
    _theirs(lc.AIMessage, **SPOKEN, tool_calls=_unique(_calls("tool_call")), **EXTRA),
    _theirs(lc.ChatMessage, **COMMON, role=ROLES),
)


@st.composite
def conversations(draw: Any) -> list[Any]:
    """Messages that a provider could hear: each call has its output after it, and no id is there twice."""
    out: list[Any] = []
    for number, message in enumerate(draw(st.lists(CONVERSED, min_size=1, max_size=4))):
        if isinstance(message, lc.AIMessage):
            message.tool_calls = [{**call, "id": f"{call['id']}-{number}"} for call in message.tool_calls]
        made = [message, *(draw(_theirs(lc.ToolMessage, **ANSWER)) for _ in getattr(message, "tool_calls", ()))]
        for call, answer in zip(getattr(message, "tool_calls", ()), made[1:], strict=True):
            answer.tool_call_id = call["id"]
        out += made
    for number, each in enumerate(out):
        each.id = each.id and f"{each.id}-{number}"
    return out


def _with_ids(given: list[Any], state: list[Any]) -> list[Any]:
    return [
        each if each.id else each.model_copy(update={"id": kept.id}) for each, kept in zip(given, state, strict=True)
    ]


@settings(max_examples=examples(200), deadline=None)
@given(conversations())
def test_messages_of_langchain_come_back_from_a_thread_as_they_were_given(given: list[Any]) -> None:
    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(["Yes."]), checkpointer=saver)
    agent.invoke({"messages": [*given, lc.HumanMessage("And?")]}, thread())
    for reader in (agent, create_agent(ScriptedModel([]), checkpointer=saver)):
        state = reader.get_state(thread()).values["messages"]
        kept = [each if isinstance(each, lc.BaseMessage) else to_langchain(each) for each in state[: len(given)]]
        assert kept == _with_ids(given, kept)
        assert [type(each) for each in kept] == [type(each) for each in given]


def test_messages_of_langchain_come_back_from_a_file(tmp_path: Path) -> None:
    said = [
        lc.SystemMessage([{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}], id="s"),
        lc.HumanMessage("Hi", id="h", name="ann", example=True),
        lc.AIMessage(
            [{"type": "text", "text": "Well", "cache_control": {"type": "ephemeral"}}],
            id="a",
            tool_calls=[{"name": "look", "args": {"at": 1}, "id": "c1"}],
            response_metadata={"finish_reason": "tool_calls"},
            additional_kwargs={"refusal": None},
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        ),
        lc.ToolMessage("seen", tool_call_id="c1", id="t", name="look", artifact={"rows": [1]}, status="error"),
    ]
    with SqliteSaver(tmp_path / "threads.db") as saver:
        create_agent(ScriptedModel(["Yes."]), checkpointer=saver).invoke({"messages": said}, thread())
    with SqliteSaver(tmp_path / "threads.db") as saver:
        state = create_agent(ScriptedModel([]), checkpointer=saver).get_state(thread()).values["messages"]
    assert [to_langchain(each) for each in state[:4]] == said


def test_parts_of_a_message_are_whole_in_a_thread() -> None:
    agent = create_agent(ScriptedModel(["Yes."]), checkpointer=InMemorySaver())
    said = [lc.HumanMessageChunk(content="Hi"), lc.AIMessageChunk(content="Well"), ("user", "And?")]
    state = agent.invoke({"messages": said}, thread())["messages"]
    assert [type(each) for each in state] == [lc.HumanMessage, lc.AIMessage, lc.HumanMessage, lc.AIMessage]


def test_messages_that_no_model_hears_are_refused() -> None:
    agent = create_agent(ScriptedModel(["Yes."]), checkpointer=InMemorySaver())
    for wrong, words in (
        (lc.FunctionMessage(content="4", name="add"), "give a ToolMessage"),
        (lc.ChatMessage(content="Hm", role="critic"), "give a HumanMessage"),
    ):
        with pytest.raises(InvalidInput, match=words):
            agent.invoke({"messages": [wrong]}, thread())


def test_messages_of_both_kinds_are_equal_if_they_say_the_same() -> None:
    calls = [{"name": "look", "args": {}, "id": "c1", "type": "tool_call"}]
    assert AIMessage("Hi", tool_calls=calls) == lc.AIMessage("Hi", tool_calls=calls)
    assert lc.AIMessage("Hi", tool_calls=calls) == AIMessage("Hi", tool_calls=calls)
    for other in (lc.AIMessage("Ho"), lc.HumanMessage("Hi"), lc.AIMessage("Hi", id="1"), lc.AIMessage("Hi", ours=1)):
        assert other != AIMessage("Hi")
        assert AIMessage("Hi") != other


def test_documents_beside_the_output_of_a_tool_are_documents_again() -> None:
    found = [Document("milk", metadata={"page": 3}, id="d")]
    agent = create_agent(ScriptedModel(["Yes."]), checkpointer=InMemorySaver())
    call = {"name": "find", "args": {}, "id": "c1"}
    said = [lc.AIMessage("", tool_calls=[call]), lc.ToolMessage("milk", tool_call_id="c1", artifact=found)]
    assert agent.invoke({"messages": said}, thread())["messages"][1].artifact == found
