"""The options of a call that say in which form its result and its chunks come, and those that have no effect here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

from msgspec import Struct

from ..core import allowed
from ..core.wording import described
from ..errors import UnknownOption, UsageError
from .stream import Mode, modes_of
from .stream_part import GraphOutput

Version = Literal["v1", "v2"]
Namespace = tuple[str, ...]
NO_BREAKPOINT = (
    "{option} is not there. To ask a person before a tool, use HumanInTheLoopMiddleware(interrupt_on=...); in code, "
    "use interrupt(...)."
)
NAMES = ("context", "control", "debug", "durability", "interrupt_after", "interrupt_before", "on_pending")
INVOKE_NAMES = (*NAMES, "output_keys", "print_mode", "stream_mode", "version")
STREAM_NAMES = (*INVOKE_NAMES, "subgraphs")


class CallOptions(TypedDict, total=False):
    """Options that any call takes."""

    print_mode: Mode | Sequence[Mode]
    """Chunks of these modes are printed, too."""
    output_keys: str | Sequence[str] | None
    """The keys of the state that results and chunks have; with a single text, they are that key's value."""
    durability: Literal["sync", "async", "exit"] | None
    """No effect: each step is stored before it is taken."""
    debug: bool | None
    """True to print updates and values."""
    interrupt_before: Sequence[str] | None
    """Only None or an empty list."""
    interrupt_after: Sequence[str] | None
    """Only None or an empty list."""
    control: None


class StreamOptions(CallOptions, total=False):
    """Options that a stream takes, too."""

    subgraphs: bool
    """True for the chunks of agents that are tools, too; each chunk then comes with its namespace."""


class CallShape(Struct, frozen=True):
    """The form of the result and the chunks of one call."""

    modes: list[Mode]
    paired: bool
    """True if each chunk is paired with its mode."""
    version: Version = "v1"
    printed: list[Mode] = []
    keys: str | list[str] | None = None
    subgraphs: bool = False

    @property
    def read(self) -> list[Mode]:
        """The modes whose chunks are needed."""
        return list(dict.fromkeys([*self.modes, *self.printed]))

    def chunk(self, mode: Mode, ns: Namespace, chunk: Any) -> Any:
        """Return a chunk in the form of this call."""
        waiting: tuple[Any, ...] = ()
        if mode == "values":
            if self.version == "v2":
                waiting = tuple(chunk.get("__interrupt__", ()))
                chunk = {key: value for key, value in chunk.items() if key != "__interrupt__"}
            chunk = self._chosen(chunk)
        elif mode == "updates":
            chunk = {node: self._chosen(update) for node, update in chunk.items()}
        if self.version == "v2":
            part = {"type": mode, "ns": ns, "data": chunk}
            return {**part, "interrupts": waiting} if mode == "values" else part
        parts = [*([ns] if self.subgraphs else ()), *([mode] if self.paired else ()), chunk]
        return tuple(parts) if len(parts) > 1 else chunk

    def result(self, state: dict[str, Any]) -> Any:
        """Return the state of a thread as the result of this call."""
        if self.version == "v2":
            waiting = tuple(state.pop("__interrupt__", ()))
            return GraphOutput(self._chosen(state), waiting)
        return self._chosen(state)

    def show(self, mode: Mode, chunk: Any) -> None:
        """Print a chunk, if the call wants that."""
        if mode in self.printed:
            print(f"[{mode}] {chunk!r}")  # noqa: T201  # it is asked for

    def _chosen(self, state: Any) -> Any:
        if self.keys is None or not isinstance(state, dict):
            return state
        if isinstance(self.keys, str):
            return state.get(self.keys)
        return {key: value for key, value in state.items() if key in self.keys or key == "__interrupt__"}


def call_shape(
    where: str, mode: Any, version: Any, given: Mapping[str, Any], keys: Sequence[str], debug: bool = False
) -> CallShape:
    """Return the form of a call from its options, or raise `UsageError`. `keys` are those of the state."""
    if not given and version == "v1" and not debug:  # most calls
        return CallShape(*modes_of(mode))
    allowed.check_names(where, given, STREAM_NAMES if where.endswith("stream") else INVOKE_NAMES, UnknownOption)
    if version not in get_args(Version):
        raise UsageError(f'{where}: version is "v1" or "v2", got {described(version)}.')
    for option in ("interrupt_before", "interrupt_after"):
        check_no_breakpoint(where, option, given.get(option))
    if given.get("control") is not None:
        raise UsageError(f"{where}: control is not there: whoever stops reading a stream stops the run.")
    durability = given.get("durability")
    if durability not in (None, "sync", "async", "exit"):
        raise UsageError(f'{where}: durability is "sync", "async" or "exit", got {described(durability)}.')
    printed = given.get("print_mode") or []
    if given.get("debug") or (debug and given.get("debug") is None):
        printed = ["updates", "values"]
    chosen = _keys(where, given.get("output_keys"), keys)
    subgraphs = given.get("subgraphs", False)
    allowed.check_option(where, "subgraphs", subgraphs, allowed.BOOL, UsageError)
    return CallShape(*modes_of(mode), version, modes_of(printed)[0] if printed else [], chosen, subgraphs)


def check_no_breakpoint(where: str, option: str, nodes: Any, error: type[UsageError] = UsageError) -> None:
    """Raise `error` if a call or an agent is to stop before or after a node."""
    if nodes is not None and nodes != [] and nodes != ():
        raise error(f"{where}: {NO_BREAKPOINT.format(option=option)}")


def _keys(where: str, given: Any, known: Sequence[str]) -> str | list[str] | None:
    if given is None:
        return None
    for key in [given] if isinstance(given, str) else given:
        if key not in known:
            there = ", ".join(known)
            raise UsageError(f"{where}: output_keys are keys of the state, {there}; got {described(key)}.")
    return given if isinstance(given, str) else list(given)
