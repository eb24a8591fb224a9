"""A model's question to a person, asked for a program that Assentry does not drive.

The definition of the tool, for whoever offers it to a model, is in `tools.user_question`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import Unpack

from ..definitions.preview import Preview, Text
from ..store.call_status import CallStatus
from ..tools.user_question import DESCRIPTION, NAME, SCHEMA, UserQuestion, read_user_question, refusal_in_words
from .approvals import Approvals
from .options import CallOptions


def user_question_options(question: UserQuestion) -> CallOptions:
    """Return the options of the ask that puts a question to a person: it can be answered or rejected."""
    blocks = (Text(question.context, "The agent says"),) if question.context else ()
    return {
        "schema": SCHEMA,
        "description": DESCRIPTION,
        "preview": Preview(question.question, blocks),
        "allowed": ("respond", "reject"),
        "answer_schema": question.answer_schema,
    }


def reply_in_words(question: UserQuestion, status: CallStatus) -> str:
    """Return what became of a decided question, in words for the model."""
    if status.state == "answered":
        return question.answer_in_words(status.output)
    return refusal_in_words(status.message or (status.reason if status.by != "deadline" else None))


async def put_to_user(
    approvals: Approvals,
    arguments: Mapping[str, Any],
    *,
    timeout: float | None = None,
    **options: Unpack[CallOptions],
) -> str:
    """Ask a person what a model's arguments for `ask_user` say, and return the reply in words for the model.

    Raises `InvalidArguments` if they make no question, and `NotDecided` after `timeout` seconds; the question stays
    open then, and the same call with the same `key` goes on waiting.

    Args:
        approvals: Where the question is asked.
        arguments: The model's arguments.
        timeout: The seconds to wait for the answer; None for as long as it takes.
        options: More options of the ask, such as `key`, `session`, `reviewers` and `deadline`.
    """
    question = read_user_question(arguments)
    given: CallOptions = {**options, **user_question_options(question)}
    asked = await approvals.ask(NAME, arguments, **given)
    return reply_in_words(question, await asked.decision(timeout))
