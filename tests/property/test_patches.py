"""Patches, drawn and damaged: the exact result, or a clear refusal with every file as it was; and never a step outside.

Files and edits are drawn, and turned into patches by a generator of its own. A damaged patch is judged by a second
reading of the format, which tries every place.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assentry import ApplyPatchOperation, InvalidArguments, PatchRefused, WorkspaceEditor, apply_diff
from assentry.errors import OutcomeUnknown
from assentry.tools import workspace_files
from assentry.tools.patch_format import Section, edits_of, read_patch, sections
from assentry.tools.patch_text import TextLines, apply_edits, unified_diff
from tests.draws import examples
from tests.tools.test_patch_format import in_patch
from tests.tools.test_workspace import tree

WORDS = st.sampled_from(
    ["a", "b", " a", "a ", "", "\t", "def f():", "    return 1", "*** End Patch", "@@ a", "-a", "ü😀"]
)


class Case(NamedTuple):
    """A text, the text that edits make of it, and a diff for them."""

    before: str
    after: str
    diff: str
    sure: bool
    """True if nothing in the text occurs twice, so the diff has one place."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a file and edits of it, and write them as a diff."""
    sure = draw(st.booleans())
    size = draw(st.integers(0, 14))
    words = draw(st.lists(WORDS, min_size=size, max_size=size))
    lines = [f"{n}{word}" for n, word in enumerate(words)] if sure else words
    end, bare = draw(st.sampled_from(["\n", "\r\n"])), draw(st.booleans())
    marks = draw(st.lists(st.sampled_from("   -"), min_size=size, max_size=size))
    new = draw(st.lists(st.lists(WORDS, max_size=2), min_size=size + 1, max_size=size + 1))
    added = [each if draw(st.integers(0, 3)) == 0 else [] for each in new]
    signed = [("+", text) for text in added[0]]
    for n, (mark, line) in enumerate(zip(marks, lines, strict=True)):
        signed += [(mark, line), *(("+", text) for text in added[n + 1])]
    after = [text for sign, text in signed if sign != "-"]
    bare = bare and bool(lines) and bool(lines[-1]) and bool(after) and bool(after[-1])
    before = _text(lines, end, bare)
    end = end if end in before else "\n"  # a file of one line or none does not say which end it would have
    return Case(before, _text(after, end, bare), _diff(draw, signed), sure)


def _text(lines: list[str], end: str, bare: bool) -> str:
    whole = "".join(f"{line}{end}" for line in lines)
    return whole.removesuffix(end) if bare else whole


def _diff(draw: st.DrawFn, signed: list[tuple[str, str]]) -> str:
    """Cut the lines into sections around the changes, with so many lines of context; the last may say it is the end."""
    context = draw(st.sampled_from([1, 2, 3, 99]))
    changed = [n for n, (sign, _) in enumerate(signed) if sign != " "]
    shown = sorted({at for n in changed for at in range(n - context, n + context + 1) if 0 <= at < len(signed)})
    out: list[str] = []
    for n, at in enumerate(shown):
        if n == 0 or shown[n - 1] != at - 1:
            out.append("@@")
        out.append("".join(signed[at]))
    if shown and shown[-1] == len(signed) - 1 and draw(st.booleans()):
        out.append("*** End of File")
    return "\n".join(out)


@given(cases())
@settings(max_examples=examples(300))
@example(Case("a\nb", "a\nb\nc", "@@\n b\n+c", True))
def test_a_diff_of_drawn_edits_gives_exactly_the_edited_text(case: Case) -> None:
    try:
        got = apply_diff(case.before, case.diff)
    except (PatchRefused, InvalidArguments):
        got = None
    only_adds = all(line[:1] in "@+*" for line in case.diff.split("\n"))
    assert got == case.after or (got is None and (only_adds or not case.sure))


@given(cases())
@settings(max_examples=examples(200))
def test_the_diff_for_a_person_describes_exactly_the_change(case: Case) -> None:
    """What is shown, applied by a second reading of unified diffs, gives the text that is written."""
    try:
        after = apply_diff(case.before, case.diff)
    except (PatchRefused, InvalidArguments):
        return
    old = TextLines.of(case.before)
    shown = unified_diff("a", "b", apply_edits(old, edits_of(old.texts, case.diff)))
    assert patched(case.before, shown) == after.replace("\r\n", "\n")


def patched(text: str, shown: str) -> str:
    """Apply a unified diff by its line numbers; line ends are told as LF."""
    old = text.replace("\r\n", "\n").split("\n")
    bare_before = old[-1] != ""
    old = old if bare_before else old[:-1]
    out: list[str] = []
    cursor, bare = 0, bare_before
    for line in shown.split("\n")[:-1]:
        if line.startswith("@@ -"):
            start, count = map(int, line.split(" ")[1][1:].split(","))
            start = start - 1 if count else start
            out += old[cursor:start]
            cursor = start
        elif (line.startswith(("--- a", "+++ b")) and not out and cursor == 0 and not line[5:]) or line.startswith(
            "\\"
        ):
            continue
        elif line[0] == "+":
            out.append(line[1:])
        else:
            assert old[cursor] == line[1:]
            out += [line[1:]] if line[0] == " " else []
            cursor += 1
    out += old[cursor:]
    return "\n".join(out) + ("" if bare or not out else "\n")


# -- damage ----------------------------------------------------------------------------------------


@st.composite
def damaged(draw: st.DrawFn) -> tuple[Case, str]:
    """Draw a case and a patch for it with lines dropped, doubled, changed, swapped, or cut off."""
    case = draw(cases())
    lines = in_patch("*** Update File: file", *case.diff.split("\n")).split("\n")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(["drop", "double", "change", "swap", "cut", "sign"]))
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            lines[at], lines[0] = lines[0], lines[at]
        elif how == "cut":
            lines = [*lines[:at], lines[at][: draw(st.integers(0, 5))]]
        elif how == "change":
            lines[at] = lines[at][:1] + draw(WORDS)
        else:
            lines[at] = draw(st.sampled_from(" +-@*x")) + lines[at][1:]
    return case, "\n".join(lines)


def places(lines: list[str], section: Section, cursor: int) -> set[int]:
    """Every place that a section can mean, by trying them all."""
    context = section.context
    fits = [n for n in range(cursor, len(lines) - len(context) + 1) if lines[n : n + len(context)] == context]
    if section.at_end:
        fits = [n for n in fits if n == len(lines) - len(context)]
    if not section.anchors:
        return set(fits) if context or section.at_end or not lines else set()
    found: set[int] = set()
    first, *rest = section.anchors
    for start in _lines_like(lines, first):
        at: int | None = start
        for anchor in rest:
            at = next((n for n in _lines_like(lines, anchor) if at is not None and n > at), None)
        if at is not None:
            below = [n for n in fits if n > at]
            if not context and not section.at_end:
                below = [at + 1] if at + 1 >= cursor else []
            found |= set(below[:1])
    return found


def _lines_like(lines: list[str], anchor: str) -> list[int]:
    exact = [n for n, line in enumerate(lines) if line == anchor]
    return exact or [n for n, line in enumerate(lines) if line.strip() == anchor.strip()]


def meant(text: str, diff: str) -> list[str] | None:
    """The lines that a well-formed diff makes of a text; None if it has no place, or several."""
    lines, out, cursor = TextLines.of(text).texts, list[str](), 0
    for section in sections(diff):
        found = places(lines, section, cursor)
        if len(found) != 1:
            return None
        [place] = found
        out += lines[cursor:place]
        out += [each for sign, each in section.lines if sign != "-"]
        cursor = place + len(section.context)
    return out + lines[cursor:]


@pytest.fixture(scope="module")
def desk() -> Iterator[Path]:
    """A workspace, and a directory beside it; one for all examples, since what they do is undone."""
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        (made / "root" / "src").mkdir(parents=True)
        (made / "outside" / "deep").mkdir(parents=True)
        for file in ("outside/a", "outside/deep/a", "root/other"):
            (made / file).write_text("a\n")
        (made / "root" / "out").symlink_to(made / "outside")
        (made / "root" / "src" / "up").symlink_to("../..")
        (made / "root" / "link").symlink_to(made / "outside" / "a")
        yield made


@given(damaged())
@settings(max_examples=examples(300))
def test_a_damaged_patch_gives_what_it_says_or_changes_nothing(desk: Path, drawn: tuple[Case, str]) -> None:
    case, patch = drawn
    file = desk / "root" / "file"
    file.write_bytes(case.before.encode())
    before = tree(desk)
    try:
        [operation] = read_patch(patch)
        assert (operation.type, operation.path) == ("update_file", "file")
        WorkspaceEditor(desk / "root").apply([operation])
    except (PatchRefused, InvalidArguments, ValueError, AssertionError):
        assert tree(desk) == before
        return
    expected = meant(case.before, operation.diff or "")
    assert expected is not None, "it was applied although nobody can know where"
    assert TextLines.of(file.read_bytes().decode()).texts == expected
    after = tree(desk)
    del before["root/file"], after["root/file"]
    assert after == before


@given(cases(), st.text(max_size=40), st.integers(0, 10))
@settings(max_examples=examples(100))
def test_any_text_at_all_is_read_or_refused(case: Case, noise: str, at: int) -> None:
    whole = in_patch("*** Update File: file", *case.diff.split("\n"))
    for text in (noise, whole[:at] + noise + whole[at:], f"*** Begin Patch\n{noise}\n*** End Patch"):
        with suppress(InvalidArguments):
            assert read_patch(text)


# -- several files ---------------------------------------------------------------------------------


@given(st.lists(cases(), min_size=1, max_size=4), st.integers(0, 4))
@settings(max_examples=examples(150))
def test_a_patch_of_several_files_is_applied_whole_or_not_at_all(drawn: list[Case], broken: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        operations = []
        for n, case in enumerate(drawn):
            (root / f"{n}").write_bytes(case.before.encode())
            operations.append(ApplyPatchOperation("update_file", f"{n}", case.diff))
        if broken < len(drawn):
            operations.insert(broken, ApplyPatchOperation("update_file", "9", "-a line that is not there"))
            (root / "9").write_text("a\n")
        before = tree(root)
        try:
            WorkspaceEditor(root).apply(operations)
        except (PatchRefused, InvalidArguments):
            assert tree(root) == before
        else:
            assert broken >= len(drawn)
            for n, case in enumerate(drawn):
                assert (root / f"{n}").read_bytes().decode() == case.after


# -- paths -----------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("..", ".", "", "/", "out", "src", "up", "link", "outside", "deep", "a", "new"),
        "~",
        "\\",
        "..\\",
        "\0",
        "\n",
        " ",
    ]
) | st.text(max_size=3)


@given(st.lists(PIECES, max_size=7).map("/".join), st.integers(0, 3))
@settings(max_examples=examples(300))
@example("out/a", 0)
@example("src/up/outside/a", 1)
@example("../outside/a", 2)
@example("link", 3)
@example("out/new/a", 0)
def test_no_path_leads_outside(desk: Path, path: str, kind: int) -> None:
    outside, inside = tree(desk / "outside"), tree(desk / "root")
    operation = [
        ApplyPatchOperation("create_file", path, "+x"),
        ApplyPatchOperation("update_file", path, "-a\n+x"),
        ApplyPatchOperation("delete_file", path),
        ApplyPatchOperation("update_file", "other", None, move_to=path),
    ][kind]
    editor = WorkspaceEditor(desk / "root")
    try:
        editor.preview([operation])
        editor.apply([operation])
    except (PatchRefused, InvalidArguments):
        assert tree(desk / "root") == inside
    else:
        changed = (desk / "root" / path).resolve()
        assert changed.is_relative_to((desk / "root").resolve())
        if operation.type == "create_file":
            editor.apply([ApplyPatchOperation("delete_file", path)])
        elif operation.move_to:
            editor.apply([ApplyPatchOperation("update_file", path, None, move_to="other")])
        else:
            (desk / "root" / path).write_text("a\n")
    assert tree(desk / "outside") == outside


# -- races -----------------------------------------------------------------------------------------

CALLS = ("open", "stat", "fstat", "link", "rename", "unlink", "mkdir", "rmdir", "dup")
RACING: dict[str, tuple[str, ...]] = {
    "update": ("*** Update File: d/e/a", "-a", "+b"),
    "create": ("*** Add File: d/e/new", "+x"),
    "create deep": ("*** Add File: d/e/f/g/new", "+x"),
    "delete": ("*** Delete File: d/e/a",),
    "move": ("*** Update File: d/e/a", "*** Move to: d/moved"),
    "several": ("*** Update File: d/e/a", "-a", "+b", "*** Delete File: d/b", "*** Add File: d/e/new", "+x"),
}


@contextmanager
def at_calls(monkeypatch: pytest.MonkeyPatch, numbers: dict[int, Callable[[], Any]]) -> Iterator[list[int]]:
    """Do something just before these calls of the operating system, counted over the editor's whole work."""
    count, busy = [0], [False]

    def wrapped(real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if not busy[0]:
                busy[0] = True
                count[0] += 1
                numbers.get(count[0], lambda: None)()
                busy[0] = False
            return real(*args, **options)

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(workspace_files.os, name, wrapped(getattr(os, name)))
        yield count


def swapping(root: Path, outside: Path, name: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Put a link to a like directory outside in the place of a directory; and the directory back."""
    at, aside = root / name, root / "aside"

    def swap() -> None:
        at.rename(aside)
        at.symlink_to(outside / name)

    def back() -> None:
        if at.is_symlink():
            at.unlink()
            aside.rename(at)

    return swap, back


def furnish(at: Path) -> None:
    (at / "d" / "e").mkdir(parents=True)
    (at / "d" / "e" / "a").write_text("a\n")
    (at / "d" / "b").write_text("b\n")


@pytest.mark.parametrize("name", ["d", "d/e"])
@pytest.mark.parametrize("kind", RACING)
@pytest.mark.parametrize("stays", [False, True])
def test_a_directory_swapped_for_a_link_at_any_moment_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, stays: bool
) -> None:
    outside = tmp_path / "outside"
    furnish(outside)
    before = tree(outside)
    number = 0
    while True:
        number += 1
        root = tmp_path / f"{number}"
        furnish(root)
        swap, back = swapping(root, outside, name)
        editor, operations = WorkspaceEditor(root), read_patch(in_patch(*RACING[kind]))
        done = False
        with at_calls(monkeypatch, {number: swap, **({} if stays else {number + 2: back})}) as count:
            try:
                editor.apply(operations)
                done = True
            except PatchRefused:
                pass
        assert tree(outside) == before, number
        back()
        if not done:
            assert {key for key in tree(root) if key != "aside"} == {"d", "d/b", "d/e", "d/e/a"}, number
            assert (root / "d" / "e" / "a").read_text() == "a\n"
        if count[0] < number:
            assert done
            break
    assert number > 10


def test_a_thread_that_swaps_a_directory_for_a_link_never_leads_a_patch_outside(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    furnish(root)
    furnish(outside)
    before = tree(outside)
    at, aside = root / "d" / "e", root / "aside"

    def insists(do: Callable[[], None]) -> None:
        """Do it, whatever the editor has put in the way."""
        for _ in range(1000):
            try:
                return do()
            except OSError:
                shutil.rmtree(root / "d" / "e", ignore_errors=True)
        raise AssertionError("the directory cannot be swapped")

    def swaps() -> None:
        for _ in range(1500):
            at.rename(aside)
            insists(lambda: at.symlink_to(outside / "d" / "e"))
            at.unlink()
            insists(lambda: os.rename(aside, at))

    editor = WorkspaceEditor(root)
    new, gone, change, again = (
        read_patch(in_patch(*lines))
        for lines in (
            ["*** Add File: d/e/new", "+x"],
            ["*** Delete File: d/e/new"],
            ["*** Update File: d/e/a", "-a", "+b"],
            ["*** Update File: d/e/a", "-b", "+a"],
        )
    )
    other = threading.Thread(target=swaps)
    other.start()
    for _ in range(60):
        for operations in (new, gone, change, again):
            with suppress(PatchRefused, OutcomeUnknown):
                editor.apply(operations)
    other.join()
    assert tree(outside) == before
