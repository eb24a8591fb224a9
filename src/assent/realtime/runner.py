"""The runner of live sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..approval.question import new_id
from ..core.digest import described
from ..core.number import is_count, is_seconds
from ..core.run import Run
from ..definitions.hooks import RunHooks
from ..errors import UsageError
from ..runtime.agent_graph import AgentGraph
from ..runtime.config import DEFAULT, RunConfig
from ..runtime.journal import Journal
from ..runtime.runner import Order, check_store, first_fact, keep, observer_of, resume, state_to_resume
from ..runtime.scope import make_scope
from ..runtime.state import RunState
from ..store.record import Stored
from ..store.store import Store
from .agent import RealtimeAgent
from .config import (
    RealtimeGuardrailsSettings,
    RealtimeModelConfig,
    RealtimeReconnect,
    RealtimeRunConfig,
    RealtimeSessionModelSettings,
    RealtimeToolExecutionConfig,
)
from .driver import LiveDriver
from .model import RealtimeModel
from .session import RealtimeSession

ATTEMPTS, DELAY, WAIT, LENGTH = 3, 0.5, 2.0, 100


class RealtimeRunner:
    """Runs live sessions of an agent.

    Args:
        starting_agent: The agent that the conversation begins with.
        model: The realtime model; if omitted, OpenAI's over a WebSocket. A model serves one session at a time, so give
            none to have several sessions at once.
        config: Settings of the sessions.
        store: The store that keeps the runs. Their questions are then in the inbox, and are decided anywhere.
        run_config: More settings of the runs, such as `RunConfig(deadline=...)`. `config` takes precedence.
        hooks: Hooks that are called during the runs.
    """

    def __init__(
        self,
        starting_agent: RealtimeAgent[Any],
        *,
        model: RealtimeModel | None = None,
        config: RealtimeRunConfig | None = None,
        store: Store | None = None,
        run_config: RunConfig | None = None,
        hooks: RunHooks[Any] | None = None,
    ) -> None:
        if not isinstance(starting_agent, RealtimeAgent):
            raise UsageError(f"starting_agent must be a RealtimeAgent, got {described(starting_agent)}.")
        if model is not None and not isinstance(model, RealtimeModel):
            raise UsageError(f"model must be a RealtimeModel, got {described(model)}.")
        if run_config is not None and not isinstance(run_config, RunConfig):
            raise UsageError(f"run_config must be a RunConfig, got {described(run_config)}.")
        if hooks is not None and not isinstance(hooks, RunHooks):
            raise UsageError(f"hooks must be a RunHooks, got {described(hooks)}.")
        check_store(store)
        self._agent, self._model, self._store, self._hooks = starting_agent, model, store, hooks
        self._settings = _checked("config", config, RealtimeRunConfig)
        self._model_settings = _checked(
            "model_settings", self._settings.get("model_settings"), RealtimeSessionModelSettings
        )
        self._limits = _limits(self._settings)
        self._config = _run_config(run_config or DEFAULT, self._settings)

    async def run(
        self,
        *,
        context: Any = None,
        model_config: RealtimeModelConfig | None = None,
        state: RunState[Any] | Stored | None = None,
    ) -> RealtimeSession:
        """Return a session to enter: `async with await runner.run() as session: ...`.

        Args:
            context: Your own object, passed to rules, tools and callbacks.
            model_config: The connection: key, address, settings of the model for this session.
            state: A run to continue, live or not: a state, or a run loaded from the store.
        """
        options: Any = _checked("model_config", model_config, RealtimeModelConfig)
        settings: Any = {
            **self._model_settings,
            **_checked("initial_model_settings", options.get("initial_model_settings"), RealtimeSessionModelSettings),
        }
        driver = self._begun(context) if state is None else self._resumed(state, context)
        model = self._model
        if model is None:
            from .openai_websocket import OpenAIRealtimeWebSocketModel

            model = OpenAIRealtimeWebSocketModel()
        options = {**options, "initial_model_settings": settings}
        return RealtimeSession(driver, model, options, settings, **self._limits)

    def _begun(self, context: Any) -> LiveDriver:
        config, store = self._config, self._store
        journal = Journal([], Run(), config.clock if store is None else store.clock)
        scope = make_scope(journal, AgentGraph(self._agent), config, context, {}, self._hooks)
        driver = LiveDriver(scope)
        run_id = new_id("run")
        if store is not None:
            keep(driver, store, run_id)
        began = replace(
            first_fact(scope.graph, config),
            run=run_id,
            live=True,
            stored=store is not None,
            by=config.started_by,
            at=journal.now(),
        )
        if config.tracing is not None:
            scope.hooks.observer = observer = observer_of(scope, config.tracing, began)
            began = replace(began, trace=observer.trace)
        journal.add(began)
        return driver

    def _resumed(self, state: RunState[Any] | Stored, context: Any) -> LiveDriver:
        loaded = state_to_resume(self._agent, state, context, self._config)
        began = loaded._journal.run.began
        if began is not None and began.conversation:
            raise UsageError("The provider keeps the conversation of this run as text, so it cannot go on live.")
        order = Order(store=self._store)
        driver = resume(self._agent, loaded, context, None, self._config, self._hooks, order, make=LiveDriver)
        assert isinstance(driver, LiveDriver)
        return driver


def _checked(name: str, given: Any, kind: Any) -> dict[str, Any]:
    """Return settings as a dict, or raise `UsageError` if one of them is not known."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"{name} is a dict, got {described(given)}.")
    known = kind.__annotations__
    for key in given:
        if key not in known:
            raise UsageError(f"{name} has no setting {key!r}; there are: {', '.join(sorted(known))}.")
    return dict(given)


def _limits(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers among the settings, or raise `UsageError`."""
    again = _checked("reconnect", settings.get("reconnect"), RealtimeReconnect)
    attempts, delay = again.get("attempts", ATTEMPTS), again.get("delay", DELAY)
    wait = settings.get("transcript_wait", WAIT)
    guards = _checked("guardrails_settings", settings.get("guardrails_settings"), RealtimeGuardrailsSettings)
    length = guards.get("debounce_text_length", LENGTH)
    for name, value, fits in (
        ("reconnect: attempts", attempts, is_count(attempts, 0)),
        ("reconnect: delay", delay, is_seconds(delay)),
        ("transcript_wait", wait, is_seconds(wait)),
        ("guardrails_settings: debounce_text_length", length, is_count(length)),
    ):
        if not fits:
            raise UsageError(f"{name} is a number that is not negative, got {described(value)}.")
    return {"attempts": attempts, "delay": delay, "transcript_wait": wait, "guard_length": length}


def _run_config(config: RunConfig, settings: dict[str, Any]) -> RunConfig:
    """Return the settings of a run, with those of the live session in place."""
    names = ("output_guardrails", "tool_error_formatter", "started_by")
    given: dict[str, Any] = {name: settings[name] for name in names if name in settings}
    execution = _checked("tool_execution", settings.get("tool_execution"), RealtimeToolExecutionConfig)
    early = execution.get("pre_approval_tool_input_guardrails")
    if early is not None:
        given["pre_approval_tool_input_guardrails"] = early
    if config.input_guardrails:
        raise UsageError("input_guardrails have no meaning in a live conversation, which does not wait for them.")
    if config.handoff_input_filter is not None:
        raise UsageError("handoff_input_filter cannot change a live conversation, which the provider keeps.")
    return replace(config, **given) if given else config
