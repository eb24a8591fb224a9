"""`assentry stop`, and `assentry runs cancel` and `resume`: end what runs, and let it go on."""

from __future__ import annotations

from argparse import Namespace

from ..errors import AssentryError
from ..store.stop import AgentStop
from .deciding import author
from .source import MOST_ENTRIES, Source, only_one, source
from .table import Cell, Column, TimeCell, print_table
from .write import put, put_json, say, spelled_name

STOPS = (
    Column("STOP", "id"),
    Column("AGENT", "text"),
    Column("BY", "text"),
    Column("SINCE (UTC)", "time", brief="SINCE"),
    Column("LIFTED (UTC)", "time", least=100, brief="LIFTED"),
    Column("LIFTED BY", "text", least=100),
    Column("WHY", "text"),
)


async def cancel_named_run(options: Namespace) -> int:
    """Cancel a run."""
    by = author(options)
    async with source(options) as place:
        id = await place.whole_id("run", options.run)
        record = await place.cancel(id, by=by, why=options.why)
    if options.json:
        put_json(record)
    else:
        put(f"{id} is {record.status}. `assentry runs resume {id}` lets it go on.")
    return 0


async def resume_named_run(options: Namespace) -> int:
    """Resume a cancelled run."""
    by = author(options)
    async with source(options) as place:
        id = await place.whole_id("run", options.run)
        record = await place.resume(id, by=by)
    if options.json:
        put_json(record)
    else:
        put(f"{id} is {record.status}.")
    return 0


async def stop_named_agents(options: Namespace) -> int:
    """Stop one agent, or all agents."""
    by = author(options)
    async with source(options) as place:
        stop = await place.stop(options.agent, by=by, why=options.why)
        known = options.json or await _is_known(place, stop)
    if options.json:
        put_json(stop)
        return 0
    put(f"Stopped {_name(stop)}: nothing new begins. Bodies that run already go on to their end.")
    say(f"`assentry stop lift {stop.id}` lets it go on.")
    if not known:
        say("No run here began with an agent of this name. If it is mistyped, the one that you meant goes on.")
    return 0


async def _is_known(place: Source, stop: AgentStop) -> bool:
    """Return False if no run began with the stopped agent; True if that cannot be found out."""
    if stop.agent is None:
        return True
    try:
        return bool((await place.runs(agent=stop.agent, limit=1)).items)
    except AssentryError:  # the stop holds all the same
        return True


async def lift_named_stop(options: Namespace) -> int:
    """Lift a stop."""
    by = author(options)
    async with source(options) as place:
        known = await place.stops(lifted=True, limit=MOST_ENTRIES)
        stop = await place.lift(only_one([each.id for each in known.items], options.stop), by=by)
    if options.json:
        put_json(stop)
    else:
        put(f"Lifted {stop.id}: {_name(stop)} may go on, unless another stop holds.")
    return 0


async def print_stops(options: Namespace) -> int:
    """Print a page of stops, the newest first."""
    async with source(options) as place:
        page = await place.stops(lifted=options.lifted, limit=options.limit, after=options.after)
    if options.json:
        put_json(page)
        return 0
    print_table(STOPS, map(_row, page.items))
    if page.next is not None:
        say(f"There are more: --after '{page.next}'")
    return 0


def _row(stop: AgentStop) -> tuple[Cell, ...]:
    lifted = TimeCell(stop.lifted) if stop.lifted is not None else ""
    return stop.id, _name(stop), spelled_name(stop.by), TimeCell(stop.at), lifted, stop.lifted_by or "", stop.why


def _name(stop: AgentStop) -> str:
    return "all agents" if stop.agent is None else spelled_name(stop.agent)
