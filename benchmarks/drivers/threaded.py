"""The words that langchain's middleware and Assentry's threads share."""

from __future__ import annotations

from typing import Any

from . import driver


class Driver(driver.Driver):
    """A peer with threads. An outcome is what was returned, and the thread's config."""

    encodes = False

    def waiting(self, outcome: Any) -> int:
        return sum(len(asked.value["action_requests"]) for asked in outcome[0].get("__interrupt__", []))

    def text(self, outcome: Any) -> Any:
        return outcome[0]["messages"][-1].content

    def outputs(self, outcome: Any) -> list[str]:
        return [message.content for message in outcome[0]["messages"] if message.type == "tool"]

    def keep(self, outcome: Any) -> Any:
        return self.waiting(outcome), outcome[1]

    def save(self, kept: Any) -> Any:
        return kept

    async def load(self, agent: Any, saved: Any) -> Any:
        return saved
