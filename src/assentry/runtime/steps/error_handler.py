"""The end of a run by an error handler: calls the handler, checks its output, and records it as the final output."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from msgspec.json import decode
from msgspec.json import encode as encode_json

from ...core import facts as f
from ...core.run import Turn
from ...core.transcript import entry_items, value_text
from ...core.wording import described
from ...definitions.agent import schema_of
from ...errors import AssentryError, InvalidOutput, UsageError
from ..agent_graph import PlacedAgent
from ..scope import Scope
from ..value import input_json, output_json
from ..view import FINAL
from .guardrail import guard_output

if TYPE_CHECKING:
    from ...definitions.error_handler import RunErrorData, RunErrorHandlerResult

RESULT_FIELDS = {"final_output", "include_in_history"}


def has_error_handler(scope: Scope, kind: f.HandledError) -> bool:
    """Return True if the run has a handler for this kind of error, and its output needs no approval."""
    handlers = scope.config.error_handlers
    if handlers is None or kind not in handlers:
        return False
    return scope.graph.agent_at(scope.journal.run.agent).final is None


async def handle_error(scope: Scope, kind: f.HandledError, error: AssentryError) -> None:
    """End the run with the output that its handler gives for the error; raise the error if the handler gives none."""
    if not has_error_handler(scope, kind):
        raise error
    from ...definitions.error_handler import RunErrorHandlerInput  # few runs need it

    await scope.journal.own()
    handler: Any = scope.config.error_handlers[kind]  # type: ignore[index]
    placed = scope.graph.agent_at(scope.journal.run.agent)
    given = handler(RunErrorHandlerInput(error, scope.ctx, _run_data(scope, placed)))
    given = await given if inspect.isawaitable(given) else given
    if given is None:
        raise error
    result = _result(kind, given)
    data, output = _checked_output(kind, placed, result.final_output)
    await guard_output(scope, (), placed, output)
    if scope.hooks.wants(placed.agent):
        await scope.hooks.tell(scope.ctx, "agent_end", placed.agent, output)
    run, at = scope.journal.run, scope.journal.now()
    said = [f.Said(input_json([_message(placed, data)]), f.ERROR_HANDLER, at=at)] if result.include_in_history else []
    scope.outputs[(), FINAL] = output
    scope.journal.append([*said, f.Concluded(data, handled=kind, saw=run.said + len(said), at=at)])


def _run_data(scope: Scope, placed: PlacedAgent) -> RunErrorData:
    from ...definitions.error_handler import RunErrorData

    view = scope.view(())
    turns = [entry for entry in view.run.entries if type(entry) is Turn]
    made = [item for turn in turns for item in entry_items(turn)]
    return RunErrorData(view.input(), view.items(), view.input_list(), made, view.responses(), placed.agent)


def _result(kind: str, given: Any) -> RunErrorHandlerResult:
    from ...definitions.error_handler import RunErrorHandlerResult

    if isinstance(given, dict) and "final_output" in given:
        if given.keys() - RESULT_FIELDS:
            raise UsageError(
                f"The error handler for {kind!r} must return a RunErrorHandlerResult, a dict with final_output and "
                f"include_in_history, or the final output; got {described(given)}."
            )
        return RunErrorHandlerResult(**given)
    return given if isinstance(given, RunErrorHandlerResult) else RunErrorHandlerResult(given)


def _checked_output(kind: str, placed: PlacedAgent, output: Any) -> tuple[Any, Any]:
    """Return the handler's output as JSON, and as an instance of the agent's output type."""
    shape = schema_of(placed.agent)
    if shape is None:
        return output_json(output)[0], output
    try:
        data = shape.dump(output)
    except InvalidOutput as error:
        raise UsageError(
            f"The error handler for {kind!r} gave an output that does not fit {shape.name}, the output type of agent "
            f"{placed.agent.name!r}: {error}"
        ) from error
    return data, shape.load(data)


def _message(placed: PlacedAgent, data: Any) -> dict[str, Any]:
    """Return the output as a message of the agent, in the form in which its model would have given it."""
    shape = schema_of(placed.agent)
    if shape is None:
        text = value_text(data)
    else:
        text = encode_json({"response": decode(data)} if shape.is_wrapped else decode(data)).decode()
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
