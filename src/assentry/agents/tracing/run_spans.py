"""The spans of a run, in the SDK's form, for processors. An error in here is logged, and the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.json import decode
from msgspec.structs import replace

from ...core import facts as f
from ...core.mask import masked_text
from ...core.run import CallState
from ...core.wording import clean_text
from ...definitions.agent import Agent, schema_of
from ...definitions.handoff import Handoff
from ...definitions.tool import Tool
from ...errors import MaxTurnsExceeded, TripwireTriggered, UsageError
from ...models.model import Model, ModelRequest, ModelResponse
from ...models.openai_chat import assistant_message, chat_messages
from ...models.openai_responses import OpenAIResponsesModel
from ...runtime.hook_dispatch import Observer
from ...runtime.scope import Scope as Drive
from ...tracing.span_mask import SpanMask
from ..run_config import RunConfig
from .interface import Span, SpanError, Trace
from .run_trace import Path, Reply, RunTrace, Work
from .scope import Scope
from .setup import get_trace_provider
from .span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    ResponseSpanData,
    SpanData,
    TaskSpanData,
    TurnSpanData,
)
from .spans import NoOpSpan, SpanImpl
from .traces import hex_id

log = logging.getLogger("assentry")
HIDDEN = "Error details are redacted."
SETTINGS = (
    *("temperature", "top_p", "frequency_penalty", "presence_penalty", "tool_choice", "parallel_tool_calls"),
    *("truncation", "max_tokens", "reasoning", "verbosity", "store"),
)
"""The settings of a model call that are shown: none of them is a secret."""


class OpenSpans:
    """The open spans of a run, or of an agent that runs as a tool."""

    def __init__(self, above: Span[Any] | None, call: Span[FunctionSpanData] | None) -> None:
        self.above = above
        self.call = call
        """The call of the tool that the agent is."""
        self.task: Span[TaskSpanData] | None = None
        self.agent: Span[AgentSpanData] | None = None
        self.turn: Span[TurnSpanData] | None = None
        self.place: str | None = None
        self.used = f.Usage()
        self.used_in_turn = f.Usage()

    @property
    def innermost(self) -> Span[Any] | None:
        """The span that a tool's call is under."""
        return self.turn or self.agent


class RunSpans(RunTrace):
    """The spans of one drive, which processors hear of."""

    def __init__(self, current: Trace, own: bool, inner: Observer | None, drive: Drive, config: RunConfig) -> None:
        super().__init__(current, own, inner)
        self.scope = drive
        self.config = config
        self.shows = config.trace_include_sensitive_data
        self.whole = (config.tracing_config or {}).get("include_task_and_turn_spans", True)
        """True if there are spans for runs and turns."""
        self.above = None if own else Scope.get_current_span()
        self.mask = SpanMask(drive.graph.redactions)
        self.open: dict[Path, OpenSpans] = {}
        self.over = False

    @property
    def trace(self) -> dict[str, str] | None:
        """The trace that the journal records, so that a resumed run belongs to it."""
        kept = super().trace
        return kept or {"id": hex_id(self.current.trace_id), "span": "0" * 15 + "1", "flags": "01"}

    async def drive(self, work: Coroutine[Any, Any, None]) -> None:
        """Await a drive inside its trace."""
        await super().drive(self._drive(work))

    async def _drive(self, work: Coroutine[Any, Any, None]) -> None:
        self._safely(lambda: self.mask.learn_run(self.scope.journal.run))
        self._safely(lambda: self.scope.journal.listen(self._hear))
        self._safely(lambda: self._agent(()))
        try:
            with self._inside(self.open[()].task if () in self.open else None):
                await work
        except Exception as failure:
            error = failure
            self._safely(lambda: self._fail_run(error))
            raise
        finally:
            self.over = True
            for path in sorted(self.open, key=len, reverse=True):
                self._leave(path)

    # -- model calls and tool bodies ---------------------------------------------------------------

    def reply(self, path: Path, agent: Agent[Any], model: Model, request: ModelRequest, work: Reply) -> Reply:
        """Return the work of a model call, inside a span."""
        return self._reply(path, agent, model, request, super().reply(path, agent, model, request, work))

    async def _reply(
        self, path: Path, agent: Agent[Any], model: Model, request: ModelRequest, work: Reply
    ) -> ModelResponse:
        span = self._begin(lambda: self._model_call(path, agent, model, request))
        try:
            with self._inside(span):
                response = await work
            self._safely(lambda: self._end_model_call(path, span, request, response))
            return response
        except Exception as failure:
            span.set_error(self._error("Error getting response", {}, failure))
            raise
        finally:
            self._safely(span.finish)

    def _model_call(self, path: Path, agent: Agent[Any], model: Model, request: ModelRequest) -> Span[Any]:
        spans = self._turn(path, self.scope.run_at(path).turns + 1)
        if spans.agent is not None:
            offered = [spec.name for spec in request.tools] + [str(each.get("type")) for each in request.hosted]
            handoffs = {tool.name: tool.agent_name for tool in self._tools(path) if isinstance(tool, Handoff)}
            data = spans.agent.span_data
            data.tools = [name for name in offered if name not in handoffs]
            data.handoffs = [handoffs[name] for name in offered if name in handoffs]
        if isinstance(model, OpenAIResponsesModel):
            return self._start(ResponseSpanData(), spans.innermost)
        settings = {name: getattr(request.settings, name) for name in SETTINGS}
        return self._start(GenerationSpanData(model=model.name, model_config=settings), spans.innermost)

    def _end_model_call(self, path: Path, span: Span[Any], request: ModelRequest, response: ModelResponse) -> None:
        spans, data = self.open[path], span.span_data
        spans.used.add(response.usage)
        spans.used_in_turn.add(response.usage)
        data.usage = call_usage(response.usage)
        if not self.shows:
            return
        heard, said = (self.mask.value(self.mask.items(items)) for items in (request.input, response.output))
        if isinstance(data, ResponseSpanData):
            data.input = heard
            data.response = client_response(request, response, said)
        else:
            data.input, data.output = _messages(replace(request, input=heard), said)

    def enter(self, path: Path, state: CallState, tool: Tool, args: dict[str, Any], work: Work) -> Work:
        """Return the work of a call's body, inside a span."""
        return self._enter(path, state, tool, args, super().enter(path, state, tool, args, work))

    async def _enter(self, path: Path, state: CallState, tool: Tool, args: dict[str, Any], work: Work) -> Any:
        self._safely(lambda: self.mask.learn_call(state))
        span = self._begin(lambda: self._call(path, state, tool))
        try:
            with self._inside(span):
                return await work
        except Exception as failure:
            span.set_error(self._error("Error running tool", {"tool_name": state.tool}, failure))
            raise
        finally:
            self._safely(lambda: self._end_call(path, span, state, args))
            self._safely(span.finish)

    def _call(self, path: Path, state: CallState, tool: Tool) -> Span[Any]:
        spans = self._agent(path)
        if isinstance(tool, Handoff):
            agent = self.scope.graph.agent_at(self.scope.run_at(path).agent).agent
            return self._start(HandoffSpanData(agent.name, None), spans.innermost)
        return self._start(FunctionSpanData(state.tool, None, None), spans.innermost)

    def _end_call(self, path: Path, span: Span[Any], state: CallState, args: dict[str, Any] | None) -> None:
        """Give a call's span its input and outcome."""
        outcome, data = state.outcome, span.span_data
        if isinstance(outcome, f.HandedOff) and isinstance(data, HandoffSpanData):
            data.to_agent = self.scope.graph.agent_at(outcome.to).agent.name
            return
        if not isinstance(data, FunctionSpanData):
            return
        if self.shows:
            data.input = self._arguments(state, args)
        if not isinstance(outcome, f.Finished):
            return
        shown = self.mask.value(decode(outcome.output))
        if not self.scope.graph.redactions():  # an object could not be searched for secrets
            shown = self.scope.outputs.get((path, state.call.id), shown)
        if self.shows and span.error is None:
            data.output = shown
        if outcome.error is not None and span.error is None:
            about = {"tool_name": state.tool, "error": str(shown) if self.shows else HIDDEN}
            span.set_error(SpanError(message="Error running tool (non-fatal)", data=about))

    def _arguments(self, state: CallState, args: dict[str, Any] | None) -> str:
        """Return a call's arguments as the model gave them, or as a person changed them, without secrets."""
        names = self.scope.graph.redactions().get(state.tool, ())
        if args is not None and (names or state.edited):
            return self.mask.arguments(names, args)
        given = state.proposal.arguments or ""
        return masked_text(given, names) if names else self.mask.words(given)

    # -- facts of the journal ----------------------------------------------------------------------

    def _hear(self, fact: f.AnyFact) -> None:
        hear = _HEARS.get(type(fact))
        if hear is not None and not self.over:
            self._safely(lambda: hear(self, fact))

    def _on_guarded(self, fact: f.Guarded) -> None:
        if fact.where not in ("input", "output"):
            return
        spans = self._agent(fact.path)
        if fact.where == "output":
            self._end_turn(spans)
        elif spans.turn is None:
            self._turn(fact.path, self.scope.run_at(fact.path).turns + 1)
        span = self._start(GuardrailSpanData(fact.name, fact.tripped), spans.innermost)
        span.finish()
        if fact.tripped and spans.innermost is not None:
            spans.innermost.set_error(SpanError(message="Guardrail tripwire triggered", data={"guardrail": fact.name}))

    def _on_told(self, fact: f.Told) -> None:
        """Make a span for a call that was refused."""
        state = self.scope.run_at(fact.path).calls[fact.call]
        if not isinstance(state.outcome, f.Refused):
            return
        self.mask.learn_call(state)
        words = self.mask.words(state.told or "") if self.shows else "Tool execution rejected"
        span = self._start(FunctionSpanData(state.tool, None, None), self._agent(fact.path).innermost)
        if self.shows:
            span.span_data.input, span.span_data.output = self._arguments(state, None), words
        refused = f"The call was refused by {state.outcome.by}."
        span.set_error(SpanError(message=words, data={"tool_name": state.tool, "error": refused}))
        span.finish()

    def _on_finished(self, fact: f.Finished) -> None:
        """End the spans of an agent that ran as a tool."""
        branch = (*fact.path, fact.call)
        spans = self.open.get(branch)
        if spans is not None and spans.call is not None:
            self._end_call(fact.path, spans.call, self.scope.run_at(fact.path).calls[fact.call], None)
            self._leave(branch)

    # -- runs, agents and turns --------------------------------------------------------------------

    def _agent(self, path: Path) -> OpenSpans:
        """Return the open spans of a run or branch, whose agent's span is that of the active agent."""
        spans = self.open.get(path) or self._open(path)
        place = self.scope.run_at(path).agent or self.scope.graph.root.name
        if spans.place != place:
            self._end_agent(spans)
            agent = self.scope.graph.agent_at(place).agent
            data = AgentSpanData(agent.name, [], [], _output_name(agent))
            spans.place, spans.agent = place, self._start(data, spans.task or spans.call or spans.above)
        return spans

    def _open(self, path: Path) -> OpenSpans:
        if path:
            above = self._agent(path[:-1]).innermost
            name = self.scope.run_at(path[:-1]).calls[path[-1]].tool
            spans = OpenSpans(above, self._start(FunctionSpanData(name, None, None), above))
        else:
            spans = OpenSpans(self.above, None)
        if self.whole:
            spans.task = self._start(TaskSpanData(self.config.workflow_name), spans.call or spans.above)
        self.open[path] = spans
        return spans

    def _turn(self, path: Path, number: int) -> OpenSpans:
        """Return the open spans of a run or branch, with the span of this turn."""
        spans = self._agent(path)
        if self.whole and (spans.turn is None or spans.turn.span_data.turn != number):
            self._end_turn(spans)
            name = spans.agent.span_data.name if spans.agent is not None else ""
            spans.turn = self._start(TurnSpanData(number, name), spans.agent)
        return spans

    def _end_turn(self, spans: OpenSpans) -> None:
        if spans.turn is not None:
            if spans.used_in_turn.requests:
                spans.turn.span_data.usage = run_usage(spans.used_in_turn)
            spans.turn.finish()
        spans.turn, spans.used_in_turn = None, f.Usage()

    def _end_agent(self, spans: OpenSpans) -> None:
        self._end_turn(spans)
        if spans.agent is not None:
            spans.agent.finish()
        spans.agent = spans.place = None

    def _leave(self, path: Path) -> None:
        spans = self.open.pop(path)
        self._safely(lambda: self._end_agent(spans))
        if spans.task is not None:
            if spans.used.requests:
                used = spans.used
                totals = {"requests": used.requests, "total_tokens": used.total_tokens}
                spans.task.span_data.usage = run_usage(used) | totals
            self._safely(spans.task.finish)
        if spans.call is not None:
            self._safely(spans.call.finish)

    def _fail_run(self, failure: Exception) -> None:
        spans = self.open.get(())
        if spans is None or spans.agent is None or isinstance(failure, TripwireTriggered):
            return
        if isinstance(failure, MaxTurnsExceeded):
            most = self.scope.journal.run.max_turns
            spans.agent.set_error(SpanError(message="Max turns exceeded", data={"max_turns": most}))
        else:
            spans.agent.set_error(self._error("Error in agent run", {}, failure))

    def _tools(self, path: Path) -> list[Tool]:
        return list(self.scope.graph.agent_at(self.scope.run_at(path).agent).tools.values())

    # -- spans, and errors of tracing --------------------------------------------------------------

    def _start(self, data: Any, above: Span[Any] | None) -> Span[Any]:
        span = get_trace_provider().create_span(data, parent=above or self.current)
        if isinstance(span, SpanImpl):
            span.mirrored = False
        span.start()
        return span

    def _begin(self, start: Callable[[], Span[Any]]) -> Span[Any]:
        try:
            return start()
        except Exception:
            log.warning("A span could not be begun; the run goes on without it", exc_info=True)
            nothing: SpanData = CustomSpanData("", {})
            return NoOpSpan(nothing)

    @contextmanager
    def _inside(self, span: Span[Any] | None) -> Iterator[None]:
        """Make a span the current one for the work inside."""
        token = Scope.set_current_span(span)
        try:
            yield
        finally:
            try:
                Scope.reset_current_span(token)
            except ValueError:
                log.debug("The current span is left as it is: it belongs to another task")

    def _error(self, message: str, about: dict[str, Any], failure: Exception) -> SpanError:
        words = self.mask.words(clean_text(str(failure))[0]) if self.shows else HIDDEN
        return SpanError(message=message, data={**about, "error": words})

    def _safely(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception:
            log.warning("Tracing failed; the run goes on", exc_info=True)


_HEARS: dict[type[f.Fact], Callable[[RunSpans, Any], None]] = {
    f.Guarded: RunSpans._on_guarded,
    f.Told: RunSpans._on_told,
    f.Finished: RunSpans._on_finished,
}


def call_usage(used: f.Usage) -> dict[str, Any]:
    """Return the usage of a model call, in the SDK's form."""
    return {
        "requests": used.requests,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "total_tokens": used.total_tokens,
        "input_tokens_details": {"cached_tokens": used.cached_tokens, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def run_usage(used: f.Usage) -> dict[str, Any]:
    """Return the usage of a turn or run, in the SDK's form."""
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_input_tokens": used.cached_tokens,
        "cache_write_input_tokens": 0,
    }


def _output_name(agent: Agent[Any]) -> str:
    """Return the name of the agent's output type."""
    schema = schema_of(agent)
    kind = str if schema is None else schema.output_type
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _messages(request: ModelRequest, output: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return a request's messages and its reply in the form of Chat Completions; as items where that has no form."""
    try:
        reply = assistant_message(output)
        return chat_messages(request), [reply] if reply is not None else []
    except UsageError:
        return list(request.input), output


def client_response(request: ModelRequest, response: ModelResponse, output: list[Any]) -> Any:
    """Return a reply as the client's `Response`; None if the client is not installed."""
    try:
        from openai.types.responses import Response
    except ImportError:
        return None
    used = response.usage
    return Response.model_construct(
        id=response.response_id,
        object="response",
        status="completed",
        instructions=request.instructions,
        output=output,
        usage={
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "total_tokens": used.total_tokens,
            "input_tokens_details": {"cached_tokens": used.cached_tokens},
            "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        },
    )
