"""`check_model`: checks of the rules for models, for authors of custom models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from copy import deepcopy
from inspect import isawaitable
from typing import Any

import msgspec

from ..core.facts import Usage
from ..core.number import is_count
from ..core.transcript import Item, content_text
from ..errors import ModelFailed
from ..models.delta import as_dict
from ..models.model import Model, ModelRequest, ModelResponse, OutputSpec, ToolSpec
from .model import Step, call

MakeModel = Callable[[list[Step]], Model | Awaitable[Model]]

PATIENCE = 60.0
"""Timeout of a check, in seconds: a model whose stream never ends is wrong, too."""
TEXT = 'Grüße, 漢字 \U0001f9d1\u200d\U0001f680,\n  "quoted" \\ and a tab\t.'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}
TOOLS = (ToolSpec("send", "Send a letter.", SCHEMA), ToolSpec("call", "Call somebody.", SCHEMA))
REQUEST: list[Item] = [{"role": "user", "content": "Write to Ann and to Bob."}]


async def check_model(make_model: MakeModel) -> None:
    """Check a model implementation; raise `AssertionError` with the rule that the model breaks.

    `make_model` is called several times, each time with the steps that its provider shall reply with, one for each
    request, and returns the model, or an awaitable of it. A step is one of `ScriptedModel`: a text, `call(...)`, a list
    of these, or an exception, for a request that fails. The provider is yours to play, with a local server that speaks
    its protocol. Nothing but the model's own `name` and `stream` is used.
    """
    for check in MODEL_CHECKS:
        try:
            await asyncio.wait_for(check(make_model), PATIENCE)
        except AssertionError:
            raise
        except TimeoutError as error:
            raise AssertionError(f"{check.__doc__} It did not answer in {PATIENCE:.0f} seconds.") from error
        except Exception as error:
            raise AssertionError(f"{check.__doc__} It raised {error!r:.300}.") from error


async def _make(make_model: MakeModel, *steps: Step) -> Model:
    given = make_model(list(steps))
    model = await given if isawaitable(given) else given
    if not isinstance(getattr(model, "name", None), str) or not model.name:
        raise AssertionError(f"A model has a name, which is text. It is {getattr(model, 'name', None)!r:.80}.")
    return model


async def _ask(model: Model, request: ModelRequest) -> tuple[list[Item], ModelResponse]:
    """Return the deltas and the reply, and check what is true of all of them."""
    before = deepcopy((list(request.input), request.tools, request.output))
    seen: list[Any] = [each async for each in model.stream(request)]
    *deltas, reply = seen or [None]
    _same((list(request.input), request.tools, request.output), before, "A model never changes its request.")
    if not isinstance(reply, ModelResponse):
        raise AssertionError(f"A stream ends with a ModelResponse. It ended with {reply!r:.200}.")
    if not all(type(each) is dict or callable(getattr(each, "to_dict", None)) for each in deltas):
        raise AssertionError("A delta, before the ModelResponse, is a plain dict or an event of OpenAI's client.")
    if type(reply.output) is not list or not all(type(item) is dict for item in reply.output):
        raise AssertionError(f"The output of a reply is a list of dicts. It is {reply.output!r:.200}.")
    _same(msgspec.json.decode(msgspec.json.encode(reply.output)), reply.output, "Items of a reply are plain JSON.")
    return [as_dict(each) for each in deltas], reply


def _same(found: Any, expected: Any, sentence: str) -> None:
    if found != expected:
        raise AssertionError(f"{sentence} It gave {found!r:.300}, not {expected!r:.300}.")


def _text(reply: ModelResponse) -> str:
    messages = [item for item in reply.output if item.get("type", "message") == "message"]
    if any(item.get("role") != "assistant" for item in messages):
        raise AssertionError(f"Messages of a reply have the role assistant. They are {messages!r:.200}.")
    return "".join(content_text(item.get("content")) for item in messages)


def _calls(reply: ModelResponse) -> list[Item]:
    return [item for item in reply.output if item.get("type") == "function_call"]


def _outputs(calls: Sequence[Item]) -> list[Item]:
    return [{"type": "function_call_output", "call_id": each["call_id"], "output": "Done."} for each in calls]


async def _gives_text(make_model: MakeModel) -> None:
    """A reply of text is a message with that text."""
    _, reply = await _ask(await _make(make_model, TEXT), ModelRequest("Be brief.", REQUEST))
    _same((_text(reply), _calls(reply)), (TEXT, []), "A reply of text is a message with that text, and no call.")


async def _shows_text(make_model: MakeModel) -> None:
    """The text deltas of a reply add up to its text."""
    deltas, _ = await _ask(await _make(make_model, TEXT), ModelRequest(None, REQUEST))
    shown = "".join(each["delta"] for each in deltas if each.get("type") == "response.output_text.delta")
    _same(shown, TEXT, "The deltas of type response.output_text.delta add up to the text of the reply.")


async def _gives_a_call(make_model: MakeModel) -> None:
    """A call is a `function_call` item with a name, arguments as text, and a `call_id`."""
    model = await _make(make_model, call("send", {"to": "Ann", "n": [1, 2.5, None, "ü"]}))
    _, reply = await _ask(model, ModelRequest(None, REQUEST, TOOLS))
    calls = _calls(reply)
    _same([each.get("name") for each in calls], ["send"], "A call of a tool is an item of type function_call.")
    arguments = calls[0].get("arguments")
    if not isinstance(arguments, str) or not isinstance(calls[0].get("call_id"), str) or not calls[0]["call_id"]:
        raise AssertionError(f"A call has arguments and a call_id, which are text. It is {calls[0]!r:.200}.")
    _same(json.loads(arguments), {"to": "Ann", "n": [1, 2.5, None, "ü"]}, "A call's arguments are those of the model.")


async def _keeps_malformed_arguments(make_model: MakeModel) -> None:
    """Arguments that are no JSON are kept as they were written, for the gate to refuse them."""
    _, reply = await _ask(await _make(make_model, call("send", '{"to": "An')), ModelRequest(None, REQUEST, TOOLS))
    _same([each.get("arguments") for each in _calls(reply)], ['{"to": "An'], str(_keeps_malformed_arguments.__doc__))


async def _gives_two_calls(make_model: MakeModel) -> None:
    """Two calls of one reply have ids of their own, and their order."""
    model = await _make(make_model, [call("send", {"to": "Ann"}), call("send", {"to": "Bob"})])
    _, reply = await _ask(model, ModelRequest(None, REQUEST, TOOLS))
    told = [json.loads(each["arguments"]) for each in _calls(reply)]
    _same(told, [{"to": "Ann"}, {"to": "Bob"}], "Calls are in the order in which the model made them.")
    if len({each.get("call_id") for each in _calls(reply)}) != 2:
        raise AssertionError("Two calls of one reply have different ids.")


async def _goes_on(make_model: MakeModel) -> None:
    """A reply can be sent back with the outputs of its calls, malformed ones included."""
    first = ["One moment.", call("send", {"to": "Ann"}), call("call", {"to": "Bob"})]
    model = await _make(make_model, first, call("send", "{to: Eve}"), "Done.")
    items = list(REQUEST)
    for _ in range(2):
        _, reply = await _ask(model, ModelRequest("Be brief.", items, TOOLS))
        items += [*reply.output, *_outputs(_calls(reply))]
    _, reply = await _ask(model, ModelRequest("Be brief.", items, TOOLS))
    _same(_text(reply), "Done.", str(_goes_on.__doc__))
    items += [*reply.output, {"role": "user", "content": "Thanks."}]
    again = await _make(make_model, "You are welcome.")
    _, reply = await _ask(again, ModelRequest("Be brief.", items, TOOLS))
    _same(_text(reply), "You are welcome.", "A talk goes on with another object of the model.")


async def _gives_output(make_model: MakeModel) -> None:
    """An output with a schema is a message with JSON."""
    model = await _make(make_model, '{"to": "Ann"}')
    _, reply = await _ask(model, ModelRequest(None, REQUEST, (), OutputSpec("Letter", SCHEMA)))
    _same((json.loads(_text(reply)), _calls(reply)), ({"to": "Ann"}, []), str(_gives_output.__doc__))


async def _counts(make_model: MakeModel) -> None:
    """A reply says how many tokens were used."""
    _, reply = await _ask(await _make(make_model, "Done."), ModelRequest(None, REQUEST))
    usage: Any = reply.usage
    if not isinstance(usage, Usage) or not all(is_count(number, 0) for number in usage.numbers()):
        raise AssertionError(f"A reply's usage is a Usage of whole numbers. It is {usage!r:.200}.")
    if usage.requests != 1 or not usage.input_tokens or not usage.output_tokens:
        raise AssertionError(f"A reply's usage counts one request and its tokens. It is {usage!r:.200}.")


async def _fails(make_model: MakeModel) -> None:
    """A failure of the provider is a `ModelFailed`, and the model can be asked again."""
    model = await _make(make_model, ModelFailed("The provider failed."), "Done.")
    request = ModelRequest(None, REQUEST)
    try:
        found = [each async for each in model.stream(request)]
    except ModelFailed:
        pass
    else:
        raise AssertionError(f"{_fails.__doc__} It gave {found!r:.200}.")
    _, reply = await _ask(model, request)
    _same(_text(reply), "Done.", "A model that failed can be asked again.")


async def _stops(make_model: MakeModel) -> None:
    """A stream can be closed before its end, and the model asked again."""
    model = await _make(make_model, "One two three.", "Done.")
    async with aclosing(model.stream(ModelRequest(None, REQUEST))) as events:  # type: ignore[type-var]
        await anext(events)
    _, reply = await _ask(model, ModelRequest(None, REQUEST))
    _same(_text(reply), "Done.", str(_stops.__doc__))


MODEL_CHECKS = (
    _gives_text,
    _shows_text,
    _gives_a_call,
    _keeps_malformed_arguments,
    _gives_two_calls,
    _goes_on,
    _gives_output,
    _counts,
    _fails,
    _stops,
)
