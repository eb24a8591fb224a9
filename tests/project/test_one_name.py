"""One name, one meaning: a public function or class has one home in the package."""

import ast
from collections import defaultdict
from pathlib import Path

import assentry

SOURCE = Path(assentry.__file__).parent
SKINS = ("agents", "threads")
"""The packages that repeat the names of another library by their nature."""
MOST = 20
"""The most names that may have two homes."""

ALLOWED: dict[str, str] = {}
"""The names that have two homes on purpose, each with the reason why both are the same thing."""


def homes(source: Path = SOURCE) -> dict[str, set[str]]:
    """Return the modules of each public function and class that stands in two or more."""
    found = defaultdict(set)
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).parts
        if parts[0] in SKINS or "versions" in parts:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name[0] != "_":
                found[node.name].add("/".join(parts))
    return {name: where for name, where in found.items() if len(where) > 1}


def test_a_public_name_has_one_home() -> None:
    doubles = {name: sorted(where) for name, where in homes().items() if name not in ALLOWED}
    assert doubles == {}, "give one of them a name that says what it is, or say in ALLOWED why they are the same thing"


def test_every_allowed_double_is_one_and_has_its_reason() -> None:
    doubles = homes()
    assert [name for name in ALLOWED if name not in doubles] == []
    assert all(reason.strip() for reason in ALLOWED.values())
    assert len(ALLOWED) <= MOST


def test_a_new_double_is_found(tmp_path: Path) -> None:
    for name in ("one.py", "store/two.py", "threads/skin.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"class Thing: ...\ndef _private(): ...\nclass Own_{name[0]}: ...\n")
    assert homes(tmp_path) == {"Thing": {"one.py", "store/two.py"}}
