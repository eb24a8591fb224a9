"""Claude Code's hooks: PreToolUse asks, PostToolUse, PostToolUseFailure and PermissionDenied report.

What blocks there: `permissionDecision: "deny"` in the JSON of a hook that exits with 0, and exit code 2, whose reason
is on stderr. Any other exit code, and a timeout, lets the call go on, unless the entry has `"onFailure": "block"`,
which Claude Code knows since 2.1.295. `"allow"` with `updatedInput` replaces the whole input. Claude Code's own rules
are looked at after an "allow", and may still ask its user or refuse.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from .dialect import (
    EndedCall,
    EventId,
    HookDialect,
    HookReply,
    ProposedCall,
    agents_words,
    json_reply,
    mcp_server,
    unknown_event,
)

REPORT_SECONDS = 60
"""The seconds that the agent gives a hook which only reports."""
REFUSED = "It did not run: the agent's own permissions refused it."


class ClaudeEvent(Struct, kw_only=True):
    """The fields of Claude Code's events that are used here; Codex has the same."""

    hook_event_name: str
    session_id: EventId
    tool_name: str
    tool_input: dict[str, Any]
    tool_use_id: EventId
    cwd: str = ""
    tool_response: Any = None
    error: Any = None
    is_interrupt: bool = False
    reason: Any = None


def decision_reply(
    decision: str, reason: str | None, changed: dict[str, Any] | None = None, note: str | None = None
) -> HookReply:
    """Return a decision in the form that Claude Code and Codex read; the note is for the model."""
    more = {"permissionDecisionReason": reason, "updatedInput": changed, "additionalContext": note}
    said = {name: value for name, value in more.items() if value is not None}
    return json_reply({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **said}})


class ClaudeDialect(HookDialect):
    """Claude Code."""

    agent = "claude"
    title = "Claude Code"
    source = "claude-code"
    can_ask = True
    paths: ClassVar = {
        **dict.fromkeys(("Read", "Edit", "MultiEdit", "Write"), "file_path"),
        **dict.fromkeys(("NotebookRead", "NotebookEdit"), "notebook_path"),
        **dict.fromkeys(("Grep", "Glob", "LS"), "path"),
    }
    searches = frozenset(("Grep", "Glob"))
    readers = frozenset(("Read", "Grep", "NotebookRead", "Edit", "MultiEdit", "Write", "NotebookEdit"))
    scopes: ClassVar = {
        "local": ".claude/settings.local.json",
        "project": ".claude/settings.json",
        "user": ".claude/settings.json",
    }
    off_switch = "disableAllHooks"
    notes = (
        "Claude Code before 2.1.295 does not know onFailure: there a hook that takes too long lets the call pass.",
        "Claude Code's own permission rules still hold after an approval, and may ask again or refuse.",
    )

    def read(self, event: dict[str, Any]) -> ProposedCall | EndedCall:
        """Return what an event tells."""
        told = msgspec.convert(event, ClaudeEvent)
        match told.hook_event_name:
            case "PreToolUse":
                return proposed_call(told)
            case "PostToolUse":
                return ended_call(told, output=told.tool_response)
            case "PostToolUseFailure":
                said = told.error if type(told.error) is str else "It failed."
                return ended_call(told, error=f"Interrupted: {said}" if told.is_interrupt else said)
            case "PermissionDenied":
                return ended_call(told, error=f"{REFUSED} {told.reason}" if type(told.reason) is str else REFUSED)
        raise unknown_event(self.title, told.hook_event_name)

    def allow(self, changed: dict[str, Any] | None, note: str | None = None) -> HookReply:
        """Return the answer that lets a call pass."""
        return decision_reply("allow", "Approved in Assentry.", changed, note)

    def deny(self, words: str) -> HookReply:
        """Return the answer that refuses a call; the words are for the model."""
        return decision_reply("deny", words)

    def ask(self, words: str) -> HookReply:
        """Return the answer with which Claude Code asks its own user."""
        return decision_reply("ask", words)

    def entries(self, command: str, timeout: int) -> dict[str, dict[str, Any]]:
        """Return the entries of the settings."""
        judged = {"type": "command", "command": f"{command} || exit 2", "timeout": timeout, "onFailure": "block"}
        report = {"type": "command", "command": command, "timeout": REPORT_SECONDS}
        ends = ("PostToolUse", "PostToolUseFailure", "PermissionDenied")
        return {
            "PreToolUse": {"matcher": "*", "hooks": [judged]},
            **{event: {"matcher": "*", "hooks": [report]} for event in ends},
        }


def proposed_call(told: ClaudeEvent) -> ProposedCall:
    """Return the call that an event proposes."""
    return ProposedCall(
        tool=told.tool_name,
        arguments=told.tool_input,
        session=told.session_id,
        call=told.tool_use_id,
        cwd=told.cwd,
        says=agents_words(told.tool_input),
        server=mcp_server(told.tool_name),
    )


def ended_call(told: ClaudeEvent, *, output: Any = None, error: str | None = None) -> EndedCall:
    """Return the call whose end an event tells."""
    return EndedCall(
        tool=told.tool_name,
        session=told.session_id,
        call=told.tool_use_id,
        arguments=told.tool_input if error is None else None,
        output=output,
        error=error,
    )
