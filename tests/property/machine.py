"""The core under random fire: a driver, people, and a hostile client write one journal together.

The driver pays what is owed, in any order and with any outcome; people decide what is asked, in time or late; the
client throws any fact with any ids at any time. After every fact the run is held against a naive account of the same
journal (`ledger`), and against what must be true of every run.
"""

from __future__ import annotations

from random import Random
from typing import Any, get_args

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from msgspec import Raw
from msgspec.structs import replace

from assentry.core import facts as f
from assentry.core.run import CallState, owed, questions, status
from tests.core.support import FACTS, KINDS, Path, asked, finished, js, said, snapshot
from tests.property.law import FITS, fits, in_body, voidable
from tests.property.ledger import Line
from tests.property.truth import Journalled, refuses

DEPTH = 2
ARGS = [f.NOTHING, Raw(b"{}"), Raw(b'{"x":1}'), Raw(b'""'), Raw(b"null"), Raw(b"[]")]
TEXTS = ["", "ok", "é😀", "\x00"]
PROPOSED = ["{}", "", " ", '{"x":1}', '{"x":', "[]"]
GUARDS = [(), ("g1",), ("g1", "g2"), ("", "g1"), ("g1", "g1")]
UPDATES = [f.NOTHING, f.NOTHING, Raw(b"[]"), Raw(b'[{"x":1}]'), Raw(b'[{"messages":[["clear"]]},{"x":2}]')]
PROVIDER_IDS = ["p1", "p1", "p2", "", None]


def maybe(chance: Random, one_in: int) -> bool:
    return chance.randrange(one_in) == 0


# What a step does in detail is drawn from one number: hypothesis finds and shrinks the steps, and runs get long.
CAST = ["drive"] * 5 + ["decide"] * 4 + ["meddle"] * 3 + ["throw_anything"] * 3 + ["fork"]
seeds = st.integers(0, 2**32 - 1)


class Machine(Journalled):
    """Who writes the journal, and what must be true of it."""

    @initialize(seed=seeds)
    def begin(self, seed: int) -> None:
        chance = Random(seed)
        self.probe(chance)
        assert (self.run.id, status(self.run), owed(self.run)) == ("", "idle", [])
        self.put(self.beginning(chance, (), live=maybe(chance, 5)))
        if not maybe(chance, 8):
            self.put(said("hi", update=chance.choice(UPDATES)))
            if maybe(chance, 6) and not self.run.live:  # a fork that begins with calls to be judged anew
                self.put(replace(self.reply(chance, (), 1), note=f.COPIED_REPLY))

    # One rule for all: hypothesis leaves some rules out of each example, and a run without its driver gets nowhere.
    @rule(who=st.sampled_from(CAST), seed=seeds)
    def act(self, who: str, seed: int) -> None:
        getattr(self, who)(Random(seed + len(self.journal)))
        self.probe(Random(seed))

    def beginning(self, chance: Random, path: Path, live: bool) -> f.Began:
        return f.Began(
            "agent",
            chance.choice([1, 2, 4, 12, 12, 12]),
            "" if path else "r1",
            release=chance.choice(["each", "batch"]),
            guards=chance.choice([(), *GUARDS]),
            live=live,
            forked=None if path else chance.choice([None, None, "", "r0@3"]),
            at=self.tick(),
            path=path,
        )

    # -- the driver ------------------------------------------------------------------------------

    def drive(self, chance: Random) -> None:
        for _ in range(chance.randint(1, 12)):
            due = owed(self.run)
            if due:
                kind = chance.choice(list(dict.fromkeys(map(type, due))))
                if kind is not f.Guard or maybe(chance, 3):  # guardrails are slow, and the rest goes on meanwhile
                    self.pay(chance, chance.choice([effect for effect in due if type(effect) is kind]))
        if not due and self.living():
            self.wake(chance)

    def wake(self, chance: Random) -> None:
        """Give a run that has come to rest something to do."""
        if self.run.cancelled is not None:
            if maybe(chance, 3):
                self.put(f.Resumed("ana"))
        elif status(self.run) == "waiting":
            self.decide(chance)
        elif self.run.live:
            chance.choice([self.speak, self.speak, self.switch])(chance)
        elif status(self.run) == "exhausted":
            self.put(f.Limited(self.run.turns + chance.randint(1, 4)))
        else:
            self.steer(chance)

    def pay(self, chance: Random, effect: Any) -> None:
        self.effects[type(effect).__name__] += 1
        getattr(self, "_" + type(effect).__name__.lower())(chance, effect)

    def _askmodel(self, chance: Random, effect: f.AskModel) -> None:
        if maybe(chance, 4):
            tools = chance.choice([{}, {"t": "mark"}])
            redact = chance.choice([None, {}, {"t": ("key",)}])
            ends = not maybe(chance, 3)
            self.put(f.Defined("agent", "digest", tools, finishing=ends, redact=redact, path=effect.path))
        if maybe(chance, 5):
            self.put(said("wait", path=effect.path))
        self.put(self.reply(chance, effect.path, effect.saw))

    def reply(self, chance: Random, path: Path, saw: int) -> f.Replied:
        """A reply with up to four calls of all kinds; a provider may repeat its ids, or leave them out."""
        kinds = ["tool", "tool", "handoff", "handoff", "hosted", *(["agent"] if len(path) < DEPTH else [])]
        number, items, calls = len(self.run.at(path).calls), [], []
        for _ in range(chance.randint(0, 4)):
            if maybe(chance, 4):
                items.append({"type": "message", "role": "assistant", "content": chance.choice(TEXTS)})
            number += 1
            kind = chance.choice(kinds)
            item = {"type": "function_call", "name": "t", "arguments": chance.choice(PROPOSED), "ours": f"c{number}"}
            provider = chance.choice(PROVIDER_IDS)
            calls.append(f.Call(f"c{number}", "t", len(items), kind))
            if kind == "hosted":
                items.append(item | {"type": "mcp_approval_request", "id": f"r{number}", "server_label": "s"})
            else:
                items.append(item if provider is None else item | {"call_id": provider})
        usage = chance.choice([(), (1,), (1, 10, 5), (1, 10, 5, 3, 2)])
        unsaid = saw == self.run.at(path).said and maybe(chance, 2)
        return f.Replied(
            js(items),
            None if unsaid else saw,
            tuple(calls),
            usage,
            update=chance.choice(UPDATES),
            at=self.tick(),
            path=path,
        )

    def _guard(self, chance: Random, effect: f.Guard) -> None:
        self.put(f.Guarded("input", effect.name, tripped=maybe(chance, 8), path=effect.path))

    def _judge(self, chance: Random, effect: f.Judge) -> None:
        path, call = effect.path, effect.call or ""
        if self.state(path, call).phase.name == "READY":  # another handoff was taken
            options = [f.Refused(call, "runtime", path=path)] * 4 + [self.question(chance, path, call, "approval")]
        else:
            options = [
                f.Approved(call, "rule", args=chance.choice(ARGS), at=self.tick(), path=path),
                f.Approved(call, "rule", fills=chance.choice(ARGS), at=self.tick(), path=path),
                f.Approved(call, "code", digest="d", preview=chance.choice(ARGS), at=self.tick(), path=path),
                f.Refused(call, "rule", at=self.tick(), path=path),
                self.question(chance, path, call, "approval"),
                self.question(chance, path, call, "approval"),
                f.Guarded("tool_input", "g", call=call, path=path),
                *(self.refusal_by_grant(chance, path, call, grant) for grant in list(self.run.grants)[-1:]),
                *(self.by_grant(chance, path, call, grant) for grant in [*self.run.grants, *self.run.revoked][-3:]),
            ]
        fact = chance.choice(options)
        if "grant:" in getattr(fact, "by", ""):
            self.offer(fact)  # which may be used up
        else:
            self.put(fact)

    def by_grant(self, chance: Random, path: Path, call: str, grant: str) -> f.Approved:
        return f.Approved(call, f"grant:{grant}", at=self.tick(), path=path)

    def refusal_by_grant(self, chance: Random, path: Path, call: str, grant: str) -> f.Refused:
        """With the grant's words, or its own; or by somebody who only bears a grant's name."""
        by = chance.choice(["grant:", "guard:"])
        return f.Refused(call, by + grant, None, chance.choice([None, None, "", "so"]), path=path)

    def question(self, chance: Random, path: Path, call: str, kind: f.QuestionKind, **more: Any) -> f.Asked:
        allowed = None
        if maybe(chance, 4):
            possible = sorted(fits(self.ledger.places[path].lines[call], kind))
            allowed = tuple(chance.sample(possible, chance.randint(1, len(possible))))
        until = None if maybe(chance, 2) else self.now + chance.randint(-1, 12)
        args = chance.choice(ARGS) if kind == "approval" else f.NOTHING
        fills = chance.choice(ARGS) if kind == "approval" else f.NOTHING
        preview = chance.choice(ARGS) if kind == "approval" else f.NOTHING
        more |= {"allowed": allowed, "until": until, "args": args, "fills": fills, "path": path, "at": self.tick()}
        return asked(call, self.new_id("q"), kind, preview=preview, **more)

    def _execute(self, chance: Random, effect: f.Execute) -> None:
        path, call = effect.path, effect.call or ""
        state = self.state(path, call)
        if maybe(chance, 8):
            self.put(f.Guarded("tool_input", "g", call=call, path=path))
        if maybe(chance, 12):
            return self.put(f.Refused(call, "guardrail", path=path))
        if state.call.kind == "agent":
            return self.delegate(chance, (*path, call))
        self.put(f.Started(call, state.attempt + 1, chance.choice([0, 1, 2]), at=self.tick(), path=path))
        if not maybe(chance, 3):  # else the process dies here
            self._settle(chance, effect)
        return None

    def delegate(self, chance: Random, path: Path) -> None:
        self.put(self.beginning(chance, path, live=False))
        if not maybe(chance, 8):
            self.put(said("do this", path=path))

    def _settle(self, chance: Random, effect: f.Settle | f.Execute) -> None:
        path, call = effect.path, effect.call or ""
        state = self.state(path, call)
        options: list[Any] = [
            finished(call, chance.choice(TEXTS), path=path),
            finished(call, {"n": 1}, update=chance.choice(UPDATES), more=chance.choice(ARGS), path=path),
            finished(call, None, error="ValueError", path=path),
            self.question(chance, path, call, "doubt"),
            self.question(chance, path, call, "input"),
            *[self.question(chance, path, call, "input", voids=old.id) for old, _ in state.answers[-1:]],
            f.Stepped(call, chance.choice(["a", "b", ""]), js(1), path=path),
            f.Left(call, state.attempt, chance.choice(["runtime", "probe", "tool"]), state.fence, path=path),
            f.Guarded("tool_output", "g", call=call, path=path),
            f.Witnessed(call, state.attempt, js("late"), path=path),
        ]
        retry = f.Started(call, state.attempt + 1, path=path)
        if not refuses(self.run, retry):
            options.append(retry)
        if state.call.kind == "handoff":
            history = chance.choice([f.NOTHING, js([]), js([{"role": "user", "content": "in short"}])])
            name = chance.choice(["", "Other"])
            options = [*options, *[f.HandedOff(call, "other", history, name, path=path)] * 6]
        self.put(chance.choice(options))

    def _tell(self, chance: Random, effect: f.Tell) -> None:
        self.put(f.Told(effect.call or "", chance.choice([None, *TEXTS]), path=effect.path))

    def _conclude(self, chance: Random, effect: f.Conclude) -> None:
        path, call = effect.path, effect.call
        place = self.run.at(path)
        options: list[Any] = [f.Concluded(call=call, path=path), f.Concluded(js("out"), call=call, path=path)]
        if call is None:
            id = f"c{len(place.calls) + 1}"
            output = f.Proposed(f.Call(id, "output", 0, "output"), chance.choice(ARGS[1:]), path=path)
            options += [output, output]
            if place.answering:
                options += [f.Continued(path=path)] * 2
        elif maybe(chance, 6):
            options = [f.Refused(call, "guardrail", path=path)]
        self.put(chance.choice(options))

    def _return(self, chance: Random, effect: f.Return) -> None:
        self.put(finished(effect.call or "", "from the branch", path=effect.path))

    # -- people ----------------------------------------------------------------------------------

    def decide(self, chance: Random) -> None:
        for _ in range(chance.randint(1, 4)):
            open = list(questions(self.run))
            if open:
                self.answer_one(chance, *chance.choice(open))

    def answer_one(self, chance: Random, path: Path, state: CallState) -> None:
        """A person answers an open question: accepted if it is in time and allowed, and else not."""
        question = state.question
        verdict = chance.choice(sorted(FITS[question.kind]))
        fact = self.answer(chance, path, state, verdict)
        late = question.until is not None and fact.at > question.until
        counts = verdict == "reject" if late else verdict in state.allowed()
        assert self.offer(fact) == counts
        if counts:
            assert not self.offer(fact), "a decision counts once"
            assert self.run.decided[question.id] is fact
            if state.attempt and maybe(chance, 3):  # the body that was thought lost comes back
                self.put(f.Witnessed(state.call.id, state.attempt, js("late"), path=path))

    def answer(self, chance: Random, path: Path, state: CallState, verdict: str) -> Any:
        question, call, where = state.question, state.call.id, {"at": self.tick(), "path": path}
        assert question is not None
        id = question.id
        if verdict == "approve":
            return f.Approved(call, "ana", id, digest=chance.choice([None, "d"]), **where)
        if verdict == "edit":
            tool = chance.choice([None, None, "u"])
            args = chance.choice(ARGS[1:] if tool is None else ARGS)
            return f.Approved(call, "ana", id, args, tool, "digest of the edit", **where)
        if verdict == "reject":
            return f.Refused(call, "ana", id, chance.choice([None, "", "no"]), **where)
        if question.kind == "input":
            return f.Answered(call, "ana", id, chance.choice(ARGS[1:]), **where)
        return f.Finished(call, chance.choice(ARGS[1:]), "ana", id, **where)

    # -- whoever else has a say -------------------------------------------------------------------

    def meddle(self, chance: Random) -> None:
        deeds = [
            self.ask_anew,
            self.ask_otherwise,
            self.make_void,
            self.accept_change,
            self.steer,
            self.steer,
            self.propose_hook,
        ]
        deeds += [self.set_up, self.set_up, self.cancel, self.cancel, self.close, self.speak, self.speak, self.switch]
        deeds += [self.propose_output, self.look_again, *[self.testify] * 4]
        for _ in range(chance.randint(1, 3)):
            if self.living():
                chance.choice(deeds)(chance)

    def ask_anew(self, chance: Random) -> None:
        """What was asked about has changed."""
        if self.calls("ASKED"):
            path, state = chance.choice(self.calls("ASKED"))
            old = state.question
            self.put(self.question(chance, path, state.call.id, old.kind, replaces=old.id))
            assert not self.offer(f.Refused(state.call.id, "ana", old.id, at=self.tick(), path=path)), "it is not open"
        elif passed := [(path, state) for path, state in self.calls("READY") if state.passed is not None]:
            path, state = chance.choice(passed)
            self.put(self.question(chance, path, state.call.id, "approval", replaces=state.passed))

    def ask_otherwise(self, chance: Random) -> None:
        """Code that asks, entered again, asks something else than was answered."""
        lines = [(path, line) for path in self.living() for line in self.ledger.places[path].open()]
        asks = [(path, line, "input" if in_body(line) else "approval") for path, line in lines]
        asks = [each for each in asks if voidable(self.ledger.places[each[0]], *each[1:])]
        if asks:
            path, line, kind = chance.choice(asks)
            void = chance.choice(voidable(self.ledger.places[path], line, kind))
            self.put(self.question(chance, path, line.call.id, kind, voids=void))

    def make_void(self, chance: Random) -> None:
        """What was approved has changed."""
        if self.calls("READY"):
            path, state = chance.choice(self.calls("READY"))
            self.put(self.question(chance, path, state.call.id, "approval"))

    def accept_change(self, chance: Random) -> None:
        if self.calls("NEW", "ASKED", "READY"):
            path, state = chance.choice(self.calls("NEW", "ASKED", "READY"))
            self.put(f.Redefined(state.call.id, "fp2", "ana", path=path))

    def steer(self, chance: Random, path: Path | None = None) -> None:
        path = chance.choice([(), *self.living()]) if path is None else path
        self.put(said(chance.choice(TEXTS), path=path, at=self.tick()))
        if self.ledger.may_await(path) and maybe(chance, 2):
            self.put(f.Awaited(chance.choice(GUARDS), path=path))

    def look_again(self, chance: Random) -> None:
        """Something is said to the run while a branch of it is about to go on."""
        if any(path for path, _ in self.calls("READY")) and not self.ledger.places[()].awaited:
            self.put(said("wait"))
            self.put(f.Awaited(("g1",)))
            for path, state in self.calls("READY"):
                self.judged(f.Started(state.call.id, state.attempt + 1, path=path))

    def propose_hook(self, chance: Random, path: Path | None = None) -> None:
        path = chance.choice(self.living()) if path is None else path
        id = f"c{len(self.run.at(path).calls) + 1}"
        place = self.ledger.places[path]
        saw = chance.choice([None, *range(place.heard, place.said + 1)])
        self.put(f.Proposed(f.Call(id, "hook", 0, "hook"), chance.choice(ARGS[1:]), saw, path=path))

    def propose_output(self, chance: Random) -> None:
        """The reply is to be the output, whatever guardrails and hooks are still to say."""
        paths = [path for path in self.living() if self.ends(path)]
        if paths:
            path = chance.choice(paths)
            id = f"c{len(self.run.at(path).calls) + 1}"
            self.put(f.Proposed(f.Call(id, "output", 0, "output"), chance.choice(ARGS[1:]), path=path))
            if maybe(chance, 2):
                self.put(f.Approved(id, "rule", path=path))
            chance.choice([self.propose_hook, self.steer])(chance, path)

    def ends(self, path: Path) -> bool:
        place = self.ledger.places[path]
        return place.concluding and not place.open() and place.said == place.heard and not place.live

    def set_up(self, chance: Random) -> None:
        """What may be said of any run at any time."""
        path = chance.choice(self.living())
        options = [
            f.Limited(chance.randint(1, 12), path=path),
            f.Limited(chance.randint(6, 30), path=path),
            f.Defined("agent", finishing=maybe(chance, 2), path=path),
            f.Saved(len(self.run.at(path).entries), path=path),
            f.Guarded("output", "g", path=path),
            f.Granted(self.new_id("g"), "agent", "t", "approve", "ana"),
            f.Granted(self.new_id("g"), "agent", "t", "approve", "ana", **self.terms(chance)),
            f.Granted(self.new_id("g"), "agent", "t", "approve", "ana", **self.terms(chance)),
            f.Granted(self.new_id("g"), "agent", "t", chance.choice(["approve", "reject"]), "ana", None, "no"),
            *(f.Revoked(grant, "ana") for grant in self.run.grants),
        ]
        self.put(chance.choice(options))

    def terms(self, chance: Random) -> dict[str, Any]:
        until = chance.choice([None, None, self.now + chance.randint(-1, 20)])
        return {"max_uses": chance.choice([None, 1, 1, 2]), "until": until, "pins": chance.choice(ARGS[:3])}

    def cancel(self, chance: Random) -> None:
        if self.run.cancelled is None and maybe(chance, 2):
            self.put(f.Cancelled("ana"))

    def close(self, chance: Random) -> None:
        branches = [path for path in self.living() if path]
        if branches and not maybe(chance, 3):
            self.put(f.Closed("gave up", path=chance.choice(branches)))
        elif maybe(chance, 12):
            self.put(f.Closed("over"))

    def speak(self, chance: Random) -> None:
        """In a live run the model speaks unasked."""
        live = [path for path in self.living() if self.run.at(path).live]
        if live:
            path = chance.choice(live)
            run = self.run.at(path)
            reply = self.reply(chance, path, chance.choice([run.said, run.said - len(run.unheard)]))
            done = [id for id, state in run.calls.items() if state.outcome is not None][-2:]
            self.put(replace(reply, missed=tuple(chance.sample(done, chance.randint(0, len(done))))))

    def switch(self, chance: Random) -> None:
        """A conversation goes on live, or as text."""
        outputs = any(state.call.kind == "output" for state in self.run.open.values())
        if self.run.closed is None and not (outputs and not self.run.live):
            self.put(f.Switched(not self.run.live))

    def testify(self, chance: Random) -> None:
        """A late result, of any attempt there was, anywhere: evidence is always welcome."""
        tried: dict[str, list[tuple[Path, Line]]] = {}
        for path, place in self.ledger.places.items():
            for line in place.lines.values():
                if line.starts:
                    tried.setdefault(self.state(path, line.call.id).phase.name, []).append((path, line))
        if tried:
            path, line = chance.choice(chance.choice(list(tried.values())))
            self.put(f.Witnessed(line.call.id, chance.choice(line.starts), js("late"), path=path))

    # -- a hostile client ------------------------------------------------------------------------

    def throw_anything(self, chance: Random) -> None:
        for _ in range(chance.randint(1, 4)):
            self.offer(self.anything(chance))

    def anything(self, chance: Random) -> Any:
        """Any fact, with ids that are right, stale, of another place, or of nothing at all."""
        places = list(self.ledger.places)
        path = chance.choice([*places, *places, ("nope",), ("",), (*places[-1], "c1")])
        known = list(self.run.at(path).calls) if path in places else []
        ids = [*known[-6:], *known[-6:], "c1", "", "nope"]
        return self.anything_about(chance, chance.choice(FACTS), path, chance.choice(ids))

    def anything_about(self, chance: Random, kind: type[f.Fact], path: Path, call: str) -> Any:
        where = {"at": chance.choice([chance.randint(0, self.now + 2), self.now + 20]), "path": path}
        return getattr(self, "_any_" + kind.__name__.lower(), self._any_other)(chance, kind, call, where)

    def probe(self, chance: Random) -> None:
        """One of each kind of fact about one call, rather one that is open: only asked about, and not added."""
        lines = [(path, line) for path, place in self.ledger.places.items() for line in place.lines.values()]
        lines += [(path, line) for path in self.living() for line in self.ledger.places[path].open() for _ in range(3)]
        path, call = (), "c1"
        if lines:
            path, line = chance.choice(lines)
            call = line.call.id
        for kind in FACTS:
            self.judged(self.anything_about(chance, kind, path, call))

    def asked_id(self, chance: Random, call: str, path: Path) -> str | None:
        state = self.run.at(path).calls.get(call) if path in self.ledger.places else None
        open = state.question.id if state and state.question else None
        return chance.choice([open, open, open, open, None, None, "", "nope", *list(self.run.asked)[-4:]])

    def _any_began(self, chance: Random, kind: Any, call: str, where: Any) -> Any:
        path = (*where["path"], call) if maybe(chance, 2) else where["path"]
        if len(path) > DEPTH + 1:
            path = ()
        return f.Began("eve", chance.randint(-1, 3), chance.choice(["", "r2"]), live=maybe(chance, 4), path=path)

    def _any_replied(self, chance: Random, kind: Any, call: str, where: Any) -> Any:
        ids = [chance.choice([call, "c1", "", "e1", "e2", *["e3"] * 3]) for _ in range(chance.randint(0, 2))]
        calls = [f.Call(id, "t", n, chance.choice(KINDS[:3])) for n, id in enumerate(ids)]
        items = [{"type": "function_call", "name": "t", "arguments": "", "ours": one.id} for one in calls]
        place = self.ledger.places.get(where["path"])
        saw = [None, -1, *range(5), *([place.said, place.heard, place.heard + 1] if place else [])]
        return f.Replied(js(items), chance.choice(saw), tuple(calls), **where)

    def _any_proposed(self, chance: Random, kind: Any, call: str, where: Any) -> Any:
        place = self.ledger.places.get(where["path"])
        saw = [None, None, *([place.heard - 1, place.heard, place.said, place.said + 1] if place else [])]
        return f.Proposed(
            f.Call(chance.choice([call, "e3", "e4", "e5", ""]), "t", 0, chance.choice([*KINDS, "output", "output"])),
            chance.choice(ARGS[1:]),
            chance.choice(saw),
            **where,
        )

    def _any_asked(self, chance: Random, kind: Any, call: str, where: Any) -> Any:
        allowed = chance.choice([None, None, None, (), ("approve",), ("edit", "reject"), ("respond",)])
        id = chance.choice(["", *[f"qe{self.now}"] * 4, *list(self.run.asked)[-2:]])
        replaces = self.asked_id(chance, call, where["path"])
        kind = chance.choice(get_args(f.QuestionKind))
        more = {"args": chance.choice(ARGS), "replaces": replaces, "until": self.now, **where}
        return asked(call, id, kind, allowed=allowed, voids=self.void_id(chance, call, where["path"]), **more)

    def void_id(self, chance: Random, call: str, path: Path) -> str | None:
        place = self.ledger.places.get(path)
        line = place.lines.get(call) if place else None
        mine = [question.id for question, _ in line.answers[-2:]] if line else []
        return chance.choice([*[None] * 8, "", *mine, *list(self.run.asked)[-4:]])

    def _any_guarded(self, chance: Random, kind: Any, call: str, where: Any) -> Any:
        at = chance.choice(["input", "output", "tool_input", "tool_output"])
        return f.Guarded(at, chance.choice(["g1", "g2", ""]), call=chance.choice([None, call]), **where)

    def _any_other(self, chance: Random, kind: Any, call: str, where: Any) -> Any:
        args, number = chance.choice(ARGS), chance.randint(-1, 4)
        place = self.ledger.places.get(where["path"])
        line = place.lines.get(call) if place else None
        attempt = len(line.starts) + chance.choice([0, 1, 1, 1, 2]) if line else number
        upto = chance.choice([place.saved - 1, place.saved, place.entries, place.entries + 1]) if place else number
        source = chance.choice([None, None, call, "nope"])
        grant = chance.choice(["", "ge", *list(self.run.grants)[-2:]])
        make: dict[type[f.Fact], Any] = {
            f.Said: lambda: f.Said(chance.choice([js(""), js([])]), **where),
            f.Awaited: lambda: f.Awaited(chance.choice(GUARDS), **where),
            f.Defined: lambda: f.Defined("eve", finishing=maybe(chance, 2), **where),
            f.Concluded: lambda: f.Concluded(
                args,
                source,
                chance.choice([None, call, call]),
                chance.choice([None, None, "max_turns", "invalid_final_output"]),
                place.said if place else number,
                **where,
            ),
            f.Continued: lambda: f.Continued(**where),
            f.Granted: lambda: f.Granted(grant, "agent", "t", "approve", "eve", **self.terms(chance), **where),
            f.Revoked: lambda: f.Revoked(grant, "eve", **where),
            f.Limited: lambda: f.Limited(number, **where),
            f.Cancelled: lambda: f.Cancelled("eve", **where),
            f.Resumed: lambda: f.Resumed("eve", **where),
            f.Switched: lambda: f.Switched(maybe(chance, 2), **where),
            f.Saved: lambda: f.Saved(upto, **where),
            f.Closed: lambda: f.Closed("eve", **where) if where["path"] or maybe(chance, 8) else f.Continued(**where),
            f.Told: lambda: f.Told(call, "", **where),
            f.Redefined: lambda: f.Redefined(call, "", "eve", **where),
            f.Started: lambda: f.Started(call, attempt, chance.choice([0, 1]), **where),
            f.Left: lambda: f.Left(call, attempt - chance.choice([0, 1, 1]), fence=chance.choice([0, 1, 2]), **where),
            f.Stepped: lambda: f.Stepped(call, "", args or js(0), **where),
            f.Witnessed: lambda: f.Witnessed(call, chance.choice([0, 1, attempt]), args or js(0), **where),
            f.HandedOff: lambda: f.HandedOff(call, "eve", chance.choice([f.NOTHING, js([])]), **where),
        }
        if kind in make:
            return make[kind]()
        question = self.asked_id(chance, call, where["path"])
        who = chance.choice(["eve", "eve", f"grant:{grant}", *(f"grant:{old}" for old in list(self.run.revoked)[-1:])])
        if kind is f.Approved:
            args = chance.choice([f.NOTHING, args])
            return f.Approved(call, who, question, args, chance.choice([None, None, "u"]), **where)
        if kind is f.Refused:
            return f.Refused(call, who, question, **where)
        if kind is f.Finished:
            return f.Finished(call, args or js(0), "eve", question, **where)
        assert kind is f.Answered, f"the client does not know {kind.__name__}"
        return f.Answered(call, "eve", question or "", args or js(0), **where)

    # -- copies ----------------------------------------------------------------------------------

    def fork(self, chance: Random) -> None:
        """Go on with the run or with its fork; what is left behind must stay as it is."""
        if len(self.forks) < 4:
            fork = self.run.fork()
            assert snapshot(fork) == self.snapshots[-1]
            kept, self.run = (self.run, fork) if maybe(chance, 2) else (fork, self.run)
            self.forks.append((kept, self.snapshots[-1], self.ledger.used(())))
