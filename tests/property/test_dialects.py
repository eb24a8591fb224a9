"""Each wire dialect turns items to its form and back without loss, whatever the talk is."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk

from assentry import ModelRequest, UsageError
from assentry.models import anthropic, langchain, openai_chat
from assentry.models.anthropic import AnthropicReply
from assentry.models.langchain import LangChainReply
from assentry.models.openai_chat import ChatReply
from assentry.models.wire import WIRE
from tests.draws import examples
from tests.models.anthropic_server import begun, block_events, stopped

Item = dict[str, Any]

LETTERS = st.characters(codec="utf-8")
WORDS = st.text(LETTERS, min_size=1, max_size=30)
NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(LETTERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(LETTERS, max_size=8), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(LETTERS, max_size=8), JSON, max_size=3)
URLS = st.sampled_from(["https://example.com/a.png", "data:image/png;base64,AAAA"])
TEXT_PARTS = st.builds(lambda text: {"type": "input_text", "text": text}, WORDS)
IMAGES = st.builds(lambda url: {"type": "input_image", "image_url": url}, URLS)
FILES = st.just({"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"})
PARTS = st.lists(TEXT_PARTS | IMAGES | FILES, min_size=1, max_size=3)


def message(text: str, wire: Item | None = None) -> Item:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item: Item = {"type": "message", "role": "assistant", "status": "completed", "content": content}
    return {**item, WIRE: wire} if wire else item


def calling(id: str, name: str, arguments: str, wire: Item | None = None) -> Item:
    item: Item = {"type": "function_call", "call_id": id, "name": name, "arguments": arguments, "status": "completed"}
    return {**item, WIRE: wire} if wire else item


def thought(text: str, wire: Item) -> Item:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"type": "reasoning", "summary": [], "content": content, WIRE: wire}


@st.composite
def talks(draw: st.DrawFn, turn: st.SearchStrategy[list[Item]], roles: list[str], outputs: Any) -> list[Item]:
    """A talk: inputs, and turns of the model with an output for every call."""
    items: list[Item] = []
    for _ in range(draw(st.integers(1, 4))):
        role = draw(st.sampled_from(roles))
        items.append({"role": role, "content": draw(PARTS if role == "user" else st.lists(TEXT_PARTS, min_size=1))})
        made = [{**item} for item in draw(turn)]
        for item in made:
            if item["type"] == "function_call":
                item["call_id"] = f"call_{len(items)}_{draw(st.integers(0, 10**9))}_{made.index(item)}"
        items += made
        calls = [item["call_id"] for item in made if item["type"] == "function_call"]
        items += [{"type": "function_call_output", "call_id": call, "output": draw(outputs)} for call in calls]
    return items


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


# -- chat ----------------------------------------------------------------------------------------------

EXTRA = st.dictionaries(st.sampled_from(["extra_content", "x"]), OBJECTS.filter(bool), max_size=2)


@st.composite
def chat_turns(draw: st.DrawFn) -> list[Item]:
    """A turn in the order of the wire: reasoning, text, calls. Fields of the server's own are with the message."""
    out: list[Item] = []
    if draw(st.booleans()):
        out.append(thought(draw(WORDS), {"chat": {"field": draw(st.sampled_from(["reasoning_content", "reasoning"]))}}))
    if draw(st.booleans()):
        own = draw(EXTRA)
        out.append(message(draw(WORDS), {"chat": own} if own else None))
    for _ in range(draw(st.integers(0, 3))):
        own = draw(EXTRA)
        written = draw(st.builds(json.dumps, OBJECTS) | WORDS)
        out.append(calling("", draw(NAMES), written, {"chat": own} if own else None))
    return out or [message(draw(WORDS))]


CHAT_TALKS = talks(chat_turns(), ["user", "system", "developer"], WORDS | st.lists(TEXT_PARTS, min_size=1))


def chat_given(message: Item) -> Item:
    """What was given to the model, read from a message."""
    content = message["content"]
    if not isinstance(content, str):
        content = [_chat_part(part) for part in content]
    if message["role"] == "tool":
        return {"type": "function_call_output", "call_id": message["tool_call_id"], "output": content}
    return {"role": message["role"], "content": content}


def _chat_part(part: Item) -> Item:
    if part["type"] == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"]}
    if part["type"] == "file":
        return {"type": "input_file", **part["file"]}
    return {"type": "input_text", "text": part["text"]}


def chat_read(message: Item, cut: Any) -> list[Item]:
    """A message of the model, read as a stream that is cut into pieces anywhere."""
    reply = ChatReply("m", set())
    known = ("role", "content", "tool_calls", "reasoning_content", "reasoning")
    for field in ("reasoning_content", "reasoning", "content"):
        for piece in cut(message.get(field) or ""):
            list(reply.grow({field: piece}))
    list(reply.grow({name: value for name, value in message.items() if name not in known}))
    for index, call in enumerate(message.get("tool_calls") or ()):
        own = {name: value for name, value in call.items() if name != "function"}
        first = {**own, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        list(reply.grow({"tool_calls": [first]}))
        for piece in cut(call["function"]["arguments"]):
            list(reply.grow({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    reply.finish = "stop"
    return reply.response().output


@given(CHAT_TALKS, st.data())
def test_items_come_back_from_chat_messages_as_they_were(items: list[Item], data: st.DataObject) -> None:
    before = deepcopy(items)
    said = openai_chat.chat_messages(ModelRequest(None, items))
    assert items == before
    back: list[Item] = []
    for each in json.loads(json.dumps(said)):
        if each["role"] == "assistant":
            back += chat_read(each, lambda text: data.draw(pieces(text)))
        else:
            back.append(chat_given(each))
    assert back == items


# -- Anthropic -----------------------------------------------------------------------------------------

ANTHROPIC_BLOCKS = (
    st.builds(lambda text: message(text), WORDS)
    | st.builds(lambda text, sign: thought(text, {"anthropic": {"type": "thinking", "signature": sign}}), WORDS, WORDS)
    | st.builds(lambda data: thought("", {"anthropic": {"type": "redacted_thinking", "data": data}}), WORDS)
    | st.builds(
        lambda text, cited: message(text, {"anthropic": {"citations": cited}}), WORDS, st.lists(OBJECTS, min_size=1)
    )
    | st.builds(lambda name, args: calling("", name, json.dumps(args)), NAMES, OBJECTS)
    | st.builds(
        lambda rest: {"type": "anthropic:new_block", WIRE: {"anthropic": {**rest, "type": "new_block"}}}, OBJECTS
    )
)
ANTHROPIC_OUTPUTS = WORDS | st.lists(TEXT_PARTS | IMAGES, min_size=1)
ANTHROPIC_TALKS = talks(st.lists(ANTHROPIC_BLOCKS, min_size=1, max_size=5), ["user"], ANTHROPIC_OUTPUTS)


def anthropic_given(block: Item) -> Item:
    """What was given to the model, read from a block."""
    if block["type"] == "tool_result":
        content = block["content"]
        output = content if isinstance(content, str) else [_anthropic_part(part) for part in content]
        return {"type": "function_call_output", "call_id": block["tool_use_id"], "output": output}
    return _anthropic_part(block)


def _anthropic_part(block: Item) -> Item:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block["source"]
    url = source.get("url") or f"data:{source['media_type']};base64,{source['data']}"
    if block["type"] == "image":
        return {"type": "input_image", "image_url": url}
    return {"type": "input_file", "file_data": url, "filename": block["title"]}


def anthropic_read(blocks: list[Item]) -> list[Item]:
    """Blocks of the model, read as the API streams them."""
    reply = AnthropicReply("m", set())
    events = [event for n, block in enumerate(blocks) for event in block_events(n, block)]
    for event in [begun(), *events, *stopped()]:
        list(reply.read(json.loads(json.dumps(event))))
    return reply.response().output


def parsed(items: list[Item]) -> list[Item]:
    """Items with their arguments as values: the wire has objects, and says nothing of their white space."""
    return [
        {**item, "arguments": json.loads(item["arguments"])} if item.get("type") == "function_call" else item
        for item in items
    ]


@given(ANTHROPIC_TALKS)
def test_items_come_back_from_anthropics_blocks_as_they_were(items: list[Item]) -> None:
    before = deepcopy(items)
    wanted = anthropic.anthropic_parameters("m", ModelRequest(None, items), "5m")
    assert items == before
    back: list[Item] = []
    for each in json.loads(json.dumps(wanted["messages"])):
        blocks = [
            {name: value for name, value in block.items() if name != "cache_control"} for block in each["content"]
        ]
        if each["role"] == "assistant":
            back += anthropic_read(blocks)
        else:
            read = [anthropic_given(block) for block in blocks]
            back += [part for part in read if part["type"] == "function_call_output"]
            parts = [part for part in read if part["type"] != "function_call_output"]
            back += [{"role": "user", "content": parts}] if parts else []
    assert parsed(back) == parsed(items)


# -- LangChain -----------------------------------------------------------------------------------------

LANGCHAIN_TALKS = talks(
    st.builds(
        lambda text, calls: [message(text), *calls],
        WORDS,
        st.lists(st.builds(lambda name, args: calling("", name, json.dumps(args)), NAMES, OBJECTS), max_size=3),
    ),
    ["user", "system"],
    WORDS,
)


def langchain_read(said: BaseMessage, cut: Any) -> list[Item]:
    if isinstance(said, ToolMessage):
        return [{"type": "function_call_output", "call_id": said.tool_call_id, "output": said.content}]
    if isinstance(said, HumanMessage | SystemMessage):
        role = "user" if isinstance(said, HumanMessage) else "system"
        return [{"role": role, "content": [_chat_part(part) for part in said.content]}]  # type: ignore[arg-type]
    assert isinstance(said, AIMessage) and isinstance(said.content, str)
    reply = LangChainReply("m", set(), None)
    chunks = [AIMessageChunk(piece) for piece in cut(said.content)]
    for n, call in enumerate(said.tool_calls):
        first, *rest = cut(json.dumps(call["args"]))
        begins = tool_call_chunk(name=call["name"], args=first, id=call["id"], index=n)
        others = [tool_call_chunk(name=None, args=piece, id=None, index=n) for piece in rest]
        chunks += [AIMessageChunk("", tool_call_chunks=[piece]) for piece in (begins, *others)]
    for chunk in chunks:
        list(reply.take(chunk))
    return reply.response().output


@given(LANGCHAIN_TALKS, st.data())
def test_items_come_back_from_langchains_messages_as_they_were(items: list[Item], data: st.DataObject) -> None:
    before = deepcopy(items)
    said = [
        langchain._message(each) for each in openai_chat.chat_messages(ModelRequest(None, items), langchain.DIALECT)
    ]
    assert items == before
    back = [item for each in said for item in langchain_read(each, lambda text: data.draw(pieces(text)))]
    assert parsed(back) == parsed(items)


# -- what a dialect cannot say -------------------------------------------------------------------------


@given(st.sampled_from(["web_search_call", "mcp_call", "something_new"]), OBJECTS)
@pytest.mark.parametrize(
    "tell", [openai_chat.chat_messages, lambda request: anthropic.anthropic_parameters("m", request)]
)
def test_an_item_that_a_dialect_cannot_say_is_refused_and_never_left_out(tell: Any, kind: str, rest: Item) -> None:
    with pytest.raises(UsageError, match=kind):
        tell(ModelRequest(None, [{**rest, "type": kind, "role": "assistant"}]))


@given(st.sampled_from(["output_audio", "something_new"]), OBJECTS)
@pytest.mark.parametrize(
    "tell", [openai_chat.chat_messages, lambda request: anthropic.anthropic_parameters("m", request)]
)
def test_a_part_that_a_dialect_cannot_say_is_refused_and_never_left_out(tell: Any, kind: str, rest: Item) -> None:
    part = {**{name: value for name, value in rest.items() if name != "text"}, "type": kind}
    for role in ("assistant", "user"):
        with pytest.raises(UsageError, match=kind):
            tell(ModelRequest(None, [{"role": role, "content": [part]}]))


@settings(max_examples=examples(30))
@given(CHAT_TALKS, talks(st.lists(ANTHROPIC_BLOCKS, min_size=1, max_size=5), ["user"], WORDS))
def test_no_dialect_is_told_anothers_reasoning_or_fields(chat: list[Item], anthropics: list[Item]) -> None:
    known = [item for item in anthropics if not item.get("type", "").startswith("anthropic:")]
    said = json.dumps(openai_chat.chat_messages(ModelRequest(None, known)))
    assert '"signature"' not in said and "redacted_thinking" not in said
    made = [item for item in chat if item.get("role", "user") in ("user", "assistant")]
    wanted = anthropic.anthropic_parameters("m", ModelRequest(None, made))
    assert {block["type"] for each in wanted["messages"] for block in each["content"]} <= {
        "text",
        "image",
        "document",
        "tool_use",
        "tool_result",
    }
