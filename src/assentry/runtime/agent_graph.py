"""The agents that a run can reach, each at its place, with their tools by name.

The place of the agent that the run began with is the agent's name. The place of any other agent is the place of the
agent that leads to it, a slash, and the name of the handoff or tool, along the shortest way. Two agents may have the
same name, but never the same place, so a grant to one agent is not a grant to the other.

A run keeps the place it has reached: if a shorter way is added meanwhile, the longer way still leads there.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from ..approval.tool_snapshot import ToolSnapshot
from ..core import facts as f
from ..core.run import CallState
from ..definitions.agent import Agent, schema_of, toolbox_of, tools_of
from ..definitions.agent_tool import AgentTool
from ..definitions.handoff import Handoff
from ..definitions.hosted_tool import HostedMCPTool
from ..definitions.item import ViewClasses
from ..definitions.output_tool import OutputTool, output_tool
from ..definitions.tool import Tool
from ..errors import DefinitionChanged
from .definition import describe_agent

K = TypeVar("K")
LEADING = (AgentTool, Handoff)
"""The tools that lead to other agents."""


class PlacedAgent:
    """An agent at its place, with its tools as they are now."""

    __slots__ = ("_final", "agent", "place")

    def __init__(self, agent: Agent[Any], place: str) -> None:
        self.agent = agent
        self.place = place
        self._final: OutputTool | None = None

    @property
    def tools(self) -> dict[str, Tool]:
        """The agent's tools and handoffs, by name; made anew when the agent's lists have changed."""
        return toolbox_of(self.agent).tools

    @property
    def final(self) -> OutputTool | None:
        """The output tool that a person is asked about; None if the final output needs no approval."""
        rule = self.agent.output_needs_approval
        if rule is False:
            return None
        made = self._final
        if made is None or made.needs_approval is not rule or made.schema is not schema_of(self.agent):
            self._final = output_tool(self.agent)
        return self._final

    def tool_of(self, state: CallState, name: str | None = None) -> Tool | None:
        """Return the current tool of a call, or the one of this name for it; None if there is none."""
        kind, name = state.call.kind, name or state.tool
        tools = toolbox_of(self.agent).tools
        if kind == "output":
            return self.final
        if kind == "hosted":
            server = tools.get(f"mcp:{state.proposal.server_label}")
            return server.tool_named(name) if isinstance(server, HostedMCPTool) else None
        return tools.get(name)

    @property
    def unlisted(self) -> bool:
        """True if a server of the agent has not listed its tools yet."""
        return any(not server.listed for server in self.agent.mcp_servers)

    def is_served(self, state: CallState, tool: Tool | None) -> bool:
        """Return True if the tool of a call is, or was, a server's."""
        if tool is not None:
            return tool.source is not None
        own = state.call.kind != "tool" or any(tool.name == state.tool for tool in self.agent.tools)
        return bool(self.agent.mcp_servers) and not own

    def definition_fact(self) -> f.Defined:
        """Return the fact that describes the agent's current definition."""
        return describe_agent(self.agent, self.tools)


class Exploration(NamedTuple):
    """The agents that an exploration found, by place, and those whose tools it read, root first."""

    by_place: dict[str, PlacedAgent]
    looked_at: list[tuple[PlacedAgent, dict[str, Tool]]]

    def holds(self, root: Agent[Any]) -> bool:
        """Return True if exploring again would find the same: every agent still has the same tools."""
        first = self.looked_at[0][0]
        if first.agent is not root or first.place != root.name:  # a copied agent carries the cache of its original
            return False
        return all(placed.tools is tools for placed, tools in self.looked_at)


class AgentGraph:
    """All the agents that a run can reach from the agent it began with."""

    def __init__(self, root: Agent[Any]) -> None:
        self.root = root
        self.view_classes: ViewClasses = root.view_classes
        """The classes of the run's items, replies, results and states, by Assentry's own."""
        self._by_place: dict[str, PlacedAgent] = {root.name: PlacedAgent(root, root.name)}
        self._found: Exploration | None = None
        """The result of the last exploration."""

    def class_of(self, own: type[K]) -> type[K]:
        """Return the class that stands for one of Assentry's own in runs of these agents."""
        return self.view_classes.get(own, own)

    def agent_at(self, place: str) -> PlacedAgent:
        """Return the agent at a place; raise `DefinitionChanged` if nothing leads there any more."""
        found = self._by_place.get(place)
        if found is None:
            self._explore()
            found = self._by_place.get(place) or self._walk(place)
        if found is None:
            raise DefinitionChanged(
                f"This run is with the agent at {place!r}, and nothing leads there from agent {self.root.name!r} any "
                "more; bring its handoff or tool back."
            )
        return found

    def leads_on(self) -> bool:
        """Return True if the first agent has a tool or handoff that leads to another agent."""
        return toolbox_of(self.root).leading

    def redactions(self) -> dict[str, list[str]]:
        """Return the arguments to mask by tool, over all agents that the run can reach."""
        found: dict[str, list[str]] = {}
        for placed in self.all_placed():
            for tool in placed.tools.values():
                if tool.redact:
                    found.setdefault(tool.name, []).extend(tool.redact)
        return found

    def all_placed(self) -> list[PlacedAgent]:
        """Return every agent with its place, the first agent first."""
        if self.leads_on():
            self._explore()
        return list(self._by_place.values())

    def place(self, agent: Agent[Any]) -> str:
        """Return the place of an agent that a tool or handoff leads to."""
        found = self._place(agent)
        if found is None:
            self._explore()
            found = self._place(agent)
        assert found is not None, "whatever a tool leads to has a place"
        return found

    def _place(self, agent: Agent[Any]) -> str | None:
        return next((placed.place for placed in self._by_place.values() if placed.agent is agent), None)

    def of(self, state: CallState) -> PlacedAgent:
        """Return the agent that made a call, with its place."""
        place = state.turn.agent
        return self._by_place.get(place) or self.agent_at(place)

    def tool_of(self, state: CallState, name: str) -> Tool | ToolSnapshot | None:
        """Return the tool of this name that a decision on a call may use; None if there is none.

        The tool of a server that has listed none yet is the one that the question was asked about.
        """
        placed = self.of(state)
        tool = placed.tool_of(state, name)
        if tool is None and name == state.tool and placed.unlisted and state.question and state.question.definition:
            return ToolSnapshot.read(bytes(state.question.definition))
        return tool if tool is not None and tool.is_enabled is not False else None

    def names(self) -> AgentGraph:
        """Return a graph with the same places, in which each agent is reduced to its name."""
        graph = AgentGraph(Agent(self.root.name))
        graph.view_classes = self.view_classes
        graph._by_place |= {
            placed.place: PlacedAgent(Agent(placed.agent.name), placed.place) for placed in self.all_placed()[1:]
        }
        return graph

    def _explore(self) -> None:
        """Find every agent by its shortest way.

        An agent that nothing leads to any more keeps its place in this process.
        """
        root, new = self.root, len(self._by_place) == 1
        if self._found is not None and self._found.holds(root):
            return
        found: Exploration | None = root._graph if new else None  # a run that begins can use the result of another run
        if found is None or not found.holds(root):
            found = self._explored()
            if new:
                root._graph = found
        self._found, self._by_place = found, found.by_place.copy()

    def _explored(self) -> Exploration:
        by_place: dict[str, PlacedAgent] = {}
        places: dict[int, str] = {}
        explored: list[tuple[PlacedAgent, dict[str, Tool]]] = []
        for known in self._by_place.values():  # the root is the first
            if known.place in by_place or id(known.agent) in places:
                continue
            queue = [known]
            by_place[known.place], places[id(known.agent)] = known, known.place
            for placed in queue:  # the loop appends to the queue
                tools = placed.tools
                explored.append((placed, tools))
                for tool in tools.values():
                    if isinstance(tool, LEADING) and id(tool.agent) not in places:
                        place = f"{placed.place}/{step(tool.name)}"
                        old = self._by_place.get(place)
                        found = old if old is not None and old.agent is tool.agent else PlacedAgent(tool.agent, place)
                        by_place[place], places[id(tool.agent)] = found, place
                        queue.append(found)
        return Exploration(by_place, explored)

    def _walk(self, place: str) -> PlacedAgent | None:
        """Return the agent at the end of a way that is no longer the shortest; None if the way is broken."""
        agent, start = self.root, f"{self.root.name}/"
        for name in place.removeprefix(start).split("/") if place.startswith(start) else [""]:
            tools = (tool for tool in tools_of(agent).values() if step(tool.name) == name)
            tool = next(tools, None)
            if not isinstance(tool, LEADING):
                return None
            agent = tool.agent
        self._by_place[place] = found = PlacedAgent(agent, place)
        return found


def step(name: str) -> str:
    """Return a tool's name as part of a place; a slash in the name is escaped, as it separates two steps."""
    return name.replace("~", "~0").replace("/", "~1")
