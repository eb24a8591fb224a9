"""Blocking calls work everywhere."""

import asyncio
import contextlib
import contextvars
import gc
import inspect
import os
import signal
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from traceback import walk_stack
from typing import Any

import pytest

from assentry import Agent, RunContextWrapper, Runner, function_tool
from assentry.errors import InvalidInput, MaxTurnsExceeded
from assentry.runtime.sync import block, iterate
from assentry.testing import ScriptedModel, call
from tests.runtime.support import python, scripted, sending, soon, told


def test_a_blocking_run_needs_no_loop() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = Runner.run_sync(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert Runner.run_sync(agent, state).final_output == "done"
    assert sent == [("ann", 1)]


async def test_a_blocking_run_works_inside_a_running_loop() -> None:
    send, _ = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    result = Runner.run_sync(agent, "go")
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert Runner.run_sync(agent, state).final_output == "done"


def test_a_blocking_run_and_an_awaited_one_take_turns_on_one_state() -> None:
    send, sent = sending(needs_approval=True)
    agent = scripted(call("send", {"to": "ann"}), call("send", {"to": "bob"}), "done", tools=[send])
    state = asyncio.run(Runner.run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    state = Runner.run_sync(agent, state).to_state()
    state.approve(state.get_interruptions()[0])
    assert asyncio.run(Runner.run(agent, state)).final_output == "done"
    assert sent == [("ann", 1), ("bob", 1)]


@pytest.mark.parametrize("options", [{"max_turns": 1}, {"context": 5}])
def test_a_blocking_run_takes_the_same_options(options: dict[str, Any]) -> None:
    assert Runner.run_sync(scripted("hi"), "go", **options).final_output == "hi"
    plain = inspect.signature(Runner.run).parameters
    assert list(inspect.signature(Runner.run_sync).parameters) == list(plain)
    assert list(inspect.signature(Runner.run_streamed).parameters) == list(plain)


def test_an_error_leaves_a_blocking_run_with_its_state() -> None:
    send, _ = sending()
    agent = scripted(call("send", {"to": "ann"}), "done", tools=[send])
    with pytest.raises(MaxTurnsExceeded) as caught:
        Runner.run_sync(agent, "go", max_turns=1)
    assert Runner.run_sync(agent, caught.value.state, max_turns=2).final_output == "done"
    with pytest.raises(InvalidInput):
        Runner.run_sync(agent, 5)  # type: ignore[arg-type]


async def test_an_error_leaves_a_blocking_run_inside_a_loop_with_its_state() -> None:
    agent = scripted(ConnectionError("gone"), "done")
    with pytest.raises(ConnectionError) as caught:
        Runner.run_sync(agent, "go")
    assert Runner.run_sync(agent, caught.value.state).final_output == "done"  # type: ignore[attr-defined]


@pytest.mark.parametrize("outer_async", [True, False])
@pytest.mark.parametrize("inner_async", [True, False])
async def test_a_blocking_run_works_inside_a_tools_body(outer_async: bool, inner_async: bool) -> None:
    async def ask_async() -> str:
        return "inner answer"

    def ask() -> str:
        return "inner answer"

    inner_tool = function_tool(name_override="ask")(ask_async if inner_async else ask)
    inner = scripted(*[call("ask"), "from inside"] * 2, tools=[inner_tool], name="inner")

    async def delegate_async() -> str:
        return str(Runner.run_sync(inner, "go").final_output)

    def delegate() -> str:
        return str(Runner.run_sync(inner, "go").final_output)

    tool = function_tool(name_override="delegate")(delegate_async if outer_async else delegate)
    outer = scripted(call("delegate"), call("delegate"), "done", tools=[tool])
    result = await soon(Runner.run(outer, "go"))
    assert told(result) == ["from inside", "from inside"]


def test_blocking_runs_nest_in_blocking_runs() -> None:
    def nested(depth: int) -> Agent[Any]:
        @function_tool
        def deeper() -> str:
            return str(Runner.run_sync(nested(depth - 1), "go").final_output) if depth else "bottom"

        return scripted(call("deeper"), lambda request: f"{depth} {request.input[-1]['output']}", tools=[deeper])

    assert Runner.run_sync(nested(3), "go").final_output == "3 2 1 0 bottom"


def test_blocking_runs_work_in_threads_side_by_side() -> None:
    both = threading.Barrier(4)

    @function_tool
    def meet() -> str:
        both.wait(timeout=60)
        return "met"

    def run(n: int) -> Any:
        return Runner.run_sync(scripted(call("meet"), f"done {n}", tools=[meet]), "go").final_output

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [f"done {n}" for n in range(4)]


def test_a_thread_that_ends_leaves_no_open_loop_behind() -> None:
    said: list[Any] = []

    def run() -> None:
        said.append(Runner.run_sync(scripted("hi"), "go").final_output)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        gc.collect()
    assert said == ["hi"] * 3
    assert [str(each.message) for each in caught] == []


def test_a_program_that_blocks_ends_without_complaint() -> None:
    code = """
        import logging, threading
        from assentry import Agent, Runner, function_tool
        from assentry.testing import ScriptedModel, call

        logging.getLogger("asyncio").setLevel(logging.ERROR)  # in development mode it names what takes long

        @function_tool
        def nested() -> str:
            return Runner.run_sync(Agent("inner", model=ScriptedModel(["inner"])), "go").final_output

        agent = Agent("agent", tools=[nested], model=ScriptedModel([call("nested"), "one", "two", "three"]))
        print(Runner.run_sync(agent, "go").final_output)
        print(Runner.run_sync(agent, "go").final_output)
        thread = threading.Thread(target=lambda: print(Runner.run_sync(agent, "go").final_output))
        thread.start()
        thread.join()
    """
    ended = python(inspect.cleandoc(code), "-X", "dev", "-W", "error")
    assert ended.stdout.split() == ["one", "two", "three"]
    assert ended.stderr == ""
    assert ended.returncode == 0


def test_each_blocking_run_sees_the_context_variables_of_its_own_caller() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    @function_tool
    async def look() -> str:
        return who.get()

    @function_tool
    def look_sync() -> str:
        return who.get()

    for name in ("ann", "bob", "eve"):
        token = who.set(name)
        agent = scripted([call("look"), call("look_sync")], "done", tools=[look, look_sync])
        assert told(Runner.run_sync(agent, "go")) == [name, name]
        who.reset(token)
    assert who.get() == "nobody"


async def test_a_blocking_run_inside_a_loop_sees_the_context_variables_of_its_caller() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    @function_tool
    async def look() -> str:
        return who.get()

    for name in ("ann", "bob"):
        who.set(name)
        assert told(Runner.run_sync(scripted(call("look"), "done", tools=[look]), "go")) == [name]


def test_what_a_run_sets_does_not_leak_into_the_next() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

    @function_tool
    async def become(name: str) -> str:
        before = who.get()
        who.set(name)
        return before

    agent = scripted(call("become", {"name": "ann"}), "done", call("become", {"name": "bob"}), "done", tools=[become])
    assert told(Runner.run_sync(agent, "go")) == ["nobody"]
    assert told(Runner.run_sync(agent, "go")) == ["nobody"]
    assert who.get() == "nobody"


def test_a_client_opened_in_one_blocking_call_works_in_the_next() -> None:
    loops: list[Any] = []

    @function_tool
    async def use(ctx: RunContextWrapper[Any]) -> str:
        loops.append(asyncio.get_running_loop())
        return "used"

    agent = scripted(call("use"), "done", call("use"), "done", tools=[use])
    Runner.run_sync(agent, "go")
    Runner.run_sync(agent, "go")
    assert loops[0] is loops[1]


def test_more_bodies_can_block_on_inner_runs_than_there_are_threads() -> None:
    """A sync body that runs an agent whose tools are sync needs a thread while it holds one."""
    code = """
        import threading
        from assentry import Agent, Runner, function_tool
        from assentry.testing import ScriptedModel, call

        all_here = threading.Barrier(128)

        @function_tool
        def inner_tool() -> str:
            return "inner"

        @function_tool
        def delegate() -> str:
            all_here.wait()
            inner = Agent("inner", tools=[inner_tool], model=ScriptedModel([call("inner_tool"), "done"]))
            return Runner.run_sync(inner, "go").final_output

        calls = [call("delegate") for _ in range(128)]
        agent = Agent("agent", tools=[delegate], model=ScriptedModel([calls, "over"]))
        print(Runner.run_sync(agent, "go").final_output)
    """
    assert python(inspect.cleandoc(code)).stdout == "over\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("what", ["run()", "pass"])
def test_a_forked_process_has_its_own_loop_and_its_own_threads(what: str) -> None:
    code = f"""
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # that to fork with threads is asking for trouble
        from assentry import Agent, Runner, function_tool
        from assentry.testing import ScriptedModel, call

        @function_tool
        def tool() -> str:
            return "gave"

        def run() -> None:
            agent = Agent("agent", tools=[tool], model=ScriptedModel([call("tool"), "over"]))
            print(Runner.run_sync(agent, "go").final_output, flush=True)

        run()
        child = os.fork()
        if child == 0:
            {what}
            sys.exit(0)
        os.waitpid(child, 0)
        run()
    """
    ended = python(inspect.cleandoc(code))
    assert (ended.stdout, ended.stderr) == ("over\n" * (3 if what == "run()" else 2), "")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as a program finds it, whatever the process that runs the tests has made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_blocking_run_can_be_interrupted_and_leaves_a_state_and_a_usable_thread() -> None:
    async def stop(request: Any) -> str:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()
        return "never"

    agent: Agent[Any] = Agent("agent", model=ScriptedModel([stop, "done"]))
    with pytest.raises(KeyboardInterrupt) as caught:
        Runner.run_sync(agent, "go")
    assert Runner.run_sync(agent, caught.value.state).final_output == "done"  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_from_within_leaves_a_blocking_run_with_its_state(error: type[BaseException]) -> None:
    def stop(request: Any) -> str:
        raise error

    agent: Agent[Any] = Agent("agent", model=ScriptedModel([stop, "done"]))
    with pytest.raises(error) as caught:
        Runner.run_sync(agent, "go")
    assert Runner.run_sync(agent, caught.value.state).final_output == "done"  # type: ignore[attr-defined]


def _exit() -> None:
    raise SystemExit


def _interrupt() -> None:
    raise KeyboardInterrupt


def _press_twice() -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("how", "error"), [(_exit, SystemExit), (_interrupt, KeyboardInterrupt), (_press_twice, KeyboardInterrupt)]
)
def test_a_tool_that_exits_leaves_nothing_behind_for_the_next_call(how: Any, error: type[BaseException]) -> None:
    @function_tool
    async def leave() -> str:
        """Leave."""
        how()
        return "never"

    with pytest.raises(error) as caught:
        Runner.run_sync(Agent("agent", tools=[leave], model=ScriptedModel([call("leave")])), "go")
    assert caught.value.state is not None  # type: ignore[attr-defined]
    other: Agent[Any] = Agent("other", model=ScriptedModel(["fine"]))
    assert Runner.run_sync(other, "go").final_output == "fine"


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_pressed_again_does_not_wait_for_a_tool_that_goes_on() -> None:
    @function_tool
    async def stay() -> str:
        """Stay."""
        loop = asyncio.get_running_loop()
        loop.call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            loop.call_soon(signal.raise_signal, signal.SIGINT)
            await ended.wait()
        return "never"

    ended = asyncio.Event()
    with pytest.raises(KeyboardInterrupt):
        Runner.run_sync(Agent("agent", tools=[stay], model=ScriptedModel([call("stay")])), "go")
    ended.set()
    other: Agent[Any] = Agent("other", model=ScriptedModel(["fine"]))
    assert Runner.run_sync(other, "go").final_output == "fine"


def _stopped_by_ctrl_c(waiter: Any) -> Any:
    """A model that presses Ctrl-C once the main thread waits in this function for another thread, and never answers."""

    async def stop(request: Any) -> str:
        ident = threading.main_thread().ident
        assert ident is not None
        while not _waits_in(waiter.__code__, sys._current_frames()[ident]):  # noqa: ASYNC110 - it can tell nobody
            await asyncio.sleep(0)
        signal.pthread_kill(ident, signal.SIGINT)
        await asyncio.Event().wait()
        return "never"

    return Agent("agent", model=ScriptedModel([stop, "done"]))


def _waits_in(code: Any, frame: Any) -> bool:
    stack = [each.f_code for each, _ in walk_stack(frame)]
    return code in stack and not any(each.co_filename == contextlib.__file__ for each in stack)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a signal cannot be sent to a thread here")
def test_ctrl_c_ends_a_blocking_run_inside_a_running_loop_and_leaves_its_state() -> None:
    agent = _stopped_by_ctrl_c(block)

    async def main() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a notebook
        with pytest.raises(KeyboardInterrupt) as caught:
            Runner.run_sync(agent, "go")
        assert Runner.run_sync(agent, caught.value.state).final_output == "done"  # type: ignore[attr-defined]
        assert not any(thread.name == "assentry-blocking" for thread in threading.enumerate())

    asyncio.run(main())


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a signal cannot be sent to a thread here")
def test_ctrl_c_ends_whoever_waits_for_the_next_of_an_iterator_and_leaves_its_state() -> None:
    agent = _stopped_by_ctrl_c(iterate)

    async def runs() -> AsyncGenerator[Any, None]:
        yield await Runner.run(agent, "go")

    with pytest.raises(KeyboardInterrupt) as caught:
        next(iterate(runs()))
    assert Runner.run_sync(agent, caught.value.state).final_output == "done"  # type: ignore[attr-defined]


def test_what_was_left_on_a_threads_loop_is_cancelled_when_the_thread_ends() -> None:
    ended = threading.Event()

    async def client() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def connect() -> asyncio.Task[None]:
        task = asyncio.create_task(client())
        await asyncio.sleep(0)
        return task

    thread = threading.Thread(target=lambda: block(connect()))
    thread.start()
    thread.join()
    assert ended.wait(60)
