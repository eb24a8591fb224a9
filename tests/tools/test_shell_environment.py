"""Whatever variables the executor accepts, a shell reads a command line as the rules do."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from assentry import LocalShellExecutor, ShellActionRequest, allow_commands, parse_command
from assentry.errors import InvalidDefinition
from assentry.tools.shell_environment import FORBIDDEN, command_environment
from tests.runtime.support import HANGS, SOURCES
from tests.tools.shell_stubs import BASH, Stubs
from tests.tools.test_local_shell import run

RULE = allow_commands("ls *")


def passes(line: str) -> bool:
    return not RULE(None, ShellActionRequest([line]), "call_1")


def bash(line: bytes, cwd: Path, **variables: str) -> None:
    """Let a shell run a line, with nobody to judge it."""
    subprocess.run(
        [BASH, "-c", line], cwd=cwd, env={**os.environ, **variables}, capture_output=True, timeout=HANGS, check=False
    )


# -- locales -------------------------------------------------------------------------------------------

MADE = {"zh_CN.GBK": ("zh_CN", "GBK"), "zh_TW.BIG5": ("zh_TW", "BIG5"), "ja_JP.SJIS": ("ja_JP", "SHIFT_JIS")}
"""Locales in which the second byte of a character may be that of a backslash: their names, sources and encodings."""
CHARACTERS = "中文字功許ソ表能éüあ漢"


@pytest.fixture(scope="module")
def locales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all these locales. Where they cannot be made the tests are skipped; in CI they fail."""
    folder = tmp_path_factory.mktemp("locales")
    for name, (source, encoding) in MADE.items():
        command = ["localedef", "--no-archive", "-c", "-i", source, "-f", encoding, str(folder / name)]
        if shutil.which("localedef") is not None:
            subprocess.run(command, capture_output=True, timeout=HANGS)
        if not (folder / name / "LC_CTYPE").exists():
            if os.environ.get("CI"):
                raise RuntimeError(f"The locale {name} cannot be made: apt-get install locales.")
            pytest.skip(f"the locale {name} cannot be made: apt-get install locales")
    return folder


def tricks() -> Iterator[str]:
    """Lines whose second line is text in UTF-8, and a command where the last byte of a character takes a backslash."""
    for character in CHARACTERS:
        yield f'ls "{character}\\"\ntouch PWNED\n# "'


@pytest.mark.parametrize("name", MADE)
async def test_a_locale_in_which_a_rule_reads_other_commands_than_the_shell_is_refused(
    name: str, locales: Path, tmp_path: Path
) -> None:
    """The shell alone runs what the rule takes for a text. No executor has such an environment, or a part of it."""
    variables = {"LC_ALL": name, "LOCPATH": str(locales)}
    lines = [line for line in tricks() if passes(line)]
    for line in lines:
        bash(line.encode(), tmp_path, **variables)
    assert lines and (tmp_path / "PWNED").exists(), "else this test shows nothing"
    (tmp_path / "PWNED").unlink()
    for each, value in variables.items():
        with pytest.raises(InvalidDefinition, match=each):
            LocalShellExecutor(tmp_path, env={each: value})
    await run(LocalShellExecutor(tmp_path), *lines)
    assert not (tmp_path / "PWNED").exists()


IN_THAT_LOCALE = """
import asyncio, os, sys
from assentry import LocalShellExecutor, RunContextWrapper, ShellActionRequest, ShellCallData, ShellCommandRequest
lines = [line for line in os.fsencode(sys.argv[1]).decode("utf-8").split("@")]
request = ShellCommandRequest(RunContextWrapper(None), ShellCallData("call_1", ShellActionRequest(lines)))
print(sys.getfilesystemencoding())
asyncio.run(LocalShellExecutor(".")(request))
"""


@pytest.mark.parametrize(
    ("name", "encoding"), [("zh_CN.GBK", "gbk"), ("zh_TW.BIG5", "big5"), ("ja_JP.SJIS", "shift_jis")]
)
async def test_a_worker_in_such_a_locale_gives_the_shell_the_bytes_that_the_rule_has_read(
    name: str, encoding: str, locales: Path, tmp_path: Path
) -> None:
    """In the worker's own encoding a character may end in a backslash, which the shell would take for one."""
    tricky = [each for each in map(chr, range(0x4E00, 0x9FFF)) if each.encode(encoding, "ignore").endswith(b"\\")]
    lines = [line for line in (f'ls "{each}" "; touch PWNED\n"' for each in tricky[:5]) if passes(line)]
    assert len(lines) == 5
    bash(lines[0].encode(encoding), tmp_path, LC_ALL="C.UTF-8")
    assert (tmp_path / "PWNED").exists(), "else this test shows nothing"
    (tmp_path / "PWNED").unlink()
    env = {**os.environ, "LC_ALL": name, "LOCPATH": str(locales), "PYTHONPATH": str(SOURCES)}
    command = [sys.executable, "-X", "utf8=0", "-c", IN_THAT_LOCALE, "@".join(lines).encode()]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() != ["utf-8"], "else this test shows nothing"
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("variable", ["LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES"])
@pytest.mark.parametrize(
    "value",
    [*MADE, "zh_CN", "zh_CN.GB18030", "ja_JP.eucJP", "en_US.ISO-8859-1", "zh_CN.GBK@UTF-8", "../x.UTF-8", "/x.UTF-8"],
)
def test_a_locale_must_be_one_of_utf_8(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidDefinition, match=f"{variable} must be a locale of UTF-8"):
        LocalShellExecutor(env={variable: value})
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidDefinition, match=f"{variable} must be a locale of UTF-8"):
        LocalShellExecutor(inherit=[variable])
    assert LocalShellExecutor(env={variable: "C.UTF-8"}, inherit=[]).env[variable] == "C.UTF-8"
    assert value not in LocalShellExecutor().env.values(), "nobody has asked for it"


@pytest.mark.parametrize("value", ["", "C", "POSIX", "C.UTF-8", "de_DE.UTF-8", "de_DE.utf8", "ca_ES.UTF-8@valencia"])
def test_a_locale_of_utf_8_may_be_set(value: str) -> None:
    for variable in ("LANG", "LC_ALL", "LC_TIME"):
        assert LocalShellExecutor(env={variable: value}).env[variable] == value


def test_languages_of_messages_may_be_set_if_they_name_no_other_encoding() -> None:
    assert LocalShellExecutor(env={"LANGUAGE": "de_AT:de:en_US.UTF-8"}).env["LANGUAGE"] == "de_AT:de:en_US.UTF-8"
    with pytest.raises(InvalidDefinition, match="LANGUAGE must be"):
        LocalShellExecutor(env={"LANGUAGE": "de:zh_CN.GBK"})


# -- all other variables ---------------------------------------------------------------------------------

TEXT = """ls a "b c" 'd e' # evil
ls x\\ y; ls 2>/dev/null | ls p
{ ls q; ls "中字功"; }
(ls s)
! ls t"""
"""Commands that are all run, once each, whatever each of them gives."""
CALLS = Counter(command.argv for command in parse_command(TEXT))
OURS = ("PATH", "HOME", "STUB_BIN", "STUB_LOG", "STUB_NAME", "STUB_RECORDER")
"""Variables of this test's own."""
AT_ONCE = 200
"""The number of variables that are tried together; one that is found is then tried alone."""
LOADERS = "LD_"
"""The beginning of the names for the system's loader. It changes programs, and reads no commands."""


class Room:
    """A shell with stubs, in which everything that might be read besides a command runs `evil`."""

    def __init__(self, root: Path) -> None:
        self.stubs, self.bait = Stubs(root, ["ls", "evil"]), root / "bait"
        self.bait.mkdir()
        text = "evil\nls() { evil; }\nshopt -s expand_aliases\nalias ls=evil\n"
        for name in ("file", ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshenv", ".inputrc"):
            (self.bait / name).write_text(text)
        self.base = {name: self.stubs.env[name] for name in self.stubs.env if name.startswith("STUB_")}
        self.base |= {"PATH": self.stubs.env["PATH"], "HOME": str(self.bait)}

    def values(self) -> list[str]:
        """What is tried for each variable: files, texts, options, numbers, encodings."""
        options = "noexec:xtrace:posix:extglob:expand_aliases:histexpand:braceexpand:verbose:noglob"
        return [str(self.bait / "file"), str(self.bait), "() { evil; }", "$(evil)`evil`", options, "1"]

    async def calls(self, executor: LocalShellExecutor) -> Counter[tuple[str, ...]]:
        """What the shell makes of the text."""
        self.stubs.log.write_bytes(b"")
        await run(executor, TEXT)
        return Counter(self.stubs._calls())

    def accepted(self, names: list[str], value: str) -> dict[str, str]:
        """The variables that an executor takes with this value."""
        found = {}
        for name in names:
            try:
                command_environment({name: value}, ())
            except InvalidDefinition:
                continue
            found[name] = value
        return found

    async def reads_otherwise(self, variables: dict[str, str]) -> bool:
        executor = LocalShellExecutor(self.stubs.cwd, env={**self.base, **variables})
        return await self.calls(executor) != CALLS


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def known_names() -> list[str]:
    """All names in the shell and in the C library that could be those of variables, and some of other shells."""
    libraries = re.findall(r"\s(/\S*/libc[.-]\S*)", Path("/proc/self/maps").read_text())
    texts = [Path(BASH).read_bytes(), *(Path(each).read_bytes() for each in set(libraries))]
    inside = rb"(?<=\0)[A-Za-z_][A-Za-z0-9_]{1,40}(?=\0)"
    capitals = rb"(?<=\0)[A-Z_][A-Z0-9_]{1,40}(?=\0)"
    names = {name for text, kind in zip(texts, (inside, capitals), strict=False) for name in re.findall(kind, text)}
    others = {"IFS", "PS4", "ENV", "FPATH", "CDPATH", "ZDOTDIR", "LOCPATH", "histchars"}
    return sorted({*map(bytes.decode, names), *others} - set(OURS))


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into the programs of Linux")
async def test_no_variable_that_an_executor_accepts_changes_how_a_command_is_read(room: Room) -> None:
    assert passes(TEXT) and not await room.reads_otherwise({})
    names = [name for name in known_names() if not name.startswith(LOADERS)]
    assert len(names) > 1000 and {"BASH_ENV", "SHELLOPTS", "POSIXLY_CORRECT", "IFS"} <= set(names)
    for value in room.values():
        for at in range(0, len(names), AT_ONCE):
            variables = room.accepted(names[at : at + AT_ONCE], value)
            if await room.reads_otherwise(variables):
                alone = [name for name in variables if await room.reads_otherwise({name: value})]
                raise AssertionError(f"The shell reads commands otherwise with {alone or variables} = {value!r}.")


@pytest.mark.parametrize(
    ("name", "value"), [("BASH_ENV", "file"), ("SHELLOPTS", "noexec"), ("BASH_FUNC_ls%%", "() { evil; }")]
)
async def test_that_test_is_awake(room: Room, name: str, value: str) -> None:
    executor = LocalShellExecutor(room.stubs.cwd, env=room.base)
    executor.env[name] = str(room.bait / "file") if value == "file" else value
    assert await room.calls(executor) != CALLS


@pytest.mark.parametrize("name", [*FORBIDDEN, "BASH_FUNC_ls%%", "__BASH_FUNC<ls>()"])
def test_a_variable_that_changes_how_a_shell_reads_is_refused_with_the_reason(name: str) -> None:
    for options in ({"env": {name: "x"}}, {"inherit": [name]}):
        with pytest.raises(InvalidDefinition, match=f"{re.escape(name)} would make .* Leave it out."):
            LocalShellExecutor(**options)  # type: ignore[arg-type]
