"""The setting `require_approval` of an MCP server: which of its tools wait for a person.

A server's hints about its own tools may make a call wait. They let a call pass only if the user trusts them, by name.
A setting by name is about tools that the server has. If the server does not list one of them, it may have another name
now, so the tools that the setting does not name wait too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..core import allowed
from ..core.wording import described, shortened
from ..definitions.context import JUDGED, RunContextWrapper
from ..definitions.tool import AlwaysAsk, Rule, qualified_name
from ..errors import InvalidDefinition

if TYPE_CHECKING:
    from mcp.types import Tool as Listed

Setting = Literal["always", "never"] | bool
ApprovalFunction = Callable[..., bool | Awaitable[bool]]
"""A function of run context, agent and listed tool, and of the arguments if it takes a fourth parameter."""
Policy = Callable[["Listed", Collection[str]], Rule]
"""A function of a listed tool and of the names of all, that returns True, False, or the rule to ask for each call."""

SETTINGS = {"always": True, "never": False}
TOOL_NAMES = allowed.list_of(lambda name: type(name) is str and name, "a list of tool names")
KEYS = TOOL_NAMES.in_words("names of tools")
SHAPES = (
    '"always", "never", a bool, None, {"tool_name": "always" | "never" | bool}, {"always": {"tool_names": [...]}, '
    '"never": {"tool_names": [...]}}, a function, ask_if_destructive(...) or ask_unless_read_only(...)'
)


@dataclass(frozen=True)
class AnnotationRule:
    """A rule by a server's annotations; made by `ask_if_destructive` and `ask_unless_read_only`."""

    base: Any
    trusts_read_only: bool

    def policy(self, whose: str) -> Policy:
        """Return the rule of each tool."""
        base = policy_from(whose, self.base)

        def by_hint(listed: Listed, names: Collection[str]) -> Rule:
            hints, rule = listed.annotations, base(listed, names)
            if self.trusts_read_only:
                return rule if rule is not False else not (hints is not None and hints.read_only_hint is True)
            return True if hints is not None and hints.destructive_hint is True else rule

        return by_hint


RequireApproval = Setting | Mapping[str, Any] | ApprovalFunction | AnnotationRule | None
"""The shapes of `require_approval`: a word or bool, settings by tool name, a function, or a rule by annotations."""


def ask_if_destructive(otherwise: Any = None) -> AnnotationRule:
    """Return a rule for `require_approval`: calls of tools that the server calls destructive wait for a person.

    The hint only adds questions. A tool without it is judged by `otherwise`, which has any other shape of
    `require_approval`.
    """
    return AnnotationRule(otherwise, trusts_read_only=False)


def ask_unless_read_only(*, trust_annotations: Literal[True], always: Sequence[str] = ()) -> AnnotationRule:
    """Return a rule for `require_approval`: all calls wait for a person, but those of read-only tools.

    Only the server says that a tool is read-only. A server that lies about it, or is taken over, then has its calls run
    unseen, so give `trust_annotations=True` only for a server that you would trust with that.

    Args:
        trust_annotations: True, to say that the server's `readOnlyHint` is trusted.
        always: The names of tools whose calls always wait, whatever the server says of them.
    """
    if trust_annotations is not True:
        raise InvalidDefinition(
            "ask_unless_read_only trusts what the server says about its own tools; give trust_annotations=True if you "
            "trust the server, or name the tools in require_approval."
        )
    return AnnotationRule(dict.fromkeys(_names("ask_unless_read_only", "always", always), "always"), True)


def policy_from(whose: str, given: Any) -> Policy:
    """Return the policy of a `require_approval`, or raise `InvalidDefinition`."""
    if isinstance(given, AnnotationRule):
        return given.policy(whose)
    if given is None or type(given) is bool or (type(given) is str and given in SETTINGS):
        needs = _setting(whose, given) if given is not None else False
        return lambda listed, names: needs
    if isinstance(given, Mapping):
        named = _by_lists(whose, given) if _has_lists(given) else _by_name(whose, given)
        return lambda listed, names: named[listed.name] if listed.name in named else _of_others(named, names)
    if callable(given) and not isinstance(given, type):
        takes_arguments(given)
        return lambda listed, names: ServerRule(given, listed)
    raise InvalidDefinition(f"{whose}: require_approval must be {SHAPES}, got {described(given)}.")


def _of_others(named: Mapping[str, bool], names: Collection[str]) -> Rule:
    """Return the rule of a tool that a setting does not name: it waits if the server lacks one that it does name."""
    missing = [name for name in named if name not in names]
    if not missing:
        return False
    shown = shortened(", ".join(map(repr, missing)), 200)
    return AlwaysAsk(
        f"require_approval names {shown}, which the server does not list: it may have another name now, so every "
        "tool that is not named waits."
    )


def _setting(where: str, given: Any) -> bool:
    if type(given) is bool:
        return given
    if type(given) is str and given in SETTINGS:
        return SETTINGS[given]
    raise InvalidDefinition(f'{where} must be "always", "never", True or False, got {described(given)}.')


def _has_lists(given: Mapping[Any, Any]) -> bool:
    return any(isinstance(given.get(word), Mapping) for word in SETTINGS)


def _by_name(whose: str, given: Mapping[Any, Any]) -> dict[str, bool]:
    allowed.check_option(whose, "the keys of require_approval", list(given), KEYS)
    return {name: _setting(f"{whose}: require_approval[{name!r}]", each) for name, each in given.items()}


def _by_lists(whose: str, given: Mapping[Any, Any]) -> dict[str, bool]:
    allowed.check_names(f"{whose}: require_approval", given, SETTINGS)
    named: dict[str, bool] = {}
    for word, needs in SETTINGS.items():
        for name in _names_under(whose, word, given.get(word, {"tool_names": []})):
            if named.get(name, needs) is not needs:
                raise InvalidDefinition(f'{whose}: require_approval has {name!r} under "always" and under "never".')
            named[name] = needs
    return named


def _names_under(whose: str, word: str, given: Any) -> list[str]:
    if not isinstance(given, Mapping) or set(given) != {"tool_names"}:
        raise InvalidDefinition(
            f'{whose}: require_approval["{word}"] must be {{"tool_names": [...]}}, got {described(given)}.'
        )
    return _names(whose, f'require_approval["{word}"]["tool_names"]', given["tool_names"])


def _names(whose: str, option: str, given: Any) -> list[str]:
    allowed.check_option(whose, option, given, TOOL_NAMES)
    return list(given)


def takes_arguments(rule: ApprovalFunction) -> bool:
    """Return True if a rule takes the arguments as a fourth parameter; raise `InvalidDefinition` if it takes less."""
    try:
        shape = inspect.signature(rule)
    except (TypeError, ValueError):  # a function without a signature gets what it is said to get
        return False
    for count in (4, 3):
        try:
            shape.bind(*[None] * count)
        except TypeError:
            continue
        return count == 4
    raise InvalidDefinition(
        f"require_approval: {described(rule)} must take the run context, the agent and the tool, and may take the "
        "arguments as a fourth parameter."
    )


class ServerRule:
    """A `require_approval` function, for one tool, in the form that the gate calls."""

    def __init__(self, rule: ApprovalFunction, listed: Listed) -> None:
        self._rule, self._listed, self._all = rule, listed, takes_arguments(rule)
        self.__qualname__ = qualified_name(rule)
        self.version = getattr(rule, "version", None)

    def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool | Awaitable[bool]:
        """Return the verdict on a call."""
        agent = JUDGED.get()
        return self._rule(ctx, agent, self._listed, args) if self._all else self._rule(ctx, agent, self._listed)
