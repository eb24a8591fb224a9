"""The state of a thread: its messages and the keys of its `state_schema`, derived from the facts of its runs.

Facts keep updates in the order in which they were made, and never change. An update may hide, replace or reorder
messages by their ids; a key's updates go through the key's reducer, if it has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Required, get_args, get_origin, get_type_hints
from typing import NotRequired as StandardNotRequired

import typing_extensions
from msgspec import Raw, Struct
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from ..core.digest import BadJSON
from ..core.facts import decode
from ..core.wording import described
from ..errors import InvalidDefinition, InvalidInput, UsageError
from ..runtime.value import question_json

State = dict[str, Any]
"""The state of a thread: `{"messages": [...]}`, and the keys of its schema."""

OWN_KEYS = frozenset(("messages", "jump_to", "structured_response"))
"""The keys that every state has, and that no reducer of the user's is for."""
OVERWRITE = "assent:overwrite"
"""The key of a recorded value that takes the place of the earlier ones, past the reducer."""
QUALIFIERS = (Required, StandardNotRequired, typing_extensions.NotRequired, typing_extensions.ReadOnly)


class Overwrite(Struct, frozen=True):
    """A value of a state key that takes the place of the earlier value, whatever the key's reducer would do."""

    value: Any


class OmitFromState(Struct, frozen=True):
    """A mark in the annotation of a state key: `input` keeps it out of inputs, `output` out of results."""

    input: bool = True
    output: bool = True


OmitFromInput = OmitFromState(input=True, output=False)
"""A mark for a state key that no input may set."""
OmitFromOutput = OmitFromState(input=False, output=True)
"""A mark for a state key that results do not have."""
PrivateStateAttr = OmitFromState(input=True, output=True)
"""A mark for a state key that only middleware and tools use."""


class StateKey(Struct, frozen=True):
    """A key of a state: its type, its reducer, and where it is seen."""

    name: str
    adapter: TypeAdapter[Any]
    reducer: Callable[[Any, Any], Any] | None
    initial: Callable[[], Any] | None
    """Makes the value that the first update is added to; None if there is none."""
    in_input: bool = True
    in_output: bool = True
    tracked: bool = True
    """False for a key that is kept only while a run is driven, and never recorded."""

    def load(self, value: Any) -> Any:
        """Return a recorded value as the key's type; as it is if it does not fit, as updates for a reducer may."""
        try:
            return self.adapter.validate_python(value)
        except (ValidationError, TypeError):
            return value

    def reduce(self, values: State, value: Any) -> None:
        """Put an update into the values."""
        if type(value) is dict and value.keys() == {OVERWRITE}:
            values[self.name] = self.load(value[OVERWRITE])
        elif self.reducer is None:
            values[self.name] = self.load(value)
        else:
            update = self.load(value)
            values[self.name] = self.reducer(values[self.name], update) if self.name in values else update


class StateSchema:
    """The keys of a thread's state beside its messages, from the schemas of the agent and its middleware."""

    def __init__(self, schemas: Iterable[Any] = ()) -> None:
        self.keys: dict[str, StateKey] = {}
        for schema in schemas:
            for name, hint in _hints(schema).items():
                if name not in OWN_KEYS:
                    self.keys[name] = _key(name, hint)

    def values(self, updates: Iterable[State]) -> State:
        """Return the values of the keys after these updates; a key that is not in the schema any more is left out."""
        values: State = {name: key.initial() for name, key in self.keys.items() if key.initial is not None}
        for update in updates:
            for name, value in update.items():
                if (key := self.keys.get(name)) is not None:
                    key.reduce(values, value)
        return values

    def check_update(self, whose: str, update: Mapping[str, Any]) -> State:
        """Return the keys of an update as JSON, without the messages; raise `UsageError` for an unknown key."""
        out: State = {}
        for name, value in update.items():
            if name in OWN_KEYS:
                continue
            if name not in self.keys:
                known = ", ".join(sorted({"messages", *self.keys}))
                raise UsageError(
                    f"{whose} gave {name!r}, and the state of a thread has: {known}. Declare it: "
                    "create_agent(state_schema=...), or the state_schema of a middleware."
                )
            if self.keys[name].tracked:
                out[name] = _json(whose, name, value)
        return out

    def check_input(self, given: Mapping[str, Any]) -> State:
        """Return the keys of an input as JSON; raise `InvalidInput` for a key that an input cannot set."""
        other = sorted(name for name in given if name != "messages" and not self._is_input(name))
        if other:
            known = ", ".join(repr(name) for name in ("messages", *filter(self._is_input, self.keys)))
            private = [name for name in other if name in self.keys]
            if private:
                raise InvalidInput(
                    f"The key {private[0]!r} of the state is private: hooks and tools set it, and an input cannot. "
                    f"The input of a thread has {known}."
                )
            raise InvalidInput(
                f"The input of a thread has {known}; there is no {', '.join(map(repr, other))}. Declare it: "
                "create_agent(state_schema=...); or give it as the context."
            )
        return {name: _json("The input", name, value) for name, value in given.items() if name != "messages"}

    def _is_input(self, name: str) -> bool:
        return name in self.keys and self.keys[name].in_input

    def output(self, values: State) -> State:
        """Return the values that a result has."""
        return {name: value for name, value in values.items() if self.keys[name].in_output}


def _hints(schema: Any) -> dict[str, Any]:
    """Return the annotations of a schema: a TypedDict, a dataclass or a pydantic model."""
    try:
        if not inspect.isclass(schema):
            raise TypeError("it is no class")
        return get_type_hints(schema, include_extras=True)
    except (TypeError, NameError) as error:
        raise InvalidDefinition(
            f"state_schema is a TypedDict such as a subclass of AgentState, got {described(schema)}: {error}"
        ) from None


def _key(name: str, hint: Any) -> StateKey:
    while get_origin(hint) in QUALIFIERS:
        hint = get_args(hint)[0]
    marks: tuple[Any, ...] = getattr(hint, "__metadata__", ())
    plain = get_args(hint)[0] if marks else hint
    while get_origin(plain) in QUALIFIERS:
        plain = get_args(plain)[0]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(plain)
    except (PydanticUserError, TypeError, NameError):
        adapter = TypeAdapter(Any)  # a type of the user's that pydantic cannot read: values are kept as they are
    omits = [mark for mark in marks if hasattr(mark, "input") and hasattr(mark, "output")]
    named = {getattr(mark, "__name__", type(mark).__name__) for mark in marks}
    reducer = next((mark for mark in reversed(marks) if _is_reducer(mark)), None)
    return StateKey(
        name,
        adapter,
        reducer,
        _initial(plain) if reducer is not None else None,
        in_input=not any(mark.input for mark in omits),
        in_output=not any(mark.output for mark in omits),
        tracked=not named & {"UntrackedValue", "EphemeralValue"},
    )


def _is_reducer(mark: Any) -> bool:
    """Return True for a function of the value so far and the update."""
    if not callable(mark) or inspect.isclass(mark):
        return False
    try:
        parameters = inspect.signature(mark).parameters.values()
    except (TypeError, ValueError):
        return True  # a function of C, such as operator.or_
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) == 2


def _initial(hint: Any) -> Callable[[], Any] | None:
    kind = get_origin(hint) or hint
    kind = {Sequence: list, AbstractSet: set, Mapping: dict}.get(kind, kind)
    try:
        kind()
    except Exception:
        return None
    return kind  # type: ignore[no-any-return]


def _json(whose: str, name: str, value: Any) -> Any:
    """Return a value of a key as JSON that can be recorded."""
    overwrites = type(value).__name__ == "Overwrite" and hasattr(value, "value")
    try:
        made = decode(question_json(value.value if overwrites else value)[0])
    except BadJSON as error:
        raise UsageError(
            f"{whose} gave {name!r} a value that cannot be recorded: {error}. A state holds JSON, data classes, "
            "pydantic models and messages; live objects belong in the context."
        ) from None
    return {OVERWRITE: made} if overwrites else made


EMPTY = StateSchema()
"""The schema of a state that has messages only."""


def updates_in(update: Raw) -> list[State]:
    """Return the updates that a fact has."""
    return decode(update) if update else []
