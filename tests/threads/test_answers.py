"""Answers: whatever does not fit is refused with a reason, records nothing, and a correct answer afterwards works."""

import functools
import json
from typing import Any

import pytest

from assentry import AlreadyDecided, InvalidArguments, InvalidDecision, NotPending, RunFinished, function_tool
from assentry.errors import RunNotFound, StoreFailed
from assentry.store import Change, MemoryStore
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, create_agent, interrupt
from tests.store.test_stored_runs import Watched
from tests.threads.support import Paired, decide, journal, office, only, say, texts, thread

APPROVE = {"type": "approve"}

MALFORMED: list[tuple[str, Any, str]] = [
    ("too many", {"decisions": [APPROVE, APPROVE]}, "must be 1 decision, on execute_sql; got"),
    ("too few", {"decisions": []}, "must be 1 decision, on execute_sql; got"),
    ("not allowed", {"decisions": [{"type": "edit", "edited_action": {"name": "execute_sql", "args": {}}}]}, "approve"),
    ("unknown", {"decisions": [{"type": "aprove"}]}, '"approve", "reject"'),
    ("a list", [APPROVE], '{"decisions": [...]}'),
    ("a list of a list", {"decisions": [[APPROVE]]}, "is a dict"),
    ("no key", {"decision": [APPROVE]}, '{"decisions": [...]}'),
    ("more keys", {"decisions": [APPROVE], "by": "ann"}, '{"decisions": [...]}'),
    ("none", {"decisions": None}, '{"decisions": [...]}'),
    ("no type", {"decisions": [{}]}, '"type" is one of'),
    ("type of another kind", {"decisions": [{"type": ["approve"]}]}, '"type" is one of'),
    ("a text", {"decisions": ["approve"]}, "is a dict"),
    ("a word", "approve", '{"decisions": [...]}'),
    ("true", True, '{"decisions": [...]}'),
    ("nothing", None, '{"decisions": [...]}'),
    ("an empty dict", {}, '{"decisions": [...]}'),
    ("a message that is no text", {"decisions": [{"type": "reject", "message": 1}]}, "is text"),
    ("a message of a lone surrogate", {"decisions": [{"type": "reject", "message": "\ud800"}]}, "is text"),
    ("what nobody would read", {"decisions": [{"type": "approve", "reviewer": "ann"}]}, "has no 'reviewer'"),
    ("an inbox's answer", [{"type": "accept", "args": None}], '{"decisions": [...]}'),
]


@pytest.mark.parametrize(("resume", "words"), [each[1:] for each in MALFORMED], ids=[each[0] for each in MALFORMED])
async def test_a_malformed_answer_records_nothing_and_a_correct_one_works(resume: Any, words: str) -> None:
    agent, ran = office(call("execute_sql", {"query": "x"}), "done")
    waiting = only(await agent.ainvoke(say("go"), thread()))
    before = await journal(agent)
    with pytest.raises(InvalidDecision) as caught:
        await agent.ainvoke(Command(resume=resume), thread())
    assert words in str(caught.value)
    with pytest.raises(InvalidDecision):
        await agent.ainvoke(Command(resume={waiting.id: resume}), thread())
    assert await journal(agent) == before
    assert only(await agent.ainvoke(None, thread())) == waiting
    result = await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "x")] and texts(result)[-1] == ("ai", "done")


EDITS: list[tuple[Any, type[Exception]]] = [
    ({"type": "edit"}, InvalidDecision),
    ({"type": "edit", "edited_action": None}, InvalidDecision),
    ({"type": "edit", "edited_action": {"name": "write_file"}}, InvalidDecision),
    ({"type": "edit", "edited_action": {"args": {"path": "b"}}}, InvalidDecision),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": "b"}}, InvalidDecision),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": {"a": 1}, "arguments": {}}}, InvalidDecision),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": "c"}, "tool": "x"}}, InvalidDecision),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": 1}}}, InvalidArguments),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": {}}}, InvalidArguments),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": "b", "mode": "w"}}}, InvalidArguments),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": object()}}}, InvalidArguments),
    ({"type": "edit", "edited_action": {"name": "delete_file", "args": {}}}, InvalidDecision),
    ({"type": "edit", "edited_action": {"name": "execute_sql", "args": {"query": "x"}}}, InvalidDecision),
    ({"type": "respond", "message": "x"}, InvalidDecision),
]


@pytest.mark.parametrize(("decision", "error"), EDITS)
async def test_an_edit_that_does_not_fit_records_nothing(decision: Any, error: type[Exception]) -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "done")
    await agent.ainvoke(say("go"), thread())
    before = await journal(agent)
    with pytest.raises(error):
        await agent.ainvoke(decide(decision), thread())
    assert await journal(agent) == before
    await agent.ainvoke(
        decide({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": "b"}}}), thread()
    )
    assert ran == [("write_file", "b", "")]


async def test_an_action_request_may_be_changed_and_sent_back_whole() -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "done")
    edited = only(await agent.ainvoke(say("go"), thread())).value["action_requests"][0].copy()
    edited["args"]["path"] = "b"
    await agent.ainvoke(decide({"type": "edit", "edited_action": edited}), thread())
    assert ran == [("write_file", "b", "")]


@pytest.mark.parametrize("key", ["args", "arguments"])
async def test_of_an_action_request_that_came_as_json_either_name_of_its_arguments_may_be_changed(key: str) -> None:
    agent, ran = office(call("write_file", {"path": "a"}), "done")
    shown = only(await agent.ainvoke(say("go"), thread())).value["action_requests"][0]
    edited = json.loads(json.dumps(shown))
    edited[key]["path"] = "b"
    await agent.ainvoke(decide({"type": "edit", "edited_action": edited}), thread())
    assert ran == [("write_file", "b", "")]


@pytest.mark.parametrize("key", ["args", "arguments"])
async def test_a_browser_may_send_back_whole_numbers_as_integers(key: str) -> None:
    @function_tool(needs_approval=True)
    def pay(parts: list[float], to: str) -> str:
        ran.append((parts, to))
        return "paid"

    ran: list[Any] = []
    model = ScriptedModel([call("pay", {"parts": [1.0], "to": "a"}), "done"])
    agent = create_agent(model, [pay], checkpointer=InMemorySaver())
    shown = only(await agent.ainvoke(say("go"), thread())).value["action_requests"][0]
    sent = {"parts": [1], "to": "a"}
    edited = {**shown, "args": sent, "arguments": sent, key: {"parts": [1], "to": "b"}}
    await agent.ainvoke(decide({"type": "edit", "edited_action": edited}), thread())
    assert ran == [([1], "b")]


async def test_arguments_are_the_same_if_they_are_the_same_json() -> None:
    @function_tool(needs_approval=True)
    def set_level(level: Any) -> str:
        ran.append(level)
        return "set"

    ran: list[Any] = []
    model = ScriptedModel([call("set_level", {"level": 1}), "done"])
    agent = create_agent(model, [set_level], checkpointer=InMemorySaver())
    shown = only(await agent.ainvoke(say("go"), thread())).value["action_requests"][0]
    edited = {**shown, "arguments": {"level": True}}
    await agent.ainvoke(decide({"type": "edit", "edited_action": edited}), thread())
    assert ran == [True] and ran[0] is True


async def test_the_message_of_an_edit_is_kept_with_it() -> None:
    agent, _ = office(call("write_file", {"path": "a"}), "done")
    await agent.ainvoke(say("go"), thread())
    action = {"name": "write_file", "args": {"path": "b"}}
    await agent.ainvoke(decide({"type": "edit", "edited_action": action, "message": "b is free"}), thread())
    assert agent.store is not None
    facts = [entry.fact for entry in await agent.store.history("t:1")]
    assert [fact["why"] for fact in facts if fact["fact"] == "approved" and fact.get("asked")] == ["b is free"]


DEEP: Any = functools.reduce(lambda inner, _: [inner], range(5000), 1)
WRONG: list[tuple[Any, str]] = [
    (
        {"type": "edit", "edited_action": {"name": "write_file", "args": {"a": DEEP}, "arguments": {"a": 1}}},
        'The "args" and the "arguments" of an edit of write_file are not the same; give one of them.',
    ),
    (
        {"type": "edit", "edited_action": {"name": "write_file", "args": {"path": "b"}, "arguments": {"path": "a"}}},
        'The "args" and the "arguments" of an edit of write_file are not the same; give one of them.',
    ),
    (
        {"type": "edit", "edited_action": {"name": "write_file", "args": {"path": 1}}},
        'The arguments of this edit do not fit write_file: "path": expected text, got the number 1.',
    ),
    ({"type": "edit", "edited_action": {"name": "delete_file", "args": {}}}, "The agent has no tool named 'delete"),
    ({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": object()}}}, "These arguments are not"),
    ({"type": "maybe"}, 'A decision on write_file is a dict whose "type" is one of'),
    (
        {"type": "edit", "args": {"path": "b"}},
        "A decision of type 'edit' on write_file has no 'args'; "
        'it is {"type": "edit", "edited_action": {"name": ..., "args": {...}}}.',
    ),
]


async def streamed(agent: Any, given: Any) -> list[Any]:
    return [chunk async for chunk in agent.astream(given, thread())]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("decision", "words"), WRONG)
async def test_a_decision_that_does_not_fit_says_which_of_several_it_is(
    decision: Any, words: str, streams: bool
) -> None:
    agent, ran = office([call("write_file", {"path": "a"})] * 3, "done")
    waiting = only(await agent.ainvoke(say("go"), thread()))
    before = await journal(agent)
    for command in (decide("approve", "reject", decision), decide("approve", "approve", decision)):
        for given in (command, Command(resume={waiting.id: command.resume})):
            with pytest.raises(InvalidDecision) as caught:
                await (streamed(agent, given) if streams else agent.ainvoke(given, thread()))
            assert str(caught.value).startswith(f"Decision 3 of 3, on write_file: {words}")
    assert await journal(agent) == before and ran == []
    await agent.ainvoke(decide("approve", "reject", "reject"), thread())
    assert ran == [("write_file", "a", "")]


async def test_a_decision_that_stands_alone_is_not_counted() -> None:
    agent, _ = office(call("write_file", {"path": "a"}), "done")
    await agent.ainvoke(say("go"), thread())
    for decision, words in WRONG:
        with pytest.raises(InvalidDecision) as caught:
            await agent.ainvoke(decide(decision), thread())
        assert str(caught.value).startswith(words)


async def test_a_respond_needs_its_message() -> None:
    agent, _ = office(call("execute_sql", {"query": "x"}), "ok", policy={"*": {"allowed_decisions": ["respond"]}})
    await agent.ainvoke(say("go"), thread())
    with pytest.raises(InvalidDecision, match='needs its "message"'):
        await agent.ainvoke(decide("respond"), thread())
    await agent.ainvoke(decide({"type": "respond", "message": "y"}), thread())


async def test_of_several_decisions_all_are_recorded_or_none() -> None:
    agent, ran = office([call("write_file", {"path": "a"}), call("execute_sql", {"query": "b"})], "done")
    await agent.ainvoke(say("go"), thread())
    before = await journal(agent)
    with pytest.raises(InvalidDecision):
        await agent.ainvoke(decide("approve", {"type": "respond", "message": "x"}), thread())
    with pytest.raises(InvalidArguments):
        await agent.ainvoke(
            decide({"type": "edit", "edited_action": {"name": "write_file", "args": {"path": 1}}}, "approve"), thread()
        )
    assert await journal(agent) == before and ran == []
    await agent.ainvoke(decide("approve", "reject"), thread())
    assert ran == [("write_file", "a", "")]


async def test_decisions_of_a_batch_are_one_append() -> None:
    agent, _ = office([call("write_file", {"path": "a"}), call("execute_sql", {"query": "b"})], "done")
    await agent.ainvoke(say("go"), thread())
    assert agent.store is not None
    appends: list[int] = []
    append = agent.store.append

    async def watched(change: Any) -> None:
        appends.append(len(change.settled))
        await append(change)

    agent.store.append = watched  # type: ignore[method-assign]
    await agent.ainvoke(decide("approve", "reject"), thread())
    assert [count for count in appends if count] == [2]


async def test_an_answer_by_id_is_for_that_interrupt_and_a_second_one_is_refused() -> None:
    agent, ran = office(call("execute_sql", {"query": "a"}), call("execute_sql", {"query": "b"}), "done")
    first = only(await agent.ainvoke(say("go"), thread()))
    answer = Command(resume={first.id: {"decisions": [APPROVE]}}, by="ann")
    second = only(await agent.ainvoke(answer, thread()))
    assert second.id != first.id
    with pytest.raises(AlreadyDecided) as caught:
        await agent.ainvoke(answer, thread())
    assert (caught.value.by, caught.value.verdict) == ("ann", "approve")
    assert ran == [("execute_sql", "a")], "a double click does not reach the next question"
    with pytest.raises(NotPending, match="no open interrupt"):
        await agent.ainvoke(Command(resume={"0" * 32: {"decisions": [APPROVE]}}), thread())
    with pytest.raises(NotPending):
        await agent.ainvoke(
            Command(resume={second.id: {"decisions": [APPROVE]}, "0" * 32: {"decisions": [APPROVE]}}), thread()
        )
    assert ran == [("execute_sql", "a")]
    await agent.ainvoke(Command(resume={second.id: {"decisions": [APPROVE]}}), thread())
    assert ran == [("execute_sql", "a"), ("execute_sql", "b")]


async def test_the_same_interrupt_has_the_same_id_each_time() -> None:
    agent, _ = office([call("execute_sql", {"query": "a"}), call("write_file", {"path": "b"})])
    first = only(await agent.ainvoke(say("go"), thread()))
    assert only(await agent.ainvoke(None, thread())) == first
    assert agent.get_state(thread()).interrupts == (first,)


async def test_a_thread_that_waits_for_nobody_takes_no_answer() -> None:
    agent, _ = office("Hello.", "Hi.")
    with pytest.raises(RunNotFound, match="no thread 'nobody'"):
        await agent.ainvoke(decide("approve"), thread("nobody"))
    with pytest.raises(RunNotFound):
        await agent.ainvoke(None, thread("nobody"))
    assert agent.get_state(thread("nobody")).values == {}
    await agent.ainvoke(say("Hi"), thread())
    with pytest.raises(RunFinished, match="waits for nobody"):
        await agent.ainvoke(decide("approve"), thread())
    assert texts(await agent.ainvoke(None, thread())) == [("human", "Hi"), ("ai", "Hello.")]


async def test_an_answer_that_was_given_and_not_acted_on_is_not_given_again() -> None:
    agent, ran = office(call("execute_sql", {"query": "a"}), "done")
    await agent.ainvoke(say("go"), thread())
    assert agent.store is not None
    [question] = (await agent.store.questions()).items
    await agent.store.decide(question.id, {"type": "approve"}, by="ann", digest=question.digest)
    with pytest.raises(AlreadyDecided, match=r"answered by ann already \(approve\)"):
        await agent.ainvoke(decide("reject"), thread())
    await agent.ainvoke(None, thread())
    assert ran == [("execute_sql", "a")]


async def test_who_decides_is_kept() -> None:
    agent, _ = office(call("execute_sql", {"query": "a"}), "done")
    await agent.ainvoke(say("go"), thread())
    with pytest.raises(InvalidDecision):
        await agent.ainvoke(decide("approve", by=""), thread())
    await agent.ainvoke(decide({"type": "approve", "message": "fine with me"}, by="ann"), thread())
    assert agent.store is not None
    [question] = (await agent.store.questions(settled=True)).items
    assert (question.by, question.verdict) == ("ann", "approve")


async def test_several_interrupts_are_answered_by_their_ids() -> None:
    def ask(what: str) -> str:
        """Ask."""
        return f"{what}: {interrupt({'what': what})}"

    agent = create_agent(
        Paired([[call("ask", {"what": "a"}), call("ask", {"what": "b"})], "done"]), [ask], checkpointer=_saver()
    )
    one, two = (await agent.ainvoke(say("go"), thread()))["__interrupt__"]
    assert (one.value, two.value) == ({"what": "a"}, {"what": "b"})
    with pytest.raises(InvalidDecision, match="waits for 2 answers"):
        await agent.ainvoke(Command(resume="x"), thread())
    result = await agent.ainvoke(Command(resume={two.id: {"n": 2}}), thread())
    assert result["__interrupt__"] == [one]
    with pytest.raises(AlreadyDecided):
        await agent.ainvoke(Command(resume={two.id: {"n": 3}}), thread())
    result = await agent.ainvoke(Command(resume="one"), thread())
    assert [text for kind, text in texts(result) if kind == "tool"] == ["a: one", "b: {'n': 2}"]


async def test_an_approval_that_a_changed_tool_makes_void_leaves_a_question_that_can_be_found() -> None:
    store = MemoryStore()
    agent, _ = office(call("write_file", {"path": "a"}), checkpointer=store)
    await agent.ainvoke(say("go"), thread())
    ran: list[str] = []

    def write_file(path: str, text: str = "", mode: int = 0) -> str:
        """Write a file in another way."""
        ran.append(path)
        return path

    gate = HumanInTheLoopMiddleware({"write_file": True})
    newer = create_agent(Paired(["done"]), [write_file], middleware=[gate], checkpointer=store)
    waits = only(await newer.ainvoke(decide("approve"), thread()))
    [question] = (await store.questions()).items
    assert question.id == f"q_{waits.id}" and ran == []
    await newer.ainvoke(decide("approve"), thread())
    assert ran == ["a"]


async def test_an_answer_that_the_store_could_not_take_is_not_said_to_be_anothers() -> None:
    store = Watched()
    calls = [call("write_file", {"path": "a"}), call("write_file", {"path": "b"})]
    agent, ran = office(calls, "done", checkpointer=store)
    await agent.ainvoke(say("go"), thread())

    async def fail(change: Change) -> None:
        store.before = None
        raise StoreFailed("busy")

    store.before = fail
    with pytest.raises(StoreFailed, match="busy"):
        await agent.ainvoke(decide("approve", "reject"), thread())
    assert only(await agent.ainvoke(None, thread())) and ran == []
    await agent.ainvoke(decide("approve", "reject"), thread())
    assert ran == [("write_file", "a", "")]


def _saver() -> Any:
    from assentry.threads import InMemorySaver

    return InMemorySaver()
