"""`check_session`: checks of the rules for sessions, for authors of custom sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any
from uuid import uuid4

from ..core.transcript import Item
from ..sessions.session import ExactSession, Session, writes_exactly

MakeSession = Callable[[str], Session | Awaitable[Session]]
Fresh = Callable[[], Awaitable[Session]]

ITEMS: list[Item] = [
    {"role": "user", "content": "Where is my order?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
    {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"order": 7}'},
    {"type": "function_call_output", "call_id": "c1", "output": ""},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "On its way.", "n": 1.5}]},
]


async def check_session(make_session: MakeSession) -> None:
    """Check a session implementation; raise `AssertionError` with the rule that the session breaks.

    `make_session` is called several times, each time with an unused id, and returns a session of that id, or an
    awaitable of a session. If the session has `write` (see `ExactSession`), that method is checked too. The sessions
    are cleared in the end.
    """
    made: list[Session] = []

    async def fresh() -> Session:
        given = make_session(f"check-{uuid4().hex}")
        session = await given if isawaitable(given) else given
        made.append(session)
        return session

    exact = writes_exactly(await fresh())
    for check in (*SESSION_CHECKS, *(EXACT_CHECKS if exact else ())):
        await check(fresh)
    for session in made:
        await session.clear_session()


def _same(found: Any, expected: Any, sentence: str) -> None:
    if found != expected:
        raise AssertionError(f"{sentence} It gave {found!r:.300}, not {expected!r:.300}.")


def _number_items(count: int, word: str = "item") -> list[Item]:
    return [{"role": "user", "content": f"{word} {n}"} for n in range(count)]


async def _is_a_session(fresh: Fresh) -> None:
    session: object = await fresh()
    if not isinstance(session, Session):
        names = ("session_id", "get_items", "add_items", "pop_item", "clear_session")
        missing = ", ".join(name for name in names if not hasattr(session, name))
        raise AssertionError(f"A session has all names of the protocol. {type(session).__name__} has no {missing}.")
    if not isinstance(session.session_id, str):
        raise AssertionError(f"A session's id is text. It is {session.session_id!r:.80}.")


async def _begins_empty(fresh: Fresh) -> None:
    session = await fresh()
    _same(await session.get_items(), [], "A new session has no items.")
    _same(await session.get_items(3), [], "A new session has no items, with a limit neither.")
    _same(await session.pop_item(), None, "There is nothing to pop in a new session.")
    await session.clear_session()
    await session.add_items([])
    _same(await session.get_items(), [], "Adding no items adds none.")


async def _keeps_order(fresh: Fresh) -> None:
    session = await fresh()
    await session.add_items(ITEMS[:2])
    await session.add_items(ITEMS[2:])
    _same(await session.get_items(), ITEMS, "Items come out as they went in, oldest first.")
    twins = await fresh()
    await twins.add_items(ITEMS[:1] * 2)
    await twins.add_items(ITEMS[:1])
    _same(await twins.get_items(), ITEMS[:1] * 3, "What is added three times is there three times.")


async def _limits(fresh: Fresh) -> None:
    session = await fresh()
    items = _number_items(12)
    for start in range(0, 12, 3):
        await session.add_items(items[start : start + 3])
    for limit in (1, 4, 11, 12, 13, 10_000):
        _same(
            await session.get_items(limit), items[-limit:], f"A limit of {limit} gives the latest items, oldest first."
        )
    _same(await session.get_items(limit=2), items[-2:], "`limit` may be given by its name.")
    _same(await session.get_items(0), [], "A limit of 0 gives nothing.")


async def _pops(fresh: Fresh) -> None:
    session = await fresh()
    await session.add_items(ITEMS)
    _same(await session.pop_item(), ITEMS[-1], "The newest item is popped.")
    _same(await session.get_items(), ITEMS[:-1], "What was popped is not there any more, and all else is.")
    await session.add_items(ITEMS[:1])
    _same(await session.pop_item(), ITEMS[0], "What was added after a pop is popped next.")
    for item in reversed(ITEMS[:-1]):
        _same(await session.pop_item(), item, "Items are popped from the newest to the oldest.")
    _same(await session.pop_item(), None, "Popping ends with None.")


async def _clears(fresh: Fresh) -> None:
    session = await fresh()
    await session.add_items(ITEMS)
    await session.clear_session()
    _same(await session.get_items(), [], "A cleared session has no items.")
    await session.add_items(ITEMS[:1])
    _same(await session.get_items(), ITEMS[:1], "A cleared session can be used again.")


async def _keeps_sessions_apart(fresh: Fresh) -> None:
    one, other = await fresh(), await fresh()
    await one.add_items(ITEMS[:2])
    await other.add_items(ITEMS[2:])
    await one.add_items(ITEMS[:1])
    _same(await one.get_items(), [*ITEMS[:2], ITEMS[0]], "A session has its own items only.")
    _same(await other.pop_item(), ITEMS[-1], "A session pops its own items only.")
    await one.clear_session()
    _same(await other.get_items(), ITEMS[2:-1], "Clearing one session leaves the others as they are.")


async def _keeps_what_json_can_say(fresh: Fresh) -> None:
    deep: Any = "end"
    for _ in range(60):
        deep = {"in": [deep]}
    items: list[Item] = [
        {"content": "żółć 漢字 \U0001f9d1\u200d\U0001f680 \u202e \u0000 \x1f \\ \" ' % ; --\r\n\t"},
        {"ключ": {"": None}, "a.b": True, "$c": False},
        {"numbers": [0, -1, 2**53 + 1, 0.1, 1e300, -2.5e-300], "empty": [[], {}, ""]},
        {"deep": deep},
        {"large": "x" * 1_000_000},
        {},
    ]
    session = await fresh()
    await session.add_items(items)
    _same(await session.get_items(), items, "Any JSON is kept as it is.")
    kept = (await session.get_items())[2]["numbers"]
    _same([type(n) for n in kept], [int, int, int, float, float, float], "A number stays the kind of number it is.")


async def _hands_out_copies(fresh: Fresh) -> None:
    session = await fresh()
    given: list[Item] = [{"role": "user", "content": [{"text": "before"}]}]
    before: list[Item] = [{"role": "user", "content": [{"text": "before"}]}]
    await session.add_items(given)
    given[0]["content"][0]["text"] = "after"
    given.append({})
    _same(await session.get_items(), before, "What is done to a list of items after it was added changes nothing.")
    handed = await session.get_items()
    handed[0]["content"][0]["text"] = "after"
    handed.clear()
    _same(await session.get_items(), before, "What is done to items that were handed out changes nothing.")


async def _keeps_batches_whole(fresh: Fresh) -> None:
    session = await fresh()
    batches = [_number_items(7, f"batch {n}, item") for n in range(12)]
    seen: list[list[Item]] = []

    async def look() -> None:
        seen.append(await session.get_items())

    await asyncio.gather(*(work for batch in batches for work in (session.add_items(batch), look())))
    for items in (*seen, await session.get_items()):
        found = [items[start : start + 7] for start in range(0, len(items), 7)]
        if not all(batch in batches for batch in found):
            raise AssertionError("Items that are added together stay together, and are seen together or not at all.")
    _same(len(await session.get_items()), 7 * len(batches), "What is added at the same time is all there.")


async def _pops_once(fresh: Fresh) -> None:
    session = await fresh()
    items = _number_items(10)
    await session.add_items(items)
    popped = await asyncio.gather(*(session.pop_item() for _ in range(12)))
    found = sorted(item["content"] for item in popped if item is not None)
    _same(found, [item["content"] for item in items], "Of several that pop at the same time, each gets another item.")


async def _adds_all_or_nothing(fresh: Fresh) -> None:
    session = await fresh()
    await session.add_items(ITEMS[:1])
    try:
        await session.add_items([*ITEMS[1:], {"content": object()}])
    except Exception:
        _same(await session.get_items(), ITEMS[:1], "Of items that cannot all be added, none is added.")
        await session.add_items(ITEMS[1:])
        _same(await session.get_items(), ITEMS, "After a failure, the right call works.")


async def _survives_cancellation(fresh: Fresh) -> None:
    session = await fresh()
    items = _number_items(50)
    adding = asyncio.ensure_future(session.add_items(items))
    await asyncio.sleep(0)
    adding.cancel()
    await asyncio.wait([adding])
    found = await session.get_items()
    if found not in ([], items):
        raise AssertionError(f"Adding that is cancelled adds all or nothing. It added {len(found)} of {len(items)}.")
    await session.clear_session()
    await session.add_items(ITEMS)
    _same(await session.get_items(), ITEMS, "A session can be used after a call was cancelled.")


async def _works_in_any_loop(fresh: Fresh) -> None:
    session = await fresh()
    await session.add_items(ITEMS[:2])

    async def elsewhere() -> list[Item]:
        await session.add_items(ITEMS[2:])
        return await session.get_items()

    try:
        found = await asyncio.to_thread(asyncio.run, elsewhere())
    except Exception as error:
        raise AssertionError(f"A session is usable from any event loop. In another one it raised {error!r}.") from error
    _same(found, ITEMS, "A session is the same from every event loop.")
    _same(await session.get_items(), ITEMS, "A session is the same after it was used in another event loop.")


async def _exact(fresh: Fresh) -> ExactSession:
    session = await fresh()
    if not writes_exactly(session):
        raise AssertionError("If one session has `write`, all have it.")
    return session


async def _writes_once(fresh: Fresh) -> None:
    session = await _exact(fresh)
    await session.write("run", 0, ITEMS[:2])
    await session.write("run", 0, ITEMS[:2])
    _same(await session.get_items(), ITEMS[:2], "What is written twice is stored once.")
    await session.write("run", 1, ITEMS[1:4])
    _same(await session.get_items(), ITEMS[:4], "Of what is written, only what is new is stored.")
    await session.write("run", 0, ITEMS)
    await session.write("run", 3, ITEMS[3:4])
    await session.write("run", 5, [])
    _same(await session.get_items(), ITEMS, "What is stored at its position is not stored again.")


async def _goes_with_the_run(fresh: Fresh) -> None:
    session = await _exact(fresh)
    await session.write("run", 0, ITEMS[:1])
    await session.write("run", 1, ITEMS[1:4])
    await session.write("another run", 0, ITEMS[:1])
    await session.write("run", 4, ITEMS[4:])
    await session.write("run", 1, ITEMS[4:])
    _same(
        await session.get_items(),
        [ITEMS[0], ITEMS[0], ITEMS[4]],
        "Of a run that was taken up from an earlier save and writes something else, what stood there and after goes.",
    )


async def _tells_runs_apart(fresh: Fresh) -> None:
    session, other = await _exact(fresh), await _exact(fresh)
    await session.write("run", 0, ITEMS[:1])
    await session.add_items(ITEMS[1:2])
    await session.write("run", 1, ITEMS[:1])
    await session.write("another run", 0, ITEMS[:1])
    await session.add_items(ITEMS[1:2])
    await other.write("run", 0, ITEMS[:1])
    first, second = ITEMS[:2]
    _same(
        await session.get_items(),
        [first, second, first, first, second],
        "Items are told apart by run and position, not by what they say, and stand in the order they were stored in.",
    )
    _same(await other.get_items(), [first], "What a run wrote to one session is not in another.")
    _same(await session.pop_item(), second, "What was written and what was added are popped alike.")
    await session.clear_session()
    _same(await session.get_items(), [], "Clearing removes what was written, too.")


async def _writes_once_when_written_at_once(fresh: Fresh) -> None:
    session = await _exact(fresh)
    items = _number_items(20)
    await asyncio.gather(*(session.write("run", 0, items) for _ in range(8)))
    _same(await session.get_items(), items, "What several write at the same time is stored once, in its order.")


async def _writes_all_or_nothing(fresh: Fresh) -> None:
    session = await _exact(fresh)
    try:
        await session.write("run", 0, [*ITEMS, {"content": object()}])
    except Exception:
        _same(await session.get_items(), [], "Of items that cannot all be written, none is stored.")
        await session.write("run", 0, ITEMS)
        _same(await session.get_items(), ITEMS, "What failed to be written can be written afterwards.")


SESSION_CHECKS = (
    _is_a_session,
    _begins_empty,
    _keeps_order,
    _limits,
    _pops,
    _clears,
    _keeps_sessions_apart,
    _keeps_what_json_can_say,
    _hands_out_copies,
    _keeps_batches_whole,
    _pops_once,
    _adds_all_or_nothing,
    _survives_cancellation,
    _works_in_any_loop,
)
EXACT_CHECKS = (
    _writes_once,
    _tells_runs_apart,
    _writes_once_when_written_at_once,
    _writes_all_or_nothing,
    _goes_with_the_run,
)
