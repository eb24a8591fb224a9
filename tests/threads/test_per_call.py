"""`interrupt_mode="per_call"`: each call that needs a person is an interrupt of its own, answered with one decision."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import AlreadyDecided, Approve, Conflict, InvalidDecision, InvalidDefinition, NotPending, Reject
from assentry.errors import RunBusy
from assentry.store import MemoryStore
from assentry.testing import call
from assentry.threads import (
    Command,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    Interrupt,
    SqliteSaver,
    ThreadAgent,
    ToolCallRequest,
    create_agent,
    wrap_tool_call,
)
from assentry.threads.review import SET_ASIDE
from tests.threads.support import POLICY, Paired, Ran, edited, journal, only, rejected, say, texts, thread

APPROVE = {"type": "approve"}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def office(*steps: Any, ran: Ran | None = None, policy: Any = None, **options: Any) -> tuple[ThreadAgent, Ran]:
    """An agent that asks about each call alone."""
    ran = Ran() if ran is None else ran
    gate = HumanInTheLoopMiddleware(POLICY if policy is None else policy, interrupt_mode="per_call")
    around = [gate, *options.pop("middleware", ())]
    options = {"checkpointer": InMemorySaver(), **options}
    return create_agent(Paired(steps), ran.tools(), middleware=around, **options), ran


def by_name(result: dict[str, Any]) -> dict[str, Interrupt]:
    return {each.value["name"]: each for each in result["__interrupt__"]}


THREE = [call("write_file", {"path": "a"}), call("execute_sql", {"query": "b"}), call("read_data")]


async def test_each_call_is_asked_about_alone_and_what_needs_nobody_runs_at_once() -> None:
    agent, ran = office(THREE, "ok")
    asked = by_name(await agent.ainvoke(say("go"), thread()))
    assert ran == [("read_data", "records")]
    assert asked["write_file"].value == {
        "type": "tool_approval",
        "tool_call_id": "call_1_0",
        "name": "write_file",
        "args": {"path": "a", "text": ""},
        "description": "Tool execution requires approval\n\nTool: write_file\nArgs: {'path': 'a', 'text': ''}",
    }
    assert asked["write_file"].id != asked["execute_sql"].id
    assert agent.get_state(thread()).next == ("tools",)
    result = await agent.ainvoke(Command(resume={asked["execute_sql"].id: APPROVE}), thread())
    assert only(result) == asked["write_file"] and ("execute_sql", "b") in ran
    result = await agent.ainvoke(Command(resume=edit("write_file", path="c")), thread())
    assert ran == [("read_data", "records"), ("execute_sql", "b"), ("write_file", "c", "")]
    told = [text for kind, text in texts(result) if kind == "tool"]
    assert told == [edited('write_file with arguments {"path": "c"}', "wrote c"), "ran b", "rows of records"]


async def test_answers_by_id_may_come_together() -> None:
    agent, ran = office(THREE, "ok")
    asked = by_name(await agent.ainvoke(say("go"), thread()))
    answers = {
        asked["write_file"].id: {"type": "reject", "message": "No."},
        asked["execute_sql"].id: APPROVE,
    }
    result = await agent.ainvoke(Command(resume=answers), thread())
    assert ran == [("read_data", "records"), ("execute_sql", "b")]
    assert texts(result)[2] == ("tool", rejected("write_file", "No."))


async def test_the_schema_of_an_answer_has_the_allowed_decisions_and_the_tools_arguments() -> None:
    agent, _ = office(THREE, "ok")
    asked = by_name(await agent.ainvoke(say("go"), thread()))
    schema: Any = asked["write_file"].response_schema
    assert [each["$ref"] for each in schema["oneOf"]] == [
        "#/$defs/ApproveDecision",
        "#/$defs/EditDecision",
        "#/$defs/RejectDecision",
    ]
    assert schema["discriminator"]["propertyName"] == "type"
    assert schema["$defs"]["EditedAction"]["properties"]["name"]["const"] == "write_file"
    assert list(schema["$defs"]["write_file"]["properties"]) == ["path", "text"]
    assert schema["$defs"]["write_file"]["description"] == "Write a file."
    other: Any = asked["execute_sql"].response_schema
    assert other["$defs"].keys() == {"ApproveDecision", "RejectDecision"}
    agent, _ = office(THREE[1], policy={"execute_sql": {"allowed_decisions": ["respond", "respond"]}})
    alone: Any = only(await agent.ainvoke(say("go"), thread())).response_schema
    assert alone["properties"]["type"]["const"] == "respond" and alone["required"] == ["type", "message"]


WRONG: list[tuple[Any, str]] = [
    ({"type": "respond", "message": "x"}, r"at type: .*expected tags: 'approve', 'edit', 'reject'"),
    ({"decisions": [APPROVE]}, "The answer is one decision"),
    ([APPROVE], "The answer is one decision"),
    ("approve", "The answer is one decision"),
    ({"type": []}, "The answer is one decision"),
    ({"type": "edit"}, r"The decision on write_file does not fit at edit\.edited_action: "),
    (edit("read_data"), r"edit\.edited_action\.name: .*the name is 'write_file'"),
    (edit("rm"), r"edit\.edited_action\.name"),
    (edit("write_file"), 'The arguments of this edit do not fit write_file: "path"'),
    (edit("write_file", path=1), 'The arguments of this edit do not fit write_file: "path"'),
    ({"type": "reject", "message": 1}, r"at reject\.message: "),
    ({"type": "approve", "reviewer": "ann"}, "has no 'reviewer'"),
]


@pytest.mark.parametrize(("answer", "words"), WRONG)
async def test_a_wrong_answer_is_refused_and_nothing_is_recorded_even_beside_a_right_one(
    answer: Any, words: str
) -> None:
    agent, ran = office(THREE, "ok")
    asked = by_name(await agent.ainvoke(say("go"), thread()))
    before = await journal(agent)
    wrong = {asked["write_file"].id: answer}
    for resume in (wrong, {asked["execute_sql"].id: APPROVE, **wrong}):
        with pytest.raises(InvalidDecision, match=words):
            await agent.ainvoke(Command(resume=resume), thread())
    assert await journal(agent) == before and ran == [("read_data", "records")]
    with pytest.raises(ValueError, match="say which this is"):
        await agent.ainvoke(Command(resume=APPROVE), thread())
    right = {each.id: APPROVE for each in asked.values()}
    await agent.ainvoke(Command(resume=right), thread())
    assert ran[1:] == [("write_file", "a", ""), ("execute_sql", "b")]


async def test_a_stale_id_is_refused() -> None:
    agent, ran = office(THREE[:2], "ok", call("execute_sql", {"query": "c"}), "ok")
    asked = by_name(await agent.ainvoke(say("go"), thread()))
    once = Command(resume={asked["write_file"].id: APPROVE}, by="ann")
    await agent.ainvoke(once, thread())
    for answer in (APPROVE, {"type": "reject"}):
        with pytest.raises(AlreadyDecided, match="ann"):
            await agent.ainvoke(Command(resume={asked["write_file"].id: answer}), thread())
    with pytest.raises(NotPending):
        await agent.ainvoke(Command(resume={"0" * 32: APPROVE}), thread())
    await agent.ainvoke(Command(resume={asked["execute_sql"].id: {"type": "reject"}}), thread())
    await agent.ainvoke(say("again"), thread())
    with pytest.raises(Conflict):
        await agent.ainvoke(Command(resume={asked["execute_sql"].id: APPROVE}), thread())
    assert ran == [("write_file", "a", "")]


@pytest.mark.parametrize("rounds", range(5))
async def test_of_an_approval_and_a_rejection_at_once_one_counts(tmp_path: Path, rounds: int) -> None:
    ran = Ran()
    agents = [office(THREE[0], "ok", "ok", ran=ran, checkpointer=SqliteSaver(tmp_path / "t.db"))[0] for _ in range(2)]
    asked = only(await agents[0].ainvoke(say("go"), thread()))
    answers = [Command(resume={asked.id: given}, by=given["type"]) for given in (APPROVE, {"type": "reject"})]
    given = await asyncio.gather(
        *(agent.ainvoke(answer, thread()) for agent, answer in zip(agents, answers, strict=True)),
        return_exceptions=True,
    )
    lost = [each for each in given if isinstance(each, BaseException)]
    assert len(lost) == 1 and isinstance(lost[0], Conflict), given
    [won] = [each for each in given if not isinstance(each, BaseException)]
    assert len(ran) == (won["messages"][2].status == "success")


async def test_two_who_answer_different_calls_at_once_are_both_heard(tmp_path: Path) -> None:
    ran = Ran()
    scripts: list[list[Any]] = [[THREE[:2], "ok"], ["ok"]]
    agents = [office(*script, ran=ran, checkpointer=SqliteSaver(tmp_path / "t.db"))[0] for script in scripts]
    asked = (await agents[0].ainvoke(say("go"), thread()))["__interrupt__"]
    await asyncio.gather(
        *(
            agent.ainvoke(Command(resume={each.id: APPROVE}), thread())
            for agent, each in zip(agents, asked, strict=True)
        ),
        return_exceptions=True,  # one may find the thread driven by the other, who goes on with both answers
    )
    result = await agents[0].ainvoke(None, thread())
    assert "__interrupt__" not in result and texts(result)[-1] == ("ai", "ok")
    assert sorted(ran) == [("execute_sql", "b"), ("write_file", "a", "")]


async def test_an_answer_while_another_answered_call_runs_is_recorded_and_acted_on() -> None:
    store, ran, entered, goes_on = MemoryStore(), Ran(), asyncio.Event(), asyncio.Event()

    async def slow(to: str) -> str:
        """Take its time."""
        entered.set()
        await goes_on.wait()
        ran.append(to)
        return to

    def made(*steps: Any) -> ThreadAgent:
        gate = HumanInTheLoopMiddleware({"slow": True}, interrupt_mode="per_call")
        return create_agent(Paired(steps), [slow], middleware=[gate], checkpointer=store)

    one, other = made([call("slow", {"to": "a"}), call("slow", {"to": "b"})], "ok"), made()
    asked = (await one.ainvoke(say("go"), thread()))["__interrupt__"]
    work = asyncio.create_task(one.ainvoke(Command(resume={asked[0].id: APPROVE}), thread()))
    await entered.wait()
    with pytest.raises(RunBusy, match="goes on with what is recorded"):
        await other.ainvoke(Command(resume={asked[1].id: APPROVE}), thread())
    goes_on.set()
    result = await work
    assert sorted(ran) == ["a", "b"] and "__interrupt__" not in result


async def test_a_decision_in_the_store_meanwhile_counts_and_has_the_threads_words() -> None:
    agent, ran = office(THREE[:2], "ok", checkpointer=MemoryStore())
    asked = by_name(await agent.ainvoke(say("go"), thread()))
    assert agent.store is not None
    questions = {each.tool: each for each in (await agent.store.questions()).items}
    assert questions["write_file"].id == f"q_{asked['write_file'].id}"
    await agent.store.decide(
        questions["write_file"].id, Reject("Not now."), by="bob", digest=questions["write_file"].digest
    )
    with pytest.raises(AlreadyDecided, match="bob"):
        await agent.ainvoke(Command(resume={asked["write_file"].id: APPROVE}), thread())
    assert only(agent.invoke(None, thread())) == asked["execute_sql"]
    await agent.store.decide(questions["execute_sql"].id, Approve(), by="bob", digest=questions["execute_sql"].digest)
    result = await agent.ainvoke(None, thread())
    assert ran == [("execute_sql", "b")] and texts(result)[2] == ("tool", rejected("write_file", "Not now."))


async def test_when_and_description_apply_to_each_call() -> None:
    seen: list[ToolCallRequest] = []

    def when(request: ToolCallRequest) -> bool:
        seen.append(request)
        return bool(request.tool_call["args"]["query"] != "SELECT")

    rule = {
        "allowed_decisions": ["approve"],
        "when": when,
        "description": lambda tool_call, state, runtime: f"{tool_call['args']} after {len(state['messages'])}",
        "args_schema": {"type": "object"},
    }
    calls = [call("execute_sql", {"query": query}) for query in ("DROP", "SELECT")]
    agent, ran = office(calls, "ok", policy={"execute_sql": rule})
    asked = only(await agent.ainvoke(say("go"), thread()))
    assert asked.value["description"] == "{'query': 'DROP'} after 2"
    assert ran == [("execute_sql", "SELECT")] and len(seen) == 2


async def test_a_call_that_middleware_changes_is_asked_about_in_the_same_form() -> None:
    @wrap_tool_call
    async def elsewhere(request: Any, handler: Any) -> Any:
        return await handler(request.override(tool_call={**request.tool_call, "args": {"path": "/etc"}}))

    agent, ran = office(call("write_file", {"path": "a"}), "ok", middleware=[elsewhere])
    first = only(await agent.ainvoke(say("go"), thread()))
    second = only(await agent.ainvoke(Command(resume={first.id: APPROVE}), thread()))
    assert second.value["type"] == "tool_approval" and second.value["args"] == {"path": "/etc", "text": ""}
    assert second.response_schema is not None and second.id != first.id and ran == []
    for wrong in ({"decisions": [APPROVE]}, edit("read_data"), {"type": "respond", "message": "x"}):
        with pytest.raises(InvalidDecision):
            await agent.ainvoke(Command(resume={second.id: wrong}), thread())
    result = await agent.ainvoke(Command(resume={second.id: {"type": "reject", "message": "No."}}), thread())
    assert ran == [] and texts(result)[2] == ("tool", rejected("write_file", "No."))


@pytest.mark.parametrize("outer", ["batched", "per_call"])
@pytest.mark.parametrize("inner", ["batched", "per_call"])
async def test_an_inner_agent_asks_in_its_own_mode(outer: Any, inner: Any) -> None:
    ran = Ran()
    two = [call("execute_sql", {"query": "a"}), call("execute_sql", {"query": "b"})]
    gate = HumanInTheLoopMiddleware({"execute_sql": True}, interrupt_mode=inner)
    database = create_agent(Paired([two, "ok"]), ran.tools(), middleware=[gate], checkpointer=True, name="database")
    gate = HumanInTheLoopMiddleware({"write_file": True}, interrupt_mode=outer)
    agent = create_agent(
        Paired([call("database", {"input": "x"}), "ok"]),
        [database, *ran.tools()],
        middleware=[gate],
        checkpointer=InMemorySaver(),
    )
    asked = (await agent.ainvoke(say("go"), thread()))["__interrupt__"]
    if inner == "batched":
        assert [len(each.value["action_requests"]) for each in asked] == [2]
        answers = {asked[0].id: {"decisions": [APPROVE, {"type": "reject"}]}}
    else:
        assert [each.value["path"] for each in asked] == [["database"]] * 2
        answers = {asked[0].id: APPROVE, asked[1].id: {"type": "reject"}}
    result = await agent.ainvoke(Command(resume=answers), thread())
    assert "__interrupt__" not in result and ran == [("execute_sql", "a")]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_two_agents_that_ask_at_once_are_two_interrupts(mode: Any) -> None:
    ran = Ran()

    def clerk(name: str) -> ThreadAgent:
        gate = HumanInTheLoopMiddleware({"execute_sql": True}, interrupt_mode=mode)
        model = Paired([call("execute_sql", {"query": name}), f"{name} is done"])
        return create_agent(model, ran.tools(), middleware=[gate], checkpointer=True, name=name)

    both = [call("ann", {"input": "x"}), call("bob", {"input": "x"})]
    agent = create_agent(Paired([both, "ok"]), [clerk("ann"), clerk("bob")], checkpointer=InMemorySaver())
    asked = (await agent.ainvoke(say("go"), thread()))["__interrupt__"]
    yes: Any = APPROVE if mode == "per_call" else {"decisions": [APPROVE]}
    with pytest.raises(InvalidDecision, match="say which"):
        await agent.ainvoke(Command(resume=yes), thread())
    rest = await agent.ainvoke(Command(resume={asked[1].id: yes}), thread())
    assert only(rest) == asked[0] and ran == [("execute_sql", "bob")]
    result = await agent.ainvoke(Command(resume=yes), thread())
    assert ran == [("execute_sql", "bob"), ("execute_sql", "ann")] and texts(result)[-1] == ("ai", "ok")


async def test_a_run_keeps_the_mode_that_it_was_begun_in() -> None:
    store, ran = MemoryStore(), Ran()
    agent, _ = office(THREE, ran=ran, checkpointer=store)
    asked = (await agent.ainvoke(say("go"), thread()))["__interrupt__"]
    gate = HumanInTheLoopMiddleware(POLICY)
    again = create_agent(Paired(["ok"]), ran.tools(), middleware=[gate], checkpointer=store)
    assert (await again.ainvoke(None, thread()))["__interrupt__"] == asked
    await again.ainvoke(Command(resume={each.id: APPROVE for each in asked}), thread())
    assert len(ran) == 3


@pytest.mark.parametrize("on_pending", ["reject", "keep"])
async def test_a_message_while_some_calls_wait_leaves_what_was_decided(on_pending: Any) -> None:
    agent, ran = office(THREE, "ok", "ok")
    asked = by_name(await agent.ainvoke(say("go"), thread()))
    await agent.ainvoke(Command(resume={asked["execute_sql"].id: APPROVE}), thread())
    result = await agent.ainvoke(say("stop"), thread(), on_pending=on_pending)
    assert ("__interrupt__" in result) == (on_pending == "keep")
    if on_pending == "keep":
        assert only(result) == asked["write_file"]
        result = await agent.ainvoke(Command(resume={"type": "reject", "message": "No."}), thread())
    else:
        with pytest.raises(Conflict):
            await agent.ainvoke(Command(resume={asked["write_file"].id: APPROVE}), thread())
    words = {"keep": rejected("write_file", "No."), "reject": SET_ASIDE}[on_pending]
    assert ("tool", words) in texts(result) and ran == [("read_data", "records"), ("execute_sql", "b")]


async def test_a_stream_shows_decisions_with_the_tools() -> None:
    agent, _ = office(THREE, "ok")
    chunks = [chunk async for chunk in agent.astream(say("go"), thread())]
    assert [next(iter(chunk)) for chunk in chunks] == [
        "model",
        "HumanInTheLoopMiddleware.after_model",
        "tools",
        "__interrupt__",
        "__interrupt__",
    ]
    asked = [interrupt for chunk in chunks[-2:] for (interrupt,) in chunk.values()]
    answers = dict(zip((each.id for each in asked), ({"type": "reject"}, APPROVE), strict=True))
    chunks = [chunk async for chunk in agent.astream(Command(resume=answers), thread())]
    assert [next(iter(chunk)) for chunk in chunks][:2] == ["tools", "tools"]


@pytest.mark.parametrize("options", [{"interrupt_mode": "sometimes"}, {"interrupt_mode": None}, {"edit_notice": 1}])
def test_a_mode_or_a_notice_that_there_is_not_is_refused(options: Any) -> None:
    with pytest.raises(InvalidDefinition) as error:
        HumanInTheLoopMiddleware({"a": True}, **options)
    assert isinstance(error.value, ValueError)
