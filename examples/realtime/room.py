"""The live sessions of the server, one for each browser, and what is kept while a browser or the model is away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import wire
from msgspec import UNSET
from starlette.websockets import WebSocket, WebSocketDisconnect

from assentry import RunState
from assentry.errors import AssentryError, DigestMismatch, ModelFailed
from assentry.realtime import RealtimeSession
from assentry.realtime import event as e
from assentry.realtime import item as i

YOU = "you"
"""The name under which the page decides."""
SLOW = 10.0
"""Seconds after which a browser that does not read is taken to be gone."""
LATE = 1.0
"""Seconds after which audio for a model that is not there is dropped."""
ENDED = "The conversation has ended. Connect again to go on with it."

Begin = Callable[[RunState[Any] | None], Awaitable[RealtimeSession]]
"""A function that makes a session: a new one, or one that continues a run."""


class Room:
    """One conversation, its live session, and the browser that is connected to it. The latter two come and go."""

    def __init__(self, begin: Begin, turns: str) -> None:
        self._begin, self._turns = begin, turns
        self._session: RealtimeSession | None = None
        self._past: RunState[Any] | None = None
        self._socket: WebSocket | None = None
        self._work: asyncio.Task[str] | None = None
        self._starting = asyncio.Lock()
        self._connected = True
        self._agent = ""
        self._agents: dict[str, str] = {}
        self._items: dict[str, wire.Message] = {}
        self._calls: dict[str, wire.Message] = {}

    @property
    def empty(self) -> bool:
        """True if no browser is connected."""
        return self._socket is None

    # -- the session -------------------------------------------------------------------------------

    async def start(self) -> str | None:
        """Begin a session unless there is one, or continue the run of the last one; return why that failed."""
        async with self._starting:
            if self._session is not None:
                return None
            started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._work = asyncio.create_task(self._live(started))
            either: list[asyncio.Future[Any]] = [started, self._work]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return None if started.done() else self._work.result()

    async def _live(self, started: asyncio.Future[None]) -> str:
        """Hold a session, and pass its events on until it ends; return why it has ended."""
        words = ENDED
        try:
            async with await self._begin(self._past) as session:
                self._session, self._connected, self._agent = session, True, session.agent.name
                started.set_result(None)
                async for event in session:
                    await self._pass_on(event)
        except AssentryError as error:
            words, self._past = str(error), error.state or self._past
        if self._session is not None:
            self._past, self._session = self._session.to_state(), None
            await self._say({"type": "ended", "message": words})
        return words

    async def close(self) -> None:
        """End the session. The run is kept, and the next `start` continues it."""
        if self._session is not None:
            await self._session.close()
        if self._work is not None:
            await self._work

    # -- from the session to the browser -----------------------------------------------------------

    async def _pass_on(self, event: e.RealtimeSessionEvent) -> None:
        match event:
            case e.RealtimeHistoryAdded():
                changed = self._changed([event.item])
                made: wire.Message | None = {"type": event.type, "item": changed[0]} if changed else None
            case e.RealtimeHistoryUpdated():
                changed = self._changed(event.history)
                made = {"type": event.type, "items": changed} if changed else None
            case e.RealtimeError() if isinstance(event.error, ModelFailed) and not self._connected:
                made = None  # the page says already that the connection is made again
            case _:
                made = wire.describe(event)
        if made is not None:
            self._note(made)
            await self._say(made)

    def _changed(self, items: list[i.RealtimeItem]) -> list[wire.Message]:
        """Return the items that are not as the browser was last told."""
        changed = []
        for item in items:
            made = wire.history_item(item)
            made["agent"] = self._agents.setdefault(item.item_id, self._agent)
            if self._items.get(item.item_id) != made:
                self._items[item.item_id] = made
                changed.append(made)
        return changed

    def _note(self, made: wire.Message) -> None:
        """Remember what a browser that comes later is told of agents and calls."""
        match made["type"]:
            case "connection":
                self._connected = made["status"] == "connected"
            case "agent_start":
                self._agent = made["agent"]
            case "handoff":
                self._agent = made["to"]
            case "tool_approval_required":
                sentence = (made["preview"] or {}).get("sentence")
                self._calls[made["call_id"]] = {"call_id": made["call_id"], "tool": made["tool"], "sentence": sentence}
            case "tool_approval_decided" | "tool_end":
                known = self._calls.setdefault(made["call_id"], {"call_id": made["call_id"]})
                known |= {name: made[name] for name in ("tool", "decision", "by", "output") if name in made}

    async def _say(self, message: wire.Message) -> None:
        if (socket := self._socket) is None:
            return
        try:
            async with asyncio.timeout(SLOW):
                await socket.send_text(wire.write(message))
        except (TimeoutError, WebSocketDisconnect, RuntimeError):  # it is gone, and its own task finds out
            if self._socket is socket:
                self._socket = None

    # -- from the browser to the session -----------------------------------------------------------

    async def serve(self, socket: WebSocket) -> None:
        """Let a browser take part until it leaves. One that was here before is sent away."""
        before, self._socket = self._socket, socket
        if before is not None:
            with contextlib.suppress(RuntimeError):
                await before.close(4001, "opened in another window")
        failed = await self.start()
        await self._say(self._hello())
        if failed is not None:
            await self._say({"type": "ended", "message": failed})
        try:
            while (received := await socket.receive())["type"] != "websocket.disconnect":
                await self._take(received.get("text") or received.get("bytes") or "")
        finally:
            if self._socket is socket:
                self._socket = None

    def _hello(self) -> wire.Message:
        waiting = self._past.get_interruptions() if self._past else []
        if self._session is not None:
            waiting = self._session.pending_approvals
        return {
            "type": "hello",
            "agent": self._agent,
            "turns": self._turns,
            "items": list(self._items.values()),
            "calls": list(self._calls.values()),
            "waiting": [wire.question(item) for item in waiting],
        }

    async def _take(self, text: str | bytes) -> None:
        call_id = None
        try:
            message = wire.read(text)
            if isinstance(message, wire.Decision):
                call_id = message.call_id
            if self._session is None:
                raise wire.BadMessage(ENDED)
            await self._do(self._session, message)
        except (AssentryError, wire.BadMessage) as error:
            await self._say({"type": "error", "message": str(error), "call_id": call_id})

    async def _do(self, session: RealtimeSession, message: wire.AnyIncoming) -> None:
        match message:
            case wire.Text():
                await session.send_message(message.text)
            case wire.Decision():
                await self._decide(session, message)
            case wire.Audio():
                await self._in_time(session.send_audio(message.pcm()))
            case wire.CommitAudio():
                await self._in_time(session.send_audio(b"", commit=True))
            case wire.Interrupt():
                await self._in_time(session.interrupt())

    async def _in_time(self, sending: Awaitable[None]) -> None:
        """Send something to the model that is of no use later; drop it if the model is not there."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LATE if self._connected else 0):
                await sending

    async def _decide(self, session: RealtimeSession, given: wire.Decision) -> None:
        shown = {item.call_id: item.digest for item in session.pending_approvals}
        if given.digest is not None and given.digest != shown.get(given.call_id, given.digest):
            raise DigestMismatch
        if not given.approve:
            words = given.message or None
            await session.reject_tool_call(given.call_id, always=given.always, rejection_message=words, by=YOU)
        elif given.arguments is not None:
            await session.edit_tool_call(given.call_id, given.edited(), by=YOU)
        elif given.answer is not UNSET:
            await session.respond_tool_call(given.call_id, given.answer, by=YOU)
        else:
            await session.approve_tool_call(given.call_id, always=given.always, by=YOU)


class Rooms:
    """The rooms of a server. A session that is left stays open for a while, and its run for longer."""

    def __init__(self, begin: Begin, turns: str, *, keep: float = 120.0, most: int = 50) -> None:
        self._begin, self._turns = begin, turns
        self._keep, self._most = keep, most
        self._rooms: dict[str, Room] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}

    async def visit(self, name: str, socket: WebSocket) -> None:
        """Let a browser into its room until it leaves."""
        room = self._rooms.pop(name, None) or Room(self._begin, self._turns)
        if len(self._rooms) >= self._most and not await self._make_space():
            await socket.close(1013, "too many conversations")
            return
        self._rooms[name] = room
        if (leaving := self._leaving.pop(name, None)) is not None:
            leaving.cancel()
        try:
            await room.serve(socket)
        finally:
            if room.empty:
                self._leaving[name] = asyncio.create_task(self._leave(name))

    async def _make_space(self) -> bool:
        """Give up the room that was left first; return False if people are in all of them."""
        name = next((name for name, room in self._rooms.items() if room.empty), None)
        if name is None:
            return False
        if (leaving := self._leaving.pop(name, None)) is not None:
            leaving.cancel()
        await self._rooms.pop(name).close()
        return True

    async def _leave(self, name: str) -> None:
        await asyncio.sleep(self._keep)
        self._leaving.pop(name, None)
        if name in self._rooms:
            await self._rooms[name].close()

    async def close(self) -> None:
        """End all sessions."""
        for leaving in self._leaving.values():
            leaving.cancel()
        await asyncio.gather(*(room.close() for room in self._rooms.values()), return_exceptions=True)
        self._rooms.clear()
