"""Tools whose fields can be assigned after they were defined, as programs of the SDK do.

The definition that a person is asked about must be the one that runs. So a field can be assigned only until a run uses
the tool, and the fingerprint is made anew from the definition as it then is.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..core import allowed
from ..definitions.tool import Tool
from ..errors import UsageError


class AssignableTool(Tool):
    """The base of tools whose fields can be assigned until a run uses them."""

    assignable: ClassVar[dict[str, str]] = {}
    """The names of the fields that can be assigned, and those that Assentry has for them."""

    def note_use(self) -> None:
        """Note that a run uses the tool: from now on its definition stays as it is."""
        self.__dict__["_is_used"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field, and make the fingerprint anew; if the value does not fit, the tool stays as it was."""
        whose = f"Tool {self.name!r}"
        allowed.check_names(whose, (name,), self.assignable, UsageError)
        if self.__dict__.get("_is_used"):
            raise UsageError(
                f"{whose}: {name} cannot be assigned any more, because a run has used the tool; people may have been "
                "asked about it as it was. Define another tool, or give needs_approval or is_enabled a function."
            )
        before = dict(self.__dict__)
        try:
            self._set(self.assignable[name], value)
            self.__dict__.pop("_frozen", None)
            self.__post_init__()
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        Tool.revision += 1

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class TextOfOutput(Tool):
    """A tool whose output the model gets as the SDK gives it: as the text of the object, not as JSON."""

    def told(self, value: Any) -> Any:
        """Return the text of the body's value."""
        return value if isinstance(value, str) else str(value)


def same_names(*names: str) -> dict[str, str]:
    """Return a table of fields that have the same name in Assentry."""
    return dict(zip(names, names, strict=True))
