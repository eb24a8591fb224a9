"""Requests for a preview of an edit: a person asks for one, and a worker that has the tool makes it.

A request is a row and not a fact: nothing of it is in a journal, and it is gone after a few seconds. Making the preview
belongs to the worker, and saying what it means to the inbox.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from msgspec import Struct
from msgspec.structs import replace

from ..core.wording import holds
from ..errors import InvalidArguments
from ..ids import new_id
from .record import Question
from .wakeup import Wakeup

LIVES = 5.0
"""The seconds after which a request and its answer are gone."""
MOST_OF_ONE = 8
"""The most requests of one person, and the most about one question. A person has one about a question."""
MOST_REQUESTS = 64
"""The most requests in a store."""
LONGEST_ARGUMENTS = 500_000
"""The most characters of the arguments of a request."""


class PreviewAnswer(Struct, frozen=True):
    """The preview that a worker made, or the reason why it made none."""

    preview: str | None = None
    """The preview as JSON."""
    problem: str = ""


class PreviewRequest(Struct, frozen=True, kw_only=True):
    """A request for the preview of a call with other arguments than those that a question is about."""

    id: str
    question: str
    run: str
    agent: str
    """The agent that the run began with, by which workers find their requests."""
    digest: str
    """The digest of the question. A worker answers only if the question still has it."""
    definition: str
    """The fingerprint of the tool. A worker answers only if its tool has it."""
    arguments: str
    """The edited arguments, as canonical JSON."""
    by: str
    until: int
    """The time from which the request is gone."""
    worker: str | None = None
    """The worker that makes the preview; None until one does."""
    answer: PreviewAnswer | None = None


def request_of(question: Question, agent: str, arguments: str, by: str, now: int) -> PreviewRequest:
    """Return a new request; raise `InvalidArguments` if it cannot be one."""
    if question.definition is None or question.verdict is not None or question.kind != "approval":
        raise InvalidArguments(f"Question {question.id} is not open, or its tool is not known; nothing is previewed.")
    if len(arguments) > LONGEST_ARGUMENTS or not holds(arguments):
        raise InvalidArguments(f"These arguments are longer than {LONGEST_ARGUMENTS:,} characters, or not text.")
    return PreviewRequest(
        id=new_id("pv"),
        question=question.id,
        run=question.run,
        agent=agent,
        digest=question.digest,
        definition=question.definition,
        arguments=arguments,
        by=by,
        until=now + int(LIVES * 1000),
    )


def has_room(request: PreviewRequest, others: Sequence[tuple[str, str]]) -> bool:
    """Return True if there may be one request more; `others` are the question and the author of each other one."""
    about = sum(question == request.question for question, _ in others)
    own = sum(by == request.by for _, by in others)
    return len(others) < MOST_REQUESTS and max(about, own) < MOST_OF_ONE


class PreviewRequests(ABC):
    """The requests for previews of a store. Usable from any thread and event loop."""

    @abstractmethod
    async def ask(self, request: PreviewRequest) -> bool:
        """Add a request and wake the workers. It takes the place of the same person's request about the same question.

        Return False, and add nothing, if there are too many already.
        """

    @abstractmethod
    async def take(self, worker: str, *, agents: Sequence[str], limit: int) -> list[PreviewRequest]:
        """Give a worker up to `limit` requests of these agents. No request goes to two workers.

        Without any request nothing is written.
        """

    @abstractmethod
    async def answer(self, request_id: str, given: PreviewAnswer, *, worker: str) -> bool:
        """Answer a request and wake whoever asked.

        Return False, and change nothing, unless this worker took it, it has no answer yet and is not gone.
        """

    @abstractmethod
    async def find(self, request_id: str) -> PreviewRequest | None:
        """Return a request as it is now; None if it is gone."""

    @abstractmethod
    async def forget(self, request_id: str) -> None:
        """Delete a request, answered or not."""

    @abstractmethod
    async def wait(self, timeout: float) -> None:
        """Wait until there may be a new request or answer, at most `timeout` seconds.

        Call `take` or `find` first: nothing is missed in between.
        """


class MemoryPreviewRequests(PreviewRequests):
    """The requests of a `MemoryStore`, under the store's lock."""

    def __init__(self, locked: Callable[[], AbstractContextManager[object]], now: Callable[[], int]) -> None:
        self._locked, self._now = locked, now
        self._requests: dict[str, PreviewRequest] = {}
        self.wakeup = Wakeup()

    def _live(self) -> dict[str, PreviewRequest]:
        now = self._now()
        self._requests = {id: each for id, each in self._requests.items() if each.until > now}
        return self._requests

    async def ask(self, request: PreviewRequest) -> bool:
        """Add a request and wake the workers."""
        with self._locked():
            own = (request.question, request.by)
            live = self._requests = {id: each for id, each in self._live().items() if (each.question, each.by) != own}
            if not has_room(request, [(each.question, each.by) for each in live.values()]):
                return False
            live[request.id] = request
        self.wakeup.ring()
        return True

    async def take(self, worker: str, *, agents: Sequence[str], limit: int) -> list[PreviewRequest]:
        """Give a worker up to `limit` requests of these agents."""
        self.wakeup.listen()
        with self._locked():
            free = [each for each in self._live().values() if each.worker is None and each.agent in agents]
            taken = [replace(each, worker=worker) for each in free[:limit]]
            self._requests |= {each.id: each for each in taken}
        if taken:
            self.wakeup.ring()  # whoever asked knows that somebody is there
        return taken

    async def answer(self, request_id: str, given: PreviewAnswer, *, worker: str) -> bool:
        """Answer a request and wake whoever asked."""
        with self._locked():
            found = self._live().get(request_id)
            if found is None or found.worker != worker or found.answer is not None:
                return False
            self._requests[request_id] = replace(found, answer=given)
        self.wakeup.ring()
        return True

    async def find(self, request_id: str) -> PreviewRequest | None:
        """Return a request as it is now; None if it is gone."""
        self.wakeup.listen()
        with self._locked():
            return self._live().get(request_id)

    async def forget(self, request_id: str) -> None:
        """Delete a request, answered or not."""
        with self._locked():
            self._requests.pop(request_id, None)

    async def wait(self, timeout: float) -> None:
        """Wait until there may be a new request or answer, at most `timeout` seconds."""
        await self.wakeup.wait(timeout)


async def await_answer(requests: PreviewRequests, request: PreviewRequest, nobody: float) -> PreviewAnswer | None:
    """Return the answer to a request; None if it is gone, or no worker has taken it in `nobody` seconds."""
    time = asyncio.get_running_loop().time
    began = time()
    while (found := await requests.find(request.id)) is not None and found.answer is None:
        left = began + (nobody if found.worker is None else LIVES) - time()
        if left <= 0:
            return None
        await requests.wait(left)
    return None if found is None else found.answer
