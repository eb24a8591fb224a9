"""The commands and options of `assent`. Exit codes: 0 success, 1 refused or failed, 2 misuse."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn, get_args

from ..core.facts import Verdict
from ..core.run import Status
from ..errors import AssentError
from ..version import __version__
from . import database, models, questions, runs, worker
from .value import duration, json_object, json_value, statuses
from .write import say

ADDRESS = "ASSENT_STORE"
URL = f"sqlite:///file.db, the path of an SQLite file, or postgresql://...; ${ADDRESS} if left out"

Work = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; misuse and `--help` raise `SystemExit`, as usual."""
    options = parser().parse_args(argv)
    if hasattr(options, "url") and not options.url:
        options.url = os.environ.get(ADDRESS)
        if not options.url:
            options.misused(f"give the store's URL, or set {ADDRESS}")
    try:
        work: Work = options.work
        return asyncio.run(work(options))
    except (AssentError, OSError) as error:
        return _failed(error)
    except KeyboardInterrupt:
        return 130


def _failed(error: Exception) -> int:
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    say(f"assent: {str(error) or type(error).__name__}")
    return 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    root = argparse.ArgumentParser(prog="assent", description="Runs that ask first, in a store.")
    root.add_argument("--version", action="version", version=f"assent {__version__}")
    rooms = _choices(root)
    _worker(rooms)
    _database(_choices(rooms.add_parser("db", help="the database of a store")))
    _runs(_choices(rooms.add_parser("runs", help="the runs of a store")))
    _questions(_choices(rooms.add_parser("questions", help="what people are asked")))
    _models(_choices(rooms.add_parser("models", help="the model providers, and the embedded model")))
    return root


def _choices(to: argparse.ArgumentParser) -> Any:
    return to.add_subparsers(metavar="COMMAND", required=True)


def _command(to: Any, name: str, work: Work, help: str, *, url: bool = True) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = to.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    misused: Callable[[str], NoReturn] = made.error
    made.set_defaults(work=work, misused=misused)
    if url:
        made.add_argument("url", metavar="URL", nargs="?", help=URL)
    return made


def _worker(to: Any) -> None:
    made = _command(to, "worker", worker.work, "go on with runs that are owed something, until stopped", url=False)
    made.add_argument("agents", metavar="MODULE:NAME", help="an AgentRegistry, an Agent, or a list of agents")
    made.add_argument("--store", dest="url", metavar="URL", help=URL)
    made.add_argument("--concurrency", type=int, default=10, metavar="N", help="how many runs at once (10)")
    made.add_argument("--lease", type=duration, default=30.0, metavar="TIME", help="how long a run is held (30s)")
    made.add_argument("--poll", type=duration, default=5.0, metavar="TIME", help="how often to look (5s)")
    made.add_argument("--drain", type=duration, default=20.0, metavar="TIME", help="time for runs to pause (20s)")
    made.add_argument("--name", help="what the store calls this worker; made up if left out")
    made.add_argument("--once", action="store_true", help="end when no run is owed anything")
    made.add_argument("--verbose", action="store_true", help="say more")


def _database(to: Any) -> None:
    _command(to, "upgrade", database.upgrade, "make the tables, or bring them to what this Assent needs")
    _command(to, "rebuild", database.rebuild, "make the lists of runs, questions and grants anew from the journals")
    _command(to, "vacuum", database.vacuum, "write the database anew, without what was erased or deleted")
    verify = _command(
        to, "verify", database.verify, "see that the journals are what was written, and all else fits them"
    )
    verify.add_argument("run", metavar="RUN", nargs="?", help="only this run")
    verify.add_argument("--write", metavar="FILE", help="write down how far each run has come")
    verify.add_argument("--against", metavar="FILE", help="compare with what was written down before")


def _runs(to: Any) -> None:
    listed = _command(to, "list", runs.listed, "list runs, the oldest first")
    listed.add_argument("--agent", help="only of this agent")
    listed.add_argument("--status", choices=get_args(Status), help="only of this status")
    _page(listed)
    show = _command(to, "show", runs.show, "show what happened in a run, and who decided what")
    show.add_argument("run", metavar="RUN")
    show.add_argument("--json", action="store_true", help="as JSON")
    erase = _command(to, "erase", runs.erase, "erase what was said in a run that is over; that it happened stays")
    erase.add_argument("run", metavar="RUN")
    retry = _command(to, "retry", runs.retry, "have workers look again, now, at a run that failed")
    retry.add_argument("run", metavar="RUN")
    purge = _command(to, "purge", runs.purge, "delete runs that are over, wholly")
    purge.add_argument("--older-than", type=duration, required=True, metavar="TIME", help="unchanged so long: 90d")
    purge.add_argument("--status", type=statuses, default=("done", "closed"), help="of these (done,closed)")
    purge.add_argument("--yes", action="store_true", help="do not ask")


def _questions(to: Any) -> None:
    listed = _command(to, "list", questions.listed, "list open questions, the oldest first")
    listed.add_argument("--run", help="only of this run")
    listed.add_argument("--agent", help="only of this agent")
    listed.add_argument("--tool", help="only about this tool")
    listed.add_argument("--older-than", type=duration, metavar="TIME", help="only those that wait so long: 2h")
    listed.add_argument("--settled", action="store_true", help="those that are not open any more instead")
    _page(listed)
    show = _command(to, "show", questions.show, "show all there is to decide on")
    show.add_argument("question", metavar="QUESTION")
    show.add_argument("--json", action="store_true", help="as JSON")
    decide = _command(to, "decide", questions.decide, "decide on a question; without --digest it is shown first")
    decide.add_argument("question", metavar="QUESTION")
    decide.add_argument("verdict", choices=get_args(Verdict))
    decide.add_argument("--by", required=True, metavar="NAME", help="who decides")
    decide.add_argument("--digest", metavar="D", help="of the question as it was shown to whoever decides")
    decide.add_argument("--message", help="reject: what the model is told")
    decide.add_argument("--arguments", type=json_object, metavar="JSON", help="edit: what to run the call with")
    decide.add_argument("--output", type=json_value, metavar="JSON", help="respond: the answer")


def _models(to: Any) -> None:
    _command(to, "list", models.listed, "list the model providers, and what each still needs", url=False)
    install = _command(to, "install", models.install, "install the embedded model into this environment", url=False)
    install.add_argument("model", choices=("embedded",))


def _page(to: argparse.ArgumentParser) -> None:
    to.add_argument("--limit", type=int, default=50, metavar="N", help="how many (50)")
    to.add_argument("--after", metavar="C", help="where the page before ended")
    to.add_argument("--json", action="store_true", help="as JSON")
