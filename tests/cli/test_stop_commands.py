"""`assentry stop`, `assentry runs cancel` and `assentry runs resume`: on a store, and on a server."""

from pathlib import Path

import pytest

from tests.cli.test_cli import Cli, cli
from tests.cli.test_people import STORE, add_token, add_user, address, ask, found, here
from tests.inbox.stores import cheap_hashes

__all__ = ["address", "cheap_hashes", "cli", "here"]

pytestmark = pytest.mark.usefixtures("cheap_hashes", "here")

WHY = "It repeats itself."


def the_run(cli: Cli, *place: str) -> str:
    [run] = found(cli, "runs", *place)["items"]
    return str(run["id"])


def test_a_run_is_cancelled_and_resumed_on_a_store(cli: Cli) -> None:
    ask("ann")
    run = the_run(cli, *STORE)
    code, out, _ = cli("runs", "cancel", run, *STORE, "--by", "olga", "--why", WHY)
    assert (code, out) == (0, f"{run} is cancelled. `assentry runs resume {run}` lets it go on.\n")
    history = found(cli, "runs", "show", run, *STORE)["history"]
    assert (history[-1]["fact"]["by"], history[-1]["fact"]["why"]) == ("olga", WHY)
    assert cli("runs", "resume", run, *STORE, "--by", "olga")[:2] == (0, f"{run} is waiting.\n")
    assert found(cli, "runs", "cancel", run, *STORE, "--by", "olga")["status"] == "cancelled"


def test_agents_are_stopped_listed_and_go_on(cli: Cli) -> None:
    ask("ann")
    code, out, err = cli("stop", "--agent", "Shop", "--why", WHY, *STORE, "--by", "olga")
    assert code == 0 and out.startswith("Stopped Shop: nothing new begins.")
    [stop] = found(cli, "stop", "list", *STORE)["items"]
    assert stop["id"] in err
    everything = found(cli, "stop", "--all", "--why", WHY, *STORE, "--by", "olga")
    assert everything["agent"] is None
    code, out, _ = cli("stop", "list", *STORE)
    assert code == 0 and "all agents" in out and "Shop" in out and WHY in out
    assert cli("stop", "lift", stop["id"], *STORE, "--by", "rita")[0] == 0
    assert [each["id"] for each in found(cli, "stop", "list", *STORE)["items"]] == [everything["id"]]
    lifted = found(cli, "stop", "list", "--lifted", *STORE)["items"]
    assert {each["lifted_by"] for each in lifted} == {None, "rita"}
    assert cli("stop", "lift", "none", *STORE) == (1, "", "assentry: The store has no stop 'none'.\n")


def test_a_stop_of_a_name_that_no_run_has_says_so(cli: Cli) -> None:
    ask("ann")
    words = ("--why", WHY, *STORE, "--by", "olga")
    code, out, err = cli("stop", "--agent", "Shopp", *words)
    assert code == 0 and out.startswith("Stopped Shopp") and "No run here began with an agent of this name" in err
    for what in (("--agent", "Shop"), ("--all",)):
        code, _, err = cli("stop", *what, *words)
        assert code == 0 and "No run here" not in err


@pytest.mark.parametrize(
    "words",
    [("stop", *STORE), ("stop", "--all", *STORE), ("stop", "--why", WHY, *STORE),
     ("stop", "--all", "--agent", "Shop", "--why", WHY, *STORE), ("stop", "lift", *STORE)],
)  # fmt: skip
def test_a_stop_that_does_not_say_what_and_why_is_misuse(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli(*words)[0] == 2


def test_a_user_of_the_store_needs_the_role(cli: Cli) -> None:
    ask("ann")
    add_user(cli, "rita", "reviewer")
    run = the_run(cli, *STORE)
    for words in (("stop", "--all", "--why", WHY), ("runs", "cancel", run), ("runs", "resume", run)):
        code, _, err = cli(*words, *STORE, "--by", "rita")
        assert (code, err) == (1, "assentry: rita is a reviewer, and may not stop here.\n")


def test_a_server_is_told_as_a_store_is(address: str, cli: Cli, here: Path) -> None:
    ask("ann")
    there = ("--server", address, "--token", add_token(cli, "olga", "operator"))
    run = the_run(cli, *there)
    assert found(cli, "runs", "cancel", run, *there, "--why", WHY)["status"] == "cancelled"
    assert found(cli, "runs", "resume", run, *there)["status"] == "waiting"
    stop = found(cli, "stop", "--agent", "Shop", "--why", WHY, *there)
    assert (stop["agent"], stop["by"]) == ("Shop", "olga")
    assert found(cli, "stop", "list", *there)["items"] == [stop]
    assert found(cli, "stop", "lift", stop["id"], *there)["lifted_by"] == "olga"
    assert found(cli, "stop", "list", *there)["items"] == []
    code, _, err = cli("runs", "cancel", "none", *there)
    assert code == 1 and "no run 'none'" in err
