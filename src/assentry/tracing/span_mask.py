"""The masks of spans: arguments that only a decider may see are in no span, whoever quotes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.digest import canonical
from ..core.mask import mask_secrets, masked_object, masked_text, secrets_in, secrets_of
from ..core.run import CallState, Run
from ..core.transcript import Item, as_function

Redacted = Callable[[], Mapping[str, Sequence[str]]]
"""Returns the names of the arguments to mask, by tool."""


class SpanMask:
    """The masks of one drive's spans. It learns the secrets of the calls that it sees, and hides them elsewhere too."""

    def __init__(self, redacted: Redacted) -> None:
        self._redacted = redacted
        self._secrets: set[str] = set()

    def learn_run(self, run: Run) -> None:
        """Learn the secrets of all calls of a run and its branches, which earlier drives may have made."""
        if self._redacted():
            for state in run.calls.values():
                self.learn_call(state)
                if state.child is not None:
                    self.learn_run(state.child)

    def learn_call(self, state: CallState) -> None:
        """Learn the secrets of one call: in the arguments that the model gave, and in those that a person gave."""
        redacted = self._redacted()
        names = {*redacted.get(state.proposal.name, ()), *redacted.get(state.tool, ())}
        if names:
            self._secrets |= secrets_in(state.proposal.arguments, names) | secrets_in(bytes(state.args).decode(), names)

    def arguments(self, names: Sequence[str], args: dict[str, Any]) -> str:
        """Return the arguments of a call as JSON text."""
        self._secrets |= secrets_of(args, names)
        return self.words(canonical(masked_object(args, names)).decode())

    def items(self, items: Sequence[Item]) -> list[Item]:
        """Return items of a conversation with the arguments of their calls masked."""
        redacted = self._redacted()
        return [self._item(item, redacted) for item in items] if redacted else list(items)

    def _item(self, item: Item, redacted: Mapping[str, Sequence[str]]) -> Item:
        call = as_function(item)
        names = redacted.get(str(call.get("name")), ()) if call.get("type") == "function_call" else ()
        if not names:
            return item
        given = str(call.get("arguments"))
        self._secrets |= secrets_in(given, names)
        return {**call, "arguments": masked_text(given, names)}

    def words(self, text: str) -> str:
        """Return a text without the secrets that are known."""
        return mask_secrets(text, self._secrets) if self._secrets else text

    def value(self, value: Any) -> Any:
        """Return a value of JSON without the secrets that are known, in whichever text of it they are."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.words(value)
        if isinstance(value, Mapping):
            return {key: self.value(each) for key, each in value.items()}
        return [self.value(each) for each in value] if isinstance(value, list | tuple) else value
