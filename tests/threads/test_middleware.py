"""Middleware looks, adds, changes and cuts short, in its order; and whatever it makes of a call goes to the gate."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from assentry import (
    Conflict,
    FunctionTool,
    HostedMCPTool,
    InvalidDecision,
    InvalidDefinition,
    Respond,
    UsageError,
    function_tool,
)
from assentry.errors import InvalidInput
from assentry.testing import call
from assentry.threads import (
    AgentMiddleware,
    AgentState,
    AIMessage,
    Command,
    ExtendedModelResponse,
    HumanInTheLoopMiddleware,
    HumanMessage,
    InMemorySaver,
    ModelRequest,
    ModelResponse,
    Runtime,
    SqliteSaver,
    SystemMessage,
    ToolMessage,
    after_agent,
    after_model,
    before_agent,
    before_model,
    create_agent,
    dynamic_prompt,
    hook_config,
    interrupt,
    wrap_model_call,
    wrap_tool_call,
)
from tests.threads.support import (
    Paired,
    Ran,
    decide,
    edited,
    journal,
    office,
    only,
    rejected,
    requests,
    say,
    texts,
    thread,
)


class Noting(AgentMiddleware):
    """Notes when it is called; its hooks are sync, or async."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.label, self.log = name, log

    def before_agent(self, state: Any, runtime: Any) -> None:
        self.log.append(f"{self.label} before_agent")

    async def before_model(self, state: Any, runtime: Any) -> None:
        self.log.append(f"{self.label} before_model")

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.label} model in")
        response = await handler(request)
        self.log.append(f"{self.label} model out")
        return response

    def after_model(self, state: Any, runtime: Any) -> None:
        self.log.append(f"{self.label} after_model")

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        self.log.append(f"{self.label} tool in")
        message = handler(request)
        self.log.append(f"{self.label} tool out")
        return message

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        self.log.append(f"{self.label} after_agent")


async def test_the_first_is_outermost() -> None:
    log: list[str] = []
    agent, ran = office(call("read_data"), "done", middleware=[Noting("a", log), Noting("b", log)])
    await agent.ainvoke(say("go"), thread())
    around = ["a before_model", "b before_model", "a model in", "b model in", "b model out", "a model out"]
    assert log == [
        "a before_agent",
        "b before_agent",
        *around,
        "b after_model",
        "a after_model",
        "a tool in",
        "b tool in",
        "b tool out",
        "a tool out",
        *around,
        "b after_model",
        "a after_model",
        "b after_agent",
        "a after_agent",
    ]
    assert ran == [("read_data", "records")]


async def test_middleware_without_hooks_leaves_the_model_as_it_is() -> None:
    agent, _ = office("ok", middleware=[AgentMiddleware()])
    assert type(agent.agent.model) is Paired


async def test_middleware_may_bring_tools() -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    class Loud(AgentMiddleware):
        tools = (shout,)

    agent = create_agent(
        Paired([call("shout", {"text": "a"}), "ok"]), middleware=[Loud()], checkpointer=InMemorySaver()
    )
    assert texts(await agent.ainvoke(say("go"), thread()))[2] == ("tool", "A")


# -- the model --------------------------------------------------------------------------------------


async def test_messages_of_hooks_are_heard_and_kept() -> None:
    @before_model
    def remind(state: Any, runtime: Any) -> Any:
        return {"messages": [SystemMessage(f"There were {len(state['messages'])}.")]}

    @after_model
    async def comment(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("Thanks.")]}

    agent, _ = office("One.", "Two.", middleware=[remind, comment])
    result = await agent.ainvoke(say("a"), thread())
    assert texts(result) == [("human", "a"), ("system", "There were 1."), ("ai", "One."), ("human", "Thanks.")]
    result = await agent.ainvoke(say("b"), thread())
    assert [item.get("role") for item in requests(agent)[1].input] == [
        "user",
        "system",
        "assistant",
        "user",
        "user",
        "system",
    ]
    assert texts(result)[4:] == [("human", "b"), ("system", "There were 5."), ("ai", "Two."), ("human", "Thanks.")]
    assert len({message.id for message in result["messages"]}) == 8


@pytest.mark.parametrize("hook", [before_model, after_model, after_agent], ids=lambda hook: hook.__name__)
async def test_what_a_hook_says_for_the_model_is_a_message_of_its_own(hook: Any) -> None:
    @hook
    def comment(state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage("Look.")]}

    agent, _ = office("Two.", "Three.", middleware=[comment])
    await agent.ainvoke(say("a"), thread())
    result = await agent.ainvoke(say("b"), thread())
    said = ["Look.", "Two."] if hook is before_model else ["Two.", "Look."]
    assert [text for _, text in texts(result)][1:3] == said
    assert len({message.id for message in result["messages"]}) == 6
    assert [item["role"] for item in requests(agent)[-1].input][:4] == ["user", "assistant", "assistant", "user"]


async def test_a_reply_may_have_messages_put_before_it() -> None:
    @wrap_model_call
    def comment(request: Any, handler: Any) -> Any:
        return ModelResponse([AIMessage("See."), AIMessage("Look."), *handler(request).result])

    agent, _ = office(["I read.", call("read_data", {"table": "t"})], "Two.", middleware=[comment])
    written: dict[str, str] = {}
    async for token, _ in agent.astream(say("a"), thread(), stream_mode="messages"):
        written[token.id] = written.get(token.id, "") + token.content
    result = (await agent.aget_state(thread())).values
    assert [text for kind, text in texts(result) if kind == "ai"] == [
        *("See.", "Look.", "I read."),
        *("See.", "Look.", "Two."),
    ]
    assert written == {message.id: message.content for message in result["messages"][1:]}


@pytest.mark.parametrize("both", [False, True], ids=["in turn", "at once"])
async def test_replies_that_a_middleware_asks_for_are_streamed_as_the_messages_that_they_are(both: bool) -> None:
    @wrap_model_call
    async def choose(request: Any, handler: Any) -> Any:
        if both:
            [_, second] = await asyncio.gather(handler(request), handler(request))
            return second
        await handler(request)
        return await handler(request)

    agent, _ = office("One.", "Two.", middleware=[choose])
    written: dict[str, str] = {}
    async for token, _ in agent.astream(say("a"), thread(), stream_mode="messages"):
        written[token.id] = written.get(token.id, "") + token.content
    last = last_of((await agent.aget_state(thread())).values)
    assert list(written.values()) == ["One.", "Two."] and written[last.id] == last.content == "Two."


async def test_a_message_in_the_place_of_the_models_is_streamed_as_another() -> None:
    @wrap_model_call
    def censor(request: Any, handler: Any) -> Any:
        handler(request)
        return AIMessage("...")

    agent, _ = office("One.", middleware=[censor])
    written: dict[str, str] = {}
    async for token, _ in agent.astream(say("a"), thread(), stream_mode="messages"):
        written[token.id] = written.get(token.id, "") + token.content
    last = last_of((await agent.aget_state(thread())).values)
    assert list(written.values()) == ["One.", "..."] and written[last.id] == last.content == "..."


async def test_the_update_of_the_gate_has_the_message_with_the_calls() -> None:
    @before_model
    def comment(state: Any, runtime: Any) -> Any:
        return {"messages": [SystemMessage("Be brief."), AIMessage("Look.")]}

    agent, _ = office(call("execute_sql", {"query": "a"}), "Done.", middleware=[comment])
    await agent.ainvoke(say("a"), thread())
    gate, *_ = [chunk async for chunk in agent.astream(decide("approve"), thread())]
    [message] = gate["HumanInTheLoopMiddleware.after_model"]["messages"]
    assert [each["name"] for each in message.tool_calls] == ["execute_sql"]


async def test_the_output_is_what_the_model_said_last() -> None:
    class Count(BaseModel):
        n: int

    @after_model
    def again(state: Any, runtime: Any) -> Any:
        return {"jump_to": "model"} if last_of(state).content == '{"n": 1}' else None

    agent = create_agent(Paired(['{"n": 1}', '{"n": 2}']), middleware=[again], response_format=Count)
    result = await agent.ainvoke(say("a"))
    assert result["structured_response"] == Count(n=2)
    assert texts(result)[1:] == [("ai", '{"n": 1}'), ("ai", '{"n": 2}')]


async def test_what_hooks_say_is_not_the_models_output() -> None:
    @after_model
    def comment(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("Thanks.")]}

    class Count(BaseModel):
        n: int

    agent = create_agent(Paired(['{"n": 1}']), middleware=[comment], response_format=Count)
    result = await agent.ainvoke(say("a"))
    assert result["structured_response"] == Count(n=1)
    assert texts(result)[-2:] == [("ai", '{"n": 1}'), ("human", "Thanks.")]


async def test_a_request_may_be_changed() -> None:
    other = Paired(["From another."], name="another")

    @wrap_model_call
    async def change(request: Any, handler: Any) -> Any:
        tools = [tool for tool in request.tools if tool.name == "read_data"]
        return await handler(
            request.override(
                messages=[HumanMessage("Something else.")],
                system_prompt="Be short.",
                tools=tools,
                model=other,
                model_settings={"temperature": 0.5},
                tool_choice="none",
            )
        )

    agent, _ = office(middleware=[change])
    result = await agent.ainvoke(say("a"), thread())
    [request] = other.requests
    assert (request.instructions, request.input) == ("Be short.", [{"role": "user", "content": "Something else."}])
    assert [tool.name for tool in request.tools] == ["read_data"]
    assert (request.settings.temperature, request.settings.tool_choice) == (0.5, "none")
    assert texts(result) == [("human", "a"), ("ai", "From another.")], "what was said is still what was said"


async def test_a_request_that_is_cut_has_no_call_without_its_result() -> None:
    @wrap_model_call
    def last(request: Any, handler: Any) -> Any:
        return handler(request.override(messages=request.messages[-2:]))

    @wrap_model_call
    def without_results(request: Any, handler: Any) -> Any:
        return handler(request.override(messages=[m for m in request.messages if m.type != "tool"]))

    for cut in (last, without_results):
        agent, _ = office([call("read_data"), call("read_data")], "ok", "ok", middleware=[cut])
        await agent.ainvoke(say("a"), thread())
        await agent.ainvoke(say("b"), thread())


async def test_a_middleware_may_not_offer_a_tool_that_is_disabled() -> None:
    @function_tool(is_enabled=False)
    def secret() -> str:
        """Do it."""
        return "done"

    @wrap_model_call
    def offer(request: Any, handler: Any) -> Any:
        return handler(request.override(tools=[*request.tools, secret]))

    agent = create_agent(Paired(["ok"]), [secret], middleware=[offer], checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match=r"<FunctionTool .secret.>, which is not offered"):
        await agent.ainvoke(say("a"), thread())


@pytest.mark.parametrize("given", [SystemMessage("Be brief."), "Be brief.", None])
async def test_the_system_prompt_may_be_changed_as_a_message(given: Any) -> None:
    seen: list[Any] = []

    @wrap_model_call
    def brief(request: Any, handler: Any) -> Any:
        seen.append(request.system_message)
        return handler(request.override(system_message=given))

    @wrap_model_call
    def look(request: Any, handler: Any) -> Any:
        seen.append(request.system_message)
        return handler(request)

    agent, _ = office("ok", middleware=[brief, look], system_prompt="Be long.")
    await agent.ainvoke(say("a"), thread())
    assert seen == [SystemMessage("Be long."), given and SystemMessage("Be brief.")]
    assert requests(agent)[0].instructions == (given and "Be brief.")


@pytest.mark.parametrize("changes", [{"args": {}}, {"name": "read_data"}])
async def test_another_tool_is_chosen_by_its_name_alone(changes: Any) -> None:
    @wrap_tool_call
    def other(request: Any, handler: Any) -> Any:
        return handler(request.override(**changes))

    agent, ran = office(call("read_data"), "ok", middleware=[other])
    with pytest.raises(UsageError, match="that could be changed; it has tool_call, tool, state, runtime"):
        await agent.ainvoke(say("a"), thread())
    assert ran == []


async def test_a_model_of_another_library_is_refused() -> None:
    class Blocking:
        def stream(self, input: Any) -> Any:
            yield "Hello."

    @wrap_model_call
    def choose(request: Any, handler: Any) -> Any:
        return handler(request.override(model=Blocking()))

    agent, _ = office("Two.", middleware=[choose])
    with pytest.raises(UsageError, match="The model of a request is a Model, got"):
        await agent.ainvoke(say("a"), thread())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": "Be brief."}, "no 'prompt' that could be changed; it has model, messages,"),
        ({"response_format": int}, "may leave out the response_format of a request, and not replace it"),
    ],
)
async def test_what_a_request_does_not_have_cannot_be_changed(changes: Any, words: str) -> None:
    @wrap_model_call
    def other(request: Any, handler: Any) -> Any:
        return handler(request.override(**changes))

    agent, _ = office("ok", middleware=[other])
    with pytest.raises(UsageError, match=words):
        await agent.ainvoke(say("a"), thread())


@pytest.mark.parametrize(
    "answer", [AIMessage("No."), ModelResponse([AIMessage("No.")]), [AIMessage("No.")], "async"], ids=str
)
async def test_a_model_call_may_be_answered_without_the_model(answer: Any) -> None:
    @wrap_model_call
    def answered(request: Any, handler: Any) -> Any:
        return answer

    @wrap_model_call
    async def later(request: Any, handler: Any) -> Any:
        return AIMessage("No.")

    agent, _ = office(middleware=[later if answer == "async" else answered])
    assert texts(await agent.ainvoke(say("a"), thread())) == [("human", "a"), ("ai", "No.")]
    assert requests(agent) == []


async def test_a_model_call_may_be_tried_again() -> None:
    @wrap_model_call
    def retry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            try:
                return handler(request)
            except RuntimeError:
                pass
        raise AssertionError

    agent, _ = office(RuntimeError("a"), RuntimeError("b"), "ok", middleware=[retry])
    result = await agent.ainvoke(say("a"), thread())
    assert texts(result)[-1] == ("ai", "ok") and len(requests(agent)) == 3


async def test_usage_counts_every_time_the_model_was_asked() -> None:
    @wrap_model_call
    def twice(request: Any, handler: Any) -> Any:
        handler(request)
        return handler(request)

    agent, _ = office("a", "b", middleware=[twice])
    result = await agent.ainvoke(say("a"), thread())
    assert texts(result)[-1] == ("ai", "b")
    assert result["messages"][-1].usage_metadata["total_tokens"] == 30


async def test_tokens_arrive_through_middleware_as_they_are_made() -> None:
    @wrap_model_call
    def quiet(request: Any, handler: Any) -> Any:
        return handler(request)

    agent, _ = office("one two three", middleware=[quiet])
    tokens = [chunk.content async for chunk, _ in agent.astream(say("a"), thread(), stream_mode="messages")]
    assert tokens == ["one ", "two ", "three"]


@pytest.mark.parametrize("given", ["x", 3, {"messages": [], "count": 1}, {"jump_to": "start"}], ids=str)
async def test_an_update_that_means_nothing_is_refused(given: Any) -> None:
    @before_model
    def update(state: Any, runtime: Any) -> Any:
        return given

    agent, _ = office("ok", middleware=[update])
    with pytest.raises(UsageError):
        await agent.ainvoke(say("a"), thread())


async def test_a_hook_may_replace_what_was_said_by_its_id() -> None:
    @before_model
    def replace(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("other", id=state["messages"][0].id)]}

    model = Paired(["ok", "again"])
    agent = create_agent(model, middleware=[replace], checkpointer=InMemorySaver())
    result = await agent.ainvoke(say("a"), thread())
    assert [each.content for each in result["messages"]] == ["other", "ok"]
    assert [item["content"] for item in model.requests[0].input] == ["other"]
    assert (await agent.aget_state(thread())).values["messages"] == result["messages"]


def redact(state: Any) -> None:
    state["messages"][0].content = "..."


@pytest.mark.parametrize("hook", [before_agent, before_model, after_model], ids=lambda hook: hook.__name__)
@pytest.mark.parametrize(
    "change",
    [
        redact,
        lambda state: state["messages"].pop(),
        lambda state: state.update(messages=None),
        lambda state: state.clear(),
    ],
)
async def test_what_was_said_is_not_changed_in_silence(hook: Any, change: Any) -> None:
    @hook
    def edit(state: Any, runtime: Any) -> None:
        change(state)

    agent, _ = office("Two.", middleware=[edit])
    with pytest.raises(UsageError, match="changed recorded messages in place"):
        await agent.ainvoke(say("My number is 7."), thread())
    assert [text for _, text in texts(agent.get_state(thread()).values)] == ["My number is 7."]


async def test_what_the_model_hears_may_be_changed_in_place_each_time_it_is_asked() -> None:
    @before_model
    def look(state: Any, runtime: Any) -> None:
        pass

    @after_model
    def again(state: Any, runtime: Any) -> Any:
        return {"jump_to": "model"} if last_of(state).content == "One." else None

    @wrap_model_call
    def edit(request: Any, handler: Any) -> Any:
        redact(request.state)
        return handler(request)

    agent, _ = office("One.", "Two.", middleware=[look, again, edit])
    result = await agent.ainvoke(say("My number is 7."), thread())
    assert [request.input[0]["content"] for request in requests(agent)] == ["...", "..."]
    assert texts(result)[0] == ("human", "My number is 7.")


async def test_hooks_know_the_context_the_thread_and_the_store() -> None:
    seen: list[Any] = []

    @before_agent
    def look(state: Any, runtime: Any) -> None:
        seen.append((runtime.context, runtime.thread_id, runtime.thread_store, runtime.store))

    agent, _ = office("ok", middleware=[look])
    await agent.ainvoke(say("a"), thread(), context={"a": 1})
    assert seen == [({"a": 1}, "t", agent.store, None)]


@pytest.mark.parametrize("decorator", [before_model, wrap_tool_call])
def test_a_decorator_is_for_functions(decorator: Any) -> None:
    with pytest.raises(InvalidDefinition):
        decorator(3)
    with pytest.raises(InvalidDefinition):
        decorator(unknown=True)
    made = decorator(name="mine")(lambda one, two: None)
    assert isinstance(made, AgentMiddleware)
    assert made.name == "mine"


def test_jumps_may_be_declared_where_hooks_can_jump() -> None:
    assert isinstance(before_model(can_jump_to=["end"])(lambda state, runtime: None), AgentMiddleware)
    for decorator, jumps in ((before_model, ["nowhere"]), (wrap_tool_call, ["end"])):
        with pytest.raises(InvalidDefinition, match="can_jump_to"):
            decorator(can_jump_to=jumps)


async def test_types_of_state_and_context_may_be_named() -> None:
    class Context(BaseModel):
        user: str

    class Greeting(AgentMiddleware[AgentState]):
        def wrap_model_call(self, request: ModelRequest[Context], handler: Any) -> Any:
            return handler(request.override(system_prompt=f"This is {request.runtime.context.user}."))

    class Noticing(AgentMiddleware[AgentState, Context]):
        def before_model(self, state: AgentState, runtime: Runtime[Context]) -> None:
            seen.append((state["messages"][0].content, runtime.context.user))

    seen: list[Any] = []
    model = Paired(["Hello."])
    agent = create_agent(model, middleware=[Greeting(), Noticing()], context_schema=Context)
    await agent.ainvoke(say("a"), context={"user": "Ann"})
    assert seen == [("a", "Ann")] and model.requests[0].instructions == "This is Ann."


def test_a_state_schema_is_a_class_with_annotations() -> None:
    class Counting(AgentMiddleware):
        state_schema = 5

    with pytest.raises(InvalidDefinition, match="state_schema is a TypedDict"):
        office("ok", middleware=[Counting()])


# -- calls that middleware edits, invents, answers or drops -------------------------------------------


def last_of(state: Any) -> Any:
    return state["messages"][-1]


async def test_a_call_that_a_hook_edits_is_what_a_person_is_asked_about() -> None:
    @after_model
    def edit(state: Any, runtime: Any) -> Any:
        last = last_of(state)
        if not last.tool_calls:
            return None
        calls = [{**last.tool_calls[0], "args": {"query": "edited"}}]
        return {"messages": [AIMessage(last.content, id=last.id, tool_calls=calls)]}

    agent, ran = office(["Hm.", call("execute_sql", {"query": "a"})], "ok", middleware=[edit])
    result = await agent.ainvoke(say("a"), thread())
    assert only(result).value["action_requests"][0]["args"] == {"query": "edited"}
    assert result["messages"][1].content == "Hm."
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "edited")]


async def test_a_call_that_a_hook_changes_in_place_is_what_a_person_is_asked_about() -> None:
    @after_model
    def edit(state: Any, runtime: Any) -> None:
        for each in last_of(state).tool_calls:
            each["args"]["query"] = "edited"

    agent, ran = office(call("execute_sql", {"query": "a"}), "ok", middleware=[edit])
    assert only(await agent.ainvoke(say("a"), thread())).value["action_requests"][0]["args"] == {"query": "edited"}
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "edited")]


async def test_a_call_that_a_hook_invents_is_gated_like_any_other() -> None:
    @after_model
    def invent(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > 2:
            return None
        calls = [{"name": "execute_sql", "args": {"query": "invented"}, "id": None}]
        return {"messages": [AIMessage("", id=last_of(state).id, tool_calls=calls)], "jump_to": "tools"}

    agent, ran = office("Nothing to do.", "ok", middleware=[invent])
    request = only(await agent.ainvoke(say("a"), thread())).value
    assert request["action_requests"][0]["args"] == {"query": "invented"} and ran == []
    await agent.ainvoke(decide("reject"), thread())
    assert ran == []


async def test_a_call_of_an_unknown_tool_that_a_hook_invents_does_not_run() -> None:
    @after_model
    def invent(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > 2:
            return None
        return {"messages": [AIMessage("", id=last_of(state).id, tool_calls=[{"name": "rm", "args": {}, "id": "1"}])]}

    agent, _ = office("x", "ok", middleware=[invent])
    result = await agent.ainvoke(say("a"), thread())
    assert result["messages"][2].status == "error" and "no tool named 'rm'" in result["messages"][2].content


async def test_a_hook_may_answer_a_call_and_it_does_not_run() -> None:
    @after_model
    def answer(state: Any, runtime: Any) -> Any:
        calls = last_of(state).tool_calls
        return {"messages": [ToolMessage("From the cache.", tool_call_id=calls[0]["id"])]} if calls else None

    agent, ran = office(
        [call("execute_sql", {"query": "a"}), call("execute_sql", {"query": "b"})], "ok", middleware=[answer]
    )
    request = only(await agent.ainvoke(say("a"), thread())).value
    assert [each["args"]["query"] for each in request["action_requests"]] == ["b"]
    result = await agent.ainvoke(decide("approve"), thread())
    assert ran == [("execute_sql", "b")]
    assert [text for kind, text in texts(result) if kind == "tool"] == ["From the cache.", "ran b"]


async def test_a_hook_cannot_answer_a_call_that_is_not_there() -> None:
    @after_model
    def answer(state: Any, runtime: Any) -> Any:
        return {"messages": [ToolMessage("x", tool_call_id="nowhere")]}

    agent, _ = office("ok", middleware=[answer])
    with pytest.raises(InvalidInput, match="no call before it in this reply"):
        await agent.ainvoke(say("a"), thread())


@pytest.mark.parametrize("kind", [HumanMessage, AIMessage])
async def test_what_a_hook_says_after_a_call_comes_before_it(kind: Any) -> None:
    @after_model
    def comment(state: Any, runtime: Any) -> Any:
        return {"messages": [kind("Careful.")]}

    agent, _ = office(call("execute_sql", {"query": "a"}), "ok", middleware=[comment])
    await agent.ainvoke(say("a"), thread())
    result = await agent.ainvoke(decide("approve"), thread())
    said = kind.type
    assert [each for each, _ in texts(result)] == ["human", said, "ai", "tool", "ai", said]
    heard = [item.get("type", "message") for item in requests(agent)[-1].input]
    assert heard == ["message", "message", "function_call", "function_call_output"]


async def test_what_a_hook_says_between_a_call_and_its_output_comes_before_the_call() -> None:
    @after_model
    def answer(state: Any, runtime: Any) -> Any:
        said = [ToolMessage("empty", tool_call_id=each["id"]) for each in last_of(state).tool_calls]
        return {"messages": [HumanMessage("I know it."), *said, HumanMessage("Go on.")]} if said else None

    agent, ran = office(call("read_data", {"table": "t"}), "One.", "Two.", middleware=[answer])
    await agent.ainvoke(say("a"), thread())
    result = await agent.ainvoke(say("b"), thread())
    assert ran == []
    assert [kind for kind, _ in texts(result)][:6] == ["human", "human", "ai", "tool", "human", "ai"]
    for request in requests(agent)[1:]:
        heard = [item.get("type", "message") for item in request.input][:5]
        assert heard == ["message", "message", "function_call", "function_call_output", "message"]


# -- jumping ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["before_agent", "before_model"])
async def test_a_hook_may_end_the_run_before_the_model_is_asked(where: str) -> None:
    decorator = {"before_agent": before_agent, "before_model": before_model}[where]

    @decorator(can_jump_to=["end"])
    def stop(state: Any, runtime: Any) -> Any:
        return {"messages": [AIMessage("Not today.")], "jump_to": "end"}

    agent, _ = office(middleware=[stop])
    result = await agent.ainvoke(say("a"), thread())
    assert texts(result) == [("human", "a"), ("ai", "Not today.")] and requests(agent) == []
    assert texts(await agent.ainvoke(say("b"), thread()))[-1] == ("ai", "Not today.")


async def test_a_hook_may_drop_the_calls_and_end() -> None:
    @after_model
    def stop(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    agent, ran = office(
        ["Wait.", call("execute_sql", {"query": "a"}), call("read_data", "{no json")], "b", middleware=[stop]
    )
    result = await agent.ainvoke(say("a"), thread())
    assert texts(result) == [("human", "a"), ("ai", "Wait.")] and ran == []
    await agent.ainvoke(say("b"), thread())


async def test_a_hook_may_have_the_model_asked_again() -> None:
    @after_model
    def again(state: Any, runtime: Any) -> Any:
        if last_of(state).tool_calls:
            return {"messages": [HumanMessage("No calls, please.")], "jump_to": "model"}
        return None

    agent, ran = office(["Hm.", call("execute_sql", {"query": "a"})], "Fine.", middleware=[again])
    result = await agent.ainvoke(say("a"), thread())
    assert texts(result) == [("human", "a"), ("ai", "Hm."), ("human", "No calls, please."), ("ai", "Fine.")]
    assert ran == []


async def test_hooks_cannot_have_the_model_asked_for_ever() -> None:
    @after_model
    def again(state: Any, runtime: Any) -> Any:
        return {"jump_to": "model"}

    agent, _ = office(*["x"] * 50, middleware=[again])
    with pytest.raises(UsageError, match="without an end"):
        await agent.ainvoke(say("a"), thread())


async def test_a_hook_at_the_end_may_go_on() -> None:
    @after_agent
    def more(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) < 3:
            return {"messages": [HumanMessage("Are you sure?")], "jump_to": "model"}
        return None

    agent, _ = office("Yes.", "Quite.", middleware=[more])
    result = await agent.ainvoke(say("a"), thread())
    assert [text for _, text in texts(result)] == ["a", "Yes.", "Are you sure?", "Quite."]


class Rerouting(AgentMiddleware):
    """Jumps to the tools after every reply, as if there were no gate."""

    def after_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "tools"}

    def before_model(self, state: Any, runtime: Any) -> Any:
        return {"jump_to": "tools"} if state["messages"][-1].type == "tool" else None


@pytest.mark.parametrize("first", [True, False], ids=["before the gate", "after the gate"])
async def test_a_rejected_call_does_not_run_under_middleware_that_jumps_to_the_tools(first: bool) -> None:
    ran = Ran()
    gate = HumanInTheLoopMiddleware({"execute_sql": True})
    agent = create_agent(
        Paired([call("execute_sql", {"query": "DROP"}), "ok"]),
        ran.tools(),
        middleware=[Rerouting(), gate] if first else [gate, Rerouting()],
        checkpointer=InMemorySaver(),
    )
    assert "__interrupt__" in await agent.ainvoke(say("go"), thread())
    assert ran == []
    result = await agent.ainvoke(decide({"type": "reject", "message": "No."}), thread())
    assert ran == [] and result["messages"][2].content == rejected("execute_sql", "No.")


# -- around tools ---------------------------------------------------------------------------------------


class Redirecting(AgentMiddleware):
    """Makes of every call one of another tool, or with other arguments."""

    def __init__(self, name: str, args: dict[str, Any]) -> None:
        self.call = {"name": name, "args": args}

    async def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(tool_call={**request.tool_call, **self.call}))


@pytest.mark.parametrize("first", [True, False], ids=["before the gate", "after the gate"])
async def test_a_rejected_call_does_not_reach_middleware_that_would_run_another(first: bool) -> None:
    ran = Ran()
    gate = HumanInTheLoopMiddleware({"execute_sql": True})
    around = Redirecting("execute_sql", {"query": "DROP"})
    agent = create_agent(
        Paired([call("execute_sql", {"query": "a"}), "ok"]),
        ran.tools(),
        middleware=[around, gate] if first else [gate, around],
        checkpointer=InMemorySaver(),
    )
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(decide("reject"), thread())
    assert ran == []


@pytest.mark.parametrize("first", [True, False], ids=["before the gate", "after the gate"])
async def test_a_call_that_middleware_redirects_to_a_gated_tool_is_asked_about(first: bool) -> None:
    edit = {"type": "edit", "edited_action": {"name": "execute_sql", "args": {"query": "SELECT"}}}
    for decision, expected, text in (
        ("approve", [("execute_sql", "DROP")], "ran DROP"),
        ({"type": "reject", "message": "No."}, [], rejected("execute_sql", "No.")),
        (edit, [("execute_sql", "SELECT")], edited('execute_sql with arguments {"query": "SELECT"}', "ran SELECT")),
        ({"type": "respond", "message": "Done by hand."}, [], "Done by hand."),
    ):
        ran = Ran()
        gate = HumanInTheLoopMiddleware(
            {"execute_sql": {"allowed_decisions": ["approve", "edit", "reject", "respond"], "description": "Well?"}}
        )
        around = Redirecting("execute_sql", {"query": "DROP"})
        agent = create_agent(
            Paired([call("read_data"), "ok"]),
            ran.tools(),
            middleware=[around, gate] if first else [gate, around],
            checkpointer=InMemorySaver(),
        )
        waiting = only(await agent.ainvoke(say("go"), thread()))
        assert waiting.value["action_requests"][0]["args"] == {"query": "DROP"}
        assert waiting.value["action_requests"][0]["description"] == "Well?"
        assert ran == []
        with pytest.raises(UsageError):
            await agent.ainvoke(decide("approve", "approve"), thread())
        with pytest.raises(UsageError):
            await agent.ainvoke(Command(resume="yes"), thread())
        result = await agent.ainvoke(decide(decision), thread())
        assert ran == expected
        assert result["messages"][2].content == text
        assert result["messages"][2].status == ("error" if text.endswith("No.") else "success")


async def test_a_call_that_middleware_edits_after_its_approval_is_asked_about_again() -> None:
    agent, ran = office(
        call("write_file", {"path": "a"}), "ok", middleware=[Redirecting("write_file", {"path": "/etc/passwd"})]
    )
    first = only(await agent.ainvoke(say("go"), thread()))
    second = only(await agent.ainvoke(decide("approve"), thread()))
    assert second.value["action_requests"][0]["args"] == {"path": "/etc/passwd", "text": ""}
    assert second.id != first.id and ran == []
    await agent.ainvoke(decide("reject"), thread())
    assert ran == []


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


MISFITS: list[tuple[Any, str]] = [
    (edit("write_file", path=1), 'The arguments of this edit do not fit write_file: "path": '),
    (edit("write_file"), 'The arguments of this edit do not fit write_file: "path": '),
    (edit("write_file", path="c", mode="w"), 'The arguments of this edit do not fit write_file: "mode": '),
    (edit("write_file", path=object()), "These arguments are not JSON"),
    (edit("read_data"), "cannot be made one of another tool: the name is 'write_file', not 'read_data'"),
    (edit("rm"), "cannot be made one of another tool: the name is 'write_file', not 'rm'"),
    ({"type": "respond", "message": "x"}, 'is one of: "approve", "edit", "reject"'),
]


@pytest.mark.parametrize(("decision", "words"), MISFITS)
async def test_a_wrong_answer_about_a_changed_call_records_nothing_and_a_right_one_works(
    decision: Any, words: str
) -> None:
    agent, ran = office(
        call("write_file", {"path": "a"}), "ok", middleware=[Redirecting("write_file", {"path": "/etc/passwd"})]
    )
    await agent.ainvoke(say("go"), thread())
    waiting = only(await agent.ainvoke(decide("approve"), thread()))
    before = await journal(agent)
    for command in (decide(decision), Command(resume={waiting.id: {"decisions": [decision]}})):
        with pytest.raises(InvalidDecision, match=words):
            await agent.ainvoke(command, thread())
    assert await journal(agent) == before and ran == []
    assert only(await agent.ainvoke(None, thread())) == waiting
    result = await agent.ainvoke(decide(edit("write_file", path="b")), thread())
    assert ran == [("write_file", "b", "")]
    assert texts(result)[2] == ("tool", edited('write_file with arguments {"path": "b"}', "wrote b"))


@pytest.mark.parametrize("decision", [edit("write_file", path=1), edit("read_data"), {"type": "maybe"}, {}])
async def test_a_wrong_answer_that_a_store_took_is_asked_for_again_and_nothing_runs(decision: Any) -> None:
    agent, ran = office(call("read_data"), "ok", middleware=[Redirecting("write_file", {"path": "/etc/passwd"})])
    await agent.ainvoke(say("go"), thread())
    assert agent.store is not None
    for _ in range(2):
        [question] = (await agent.store.questions()).items
        answer = Respond({"decisions": [decision]})
        await agent.store.decide(question.id, answer, by="ann", digest=question.digest)
        [action] = only(await agent.ainvoke(None, thread())).value["action_requests"]
        assert action["args"] == {"path": "/etc/passwd", "text": ""}
        assert action["description"].count("\n\nNote: The last answer did not fit. ") == 1
    assert ran == []
    await agent.ainvoke(decide("approve"), thread())
    assert ran == [("write_file", "/etc/passwd", "")]


async def test_an_edit_of_a_changed_call_is_told_once_though_its_body_is_entered_again() -> None:
    sent: list[str] = []

    def send(to: str) -> str:
        """Send."""
        again = interrupt("Sure?")
        sent.append(to)
        return f"{again}: {to}"

    gate = HumanInTheLoopMiddleware({"send": True})
    agent = create_agent(
        Paired([call("send", {"to": "ann"}), "ok"]),
        [send],
        middleware=[gate, Redirecting("send", {"to": "eve"})],
        checkpointer=InMemorySaver(),
    )
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(decide("approve"), thread())
    assert only(await agent.ainvoke(decide(edit("send", to="bob")), thread())).value == "Sure?"
    result = await agent.ainvoke(Command(resume="yes"), thread())
    assert sent == ["bob"]
    assert texts(result)[2] == ("tool", edited('send with arguments {"to": "bob"}', "yes: bob"))
    assert requests(agent)[-1].input[-1]["output"] == texts(result)[2][1]


async def test_the_question_about_a_changed_call_begins_as_the_policy_says_now(tmp_path: Any) -> None:
    def made(prefix: str, *steps: Any) -> Any:
        gate = HumanInTheLoopMiddleware({"write_file": True}, description_prefix=prefix)
        around = Redirecting("write_file", {"path": "b"})
        return create_agent(Paired(steps), ran.tools(), middleware=[gate, around], checkpointer=saver)

    ran = Ran()
    with SqliteSaver(tmp_path / "threads.db") as saver:
        waiting = only(await made("Please", call("read_data")).ainvoke(say("go"), thread()))
        shown = "Tool: write_file\nArgs: {'path': 'b', 'text': ''}"
        assert waiting.value["action_requests"][0]["description"] == f"Please\n\n{shown}"
        agent = made("Kindly", "ok")
        waiting = only(await agent.ainvoke(None, thread()))
        assert waiting.value["action_requests"][0]["description"] == f"Kindly\n\n{shown}"
        await agent.ainvoke(decide("approve"), thread())
    assert ran == [("write_file", "b", "")]


async def test_what_middleware_makes_of_a_call_runs_if_it_needs_nobody_and_is_in_the_journal() -> None:
    agent, ran = office(call("read_data"), "ok", middleware=[Redirecting("read_data", {"table": "b"})])
    result = await agent.ainvoke(say("go"), thread())
    assert ran == [("read_data", "b")] and result["messages"][2].content == "rows of b"
    assert agent.store is not None
    facts: list[Any] = list((await agent.store.read("t:1")).facts)
    [step] = [fact for fact in facts if type(fact).__name__ == "Stepped"]
    assert bytes(step.value) == b'{"arguments":{"table":"b"},"tool":"read_data"}'


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("rm", {}, "no tool named 'rm'"),
        ("read_data", {"table": 1}, "do not fit"),
        ("read_data", {"rows": 1}, "do not fit"),
        ("read_data", {"table": object()}, ""),
        ("inner", {"input": "x"}, "cannot run in the place"),
    ],
)
async def test_what_middleware_makes_of_a_call_does_not_run_if_it_cannot(name: str, args: Any, words: str) -> None:
    ran = Ran()
    inner = create_agent(Paired(["never"]), name="inner")
    agent = create_agent(
        Paired([call("read_data"), "ok"]),
        [*ran.tools(), inner],
        middleware=[Redirecting(name, args)],
        checkpointer=InMemorySaver(),
    )
    result = await agent.ainvoke(say("go"), thread())
    assert ran == []
    assert result["messages"][2].status == "error" and words in result["messages"][2].content


async def test_middleware_may_answer_a_call_without_running_it() -> None:
    @wrap_tool_call
    def cached(request: Any, handler: Any) -> Any:
        return ToolMessage("cached", tool_call_id=request.tool_call["id"])

    agent, ran = office(call("read_data"), "ok", middleware=[cached])
    assert texts(await agent.ainvoke(say("go"), thread()))[2] == ("tool", "cached") and ran == []


async def test_middleware_may_say_that_a_call_failed() -> None:
    @wrap_tool_call
    def failed(request: Any, handler: Any) -> Any:
        message = handler(request)
        return ToolMessage(f"Not so: {message.content}", tool_call_id=message.tool_call_id, status="error")

    agent, _ = office(call("read_data"), "ok", middleware=[failed])
    message = (await agent.ainvoke(say("go"), thread()))["messages"][2]
    assert (message.status, message.content) == ("error", "Not so: rows of records")


def failing(tries: list[int], **options: Any) -> FunctionTool:
    @function_tool(**options)
    def flaky() -> dict[str, int]:
        """Fail the first time."""
        tries.append(1)
        if len(tries) < 2:
            raise RuntimeError("try again")
        return {"tries": len(tries)}

    return flaky


@wrap_tool_call
def retry(request: Any, handler: Any) -> Any:
    try:
        return handler(request)
    except RuntimeError:
        return handler(request)


async def test_only_an_idempotent_tool_is_run_again_by_middleware() -> None:
    tries: list[int] = []
    agent = create_agent(
        Paired([call("flaky"), "ok"]), [failing(tries)], middleware=[retry], checkpointer=InMemorySaver()
    )
    with pytest.raises(UsageError, match="not idempotent"):
        await agent.ainvoke(say("go"), thread())
    message = (await agent.ainvoke(None, thread()))["messages"][2]
    assert (message.status, message.content) == ("error", "The tool failed with RuntimeError: try again")
    assert len(tries) == 1

    tries.clear()
    tool = failing(tries, idempotent=True)
    agent = create_agent(Paired([call("flaky"), "ok"]), [tool], middleware=[retry], checkpointer=InMemorySaver())
    message = (await agent.ainvoke(say("go"), thread()))["messages"][2]
    assert (message.status, message.content, len(tries)) == ("success", '{"tries":2}', 2)


async def test_a_tools_own_failure_is_told_as_ever_under_middleware() -> None:
    @wrap_tool_call
    async def through(request: Any, handler: Any) -> Any:
        return await handler(request)

    tool = failing([])
    agent = create_agent(Paired([call("flaky"), "ok"]), [tool], middleware=[through], checkpointer=InMemorySaver())
    message = (await agent.ainvoke(say("go"), thread()))["messages"][2]
    assert (message.status, message.content) == ("error", "The tool failed with RuntimeError: try again")

    raising = failing([], failure_error_function=None)
    agent = create_agent(Paired([call("flaky"), "ok"]), [raising], middleware=[through], checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="try again"):
        await agent.ainvoke(say("go"), thread())


@pytest.mark.parametrize("given", [None, "text", Command(resume=1)], ids=str)
async def test_what_is_no_tool_message_is_an_error(given: Any) -> None:
    @wrap_tool_call
    def odd(request: Any, handler: Any) -> Any:
        return given

    agent, _ = office(call("read_data"), "ok", middleware=[odd])
    with pytest.raises(UsageError, match="or a ToolMessage"):
        await agent.ainvoke(say("go"), thread())
    message = (await agent.ainvoke(None, thread()))["messages"][2]
    assert message.status == "error" and "or a ToolMessage" in message.content


async def test_a_tool_call_request_tells_what_there_is_to_know() -> None:
    seen: list[Any] = []

    @wrap_tool_call
    async def look(request: Any, handler: Any) -> Any:
        seen.append((request.tool_call, request.tool.name, [m.type for m in request.state["messages"]]))
        message = await handler(request)
        seen.append((message.tool_call_id, message.name, message.artifact))
        return message

    def count() -> dict[str, int]:
        """Count."""
        return {"n": 3}

    agent = create_agent(Paired([call("count"), "ok"]), [count], middleware=[look], checkpointer=InMemorySaver())
    await agent.ainvoke(say("go"), thread())
    assert seen == [
        ({"name": "count", "args": {}, "id": "call_1_0", "type": "tool_call"}, "count", ["human", "ai"]),
        ("call_1_0", "count", {"n": 3}),
    ]


async def test_guardrails_of_a_tool_that_runs_instead_are_asked() -> None:
    from assentry import ToolGuardrailFunctionOutput, tool_input_guardrail

    @tool_input_guardrail
    def never(data: Any) -> Any:
        return ToolGuardrailFunctionOutput.reject_content("Guarded.")

    done: list[str] = []

    @function_tool(tool_input_guardrails=[never])
    def guarded() -> str:
        """Do it."""
        done.append("guarded")
        return "done"

    agent = create_agent(
        Paired([call("read_data"), "ok"]),
        [*Ran().tools(), guarded],
        middleware=[Redirecting("guarded", {})],
        checkpointer=InMemorySaver(),
    )
    message = (await agent.ainvoke(say("go"), thread()))["messages"][2]
    assert (message.status, message.content, done) == ("error", "Guarded.", [])


async def test_parallel_calls_each_have_their_middleware() -> None:
    inside = asyncio.Barrier(2)

    @wrap_tool_call
    async def meet(request: Any, handler: Any) -> Any:
        await asyncio.wait_for(inside.wait(), 60)
        return await handler(request)

    agent, ran = office([call("read_data", {"table": "a"}), call("read_data", {"table": "b"})], "ok", middleware=[meet])
    await agent.ainvoke(say("go"), thread())
    assert sorted(ran) == [("read_data", "a"), ("read_data", "b")]


async def test_arguments_that_middleware_changes_in_place_are_judged_at_any_depth() -> None:
    done: list[Any] = []

    @function_tool(needs_approval=True)
    def mail(to: list[str]) -> str:
        """Send a mail."""
        done.append(to)
        return "sent"

    @wrap_tool_call
    def add(request: Any, handler: Any) -> Any:
        request.tool_call["args"]["to"].append("mallory")
        return handler(request)

    agent = create_agent(
        Paired([call("mail", {"to": ["ann"]}), "ok"]), [mail], middleware=[add], checkpointer=InMemorySaver()
    )
    await agent.ainvoke(say("go"), thread())
    second = only(await agent.ainvoke(decide("approve"), thread()))
    assert second.value["action_requests"][0]["args"] == {"to": ["ann", "mallory"]} and done == []
    await agent.ainvoke(decide("approve"), thread())
    assert done == [["ann", "mallory"]]


async def test_a_handler_that_was_kept_runs_nothing_when_its_call_is_over() -> None:
    kept: list[Any] = []

    @wrap_tool_call
    async def keep(request: Any, handler: Any) -> Any:
        kept.append((request, handler))
        return ToolMessage("Later.", tool_call_id=request.tool_call["id"])

    agent, ran = office(call("read_data"), "ok", middleware=[keep])
    await agent.ainvoke(say("go"), thread())
    [(request, handler)] = kept
    other = {**request.tool_call, "name": "write_file", "args": {"path": "b"}}
    for late in (request, request.override(tool_call=other)):
        with pytest.raises(Conflict, match="is over"):
            await handler(late)
    assert ran == []


async def test_a_call_whose_output_a_middleware_leaves_out_moves_nothing_that_was_said_later() -> None:
    @wrap_model_call
    async def forget(request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=[m for m in request.messages if m.content != "rows of a"]))

    steps = [call("read_data", {"table": "a"}, "first"), call("read_data", {"table": "b"}, "second"), "one", "two"]
    agent, _ = office(*steps, middleware=[forget])
    await agent.ainvoke(say("go"), thread())
    await agent.ainvoke(say("go on"), thread())
    heard = requests(agent)[-1].input
    assert [item.get("call_id") or item["role"] for item in heard] == ["user", "second", "second", "assistant", "user"]


# -- today's forms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_prompt_may_be_made_for_each_request(awaits: bool) -> None:
    def prompt(request: Any) -> Any:
        return f"There are {len(request.messages)} messages."

    async def later(request: Any) -> Any:
        return SystemMessage([{"type": "text", "text": prompt(request)}])

    agent, _ = office("ok", "ok", middleware=[dynamic_prompt(later if awaits else prompt)], system_prompt="Be long.")
    await agent.ainvoke(say("a"), thread())
    await agent.ainvoke(say("b"), thread())
    assert [each.instructions for each in requests(agent)] == ["There are 1 messages.", "There are 3 messages."]


def test_a_program_may_call_the_hook_of_a_prompt_itself() -> None:
    @dynamic_prompt
    def prompt(request: Any) -> str:
        return f"There are {len(request.messages)} messages."

    def handler(request: Any) -> ModelResponse:
        return ModelResponse([AIMessage(request.system_prompt)])

    request: Any = ModelRequest(model=None, messages=[HumanMessage("a")])
    assert prompt.wrap_model_call(request, handler).result[0].content == "There are 1 messages."


async def test_a_prompt_that_is_none_is_refused() -> None:
    @dynamic_prompt
    def prompt(request: Any) -> Any:
        return None

    agent, _ = office("ok", middleware=[prompt])
    with pytest.raises(UsageError, match="gives the system prompt"):
        await agent.ainvoke(say("a"), thread())


async def test_hooks_may_say_where_they_jump() -> None:
    class Stop(AgentMiddleware):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "end"}

    agent, _ = office(middleware=[Stop()])
    assert texts(await agent.ainvoke(say("a"), thread())) == [("human", "a")]
    with pytest.raises(InvalidDefinition, match="@hook_config: can_jump_to is a list"):
        hook_config(can_jump_to=["start"])


async def test_the_outer_hook_gets_a_response_whatever_the_inner_one_gave() -> None:
    seen: list[Any] = []

    @wrap_model_call
    def outer(request: Any, handler: Any) -> Any:
        seen.append(handler(request))
        return seen[0]

    @wrap_model_call
    async def middle(request: Any, handler: Any) -> Any:
        seen.append(await handler(request))
        response = seen.pop()
        assert isinstance(response, ModelResponse)
        return ExtendedModelResponse(response)

    @wrap_model_call
    def inner(request: Any, handler: Any) -> Any:
        return AIMessage("No.")

    agent, _ = office(middleware=[outer, middle, inner])
    assert texts(await agent.ainvoke(say("a"), thread()))[-1] == ("ai", "No.")
    assert isinstance(seen[0], ModelResponse)


async def test_fields_of_a_request_may_be_assigned() -> None:
    @wrap_model_call
    def other(request: Any, handler: Any) -> Any:
        request.system_prompt = "Be brief."
        request.messages = [*request.messages, HumanMessage("Hm?")]
        return handler(request)

    agent, _ = office("ok", middleware=[other], system_prompt="Be long.")
    await agent.ainvoke(say("a"), thread())
    [asked] = requests(agent)
    assert asked.instructions == "Be brief."
    assert [each["content"] for each in asked.input] == ["a", "Hm?"]


async def test_a_middleware_is_given_once() -> None:
    with pytest.raises(InvalidDefinition, match="'noted' is given twice"):
        office(middleware=[noted := before_model(lambda state, runtime: None, name="noted"), noted])


async def test_middleware_that_rewrites_messages_does_not_lose_a_hosted_request() -> None:
    config = {
        "type": "mcp",
        "server_label": "git",
        "server_url": "https://mcp.example/sse",
        "require_approval": "always",
    }
    request = {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": "git",
        "name": "search",
        "arguments": '{"q": "x"}',
    }

    @wrap_model_call
    def hidden(request: Any, handler: Any) -> Any:
        first, *rest = request.messages
        return handler(request.override(messages=[HumanMessage(f"{first.text} (in short)"), *rest]))

    model = Paired([[request], "Found."])
    agent = create_agent(model, [HostedMCPTool(config)], middleware=[hidden], checkpointer=InMemorySaver())
    assert (await agent.ainvoke(say("Find it."), thread()))["__interrupt__"]
    result = await agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert texts(result)[-1] == ("ai", "Found.")
    told, asked, answered = model.requests[1].input
    assert told["content"] == "Find it. (in short)"
    assert asked["id"] == answered["approval_request_id"] == "mcpr_1"
