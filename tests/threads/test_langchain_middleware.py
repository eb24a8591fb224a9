"""Middleware of LangChain, given to `create_agent` as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest

pytest.importorskip("langchain")

from langchain.agents import middleware as lcm
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core import messages as lc
from langgraph.runtime import Runtime
from langgraph.types import Command as GraphCommand

from assentry import InvalidDefinition, ModelFailed, UsageError, function_tool
from assentry.testing import ScriptedModel
from assentry.threads import (
    Command,
    HumanInTheLoopMiddleware,
    InMemorySaver,
    create_agent,
)
from tests.threads.chat_model import ScriptedChat, called
from tests.threads.support import Ran, say, texts, thread


def agent_of(*steps: Any, middleware: Any, tools: Any = (), **options: Any) -> Any:
    """An agent with a chat model of LangChain that follows a script."""
    model = ScriptedChat(steps=list(steps))
    options = {"checkpointer": InMemorySaver(), **options}
    return create_agent(model, list(tools), middleware=middleware, **options)


def heard(agent: Any) -> list[list[Any]]:
    """Return the messages that the agent's chat model heard."""
    return agent.agent.model.shown.asked  # type: ignore[no-any-return]


def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


@lcm.before_model
def greet(state: Any, runtime: Any) -> Any:
    """Add a message of LangChain."""
    assert isinstance(runtime, Runtime)
    assert runtime.execution_info.thread_id == "t"
    assert all(isinstance(each, lc.BaseMessage) for each in state["messages"])
    return {"messages": [lc.SystemMessage("Be brief.")]}


@pytest.mark.parametrize("theirs", [True, False], ids=["their model", "our model"])
def test_decorated_functions_of_langchain_are_hooks(theirs: bool) -> None:
    model = ScriptedChat(steps=["Yes."]) if theirs else ScriptedModel(["Yes."])
    agent = create_agent(model, middleware=[greet], checkpointer=InMemorySaver())
    result = agent.invoke(say("Hi"), thread())
    assert texts(result) == [("human", "Hi"), ("system", "Be brief."), ("ai", "Yes.")]
    assert all(isinstance(each, lc.BaseMessage) for each in result["messages"])
    assert agent.get_state(thread()).values["messages"] == result["messages"]


class Counted(lcm.AgentState[Any]):
    """A state with keys of a middleware's own."""

    count: NotRequired[Annotated[int, PrivateStateAttr]]
    names: NotRequired[Annotated[list[str], lambda one, other: one + other]]


class Counting(lcm.AgentMiddleware[Any, Any]):
    """A middleware with every hook."""

    state_schema = Counted

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def before_agent(self, state: Any, runtime: Any) -> Any:
        self.seen.append("before_agent")
        return {"count": 0}

    async def abefore_model(self, state: Any, runtime: Any) -> Any:
        self.seen.append("before_model")
        return GraphCommand(update={"count": state["count"] + 1, "names": ["one"]})

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        assert isinstance(request, lcm.ModelRequest)
        self.seen.append(f"wrap_model_call {request.state['count']} {request.system_prompt}")
        response = handler(request.override(system_message=lc.SystemMessage("Be brief.")))
        assert isinstance(response, lcm.ModelResponse)
        return lcm.ExtendedModelResponse(response, GraphCommand(update={"names": ["two"]}))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        assert isinstance(request, lcm.ToolCallRequest)
        self.seen.append(f"wrap_tool_call {request.tool.name} {request.tool_call['args']} {request.state['count']}")
        message = await handler(request)
        assert isinstance(message, lc.ToolMessage)
        return message.model_copy(update={"content": f"{message.content}!"})

    def after_model(self, state: Any, runtime: Any) -> Any:
        self.seen.append("after_model")

    def after_agent(self, state: Any, runtime: Any) -> Any:
        self.seen.append(f"after_agent {state['names']}")


def test_a_middleware_of_langchain_has_all_its_hooks_and_keys() -> None:
    counting = Counting()
    agent = agent_of(called("look", at="it"), "Seen.", middleware=[counting], tools=[look])
    result = agent.invoke(say("Look."), thread())
    assert counting.seen == [
        "before_agent",
        "before_model",
        "wrap_model_call 1 None",
        "after_model",
        "wrap_tool_call look {'at': 'it'} 1",
        "before_model",
        "wrap_model_call 2 None",
        "after_model",
        "after_agent ['one', 'two', 'one', 'two']",
    ]
    assert texts(result)[2:] == [("tool", "seen it!"), ("ai", "Seen.")]
    assert result["names"] == ["one", "two", "one", "two"]
    assert "count" not in result
    assert heard(agent)[0][0] == lc.SystemMessage("Be brief.")


def test_a_hook_of_langchain_jumps_with_a_key_or_a_command() -> None:
    for given in ({"jump_to": "end"}, GraphCommand(goto="__end__"), Command(goto="end")):

        @lcm.before_model(can_jump_to=["end"])
        def stop(state: Any, runtime: Any, given: Any = given) -> Any:
            return given

        agent = agent_of(middleware=[stop])
        assert texts(agent.invoke(say("Hi"), thread())) == [("human", "Hi")]


def test_langchains_human_in_the_loop_middleware_becomes_ours() -> None:
    ran = Ran()
    gate = lcm.HumanInTheLoopMiddleware({"write_file": True}, description_prefix="Look at this")
    agent = agent_of(called("write_file", path="a"), "Written.", middleware=[gate], tools=ran.tools())
    result = agent.invoke(say("Write."), thread())
    [asked] = result["__interrupt__"]
    assert asked.value["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert asked.value["action_requests"][0]["description"].startswith("Look at this")
    assert ran == []
    agent.invoke(GraphCommand(resume={"decisions": [{"type": "reject"}]}), thread())
    assert ran == []


def test_a_subclass_of_langchains_gate_is_refused() -> None:
    class Mine(lcm.HumanInTheLoopMiddleware):
        pass

    with pytest.raises(InvalidDefinition, match="Mine is a subclass of LangChain's HumanInTheLoopMiddleware"):
        agent_of(middleware=[Mine({"look": True})], tools=[look])


def test_middleware_that_changes_the_definitions_of_tools_is_refused() -> None:
    if not hasattr(lcm, "ProviderToolSearchMiddleware"):
        pytest.skip("this LangChain has none")
    search = lcm.ProviderToolSearchMiddleware.__new__(lcm.ProviderToolSearchMiddleware)
    with pytest.raises(InvalidDefinition, match="ProviderToolSearchMiddleware changes the definitions of tools"):
        agent_of(middleware=[search], tools=[look])


def test_a_call_that_langchains_middleware_changes_is_judged_again() -> None:
    ran = Ran()

    @lcm.wrap_tool_call
    def other(request: Any, handler: Any) -> Any:
        changed = {**request.tool_call, "name": "write_file", "args": {"path": "secret"}}
        return handler(request.override(tool_call=changed))

    gate = HumanInTheLoopMiddleware({"write_file": True})
    agent = agent_of(called("read_data"), "Read.", middleware=[gate, other], tools=ran.tools())
    result = agent.invoke(say("Read."), thread())
    assert result["__interrupt__"]
    assert ran == []


def test_the_model_of_the_agent_cannot_be_called_by_a_middleware_unless_it_is_a_chat_model() -> None:
    @lcm.wrap_model_call
    def ask(request: Any, handler: Any) -> Any:
        assert request.model.model_name == "scripted"
        return lcm.ModelResponse([request.model.invoke("Hi")])

    agent = create_agent(ScriptedModel([]), middleware=[ask], checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match="is no chat model of LangChain, and a middleware cannot call it"):
        agent.invoke(say("Hi"), thread())
    assert agent_of("Hi.", middleware=[ask]).invoke(say("Hi"), thread())["messages"][-1].content == "Hi."


# -- the ready-made ones ---------------------------------------------------------------------------


def test_calls_of_the_model_are_limited() -> None:
    limit = lcm.ModelCallLimitMiddleware(thread_limit=1, exit_behavior="end")
    agent = agent_of(called("look", at="it"), "Never.", middleware=[limit], tools=[look])
    assert texts(agent.invoke(say("Look."), thread()))[-1] == ("ai", "Model call limits exceeded: thread limit (1/1)")
    assert len(heard(agent)) == 1
    assert texts(agent.invoke(say("Again."), thread()))[-1][1].startswith("Model call limits exceeded")
    limit = lcm.ModelCallLimitMiddleware(run_limit=1, exit_behavior="error")
    agent = agent_of(called("look", at="it"), "Never.", middleware=[limit], tools=[look])
    with pytest.raises(Exception, match="Model call limits exceeded"):
        agent.invoke(say("Look."), thread())


def test_calls_of_a_tool_are_limited() -> None:
    ran = Ran()
    limit = lcm.ToolCallLimitMiddleware(tool_name="read_data", thread_limit=1, exit_behavior="continue")
    steps = (called("read_data", "c1"), called("read_data", "c2"), "Enough.")
    agent = agent_of(*steps, middleware=[limit], tools=ran.tools())
    result = agent.invoke(say("Read."), thread())
    assert ran == [("read_data", "records")]
    assert [each.status for each in result["messages"] if each.type == "tool"] == ["success", "error"]
    assert texts(result)[-1] == ("ai", "Enough.")


def test_a_model_is_asked_again_on_the_exceptions_of_its_provider() -> None:
    retry = lcm.ModelRetryMiddleware(max_retries=2, retry_on=(ConnectionError,), initial_delay=0, jitter=False)
    agent = agent_of(ConnectionError("away"), ConnectionError("away"), "Here.", middleware=[retry])
    assert texts(agent.invoke(say("Hi"), thread()))[-1] == ("ai", "Here.")
    retry = lcm.ModelRetryMiddleware(
        max_retries=1, retry_on=(ConnectionError,), initial_delay=0, jitter=False, on_failure="error"
    )
    for error in (ConnectionError("away"), ValueError("bad")):
        agent = agent_of(error, ConnectionError("away"), middleware=[retry])
        with pytest.raises(ModelFailed, match=str(error)):
            agent.invoke(say("Hi"), thread())


def test_a_tool_is_run_again_only_if_it_is_idempotent() -> None:
    tried: list[str] = []

    def flaky() -> str:
        """Fail once."""
        tried.append("flaky")
        if len(tried) < 2:
            raise ConnectionError("away")
        return "done"

    retry = lcm.ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    tools = [function_tool(idempotent=True)(flaky)]
    agent = agent_of(called("flaky"), "Done.", middleware=[retry], tools=tools)
    assert texts(agent.invoke(say("Go."), thread()))[2] == ("tool", "done")
    tried.clear()
    agent = agent_of(called("flaky"), "Done.", middleware=[retry], tools=[flaky])
    result = agent.invoke(say("Go."), thread())
    assert len(tried) == 1
    assert "is not idempotent" in result["messages"][2].content
    assert "away" in result["messages"][2].content
    assert result["messages"][2].status == "error"


def test_another_model_stands_in_for_one_that_fails() -> None:
    other = ScriptedChat(steps=["The other."])
    agent = agent_of(ConnectionError("away"), middleware=[lcm.ModelFallbackMiddleware(other)])
    assert texts(agent.invoke(say("Hi"), thread()))[-1] == ("ai", "The other.")


def test_a_long_conversation_is_summed_up() -> None:
    summary = ScriptedChat(steps=["They said hello."])
    shorten = lcm.SummarizationMiddleware(summary, trigger=("messages", 4), keep=("messages", 1))
    agent = agent_of("One.", "Two.", "Three.", middleware=[shorten])
    for text in ("a", "b", "c"):
        result = agent.invoke(say(text), thread())
    assert len(heard(agent)[2]) == 2
    assert "They said hello." in heard(agent)[2][0].content
    assert [each.content for each in result["messages"]][1:] == ["c", "Three."]
    assert agent.get_state(thread()).values["messages"] == result["messages"]


@pytest.mark.parametrize("strategy", ["redact", "block"])
def test_personal_data_is_kept_from_the_model(strategy: Any) -> None:
    shield = lcm.PIIMiddleware("email", strategy=strategy, apply_to_output=True, apply_to_tool_results=True)
    reply = called("look", at="it")
    agent = agent_of(reply, "Ask bob@example.com.", middleware=[shield], tools=[look])
    if strategy == "block":
        with pytest.raises(Exception, match="email"):
            agent.invoke(say("I am ann@example.com"), thread())
        assert heard(agent) == []
        return
    result = agent.invoke(say("I am ann@example.com"), thread())
    assert heard(agent)[0][0].content == "I am [REDACTED_EMAIL]"
    assert texts(result)[-1] == ("ai", "Ask [REDACTED_EMAIL].")
    assert texts(agent.get_state(thread()).values)[0] == ("human", "I am [REDACTED_EMAIL]")


def test_the_results_of_tools_are_cleared_from_the_context() -> None:
    edit = lcm.ClearToolUsesEdit(trigger=1, keep=0, placeholder="[cleared]")
    agent = agent_of(
        called("look", at="it"), "Seen.", middleware=[lcm.ContextEditingMiddleware(edits=[edit])], tools=[look]
    )
    result = agent.invoke(say("Look."), thread())
    assert heard(agent)[1][2].content == "[cleared]"
    assert texts(result)[2] == ("tool", "seen it")


def test_a_model_emulates_tools() -> None:
    ran = Ran()
    emulator = lcm.LLMToolEmulator(model=ScriptedChat(steps=["as if"]))
    agent = agent_of(called("read_data"), "Read.", middleware=[emulator], tools=ran.tools())
    assert texts(agent.invoke(say("Read."), thread()))[2] == ("tool", "as if")
    assert ran == []


def test_exceptions_of_tools_become_messages() -> None:
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    if not hasattr(lcm, "ToolErrorMiddleware"):
        pytest.skip("this LangChain has none")
    told = lcm.ToolErrorMiddleware(lambda error, request: f"It said {error}.")
    agent = agent_of(called("fail"), "Failed.", middleware=[told], tools=[fail])
    message = agent.invoke(say("Go."), thread())["messages"][2]
    assert message.status == "error"
    assert message.content == "It said no."


def test_a_model_chooses_the_tools_that_are_offered() -> None:
    chooser = ScriptedChat(steps=[called("ToolSelectionResponse", tools=["read_data"])])
    select = lcm.LLMToolSelectorMiddleware(model=chooser, max_tools=1)
    agent = agent_of("Done.", middleware=[select], tools=Ran().tools())
    agent.invoke(say("Read."), thread())
    [options] = agent.agent.model.shown.options
    assert [tool["function"]["name"] for tool in options["tools"]] == ["read_data"]


def test_a_refusal_is_an_exception() -> None:
    if not hasattr(lcm, "ModelRefusalMiddleware"):
        pytest.skip("this LangChain has none")
    refused = lc.AIMessage([{"type": "refusal", "refusal": "I will not."}])
    agent = agent_of(refused, middleware=[lcm.ModelRefusalMiddleware()])
    with pytest.raises(Exception, match="refus") as caught:
        agent.invoke(say("Do it."), thread())
    assert type(caught.value).__name__ == "ModelRefusalError"


def _decider(answer: dict[str, Any]) -> Any:
    """A decision model of LangChain that answers every question so."""
    decisions = pytest.importorskip("langchain_core.decisions")

    class Decider(decisions.BaseDecisionModel):  # type: ignore[misc, name-defined]
        model: str = "decider"

        @property
        def _provider(self) -> str:
            return "scripted"

        def _classify(self, state: Any, questions: Any) -> Any:
            return decisions.ClassifierResponse(model="decider", answers=dict.fromkeys(questions, answer))

    return Decider()


@pytest.mark.parametrize("risk", [0.1, 0.9])
def test_a_decision_model_blocks_calls(risk: float) -> None:
    classifier, ran = _decider({"type": "noul", "noul": risk}), Ran()
    block = lcm.AutoModeMiddleware(tools=["read_data"], classifier=classifier)
    agent = agent_of(called("read_data"), "Read.", middleware=[block], tools=ran.tools())
    result = agent.invoke(say("Read."), thread())
    assert len(ran) == (1 if risk < 0.5 else 0)
    assert result["messages"][2].status == ("success" if risk < 0.5 else "error")


@pytest.mark.filterwarnings("ignore:.*ModelRouterMiddleware.* is in beta")
def test_a_decision_model_chooses_the_model() -> None:
    answer = {"type": "choice", "choice": "fast", "probabilities": {"fast": 1.0}, "confidence": 1.0}
    classifier, fast = _decider(answer), ScriptedChat(steps=[called("look", at="it"), "Fast."])
    router = lcm.ModelRouterMiddleware(
        choices={"fast": lcm.ModelChoice(model=fast, criteria="Simple tasks.")},
        instructions="Choose.",
        classifier=classifier,
    )
    agent = agent_of(middleware=[router], tools=[look])
    result = agent.invoke(say("Look."), thread())
    assert texts(result)[-1] == ("ai", "Fast.")
    assert result["model_route"].choice == "fast"


def test_a_list_of_things_to_do_is_kept_in_the_state() -> None:
    todo = [{"content": "Look", "status": "pending"}]
    agent = agent_of(called("write_todos", todos=todo), "Planned.", middleware=[lcm.TodoListMiddleware()])
    result = agent.invoke(say("Plan."), thread())
    assert result["todos"] == todo
    assert texts(result)[-1] == ("ai", "Planned.")
    assert "write_todos" in heard(agent)[0][0].text
    assert agent.get_state(thread()).values["todos"] == todo


def test_files_are_searched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    search = lcm.FilesystemFileSearchMiddleware(root_path=str(tmp_path), use_ripgrep=False)
    steps = (called("glob_search", "c1", pattern="*.txt"), called("grep_search", "c2", pattern="milk"), "Found.")
    result = agent_of(*steps, middleware=[search]).invoke(say("Find."), thread())
    assert [text for kind, text in texts(result) if kind == "tool"] == ["/notes.txt", "/notes.txt"]


def run_shell(root: str) -> None:
    """Run commands in a shell of LangChain's, in a process of its own: LangChain leaves its pipes open."""
    shell = lcm.ShellToolMiddleware(workspace_root=root, execution_policy=lcm.HostExecutionPolicy())
    steps = (called("shell", "c1", command="A=one"), called("shell", "c2", command="echo $A"), "Done.")
    result = agent_of(*steps, middleware=[shell]).invoke(say("Go."), thread())
    assert [text.strip() for kind, text in texts(result) if kind == "tool"][1] == "one"
    gate = HumanInTheLoopMiddleware({"shell": True})
    assert agent_of(*steps, middleware=[gate, shell]).invoke(say("Go."), thread())["__interrupt__"]


def test_a_shell_keeps_its_session_over_the_calls_of_a_run(tmp_path: Path) -> None:
    program = "import sys; from tests.threads.test_langchain_middleware import run_shell; run_shell(sys.argv[1])"
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_around_a_tool_updates_the_state() -> None:
    class Noting(lcm.AgentMiddleware[Any, Any]):
        state_schema = Counted

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            assert request.runtime.tool_call_id == request.tool_call["id"]
            assert request.runtime.state["messages"][-1].tool_calls
            return GraphCommand(update={"names": ["seen"], "messages": [handler(request)]})

    agent = agent_of(called("look", at="it"), "Seen.", middleware=[Noting()], tools=[look])
    result = agent.invoke(say("Look."), thread())
    assert result["names"] == ["seen"]
    assert texts(result)[2] == ("tool", "seen it")


def test_middleware_sees_the_tools_of_langchain_as_they_were_given() -> None:
    from langchain_core.tools import tool as langchain_tool

    seen: list[Any] = []
    given = langchain_tool(look)

    class Looking(lcm.AgentMiddleware[Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(request.tools)
            return handler(request)

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            seen.append([request.tool])
            return handler(request)

    agent_of(called("look", at="it"), "Seen.", middleware=[Looking()], tools=[given]).invoke(say("Look."), thread())
    assert all(each is given for tools in seen for each in tools)
    assert len(seen) == 3
