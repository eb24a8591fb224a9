"""What the tests of threads share: a model that sees that every call it hears of has its output, and short ways."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from assentry import ModelRequest, ModelResponse
from assentry.testing import ScriptedModel
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, Interrupt, ThreadAgent, create_agent
from assentry.threads.review import EDIT_NOTICE


class Paired(ScriptedModel):
    """A scripted model that fails if it is told of a call without its output, or of an output without its call."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[dict[str, Any] | ModelResponse]:
        assert dangling(request.input) == [], request.input
        async for event in super().stream(request):
            yield event


def dangling(items: Sequence[dict[str, Any]]) -> list[str]:
    """The calls without outputs and the outputs without calls, as a strict provider would see them: the outputs of a
    turn come right after its calls."""
    open_: list[str] = []
    wrong: list[str] = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            open_.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] in open_:
                open_.remove(item["call_id"])
            else:
                wrong.append(item["call_id"])
        elif item.get("role") == "user":
            wrong += open_
            open_ = []
    return wrong + open_


class Ran(list[Any]):
    """What tools did."""

    def tools(self) -> list[Any]:
        """Three tools that note here what they do."""

        def write_file(path: str, text: str = "") -> str:
            """Write a file."""
            self.append(("write_file", path, text))
            return f"wrote {path}"

        def execute_sql(query: str) -> str:
            """Run a query."""
            self.append(("execute_sql", query))
            return f"ran {query}"

        def read_data(table: str = "records") -> str:
            """Read a table."""
            self.append(("read_data", table))
            return f"rows of {table}"

        return [write_file, execute_sql, read_data]


POLICY: dict[str, Any] = {
    "write_file": True,
    "execute_sql": {"allowed_decisions": ["approve", "reject"]},
    "read_data": False,
}


def office(
    *steps: Any, ran: Ran | None = None, policy: Any = None, middleware: Sequence[Any] = (), **options: Any
) -> tuple[ThreadAgent, Ran]:
    """An agent with three tools, two of them gated, and what its tools did."""
    ran = Ran() if ran is None else ran
    options = {"checkpointer": InMemorySaver(), **options}
    gate = HumanInTheLoopMiddleware(POLICY if policy is None else policy)
    return create_agent(Paired(steps), ran.tools(), middleware=[gate, *middleware], **options), ran


def thread(id: str = "t") -> dict[str, Any]:
    """The config that names a thread."""
    return {"configurable": {"thread_id": id}}


def say(text: str) -> dict[str, Any]:
    """Input that says something."""
    return {"messages": [{"role": "user", "content": text}]}


def decide(*decisions: Any, **options: Any) -> Command:
    """An answer of decisions: names of types, or whole decisions."""
    given = [{"type": each} if isinstance(each, str) else each for each in decisions]
    return Command(resume={"decisions": given}, **options)


def only(result: dict[str, Any]) -> Interrupt:
    """The one interrupt of a result."""
    [found] = result["__interrupt__"]
    assert isinstance(found, Interrupt)
    return found


def texts(result: dict[str, Any]) -> list[tuple[str, str]]:
    """The messages of a result: their types and texts."""
    return [(each.type, each.text) for each in result["messages"]]


def rejected(tool: str, reason: str) -> str:
    """Return the text that tells the model of a call that a person rejected."""
    return f"User rejected the tool call for `{tool}` with reason: {reason}"


def edited(ran: str, text: str) -> str:
    """Return the text that tells the model of a call that a person changed."""
    return f"{EDIT_NOTICE} Executed instead: {ran}.\n\nTool response:\n{text}"


def requests(agent: ThreadAgent) -> list[ModelRequest]:
    """What the agent's model was asked."""
    model: Any = agent.agent.model
    return list(getattr(model, "inner", model).requests)


async def journal(agent: ThreadAgent, run: str = "t:1") -> list[str]:
    """The kinds of the facts of a run."""
    assert agent.store is not None
    return [type(fact).__name__ for fact in (await agent.store.read(run)).facts]
