"""Codex's hooks: PreToolUse asks and PostToolUse reports.

What blocks there: `permissionDecision: "deny"` with a reason that is not empty, and exit code 2 with a reason on
stderr. Everything else lets the call go on: another exit code, a timeout, JSON that Codex does not know, "ask", and
even "allow" without `updatedInput`. So a call passes by silence, and a changed one by "allow" with `updatedInput`.
Codex's own approvals and its sandbox hold after that. There is no event for a call that failed to start.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import msgspec

from .claude import REPORT_SECONDS, ClaudeEvent, decision_reply, ended_call, proposed_call
from .dialect import EndedCall, HookDialect, HookReply, ProposedCall, unknown_event

REFUSAL = (
    "(echo The hook did not allow it. 1>&2 & exit 2)"
    if os.name == "nt"
    else "sh -c 'echo The hook did not allow it. >&2; exit 2'"
)
"""The command after a hook that has failed. Some shells, such as zsh, do not write that a process was killed."""


class CodexDialect(HookDialect):
    """Codex."""

    agent = "codex"
    title = "Codex"
    source = "codex"
    any_folder = True  # the event's `cwd` is the call's `workdir`
    scopes: ClassVar = {"project": ".codex/hooks.json", "user": ".codex/hooks.json"}
    notes = (
        "Codex runs a new hook only once you have trusted it: type /hooks in Codex and look at it.",
        "In Codex a hook that crashes in the agent's hands or takes too long lets the call pass.",
        "Codex has no event for a call that its own approvals refuse: such a call is in doubt after its hold.",
    )

    def read(self, event: dict[str, Any]) -> ProposedCall | EndedCall:
        """Return what an event tells."""
        told = msgspec.convert(event, ClaudeEvent)
        match told.hook_event_name:
            case "PreToolUse":
                return proposed_call(told)
            case "PostToolUse":
                return ended_call(told, output=told.tool_response)
        raise unknown_event(self.title, told.hook_event_name)

    def allow(self, changed: dict[str, Any] | None, note: str | None = None) -> HookReply:
        """Return the answer that lets a call pass: nothing, unless it was changed."""
        return HookReply() if changed is None else decision_reply("allow", None, changed, note)

    def deny(self, words: str) -> HookReply:
        """Return the answer that refuses a call; without a reason it would refuse nothing."""
        return decision_reply("deny", words.strip() or "Refused.")

    def entries(self, command: str, timeout: int) -> dict[str, dict[str, Any]]:
        """Return the entries of the settings."""
        judged = {"type": "command", "command": f"{command} || {REFUSAL}", "timeout": timeout}
        report = {"type": "command", "command": command, "timeout": REPORT_SECONDS}
        return {
            "PreToolUse": {"matcher": "*", "hooks": [judged]},
            "PostToolUse": {"matcher": "*", "hooks": [report]},
        }
