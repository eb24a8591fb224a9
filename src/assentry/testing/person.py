"""A scripted person, who decides on interruptions and can run an agent to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..approval.decision import Decision
from ..definitions.agent import Agent
from ..definitions.item import ToolApprovalItem
from ..errors import ScriptExhausted
from ..runtime.result import RunResult
from ..runtime.runner import Runner
from ..runtime.state import RunState

Answer = Decision | Callable[[ToolApprovalItem], Decision]
"""A decision, or a function from the question to a decision."""


class ScriptedPerson:
    """A person with one answer for each question, in order; raises `ScriptExhausted` after the last answer."""

    def __init__(self, answers: Iterable[Answer], *, name: str = "person") -> None:
        self.name = name
        self.seen: list[ToolApprovalItem] = []
        """The questions so far."""
        self._answers = iter(list(answers))

    def decide(self, state: RunState[Any]) -> None:
        """Answer every open question of a state."""
        for item in state.get_interruptions():
            self.seen.append(item)
            try:
                answer = next(self._answers)
            except StopIteration:
                raise ScriptExhausted(f"{self.name} was asked about {item.name} and has no more answers.") from None
            state.decide(item.id, answer(item) if callable(answer) else answer, by=self.name, digest=item.digest)

    async def see_through(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run the agent and answer its questions until the run is done."""
        result = await Runner.run(agent, input, **options)
        options.pop("max_turns", None)
        while result.interruptions:
            state = result.to_state()
            self.decide(state)
            result = await Runner.run(agent, state, **options)
        return result
