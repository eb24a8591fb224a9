"""Tracing as a user declares it. What it needs of OpenTelemetry is in `observe`, which is loaded when it is used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core import codec
from ..core import facts as f
from ..core.digest import described, holds
from ..core.number import is_seconds
from ..errors import InvalidDefinition, UnreadableState, UsageError

if TYPE_CHECKING:
    from types import ModuleType

    from .driver import Driver
    from .observe import Observer

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = r"[!-~]([ -~]*[!-~])?"
"""What may stand in a header. Anything else would be refused by the HTTP client, in words that repeat it."""


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """Where a run's spans go, and what is in them. Needs `pip install assent[otel]`.

    With an `endpoint` they are sent there in batches, by a thread that the process keeps for each
    endpoint and key; with a `tracer_provider` of yours that has them; with neither, OpenTelemetry's
    global provider.
    """

    endpoint: str | None = None
    """An OTLP receiver's URL for traces, over HTTP; one without a path gets `/v1/traces`."""
    api_key: str | None = field(default=None, repr=False)
    """Sent to the endpoint as `Authorization: Bearer ...`. Never shown, and saved with a state only on request."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More headers for the endpoint; as secret as the key."""
    workflow_name: str | None = None
    """What the run is called; the name of the agent that it begins with, if not given."""
    group_id: str | None = None
    """What the run belongs to, such as a conversation; its session or conversation id, if not given."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """What else is to be known of the run, as attributes of its first span."""
    include_sensitive_data: bool = False
    """Whether instructions, messages, arguments, outputs and the texts of errors and refusals are in the spans."""
    tracer_provider: Any = None
    """Your own provider, in place of an endpoint."""

    def __post_init__(self) -> None:
        for name in ("headers", "metadata"):
            given = getattr(self, name)
            if not isinstance(given, Mapping) or not all(_text(v) for pair in given.items() for v in pair):
                raise InvalidDefinition(f"Tracing: {name} must map text to text.")
            object.__setattr__(self, name, dict(given))
        for name in ("workflow_name", "group_id"):
            text = getattr(self, name)
            if text is not None and not (text and _text(text)):
                raise InvalidDefinition(f"Tracing: {name} must be text, got {text!r:.80}.")
        if type(self.include_sensitive_data) is not bool:
            raise InvalidDefinition("Tracing: include_sensitive_data must be True or False.")
        if self.tracer_provider is not None and not callable(getattr(self.tracer_provider, "get_tracer", None)):
            raise InvalidDefinition(
                f"Tracing: tracer_provider must be a TracerProvider, got a {type(self.tracer_provider).__name__}."
            )
        self._check_endpoint()

    def _check_endpoint(self) -> None:
        """What is wrong is said without the value: it may be a secret in the wrong place."""
        if self.endpoint is None:
            if self.api_key is not None or self.headers:
                raise InvalidDefinition("Tracing: api_key and headers are for an endpoint; give endpoint=...")
            return
        if self.tracer_provider is not None:
            raise InvalidDefinition("Tracing: give an endpoint or a tracer_provider, not both.")
        object.__setattr__(self, "endpoint", _url(self.endpoint))
        if self.api_key is not None and (type(self.api_key) is not str or not re.fullmatch(_VALUE, self.api_key)):
            raise InvalidDefinition("Tracing: api_key must be text of printable ASCII, without spaces around it.")
        names = [name.lower() for name in self.headers]
        values = self.headers.values()
        if not all(re.fullmatch(_NAME, each) for each in names) or not all(
            re.fullmatch(_VALUE, each) for each in values
        ):
            raise InvalidDefinition("Tracing: headers must be names and values that HTTP can carry.")
        if self.api_key is not None and "authorization" in names:
            raise InvalidDefinition("Tracing: give api_key or an authorization header, not both.")

    def flush(self, timeout: float = 10.0) -> bool:
        """Send what is not sent yet, and wait for it; whether that was done within these seconds.

        What goes to an endpoint is also sent when the process exits, which waits for it a moment.
        """
        if not is_seconds(timeout):
            raise UsageError(f"timeout is a number of seconds from 0 to 100 years, got {described(timeout)}.")
        return bool(room().flush(self, timeout))


def _text(value: Any) -> bool:
    return type(value) is str and holds(value)


def _url(endpoint: Any) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(endpoint) if type(endpoint) is str and endpoint.isascii() and endpoint.isprintable() else None
        known = parts is not None and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, known = None, False
    if parts is None or not known or " " in endpoint:
        raise InvalidDefinition("Tracing: endpoint must be an http or https URL.")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidDefinition(
            "Tracing: endpoint must be a URL without user, password or query; secrets go to api_key or headers."
        )
    return parts._replace(path="/v1/traces").geturl() if parts.path in ("", "/") else str(endpoint)


def room() -> ModuleType:
    """The module that knows OpenTelemetry, or `InvalidDefinition` if that is not installed."""
    try:
        from . import observe
    except ImportError as error:
        raise InvalidDefinition(
            f"Tracing needs OpenTelemetry, which is not installed ({error.name}): pip install assent[otel]"
        ) from None
    return observe


def observed(driver: Driver, began: f.Began, *, resumed: bool = False) -> Observer | None:
    """Who makes the spans of a drive; None if its run is not traced. A resumed run goes on with its trace."""
    tracing = driver.config.tracing
    return None if tracing is None else room().Observer(driver, tracing, began, resumed)


# -- in a saved run ----------------------------------------------------------------------------------


def save(tracing: Tracing | None) -> codec.Traced | None:
    """What another process needs to send spans to the same endpoint, its key among it."""
    if tracing is None or tracing.endpoint is None:
        return None
    return codec.Traced(
        tracing.endpoint,
        tracing.api_key,
        dict(tracing.headers),
        tracing.workflow_name,
        tracing.group_id,
        dict(tracing.metadata),
        tracing.include_sensitive_data,
    )


def load(saved: codec.Traced | None) -> Tracing | None:
    """Tracing as it was saved."""
    if saved is None:
        return None
    try:
        return Tracing(**{name: getattr(saved, name) for name in saved.__struct_fields__})
    except InvalidDefinition as error:
        raise UnreadableState(f"This saved run is damaged: {error}") from None
