"""The tool with which a model asks a person a question. Its body asks; the answer is the call's output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..definitions.context import ToolContext
from ..definitions.deadline import Deadline
from ..definitions.tool import Enabled, Tool
from .user_question import DESCRIPTION, NAME, SCHEMA, UserQuestion, read_user_question


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AskUserTool(Tool):
    """A tool that asks a person what the model wants to know."""

    name: str = NAME
    description: str = DESCRIPTION
    params_json_schema: dict[str, Any] = field(default_factory=lambda: SCHEMA)
    required: frozenset[str] = frozenset({"question"})
    strict_json_schema: bool = False
    idempotent: bool = True  # asking again changes nothing: a recorded answer is not asked for again

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are: the schema has no defaults."""
        return args

    def bind(self, args: dict[str, Any]) -> UserQuestion:
        """Return the question, or raise `InvalidArguments`."""
        return read_user_question(args)

    async def enter(self, ctx: ToolContext[Any], bound: UserQuestion) -> str:
        """Ask the question, and return the answer in words."""
        return bound.answer_in_words(await ctx.ask(bound.prompt, schema=bound.answer_schema))


def ask_user(
    *,
    name: str = NAME,
    description: str = DESCRIPTION,
    reviewers: Sequence[str] = (),
    deadline: Deadline | float | None = None,
    is_enabled: Enabled = True,
) -> Tool:
    """Return a tool with which the model asks a person a question: a text, a choice, or a form of several fields.

    The person answers or rejects; the model gets the answer, or is told that there is none.

    Args:
        name: The tool's name.
        description: The description for the model, which says when to ask.
        reviewers: The users, and the groups as "group:name", who may answer. Empty for the agent's.
        deadline: The time that a question waits: a `Deadline`, or the seconds after which it is rejected.
        is_enabled: If True, the model is offered the tool; or a function of context and agent.
    """
    return AskUserTool(
        name=name, description=description, reviewers=reviewers, deadline=deadline, is_enabled=is_enabled
    )
