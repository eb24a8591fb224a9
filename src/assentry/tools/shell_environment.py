"""The environment of shell commands: what they inherit, and the variables that would change how a shell reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..core import allowed
from ..core.wording import described
from ..errors import InvalidDefinition

INHERITED = ("HOME", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""The variables that commands get from this process: none that usually holds a secret."""
LANGUAGE = {"LANG": "C.UTF-8"}
RUNS_TEXT = "would make the shell run other text than the command"
READS_OTHERWISE = "would make the shell read the command in another way than a rule does"
FORBIDDEN = {
    **dict.fromkeys(("BASH_ENV", "ENV", "ZDOTDIR"), RUNS_TEXT),
    **dict.fromkeys(("SSH_CLIENT", "SSH2_CLIENT"), RUNS_TEXT),  # some builds of bash then read ~/.bashrc, with -c too
    **dict.fromkeys(("BASHOPTS", "SHELLOPTS"), READS_OTHERWISE),
    **dict.fromkeys(("BASH_COMPAT", "POSIXLY_CORRECT", "POSIX_PEDANTIC"), READS_OTHERWISE),
    "LOCPATH": READS_OTHERWISE,  # any file in it can call itself UTF-8
    "CDPATH": "would make `cd` go elsewhere than the command says",
}
"""Variables with which a shell does something else than a rule has judged, and a person has read."""
FUNCTIONS = ("BASH_FUNC_", "__BASH_FUNC")
"""The beginnings of variables that hold functions for a shell."""
LOCALE = re.compile(r"(C|POSIX|[A-Za-z0-9_]+\.(UTF-8|utf8)(@[A-Za-z0-9]+)?)?", re.IGNORECASE)
"""Locales in which no character but a backslash has the byte of a backslash."""

VARIABLES = allowed.instance_of(Mapping, "a dict of variables").secret.or_none
INHERIT = allowed.Values("a list of names", lambda given: isinstance(given, Iterable) and not isinstance(given, str))


def command_environment(env: Any, inherit: Any) -> dict[str, str]:
    """Return the environment of commands, or raise `InvalidDefinition`."""
    allowed.check_option("LocalShellExecutor", "env", env, VARIABLES)
    allowed.check_option("LocalShellExecutor", "inherit", inherit, INHERIT)
    names = list(inherit)
    for name, value in [*(env or {}).items(), *((name, "") for name in names)]:
        _check_variable(name, value)
    inherited = {name: os.environ[name] for name in (*INHERITED, *names) if name in os.environ}
    for name, value in [*inherited.items(), *(env or {}).items()]:
        _check_locale(name, value)
    inherited["PATH"] = _absolute(inherited.get("PATH", os.defpath))
    return {**LANGUAGE, **inherited, **dict(env or {})}


def _absolute(path: str) -> str:
    """Return a PATH without relative directories, in which a command's name would be another file's elsewhere."""
    return os.pathsep.join(each for each in path.split(os.pathsep) if os.path.isabs(each))


def _check_variable(name: Any, value: Any) -> None:
    if type(name) is not str or not name or "=" in name or "\0" in name:
        raise InvalidDefinition(f"LocalShellExecutor: {described(name)} cannot be the name of a variable.")
    why = RUNS_TEXT if name.startswith(FUNCTIONS) else FORBIDDEN.get(name)
    if why is not None:
        raise InvalidDefinition(f"LocalShellExecutor: the variable {name} {why}. Leave it out.")
    if type(value) is not str or "\0" in value:
        raise InvalidDefinition(f"LocalShellExecutor: the variable {name} must be text, got a {type(value).__name__}.")


def _check_locale(name: str, value: str) -> None:
    """Raise `InvalidDefinition` for a locale in which the bytes of a command can be other characters than in UTF-8."""
    if not (name in ("LANG", "LANGUAGE") or name.startswith("LC_")):
        return
    names = [each for each in value.split(":") if "." in each] if name == "LANGUAGE" else [value]
    if not all(LOCALE.fullmatch(each) for each in names):
        raise InvalidDefinition(
            f"LocalShellExecutor: the variable {name} must be a locale of UTF-8, such as C.UTF-8 or de_DE.UTF-8, got "
            f"{described(value)}. In others the shell can read a command in another way than a rule does."
        )
