"""The commands and options of `assentry`. Exit codes: 0 success, 1 refused or failed, 2 misuse."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NoReturn, get_args

from ..core.facts import Verdict
from ..core.run import Status
from ..errors import AssentryError
from ..inbox.identity import ROLES
from ..store.outbox import EVENTS, FORMATS
from ..store.statistics import ENDS
from ..version import __version__
from . import (
    audit,
    database,
    deciding,
    gateway,
    grants,
    hook,
    migrate,
    models,
    questions,
    runs,
    serve,
    statistics,
    stops,
    temporal,
    tokens,
    users,
    webhooks,
    worker,
)
from .value import day_or_time, duration, json_object, json_value, network, port, prefix, statuses
from .write import say

ADDRESS = "ASSENTRY_STORE"
SERVER = "ASSENTRY_SERVER"
TOKEN = "ASSENTRY_TOKEN"
ENGINE = "ASSENTRY_TEMPORAL"
URL = f"sqlite:///file.db, the path of an SQLite file, or postgresql://...; ${ADDRESS} if left out"
SEVERAL = "one, or several about one tool, which are shown as a table (approve and reject)"
STOPS = ("now", "list", "lift")
"""The commands of `assentry stop`; without one, options stop something now."""
LISTS = ("questions", "runs", "grants", "users", "tokens", "webhooks")
"""The commands that list without a further word."""

Work = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; misuse and `--help` raise `SystemExit`, as usual."""
    options = parser().parse_args(_whole(sys.argv[1:] if argv is None else argv))
    if hasattr(options, "url") and getattr(options, "file", None) is None:  # a file stands for a store
        _find_place(options)
    try:
        work: Work = options.work
        return asyncio.run(work(options))
    except (AssentryError, OSError) as error:
        return _failed(error)
    except KeyboardInterrupt:
        return 130


def _whole(words: Sequence[str]) -> list[str]:
    """Return the words of the command, with `list` where a list is meant."""
    given = list(words)
    if given[:1] == ["stop"] and given[1:2] not in (["-h"], ["--help"], *([each] for each in STOPS)):
        return ["stop", "now", *given[1:]]
    bare = given[:1] and given[0] in LISTS and (len(given) == 1 or given[1].startswith("-"))
    return [given[0], "list", *given[1:]] if bare and given[1:2] not in (["-h"], ["--help"]) else given


def _find_place(options: argparse.Namespace) -> None:
    """Settle which store or server is meant, from the options and the environment."""
    if options.url and isinstance(getattr(options, "question", None), list) and _is_question(options):
        options.question.insert(0, options.url)
        options.url = None
    if options.store and options.url:
        options.misused("give the store's URL once, in its place or with --store")
    options.url = options.url or options.store
    if getattr(options, "definitions", False):
        return  # nothing is asked
    takes_server = hasattr(options, "server")
    if takes_server and options.server and options.url:
        options.misused("give a store or a server, not both")
    if not options.url and not (takes_server and options.server):
        options.url = os.environ.get(ADDRESS)
        if takes_server and os.environ.get(SERVER):
            if options.url:
                options.misused(f"{ADDRESS} and {SERVER} are both set: give --store or --server")
            options.server = os.environ[SERVER]
    if takes_server and options.server:
        options.token = options.token or os.environ.get(TOKEN)
        if not options.token:
            options.misused(f"a server needs a token: set {TOKEN}{options.token_option}")
    elif not options.url:
        also = f", a server with --server or {SERVER}" if takes_server else ""
        options.misused(f"give the store's URL, or set {ADDRESS}{also}")


def _is_question(options: argparse.Namespace) -> bool:
    """Return True if what stands in the place of the URL is the first of several questions."""
    named = options.store or getattr(options, "server", None)
    return bool(named) or re.fullmatch(r"q_[0-9a-f]+", options.url) is not None


def _failed(error: Exception) -> int:
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    say(f"assentry: {str(error) or type(error).__name__}")
    return 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    root = argparse.ArgumentParser(prog="assentry", description="Agents that ask people before they act.")
    root.add_argument("--version", action="version", version=f"assentry {__version__}")
    rooms = _choices(root)
    _worker(rooms)
    _database(_choices(rooms.add_parser("db", help="the database of a store")))
    _serve(rooms)
    _gateway(rooms)
    _temporal(_choices(rooms.add_parser("temporal", help="runs on a Temporal cluster")))
    _runs(_choices(rooms.add_parser("runs", help="the runs of a store")))
    _stops(_choices(rooms.add_parser("stop", help="stop an agent or all agents, and let them go on")))
    _questions(_choices(rooms.add_parser("questions", help="what people are asked")))
    _decisions(rooms)
    _grants(_choices(rooms.add_parser("grants", help="decisions that hold for later calls too")))
    _users(_choices(rooms.add_parser("users", help="who may sign in to the inbox")))
    _tokens(_choices(rooms.add_parser("tokens", help="tokens for programs that use the inbox")))
    _webhooks(_choices(rooms.add_parser("webhooks", help="addresses that are notified of questions and decisions")))
    audits = _choices(rooms.add_parser("audit", help="check, export and seal the journals"))
    _audit(audits)
    _past(rooms, audits)
    _models(_choices(rooms.add_parser("models", help="the model providers, and the embedded model")))
    _migrate(rooms)
    hook.add_hook_commands(_choices(rooms.add_parser("hook", help="ask before coding agents act")))
    return root


def _choices(to: argparse.ArgumentParser) -> Any:
    return to.add_subparsers(metavar="COMMAND", required=True)


def _command(to: Any, name: str, work: Work, help: str, *, url: bool = True) -> argparse.ArgumentParser:
    """Add a command. With `url` it takes a store, in its place or with `--store`."""
    made: argparse.ArgumentParser = to.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    misused: Callable[[str], NoReturn] = made.error
    made.set_defaults(work=work, misused=misused)
    if url:
        made.add_argument("url", metavar="URL", nargs="?", help=URL)
        made.add_argument("--store", metavar="URL", help="the store, instead of URL")
    return made


def _stored(to: Any, name: str, work: Work, help: str) -> argparse.ArgumentParser:
    """Add a command that takes a store with `--store` only."""
    made = _command(to, name, work, help, url=False)
    made.add_argument("--store", metavar="URL", help=URL)
    made.set_defaults(url=None)
    return made


def _remote(made: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Let a command work on a server too."""
    made.add_argument("--server", metavar="URL", help=f"an inbox, instead of a store: https://...; ${SERVER}")
    made.add_argument("--token", help=f"the API token for the server; ${TOKEN} if left out")
    made.set_defaults(token_option=", or give --token")
    return made


def _worker(to: Any) -> None:
    made = _stored(to, "worker", worker.work, "drive waiting runs until stopped")
    made.add_argument("agents", metavar="MODULE:NAME", help="an AgentRegistry, an Agent, or a list of agents")
    made.add_argument("--concurrency", type=int, default=10, metavar="N", help="how many runs at once (10)")
    made.add_argument("--lease", type=duration, default=30.0, metavar="TIME", help="how long a run is held (30s)")
    made.add_argument("--poll", type=duration, default=5.0, metavar="TIME", help="how often to look for runs (5s)")
    made.add_argument("--drain", type=duration, default=20.0, metavar="TIME", help="time for runs to pause (20s)")
    made.add_argument("--name", help="the worker's name in the store; generated if left out")
    made.add_argument("--once", action="store_true", help="end when no run has anything to do")
    made.add_argument("--verbose", action="store_true", help="log more")


def _serve(to: Any) -> None:
    made = _stored(to, "serve", serve.serve, "serve the inbox of a store, until stopped")
    made.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    made.add_argument("--port", type=port, default=8000, metavar="N", help="the port (8000); 0 for any free one")
    made.add_argument(
        "--root-path", type=prefix, default="", metavar="PREFIX", help="the prefix under which a proxy serves it"
    )
    _base_url(made)
    rules = "a file of rules for the calls of programs outside; without it, a person is asked about each"
    made.add_argument("--rules", metavar="FILE", help=rules)
    proxy = "believe the X-Forwarded- headers of a proxy at this address or network; may be given more than once"
    made.add_argument("--behind-proxy", type=network, action="append", default=[], metavar="ADDRESS", help=proxy)
    made.add_argument("--verbose", action="store_true", help="log more, such as every request")
    _reaching_temporal(made)


def _gateway(to: Any) -> None:
    made = _stored(to, "gateway", gateway.serve_gateway, "serve an MCP server's tools, with people's approval")
    made.add_argument("command", metavar="COMMAND", nargs="*", help="the server: a program and its arguments, after --")
    made.add_argument("--http", metavar="URL", help="the server, at an address (Streamable HTTP), in place of COMMAND")
    made.add_argument("--server", metavar="URL", help=f"an inbox, instead of a store; its token is in ${TOKEN}")
    made.set_defaults(token=None, token_option="")  # other users of the machine can read arguments
    made.add_argument("--rules", metavar="FILE", help="the rules for a store; without them a person is asked each time")
    made.add_argument(
        "--source", default="mcp", metavar="NAME", help="the client's name, as people and rules see it (mcp)"
    )
    made.add_argument("--name", help="the server's name, as people and rules see it; made from COMMAND or URL")
    ask_user = "offer the tool ask_user too, with which a model asks a person a question"
    made.add_argument("--ask-user", action="store_true", help=ask_user)
    pins = "print the definitions of the server's tools for a rule that allows, and end"
    made.add_argument("--definitions", action="store_true", help=pins)
    _base_url(made)
    wait = "how long a call waits for a person, before the client is told to call again (25s)"
    made.add_argument("--wait", type=duration, default=25.0, metavar="TIME", help=wait)
    made.add_argument("--timeout", type=duration, default=600.0, metavar="TIME", help="how long a call may run (10m)")
    env = "give the program this environment variable; may be given more than once"
    made.add_argument("--env", action="append", default=[], metavar="VARIABLE", help=env)
    header = "send this header, with the value of a variable, to the URL; may be given more than once"
    made.add_argument("--header", action="append", default=[], metavar="NAME=VARIABLE", help=header)
    made.add_argument("--bearer", metavar="VARIABLE", help="send the variable's value as a bearer token to the URL")
    token = gateway.TOKEN_OF_CLIENTS
    listen = f"serve clients over Streamable HTTP, not on standard streams; they need the token in ${token}"
    made.add_argument("--listen", metavar="HOST:PORT", help=listen)
    client = "a client over HTTP, with a token of its own; may be given more than once, in place of that one token"
    made.add_argument("--client", action="append", default=[], metavar="NAME=VARIABLE", help=client)
    hosts = "a host name by which clients reach the gateway, besides loopback; may be given more than once"
    made.add_argument("--allow-host", action="append", default=[], metavar="HOST", help=hosts)
    made.add_argument("--verbose", action="store_true", help="log more")


def _base_url(made: argparse.ArgumentParser) -> None:
    help = "the address at which people open the inbox, for links: https://inbox.example.com/approve"
    made.add_argument("--base-url", metavar="URL", help=help)


def _reaching_temporal(made: argparse.ArgumentParser) -> None:
    help = f"the Temporal server of runs that are workflows: HOST:PORT or HOST:PORT/NAMESPACE; ${ENGINE}"
    made.add_argument("--temporal", metavar="ADDRESS", default=os.environ.get(ENGINE), help=help)


def _temporal(to: Any) -> None:
    address = f"HOST:PORT or HOST:PORT/NAMESPACE; ${ENGINE}, or Temporal's own settings, if left out"
    work = _stored(to, "worker", temporal.work_on_temporal, "run agents as workflows until stopped")
    work.add_argument("agents", metavar="MODULE:NAME", help="an AssentryPlugin, an AgentRegistry, an Agent, or a list")
    work.add_argument("--task-queue", default="assentry", metavar="NAME", help="the task queue (assentry)")
    work.add_argument("--concurrency", type=int, default=100, metavar="N", help="how many activities at once (100)")
    work.add_argument("--drain", type=duration, default=20.0, metavar="TIME", help="time for activities to end (20s)")
    beat = "the time after which a worker without a sign of life is given up (30s)"
    work.add_argument("--heartbeat", type=duration, default=30.0, metavar="TIME", help=beat)
    work.add_argument("--verbose", action="store_true", help="log more")
    setup = _command(to, "setup", temporal.set_up, "register the search attributes of runs", url=False)
    _json(setup)
    for made in (work, setup):
        made.add_argument("--address", metavar="ADDRESS", default=os.environ.get(ENGINE), help=address)


def _database(to: Any) -> None:
    lists = "rebuild the lists of runs, questions and grants from the journals"
    for name, work, help in (
        ("upgrade", database.upgrade_store, "create or upgrade the tables"),
        ("rebuild", database.rebuild_records, lists),
        ("vacuum", database.vacuum, "rewrite the database without erased and deleted data"),
    ):
        _json(_command(to, name, work, help))
    verify = _command(
        to, "verify", database.verify_store, "check that the journals are as written, and that the records fit them"
    )
    verify.add_argument("run", metavar="RUN", nargs="?", help="only this run")
    verify.add_argument("--write", metavar="FILE", help="write the current end of every journal to a file")
    verify.add_argument("--against", metavar="FILE", help="compare with a file that was written before")
    _json(verify)


def _runs(to: Any) -> None:
    listed = _remote(_command(to, "list", runs.print_runs, "list runs, the oldest first"))
    listed.add_argument("--agent", help="only of this agent")
    listed.add_argument("--status", choices=get_args(Status), help="only of this status")
    _page(listed)
    show = _remote(_command(to, "show", runs.print_run, "show what happened in a run, and who decided what"))
    show.add_argument("run", metavar="RUN")
    _json(show)
    erase = _command(to, "erase", runs.erase_run, "erase the content of a finished run; what happened is kept")
    erase.add_argument("run", metavar="RUN")
    retry = _command(to, "retry", runs.retry, "let workers retry a failed run now")
    retry.add_argument("run", metavar="RUN")
    cancel = _remote(_command(to, "cancel", stops.cancel_named_run, "cancel a run: nothing new begins in it"))
    cancel.add_argument("run", metavar="RUN")
    cancel.add_argument("--why", metavar="TEXT", help="the reason, for those who look at the run")
    resume = _remote(_command(to, "resume", stops.resume_named_run, "let a cancelled run go on"))
    resume.add_argument("run", metavar="RUN")
    for made in (cancel, resume):
        _acting(made)
        _reaching_temporal(made)
    purge = _command(to, "purge", runs.purge_runs, "delete finished runs completely")
    purge.add_argument("--older-than", type=duration, required=True, metavar="TIME", help="unchanged this long: 90d")
    purge.add_argument("--status", type=statuses, default=("done", "closed"), help="of these (done,closed)")
    purge.add_argument("--yes", action="store_true", help="do not ask")
    for made in (erase, retry, purge):
        _json(made)


def _acting(made: argparse.ArgumentParser) -> None:
    """Let a command say who acts."""
    made.add_argument("--by", metavar="NAME", help="who does it; your login name if left out, and not with a server")
    made.set_defaults(by_required=False)
    _json(made)


def _stops(to: Any) -> None:
    now = _remote(
        _stored(
            to,
            "now",
            stops.stop_named_agents,
            "stop --agent NAME, or --all: nothing new begins in their runs; `now` may be left out",
        )
    )
    which = now.add_mutually_exclusive_group(required=True)
    which.add_argument("--agent", metavar="NAME", help="this agent")
    which.add_argument("--all", action="store_true", help="all agents")
    now.add_argument("--why", metavar="TEXT", required=True, help="the reason, for those who find it stopped")
    listed = _remote(_command(to, "list", stops.print_stops, "list what is stopped, the newest first"))
    listed.add_argument("--lifted", action="store_true", help="the stops that were lifted, too")
    _page(listed)
    lift = _remote(_command(to, "lift", stops.lift_named_stop, "let what was stopped go on"))
    lift.add_argument("stop", metavar="STOP")
    for made in (now, lift):
        _acting(made)


def _questions(to: Any) -> None:
    listed = _remote(_command(to, "list", questions.print_questions, "list open questions, the oldest first"))
    listed.add_argument("--run", help="only of this run")
    listed.add_argument("--agent", help="only of this agent")
    listed.add_argument("--tool", help="only about this tool")
    listed.add_argument("--older-than", type=duration, metavar="TIME", help="only those that have waited this long: 2h")
    listed.add_argument(
        "--search", metavar="TEXT", help="only those with this text in a name, the arguments or the preview"
    )
    listed.add_argument("--for", dest="decider", metavar="NAME", help="only those that this user may decide")
    listed.add_argument("--for-me", action="store_true", help="only those that you may decide, on a server")
    listed.add_argument("--settled", action="store_true", help="those that are not open any more instead")
    _ended(listed)
    _page(listed)
    show = _remote(_command(to, "show", questions.print_question, "show a question with everything needed to decide"))
    show.add_argument("question", metavar="QUESTION")
    _json(show)
    decide = _command(to, "decide", deciding.decide_as_told, "decide on a question, or on several about one tool")
    _remote(decide).add_argument("question", metavar="QUESTION", nargs="+")
    decide.add_argument("verdict", choices=get_args(Verdict))
    _deciding(decide, by_required=True)
    _words(decide, "reject", "edit", "respond")


def _ended(listed: argparse.ArgumentParser) -> None:
    """Add the filters of settled questions."""
    listed.add_argument("--by", metavar="NAME", help="only those that this person or program decided")
    listed.add_argument("--verdict", choices=ENDS, help="only those with this end")
    day = "a day or a time in UTC: 2026-11-18, 2026-11-18T09:30"
    since, until = f"only those that ended since {day}", f"only those that ended before {day}"
    listed.add_argument("--since", dest="decided_after", type=day_or_time, metavar="DAY", help=since)
    listed.add_argument("--until", dest="decided_before", type=day_or_time, metavar="DAY", help=until)


def _decisions(to: Any) -> None:
    for verdict, help in (
        ("approve", "run the call as it was shown"),
        ("edit", "run the call with other arguments"),
        ("reject", "do not run the call"),
        ("respond", "answer in the tool's place, or a question of the tool"),
    ):
        made = _remote(
            _stored(to, verdict, deciding.decide_as_told, f"{help}; without --digest the question is shown first")
        )
        made.add_argument("question", metavar="QUESTION", nargs="+", help=SEVERAL)
        made.set_defaults(verdict=verdict)
        _deciding(made)
        _words(made, verdict)


def _deciding(made: argparse.ArgumentParser, *, by_required: bool = False) -> None:
    login = "" if by_required else "; your login name if left out"
    made.add_argument("--by", metavar="NAME", help=f"who decides{login}; not with a server, whose token says it")
    made.add_argument("--yes", action="store_true", help="do not ask")
    made.add_argument("--despite-warnings", action="store_true", help="with --yes: even if there are warnings")
    made.add_argument("--digest", metavar="D", help="of the question as it was shown to whoever decides")
    made.set_defaults(by_required=by_required)
    _reaching_temporal(made)
    _json(made)


def _words(made: argparse.ArgumentParser, *verdicts: str) -> None:
    if "reject" in verdicts:
        made.add_argument("--message", help="reject: what the model is told")
    if "edit" in verdicts:
        made.add_argument("--arguments", type=json_object, metavar="JSON", help="edit: what to run the call with")
    if "respond" in verdicts:
        made.add_argument("--output", type=json_value, metavar="JSON", help="respond: the answer")


def _grants(to: Any) -> None:
    listed = _remote(_stored(to, "list", grants.print_grants, "list grants, the oldest first"))
    listed.add_argument("--run", help="only of this run")
    listed.add_argument("--tool", help="only for this tool")
    listed.add_argument("--all-runs", action="store_true", help="the grants over all runs of an agent instead")
    listed.add_argument("--agent", help="with --all-runs: only of the agent at this place")
    listed.add_argument("--revoked", action="store_true", help="revoked ones too")
    _page(listed)
    give = _remote(_stored(to, "give", grants.give, "approve a question, and later calls of its run like it"))
    give.add_argument("question", metavar="QUESTION")
    give.add_argument("--all-runs", action="store_true", help="only give the grant, for all runs of the agent")
    give.add_argument("--where", action="append", metavar="CONDITION", help="with --all-runs: 'amount <= 50'")
    give.add_argument("--reject", action="store_true", help="with --all-runs: reject such calls")
    give.add_argument("--message", help="with --reject: what the model is told")
    give.add_argument("--uses", type=int, metavar="N", help="for this many later calls")
    give.add_argument("--for", dest="expires", type=duration, metavar="TIME", help="for this long: 2h")
    give.add_argument("--pin", type=json_object, metavar="JSON", help="only with these arguments")
    _deciding(give)
    revoke = _remote(_stored(to, "revoke", grants.revoke_named_grant, "revoke a grant; it decides no later calls"))
    _reaching_temporal(revoke)
    revoke.add_argument("grant", metavar="GRANT")
    revoke.add_argument("--by", metavar="NAME", help="who revokes it; your login name if left out")
    revoke.set_defaults(by_required=False)
    _json(revoke)


def _users(to: Any) -> None:
    add = _stored(to, "add", users.add_user, "add a user; the password is asked for")
    _account(add)
    _password(add)
    _json(add)
    _json(_stored(to, "list", users.print_users, "list users"))
    change = _stored(to, "change", users.set_user_role, "give a user another role and other groups")
    _account(change)
    _json(change)
    for name, work, help in (
        ("disable", users.disable, "disable a user: all sign-ins and tokens of the user end"),
        ("enable", users.enable_user, "let a disabled user sign in again"),
        ("password", users.password, "change a user's password; all sign-ins of the user end"),
        ("link", users.print_link, "print a link that signs a user in, once and within ten minutes"),
    ):
        made = _stored(to, name, work, help)
        made.add_argument("name", metavar="NAME")
        if name == "password":
            _password(made)
        if name == "link":
            _base_url(made)
        _json(made)


def _tokens(to: Any) -> None:
    add = _stored(to, "add", tokens.add_token, "add an API token, which is printed once")
    _account(add)
    add.add_argument("--expires", type=duration, metavar="TIME", help="how long it is valid: 90d; else until revoked")
    _json(add)
    _json(_stored(to, "list", tokens.print_tokens, "list API tokens, without their secrets"))
    revoke = _stored(to, "revoke", tokens.revoke_token, "revoke an API token")
    revoke.add_argument("id", metavar="ID")
    _json(revoke)


def _account(made: argparse.ArgumentParser) -> None:
    made.add_argument("name", metavar="NAME", help="recorded with every decision")
    made.add_argument("--role", required=True, choices=ROLES)
    made.add_argument("--group", action="append", default=[], metavar="G", help="a group; may be repeated")


def _password(made: argparse.ArgumentParser) -> None:
    made.add_argument("--password-stdin", action="store_true", help="read the password from stdin")


def _webhooks(to: Any) -> None:
    add = _stored(
        to, "add", webhooks.add_webhook, "notify an address of questions and decisions; its secret is printed once"
    )
    add.add_argument("address", metavar="ADDRESS", help="https://...")
    add.add_argument("--event", action="append", choices=EVENTS, help="only this event; may be repeated")
    add.add_argument("--format", choices=FORMATS, default="standard", help="chat: a text, as Slack and others take it")
    add.add_argument("--allow-http", action="store_true", help="allow http to another machine")
    _json(add)
    _json(_stored(to, "list", webhooks.print_webhooks, "list webhooks, and how many messages wait for each"))
    for name, work, help in (
        ("remove", webhooks.remove, "remove a webhook, and the messages that wait for it"),
        ("enable", webhooks.enable_webhook, "enable a webhook that was disabled"),
        ("disable", webhooks.disable_webhook, "send nothing to a webhook, until it is enabled again"),
        ("test", webhooks.test, "send a message to a webhook, to see that it arrives"),
    ):
        made = _stored(to, name, work, help)
        made.add_argument("webhook", metavar="WEBHOOK")
        if name == "test":
            _base_url(made)
        _json(made)


def _audit(to: Any) -> None:
    verify = _remote(
        _stored(to, "verify", audit.verify_export, "check the hash chains, of a database, a server or an export")
    )
    verify.add_argument("--file", metavar="FILE", help="an export to check, instead of a database")
    verify.add_argument("--seal", metavar="FILE", help="a seal that the journals must go on from")
    verify.add_argument("--key", metavar="FILE", help="the public key of the seal")
    verify.add_argument("--purged", action="store_true", help="accept that runs were deleted since the seal")
    _json(verify)
    export = _remote(_stored(to, "export", audit.export, "write all journals as JSON Lines, for others to check"))
    export.add_argument("--out", metavar="FILE", help="to this file, not to stdout")
    seal = _stored(to, "seal", audit.seal, "sign the current end of every journal; keep the seal elsewhere")
    seal.add_argument("--key", metavar="FILE", required=True, help="the private key")
    seal.add_argument("--out", metavar="FILE", help="to this file, not to stdout")
    key = _command(to, "key", audit.make_key_pair, "make a key pair for seals, FILE and FILE.pub", url=False)
    key.add_argument("file_name", metavar="FILE")
    _json(key)


def _past(to: Any, audit: Any) -> None:
    """Add the commands about what was decided: statistics, and decisions with their reasons."""
    made = _remote(_stored(to, "statistics", statistics.print_statistics, "print how many waited, how soon, by whom"))
    listed = _remote(_stored(audit, "decisions", statistics.print_decisions, "list or export decisions with reasons"))
    for each in (made, listed):
        each.add_argument("--tool", help="only about this tool")
        each.add_argument("--agent", help="only of this agent")
    made.add_argument("--by", metavar="NAME", help="only decisions of this person or program")
    day = "a day or a time in UTC: 2026-11-18, 2026-11-18T09:30"
    made.add_argument("--since", type=day_or_time, metavar="DAY", help=f"since {day}; a week ago if left out")
    made.add_argument("--until", type=day_or_time, metavar="DAY", help=f"before {day}; now if left out")
    _json(made)
    listed.add_argument("--run", help="only of this run")
    listed.add_argument("--search", metavar="TEXT", help="only those with this text")
    _ended(listed)
    listed.add_argument("--format", choices=("table", "csv", "jsonl"), default="table", help="all that fit, as a file")
    listed.add_argument("--json", dest="format", action="store_const", const="jsonl", help="the same as --format jsonl")
    listed.add_argument("--out", metavar="FILE", help="csv, jsonl: to this file, not to stdout")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="table: how many (50)")


def _models(to: Any) -> None:
    _json(_command(to, "list", models.print_models, "list the model providers, and what each still needs", url=False))
    install = _command(to, "install", models.install, "install the embedded model into this environment", url=False)
    install.add_argument("model", choices=("embedded",))
    _json(install)


def _migrate(to: Any) -> None:
    made = _command(to, "migrate", migrate.migrate, "rewrite programs of the OpenAI Agents SDK or LangChain", url=False)
    made.add_argument("paths", metavar="PATH", nargs="+", help="a program, or a folder of them")
    made.add_argument("--write", action="store_true", help="change the files, instead of printing what would change")
    made.add_argument("--native", action="store_true", help="use Assentry's own names, where it has them")


def _page(to: argparse.ArgumentParser) -> None:
    to.add_argument("--limit", type=int, default=50, metavar="N", help="how many (50)")
    to.add_argument("--after", metavar="C", help="where the page before ended")
    _json(to)


def _json(to: argparse.ArgumentParser) -> None:
    to.add_argument("--json", action="store_true", help="as JSON")
