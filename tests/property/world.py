"""Worlds for whole runs: agents, models, tools, guardrails and a person, all drawn from one number.

What anybody in a world says is a function of the number and of what they are asked, and never of when: a run that is
broken off and taken up elsewhere hears the same. So two runs of one world can be compared, however they were driven.
What tools do to the outside is kept in an `Outside`, which is not the run's, and which no crash undoes.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from assentry import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelRequest,
    ModelResponse,
    OutputGuardrail,
    Preview,
    RunConfig,
    Tool,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    Usage,
    function_tool,
    handoff,
)
from assentry.errors import ModelFailed
from assentry.testing import FakeClock

Path = tuple[str, ...]
Item = dict[str, Any]

FEATURES = (
    "agents",  # agents as tools, three deep
    "handoffs",  # to any agent, in circles too
    "filters",  # what an agent that takes over hears is changed
    "approval",  # tools, agents, handoffs that need a person
    "rules",  # tools whose rule is a function, that may fail or give nonsense
    "always",  # decisions for later calls too
    "asking",  # bodies that ask, with steps
    "failing",  # bodies that fail, and models that do once
    "raising",  # bodies whose failure leaves the run
    "guards",  # guardrails of tools, input and output
    "trips",  # what guardrails stop the run for
    "outputs",  # final outputs that need a person
    "stopping",  # agents whose first tool's output is theirs
    "batch",  # turns that are released as a whole
    "previews",  # tools whose call is looked at again, before the body is entered
    "early",  # tools' guardrails look before a person is asked, too
    "bad_calls",  # arguments that cannot be read, tools that are not there
    "twins",  # a provider that repeats its ids
    "session",  # a talk that is kept
    "more",  # a user who has something to add when all is done
    "limits",  # few turns
    "reckless",  # a person who runs again whatever is in doubt
)
NAMES = ("Root", "Clerk", "Clerk", "Boss", "Root")
"""Of the agents, by number. Some are called alike, and they are never to be taken for one another."""


class Boom(Exception):
    """What a tool of a world fails with."""


class Effect(NamedTuple):
    """What a body did outside: in which call and step, with what, and how many facts were recorded by then."""

    facts: int
    path: Path
    call: str
    step: str
    agent: int
    tool: str
    args: dict[str, Any]
    key: str
    output: str

    @property
    def place(self) -> tuple[Path, str, str]:
        """What should happen once."""
        return self.path, self.call, self.step


@dataclass
class Outside:
    """All that is not the run: what was done, who entered what, what models were asked, and the session's items."""

    effects: list[Effect] = field(default_factory=list)
    entries: Counter[tuple[Path, str]] = field(default_factory=Counter)
    requests: list[tuple[int, list[Item]]] = field(default_factory=list)
    used: Usage = field(default_factory=Usage)
    failed: set[str] = field(default_factory=set)
    written: list[tuple[int, str, int, Item]] = field(default_factory=list)
    """Of the session: how many facts were recorded, which run, at which position, and the item."""
    facts: int = 0
    """How many facts the journal has."""

    def at(self, facts: int, late: bool) -> Outside:
        """The outside as a crash leaves it: right after that many facts were recorded, or right before the next."""
        return Outside(
            [effect for effect in self.effects if effect.facts < facts or (late and effect.facts == facts)],
            written=[each for each in self.written if each[0] < facts or (late and each[0] == facts)],
            facts=facts,
        )

    def done(self, path: Path, call: str, step: str) -> Effect | None:
        """What a call did outside in this step, if it did."""
        return next((effect for effect in self.effects if effect.place == (path, call, step)), None)


class Memory:
    """A session that stores nothing twice, outside."""

    session_id = "talk"

    def __init__(self, outside: Outside, before: list[Item]) -> None:
        self.outside = outside
        self.before = before

    async def get_items(self, limit: int | None = None) -> list[Item]:
        items = [*self.before, *(item for *_, item in self.outside.written)]
        return json.loads(json.dumps(items if limit is None else items[-limit:]))

    async def add_items(self, items: list[Item]) -> None:
        raise AssertionError("a session that can write exactly is written to exactly")

    async def pop_item(self) -> Item | None:
        raise NotImplementedError

    async def clear_session(self) -> None:
        raise NotImplementedError

    async def write(self, run_id: str, position: int, items: list[Item]) -> None:
        await asyncio.sleep(0)
        there = {(run, at) for _, run, at, _ in self.outside.written}
        for number, item in enumerate(items, position):
            if (run_id, number) not in there:
                self.outside.written.append((self.outside.facts, run_id, number, item))


@dataclass(frozen=True)
class World:
    """A world. `outsides` are its histories: one for each way it went."""

    seed: int
    features: frozenset[str]
    outsides: dict[str, Outside] = field(default_factory=dict, hash=False, compare=False)

    def __repr__(self) -> str:
        return f"World({self.seed}, {sorted(self.features)})"

    def has(self, feature: str) -> bool:
        return feature in self.features

    def chance(self, *about: Any) -> Random:
        """Chance that is always the same about the same."""
        return Random(f"{self.seed} {about!r}")

    def one_in(self, odds: int, *about: Any) -> bool:
        return self.chance(*about).randrange(odds) == 0

    # -- what is said --------------------------------------------------------------------------------

    def task(self, depth: int, *about: Any) -> str:
        """What an agent is told to do."""
        evil = self.has("trips") and self.one_in(8, "evil", depth, *about)
        return f"task {depth} {'evil ' if evil else ''}{self.chance('task', *about).randrange(100)}"

    @property
    def input(self) -> str | list[Item]:
        first = self.task(0)
        return first if self.one_in(2, "input") else [{"role": "user", "content": first}]

    @property
    def more(self) -> str:
        return "and more" + (" evil" if self.has("trips") and self.one_in(3, "more") else "")

    @property
    def before(self) -> list[Item]:
        """What the session holds: a talk of before, that was cut off in the middle."""
        call = {"type": "function_call", "name": "act", "arguments": "{}", "call_id": "p1"}
        lost = [{"type": "reasoning", "id": "r0", "summary": []}, call | {"call_id": "lost"}]
        talk = [{"role": "user", "content": "hello"}, call, output_of(call, "acted"), *lost]
        return talk if self.one_in(2, "before") else []

    # -- the agents ----------------------------------------------------------------------------------

    def agents(self, name: str) -> Agent[Any]:
        """The agent that runs begin with, and behind it all the others, made anew for this history."""
        outside = self.outsides.setdefault(name, Outside())
        made = [self._agent(number, Mind(self, outside, number)) for number in range(len(NAMES))]
        for number, agent in enumerate(made):
            chance = self.chance("leads", number)
            if self.has("agents"):
                below = range(number + 1, len(NAMES))
                for other in sorted({*chance.sample(below, min(len(below), chance.randrange(3))), *below[:1]}):
                    agent.tools.append(self._as_tool(number, other, made[other]))
            if self.has("handoffs"):
                for other in chance.sample([n for n in range(len(NAMES)) if n != number], chance.randrange(3)):
                    agent.handoffs.append(self._handoff(number, other, made[other]))
        return made[0]

    def _agent(self, number: int, mind: Mind) -> Agent[Any]:
        chance, guards = self.chance("agent", number), self.has("guards")
        rule: Any = self.has("outputs") and chance.choice([False, False, True, risky_output])
        return Agent(
            NAMES[number],
            instructions=str(number),
            tools=[tool_of(self._tool(number, name)) for name in ("act", "pay", "look")],
            model=mind,
            output_needs_approval=rule,
            tool_use_behavior="stop_on_first_tool" if self.has("stopping") and number % 2 else "run_llm_again",
            input_guardrails=chance.choice(INPUT_GUARDS) if guards else [],
            output_guardrails=[OUTPUT_GUARD] if guards and chance.randrange(2) else [],
        )

    @functools.lru_cache(1000)  # noqa: B019
    def _tool(self, agent: int, name: str) -> ToolPlan:
        chance = self.chance("tool", agent, name)
        rules = ["free", *(["gated"] * 2 if self.has("approval") else []), *(["rule"] if self.has("rules") else [])]
        bodies = ["plain", "plain"]
        bodies += [body for body in ("asking", "failing", "raising") if self.has(body)]
        guards = [g for g in ("input", "output") if self.has("guards") and chance.randrange(2)]
        rule, body = chance.choice(rules), chance.choice(bodies)
        previews = self.has("previews") and chance.randrange(2) == 0
        return ToolPlan(agent, name, rule, body, tuple(guards), self.has("trips"), previews)

    def _rule(self, *about: Any) -> Any:
        return self.has("approval") and self.chance(*about).randrange(3) == 0

    def _as_tool(self, number: int, other: int, agent: Agent[Any]) -> Tool:
        return agent.as_tool(
            f"ask_{other}",
            needs_approval=self._rule("ask", number, other),
            failure_error_function=agent_failed,
            max_turns=2 if self.has("limits") else 5,
        )

    def _handoff(self, number: int, other: int, agent: Agent[Any]) -> Tool:
        return handoff(
            agent,
            tool_name_override=f"transfer_to_{other}",
            on_handoff=taken(self, number, other) if self.one_in(2, "on_handoff", number, other) else None,
            input_filter=self.chance("filter", number, other).choice(FILTERS) if self.has("filters") else None,
            needs_approval=self._rule("transfer", number, other),
        )

    # -- how it is run -------------------------------------------------------------------------------

    def config(self) -> RunConfig:
        guarded = self.has("guards") and self.one_in(2, "config")
        return RunConfig(
            clock=FakeClock(),
            release="batch" if self.has("batch") else "each",
            input_guardrails=[SLOW_GUARD] if guarded else [],
            output_guardrails=[OUTPUT_GUARD] if guarded else [],
            pre_approval_tool_input_guardrails=self.has("early"),
            max_parallel_tools=self.chance("parallel").choice([None, None, 1, 2]),
            cancel_grace=0,
        )

    @property
    def max_turns(self) -> int:
        return 2 if self.has("limits") and self.one_in(3, "limit") else 7

    def session(self, name: str) -> Memory | None:
        return Memory(self.outsides[name], self.before) if self.has("session") else None


# -- models ------------------------------------------------------------------------------------------


class Mind:
    """A model whose reply is a function of what it is asked."""

    name = "mind"

    def __init__(self, world: World, outside: Outside, agent: int) -> None:
        self.world = world
        self.outside = outside
        self.agent = agent

    async def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        assert request.instructions == str(self.agent), "an agent's model is asked with that agent's instructions"
        items = list(request.input)
        self.outside.requests.append((self.agent, items))
        heard = json.dumps(items, sort_keys=True)
        chance = self.world.chance("mind", self.agent, heard)
        depth = depth_of(items)
        await breathe(chance)
        tired = depth == 0 and self.world.has("failing") and self.world.one_in(6, "tired", heard)
        if tired and heard not in self.outside.failed:
            self.outside.failed.add(heard)
            raise ModelFailed("The model is tired.")
        output = self._reply(chance, [tool.name for tool in request.tools], items, depth)
        yield {"type": "delta", "delta": "..."}
        await breathe(chance)
        usage = Usage(1, len(items), len(output), chance.randrange(2))
        self.outside.used.add(usage)
        yield ModelResponse(output, usage, f"resp_{chance.getrandbits(32)}")

    def _reply(self, chance: Random, tools: list[str], items: list[Item], depth: int) -> list[Item]:
        """Calls, the fewer the longer the talk; or a text."""
        out: list[Item] = []
        if chance.randrange(3) == 0:
            out.append({"type": "reasoning", "id": f"r_{chance.getrandbits(32)}", "summary": []})
        mark = chance.getrandbits(24)
        callable = [name for name in tools if depth < 3 or not name.startswith("ask")]
        rounds = sum(item.get("type") == "function_call_output" for item in items)
        if chance.randrange(10) >= 9 - 2 * rounds:
            return [*out, message(f"so {mark}" + (" evil" if self.world.has("trips") and mark % 9 == 0 else ""))]
        if chance.randrange(3) == 0:
            out.append(message(f"let me see {mark}"))
        leading = [name for name in callable if name.startswith(("ask", "transfer"))]
        for number in range(chance.choice([1, 1, 2, 2, 3])):
            name = chance.choice(leading if leading and chance.randrange(3) == 0 else callable)
            out.append(self._call(chance, name, depth, f"call_{mark}_{number}"))
        return out

    def _call(self, chance: Random, name: str, depth: int, id: str) -> Item:
        n = chance.randrange(100)
        if name.startswith("ask"):
            arguments = json.dumps({"input": self.world.task(depth + 1, n)})
        elif name.startswith("transfer"):
            arguments = chance.choice(["{}", ""])
        else:
            arguments = json.dumps({"n": n, "who": self.agent} | ({"note": "hi"} if n % 3 == 0 else {}))
        if self.world.has("bad_calls") and chance.randrange(5) == 0:
            name = chance.choice([name, name, name, "nothing"])
            arguments = chance.choice(["{", "[]", "{}", '{"n": NaN, "who": 0}', '{"n": 1, "n": 2}', '{"n": "x"}', ""])
        if self.world.has("twins"):
            id = chance.choice([id, "p1", "p1", "p2"])
        return {"type": "function_call", "name": name, "arguments": arguments, "call_id": id, "id": f"fc_{id}"}


async def breathe(chance: Random) -> None:
    """Let others go first, or not."""
    for _ in range(chance.randrange(4)):
        await asyncio.sleep(0)


def depth_of(items: list[Item]) -> int:
    """How deep an agent is, which it is told with its task."""
    texts = (str(item.get("content")) for item in items)
    return next(int(text.split()[1]) for text in texts if text.startswith("task"))


def message(text: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def output_of(call: Item, text: str) -> Item:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": text}


# -- tools -------------------------------------------------------------------------------------------


class ToolPlan(NamedTuple):
    """What a tool is like."""

    agent: int
    name: str
    rule: str
    body: str
    guards: tuple[str, ...]
    trips: bool
    previews: bool = False


async def effect_of(ctx: Any, args: dict[str, Any]) -> Preview:
    """A preview that relies on the arguments alone, so that nothing it relies on moves."""
    await breathe(Random(f"{args}"))
    return Preview(f"It would do {args['n']}.", preconditions={"n": args["n"]})


@functools.cache
def tool_of(plan: ToolPlan) -> Tool:
    """The tool of a plan. It knows its agent, so that it notices when it is entered for another's call."""

    async def body(ctx: ToolContext[Any], n: int, who: int, note: str = "-") -> str:
        assert ctx.agent.instructions == str(plan.agent)
        return await BODIES[plan.body](plan, Entry(ctx, plan.agent, plan.name, {"n": n, "who": who, "note": note}))

    raises: Any = {"failure_error_function": None} if plan.body == "raising" else {}
    before = tripping_before if plan.trips else look_before
    after = tripping_after if plan.trips else look_after
    return function_tool(
        name_override=plan.name,
        needs_approval={"free": False, "gated": True, "rule": large}[plan.rule],
        preview=effect_of if plan.previews else None,
        tool_input_guardrails=[ToolInputGuardrail(before)] if "input" in plan.guards else [],
        tool_output_guardrails=[ToolOutputGuardrail(after)] if "output" in plan.guards else [],
        **raises,
    )(body)


class Entry:
    """A body that was entered, and what it does outside."""

    def __init__(self, ctx: ToolContext[Any], agent: int, tool: str, args: dict[str, Any]) -> None:
        body: Any = ctx._asking
        call = body._identity()
        self.ctx = ctx
        self.made = agent, tool, args
        self.outside = outside_of(ctx)
        self.journal = body.journal
        self.place = tuple(call["path"]), call["call"]
        self.chance = Random(f"{args} {self.place}")
        self.outside.entries[self.place] += 1

    async def does(self, step: str, output: str) -> str:
        """Something outside that must happen once."""
        await breathe(self.chance)
        made = Effect(len(self.journal.facts), *self.place, step, *self.made, self.ctx.idempotency_key, output)
        self.outside.effects.append(made)
        await breathe(self.chance)
        return output


def outside_of(ctx: Any) -> Outside:
    """The outside of a run, by the run's context."""
    seed, features, name = ctx.context["world"]
    return WORLDS[seed, frozenset(features)].outsides[name]


WORLDS: dict[tuple[int, frozenset[str]], World] = {}
"""The worlds there are now: a context is plain data, and names its own."""


async def plain(plan: ToolPlan, entry: Entry) -> str:
    args = entry.made[2]
    return await entry.does("body", f"{plan.name} by {plan.agent}: {args['n']} {args['note']}")


async def asking(plan: ToolPlan, entry: Entry) -> str:
    n = entry.made[2]["n"]
    first = await entry.ctx.step("first", functools.partial(entry.does, "first", f"first {n}"))
    many = await entry.ctx.ask(f"How many of {n}?", schema=int)
    sure = await entry.ctx.ask({"sure": many}, schema=bool) if many % 2 else None
    return await entry.ctx.step("last", functools.partial(entry.does, "last", f"{first}, {many}, {sure}"))


async def failing(plan: ToolPlan, entry: Entry) -> str:
    await breathe(entry.chance)
    raise Boom(f"no {entry.made[2]['n']}")


BODIES: dict[str, Any] = {"plain": plain, "asking": asking, "failing": failing, "raising": failing}


def taken(world: World, number: int, other: int) -> Any:
    """What is done as a handoff is taken."""

    async def on_handoff(ctx: Any) -> None:
        await Entry(ctx, number, f"transfer_to_{other}", {}).does("body", "")

    return on_handoff


def agent_failed(ctx: Any, error: Exception) -> str:
    return "the agent failed"


FILTERS: list[Any] = [
    None,
    lambda data: data,
    lambda data: data.clone(pre_handoff_items=()),
    lambda data: data.clone(pre_handoff_items=(), new_items=()),
    lambda data: data.clone(new_items=data.new_items[:1]),
]


# -- rules and guardrails ------------------------------------------------------------------------------


async def large(ctx: Any, params: dict[str, Any], call_id: str) -> Any:
    """A rule that asks for some, fails for some and says nothing clear of some."""
    await asyncio.sleep(0)
    if params["n"] % 5 == 4:
        raise Boom("which?")
    return {0: True, 1: False, 2: False, 3: "maybe"}[params["n"] % 5]


def risky_output(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
    return len(str(params["output"])) % 2 == 0


def look_before(data: Any) -> ToolGuardrailFunctionOutput:
    n = json.loads(data.context.arguments).get("n", 0)
    return ToolGuardrailFunctionOutput.reject_content(f"not {n}") if n % 7 == 0 else ToolGuardrailFunctionOutput.allow()


async def tripping_before(data: Any) -> ToolGuardrailFunctionOutput:
    await asyncio.sleep(0)
    n = json.loads(data.context.arguments).get("n", 0)
    return ToolGuardrailFunctionOutput.raise_exception(n) if n % 6 == 1 else look_before(data)


async def look_after(data: Any) -> ToolGuardrailFunctionOutput:
    await asyncio.sleep(0)
    told = guarded_output(data.output)
    allowed = ToolGuardrailFunctionOutput.allow
    return allowed() if told == data.output else ToolGuardrailFunctionOutput.reject_content(told)


async def tripping_after(data: Any) -> ToolGuardrailFunctionOutput:
    tripped = output_trips(data.output)
    return ToolGuardrailFunctionOutput.raise_exception() if tripped else await look_after(data)


def guarded_output(output: str) -> str:
    """What the model is told where a tool's guardrail has looked at its output."""
    return "withheld" if len(output) % 4 == 0 else output


def output_trips(output: str) -> bool:
    return sum(output.encode()) % 7 == 0


async def look_at_input(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
    await asyncio.sleep(0)
    return GuardrailFunctionOutput(None, "evil" in str(input))


async def look_slowly(ctx: Any, agent: Any, input: Any) -> GuardrailFunctionOutput:
    for _ in range(5):
        await asyncio.sleep(0)
    return GuardrailFunctionOutput({"slow": True}, "evil" in str(input))


def look_at_output(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(len(str(output)), "evil" in str(output))


SLOW_GUARD = InputGuardrail(look_slowly, "slow")
INPUT_GUARDS = [
    [],
    [InputGuardrail(look_at_input)],
    [InputGuardrail(look_at_input, run_in_parallel=False), SLOW_GUARD],
    [InputGuardrail(look_at_input), InputGuardrail(look_slowly, "look_at_input")],
]
OUTPUT_GUARD = OutputGuardrail(look_at_output)
