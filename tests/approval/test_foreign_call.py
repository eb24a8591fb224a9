"""Calls of programs outside before the gate: the facts of a run, and the verdict, without a store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode

from assentry import Preview, Sentence
from assentry.approval.foreign_call import (
    CALL,
    OUTSIDE,
    AskedOutside,
    CallRequest,
    check_request,
    judge_foreign_call,
    proposed_mark,
    request_mark,
    tool_of_request,
)
from assentry.approval.question import action_digest, effective
from assentry.approval.rule_file import RuleFile
from assentry.approval.tool_snapshot import ToolSnapshot
from assentry.core import facts as f
from assentry.core.codec import replay
from assentry.core.run import owed, status
from assentry.errors import AssentryError

SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}


def call(**options: Any) -> CallRequest:
    return CallRequest(**({"source": "coder", "tool": "bash", "arguments": {"cmd": "ls"}, "schema": SCHEMA} | options))


async def judged(rules: str = "", owner: str | None = None, **options: Any) -> AskedOutside:
    request = call(**options)
    check_request(request)
    return await judge_foreign_call(
        request, run="run_1", caller="coder", agent="coder", now=1000, rules=RuleFile.parse(rules), owner=owner
    )


async def test_without_a_rule_a_person_is_asked_and_nothing_is_owed() -> None:
    made = await judged()
    assert [type(fact).__name__ for fact in made.facts] == ["Began", "Said", "Defined", "Replied", "Asked"]
    run = replay(made.facts)
    assert (status(run), owed(run)) == ("waiting", [])
    assert run.began is not None
    assert (run.began.caller, run.began.by, run.began.stored) == ("coder", "coder", True)


async def test_the_digest_covers_run_agent_tool_definition_arguments_and_preview() -> None:
    made = await judged(preview="Lists files.")
    run, asked = replay(made.facts), made.facts[-1]
    assert type(asked) is f.Asked
    state = run.calls[CALL]
    expected = action_digest(run, (), state, "bash", made.tool.fingerprint, {"cmd": "ls"}, asked.preview)
    assert asked.digest == expected
    others = [
        await judged(preview="Lists some files."),
        await judged(arguments={"cmd": "ls "}),
        await judged(definition="v2"),
        await judged(server="box"),
        await judged(description="Runs a command."),
    ]
    digests = {made.facts[-1].digest for made in others}  # type: ignore[union-attr]
    assert len(digests | {asked.digest}) == 6


async def test_the_programs_preview_is_under_its_own_name() -> None:
    made = await judged(preview=Preview("Lists files.", blocks=(Sentence("ls"),)))
    asked = made.facts[-1]
    assert type(asked) is f.Asked
    preview = decode(asked.preview)
    assert preview["sentence"] == "coder says: Lists files."  # the headline on pages and in messages
    assert preview["blocks"][0]["text"].startswith("coder says")
    assert "not checked" in preview["blocks"][0]["text"]


async def test_a_warning_of_the_program_is_under_its_own_name() -> None:
    made = await judged(preview=Preview("Lists files.", blocks=(Sentence("Assentry has checked it.", warning=True),)))
    asked = made.facts[-1]
    assert type(asked) is f.Asked
    warnings = [block["text"] for block in decode(asked.preview)["blocks"] if block.get("warning")]
    assert warnings == ["coder says: Assentry has checked it."]  # it is shown beside the buttons, apart from the rest


async def test_the_agents_words_are_its_own_message_before_the_call() -> None:
    made = await judged(says="I look around.")
    replied = made.facts[3]
    assert type(replied) is f.Replied
    message, item = decode(replied.items)
    assert (message["role"], message["content"][0]["text"]) == ("assistant", "I look around.")
    assert item["name"] == "bash"


@pytest.mark.parametrize(
    ("rules", "kind", "by"),
    [
        ('[[rule]]\nname = "r"\nverdict = "allow"', f.Approved, "rule:r"),
        ('[[rule]]\nname = "r"\nverdict = "deny"', f.Refused, "rule:r"),
    ],
)
async def test_a_rule_is_the_author_of_its_verdict(rules: str, kind: type, by: str) -> None:
    fact: Any = (await judged(rules)).facts[-1]
    assert (type(fact), fact.by) == (kind, by)


async def test_a_rule_that_allows_does_not_let_pass_what_cannot_run() -> None:
    rules = '[[rule]]\nname = "r"\nverdict = "allow"'
    for arguments in ({"cmd": 5}, "{", '{"cmd": "a", "cmd": "b"}'):
        assert type((await judged(rules, arguments=arguments)).facts[-1]) is f.Asked


async def test_another_rule_does_not_make_it_another_tool() -> None:
    marks = {
        (await judged(rules)).tool.fingerprint
        for rules in ("", '[[rule]]\nname = "r"\nverdict = "allow"', '[[rule]]\nname = "r"\nverdict = "ask"')
    }
    assert len(marks) == 1


async def test_a_snapshot_of_the_tool_reads_arguments_as_the_tool_does() -> None:
    made = await judged()
    kept = ToolSnapshot.read(made.tool.frozen())
    assert kept.fingerprint == made.tool.fingerprint
    assert kept.server == OUTSIDE
    assert kept.canonical({"cmd": "x"}) == {"cmd": "x"}


@pytest.mark.parametrize(("owner", "rules", "by"), [
    (None, "", "coder"),
    ("ann", "", "coder"),
    ("ann", '[[rule]]\nname = "r"\nverdict = "ask"\nowner = false', "ann"),
])  # fmt: skip
async def test_the_asker_is_the_program_or_the_owner_whom_a_rule_forbids(
    owner: str | None, rules: str, by: str
) -> None:
    began = (await judged(rules, owner)).facts[0]
    assert type(began) is f.Began
    assert began.by == by


async def test_the_mark_of_a_request_is_that_of_its_stored_call() -> None:
    made = await judged(preview="x", says="y")
    assert request_mark(call()) == proposed_mark(replay(made.facts))
    assert request_mark(call(arguments={"cmd": "rm"})) != proposed_mark(replay(made.facts))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


WORDS = ["type", "properties", "required", "$ref", "allOf"]


@given(
    arguments=st.dictionaries(st.text(), json_values, max_size=4) | st.text(),
    schema=st.none()
    | st.dictionaries(st.sampled_from(["type", "properties", "required", "$ref", "allOf"]), json_values),
    tool=st.text(),
    says=st.none() | st.text(),
)
async def test_any_request_is_judged_or_refused_with_an_error_of_ours(
    arguments: Any, schema: Any, tool: str, says: str | None
) -> None:
    try:
        made = await judged(arguments=arguments, schema=schema, tool=tool, says=says)
    except AssentryError:
        return
    run = replay(made.facts)
    state = run.calls[CALL]
    assert status(run) == "waiting"
    assert state.question is not None
    if "approve" in state.allowed():
        assert effective(state, state.question) is not None


def test_a_schema_of_a_program_has_no_pattern_that_could_take_long() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(?=a)(a+)+$"}}}
    tool = tool_of_request(call(schema=schema))
    assert tool.params_json_schema == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_a_tool_without_a_schema_takes_any_object() -> None:
    tool = tool_of_request(call(schema=None))
    assert tool.bind({"anything": [1]}) == {"anything": [1]}
