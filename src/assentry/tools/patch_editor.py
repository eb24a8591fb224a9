"""Editors: the code that changes files for `ApplyPatchTool`.

A `PatchEditor` takes a whole patch. An editor that takes one operation at a time is made into one by `OneByOne`.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from ..core.wording import described, worded
from ..definitions.calling import call_function
from ..definitions.preview import Diff, Preview
from ..errors import PatchRefused
from .patch_format import ApplyPatchOperation

Operations = Sequence[ApplyPatchOperation]


@dataclass(frozen=True, slots=True)
class ApplyPatchResult:
    """The result of one operation: its status, and a text for the model."""

    status: Literal["completed", "failed"] | None = None
    """None stands for "completed"."""
    output: str | None = None


@runtime_checkable
class ApplyPatchEditor(Protocol):
    """An editor of your own, which takes one operation at a time. Its methods may be async.

    An exception, or the status "failed", ends the patch: later operations are not tried, earlier ones stay.
    """

    def create_file(
        self, operation: ApplyPatchOperation
    ) -> ApplyPatchResult | str | Awaitable[ApplyPatchResult | str | None] | None:
        """Create the file; `apply_diff("", operation.diff, "create")` gives its text."""

    def update_file(
        self, operation: ApplyPatchOperation
    ) -> ApplyPatchResult | str | Awaitable[ApplyPatchResult | str | None] | None:
        """Change the file, with `apply_diff(text, operation.diff)`, and move it if there is a `move_to`."""

    def delete_file(
        self, operation: ApplyPatchOperation
    ) -> ApplyPatchResult | str | Awaitable[ApplyPatchResult | str | None] | None:
        """Delete the file."""


class PatchEditor(ABC):
    """An editor that takes a whole patch."""

    @abstractmethod
    def check(self, operations: Operations) -> None:
        """Raise `InvalidArguments` if the patch can never be applied, whatever the files hold."""

    @abstractmethod
    def preview(self, operations: Operations) -> Preview:
        """Return what the patch would do, and change nothing."""

    @abstractmethod
    async def patch(self, operations: Operations) -> str:
        """Apply the patch and return a text for the model, or raise `PatchRefused`.

        An editor whose method has a keyword `shown` gets the preconditions of the approved preview. It raises
        `NotAsShown`, before it changes anything, if one of them does not hold.
        """


class TracedEditor(PatchEditor):
    """An editor that applies a patch whole or not at all, and can tell later if it did."""

    @abstractmethod
    def digests(self, operations: Operations) -> dict[str, list[str]]:
        """Return the digests of each file before and after the patch, or raise `PatchRefused`."""

    @abstractmethod
    def standing(self, digests: Mapping[str, list[str]]) -> Literal["before", "after"]:
        """Return which of the two digests all files have now; raise `PatchRefused` if it is a mixture."""


class OneByOne(PatchEditor):
    """An `ApplyPatchEditor` that is given the operations of a patch one after another."""

    def __init__(self, editor: ApplyPatchEditor) -> None:
        self.editor = editor

    def check(self, operations: Operations) -> None:
        """Accept every patch: only the editor knows its paths."""

    def preview(self, operations: Operations) -> Preview:
        """Return the operations as the model wrote them."""
        blocks = tuple(Diff(each.path, each.diff or "", change_kind(each), each.move_to) for each in operations)
        return Preview(sentence(operations), blocks)

    async def patch(self, operations: Operations) -> str:
        """Give each operation to the editor, until one fails."""
        told: list[str] = []
        for operation in operations:
            try:
                result = await call_function(functools.partial(getattr(self.editor, operation.type), operation))
                told.append(self._read(operation, result))
            except Exception as error:
                if not told:
                    raise
                why = str(error) if isinstance(error, PatchRefused) else worded(error)
                raise PatchRefused(f"{operation.path}: {why} Before that: {' '.join(told)}") from error
        return "\n".join(told)

    def _read(self, operation: ApplyPatchOperation, result: Any) -> str:
        """Return the text for the model; raise `PatchRefused` unless the operation is completed."""
        given = ApplyPatchResult(output=result) if result is None or type(result) is str else result
        if not isinstance(given, ApplyPatchResult) or given.status not in (None, "completed", "failed"):
            raise PatchRefused(f"The editor gave {described(result)}; what became of {operation.path} is not known.")
        if given.status == "failed":
            raise PatchRefused(given.output or f"The editor could not change {operation.path}.")
        return given.output or f"{done_sentence(operation)}."


# -- words -----------------------------------------------------------------------------------------

MOST_SHOWN_FILES = 5
"""The number of paths that a sentence names."""
PAST = {"create": "Created", "update": "Changed", "delete": "Deleted", "move": "Moved"}
VERBS = {"create": "Create", "update": "Change", "delete": "Delete", "move": "Move"}


def change_kind(operation: ApplyPatchOperation) -> Literal["create", "update", "delete", "move"]:
    """Return the kind of change, as a preview names it."""
    if operation.move_to is not None:
        return "move"
    return {"create_file": "create", "update_file": "update", "delete_file": "delete"}[operation.type]  # type: ignore[return-value]


def _names_of(operation: ApplyPatchOperation, change: str = "change") -> str:
    if operation.move_to is None:
        return operation.path
    return f"{operation.path} to {operation.move_to}" + (f" and {change} it" if operation.diff else "")


def done_sentence(operation: ApplyPatchOperation) -> str:
    """Return what was done to the file."""
    return f"{PAST[change_kind(operation)]} {_names_of(operation, 'changed')}"


def sentence(operations: Operations) -> str:
    """Return what the operations would do, in one sentence: "Change 2 files: a.py, b.py"."""
    kinds = dict.fromkeys(change_kind(each) for each in operations)
    parts = []
    for kind in kinds:
        names = [_names_of(each) for each in operations if change_kind(each) == kind]
        more = f" and {len(names) - MOST_SHOWN_FILES} more" if len(names) > MOST_SHOWN_FILES else ""
        count = f"{len(names)} files: " if len(names) > 1 else ""
        parts.append(f"{VERBS[kind]} {count}{', '.join(names[:MOST_SHOWN_FILES])}{more}")
    return "; ".join([parts[0], *(part[0].lower() + part[1:] for part in parts[1:])])
