"""A reply of the local realtime server: the events of its items, in the API's order, until it ends or is cancelled."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..errors import UsageError
from .model import ScriptedCall
from .realtime_voice import bytes_per_ms, word_tones

Event = dict[str, Any]
Tell = Callable[..., Awaitable[None]]


class ServerReply:
    """One reply. `run` sends its events; `cancel` ends it at the next of them."""

    def __init__(
        self, id: str, session: Event, tell: Tell, add: Callable[[Event], str | None], new_id: Callable[[str], str]
    ) -> None:
        self.id = id
        self.output: list[Event] = []
        self.audio_ms: dict[str, int] = {}
        """The milliseconds of audio by item."""
        self.status = "in_progress"
        self.details: Event | None = None
        self._modalities = session["output_modalities"]
        self._format = session["audio"]["output"]["format"]
        self._tell = tell
        self._add = add
        self._new_id = new_id
        self._stopped = asyncio.Event()

    @staticmethod
    def parts_of(step: Any) -> list[Any]:
        """Return the parts of a step, or raise `UsageError` for one that is none."""
        parts = step if isinstance(step, list) else [step]
        for n, part in enumerate(parts):
            if not isinstance(part, str | ScriptedCall | asyncio.Event) or (n == 0 and isinstance(part, asyncio.Event)):
                raise UsageError(
                    "A step of a RealtimeServer is text, call(...), a list of these, each perhaps followed by an "
                    f"asyncio.Event that holds it, or a function that returns one of these; got {part!r:.80}."
                )
        return parts

    def cancel(self, reason: str) -> None:
        """End the reply, for this reason of the API."""
        if self.status == "in_progress":
            self.status, self.details = "cancelled", {"type": "cancelled", "reason": reason}
            self._stopped.set()

    def fail(self, code: str, message: str) -> None:
        """End the reply with an error."""
        error = {"type": "server_error", "code": code, "message": message}
        self.status, self.details = "failed", {"type": "failed", "error": error}

    async def run(self, parts: Sequence[Any]) -> None:
        """Send the events of all parts."""
        for n, part in enumerate(parts):
            if self._stopped.is_set():
                break
            hold = parts[n + 1] if n + 1 < len(parts) else None
            hold = hold if isinstance(hold, asyncio.Event) else None
            if isinstance(part, str):
                await self._message(part, hold)
            elif isinstance(part, ScriptedCall):
                await self._call(part, hold)
        if self.status == "in_progress":
            self.status = "completed"

    def as_dict(self, usage: Event | None = None) -> Event:
        """Return the reply as the API shows it."""
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": self.status,
            "status_details": self.details,
            "output": self.output,
            "conversation_id": "conv_1",
            "output_modalities": self._modalities,
            "max_output_tokens": "inf",
            "audio": {"output": {"format": self._format, "voice": "marin"}},
            "usage": usage,
            "metadata": None,
        }

    async def _begin(self, item: Event) -> Event:
        """Send the events with which an item begins, and return where it is."""
        where = {"response_id": self.id, "output_index": len(self.output)}
        self.output.append(item)
        before = self._add(item)
        await self._tell("response.output_item.added", **where, item=item)
        await self._tell("conversation.item.added", previous_item_id=before, item=item)
        return {**where, "item_id": item["id"]}

    async def _end(self, item: Event, where: Event) -> None:
        item["status"] = "incomplete" if self._stopped.is_set() else "completed"
        at = {name: where[name] for name in ("response_id", "output_index")}
        await self._tell("response.output_item.done", **at, item=item)
        await self._tell("conversation.item.done", previous_item_id=None, item=item)

    async def _wait_for(self, hold: asyncio.Event | None) -> None:
        """Wait until a hold is set or the reply is stopped."""
        if hold is None or self._stopped.is_set():
            return
        waits = [asyncio.ensure_future(each.wait()) for each in (hold, self._stopped)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _message(self, text: str, hold: asyncio.Event | None) -> None:
        spoken = self._modalities != ["text"]
        item: Event = {
            "id": self._new_id("item"),
            "object": "realtime.item",
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        where = {**await self._begin(item), "content_index": 0}
        empty = {"type": "audio", "transcript": ""} if spoken else {"type": "text", "text": ""}
        await self._tell("response.content_part.added", **where, part=empty)
        said = await self._words(text, where, spoken)
        await self._wait_for(hold)
        if spoken:
            await self._tell("response.output_audio.done", **where)
            await self._tell("response.output_audio_transcript.done", **where, transcript=said)
            item["content"] = [{"type": "output_audio", "transcript": said}]
        else:
            await self._tell("response.output_text.done", **where, text=said)
            item["content"] = [{"type": "output_text", "text": said}]
        part = {"type": "audio", "transcript": said} if spoken else {"type": "text", "text": said}
        await self._tell("response.content_part.done", **where, part=part)
        await self._end(item, where)

    async def _words(self, text: str, where: Event, spoken: bool) -> str:
        """Send a text word by word, with a tone for each if it is spoken, and return the text that was sent."""
        said = ""
        words = text.split(" ")
        for n, word in enumerate(words):
            if self._stopped.is_set():
                break
            delta = word if n == 0 else f" {word}"
            said += delta
            kind = "response.output_audio_transcript.delta" if spoken else "response.output_text.delta"
            await self._tell(kind, **where, delta=delta)
            for sound in word_tones(word, self._format) if spoken else ():
                await self._tell("response.output_audio.delta", **where, delta=b64encode(sound).decode())
                ms = len(sound) // bytes_per_ms(self._format)
                self.audio_ms[where["item_id"]] = self.audio_ms.get(where["item_id"], 0) + ms
            await asyncio.sleep(0)  # let an interruption in
        return said

    async def _call(self, call: ScriptedCall, hold: asyncio.Event | None) -> None:
        item: Event = {
            "id": self._new_id("item"),
            "object": "realtime.item",
            "type": "function_call",
            "status": "in_progress",
            "call_id": call.call_id or self._new_id("call"),
            "name": call.name,
            "arguments": "",
        }
        where = await self._begin(item)
        at = {**where, "call_id": item["call_id"]}
        await self._tell("response.function_call_arguments.delta", **at, delta=call.arguments)
        await self._wait_for(hold)
        item["arguments"] = call.arguments
        if not self._stopped.is_set():
            name = {"name": call.name, "arguments": call.arguments}
            await self._tell("response.function_call_arguments.done", **at, **name)
        await self._end(item, where)
