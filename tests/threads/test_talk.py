"""Whatever is said while a thread waits, each reply stands after what the model had heard, and everything is heard."""

from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assentry.core import facts as f
from assentry.core.transcript import content_text
from assentry.testing import call
from assentry.threads import (
    Command,
    after_agent,
    after_model,
    before_agent,
    before_model,
    interrupt,
    wrap_model_call,
    wrap_tool_call,
)
from tests.draws import examples
from tests.threads.support import office, requests, say, texts, thread

TURNS, CALLING, SAID = 12, 4, 4
"""How often the model may be asked, in how many replies it may call, and how much is said at most."""


def show(state: Any, runtime: Any = None) -> None:
    """Ask with all that is seen, so that whoever sees something else asks something else."""
    seen = [[each.id, each.type, each.content, [one["args"] for one in calls(each)]] for each in state["messages"]]
    assert interrupt(seen) == seen, "an answer is to what was asked"


def calls(message: Any) -> list[Any]:
    return getattr(message, "tool_calls", [])


def before(request: Any, handler: Any) -> Any:
    show(request.state)
    return handler(request)


def after(request: Any, handler: Any) -> Any:
    given = handler(request)
    show({"messages": [*request.state["messages"], *getattr(given, "result", [given])]})
    return given


HOOKS = [hook(show) for hook in (before_agent, before_model, after_model, after_agent)]
HOOKS += [wrap(around) for wrap in (wrap_model_call, wrap_tool_call) for around in (before, after)]


def reply(chance: Random, number: int) -> list[Any]:
    """What the model says, with its number, and up to two calls, one of them gated."""
    made = [call("read_data", {"table": f"t{number}"}), call("execute_sql", {"query": f"q{number}"})]
    return [f"reply {number}", *(each for each in made if number < CALLING and chance.random() < 0.4)]


def answer(chance: Random, waiting: list[Any]) -> Command:
    """An answer to one of the interrupts: to a question what it shows, to calls a decision on each."""
    one = chance.choice(waiting)
    if not isinstance(one.value, dict):
        return Command(resume={one.id: one.value})
    decisions = [{"type": chance.choice(["approve", "reject"])} for _ in one.value["action_requests"]]
    return Command(resume={one.id: {"decisions": decisions}})


def heard(items: list[Any]) -> list[str]:
    """What a model is asked, in words: texts, and outputs of calls."""
    made = [item for item in items if item.get("type", "message") in ("message", "function_call_output")]
    return [item["output"] if "output" in item else content_text(item["content"]) for item in made]


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.randoms(use_true_random=False), st.sets(st.sampled_from(range(len(HOOKS))), max_size=3))
async def test_each_reply_stands_after_what_it_heard_and_everything_is_heard(chance: Random, hooks: set[int]) -> None:
    steps = [reply(chance, number) for number in range(TURNS)]
    agent, _ = office(*steps, middleware=[HOOKS[number] for number in hooks], max_turns=TURNS)
    said = ["said 0"]
    result = await agent.ainvoke(say(said[0]), thread())
    while waiting := result.get("__interrupt__"):
        if len(said) < SAID and chance.random() < 0.4:
            said.append(f"said {len(said)}")
            kept = await agent.ainvoke(say(said[-1]), thread(), on_pending="keep")
            assert [each.id for each in kept["__interrupt__"]] == [each.id for each in waiting]
            assert len({each.id for each in kept["messages"]}) == len(kept["messages"])
        result = await agent.ainvoke(answer(chance, waiting), thread())
    assert agent.get_state(thread()).next == ()
    assert agent.store is not None
    facts = (await agent.store.read("t:1")).facts
    assert [fact for fact in facts if isinstance(fact, f.Asked) and fact.voids] == [], "it asks the same"
    spoken = [text for _, text in texts(result)]
    assert [text for kind, text in texts(result) if kind == "human"] == said
    for number, request in enumerate(requests(agent)):
        assert heard(request.input) == spoken[: spoken.index(f"reply {number}")]
    assert spoken[-1] == f"reply {len(requests(agent)) - 1}", "nothing is left to be heard"
