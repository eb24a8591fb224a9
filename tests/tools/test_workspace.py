"""The editor that ships: what it does to files, and what it refuses."""

import contextlib
import errno
import hashlib
import json
import os
import signal
import socket
import stat
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assentry import (
    ApplyPatchOperation,
    Diff,
    InvalidArguments,
    InvalidDefinition,
    PatchRefused,
    Sentence,
    WorkspaceEditor,
)
from assentry.errors import NotAsShown, OutcomeUnknown
from assentry.tools import workspace, workspace_files, workspace_plan
from assentry.tools.patch_format import read_patch
from assentry.tools.workspace_files import digest_of
from assentry.tools.workspace_plan import EARLIER_PLAN, PLAN, Changes
from tests.runtime.support import HANGS
from tests.tools.test_patch_format import in_patch


def tree(root: Path) -> dict[str, Any]:
    """Everything below a directory: what each file holds, and its mode; and where each link leads."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        else:
            found[name] = "other" if not path.is_dir() else "directory"
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with some files, and a directory beside it that must never change."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret\n")
    made = tmp_path / "root"
    (made / "src").mkdir(parents=True)
    (made / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (made / "notes.txt").write_text("hello\n")
    return made


def apply(root: Path, *lines: str, **options: Any) -> str:
    return WorkspaceEditor(root, **options).apply(read_patch(in_patch(*lines)))


def refused(root: Path, *lines: str, **options: Any) -> str:
    """Return why a patch is refused, and see that nothing inside or beside the workspace has changed."""
    before = tree(root.parent)
    with pytest.raises((PatchRefused, InvalidArguments)) as error:
        apply(root, *lines, **options)
    assert tree(root.parent) == before
    return str(error.value)


UPDATE = ("*** Update File: src/a.py", "@@", "-two", "+TWO")


def test_files_are_created_changed_moved_and_deleted_together(root: Path) -> None:
    told = apply(
        root, *UPDATE, "*** Add File: docs/deep/b.md", "+new",
        "*** Update File: notes.txt", "*** Move to: old/notes.md", "@@", "-hello", "+bye",
    )  # fmt: skip
    assert told == "Changed src/a.py.\nCreated docs/deep/b.md.\nMoved notes.txt to old/notes.md and changed it."
    assert (root / "src" / "a.py").read_text() == "one\nTWO\nthree\n"
    assert (root / "docs" / "deep" / "b.md").read_text() == "new\n"
    assert (root / "old" / "notes.md").read_text() == "bye\n"
    assert apply(root, "*** Delete File: src/a.py") == "Deleted src/a.py."
    assert sorted(tree(root)) == ["docs", "docs/deep", "docs/deep/b.md", "old", "old/notes.md", "src"]


def test_one_operation_at_a_time_works_as_in_an_editor_of_your_own(root: Path) -> None:
    editor = WorkspaceEditor(root)
    made = editor.create_file(ApplyPatchOperation("create_file", "b", "+x"))
    assert (made.status, made.output) == ("completed", "Created b.")
    assert editor.update_file(ApplyPatchOperation("update_file", "b", "-x\n+y")).output == "Changed b."
    assert (root / "b").read_text() == "y\n"
    assert editor.delete_file(ApplyPatchOperation("delete_file", "b")).output == "Deleted b."
    with pytest.raises(InvalidArguments):
        editor.delete_file(ApplyPatchOperation("update_file", "notes.txt", "-hello"))


def test_mode_stays_and_a_new_file_has_the_usual_one(root: Path) -> None:
    script = root / "src" / "a.py"
    script.chmod(0o4751)
    apply(root, *UPDATE)
    assert stat.S_IMODE(script.stat().st_mode) == 0o751, "a bit that lends rights is not kept"
    apply(root, "*** Update File: src/a.py", "*** Move to: b")
    assert stat.S_IMODE((root / "b").stat().st_mode) == 0o751
    apply(root, "*** Add File: c", "+x")
    (root / "usual").touch()
    assert (root / "c").stat().st_mode == (root / "usual").stat().st_mode


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays_or_the_patch_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(root / "src" / "a.py", 1234, 5678)
    apply(root, *UPDATE)
    found = (root / "src" / "a.py").stat()
    assert (found.st_uid, found.st_gid) == (1234, 5678)

    def cannot(*args: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(workspace_files.os, "fchown", cannot)
    assert "belongs to another user" in refused(root, "*** Update File: src/a.py", "-TWO")


def test_a_hard_link_elsewhere_keeps_the_old_content(root: Path) -> None:
    other = root.parent / "outside" / "linked"
    os.link(root / "src" / "a.py", other)
    apply(root, *UPDATE)
    assert other.read_text() == "one\ntwo\nthree\n"
    apply(root, "*** Delete File: src/a.py")
    assert other.read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "../outside/secret.txt", "src/../../outside/secret.txt", "src/../notes.txt", "..", ".",
        "./notes.txt", "src/", "src//a.py", "notes.txt/", "src\\a.py", "C:\\x", " notes.txt", "notes.txt ", "src /a.py",
        ".git/hooks/pre-commit", "src/.GIT/config", ".git", "a" * 256, "a/" * 600 + "a", "\u00e9" * 200,
    ],
)  # fmt: skip
def test_a_path_that_leaves_or_is_odd_or_protected_is_refused(root: Path, path: str) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    for kind in (["*** Delete File: "], ["*** Add File: "], ["*** Update File: ", "-secret"]):
        assert "the path" in refused(root, kind[0] + path, *kind[1:])
    assert "the path" in refused(root, "*** Update File: notes.txt", f"*** Move to: {path}")


def test_protected_names_are_yours_to_choose(root: Path) -> None:
    assert "protected" in refused(root, *UPDATE, protected=[".git", "SRC"])
    apply(root, "*** Add File: .git/description", "+x", protected=[])


def test_two_operations_on_one_file_are_refused_as_are_names_that_differ_only_in_case(root: Path) -> None:
    for other in ("src/a.py", "src/A.py", "SRC/a.py"):
        assert "twice" in refused(root, *UPDATE, f"*** Delete File: {other}")
    assert "twice" in refused(root, "*** Update File: notes.txt", "*** Move to: notes.txt")
    assert "needs a directory" in refused(root, "*** Add File: x", "+a", "*** Add File: x/y", "+b")


LINKS: dict[str, Callable[[Path], None]] = {
    "file": lambda root: (root / "link").symlink_to(root.parent / "outside" / "secret.txt"),
    "file inside": lambda root: (root / "link").symlink_to("notes.txt"),
    "nowhere": lambda root: (root / "link").symlink_to(root.parent / "outside" / "new"),
}


@pytest.mark.parametrize("kind", LINKS)
def test_a_symbolic_link_at_the_end_is_not_followed_wherever_it_leads(root: Path, kind: str) -> None:
    LINKS[kind](root)
    for lines in (["*** Update File: link", "-secret"], ["*** Delete File: link"], ["*** Add File: link", "+x"]):
        assert "link is a symbolic link" in refused(root, *lines)
    refused(root, "*** Update File: notes.txt", "*** Move to: link")
    refused(root, "*** Update File: link", "*** Move to: b")


def test_a_symbolic_link_in_the_middle_is_not_followed_wherever_it_leads(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "outside")
    (root / "in").symlink_to("src")
    for lines in (
        ["*** Update File: out/secret.txt", "-secret"],
        ["*** Delete File: out/secret.txt"],
        ["*** Add File: out/new", "+x"],
        ["*** Add File: out/a/b/new", "+x"],
        ["*** Update File: notes.txt", "*** Move to: out/notes.txt"],
        ["*** Update File: in/a.py", "-two"],
    ):
        assert "symbolic link" in refused(root, *lines)


def test_only_regular_files_are_touched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "fifo")
    monkeypatch.chdir(root)  # the address of a socket must be short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    for name in ("fifo", "socket", "src"):
        assert "not a regular file" in refused(root, f"*** Update File: {name}", "-x")
        assert "not a regular file" in refused(root, f"*** Delete File: {name}")
        refused(root, f"*** Add File: {name}", "+x")
    refused(root, "*** Add File: notes.txt/x", "+x")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["*** Add File: notes.txt", "+x"], "exists already"),
        (["*** Update File: nothing", "-x"], "does not exist"),
        (["*** Delete File: nothing"], "does not exist"),
        (["*** Delete File: no/thing"], "does not exist"),
        (["*** Update File: nothing", "*** Move to: b"], "does not exist"),
        (["*** Update File: notes.txt", "*** Move to: binary"], "exists already"),
        (["*** Update File: notes.txt", "-bye"], "does not have the line 'bye'"),
        (["*** Update File: notes.txt", "-hello", "+hello"], "changes nothing"),
        (["*** Update File: notes.txt", " hello"], "changes nothing"),
        (["*** Update File: binary", "-x"], "not text in UTF-8"),
        (["*** Update File: nul", "-x"], "not text in UTF-8"),
        (["*** Update File: read-only", "-x"], "read-only"),
        (["*** Delete File: read-only"], "read-only"),
        (["*** Update File: large", "-x"], "larger than 1000 bytes"),
        (["*** Add File: b", "+" + "x" * 1000], "larger than 1000 bytes"),
        (["*** Update File: notes.txt", " hello", "+" + "x" * 1000], "larger than 1000 bytes"),
    ],
)
def test_a_patch_that_does_not_fit_changes_no_file(root: Path, lines: list[str], why: str) -> None:
    (root / "binary").write_bytes(b"\xff\xfe\n")
    (root / "nul").write_bytes(b"x\0\n")
    (root / "large").write_bytes(b"x\n" * 501)
    (root / "read-only").write_text("x\n")
    (root / "read-only").chmod(0o444)
    assert why in refused(root, *UPDATE, "*** Add File: new/file", "+x", *lines, max_file_bytes=1000)


def test_what_is_not_text_can_be_moved_and_deleted(root: Path) -> None:
    (root / "binary").write_bytes(b"\xff\0")
    apply(root, "*** Update File: binary", "*** Move to: b/c")
    assert (root / "b" / "c").read_bytes() == b"\xff\0"
    delete = read_patch(in_patch("*** Delete File: b/c"))
    assert WorkspaceEditor(root).preview(delete).blocks[0].text == "2 bytes that are not text in UTF-8"  # type: ignore[union-attr]
    WorkspaceEditor(root).apply(delete)


# -- all or nothing --------------------------------------------------------------------------------

SEVERAL = (
    *UPDATE, "*** Add File: new/b", "+x", "*** Update File: notes.txt", "*** Move to: moved", "-hello", "+bye",
    "*** Delete File: gone", "*** Update File: last", "-x", "+y",
)  # fmt: skip


@pytest.mark.parametrize("call", ["link", "rename", "fsync", "open", "mkdir", "fchmod", "stat"])
def test_a_failure_at_any_step_leaves_every_file_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    for name in ("gone", "last"):
        (root / name).write_text("x\n")
    before, editor, operations = tree(root), WorkspaceEditor(root), read_patch(in_patch(*SEVERAL))
    real = getattr(os, call)
    for failing in range(1, 60):
        count = 0

        def failed(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == failing:  # noqa: B023
                raise OSError(28, "No space left on device")
            return real(*args, **options)

        with monkeypatch.context() as patch:
            patch.setattr(workspace_files.os, call, failed)
            try:
                editor.apply(operations)
            except PatchRefused as error:
                said = str(error)
            else:
                break
        assert "No space left on device" in said
        assert tree(root) == before, failing
    assert failing > 1
    assert (root / "moved").read_text() == "bye\n"
    assert not [name for name in tree(root) if ".assentry-" in name]


def meanwhile(monkeypatch: pytest.MonkeyPatch, step: str, do: Callable[[], Any]) -> None:
    """Do something once, just before a step of the work."""
    real, left = getattr(Changes, step), [do]

    def first(self: Changes, *args: Any) -> None:
        if left:
            left.pop()()
        real(self, *args)

    monkeypatch.setattr(Changes, step, first)


@pytest.mark.parametrize("step", ["_stage", "_check", "_commit", "_confirm"])
@pytest.mark.parametrize("how", ["written", "replaced"])
def test_a_file_that_somebody_changes_meanwhile_keeps_that_change(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, how: str
) -> None:
    def change() -> None:
        files = (path for path in root.rglob("*") if path.is_file())
        at = next(path for path in files if path.read_text().startswith("one\ntwo"))
        if how == "replaced" and step != "_confirm":
            at.unlink()
        at.write_text("mine\n")

    meanwhile(monkeypatch, step, change)
    with pytest.raises(PatchRefused, match="changed by somebody else meanwhile"):
        apply(root, *UPDATE, "*** Add File: b", "+x")
    assert (root / "src" / "a.py").read_text() == "mine\n"
    assert sorted(tree(root)) == ["notes.txt", "src", "src/a.py"]


@pytest.mark.parametrize("step", ["_stage", "_check", "_commit"])
def test_a_file_that_appears_meanwhile_is_not_overwritten(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    meanwhile(monkeypatch, step, lambda: (root / "b").write_text("mine\n"))
    with pytest.raises(PatchRefused):
        apply(root, "*** Add File: b", "+x")
    assert (root / "b").read_text() == "mine\n"
    assert sorted(tree(root)) == ["b", "notes.txt", "src", "src/a.py"]


@pytest.mark.parametrize("step", ["_stage", "_check", "_commit"])
@pytest.mark.parametrize("lines", [UPDATE, ("*** Add File: src/new", "+x"), ("*** Delete File: src/a.py",)])
def test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str, lines: tuple[str, ...]
) -> None:
    outside = root.parent / "outside"
    (outside / "a.py").write_text("one\ntwo\nthree\n")
    before = tree(outside)

    def swap() -> None:
        (root / "src").rename(root / "real")
        (root / "src").symlink_to(outside)

    meanwhile(monkeypatch, step, swap)
    try:
        apply(root, *lines)
    except PatchRefused:
        assert sorted(tree(root / "real")) == ["a.py"]
    else:
        assert step == "_commit", "the directory that was looked at is the one that is changed"
    assert tree(outside) == before


def test_a_file_that_becomes_a_link_meanwhile_leads_nowhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = root.parent / "outside"
    before = tree(outside)
    for step in ("_stage", "_check", "_commit"):

        def swap() -> None:
            (root / "notes.txt").unlink()
            (root / "notes.txt").symlink_to(outside / "secret.txt")

        with monkeypatch.context() as patch:
            meanwhile(patch, step, swap)
            with pytest.raises(PatchRefused):
                apply(root, "*** Update File: notes.txt", "-hello", "+bye")
        assert tree(outside) == before
        assert (root / "notes.txt").is_symlink()
        (root / "notes.txt").unlink()
        (root / "notes.txt").write_text("hello\n")


def test_files_that_cannot_be_put_back_are_named_and_their_old_contents_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*args: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(workspace_plan, "_undo", cannot)
        patch.setattr(Changes, "_confirm", cannot)
        with pytest.raises(OutcomeUnknown, match=r"src/a\.py \(Input/output error\)"):
            apply(root, *UPDATE)
    [kept] = [path for path in (root / PLAN).iterdir() if path.name.startswith("old-")]
    assert kept.read_text() == "one\ntwo\nthree\n"
    assert (root / "src" / "a.py").read_text() == "one\nTWO\nthree\n"
    WorkspaceEditor(root).preview(read_patch(in_patch(*UPDATE)))
    assert sorted(tree(root)) == ["notes.txt", "src", "src/a.py"], "it is put back when the workspace is next used"
    assert (root / "src" / "a.py").read_text() == "one\ntwo\nthree\n"


def test_a_patch_that_cannot_even_be_taken_back_is_finished_later(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*args: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(workspace_plan, "_turn_back", cannot)
        patch.setattr(Changes, "_confirm", cannot)
        with pytest.raises(OutcomeUnknown, match=r"src/a\.py \(Input/output error\)"):
            apply(root, *UPDATE, "*** Add File: new/b", "+x")
    WorkspaceEditor(root).preview(read_patch(in_patch("*** Delete File: notes.txt")))
    assert (root / "src" / "a.py").read_text() == "one\nTWO\nthree\n"
    assert sorted(tree(root)) == ["new", "new/b", "notes.txt", "src", "src/a.py"]


def test_a_file_system_without_hard_links_is_refused_and_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*args: Any, **options: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(workspace_files.os, "link", cannot)
    for lines in (UPDATE, ("*** Add File: b", "+x")):
        assert "no hard links" in refused(root, *lines)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_waits_for_a_patch_of_its_parent_and_no_longer(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, forked = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert forked.wait(HANGS)

    meanwhile(monkeypatch, "_commit", wait)
    thread = threading.Thread(target=lambda: apply(root, *UPDATE))
    thread.start()
    assert inside.wait(HANGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that to fork with threads is asking for trouble
        child = os.fork()
        if not child:  # pragma: no cover
            signal.alarm(HANGS)  # ends a child that waits for ever
            with contextlib.suppress(BaseException):
                apply(root, "*** Update File: notes.txt", "-hello", "+bye")
            os._exit(0)
    forked.set()
    os.waitpid(child, 0)
    thread.join(HANGS)
    assert (root / "src" / "a.py").read_text() == "one\nTWO\nthree\n"
    assert (root / "notes.txt").read_text() == "bye\n"


# -- what was shown --------------------------------------------------------------------------------


def shown_for(root: Path, *lines: str) -> dict[str, Any]:
    return WorkspaceEditor(root).preview(read_patch(in_patch(*lines))).preconditions


BOTH = (*UPDATE, "*** Add File: new/b", "+x")
MOVED: dict[str, Callable[[Path], Any]] = {
    "changed, and it fits": lambda root: (root / "src" / "a.py").write_text("zero\none\ntwo\nthree\n"),
    "changed, and it does not fit": lambda root: (root / "src" / "a.py").write_text("other\n"),
    "gone": lambda root: (root / "src" / "a.py").unlink(),
    "too large": lambda root: (root / "src" / "a.py").write_text("x" * 2_000_000),
    "there now": lambda root: (root / "new").mkdir() or (root / "new" / "b").write_text("mine\n"),
    "a link": lambda root: (root / "src" / "a.py").unlink() or (root / "src" / "a.py").symlink_to("../notes.txt"),
    "below a link": lambda root: (root / "new").symlink_to("src"),
}


@pytest.mark.parametrize("how", MOVED)
def test_a_file_that_is_not_as_it_was_shown_is_named_and_no_file_is_changed(root: Path, how: str) -> None:
    shown = shown_for(root, *BOTH)
    MOVED[how](root)
    before = tree(root)
    with pytest.raises(NotAsShown, match=r"^(src/a\.py|new/b) is not as it was shown"):
        WorkspaceEditor(root).apply(read_patch(in_patch(*BOTH)), shown=shown)
    assert tree(root) == before


@pytest.mark.parametrize("step", ["_stage", "_check", "_commit", "_confirm"])
def test_a_file_that_is_changed_after_it_was_compared_is_not_as_it_was_shown(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def change() -> None:
        files = (path for path in root.rglob("*") if path.is_file())
        next(path for path in files if path.read_text().startswith("one\ntwo")).write_text("mine\n")

    shown = shown_for(root, *BOTH)
    meanwhile(monkeypatch, step, change)
    with pytest.raises(NotAsShown, match=r"src/a\.py was changed by somebody else"):
        WorkspaceEditor(root).apply(read_patch(in_patch(*BOTH)), shown=shown)
    assert (root / "src" / "a.py").read_text() == "mine\n"
    assert sorted(tree(root)) == ["notes.txt", "src", "src/a.py"]


def test_what_was_shown_and_is_so_is_changed_and_other_files_are_not_compared(root: Path) -> None:
    shown = shown_for(root, *UPDATE)
    WorkspaceEditor(root).apply(read_patch(in_patch(*UPDATE, "*** Delete File: notes.txt")), shown=shown)
    assert sorted(tree(root)) == ["src", "src/a.py"]
    with pytest.raises(NotAsShown, match="another workspace"):
        WorkspaceEditor(root).apply(read_patch(in_patch("*** Add File: b", "+x")), shown={"workspace/": "/elsewhere"})


# -- a plan that stands ----------------------------------------------------------------------------


def test_no_patch_touches_the_plan(root: Path) -> None:
    for path in (PLAN, f"{PLAN}/plan", f"src/{PLAN.upper()}/x", EARLIER_PLAN):
        assert "protected" in refused(root, f"*** Add File: {path}", "+x", protected=[])


PLANS: dict[str, Callable[[Path], Any]] = {
    "a link": lambda at: at.symlink_to("src"),
    "a link to nowhere": lambda at: at.symlink_to("nowhere"),
    "a file": lambda at: at.write_text("x"),
    "a directory that others may enter": lambda at: at.mkdir() or at.chmod(0o755),
    "a directory that others may write": lambda at: at.mkdir() or at.chmod(0o770),
}


@pytest.mark.parametrize("what", PLANS)
def test_what_is_in_the_place_of_a_plan_and_is_not_the_editors_own_is_not_touched(root: Path, what: str) -> None:
    PLANS[what](root / PLAN)
    assert PLAN in refused(root, *UPDATE)
    with pytest.raises(PatchRefused, match=PLAN):
        WorkspaceEditor(root).preview(read_patch(in_patch(*UPDATE)))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_plan_of_another_user_is_not_carried_out(root: Path) -> None:
    forge(root, {"changes": [], "made": [], "limit": 1})
    os.chown(root / PLAN, 1234, 1234)
    assert "belongs to another user" in refused(root, *UPDATE)


def forge(root: Path, plan: Any, **files: str) -> None:
    (root / PLAN).mkdir(0o700)
    (root / PLAN / "plan").write_text(plan if isinstance(plan, str) else json.dumps(plan))
    for name, text in files.items():
        (root / PLAN / name.replace("_", "-")).write_text(text)


@pytest.mark.parametrize("path", ["../outside/secret.txt", "src/../../outside/secret.txt", "/etc/x", "", "."])
def test_a_plan_that_leads_outside_is_not_carried_out(root: Path, path: str) -> None:
    secret = digest_of(b"secret\n")
    forge(root, {"changes": [{"path": path, "before": secret, "after": "absent"}], "made": [], "limit": 100})
    assert "did not write" in refused(root, *UPDATE)


@pytest.mark.parametrize("plan", ["", "{", "[]", '{"changes":[],"made":[],"limit":1,"version":2}'])
def test_a_plan_that_cannot_be_read_is_left_as_it_is(root: Path, plan: str) -> None:
    forge(root, plan)
    assert "did not write" in refused(root, *UPDATE)


def test_what_is_left_of_a_patch_that_was_not_yet_planned_is_removed(root: Path) -> None:
    before = tree(root)
    (root / PLAN).mkdir(0o700)
    (root / PLAN / "new-0").write_text("x")
    (root / PLAN / "plan.tmp").write_text("{")
    WorkspaceEditor(root).preview(read_patch(in_patch(*UPDATE)))
    assert tree(root) == before


def test_a_directory_on_another_file_system_is_refused_and_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*args: Any, **options: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(workspace_files.os, "link", cannot)
    assert "another file system" in refused(root, *UPDATE)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_new_file_gets_the_group_of_a_directory_that_shares_its_group(root: Path) -> None:
    os.chown(root / "src", -1, 5678)
    (root / "src").chmod(0o2775)
    apply(root, "*** Add File: src/deep/b", "+x", "*** Add File: src/c", "+x", "*** Add File: d", "+x")
    assert [(root / name).stat().st_gid for name in ("src/deep/b", "src/c", "d")] == [5678, 5678, os.getegid()]


# -- the root --------------------------------------------------------------------------------------


def test_a_link_to_the_root_is_resolved_once(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    editor = WorkspaceEditor(link)
    assert editor.root == root.resolve()
    link.unlink()
    link.symlink_to(root.parent / "outside")
    editor.apply(read_patch(in_patch("*** Add File: b", "+x")))
    assert (root / "b").exists()


def test_another_directory_in_the_roots_place_is_refused(root: Path) -> None:
    editor = WorkspaceEditor(root)
    root.rename(root.parent / "before")
    patch = read_patch(in_patch("*** Add File: b", "+x"))
    with pytest.raises(PatchRefused, match="No such file"):
        editor.apply(patch)
    root.mkdir()
    with pytest.raises(PatchRefused, match="another directory"):
        editor.apply(patch)
    root.rmdir()
    root.symlink_to(root.parent / "outside")
    with pytest.raises(PatchRefused):
        editor.preview(patch)
    assert tree(root.parent / "outside") == {"secret.txt": (b"secret\n", 0o644)}


@pytest.mark.parametrize("wrong", ["nothing", "notes.txt", 5, None, "a\0b"])
def test_a_root_that_is_no_directory_is_refused(root: Path, wrong: Any) -> None:
    with pytest.raises(InvalidDefinition, match="needs a directory"):
        WorkspaceEditor(root / wrong if isinstance(wrong, str) else wrong)


def test_bad_options_and_systems_without_what_it_needs_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({"max_file_bytes": 0}, {"max_file_bytes": True}, {"protected": ".git"}, {"protected": ["a/b"]}):
        with pytest.raises(InvalidDefinition):
            WorkspaceEditor(root, **options)  # type: ignore[arg-type]
    monkeypatch.setattr(workspace, "SUPPORTED", False)
    with pytest.raises(InvalidDefinition, match="editor of your own"):
        WorkspaceEditor(root)


def test_nothing_stays_open(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(3):
        apply(root, "*** Add File: x/y/z", "+x")
        apply(root, "*** Delete File: x/y/z")
        refused(root, *UPDATE, "*** Delete File: nothing/at/all")
        refused(root, "*** Add File: notes.txt/a", "+x")
        refused(root, "*** Add File: q/w", "+x", "*** Add File: src", "+x")
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


# -- the preview -----------------------------------------------------------------------------------


def test_the_preview_says_it_in_a_sentence_shows_diffs_and_changes_nothing(root: Path) -> None:
    before = tree(root)
    shown = WorkspaceEditor(root).preview(
        read_patch(in_patch(*UPDATE, "*** Update File: notes.txt", "-hello", "+bye", "*** Add File: n/b", "+x"))
    )
    assert tree(root) == before
    assert shown.sentence == "Change 2 files: src/a.py, notes.txt; create n/b"
    assert [(block.path, block.change) for block in shown.blocks] == [  # type: ignore[union-attr]
        ("src/a.py", "update"), ("notes.txt", "update"), ("n/b", "create")
    ]  # fmt: skip
    assert shown.blocks[0].text == "--- a/src/a.py\n+++ b/src/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"  # type: ignore[union-attr]
    assert shown.preconditions == {
        "workspace/": str(root.resolve()),
        "src/a.py": "sha256:" + hashlib.sha256(b"one\ntwo\nthree\n").hexdigest(),
        "notes.txt": "sha256:" + hashlib.sha256(b"hello\n").hexdigest(),
        "n/b": "absent",
    }


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["*** Delete File: notes.txt"], "Delete notes.txt"),
        (["*** Update File: notes.txt", "*** Move to: b"], "Move notes.txt to b"),
        (["*** Update File: notes.txt", "*** Move to: b", "-hello"], "Move notes.txt to b and change it"),
        (["*** Add File: b", "+x\r"], "Create b (new lines end in CRLF)"),
        ([f"*** Add File: {n}" for n in range(8)], "Create 8 files: 0, 1, 2, 3, 4 and 3 more"),
    ],
)
def test_the_sentence_says_what_would_happen(root: Path, lines: list[str], said: str) -> None:
    assert WorkspaceEditor(root).preview(read_patch(in_patch(*lines))).sentence == said


def test_a_large_file_is_not_shown_whole_before_it_is_deleted(root: Path) -> None:
    (root / "large").write_text("x\n" * 60_000)
    shown = WorkspaceEditor(root).preview(read_patch(in_patch("*** Delete File: large")))
    assert shown.blocks[0].text == "120000 bytes, 60000 lines; too large to show"  # type: ignore[union-attr]


def test_a_patch_that_does_not_fit_has_no_preview(root: Path) -> None:
    with pytest.raises(PatchRefused, match="does not have the line 'x'"):
        WorkspaceEditor(root).preview(read_patch(in_patch("*** Update File: notes.txt", "-x")))


@pytest.mark.parametrize("char", "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", ids=lambda char: f"U+{ord(char):04X}")
def test_a_new_line_with_a_character_that_ends_lines_elsewhere_is_warned_of_first(root: Path, char: str) -> None:
    line = f"+# tidy{char}-os.system('ls')"
    for lines in (("*** Add File: b.py", line), ("*** Update File: src/a.py", "@@", "-two", line)):
        preview = WorkspaceEditor(root).preview(read_patch(in_patch(*lines)))
        warning, diff = preview.blocks
        assert isinstance(warning, Sentence) and warning.warning and f"U+{ord(char):04X}" in warning.text
        assert isinstance(diff, Diff) and f"{line}\n" in diff.text


def test_what_is_removed_or_stays_is_not_warned_of_nor_are_line_ends(root: Path) -> None:
    (root / "src" / "a.py").write_bytes(b"one\x0c\r\ntwo\x0c\r\nthree\r\n")
    patch = in_patch("*** Update File: src/a.py", "@@", " one\x0c", "-two\x0c", "+TWO")
    [diff] = WorkspaceEditor(root).preview(read_patch(patch)).blocks
    assert isinstance(diff, Diff) and "+TWO\n" in diff.text
