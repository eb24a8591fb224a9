"""A reply after which a hook raises is not lost: the thread goes on with it, and the model is not asked again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assentry.testing import call
from assentry.threads import SqliteSaver, after_agent, after_model, before_model, interrupt
from tests.threads.support import Ran, decide, office, requests, say, texts, thread


class Failing:
    """A hook that raises until it is mended."""

    def __init__(self, decorate: Any) -> None:
        self.mended, self.seen = False, 0

        @decorate
        def check(state: Any, runtime: Any) -> None:
            self.seen += 1
            if not self.mended:
                raise ValueError(f"bad: {state['messages'][-1].text}")

        self.middleware = check


@pytest.mark.parametrize("hook", [after_model, after_agent])
def test_a_thread_goes_on_with_the_reply_after_which_a_hook_raised(hook: Any, tmp_path: Path) -> None:
    failing = Failing(hook)
    with SqliteSaver(tmp_path / "threads.db") as saver:
        agent, _ = office("Yes.", middleware=[failing.middleware], checkpointer=saver)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"bad: Yes\."):
                agent.invoke(say("Hi") if failing.seen == 0 else None, thread())
        assert len(requests(agent)) == 1
        assert texts(agent.get_state(thread()).values) == [("human", "Hi"), ("ai", "Yes.")]
    failing.mended = True
    with SqliteSaver(tmp_path / "threads.db") as saver:  # in another process
        agent, _ = office(middleware=[failing.middleware], checkpointer=saver)
        assert texts(agent.invoke(None, thread())) == [("human", "Hi"), ("ai", "Yes.")]
        assert requests(agent) == []


def test_the_calls_of_such_a_reply_are_judged_after_the_hook_has_passed() -> None:
    failing, ran = Failing(after_model), Ran()
    steps = ([call("write_file", {"path": "a"}), call("read_data", {})], "Done.")
    agent, _ = office(*steps, ran=ran, middleware=[failing.middleware])
    with pytest.raises(ValueError, match="bad"):
        agent.invoke(say("Write."), thread())
    assert ran == []
    assert "__interrupt__" not in agent.get_state(thread()).values
    failing.mended = True
    assert agent.invoke(None, thread())["__interrupt__"]
    assert ran == []
    assert texts(agent.invoke(decide("approve"), thread()))[-1] == ("ai", "Done.")
    assert ran.count(("write_file", "a", "")) == 1


def test_a_message_that_comes_instead_is_answered_by_the_model() -> None:
    failing = Failing(after_model)
    agent, _ = office("One.", "Two.", middleware=[failing.middleware])
    with pytest.raises(ValueError, match=r"bad: One\."):
        agent.invoke(say("a"), thread())
    failing.mended = True
    assert texts(agent.invoke(say("b"), thread())) == [("human", "a"), ("human", "b"), ("ai", "Two.")]


def test_a_reply_is_kept_behind_a_question_too() -> None:
    failing = Failing(after_model)

    @before_model
    def ask(state: Any, runtime: Any) -> None:
        assert interrupt("May I?") == "yes"

    agent, _ = office("Yes.", middleware=[failing.middleware, ask])
    agent.invoke(say("a"), thread())
    from assentry.threads import Command

    with pytest.raises(ValueError, match=r"bad: Yes\."):
        agent.invoke(Command(resume="yes"), thread())
    failing.mended = True
    assert texts(agent.invoke(None, thread())) == [("human", "a"), ("ai", "Yes.")]
    assert len(requests(agent)) == 1


def test_a_failed_call_of_the_model_is_made_again() -> None:
    agent, _ = office(ConnectionError("away"), "Here.", middleware=[Failing(after_model).middleware])
    with pytest.raises(Exception, match="away"):
        agent.invoke(say("a"), thread())
    with pytest.raises(ValueError, match=r"bad: Here\."):
        agent.invoke(None, thread())
