"""The config of a call: the one that is bound to an agent, with the one of the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import allowed
from ..core.wording import described
from ..errors import UsageError

KEYS = ("callbacks", "configurable", "max_concurrency", "metadata", "recursion_limit", "run_id", "run_name", "tags")
CONFIG = allowed.instance_of(Mapping, 'a dict, such as {"configurable": {"thread_id": ...}}').or_none
CONCURRENCY = allowed.COUNT.or_none


def bind_config(bound: Mapping[str, Any], given: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config that `with_config` binds, or raise `UsageError`."""
    allowed.check_option("with_config", "config", given, CONFIG, UsageError)
    whole = {**(given or {}), **more}
    allowed.check_names("with_config", whole, KEYS, UsageError)
    return merge_configs(bound, whole)


def merge_configs(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return two configs as one: dicts are merged, lists are joined, and of other values the second counts."""
    out = dict(one)
    for key, value in other.items():
        was = out.get(key)
        if value is None:
            continue
        if key in ("configurable", "metadata") and was:
            out[key] = {**was, **value}
        elif key == "tags" and was:
            out[key] = list(dict.fromkeys([*was, *value]))
        elif key == "callbacks" and was:
            out[key] = _join_callbacks(was, value)
        else:
            out[key] = value
    return out


def _join_callbacks(one: Any, other: Any) -> Any:
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *other]
    from .langchain.callback import join_callbacks  # a callback manager is LangChain's

    return join_callbacks(one, other)


def concurrency_of(config: Any) -> int | None:
    """Return the number of calls that may run at once, or raise `UsageError`; None if the config does not limit it."""
    limit = config.get("max_concurrency") if isinstance(config, Mapping) else None
    allowed.check_option("config", "max_concurrency", limit, CONCURRENCY, UsageError)
    return limit


def configs_of(inputs: Any, config: Any) -> list[Any]:
    """Return a config for each input of a batch, or raise `UsageError`."""
    if not isinstance(inputs, list | tuple):
        raise UsageError(f"batch takes a list of inputs, got {described(inputs)}.")
    if not isinstance(config, list | tuple):
        return [config] * len(inputs)
    if len(config) != len(inputs):
        raise UsageError(
            f"batch needs a config for each of its {len(inputs)} inputs, or one for all; got {len(config)}."
        )
    return list(config)
