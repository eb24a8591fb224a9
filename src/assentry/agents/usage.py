"""The names of `agents.usage`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ..core import facts as f
from ..core.run import Run, Turn, usage_of
from .absent import find_absent

__all__ = ["InputTokensDetails", "OutputTokensDetails", "RequestUsage", "Usage"]


class InputTokensDetails(Struct):
    """The kinds of input tokens."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0
    """Always 0."""


class OutputTokensDetails(Struct):
    """The kinds of output tokens."""

    reasoning_tokens: int = 0


class RequestUsage(Struct):
    """The tokens of one request."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)


class Usage(f.Usage, kw_only=True):
    """The requests and tokens that model calls have used, with the kinds of tokens and the single requests."""

    input_tokens_details: Any = None
    output_tokens_details: Any = None
    total_tokens: int = 0
    request_usage_entries: list[RequestUsage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cached_tokens = getattr(self.input_tokens_details, "cached_tokens", self.cached_tokens) or 0
        self.reasoning_tokens = getattr(self.output_tokens_details, "reasoning_tokens", self.reasoning_tokens) or 0
        self._sum_up()

    def _sum_up(self) -> None:
        self.total_tokens = self.input_tokens + self.output_tokens
        self.input_tokens_details = InputTokensDetails(self.cached_tokens)
        self.output_tokens_details = OutputTokensDetails(self.reasoning_tokens)

    def add(self, other: f.Usage) -> None:
        """Add another usage to this one."""
        super().add(other)
        self._sum_up()
        if isinstance(other, Usage) and other.request_usage_entries:
            self.request_usage_entries += other.request_usage_entries
        elif other.requests == 1 and other.total_tokens:
            details = InputTokensDetails(other.cached_tokens), OutputTokensDetails(other.reasoning_tokens)
            self.request_usage_entries.append(
                RequestUsage(other.input_tokens, other.output_tokens, other.total_tokens, *details)
            )

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers that a run records, without the zeros at the end."""
        return f.Usage(*(getattr(self, name) for name in f.Usage.__struct_fields__)).numbers()

    @classmethod
    def of(cls, used: f.Usage) -> Usage:
        """Return a usage in this form."""
        return used if isinstance(used, cls) else cls(**{name: getattr(used, name) for name in used.__struct_fields__})

    @classmethod
    def of_run(cls, run: Run) -> Usage:
        """Return the usage of a run and its branches, with each of its model calls."""
        used = cls()
        for entry in run.entries:
            if type(entry) is Turn and type(entry.reply) is f.Replied:
                used.add(usage_of(entry.reply))
        for child in run.children():
            used.add(cls.of_run(child))
        return used


if not TYPE_CHECKING:
    __getattr__ = find_absent(__name__)
