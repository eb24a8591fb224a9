"""The base of all tools: offered to the model, judged by the gate, entered by the door.

A new kind of tool adds an adapter and changes neither gate nor door. A tool never changes once it is defined, so the
definition that was fingerprinted is the one that runs.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from ..core import allowed
from ..core.digest import canonical, digest
from ..core.facts import CallKind, Risk, Verdict
from ..core.wording import described, holds, worded
from ..errors import InvalidDefinition
from ..models.model import Native, ToolSpec
from .context import RunContextWrapper, ToolContext
from .deadline import Deadline, deadline_from
from .guardrail import ToolInputGuardrail, ToolOutputGuardrail, guardrails_of
from .item import ToolApprovalItem
from .preview import Preview
from .probe import Probe
from .server import ToolServer

RISK = allowed.one_of("low", "high").or_none


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A rule's answer in place of True: a person must approve the call, which has this risk, for this reason."""

    risk: Risk | None = None
    """The risk of this call; None for the tool's own. A call of high risk takes two acts to approve on the page."""
    reason: str | None = None
    """The reason, for the person who decides; None for "The rule ... asks for approval."."""

    def __post_init__(self) -> None:
        allowed.check_option("Ask", "risk", self.risk, RISK)
        allowed.check_option("Ask", "reason", self.reason, allowed.TEXT.or_none)


Rule = bool | Callable[[RunContextWrapper[Any], dict[str, Any], str], bool | Ask | Awaitable[bool | Ask]]
"""True if a call needs a person's approval, False if it does not, or a function of context, arguments and call id."""

Approver = Callable[[RunContextWrapper[Any], ToolApprovalItem], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]
"""Code that decides in a person's place: `{"approve": bool, "reason": str}`."""

Describe = Callable[[RunContextWrapper[Any], dict[str, Any], str], str | Awaitable[str]]
"""A function of context, arguments and call id that describes a call to the person who decides."""

Previewer = Callable[[RunContextWrapper[Any], dict[str, Any]], Preview | str | Awaitable[Preview | str]]
"""A function of context and canonical arguments that says what a call would do, and changes nothing."""

Enabled = bool | Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]]
K = TypeVar("K")
FailureText = Callable[[RunContextWrapper[Any], Exception], str | Awaitable[str]]


def default_tool_error_function(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """Return the text that tells the model of a tool's exception, unless the tool has its own function."""
    return f"The tool failed with {worded(error)}"


class AlwaysAsk:
    """A rule that asks about every call and says why."""

    def __init__(self, why: str) -> None:
        self.why = why
        self.__qualname__ = type(self).__qualname__
        self.version = digest({"why": why})[:8]

    def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
        """Return True."""
        return True


TOOL_OPTIONS = allowed.Options(
    needs_approval=allowed.BOOL_OR_CALLABLE,
    is_enabled=allowed.BOOL_OR_CALLABLE,
    **dict.fromkeys(
        ("on_approval", "failure_error_function", "probe", "describe", "preview"), allowed.CALLABLE.or_none
    ),
    timeout=allowed.POSITIVE_SECONDS.or_none,
    preview_timeout=allowed.POSITIVE_SECONDS,
    reviewers=allowed.NAMES,
    redact=allowed.NAMES,
    risk=RISK,
    native=allowed.one_of("shell", "apply_patch").or_none,
    idempotent=allowed.BOOL,
    version=allowed.TEXT.or_none,
    tool_input_guardrails=guardrails_of(ToolInputGuardrail),
    tool_output_guardrails=guardrails_of(ToolOutputGuardrail),
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Tool:
    """The base class of all tools. Use `function_tool` to make a tool from a function."""

    revision: ClassVar[int] = 0
    """The number of times that a definition was changed in place, which only a subclass may allow."""

    name: str
    description: str
    params_json_schema: dict[str, Any]
    required: frozenset[str] = frozenset()
    """The parameters that have no default; if there are none, blank arguments count as empty."""
    needs_approval: Rule = False
    allowed: tuple[Verdict, ...] | None = None
    """The decisions that a person may make on a call; None for all that fit."""
    describe: Describe | None = None
    """A function that describes a call to a person."""
    preview: Previewer | None = None
    """A function that says what a call would do, for the person who decides."""
    preview_timeout: float = 10.0
    """The seconds that the preview may take."""
    on_approval: Approver | None = None
    reviewers: Sequence[str] = ()
    """The users, and the groups as "group:name", who may decide on a call; the agent's if empty."""
    redact: Sequence[str] = ()
    """The parameters to mask wherever nobody decides: in lists, messages and logs."""
    risk: Risk | None = None
    """The risk of a call, unless a rule says otherwise. A call of high risk takes two acts to approve on the page."""
    is_enabled: Enabled = True
    timeout: float | None = None
    failure_error_function: FailureText | None = default_tool_error_function
    strict_json_schema: bool = True
    defaults: dict[str, Any] = field(default_factory=dict)
    """The parameters' defaults, where the schema does not have them."""
    deadline: Deadline | float | None = None
    """The time that a question about a call waits; None for the run's setting."""
    idempotent: bool = False
    """True if a call whose outcome is unknown may run again."""
    probe: Probe | None = None
    """A function that finds out the outcome of a call that was interrupted."""
    version: str | None = None
    """A version of the user's own. The fingerprint does not cover the body, so change this when the body changes."""
    server: str | None = None
    tool_input_guardrails: Sequence[ToolInputGuardrail] = ()
    """Guardrails that check the arguments before the body is entered, whoever approved or changed them."""
    tool_output_guardrails: Sequence[ToolOutputGuardrail] = ()
    """Guardrails that check the body's output before anyone else sees it."""
    native: Native | None = None
    """The kind of call that providers have for such a tool; None if it is only a function for every provider."""
    kind: CallKind = "tool"
    fingerprint: str = field(init=False)
    """The digest of what a person is asked about.

    It covers name, description, schema, defaults, server, `version`, and the rule: its bool, or its name and version;
    and the risk, if there is one.
    No code is part of it.
    """
    spec: ToolSpec = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "fingerprint", digest(self._parts())[:32])
        spec = ToolSpec(self.name, self.description, self.params_json_schema, self.strict_json_schema, self.native)
        object.__setattr__(self, "spec", spec)

    def _parts(self) -> dict[str, Any]:
        """Return the parts that the fingerprint covers."""
        return {
            "name": self.name,
            "description": self.description,
            "schema": self.params_json_schema,
            "defaults": self.defaults,
            "server": self.server,
            "version": self.version,
            "rule": self._rule(),
        }

    def _rule(self) -> bool | str:
        """Return the rule with the allowed decisions and the description's name, as a person agrees to them."""
        rule = self.needs_approval if type(self.needs_approval) is bool else callable_mark(self.needs_approval)
        if self.allowed is not None or self.describe is not None:
            told = callable_mark(self.describe) if self.describe is not None else ""
            rule = f"{rule} [{' '.join(self.allowed or ())}] {told}".rstrip()
        rule = f"{rule} for {', '.join(self.reviewers)}" if self.reviewers else rule
        return rule if self.risk is None else f"{rule}, {self.risk} risk"

    @property
    def source(self) -> ToolServer | None:
        """The server that defines the tool and may change it; None for a tool that the program defines."""
        return None

    def named_with_server(self) -> Tool:
        """Return the tool under a name that says which server it is of; a tool of no server stays as it is."""
        return self

    @property
    def as_listed(self) -> Tool:
        """The tool as its server has it: this one, unless an agent's settings have changed its name."""
        return self

    @property
    def knows_its_attempts(self) -> bool:
        """True if the body knows what an earlier attempt did, and compares `ctx.preconditions` with the rest itself."""
        return False

    @property
    def leads_to(self) -> str | None:
        """The name of the agent that works on a call, if the tool is another agent; else None."""
        return None

    @property
    def shape(self) -> dict[str, Any] | None:
        """The schema with all its defaults, if the schema for models lacks them; else None."""
        return None

    @property
    def foreign(self) -> bool:
        """True if a server wrote the schema, which may be of any draft."""
        return False

    def told(self, value: Any) -> Any:
        """Return the body's value in the form that the model gets and the journal keeps; as JSON if it is no text."""
        return value

    def note_use(self) -> None:
        """Note that a run uses the tool: from now on its definition stays as it is."""

    def frozen(self) -> bytes:
        """Return the definition as JSON, to keep with a question; `ToolSnapshot.read` reads it."""
        return self._frozen

    @functools.cached_property
    def _frozen(self) -> bytes:
        parts = {**self._parts(), "kind": self.kind, "agent": self.leads_to, "shape": self.shape}
        names = list(_properties(self.params_json_schema))
        if names != parameter_order(self.params_json_schema):  # canonical JSON sorts the properties
            parts["order"] = names
        return canonical({**parts, "foreign": True} if self.foreign else parts)

    def takes(self, name: str) -> bool:
        """Return True if a call can have an argument of this name."""
        return has_parameter(self.params_json_schema, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _check(self) -> None:
        allowed.check_option("Tool", "name", self.name, allowed.NAME)
        whose = f"Tool {self.name!r}"
        if not holds(f"{self.description}{self.version}"):
            raise InvalidDefinition(f"{whose}: UTF-8 cannot hold its description or version.")
        TOOL_OPTIONS.check(whose, self)
        for option in ("tool_input_guardrails", "tool_output_guardrails", "reviewers", "redact"):
            object.__setattr__(self, option, as_tuple(getattr(self, option)))
        for name in self.redact:
            if not self.takes(name):
                raise InvalidDefinition(f"{whose}: redact names {described(name)}, which is not one of its parameters.")
        object.__setattr__(self, "deadline", deadline_from(whose, self.deadline))

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in; nothing is coerced."""
        raise NotImplementedError

    def bind(self, args: dict[str, Any]) -> Any:
        """Return the arguments in the form that the body takes, or raise `InvalidArguments`."""
        raise NotImplementedError

    async def enter(self, ctx: ToolContext[Any], bound: Any) -> Any:
        """Enter the body. Only the door may call this."""
        raise NotImplementedError


def as_tuple(given: Collection[K]) -> tuple[K, ...]:
    """Return the values as a tuple; those of a set sorted."""
    return tuple(sorted(given) if isinstance(given, set | frozenset) else given)


def has_parameter(schema: Mapping[str, Any], name: str) -> bool:
    """Return True if the schema allows an argument of this name."""
    return name in schema.get("properties", ()) or bool(schema.get("additionalProperties"))


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    given = schema.get("properties")
    return given if isinstance(given, dict) else {}


def parameter_order(schema: Mapping[str, Any], order: Sequence[str] = ()) -> list[str]:
    """Return the names of a schema's parameters: those in `order`, the required ones as listed, then the others."""
    names, required = _properties(schema), schema.get("required")
    listed = [*order, *(required if isinstance(required, list) else ())]
    return list(dict.fromkeys([name for name in (*listed, *sorted(names)) if type(name) is str and name in names]))


def qualified_name(function: Any) -> str:
    """Return the qualified name of a callable, without its module, so that a script and an import of it agree."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None)
    return name if type(name) is str else type(function).__qualname__


def callable_mark(function: Any) -> str:
    """Return the callable's part of a fingerprint: its qualified name, and its `version` attribute if it has one.

    Code is not part of the fingerprint, so set a version when a rule changes: `large.version = "2"`.
    """
    while isinstance(function, functools.partial):
        function = function.func
    version = getattr(function, "version", None)
    if version is None:
        return qualified_name(function)
    if type(version) is not str or not version or not holds(version):
        raise InvalidDefinition(f"The version of {qualified_name(function)} must be text, got {described(version)}.")
    return f"{qualified_name(function)}@{version}"
