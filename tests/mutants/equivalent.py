"""Faults that are none: nothing can be seen of them, and this is why.

A name that no fault has any more is reported, so that the table does not outlive the code.
"""

from __future__ import annotations

SHORT_CUT = "a short cut: the longer way comes to the same"
NARROWING = "it says so to the type checker; the line before, or the phase, has made sure of it"
UNOFFERED = "what cannot run is not offered for approval, and an answer that was not offered is refused before"
CACHE = "a cache: what it holds would be made again, the same"

EQUIVALENT: dict[str, str] = {
    # the fold
    "fold.fold: 'not fact.path and root.closed is None' never": SHORT_CUT,
    "fold._approved: 'state.question is not None and state.question.kind == \"approval\"' without "
    "'state.question is not None'": NARROWING,
    "fold._approved: 'fact.asked is None or state.question is None or state.question.kind != \"doubt\"' without "
    "'fact.asked is None'": "a verdict on no question comes when a call is new, and then it has had none",
    "fold._approved: 'fact.asked is None or state.question is None or state.question.kind != \"doubt\"' without "
    "'state.question is None'": NARROWING,
    "fold._answered: 'question is None or question.kind != \"input\"' without 'question is None'": NARROWING,
    "fold._started: 'fact.path or run.guards or run.batch or root.cancelled is not None or kind == \"handoff\"' "
    "always": SHORT_CUT,
    "fold._finished: 'state.question is not None and state.question.kind == \"input\"' without "
    "'state.question is not None'": NARROWING,
    "fold._handed_off: 'state.call.kind != \"handoff\" or state.turn.handed' without 'state.turn.handed'": (
        "a handoff is started only while the others wait, and none is started after one was taken"
    ),
    "fold._began: 'fact.guards' always": SHORT_CUT,
    "fold._replied: 'calls' always": SHORT_CUT,
    "fold._replied: 'news > 0' always": SHORT_CUT,
    "fold._replied: 'news > 0' with '>=' for '>'": SHORT_CUT,
    "fold._fresh: 'len(calls) > 1 and len({call.id for call in calls}) < len(calls)' without 'len(calls) > 1'": (
        SHORT_CUT
    ),
    "fold._fresh: 'len(calls) > 1' with '>=' for '>'": SHORT_CUT,
    "fold._switched: 'fact.live and any(state.call.kind == \"output\" for state in run.open.values())' without "
    "'fact.live'": "a live run proposes no output, and does not become live with one that is open",
    # the run
    "run.CallState.proposal: 'self.read is None' always": CACHE,
    "run.CallState.allowed: 'question is None or self.phase is not ASKED' without 'question is None'": NARROWING,
    "run.Turn.items: 'self.parts is None' always": CACHE,
    "run.Run.usage: 'not self.branches' never": SHORT_CUT,
    "run._owed_calls: 'len(out) == before and ended(child)' without 'len(out) == before'": (
        "a branch that is over owes nothing"
    ),
    "run.Run.children: '(child := self.calls[call].child) is not None' always": NARROWING,
    "run.held: 's.phase is ASKED and s.question is not None and s.question.kind == \"approval\"' without "
    "'s.question is not None'": NARROWING,
    "run._owed: 'run.began is None or run.closed is not None' without 'run.began is None'": SHORT_CUT,
    "run._owed: 'run.guards' always": SHORT_CUT,
    "run._owed_calls: 'len(run.open) > 1 and held(run)' without 'len(run.open) > 1'": SHORT_CUT,
    "run._owed_calls: 'len(run.open) > 1' with '>=' for '>'": SHORT_CUT,
    "run._owed_ready: 's.call.kind == \"handoff\" and s.phase is READY' always": (
        "while anything but ready handoffs is open, none of them may go anyway"
    ),
    "run._owed_ready: 's.call.kind == \"handoff\" and s.phase is READY' without 's.call.kind == \"handoff\"'": (
        "while anything but ready handoffs is open, none of them may go anyway"
    ),
    "run._owed_ready: 's.call.kind == \"handoff\" and s.phase is READY' without 's.phase is READY'": (
        "while anything but ready handoffs is open, none of them may go anyway"
    ),
    "run.deadline: 's.question and s.question.until is not None' without 's.question'": NARROWING,
    "run.overdue: 'len(run.asked) == len(run.decided)' never": SHORT_CUT,
    "run.overdue: 'state.question is not None and state.question.until is not None and at > state.question.until' "
    "without 'state.question is not None'": NARROWING,
    # the gate
    'gate.read_arguments: \'len(given) * 4 > limit and (size := len(given.encode("utf-8", "replace"))) > limit\' '
    "without 'len(given) * 4 > limit'": SHORT_CUT,
    "gate.read_arguments: 'len(given) * 4 > limit' with '>=' for '>'": SHORT_CUT,
    "gate.read_arguments: 'not given.strip() and not tool.required' without 'not tool.required'": (
        "blank arguments that may not be blank do not fit either way; only the words differ"
    ),
    "gate.judge: 'tool is None or args is None' without 'tool is None'": NARROWING,
    "gate.judge: 'tool is None or args is None' without 'args is None'": NARROWING,
    "gate._ask: 'args.value is not None and args.problem is None and not case.replaces' without "
    "'args.value is not None'": NARROWING,
    "gate._let_code_decide: 'case.root.began' always": NARROWING,
    # the door
    "door._tell_start: 'scope.hooks.wants(agent)' always": SHORT_CUT,
    "door.enter: 'hooked is not None' always": SHORT_CUT,
    "door._arguments: 'read is not None and read.value is not None' never": CACHE,
    "door._arguments: 'read is not None and read.value is not None' without 'read.value is not None'": (
        "what cannot be read is not approved as it is, and what was edited was not read by the gate"
    ),
    "door._run_body: 'tool.tool_output_guardrails' always": SHORT_CUT,
    "door.run_instead: 'tool.tool_input_guardrails' always": SHORT_CUT,
    "door.run_instead: 'tool.tool_output_guardrails' always": SHORT_CUT,
    "door._judge_instead: 'read.value or {}' without '{}'": NARROWING,
    "door._judge_instead: 'read.value or {}' without '{}' (2)": NARROWING,
    "door._judge_instead: 'read.value or {}' without '{}' (3)": NARROWING,
    "door._judge_instead: 'type(decision) is not Approve or read.problem is not None' without "
    "'read.problem is not None'": (UNOFFERED),
    "door._judge_instead: 'type(decision) is Reject' always": UNOFFERED,
}
