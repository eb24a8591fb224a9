"""The shell tool: its requests and results, in the shapes that users of the OpenAI Agents SDK know.

Models with a shell call of their own are offered that call, and all others a function with the same arguments. The
executor is code of the user's, or a `LocalShellExecutor`. Running processes does not belong here.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from ..commands.shell_command import SimpleCommand, check_length, parse_command
from ..core import allowed
from ..core.wording import described, holds
from ..definitions.calling import call_function
from ..definitions.context import RunContextWrapper, ToolContext
from ..definitions.preview import Preview, Shell
from ..definitions.probe import CannotTell
from ..definitions.tool import Tool, qualified_name
from ..errors import InvalidArguments, InvalidDefinition
from ..models.model import Native


@dataclass(frozen=True)
class ShellActionRequest:
    """The commands that a model wants to run, with its limits."""

    commands: list[str]
    timeout_ms: int | None = None
    max_output_length: int | None = None

    def parsed(self) -> list[SimpleCommand]:
        """Return every command that these lines may run; raise `UnclearCommand` if that is not certain."""
        check_length(sum(map(len, self.commands)))
        return [command for line in self.commands for command in parse_command(line)]


@dataclass(frozen=True)
class ShellCallData:
    """One shell call, as an executor gets it."""

    call_id: str
    action: ShellActionRequest
    status: Literal["in_progress", "completed"] | None = None
    raw: Any = None
    """The call in the form of a provider's item."""


@dataclass(frozen=True)
class ShellCommandRequest:
    """The argument of an executor: the call, and the run's context."""

    ctx_wrapper: RunContextWrapper[Any]
    data: ShellCallData


@dataclass
class ShellCallOutcome:
    """The end of a command: its exit code, or a timeout."""

    type: Literal["exit", "timeout"]
    exit_code: int | None = None


@dataclass
class ShellCommandOutput:
    """The output of one command."""

    stdout: str = ""
    stderr: str = ""
    outcome: ShellCallOutcome = field(default_factory=lambda: ShellCallOutcome("exit", 0))
    command: str | None = None
    provider_data: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code; None after a timeout."""
        return self.outcome.exit_code

    @property
    def status(self) -> Literal["completed", "timeout"]:
        """The end of the command in one word."""
        return "timeout" if self.outcome.type == "timeout" else "completed"


@dataclass
class ShellResult:
    """The result of an executor: one output for each command."""

    output: list[ShellCommandOutput]
    max_output_length: int | None = None
    provider_data: dict[str, Any] | None = None


ShellExecutor = Callable[[ShellCommandRequest], str | ShellResult | Awaitable[str | ShellResult]]
"""A function that runs the commands of a request."""
ShellRule = bool | Callable[[RunContextWrapper[Any], ShellActionRequest, str], bool | Awaitable[bool]]
"""True if a call needs a person's approval, False if it does not, or a function of context, action and call id."""

LONGEST_SHOWN = 80
"""The most characters of a command that is part of a preview's sentence."""
LIMITS = ("timeout_ms", "max_output_length")
EXECUTOR = allowed.Values("LocalShellExecutor(cwd=...), or another function of a ShellCommandRequest", callable)
LOCAL = allowed.Values('{"type": "local"}', lambda given: given in ({"type": "local"}, {})).or_none
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "commands": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "The command lines. They run one after another, each in a shell of its own.",
        },
        "timeout_ms": {
            "type": ["integer", "null"],
            "description": "The most milliseconds for each command; null for the usual limit.",
        },
        "max_output_length": {
            "type": ["integer", "null"],
            "description": "The most characters of output for each command; null for the usual limit.",
        },
    },
    "required": ["commands", *LIMITS],
    "additionalProperties": False,
}
"""The schema for models. It is strict, so the limits are required, and may be null."""
SHAPE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "commands": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
        "timeout_ms": {"type": "integer", "minimum": 1},
        "max_output_length": {"type": "integer", "minimum": 1},
    },
    "required": ["commands"],
    "additionalProperties": False,
}


@dataclass(frozen=True, eq=False, repr=False)
class ShellTool(Tool):
    """A tool that lets the model run shell commands, by default each time after a person's approval.

    `needs_approval` is True, False, or a function of context, `ShellActionRequest` and the provider's call id, such as
    `allow_commands("git status")`. If it fails or returns no bool, a person is asked. All other options are those of
    any tool; see `function_tool`.
    """

    executor: ShellExecutor | None = None
    """A function, sync or async, that gets a `ShellCommandRequest` and returns text or a `ShellResult`.

    If it raises, the model is told. `LocalShellExecutor` is one that runs the commands on this machine. If it has a
    method `look`, that gets the context of a call whose outcome is unknown, and returns what can be seen of the call,
    for the person who is asked about it.
    """
    _: KW_ONLY
    name: str = "shell"
    description: str = ""
    """A description for the model; the default says where commands run."""
    params_json_schema: dict[str, Any] = field(default_factory=lambda: SCHEMA)
    required: frozenset[str] = frozenset({"commands"})
    needs_approval: Any = True
    environment: Mapping[str, Any] | None = None
    """None or `{"type": "local"}`. A container of the provider's is not supported."""
    native: Native | None = "shell"
    judges_arguments: bool = False
    """True if the rule is already one for the gate, which takes arguments. It is so in a copy of a tool."""

    def __post_init__(self) -> None:
        _check_environment(self.environment)
        allowed.check_option("ShellTool", "executor", self.executor, EXECUTOR)
        cwd, copied = getattr(self.executor, "cwd", None), self.preview
        if not self.description or (isinstance(copied, ShellPreview) and self.description == copied.description):
            object.__setattr__(self, "description", ShellPreview(cwd).description)
        if copied is None or isinstance(copied, ShellPreview):
            object.__setattr__(self, "preview", ShellPreview(cwd))
        look = getattr(self.executor, "look", None)
        if self.probe is None or isinstance(self.probe, ShellProbe):
            object.__setattr__(self, "probe", ShellProbe(look) if callable(look) else None)
        if callable(self.needs_approval) and not self.judges_arguments:
            object.__setattr__(self, "needs_approval", _of_arguments(self.needs_approval))
        object.__setattr__(self, "judges_arguments", True)
        super().__post_init__()

    def _parts(self) -> dict[str, Any]:
        """Return the parts of the fingerprint. The executor's version is one: an approval is for one directory."""
        parts, settings = super()._parts(), getattr(self.executor, "version", None)
        if type(settings) is str:
            parts["version"] = settings if self.version is None else f"{self.version} {settings}"
        return parts

    @property
    def shape(self) -> dict[str, Any]:
        """The schema of canonical arguments, in which a limit is a number or left out."""
        return SHAPE

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments without limits that are null, so that they are the same in every dialect."""
        return {name: value for name, value in args.items() if value is not None or name not in LIMITS}

    def bind(self, args: dict[str, Any]) -> ShellActionRequest:
        """Return the arguments as an action, or raise `InvalidArguments`."""
        return action_from(args)

    async def enter(self, ctx: ToolContext[Any], bound: ShellActionRequest) -> dict[str, Any]:
        """Call the executor, in a thread if it is not async, and return its result as JSON."""
        raw = {"type": "shell_call", "call_id": ctx.call_id, "action": _json(bound)}
        request = ShellCommandRequest(ctx, ShellCallData(ctx.call_id, bound, "in_progress", raw))
        executor: Any = self.executor
        return _output(await call_function(functools.partial(executor, request)), bound.max_output_length)


def action_from(args: Mapping[str, Any]) -> ShellActionRequest:
    """Return the action that these arguments describe, or raise `InvalidArguments`."""
    extra = set(args) - {"commands", *LIMITS}
    if extra:
        raise InvalidArguments(f"there is no {min(extra)!r}; a shell call has commands, timeout_ms, max_output_length")
    commands = args.get("commands")
    if not isinstance(commands, list) or not commands:
        raise InvalidArguments(f"commands must be a list with at least one command, got {described(commands)}")
    for command in commands:
        if type(command) is not str or not command.strip() or "\0" in command or not holds(command):
            raise InvalidArguments(f"a command must be text that is not blank and has no NUL, got {described(command)}")
    for name in LIMITS:
        limit = args.get(name)
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidArguments(f"{name} must be a whole number above zero, got {described(limit)}")
    return ShellActionRequest(list(commands), args.get("timeout_ms"), args.get("max_output_length"))


class ShellPreview:
    """The preview of a shell: the commands, and the directory in which they would run."""

    def __init__(self, cwd: Any) -> None:
        self.where = None if cwd is None else str(cwd)
        self.__qualname__ = "shell_preview"

    @property
    def description(self) -> str:
        """The description of such a shell for models."""
        where = "" if self.where is None else f" in {self.where}"
        return f"Run shell commands{where}, and get their output and exit codes."

    def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any]) -> Preview:
        """Return the preview of one call."""
        commands, where = action_from(args).commands, self.where
        what = f"{len(commands)} commands" if len(commands) > 1 else "a command"
        if len(commands) == 1 and len(commands[0]) <= LONGEST_SHOWN and commands[0].isprintable():
            what = f"`{commands[0]}`"
        sentence = f"Run {what}" if where is None or not where.isprintable() else f"Run {what} in {where}"
        return Preview(sentence, (Shell(tuple(commands), where),))


class ShellProbe:
    """The probe of a shell. Nobody can tell what became of a command, so it says what the executor can see."""

    def __init__(self, look: Callable[..., Any]) -> None:
        self.look = look
        self.__qualname__ = "shell_probe"

    async def __call__(self, ctx: ToolContext[Any], args: dict[str, Any]) -> CannotTell:
        """Return what can be seen of one call."""
        return CannotTell(await call_function(functools.partial(self.look, ctx)))


def _json(action: ShellActionRequest) -> dict[str, Any]:
    limits = {name: getattr(action, name) for name in LIMITS if getattr(action, name) is not None}
    return {"commands": list(action.commands), **limits}


def _check_environment(environment: Any) -> None:
    if environment is None:
        return
    kind = environment.get("type", "local") if isinstance(environment, Mapping) else None
    if type(kind) is str and kind != "local":
        raise InvalidDefinition(
            f"ShellTool: in the environment {kind!r} the provider runs the commands, and nobody is asked. Assentry "
            "does not offer it; give an executor that runs the commands in a container of yours."
        )
    allowed.check_option("ShellTool", "environment", environment, LOCAL)


def _of_arguments(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the rule as the gate calls it, with canonical arguments. It keeps its name and version."""
    function: Any = rule
    while isinstance(function, functools.partial):
        function = function.func

    def judged(ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> Any:
        return rule(ctx, action_from(args), call_id)

    judged.__qualname__ = qualified_name(rule)
    judged.version = getattr(function, "version", None)  # type: ignore[attr-defined]
    return judged


def _output(given: Any, limit: int | None) -> dict[str, Any]:
    """Return an executor's result as JSON, with its outputs cut to the model's limit."""
    if isinstance(given, str):
        given = ShellResult([ShellCommandOutput(given)])
    if not isinstance(given, ShellResult):
        raise TypeError(f"an executor returns text or a ShellResult, not {described(given)}")
    outputs: list[Any] = given.output
    for each in outputs:
        if not isinstance(each, ShellCommandOutput) or type(each.stdout) is not str or type(each.stderr) is not str:
            raise TypeError(f"the output of a command is a ShellCommandOutput with texts, not {described(each)}")
    shown = [
        {
            "stdout": cut_middle(each.stdout, limit),
            "stderr": cut_middle(each.stderr, limit),
            "outcome": {"type": "timeout"}
            if each.outcome.type == "timeout"
            else {"type": "exit", "exit_code": each.outcome.exit_code or 0},
        }
        for each in outputs
    ]
    most = given.max_output_length if given.max_output_length is not None else limit
    return {"output": shown, **({"max_output_length": most} if most is not None else {})}


def cut_middle(text: str, limit: int | None) -> str:
    """Return the text, or its beginning and end if it has more characters than the limit."""
    if limit is None or len(text) <= limit:
        return text
    note = f"\n[{len(text) - limit} or more characters left out]\n"
    if len(note) >= limit:
        return text[:limit]
    kept = limit - len(note)
    return text[: kept - kept // 2] + note + text[len(text) - kept // 2 :]
