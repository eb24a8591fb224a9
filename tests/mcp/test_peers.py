"""Assentry with MCP servers that others wrote, of two protocol versions, two languages and three SDKs.

A server that is not installed skips its tests, and fails them in CI; `make test-peers` installs all of them first.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, Approve, RunConfig, Runner, RunState, ToolProgressEvent
from assentry.errors import InvalidDefinition
from assentry.mcp import (
    MCPServerStdio,
    MCPUtil,
    ToolFilterContext,
    ask_if_destructive,
    create_static_tool_filter,
)
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call
from tests.mcp.peers import HOME, NODE, SDK_1, SDK_2, Missing, program

pytestmark = pytest.mark.peers
ROOT = Path(__file__).parent.parent.parent
EVERYTHING, FILESYSTEM, MEMORY = "mcp-server-everything", "mcp-server-filesystem", "mcp-server-memory"
GIT, TIME, CALCULATOR = "mcp-server-git", "mcp-server-time", "mcp-server-calculator"
WRITES = {"write_file": "always", "move_file": "always"}

Peer = Callable[..., MCPServerStdio]


@pytest.fixture
def peer() -> Peer:
    """`peer("mcp-server-git", "--repository", path, require_approval=...)` is that server, not yet started."""

    def made(server: str, *args: object, env: dict[str, str] | None = None, **options: Any) -> MCPServerStdio:
        try:
            command = program(server)
        except Missing as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))
        params: Any = {"command": command, "args": [str(arg) for arg in args]} | ({"env": env} if env else {})
        return MCPServerStdio(params=params, **{"name": server.removeprefix("mcp-server-"), **options})

    return made


@pytest.fixture(autouse=True)
def no_server_is_left() -> Iterator[None]:
    """See that no server outlives its test."""
    yield
    assert not running_servers()


def running_servers() -> list[str]:
    """The command lines of servers that this process has started and that still run; empty where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended meanwhile
            continue
        if parent == os.getpid() and str(HOME) in line:
            found.append(line)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files."""
    made = tmp_path / "files"
    made.mkdir()
    (made / "one.txt").write_text("the first file\n")
    (made / "two.txt").write_text("the second file\n")
    return made.resolve()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with a staged file."""
    made = tmp_path / "repository"
    made.mkdir()
    for words in (["init"], ["config", "user.name", "Ann"], ["config", "user.email", "ann@example.com"]):
        subprocess.run(["git", *words], cwd=made, check=True, capture_output=True)
    (made / "readme").write_text("Lamps.\n")
    git(made, "add", ".")
    git(made, "commit", "--message", "Begin")
    (made / "draft").write_text("half done\n")
    git(made, "add", "draft")
    return made.resolve()


def git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def staged(repository: Path) -> str:
    return git(repository, "diff", "--cached", "--name-only")


def agent_with(servers: list[MCPServerStdio], *steps: Any) -> Agent[Any]:
    return Agent(name="Clerk", mcp_servers=servers, model=ScriptedModel([*steps, "Done."]))


def outputs(result: Any) -> list[Any]:
    """The outputs in the transcript, as the model gets them."""
    return [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]


async def called(server: MCPServerStdio, name: str, args: dict[str, Any] | None = None) -> Any:
    """The output of one call through a run, which nobody is asked about."""
    result = await Runner.run(agent_with([server], call(name, args or {})), "Go.")
    assert result.final_output == "Done." and not result.interruptions
    [output] = outputs(result)
    return output


# -- every server ----------------------------------------------------------------------------------

FEW_TOOLS = {
    EVERYTHING: {"echo", "get-sum", "get-tiny-image", "trigger-long-running-operation"},
    FILESYSTEM: {"read_text_file", "write_file", "move_file"},
    MEMORY: {"create_entities", "delete_entities", "read_graph"},
    GIT: {"git_status", "git_reset", "git_commit"},
    TIME: {"get_current_time", "convert_time"},
    CALCULATOR: {"calculate"},
}


def test_the_page_names_the_servers_with_the_versions_that_are_tested() -> None:
    page = (ROOT / "docs" / "howto" / "mcp.md").read_text("utf-8")
    pinned = dict(NODE)
    for requirement in (*SDK_2.requirements, *SDK_1.requirements):
        if "==" in requirement:
            name, version = requirement.split("==")
            pinned[name] = version
    assert len(pinned) == len(FEW_TOOLS)
    for name, version in pinned.items():
        assert f"| `{name}` | {version} |" in page


@pytest.mark.parametrize("name", FEW_TOOLS)
async def test_the_tools_of_a_server_are_listed_and_offered_with_their_schemas(
    name: str, peer: Peer, folder: Path
) -> None:
    model = ScriptedModel(["Nothing to do."])
    async with peer(name, *([folder] if name == FILESYSTEM else [])) as server:
        await Runner.run(Agent(name="Clerk", mcp_servers=[server], model=model), "Look.")
        listed = {tool.name: tool for tool in await server.list_tools()}
    offered = {tool.name: tool for tool in model.requests[0].tools}
    assert FEW_TOOLS[name] <= set(offered) == set(listed)
    for tool in FEW_TOOLS[name]:
        assert offered[tool].description == listed[tool].description
        assert set(offered[tool].parameters["properties"]) == set(listed[tool].input_schema.get("properties", {}))


@pytest.mark.parametrize(
    ("name", "tool", "args", "said"),
    [
        (EVERYTHING, "get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5."),
        (MEMORY, "read_graph", {}, '"entities"'),
        (TIME, "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "T21:00"),
        (CALCULATOR, "calculate", {"expression": "6*7"}, "42"),
    ],
    ids=[EVERYTHING, MEMORY, TIME, CALCULATOR],
)
async def test_a_call_that_needs_nobody_is_answered(
    name: str, tool: str, args: dict[str, Any], said: str, peer: Peer, tmp_path: Path
) -> None:
    server = peer(name, env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})
    assert said in str(await called(server, tool, args))


async def test_one_agent_has_the_tools_of_six_servers(peer: Peer, folder: Path, repository: Path) -> None:
    servers = [peer(EVERYTHING), peer(FILESYSTEM, folder), peer(MEMORY), peer(GIT), peer(TIME), peer(CALCULATOR)]
    calls = [
        call("echo", {"message": "hello"}),
        call("read_text_file", {"path": str(folder / "one.txt")}),
        call("git_status", {"repo_path": str(repository)}),
        call("calculate", {"expression": "6*7"}),
    ]
    result = await Runner.run(agent_with(servers, calls), "Go.")
    for said, output in zip(["hello", "the first file", "draft", "42"], outputs(result), strict=True):
        assert said in output


async def test_the_tools_of_several_servers_are_listed_as_function_tools(peer: Peer) -> None:
    async with peer(TIME) as time, peer(CALCULATOR) as calculator:
        tools = await MCPUtil.get_all_function_tools([time, calculator])
    assert {tool.name for tool in tools} == {"get_current_time", "convert_time", "calculate"}


# -- approvals -------------------------------------------------------------------------------------


async def test_writing_and_moving_files_wait_for_a_person_and_reading_does_not(peer: Peer, folder: Path) -> None:
    one, two, new = folder / "one.txt", folder / "two.txt", folder / "new.txt"
    calls = [
        call("read_text_file", {"path": str(one)}),
        call("write_file", {"path": str(new), "content": "written"}),
        call("move_file", {"source": str(two), "destination": str(folder / "moved.txt")}),
    ]
    agent = agent_with([peer(FILESYSTEM, folder, require_approval=WRITES)], calls)
    result = await Runner.run(agent, "Go.")
    write, move = result.interruptions
    assert (write.name, move.name) == ("write_file", "move_file")
    assert json.loads(write.arguments) == {"path": str(new), "content": "written"}
    assert not new.exists() and two.exists()

    state = result.to_state()
    state.approve(write, by="ann")
    state.reject(move, rejection_message="It stays where it is.", by="ann")
    result = await Runner.run(agent, state)
    assert new.read_text() == "written" and two.exists() and not (folder / "moved.txt").exists()
    read, wrote, moved = outputs(result)
    assert "the first file" in read and "Successfully wrote" in wrote and moved == "It stays where it is."


async def test_an_edited_call_reaches_the_server_with_the_persons_arguments(peer: Peer, folder: Path) -> None:
    new, other = folder / "new.txt", folder / "other.txt"
    step = call("write_file", {"path": str(new), "content": "by the model"})
    agent = agent_with([peer(FILESYSTEM, folder, require_approval="always")], step)
    result = await Runner.run(agent, "Go.")
    state = result.to_state()
    state.edit(result.interruptions[0], {"path": str(other), "content": "by ann"}, by="ann")
    await Runner.run(agent, state)
    assert not new.exists() and other.read_text() == "by ann"


async def test_calls_that_a_server_calls_destructive_wait_for_a_person(peer: Peer, folder: Path) -> None:
    calls = [
        call("list_directory", {"path": str(folder)}),
        call("create_directory", {"path": str(folder / "made")}),
        call("write_file", {"path": str(folder / "new.txt"), "content": ""}),
        call("move_file", {"source": str(folder / "one.txt"), "destination": str(folder / "gone.txt")}),
    ]
    agent = agent_with([peer(FILESYSTEM, folder, require_approval=ask_if_destructive())], calls)
    result = await Runner.run(agent, "Go.")
    assert [item.name for item in result.interruptions] == ["write_file", "move_file"]
    assert sorted(os.listdir(folder)) == ["made", "one.txt", "two.txt"]


async def test_a_reset_of_a_repository_waits_for_a_person_and_its_status_does_not(peer: Peer, repository: Path) -> None:
    here = {"repo_path": str(repository)}
    agent = agent_with(
        [peer(GIT, "--repository", repository, require_approval={"git_reset": "always"})],
        [call("git_status", here), call("git_reset", here)],
    )
    result = await Runner.run(agent, "Go.")
    assert [item.name for item in result.interruptions] == ["git_reset"] and staged(repository) == "draft"
    state = result.to_state()
    state.approve(result.interruptions[0], by="ann")
    result = await Runner.run(agent, state)
    assert staged(repository) == "" and (repository / "draft").exists()
    assert "draft" in outputs(result)[0]


async def test_a_rejected_reset_changes_nothing(peer: Peer, repository: Path) -> None:
    server = peer(GIT, "--repository", repository, require_approval="always")
    agent = agent_with([server], call("git_reset", {"repo_path": str(repository)}))
    result = await Runner.run(agent, "Go.")
    state = result.to_state()
    state.reject(result.interruptions[0], by="ann")
    await Runner.run(agent, state)
    assert staged(repository) == "draft"


def test_an_approved_call_runs_in_another_process_with_the_state_on_disk(
    peer: Peer, repository: Path, tmp_path: Path
) -> None:
    peer(GIT)  # skips the test where it is missing
    state = tmp_path / "run.json"
    begun = in_a_process("begin", state, repository)
    assert begun["waiting"] == ["git_reset"] and staged(repository) == "draft"
    ended = in_a_process("resume", state, repository)
    assert "reset" in ended["output"] and staged(repository) == ""


async def test_an_approved_call_runs_in_another_process_with_the_run_in_a_store(
    peer: Peer, repository: Path, tmp_path: Path
) -> None:
    peer(GIT)
    database = tmp_path / "runs.db"
    begun = in_a_process("store", "-", database, repository)
    async with SQLiteStore(database) as store:
        [question] = (await store.questions(run=begun["run"])).items
        assert question.tool == "git_reset" and json.loads(question.arguments) == {"repo_path": str(repository)}
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    assert staged(repository) == "draft"
    ended = in_a_process("store", begun["run"], database, repository)
    assert "reset" in ended["output"] and staged(repository) == ""


def in_a_process(*words: object) -> Any:
    command = [sys.executable, "-m", "tests.mcp.peer_program", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


# -- results ---------------------------------------------------------------------------------------


async def test_structured_content_reaches_the_model_as_json(peer: Peer) -> None:
    output = await called(
        peer(EVERYTHING, use_structured_content=True), "get-structured-content", {"location": "Chicago"}
    )
    assert set(json.loads(output)) == {"temperature", "conditions", "humidity"}


async def test_an_image_reaches_the_model_as_an_image(peer: Peer) -> None:
    parts = await called(peer(EVERYTHING), "get-tiny-image")
    images = [part for part in parts if part["type"] == "input_image"]
    assert len(images) == 1 and images[0]["image_url"].startswith("data:image/png;base64,iVBOR")
    assert parts[0] == {"type": "input_text", "text": "Here's the image you requested:"}


async def test_an_image_is_kept_in_the_saved_run(peer: Peer) -> None:
    agent = agent_with([peer(EVERYTHING)], call("get-tiny-image"))
    result = await Runner.run(agent, "Go.")
    saved = json.loads(json.dumps(result.to_state().to_json()))
    again = await RunState.from_json(agent, saved)
    assert again.to_json() == saved and outputs(result)[0][1]["type"] == "input_image"


async def test_a_file_that_is_an_image_reaches_the_model_as_an_image(peer: Peer, folder: Path) -> None:
    pixel = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000"
        "000049454e44ae426082"
    )
    (folder / "dot.png").write_bytes(pixel)
    [part] = await called(peer(FILESYSTEM, folder), "read_media_file", {"path": str(folder / "dot.png")})
    assert part["type"] == "input_image" and part["image_url"].startswith("data:image/png;base64,")


async def test_embedded_resources_and_links_reach_the_model_as_text(peer: Peer) -> None:
    async with peer(EVERYTHING) as server:
        embedded = await called(server, "get-resource-reference", {"resourceType": "Text", "resourceId": 1})
        links = await called(server, "get-resource-links", {"count": 2})
    assert "This is a plaintext resource" in embedded and "demo://resource/dynamic/text/2" in links


async def test_an_error_of_a_tool_is_told_to_the_model_and_the_run_goes_on(peer: Peer, folder: Path) -> None:
    output = await called(peer(FILESYSTEM, folder), "read_text_file", {"path": "/etc/hostname"})
    assert "Access denied" in output


async def test_arguments_that_do_not_fit_the_servers_schema_never_reach_it(peer: Peer, folder: Path) -> None:
    output = await called(peer(FILESYSTEM, folder), "write_file", {"path": str(folder / "new.txt"), "content": 5})
    assert "content" in output and not (folder / "new.txt").exists()


async def test_what_a_server_remembers_is_there_when_it_is_started_again(peer: Peer, tmp_path: Path) -> None:
    ann = {"name": "Ann", "entityType": "person", "observations": ["likes lamps"]}
    server = peer(
        MEMORY, env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}, require_approval={"delete_entities": True}
    )
    await called(server, "create_entities", {"entities": [ann]})
    assert "likes lamps" in str(await called(server, "read_graph"))
    result = await Runner.run(agent_with([server], call("delete_entities", {"entityNames": ["Ann"]})), "Forget Ann.")
    assert [item.name for item in result.interruptions] == ["delete_entities"]
    assert "likes lamps" in str(await called(server, "read_graph"))


async def test_prompts_and_resources_are_listed_and_read(peer: Peer) -> None:
    async with peer(EVERYTHING) as server:
        prompts = await server.list_prompts()
        assert "args-prompt" in [prompt.name for prompt in prompts.prompts]
        prompt = await server.get_prompt("args-prompt", {"city": "Porto"})
        assert "Porto" in prompt.messages[0].content.text
        resources = await server.list_resources()
        assert "demo://resource/static/document/features.md" in [str(each.uri) for each in resources.resources]
        [content] = (await server.read_resource("demo://resource/dynamic/text/7")).contents
        assert "Resource 7" in content.text


# -- while a call runs -----------------------------------------------------------------------------


async def test_progress_comes_as_events_of_the_stream(peer: Peer) -> None:
    step = call("trigger-long-running-operation", {"duration": 0.04, "steps": 4})
    result = Runner.run_streamed(agent_with([peer(EVERYTHING)], step), "Go.")
    seen = [event async for event in result.stream_events() if isinstance(event, ToolProgressEvent)]
    assert [(event.tool_name, event.progress, event.total) for event in seen] == [
        ("trigger-long-running-operation", float(number), 4.0) for number in (1, 2, 3, 4)
    ]
    assert "Steps: 4" in outputs(result)[0]


async def test_a_cancelled_call_is_in_doubt_and_the_server_stays_usable(peer: Peer) -> None:
    step = call("trigger-long-running-operation", {"duration": 3600, "steps": 360_000})
    async with peer(EVERYTHING) as server:
        agent = agent_with([server], step)
        result = Runner.run_streamed(agent, "Go.", run_config=RunConfig(cancel_grace=0))
        async for event in result.stream_events():
            if isinstance(event, ToolProgressEvent):
                result.cancel()
        result = await Runner.run(agent, result.to_state())
        [question] = result.interruptions
        assert (question.name, question.kind) == ("trigger-long-running-operation", "doubt")
        assert await called(server, "echo", {"message": "still here"}) == "Echo: still here"


async def test_a_question_of_a_server_is_put_to_the_person_and_the_answer_continues_the_call(peer: Peer) -> None:
    async with peer(EVERYTHING) as server:
        agent = agent_with([server], call("trigger-elicitation-request"))
        result = await Runner.run(agent, "Go.")
        [question] = result.interruptions
        assert question.kind == "input" and question.schema["required"] == ["name"]
        state = result.to_state()
        state.respond(question, {"name": "Ann", "integer": 7}, by="ann")
        result = await Runner.run(agent, state)
    assert "Name: Ann" in outputs(result)[0] and "Favorite Integer: 7" in outputs(result)[0]


# -- filters and names -----------------------------------------------------------------------------


async def test_a_tool_that_a_filter_hides_is_not_offered_and_not_run(peer: Peer, folder: Path) -> None:
    reads = create_static_tool_filter(allowed_tool_names=["read_text_file", "list_directory"])
    model = ScriptedModel([call("write_file", {"path": str(folder / "new.txt"), "content": "x"}), "Done."])
    agent = Agent[Any](name="Clerk", mcp_servers=[peer(FILESYSTEM, folder, tool_filter=reads)], model=model)
    result = await Runner.run(agent, "Go.")
    assert {tool.name for tool in model.requests[0].tools} == {"read_text_file", "list_directory"}
    assert "write_file" in outputs(result)[0] and not (folder / "new.txt").exists()


async def test_a_function_filters_by_agent_and_annotation(peer: Peer, folder: Path) -> None:
    seen = set()

    async def read_only(context: ToolFilterContext, tool: Any) -> bool:
        seen.add((context.agent.name, context.server_name))
        return bool(tool.annotations.read_only_hint)

    model = ScriptedModel(["Done."])
    agent = Agent[Any](name="Clerk", mcp_servers=[peer(FILESYSTEM, folder, tool_filter=read_only)], model=model)
    await Runner.run(agent, "Go.")
    offered = {tool.name for tool in model.requests[0].tools}
    assert "read_text_file" in offered and offered.isdisjoint({"write_file", "move_file", "edit_file"})
    assert seen == {("Clerk", "filesystem")}


async def test_two_servers_with_a_tool_of_one_name_are_refused(peer: Peer, folder: Path) -> None:
    servers = [peer(FILESYSTEM, folder, name="here"), peer(FILESYSTEM, folder.parent, name="there")]
    with pytest.raises(InvalidDefinition, match=r"read_\w*file"):
        await Runner.run(agent_with(servers), "Go.")


async def test_two_servers_of_one_kind_live_together_if_filters_keep_their_names_apart(
    peer: Peer, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    servers = [
        peer(FILESYSTEM, here, name="here", tool_filter=create_static_tool_filter(["read_text_file"])),
        peer(FILESYSTEM, there, name="there", tool_filter=create_static_tool_filter(["write_file"])),
    ]
    wrong, right = str((here / "a").resolve()), str((there / "a").resolve())
    calls = [call("write_file", {"path": path, "content": "x"}) for path in (wrong, right)]
    result = await Runner.run(agent_with(servers, calls), "Go.")
    assert "Access denied" in outputs(result)[0] and not (here / "a").exists() and (there / "a").exists()


async def test_two_servers_of_one_kind_live_together_if_a_prefix_keeps_their_names_apart(peer: Peer) -> None:
    servers = [peer(CALCULATOR, name=name, tool_name_prefix=f"{name}_") for name in ("first", "second")]
    agent = agent_with(
        servers, [call("first_calculate", {"expression": "1+1"}), call("second_calculate", {"expression": "2+2"})]
    )
    assert outputs(await Runner.run(agent, "Go.")) == ["2", "4"]


async def test_two_runs_at_once_share_a_server(peer: Peer) -> None:
    async with peer(EVERYTHING) as server:
        agents = [agent_with([server], call("echo", {"message": f"number {number}"})) for number in range(8)]
        results = await asyncio.gather(*(Runner.run(agent, "Go.") for agent in agents))
        assert len(running_servers()) <= 1
    assert [outputs(result) for result in results] == [[f"Echo: number {number}"] for number in range(8)]
