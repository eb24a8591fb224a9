"""`create_agent`: checks the definition and makes an ordinary agent with threads from it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from ..core import allowed
from ..core.wording import described
from ..definitions.agent import Agent
from ..definitions.function_tool import thread_tool
from ..definitions.tool import Tool
from ..errors import InvalidDefinition
from ..models.model import DEFAULT_SETTINGS, Model, ModelSettings
from ..models.named import model_from
from ..runtime.agent_graph import AgentGraph
from .agent import MAX_TURNS, ThreadAgent
from .call_option import check_no_breakpoint
from .foreign import is_langchain, is_langchain_kind, langchain_bases
from .human_in_the_loop import HumanInTheLoopMiddleware
from .injection import recognize
from .message import SystemMessage
from .message_items import given_message
from .middleware import AgentMiddleware, checked_middleware, hooks_of
from .model import HookedModel
from .response_format import read_response_format
from .saver import store_of
from .schema import ContextSchema
from .state import StateSchema
from .threaded_agent import ThreadedAgent
from .tool_middleware import WrappedTool, wrap_tool


def create_agent(
    model: Model | str,
    tools: Sequence[Any] | None = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    middleware: Sequence[Any] = (),
    checkpointer: Any = None,
    response_format: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    store: Any = None,
    model_settings: ModelSettings | None = None,
    name: str | None = None,
    max_turns: int = MAX_TURNS,
    debug: bool = False,
    interrupt_before: Sequence[str] | None = None,
    interrupt_after: Sequence[str] | None = None,
    transformers: Sequence[Any] | None = None,
    cache: Any = None,
) -> ThreadAgent:
    """Make an agent with threads.

    Args:
        model: The model, or its name, such as "gpt-5.2" or "openai:gpt-5.2".
        tools: Functions, Assentry's tools, LangChain's tools, and other agents.
        system_prompt: The instructions for the model.
        middleware: A `HumanInTheLoopMiddleware` for approvals, and user code around the model and the tools, also as
            LangChain's middleware.
        checkpointer: The storage of threads: `InMemorySaver()`, `SqliteSaver(path)`, `PostgresSaver(url)`, or a store.
            True for an agent that is a tool of another agent and is stored in that agent's threads.
        response_format: The type of the final output, as `result["structured_response"]`; a JSON schema; or
            `ToolStrategy(...)` or `ProviderStrategy(...)`, which say how the model gives it.
        state_schema: A TypedDict, such as a subclass of `AgentState`, with keys of the state beside the messages. A key
            may have a reducer: `Annotated[list[str], operator.add]`.
        context_schema: The type of the context, such as a dataclass. A mapping is converted to this type at once; on
            resume the saved context is converted again.
        store: A store across threads, such as LangGraph's `InMemoryStore()`, for tools and hooks as `runtime.store`.
        model_settings: Settings for the model calls.
        name: The agent's name in the store, "agent" if there is none, and of its model's messages.
        max_turns: The number of model calls allowed in one run.
        debug: True to print the updates and the state of each run.
        interrupt_before: Only None or an empty list; use a `HumanInTheLoopMiddleware`.
        interrupt_after: Only None or an empty list.
        transformers: Only None or an empty list.
        cache: No effect: no node of an agent is cached.
    """
    _check_absent(interrupt_before, interrupt_after, transformers)
    allowed.check_option("create_agent", "debug", debug, allowed.BOOL)
    allowed.check_option("create_agent", "max_turns", max_turns, allowed.COUNT)
    asked = model_from("create_agent", model)
    around = checked_middleware(_adapted(middleware))
    gates = _gates(around)
    hooked = HookedModel(asked, around, asked if isinstance(model, str) else model, response_format)
    told = _told(system_prompt)
    state_schemas = [*(each.state_schema for each in around), state_schema]
    format = read_response_format(response_format)
    every = [*_all_tools(tools, around, gates), *format.tools]
    ending = [each.name for each in format.tools]
    direct = [each.name for each in every if isinstance(each, WrappedTool) and each.return_direct]
    agent = ThreadedAgent(
        "agent" if name is None else name,
        None if told is None else str(told.text),
        every,
        hooked if not hooked.repeats or name is not None or getattr(asked, "takes_messages", False) else asked,
        output_type=format.output_type,
        names_messages=name is not None,
        system_message=told if told is not None and not isinstance(told.content, str) else None,
        speaks_langchain=_is_langchain(model, tools, middleware, system_prompt, state_schema, response_format),
        **(gates[0].agent_options() if gates else {}),
        state_schema=StateSchema(each for each in state_schemas if each is not None),
        tool_use_behavior={"stop_at_tool_names": ending + direct} if ending or direct else "run_llm_again",
        reset_tool_choice=not ending,
        direct=frozenset(direct),
        ending=frozenset(ending),
        make_tool=functools.partial(_add_tool, around, gates, checkpointer is not None),
        memory=_memory(store),
        model_settings=_settings(model_settings, ending),
    )
    schema = ContextSchema(context_schema) if context_schema is not None else None
    inner = checkpointer is True
    threads = None if inner else store_of(checkpointer)
    made = ThreadAgent(agent, threads, inner=inner, gated=bool(gates), schema=schema, max_turns=max_turns, debug=debug)
    made.unanswerable = _unanswerable(agent) if threads is None and not inner else None
    return made


def _check_absent(interrupt_before: Any, interrupt_after: Any, transformers: Any) -> None:
    """Raise `InvalidDefinition` for an option of LangChain's that has no meaning here."""
    check_no_breakpoint("create_agent", "interrupt_before", interrupt_before, InvalidDefinition)
    check_no_breakpoint("create_agent", "interrupt_after", interrupt_after, InvalidDefinition)
    if transformers:
        raise InvalidDefinition(
            'create_agent: transformers are not there; a run of stream_events(version="v3") has its own sequences.'
        )


def _gates(around: Sequence[AgentMiddleware]) -> list[HumanInTheLoopMiddleware]:
    """Return the middleware that asks people, one at most."""
    gates = [each for each in around if isinstance(each, HumanInTheLoopMiddleware)]
    if len(gates) > 1:
        raise InvalidDefinition("There are two HumanInTheLoopMiddleware; put all tools into the interrupt_on of one.")
    return gates


def _is_langchain(model: Any, tools: Any, middleware: Any, *others: Any) -> bool:
    """Return True if the agent was given anything of LangChain's, so that it speaks LangChain's messages."""
    around = middleware if isinstance(middleware, list | tuple) else ()
    sources = (tools, around, *(getattr(each, "tools", None) for each in around))
    listed = [each for some in sources if isinstance(some, list | tuple) for each in some]
    return any(map(is_langchain_kind, (model, *listed, *others)))


def _adapted(given: Any) -> Any:
    """Return the middleware, with LangChain's as ours."""
    if not isinstance(given, list | tuple):
        return given
    return [_adapt(each) if is_langchain(each) and not isinstance(each, AgentMiddleware) else each for each in given]


def _adapt(given: Any) -> Any:
    kind: type = type(given)
    bases = langchain_bases(kind)
    if "langchain.agents.middleware.human_in_the_loop.HumanInTheLoopMiddleware" in bases:
        return _gate_of(given)
    if "langchain.agents.middleware.types.AgentMiddleware" not in bases:
        return given
    if "langchain.agents.middleware.provider_tool_search.ProviderToolSearchMiddleware" in bases:
        raise InvalidDefinition(
            "ProviderToolSearchMiddleware changes the definitions of tools in each request, for the provider to look "
            "for them; here a tool is offered as it is judged. Use LLMToolSelectorMiddleware, which chooses tools."
        )
    from .langchain.middleware import LangChainMiddleware

    return LangChainMiddleware(given)


def _gate_of(given: Any) -> HumanInTheLoopMiddleware:
    """Return LangChain's human-in-the-loop middleware as ours, with the same options."""
    if type(given).__module__.partition(".")[0] != "langchain":
        raise InvalidDefinition(
            f"{type(given).__name__} is a subclass of LangChain's HumanInTheLoopMiddleware, whose code would not be "
            "asked here; use the HumanInTheLoopMiddleware of assentry.threads, and hooks beside it."
        )
    options = ("description_prefix", "edit_notice", "interrupt_mode")
    kept = {name: getattr(given, name) for name in options if hasattr(given, name)}
    return HumanInTheLoopMiddleware(given.interrupt_on, **kept)


def _told(given: Any) -> SystemMessage | None:
    """Return the system prompt as a message, or raise `InvalidDefinition`."""
    if given is None or isinstance(given, str):
        return None if given is None else SystemMessage(given)
    if not isinstance(given, SystemMessage):
        raise InvalidDefinition(f"create_agent: system_prompt is text or a SystemMessage, got {described(given)}.")
    made: Any = given_message(given)
    return made  # type: ignore[no-any-return]


def _all_tools(given: Any, around: Sequence[AgentMiddleware], gates: Sequence[HumanInTheLoopMiddleware]) -> list[Tool]:
    """Return the tools of the agent and of its middleware, with the approval rules and the hooks around them."""
    tools = [tool for each in around for tool in _tools(f"{each.name}.tools", each.tools)]
    tools += _tools("tools", given)
    for gate in gates:
        tools = gate.apply(tools, dynamic=any(map(_may_add_tools, around)))
    return [wrap_tool(tool, hooks_of(around, "wrap_tool_call")) for tool in tools]


def _may_add_tools(middleware: AgentMiddleware) -> bool:
    """Return True if a middleware may offer tools at run time: it is around the model and around the tools."""
    return all(hooks_of([middleware], name) for name in ("wrap_model_call", "wrap_tool_call"))


def _add_tool(
    around: Sequence[AgentMiddleware], gates: Sequence[HumanInTheLoopMiddleware], kept: bool, given: Any
) -> Tool:
    """Return what a middleware offers at run time as a tool, with the approval rules and the hooks around it."""
    tool = _tool(given)
    if tool.kind != "tool":
        raise InvalidDefinition(f"A middleware offers {described(given)} at run time; give it to create_agent.")
    for gate in gates:
        [tool] = gate.apply([tool], dynamic=True)
    if tool.needs_approval is not False and not kept:
        raise InvalidDefinition(_nobody(tool))
    return wrap_tool(tool, hooks_of(around, "wrap_tool_call"))


def _is_of_langchain(tools: Any) -> bool:
    return any(is_langchain(each) for each in tools or ())


def _tools(name: str, given: Any) -> list[Tool]:
    if given is not None and (not isinstance(given, Iterable) or isinstance(given, str | bytes | dict)):
        raise InvalidDefinition(f"{name} is a list of tools, got {described(given)}.")
    return [_tool(each) for each in given or ()]


def _tool(given: Any) -> Tool:
    if isinstance(given, Tool):
        return given
    if isinstance(given, ThreadAgent | Agent):
        return given.as_tool()
    if is_langchain(given):
        from .langchain.tool import tool_from_langchain

        return tool_from_langchain(given)
    if isinstance(given, dict):
        raise InvalidDefinition(
            f"A tool of the provider's is one of Assentry's hosted tools, such as WebSearchTool(), and no dict; got "
            f"{described(given)}."
        )
    if not callable(given):
        raise InvalidDefinition(f"A tool is a function, one of Assentry's tools or an agent; got {described(given)}.")
    return thread_tool(given, recognize)


def _settings(given: ModelSettings | None, ending: Sequence[str]) -> ModelSettings:
    """Return the settings of the model calls; the model must call a tool if its output is given by one."""
    settings = DEFAULT_SETTINGS if given is None else given
    return settings.resolve(ModelSettings(tool_choice="required")) if ending and not settings.tool_choice else settings


def _memory(given: Any) -> Any:
    """Return the store across threads as it is; raise `InvalidDefinition` if it is none."""
    if given is not None and not all(callable(getattr(given, name, None)) for name in ("get", "put", "search")):
        raise InvalidDefinition(
            "store is a store across threads with get, put and search, such as LangGraph's InMemoryStore(); got "
            f"{described(given)}. Where threads are kept is the checkpointer."
        )
    return given


def _unanswerable(agent: Agent[Any]) -> str | None:
    """Return why an agent without a checkpointer cannot run by itself: a call could wait, and nobody could answer."""
    for placed in AgentGraph(agent).all_placed():
        for tool in placed.tools.values():
            if tool.needs_approval is not False:
                return _nobody(tool)
    return None


def _nobody(tool: Tool) -> str:
    return (
        f"Calls of {tool.name!r} wait for a person, and without a checkpointer nobody could answer; give "
        "checkpointer=InMemorySaver(), or one that lasts. An agent that is a tool of another, or that such a tool "
        "invokes, needs none: what it asks comes up in the other's threads."
    )
