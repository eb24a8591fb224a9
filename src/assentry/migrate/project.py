"""The files of a project: found, read, rewritten together, and written one by one, whole or not at all."""

from __future__ import annotations

import codecs
import difflib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..core.wording import install_hint
from ..errors import UsageError
from .agents_sdk import AGENTS_SDK
from .langchain import LANGCHAIN
from .library import Library

try:
    from libcst import ParserSyntaxError

    from .program import Program, batch_of
except ImportError as error:
    raise UsageError(
        f"Migrating needs libcst, which is not installed ({error.name}): {install_hint('migrate')}"
    ) from None

LIBRARIES: tuple[Library, ...] = (AGENTS_SDK, LANGCHAIN)
"""The libraries whose programs can be migrated."""
SKIPPED = ("__pycache__", "build", "dist", "node_modules", "site-packages", "venv")
"""Folders without programs of the project's own; hidden folders and virtual environments are skipped too."""
REQUIREMENTS = ("pyproject.toml", "setup.cfg", "setup.py", "requirements*.txt")
"""Files that say what a project needs."""


class Note(NamedTuple):
    """Something for a person: a place to look at, or a file that is left alone."""

    path: Path
    line: int
    """The line; 0 for the whole file."""
    says: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.says}" if self.line else f"{self.path}: {self.says}"


class ProgramChange(NamedTuple):
    """A file that would change."""

    path: Path
    before: bytes
    after: bytes

    @property
    def difference(self) -> str:
        """The change as a unified diff."""
        name = self.path.as_posix()
        shown = name if self.path.is_absolute() else f"a/{name}", name if self.path.is_absolute() else f"b/{name}"
        before, after = (data.decode().splitlines(keepends=True) for data in (self.before, self.after))
        lines = difflib.unified_diff(before, after, *shown)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """Replace the file, whole or not at all; mode and owner stay.

        Raises:
            UsageError: The file is not any more what was read.
        """
        known = self.path.stat()
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self.after)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, stat.S_IMODE(known.st_mode))
            if hasattr(os, "chown") and (known.st_uid, known.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(name, known.st_uid, known.st_gid)
            if self.path.is_symlink() or self.path.read_bytes() != self.before:
                raise UsageError(f"{self.path} was changed meanwhile and is left alone.")
            os.replace(name, self.path)
        except BaseException:
            os.unlink(name)
            raise


class Migration(NamedTuple):
    """The changes of a project, and what a person has to look at."""

    changes: list[ProgramChange]
    notes: list[Note]


def plan_migration(paths: Sequence[Path], *, native: bool = False) -> Migration:
    """Return the changes for these files and folders; nothing is written."""
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise UsageError(f"{path} is not there.")
    found = list(dict.fromkeys(each for path in paths for each in _files(path)))
    notes: list[Note] = []
    texts = {path: text for path in found if (text := _read(path, notes)) is not None}
    before = dict(texts)
    for library in LIBRARIES:
        _rewrite(texts, before, library, native, paths, notes)
    changes = []
    for path, text in texts.items():
        if text == before[path]:
            continue
        if not path.stat().st_mode & 0o222:
            notes.append(Note(path, 0, "The file is read-only and is left alone."))
            continue
        mark = codecs.BOM_UTF8 if path.read_bytes().startswith(codecs.BOM_UTF8) else b""
        changes.append(ProgramChange(path, mark + before[path].encode(), mark + text.encode()))
    return Migration(changes, sorted(notes))


def _rewrite(
    texts: dict[Path, str],
    before: Mapping[Path, str],
    library: Library,
    native: bool,
    given: Sequence[Path],
    notes: list[Note],
) -> None:
    """Rewrite the programs of one library, in place. Notes have the lines of the files as they are."""
    library = library.for_project(before.values())
    programs: dict[Path, Program] = {}
    for path, text in texts.items():
        if re.search(rf"\b({'|'.join(library.modules)})\b", text) is None:
            continue
        try:
            program = Program(text, library)
        except (ParserSyntaxError, RecursionError) as error:
            line = getattr(error, "raw_line", 0)
            notes.append(Note(path, line, "The file cannot be parsed as Python and is left alone."))
            continue
        roots = _roots(path, given)
        local = next(((root, each) for root in roots for each in program.paths if _may_be_local(root, *each)), None)
        if local is not None:
            name = local[1][0].split(".")[0]
            says = f"{name} may be the module in {local[0]}, not {library.title}: the file is left alone."
            notes.append(Note(path, 0, says))
            continue
        programs[path] = program
    batch = batch_of(list(programs.values()))
    for path, program in programs.items():
        if program.code != texts[path]:
            notes.append(Note(path, 0, "The file cannot be written back as it was, so it is left alone."))
            continue
        read = program if texts[path] == before[path] else Program(before[path], library)
        texts[path] = program.rewritten(native=native, batch=batch)
        notes += [Note(path, each.line, each.says) for each in read.remarks(native=native)]


# -- finding and reading -----------------------------------------------------------------------------


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or the files in a folder that a project may have written."""
    if path.is_symlink() or not path.is_dir():
        yield path
        return
    for each in sorted(path.iterdir()):
        if each.is_symlink() or not each.is_dir():
            if _is_ours(each):
                yield each
        elif not (each.name in SKIPPED or each.name.startswith(".") or (each / "pyvenv.cfg").exists()):
            yield from _files(each)


def _is_ours(path: Path) -> bool:
    """Return True if a file in a folder is looked at."""
    if path.is_symlink():
        return path.suffix == ".py" or path.is_dir()
    return path.suffix in (".py", ".ipynb") or any(path.match(each) for each in REQUIREMENTS)


def _read(path: Path, notes: list[Note]) -> str | None:
    """Return the text of a program; None, and a note where there is something to say, for other files."""
    if path.is_symlink():
        notes.append(Note(path, 0, "A symbolic link is left alone."))
        return None
    try:
        data = path.read_bytes()
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"cannot be read ({error.strerror})"
        notes.append(Note(path, 0, f"The file {why} and is left alone."))
        return None
    if any(path.match(each) for each in REQUIREMENTS):
        notes += _requirements(path, text)
    if path.suffix == ".py":
        return text if _is_utf8(path, text, notes) else None
    if path.suffix == ".ipynb":
        if any(re.search(rf"\b(from|import) ({'|'.join(each.modules)})\b", text) for each in LIBRARIES):
            notes.append(Note(path, 0, "A notebook is left alone: change the imports in its cells by hand."))
    elif not any(path.match(each) for each in REQUIREMENTS):
        notes.append(Note(path, 0, "The file is not a Python program and is left alone."))
    return None


def _is_utf8(path: Path, text: str, notes: list[Note]) -> bool:
    """Return True unless the program says that it is in another encoding."""
    for line in text.splitlines()[:2]:
        said = re.match(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", line)
        if said is not None and said[1].lower().replace("_", "-") not in ("ascii", "us-ascii", "utf-8", "utf8"):
            notes.append(Note(path, 0, f"The file says that it is {said[1]}, not UTF-8, and is left alone."))
            return False
    return True


def _requirements(path: Path, text: str) -> Iterator[Note]:
    named = {name: new for library in LIBRARIES for name, new in library.distributions.items()}
    for number, line in enumerate(text.splitlines(), 1):
        for name, new in named.items():
            if re.search(rf"""(^\s*|["']){name}(?=\s*([]\[)=<>~!;@,"']|$))""", line):
                yield Note(path, number, f"The project needs {name}: put {new} in its place.")


# -- modules of the project's own --------------------------------------------------------------------


def _roots(file: Path, given: Iterable[Path]) -> list[Path]:
    """Return the folders from which a program may import: that of its topmost package, and those that were given."""
    folder = file.absolute().parent
    while (folder / "__init__.py").exists() and folder.parent != folder:
        folder = folder.parent
    above = [path.absolute() for path in given if path.is_dir() and not (path / "__init__.py").exists()]
    return list(dict.fromkeys([folder, *above, *(path / "src" for path in above)]))


def _may_be_local(folder: Path, module: str, name: str) -> bool:
    """Return True if a folder has this module, and the module may have this name.

    A folder without `__init__.py` does not hide an installed package.
    """
    first, *rest = module.split(".")
    if (folder / f"{first}.py").is_file() and not rest:
        found = folder / f"{first}.py"
    elif (folder / first / "__init__.py").is_file():
        inner = folder.joinpath(first, *rest)
        found = inner / "__init__.py" if inner.is_dir() else inner.with_suffix(".py")
        if name and ((inner / name).is_dir() or (inner / f"{name}.py").is_file()):
            return True
    else:
        return False
    if not found.is_file():
        return False
    return not name or re.search(rf"\b{name}\b", found.read_text(errors="replace")) is not None
