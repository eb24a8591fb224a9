"""`assentry hook`: put the calls of coding agents before the gate. The command that an agent runs is `hook run`."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import shlex
import stat
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..definitions.preview import split_lines
from ..errors import UsageError
from ..outside.hook.known import AGENTS
from .value import duration
from .write import put_json, put_text, say

if TYPE_CHECKING:
    from ..outside.hook.dialect import HookDialect

STORE, SERVER, TOKEN = "ASSENTRY_STORE", "ASSENTRY_SERVER", "ASSENTRY_TOKEN"
WARNING = (
    "A hook is no boundary. {title} starts it, and may go on without it if it cannot be started, is killed or takes "
    "too long; whoever may change this file can remove it. What must never happen needs a sandbox, too."
)


def add_hook_commands(to: Any) -> None:
    """Add the commands to the parser."""
    install = _command(to, "install", install_hook, "put the hook into an agent's settings")
    run = _command(to, "run", run_hook, "answer one event of an agent, on stdin; the installed hook runs this")
    remove = _command(to, "remove", remove_hook, "take the hook out of an agent's settings")
    rules = _command(to, "rules", print_rules, "print rules to begin with, for `--rules` here or of `assentry serve`")
    for made in (install, run, remove, rules):
        made.add_argument("agent", choices=tuple(AGENTS), help="the coding agent")
    for made in (install, run):
        _place(made)
    for made in (install, remove):
        made.add_argument("--scope", choices=("local", "project", "user"), help="which settings; see the page about it")
        made.add_argument("--dry-run", action="store_true", help="print the change, and write nothing")
        made.add_argument("--json", action="store_true", help="print as JSON whether the settings change")
    for made in (install, remove, rules):
        made.add_argument("--project", metavar="DIR", default=".", help="the project's folder (the current one)")


def _command(to: Any, name: str, work: Any, help: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = to.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    made.set_defaults(work=work, misused=made.error)
    return made


def _place(made: argparse.ArgumentParser) -> None:
    made.add_argument("--store", metavar="URL", help=f"the store that decides; ${STORE} if left out")
    made.add_argument("--server", metavar="URL", help=f"an inbox instead of a store: https://...; ${SERVER}")
    secret = f"a file with the token for the inbox, which nobody else can read; without it ${TOKEN} is used"
    made.add_argument("--token-file", metavar="FILE", help=secret)
    made.add_argument("--rules", metavar="FILE", help="the rules, for a store; an inbox has its own")
    made.add_argument(
        "--wait", type=duration, default=600.0, metavar="TIME", help="how long to wait for a person (10m)"
    )
    undecided = "what happens if nobody decides in time: deny, or have the agent ask its own user"
    made.add_argument("--undecided", choices=("deny", "ask"), default="deny", help=undecided)
    made.add_argument("--source", metavar="NAME", help="the name of the agent in questions, rules and grants")


# -- the hook itself -----------------------------------------------------------------------------------


def answer_agent(words: Sequence[str]) -> NoReturn:
    """Run `hook run` with these words of a command line, without the other commands."""
    parser = argparse.ArgumentParser(prog="assentry")
    add_hook_commands(parser.add_subparsers(required=True).add_parser("hook").add_subparsers(required=True))
    options = parser.parse_args(words)
    asyncio.run(run_hook(options))
    raise SystemExit(2)


async def run_hook(options: Namespace) -> int:
    """Answer the event on stdin. The process ends here, whatever happens, with an answer."""
    from ..outside.hook.process import HookProcess

    process = HookProcess(AGENTS[options.agent])
    try:
        _check(options)
        place = _find_place(options)
        from ..outside.hook.answer import HookOptions

        given = HookOptions(
            place=place,
            source=options.source or process.dialect.source,
            token=_token(options) if options.server else None,
            rules=options.rules,
            wait=options.wait,
            undecided=options.undecided,
        )
    except BaseException as error:
        process.refuse(str(error) or type(error).__name__)
    await process.run(given)


def _check(options: Namespace) -> None:
    """Raise `UsageError` if the options do not go together."""
    if options.undecided == "ask" and not AGENTS[options.agent].can_ask:
        raise UsageError(f"{AGENTS[options.agent].title} does not ask its user for a hook; it would let the call pass.")
    if not 0 < options.wait <= 24 * 3600:
        raise UsageError("--wait is above 0, and at most 24h.")
    if options.rules and options.server:
        raise UsageError("The rules are the inbox's: start it with `assentry serve --rules FILE`.")


def _find_place(options: Namespace) -> str:
    """Return the store or the inbox, from the options or the environment."""
    if options.store and options.server:
        raise UsageError("Give a store or a server, not both.")
    if not options.store and not options.server:
        options.store, options.server = os.environ.get(STORE), os.environ.get(SERVER)
        if bool(options.store) == bool(options.server):
            raise UsageError(f"Give --store or --server, or set one of {STORE} and {SERVER}.")
    return str(options.server or options.store)


def _token(options: Namespace) -> str:
    """Return the token for the inbox; raise `UsageError` if others could read the file that it is in."""
    if options.token_file is None:
        token = os.environ.get(TOKEN, "").strip()
        if not token:
            raise UsageError(f"An inbox needs a token of the role agent: give --token-file, or set {TOKEN}.")
        return token
    try:
        with open(options.token_file, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            token = file.read(10_000).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The token's file cannot be read: {error}.") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"Others can read {options.token_file}, which has a token: chmod 600 {options.token_file}")
    if not token:
        raise UsageError(f"{options.token_file} is empty; it has the token for the inbox.")
    return token


# -- settings ------------------------------------------------------------------------------------------


async def install_hook(options: Namespace) -> int:
    """Put the hook into an agent's settings, and say what it is not."""
    from ..outside.hook.process import SETTINGS_MARGIN
    from ..outside.hook.settings_file import read_settings, with_hooks

    dialect = AGENTS[options.agent]
    _check(options)
    _check_off_switch(dialect, options)
    command = hook_command(options, await _checked_place(options))
    path = _settings_path(dialect, options)
    before = read_settings(path)
    after = with_hooks(before, dialect, dialect.entries(command, int(options.wait) + SETTINGS_MARGIN), path)
    _change(path, before, after, options, "is as it should be; nothing was changed")
    for sentence in (WARNING.format(title=dialect.title), *dialect.notes):
        say(sentence)
    if not options.server and not options.rules:
        say("There are no rules, so a person is asked about every call: give --rules FILE.")
    return 0


async def remove_hook(options: Namespace) -> int:
    """Take the hook out of an agent's settings; what others have there stays."""
    from ..outside.hook.settings_file import read_settings, without_hooks

    dialect = AGENTS[options.agent]
    path = _settings_path(dialect, options)
    before = read_settings(path)
    after = None if before is None else without_hooks(before, dialect, path)
    _change(path, before, after, options, "has no hook of Assentry's")
    return 0


async def print_rules(options: Namespace) -> int:
    """Print rules to begin with."""
    from ..outside.hook.starter_rules import starter_rules

    put_text(starter_rules(AGENTS[options.agent], Path(options.project)))
    return 0


def hook_command(options: Namespace, place: str | None) -> str:
    """Return the command line that the agent runs.

    It names this interpreter, so that another PATH finds no other one, and keeps the working directory off the
    import path: the agent may write there.
    """
    words = [sys.executable, "-P", "-m", "assentry.cli", "hook", "run", options.agent]
    if place is not None:
        words += ["--server" if options.server else "--store", place]
    for name in ("token_file", "rules"):
        if getattr(options, name):
            words += [f"--{name.replace('_', '-')}", os.path.abspath(getattr(options, name))]
    words += ["--wait", f"{options.wait:g}"]
    if options.undecided != "deny":
        words += ["--undecided", options.undecided]
    if options.source:
        words += ["--source", options.source]
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


async def _checked_place(options: Namespace) -> str | None:
    """Return the place in a form that holds in any folder; None if only the environment may have it.

    Everything that the hook will need is looked at.
    """
    place = _find_place(options)
    if options.server:
        from ..outside.place import InboxPlace

        if options.token_file:
            token = _token(options)
        else:
            token = os.environ.get(TOKEN) or "unknown"
            say(f"The hook will look for its token in {TOKEN}, which must be set where the agent is started.")
        await InboxPlace(place, token).close()
        return place.rstrip("/")
    if options.token_file:
        raise UsageError("A token is for an inbox. A store has none.")
    _check_rules(options)
    whole = whole_address(place)
    if not options.dry_run:
        await _make_store(whole)
    if not _has_password(whole):
        return whole
    if place != os.environ.get(STORE):
        raise UsageError(f"This address has a password, which everybody would see; set it as {STORE} instead.")
    say(f"The hook will look for the store in {STORE}, which must be set where the agent is started.")
    return None


def _check_rules(options: Namespace) -> None:
    """Read the rules; write some to begin with if there are none."""
    from ..approval.rule_file import RuleFile

    if options.rules and not os.path.exists(options.rules):
        _write_starter_rules(options)
    if options.rules and os.path.exists(options.rules):
        RuleFile.read(options.rules)


def _write_starter_rules(options: Namespace) -> None:
    from ..approval.rule_file import RuleFile
    from ..outside.hook.starter_rules import starter_rules

    text = starter_rules(AGENTS[options.agent], Path(options.project))
    RuleFile.parse(text, options.rules)
    if options.dry_run:
        say(f"Rules to begin with would be written to {options.rules}.")
        return
    with open(options.rules, "x", encoding="utf-8") as file:
        file.write(text)
    say(f"Rules to begin with are in {options.rules}. Read them, and change them.")


def whole_address(url: str) -> str:
    """Return a store's address with an absolute path, if it is a file."""
    from ..store.open import POSTGRES

    if url.partition("://")[0].partition("+")[0] in POSTGRES:
        return url
    if "://" not in url:
        return os.path.abspath(url)
    path = url.removeprefix("sqlite:///")
    return url if path == url or path.startswith("/") else f"sqlite:///{os.path.abspath(path)}"


async def _make_store(url: str) -> None:
    """Create the store if it is a file that is not there yet; a database must answer, and have its tables."""
    from ..store.open import open_store
    from ..store.sqlite import SQLiteStore

    async with open_store(url) as store:
        if isinstance(store, SQLiteStore):
            await store.upgrade()
        await store.open()


def _has_password(url: str) -> bool:
    """Return True if an address may have a password: before an @, or among its options."""
    rest = url.partition("://")[2]
    return ":" in rest.rpartition("@")[0] or "password" in rest.partition("?")[2].lower()


def _check_off_switch(dialect: HookDialect, options: Namespace) -> None:
    """Raise `UsageError` if any settings of the agent turn all hooks off: ours would not run."""
    from ..outside.hook.settings_file import read_settings, turns_hooks_off

    for scope in dialect.scopes if dialect.off_switch is not None else ():
        path = _settings_path(dialect, Namespace(scope=scope, project=options.project))
        if turns_hooks_off(read_settings(path), dialect, path):
            raise UsageError(
                f"{path} has {dialect.off_switch}, so {dialect.title} would run no hook. Take it out first; nothing "
                "was changed."
            )


def _settings_path(dialect: HookDialect, options: Namespace) -> Path:
    scope = options.scope or next(iter(dialect.scopes))
    if scope not in dialect.scopes:
        raise UsageError(f"{dialect.title} has no {scope} settings; there are: {', '.join(dialect.scopes)}.")
    folder = Path.home() if scope == "user" else Path(options.project).resolve()
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}.")
    return folder / dialect.scopes[scope]


def _change(path: Path, before: str | None, after: str | None, options: Namespace, same: str) -> None:
    """Write the settings, or print what would change; `same` says that nothing does. None is no file."""
    from ..outside.hook.settings_file import write_settings

    changes = after is not None and after != before
    if options.json:
        put_json({"settings": str(path), "changed": changes and not options.dry_run, "changes": changes})
    if after is None or not changes:
        say(f"{path} {same}.")
    elif options.dry_run:
        if not options.json:
            old, new = split_lines(before or ""), split_lines(after)
            put_text("".join(f"{line}\n" for line in difflib.unified_diff(old, new, str(path), str(path), lineterm="")))
    else:
        write_settings(path, before, after)
        say(f"Changed {path}.")
