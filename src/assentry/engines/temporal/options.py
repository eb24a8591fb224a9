"""The options of activities: timeouts, task queues and retries, by tool, by agent, or for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy

from ...core.wording import described
from ...errors import UsageError

ONCE = RetryPolicy(maximum_attempts=1)
"""A body has one attempt: its outcome is known, or in doubt."""
AGAIN = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=60),
    maximum_attempts=20,
)
"""The retries of what may be repeated, such as a model call."""
SHORTLY = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10))
"""The retries of writes to the archive: for as long as it takes."""
KEEPING = timedelta(seconds=30)
"""The longest time of one write to the archive."""


@dataclass(frozen=True, kw_only=True)
class ActivityOptions:
    """The options of an activity. What is None is taken from the agent's options, from the default, or left out."""

    start_to_close_timeout: timedelta | None = None
    """The longest time that one attempt may take; 10 minutes unless given."""
    schedule_to_start_timeout: timedelta | None = None
    """The longest time that the activity may wait for a worker. A body that waited longer was not entered."""
    heartbeat_timeout: timedelta | None = None
    """The time after which a worker that shows no sign of life is given up; 30 seconds unless given."""
    task_queue: str | None = None
    """The task queue of the workers that perform it; the run's own unless given."""
    retry_policy: RetryPolicy | None = None
    """The retries of the server's. A body has one attempt, and may have more only if its tool is idempotent."""

    def __post_init__(self) -> None:
        for name in ("start_to_close_timeout", "schedule_to_start_timeout", "heartbeat_timeout"):
            given = getattr(self, name)
            if given is not None and not (isinstance(given, timedelta) and given > timedelta(0)):
                raise UsageError(f"ActivityOptions: {name} must be a timedelta above zero, got {described(given)}.")
        if self.task_queue is not None and (type(self.task_queue) is not str or not self.task_queue):
            raise UsageError(f"ActivityOptions: task_queue must be a name, got {described(self.task_queue)}.")
        if self.retry_policy is not None and not isinstance(self.retry_policy, RetryPolicy):
            raise UsageError(
                f"ActivityOptions: retry_policy must be a RetryPolicy, got {described(self.retry_policy)}."
            )

    def over(self, other: ActivityOptions) -> ActivityOptions:
        """Return these options, with those of another where these have none."""
        return replace(other, **{name: value for name, value in vars(self).items() if value is not None})


USUAL = ActivityOptions(start_to_close_timeout=timedelta(minutes=10), heartbeat_timeout=timedelta(seconds=30))


@dataclass(frozen=True)
class EngineOptions:
    """The options of all activities of a worker's runs."""

    default: ActivityOptions = USUAL
    agents: Mapping[str, ActivityOptions] = field(default_factory=dict)
    tools: Mapping[str, ActivityOptions] = field(default_factory=dict)

    @property
    def has_queues(self) -> bool:
        """True if some activities are for workers of another task queue, which may not be there."""
        return any(each.task_queue is not None for each in (self.default, *self.agents.values(), *self.tools.values()))

    def of_agent(self, agent: str) -> dict[str, Any]:
        """Return the arguments of an activity that advances a run of this agent."""
        return _arguments(self._agent(agent), AGAIN)

    def of_body(self, agent: str, tool: str) -> dict[str, Any]:
        """Return the arguments of an activity that enters the body of this tool."""
        own = self.tools.get(tool, ActivityOptions())
        return _arguments(replace(own.over(self._agent(agent)), retry_policy=own.retry_policy), ONCE)

    def of_keeping(self) -> dict[str, Any]:
        """Return the arguments of an activity that writes facts to the archive."""
        beat = self.default.over(USUAL).heartbeat_timeout
        return {"start_to_close_timeout": KEEPING, "heartbeat_timeout": beat, "retry_policy": SHORTLY}

    def _agent(self, agent: str) -> ActivityOptions:
        return self.agents.get(agent, ActivityOptions()).over(self.default.over(USUAL))


def _arguments(options: ActivityOptions, retries: RetryPolicy) -> dict[str, Any]:
    given = {name: value for name, value in vars(options).items() if value is not None}
    return {"retry_policy": retries, **given}


OF_QUEUES: dict[str, EngineOptions] = {}
"""The options of this process's workers, by task queue. A replay does not compare them, so they may change."""
