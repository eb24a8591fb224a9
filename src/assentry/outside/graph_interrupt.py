"""Interrupts of LangGraph as asks, and the values with which they are resumed.

Three shapes are read: the request of LangChain's `HumanInTheLoopMiddleware` for all calls of a turn, its request for
one call, and any other value, which is a question to a person. Nothing here imports the library, asks or waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from ..approval.foreign_call import LONGEST_NAME
from ..core.digest import canonical, digest
from ..core.facts import Verdict
from ..core.wording import described, shortened
from ..definitions.preview import Preview, Text, split_lines
from ..errors import Conflict, InvalidInput, NotApproved
from ..store.call_status import CallStatus
from .approvals import RUNNABLE, why_not
from .options import CallOptions
from .turn import output_as_json

QUESTION = "interrupt"
"""The name of the tool under which a graph's own `interrupt(value)` is asked."""
WAIT = "assentry_wait"
"""The type of the interrupt with which our own middleware waits for an ask."""
LONGEST_SENTENCE = 200
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class ModelCall(Struct, frozen=True, kw_only=True):
    """A tool call of a model, as a thread's messages have it."""

    id: str
    name: str
    args: dict[str, Any]
    message: str | None = None
    """The id of the message that has the call."""
    says: str = ""
    """The text of that message."""


class InterruptedCall(Struct, frozen=True, kw_only=True):
    """A call, or a question, that an interrupt asks about."""

    tool: str
    arguments: dict[str, Any]
    options: CallOptions
    takes: tuple[Verdict, ...]
    """The verdicts that the graph takes."""
    call: str | None = None
    """The id of the tool call; None if the thread's messages do not have it."""


class GraphInterrupt(Struct, frozen=True, kw_only=True):
    """An interrupt of a thread, with what it asks about."""

    id: str
    kind: Literal["turn", "call", "question", "wait"]
    calls: tuple[InterruptedCall, ...]
    ask: str | None = None
    """The id of the ask that our own middleware waits for."""


class _Action(Struct):
    name: str
    args: dict[str, Any]
    description: str = ""


class _Review(Struct):
    action_name: str
    allowed_decisions: list[Verdict]


class _TurnRequest(Struct):
    action_requests: list[_Action]
    review_configs: list[_Review]


class _CallRequest(Struct):
    tool_call_id: str
    name: str
    args: dict[str, Any]
    description: str = ""


class _WaitRequest(Struct):
    ask: str


def read_interrupt(
    id: str, value: Any, shape: Any, thread: str, calls: Sequence[ModelCall], schemas: Mapping[str, dict[str, Any]]
) -> GraphInterrupt:
    """Return what an interrupt asks about, or raise `InvalidInput` if it is like a known shape, and is none.

    Args:
        id: The interrupt's id.
        value: The interrupt's value.
        shape: The JSON schema of the value with which it is resumed; None if any will do.
        thread: The thread's id.
        calls: The open tool calls in the thread's messages.
        schemas: The JSON schemas of tools' arguments, by name.
    """
    place = {"thread": thread, "interrupt": id}
    if isinstance(value, Mapping):
        if "action_requests" in value:
            return _read_turn(id, _read(value, _TurnRequest), place, calls, schemas)
        if value.get("type") == "tool_approval":
            return _read_call(id, _read(value, _CallRequest), shape, place, calls, schemas)
        if value.get("type") == WAIT:
            return GraphInterrupt(id=id, kind="wait", calls=(), ask=_read(value, _WaitRequest).ask)
    return _read_question(id, value, shape, place)


def _read(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(output_as_json(value), kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"This interrupt is not one of HumanInTheLoopMiddleware's: {error}.") from None


def _read_turn(
    id: str,
    request: _TurnRequest,
    place: dict[str, Any],
    calls: Sequence[ModelCall],
    schemas: Mapping[str, dict[str, Any]],
) -> GraphInterrupt:
    reviews = request.review_configs
    left = list(calls)
    made: list[InterruptedCall] = []
    for n, action in enumerate(request.action_requests):
        at_its_place = reviews[n : n + 1] if len(reviews) == len(request.action_requests) else []
        fits = [each for each in [*at_its_place, *reviews] if each.action_name == action.name]
        if not fits:
            raise InvalidInput(f"This interrupt does not say which decisions fit {action.name!r}.")
        call = next((each for each in left if (each.name, each.args) == (action.name, action.args)), None)
        if call is not None:
            left.remove(call)
        made.append(_interrupted_call(action, tuple(fits[0].allowed_decisions), call, {**place, "place": n}, schemas))
    if not made:
        raise InvalidInput("This interrupt asks about no call.")
    return GraphInterrupt(id=id, kind="turn", calls=tuple(made))


def _read_call(
    id: str,
    request: _CallRequest,
    shape: Any,
    place: dict[str, Any],
    calls: Sequence[ModelCall],
    schemas: Mapping[str, dict[str, Any]],
) -> GraphInterrupt:
    call = next((each for each in calls if each.id == request.tool_call_id), None)
    if call is None:  # the call is in the messages of a subgraph
        call = ModelCall(id=request.tool_call_id, name=request.name, args=request.args)
    takes, edit_schema = _read_response_schema(shape)
    action = _Action(request.name, request.args, request.description)
    if edit_schema is not None:
        schemas = {request.name: edit_schema, **schemas}
    return GraphInterrupt(id=id, kind="call", calls=(_interrupted_call(action, takes, call, place, schemas),))


def _read_response_schema(shape: Any) -> tuple[tuple[Verdict, ...], dict[str, Any] | None]:
    """Return the verdicts that a response schema takes, and the schema of edited arguments."""
    if not isinstance(shape, dict):
        return VERDICTS, None
    defs = shape.get("$defs", {})

    def resolved(each: Any) -> dict[str, Any]:
        name = each.get("$ref", "").rpartition("/")[2] if isinstance(each, dict) else ""
        found = defs.get(name) if name else each
        return found if isinstance(found, dict) else {}

    takes: list[Verdict] = []
    edit_schema: dict[str, Any] | None = None
    for each in map(resolved, shape.get("oneOf") or shape.get("anyOf") or [shape]):
        properties = each.get("properties", {})
        name = properties.get("type", {}).get("const")
        if name in VERDICTS:
            takes.append(name)
        if name == "edit":
            args = resolved(resolved(properties.get("edited_action")).get("properties", {}).get("args"))
            edit_schema = {**args, "$defs": defs} if args.get("properties") else None
    if not takes:
        raise InvalidInput("This interrupt does not say which decisions fit.")
    return tuple(takes), edit_schema


def _interrupted_call(
    action: _Action,
    takes: tuple[Verdict, ...],
    call: ModelCall | None,
    place: dict[str, Any],
    schemas: Mapping[str, dict[str, Any]],
) -> InterruptedCall:
    options: CallOptions = {
        "key": call_key(place["thread"], call, "interrupt")
        if call is not None
        else _key({**place, "args": action.args}),
        "session": place["thread"][:LONGEST_NAME],
        "allowed": tuple(dict.fromkeys([*takes, "reject"])),
    }
    if action.name in schemas:
        options["schema"] = schemas[action.name]
    if call is not None and call.says:
        options["says"] = call.says
    if (
        action.description.strip() and f"Tool: {action.name}\nArgs: " not in action.description
    ):  # the library's own default
        told = first_line(action.description)
        options["preview"] = Preview(f"Run {action.name}: {told}", (Text(action.description, "The graph says"),))
    return InterruptedCall(
        tool=action.name, arguments=action.args, options=options, takes=takes, call=call.id if call else None
    )


def first_line(text: str) -> str:
    """Return the first line of a text that is not empty, cut to the length of a sentence."""
    return shortened(next((line.strip() for line in split_lines(text) if line.strip()), ""), LONGEST_SENTENCE)


def _read_question(id: str, value: Any, shape: Any, place: dict[str, Any]) -> GraphInterrupt:
    asked = output_as_json(value)
    text = asked if isinstance(asked, str) else canonical(asked).decode()
    options: CallOptions = {
        "key": _key({**place, "value": asked}),
        "session": place["thread"][:LONGEST_NAME],
        "allowed": ("respond", "reject"),
        "answer_schema": shape if isinstance(shape, dict) else None,
        "preview": Preview(first_line(text) or "(nothing)"),
    }
    call = InterruptedCall(tool=QUESTION, arguments={"value": asked}, options=options, takes=("respond",))
    return GraphInterrupt(id=id, kind="question", calls=(call,))


def call_key(thread: str | None, call: ModelCall, way: Literal["interrupt", "middleware"]) -> str:
    """Return the key of a tool call: the same in every process that takes the thread again, on the same way in."""
    return _key({"thread": thread, "message": call.message, "call": call.id, "way": way})


def _key(parts: dict[str, Any]) -> str:
    return f"langgraph:{digest(parts)}"


# -- resuming ----------------------------------------------------------------------------------------


def resume_value(interrupt: GraphInterrupt, statuses: Sequence[CallStatus]) -> Any:
    """Return the value with which an interrupt is resumed; raise `NotApproved` if the graph takes no such verdict."""
    if interrupt.kind == "wait":
        return True
    if interrupt.kind == "question":
        if statuses[0].state != "answered":
            raise NotApproved(f"Nobody answered the graph's question: {_refusal(statuses[0])}", statuses[0])
        return statuses[0].output
    decisions = [_decision(call, status) for call, status in zip(interrupt.calls, statuses, strict=True)]
    return {"decisions": decisions} if interrupt.kind == "turn" else decisions[0]


def _decision(call: InterruptedCall, status: CallStatus) -> dict[str, Any]:
    """Return the library's form of a verdict on a call."""
    if status.state in ("finished", "failed"):
        raise Conflict(
            f"{status.tool} has run already, as the record says, and the thread is at a point before it. "
            "Go on from the thread's newest checkpoint."
        )
    made: dict[str, Any]
    if status.state in RUNNABLE:
        made = {"type": "approve"}
        if status.edited:
            made = {"type": "edit", "edited_action": {"name": status.tool, "args": status.arguments}}
    elif status.state == "answered":
        output = status.output
        made = {"type": "respond", "message": output if isinstance(output, str) else canonical(output).decode()}
    else:
        made = {"type": "reject", "message": _refusal(status)}
    if made["type"] not in call.takes:
        taken = ", ".join(call.takes)
        raise NotApproved(
            f"The verdict on {status.tool} is {made['type']!r}, by {status.by}, and its graph takes only: {taken}. "
            "The thread still waits; change its interrupt_on, or decide anew.",
            status,
        )
    return made


def _refusal(status: CallStatus) -> str:
    """Return the words for the model, or for the program, of a call that must not run."""
    if status.state in RUNNABLE:
        return f"{status.by} lets it pass, so that nobody was asked."
    return status.message or why_not(status)


def thread_of(config: Any) -> str:
    """Return the id of the thread that a config names, or raise `InvalidInput`."""
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    thread = configurable.get("thread_id") if isinstance(configurable, Mapping) else None
    if thread is None or not str(thread):
        raise InvalidInput(
            'A graph that waits needs a thread: config = {"configurable": {"thread_id": "..."}}, '
            f"got {described(config)}."
        )
    return str(thread)
