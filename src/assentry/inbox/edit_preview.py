"""The effect of an edit: a worker that has the tool previews it, and where none does, the page says what it shows.

Whether somebody may edit is decided before. The preview is shown to nobody else.
"""

from __future__ import annotations

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.digest import BadJSON, canonical, parse_object
from ..definitions.preview import Preview, read_preview
from ..errors import InvalidArguments, UnreadableState
from ..store.preview_requests import PreviewAnswer, await_answer, request_of
from ..store.record import Question
from ..store.store import Store
from .language import translate
from .wording import headline_of, warnings_of

NOBODY = 1.5
"""The seconds in which a worker takes a request, if there is one."""


class EditEffect(Struct, frozen=True, kw_only=True):
    """The effect of a call as the page of an edit shows it."""

    sentence: str
    """The effect in one sentence: the edit's own."""
    preview: Preview | None = None
    is_edit: bool = False
    """True if the preview was made for the edit, or for what was proposed and is not changed."""
    note: str = ""
    """The reason why the preview is not the edit's."""
    pending: bool = False
    """True while a worker may make the preview."""

    @property
    def warnings(self) -> list[str]:
        """The warnings of the preview; that it failed is one."""
        return warnings_of(self.preview)


def proposed_effect(question: Question) -> EditEffect:
    """Return the effect of what was proposed, before anything is changed."""
    return EditEffect(sentence=headline_of(question), preview=question.preview, is_edit=True)


def pending_effect(question: Question, arguments: str) -> EditEffect:
    """Return the effect of an edit before a worker was asked; the preview is that of what was proposed."""
    sentence = _sentence(question, arguments, None)
    if question.preview is None:
        return EditEffect(sentence=sentence, is_edit=True)
    return EditEffect(sentence=sentence, preview=question.preview, pending=True)


async def effect_of_edit(store: Store, question: Question, arguments: str, by: str) -> EditEffect:
    """Ask a worker for the preview of an edit, and return its effect."""
    known = pending_effect(question, arguments)
    if not known.pending:
        return known
    answer = await _ask(store, question, arguments, by)
    if answer is None:
        return replace(known, pending=False, note=translate("No worker answered in time."))
    if answer.problem:
        return replace(known, pending=False, note=answer.problem)
    try:
        made = read_preview(Raw((answer.preview or "").encode()))
    except UnreadableState:
        return replace(known, pending=False, note=translate("The worker's answer cannot be read."))
    if made is None:
        return replace(known, pending=False, note=translate("The worker's tool makes no preview."))
    return EditEffect(sentence=_sentence(question, arguments, made), preview=made, is_edit=True)


async def _ask(store: Store, question: Question, arguments: str, by: str) -> PreviewAnswer | None:
    """Return a worker's answer; None if there is none, or too many people ask."""
    requests = store.previews
    if requests is None:
        return None
    try:
        exact = canonical(parse_object(arguments)).decode()
        agent = (await store.record(question.run)).agent
        request = request_of(question, agent, exact, by, int(store.clock() * 1000))
    except (BadJSON, InvalidArguments) as error:
        return PreviewAnswer(problem=str(error))
    if not await requests.ask(request):
        return None
    try:
        return await await_answer(requests, request, NOBODY)
    finally:
        await requests.forget(request.id)


def _sentence(question: Question, arguments: str, preview: Preview | None) -> str:
    """Return the sentence of an edit: its own preview's, or the call with its arguments."""
    return headline_of(replace(question, arguments=arguments, preview=preview))
