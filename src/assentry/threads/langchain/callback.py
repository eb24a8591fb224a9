"""Callbacks of LangChain: handlers and callback managers hear of an agent's models and tools.

LangChain's own managers call the handlers, with their rules: what a handler raises is logged, unless it has
`raise_error`. Chat models, and whatever else of LangChain's is called inside a node or a tool, find the callbacks in
the current config and tell the handlers themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, BaseCallbackManager
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import ensure_config, merge_configs, patch_config, var_child_runnable_config

from ...core.wording import described
from ...definitions.context import THREAD_CONFIG
from ...errors import UsageError
from ...models.langchain import LangChainModel
from ...models.model import Model
from ...runtime.tool_pause import Paused
from .. import message as ours
from ..foreign import is_langchain_message
from ..observer import NotEntered, Start
from .message import to_langchain
from .tool import LangChainTool

SILENT = "silent"
"""The kind of a run of which LangChain's own code tells the handlers."""


class HeardRun(NamedTuple):
    """A run that handlers have heard of: LangChain's manager of it, and what is needed for its parts."""

    kind: str
    manager: Any
    name: str


class CallbackListener:
    """The listener that tells LangChain's callbacks."""

    def __init__(self, config: Mapping[str, Any], agent: str) -> None:
        given = config.get("callbacks")
        if given is not None:
            check_callbacks(given)
        self.given = config
        self.config: Any = ensure_config({**config})  # type: ignore[arg-type]
        self.config["metadata"] = {"lc_agent_name": agent, **self.config["metadata"]}
        self._current: ContextVar[HeardRun] = ContextVar("assentry_heard_run")

    async def start(self, start: Start) -> HeardRun:
        """Tell the handlers of the start of a run."""
        parent = start.parent or self._current.get(None)
        if parent is not None and isinstance(start.tool, LangChainTool):
            return HeardRun(SILENT, parent.manager, start.name)
        manager = self._root() if parent is None else parent.manager.get_child()
        if start.metadata:
            manager.add_metadata(start.metadata, inherit=True)
        if start.kind == "chain":
            id = self.config.get("run_id") if parent is None else None
            run = await manager.on_chain_start(None, as_theirs(start.input), name=start.name, run_id=id)
        elif start.kind == "tool":
            assert start.tool is not None
            about = {"name": start.name, "description": start.tool.description or ""}
            run = await manager.on_tool_start(
                about, str(start.input), inputs=start.input, tool_call_id=start.call_id, color="green", name=None
            )
        else:
            manager.add_metadata(_model_metadata(start.model), inherit=False)
            [run] = await manager.on_chat_model_start(
                _serialized(start.model),
                as_theirs(start.input),
                invocation_params={"model": getattr(start.model, "name", None)},
                options={},
                name=None,
                batch_size=1,
            )
        return HeardRun(start.kind, run, start.name)

    async def token(self, run: HeardRun, chunk: ours.AIMessageChunk) -> None:
        """Tell the handlers of a part of a model's reply."""
        made: Any = as_theirs(chunk)
        made.id = f"lc_run--{run.manager.run_id}"
        await run.manager.on_llm_new_token(chunk.text, chunk=ChatGenerationChunk(message=made))

    async def end(self, run: HeardRun, output: Any) -> None:
        """Tell the handlers of the end of a run."""
        if run.kind == SILENT:
            return
        made = as_theirs(output)
        if run.kind == "chain":
            await run.manager.on_chain_end(made)
        elif run.kind == "tool":
            await run.manager.on_tool_end(made, color="green", name=run.name)
        else:
            made.id = f"lc_run--{run.manager.run_id}"
            await run.manager.on_llm_end(LLMResult(generations=[[ChatGeneration(message=made)]]))

    async def fail(self, run: HeardRun, error: BaseException) -> None:
        """Tell the handlers of a run that ended with an exception, or that waits for a person."""
        if run.kind == SILENT:
            return
        tell = {"chain": "on_chain_error", "tool": "on_tool_error", "chat_model": "on_llm_error"}[run.kind]
        await getattr(run.manager, tell)(_pause() if isinstance(error, Paused) else error)

    @contextmanager
    def inside(self, run: HeardRun) -> Iterator[None]:
        """Make a run the parent of whatever of LangChain's is called meanwhile."""
        child = run.manager.get_child() if run.kind != "chat_model" else None
        current: Any = var_child_runnable_config.get() or {}  # LangGraph's functions have their objects there
        configurable = {**self.config["configurable"], **(current.get("configurable") or {})}
        config = patch_config(self.config, callbacks=child, configurable=configurable)
        before = self._current.set(run)
        theirs = var_child_runnable_config.set(config)
        given = THREAD_CONFIG.set({**self.given, "callbacks": child})
        try:
            yield
        finally:
            THREAD_CONFIG.reset(given)
            var_child_runnable_config.reset(theirs)
            self._current.reset(before)

    def hears(self, model: Model) -> bool:
        """Return True for a chat model of LangChain, which tells the handlers itself."""
        return isinstance(model, LangChainModel)

    def _root(self) -> AsyncCallbackManager:
        config = self.config
        return AsyncCallbackManager.configure(
            inheritable_callbacks=config["callbacks"],
            inheritable_tags=config["tags"],
            inheritable_metadata=config["metadata"],
        )


def check_callbacks(given: Any) -> None:
    """Raise `UsageError` unless these are callbacks of LangChain: a list of handlers, or a manager."""
    if isinstance(given, BaseCallbackManager):
        return
    listed = given if isinstance(given, list) else [given]
    wrong = [each for each in listed if not isinstance(each, BaseCallbackHandler)]
    if wrong or not isinstance(given, list):
        raise UsageError(
            "config: callbacks is a list of LangChain's callback handlers, or a callback manager; got "
            f"{described(wrong[0] if wrong else given)}."
        )


def join_callbacks(one: Any, other: Any) -> Any:
    """Return two callbacks, lists or managers, as one."""
    check_callbacks(one)
    check_callbacks(other)
    return merge_configs({"callbacks": one}, {"callbacks": other})["callbacks"]


def as_theirs(value: Any) -> Any:
    """Return a value with LangChain's messages in the place of ours."""
    if isinstance(value, ours.Message):
        return value if is_langchain_message(value) else to_langchain(value)
    if isinstance(value, list):
        return [as_theirs(each) for each in value]
    if isinstance(value, dict):
        return {key: as_theirs(each) for key, each in value.items()}
    return value


def _serialized(model: Model | None) -> dict[str, Any]:
    kind = type(model)
    return {"lc": 1, "type": "not_implemented", "id": [kind.__module__, kind.__name__], "name": kind.__name__}


def _model_metadata(model: Model | None) -> dict[str, Any]:
    name, provider = getattr(model, "name", None), getattr(model, "provider", None)
    return {"ls_model_type": "chat", "ls_model_name": name, **({"ls_provider": provider} if provider else {})}


def _pause() -> Exception:
    """Return LangGraph's exception for a pause, which handlers know not to be an error, if LangGraph is there."""
    try:
        from langgraph.errors import GraphInterrupt
    except ImportError:
        return NotEntered("The call waits for a person.")
    return GraphInterrupt(())
