"""Servers that ask: by results that anyone may go on with, and inside a call that is held open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assentry import Agent, RunConfig, Runner, RunState
from assentry.errors import InvalidDecision
from assentry.testing import ScriptedModel, call
from tests.mcp.support import act, agent_of, lines, output, over, raw, run, script, served

BOOK = call("book", {"city": "Rome"})


async def answered(agent: Agent, result: Any, answer: Any) -> Any:
    state = result.to_state()
    [question] = state.get_interruptions()
    state.respond(question, answer)
    return await Runner.run(agent, state)


# Protocol 2026-07-28


def test_an_answer_given_in_another_process_continues_the_same_call(tmp_path: Path) -> None:
    """Each `asyncio.run` starts the server anew; only the saved text is carried over."""

    def agent(*said: Any) -> Agent:
        return agent_of(script("modern", tmp_path / "log", "k"), *said)

    async def begin() -> str:
        result = await Runner.run(agent(BOOK), "Book.")
        [question] = result.interruptions
        assert question.kind == "input"
        assert question.question == "The MCP server 'modern' asks: Which day in Rome?"
        assert question.schema["properties"]["day"]["type"] == "string"
        assert question.allowed == ("respond", "reject")
        return result.to_state().to_string()

    async def go_on(text: str, answer: Any) -> Any:
        runner = agent()
        state = await RunState.from_string(runner, text)
        state.respond(state.get_interruptions()[0], answer)
        return await Runner.run(runner, state)

    saved = asyncio.run(begin())
    second = asyncio.run(go_on(saved, {"day": "Monday"}))
    assert second.interruptions[0].question == "The MCP server 'modern' asks: Which floor in Rome?"
    assert lines(tmp_path / "log") == []
    third = asyncio.run(go_on(second.to_state().to_string(), {"floor": 3}))
    assert output(third) == "booked Rome on Monday, floor 3"
    assert lines(tmp_path / "log") == ["Rome Monday 3"]


def test_an_answer_must_fit_the_servers_schema(tmp_path: Path) -> None:
    async def main() -> None:
        result = await Runner.run(agent_of(script("modern", tmp_path / "log", "k"), BOOK), "Book.")
        state = result.to_state()
        with pytest.raises(InvalidDecision):
            state.respond(state.get_interruptions()[0], {"day": 3})

    run(main())


def test_a_rejected_question_ends_the_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with script("modern", tmp_path / "log", "k") as server:
            agent = agent_of(server, BOOK)
            state = (await Runner.run(agent, "Book.")).to_state()
            state.reject(state.get_interruptions()[0], rejection_message="Not now.")
            result = await Runner.run(agent, state)
        assert output(result) == "Not now."
        assert result.final_output == "Done."
        assert lines(tmp_path / "log") == []

    run(main())


def test_state_that_the_server_has_forgotten_is_asked_for_again(tmp_path: Path) -> None:
    async def main() -> None:
        model = ScriptedModel([BOOK, "Done."])
        async with script("modern", tmp_path / "log", "old") as server:
            before = Agent(name="A", mcp_servers=[server], model=model)
            result = await answered(before, await Runner.run(before, "Book."), {"day": "Monday"})
        async with script("modern", tmp_path / "log", "new") as server:
            await asked_again(Agent(name="A", mcp_servers=[server], model=model), result)
        assert lines(tmp_path / "log") == ["Rome Tuesday 1"]

    async def asked_again(after: Agent, result: Any) -> None:
        state = await RunState.from_string(after, result.to_state().to_string())
        state.respond(state.get_interruptions()[0], {"floor": 2})
        result = await Runner.run(after, state)
        [question] = result.interruptions
        assert question.question == (
            "The server no longer has the request that you answered; answer again. "
            "The MCP server 'modern' asks: Which day in Rome?"
        )
        result = await answered(after, result, {"day": "Tuesday"})
        result = await answered(after, result, {"floor": 1})
        assert output(result) == "booked Rome on Tuesday, floor 1"

    run(main())


# Protocol 2025-11-25: the call is held open


def test_an_answer_continues_the_call_that_is_held(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("asks", tmp_path / "log") as server:
            agent = agent_of(server, act())
            result = await Runner.run(agent, "Act.")
            assert result.interruptions[0].question == "The MCP server 'raw' asks: Which day?"
            assert lines(tmp_path / "log") == ["called it"]
            result = await answered(agent, result, {"day": "Friday"})
            assert output(result) == "did it on {'day': 'Friday'}"
            assert lines(tmp_path / "log")[0] == "called it"
            assert len(lines(tmp_path / "log")) == 2
            assert '"action": "accept"' in lines(tmp_path / "log")[1]

    run(main())


def test_two_held_calls_get_their_own_answers(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("asks", tmp_path / "log", parallel_calls=False) as server:
            agent = agent_of(server, [act("one"), act("two")])
            result = await Runner.run(agent, "Act.")
            state = result.to_state()
            first, second = state.get_interruptions()
            state.respond(second, {"day": "Sunday"})
            state.respond(first, {"day": "Monday"})
            result = await Runner.run(agent, state)
            assert output(result, 0) == "did it on {'day': 'Monday'}"
            assert output(result, 1) == "did it on {'day': 'Sunday'}"

    run(main())


def test_a_question_that_may_belong_to_several_calls_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("asks", tmp_path / "log") as server:
            result = await Runner.run(agent_of(server, [act("one"), act("two")]), "Act.")
            told = [output(result, number) for number in (0, 1)] if not result.interruptions else [output(result)]
            assert any("does not say which of them it belongs to" in each for each in told)

    run(main())


def test_a_server_that_the_run_alone_keeps_open_may_not_ask_inside_a_call(tmp_path: Path) -> None:
    async def main() -> None:
        result = await Runner.run(agent_of(raw("asks", tmp_path / "log"), act()), "Act.")
        assert "only in a connection that stays open" in output(result)
        assert not result.interruptions

    run(main())


def test_an_answer_to_a_call_that_is_gone_is_put_to_a_person(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("asks", tmp_path / "log")
        agent = agent_of(server, act())
        async with server:
            result = await Runner.run(agent, "Act.")
        async with server:
            result = await answered(agent, result, {"day": "Friday"})
            [doubt] = result.interruptions
            assert doubt.kind == "doubt"
            assert "Calling again may repeat what it did before it asked." in doubt.reason
            assert lines(tmp_path / "log").count("called it") == 1
            state = result.to_state()
            state.approve(doubt)
            result = await Runner.run(agent, state)
            assert output(result) == "did it on {'day': 'Friday'}"

    run(main())


def test_a_tool_that_the_user_calls_idempotent_is_called_again_and_the_person_is_not(tmp_path: Path) -> None:
    async def main() -> None:
        server = raw("asks", tmp_path / "log", idempotent_tools=["act"])
        agent = agent_of(server, act())
        result = await Runner.run(agent, "Act.")
        result = await answered(agent, result, {"day": "Friday"})
        assert output(result) == "did it on {'day': 'Friday'}"
        assert [line for line in lines(tmp_path / "log") if line.startswith("called")] == ["called it", "called it"]

    run(main())


def test_the_oldest_held_call_is_given_up_at_the_limit(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("asks", tmp_path / "log", max_held_calls=1, parallel_calls=False) as server:
            agent = agent_of(server, [act("one"), act("two")])
            result = await Runner.run(agent, "Act.")
            state = result.to_state()
            first, second = state.get_interruptions()
            state.respond(first, {"day": "Monday"})
            state.respond(second, {"day": "Sunday"})
            result = await Runner.run(agent, state, run_config=RunConfig())
            assert [each.kind for each in result.interruptions] == ["doubt"]
            assert output(result) == "did it on {'day': 'Sunday'}"

    run(main())


@pytest.mark.parametrize(("answer", "action"), [("done", "accept"), ("decline", "decline")])
def test_a_page_to_open_is_shown_with_its_host(answer: str, action: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("sends to a page", tmp_path / "log") as server:
            agent = agent_of(server, act("https://l\u043egin.example.com/x?y=1"))
            result = await Runner.run(agent, "Act.")
            [question] = result.interruptions
            assert "asks you to open a page at xn--lgin-55d.example.com: Sign in." in question.question
            assert question.schema == {"enum": ["done", "decline"]}
            await answered(agent, result, answer)
            assert f'"action": "{action}"' in lines(tmp_path / "log")[-1]

    run(main())


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "https://", "https://a.example\n.com/"])
def test_what_is_no_web_page_is_not_shown(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("sends to a page", tmp_path / "log") as server:
            result = await Runner.run(agent_of(server, act(url)), "Act.")
            assert not result.interruptions
            assert "which is not a web page" in output(result)

    run(main())


def test_a_call_that_needs_a_page_to_be_visited_first_is_made_after_the_visit(tmp_path: Path) -> None:
    async def main() -> None:
        agent = agent_of(raw("wants a page", tmp_path / "log"), act())
        result = await Runner.run(agent, "Act.")
        assert "open a page at login.example.com" in result.interruptions[0].question
        assert output(await answered(agent, result, "done")) == "did it"

    run(main())


def test_a_question_that_the_server_takes_back_does_not_hold_up_the_result(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("takes back", tmp_path / "log") as server:
            agent = agent_of(server, act())
            result = await Runner.run(agent, "Act.")
            if result.interruptions:  # it was asked before it was taken back
                result = await answered(agent, result, {"day": "Friday"})
            assert output(result) == "did it"

    run(main())


def test_a_server_that_does_not_wait_for_the_answer_has_its_result_kept(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("does not wait", tmp_path / "log") as server:
            agent = agent_of(server, act())
            result = await Runner.run(agent, "Act.")
            await server.refresh(fresh=True)
            assert output(await answered(agent, result, {"day": "Friday"})) == "did it without an answer"
            assert lines(tmp_path / "log") == ["called it"]

    run(main())


def test_over_http_each_question_finds_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    import functools

    from assentry.mcp import link

    monkeypatch.setattr(link, "Client", functools.partial(link.Client, mode="legacy"))

    async def main() -> None:
        async with served("streamable-http") as (port, _), over("streamable-http", port) as server:
            agent = agent_of(server, [call("pick", {"what": "one"}), call("pick", {"what": "two"})])
            state = (await Runner.run(agent, "Pick.")).to_state()
            questions = state.get_interruptions()
            for question in questions:
                what = "one" if "one" in question.arguments else "two"
                assert question.question == f"The MCP server 'tools' asks: Which {what}?"
                state.respond(question, {"choice": what.upper()})
            result = await Runner.run(agent, state)
            assert [output(result, number) for number in (0, 1)] == ["picked ONE", "picked TWO"]

    run(main())


def test_a_question_in_no_form_that_can_be_asked_cancels_the_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with raw("asks badly", tmp_path / "log") as server:
            result = await Runner.run(agent_of(server, act()), "Act.")
            assert not result.interruptions
            assert "JSON schema" in output(result) or "invalid" in output(result).lower()

    run(main())
