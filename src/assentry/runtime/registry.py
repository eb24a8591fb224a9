"""The versions of each agent that a process can run, and the choice of a version for a saved run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import TypeIs

from ..core import codec
from ..core import facts as f
from ..core.rules import REFUSED
from ..core.run import CallState, Run
from ..core.wording import described, holds
from ..definitions.agent import Agent
from ..errors import AgentNotFound, DefinitionChanged, InvalidDefinition, UnreadableState, UsageError
from .agent_graph import AgentGraph
from .definition import same_definition
from .definition_check import OnChange, asked_as_gone
from .signature import SigningKey, verify_signature
from .state import RunState

if TYPE_CHECKING:
    from ..store.record import Stored


class AgentRegistry:
    """Agents by name and version. A new run gets the newest version, a saved run the version that it was made with."""

    def __init__(self) -> None:
        self._agents: dict[str, dict[str, Agent[Any]]] = {}

    def __repr__(self) -> str:
        return f"<AgentRegistry of {', '.join(map(repr, self._agents)) or 'nothing'}>"

    def add(self, agent: Agent[Any], *, version: str) -> None:
        """Add a version of an agent; the version added last is the newest."""
        if not isinstance(agent, Agent):
            raise UsageError(f"The first argument is the agent, got {described(agent)}.")
        if type(version) is not str or not version.strip() or not holds(version):
            raise UsageError(f"A version of agent {agent.name!r} is named with text, got {described(version)}.")
        versions = self._agents.setdefault(agent.name, {})
        if version in versions:
            raise InvalidDefinition(
                f"Agent {agent.name!r} has a version {version!r} already; give this one another name."
            )
        versions[version] = agent

    def get(self, name: str, version: str | None = None) -> Agent[Any]:
        """Return the newest version of an agent, or the named version."""
        versions = self._versions(name)
        if version is None:
            return versions[next(reversed(versions))]
        if type(version) is not str or version not in versions:
            raise AgentNotFound(f"Agent {name!r} has no version {described(version)}; there are {_names_of(versions)}.")
        return versions[version]

    def names(self) -> list[str]:
        """Return the names of the agents, in the order in which they were first added."""
        return list(self._agents)

    def versions(self, name: str) -> list[str]:
        """Return the versions of an agent, the newest last."""
        return list(self._versions(name))

    def route(self, run: str | bytes | dict[str, Any] | RunState[Any] | Stored) -> Agent[Any]:
        """Return the version of its agent that a saved run was made with; if several are equal, the newest of them.

        If none matches, return the newest version whose tools fit the open calls, with a warning; if none fits,
        raise `DefinitionChanged`. A run that has not asked its model yet gets the newest version. A state that is
        loaded already keeps the version that it was loaded with. Give a run of a store as `store.load(run_id)`
        returns it.

        Signatures are not checked here; use `load` for that.
        """
        if isinstance(run, RunState):
            root = run._graph.root
            if any(agent is root for agent in self._agents.get(root.name, {}).values()):
                return root
            return self._choose(run._journal.facts, run._journal.run, "refuse", _warn)
        if _is_stored(run):
            return self._choose(run.facts, run.run(talks=False), "refuse", _warn)
        journal = codec.decode_run(_text(run)).journal
        return self._choose(journal, codec.replay(journal), "refuse", _warn)

    def route_stored(self, stored: Stored, on_change: OnChange, tell: Callable[[str], None]) -> Agent[Any]:
        """Return the version for a run of a store, like `route`, and pass a warning to `tell` instead."""
        versions = self._versions(stored.record.agent)
        if len(versions) == 1:  # there is no choice; `fit` checks the version when the run is resumed
            return self.get(stored.record.agent)
        return self._choose(stored.facts, stored.run(talks=False), on_change, tell)

    async def load(
        self,
        data: str | bytes | dict[str, Any],
        *,
        on_change: OnChange = "refuse",
        keys: Iterable[SigningKey] | None = None,
        **options: Any,
    ) -> RunState[Any]:
        """Load a saved run, with the version of its agent that `route` returns.

        If no version fits, `on_change="ask"` and `on_change="accept"` load the run with the newest version. The other
        options are those of `RunState.from_string`. With `keys`, the signature is verified before anything else is
        read. Continue with `Runner.run(registry.route(state), state)`.
        """
        text = _text(data)
        if keys is not None:
            verify_signature(text, keys)
        journal = codec.decode_run(text).journal
        agent = self._choose(journal, codec.replay(journal), on_change, _warn)
        return await RunState.from_string(agent, text, on_change=on_change, **options)

    def _versions(self, name: str) -> dict[str, Agent[Any]]:
        versions = self._agents.get(name) if type(name) is str else None
        if versions is None:
            there = f"there are {_names_of(self._agents)}" if self._agents else "nothing was added yet"
            raise AgentNotFound(f"The registry has no agent {described(name)}; {there}.")
        return versions

    def _choose(
        self, journal: list[f.AnyFact], run: Run, on_change: OnChange, tell: Callable[[str], None]
    ) -> Agent[Any]:
        name = run.began.agent if run.began else ""
        versions = self._versions(name)
        newest = self.get(name)
        last = run.definition
        was = last if last is not None and last.agent == name else _last_definition(journal, name)
        if was is None:
            return newest
        fitting: list[str] = []
        misfits: list[CallState] = []
        for version, agent in reversed(versions.items()):
            # An agent may have changed since it was added, so its definition is read now.
            graph = AgentGraph(agent)
            misfit = _misfit(run, graph)
            if misfit is not None:
                misfits.append(misfit)
            elif same_definition(was, graph.agent_at(name).definition_fact()):
                return agent
            else:
                fitting.append(version)
        if fitting:
            tell(
                f"No version of agent {name!r} is defined as it was when this run was made; it goes on with "
                f"{fitting[0]!r}, the newest whose tools fit its open calls."
            )
            return versions[fitting[0]]
        if on_change == "refuse":
            raise _unfit(newest, misfits[0], versions)
        return newest


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)


def _is_stored(run: Any) -> TypeIs[Stored]:
    from ..store.record import Stored

    return isinstance(run, Stored)


def _text(data: str | bytes | dict[str, Any]) -> str | bytes:
    if isinstance(data, str | bytes):
        return data
    if not isinstance(data, dict):
        raise UnreadableState(f"A saved run is JSON text or a JSON object, got {type(data).__name__}.")
    try:
        return msgspec.json.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnreadableState(f"This is not a saved run as JSON: {error}.") from None


def _last_definition(journal: list[f.AnyFact], name: str) -> f.Defined | None:
    """Return the last definition of the agent that began the run, whichever agent is active now."""
    for fact in reversed(journal):
        if type(fact) is f.Defined and not fact.path and fact.agent == name:
            return fact
    return None


def _misfit(run: Run, graph: AgentGraph) -> CallState | None:
    """Return an open call, of the run or a branch, whose tool these agents do not have as it was last accepted.

    If a changed tool was accepted for a call, the tool that was first offered does not fit: people were asked about the
    changed one.
    """
    for state in run.open.values():
        if state.phase is REFUSED:
            continue
        if asked_as_gone(state):
            continue
        needed = state.fingerprint or state.call.definition
        try:
            placed = graph.of(state)
            tool = placed.tool_of(state)
        except DefinitionChanged:  # no agent or handoff leads to that agent now
            return state
        changed = tool is None or tool.fingerprint != needed
        if needed is not None and changed and not placed.is_served(state, tool):
            return state
        inner = _misfit(state.child, graph) if state.child is not None else None
        if inner is not None:
            return inner
    return None


def _unfit(newest: Agent[Any], state: CallState, versions: Iterable[str]) -> DefinitionChanged:
    gone = all(tool.name != state.tool for tool in newest.tools)
    return DefinitionChanged(
        f"Tool {state.tool!r} {'is gone' if gone else 'has changed'} since call {state.call.id} was made, and no "
        f"version of agent {newest.name!r} fits this run; there are {_names_of(versions)}. Add the version it was made "
        'with; or load the run with on_change="ask" to put the call to a person again, or with "accept" to go on with '
        "what there is now, in the newest version."
    )


def _names_of(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
