"""The user's tracing settings. The code that needs OpenTelemetry is imported when it is used."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..core import allowed, codec
from ..core.wording import install_hint
from ..errors import InvalidDefinition, UnreadableState, UsageError

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = r"[!-~]([ -~]*[!-~])?"
"""Patterns of a header's name and value. The HTTP client would refuse others with a message that repeats the secret."""

TRACING_OPTIONS = allowed.Options(
    headers=allowed.dict_of_texts().secret,
    metadata=allowed.dict_of_texts().secret,
    workflow_name=allowed.NONEMPTY.or_none,
    group_id=allowed.NONEMPTY.or_none,
    trace_id=allowed.Values(
        "32 hex digits in lower case, not all 0",
        lambda given: type(given) is str and re.fullmatch(r"(?!0+$)[0-9a-f]{32}", given) is not None,
    ).or_none,
    include_sensitive_data=allowed.BOOL.secret,
    tracer_provider=allowed.Values(
        "a TracerProvider", lambda given: callable(getattr(given, "get_tracer", None))
    ).secret.or_none,
)


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """The destination and the content of a run's spans. Needs `pip install ".[otel]"`.

    With an `endpoint`, spans are sent there in batches, by one thread of the process for each endpoint
    and key. With a `tracer_provider`, that provider gets the spans. With neither, OpenTelemetry's global
    provider gets them.
    """

    endpoint: str | None = None
    """The URL of an OTLP receiver for traces over HTTP; a URL without a path gets `/v1/traces`."""
    api_key: str | None = field(default=None, repr=False)
    """The endpoint's key, sent as `Authorization: Bearer ...`. Never shown, and saved with a state only on request."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """More headers for the endpoint; kept as secret as the key."""
    workflow_name: str | None = None
    """The run's name in traces; by default the name of the agent that begins the run."""
    group_id: str | None = None
    """The group of the run, such as a conversation; by default the run's session or conversation id."""
    trace_id: str | None = None
    """The id of the trace, as 32 hex digits, for a run that begins one; by default a new id."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """More attributes for the run's first span."""
    include_sensitive_data: bool = False
    """True if spans contain instructions, messages, arguments, outputs and the texts of errors and refusals."""
    tracer_provider: Any = None
    """Your own provider, in place of an endpoint."""

    def __post_init__(self) -> None:
        TRACING_OPTIONS.check("Tracing", self)
        for name in ("headers", "metadata"):
            object.__setattr__(self, name, dict(getattr(self, name)))
        self._check_endpoint()

    def _check_endpoint(self) -> None:
        """Check the endpoint, key and headers; the messages leave out the value, which may be a misplaced secret."""
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
        """Send all spans that are not sent yet; return True if they were sent within `timeout` seconds.

        Spans for an endpoint are also sent when the process exits, which waits a moment for them.
        """
        allowed.check_option("Tracing.flush", "timeout", timeout, allowed.seconds(), UsageError)
        return bool(exporter().flush(self, timeout))


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


def exporter() -> ModuleType:
    """Return the module that sends spans; raise `InvalidDefinition` if OpenTelemetry is not installed."""
    try:
        from . import provider
    except ImportError as error:
        raise InvalidDefinition(
            f"Tracing needs OpenTelemetry, which is not installed ({error.name}): {install_hint('otel')}"
        ) from None
    return provider


def is_set_up() -> bool:
    """Return True if the program has given OpenTelemetry a global provider. OpenTelemetry is not imported for it."""
    api = sys.modules.get("opentelemetry.trace")
    return api is not None and not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)


# -- saving with a run -------------------------------------------------------------------------------


def save_tracing(tracing: Tracing | None) -> codec.Traced | None:
    """Return the settings that another process needs to send spans to the same endpoint, the key included."""
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


def load_tracing(saved: codec.Traced | None) -> Tracing | None:
    """Return the tracing settings of a saved run."""
    if saved is None:
        return None
    try:
        return Tracing(**{name: getattr(saved, name) for name in saved.__struct_fields__})
    except InvalidDefinition as error:
        raise UnreadableState(f"This saved run is damaged: {error}") from None
