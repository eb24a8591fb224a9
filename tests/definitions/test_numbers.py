"""Numbers that users give: what is out of range is refused where it is given, and what is in range is kept."""

import math
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from assentry import (
    Agent,
    Approve,
    Deadline,
    GrantTerms,
    ModelRequest,
    ModelResponse,
    RunConfig,
    Runner,
    RunState,
    Tracing,
    Usage,
    function_tool,
)
from assentry.core.number import LARGEST, LONGEST_SECONDS
from assentry.engines import Worker
from assentry.errors import InvalidDecision, InvalidDefinition, ModelFailed, UnreadableState, UsageError
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel, call
from assentry.threads import InMemorySaver, create_agent
from tests.runtime.support import facts, refused, reloaded, scripted, sending

HUGE = 10**5000
"""More digits than Python writes out."""
BAD: list[Any] = [2**70, HUGE, -HUGE, 1e300, math.nan, math.inf, -math.inf, -1, True, "5"]
NO_TIME: list[Any] = [*BAD, LONGEST_SECONDS + 1, 1e17]
NO_COUNT: list[Any] = [*BAD, 0, 1.0, LARGEST + 1]


def named(value: Any) -> str:
    return "HUGE" if value == HUGE else "-HUGE" if value == -HUGE else repr(value)


def send(**options: Any) -> Any:
    @function_tool(**options)
    async def send(to: str) -> str:
        """Send a mail."""
        return to

    return send


def worker(**options: Any) -> Worker:
    return Worker(MemoryStore(), Agent("agent"), **options)


TIMES: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "Deadline": (Deadline, InvalidDefinition),
    "a tool's deadline": (lambda value: send(deadline=value), InvalidDefinition),
    "a tool's timeout": (lambda value: send(timeout=value), InvalidDefinition),
    "RunConfig(deadline)": (lambda value: RunConfig(deadline=value), InvalidDefinition),
    "RunConfig(cancel_grace)": (lambda value: RunConfig(cancel_grace=value), InvalidDefinition),
    "RunConfig(lease)": (lambda value: RunConfig(lease=value), InvalidDefinition),
    "RunConfig(write_lag)": (lambda value: RunConfig(write_lag=value), InvalidDefinition),
    "Worker(lease)": (lambda value: worker(lease=value), InvalidDefinition),
    "Worker(poll)": (lambda value: worker(poll=value), UsageError),
    "Worker(drain)": (lambda value: worker(drain=value), UsageError),
    "Tracing.flush": (lambda value: Tracing(endpoint="http://localhost:1").flush(value), UsageError),
}
COUNTS: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "an agent tool's max_turns": (lambda value: Agent("agent").as_tool(max_turns=value), InvalidDefinition),
    "RunConfig(max_parallel_tools)": (lambda value: RunConfig(max_parallel_tools=value), InvalidDefinition),
    "RunConfig(session_limit)": (lambda value: RunConfig(session_limit=value), InvalidDefinition),
    "Worker(concurrency)": (lambda value: worker(concurrency=value), UsageError),
    "Worker(max_failures)": (lambda value: worker(max_failures=value), UsageError),
    "create_agent(max_turns)": (
        lambda value: create_agent(ScriptedModel([]), [], max_turns=value),
        InvalidDefinition,
    ),
}


@pytest.mark.parametrize("value", NO_TIME, ids=named)
@pytest.mark.parametrize("where", TIMES)
def test_a_time_that_nothing_can_hold_is_refused_where_it_is_given(where: str, value: Any) -> None:
    give, error = TIMES[where]
    with pytest.raises(error) as caught:
        give(value)
    assert type(caught.value) is error and "seconds" in str(caught.value)


@pytest.mark.parametrize("value", NO_COUNT, ids=named)
@pytest.mark.parametrize("where", COUNTS)
def test_a_count_that_nothing_can_hold_is_refused_where_it_is_given(where: str, value: Any) -> None:
    give, error = COUNTS[where]
    with pytest.raises(error) as caught:
        give(value)
    assert type(caught.value) is error


def test_the_longest_time_and_the_largest_count_are_taken() -> None:
    for where, (give, _) in TIMES.items():
        if where not in ("RunConfig(write_lag)", "Tracing.flush"):
            give(LONGEST_SECONDS)
    for give, _ in COUNTS.values():
        give(LARGEST)


@pytest.mark.parametrize("value", NO_COUNT, ids=named)
async def test_max_turns_out_of_range_begins_and_resumes_no_run(value: Any) -> None:
    tool, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[tool])
    with pytest.raises(UsageError):
        await Runner.run(agent, "go", max_turns=value)
    state = (await Runner.run(agent, "go", max_turns=LARGEST)).to_state()
    state.approve(state.get_interruptions()[0])
    before = state.to_string()
    with pytest.raises(UsageError):
        await Runner.run(agent, state, max_turns=value)
    assert state.to_string() == before and sent == []
    assert (await Runner.run(agent, await reloaded(agent, state))).final_output == "done"


@pytest.mark.parametrize("value", NO_COUNT, ids=named)
async def test_a_recursion_limit_out_of_range_says_nothing_on_the_thread(value: Any) -> None:
    agent = create_agent(ScriptedModel(["done"]), [], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(UsageError):
        await agent.ainvoke({"messages": "hi"}, {**thread, "recursion_limit": value})
    assert (await agent.aget_state(thread)).values == {}


@pytest.mark.parametrize("thread", [HUGE, 1.5, True], ids=named)
async def test_a_thread_is_named_by_a_text_or_by_a_number_of_usual_size(thread: Any) -> None:
    agent = create_agent(ScriptedModel(["done"]), [], checkpointer=InMemorySaver())
    with pytest.raises(UsageError):
        await agent.ainvoke({"messages": "hi"}, {"configurable": {"thread_id": thread}})


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    "terms",
    [{"max_uses": value} for value in NO_COUNT] + [{"expires_in": value} for value in [*NO_TIME, 0, 0.0]],
    ids=lambda terms: "".join(f"{key}={named(value)}" for key, value in terms.items()),
)
async def test_terms_of_a_grant_that_are_out_of_range_decide_nothing(terms: dict[str, Any], as_json: bool) -> None:
    tool, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[tool])
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    given = terms if as_json else GrantTerms(**terms)
    refused(lambda: state.decide(item.id, Approve(), "ann", item.digest, given), InvalidDecision, state)


async def test_the_widest_terms_of_a_grant_are_kept_in_a_saved_run() -> None:
    tool, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), tools=[tool])
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    state.decide(item.id, Approve(), "ann", item.digest, GrantTerms(max_uses=LARGEST, expires_in=LONGEST_SECONDS))
    [grant] = (await reloaded(agent, state)).grants()
    assert grant.max_uses == LARGEST and grant.until is not None


FIELDS = [
    ("began", "at"),
    ("began", "max_turns"),
    ("asked", "at"),
    ("asked", "until"),
    ("asked", "due"),
    ("granted", "until"),
    ("granted", "max_uses"),
    ("replied", "saw"),
]


@pytest.mark.parametrize("value", [2**70, 2**63, -1, 1.5, True, "5", 1e300])
@pytest.mark.parametrize(("kind", "field"), FIELDS)
async def test_a_saved_run_with_a_number_out_of_range_is_unreadable(kind: str, field: str, value: Any) -> None:
    tool, _ = sending(needs_approval=True)
    agent = scripted([call("send", {"to": "ann"}), call("send", {"to": "bob"})], tools=[tool])
    state = (await Runner.run(agent, "go", run_config=RunConfig(deadline=60))).to_state()
    item = state.get_interruptions()[0]
    state.decide(item.id, Approve(), "ann", item.digest, GrantTerms(max_uses=1, expires_in=60))
    data = state.to_json()
    [fact, *_] = [fact for fact in data["journal"] if fact["fact"] == kind]
    fact[field] = value
    with pytest.raises(UnreadableState):
        await RunState.from_json(agent, data)
    assert len(facts(state, "granted")) == 1


class Replies:
    """A model with one reply, such as no script would give."""

    name = "replies"

    def __init__(self, **parts: Any) -> None:
        self.parts = {"output": [], "usage": Usage(requests=1), "response_id": "r"} | parts

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        yield ModelResponse(**self.parts)


@pytest.mark.parametrize("number", [*BAD, 1.5, None], ids=named)
async def test_a_reply_whose_usage_could_not_be_read_again_is_not_recorded(number: Any) -> None:
    with pytest.raises(ModelFailed, match="usage") as caught:
        await Runner.run(Agent("agent", model=Replies(usage=Usage(1, number))), "go")
    assert facts(caught.value.state, "replied") == []


@pytest.mark.parametrize("parts", [{"usage": None}, {"output": None}, {"output": "x"}, {"response_id": 5}], ids=str)
async def test_a_reply_that_is_none_is_not_recorded(parts: Any) -> None:
    with pytest.raises(ModelFailed) as caught:
        await Runner.run(Agent("agent", model=Replies(**parts)), "go")
    assert facts(caught.value.state, "replied") == []
