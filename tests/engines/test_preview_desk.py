"""Workers make previews of edits: with the tool, without a lease, and without a trace in the run."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from assentry import Agent, AgentRegistry, Approve, Preview, Runner, function_tool
from assentry.definitions.preview import read_preview
from assentry.engines import Worker, preview_desk
from assentry.store import MemoryStore, Question, SQLiteStore, Store
from assentry.store.preview_requests import PreviewAnswer, PreviewRequest, await_answer, request_of
from assentry.testing import ScriptedModel, call
from tests.runtime.support import soon

Look = Callable[[Any, dict[str, Any]], Any]


def say_it(ctx: Any, args: dict[str, Any]) -> Preview:
    return Preview(f"Pay {args['amount']} to {args['to']}")


def clerk(
    preview: Look | None = say_it, *, words: str = "Pay somebody.", entered: list[str] | None = None
) -> Agent[Any]:
    @function_tool(needs_approval=True, preview=preview, description_override=words)
    async def pay(to: str, amount: int, note: str = "") -> str:
        (entered if entered is not None else []).append(to)
        return "paid"

    return Agent("Clerk", tools=[pay], model=ScriptedModel([call("pay", {"to": "ann", "amount": 5}), "Done."]))


async def asked(store: Store, agent: Agent[Any], **options: Any) -> Question:
    result = await Runner.run(agent, "go", store=store, **options)
    return await store.question(result.interruptions[0].id)


@asynccontextmanager
async def working(store: Store, *agents: Agent[Any], **options: Any) -> AsyncIterator[Worker]:
    worker = Worker(store, list(agents), **options)
    running = asyncio.create_task(worker.run(signals=False))
    try:
        yield worker
    finally:
        worker.stop()
        await soon(running)


async def ask(store: Store, request: PreviewRequest, nobody: float = 20.0) -> PreviewAnswer | None:
    assert store.previews is not None
    assert await store.previews.ask(request)
    return await soon(await_answer(store.previews, request, nobody))


def wish(question: Question, arguments: str, by: str = "ben") -> PreviewRequest:
    return request_of(question, "Clerk", arguments, by, 2**50)


EDIT = '{"amount":7,"note":"","to":"bob"}'


async def sentence(store: Store, question: Question, arguments: str = EDIT) -> str:
    answer = await ask(store, wish(question, arguments))
    assert answer is not None
    preview = read_preview(Raw((answer.preview or "").encode()))
    return answer.problem or (preview.sentence or str(preview.failed) if preview is not None else "")


async def test_a_worker_previews_an_edit_and_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    for store in (MemoryStore(), SQLiteStore(tmp_path / "runs.db")):
        entered: list[str] = []
        question = await asked(store, clerk())
        before = await store.lines(question.run)
        async with working(store, clerk(entered=entered)):
            assert await sentence(store, question) == "Pay 7 to bob"
        assert await store.lines(question.run) == before and entered == []
        record = await store.record(question.run)
        assert (record.worker, record.status) == (None, "waiting")
        await store.close()


async def test_another_process_hears_of_the_request_and_of_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with SQLiteStore(path) as store:
        question = await asked(store, clerk())

        def elsewhere() -> None:
            async def work() -> None:
                async with SQLiteStore(path) as own:
                    workers.append(Worker(own, [clerk()]))
                    ready.set()
                    await workers[0].run(signals=False)

            asyncio.run(work())

        workers: list[Worker] = []
        ready, thread = threading.Event(), threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(ready.wait, 60)
        assert await sentence(store, question) == "Pay 7 to bob"
        workers[0].stop()
        await asyncio.to_thread(thread.join, 60)


async def test_a_worker_without_the_agent_leaves_the_request_to_others() -> None:
    store = MemoryStore()
    question = await asked(store, clerk())
    other = Agent("Other", model=ScriptedModel([]))
    async with working(store, other):
        assert store.previews is not None
        assert await ask(store, wish(question, EDIT), nobody=0.0) is None
        async with working(store, clerk()):
            assert await sentence(store, question) == "Pay 7 to bob"


async def test_a_tool_that_has_changed_since_makes_no_preview() -> None:
    store = MemoryStore()
    question = await asked(store, clerk())
    async with working(store, clerk(words="Pay somebody else.")):
        assert "has changed" in await sentence(store, question)


async def test_a_tool_that_is_gone_makes_no_preview() -> None:
    store = MemoryStore()
    question = await asked(store, clerk())
    async with working(store, Agent("Clerk", model=ScriptedModel([]))):
        assert await sentence(store, question) != "Pay 7 to bob"


@pytest.mark.parametrize(
    "arguments",
    ['{"amount":"much","note":"","to":"bob"}', '{"amount":7}', '{"amount":7,"to":"bob"}', "[]", '{"a":1,"a":2}', "{"],
)
async def test_arguments_that_do_not_fit_are_refused_before_the_preview(arguments: str) -> None:
    looked: list[Any] = []

    def look(ctx: Any, args: Any) -> Preview:
        looked.append(args)
        return say_it(ctx, args)

    store = MemoryStore()
    question = await asked(store, clerk(look))
    looked.clear()
    async with working(store, clerk(look)):
        answer = await ask(store, wish(question, arguments))
        assert answer is not None and answer.problem and answer.preview is None
    assert looked == []


async def test_a_forged_question_or_digest_gets_no_preview() -> None:
    store = MemoryStore()
    question = await asked(store, clerk())
    async with working(store, clerk()):
        for forged in (
            replace(wish(question, EDIT), digest="0" * 64),
            replace(wish(question, EDIT), question="q_other"),
            replace(wish(question, EDIT), run="r_other"),
            replace(wish(question, EDIT), definition="0" * 32),
        ):
            answer = await ask(store, forged)
            assert answer is not None and answer.problem and answer.preview is None


async def test_a_question_that_was_decided_meanwhile_gets_no_preview() -> None:
    store = MemoryStore()
    question = await asked(store, clerk())
    await store.decide(question.id, Approve(), by="ann", digest=question.digest)
    async with working(store, clerk()) as worker:
        answer = await ask(store, wish(question, EDIT))
        assert answer is not None and answer.problem and answer.preview is None
        worker.stop()


async def test_a_preview_that_raises_says_so_and_the_worker_goes_on() -> None:
    def raises(ctx: Any, args: dict[str, Any]) -> Preview:
        if args["amount"] == 13:
            raise RuntimeError("no such account")
        return say_it(ctx, args)

    store = MemoryStore()
    question = await asked(store, clerk(raises))
    async with working(store, clerk(raises)):
        assert "no such account" in await sentence(store, question, EDIT.replace("7", "13"))
        assert await sentence(store, question) == "Pay 7 to bob"


async def test_previews_that_hang_are_cut_off_and_disturb_no_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_desk, "LONGEST", 0.05)

    async def hangs(ctx: Any, args: dict[str, Any]) -> Preview:
        if args["amount"] != 5:
            await asyncio.Event().wait()
        return say_it(ctx, args)

    store = MemoryStore()
    entered: list[str] = []
    agent = clerk(hangs, entered=entered)
    question = await asked(store, agent)
    async with working(store, agent):
        assert store.previews is not None
        for number in range(preview_desk.AT_ONCE + 2):
            await store.previews.ask(wish(question, EDIT, by=f"person {number}"))
        assert "longer" in await sentence(store, question)
        await store.decide(question.id, Approve(), by="ann", digest=question.digest)
        async with asyncio.timeout(60):
            while (await store.record(question.run)).status != "done":  # noqa: ASYNC110 - there is nothing that tells it
                await asyncio.sleep(0)
    assert entered == ["ann"]


async def test_a_worker_makes_few_previews_at_once() -> None:
    running, most, enough = [0], [0], asyncio.Event()

    async def counts(ctx: Any, args: dict[str, Any]) -> Preview:
        if args["amount"] != 5:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0)
            await enough.wait()
            running[0] -= 1
        return say_it(ctx, args)

    store = MemoryStore()
    question = await asked(store, clerk(counts))
    async with working(store, clerk(counts)):
        assert store.previews is not None
        requests = [wish(question, EDIT, by=f"person {number}") for number in range(7)]
        for request in requests:
            assert await store.previews.ask(request)
        async with asyncio.timeout(60):
            while most[0] < preview_desk.AT_ONCE:  # noqa: ASYNC110 - there is nothing that tells it
                await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert most[0] == preview_desk.AT_ONCE
        enough.set()
        answers = [await soon(await_answer(store.previews, request, 20.0)) for request in requests]
    assert all(answer is not None and answer.preview for answer in answers) and most[0] == preview_desk.AT_ONCE


async def test_a_preview_has_the_context_of_the_run() -> None:
    def named(ctx: Any, args: dict[str, Any]) -> Preview:
        return Preview(f"Pay {args['amount']} for {ctx.context['customer']}")

    store = MemoryStore()
    question = await asked(store, clerk(named), context={"customer": "Anna"})
    async with working(store, clerk(named)):
        assert await sentence(store, question) == "Pay 7 for Anna"


async def test_without_the_context_that_was_not_saved_there_is_no_preview() -> None:
    class Own:
        customer = "Anna"

    def named(ctx: Any, args: dict[str, Any]) -> Preview:
        return Preview(f"Pay {args['amount']} for {ctx.context.customer}")

    store = MemoryStore()
    with pytest.warns(UserWarning, match="left out"):
        question = await asked(store, clerk(named), context=Own())
    async with working(store, clerk(named)):
        assert "context" in await sentence(store, question)
    async with working(store, clerk(named), context=Own()):
        assert await sentence(store, question) == "Pay 7 for Anna"


async def test_what_a_preview_does_to_its_arguments_reaches_nobody() -> None:
    def changes(ctx: Any, args: dict[str, Any]) -> Preview:
        said = Preview(f"Pay {args['amount']}")
        args["amount"] = 1_000_000
        return said

    store = MemoryStore()
    question = await asked(store, clerk(changes))
    async with working(store, clerk(changes)):
        assert await sentence(store, question) == "Pay 7"
        assert await sentence(store, question) == "Pay 7"


async def test_the_version_of_the_agent_that_the_run_was_made_with_answers() -> None:
    store = MemoryStore()
    registry = AgentRegistry()
    registry.add(clerk(), version="1")
    registry.add(clerk(lambda ctx, args: Preview("A newer preview"), words="Pay, but newer."), version="2")
    question = await asked(store, registry.get("Clerk", "1"))
    worker = Worker(store, registry)
    running = asyncio.create_task(worker.run(signals=False))
    assert await sentence(store, question) == "Pay 7 to bob"
    worker.stop()
    await soon(running)
