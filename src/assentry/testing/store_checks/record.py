"""Checks of queries: `questions`, `question`, `runs`, `grants`, `definition`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

from ...approval.decide import may_decide
from ...approval.decision import Decider
from ...core import facts as f
from ...errors import QuestionNotFound, UsageError
from ...store.filter import Filter, cursor, page_start
from ...store.record import Page, Question
from ...store.store import Store
from ..clock import FakeClock
from .draft import DEFINITIONS, SEND, SHRED, RunDraft, asking, branching, json, put_asking, put_begun, put_ended
from .expect import alike, only, raises, true
from .journal import STRANGE

Find = Callable[..., Awaitable[Page[Any]]]


def _ids(page: Page[Any]) -> list[str]:
    return [each.id for each in page.items]


async def keeps_questions(store: Store, clock: FakeClock) -> None:
    """A question has all that is needed to decide."""
    draft = RunDraft(clock)
    clock.advance(1.5)
    (call,) = draft.propose(SEND, args={"to": STRANGE * 1_000})
    prompt, schema = {"text": STRANGE, "n": [0.1, 2**60, None]}, {"type": "string", "enum": ["a", STRANGE]}
    more: dict[str, Any] = {"until": 90_000, "due": 30_000, "allowed": ("approve", "reject")}
    draft.ask(call, prompt=json(prompt), schema=json(schema), **more)
    change = draft.change()
    expected = deepcopy(change.asked[0])
    await store.append(change)
    found = await store.question(expected.id)
    alike(found, expected, "A question is kept with all its fields.")
    alike(type(found), Question, "A question is a `Question`.")
    alike((found.allowed, found.path), (("approve", "reject"), ()), "A tuple stays a tuple.")
    alike((await store.questions()).items, [expected], "An open question is listed with all its fields.")
    alike((await store.questions(settled=True)).items, [], "An open question is not among the settled ones.")
    for id in ("no", "", "%", expected.id[:-1]):
        await raises(QuestionNotFound, store.question(id), "A question that was never asked is `QuestionNotFound`.")


async def keeps_questions_of_branches(store: Store, clock: FakeClock) -> None:
    """A question of a nested agent is a question of the outer run, with the path of the calls above it."""
    draft = branching(clock)
    change = draft.change()
    expected = deepcopy(change.asked)
    await store.append(change)
    draft.seq += len(change.facts)
    found = (await store.questions(agent="Helper")).items
    alike(found, expected, "A question of an agent within a run is kept with all its fields.")
    alike([(each.run, each.path) for each in found], [(draft.id, ("c0",))], "A question says which calls it is under.")
    alike(await store.runs(agent="Helper"), Page([]), "A run is of the agent that it began with.")
    await draft.add(f.Closed("It failed.", path=("c0",), at=draft.now)).write(store)
    alike((await store.question(expected[0].id)).verdict, "void", "What is asked in a part that is closed is void.")


async def settles_questions(store: Store, clock: FakeClock) -> None:
    """A question that was decided, replaced or made void is not open any more."""
    draft = asking(clock, (SEND, SEND, SEND))
    first, second, third = (question.id for question in (await draft.write(store)).asked)
    clock.advance(4)
    draft.add(f.Refused("c0", "ann", first, "No.", at=draft.now))
    newer = draft.ask("c1", replaces=second)
    await draft.write(store)
    clock.advance(4)
    alike(set(_ids(await store.questions())), {newer, third}, "Only questions without an end are open.")
    following = {id: await store.successor(id) for id in (first, second, third)}
    expected = {first: None, second: await store.question(newer), third: None}
    alike(following, expected, "The open question about the same call took a settled one's place.")
    await draft.add(f.Closed("It failed.", at=draft.now)).write(store)
    alike((await store.questions()).items, [], "The questions of a closed run are not open.")
    began = draft.run.began.at if draft.run.began is not None else 0
    ends = {first: ("reject", "ann", 4), second: ("replaced", "runtime", 4)}
    ends |= dict.fromkeys((newer, third), ("void", "runtime", 8))
    for id, (verdict, by, seconds) in ends.items():
        found = await store.question(id)
        decided = began + seconds * 1000
        alike(
            (found.verdict, found.by, found.decided), (verdict, by, decided), "A question says how it came to its end."
        )
    alike(
        set(_ids(await store.questions(settled=True))), set(ends), "All questions that came to their end are settled."
    )
    alike((await store.question(newer)).replaces, second, "A question says which one it replaces.")


async def filters_questions(store: Store, clock: FakeClock) -> None:
    """Filters hold one by one and together."""
    old = await put_asking(store, (SEND, SHRED))
    clock.advance(60)
    young = await put_asking(store, (SEND,))
    other = await put_asking(store, (SEND, SHRED), agent="Bailiff")
    everything = [*old, *young, *other]
    filters: list[tuple[dict[str, Any], Callable[[Question], bool]]] = [
        ({}, lambda q: True),
        ({"run": old[0].run}, lambda q: q.run == old[0].run),
        ({"agent": "Bailiff"}, lambda q: q.agent == "Bailiff"),
        ({"tool": "shred"}, lambda q: q.tool == "shred"),
        ({"older_than": 60}, lambda q: q in old),
        ({"older_than": 60.5}, lambda q: False),
        ({"older_than": 0}, lambda q: True),
        ({"agent": "Clerk", "tool": "shred"}, lambda q: q is old[1]),
        ({"agent": "Clerk", "tool": "send", "older_than": 30}, lambda q: q is old[0]),
        ({"run": other[0].run, "tool": "send"}, lambda q: q is other[0]),
        ({"run": other[0].run, "older_than": 30}, lambda q: False),
        ({"run": old[0].run, "agent": "Clerk", "tool": "send", "older_than": 1}, lambda q: q is old[0]),
        ({"agent": "Clerk%"}, lambda q: False),
        ({"tool": "SEND"}, lambda q: False),
        ({"run": ""}, lambda q: False),
        ({"settled": True}, lambda q: False),
    ]
    for chosen, fits in filters:
        expected = {question.id for question in everything if fits(question)}
        alike(set(_ids(await store.questions(**chosen))), expected, f"questions({chosen}) gives those that fit.")
    await store.decide(old[0].id, {"type": "approve"}, by="ann", digest=old[0].digest)
    found = await store.questions(settled=True, agent="Clerk", tool="send", run=old[0].run, older_than=60)
    alike(_ids(found), [old[0].id], "Settled questions can be filtered, too.")
    alike(_ids(await store.questions(settled=True, agent="Bailiff")), [], "Settled questions can be filtered, too.")


async def finds_who_may_decide(store: Store, clock: FakeClock) -> None:
    """The questions that a person may decide, and those that a person decided, can be listed and counted."""
    odd = 'x,"ann'
    lists = [
        (),
        ("ann",),
        ("group:ops", "bob"),
        ("bob", "group:\u00e9t\u00e9"),
        (odd,),
        ("annabel", "group:ann"),
        ('a"b\\',),
    ]
    asked = [(await put_asking(store, reviewers=names))[0] for names in lists]
    people = [Decider("ann"), Decider("bob"), Decider("eve", ("ops",)), Decider("eve", ("\u00e9t\u00e9", "none"))]
    people += [Decider(odd), Decider("anna", ("ann",)), Decider('a"b\\'), Decider(","), Decider("%")]
    for who in people:
        expected = {each.id for each in asked if may_decide(each.reviewers, who)}
        found = await store.questions(decider=who)
        alike(set(_ids(found)), expected, f"Only questions that {who.name} may decide are listed.")
        count = await store.count_questions(decider=who)
        alike(count, len(expected), "What is counted is what is listed.")
    own = await (asking(clock, by="ann")).write(store)
    alike(await store.count_questions(decider="ann"), 2, "Nobody decides in a run that they asked for.")
    alike(await store.count_questions(decider="eve"), 2, "Others may.")
    for question in (asked[0], own.asked[0]):
        clock.advance(1)
        await store.decide(question.id, {"type": "approve"}, by="eve", digest=question.digest)
    alike(
        _ids(await store.questions(settled=True, by="eve", newest=True)),
        [own.asked[0].id, asked[0].id],
        "The newest come first.",
    )
    alike(_ids(await store.questions(settled=True, by="ann")), [], "What somebody else decided is not listed.")
    alike(await store.count_questions(settled=True, by="eve"), 2, "What a person decided is counted.")


async def counts_questions(store: Store, clock: FakeClock) -> None:
    """A count is of what the lists have, up to its limit."""
    first = await put_asking(store, (SEND, SHRED, SEND))
    clock.advance(1)
    await put_asking(store, (SEND,) * 4, agent="Bailiff")
    alike(await store.count_questions(), 7, "All open questions are counted.")
    alike(await store.count_questions(most=5), 5, "Counting stops at `most`.")
    alike(await store.count_questions(tool="shred"), 1, "Filters hold for counts.")
    alike(await store.count_questions(agent="Bailiff", tool="shred"), 0, "Filters hold for counts.")
    page = await store.questions(limit=3)
    alike(await store.count_questions(after=page.next), 4, "Those after a place are counted.")
    await store.decide(first[0].id, {"type": "reject"}, by="ann", digest=first[0].digest)
    alike(await store.count_questions(), 6, "A question that was decided is not open.")
    alike(await store.count_questions(settled=True), 1, "Settled questions are counted.")


async def pages_questions(store: Store, clock: FakeClock) -> None:
    """Pages follow one another, whatever happens meanwhile."""
    expected = []
    for _ in range(4):
        clock.advance(1)
        expected.append({question.id for question in await put_asking(store, (SEND,) * 3)})
    seen: list[str] = []
    after = None
    for size in (2, 2, 2, 2, 2):
        page = await store.questions(limit=size, after=after)
        alike(len(page.items), size, "A page is full if there is more.")
        true(type(page.next) is str, "A page that is not the last says where the next one begins.")
        seen, after = seen + _ids(page), page.next
        clock.advance(1)
        await put_asking(store, (SEND,))
        await store.decide(page.items[0].id, {"type": "reject"}, by="ann", digest=page.items[0].digest)
    alike(len(set(seen)), 10, "No question is on two pages, whatever is added or settled meanwhile.")
    places = [n for id in seen for n, ids in enumerate(expected) if id in ids]
    alike(len(places), 10, "No question is left out between two pages, whatever is added or settled meanwhile.")
    alike(places, sorted(places), "The oldest questions come first.")
    rest = await store.questions(limit=7, after=after)
    alike(len(rest.items), 7, "The last page has all that is left.")
    alike(rest.next, None, "The last page has no next one, even if it is full.")
    await put_asking(store, (SEND,))
    alike((await store.questions(limit=7, after=after)).next is None, False, "With one more it has.")


async def pages_settled_questions(store: Store, clock: FakeClock) -> None:
    """Settled questions are in the order of their ends, whenever they were asked."""
    asked = [*await put_asking(store, (SEND,)), *await put_asking(store, (SHRED,)), *await put_asking(store, (SEND,))]
    order = [asked[2], asked[0], asked[1]]
    for question in order:
        clock.advance(1)
        await store.decide(question.id, {"type": "reject"}, by="ann", digest=question.digest)
    ids = [question.id for question in order]
    alike(_ids(await store.questions(settled=True)), ids, "What was settled first comes first.")
    alike(_ids(await store.questions(settled=True, newest=True)), ids[::-1], "What was settled last comes first.")
    for newest, expected in ((False, ids), (True, ids[::-1])):

        async def find(newest: bool = newest, **more: Any) -> Page[Any]:
            return await store.questions(settled=True, newest=newest, **more)

        alike([id for id, _ in await _all(find)], expected, "Pages of settled questions have the order of the whole.")
    await _by_end(store, clock, order)


async def _by_end(store: Store, clock: FakeClock, rejected: list[Question]) -> None:
    """Settled questions can be found by who ended them, how and when."""
    [approved] = await put_asking(store, (SEND,))
    clock.advance(1)
    await store.decide(approved.id, {"type": "approve"}, by="ben", digest=approved.digest)
    times = [(await store.question(each.id)).decided for each in rejected]
    for chosen, expected in (
        ({"by": "ben"}, [approved]),
        ({"by": "ann"}, rejected),
        ({"by": "Ann"}, []),
        ({"verdict": "reject"}, rejected),
        ({"verdict": "approve", "by": "ann"}, []),
        ({"decided_after": times[1]}, [*rejected[1:], approved]),
        ({"decided_before": times[1]}, rejected[:1]),
        ({"decided_after": times[1], "decided_before": times[2], "by": "ann", "verdict": "reject"}, rejected[1:2]),
        ({"verdict": "reject", "search": approved.tool}, [each for each in rejected if each.tool == approved.tool]),
    ):
        found: Page[Question] = await store.questions(settled=True, **chosen)
        alike(_ids(found), [each.id for each in expected], f"questions({chosen}) gives those that ended so.")
        first = await store.questions(settled=True, newest=True, limit=1, **chosen)
        alike(_ids(first), [each.id for each in expected][-1:], f"questions({chosen}) gives the newest first.")


async def pages_with_filters(store: Store, clock: FakeClock) -> None:
    """Filters hold on every page, and limits are kept."""
    for _ in range(3):
        await put_asking(store, (SEND, SHRED))  # all at the same time: the store may choose the order, but must keep it
    whole = _ids(await store.questions(tool="shred"))
    one = await store.questions(tool="shred", limit=1)
    two = await store.questions(tool="shred", limit=1, after=one.next)
    last = await store.questions(tool="shred", limit=1000, after=two.next)
    alike(_ids(one) + _ids(two) + _ids(last), whole, "Pages have the order of the whole, and its filters.")
    alike((len(whole), last.next), (3, None), "Nothing is left out of the pages, and nothing comes after the last.")
    for n in range(3):
        await RunDraft(clock).add(f.Granted(f"g{n}", "Clerk", "send", "approve", "ann", at=0)).write(store)
    finds: list[tuple[Find, int]] = [(store.runs, 6), (store.grants, 3)]
    for find, count in finds:
        found = await _all(find)
        alike(len(set(found)), count, "Pages of one give all there is, each once.")
        alike(found, [_key(each) for each in (await find()).items], "Pages have the order of the whole.")


async def searches_in_parts(store: Store, clock: FakeClock) -> None:
    """A page of a search looks at a limited number of questions, and the next one goes on after them."""
    asked: list[Question] = []
    for tools in ((SEND,) * 3, (SEND, SHRED), (SEND,) * 3, (SHRED,)):  # questions of one run have the same time
        clock.advance(1)
        asked += await put_asking(store, tools)
    await put_asking(store, (SHRED,), agent="Bailiff")

    async def find(reach: int, after: str | None = None, limit: int = 50, **more: Any) -> Page[Question]:
        start = page_start(limit, after)
        given: dict[str, Any] = {"equal": {"agent": "Clerk"}, "ended": False, "search": "Shred", **more}
        return await store.page(Filter(kind=Question, limit=limit, start=start, reach=reach, **given))

    first = await find(3)
    alike(first.items, [], "A page of a search looks at no more questions than it may.")
    true(first.next is not None, "A search that has not looked at all questions says where it goes on.")
    alike(len((await find(8)).items), 1, "A page of a search has what was found among the questions it looked at.")
    alike((await find(len(asked))).next, None, "A search that has looked at all questions has no next page.")
    alike(len((await find(1, search=None)).items), len(asked), "Without a search, the whole list is looked at.")
    await _searches_on(find)
    for question in asked:
        await store.decide(question.id, {"type": "reject"}, by="ann", digest=question.digest)
    await _searches_on(find, ended=True)


async def _searches_on(find: Find, **more: Any) -> None:
    for newest in (False, True):
        whole = _ids(await find(1000, newest=newest, **more))
        alike(len(whole), 2, "A search that may look at all questions finds all.")
        for reach, limit in ((1, 1), (2, 50), (4, 1), (5, 2), (8, 1)):
            found: list[str] = []
            after, pages = None, 0
            while pages == 0 or after is not None:
                page = await find(reach, after, limit, newest=newest, **more)
                found, after, pages = found + _ids(page), page.next, pages + 1
                true(pages < 20, "The pages of a search come to an end.")
            alike(found, whole, "The pages of a search find each question once, in the order of the list.")


def _key(each: Any) -> tuple[str, str]:
    return each.id, getattr(each, "run", "")


async def _all(find: Find) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    after = None
    while len(found) < 100:
        page = await find(limit=1, after=after)
        found += [_key(each) for each in page.items]
        after = page.next
        if after is None:
            break
    return found


async def refuses_bad_pages(store: Store, clock: FakeClock) -> None:
    """A limit is from 1 to 1,000, and a cursor is one that a page gave."""
    await put_asking(store)
    finds: list[Find] = [store.questions, store.runs, store.grants]
    for find in finds:
        for limit in (0, -1, 1001):
            await raises(UsageError, find(limit=limit), f"A limit of {limit} is refused.")
        await find(limit=1000)
        for after in ("", "nonsense", "[]", '["1", "a"]', "[1, 2]", "\ud800"):
            await raises(UsageError, find(after=after), f"{after!r} is not where a page begins.")
        with suppress(UsageError):
            alike((await find(after=cursor(10**30, "x"))).items, [], "After the end of all time there is nothing.")


async def lists_runs(store: Store, clock: FakeClock) -> None:
    """Runs are listed oldest first, and filtered one by one and together."""
    done = await put_ended(store)
    clock.advance(10)
    (question,) = await put_asking(store, agent="Bailiff")
    clock.advance(10)
    working = await put_begun(store, thread="żółć")
    filters: list[tuple[dict[str, Any], list[str]]] = [
        ({}, [done.id, question.run, working.id]),
        ({"agent": "Clerk"}, [done.id, working.id]),
        ({"status": "waiting"}, [question.run]),
        ({"status": "working"}, [working.id]),
        ({"thread": "żółć"}, [working.id]),
        ({"thread": "żółć", "status": "done"}, []),
        ({"thread": ""}, []),
        ({"unchanged_for": 10}, [done.id, question.run]),
        ({"unchanged_for": 10.5}, [done.id]),
        ({"unchanged_for": 21}, []),
        ({"agent": "Clerk", "status": "done", "unchanged_for": 1}, [done.id]),
        ({"agent": "Bailiff", "status": "done"}, []),
        ({"agent": "Cler_"}, []),
    ]
    for chosen, expected in filters:
        alike(_ids(await store.runs(**chosen)), expected, f"runs({chosen}) gives those that fit, oldest first.")
    clock.advance(1)
    await store.say(done.id, "And more.", by="ann")
    alike(_ids(await store.runs()), [done.id, question.run, working.id], "A run is as old as its beginning.")
    alike(_ids(await store.runs(unchanged_for=1)), [question.run, working.id], "What is written to a run changes it.")


async def lists_grants(store: Store, clock: FakeClock) -> None:
    """Grants are listed oldest first, with how often they were used and who took them back."""
    draft = RunDraft(clock)
    draft.add(f.Granted("g1", "Clerk", "send", "approve", "ann", "srv", "Fine.", SEND.fingerprint, 3, 60_000, at=0))
    change = draft.change()
    expected = deepcopy(change.granted)
    await store.append(change)
    draft.seq += len(change.facts)
    clock.advance(1)
    pins = json({"to": STRANGE, "n": [1, None]})
    draft.add(f.Granted("g2", "Clerk.shred#0", "shred", "reject", "bob", pins=pins, at=draft.now))
    change = draft.change()
    expected += deepcopy(change.granted)
    await store.append(change)
    draft.seq += len(change.facts)
    alike((await store.grants()).items, expected, "A grant is kept with all its fields, the oldest first.")
    other = RunDraft(clock)
    await other.add(f.Granted("g1", "Clerk", "send", "approve", "ann", at=1)).write(store)
    for _ in range(2):
        (call,) = draft.propose(SEND)
        draft.add(f.Approved(call, "grant:g1", at=draft.now), f.Started(call), f.Finished(call, json("sent")))
        await draft.write(store)
    used = {(grant.run, grant.id): grant.used for grant in (await store.grants()).items}
    uses = {(draft.id, "g1"): 2, (draft.id, "g2"): 0, (other.id, "g1"): 0}
    alike(used, uses, "A grant says how often it was used, each of its own run.")
    clock.advance(1)
    await draft.add(f.Revoked("g1", "eve", at=draft.now)).write(store)
    filters: list[tuple[dict[str, Any], set[tuple[str, str]]]] = [
        ({}, {(draft.id, "g2"), (other.id, "g1")}),
        ({"revoked": True}, set(uses)),
        ({"run": other.id}, {(other.id, "g1")}),
        ({"agent": "Clerk.shred#0"}, {(draft.id, "g2")}),
        ({"tool": "send", "revoked": True}, {(draft.id, "g1"), (other.id, "g1")}),
        ({"tool": "send", "run": draft.id}, set()),
        ({"agent": "Clerk", "tool": "send", "run": draft.id, "revoked": True}, {(draft.id, "g1")}),
    ]
    for chosen, fit in filters:
        found = {(grant.run, grant.id) for grant in (await store.grants(**chosen)).items}
        alike(found, fit, f"grants({chosen}) gives those that fit.")
    gone = only(
        (await store.grants(run=draft.id, tool="send", revoked=True)).items, "A grant that was taken back is kept."
    )
    alike((gone.revoked, gone.revoked_by), (int(clock() * 1000), "eve"), "A grant says who took it back, and when.")


async def keeps_definitions(store: Store, clock: FakeClock) -> None:
    """A tool is found by its fingerprint, or by enough of it."""
    await put_asking(store)
    await put_asking(store)
    for mark, text in DEFINITIONS.items():
        alike(await store.definition(mark), text, "A tool is found by its fingerprint.")
        alike(
            await store.definition(mark[:8]), text, "A tool is found by the first eight characters of its fingerprint."
        )
        alike(await store.definition(mark[:20]), text, "A tool is found by more than eight characters, too.")
        alike(await store.definition(mark[:7]), None, "Seven characters of a fingerprint are not enough.")
    for unknown in ("0" * 32, "0" * 8, "%" * 8, "_" * 32, "", mark + "0"):
        alike(await store.definition(unknown), None, f"There is no tool {unknown!r}.")
    twins = {"abcdefgh1" + "0" * 23: b'{"n": 1}', "abcdefgh2" + "0" * 23: b'{"n": 2}'}
    await (await put_begun(store)).write(store, definitions=twins)
    alike(await store.definition("abcdefgh"), None, "Characters that fit two tools find neither.")
    for _ in range(2):
        await store.define({"d" * 32: b'{"own":1}'})
    alike(await store.definition("d" * 32), b'{"own":1}', "An engine's definition is kept without a run.")
    await store.define({})
    alike(await store.definition("abcdefgh2"), b'{"n": 2}', "Characters that fit one tool find it.")


RECORD_CHECKS = (
    keeps_questions,
    settles_questions,
    filters_questions,
    pages_questions,
    pages_settled_questions,
    pages_with_filters,
    searches_in_parts,
    finds_who_may_decide,
    counts_questions,
    refuses_bad_pages,
    lists_runs,
    lists_grants,
    keeps_definitions,
    keeps_questions_of_branches,
)
