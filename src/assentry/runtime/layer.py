"""Layers: code that a skin, such as `assentry.threads`, puts around an agent's model or around the body of a tool.

The runtime knows a layer by its base class. A layer cannot approve anything: each call that the layer around a model
returns is judged by the gate, and the layer around a tool enters bodies through the door only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from typing import Any, Self

from msgspec import Raw

from ..core.facts import NOTHING
from ..core.transcript import Item
from ..definitions.context import RunContextWrapper
from ..definitions.server import ToolServer
from ..definitions.tool import Tool
from ..errors import UsageError
from ..models.model import Model, ModelRequest, ModelResponse
from .tool_pause import Hook


class LayerReply(ModelResponse):
    """The reply of the code around a model, with the updates of the thread's state that it made."""

    update: Raw = NOTHING
    """A JSON list of objects, in order."""
    tools: tuple[Any, ...] = ()
    """The tools that the code offered to the model beside the agent's own."""


class ModelLayer:
    """A model with code around it that needs to know its run, and may ask a person.

    The model step calls `within` for each reply, and streams from the model that it returns. The output of that model
    is the reply. A question goes through the hook, which also keeps the model's replies while the question is open.
    """

    repeats: bool = False
    """True if a failed reply may be made again as the settings say: no code of the user's is around the model."""

    @property
    def name(self) -> str:
        """The model's name."""
        raise NotImplementedError

    def within(self, ctx: RunContextWrapper[Any], hook: Hook) -> Model:
        """Return the model for one reply in the run of this context."""
        raise NotImplementedError

    def stream(self, request: ModelRequest) -> AsyncIterator[Item | ModelResponse]:
        """Raise `UsageError`: the layer needs a run."""
        raise UsageError("A model with code around it can only be called in a run.")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ToolLayer(Tool):
    """A tool with code around the body of another tool, `inner`; it is offered, judged and recorded like that tool.

    `enter` is the code around the body. It enters the body with `door.run_inside`, or another call with
    `door.run_instead`, which has that call judged first.
    """

    inner: Tool

    @classmethod
    def around(cls, tool: Tool, **more: Any) -> Self:
        """Return a layer around a tool, with the tool's own definition."""
        parts = {field.name: getattr(tool, field.name) for field in fields(Tool) if field.init}
        return cls(**parts, inner=tool, **more)

    def _parts(self) -> dict[str, Any]:
        """Return the parts of the inner tool's fingerprint, such as the directory of a shell."""
        return self.inner._parts()

    @property
    def source(self) -> ToolServer | None:
        """The server that defines the inner tool, if any."""
        return self.inner.source

    @property
    def knows_its_attempts(self) -> bool:
        """True if the body of the inner tool does."""
        return self.inner.knows_its_attempts

    @property
    def shape(self) -> dict[str, Any] | None:
        """The schema with all its defaults."""
        return self.inner.shape

    @property
    def foreign(self) -> bool:
        """True if a server wrote the schema of the inner tool."""
        return self.inner.foreign

    def canonical(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the schema's defaults filled in; nothing is coerced."""
        return self.inner.canonical(args)

    def bind(self, args: dict[str, Any]) -> Any:
        """Return the arguments in the form that the body takes, or raise `InvalidArguments`."""
        return self.inner.bind(args)
