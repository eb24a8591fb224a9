"""Cursor's hooks: preToolUse asks, postToolUse and postToolUseFailure report.

What blocks there: `{"permission": "deny"}`, and exit code 2. With `"failClosed": true` a hook that crashes, takes too
long or writes no JSON blocks as well, so a call passes by an explicit `{"permission": "allow"}` alone. "ask" is in
Cursor's schema for this event and is not asked, so it is not used.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from .claude import REPORT_SECONDS
from .dialect import EndedCall, EventId, HookDialect, HookReply, ProposedCall, agents_words, json_reply, unknown_event


class CursorEvent(Struct, kw_only=True):
    """The fields of Cursor's events that are used here."""

    hook_event_name: str
    conversation_id: EventId
    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: EventId
    cwd: str = ""
    workspace_roots: list[str] = []
    agent_message: str | None = None
    tool_output: Any = None
    error_message: str | None = None
    failure_type: str | None = None


class CursorDialect(HookDialect):
    """Cursor."""

    agent = "cursor"
    title = "Cursor"
    source = "cursor"
    shell = "Shell"
    paths: ClassVar = {
        **dict.fromkeys(("Read", "Write", "Edit", "Delete"), "file_path"),
        **dict.fromkeys(("Grep", "Glob"), "path"),
    }
    readers = frozenset(("Read", "Grep", "Edit", "Write"))
    nested = False
    scopes: ClassVar = {"project": ".cursor/hooks.json", "user": ".cursor/hooks.json"}
    notes = ("Cursor runs hooks of a project only in a workspace that you trust.",)

    def read(self, event: dict[str, Any]) -> ProposedCall | EndedCall:
        """Return what an event tells."""
        told = msgspec.convert(event, CursorEvent)
        match told.hook_event_name:
            case "preToolUse":
                return ProposedCall(
                    tool=told.tool_name,
                    arguments=told.tool_input,
                    session=told.conversation_id,
                    call=told.tool_use_id,
                    cwd=told.cwd or next(iter(told.workspace_roots), ""),
                    says=told.agent_message or agents_words(told.tool_input),
                )
            case "postToolUse":
                return _ended(told, told.tool_output, None)
            case "postToolUseFailure":
                kind = "" if told.failure_type is None else f"{told.failure_type}: "
                return _ended(told, None, f"{kind}{told.error_message or 'It failed.'}")
        raise unknown_event(self.title, told.hook_event_name)

    def allow(self, changed: dict[str, Any] | None, note: str | None = None) -> HookReply:
        """Return the answer that lets a call pass. Cursor has no words for the model with it."""
        return json_reply({"permission": "allow"} | ({} if changed is None else {"updated_input": changed}))

    def deny(self, words: str) -> HookReply:
        """Return the answer that refuses a call; the words are for the user and for the model."""
        return json_reply({"permission": "deny", "user_message": words, "agent_message": words})

    def fail(self, words: str) -> HookReply:
        """Return the answer to what was not expected, in both forms that block."""
        return HookReply(out=self.deny(words).out, words=words, code=2)

    def entries(self, command: str, timeout: int) -> dict[str, dict[str, Any]]:
        """Return the entries of the settings."""
        judged = {"command": f"{command} || exit 2", "timeout": timeout, "failClosed": True}
        report = {"command": command, "timeout": REPORT_SECONDS}
        return {"preToolUse": judged, "postToolUse": report, "postToolUseFailure": report}


def _ended(told: CursorEvent, output: Any, error: str | None) -> EndedCall:
    return EndedCall(
        tool=told.tool_name,
        session=told.conversation_id,
        call=told.tool_use_id,
        arguments=told.tool_input if error is None else None,
        output=output,
        error=error,
    )
