"""The shell tool in runs: as a function, as a provider's own kind of call, with people, rules and code."""

import asyncio
import dataclasses
import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from assentry import (
    Agent,
    Edit,
    LocalShellExecutor,
    ModelSettings,
    OpenAIResponsesModel,
    Preview,
    Runner,
    RunState,
    Shell,
    ShellActionRequest,
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    ShellTool,
    ToolApprovalItem,
    ToolContext,
    allow_commands,
)
from assentry.errors import DefinitionChanged, InvalidDecision, InvalidDefinition, ModelFailed, OutcomeUnknown
from assentry.store import MemoryStore
from assentry.testing import ScriptedModel, call
from assentry.threads import Command, HumanInTheLoopMiddleware, InMemorySaver, ToolCallRequest, create_agent
from assentry.threads.tool_middleware import wrap_tool
from tests.models.openai_server import Item, OpenAIServer, message, replying
from tests.models.wire_types import misfit
from tests.runtime.support import HANGS, facts, heard, outcomes, reloaded, scripted, told
from tests.tools.shell_stubs import becomes_true


class Recorder:
    """An executor that runs nothing."""

    def __init__(self, given: Any = "done") -> None:
        self.given = given
        self.requests: list[ShellCommandRequest] = []

    async def __call__(self, request: ShellCommandRequest) -> Any:
        self.requests.append(request)
        if isinstance(self.given, Exception):
            raise self.given
        return self.given

    @property
    def commands(self) -> list[list[str]]:
        return [request.data.action.commands for request in self.requests]


BYTES = ShellResult([ShellCommandOutput(b"bytes")])  # type: ignore[arg-type]


def shell(*commands: str, **limits: Any) -> Any:
    return call("shell", {"commands": list(commands), **limits})


def output(stdout: str = "", stderr: str = "", code: int | None = 0) -> dict[str, Any]:
    outcome = {"type": "timeout"} if code is None else {"type": "exit", "exit_code": code}
    return {"stdout": stdout, "stderr": stderr, "outcome": outcome}


# -- defining --------------------------------------------------------------------------------------


def test_a_shell_asks_unless_it_is_told_otherwise() -> None:
    tool = ShellTool(Recorder())
    assert (tool.name, tool.needs_approval, tool.native) == ("shell", True, "shell")
    assert ShellTool(executor=Recorder(), name="sh", needs_approval=False).needs_approval is False
    assert ShellTool(Recorder(), environment={"type": "local"}).name == "shell"
    assert ShellTool(Recorder(), environment={}).name == "shell"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "executor"),
        ({"executor": None}, "executor"),
        ({"executor": "bash"}, "executor"),
        ({"executor": print, "name": ""}, "name"),
        ({"executor": print, "needs_approval": "yes"}, "needs_approval"),
        ({"executor": print, "needs_approval": None}, "needs_approval"),
        ({"executor": print, "on_approval": True}, "on_approval"),
        ({"executor": print, "version": 1}, "version"),
        ({"executor": print, "native": "web_search"}, "native"),
        ({"executor": print, "environment": "local"}, "environment"),
        ({"executor": print, "environment": {"type": "local", "skills": []}}, "environment"),
        ({"executor": print, "environment": {"type": None}}, "environment"),
        ({"environment": {"type": "container_auto"}}, "container_auto.*the provider runs"),
        ({"environment": {"type": "container_reference", "container_id": "c"}}, "container_reference"),
        ({"executor": print, "environment": {"type": "container_auto"}, "needs_approval": True}, "container_auto"),
    ],
)
def test_a_shell_that_cannot_work_cannot_be_defined(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        ShellTool(**options)


def test_the_fingerprint_covers_the_rule_the_place_and_the_version(tmp_path: Path) -> None:
    def rule(ctx: Any, action: ShellActionRequest, call_id: str) -> bool:
        return True

    def same(ctx: Any, action: ShellActionRequest, call_id: str) -> bool:
        return True

    same.__qualname__ = rule.__qualname__
    here, there = LocalShellExecutor(tmp_path), LocalShellExecutor(tmp_path.parent)
    prints = [
        ShellTool(here).fingerprint,
        ShellTool(there).fingerprint,
        ShellTool(here, version="2").fingerprint,
        ShellTool(here, needs_approval=False).fingerprint,
        ShellTool(here, needs_approval=rule).fingerprint,
        ShellTool(here, needs_approval=allow_commands("ls")).fingerprint,
        ShellTool(here, needs_approval=allow_commands("pwd")).fingerprint,
        ShellTool(here, name="other").fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert ShellTool(here, needs_approval=same).fingerprint == prints[4]
    assert ShellTool(here, needs_approval=functools.partial(rule)).fingerprint == prints[4]
    rule.version = "2"  # type: ignore[attr-defined]
    assert ShellTool(here, needs_approval=rule).fingerprint != prints[4]


# -- in a run --------------------------------------------------------------------------------------


async def test_a_person_is_asked_and_sees_the_commands(tmp_path: Path) -> None:
    executor = LocalShellExecutor(tmp_path)
    agent = scripted(shell("echo hi > a", "cat a; exit 3"), "done", tools=[ShellTool(executor)])
    result = await Runner.run(agent, "go")
    [item] = result.interruptions
    assert json.loads(item.arguments) == {"commands": ["echo hi > a", "cat a; exit 3"]}
    assert item.preview is not None
    assert item.preview.sentence == f"Run 2 commands in {tmp_path}"
    assert item.preview.blocks == (Shell(("echo hi > a", "cat a; exit 3"), str(tmp_path)),)
    assert os.listdir(tmp_path) == []
    state = await reloaded(agent, result.to_state())
    state.approve(state.get_interruptions()[0], by="ann")
    result = await Runner.run(agent, state)
    assert [json.loads(text) for text in told(result)] == [{"output": [output(), output("hi\n", code=3)]}]
    assert (outcomes(result)[0].status, outcomes(result)[0].approved_by) == ("finished", "ann")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("ls -la", "Run `ls -la`"),
        ("ls\nrm x", "Run a command"),
        ("ls \u202egnp", "Run a command"),
        ("x" * 200, "Run a command"),
    ],
)
async def test_the_sentence_shows_a_command_that_fits_into_it(command: str, sentence: str) -> None:
    result = await Runner.run(scripted(shell(command), tools=[ShellTool(Recorder())]), "go")
    [item] = result.interruptions
    assert item.preview is not None and item.preview.sentence == sentence
    assert item.preview.blocks == (Shell((command,)),)


async def test_a_rejected_call_runs_nothing() -> None:
    executor = Recorder()
    agent = scripted(shell("rm x"), "I see.", tools=[ShellTool(executor)])
    state = (await Runner.run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="No.")
    result = await Runner.run(agent, state)
    assert (told(result), executor.requests) == (["No."], [])


async def test_a_person_can_change_the_commands_and_bad_ones_are_refused() -> None:
    executor = Recorder()
    agent = scripted(shell("rm x"), "done", tools=[ShellTool(executor)])
    state = (await Runner.run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    for bad in ({"commands": []}, {"commands": "ls"}, {"commands": ["ls"], "timeout_ms": -1}, {"command": "ls"}, {}):
        with pytest.raises(InvalidDecision):
            state.edit(item, bad, by="ann")
    state.edit(item, {"commands": ["ls x"]}, by="ann")
    await Runner.run(agent, state)
    assert executor.commands == [["ls x"]]


async def test_an_executor_gets_the_request_that_users_know() -> None:
    executor = Recorder()
    tool = ShellTool(executor, needs_approval=False)
    agent = scripted(shell("ls", "pwd", timeout_ms=500, max_output_length=None), "done", tools=[tool])
    await Runner.run(agent, "go", context={"user": "ann"})
    [request] = executor.requests
    assert isinstance(request.ctx_wrapper, ToolContext)
    assert request.ctx_wrapper.context == {"user": "ann"}
    assert request.data.call_id == request.ctx_wrapper.call_id != ""
    assert request.data.action == ShellActionRequest(["ls", "pwd"], 500, None)
    assert request.data.status == "in_progress"
    assert request.data.raw["action"] == {"commands": ["ls", "pwd"], "timeout_ms": 500}


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("plain", {"output": [output("plain")]}),
        (ShellResult([]), {"output": []}),
        (ShellResult([ShellCommandOutput("a", "b")]), {"output": [output("a", "b")]}),
        (
            ShellResult([ShellCommandOutput(outcome=ShellCallOutcome("timeout"))], max_output_length=7),
            {"output": [output(code=None)], "max_output_length": 7},
        ),
        (ShellResult([ShellCommandOutput("a", outcome=ShellCallOutcome("exit"))]), {"output": [output("a")]}),
    ],
)
@pytest.mark.parametrize("awaits", [True, False])
async def test_an_executor_returns_text_or_a_result(given: Any, seen: dict[str, Any], awaits: bool) -> None:
    async def later(request: ShellCommandRequest) -> Any:
        return given

    tool = ShellTool(later if awaits else lambda request: given, needs_approval=False)
    result = await Runner.run(scripted(shell("ls"), "done", tools=[tool]), "go")
    assert [json.loads(text) for text in told(result)] == [seen]


@pytest.mark.parametrize(
    "given", [OSError("the disk is full"), None, 1, {"output": []}, ["x"], ShellResult([{}]), BYTES]
)
async def test_the_model_is_told_of_an_executor_that_fails_and_the_run_goes_on(given: Any) -> None:
    tool = ShellTool(Recorder(given), needs_approval=False)
    result = await Runner.run(scripted(shell("ls"), "done", tools=[tool]), "go")
    assert result.final_output == "done"
    [text] = told(result)
    assert text.startswith("The tool failed with ")
    assert ("the disk is full" in text) == isinstance(given, OSError)


async def test_output_is_cut_to_what_the_model_asked_for() -> None:
    tool = ShellTool(Recorder(ShellResult([ShellCommandOutput("x" * 500, "y" * 5)])), needs_approval=False)
    result = await Runner.run(scripted(shell("ls", max_output_length=100), "done", tools=[tool]), "go")
    [text] = told(result)
    [shown] = json.loads(text)["output"]
    assert len(shown["stdout"]) == 100 and "left out" in shown["stdout"]
    assert shown["stderr"] == "yyyyy"
    assert json.loads(text)["max_output_length"] == 100


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"commands": []},
        {"commands": "ls"},
        {"commands": [""]},
        {"commands": [" \n"]},
        {"commands": ["a\0b"]},
        {"commands": [1]},
        {"commands": ["ls"], "timeout_ms": 0},
        {"commands": ["ls"], "timeout_ms": 1.5},
        {"commands": ["ls"], "timeout_ms": True},
        {"commands": ["ls"], "max_output_length": "9"},
        {"commands": ["ls"], "cwd": "/"},
        {"commands": None},
        {"command": "ls"},
    ],
)
@pytest.mark.parametrize("rule", [False, allow_commands("ls")])
async def test_arguments_that_do_not_fit_never_run(arguments: dict[str, Any], rule: Any) -> None:
    executor = Recorder()
    tool = ShellTool(executor, needs_approval=rule)
    result = await Runner.run(scripted(call("shell", arguments), "I see.", tools=[tool]), "go")
    assert executor.requests == []
    if rule is False:
        assert "do not fit" in told(result)[0]
    else:
        assert "approve" not in result.interruptions[0].allowed


async def test_a_person_can_change_the_commands_where_no_agent_is() -> None:
    executor, store = Recorder(), MemoryStore()
    agent = scripted(shell("rm x", timeout_ms=None), "done", tools=[ShellTool(executor)])
    run: Any = (await Runner.run(agent, "go", store=store)).run_id
    [question] = (await store.questions()).items
    for bad in (
        {"commands": []},
        {"commands": [""]},
        {"commands": ["ls"], "timeout_ms": None},
        {"commands": ["ls"], "x": 1},
    ):
        with pytest.raises(InvalidDecision):
            await store.decide(question.id, Edit(bad), by="ann", digest=question.digest)
    await store.decide(question.id, Edit({"commands": ["ls x"], "timeout_ms": 9}), by="ann", digest=question.digest)
    await Runner.run(agent, await store.load(run), store=store)
    assert [request.data.action for request in executor.requests] == [ShellActionRequest(["ls x"], 9)]


async def test_a_copy_of_the_tool_is_one() -> None:
    executor = Recorder()
    tool = ShellTool(executor, needs_approval=allow_commands("ls"), version="1")
    copy = dataclasses.replace(tool)
    assert copy.fingerprint == tool.fingerprint
    agent = scripted(shell("ls"), shell("rm x"), tools=[copy])
    assert (await Runner.run(agent, "go")).interruptions
    assert executor.commands == [["ls"]]


def test_a_copy_with_another_executor_shows_its_directory(tmp_path: Path) -> None:
    here, there = LocalShellExecutor(tmp_path), LocalShellExecutor("/")
    copy = dataclasses.replace(ShellTool(here), executor=there)
    assert copy.fingerprint == ShellTool(there).fingerprint
    assert copy.preview is not None
    assert copy.preview(None, {"commands": ["ls"]}) == Preview("Run `ls` in /", (Shell(("ls",), "/"),))  # type: ignore[arg-type]
    assert dataclasses.replace(ShellTool(here, description="Mine."), executor=there).description == "Mine."


def test_a_shells_probe_is_its_executors_look_unless_there_is_another(tmp_path: Path) -> None:
    def own(ctx: Any, args: Any) -> None: ...

    here, there = LocalShellExecutor(tmp_path), LocalShellExecutor(tmp_path.parent)
    tool: Any = ShellTool(here)
    assert tool.probe.look == here.look
    assert dataclasses.replace(tool, executor=there).probe.look == there.look  # type: ignore[attr-defined]
    assert dataclasses.replace(tool, executor=Recorder()).probe is None
    assert ShellTool(here, probe=own).probe is own
    assert ShellTool(Recorder()).probe is None


async def test_what_a_look_of_your_own_returns_is_told_with_the_doubt() -> None:
    class InContainer(Recorder):
        def look(self, ctx: ToolContext[Any]) -> str:
            return f"Container 7 is busy with {ctx.call_id}."

    agent = scripted(call("shell", {"commands": ["ls"]}), "done", tools=[ShellTool(InContainer(OutcomeUnknown("?")))])
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    [doubt] = (await Runner.run(agent, state)).interruptions
    assert doubt.kind == "doubt" and "Container 7 is busy with call_1" in doubt.reason


def test_with_middleware_around_it_an_approval_is_still_for_one_directory(tmp_path: Path) -> None:
    here, there = (ShellTool(LocalShellExecutor(cwd), description="A shell.") for cwd in (tmp_path, "/"))
    assert wrap_tool(here, ()).fingerprint == here.fingerprint != wrap_tool(there, ()).fingerprint


async def test_with_threads_a_person_sees_the_preview() -> None:
    agent = create_agent(ScriptedModel([shell("ls"), "done"]), [ShellTool(Recorder())], checkpointer=InMemorySaver())
    given = await agent.ainvoke({"messages": "go"}, {"configurable": {"thread_id": "1"}})
    [action] = given["__interrupt__"][0].value["action_requests"]
    assert action["description"].endswith("\n\nPreview: Run `ls`")
    assert action["preview"] == {"sentence": "Run `ls`", "blocks": [{"type": "shell", "commands": ["ls"]}]}


async def test_middleware_can_ask_about_a_shell() -> None:
    executor = Recorder()
    seen: list[Any] = []

    def large(request: ToolCallRequest) -> bool:
        seen.append(request.tool_call["args"])
        return len(request.tool_call["args"]["commands"]) > 1

    gate = HumanInTheLoopMiddleware(interrupt_on={"shell": {"allowed_decisions": ["approve", "reject"], "when": large}})
    tool = ShellTool(executor, needs_approval=allow_commands("ls *"))
    model = ScriptedModel([shell("ls"), shell("ls", "ls x"), shell("rm x"), "done"])
    agent = create_agent(model, [tool], middleware=[gate], checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    await agent.ainvoke({"messages": "go"}, thread)
    assert executor.commands == [["ls"]]
    await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert executor.commands == [["ls"], ["ls", "ls x"]]
    await agent.ainvoke(Command(resume={"decisions": [{"type": "reject"}]}), thread)
    assert executor.commands == [["ls"], ["ls", "ls x"]]
    assert seen == [{"commands": ["ls"]}, {"commands": ["ls", "ls x"]}]


# -- rules and code --------------------------------------------------------------------------------


async def test_a_rule_sees_the_commands_and_not_the_arguments() -> None:
    seen: list[Any] = []

    async def removes(ctx: Any, action: ShellActionRequest, call_id: str) -> bool:
        seen.append((ctx.context, action, call_id))
        return any(command.name == "rm" for command in action.parsed())

    executor = Recorder()
    tool = ShellTool(executor, needs_approval=removes)
    agent = scripted(shell("ls", "pwd"), shell("ls; rm x"), tools=[tool])
    result = await Runner.run(agent, "go", context={"n": 7})
    assert executor.commands == [["ls", "pwd"]]
    assert result.interruptions[0].reason == f"The rule {removes.__qualname__} asks for approval."
    assert [(context, action.commands) for context, action, _ in seen] == [
        ({"n": 7}, ["ls", "pwd"]),
        ({"n": 7}, ["ls; rm x"]),
    ]
    assert facts(result.to_state(), "approved")[0]["by"] == f"rule:{removes.__qualname__}"


@pytest.mark.parametrize("line", ["sudo rm x", "$(echo rm) x", "eval 'rm x'", "ls '"])
async def test_a_rule_of_your_own_asks_about_what_is_unclear(line: str) -> None:
    rule = lambda ctx, action, call_id: any(each.name == "rm" for each in action.parsed())  # noqa: E731
    executor = Recorder()
    result = await Runner.run(scripted(shell(line), tools=[ShellTool(executor, needs_approval=rule)]), "go")
    assert executor.requests == []
    assert "UnclearCommand" in (result.interruptions[0].reason or "")


async def test_allowed_commands_pass_and_all_others_wait(tmp_path: Path) -> None:
    tool = ShellTool(LocalShellExecutor(tmp_path), needs_approval=allow_commands("pwd", "echo *"))
    agent = scripted(shell("pwd && echo hi"), shell("echo hi > file"), "done", tools=[tool])
    result = await Runner.run(agent, "go")
    assert json.loads(told(result)[0])["output"][0]["stdout"] == f"{tmp_path}\nhi\n"
    assert facts(result.to_state(), "approved")[0]["by"] == "rule:allow_commands"
    [item] = result.interruptions
    assert item.reason == "The rule allow_commands asks for approval."
    assert os.listdir(tmp_path) == []


async def test_a_changed_list_of_commands_is_noticed() -> None:
    executor = Recorder()
    agent = scripted(shell("rm x"), tools=[ShellTool(executor, needs_approval=allow_commands("ls"))])
    saved = (await Runner.run(agent, "go")).to_state().to_string()
    other = scripted("done", tools=[ShellTool(executor, needs_approval=allow_commands("ls", "rm *"))])
    with pytest.raises(DefinitionChanged):
        await RunState.from_string(other, saved)


@pytest.mark.parametrize("approve", [True, False])
async def test_code_can_decide_in_a_persons_place(approve: bool) -> None:
    seen: list[ToolApprovalItem] = []

    def decide(ctx: Any, item: ToolApprovalItem) -> dict[str, Any]:
        seen.append(item)
        return {"approve": approve, "reason": "No shells today."}

    executor = Recorder()
    agent = scripted(shell("ls"), "done", tools=[ShellTool(executor, on_approval=decide)])
    result = await Runner.run(agent, "go")
    assert result.final_output == "done"
    assert [json.loads(item.arguments) for item in seen] == [{"commands": ["ls"]}]
    assert executor.commands == ([["ls"]] if approve else [])
    assert approve or told(result) == ["No shells today."]


async def test_cancelling_a_run_kills_its_commands(tmp_path: Path) -> None:
    tool = ShellTool(LocalShellExecutor(tmp_path), needs_approval=False)
    agent = scripted(shell("echo $$ > pid; sleep 1000"), "done", tools=[tool])
    task = asyncio.ensure_future(Runner.run(agent, "go"))
    await becomes_true(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, HANGS)
    pid = (tmp_path / "pid").read_text().strip()
    await becomes_true(lambda: not Path(f"/proc/{pid}").exists())


# -- a provider's own kind of call -----------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(judge=lambda asked: misfit(asked.body, ResponseCreateParamsStreaming)) as server:
        yield server


def shell_call(*commands: str, call_id: str = "call_1", **limits: Any) -> Item:
    action = {"commands": list(commands), "timeout_ms": None, "max_output_length": None, **limits}
    return {"id": f"sh_{call_id}", "type": "shell_call", "status": "completed", "call_id": call_id, "action": action}


async def native(server: OpenAIServer, tool: ShellTool, *items: Item, decide: Any = None) -> Any:
    server.script(replying(*items), replying(message("Done.", "msg_9")))
    async with AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=0) as client:
        agent = Agent("agent", tools=[tool], model=OpenAIResponsesModel("gpt-5.2", client))
        result = await Runner.run(agent, "go")
        if decide is not None:
            state = await reloaded(agent, result.to_state())
            for item in state.get_interruptions():
                decide(state, item)
            result = await Runner.run(agent, state)
    return result


async def test_a_native_call_is_offered_asked_about_run_and_answered_in_its_own_form(
    server: OpenAIServer, tmp_path: Path
) -> None:
    tool = ShellTool(LocalShellExecutor(tmp_path))
    asked = shell_call("echo hi", "exit 2", max_output_length=1000)
    result = await native(server, tool, asked, decide=lambda state, item: state.approve(item))
    assert result.final_output == "Done."
    first, second = server.bodies
    assert [each["type"] for each in first["tools"]] == ["shell"]
    [given] = [item for item in second["input"] if item.get("type") == "shell_call_output"]
    assert given["call_id"] == "call_1"
    assert given["output"] == [output("hi\n"), output(code=2)]
    assert given["max_output_length"] == 1000


async def test_a_native_call_and_a_function_call_have_the_same_arguments(server: OpenAIServer) -> None:
    by_function, by_nature = Recorder(), Recorder()
    tool = ShellTool(by_function, needs_approval=False)
    agent = scripted(shell("ls", timeout_ms=5, max_output_length=None), "done", tools=[tool])
    await Runner.run(agent, "go")
    await native(server, ShellTool(by_nature, needs_approval=False), shell_call("ls", timeout_ms=5))
    assert by_function.requests[0].data.action == by_nature.requests[0].data.action == ShellActionRequest(["ls"], 5)
    assert heard(agent)[-1]["type"] == "function_call_output"


async def test_a_rejected_native_call_is_answered_in_its_own_form(server: OpenAIServer) -> None:
    executor = Recorder()
    await native(
        server, ShellTool(executor), shell_call("rm x"), decide=lambda s, item: s.reject(item, rejection_message="No.")
    )
    [given] = [item for item in server.bodies[-1]["input"] if item.get("type") == "shell_call_output"]
    assert given["output"] == [output(stderr="No.", code=1)]
    assert executor.requests == []


async def test_a_failed_native_call_is_answered_in_its_own_form(server: OpenAIServer) -> None:
    result = await native(server, ShellTool(Recorder(OSError("no disk")), needs_approval=False), shell_call("ls"))
    [given] = [item for item in server.bodies[-1]["input"] if item.get("type") == "shell_call_output"]
    assert result.final_output == "Done."
    assert given["output"][0]["outcome"] == {"type": "exit", "exit_code": 1}
    assert "no disk" in given["output"][0]["stderr"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [("It lists x.", "It lists x."), ({"output": 5}, '{"output":5}'), ({"output": ["x"]}, '{"output":["x"]}')],
)
async def test_a_persons_answer_to_a_native_call_is_its_output_and_no_error(
    server: OpenAIServer, answer: Any, text: str
) -> None:
    executor = Recorder()
    await native(server, ShellTool(executor), shell_call("ls"), decide=lambda s, item: s.respond(item, answer))
    [given] = [item for item in server.bodies[-1]["input"] if item.get("type") == "shell_call_output"]
    assert given["output"] == [output(text)]
    assert executor.requests == []


@pytest.mark.parametrize("field", ["name", "arguments", "id", "server_label"])
async def test_a_native_call_with_a_field_that_is_no_text_is_a_failure_of_the_model(field: str) -> None:
    executor = Recorder()
    agent = scripted([{**shell_call("ls"), field: 5}], tools=[ShellTool(executor, needs_approval=False)])
    with pytest.raises(ModelFailed, match="shell_call whose name, arguments or id is not text"):
        await Runner.run(agent, "go")
    assert executor.requests == []


async def test_two_tools_cannot_both_take_a_models_own_calls() -> None:
    both = [ShellTool(Recorder(), name="here"), ShellTool(Recorder(), name="there")]
    with pytest.raises(InvalidDefinition, match="'here' and 'there'; give one native=None"):
        await Runner.run(scripted("done", tools=both), "go")
    result = await Runner.run(scripted("done", tools=[both[0], dataclasses.replace(both[1], native=None)]), "go")
    assert result.final_output == "done"


async def test_a_model_can_be_told_to_make_its_own_kind_of_call(server: OpenAIServer) -> None:
    server.script(replying(message("Done.")))
    async with AsyncOpenAI(base_url=server.url, api_key="sk-test", max_retries=0) as client:
        model = OpenAIResponsesModel("gpt-5.2", client)
        settings = ModelSettings(tool_choice="terminal")
        tools = [ShellTool(Recorder(), name="terminal")]
        await Runner.run(Agent("agent", tools=tools, model=model, model_settings=settings), "go")
    assert server.bodies[0]["tool_choice"] == {"type": "shell"}


async def test_a_timeout_of_a_native_call_is_one(server: OpenAIServer, tmp_path: Path) -> None:
    tool = ShellTool(LocalShellExecutor(tmp_path), needs_approval=False)
    await native(server, tool, shell_call("echo a; sleep 1000", timeout_ms=500))
    [given] = [item for item in server.bodies[-1]["input"] if item.get("type") == "shell_call_output"]
    assert given["output"][0]["outcome"] == {"type": "timeout"}


async def test_a_tool_of_another_name_takes_native_calls_too(server: OpenAIServer) -> None:
    executor = Recorder()
    tool = ShellTool(executor, name="terminal")
    result = await native(server, tool, shell_call("ls"), decide=lambda state, item: state.approve(item))
    assert result.final_output == "Done."
    assert executor.commands == [["ls"]]


async def test_a_model_without_such_calls_is_offered_a_function() -> None:
    model = ScriptedModel(["done"])
    await Runner.run(Agent("agent", tools=[ShellTool(Recorder())], model=model), "go")
    [spec] = model.requests[0].tools
    assert (spec.name, spec.strict) == ("shell", True)
    assert set(spec.parameters["required"]) == set(spec.parameters["properties"])
    assert spec.parameters["additionalProperties"] is False
