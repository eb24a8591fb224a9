"""The patch format: what a diff makes of a text, and what is refused."""

import pytest

from assentry import ApplyPatchOperation, InvalidArguments, PatchRefused, apply_diff
from assentry.tools.patch_format import MAX_FILES, MAX_SECTIONS, _matches, patch_of, read_patch
from assentry.tools.patch_text import LineEdit, TextLines, apply_edits, unified_diff

CODE = """class A:
    def run(self):
        return 1

class B:
    def run(self):
        return 1
"""


@pytest.mark.parametrize(
    ("text", "diff", "after"),
    [
        ("a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n"),
        ("a\nb\nc\n", " a\n-b\n+B\n c\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "-b", "a\nc\n"),
        ("a\n", "@@\n-a", ""),
        ("", "@@\n+a\n+b", "a\nb\n"),
        ("a\n", "+b\n*** End of File", "a\nb\n"),
        ("x\na\nx\n", "@@\n-x\n+y\n*** End of File", "x\na\ny\n"),
        ("a\n\nb\n", "@@\n a\n\n-b\n+c", "a\n\nc\n"),
        ("a\nb\nc\nd\n", "@@\n-a\n+A\n@@\n-d\n+D", "A\nb\nc\nD\n"),
        ("a\nb\n", "@@ a\n+x", "a\nx\nb\n"),
        ("a\nb\nc\n", "@@\n-a\n b\n-c\n+C", "b\nC\n"),
        ("a\nb\n", "@@\n+x\n-a\n+y\n b", "x\ny\nb\n"),
        (CODE, "@@ class B:\n     def run(self):\n-        return 1\n+        return 2", CODE[:-2] + "2\n"),
        (CODE, "@@ class A:\n@@     def run(self):\n-        return 1\n+        return 2", CODE.replace("1", "2", 1)),
        (CODE, "@@ class B:\n@@ def run(self):\n-        return 1\n+        return 2", CODE[:-2] + "2\n"),
    ],
)
def test_a_diff_gives_exactly_this_text(text: str, diff: str, after: str) -> None:
    assert apply_diff(text, diff) == after


@pytest.mark.parametrize(
    ("text", "diff", "after"),
    [
        ("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d", "a\r\nc\r\nd\r\n"),
        ("a\r\nb\r\n", "@@\r\n a\r\n-b\r\n+c\r\n", "a\r\nc\r\n"),
        ("a\nb", "@@\n-b\n+c", "a\nc"),
        ("a\nb", "@@\n b\n+c", "a\nb\nc"),
        ("a\r\nb", "@@\n-b", "a"),
        ("a", "@@\n a\n+b", "a\nb"),
        ("a\r\nb\nc\r\n", "@@\n b\n+x\n-c\n+y", "a\r\nb\nx\r\ny\r\n"),
        ("\ufeffa\nb\n", "@@\n-a\n+c\n b", "\ufeffc\nb\n"),
        ("a\rb\n\x0bc\u2028d\n", "@@\n a\rb\n-\x0bc\u2028d\n+e", "a\rb\ne\n"),
    ],
)
def test_line_ends_a_missing_one_at_the_end_and_a_byte_order_mark_stay(text: str, diff: str, after: str) -> None:
    assert apply_diff(text, diff) == after


@pytest.mark.parametrize(
    ("text", "diff", "why"),
    [
        ("a\nb\na\n", "@@\n-a\n+c", "fits at line 1 and at line 3"),
        (CODE, "@@     def run(self):\n-        return 1\n+        return 2", "fits at line 3 and at line 7"),
        ("a \nb\n", "@@\n a\n-b", "line 1 differs only in white space"),
        ("a\nb\n", "@@\n c\n-b", "does not have the line 'c'"),
        ("a\nb\nc\n", "@@\n-a\n-c", "not one after another"),
        ("a\nb\n", "@@\n-b\n@@\n-a", "it comes earlier"),
        ("a\nb\n", "@@ z\n-b", "no line 'z'"),
        ("a\nb\n", "@@ -1,2 +1,2 @@\n-b", "no line '-1,2 +1,2 @@'"),
        ("a\nb\n", "@@ b\n-a", "are not one after another below its @@ line"),
        ("a\nb\n", "@@\n-a\n*** End of File", "not the last of the file"),
        ("a\nb\n", "@@\n-a\n-b\n-c\n*** End of File", "not the last of the file"),
        ("a\nb\n", "+c", "does not say where"),
        ("a\nb\na\n", "@@ a\n+c", "fits at line 2 and at line 4"),
        ("", "-a", "does not have the line 'a'"),
        ("a\n", "--- a\n+++ b\n@@ -1 +1 @@\n-a", "does not have the line '-- a'"),
    ],
)
def test_a_diff_without_exactly_one_place_is_refused_and_says_why(text: str, diff: str, why: str) -> None:
    with pytest.raises(PatchRefused) as refused:
        apply_diff(text, diff)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "diff",
    [
        "",
        "@@",
        "@@ a\n",
        "-a\n@@ b",
        "a",
        "@@a\n-b",
        "*** Begin Patch\n-a",
        "-a\n*** End Patch",
        "-a\n*** End of File\n-b",
        "```diff\n-a\n```",
        "\n".join(["@@", "-a"] * (MAX_SECTIONS + 1)),
    ],
)
def test_a_malformed_diff_is_refused_before_any_file_is_read(diff: str) -> None:
    with pytest.raises(InvalidArguments):
        apply_diff("a\n", diff)


def test_a_new_file_has_the_lines_of_its_diff_each_with_a_line_end() -> None:
    assert apply_diff("", "+a\n+\n+b", "create") == "a\n\nb\n"
    assert apply_diff("", "+a\r\n+b\r\n", "create") == "a\r\nb\r\n"
    assert apply_diff("", "+a\r\n+b\r", "create") == "a\r\nb\r\n"
    assert apply_diff("", "", "create") == ""
    for diff in ("a", "+a\n b", "+a\n\n+b", "+a\r\n+b", "+a\n*** End of File"):
        with pytest.raises(InvalidArguments):
            apply_diff("", diff, "create")
    with pytest.raises(PatchRefused):
        apply_diff("a", "+b", "create")


PATCH = """*** Begin Patch
*** Add File: docs/new file.md
+# New
+
*** Update File: src/a.py
*** Move to: src/b.py
@@ def f():
-    pass
+    return 1
*** Update File: c.txt
*** Move to: d.txt
*** Delete File: old.txt
*** Add File: empty.txt
*** End Patch
"""


def test_a_patch_is_read_into_its_operations() -> None:
    assert read_patch(PATCH) == (
        ApplyPatchOperation("create_file", "docs/new file.md", "+# New\n+\n"),
        ApplyPatchOperation("update_file", "src/a.py", "@@ def f():\n-    pass\n+    return 1\n", move_to="src/b.py"),
        ApplyPatchOperation("update_file", "c.txt", None, move_to="d.txt"),
        ApplyPatchOperation("delete_file", "old.txt"),
        ApplyPatchOperation("create_file", "empty.txt", ""),
    )
    assert read_patch(PATCH.replace("\n", "\r\n"))[3] == ApplyPatchOperation("delete_file", "old.txt")


def test_each_operation_alone_becomes_a_patch_that_reads_the_same() -> None:
    for operation in read_patch(PATCH):
        assert read_patch(patch_of(operation)) == (operation,)


def in_patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


@pytest.mark.parametrize(
    "patch",
    [
        "",
        "hello",
        "*** Begin Patch",
        "*** Begin Patch\n*** Delete File: a",
        "*** Delete File: a\n*** End Patch",
        in_patch(),
        in_patch(""),
        in_patch("+a"),
        in_patch("", "*** Delete File: a"),
        in_patch("*** Delete File: a", ""),
        in_patch("*** Delete File: a", "-a"),
        in_patch("*** Delete File: "),
        in_patch("*** Delete File: a\tb"),
        in_patch("*** Delete File: a\u202etxt.b"),
        in_patch("*** Delete File: a\0"),
        in_patch("*** Update File: a"),
        in_patch("*** Update File: a", "@@"),
        in_patch("*** Update File: a", "-a", "*** Move to: b"),
        in_patch("*** Update File: a", "*** Move to: "),
        in_patch("*** Add File: a", "*** Move to: b"),
        in_patch("*** Add File: a", "b"),
        in_patch("*** Rename File: a"),
        in_patch("*** Delete File: a") + "\nand more",
        in_patch(in_patch("*** Delete File: a")),
        in_patch(*[f"*** Delete File: {n}" for n in range(MAX_FILES + 1)]),
    ],
)
def test_a_malformed_patch_is_refused(patch: str) -> None:
    with pytest.raises(InvalidArguments):
        read_patch(patch)


def test_the_difference_for_a_person_is_a_unified_diff() -> None:
    old = TextLines.of("".join(f"{n}\n" for n in range(1, 21)) + "end")
    lines = apply_edits(old, [LineEdit(1, 1, ("two",)), LineEdit(4, 0, ("five",)), LineEdit(21, 0, ("more",))])
    assert unified_diff("a/x", "b/x", lines) == (
        "--- a/x\n+++ b/x\n"
        "@@ -1,7 +1,8 @@\n 1\n-2\n+two\n 3\n 4\n+five\n 5\n 6\n 7\n"
        "@@ -18,4 +19,5 @@\n 18\n 19\n 20\n-end\n\\ No newline at end of file\n+end\n+more\n"
        "\\ No newline at end of file\n"
    )
    assert unified_diff("a/x", "b/x", apply_edits(old, [])) == ""


class Counted(str):
    """A line that counts how often it is compared."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Counted.count += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def test_a_search_for_lines_that_nearly_fit_everywhere_is_linear() -> None:
    lines, context = [Counted("a")] * 10_000, [*[Counted("a")] * 5_000, Counted("b")]
    Counted.count = 0
    assert list(_matches([*lines], context, 0)) == []
    assert Counted.count < 100_000, "a search that starts anew at each line compares 25 million times"


def test_a_refusal_of_many_lines_looks_at_the_file_once() -> None:
    text = "".join(f"{n}\n" for n in range(20_000))
    diff = "\n".join(f" {n}" for n in range(19_999, -1, -1))
    with pytest.raises(PatchRefused, match="not one after another"):
        apply_diff(text, f"{diff}\n-0")


def test_a_patch_with_too_many_searches_is_refused() -> None:
    anchors = ["@@ a"] * (MAX_SECTIONS // 2)
    update = ["*** Update File: a", *anchors, "-b"]
    assert len(read_patch(in_patch(*update, *update))) == 2
    with pytest.raises(InvalidArguments, match="@@ lines"):
        read_patch(in_patch(*update, *update, "*** Update File: c", "@@", "-b"))
