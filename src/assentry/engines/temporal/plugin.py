"""The worker's plug-in: runs of registered agents as workflows, in any worker of Temporal's."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec.json import encode
from msgspec.structs import replace
from temporalio.common import RetryPolicy
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkerConfig

from ...core import allowed
from ...core.wording import described
from ...definitions.agent import Agent
from ...definitions.hooks import RunHooks
from ...definitions.tool import Tool
from ...errors import StoreFailed, UsageError
from ...runtime.agent_graph import AgentGraph
from ...runtime.config import DEFAULT, RunConfig
from ...runtime.drive import run_template
from ...runtime.registry import AgentRegistry
from ...sessions.session import Session
from ...store.store import Store
from ..claimed_run import DriveSettings
from ..worker import registry_of
from .activities import RunActivities
from .archive import ENGINE, JournalArchive, StoreArchive
from .message import Limits
from .options import OF_QUEUES, ActivityOptions, EngineOptions
from .slice import Slices
from .store_projection import StoreProjection
from .workflow import RunWorkflow

log = logging.getLogger("assentry")

PLUGIN_OPTIONS = allowed.Options(
    run_config=allowed.instance_of(RunConfig).or_none,
    hooks=allowed.instance_of(RunHooks).or_none,
    sessions=allowed.CALLABLE.or_none,
    archive=allowed.instance_of(JournalArchive, "a JournalArchive: keep, load and define").or_none,
    default=allowed.instance_of(ActivityOptions).or_none,
    agent_options=allowed.instance_of(Mapping, "a mapping of ActivityOptions by name").or_none,
    tool_options=allowed.instance_of(Mapping, "a mapping of ActivityOptions by name").or_none,
    continue_after=allowed.COUNT,
)


class AssentryPlugin(SimplePlugin):
    """Runs of agents as workflows: `Worker(client, task_queue="agents", plugins=[AssentryPlugin(...)])`.

    Args:
        agents: An `AgentRegistry`, an agent, or several.
        store: The store that keeps the facts, and that the inbox reads. With `archive` it is only what the inbox reads.
        archive: Another place that keeps the facts, such as `ObjectArchive`. The store then catches up when a question
            is asked or settled, and when a run comes to rest. No run waits for it.
        default: Options of all activities.
        agent_options: Options of an agent's model calls and of all else that is no body, by the agent's name.
        tool_options: Options of a tool's body, by the tool's name.
        run_config: Settings of the runs.
        hooks: Hooks that are called for all runs.
        context: The context of runs that have none: an object, or a function that makes one from a `RunRecord`.
        sessions: A function that returns the session with a given id.
        continue_after: The number of history events after which a workflow continues as new.
    """

    def __init__(
        self,
        agents: AgentRegistry | Agent[Any] | Iterable[Agent[Any]],
        *,
        store: Store,
        archive: JournalArchive | None = None,
        default: ActivityOptions | None = None,
        agent_options: Mapping[str, ActivityOptions] | None = None,
        tool_options: Mapping[str, ActivityOptions] | None = None,
        run_config: RunConfig | None = None,
        hooks: RunHooks[Any] | None = None,
        context: Any = None,
        sessions: Callable[[str], Session | Awaitable[Session]] | None = None,
        continue_after: int = 4000,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in PLUGIN_OPTIONS.options}
        PLUGIN_OPTIONS.check_items("AssentryPlugin", given, UsageError)
        if not isinstance(store, Store):
            raise UsageError(
                f"AssentryPlugin: store must be a Store, such as SQLiteStore(path), got {described(store)}."
            )
        self.agents = registry_of(agents)
        tools = _tools_of(self.agents)
        by_agent, by_tool = dict(agent_options or {}), dict(tool_options or {})
        _check_names("agent_options", by_agent, self.agents.names())
        _check_names("tool_options", by_tool, tools)
        for name, options in by_tool.items():
            _check_retries(tools[name], options.retry_policy)
        config = run_config or DEFAULT
        self.options = EngineOptions(default or ActivityOptions(), by_agent, by_tool)
        settings = DriveSettings(None, self.agents, config, hooks, context, sessions)
        kept = archive if archive is not None else StoreArchive(store)
        own = isinstance(kept, StoreArchive) and kept.store is store
        slices = Slices(settings, kept, store, Limits(config.max_parallel_tools, continue_after))
        activities = RunActivities(slices, kept, None if own else StoreProjection(kept, store))
        super().__init__("assentry", activities=activities.all(), workflows=[RunWorkflow], run_context=self._announced)
        self._store, self._config = store, config

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add the workflow and the activities, and note the options of this worker's task queue."""
        OF_QUEUES[config["task_queue"]] = self.options
        return super().configure_worker(config)

    @asynccontextmanager
    async def _announced(self) -> AsyncIterator[None]:
        """Tell the inbox's store of the agents, so that runs of them can be started there."""
        newest = {name: AgentGraph(self.agents.get(name)) for name in self.agents.names()}
        templates = {name: replace(run_template(graph, self._config), engine=ENGINE) for name, graph in newest.items()}
        try:
            await self._store.announce({name: encode(began).decode() for name, began in templates.items()})
        except StoreFailed as error:  # runs do not need it
            log.warning("The inbox's store was not told of the agents, so nobody can start runs there: %s", error)
        yield


def _tools_of(agents: AgentRegistry) -> dict[str, list[Tool]]:
    """Return the tools of all agents by name."""
    tools: dict[str, list[Tool]] = {}
    for name in agents.names():
        for version in agents.versions(name):
            agent = agents.get(name, version)
            for placed in AgentGraph(agent).all_placed():
                for tool in placed.tools.values():
                    tools.setdefault(tool.name, []).append(tool)
    return tools


def _check_names(option: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for name, options in given.items():
        if name not in names:
            there = ", ".join(map(repr, names)) or "none"
            raise UsageError(
                f"AssentryPlugin: {option} names {described(name)}, which is not there; there are {there}."
            )
        if not isinstance(options, ActivityOptions):
            raise UsageError(f"AssentryPlugin: {option} has ActivityOptions by name, got {described(options)}.")


def _check_retries(tools: list[Tool], policy: RetryPolicy | None) -> None:
    """Raise `UsageError` if the server would enter a body again that may not be entered twice."""
    if policy is None or policy.maximum_attempts == 1:
        return
    for tool in tools:
        if not tool.idempotent:
            raise UsageError(
                f"AssentryPlugin: tool {tool.name!r} is not idempotent, so its body has one attempt; leave out its "
                "retry_policy, or declare the tool with idempotent=True."
            )
