"""Calls of programs outside: the request, the tool as the gate judges it, and the first facts of its run.

A program that Assentry does not drive puts one call before the gate. Its run has that call alone. No I/O: storing the
facts, and hearing what became of the call, belong to the store.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any

from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core import allowed
from ..core import facts as f
from ..core.digest import BadJSON, canonical, digest, plain
from ..core.fold import fold
from ..core.opening import first_facts
from ..core.run import Run
from ..core.wording import clean_text, described, holds, worded
from ..definitions.agent import Agent
from ..definitions.context import RunContextWrapper
from ..definitions.deadline import Deadline
from ..definitions.preview import AnyBlock, Preview, Sentence, preview_json
from ..definitions.tool import Tool
from ..errors import InvalidArguments, InvalidDefinition, InvalidInput
from ..schema.bounded import UNBOUNDED, check_json_schema, is_small_schema, without_unbounded
from ..schema.foreign import ForeignSchema
from ..version import __version__
from .answer import answer_schema
from .gate import Case, judge, read_arguments
from .rule_file import AppliedRule, CallRule, RuleFile
from .standing import StandingGrant

CALL = "c1"
"""The id of the call: a run of a program outside has no other."""
OUTSIDE = "outside"
"""The server of every tool of a program outside, so that no grant for a tool of an agent here covers it."""
LONGEST_NAME = 200
"""The most characters of a source, a tool, a server, a session or a key."""
LONGEST_WORDS = 64 * 1024
"""The most bytes of what the agent says."""
MOST_REVIEWERS = 100
MOST_SOUND = 1000
"""The most digests of schemas to keep."""
_sound: set[str] = set()
"""Digests of JSON schemas that were found sound: a check takes longer than all else of an ask."""
VERDICTS: tuple[f.Verdict, ...] = ("approve", "edit", "reject", "respond")
_OBJECT = allowed.Values("a JSON object", lambda value: False, (dict,))
_OPTIONS = allowed.Options(
    source=allowed.NAME, tool=allowed.NAME, risk=allowed.one_of("low", "high").or_none,
    **dict.fromkeys(("server", "session", "key"), allowed.NAME.or_none),
    **dict.fromkeys(("definition", "says"), allowed.TEXT.or_none),
    deadline=allowed.POSITIVE_SECONDS.or_none, reviewers=allowed.NAMES, redact=allowed.NAMES, again=allowed.BOOL,
    description=allowed.TEXT, schema=_OBJECT.or_none, answer_schema=_OBJECT.or_none,
    arguments=allowed.Values("a JSON object, or the text of one", lambda value: False, (dict, str)),
)  # fmt: skip


class CallRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that a program outside puts before the gate."""

    source: str
    """The name of the program or agent that asks."""
    tool: str
    arguments: dict[str, Any] | str
    """The arguments: an object, or the text as a model wrote it."""
    schema: dict[str, Any] | None = None
    """The JSON schema of the arguments; None for any object."""
    description: str = ""
    definition: str | None = None
    """A hash or a version of the tool's definition, as the program knows it."""
    server: str | None = None
    """The server that the tool is of, such as an MCP server's name."""
    preview: Preview | str | None = None
    """The call's effect, as the program says."""
    says: str | None = None
    """The agent's own words about the call."""
    reviewers: tuple[str, ...] = ()
    """The users, and the groups as "group:name", who may decide, unless a rule names others."""
    deadline: float | None = None
    """The seconds after which an undecided question is rejected."""
    key: str | None = None
    """A text by which the same request, sent again, is the same ask."""
    session: str | None = None
    """A name that several asks have in common, such as a coding agent's session."""
    redact: tuple[str, ...] = ()
    """The arguments to mask wherever nobody decides."""
    risk: f.Risk | None = None
    allowed: tuple[f.Verdict, ...] | None = None
    """The verdicts that fit; None for all. With ("respond", "reject") the call is a question to a person."""
    answer_schema: dict[str, Any] | None = None
    """The JSON schema of an answer."""
    again: bool = False
    """True to get the newest equal ask whose outcome was not taken yet, in place of a new one."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ForeignTool(Tool):
    """A tool of a program outside, as the gate judges a call of it. Its body is not here."""

    strict_json_schema: bool = False

    @property
    def foreign(self) -> bool:
        """True: the program wrote the schema."""
        return True

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in."""
        return self._foreign.filled(args)

    def bind(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments, or raise `InvalidArguments` if they do not fit the schema."""
        problem = self._foreign.problem(args)
        if problem:
            raise InvalidArguments(problem)
        return args

    @functools.cached_property
    def _foreign(self) -> ForeignSchema:
        return ForeignSchema(self.params_json_schema)

    def _rule(self) -> bool | str:
        """Return one mark for all rules, so that another rule of the file does not make it another tool."""
        return OUTSIDE


class AskedOutside(Struct, frozen=True):
    """The first facts of the run of a call from outside, with the tool that its question is about."""

    facts: list[f.AnyFact]
    tool: ForeignTool


def check_request(request: CallRequest) -> None:
    """Raise `InvalidInput` or `InvalidDefinition` unless the request can be put before the gate."""
    _OPTIONS.check("This ask", request, InvalidInput)
    for name in ("source", "tool", "server", "session", "key"):
        value = getattr(request, name)
        if value is not None and (len(value) > LONGEST_NAME or not holds(value) or "\0" in value):
            raise InvalidInput(f"{name} has at most {LONGEST_NAME} characters that UTF-8 can hold, and no NUL.")
    if request.again and (request.key is not None or request.session is not None):
        raise InvalidInput("An ask with again=True has neither key nor session: the call itself finds the ask.")
    if len(request.reviewers) > MOST_REVIEWERS:
        raise InvalidInput(f"An ask names at most {MOST_REVIEWERS} reviewers.")
    if request.says is not None and len(request.says.encode("utf-8", "replace")) > LONGEST_WORDS:
        raise InvalidInput(f"says has at most {LONGEST_WORDS:,} bytes.")
    if request.allowed is not None:
        given = tuple(request.allowed)
        if not given or not all(each in VERDICTS for each in given) or len(set(given)) < len(given):
            raise InvalidInput(f"allowed names some of {', '.join(VERDICTS)}, each once; got {described(given)}.")
        if "reject" not in given:
            raise InvalidInput('allowed has "reject": a call can always be rejected.')


def tool_of_request(request: CallRequest, agent: str = "") -> ForeignTool:
    """Return the tool that a request describes, without a rule of the server's; `agent` says its preview."""
    schema = _plain(request.schema if request.schema is not None else {"type": "object"}, "schema")
    if request.schema is not None:
        _check_schema(schema)
        schema = without_unbounded(schema)
    required = schema.get("required")
    preview = _shown_preview(request, agent or request.source)
    return ForeignTool(
        name=request.tool,
        description=clean_text(request.description)[0],
        params_json_schema=schema if request.schema is not None else {**schema, "additionalProperties": True},
        required=frozenset(name for name in required if type(name) is str) if type(required) is list else frozenset(),
        version=request.definition,
        server=OUTSIDE if request.server is None else f"{OUTSIDE}/{request.server}",
        allowed=request.allowed,
        reviewers=request.reviewers,
        redact=request.redact,
        risk=request.risk,
        deadline=None if request.deadline is None else Deadline(request.deadline),
        preview=None if preview is None else lambda ctx, args: preview,
        needs_approval=True,
    )


def _check_schema(schema: dict[str, Any]) -> None:
    """Raise `InvalidDefinition` unless this is a JSON schema. Programs send the same one with each ask."""
    mark = digest(schema)
    if mark in _sound:
        return
    from jsonschema import SchemaError

    try:
        check_json_schema(schema)
    except SchemaError as error:
        raise InvalidDefinition(f"The schema of this ask is no JSON schema: {error.message:.300}") from None
    except Exception as error:  # it is nested too deeply, refers to itself, or is too much to check
        raise InvalidDefinition(f"The schema of this ask is no JSON schema: {worded(error)}") from None
    if len(_sound) >= MOST_SOUND:
        _sound.clear()
    _sound.add(mark)


def _plain(value: Any, what: str) -> Any:
    try:
        return plain(value)
    except BadJSON as error:
        raise InvalidInput(f"The {what} of this ask is not JSON: {error}.") from None


def _answer_schema(given: dict[str, Any]) -> Raw:
    """Return the schema of an answer; raise an error unless every answer can be checked by it within bounds."""
    schema = _plain(given, "answer_schema")
    if not is_small_schema(schema) or without_unbounded(schema) != schema:
        raise InvalidDefinition(f"The answer_schema of this ask is large, refers to itself, or has {UNBOUNDED}.")
    return answer_schema(schema)


def _shown_preview(request: CallRequest, agent: str) -> Preview | None:
    """Return the program's account of the call, as the program's own words: no headline may take them for ours."""
    if request.preview is None:
        return None
    given = Preview(request.preview) if type(request.preview) is str else request.preview
    if type(given) is not Preview:
        raise InvalidInput(f"preview is a Preview or a sentence, got {described(request.preview)}.")
    if type(given.sentence) is not str or not given.sentence.strip():
        raise InvalidInput("The preview of this ask cannot be shown: it needs a sentence on one line.")
    told: tuple[Sentence, ...] = ()
    if not {"approve", "edit"}.isdisjoint(request.allowed or VERDICTS):  # else it is a question, and nothing can run
        told = (Sentence(f"{agent} says that this is what the call does. Assentry has not checked it."),)
    sentence = f"{agent} {'says' if told else 'asks'}: {given.sentence}"
    try:
        blocks = [_said_by(agent, block) for block in given.blocks]
        shown = replace(given, sentence=sentence, blocks=(*told, *blocks), preconditions={})
        preview_json(shown)
    except InvalidDefinition as error:
        raise InvalidInput(f"The preview of this ask cannot be shown: {error}.") from None
    return shown


def _said_by(agent: str, block: AnyBlock) -> AnyBlock:
    """Return a block, a warning under the program's name: warnings are also shown alone, beside the buttons."""
    if type(block) is not Sentence or not block.warning or type(block.text) is not str:
        return block
    return replace(block, text=f"{agent} says: {block.text}")


def _raw_arguments(request: CallRequest) -> str:
    if type(request.arguments) is str:
        return clean_text(request.arguments)[0]
    return canonical(_plain(request.arguments, "arguments")).decode()


async def judge_foreign_call(
    request: CallRequest,
    *,
    run: str,
    caller: str,
    agent: str,
    now: int,
    rules: RuleFile,
    standing: Sequence[StandingGrant] = (),
    owner: str | None = None,
) -> AskedOutside:
    """Put a call before the gate, and return the first facts of its run, the gate's verdict among them.

    Args:
        request: The call, checked by `check_request`.
        run: The id of the new run.
        caller: The name of whoever asks, such as the token's.
        agent: The name under which the program's calls are judged.
        now: The time, in milliseconds since 1970.
        rules: The server's own rules.
        standing: The standing grants for tools of this name.
        owner: The user of the caller's name, who may decide unless a rule forbids it.
    """
    tool, text = tool_of_request(request, agent), _raw_arguments(request)
    args = read_arguments(tool, text)
    known = args.value if args.problem is None else None
    rule = rules.rule_for(request.source, request.tool, request.server, known, caller, request.definition)
    tool = apply_rule(tool, rule)
    only_person = request.allowed is not None and "approve" not in request.allowed
    if only_person:  # it has no body that a rule or a grant could let run
        tool = with_fields(tool, needs_approval=True)
        standing = [grant for grant in standing if grant.verdict == "reject"]
    facts = _opening(request, tool, text, run, caller, agent, now, _forbidden(rule, agent, owner))
    folded = Run()
    for fact in facts:
        fold(folded, fact)
    state = folded.calls[CALL]
    case = Case(
        folded,
        (),
        state,
        tool,
        args,
        Agent(name=agent),
        RunContextWrapper(None),
        0,
        standing=tuple(grant for grant in standing if grant.agent == agent),
        denied=None if rule is None or rule.verdict != "deny" else (f"rule:{rule.name}", rule.why),
    )
    verdict = await judge(case)
    if type(verdict) is f.Asked and request.answer_schema is not None:
        verdict = replace(verdict, schema=_answer_schema(request.answer_schema))
    if type(verdict) is f.Asked and only_person and not verdict.why:
        verdict = replace(verdict, why=f"{agent} asks a person.")
    return AskedOutside([*facts, verdict], tool)


def apply_rule(tool: ForeignTool, rule: CallRule | None) -> ForeignTool:
    """Return the tool as a rule of the server's has it: its verdict, and who decides, by when, at which risk."""
    if rule is None:
        return tool
    return with_fields(
        tool,
        needs_approval=AppliedRule(rule),
        reviewers=rule.reviewers or tool.reviewers,
        risk=rule.risk or tool.risk,
        deadline=Deadline(rule.deadline) if rule.deadline is not None else tool.deadline,
    )


def _forbidden(rule: CallRule | None, agent: str, owner: str | None) -> str:
    """Return the name of whoever must not decide: the program, or the token's owner if a rule says so."""
    return owner if owner is not None and rule is not None and not rule.owner else agent


def session_thread(agent: str, session: str) -> str:
    """Return the thread of a session's runs; an agent of Assentry's has no such thread."""
    return f"{OUTSIDE}/{agent}/{clean_text(session)[0]}"


def _opening(
    request: CallRequest, tool: Tool, text: str, run: str, caller: str, agent: str, now: int, by: str
) -> list[f.AnyFact]:
    """Return the facts before the verdict: the run's beginning, why there is a call, and the call."""
    template = f.Began(agent, 1, version=__version__)
    thread = None if request.session is None else session_thread(agent, request.session)
    said = f.Said(Raw(canonical(_first_words(request, agent))), caller)
    first = first_facts(template, run, now, [said], by=by, stored=True, thread=thread, caller=caller)
    items: list[dict[str, Any]] = []
    if request.says:
        content = [{"type": "output_text", "text": clean_text(request.says)[0]}]
        items.append({"type": "message", "role": "assistant", "content": content})
    items.append({"type": "function_call", "call_id": CALL, "name": request.tool, "arguments": text})
    call = f.Call(CALL, request.tool, len(items) - 1, "tool", tool.fingerprint)
    defined = f.Defined(agent, redact={request.tool: tuple(tool.redact)} if tool.redact else {})
    return [*first, defined, f.Replied(Raw(canonical(items)), calls=(call,), note=f.OUTSIDE_REPLY)]


def _first_words(request: CallRequest, agent: str) -> str:
    """Return the sentence that says why there is such a run."""
    server = "" if request.server is None else f" of {request.server}"
    named = request.session is not None and not request.again  # else it is the call's own mark
    session = f", in session {request.session}" if named else ""
    return clean_text(f"{agent} asks whether a call of {request.tool}{server} may run{session}.")[0]


def request_mark(request: CallRequest) -> str:
    """Return a digest of what makes two requests the same: the tool, its definition and the arguments."""
    return digest({"tool": tool_of_request(request).fingerprint, "arguments": _raw_arguments(request)})


def proposed_mark(run: Run) -> str:
    """Return the same digest for the call of a stored run."""
    state = run.calls[CALL]
    return digest({"tool": state.call.definition, "arguments": state.proposal.arguments})
