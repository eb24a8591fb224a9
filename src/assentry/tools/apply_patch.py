"""The tool that lets a model change files, with the patch format that models know.

A native `apply_patch_call` holds one operation, and a function call a whole patch. The canonical arguments are the
patch in both cases, so rules, people, digests and the editor get one value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..core import allowed
from ..definitions.calling import in_thread
from ..definitions.context import RunContextWrapper, ToolContext
from ..definitions.preview import Preview
from ..definitions.probe import CannotTell, Found, Happened, NotHappened
from ..definitions.tool import Ask, FailureText, Previewer, Rule, Tool, default_tool_error_function, qualified_name
from ..errors import AssentryError, InvalidArguments, InvalidDefinition, PatchRefused, UsageError
from .patch_editor import ApplyPatchEditor, OneByOne, Operations, PatchEditor, TracedEditor, done_sentence
from .patch_format import ApplyPatchOperation, check_operation, patch_of, read_patch

OperationRule = bool | Callable[[RunContextWrapper[Any], ApplyPatchOperation, str], bool | Awaitable[bool]]
"""True if a patch needs approval, or a function of context, operation and call id; the first True asks."""

METHODS = ("create_file", "update_file", "delete_file")
EDITOR = allowed.Values(
    f"an object with the methods {', '.join(METHODS)}",
    lambda given: not isinstance(given, type) and all(callable(getattr(given, name, None)) for name in METHODS),
)
DESCRIPTION = """Create, change, move and delete files with a patch.

*** Begin Patch
*** Add File: docs/new.md
+# A new file
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
     name = "you"
-    print("Hi")
+    print("Hello")
     return name
*** Delete File: old.txt
*** End Patch

Paths are relative. Lines begin with " " (stays), "-" (goes) or "+" (new). Give about three unchanged lines before and \
after each change, exactly as they are in the file; they must occur once. If they occur more often, put "@@ " and a \
whole line that comes before them above. "*** End of File" after the last line says that it is the end of the file."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"patch": {"type": "string", "description": 'The patch, from "*** Begin Patch" to "*** End Patch".'}},
    "required": ["patch"],
    "additionalProperties": False,
}


def patch_error(ctx: RunContextWrapper[Any], error: Exception) -> str:
    """Return the text that tells the model why a patch was not applied."""
    return str(error) if isinstance(error, AssentryError) else default_tool_error_function(ctx, error)


class _PerOperation:
    """A rule for one operation, as a rule for the whole patch. It has the name and version of the user's function."""

    def __init__(self, rule: Callable[..., Any]) -> None:
        self.rule = rule
        self.__qualname__ = qualified_name(rule)
        while isinstance(rule, functools.partial):
            rule = rule.func
        self.version = getattr(rule, "version", None)

    async def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> Any:
        """Return the first answer that is not False, or one of high risk; the gate asks a person about it."""
        found: Any = False
        for operation in read_patch(args["patch"]):
            verdict = self.rule(ctx, replace(operation, ctx_wrapper=ctx), call_id)
            verdict = await verdict if inspect.isawaitable(verdict) else verdict
            if isinstance(verdict, Ask) and verdict.risk == "high":
                return verdict
            found = verdict if found is False else found
        return found


class _EditorPreview:
    """The preview that the tool's editor makes."""

    def __init__(self, editor: PatchEditor) -> None:
        self.editor = editor
        self.__qualname__ = f"{type(editor).__qualname__}.preview"

    def __call__(self, ctx: RunContextWrapper[Any], args: dict[str, Any]) -> Preview:
        return self.editor.preview([replace(each, ctx_wrapper=ctx) for each in read_patch(args["patch"])])


STEP = "apply_patch: files"
"""The step that records, before a patch is applied, what it makes of each file."""


class _EditorProbe:
    """The probe of an editor that can tell later if a patch was applied."""

    def __init__(self, editor: TracedEditor) -> None:
        self.editor = editor
        self.__qualname__ = f"{type(editor).__qualname__}.probe"

    async def __call__(self, ctx: ToolContext[Any], args: dict[str, Any]) -> Found:
        """Compare the files with what the body recorded."""
        operations, recorded = read_patch(args["patch"]), list[Any]()
        with suppress(UsageError):  # there are no more
            while True:
                recorded.append(await ctx.step(STEP, dict))
        known = [each["files"] for each in recorded if each["key"] == ctx.idempotency_key]
        try:
            return await in_thread(functools.partial(self._found, ctx, operations, known))  # type: ignore[no-any-return]
        except PatchRefused as error:
            return CannotTell(str(error))

    def _found(self, ctx: ToolContext[Any], operations: Operations, known: list[Any]) -> Found:
        try:
            if any(_is_done(self.editor, files) for files in known):
                return Happened(_output(operations))
            if known and known[-1] is not None and self.editor.standing(known[-1]) == "before":
                return NotHappened()
            if not known and ctx.preconditions == self.editor.preview(operations).preconditions:
                return NotHappened()  # the process was killed before the body could record anything
        except PatchRefused as error:
            return CannotTell(str(error))
        return CannotTell(
            "The patch has not recorded what it makes of the files, so they cannot tell if it was applied."
        )


def _is_done(editor: TracedEditor, files: Any) -> bool:
    """Return True if all files are as the patch makes them."""
    try:
        return files is not None and editor.standing(files) == "after"
    except PatchRefused:
        return False


def _output(operations: Operations) -> dict[str, str]:
    return {"status": "completed", "output": "\n".join(f"{done_sentence(each)}." for each in operations)}


def _takes_shown(editor: PatchEditor) -> bool:
    """Return True if the editor's `patch` has a keyword for the preconditions of the approved preview."""
    given = inspect.signature(editor.patch).parameters.values()
    return any(each.name == "shown" or each.kind is each.VAR_KEYWORD for each in given)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ApplyPatchTool(Tool):
    """A tool that changes files by patches: `ApplyPatchTool(WorkspaceEditor("."))`.

    Models that have a native `apply_patch` call use that, and all others a function with one argument, `patch`. Each
    patch needs approval unless `needs_approval` says otherwise: False, or a function that gets the context, one
    `ApplyPatchOperation` and the call id. The first operation that needs approval asks about the whole patch.
    """

    editor: ApplyPatchEditor | PatchEditor = field(kw_only=False)
    """A `WorkspaceEditor`, or an editor of your own."""
    name: str = "apply_patch"
    description: str = DESCRIPTION
    params_json_schema: dict[str, Any] = field(default_factory=lambda: SCHEMA)
    required: frozenset[str] = frozenset({"patch"})
    needs_approval: OperationRule | Rule = True  # type: ignore[assignment]  # a rule for operations becomes a `Rule`
    failure_error_function: FailureText | None = patch_error
    native: Literal["shell", "apply_patch"] | None = "apply_patch"
    preview: Previewer | None = None
    """A function of context and `{"patch": ...}`; None for the editor's own preview."""
    judges_arguments: bool = False
    """True if the rule is already one for the gate, which takes arguments. It is so in a copy of a tool."""
    _compares: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        whole = self._whole
        if self.timeout is not None:
            raise InvalidDefinition(f"Tool {self.name!r}: a patch cannot be stopped halfway; leave out timeout.")
        if callable(self.needs_approval) and not self.judges_arguments:
            object.__setattr__(self, "needs_approval", _PerOperation(self.needs_approval))
        object.__setattr__(self, "judges_arguments", True)
        if self.preview is None or isinstance(self.preview, _EditorPreview):
            object.__setattr__(self, "preview", _EditorPreview(whole))
        if self.probe is None or isinstance(self.probe, _EditorProbe):
            object.__setattr__(self, "probe", _EditorProbe(whole) if isinstance(whole, TracedEditor) else None)
        object.__setattr__(self, "_compares", _takes_shown(whole))
        super().__post_init__()

    @property
    def _whole(self) -> PatchEditor:
        editor: Any = self.editor
        if isinstance(editor, PatchEditor):
            return editor
        allowed.check_option("ApplyPatchTool", "editor", editor, EDITOR)
        return OneByOne(editor)

    @property
    def knows_its_attempts(self) -> bool:
        """True if the editor can tell later if a patch was applied, and takes what was shown."""
        return self._compares and isinstance(self._whole, TracedEditor)

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as `{"patch": ...}`; a native operation becomes a patch of one file."""
        return {"patch": patch_of(_native(args))} if "type" in args and "patch" not in args else args

    def bind(self, args: dict[str, Any]) -> tuple[ApplyPatchOperation, ...]:
        """Return the operations of the patch, or raise `InvalidArguments`."""
        if args.keys() != {"patch"} or type(args["patch"]) is not str:
            raise InvalidArguments('arguments: the only argument is "patch", a text')
        operations = read_patch(args["patch"])
        self._whole.check(operations)
        return operations

    async def enter(self, ctx: ToolContext[Any], bound: tuple[ApplyPatchOperation, ...]) -> dict[str, str]:
        """Have the editor apply the patch, unless an earlier attempt has done so."""
        editor: Any = self._whole
        operations = [replace(each, ctx_wrapper=ctx) for each in bound]
        if isinstance(editor, TracedEditor) and await _was_done(ctx, editor, operations):
            return _output(operations)
        shown = {"shown": ctx.preconditions} if self._compares else {}
        return {"status": "completed", "output": await editor.patch(operations, **shown)}


async def _was_done(ctx: ToolContext[Any], editor: TracedEditor, operations: Operations) -> bool:
    """Return True if an earlier attempt has applied the patch; else record what it would make of the files now.

    The record is in the journal before a file is changed. So the probe, and the next attempt, can tell by the files
    what became of this one.
    """
    try:
        files = await in_thread(functools.partial(editor.digests, operations))
    except PatchRefused:
        files = None  # the editor says why
    now = {"key": ctx.idempotency_key, "files": files}
    while (then := await ctx.step(STEP, lambda: now)) != now:
        if then["key"] == now["key"] and await in_thread(functools.partial(_is_done, editor, then["files"])):
            return True
    return False


def _native(args: dict[str, Any]) -> ApplyPatchOperation:
    """Return the operation of a native call, or raise `InvalidArguments`."""
    given = {name: value for name, value in args.items() if value is not None}
    wrong = given.keys() - {"type", "path", "diff", "move_to"}
    texts = all(type(value) is str for value in given.values())
    if wrong or not texts or given.get("type") not in METHODS or not given.get("path"):
        raise InvalidArguments(
            f"an operation has a type ({', '.join(METHODS)}), a path, and where needed a diff and a move_to, all texts"
        )
    return check_operation(ApplyPatchOperation(**given))
