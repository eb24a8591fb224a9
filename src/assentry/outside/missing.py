"""The error of an adapter whose library is not installed."""

from __future__ import annotations

from ..core.wording import install_hint
from ..errors import UsageError


def missing_library(name: str, error: ModuleNotFoundError, extra: str) -> UsageError:
    """Return the error that names what is missing and the extra that installs it."""
    return UsageError(f"{name} needs {error.name}, which is not installed: {install_hint(extra)}.")
