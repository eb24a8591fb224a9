"""What code of a run itself can see of it, and decide in it: a context's hold on its run.

It holds the journal and not the drive: a drive holds the context, and is freed when nobody needs it any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from ..approval.decision import Approve, Decision, Reject
from ..approval.gate import grant_for
from ..core import facts as f
from ..core.run import CallState, Run
from ..errors import Conflict
from ..item import ToolApprovalItem
from .blocking import Home
from .cast import Cast
from .decider import always, record
from .journal import Journal

if TYPE_CHECKING:
    from .driver import Driver

Path = tuple[str, ...]


class RunControl:
    """A run, in the hands of its own code."""

    __slots__ = ("cast", "driver", "home", "journal", "taken")

    def __init__(self, driver: Driver, journal: Journal, cast: Cast, home: Home) -> None:
        self.driver = ref(driver)
        """What drives the run; whoever keeps a context does not keep that."""
        self.journal = journal
        self.cast = cast
        self.home = home
        self.taken = False
        """Whether somebody has the run as it was left: what is decided from then on, is decided there."""

    def usage(self) -> f.Usage:
        """What the run has used so far."""
        return self.journal.run.usage

    def decide(self, item: ToolApprovalItem, approve: bool, always_: bool, message: str | None) -> None:
        """A decision made by code of the run itself; from a body in a thread too, for the journal is the loop's."""
        decision: Decision = Approve() if approve else Reject(message)
        lasting = always(always_, "approve" if approve else "reject")

        def act() -> None:
            if self.taken:
                raise Conflict("The run has stopped, and its state was taken; decide on the state.")
            record(self.journal, self.cast, item.id, decision, "code", item.digest, lasting)

        self.home.do(act)

    def verdict(self, tool_name: str, call_id: str, path: Path = ()) -> bool | None:
        """Whether a call, by the provider's id, may run; None while it is not decided.

        Calls of the run or branch that asks come first, since providers' ids are not unique over branches; where
        calls of several others differ, nothing can be said. A call that was not made yet has the verdict of a
        grant, if one covers the tool.
        """
        root = self.journal.run
        here = root.at(path)
        for runs in ([here], [run for run in (root, *branches(root)) if run is not here]):
            made = [call for run in runs if (call := _called_as(run, tool_name, call_id)) is not None]
            if made:
                verdicts = {
                    type(call.outcome) is not f.Refused and (call.approval is not None or None) for call in made
                }
                return verdicts.pop() if len(verdicts) == 1 else None
        tool = self.cast.seat(here.agent).tools.get(tool_name)
        grant = grant_for(root, here.agent, tool, at=self.journal.now()) if tool is not None else None
        return grant.verdict == "approve" if grant is not None else None


def _called_as(run: Run, tool_name: str, call_id: str) -> CallState | None:
    """The last call of a tool that has this id of the provider's."""
    calls = reversed(run.calls.values())
    return next((each for each in calls if each.call.tool == tool_name and each.proposal.call_id == call_id), None)


def branches(run: Run) -> list[Run]:
    """Every branch of a run, at any depth."""
    children = run.children()
    return children + [inner for child in children for inner in branches(child)]
