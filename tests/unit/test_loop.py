"""What is begun where it is called, and ended in a task if it has to wait."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from assent.loop import begun


async def test_what_waits_for_nothing_is_done_at_once() -> None:
    done: list[str] = []

    async def work() -> None:
        done.append("it")

    assert begun(work()) is None
    assert done == ["it"]


async def test_what_fails_at_once_says_so_at_once() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        begun(work())


async def test_what_waits_is_ended_in_a_task() -> None:
    said: list[object] = []
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))

    async def work() -> None:
        said.append(await first)
        try:
            await second
        except ValueError as error:
            said.append(str(error))
        await asyncio.sleep(0)
        said.append("over")

    left = begun(work())
    assert inspect.iscoroutine(left)
    task = asyncio.create_task(left)
    await asyncio.sleep(0)
    assert said == []
    first.set_result("one")
    second.set_exception(ValueError("two"))
    await task
    assert said == ["one", "two", "over"]


async def test_what_fails_later_says_so_to_whoever_waits() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    left = begun(work())
    assert left is not None
    with pytest.raises(ValueError, match="no"):
        await asyncio.create_task(left)


async def test_what_is_left_can_be_cancelled() -> None:
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            said.append("cleared")

    left = begun(work())
    assert left is not None
    task = asyncio.create_task(left)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["cleared"]
