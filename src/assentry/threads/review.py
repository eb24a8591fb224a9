"""The shapes of a review, as JSON, and its words.

The shapes are the requests that a person is shown and the decisions that a person makes. The words tell the model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

from ..definitions.tool import Tool

InterruptMode = Literal["batched", "per_call"]
"""One interrupt for all calls of a turn that need decisions, or one for each such call."""
DecisionType = Literal["approve", "edit", "reject", "respond"]
"""The types of decisions on a call."""


class Action(TypedDict):
    """A tool call that runs in place of the proposed call."""

    name: str
    args: dict[str, Any]


class ActionRequest(TypedDict):
    """A call that waits for a decision."""

    name: str
    args: dict[str, Any]
    arguments: dict[str, Any]
    """The same as `args`."""
    description: str
    path: NotRequired[list[str]]
    """The tool names of the nested agents that lead to the call; absent for the agent's own calls."""
    preview: NotRequired[dict[str, Any]]
    """The tool's preview of the call as data, with its blocks; absent if the tool makes none."""
    definition: NotRequired[str]
    """The fingerprint of a server's tool, for a call that a middleware has changed."""


class ReviewConfig(TypedDict):
    """The decisions that are allowed on a waiting call."""

    action_name: str
    allowed_decisions: list[str]


class HITLRequest(TypedDict):
    """The value of an interrupt that needs decisions: two lists of the same length and order."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class ToolApprovalRequest(TypedDict):
    """The value of an interrupt about one call, in the mode "per_call". It is answered with one `HITLDecision`."""

    type: Literal["tool_approval"]
    tool_call_id: str
    """The id that the model gave the call."""
    name: str
    args: dict[str, Any]
    description: str
    path: NotRequired[list[str]]
    """The tool names of the nested agents that lead to the call; absent for the agent's own calls."""
    preview: NotRequired[dict[str, Any]]
    """The tool's preview of the call as data, with its blocks; absent if the tool makes none."""


class ApproveDecision(TypedDict):
    """The decision to run the call as it was shown."""

    type: Literal["approve"]


class EditDecision(TypedDict):
    """The decision to run another action in place of the call."""

    type: Literal["edit"]
    edited_action: Action


class RejectDecision(TypedDict):
    """The decision not to run the call. The model is told so, with the message as the reason."""

    type: Literal["reject"]
    message: NotRequired[str]


class RespondDecision(TypedDict):
    """The decision to answer in the tool's place. The tool does not run, and the model gets the message."""

    type: Literal["respond"]
    message: str


HITLDecision = ApproveDecision | EditDecision | RejectDecision | RespondDecision
"""A person's decision on one call, as JSON. `assentry.Decision` is the same as an object."""


class HITLResponse(TypedDict):
    """The answer to a `HITLRequest`: one decision for each call, in order."""

    decisions: list[HITLDecision]


# -- the schema of one decision ------------------------------------------------------------------

TITLES = {each: f"{each.capitalize()}Decision" for each in ("approve", "edit", "reject", "respond")}


def decision_schema(allowed: Sequence[str], name: str, tool: Tool | None) -> dict[str, Any]:
    """Return the JSON schema of a decision on a call of this tool, for `Interrupt.response_schema`.

    If there is one allowed decision, the schema is that of an object; otherwise one of several, told apart by "type".
    """
    more = _action_schemas(name, tool) if "edit" in allowed else {}
    if len(allowed) == 1:
        [kind] = allowed
        return {**({"$defs": more} if more else {}), **_one(kind)}
    refs = {kind: f"#/$defs/{TITLES[kind]}" for kind in allowed}
    return {
        "$defs": {**more, **{TITLES[kind]: _one(kind) for kind in allowed}},
        "discriminator": {"mapping": refs, "propertyName": "type"},
        "oneOf": [{"$ref": ref} for ref in refs.values()],
    }


def _one(kind: str) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if kind == "edit":
        more = {"edited_action": {"$ref": "#/$defs/EditedAction"}}
    elif kind != "approve":
        more = {"message": {"title": "Message", "type": "string"}}
    return {
        "properties": {"type": {"const": kind, "title": "Type", "type": "string"}, **more},
        "required": ["type", *(more if kind != "reject" else ())],
        "title": TITLES[kind],
        "type": "object",
    }


def _action_schemas(name: str, tool: Tool | None) -> dict[str, Any]:
    """Return the schemas of an edited action: the name of the tool is fixed, and the arguments are the tool's own."""
    args: dict[str, Any] = {"type": "object"}
    if tool is not None:
        args = {"title": name, "description": tool.description, **tool.params_json_schema}
    inner = args.pop("$defs", {})
    key = name if name not in (*TITLES.values(), "EditedAction") else f"{name}_args"
    action = {
        "properties": {
            "name": {"const": name, "title": "Name", "type": "string"},
            "args": {"$ref": f"#/$defs/{key}"},
        },
        "required": ["name", "args"],
        "title": "EditedAction",
        "type": "object",
    }
    return {**inner, "EditedAction": action, key: args}


# -- words for the model --------------------------------------------------------------------------

EDIT_NOTICE = (
    "Note: a person changed this tool call before it ran. Your message still shows the call as you made it, and that "
    "call did not run. The change is intended: do not make your original call again."
)
"""The default text before the result of a call that a person has edited."""
SET_ASIDE = "The user said something else instead of answering; the call did not run."
GIVEN_UP = "The user said something else instead of answering, and the call was given up."


def rejection_text(tool: str, call_id: str, message: str | None) -> str:
    """Return the text that tells the model of a person's rejection. Models and programs know these words."""
    if message:
        return f"User rejected the tool call for `{tool}` with reason: {message}"
    return (
        f"User rejected the tool call for `{tool}` with id {call_id}. The tool was not executed. Do not retry this "
        "tool call unless the user explicitly requests it."
    )


def edit_notice_text(notice: str | None, ran: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """Return the notice of an edit with what ran; empty if there is to be none."""
    calls = [f"{name} with arguments {json.dumps(args, default=str, ensure_ascii=False)}" for name, args in ran]
    return f"{notice} Executed instead: {', and '.join(calls)}." if notice else ""
