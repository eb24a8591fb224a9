"""The setting `require_approval` in all its shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.types import Tool as Listed
from mcp.types import ToolAnnotations

from assentry import Runner
from assentry.errors import InvalidDefinition
from assentry.mcp import MCPServerStdio, ask_if_destructive, ask_unless_read_only
from assentry.mcp.approval_rule import policy_from
from assentry.testing import call
from tests.mcp.support import act, agent_of, lines, output, raw, run

NAMES = {"a", "b", "c", "secret"}


def listed(name: str, **hints: bool) -> Listed:
    return Listed(name=name, input_schema={"type": "object"}, annotations=ToolAnnotations(**hints) if hints else None)


@pytest.mark.parametrize(
    ("given", "read", "write"),
    [
        (None, False, False),
        ("never", False, False),
        (False, False, False),
        ("always", True, True),
        (True, True, True),
        ({}, False, False),
        ({"write": "always"}, False, True),
        ({"write": True, "read": False}, False, True),
        ({"read": "never", "write": "always"}, False, True),
        ({"always": {"tool_names": ["write"]}}, False, True),
        ({"never": {"tool_names": ["read"]}}, False, False),
        ({"always": {"tool_names": ["write"]}, "never": {"tool_names": ["read"]}}, False, True),
        ({"always": "always"}, False, False),
    ],
)
def test_a_setting_says_which_tools_ask(given: Any, read: bool, write: bool) -> None:
    policy = policy_from("it", given)
    names = {"read", "write", "always"}
    assert (policy(listed("read"), names), policy(listed("write"), names)) == (read, write)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("sometimes", "require_approval must be"),
        (1, "require_approval must be"),
        (["write"], "require_approval must be"),
        (str, "require_approval must be"),
        ({"write": "maybe"}, r"require_approval\['write'\]"),
        ({"write": 1}, r"require_approval\['write'\]"),
        ({"write": None}, r"require_approval\['write'\]"),
        ({3: "always"}, "must be names of tools, got 3"),
        ({"always": {"tool_names": ["a"]}, "write": "never"}, "no option .write.*always, never"),
        ({"always": {"tool_names": "a"}}, "list of tool names"),
        ({"always": {"tool_names": [1]}}, "list of tool names"),
        ({"always": {"names": ["a"]}}, "tool_names"),
        ({"always": {"tool_names": ["a"], "read_only": True}}, "tool_names"),
        ({"always": {"tool_names": ["a"]}, "never": "all"}, "tool_names"),
        ({"always": {"tool_names": ["a"]}, "never": {"tool_names": ["a"]}}, "'a' under"),
        (lambda ctx: True, "must take the run context"),
        (lambda a, b, c, d, e: True, "must take the run context"),
    ],
)
def test_a_setting_that_means_nothing_fails_at_construction(given: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        MCPServerStdio({"command": "x"}, require_approval=given)


def test_hints_raise_a_rule_and_never_lower_one() -> None:
    destructive, read_only = listed("a", destructive_hint=True), listed("b", read_only_hint=True)
    policy = policy_from("it", ask_if_destructive())
    assert [policy(each, NAMES) for each in (destructive, read_only, listed("c"))] == [True, False, False]
    policy = policy_from("it", ask_if_destructive("always"))
    assert [policy(each, NAMES) for each in (destructive, read_only, listed("c"))] == [True, True, True]
    policy = policy_from("it", ask_if_destructive({"a": "never", "b": "always"}))
    assert [policy(each, NAMES) for each in (destructive, read_only, listed("c"))] == [True, True, False]


def test_a_read_only_hint_counts_only_if_it_is_trusted_by_name() -> None:
    policy = policy_from("it", ask_unless_read_only(trust_annotations=True, always=["secret"]))
    read_only, secret = listed("b", read_only_hint=True), listed("secret", read_only_hint=True)
    assert [policy(each, NAMES) for each in (read_only, secret, listed("c"))] == [False, True, True]
    assert policy(listed("d", read_only_hint=False), NAMES) is True
    with pytest.raises(InvalidDefinition, match="trust_annotations=True"):
        ask_unless_read_only(trust_annotations=False)  # type: ignore[arg-type]
    with pytest.raises(InvalidDefinition, match="list of tool names"):
        ask_unless_read_only(trust_annotations=True, always="secret")


@pytest.mark.parametrize(
    "given",
    [
        {"act": "always"},
        {"act": "never"},
        {"always": {"tool_names": ["act"]}},
        ask_if_destructive({"act": "always"}),
        ask_unless_read_only(trust_annotations=True, always=["act"]),
    ],
)
def test_a_setting_that_names_a_tool_which_the_server_lacks_makes_the_others_wait(given: Any) -> None:
    policy = policy_from("it", given)
    other = listed("act2", read_only_hint=True)
    assert policy(other, {"act", "act2"}) is False
    rule: Any = policy(other, {"act2"})
    assert rule(None, {}, "") is True
    assert "names 'act', which the server does not list" in rule.why


@pytest.mark.parametrize("cache", [False, True])
def test_a_tool_that_its_server_renames_is_asked_about_and_the_question_says_why(tmp_path: Path, cache: bool) -> None:
    async def main() -> None:
        log = tmp_path / "log"
        server = raw("renames", log, require_approval={"act": "always"}, cache_tools_list=cache)
        async with server:
            assert len((await Runner.run(agent_of(server, act()), "Act.")).interruptions) == 1
            log.with_suffix(".changed").touch()
            server.invalidate_tools_cache()
            result = await Runner.run(agent_of(server, call("act2", {"what": "it"})), "Act.")
            [question] = result.interruptions
            assert "require_approval names 'act', which the server does not list" in question.reason
            state = result.to_state()
            state.approve(question, by="ann")
            assert output(await Runner.run(agent_of(server), state)) == "did it"
        assert lines(log) == ["called it"]

    run(main())


def test_a_rule_sees_context_agent_and_tool_and_the_arguments_if_it_takes_them(tmp_path: Path) -> None:
    seen: list[Any] = []

    def by_tool(ctx: Any, agent: Any, tool: Any) -> bool:
        seen.append((ctx.context, agent.name, tool.name))
        return False

    async def by_arguments(ctx: Any, agent: Any, tool: Any, arguments: dict[str, Any]) -> bool:
        seen.append((ctx.context, agent.name, tool.name, arguments))
        return arguments["what"] == "harm"

    async def main() -> None:
        server = raw("well", tmp_path / "log", require_approval=by_tool)
        assert output(await Runner.run(agent_of(server, act()), "Act.", context=7)) == "did it"
        server = raw("well", tmp_path / "log", require_approval=by_arguments)
        result = await Runner.run(agent_of(server, [act("good"), act("harm")]), "Act.", context=8)
        assert output(result) == "did good"
        [question] = result.interruptions
        assert question.reason.startswith("The rule ") and "by_arguments asks for approval" in question.reason
        assert lines(tmp_path / "log") == ["called it", "called good"]

    run(main())
    assert seen[0] == (7, "Agent", "act")
    assert seen[1:] == [(8, "Agent", "act", {"what": "good"}), (8, "Agent", "act", {"what": "harm"})]


def test_a_rule_that_fails_asks(tmp_path: Path) -> None:
    def broken(ctx: Any, agent: Any, tool: Any) -> bool:
        raise KeyError("no such user")

    async def main() -> None:
        result = await Runner.run(agent_of(raw("well", tmp_path / "log", require_approval=broken), act()), "Act.")
        assert len(result.interruptions) == 1
        assert lines(tmp_path / "log") == []

    run(main())
