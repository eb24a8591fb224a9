"""The observer: makes the spans of a drive. It never affects the run: an error in here is logged, and the run goes on.

One drive is one `invoke_workflow` span. Under it there is an `invoke_agent` span for each period in which an agent is
active. Under that span are the agent's model calls (`chat`), tool bodies (`execute_tool`), agent calls
(`invoke_agent`), and the times spent waiting for a person (`wait_for_person`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)
from opentelemetry.trace.span import INVALID_SPAN, TraceState

from ..core import facts as f
from ..core.rules import ASKED
from ..core.run import CallState, status
from ..core.wording import clean_text
from ..definitions.agent import Agent, model_of
from ..definitions.tool import Tool
from ..models.model import Model, ModelRequest, ModelResponse
from ..tracing.attributes import (
    Attributes,
    call_attributes,
    json_text,
    message_attributes,
    provider_name,
    reply_message,
    request_attributes,
    tool_attributes,
    usage_attributes,
)
from ..tracing.manual_span import chosen_root
from ..tracing.provider import provider_of
from ..tracing.settings import Tracing
from ..tracing.span_mask import SpanMask
from ..version import __version__
from .event import settlement_of
from .hook_dispatch import Observer
from .scope import Scope
from .steps.approval import refusal_text

log = logging.getLogger("assentry")

R = TypeVar("R")
Path = tuple[str, ...]

MILLISECOND = 1_000_000


class Stretch:
    """A period in which one agent is the active agent, in the run or in a branch."""

    __slots__ = ("place", "span", "used")

    def __init__(self, place: str, span: Span) -> None:
        self.place = place
        self.span = span
        self.used = f.Usage()


class SpanObserver(Observer):
    """The spans of one drive."""

    def __init__(self, scope: Scope, tracing: Tracing, began: f.Began, resumed: bool) -> None:
        self.scope = scope
        self.tracing = tracing
        self.provider = provider_of(tracing)
        self.tracer: Tracer = self.provider.get_tracer("assentry", __version__)
        group = tracing.group_id or began.session or (began.conversation or {}).get("id")
        self.talk: Attributes = {"gen_ai.conversation.id": group} if group else {}
        """The conversation's attributes, for workflow, agent and model spans."""
        self.stretches: dict[Path, Stretch] = {}
        self.over = False
        self.mask = SpanMask(scope.graph.redactions)
        self.root = self._open(lambda: self._workflow(began, resumed))

    @property
    def trace(self) -> dict[str, str] | None:
        """The root span's context, as the run records it for later drives; None if it is not valid."""
        context = self.root.get_span_context()
        if not context.is_valid:
            return None
        kept = {
            "id": trace.format_trace_id(context.trace_id),
            "span": trace.format_span_id(context.span_id),
            "flags": f"{context.trace_flags:02x}",
        }
        return {**kept, "state": context.trace_state.to_header()} if context.trace_state else kept

    # -- the drive ---------------------------------------------------------------------------------

    def _workflow(self, began: f.Began, resumed: bool) -> Span:
        tracing = self.tracing
        name = tracing.workflow_name or self.scope.graph.root.name
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": name,
            **self.talk,
            "assentry.run.id": began.run,
            "assentry.run.resumed": resumed,
            **{f"assentry.metadata.{key}": value for key, value in tracing.metadata.items()},
        }
        here = trace.get_current_span().get_span_context()
        first = span_context(began.trace) if resumed else None
        if first is None:
            first = chosen_root(self.provider, tracing.trace_id, f"invoke_workflow {name}")
        if first is None:
            return self._start(f"invoke_workflow {name}", None, attributes)
        elsewhere = here.is_valid and here.trace_id != first.trace_id
        links = [Link(here)] if elsewhere else []  # the caller that resumes may have its own trace
        return self._start(f"invoke_workflow {name}", NonRecordingSpan(first), attributes, links=links)

    async def drive(self, work: Coroutine[Any, Any, None]) -> None:
        """Drive the run inside its root span."""
        self._safely(lambda: self.mask.learn_run(self.scope.journal.run))
        self._safely(self._listen)
        try:
            await self._inside(self.root, work)
        except BaseException as error:
            if () in self.stretches:
                self._error(self.stretches[()].span, error)
            raise
        finally:
            self.over = True
            self._safely(self._close)

    def _listen(self) -> None:
        for fact in self.scope.hooks.unseen:
            self._waited(fact)
        self.scope.journal.listen(self._fact)

    def _close(self) -> None:
        for path in sorted(self.stretches, key=len, reverse=True):
            self._leave(path)
        self.root.set_attribute("assentry.run.status", status(self.scope.journal.run))
        self.root.end()

    # -- model calls and tool bodies ---------------------------------------------------------------

    async def reply(
        self,
        path: Path,
        agent: Agent[Any],
        model: Model,
        request: ModelRequest,
        work: Coroutine[Any, Any, ModelResponse],
    ) -> ModelResponse:
        """Call the model inside a span."""
        span = self._open(lambda: self._chat(path, agent, model, request))
        try:
            response = await self._inside(span, work)
            self._safely(lambda: self._end_model_call(path, span, response))
            return response
        finally:
            self._safely(span.end)

    def _chat(self, path: Path, agent: Agent[Any], model: Model, request: ModelRequest) -> Span:
        attributes = {**request_attributes(model, request), **self.talk, "gen_ai.agent.name": agent.name}
        if self.tracing.include_sensitive_data:
            shown = replace(request, input=self.mask.items(request.input))
            attributes |= {name: self.mask.words(value) for name, value in message_attributes(shown).items()}
        return self._start(f"chat {model.name}", self._stretch(path).span, attributes, kind=SpanKind.CLIENT)

    def _end_model_call(self, path: Path, span: Span, response: ModelResponse) -> None:
        self._stretch(path).used.add(response.usage)
        span.set_attributes(usage_attributes(response.usage))
        if response.response_id:
            span.set_attribute("gen_ai.response.id", clean_text(response.response_id)[0])
        if self.tracing.include_sensitive_data:
            shown = json_text([reply_message(self.mask.items(response.output))])
            span.set_attribute("gen_ai.output.messages", self.mask.words(shown))

    async def enter(
        self, path: Path, state: CallState, tool: Tool, args: dict[str, Any], work: Coroutine[Any, Any, R]
    ) -> R:
        """Enter a tool's body inside a span, which is the current span for everything that the body does."""
        span = self._open(lambda: self._body(path, state, tool, args))
        try:
            return await self._inside(span, work)
        finally:
            self._safely(lambda: self._set_outcome(span, state))
            self._safely(span.end)

    def _body(self, path: Path, state: CallState, tool: Tool, args: dict[str, Any]) -> Span:
        attributes = {**tool_attributes(state), "gen_ai.tool.type": "function"}
        if tool.description:
            attributes["gen_ai.tool.description"] = tool.description
        if state.approval is not None:
            attributes["assentry.call.by"] = state.approval.by
        if self.tracing.include_sensitive_data:
            attributes["gen_ai.tool.call.arguments"] = self.mask.arguments(tool.redact, args)
        return self._start(f"execute_tool {state.tool}", self._stretch(path).span, attributes)

    def _set_outcome(self, span: Span, state: CallState) -> None:
        """Set the outcome on a body's span; it is left out if the outcome is not known."""
        outcome = state.outcome
        if isinstance(outcome, f.Finished):
            span.set_attribute("assentry.call.outcome", "finished")
            if outcome.error is not None:
                self._set_failure(span, outcome)
            elif self.tracing.include_sensitive_data:
                span.set_attribute("gen_ai.tool.call.result", self.mask.words(bytes(outcome.output).decode()))
        elif isinstance(outcome, f.HandedOff):
            span.set_attribute("assentry.call.outcome", "handed_off")
        elif state.phase is ASKED:
            span.set_attribute("assentry.call.outcome", "asked")

    # -- facts of the journal ----------------------------------------------------------------------

    def _fact(self, fact: f.AnyFact) -> None:
        look = _LOOK.get(type(fact))
        if look is not None and not self.over:
            self._safely(lambda: look(self, fact))

    def _on_asked(self, fact: f.Asked) -> None:
        attributes: Attributes = {
            **call_attributes(self._state(fact)),
            "assentry.question.id": fact.id,
            "assentry.question.kind": fact.kind,
        }
        self._stretch(fact.path).span.add_event("assentry.asked", attributes)

    def _on_guarded(self, fact: f.Guarded) -> None:
        attributes: Attributes = {
            "assentry.guardrail.name": fact.name,
            "assentry.guardrail.where": fact.where,
            "assentry.guardrail.tripped": fact.tripped,
        }
        self._stretch(fact.path).span.add_event("assentry.guarded", attributes)

    def _on_told(self, fact: f.Told) -> None:
        """Make a span for a refused call, at the moment when the text for the model is recorded."""
        state = self._state(fact)
        refused = state.outcome
        if not isinstance(refused, f.Refused):
            return
        attributes = {
            **tool_attributes(state),
            "assentry.call.outcome": "refused",
            "assentry.call.refusal": refusal_text(state, refused)[0],
            "assentry.call.by": refused.by,
        }
        if self.tracing.include_sensitive_data:
            self.mask.learn_call(state)
            words = {"assentry.call.why": refused.why, "assentry.call.told": state.told}
            attributes |= {name: self.mask.words(value) for name, value in words.items() if value is not None}
        now = time.time_ns()
        self._start(f"execute_tool {state.tool}", self._stretch(fact.path).span, attributes, at=now).end(now)

    def _on_finished(self, fact: f.Finished) -> None:
        self._waited(fact)
        branch = (*fact.path, fact.call)
        if branch in self.stretches:
            if fact.error is not None:
                self._set_failure(self.stretches[branch].span, fact)
            self._leave(branch)

    def _waited(self, fact: Any) -> None:
        """Make a span from a question to its answer, when the answer is recorded."""
        decided = settlement_of(fact)
        if decided is None:
            return
        id, decision, by = decided
        state, began = self._state(fact), self.scope.journal.run.began
        questions = [state.question, *(question for question, _ in state.answers)]
        question = next((each for each in questions if each is not None and each.id == id), None)
        zero = began.at if began is not None else 0
        end = zero + fact.at
        start = min(end, zero + question.at) if question is not None else end
        attributes = {
            **call_attributes(state),
            "assentry.question.id": id,
            "assentry.question.kind": question.kind if question is not None else "approval",
            "assentry.decision": decision,
            "assentry.decision.by": by,
        }
        parent = self._stretch(fact.path).span
        span = self._start(f"wait_for_person {state.tool}", parent, attributes, at=start * MILLISECOND)
        span.end(end * MILLISECOND)

    def _state(self, fact: Any) -> CallState:
        return self.scope.run_at(fact.path).calls[fact.call]

    # -- stretches ---------------------------------------------------------------------------------

    def _stretch(self, path: Path) -> Stretch:
        """Return the stretch of the active agent of a run or a branch; begin it if there is none yet."""
        run, found = self.scope.run_at(path), self.stretches.get(path)
        if found is not None and found.place == run.agent:
            return found
        if found is not None:
            self._leave(path)
        agent = self.scope.graph.agent_at(run.agent).agent
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent.name, **self.talk}
        if path:
            attributes |= call_attributes(self.scope.run_at(path[:-1]).calls[path[-1]])
        model = self.scope.config.own_model or (model_of(agent) if agent.model_choice is None else None)
        if model is not None:
            attributes |= {"gen_ai.request.model": model.name, "gen_ai.provider.name": provider_name(model)}
        parent = self._stretch(path[:-1]).span if path else self.root
        stretch = Stretch(run.agent, self._start(f"invoke_agent {agent.name}", parent, attributes))
        self.stretches[path] = stretch
        return stretch

    def _leave(self, path: Path) -> None:
        stretch = self.stretches.pop(path)
        if stretch.used.requests:
            stretch.span.set_attributes(usage_attributes(stretch.used))
        stretch.span.end()

    # -- spans, and errors of tracing --------------------------------------------------------------

    def _start(
        self,
        name: str,
        parent: Span | None,
        attributes: Attributes,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        at: int | None = None,
        links: Sequence[Link] = (),
    ) -> Span:
        context = trace.set_span_in_context(parent) if parent is not None else None
        return self.tracer.start_span(name, context, kind, attributes, links, at)

    def _open(self, start: Callable[[], Span]) -> Span:
        try:
            return start()
        except Exception:
            log.warning("A span could not be begun; the run goes on without it", exc_info=True)
            return INVALID_SPAN

    async def _inside(self, span: Span, work: Coroutine[Any, Any, R]) -> R:
        """Do the work with this span as the current one; record its exception on the span, and raise it."""
        if not span.get_span_context().is_valid:
            return await work
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                return await work
            except BaseException as error:
                self._error(span, error)
                raise

    def _error(self, span: Span, error: BaseException) -> None:
        self._safely(lambda: self._broken(span, type(error).__name__, clean_text(str(error))[0]))

    def _set_failure(self, span: Span, fact: f.Finished) -> None:
        self._broken(span, fact.error or "", bytes(fact.output).decode())

    def _broken(self, span: Span, kind: str, words: str) -> None:
        """Mark a span as failed; the error's text may quote private data and needs `include_sensitive_data`."""
        span.set_attribute("error.type", kind)
        shown = self.mask.words(words) if self.tracing.include_sensitive_data else None
        span.set_status(Status(StatusCode.ERROR, shown))

    def _safely(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            log.warning("Tracing failed; the run goes on", exc_info=True)


_LOOK: dict[type[f.Fact], Callable[[SpanObserver, Any], None]] = {
    f.Asked: SpanObserver._on_asked,
    f.Guarded: SpanObserver._on_guarded,
    f.Told: SpanObserver._on_told,
    f.Approved: SpanObserver._waited,
    f.Refused: SpanObserver._waited,
    f.Answered: SpanObserver._waited,
    f.Finished: SpanObserver._on_finished,
}


def span_context(kept: Mapping[str, str] | None) -> SpanContext | None:
    """Return the context of a run's root span, as another process may have recorded it; None if it cannot be read."""
    if not kept:
        return None
    try:
        ids = int(kept["id"], 16), int(kept["span"], 16)
        flags = TraceFlags(int(kept.get("flags", "01"), 16))
        state = TraceState.from_header([kept["state"]]) if "state" in kept else None
    except (KeyError, ValueError):
        return None
    context = SpanContext(*ids, is_remote=True, trace_flags=flags, trace_state=state)
    return context if context.is_valid else None
