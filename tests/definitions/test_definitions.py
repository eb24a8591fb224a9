"""Definitions: what can be defined at all, and what becomes of a waiting run when its definition changes."""

import asyncio
import contextlib
import functools
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from assentry import Agent, FunctionTool, RunConfig, Runner, RunState, ToolContext, function_tool, tool
from assentry.errors import DefinitionChanged, InvalidDecision, InvalidDefinition, NotPending, UsageError
from assentry.runtime.agent_graph import PlacedAgent
from assentry.testing import ScriptedModel, call
from tests.runtime.support import asked, facts, outcomes, refused, reloaded, scripted, sending, stopped, told

# -- defining --------------------------------------------------------------------------------------


def test_a_tool_is_made_bare_or_with_options() -> None:
    @function_tool
    async def bare(x: int) -> str:
        """What it does."""
        return ""

    @function_tool()
    async def called(x: int) -> str:
        return ""

    @tool(name_override="other", description_override="Another.", needs_approval=True, version="2")
    def with_options(x: int) -> str:
        return ""

    assert tool is function_tool
    assert all(isinstance(each, FunctionTool) for each in (bare, called, with_options))
    assert (bare.name, bare.description, bare.needs_approval) == ("bare", "What it does.", False)
    assert called.name == "called"
    assert (with_options.name, with_options.description) == ("other", "Another.")
    assert with_options.needs_approval is True
    assert with_options.version == "2"


@pytest.mark.parametrize("rule", [None, 0, 1, "always", "", [], {}, object(), 1.0])
def test_a_rule_that_is_not_a_bool_or_a_callable_cannot_be_defined(rule: Any) -> None:
    with pytest.raises(InvalidDefinition, match="needs_approval"):
        sending(needs_approval=rule)


@pytest.mark.parametrize(
    "options",
    [
        {"on_approval": True},
        {"is_enabled": "yes"},
        {"is_enabled": None},
        {"failure_error_function": "no"},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": "5"},
        {"timeout": True},
        {"version": 2},
        {"name_override": "\ud800"},
        {"name_override": "  "},
        {"description_override": "\ud800"},
    ],
    ids=str,
)
def test_an_option_that_cannot_work_cannot_be_defined(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        sending(**options)


def test_a_time_limit_is_for_async_functions_only() -> None:
    def work() -> str:
        return ""

    async def work_async() -> str:
        return ""

    with pytest.raises(InvalidDefinition, match="async"):
        function_tool(timeout=5)(work)
    assert function_tool(timeout=5)(work_async).timeout == 5
    assert function_tool(timeout=5)(functools.partial(work_async)).timeout == 5


@pytest.mark.parametrize("thing", [5, "text", None, []])
def test_only_a_function_becomes_a_tool(thing: Any) -> None:
    with pytest.raises(InvalidDefinition):
        function_tool()(thing)


async def test_a_method_and_a_callable_object_become_tools() -> None:
    class Shop:
        def __init__(self) -> None:
            self.sold: list[str] = []

        async def sell(self, what: str) -> str:
            self.sold.append(what)
            return "sold"

    shop = Shop()
    agent = scripted(call("sell", {"what": "tea"}), "done", tools=[function_tool(shop.sell)])
    assert (await Runner.run(agent, "go")).final_output == "done"
    assert shop.sold == ["tea"]


def test_a_tool_never_changes_once_it_is_defined() -> None:
    send, _ = sending(needs_approval=True)
    for name in ("needs_approval", "name", "fingerprint", "params_json_schema"):
        with pytest.raises(AttributeError):
            setattr(send, name, False)


@pytest.mark.parametrize("name", ["", "  ", None, 5, "\ud800"])
def test_an_agent_has_a_name(name: Any) -> None:
    with pytest.raises(InvalidDefinition):
        Agent(name)


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [lambda: None]},
        {"tools": ["send"]},
        {"tools": [sending()[0], sending()[0]]},
        {"instructions": 5},
        {"instructions": "\ud800"},
        {"model": 5},
    ],
    ids=["function", "text", "twice", "number", "surrogate", "model"],
)
def test_an_agent_that_cannot_work_cannot_be_defined(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        Agent("agent", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"release": "all"},
        {"release": None},
        {"tool_not_found": "ignore"},
        {"max_parallel_tools": 0},
        {"max_parallel_tools": True},
        {"max_parallel_tools": 1.5},
        {"tool_error_formatter": "no"},
        {"model": "no such thing"},
    ],
    ids=str,
)
def test_settings_that_cannot_work_cannot_be_made(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        RunConfig(**options)


def test_a_clone_has_its_own_list_of_tools() -> None:
    send, _ = sending()
    agent = Agent("agent", tools=[send], instructions="Be kind.")
    other = agent.clone(name="other")
    other.tools.clear()
    assert agent.tools == [send]
    assert other.instructions == "Be kind."
    assert (agent.name, other.name) == ("agent", "other")


async def test_the_model_is_offered_the_tools_and_told_the_instructions() -> None:
    send, _ = sending()

    async def instructions(ctx: Any, agent: Agent[Any]) -> str:
        return f"You are {agent.name}."

    agent = scripted("hi", tools=[send], instructions=instructions)
    await Runner.run(agent, "go")
    model: Any = agent.model
    [request] = model.requests
    assert request.instructions == "You are agent."
    [spec] = request.tools
    assert (spec.name, spec.description) == ("send", "Send a mail.")
    assert set(spec.parameters["properties"]) == {"to", "copies"}


# -- fingerprints ----------------------------------------------------------------------------------


def _rule(ctx: Any, params: Any, call_id: str) -> bool:
    return True


def _passes(ctx: Any, params: Any, call_id: str) -> bool:
    return False


def _other_rule(ctx: Any, params: Any, call_id: str) -> bool:
    return True


def test_what_a_person_is_asked_about_is_in_the_fingerprint_and_nothing_else() -> None:
    base = sending(needs_approval=True)[0].fingerprint
    same: list[dict[str, Any]] = [
        {},
        {"is_enabled": lambda ctx, agent: True},
        {"timeout": 5},
        {"failure_error_function": None},
        {"on_approval": lambda ctx, item: {"approve": True}},
    ]
    assert {sending(needs_approval=True, **options)[0].fingerprint for options in same} == {base}
    others: list[dict[str, Any]] = [
        {"needs_approval": False},
        {"needs_approval": _rule},
        {"needs_approval": _other_rule},
        {"needs_approval": True, "version": "2"},
        {"needs_approval": True, "name_override": "mail"},
        {"needs_approval": True, "description_override": "Mail."},
        {"needs_approval": True, "strict_mode": False},
    ]
    marks = [sending(**options)[0].fingerprint for options in others]
    assert len({base, *marks}) == 1 + len(others)


# -- a tool that changed ---------------------------------------------------------------------------

Change = Callable[[list[str]], list[FunctionTool]]


def _send(ran: list[str], **options: Any) -> FunctionTool:
    @function_tool(**{"needs_approval": True, **options})
    async def send(to: str, copies: int = 1) -> str:
        """Send a mail."""
        ran.append(f"old {to}")
        return f"sent to {to}"

    return send


def _another_schema(ran: list[str]) -> list[FunctionTool]:
    @function_tool(needs_approval=True)
    async def send(to: str, copies: int = 1, urgent: bool = False) -> str:
        """Send a mail."""
        ran.append(f"new {to}")
        return f"newly sent to {to}"

    return [send]


def _does_not_fit(ran: list[str]) -> list[FunctionTool]:
    @function_tool(needs_approval=True)
    async def send(address: str) -> str:
        """Send a mail."""
        ran.append(f"new {address}")
        return f"newly sent to {address}"

    return [send]


def _gone(ran: list[str]) -> list[FunctionTool]:
    return []


CHANGES: dict[str, Change] = {
    "another schema": _another_schema,
    "another description": lambda ran: [_send(ran, description_override="Mail.")],
    "another version": lambda ran: [_send(ran, version="2")],
    "no rule any more": lambda ran: [_send(ran, needs_approval=False)],
    "another rule": lambda ran: [_send(ran, needs_approval=_rule)],
    "gone": _gone,
    "renamed": lambda ran: [_send(ran, name_override="mail")],
}
changes = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
decided = pytest.mark.parametrize("verdict", [None, "approve", "edit"])


async def changing(change: Change, verdict: str | None) -> tuple[Agent[Any], Agent[Any], str, list[str]]:
    """The agent as it was, the agent as it is, a waiting state, and what ran."""
    ran: list[str] = []
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[_send(ran)])
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    if verdict == "approve":
        state.approve(item)
    elif verdict == "edit":
        state.edit(item, {"to": "bob"})
    return agent, agent.clone(tools=change(ran)), state.to_string(), ran


@changes
@decided
async def test_a_changed_tool_that_a_call_waits_for_is_refused_by_name(change: Change, verdict: str | None) -> None:
    before, after, text, ran = await changing(change, verdict)
    for load in (
        RunState.from_string(after, text),
        RunState.from_string(after, text, on_change="refuse"),
        RunState.from_json(after, (await RunState.from_string(before, text)).to_json()),
    ):
        with pytest.raises(DefinitionChanged, match="send"):
            await load
    state = await RunState.from_string(before, text)
    if verdict is None:
        state.approve(state.get_interruptions()[0])
    assert (await Runner.run(before, state)).final_output == "done"
    assert len(ran) == 1


@changes
@decided
async def test_a_changed_tool_can_be_put_to_a_person_again(change: Change, verdict: str | None) -> None:
    _, after, text, ran = await changing(change, verdict)
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="ask")
    [item] = state.get_interruptions()
    assert "send" in item.reason
    assert "changed" in item.reason or "gone" in item.reason
    assert item not in RunState.peek(text).waiting
    gone = "send" not in [each.name for each in after.tools]
    assert ("approve" in item.allowed) is not gone
    result = await Runner.run(after, state)
    assert result.interruptions == [item], "a given approval is void"
    assert ran == []
    state = await reloaded_quietly(after, result.to_state(), on_change="ask")
    assert state.get_interruptions() == [item], "asked once, it is not asked anew each time it is loaded"
    if gone:
        refused(lambda: state.approve(item), InvalidDecision, state)
        state.reject(item)
    else:
        state.approve(item)
    result = await Runner.run(after, await reloaded_quietly(after, state, on_change="ask"))
    assert result.final_output == "done"
    assert len(ran) == (not gone)
    if not gone:
        assert ran[0].endswith("bob" if verdict == "edit" else "ann")


async def reloaded_quietly(agent: Agent[Any], state: RunState[Any], **options: Any) -> RunState[Any]:
    """Reload where warnings about changes are not the subject."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return await reloaded(agent, state, **options)


@changes
@decided
async def test_a_changed_tool_can_be_accepted_as_it_is(change: Change, verdict: str | None) -> None:
    _, after, text, ran = await changing(change, verdict)
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="accept")
    gone = "send" not in [each.name for each in after.tools]
    if (verdict is None or change is _another_schema) and not gone:  # which has a default that nobody was shown
        state.approve(state.get_interruptions()[0])
    assert state.get_interruptions() == []
    result = await Runner.run(after, await reloaded_quietly(after, state))
    assert result.final_output == "done"
    assert len(ran) == (not gone)
    if gone:
        assert outcomes(result)[0].status in ("rejected", "refused")
        assert "send" in told(result)[0]


def _another_default(ran: list[str]) -> list[FunctionTool]:
    @function_tool(needs_approval=True)
    async def send(to: str, copies: int = 900) -> str:
        """Send a mail."""
        ran.append(f"{copies} to {to}")
        return "sent"

    return [send]


@decided
async def test_a_default_that_nobody_was_shown_does_not_run_because_a_change_was_accepted(verdict: str | None) -> None:
    _, after, text, ran = await changing(_another_schema, verdict)
    [old] = RunState.peek(text).waiting or [None]
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="accept")
    [item] = state.get_interruptions()
    assert item.id != (old.id if old is not None else None)
    assert '"urgent":false' in item.arguments
    assert item.reason.endswith("It would now run with more than was agreed to.")
    result = await Runner.run(after, state)
    assert ran == [] and result.interruptions == [item], "an approval that was given does not cover it"
    state = result.to_state()
    state.approve(item)
    await Runner.run(after, state)
    assert len(ran) == 1


@decided
async def test_a_default_that_was_shown_runs_as_it_was_shown(verdict: str | None) -> None:
    _, after, text, ran = await changing(_another_default, verdict)
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="accept")
    if verdict is None:
        state.approve(state.get_interruptions()[0])
    await Runner.run(after, state)
    assert ran == ["1 to bob" if verdict == "edit" else "1 to ann"]


async def test_what_a_rule_let_pass_is_asked_about_if_a_change_adds_to_it() -> None:
    """A second call waits, so that the first, which a rule let pass, has not run yet."""
    ran: list[str] = []
    tools = [_send(ran, needs_approval=_passes), _send(ran, name_override="mail")]
    agent = scripted([call("send", {"to": "ann"}), call("mail", {"to": "eve"})], "done", tools=tools)
    result = await Runner.run(agent, "go", run_config=RunConfig(release="batch"))
    assert ran == []

    @function_tool(needs_approval=_passes)
    async def send(to: str, copies: int = 1, urgent: bool = True) -> str:
        """Send a mail."""
        ran.append(f"new {to}")
        return ""

    after = agent.clone(tools=[send, tools[1]])
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, result.to_state().to_string(), on_change="accept")
    first, second = state.get_interruptions()
    assert first.tool_name == "send" and '"urgent":true' in first.arguments
    state.reject(first)
    state.approve(second)
    await Runner.run(after, state)
    assert ran == ["old eve"]


async def test_a_change_that_was_accepted_before_adds_nothing_at_the_door() -> None:
    """By an Assentry that let the new defaults in: the call is refused, and the model told why."""
    _, after, text, ran = await changing(_another_schema, "approve")
    saved = json.loads(text)
    [tool] = after.tools
    call_id = next(fact["call"] for fact in saved["journal"] if fact["fact"] == "approved")
    accepted = {"fact": "redefined", "call": call_id, "fingerprint": tool.fingerprint, "by": "on_change"}
    saved["journal"].append(accepted)
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_json(after, saved)
    result = await Runner.run(after, state)
    assert ran == [] and outcomes(result)[0].status == "refused"
    assert "would fill in what nobody has agreed to: urgent" in told(result)[0]


async def test_a_rule_tells_its_versions_apart() -> None:
    def large(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        return True

    before = _send([], needs_approval=large).fingerprint
    assert _send([], needs_approval=functools.partial(large)).fingerprint == before
    large.version = "2"  # type: ignore[attr-defined]
    after = _send([], needs_approval=large).fingerprint
    assert after != before and _send([], needs_approval=functools.partial(large)).fingerprint == after
    large.version = "3"  # type: ignore[attr-defined]
    assert _send([], needs_approval=large).fingerprint not in (before, after)
    finals = []
    for version in (None, "1", "2"):
        large.version = version  # type: ignore[attr-defined]
        agent: Agent[Any] = Agent("A", output_needs_approval=large)
        finals.append(PlacedAgent(agent, "A").definition_fact().output)
    assert len(set(finals)) == 3
    for wrong in (2, "", True):
        large.version = wrong  # type: ignore[attr-defined]
        with pytest.raises(InvalidDefinition, match=r"version of .*large must be text"):
            _send([], needs_approval=large)


async def test_a_rule_of_another_version_is_a_change() -> None:
    class Above:
        version = "1"

        def __call__(self, ctx: Any, params: dict[str, Any], call_id: str) -> bool:
            return True

    agent = scripted(call("send", {"to": "ann"}), "done", tools=[_send([], needs_approval=Above())])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    await RunState.from_string(agent.clone(tools=[_send([], needs_approval=Above())]), text)
    Above.version = "2"
    with pytest.raises(DefinitionChanged, match="send"):
        await RunState.from_string(agent.clone(tools=[_send([], needs_approval=Above())]), text)


async def test_a_question_that_was_asked_again_takes_no_answer_any_more() -> None:
    _, after, text, ran = await changing(_another_schema, None)
    [old] = RunState.peek(text).waiting
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="ask")
    refused(lambda: state.approve(old), NotPending, state)
    refused(lambda: state.reject(old), NotPending, state)
    [item] = state.get_interruptions()
    assert item.digest != old.digest
    assert item.arguments == '{"copies":1,"to":"ann","urgent":false}', "what would run now"
    state.approve(item)
    await Runner.run(after, state)
    assert ran == ["new ann"]


async def test_arguments_that_do_not_fit_the_changed_tool_can_be_edited_but_not_approved() -> None:
    _, after, text, ran = await changing(_does_not_fit, "approve")
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="ask")
    [item] = state.get_interruptions()
    assert set(item.allowed) == {"edit", "reject", "respond"}
    refused(lambda: state.approve(item), InvalidDecision, state)
    state.edit(item, {"address": "ann"})
    result = await Runner.run(after, state)
    assert ran == ["new ann"]
    assert result.final_output == "done"


async def test_arguments_that_do_not_fit_a_tool_accepted_as_it_is_do_not_run() -> None:
    _, after, text, ran = await changing(_does_not_fit, "approve")
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="accept")
    result = await Runner.run(after, state)
    assert ran == []
    assert outcomes(result)[0].status == "refused"
    assert result.final_output == "done"


async def test_an_edited_call_asked_about_again_still_tells_the_model_what_ran() -> None:
    _, after, text, ran = await changing(_another_schema, "edit")
    with pytest.warns(UserWarning, match="send"):
        state = await RunState.from_string(after, text, on_change="ask")
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(after, state)
    assert ran == ["new bob"]
    assert '"to":"bob"' in told(result)[0], "the model proposed ann"


async def test_a_tool_that_changed_under_a_state_in_memory_does_not_run() -> None:
    ran: list[str] = []
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[_send(ran)])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    with pytest.raises(DefinitionChanged, match="send") as caught:
        await Runner.run(agent.clone(tools=_another_schema(ran)), state)
    assert ran == []
    result = await Runner.run(agent, caught.value.state)
    assert ran == ["old ann"]
    assert result.final_output == "done"


async def test_a_changed_tool_whose_body_asks_is_refused_or_asked_about_again() -> None:
    def booking(version: str) -> FunctionTool:
        @function_tool(version=version)
        async def book(ctx: ToolContext[Any]) -> str:
            return f"{version} {await ctx.ask('when?')}"

        return book

    agent = scripted(call("book"), "done", tools=[booking("1")])
    state = (await Runner.run(agent, "go")).to_state()
    [old] = state.get_interruptions()
    after = agent.clone(tools=[booking("2")])
    with pytest.raises(DefinitionChanged):
        await RunState.from_string(after, state.to_string())
    with pytest.warns(UserWarning, match="book"):
        loaded = await RunState.from_string(after, state.to_string(), on_change="ask")
    [item] = loaded.get_interruptions()
    assert item.id != old.id
    assert "book" in item.reason
    loaded.respond(item, "May")
    result = await Runner.run(after, await reloaded_quietly(after, loaded))
    assert told(result) == ["2 May"]


async def test_a_tool_that_is_gone_while_its_body_asks_is_refused_or_asked_about_again() -> None:
    @function_tool
    async def book(ctx: ToolContext[Any]) -> str:
        return str(await ctx.ask("when?"))

    agent = scripted(call("book"), "done", tools=[book])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    after = agent.clone(tools=[])
    with pytest.raises(DefinitionChanged, match="book"):
        await RunState.from_string(after, text)
    with pytest.warns(UserWarning, match="book"):
        state = await RunState.from_string(after, text, on_change="ask")
    [item] = state.get_interruptions()
    assert "gone" in item.reason
    state.reject(item)
    result = await Runner.run(after, await reloaded_quietly(after, state))
    assert outcomes(result)[0].status == "rejected"
    assert result.final_output == "done"


@pytest.mark.parametrize("enabled", [False, lambda ctx, agent: False], ids=["never", "not now"])
async def test_a_person_cannot_choose_a_tool_that_was_not_offered(enabled: Any) -> None:
    send, _ = sending(needs_approval=True)
    off, did = sending(name_override="off", is_enabled=enabled)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send, off])
    result = await Runner.run(agent, "go")
    state = result.to_state()
    with contextlib.suppress(InvalidDecision):
        state.edit(result.interruptions[0], {"to": "bob"}, tool="off")
        await Runner.run(agent, state)
    assert did == []


async def test_a_changed_tool_in_doubt_is_not_run_again_without_a_word() -> None:
    inside = asyncio.Event()
    ran: list[str] = []

    def paying(version: str) -> FunctionTool:
        @function_tool(version=version)
        async def pay() -> str:
            ran.append(version)
            inside.set()
            await asyncio.Event().wait()
            return "never"

        return pay

    agent = scripted(call("pay"), "done", tools=[paying("1")])
    text = (await stopped(Runner.run(agent, "go"), inside)).to_string()
    after = agent.clone(tools=[paying("2")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = await RunState.from_string(after, text)
    result = await Runner.run(after, state)
    [item] = result.interruptions
    assert item.kind == "doubt"
    state = result.to_state()
    try:
        state.approve(item)
        await Runner.run(after, state)
    except (DefinitionChanged, InvalidDecision):
        pass
    assert ran == ["1"]


@pytest.mark.parametrize("value", ["maybe", None, True, "REFUSE"])
async def test_what_to_do_about_changes_is_one_of_three(value: Any) -> None:
    agent = scripted("hi")
    text = (await Runner.run(agent, "go")).to_state().to_string()
    with pytest.raises(UsageError):
        await RunState.from_string(agent, text, on_change=value)


# -- other changes ---------------------------------------------------------------------------------


async def waiting(**options: Any) -> tuple[Agent[Any], str]:
    """An agent with a tool that nothing waits for, and its waiting state."""
    send, _ = sending(needs_approval=True)
    spare, _ = sending(name_override="spare")
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send, spare], **options)
    return agent, (await Runner.run(agent, "go")).to_state().to_string()


async def test_the_same_agent_has_no_changes() -> None:
    agent, text = await waiting(instructions="Be kind.")
    state = await RunState.from_string(agent, text)
    assert state.changes == []


async def test_a_disabled_tool_is_no_change() -> None:
    off, _ = sending(name_override="off", is_enabled=False)
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send, off])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    assert (await RunState.from_string(agent, text)).changes == []


async def test_a_model_given_for_the_run_is_no_change_of_the_agent() -> None:
    send, _ = sending(needs_approval=True)
    agent = Agent("agent", tools=[send], model=ScriptedModel([], name="its own"))
    config = RunConfig(model=ScriptedModel([call("send", {"to": "ann"}), "done"], name="given"))
    text = (await Runner.run(agent, "go", run_config=config)).to_state().to_string()
    state = await RunState.from_string(agent, text)
    assert state.changes == []
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, run_config=config)).final_output == "done"


def _kind(ctx: Any, agent: Any) -> str:
    return "Be kind."


OTHER: dict[str, tuple[Callable[[Agent[Any]], Agent[Any]], str]] = {
    "instructions": (lambda agent: agent.clone(instructions="Be stern."), "instructions"),
    "callable instructions": (lambda agent: agent.clone(instructions=_kind), "instructions"),
    "no instructions": (lambda agent: agent.clone(instructions=None), "instructions"),
    "model": (lambda agent: agent.clone(model=ScriptedModel(["done"], name="newer")), "newer"),
    "a tool gone that nothing waits for": (lambda agent: agent.clone(tools=agent.tools[:1]), "spare"),
    "a tool changed that nothing waits for": (
        lambda agent: agent.clone(tools=[agent.tools[0], sending(name_override="spare", version="2")[0]]),
        "spare",
    ),
    "a new tool": (lambda agent: agent.clone(tools=[*agent.tools, sending(name_override="extra")[0]]), "extra"),
}


@pytest.mark.parametrize(("change", "names"), OTHER.values(), ids=OTHER.keys())
async def test_other_changes_warn_and_are_listed_and_the_run_goes_on(change: Any, names: str) -> None:
    agent, text = await waiting(instructions="Be kind.")
    after = change(agent)
    with pytest.warns(UserWarning, match=names):
        state = await RunState.from_string(after, text)
    assert len(state.changes) == 1
    assert names in state.changes[0]
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(after, state)).final_output == "done"
    assert asked(after) >= 1


async def test_a_rule_that_only_moved_is_no_change() -> None:
    """The callable's name counts, never its source, its bytecode or its address."""

    def make(answer: bool) -> Any:
        def rule(ctx: Any, params: Any, call_id: str) -> bool:
            return answer

        return rule

    send, _ = sending(needs_approval=make(True))
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    after = agent.clone(tools=[sending(needs_approval=make(False))[0]])
    state = await RunState.from_string(after, text)
    assert state.changes == []
    assert len(state.get_interruptions()) == 1, "a rule that would let it pass now does not answer the question"
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(after, state)).final_output == "done"


async def test_a_definition_is_written_once_for_as_long_as_it_stays() -> None:
    send, _ = sending()
    agent = scripted(*[call("send", {"to": "ann"}) for _ in range(8)], "done", tools=[send])
    result = await Runner.run(agent, "go")
    assert len(facts(result.to_state(), "defined")) == 1


async def test_new_tools_are_offered_when_the_run_goes_on() -> None:
    agent, text = await waiting()
    extra, did = sending(name_override="extra")
    after = agent.clone(tools=[*agent.tools, extra], model=ScriptedModel([call("extra", {"to": "x"}), "done"]))
    with pytest.warns(UserWarning, match="extra"):
        state = await RunState.from_string(after, text)
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(after, state)).final_output == "done"
    assert did == [("x", 1)]
