"""Recovery of calls in doubt: calls that were started and whose outcome is unknown.

The tool's probe may know the outcome. A call that did not happen, or whose tool is idempotent, may run again, a
limited number of times. In every other case a person is asked. The limit is for calls that crash every worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ...approval.question import asked_of, doubt_of, effective
from ...core import facts as f
from ...core.digest import canonical
from ...core.facts import decode
from ...core.rules import RUNNING
from ...core.run import CallState
from ...core.wording import clean_text, described, shortened, worded
from ...definitions.calling import call_function
from ...definitions.probe import CannotTell, Found, Happened, NotHappened
from ...definitions.tool import Tool, qualified_name
from ...errors import DefinitionChanged
from ..scope import Scope
from ..tool_context import Looking, context_of, finished
from ..value import output_json

log = logging.getLogger("assentry")

ATTEMPTS = 3
"""The number of attempts without an outcome after which a person is asked."""
PROBE_TIMEOUT = 30.0
"""The timeout of a probe in seconds, if the tool has no `timeout` of its own."""
LONGEST_SEEN = 2000
"""The most characters of what a probe has seen that a person is told."""


async def settle(scope: Scope, effect: f.Settle) -> None:
    """Record the outcome of a call in doubt, or that the call may run again, or a question."""
    state = scope.state_of(effect)
    tool, note = _that_ran(state, *_tool(scope, state))
    found: Found = None
    if tool is not None and tool.probe is not None:
        attempt = state.attempt
        found, note = await _ask_probe(scope, effect.path, state, tool)
        state = scope.state_of(effect)
        if state.phase is not RUNNING or state.attempt != attempt or scope.tasks.stopped(effect.path):
            return  # during the probe the call was settled, or the run was stopped
    scope.journal.add(_outcome(scope, effect.path, state, tool, found, note))


async def settle_now(scope: Scope, path: tuple[str, ...], state: CallState, tool: Tool, note: str) -> None:
    """Settle a call whose body has just said that it cannot know its own outcome."""
    attempt, found = state.attempt, None
    ran, note = _that_ran(state, tool, note)
    if ran is not None and ran.probe is not None:
        found, said = await _ask_probe(scope, path, state, ran)
        note = f"{note} {said}".strip()
    if state.phase is RUNNING and state.attempt == attempt and not scope.tasks.stopping():
        scope.journal.add(_outcome(scope, path, state, ran, found, note))


def _tool(scope: Scope, state: CallState) -> tuple[Tool | None, str]:
    """Return the tool that was entered; None, with a note for the person, if it has changed or is gone."""
    try:
        return scope.tool_for(state), ""
    except DefinitionChanged:
        return None, f"{state.tool} has changed since, or is gone."


def _that_ran(state: CallState, tool: Tool | None, note: str) -> tuple[Tool | None, str]:
    """Return the tool whose probe and idempotence say something of what ran, and a note for the person.

    If code around the body ran another call in its place, there is none.
    """
    instead = [decode(step.value) for step in state.steps if step.name == f.REPLACEMENT]
    if not instead:
        return tool, note
    known = (each for each in instead if type(each) is dict)
    calls = dict.fromkeys(f"{each.get('tool')} {canonical(each.get('arguments')).decode()}" for each in known)
    return None, f"{note} In its place ran: {shortened(', '.join(calls))}.".strip()


def _outcome(
    scope: Scope, path: tuple[str, ...], state: CallState, tool: Tool | None, found: Found, note: str
) -> f.AnyFact:
    call, attempt, now = state.call.id, state.attempt, scope.journal.now()
    if isinstance(found, Happened):
        output, replaced = output_json(found.output)
        scope.outputs[path, call] = found.output
        return finished(scope, path, state, output, "probe", note=replaced)
    again = "probe" if found is not None else "idempotent" if tool is not None and tool.idempotent else None
    if again is not None and state.retries < ATTEMPTS - 1:
        return f.Left(call, attempt, again, state.fence, at=now, path=path)
    if again is not None:
        note = f"{note} It was tried {state.retries + 1} times, and none came to an end.".strip()
    fields = asked_of(tool, scope.graph.of(state).agent, state.question)
    return doubt_of(scope.journal.run, path, state, note, now, fields)


async def _ask_probe(scope: Scope, path: tuple[str, ...], state: CallState, tool: Tool) -> tuple[Found, str]:
    """Return the probe's finding, and a note on it for a person.

    A probe that fails or times out has found nothing.
    """
    name, patience = qualified_name(tool.probe), tool.timeout or PROBE_TIMEOUT
    limit = asyncio.timeout(patience)
    try:
        async with limit:
            found = await _probe(scope, path, state, tool)
    except (Exception, asyncio.CancelledError) as error:
        if scope.tasks.stopping():  # the run was cancelled, not the probe alone
            raise
        what = f"took longer than {patience:g} seconds" if limit.expired() else f"failed with {worded(error)}"
        log.warning("The probe %s of tool %r %s", name, tool.name, what)
        return None, f"Its probe {name} {what}."
    if isinstance(found, Happened):
        return found, ""
    if isinstance(found, NotHappened):
        return found, f"Its probe {name} says that it did not happen."
    if isinstance(found, CannotTell) and type(found.seen) is str:
        return None, clean_text(shortened(found.seen, LONGEST_SEEN))[0]
    if found is None:
        return None, f"Its probe {name} cannot tell."
    kinds = "neither Happened, NotHappened, CannotTell nor None"
    return None, f"Its probe {name} gave {described(found)}, which is {kinds}."


class Probing(Looking):
    """A call as its probe sees it: the probe gets the steps that the body recorded, in their order."""

    __slots__ = ()
    who = "A probe finds out"

    async def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """Return the value of the next recorded step of this name; raise `UsageError` if there is none."""
        return self.step_sync(name, fn)

    def step_sync(self, name: str, fn: Callable[[], Any]) -> Any:
        """Do the same as `step`, in a probe that is not async."""
        number = self._steps[name] = self._steps.get(name, -1) + 1
        found = (each for each in self.state.steps if each.name == name and each.number == number)
        step = next(found, None)
        return decode(step.value) if step is not None else self.ask_sync(name, None)


async def _probe(scope: Scope, path: tuple[str, ...], state: CallState, tool: Tool) -> Any:
    assert tool.probe is not None
    args = tool.canonical(effective(state))
    _, ctx = context_of(scope, path, state, tool, args, Probing)
    return await call_function(partial(tool.probe, ctx, args))
