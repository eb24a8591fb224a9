"""Tools that the model's provider runs itself: web and file search, code interpreter, images, hosted MCP servers.

Assentry passes their settings to the provider. What the provider runs without asking never passes the gate or the door.
When a hosted MCP server's tool needs approval, the provider asks, and that request is judged like any other call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from ..core import allowed
from ..core.digest import BadJSON, digest, plain
from ..core.facts import CallKind, Verdict
from ..core.wording import described, holds
from ..errors import InvalidDefinition
from ..models.delta import RawItem
from .context import RunContextWrapper, ToolContext
from .item import ToolApprovalItem
from .settings import plain_settings
from .tool import Approver, Tool

SECRETS = ("authorization", "headers")
"""The settings of an MCP server that may hold secrets. They are sent to the provider, and kept nowhere."""
ANY_ARGUMENTS: dict[str, Any] = {"type": "object", "additionalProperties": True}
HOSTED_DECISIONS: tuple[Verdict, ...] = ("approve", "reject")
"""The decisions on a request of a provider. Nothing can be edited or answered, because the provider runs the tool."""


def _is_rule(given: Any) -> bool:
    sides = isinstance(given, dict) and all(
        key in ("always", "never") and isinstance(given[key], dict) for key in given
    )
    return given in ("always", "never") or bool(given and sides)


IDS = allowed.Values(
    "a list of ids that is not empty",
    lambda given: isinstance(given, list) and given and all(type(each) is str for each in given),
)
RULE = allowed.Values(
    '"always", "never", or {"always": {"tool_names": [...]}, "never": {"tool_names": [...]}}', _is_rule
).or_none


class MCPToolApprovalRequest(Struct, frozen=True):
    """A provider's request to call a tool of an MCP server, as `on_approval_request` gets it."""

    ctx_wrapper: RunContextWrapper[Any]
    data: RawItem
    """The provider's item: `server_label`, `name`, `arguments` and `id`."""


OnApprovalRequest = Callable[[MCPToolApprovalRequest], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Code that decides on a provider's request: `{"approve": bool, "reason": str}`."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HostedTool(Tool):
    """A tool that the provider runs. Assentry only passes on its settings."""

    config: dict[str, Any]
    """The tool's settings, in the form of the provider's API."""
    include: tuple[str, ...] = ()
    """More parts that a response is to have, in the form of the provider's API."""
    kind: CallKind = "hosted"

    @property
    def tool_config(self) -> dict[str, Any]:
        """The tool's settings."""
        return self.config


def _settings(kind: str, config: Any) -> dict[str, Any]:
    """Return a copy of the settings, or raise `InvalidDefinition` unless they are a JSON object."""
    config = plain_settings(config)
    try:
        if not isinstance(config, Mapping):
            raise BadJSON(f"got {described(config)}")
        made: dict[str, Any] = plain(dict(config))
    except BadJSON as error:
        raise InvalidDefinition(f"{kind}: the settings must be a dict of JSON values; {error}.") from None
    return made


class _Hosted(HostedTool):
    """A hosted tool that is made from its settings alone."""

    def __init__(self, name: str, config: Mapping[str, Any], include: tuple[str, ...] = ()) -> None:
        kind = type(self).__name__
        super().__init__(
            name=name,
            description=f"{kind}, which the provider runs.",
            params_json_schema=ANY_ARGUMENTS,
            config=_settings(kind, config),
            include=include,
            version=digest(_settings(kind, config))[:16],
        )


class WebSearchTool(_Hosted):
    """The provider's web search. Settings are dicts, or objects of OpenAI's client."""

    def __init__(
        self,
        user_location: Any = None,
        filters: Any = None,
        search_context_size: Literal["low", "medium", "high"] = "medium",
        external_web_access: bool | None = None,
        search_content_types: Sequence[Literal["text", "image"]] | None = None,
        image_settings: Mapping[str, Any] | None = None,
    ) -> None:
        options = {
            "user_location": user_location,
            "filters": filters,
            "external_web_access": external_web_access,
            "search_content_types": search_content_types,
            "image_settings": image_settings,
        }
        config = {"type": "web_search", "search_context_size": search_context_size, **_given(options)}
        super().__init__("web_search", config)


class FileSearchTool(_Hosted):
    """The provider's search in your vector stores. Settings are dicts, or objects of OpenAI's client."""

    def __init__(
        self,
        vector_store_ids: list[str],
        max_num_results: int | None = None,
        ranking_options: Any = None,
        filters: Any = None,
        include_search_results: bool = False,
    ) -> None:
        allowed.check_option("FileSearchTool", "vector_store_ids", vector_store_ids, IDS)
        allowed.check_option("FileSearchTool", "include_search_results", include_search_results, allowed.BOOL)
        options = {"max_num_results": max_num_results, "ranking_options": ranking_options, "filters": filters}
        config = {"type": "file_search", "vector_store_ids": vector_store_ids, **_given(options)}
        super().__init__("file_search", config, ("file_search_call.results",) if include_search_results else ())


class CodeInterpreterTool(_Hosted):
    """The provider's code interpreter."""

    def __init__(self, tool_config: Any = None) -> None:
        default = {"type": "code_interpreter", "container": {"type": "auto"}}
        super().__init__("code_interpreter", default if tool_config is None else tool_config)


class ImageGenerationTool(_Hosted):
    """The provider's image generation, with its settings: `{"type": "image_generation", "quality": "low"}`."""

    def __init__(self, tool_config: Any = None) -> None:
        config = {"type": "image_generation", **_settings("ImageGenerationTool", tool_config or {})}
        super().__init__("image_generation", config)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


class HostedMCPTool(HostedTool):
    """An MCP server that the provider calls.

    `require_approval` in `tool_config` says which tools need approval, and the provider keeps to it: a tool that needs
    none runs at the provider, outside of Assentry's gate and door. A request for approval is a question like any other,
    unless `on_approval_request` answers it.
    """

    on_approval_request: OnApprovalRequest | None

    def __init__(self, tool_config: Any, on_approval_request: OnApprovalRequest | None = None) -> None:
        config = _settings("HostedMCPTool", tool_config)
        label = config.get("server_label")
        if config.setdefault("type", "mcp") != "mcp" or type(label) is not str or not label or not holds(label):
            raise InvalidDefinition(
                'HostedMCPTool: tool_config needs "type": "mcp" and a "server_label", '
                f"got {described(config.get('type'))} and {described(label)}."
            )
        allowed.check_option("HostedMCPTool", "require_approval", config.get("require_approval"), RULE)
        allowed.check_option("HostedMCPTool", "on_approval_request", on_approval_request, allowed.CALLABLE.or_none)
        shown = {key: value for key, value in config.items() if key not in SECRETS}
        super().__init__(
            name=f"mcp:{label}",
            description=f"The MCP server {label}{_where(config)}, which the provider calls.",
            params_json_schema=ANY_ARGUMENTS,
            server=label,
            version=digest(shown)[:16],
            config=config,
        )
        object.__setattr__(self, "on_approval_request", on_approval_request)
        object.__setattr__(self, "_calls", {})

    def tool_named(self, name: str) -> HostedMCPCall:
        """Return the server's tool of this name, for the gate."""
        calls: dict[str, HostedMCPCall] = self._calls  # type: ignore[attr-defined]
        if name not in calls:
            calls[name] = HostedMCPCall(
                name=name,
                description=f"{name} at the MCP server {self.server}{_where(self.config)}. The provider runs it.",
                params_json_schema=ANY_ARGUMENTS,
                server=self.server,
                version=self.version,  # an approval is for the server as it was: its port, its connector, its tools
                needs_approval=True,
                allowed=HOSTED_DECISIONS,
                on_approval=_approver(self.on_approval_request),
                idempotent=True,
            )
        return calls[name]


def _where(config: Mapping[str, Any]) -> str:
    """Return the server's host; the rest of its address may be secret, and the version covers it."""
    url = config.get("server_url")
    if type(url) is not str:
        connector = config.get("connector_id")
        return f" ({connector})" if type(connector) is str else ""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if not parts.scheme or not parts.hostname:
        raise InvalidDefinition("HostedMCPTool: server_url is not a URL; give one such as https://host/path.")
    return f" ({parts.scheme}://{parts.hostname}{port})"


def _approver(decide: OnApprovalRequest | None) -> Approver | None:
    if decide is None:
        return None

    def on_approval_request(ctx: RunContextWrapper[Any], item: ToolApprovalItem) -> Any:
        return decide(MCPToolApprovalRequest(ctx, RawItem(item.raw_item)))

    return on_approval_request


class HostedMCPCall(Tool):
    """A tool of a hosted MCP server, as the gate judges it. It has no body: the provider runs it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, kind="hosted")

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as they are: only the server knows its defaults."""
        return args

    def bind(self, args: dict[str, Any]) -> Any:
        """Return the arguments as they are."""
        return args

    async def enter(self, ctx: ToolContext[Any], bound: Any) -> Any:
        """Do nothing: the approval goes to the provider with the next request."""
        return None


def is_request(item: Any) -> bool:
    """Return True if a provider's item asks for the approval of a hosted MCP call."""
    return type(item) is dict and item.get("type") == "mcp_approval_request"


__all__ = [
    "CodeInterpreterTool",
    "FileSearchTool",
    "HostedMCPTool",
    "HostedTool",
    "ImageGenerationTool",
    "MCPToolApprovalRequest",
    "WebSearchTool",
]
