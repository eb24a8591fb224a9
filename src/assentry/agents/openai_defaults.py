"""The defaults for OpenAI that programs set, and the log."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Literal

from ..core import allowed
from ..errors import UsageError
from ..models.named import set_openai_api
from ..models.openai_client import set_openai_client, set_openai_key
from .absent import ABSENT, find_absent
from .models.openai_agent_registration import OpenAIAgentRegistrationConfig, refuse_registration

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = [
    "enable_verbose_stdout_logging",
    "set_default_openai_agent_registration",
    "set_default_openai_api",
    "set_default_openai_client",
    "set_default_openai_harness",
    "set_default_openai_key",
    "set_default_openai_responses_transport",
]

_stdout: logging.StreamHandler[Any] | None = None


def set_default_openai_key(key: str, use_for_tracing: bool = True) -> None:
    """Set the key of all models of OpenAI that have no client of their own. Traces do not go to OpenAI."""
    set_openai_key(key)


def set_default_openai_client(client: AsyncOpenAI, use_for_tracing: bool = True) -> None:
    """Set the client of all models of OpenAI that have none of their own. Traces do not go to OpenAI."""
    set_openai_client(client)


def set_default_openai_api(api: Literal["chat_completions", "responses"]) -> None:
    """Set the API by which OpenAI's models are asked that are given by their names."""
    set_openai_api(api)


def set_default_openai_responses_transport(transport: Literal["http", "websocket"]) -> None:
    """Set how the Responses API is asked: by HTTP, and not by a websocket."""
    allowed.check_option(
        "set_default_openai_responses_transport", "transport", transport, allowed.one_of("http", "websocket")
    )
    if transport != "http":
        raise UsageError(f"set_default_openai_responses_transport: {ABSENT['OpenAIResponsesWSModel']}.")


def set_default_openai_agent_registration(config: OpenAIAgentRegistrationConfig | dict[str, Any] | None) -> None:
    """Refuse to register agents with OpenAI; None is fine."""
    refuse_registration("set_default_openai_agent_registration", config)


def set_default_openai_harness(harness_id: str | None) -> None:
    """Refuse to send a harness id to OpenAI; None is fine."""
    refuse_registration("set_default_openai_harness", harness_id)


def enable_verbose_stdout_logging() -> None:
    """Write all of Assentry's log to the standard output."""
    global _stdout
    log = logging.getLogger("assentry")
    log.setLevel(logging.DEBUG)
    if _stdout is not None:
        log.removeHandler(_stdout)
    _stdout = logging.StreamHandler(sys.stdout)
    log.addHandler(_stdout)


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
