"""A session whose history OpenAI makes shorter: it sends what another session keeps to `responses.compact`.

Only what a run's model has heard and said is sent by itself when the run is over; `run_compaction` sends everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..core import allowed
from ..core.transcript import Item
from ..core.wording import described
from ..errors import SessionFailed, UsageError
from ..models.client import client_with
from ..models.openai_client import shared_client
from ..models.wire import responses_items
from .openai_conversations import OpenAIConversationsSession
from .session import HEARD, Session, SessionAround, get_all, replace_latest_of
from .stored import SESSION_ID

if TYPE_CHECKING:
    from openai import AsyncOpenAI

log = logging.getLogger("assentry")

CompactionMode = Literal["previous_response_id", "input", "auto"]
MODE = allowed.one_of("auto", "input", "previous_response_id")
THRESHOLD = 10
"""The number of items besides the user's at which a history is compacted, unless a function says otherwise."""


class CompactionArgs(TypedDict, total=False):
    """Arguments of `run_compaction`."""

    response_id: str
    """The id of the model's last reply."""
    compaction_mode: CompactionMode
    """The form of the history: stored items, the id of the last reply, or, with "auto", the id if there is one."""
    store: bool
    """True if the provider keeps the last reply, so that its id can stand for the history."""
    force: bool
    """True to compact whatever the session's own rule says."""


class OpenAIResponsesCompactionSession(SessionAround):
    """A conversation that another session keeps, and that OpenAI makes shorter. Needs `pip install ".[openai]"`.

    When a run is over, `should_trigger_compaction` gets a dict (`response_id`, `compaction_mode`, and the lists
    `compaction_candidate_items` and `session_items`); if it returns True, by default from 10 items besides the user's
    on, the items that the run has heard and said are compacted by `model` and replaced. A history that the run's model
    did not get as it is stored is left as it is, or the older part of it. If the request fails, or others write to the
    session meanwhile, the history stays, and the next run tries again.
    """

    def __init__(
        self,
        session_id: str,
        underlying_session: Session,
        *,
        client: AsyncOpenAI | None = None,
        model: str = "gpt-4.1",
        compaction_mode: CompactionMode = "auto",
        should_trigger_compaction: Callable[[dict[str, Any]], bool] | None = None,
        max_rollback_items: int | None = None,
    ) -> None:
        whose = type(self).__name__
        allowed.check_option(whose, "session_id", session_id, SESSION_ID, UsageError)
        allowed.check_option(whose, "client", client, client_with("responses"))
        allowed.check_option(whose, "compaction_mode", compaction_mode, MODE, UsageError)
        trigger = should_trigger_compaction
        allowed.check_option(whose, "should_trigger_compaction", trigger, allowed.CALLABLE.or_none, UsageError)
        allowed.check_option(whose, "max_rollback_items", max_rollback_items, allowed.COUNT.or_none, UsageError)
        if not isinstance(underlying_session, Session):
            raise UsageError(f"{whose}: underlying_session must be a session, got {described(underlying_session)}.")
        if isinstance(underlying_session, OpenAIConversationsSession):
            raise UsageError(f"{whose}: OpenAI keeps the history of an OpenAIConversationsSession by itself.")
        if not is_openai_model_name(model):
            raise UsageError(f"{whose}: model must be one of OpenAI's (gpt-..., o...), got {described(model)}.")
        self.session_id = session_id
        self.underlying_session = underlying_session
        self.model = model
        self.compaction_mode = compaction_mode
        self.max_rollback_items = max_rollback_items
        self.should_trigger_compaction = trigger or default_should_trigger_compaction
        self._client = client
        self._response: tuple[str | None, bool | None] = (None, None)
        """The id of the last reply, and True if the provider keeps it."""

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Return the latest `limit` items, oldest first; all items without a limit."""
        return await self.underlying_session.get_items(limit)

    async def pop_item(self) -> Item | None:
        """Remove and return the newest item; None if there is none."""
        self._response = (None, None)
        return await self.underlying_session.pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        self._response = (None, None)
        await self.underlying_session.clear_session()

    async def run_compaction(self, args: CompactionArgs | None = None) -> None:
        """Compact the history, if `should_trigger_compaction` says so or `force` is given.

        A program that calls it sends the whole history, and gets `SessionFailed` if the request fails; then the history
        stays as it is. The runtime calls it when a run is over, for what the run has heard and said.
        """
        given = args or {}
        mode, items, heard = self._mode(given), await get_all(self.underlying_session), HEARD.get()
        if not items or not (given.get("force") or self._is_due(mode, items)):
            return
        if heard is None and self.max_rollback_items is not None and len(items) > self.max_rollback_items:
            raise SessionFailed(
                f"Session {self.session_id!r} has more items than max_rollback_items={self.max_rollback_items}. It was "
                "not compacted."
            )
        old = items if heard is None else self._part(items, heard)
        if not old:
            log.warning("Session %r was not compacted: it does not end with what the model got", self.session_id)
            return
        if len(old) < len(items):
            mode = "input"
            if not self._is_due(mode, old):
                return
        if not await self._compact(mode, old):
            log.warning("Session %r was not compacted: others wrote to it meanwhile", self.session_id)

    def _part(self, items: list[Item], heard: list[Item]) -> list[Item]:
        """Return the end of the stored items that a run has heard and said, from one of the user's messages on."""
        count = 0
        while count < min(len(items), len(heard)) and items[-1 - count] == heard[-1 - count]:
            count += 1
        if count == len(items):
            return items
        if self.compaction_mode == "previous_response_id":  # the provider's history is not the stored one
            return []
        end = items[len(items) - count :]
        return end[next((number for number, item in enumerate(end) if _is_users(item)), count) :]

    def _mode(self, args: CompactionArgs) -> Literal["previous_response_id", "input"]:
        """Return how the history is sent, and keep what `args` say about the last reply."""
        last, kept = self._response
        if args.get("response_id") and args["response_id"] != last:
            last, kept = args["response_id"], None
        self._response = last, kept = last, args.get("store", kept)
        mode = args.get("compaction_mode") or self.compaction_mode
        if mode == "auto":
            return "previous_response_id" if last and kept is not False else "input"
        if mode == "previous_response_id" and not last:
            raise UsageError("run_compaction needs a response_id for the mode previous_response_id.")
        return mode

    def _is_due(self, mode: str, items: list[Item]) -> bool:
        return bool(
            self.should_trigger_compaction(
                {
                    "response_id": self._response[0],
                    "compaction_mode": mode,
                    "compaction_candidate_items": select_compaction_candidate_items(items),
                    "session_items": items,
                }
            )
        )

    async def _compact(self, mode: str, items: list[Item]) -> bool:
        sent: dict[str, Any] = {"input": responses_items(items)}
        if mode == "previous_response_id":
            sent = {"previous_response_id": self._response[0]}
        client = self._client or await shared_client()
        try:
            made = await client.responses.compact(model=self.model, **sent)
        except Exception as error:
            raise SessionFailed(
                f"Session {self.session_id!r} could not be compacted ({type(error).__name__}): {error}. Its history "
                "was left as it is."
            ) from error
        new = [item.to_dict(mode="json", exclude_unset=True, warnings=False) for item in made.output or []]
        if not new:
            raise SessionFailed(f"Session {self.session_id!r} could not be compacted: the reply is empty.")
        return await replace_latest_of(self.underlying_session, items, _as_input(new))


def is_openai_model_name(model: Any) -> bool:
    """Return True if this is the name of a model of OpenAI, perhaps a tuned one."""
    name = model.strip().rsplit("/", 1)[-1].removeprefix("ft:").split(":", 1)[0] if isinstance(model, str) else ""
    return name.startswith("gpt-") or (name[:1] == "o" and name[1:2].isdigit())


def select_compaction_candidate_items(items: list[Item]) -> list[Item]:
    """Return the items besides the user's messages and what was compacted before."""
    return [item for item in items if not _is_users(item) and item.get("type") != "compaction"]


def default_should_trigger_compaction(context: dict[str, Any]) -> bool:
    """Return True from 10 candidates on."""
    return len(context["compaction_candidate_items"]) >= THRESHOLD


def _is_users(item: Item) -> bool:
    return item.get("role") == "user" and item.get("type", "message") == "message"


def _as_input(output: list[Item]) -> list[Item]:
    """Return compacted items in a form that the provider takes as input.

    Parts of the user's messages have empty fields, and the ids of messages refer to reasoning that is gone.
    """
    thinks = any(item.get("type") == "reasoning" for item in output)
    return [_cleaned(item, thinks) for item in output]


def _cleaned(item: Item, thinks: bool) -> Item:
    if item.get("role") == "assistant" and not thinks:
        return {name: value for name, value in item.items() if name != "id"}
    if _is_users(item) and isinstance(item.get("content"), list):
        parts = [{name: value for name, value in part.items() if value not in (None, "")} for part in item["content"]]
        return {**item, "content": parts}
    return item
