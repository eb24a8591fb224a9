"""Versions of agents: a saved run goes on with the version it was made with."""

import asyncio
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from assentry import (
    Agent,
    AgentNotFound,
    AgentRegistry,
    BadSignature,
    DefinitionChanged,
    FunctionTool,
    InvalidDefinition,
    NotFound,
    RunConfig,
    Runner,
    RunState,
    SigningKey,
    ToolContext,
    UnknownSchema,
    UnreadableState,
    UsageError,
    function_tool,
)
from assentry.core import codec
from assentry.core import facts as f
from assentry.testing import ScriptedModel, call
from tests.runtime.support import asked, outcomes, python, scripted, stopped, told

KEY = SigningKey("2026-11", b"a secret of 32 random bytes, say")


def sending(mark: str, **options: Any) -> FunctionTool:
    """A tool whose body says which one it is; `mark` is in its fingerprint."""

    @function_tool(**{"needs_approval": True, "version": mark, **options})
    async def send(to: str) -> str:
        """Send a mail."""
        return f"{mark}: sent to {to}"

    return send


def shop(mark: str, *steps: Any, **options: Any) -> Agent[Any]:
    """A version of one agent: another tool by another mark."""
    given: dict[str, Any] = {"tools": [sending(mark)], "instructions": "Be kind.", **options}
    return scripted(*(steps or [call("send", {"to": "ann"}), "done"]), name="Shop", **given)


def registry_of(**versions: Agent[Any]) -> AgentRegistry:
    registry = AgentRegistry()
    for version, agent in versions.items():
        registry.add(agent, version=version)
    return registry


async def paused(agent: Agent[Any]) -> str:
    result = await Runner.run(agent, "go")
    assert len(result.interruptions) == 1
    return result.to_state().to_string()


async def finished(registry: AgentRegistry, state: RunState[Any]) -> list[str]:
    """Approve all there is, go on with the version the registry says, and give what the model was told."""
    for item in state.get_interruptions():
        state.approve(item)
    result = await Runner.run(registry.route(state), state)
    assert result.final_output == "done"
    return told(result)


# -- adding and getting ----------------------------------------------------------------------------


def test_the_version_added_last_is_the_newest() -> None:
    old, new, other = shop("1"), shop("2"), Agent("Other")
    registry = AgentRegistry()
    assert registry.names() == []
    registry.add(old, version="2026-10-01")
    assert registry.get("Shop") is old
    registry.add(other, version="1")
    registry.add(new, version="2026-09-01")
    assert registry.get("Shop") is new, "the order of adding counts, not that of the names"
    assert registry.get("Shop", "2026-10-01") is old
    assert registry.get("Shop", version="2026-09-01") is new
    assert registry.names() == ["Shop", "Other"]
    assert registry.versions("Shop") == ["2026-10-01", "2026-09-01"]
    assert "'Shop', 'Other'" in repr(registry)


def test_one_version_is_added_once() -> None:
    registry = registry_of(a=shop("1"))
    with pytest.raises(InvalidDefinition, match="'a'"):
        registry.add(shop("2"), version="a")
    registry.add(Agent("Other"), version="a")
    assert registry.versions("Shop") == registry.versions("Other") == ["a"]


@pytest.mark.parametrize("agent", [None, "Shop", 5, Agent, {"name": "Shop"}])
def test_only_an_agent_is_added(agent: Any) -> None:
    registry = AgentRegistry()
    with pytest.raises(UsageError):
        registry.add(agent, version="1")
    assert registry.names() == []


@pytest.mark.parametrize("version", [None, 5, 1.0, "", "  ", b"1", ["1"], "\ud800"])
def test_a_version_is_named_with_text(version: Any) -> None:
    registry = AgentRegistry()
    with pytest.raises(UsageError):
        registry.add(shop("1"), version=version)
    assert registry.names() == [], "nothing is left behind"


@pytest.mark.parametrize("name", ["Stop", "", None, 5, ["Shop"]])
def test_an_agent_that_is_not_there_is_not_found_and_those_that_are_get_named(name: Any) -> None:
    registry = registry_of(a=shop("1"))
    for look in (registry.get, registry.versions):
        with pytest.raises(AgentNotFound, match="'Shop'"):
            look(name)
    with pytest.raises(NotFound, match="nothing"):
        AgentRegistry().get(name)


@pytest.mark.parametrize("version", ["c", "", 5, ["a"]])
def test_a_version_that_is_not_there_is_not_found_and_those_that_are_get_named(version: Any) -> None:
    with pytest.raises(AgentNotFound, match="'a', 'b'"):
        registry_of(a=shop("1"), b=shop("2")).get("Shop", version)


def test_lists_that_are_given_out_are_copies() -> None:
    registry = registry_of(a=shop("1"))
    registry.names().clear()
    registry.versions("Shop").clear()
    assert registry.names() == ["Shop"]
    assert registry.versions("Shop") == ["a"]


# -- routing ---------------------------------------------------------------------------------------


async def test_each_saved_run_goes_on_with_the_version_it_was_made_with() -> None:
    registry = registry_of(a=shop("1"), b=shop("2"), c=shop("3"))
    saved = {mark: await paused(registry.get("Shop", version)) for mark, version in zip("123", "abc", strict=True)}
    for mark, version in zip("312", "cab", strict=True):
        assert registry.route(saved[mark]) is registry.get("Shop", version)
        state = await registry.load(saved[mark])
        assert state.changes == []
        assert await finished(registry, state) == [f"{mark}: sent to ann"]


async def test_text_bytes_and_objects_are_routed_alike() -> None:
    registry = registry_of(a=shop("1", call("send", {"to": "ann"}), "done", "done", "done"), b=shop("2"))
    text = await paused(registry.get("Shop", "a"))
    for data in (text, text.encode(), json.loads(text)):
        assert registry.route(data) is registry.get("Shop", "a")
        assert await finished(registry, await registry.load(data)) == ["1: sent to ann"]


@pytest.mark.parametrize(
    "changed",
    [
        {"instructions": "Be stern."},
        {"instructions": lambda ctx, agent: "Be kind."},
        {"model": ScriptedModel([], name="newer")},
        {"tools": [sending("1"), sending("1", name_override="extra")]},
    ],
    ids=["instructions", "callable instructions", "model", "a new tool"],
)
async def test_whatever_is_in_the_definition_tells_versions_apart(changed: dict[str, Any]) -> None:
    registry = registry_of(a=shop("1"), b=shop("1").clone(**changed))
    text = await paused(registry.get("Shop", "a"))
    assert registry.route(text) is registry.get("Shop", "a")
    assert (await registry.load(text)).changes == []


async def test_another_process_routes_as_this_one_does(tmp_path: Path) -> None:
    code = """
        import asyncio, sys
        from pathlib import Path
        from assentry import Agent, AgentRegistry, Runner, function_tool
        from assentry.testing import ScriptedModel, call

        def shop(mark, *steps):
            @function_tool(needs_approval=True, version=mark)
            async def send(to: str) -> str:
                print("body", mark)
                return "sent"
            return Agent("Shop", tools=[send], model=ScriptedModel(steps))

        async def first():
            registry = AgentRegistry()
            registry.add(shop("1", call("send", {"to": "ann"})), version="a")
            result = await Runner.run(registry.get("Shop"), "go")
            Path("run.json").write_text(result.to_state().to_string(), "utf-8")

        async def then():
            registry = AgentRegistry()
            for version, mark in (("a", "1"), ("b", "2"), ("c", "3")):
                registry.add(shop(mark, "done"), version=version)
            state = await registry.load(Path("run.json").read_text("utf-8"))
            state.approve(state.get_interruptions()[0])
            print((await Runner.run(registry.route(state), state)).final_output)

        asyncio.run(MAIN())
    """
    for main, printed in (("first", ""), ("then", "body 1\ndone\n")):
        ended = python(inspect.cleandoc(code).replace("MAIN", main), cwd=tmp_path)
        assert (ended.stdout, ended.stderr) == (printed, "")


async def test_of_equal_versions_the_newest_goes_on() -> None:
    registry = registry_of(a=shop("1"), b=shop("1"), c=shop("2"))
    assert registry.route(await paused(registry.get("Shop", "a"))) is registry.get("Shop", "b")


async def test_a_run_that_has_not_reached_its_model_is_for_the_newest() -> None:
    registry = registry_of(a=shop("1").clone(model=None), b=shop("2"))
    with pytest.raises(UsageError, match="no model") as caught:
        await Runner.run(registry.get("Shop", "a"), "go")
    text = caught.value.state.to_string()
    assert registry.route(text) is registry.get("Shop", "b")
    state = await registry.load(text)
    result = await Runner.run(registry.route(state), state)
    assert [item.name for item in result.interruptions] == ["send"]


async def test_the_last_definition_counts_in_a_run_that_went_from_one_version_to_another() -> None:
    old, new = shop("1", call("send", {"to": "ann"})), shop("2", call("send", {"to": "bob"}), "done")
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(new, await paused(old), on_change="accept")
    state.approve(state.get_interruptions()[0])
    text = (await Runner.run(new, state)).to_state().to_string()
    registry = registry_of(b=new, a=old)
    assert registry.route(text) is new
    assert await finished(registry, await registry.load(text)) == ["2: sent to ann", "2: sent to bob"]


async def test_an_agent_that_was_changed_after_it_was_added_is_taken_as_it_is_now() -> None:
    registry = registry_of(a=shop("1"), b=shop("2"))
    text = await paused(registry.get("Shop", "a"))
    registry.get("Shop", "a").tools, registry.get("Shop", "b").tools = [sending("2")], [sending("1")]
    assert registry.route(text) is registry.get("Shop", "b")


async def test_a_model_given_for_the_run_does_not_mislead() -> None:
    send, name = sending("1"), "its own"
    registry = registry_of(
        a=Agent("Shop", tools=[send], model=ScriptedModel([], name=name)),
        b=Agent("Shop", tools=[send], model=ScriptedModel([], name="given")),
    )
    config = RunConfig(model=ScriptedModel([call("send", {"to": "ann"})], name="given"))
    result = await Runner.run(registry.get("Shop", "a"), "go", run_config=config)
    assert registry.route(result.to_state().to_string()) is registry.get("Shop", "a")


async def test_routing_changes_nothing() -> None:
    registry = registry_of(a=shop("1"), b=shop("2"))
    data = json.loads(await paused(registry.get("Shop", "a")))
    before = json.dumps(data)
    registry.route(data)
    await registry.load(data)
    assert json.dumps(data) == before
    assert asked(registry.get("Shop", "a")) == 1
    assert asked(registry.get("Shop", "b")) == 0


async def test_a_finished_run_is_routed_too() -> None:
    registry = registry_of(a=shop("1", "hi", "done"), b=shop("2"))
    text = (await Runner.run(registry.get("Shop", "a"), "go")).to_state().to_string()
    state = await registry.load(text)
    state.add_input("more")
    assert await finished(registry, state) == []


# -- other agents in the run -----------------------------------------------------------------------


async def went_on(agent: Agent[Any], *facts: f.AnyFact) -> bytes:
    """A saved run of the agent that went on like this after its model was told of the tools."""
    saved = codec.decode_run(await paused(agent))
    assert [type(fact) for fact in saved.journal[:3]] == [f.Began, f.Said, f.Defined]
    saved.journal[3:] = facts
    return codec.encode_run(saved)


def replied(*calls: f.Call) -> f.Replied:
    return f.Replied(Raw(b"[]"), calls=calls)


async def test_after_a_handoff_the_definition_of_the_agent_that_began_the_run_counts() -> None:
    def handing(mark: str) -> Agent[Any]:
        clerk = scripted(call("send", {"to": "bob"}), "done", name="Clerk", tools=[sending("clerk")])
        return shop(mark, call("transfer_to_clerk"), handoffs=[clerk])

    registry = registry_of(a=handing("1"), b=handing("2"))
    text = await paused(registry.get("Shop", "a"))
    assert registry.route(text) is registry.get("Shop", "a")


async def test_an_agent_that_was_handed_over_to_must_fit_too() -> None:
    def handing(mark: str) -> Agent[Any]:
        clerk = scripted(call("send", {"to": "bob"}), "done", name="Clerk", tools=[sending(mark)])
        return shop("1", call("transfer_to_clerk"), handoffs=[clerk])

    registry = registry_of(a=handing("1"), b=handing("2"))
    text = await paused(registry.get("Shop", "a"))
    assert registry.route(text) is registry.get("Shop", "a")


async def test_what_is_defined_in_a_branch_does_not_count() -> None:
    send = sending("1")
    registry = registry_of(a=shop("1"), b=shop("2"))
    data = await went_on(
        registry.get("Shop", "a"),
        replied(f.Call("c1", "send", kind="agent", definition=send.fingerprint)),
        f.Approved("c1", "rule"),
        f.Began("Shop", 10, path=("c1",)),
        f.Said(Raw(b'"go"'), path=("c1",)),
        f.Defined("Shop", "of another agent of this name", path=("c1",)),
    )
    assert registry.route(data) is registry.get("Shop", "a")


async def test_an_output_that_waits_goes_to_the_version_whose_rule_asked() -> None:
    registry = registry_of(a=shop("1", "hi", output_needs_approval=True), b=shop("1", "hi"))
    text = await paused(registry.get("Shop", "a"))
    assert registry.route(text) is registry.get("Shop", "a")


# -- no version is the one -------------------------------------------------------------------------


async def test_without_its_version_a_run_goes_on_with_the_newest_that_fits_and_a_warning() -> None:
    text = await paused(shop("1", call("send", {"to": "ann"})))
    registry = registry_of(
        a=shop("2"),
        b=shop("1", "never", instructions="Be stern."),
        c=shop("1", "done", instructions="Be brief."),
        d=shop("3"),
    )
    with pytest.warns(UserWarning, match="'Shop'.*'c'") as caught:
        assert registry.route(text) is registry.get("Shop", "c")
    assert caught[0].filename == __file__, "it points at who asked"
    with pytest.warns(UserWarning, match="instructions have changed"), pytest.warns(UserWarning, match="'c'") as caught:
        state = await registry.load(text)
    assert caught[0].filename == __file__
    assert state.changes == ["its instructions have changed"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert await finished(registry, state) == ["1: sent to ann"], "a state is for the version it was loaded with"


async def test_a_tool_that_no_open_call_needs_does_not_stand_in_the_way() -> None:
    spare = sending("1", name_override="spare")
    text = await paused(shop("1", tools=[sending("1"), spare]))
    registry = registry_of(a=shop("1", "done"))
    with pytest.warns(UserWarning, match="'a'"):
        assert registry.route(text) is registry.get("Shop", "a")


async def test_where_no_version_fits_the_run_is_refused_by_the_tool_and_the_versions_are_listed() -> None:
    text = await paused(shop("1"))
    registry = registry_of(a=shop("2"), b=shop("3"))
    with pytest.raises(DefinitionChanged, match=r"'send' has changed since call c1.*'a', 'b'"):
        registry.route(text)
    with pytest.raises(DefinitionChanged, match=r"'send' has changed since call c1.*'a', 'b'"):
        await registry.load(text)
    registry.add(Agent("Shop"), version="c")
    with pytest.raises(DefinitionChanged, match=r"'send' is gone since call c1.*'a', 'b', 'c'"):
        registry.route(text)
    registry.add(shop("1", "done"), version="d")
    assert await finished(registry, await registry.load(text)) == ["1: sent to ann"], "as the error advises"


@pytest.mark.parametrize("verdict", ["approve", "edit", "choose"])
async def test_a_call_that_was_decided_on_needs_its_tool_no_less(verdict: str) -> None:
    other = sending("1", name_override="other")
    agent = shop("1", tools=[sending("1"), other])
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    if verdict == "approve":
        state.approve(item)
    else:
        state.edit(item, {"to": "bob"}, tool="other" if verdict == "choose" else None)
    text = state.to_string()
    needed = "other" if verdict == "choose" else "send"
    with pytest.raises(DefinitionChanged, match=needed):
        registry_of(a=shop("1", tools=[tool for tool in agent.tools if tool.name != needed])).route(text)
    registry = registry_of(a=shop("1", "done", tools=[tool for tool in agent.tools if tool.name == needed]))
    with pytest.warns(UserWarning, match="'a'"):
        assert registry.route(text) is registry.get("Shop", "a")


async def test_a_refused_call_needs_no_tool() -> None:
    state = (await Runner.run(shop("1"), "go")).to_state()
    state.reject(state.get_interruptions()[0])
    registry = registry_of(a=shop("2", "done"))
    with pytest.warns(UserWarning, match="'Shop'"):
        loaded = await registry.load(state.to_string())
    result = await Runner.run(registry.route(loaded), loaded)
    assert outcomes(result)[0].status == "rejected"


async def test_a_call_of_a_tool_that_was_never_offered_needs_none() -> None:
    agent = shop("1", [call("send", {"to": "ann"}), call("nothing")])
    saved = codec.decode_run(await paused(agent))
    saved.journal = [fact for fact in saved.journal if not isinstance(fact, f.Refused | f.Told)]
    assert registry_of(a=agent, b=shop("2")).route(codec.encode_run(saved)) is agent


async def test_a_call_in_doubt_stays_with_the_tool_that_was_entered() -> None:
    inside = asyncio.Event()

    def paying(version: str) -> Agent[Any]:
        @function_tool(version=version)
        async def pay() -> str:
            inside.set()
            await asyncio.Event().wait()
            return "never"

        return shop("", call("pay"), tools=[pay])

    agent = paying("1")
    text = (await stopped(Runner.run(agent, "go"), inside)).to_string()
    assert registry_of(a=agent, b=paying("2")).route(text) is agent
    with pytest.raises(DefinitionChanged, match="pay"):
        registry_of(b=paying("2")).route(text)


async def test_a_body_that_asked_is_entered_again_in_its_own_version() -> None:
    def booking(version: str, *steps: Any) -> Agent[Any]:
        @function_tool(version=version)
        async def book(ctx: ToolContext[Any]) -> str:
            return f"{version} {await ctx.ask('when?')}"

        return shop("", *steps, tools=[book])

    registry = registry_of(a=booking("1", call("book"), "done"), b=booking("2"))
    state = await registry.load(await paused(registry.get("Shop", "a")))
    state.respond(state.get_interruptions()[0], "May")
    result = await Runner.run(registry.route(state), state)
    assert told(result) == ["1 May"]


# -- on_change -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ask", "accept"])
async def test_a_run_that_fits_no_version_can_be_put_to_the_newest(how: Any) -> None:
    text = await paused(shop("1"))
    registry = registry_of(a=shop("2"), b=shop("3", "done"))
    with pytest.warns(UserWarning, match="'send' has changed"):
        state = await registry.load(text, on_change=how)
    [old], [item] = RunState.peek(text).waiting, state.get_interruptions()
    assert (item.id == old.id) is (how == "accept")
    assert await finished(registry, state) == ["3: sent to ann"]


async def test_a_run_that_fits_a_version_is_not_changed_because_it_might_be() -> None:
    registry = registry_of(a=shop("1"), b=shop("2"))
    text = await paused(registry.get("Shop", "a"))
    state = await registry.load(text, on_change="ask")
    assert state.get_interruptions() == RunState.peek(text).waiting
    assert await finished(registry, state) == ["1: sent to ann"]


@pytest.mark.parametrize("how", ["ask", "accept"])
async def test_a_call_that_was_put_to_another_version_stays_there(how: Any) -> None:
    old, new = shop("1"), shop("2", "done")
    with pytest.warns(UserWarning, match="send"):
        text = (await registry_of(b=new).load(await paused(old), on_change=how)).to_string()
    registry = registry_of(a=old, b=new, c=shop("3"))
    with pytest.warns(UserWarning, match="goes on with 'b'"), pytest.warns(UserWarning, match="'send' has changed"):
        state = await registry.load(text)
    assert registry.route(state) is new, "people were asked about the tool of that version"
    assert await finished(registry, state) == ["2: sent to ann"]


async def test_a_call_that_was_asked_about_as_gone_needs_no_tool_any_more() -> None:
    none = scripted("done", name="Shop", instructions="Be kind.")
    with pytest.warns(UserWarning, match="gone"):
        state = await registry_of(b=none).load(await paused(shop("1")), on_change="ask")
    registry = registry_of(b=none)
    with pytest.warns(UserWarning, match="goes on with 'b'"), pytest.warns(UserWarning, match="'send' is gone"):
        state = await registry.load(state.to_string())
    state.reject(state.get_interruptions()[0])
    assert (await Runner.run(registry.route(state), state)).final_output == "done"


@pytest.mark.parametrize("value", ["maybe", None, True])
async def test_what_to_do_about_changes_is_one_of_three(value: Any) -> None:
    agent = shop("1")
    text = await paused(agent)
    for registry in (registry_of(a=agent), registry_of(a=shop("2"))):
        with pytest.raises(UsageError, match="on_change"):
            await registry.load(text, on_change=value)


# -- loading ---------------------------------------------------------------------------------------


async def test_the_options_of_from_string_are_passed_on() -> None:
    registry = registry_of(a=shop("1"))
    result = await Runner.run(registry.get("Shop"), "go", context={"user": 7})
    text = result.to_state().to_string()
    assert (await registry.load(text)).context == {"user": 7}
    assert (await registry.load(text, context_override={"user": 8})).context == {"user": 8}
    assert (await registry.load(text, context_deserializer=lambda data: data["user"])).context == 7
    with pytest.raises(TypeError):
        await registry.load(text, no_such_option=True)


async def test_a_state_in_hand_is_routed_too() -> None:
    old, new = shop("1"), shop("2")
    state = (await Runner.run(old, "go")).to_state()
    assert registry_of(a=old, b=new).route(state) is old
    again = shop("1")
    assert registry_of(a=again, b=new).route(state) is again, "an equal one, where its own is not there"
    with pytest.raises(DefinitionChanged):
        registry_of(b=new).route(state)


async def test_a_signed_run_is_verified_before_anything_in_it_counts() -> None:
    registry = registry_of(a=shop("1"), b=shop("2"))
    state = (await Runner.run(registry.get("Shop", "a"), "go")).to_state()
    data = state.to_json(key=KEY)
    assert registry.route(data) is registry.get("Shop", "a"), "routing alone needs no key"
    assert (await registry.load(data, keys=iter([KEY]))).run_id == state.run_id
    other = json.loads(await paused(registry.get("Shop", "b")))
    forged: list[dict[str, Any]] = [
        data | {"journal": other["journal"]},
        {key: value for key, value in data.items() if key != "signature"},
        data | {"journal": [data["journal"][0] | {"agent": "Nobody"}, *data["journal"][1:]]},
        data | {"journal": []},
        data | {"schema": 99},
    ]
    for each in forged:
        with pytest.raises(BadSignature):
            await registry.load(each, keys=[KEY])
    with pytest.raises(BadSignature):
        await registry.load(data, keys=[])
    assert await finished(registry, await registry.load(data, keys=[KEY])) == ["1: sent to ann"]


async def test_a_run_of_an_agent_that_was_never_added_is_not_found() -> None:
    text = await paused(shop("1"))
    registry = registry_of(a=Agent("Other"))
    for on_change in ("refuse", "ask", "accept"):
        with pytest.raises(AgentNotFound, match=r"'Shop'.*'Other'"):
            await registry.load(text, on_change=on_change)
    with pytest.raises(AgentNotFound, match=r"'Shop'.*'Other'"):
        registry.route(text)


DAMAGED: dict[str, Any] = {
    "nothing": "",
    "half": '{"schema": 1, "assent": "0.1", "journ',
    "no JSON": b"\xff\xfe",
    "other JSON": "[]",
    "no journal": '{"schema": 1, "assent": "0.1"}',
    "an empty journal": '{"schema": 1, "assent": "0.1", "journal": []}',
    "no beginning": '{"schema": 1, "assent": "0.1", "journal": [{"fact": "defined", "agent": "Shop"}]}',
    "a newer schema": '{"schema": 99, "assent": "9", "journal": []}',
    "an empty object": {},
    "no JSON object": {"schema": {1, object()}},
    "a number": 5,
    "none": None,
    "a list": [],
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
async def test_what_is_no_saved_run_is_refused_as_it_is_elsewhere(data: Any) -> None:
    agent = shop("1")
    registry = registry_of(a=agent)
    with pytest.raises(UnreadableState) as known:
        await (RunState.from_json(agent, data) if isinstance(data, dict) else RunState.from_string(agent, data))
    assert isinstance(known.value, UnknownSchema) is ("schema version 99" in str(known.value))
    with pytest.raises(type(known.value)) as caught:
        registry.route(data)
    assert type(caught.value) is type(known.value)
    with pytest.raises(type(known.value)) as caught:
        await registry.load(data)
    assert type(caught.value) is type(known.value)
