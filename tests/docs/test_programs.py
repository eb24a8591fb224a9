"""The stories of the smaller examples; and a program of the vocabulary that Assentry shares, run as it is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from assentry import Approve, SQLiteSession
from assentry.store import SQLiteStore
from tests.docs.inbox_server import served_inbox

Run = Callable[..., CompletedProcess[str]]


def lines(ended: CompletedProcess[str]) -> list[str]:
    """What a program that ended well has shown."""
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


# -- approve at the prompt -----------------------------------------------------------------------

ASKED = 'Run deploy with {"stage":"production","version":"2.1"}? [y/N] '


def test_staging_needs_nobody_and_production_waits_on_disk(run_example: Run, tmp_path: Path) -> None:
    assert lines(run_example("approve_at_the_prompt")) == [
        "... deploying 2.1 to staging",
        ASKED,
        "The run waits in rollout.json; start again to decide.",
    ]
    assert (tmp_path / "rollout.json").exists()
    assert lines(run_example("approve_at_the_prompt", "y\n")) == [
        "Going on with rollout.json.",
        f"{ASKED}... deploying 2.1 to production",
        "2.1 is on staging. 2.1 is on production.",
    ]
    assert not (tmp_path / "rollout.json").exists()


def test_anything_but_yes_is_no(run_example: Run) -> None:
    for no in ("n", "", "sure?"):
        assert lines(run_example("approve_at_the_prompt", f"{no}\n")) == [
            "... deploying 2.1 to staging",
            f"{ASKED}2.1 is on staging. The call was not approved and did not run.",
        ]


# -- custom rejection ----------------------------------------------------------------------------


def test_rejections_are_told_in_the_callers_the_houses_and_the_default_words(run_example: Run) -> None:
    told = "    rejected; the model was told: "
    assert lines(run_example("custom_rejection")) == [
        'publish {"title": "Ten lamps to love"}',
        f"{told}We had this last week. Write about chairs.",
        'publish {"title": "Eleven lamps to love"}',
        f"{told}The editors said no to this article. Offer them another one; do not offer it again.",
        'unpublish {"title": "Nine lamps to love"}',
        f"{told}The call was not approved and did not run.",
        "I leave the lamps alone.",
    ]


# -- hosted MCP ----------------------------------------------------------------------------------

WISH = 'Let the provider call ask_question at deepwiki with {"repoName":"openai/openai-python"}? [y/N] '


def test_a_hosted_server_is_called_by_leave_of_a_person_a_callback_or_nobody(
    run_example: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert lines(run_example("hosted_mcp", "y\n")) == [f"{WISH}It is Python."]
    assert lines(run_example("hosted_mcp", "", "callback")) == [
        '  [the callback sees] ask_question {"repoName": "openai/openai-python"}',
        "It is Python.",
    ]
    assert lines(run_example("hosted_mcp", "", "never")) == ["It is Python."]


# -- shell ---------------------------------------------------------------------------------------


def test_a_callback_decides_on_commands_that_do_more_than_look(run_example: Run) -> None:
    done = (
        "  [the model hears] {'output': [{'stdout': '%s', 'stderr': '', 'outcome': {'type': 'exit', 'exit_code': 0}}]}"
    )
    assert lines(run_example("shell_callback")) == [
        "  [the callback sees] [\"echo 'three lamps' > stock.txt\"]",
        "  [the callback sees] ['rm -rf .']",
        done % "",
        done % "1\\n",
        "  [the model hears] This agent removes nothing. Leave the files where they are.",
        "The stock is written down, and stays.",
    ]


def test_a_person_decides_on_commands_at_the_prompt(run_example: Run) -> None:
    asked = ["  $ rm draft.txt", "  $ ls"]
    shown = lines(run_example("shell_person", "y\n"))
    assert (shown[:2], shown[-1]) == (asked, "Left: final.txt")
    assert lines(run_example("shell_person", "n\n")) == [
        *asked,
        "Run this? [y/N/e] I was told: Leave it as it is.",
        "Left: draft.txt final.txt",
    ]
    shown = lines(run_example("shell_person", "e\nmv draft.txt old.txt\n"))
    assert (shown[:2], shown[-1]) == (asked, "Left: final.txt old.txt")


# -- apply_patch ---------------------------------------------------------------------------------

DIFFS = """Change greet.py; delete todo.txt
--- a/greet.py
+++ b/greet.py
@@ -1,2 +1,2 @@
 def greet(name):
-    print("Hi " + name)
+    print(f"Hello {name}!")
--- a/todo.txt
+++ /dev/null
@@ -1,1 +0,0 @@
-Write a manual.""".splitlines()


def test_patches_are_shown_as_diffs_and_applied_after_a_yes(run_example: Run, tmp_path: Path) -> None:
    assert lines(run_example("apply_patch", "y\n")) == [
        *DIFFS,
        "Apply it? [y/N] The project is tidy.",
        "Files: docs/manual.md, greet.py",
    ]
    assert "Hello" in (tmp_path / "project" / "greet.py").read_text()


def test_a_patch_without_a_yes_changes_no_file(run_example: Run, tmp_path: Path) -> None:
    left = lines(run_example("apply_patch"))
    assert left == [*DIFFS, "Apply it? [y/N] ", "Nothing was approved, and no file was changed."]
    (tmp_path / "project" / "docs" / "manual.md").unlink()
    assert lines(run_example("apply_patch", "n\n"))[-2:] == [
        "Apply it? [y/N] The project is tidy.",
        "Files: docs/manual.md, greet.py, todo.txt",
    ]
    assert "Hi" in (tmp_path / "project" / "greet.py").read_text()


# -- streaming with approval ---------------------------------------------------------------------

BEFORE = [
    "Let me look at the sky first.",
    "  [it gave] Rain in Ghent.",
    "That does not look good.",
    '  [you are asked] cancel_picnic {"reason":"It will rain."}',
]


def test_stream_stops_to_ask_and_goes_on(run_example: Run) -> None:
    assert lines(run_example("streaming_with_approval", "y\n")) == [
        *BEFORE,
        "cancel_picnic? [y/N]   [approve by you]",
        "  [it gave] The guests know: It will rain.",
        "Well, there will be other picnics.",
    ]


def test_stream_goes_on_after_a_no(run_example: Run) -> None:
    assert lines(run_example("streaming_with_approval", "n\n")) == [
        *BEFORE,
        "cancel_picnic? [y/N]   [reject by you]",
        "  [it gave] The call was not approved and did not run.",
        "Well, there will be other picnics.",
    ]


def test_stream_that_is_left_at_the_question_runs_nothing(run_example: Run) -> None:
    ended = lines(run_example("streaming_with_approval"))
    assert ended == [*BEFORE, "cancel_picnic? [y/N] ", "You left it open, so the picnic is not cancelled."]


# -- agent as tool -------------------------------------------------------------------------------

SENT = 'Chef: send_buyer {"input":"Eggs and a truffle for four, please."}? [y/N] '
EGGS = '  Buyer: buy {"amount":3.2,"article":"eggs"}? [y/N] '
TRUFFLE = '  Buyer: buy {"amount":180.0,"article":"truffle"}? [y/N] '
NO = "The call was not approved and did not run."


def test_both_layers_ask_and_the_inner_agent_goes_on_where_it_stopped(run_example: Run) -> None:
    assert lines(run_example("agent_as_tool", "y\ny\nn\n")) == [
        f"{SENT}{EGGS}{TRUFFLE}... buying eggs for 3.20",
        f"I was told: Bought eggs for 3.20. {NO} Dinner is at eight.",
    ]


def test_a_delegation_that_is_rejected_asks_no_agent(run_example: Run) -> None:
    assert lines(run_example("agent_as_tool", "n\n")) == [f"{SENT}I was told: {NO} Dinner is at eight."]


def test_a_kitchen_that_is_left_buys_nothing(run_example: Run) -> None:
    ended = lines(run_example("agent_as_tool", "y\ny\n"))
    assert ended == [f"{SENT}{EGGS}{TRUFFLE}", "You left the kitchen, so nothing more is bought."]


# -- SQLite session ------------------------------------------------------------------------------


def talk(directory: Path) -> list[Any]:
    """What the session in the file holds: the type of each item, a message's being its role."""
    with SQLiteSession("you", directory / "shop.db") as session:
        return [item.get("role") or item["type"] for item in asyncio.run(session.get_items())]


def test_a_conversation_goes_on_over_runs_and_starts(run_example: Run, tmp_path: Path) -> None:
    assert lines(run_example("sqlite_session", "order 3 lamps\ny\nwhat have I ordered?\norder a chair\n")) == [
        'you: order {"what":"3 lamps"}? [y/N] shop: All right: ordered 3 lamps',
        "you: shop: So far: ordered 3 lamps",
        'you: order {"what":"a chair"}? [y/N] ',
        "The conversation is kept. Start again to go on.",
    ]
    order = ["user", "function_call", "function_call_output", "assistant"]
    assert talk(tmp_path) == [*order, "user", "assistant"], "nothing of the turn that waits"
    assert (tmp_path / "shop-order.json").exists()

    assert lines(run_example("sqlite_session", "n\nwhat have I ordered?\n\n")) == [
        "Going on with shop.db: 2 lines of yours.",
        'order {"what":"a chair"}? [y/N] shop: All right: not ordered',
        "you: shop: So far: ordered 3 lamps, not ordered",
        "you: ",
    ]
    assert talk(tmp_path) == [*order, "user", "assistant", *order, "user", "assistant"]
    assert not (tmp_path / "shop-order.json").exists()


def test_leaving_at_the_question_again_and_again_stores_nothing_twice(run_example: Run, tmp_path: Path) -> None:
    run_example("sqlite_session", "order tea\n")
    for _ in range(2):
        run_example("sqlite_session")
        assert talk(tmp_path) == []
    assert "shop: All right: ordered tea" in lines(run_example("sqlite_session", "y\n\n"))[0]
    assert talk(tmp_path) == ["user", "function_call", "function_call_output", "assistant"]


# -- ask from outside ----------------------------------------------------------------------------

PAY = 'pay {"euros":900.0,"to":"ACME"}? [y/N] '
WAITS = "Asked whether to pay 900 euros; nothing is paid yet."
ALLOWS = '[[rule]]\nname = "small"\nverdict = "allow"\nwhere = { euros = { at_most = 50 } }'


def test_a_program_outside_pays_what_was_approved_once(run_example: Run, tmp_path: Path) -> None:
    paid = [f"paid {euros} euros to ACME" for euros in (40, 900)]
    assert lines(run_example("ask_from_outside", "y\n")) == [paid[0], WAITS, f"{PAY}Nothing is open.", paid[1]]
    assert lines(run_example("ask_from_outside")) == [*paid, "Nothing is open.", paid[1]]
    assert (tmp_path / "billing-paid.txt").read_text() == "ACME 40\nACME 900\n"


def test_a_program_outside_does_not_pay_what_was_rejected(run_example: Run, tmp_path: Path) -> None:
    refused = "pay was refused by you: Not this month."
    assert lines(run_example("ask_from_outside", "n\n"))[-1] == refused
    assert lines(run_example("ask_from_outside", "", "pay", "900")) == [refused]
    assert (tmp_path / "billing-paid.txt").read_text() == "ACME 40\n"


def test_a_program_outside_asks_an_inbox_with_a_token(
    run_example: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served_inbox(tmp_path, "billing", ALLOWS) as inbox:
        monkeypatch.setenv("APPROVALS", inbox.address)
        monkeypatch.setenv("APPROVALS_TOKEN", inbox.token)
        assert lines(run_example("ask_from_outside", "", "pay", "50")) == ["paid 50 euros to ACME"]
        assert lines(run_example("ask_from_outside", "", "pay", "900")) == [WAITS]

        async def approve() -> None:
            async with SQLiteStore(tmp_path / "runs.db") as store:
                [question] = (await store.questions(agent="billing")).items
                await store.decide(question.id, Approve(), by="ann", digest=question.digest)

        asyncio.run(approve())
        for _ in range(2):
            assert lines(run_example("ask_from_outside", "", "pay", "900")) == ["paid 900 euros to ACME"]
    assert (tmp_path / "billing-paid.txt").read_text() == "ACME 50\nACME 900\n"


# -- the vocabulary Assentry shares ----------------------------------------------------------------

WEATHER = """
import asyncio
import json
from pathlib import Path

from assentry import Agent, Runner, RunState, function_tool
from assentry.testing import ScriptedModel, call


async def far_away(_ctx, params, _call_id) -> bool:
    return "Reykjavik" in params.get("city", "")


@function_tool(needs_approval=far_away)
async def get_temperature(city: str) -> str:
    return f"It is 4 degrees in {city}"


model = ScriptedModel([
    [call("get_temperature", {"city": city}) for city in ("Ghent", "Reykjavik")],
    lambda request: "; ".join(item["output"] for item in request.input if "output" in item),
])
agent = Agent(name="Weather", instructions="Tell the weather.", tools=[get_temperature], model=model)
SAVED = Path("saved/state.json")


def ask_person(tool_name: str, arguments: str | None) -> bool:
    return input(f"{tool_name} {arguments}? ").strip().lower() in {"y", "yes"}


async def main() -> None:
    result = await Runner.run(agent, "How warm is it?")
    while result.interruptions:
        state = result.to_state()
        SAVED.parent.mkdir(parents=True, exist_ok=True)
        SAVED.write_text(state.to_string())
        state = await RunState.from_json(agent, json.loads(SAVED.read_text()))
        for interruption in result.interruptions:
            loop = asyncio.get_running_loop()
            name = interruption.name or "a tool"
            if await loop.run_in_executor(None, ask_person, name, interruption.arguments):
                state.approve(interruption, always_approve=False)
            else:
                state.reject(interruption)
        result = await Runner.run(agent, state)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
"""


def weather(directory: Path, stdin: str) -> list[str]:
    program = directory / "weather.py"
    program.write_text(WEATHER, "utf-8")
    ended = subprocess.run(
        [sys.executable, str(program)],
        input=stdin,
        cwd=directory,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    return lines(ended)


def test_items_of_a_result_decide_a_state_that_came_from_disk(tmp_path: Path) -> None:
    asked = 'get_temperature {"city":"Reykjavik"}? '
    assert weather(tmp_path, "y\n") == [f"{asked}It is 4 degrees in Ghent; It is 4 degrees in Reykjavik"]
    assert isinstance(json.loads((tmp_path / "saved" / "state.json").read_text()), dict)


def test_same_program_after_a_no(tmp_path: Path) -> None:
    asked = 'get_temperature {"city":"Reykjavik"}? '
    assert weather(tmp_path, "n\n") == [f"{asked}It is 4 degrees in Ghent; The call was not approved and did not run."]
