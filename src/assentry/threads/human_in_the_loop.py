"""The human-in-the-loop middleware: the calls that need a person's decision.

In an agent the middleware has no hooks. Each tool that it names is replaced by a copy with an approval rule, the
allowed decisions and a description. The gate judges by these for every call, and they are part of what a person
approves. The hooks that it has are for programs that call them.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NotRequired, TypedDict, get_args

from ..approval.decision import Approve, Decision, Edit, Reject, Respond
from ..core import allowed
from ..core.facts import Verdict
from ..core.transcript import noticed_text
from ..core.wording import described
from ..definitions.context import RunContextWrapper
from ..definitions.tool import Tool, qualified_name
from ..errors import InvalidDecision, InvalidDefinition, UsageError
from ..runtime.tool_pause import HERE
from .foreign import is_langchain_message
from .interrupts import PREFIX, alone_request, decision_alone, default_description, interrupt, single_decision
from .message import AIMessage, ToolMessage, tool_call
from .middleware import AgentMiddleware, done_by_gate
from .middleware_context import Runtime, ToolCallRequest, runtime_in, state_in
from .review import (
    EDIT_NOTICE,
    Action,
    ActionRequest,
    DecisionType,
    HITLRequest,
    InterruptMode,
    ReviewConfig,
    decision_schema,
    edit_notice_text,
    rejection_text,
)
from .state import State

DECISIONS: tuple[Verdict, ...] = get_args(DecisionType)
DEFAULT: tuple[Verdict, ...] = ("approve", "edit", "reject")
EDITED = "hitl_edited_tool_calls"
"""The key of an update for the edited actions, by the ids of the calls."""
TOOLS = allowed.list_of(allowed.NONEMPTY.fits, "names of tools")
SETTING = allowed.instance_of(Mapping, 'True, False or {"allowed_decisions": [...]}')
INTERRUPT_OPTIONS = allowed.Options(
    allowed_decisions=allowed.Values(
        f"a list of one or more of {', '.join(DECISIONS)}",
        lambda given: isinstance(given, list | tuple) and given and set(map(str, given)) <= set(DECISIONS),
    ),
    description=allowed.TEXT_OR_CALLABLE.or_none,
    args_schema=allowed.instance_of(Mapping, "a JSON schema").or_none,
    when=allowed.CALLABLE.or_none,
)


class InterruptOnConfig(TypedDict):
    """The options for asking a person about a tool's calls."""

    allowed_decisions: list[Verdict]
    """The allowed decisions: `approve`, `edit`, `reject`, `respond`."""
    description: NotRequired[str | Callable[[dict[str, Any], dict[str, Any], Any], str]]
    """The text that the person reads, or a function of `(tool_call, state, runtime)` that returns the text."""
    args_schema: NotRequired[dict[str, Any]]
    """Accepted, and without effect: an edit is checked against the tool's own schema."""
    when: NotRequired[Callable[[ToolCallRequest], bool]]
    """A function that returns True if a call needs a person; called once, when the call is made."""


class HumanInTheLoopMiddleware(AgentMiddleware):
    """A middleware that lets a person decide on calls of these tools before they run.

    Args:
        interrupt_on: A dict from tool names, or patterns such as `"delete_*"`, to `True` (approve, edit or reject),
            `False` (no question from this middleware; the tool's own rule still applies), or an `InterruptOnConfig`.
            A name is preferred to a pattern, and a pattern to a later pattern.
        description_prefix: The beginning of the default description of a call.
        edit_notice: The text that tells the model, before the result of an edited call, that a person has changed the
            call. What ran follows the text. None tells the model nothing.
        interrupt_mode: "batched" for one interrupt for all calls of a turn that need decisions; no call of the turn
            runs before all of them are decided. "per_call" for an interrupt for each such call, with a
            `ToolApprovalRequest` as its value, answered with one decision; calls that need nobody run at once.
    """

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = PREFIX,
        edit_notice: str | None = EDIT_NOTICE,
        interrupt_mode: InterruptMode = "batched",
    ) -> None:
        whose = type(self).__name__
        allowed.check_option(whose, "interrupt_on", interrupt_on, allowed.instance_of(Mapping, "a dict by tool names"))
        allowed.check_option(whose, "the keys of interrupt_on", list(interrupt_on), TOOLS)
        allowed.check_option(whose, "description_prefix", description_prefix, allowed.TEXT)
        allowed.check_option(whose, "edit_notice", edit_notice, allowed.TEXT.or_none)
        if interrupt_mode not in get_args(InterruptMode):
            raise InvalidDefinition(
                f"{whose}: interrupt_mode must be 'batched' or 'per_call', got {described(interrupt_mode)}."
            )
        self._configs = {name: _config(name, given) for name, given in interrupt_on.items()}
        self.interrupt_on = {name: config for name, config in self._configs.items() if config is not None}
        """The options of the tools whose calls may need a person."""
        self.description_prefix = description_prefix
        self.edit_notice = edit_notice
        self.interrupt_mode = interrupt_mode

    # -- in an agent -------------------------------------------------------------------------------

    def agent_options(self) -> dict[str, Any]:
        """Return the options of a `ThreadedAgent` that this middleware sets."""
        return {
            "description_prefix": self.description_prefix,
            "edit_notice": self.edit_notice,
            "interrupt_mode": self.interrupt_mode,
        }

    def apply(self, tools: Sequence[Tool], *, dynamic: bool = False) -> list[Tool]:
        """Return the tools; those named in `interrupt_on` are copies with the rule, decisions and description.

        A name that no tool has is an error, unless there may be further tools at run time.
        """
        names = [tool.name for tool in tools]
        for pattern in self._configs if not dynamic else ():
            if pattern not in names and not any(fnmatchcase(name, pattern) for name in names):
                there = ", ".join(names) or "none"
                raise InvalidDefinition(f"interrupt_on names {pattern!r}, which no tool is called; there are: {there}.")
        return [self._apply_to(tool) for tool in tools]

    def _apply_to(self, tool: Tool) -> Tool:
        config = self._config(tool.name)
        if config is None:
            return tool
        if tool.kind == "hosted":
            raise InvalidDefinition(
                f"interrupt_on names {tool.name!r}, which the provider runs: this middleware cannot ask about it. Give "
                f"an MCP server require_approval in its tool_config, and say {{{tool.name!r}: False}} here."
            )
        when, text = config.get("when"), config.get("description")
        return replace(
            tool,
            needs_approval=True if when is None or tool.needs_approval is True else When(tool, when),
            allowed=tuple(config["allowed_decisions"]),
            describe=None if text is None else Described(tool, text),
        )

    def _config(self, name: str) -> InterruptOnConfig | None:
        if name in self._configs:
            return self._configs[name]
        return next((config for pattern, config in self._configs.items() if fnmatchcase(name, pattern)), None)

    # -- for programs ------------------------------------------------------------------------------

    @done_by_gate
    def after_model(self, state: State, runtime: Runtime) -> dict[str, Any] | None:
        """Ask about the calls of the last `AIMessage`, with `interrupt`, and return the update that follows.

        An agent does not call this: its gate asks. Inside an agent, and in the mode "per_call", it returns None.

        Returns:
            `{"messages": [...]}` with the message and a `ToolMessage` for each call that is not to run, and the edited
            actions by the ids of their calls; None if no call needs a person.
        """
        if self.interrupt_mode == "per_call" or HERE.get() is not None:
            return None
        message = next((each for each in reversed(state["messages"]) if isinstance(each, AIMessage)), None)
        calls = message.tool_calls if message is not None else []
        asked = [(call, config) for call in calls if (config := self._asks_about(call, state, runtime)) is not None]
        if not asked:
            return {EDITED: {}} if state.get(EDITED) else None
        request = self._request(asked, state, runtime)
        answer = interrupt(request)
        given = answer.get("decisions") if isinstance(answer, dict) else None
        if not isinstance(given, list):
            raise InvalidDecision(f'The answer must be {{"decisions": [...]}}; got {described(answer)}.')
        if len(given) != len(asked):
            raise InvalidDecision(
                f"Number of human decisions ({len(given)}) does not match number of hanging tool calls ({len(asked)})."
            )
        made: list[ToolMessage] = []
        edited: dict[str, Action] = {}
        for (call, config), decision, action in zip(asked, given, request["action_requests"], strict=True):
            chosen = _decision(decision, call, config, action)
            if type(chosen) is Edit:
                edited[call["id"]] = _action(chosen)
            elif type(chosen) is not Approve:
                made.append(_tool_message(call, chosen))
        return {"messages": [message, *_alike(message, made)], EDITED: edited}

    @done_by_gate
    async def aafter_model(self, state: State, runtime: Runtime) -> dict[str, Any] | None:
        """Do what `after_model` does."""
        return self.after_model(state, runtime)

    @done_by_gate
    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Run the call as it was edited, if `after_model` has put an edit into the state, and say so in the result.

        In the mode "per_call", ask about the call first, with `interrupt`. An agent does not call this: its door runs
        what was approved. Inside an agent, it only runs the handler.
        """
        request, action, instead = self._decided(request)
        return instead if instead is not None else self._noticed(handler(request), request, action)

    @done_by_gate
    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Do what `wrap_tool_call` does, with an async handler."""
        request, action, instead = self._decided(request)
        return instead if instead is not None else self._noticed(await handler(request), request, action)

    def _asks_about(
        self, call: dict[str, Any], state: State, runtime: Runtime, tool: Tool | None = None
    ) -> InterruptOnConfig | None:
        """Return the options for a call that needs a person; None if it needs nobody."""
        config = self._config(call["name"])
        when = config.get("when") if config is not None else None
        if when is not None and not _at_once(when(ToolCallRequest(call, tool, state, runtime)), "when"):
            return None
        return config

    def _request(
        self, asked: list[tuple[dict[str, Any], InterruptOnConfig]], state: State, runtime: Any
    ) -> HITLRequest:
        actions: list[ActionRequest] = []
        reviews: list[ReviewConfig] = []
        for call, config in asked:
            name, args, text = call["name"], call["args"], config.get("description")
            if callable(text):
                text = _at_once(text(call, state, runtime), "description")
            if text is None:
                text = default_description(self.description_prefix, name, args)
            actions.append({"name": name, "args": args, "arguments": args, "description": text})
            reviews.append({"action_name": name, "allowed_decisions": list(config["allowed_decisions"])})
        return {"action_requests": actions, "review_configs": reviews}

    def _decided(self, request: ToolCallRequest) -> tuple[ToolCallRequest, Action | None, ToolMessage | None]:
        """Return the request to run, its edit if it has one, and the message in its place if it is not to run."""
        call, state = request.tool_call, request.state
        if HERE.get() is not None:
            return request, None, None
        if self.interrupt_mode == "batched":
            action: Action | None = (state.get(EDITED) or {}).get(call.get("id"))
            return *_edited(request, action), None
        config = self._asks_about(call, state, request.runtime, request.tool)
        if config is None:
            return request, None, None
        shown = self._request([(call, config)], state, request.runtime)["action_requests"][0]
        schema = decision_schema(config["allowed_decisions"], call["name"], request.tool)
        answer = interrupt(alone_request(call["id"], shown), response_schema=schema)
        chosen = decision_alone(answer, shown, config["allowed_decisions"])
        if type(chosen) is Edit:
            return *_edited(request, _action(chosen)), None
        return request, None, None if type(chosen) is Approve else _tool_message(call, chosen)

    def _noticed(self, result: Any, request: ToolCallRequest, action: Action | None) -> Any:
        """Return the result of a handler with the notice of an edit before it."""
        notice = edit_notice_text(self.edit_notice, [(action["name"], action["args"])]) if action is not None else ""
        if not notice:
            return result
        if isinstance(result, ToolMessage):
            return _with_notice(result, notice)
        update: Any = getattr(result, "update", None)
        messages = update.get("messages") if isinstance(update, dict) else None
        if not isinstance(messages, list):
            return result
        id = request.tool_call.get("id")
        own = [isinstance(each, ToolMessage) and each.tool_call_id == id for each in messages]
        new = [_with_notice(each, notice) if mine else each for each, mine in zip(messages, own, strict=True)]
        return replace(result, update={**update, "messages": new})


def _edited(request: ToolCallRequest, action: Action | None) -> tuple[ToolCallRequest, Action | None]:
    """Return the request with an edit, and the edit; raise `InvalidDecision` if there is no such tool."""
    call, tool = request.tool_call, request.tool
    if action is None:
        return request, None
    if action["name"] != call["name"]:
        tools = {each.name: each for each in getattr(request.runtime, "tools", None) or ()}
        tool = tools.get(action["name"])
        if tool is None:
            there = ", ".join(sorted(tools)) or "none"
            raise InvalidDecision(
                f"The edit of {call['id']!r} names {action['name']!r}, which is not an available tool; there are: "
                f"{there}."
            )
    edited = {**call, "name": action["name"], "args": action["args"]}
    return ToolCallRequest(edited, tool, request.state, request.runtime), action


def _alike(message: Any, made: list[ToolMessage]) -> list[Any]:
    """Return messages in LangChain's classes if this message is LangChain's."""
    if not is_langchain_message(message):
        return list(made)
    from .langchain.message import to_langchain

    return [to_langchain(each) for each in made]


def _with_notice(message: ToolMessage, notice: str) -> ToolMessage:
    """Return a copy of a message with the notice of an edit before its content, unless it has the notice already."""
    content = message.content
    if notice in str(content if isinstance(content, str) else list(content)):
        return message
    made = copy.copy(message)
    if isinstance(content, str):
        made.content = noticed_text(notice, content)
        return made
    words = noticed_text(notice, " ").rstrip() if content else notice
    plain = bool(content) and all(isinstance(each, str) for each in content)
    made.content = [words if plain else {"type": "text", "text": words}, *content]
    return made


def _decision(given: Any, call: dict[str, Any], config: InterruptOnConfig, action: ActionRequest) -> Decision:
    """Return a decision on a call, or raise `InvalidDecision`."""
    kind, fits = given.get("type") if isinstance(given, dict) else None, config["allowed_decisions"]
    if kind not in fits:
        raise InvalidDecision(
            f"Unexpected human decision: {given}. Decision type {kind!r} is not allowed for tool {call['name']!r}. "
            f"Expected one of {list(fits)} based on the tool's configuration."
        )
    return single_decision(given, action, fits)


def _action(edit: Edit) -> Action:
    return {"name": edit.tool or "", "args": edit.arguments}


def _tool_message(call: dict[str, Any], decision: Decision) -> ToolMessage:
    """Return the message that stands in place of the result of a call that does not run."""
    name, id = call["name"], call["id"]
    if type(decision) is Respond:
        return ToolMessage(content=decision.output, name=name, tool_call_id=id)
    words = decision.message if type(decision) is Reject else None
    return ToolMessage(content=rejection_text(name, id, words), name=name, tool_call_id=id, status="error")


def _at_once(value: Any, option: str) -> Any:
    """Return the value of a function that was called directly, or raise `UsageError` if it must be awaited."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise UsageError(f"after_model was called outside an agent, and cannot await {option!r}, which is async.")
    return value


def _config(name: str, given: Any) -> InterruptOnConfig | None:
    """Return the checked options for a tool; None if its calls need no person."""
    if given is False:
        return None
    if given is True:
        return {"allowed_decisions": list(DEFAULT)}
    allowed.check_option("HumanInTheLoopMiddleware", f"interrupt_on[{name!r}]", given, SETTING)
    INTERRUPT_OPTIONS.check_items(
        f"HumanInTheLoopMiddleware: interrupt_on[{name!r}]", {"allowed_decisions": None, **given}
    )
    made: Any = {**given, "allowed_decisions": list(dict.fromkeys(given["allowed_decisions"]))}
    return made  # type: ignore[no-any-return]


class When:
    """A `when` function as the approval rule of a tool; the tool's own rule is called first."""

    def __init__(self, tool: Tool, when: Callable[[ToolCallRequest], Any]) -> None:
        self.tool, self.when = tool, when
        self.__qualname__ = qualified_name(when)
        self.version = getattr(when, "version", None)

    async def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> Any:
        own = self.tool.needs_approval
        verdict = await _await_verdict(own(ctx, args, call_id)) if callable(own) else False
        if verdict is not False:
            return verdict
        call, state = tool_call(self.tool.name, args, call_id), functools.partial(state_in, ctx)
        return await _await_verdict(self.when(ToolCallRequest(call, self.tool, state, runtime_in(ctx))))


async def _await_verdict(verdict: Any) -> Any:
    return await verdict if inspect.isawaitable(verdict) else verdict


class Described:
    """A `description` option in the form that the gate calls."""

    def __init__(self, tool: Tool, text: Any) -> None:
        self.tool, self.text = tool, text
        self.__qualname__ = qualified_name(text) if callable(text) else "text"
        self.version = getattr(text, "version", None) if callable(text) else None

    def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> Any:
        if not callable(self.text):
            return self.text
        return self.text(tool_call(self.tool.name, args, call_id), state_in(ctx), runtime_in(ctx))
