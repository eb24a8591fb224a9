"""One story told twice: by `Runner.run` in a store, and by a worker on Temporal. Both must come to the same.

A story is a function that gets a log for whatever its code notes, and returns a `Story`. It is called once for each
way, so that nothing is shared between the two. Ids, digests and times differ; everything else is compared: the facts
of each call and of each branch in their order, what each model was given, what the code noted, and the end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from temporalio.client import Client

from assentry import Agent, Approve, Decision, RunConfig, RunHooks, Runner, function_tool
from assentry.core import facts as f
from assentry.core.facts import AnyFact
from assentry.engines.temporal.slice import ADVICE
from assentry.errors import AssentryError
from assentry.runtime.agent_graph import AgentGraph
from assentry.runtime.value import output_json
from assentry.store import SQLiteStore
from assentry.testing import ScriptedModel, call

from .support import working

Log = list[Any]
HANGS = 20
"""The seconds after which a story hangs. None waits so long unless it fails."""
Decide = Callable[[str, Any], Decision]
VOLATILE = {
    "at", "until", "due", "id", "digest", "asked", "replaces", "shown", "fence", "run", "version", "engine", "stored",
    "trace", "voids", "attempt", "path",
}  # fmt: skip
"""The fields of facts that differ between two runs of the same story."""


BY_RUNNER = "Resume its state with a higher max_turns to go on."


@dataclass
class Story:
    """An agent, what it is told, and how people decide."""

    agent: Agent[Any]
    input: Any = "Go."
    decide: Decide = lambda tool, arguments: Approve()
    """The decision on a question: by tool, and by its arguments or the question that a body asks."""
    config: RunConfig = field(default_factory=RunConfig)
    hooks: RunHooks[Any] | None = None
    context: Any = None
    max_turns: int | None = None
    sorts: bool = False
    """True if calls run beside each other, so that the log has no certain order."""


@dataclass
class Told:
    """What a story came to."""

    end: Any
    facts: dict[str, list[dict[str, Any]]]
    heard: dict[str, list[Any]]
    log: Log


Tell = Callable[[Log], Story]


async def told_by_runner(tell: Tell, folder: Path) -> Told:
    """Run the story with `Runner.run`, in a store."""
    log: Log = []
    story = tell(log)
    options: dict[str, Any] = {"run_config": story.config, "hooks": story.hooks, "context": story.context}
    async with SQLiteStore(folder / "runner.db") as store:
        try:
            limit = {} if story.max_turns is None else {"max_turns": story.max_turns}
            result = await Runner.run(story.agent, story.input, store=store, **options, **limit)
            while result.interruptions:
                run_id = (await store.runs()).items[0].id
                for question in (await store.questions()).items:
                    asked = question.prompt if question.prompt is not None else read(question.arguments)
                    await store.decide(
                        question.id, story.decide(question.tool, asked), by="ann", digest=question.digest
                    )
                result = await Runner.run(story.agent, await store.load(run_id), store=store, **options)
            end: Any = msgspec.json.decode(output_json(result.final_output)[0])
        except Exception as error:
            end = _failure(error)
        run_id = (await store.runs()).items[0].id
        return Told(end, compared((await store.read(run_id)).facts), heard_by(story), noted(story, log))


async def told_by_temporal(tell: Tell, client: Client, folder: Path, **plugin: Any) -> Told:
    """Run the story on Temporal."""
    log: Log = []
    story = tell(log)
    async with SQLiteStore(folder / "temporal.db") as store:
        async with working(client, story.agent, store, run_config=story.config, hooks=story.hooks, **plugin) as runs:
            run = await runs.start(
                story.agent.name, story.input, context=story.context, max_turns=story.max_turns,
                started_by=story.config.started_by,
            )  # fmt: skip
            while True:
                now = await run.settled()
                if now.failure is not None or not now.questions:
                    break
                for waiting in now.questions:
                    asked = msgspec.json.decode(waiting.prompt) if waiting.prompt else read(waiting.arguments)
                    await runs.decide(waiting.id, story.decide(waiting.tool, asked), by="ann", digest=waiting.digest)
            if now.failure is not None and now.status not in ("done", "closed", "exhausted"):
                end: Any = (now.failure.kind, now.failure.message)
                await runs.client.get_workflow_handle(run.id).terminate()
            else:
                try:
                    end = await run.result()
                except Exception as error:
                    end = _failure(error)
        assert await store.verify(run.id) == []
        assert now.failure is not None or (await store.record(run.id)).status in ("done", "closed", "exhausted")
        return Told(end, compared((await store.read(run.id)).facts), heard_by(story), noted(story, log))


def read(arguments: str) -> Any:
    """Return the arguments of a call; the text itself if the model wrote no JSON."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _failure(error: Exception) -> tuple[str, str]:
    if isinstance(error, AssentryError | ValueError | RuntimeError):
        return (type(error).__name__, str(error).replace(ADVICE, BY_RUNNER))
    raise error


def noted(story: Story, log: Log) -> Log:
    return sorted(log, key=repr) if story.sorts else log


def heard_by(story: Story) -> dict[str, list[Any]]:
    """What the model of each agent was given, request by request."""
    heard = {}
    for placed in AgentGraph(story.agent).all_placed():
        requests = getattr(placed.agent.model, "requests", [])
        heard[placed.agent.name] = [
            (each.instructions, list(each.input), [tool.name for tool in each.tools]) for each in requests
        ]
    return heard


# -- facts -------------------------------------------------------------------------------------------


def compared(facts: list[AnyFact]) -> dict[str, list[dict[str, Any]]]:
    """Return the facts of a run by call and by branch, each in its order, without what differs from run to run."""
    names: dict[Any, str] = {}
    number: dict[str, int] = {}
    groups: dict[str, list[dict[str, Any]]] = {}
    for fact in _without_vain_attempts(facts):
        branch = names.get(fact.path, "")
        for made in _proposed(fact):
            name = f"{branch}/{made.tool}"
            number[name] = number.get(name, 0) + 1
            names[*fact.path, made.id] = f"{name}#{number[name]}"
        call = None if type(fact) is f.Began else getattr(fact, "call", None)
        where = f"run {branch}" if call is None else f"call {names[*fact.path, call]}"
        own = {path[-1]: name for path, name in names.items() if path[:-1] == fact.path}
        groups.setdefault(where, []).append(_plain(fact, own))
    return {where: _guarded_first(group) for where, group in groups.items()}


def _guarded_first(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put a tool's input guardrails before the start of its body: on Temporal the door is opened before."""
    for number in range(1, len(group)):
        if group[number].get("where") == "tool_input" and group[number - 1]["fact"] == "started":
            group[number - 1], group[number] = group[number], group[number - 1]
    return group


def _proposed(fact: AnyFact) -> Iterator[f.Call]:
    if isinstance(fact, f.Replied):
        yield from fact.calls
    elif isinstance(fact, f.Proposed):
        yield fact.proposal


def _without_vain_attempts(facts: list[AnyFact]) -> list[AnyFact]:
    """Leave out attempts that the runtime took back before the body: on Temporal every look at the door is one."""
    vain = {(fact.path, fact.call, fact.attempt) for fact in facts if type(fact) is f.Left and fact.by == "runtime"}
    return [
        fact
        for fact in facts
        if not (isinstance(fact, f.Started | f.Left) and (fact.path, fact.call, fact.attempt) in vain)
    ]


def _plain(fact: AnyFact, names: Mapping[str, str]) -> dict[str, Any]:
    built = json.loads(msgspec.json.encode(fact))
    return {key: _named(value, names) for key, value in built.items() if key not in VOLATILE}


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """Put names in the place of the ids of calls."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    if isinstance(value, dict):
        return {key: _named(each, names) for key, each in value.items()}
    return value


# -- short ways --------------------------------------------------------------------------------------


def scripted(name: str, *steps: Any, **options: Any) -> Agent[Any]:
    """An agent whose model follows a script."""
    return Agent(name, model=ScriptedModel(steps), **options)


def noting(log: Log, name: str = "send", **options: Any) -> Any:
    """A tool that notes its calls."""

    async def body(to: str, copies: int = 1) -> str:
        log.append((name, to, copies))
        return f"{name}: {copies} to {to}"

    return function_tool(body, name_override=name, **options)


def send(to: str, tool: str = "send", **more: Any) -> Any:
    """A call of such a tool."""
    return call(tool, {"to": to, **more})


def verdicts(**by_recipient: Decision) -> Decide:
    """Decide by the recipient."""
    return lambda tool, arguments: by_recipient[arguments["to"]]


async def check_story(tell: Tell, client: Client, folder: Path, **plugin: Any) -> Told:
    """Tell a story both ways, compare, and return what it came to on Temporal."""
    async with asyncio.timeout(HANGS):
        expected = await told_by_runner(tell, folder)
    async with asyncio.timeout(HANGS):
        found = await told_by_temporal(tell, client, folder, **plugin)
    assert not (wrong := different(vars(found), vars(expected))), "\n".join(wrong)
    return found


def different(found: Any, expected: Any, where: str = "") -> list[str]:
    """Return where two values differ, down to the last part."""
    if type(found) is type(expected) is dict:
        names = [*found, *(name for name in expected if name not in found)]
        return [line for name in names for line in different(found.get(name), expected.get(name), f"{where}.{name}")]
    if type(found) is type(expected) is list and len(found) == len(expected):
        return [
            line
            for number, pair in enumerate(zip(found, expected, strict=True))
            for line in different(*pair, f"{where}[{number}]")
        ]
    return [] if found == expected else [f"{where}: {found!r:.1500}\n  expected: {expected!r:.1500}"]
