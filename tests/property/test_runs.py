"""Whole runs in drawn worlds: paused, moved, broken off at any fact, cancelled anywhere; and that they are varied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import HealthCheck, currently_in_test_context, event, given, note, settings
from hypothesis import strategies as st

from assentry.core import facts as f
from tests.core.support import FACTS
from tests.draws import DRAW_ALL, examples
from tests.property.play import COUNTS, Ending, Play, same, told
from tests.property.world import FEATURES, World

worlds = st.builds(
    lambda seed, features: World(seed, frozenset(name for name, there in features.items() if there)),
    st.integers(0, 2**16),
    st.fixed_dictionaries({name: st.booleans() for name in FEATURES}),
)
slowly = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@settings(max_examples=examples(75), suppress_health_check=slowly)
@given(worlds)
async def test_a_run_keeps_its_promises_and_is_the_same_wherever_it_goes(world: World) -> None:
    first = await told(world)
    event(f"ends {first.status}")
    moved = await told(world, "moved", moving=True)
    same(first, moved)
    if not any(type(fact) is f.Guarded and fact.tripped for fact in first.journal):
        assert first.usage == first.outside.used, "every reply counts once, wherever it was given"


@settings(max_examples=examples(60), suppress_health_check=slowly)
@given(worlds, st.integers(0, 2**16))
async def test_a_run_that_breaks_off_after_any_fact_goes_on_and_nothing_is_lost_or_done_twice(
    world: World, seed: int
) -> None:
    first = await told(world)
    chance = Random(seed)
    for mark in sorted(chance.sample(first.marks, min(len(first.marks), 10 if DRAW_ALL else 6))):
        await broken_off(world, first, mark, late=chance.random() < 0.5)


async def broken_off(world: World, first: Ending, mark: int, late: bool) -> None:
    """A process dies after so many facts, or right before the next; another one has what was recorded."""
    if currently_in_test_context():
        note(f"broken off {'before the fact after' if late else 'after'} fact {mark}")
    play = Play(world, f"broken {mark} {late}", first.outside.at(mark, late))
    ending = await play.finish(await play.after(first.journal[:mark]))
    COUNTS["broken off"] += 1
    same(first, ending)


@settings(max_examples=examples(60), suppress_health_check=slowly)
@given(worlds, st.integers(1, 60), st.sampled_from(["immediate", "after_turn"]))
async def test_a_run_that_is_cancelled_anywhere_goes_on_and_comes_to_the_same(
    world: World, after: int, mode: Any
) -> None:
    first = await told(world)
    play = Play(world, "cancelled", moving=after % 2 == 0)
    play.cancel = after, mode
    ending = await play.finish()
    if any(type(fact) is f.Cancelled for fact in ending.journal):
        COUNTS[f"cancelled: {mode}"] += 1
        event(f"cancelled {mode}")
    same(first, ending)


@settings(max_examples=examples(45), suppress_health_check=slowly)
@given(worlds, st.booleans())
async def test_input_that_is_added_while_a_run_waits_is_guarded_before_anything_runs(
    world: World, moving: bool
) -> None:
    play = Play(world, "talkative", moving=moving)
    play.talkative = True
    ending = await play.finish()
    event(f"ends {ending.status}")


# -- that the worlds are what they claim to be ---------------------------------------------------------


def everything(ending: Ending) -> Iterator[str]:
    """What can be seen in a run, in words."""
    seen = Counter(type(fact).__name__ for fact in ending.journal)
    yield from seen
    yield f"ends {ending.status}"
    yield f"depth {max(len(path) for path in ending.account.spots)}"
    for fact in ending.journal:
        if type(fact) is f.Guarded:
            yield f"{fact.where} {'trips' if fact.tripped else 'held back' if fact.message is not None else 'passes'}"
        elif type(fact) is f.Approved:
            yield f"approved by {fact.by.partition(':')[0]}{' with changes' if fact.asked and fact.args else ''}"
            yield f"another tool: {fact.tool is not None}"
        elif type(fact) is f.Refused:
            yield f"refused by {fact.by.partition(':')[0]}"
            if fact.why == "another handoff was taken":
                yield "several handoffs in a turn"
        elif type(fact) is f.HandedOff:
            yield "handed off, the talk changed" if fact.history else "handed off"
    for line in ending.account.lines.values():
        yield f"a {line.call.kind} is asked about: {bool(line.asked)}"
    homes = Counter((path, spot.place) for path, spot in ending.account.spots.items() if spot.handed)
    if any(count for count in homes.values()) and seen["HandedOff"] > 1:
        yield "handed off again"


EXPECTED = {
    *(
        kind.__name__
        for kind in FACTS
        if kind not in (f.Continued, f.Revoked, f.Redefined, f.Limited, f.Left, f.Witnessed)
        and kind is not f.Switched  # no session is live here; tests/realtime has those
    ),
    *("ends done", "ends closed", "ends exhausted", "depth 0", "depth 1", "depth 2", "depth 3"),
    *("input passes", "input trips", "output passes", "output trips"),
    *(f"tool_{where} {what}" for where in ("input", "output") for what in ("passes", "held back", "trips")),
    *("approved by rule", "approved by grant", "approved by ana", "approved by ana with changes", "another tool: True"),
    *("refused by runtime", "refused by grant", "refused by ana", "refused by guardrail", "several handoffs in a turn"),
    *("handed off", "handed off, the talk changed", "handed off again"),
    *(f"a {kind} is asked about: {asked}" for kind in ("tool", "agent", "handoff") for asked in (True, False)),
    *("a output is asked about: True", "a output is asked about: False"),
    *("approval: Approve", "approval: Edit", "approval: Reject", "approval: Respond", "approval: Approve always"),
    *("approval: Reject always", "input: Respond", "input: Reject", "doubt: Approve", "doubt: Respond"),
    *(
        "raised: Boom",
        "raised: ModelFailed",
        "raised: MaxTurnsExceeded",
        "cancelled: immediate",
        "cancelled: after_turn",
    ),
}


async def test_the_worlds_reach_all_that_they_claim_to() -> None:
    COUNTS.clear()
    seen: Counter[str] = Counter()
    for seed in range(200):
        if all(seen[name] + COUNTS[name] > 1 for name in EXPECTED):
            return
        chance = Random(seed)
        world = World(seed, frozenset(name for name in FEATURES if chance.random() < 0.6))
        first = await told(world)
        play = Play(world, "cancelled")
        play.talkative = chance.random() < 0.3
        play.cancel = chance.randint(1, 25), chance.choice(["immediate", "after_turn"])
        second = await play.finish()
        if not play.talkative:
            same(first, second)
        started = [mark for mark in first.marks if type(first.journal[mark - 1]) is f.Started]
        for mark in started[:2]:
            await broken_off(world, first, mark, late=True)
        COUNTS.update(f"cancelled: {play.cancel[1]}" for fact in second.journal if type(fact) is f.Cancelled)
        seen.update({*everything(first), *everything(second)})
    assert {name for name in EXPECTED if seen[name] + COUNTS[name] < 2} == set()
