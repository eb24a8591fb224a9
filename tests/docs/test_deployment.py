"""The files that the page on deployment prints: units for systemd, and the image. Its proxies are in test_proxy.py."""

from __future__ import annotations

import shlex
import signal
import subprocess
from argparse import Namespace
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from assentry.cli import main
from assentry.cli.command import parser
from tests.cli.test_cli import SHOP, ended, process
from tests.inbox.test_proxy import needed, printed

UNITS = ("assentry-inbox.service", "assentry-worker.service")


def unit(name: str) -> str:
    return printed(f"/etc/systemd/system/{name}")


def words_of(name: str) -> list[str]:
    """Return what a unit starts, without the program itself."""
    [line] = [line for line in unit(name).splitlines() if line.startswith("ExecStart=")]
    program, *words = shlex.split(line.removeprefix("ExecStart="))
    assert program == "/opt/assentry/bin/assentry"
    return words


def understood(words: list[str]) -> Namespace:
    return parser().parse_args(words)


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_a_unit(name: str, tmp_path: Path) -> None:
    program = needed("systemd-analyze")
    (tmp_path / name).write_text(unit(name).replace("/opt/assentry/bin/assentry", "/bin/true"))
    checked = subprocess.run([program, "verify", tmp_path / name], capture_output=True, text=True, timeout=120)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_and_ends_in_good_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENTRY_STORE", "runs.db")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    assert main(["db", "upgrade"]) == 0
    words = words_of(name)
    if words[0] == "worker":
        code, out, _ = ended(process("-m", "assentry.cli", *words, "--once", cwd=tmp_path))
        assert (code, out) == (0, "Drives: 0\n")
        return
    started = process("-m", "assentry.cli", *words, "--port", "0", cwd=tmp_path)
    assert started.stderr is not None
    line = started.stderr.readline()
    while line and "The inbox is at" not in line:
        line = started.stderr.readline()
    assert line, "it has ended"
    started.send_signal(signal.SIGTERM)
    assert ended(started)[0] == 0


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(printed("compose.yaml"))["services"]
    return found


def test_the_services_of_the_image_are_commands_that_there_are() -> None:
    commands = [shlex.split(each["command"]) for each in services().values() if "command" in each]
    assert [understood(words[1:]).work.__name__ for words in commands] == ["upgrade_store", "serve", "work"]
    assert {words[0] for words in commands} == {"assentry"}


def test_a_service_waits_for_others_and_may_take_its_time_to_end() -> None:
    found = services()
    assert all(other in found for each in found.values() for other in each.get("depends_on", ()))
    drain = understood(shlex.split(found["worker"]["command"])[1:]).drain
    assert int(found["worker"]["stop_grace_period"].removesuffix("s")) > drain
    [stop] = [line for line in unit(UNITS[1]).splitlines() if line.startswith("TimeoutStopSec=")]
    assert int(stop.partition("=")[2]) > understood(words_of(UNITS[1])).drain


def test_what_serves_comes_back_after_a_crash_and_the_upgrade_runs_once() -> None:
    again = {name for name, each in services().items() if each.get("restart") == "unless-stopped"}
    assert again == {"db", "inbox", "worker"}


def test_the_inbox_of_the_image_believes_its_network_and_not_the_world() -> None:
    options = understood(shlex.split(services()["inbox"]["command"])[1:])
    assert (options.host, options.behind_proxy) == ("0.0.0.0", ["172.16.0.0/12"])
    assert services()["inbox"]["ports"] == ["127.0.0.1:8000:8000"]


def test_the_health_check_of_the_image_tells_an_inbox_from_nothing() -> None:
    python, option, program = services()["inbox"]["healthcheck"]["test"][1:]
    assert python == "python"
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as idle:
        port = idle.server_port
    ended_with, _, err = ended(process(option, program.replace(":8000/", f":{port}/"), cwd=Path.cwd()))
    assert ended_with == 1 and "refused" in err
