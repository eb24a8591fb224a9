"""The runner of live sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..core import allowed
from ..definitions.hooks import RunHooks
from ..errors import UsageError
from ..runtime.config import DEFAULT, RunConfig
from ..runtime.drive import RunPlace, begin_run, check_settings, resume_run, state_to_resume
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

DICT = allowed.instance_of(Mapping, "a dict")
RUNNER_OPTIONS = allowed.Options(
    starting_agent=allowed.instance_of(RealtimeAgent),
    model=allowed.instance_of(RealtimeModel).or_none,
)


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

    session_type: type[RealtimeSession] = RealtimeSession
    """The class of the sessions."""

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
        RUNNER_OPTIONS.check_items("RealtimeRunner", {"starting_agent": starting_agent, "model": model}, UsageError)
        check_settings(run_config, hooks, store)
        self._agent, self._model, self._store, self._hooks = starting_agent, model, store, hooks
        self._settings = _check_settings_dict("config", config, RealtimeRunConfig)
        self._model_settings = _check_settings_dict(
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
        options: Any = _check_settings_dict("model_config", model_config, RealtimeModelConfig)
        settings: Any = {
            **self._model_settings,
            **_check_settings_dict(
                "initial_model_settings", options.get("initial_model_settings"), RealtimeSessionModelSettings
            ),
        }
        agent, config, hooks, place = self._agent, self._config, self._hooks, RunPlace(store=self._store)
        if state is None:
            driver = begin_run(agent, None, context, None, config, hooks, place, LiveDriver)
        else:
            loaded = state_to_resume(agent, state, context, config)
            driver = resume_run(agent, loaded, context, None, config, hooks, place, LiveDriver)
        options = {**options, "initial_model_settings": settings}
        return self.session_type(driver, self._model or self.default_model(), options, settings, **self._limits)

    def default_model(self) -> RealtimeModel:
        """Return a model for a session, if the runner was given none."""
        from .openai_websocket import OpenAIRealtimeWebSocketModel

        return OpenAIRealtimeWebSocketModel()


def _check_settings_dict(name: str, given: Any, kind: Any) -> dict[str, Any]:
    """Return settings as a dict, or raise `UsageError` if one of them is not known."""
    if given is None:
        return {}
    allowed.check_option("RealtimeRunner", name, given, DICT, UsageError)
    allowed.check_names(f"RealtimeRunner: {name}", given, kind.__annotations__, UsageError)
    return dict(given)


def _limits(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers among the settings, or raise `UsageError`."""
    again = _check_settings_dict("reconnect", settings.get("reconnect"), RealtimeReconnect)
    attempts, delay = again.get("attempts", ATTEMPTS), again.get("delay", DELAY)
    wait = settings.get("transcript_wait", WAIT)
    guards = _check_settings_dict(
        "guardrails_settings", settings.get("guardrails_settings"), RealtimeGuardrailsSettings
    )
    length = guards.get("debounce_text_length", LENGTH)
    for name, value, values in (
        ("reconnect: attempts", attempts, allowed.whole_number(0)),
        ("reconnect: delay", delay, allowed.seconds()),
        ("transcript_wait", wait, allowed.seconds()),
        ("guardrails_settings: debounce_text_length", length, allowed.COUNT),
    ):
        allowed.check_option("RealtimeRunner", name, value, values, UsageError)
    return {"attempts": attempts, "delay": delay, "transcript_wait": wait, "guard_length": length}


def _run_config(config: RunConfig, settings: dict[str, Any]) -> RunConfig:
    """Return the settings of a run, with those of the live session in place."""
    names = ("output_guardrails", "tool_error_formatter", "started_by")
    given: dict[str, Any] = {name: settings[name] for name in names if name in settings}
    execution = _check_settings_dict("tool_execution", settings.get("tool_execution"), RealtimeToolExecutionConfig)
    early = execution.get("pre_approval_tool_input_guardrails")
    if early is not None:
        given["pre_approval_tool_input_guardrails"] = early
    if config.input_guardrails:
        raise UsageError("input_guardrails have no meaning in a live conversation, which does not wait for them.")
    if config.handoff_input_filter is not None:
        raise UsageError("handoff_input_filter cannot change a live conversation, which the provider keeps.")
    return replace(config, **given) if given else config
