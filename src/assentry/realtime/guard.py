"""Output guardrails in a live session: they look at a reply while it is spoken, and once it is complete.

A guardrail that trips stops the reply, not the run. One that raises stops the reply too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..definitions.guardrail import OutputGuardrail, OutputGuardrailResult
from ..runtime.agent_graph import PlacedAgent
from ..runtime.guardrail_results import output_guardrails
from ..runtime.scope import Scope
from ..runtime.steps.guardrail import guard_reply
from . import model as m

Tripped = Callable[[list[OutputGuardrailResult], str, str], None]
"""Called with the results, the reply's text, and what the model is told."""


class ReplyGuard:
    """The output guardrails of the active agent, and the text of the reply that they look at."""

    def __init__(self, scope: Scope, size: int, tripped: Tripped, failed: Callable[[Exception], None]) -> None:
        self._scope, self._size = scope, size
        self._tripped, self._failed = tripped, failed
        self._placed: PlacedAgent | None = None
        self._guardrails: dict[str, OutputGuardrail] = {}
        self._text: list[str] = []
        self._length = self._checked = 0
        self._stopped = False
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, placed: PlacedAgent) -> None:
        """Use the guardrails of this agent from now on."""
        self._placed, self._guardrails = placed, output_guardrails(placed, self._scope.config, ())

    def take(self, event: m.RealtimeModelEvent) -> None:
        """Take the beginning, a piece or the end of a reply; at the end, look at what was not looked at yet."""
        if type(event) is m.RealtimeModelTurnStartedEvent:
            self._text, self._length, self._checked, self._stopped = [], 0, 0, False
        elif not self._guardrails:
            return
        elif isinstance(event, m.RealtimeModelTranscriptDeltaEvent | m.RealtimeModelOutputTextDeltaEvent):
            self._text.append(event.delta)
            self._length += len(event.delta)
            if self._length - self._checked >= self._size:
                self._look()
        elif isinstance(event, m.RealtimeModelTurnEndedEvent) and self._length > self._checked:
            self._look()

    def close(self) -> None:
        """Stop looking."""
        for task in self._tasks:
            task.cancel()

    def _look(self) -> None:
        if not self._stopped and self._placed is not None:
            self._checked = self._length
            task = asyncio.create_task(self._judge(self._placed, "".join(self._text), self._text))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _judge(self, placed: PlacedAgent, text: str, reply: list[str]) -> None:
        results: list[OutputGuardrailResult] = []
        words = ""
        try:
            for name, guardrail in self._guardrails.items():
                words = f"The output guardrail {name!r} stopped your last reply. Do not repeat it; reply otherwise."
                found = await guard_reply(self._scope, placed, guardrail, name, text, words)
                if found is not None:
                    results.append(found)
                    break
        except Exception as error:
            self._failed(error)
            words = "A check of your last reply failed, so it was stopped. Say so, and do not repeat it."
        else:
            if not results:
                return
        if reply is not self._text or not self._stopped:
            self._stopped = self._stopped or reply is self._text
            self._tripped(results, text, words)
