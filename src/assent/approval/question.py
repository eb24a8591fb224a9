"""Questions: what exactly is put to a person, and the digest that binds a decision to it."""

from __future__ import annotations

import uuid
from typing import Any

from msgspec import Raw
from msgspec.json import decode

from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest, parse_object
from ..core.rules import ANSWERS
from ..core.run import CallState, Run
from ..item import ToolApprovalItem

CANNOT_RUN: tuple[f.Verdict, ...] = ("edit", "reject", "respond")
"""What is left to say about arguments that cannot run."""


def new_id(prefix: str) -> str:
    """An id that no other run has."""
    return f"{prefix}_{uuid.uuid4().hex}"


def action_digest(
    root: Run, path: tuple[str, ...], state: CallState, tool: str, fingerprint: str, arguments: Any
) -> str:
    """Binds a decision to one action: this call of this run, this tool as it is defined, these arguments."""
    return digest(
        {
            "run": root.id,
            "path": list(path),
            "call": state.call.id,
            "agent": state.turn.agent,
            "tool": tool,
            "definition": fingerprint,
            "arguments": arguments,
        }
    )


def effective(state: CallState) -> dict[str, Any]:
    """The arguments that will run, as data of the caller's own."""
    return parse_object(bytes(state.args).decode() if state.args else state.proposal.arguments)


def arguments_text(state: CallState, args: Raw) -> str:
    """The canonical arguments as text; what the model wrote, if that cannot be parsed."""
    if args:
        return bytes(args).decode()
    text = state.proposal.arguments
    try:
        return canonical(parse_object(text)).decode()
    except BadJSON:
        return text


def item_of(agent: Any, path: tuple[str, ...], state: CallState, asked: f.Asked) -> ToolApprovalItem:
    """A question as its user sees it."""
    proposal, reply = state.proposal, state.turn.reply
    raw = decode(reply.items)[state.call.item] if type(reply) is f.Replied else {}
    return ToolApprovalItem(
        agent=agent,
        raw_item=raw,
        id=asked.id,
        digest=asked.digest,
        tool_name=state.tool,
        arguments=arguments_text(state, asked.args or state.args),
        call_id=proposal.call_id or proposal.id,
        reason=asked.why,
        allowed=ANSWERS[asked.kind] if asked.allowed is None else asked.allowed,
        kind=asked.kind,
        path=path,
        question=decode(asked.prompt) if asked.prompt else None,
        schema=decode(asked.schema) if asked.schema else None,
        at=asked.at,
    )
