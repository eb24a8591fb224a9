"""Differences between LangChain and `assentry.threads`: those by design, with the words of the guide that say so.

What is not the same yet is in `not_yet.txt`, which only ever gets shorter.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

GUIDE = " ".join((Path(__file__).parents[3] / "docs/howto/from-langchain.md").read_text("utf-8").split())
"""The page's words, each apart by one space."""
LIST = Path(__file__).parent / "not_yet.txt"


class Difference(NamedTuple):
    """A difference in what a case prints: what stands for what, and the words of the guide that say so."""

    theirs: str
    ours: str
    guide: str


class Sentence(NamedTuple):
    """The end of a case in an error of ours: some of its words, and the words of the guide that say so."""

    words: str
    guide: str


DIFFERENT: dict[str, list[Difference]] = {
    "edition.stream_messages": [
        Difference("messages ''\nmessages ''\n", "", "a stream of tokens ends with one or two empty chunks")
    ],
    "edition.stream_updates": [
        Difference("['hitl_edited_tool_calls', 'messages']", "['messages']", "`hitl_edited_tool_calls`")
    ],
    "edition.stream_v2": [
        Difference("messages model ''\n", "", "a stream of tokens ends with one or two empty chunks")
    ],
    "gate.true_allows": [Difference(", 'respond']", "]", "`True` allows `respond`, too")],
    "hooks.a_jump_that_is_not_declared": [
        Difference("human: Hi\nai: Hello.\n", "human: Hi\n", "a jump need not be declared")
    ],
    "messages.repr": [
        Difference("additional_kwargs={}, response_metadata={}, ", "", "`repr(message)` shows empty fields"),
        Difference(
            "content='3' tool_call_id='c1'", "ToolMessage(content='3', tool_call_id='c1')", "`repr(message)` shows"
        ),
    ],
    "ready_made.tool_retry": [
        Difference(
            "success: up\nai: Fine.\n2",
            "error: Tool 'flaky' failed after 3 attempts with UsageError: The tool 'flaky' was run in this call "
            "already, and is not idempotent: a second run could do what it does twice. Declare it with "
            "idempotent=True if it may. It failed: ConnectionError: down. Please try again.\nai: Fine.\n1",
            "middleware that retries runs a tool again",
        )
    ],
    "silent.a_dict_from_a_tool": [
        Difference(
            '{"city": "Ghent", "degrees": 21.5, "tags": ["mild", "früh"]}',
            '{"city":"Ghent","degrees":21.5,"tags":["mild","früh"]}',
            "a dict from a tool is JSON with spaces",
        )
    ],
    "silent.callbacks_of_a_failing_tool": [
        Difference("raised no luck\n", "", "a tool that raises ends `invoke` with its error")
    ],
    "structured.retry_of_invalid_output": [Difference("'tool'] success", "'tool'] error", 'has the status "success"')],
    "tools.a_tool_that_fails": [
        Difference(
            "raised no\n",
            "human: Go\nai:  [fail({'reason': 'no'}) c1]\ntool fail c1 error: The tool failed with ValueError: no\n"
            "ai: Oh.\n",
            "a tool that raises ends `invoke` with its error",
        )
    ],
}
"""By case. Everything else that it prints must be the same."""
SENTENCES: dict[str, Sentence] = {
    "agents.graph": Sentence("has no graph to show", "`get_graph`: each is an error"),
    "agents.interrupt_before_the_tools": Sentence("interrupt_before is not there", "`interrupt_before=` and"),
    "state.a_key_that_the_schema_does_not_have": Sentence("there is no 'unknown'", "a key that no schema has"),
    "state.a_message_replaced_by_its_id": Sentence("recorded messages cannot be replaced", "takes its place"),
    "agents.new_message_while_it_waits": Sentence(
        "waits for a decision on send", "a new message on a waiting thread drops the question"
    ),
}
"""By case."""
SIGNATURES: dict[str, tuple[str, ...]] = {}
"""Patterns of parameters, fields and methods that are not here, by the words of the guide that say so."""


def not_yet(kind: str) -> set[str]:
    """Return the cases, names or signatures that are not the same yet: lines such as `case gate.edit`."""
    lines = LIST.read_text("utf-8").splitlines()
    return {line.partition(" ")[2] for line in lines if line.partition(" ")[0] == kind}
