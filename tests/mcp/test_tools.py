"""The tools of a server: as they are offered, filtered, cached, and given their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.types import Tool as Listed

from assentry import Agent, Runner, function_tool
from assentry.errors import InvalidArguments, InvalidDefinition, MCPServerFailed
from assentry.mcp import (
    MCPServerSse,
    MCPServerStdio,
    MCPServerStreamableHttp,
    MCPTool,
    MCPUtil,
    ToolFilterContext,
    create_static_tool_filter,
)
from assentry.testing import ScriptedModel, call
from tests.mcp.support import act, agent_of, lines, output, raw, run
from tests.runtime.support import python


def made(schema: dict[str, Any], name: str = "act", **options: Any) -> MCPTool:
    server = MCPServerStdio({"command": "x"}, **options)
    return server._make_tool(Listed(name=name, input_schema=schema), frozenset({name}))


# Arguments


def test_defaults_of_the_schema_are_filled_in() -> None:
    tool = made({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}}})
    assert tool.canonical({"a": 1}) == {"a": 1, "b": 2}
    assert tool.params_json_schema["properties"]["b"] == {"type": "integer", "default": 2}
    assert tool.spec.strict is False


def test_a_default_that_does_not_fit_its_own_schema_is_left_to_the_server() -> None:
    tool = made({"type": "object", "properties": {"a": {"type": "string", "default": None}}})
    assert tool.canonical({}) == {}
    assert tool.bind({}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {}}},
    ],
)
def test_schemas_of_other_drafts_can_be_used(schema: dict[str, Any]) -> None:
    tool = made(schema)
    assert tool.bind(tool.canonical({"a": "x"})) == {"a": "x"}


@pytest.mark.parametrize(
    ("schema", "args", "words"),
    [
        ({"type": "object", "required": ["a"]}, {}, "'a' is a required property"),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": "1"}, "a: '1' is not of type 'integer'"),
        ({"type": "object", "additionalProperties": False}, {"b": 1}, "Additional properties are not allowed"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, {"a": 1}, "cannot be used"),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}}, {"a": 1}, "cannot be used"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, {"a": "x"}, "cannot be used"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(schema: dict[str, Any], args: dict[str, Any], words: str) -> None:
    tool = made(schema)
    with pytest.raises(InvalidArguments, match=words):
        tool.bind(tool.canonical(args))


def test_names_are_made_of_characters_that_providers_accept() -> None:
    assert made({"type": "object"}, "files.read/all").name == "files_read_all"
    assert made({"type": "object"}, "act", tool_name_prefix="git_").name == "git_act"
    long = made({"type": "object"}, "x" * 200)
    assert len(long.name) == 64 and long.remote == "x" * 200


def test_a_name_that_no_text_can_hold_is_the_servers_fault() -> None:
    with pytest.raises(MCPServerFailed, match="cannot be used"):
        made({"type": "object"}, "")


def test_the_fingerprint_covers_hints_and_the_schema_of_results() -> None:
    server = MCPServerStdio({"command": "x"})
    plain = Listed(name="a", input_schema={"type": "object"})
    others = [
        plain.model_copy(update={"title": "B"}),
        plain.model_copy(update={"output_schema": {"type": "object"}}),
        plain.model_copy(update={"input_schema": {"type": "object", "default": 1}}),
        plain.model_copy(update={"input_schema": {"type": "object", "default": True}}),
        Listed.model_validate({"name": "a", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}),
    ]
    prints = {server._make_tool(each, frozenset({"act"})).fingerprint for each in [plain, *others]}
    assert len(prints) == 6


# Lists


def test_a_list_that_has_not_changed_is_the_same_object(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("changes", tmp_path / "log") as server:
            await server.refresh()
            before = server.tools
            await server.refresh(fresh=True)
            assert server.tools is before
            (tmp_path / "log.changed").touch()
            await server.refresh()
            assert server.tools is not before
            assert "owner" in server.tools[0].description

    run(main())


def test_a_cached_list_is_used_until_it_is_stale(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("changes", tmp_path / "log", cache_tools_list=True) as server:
            await server.refresh()
            (tmp_path / "log.changed").touch()
            await server.refresh()
            assert "owner" not in server.tools[0].description
            server.invalidate_tools_cache()
            await server.refresh()
            assert "owner" in server.tools[0].description

    run(main())


def test_a_server_that_says_its_list_has_changed_is_listed_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("tells", tmp_path / "log", cache_tools_list=True) as server:
            agent = agent_of(server, act("first"), act("second"))
            result = await Runner.run(agent, "Act.")
            assert [output(result, number) for number in (0, 1)] == ["did first", "did second"]
            assert server.tools[0].description == "Act, for the 2nd time."

    run(main())


def test_tools_are_filtered_by_name() -> None:
    async def main() -> None:
        for given, left in (
            (create_static_tool_filter(allowed_tool_names=["act_1", "act_2"]), ["act_1", "act_2"]),
            (create_static_tool_filter(["act_1", "act_2"], ["act_2"]), ["act_1"]),
        ):
            async with raw("many", tool_filter=given) as server:
                assert [tool.name for tool in await server.list_tools()] == left

    run(main())
    assert create_static_tool_filter() is None


@pytest.mark.parametrize("answer", [False, None, "yes", 1, RuntimeError("no")])
def test_a_filter_that_does_not_say_true_hides_the_tool(answer: Any, tmp_path: Path) -> None:
    seen = []

    async def choose(context: ToolFilterContext, tool: Any) -> bool:
        seen.append((context.run_context.context, context.agent.name, context.server_name, tool.name))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def main() -> None:
        agent = agent_of(raw("well", tmp_path / "log", tool_filter=choose), act())
        result = await Runner.run(agent, "Act.", context=5)
        assert lines(tmp_path / "log") == []
        assert result.final_output == "Done."

    run(main())
    assert seen[0] == (5, "Agent", "raw", "act")


@pytest.mark.parametrize("given", ["all", {"allowed": ["a"]}, {"allowed_tool_names": "a"}, {"blocked_tool_names": [1]}])
def test_a_filter_that_means_nothing_fails_at_construction(given: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"tool_filter|tool_names"):
        MCPServerStdio({"command": "x"}, tool_filter=given)


def test_tools_of_the_same_name_name_both_servers_and_the_remedy(tmp_path: Path) -> None:
    async def main() -> None:
        one, two = raw("well", name="one"), raw("well", tmp_path / "log", name="two")
        agent = Agent(name="A", mcp_servers=[one, two], model=ScriptedModel(["Done."]))
        with pytest.raises(InvalidDefinition, match=r"'act'.*'one'.*'two'.*tool_name_prefix"):
            await Runner.run(agent, "Act.")
        async with one, two:
            with pytest.raises(InvalidDefinition, match=r"'one' and 'two'.*'act'.*tool_name_prefix"):
                await MCPUtil.get_all_function_tools([one, two])
        two = raw("well", tmp_path / "log", name="two", tool_name_prefix="two_")
        model = ScriptedModel([call("two_act", {"what": "it"}), "Done."])
        agent = Agent(name="A", mcp_servers=[one, two], model=model)
        assert output(await Runner.run(agent, "Act.")) == "did it"
        assert lines(tmp_path / "log") == ["called it"]

    run(main())


def test_all_tools_of_several_servers_can_be_an_agents_own(tmp_path: Path) -> None:
    @function_tool
    def wave() -> str:
        """Wave."""
        return "waved"

    async def main() -> None:
        async with raw("well", tmp_path / "log", require_approval="always") as server:
            tools = await MCPUtil.get_all_function_tools([server], convert_schemas_to_strict=False)
            agent = Agent(name="A", tools=[wave, *tools], model=ScriptedModel([[call("wave"), act()], "Done."]))
            result = await Runner.run(agent, "Act.")
            assert output(result) == "waved"
            state = result.to_state()
            state.approve(state.get_interruptions()[0])
            assert output(await Runner.run(agent, state), 1) == "did it"
            (strict,) = await MCPUtil.get_all_function_tools([server], True)
            assert strict.spec is not None and strict.spec.strict and strict.fingerprint == tools[0].fingerprint
            with pytest.raises(InvalidDefinition, match="convert_schemas_to_strict must be True or False"):
                await MCPUtil.get_all_function_tools([server], "yes")  # type: ignore[arg-type]
            with pytest.raises(InvalidDefinition, match="list of MCP servers, got 3"):
                await MCPUtil.get_all_function_tools([3])  # type: ignore[list-item]

    run(main())


# Construction


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        (MCPServerStdio, "python", "params must be a dict"),
        (MCPServerStdio, {}, "params: command must be text"),
        (MCPServerStdio, {"command": "x", "arguments": []}, "no option 'arguments'; did you mean 'args'"),
        (MCPServerStdio, {"command": "x", "args": "a b"}, "args must be a list"),
        (MCPServerStdio, {"command": "x", "env": {"A": 1}}, "env must be a dict of texts"),
        (MCPServerSse, {"url": "ftp://host/"}, "url must be an http or https URL"),
        (MCPServerStreamableHttp, {"url": "host"}, "url must be an http or https URL"),
        (MCPServerStreamableHttp, {"url": "http://host/", "header": {}}, "no option 'header'; did you mean 'headers'"),
        (MCPServerStreamableHttp, {"url": "http://host/", "headers": {"A": 1}}, "headers must be a dict of texts"),
        (MCPServerSse, {"url": "http://host/", "timeout": 0}, "timeout must be a number of seconds above zero"),
        (
            MCPServerSse,
            {"url": "http://host/", "sse_read_timeout": "1"},
            "sse_read_timeout must be a number of seconds",
        ),
    ],
)
def test_parameters_that_cannot_be_used_fail_at_construction(kind: Any, params: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        kind(params)


@pytest.mark.parametrize(
    "options",
    [
        {"client_session_timeout_seconds": 0},
        {"client_session_timeout_seconds": "5"},
        {"max_retry_attempts": -1},
        {"max_result_bytes": 0},
        {"max_tools": 1.5},
        {"max_held_calls": True},
        {"parallel_calls": 1},
        {"use_structured_content": "yes"},
        {"tool_name_prefix": "a b"},
        {"idempotent_tools": "act"},
        {"message_handler": 3},
        {"retry_backoff_seconds_base": -1},
        {"colour": "blue"},
    ],
)
def test_an_option_that_cannot_be_used_is_named(options: Any) -> None:
    with pytest.raises(InvalidDefinition, match=next(iter(options))):
        MCPServerStdio({"command": "x"}, **options)


def test_a_servers_name_shows_no_secret_of_its_address() -> None:
    server = MCPServerStreamableHttp({"url": "https://user:secret@host:8443/mcp?token=secret"})
    assert server.name == "streamable_http: https://host:8443/mcp"
    assert "secret" not in repr(server)


def test_the_sdk_is_imported_only_when_a_server_is_connected() -> None:
    said = python(
        "import sys, assentry.mcp; assentry.mcp.MCPServerStdio({'command': 'x'}); "
        "print([name for name in ('mcp', 'httpx2', 'anyio', 'jsonschema') if name in sys.modules])"
    )
    assert said.stdout.strip() == "[]"


def test_without_the_sdk_the_error_says_what_to_install() -> None:
    said = python(
        "import sys, asyncio; sys.modules['mcp'] = None\n"
        "from assentry.mcp import MCPServerStdio\n"
        "try: asyncio.run(MCPServerStdio({'command': 'x'}).connect())\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    assert said.stdout.startswith("UsageError") and 'pip install ".[mcp]"' in said.stdout
