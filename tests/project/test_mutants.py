"""The mutation check: it finds what to seed everywhere, tells a fault from none, and excludes nothing that is gone.

The whole of it takes minutes: `make mutants`.
"""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import condition, table
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.mutant import Text, path_of
from tests.mutants.seeds import CONTROL, WHERE, mutants

ROOT = Path(__file__).parent.parent.parent
EVERY = mutants()


def seeded(code: str) -> list[tuple[str, str]]:
    """The faults in the conditions of a function, and what becomes of its source."""
    text = Text(code.encode())
    return [
        (fault.what, code.encode()[: fault.start].decode() + fault.text + code.encode()[fault.end :].decode())
        for fault in condition.faults(text)
    ]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.mutants", "--jobs", "1", *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )


def test_every_module_has_faults_and_each_has_a_name_of_its_own() -> None:
    count = Counter(mutant.module for mutant in EVERY)
    assert all(count[module] > 10 for module, _, _ in WHERE)
    assert len({mutant.name for mutant in EVERY}) == len(EVERY)


def test_what_is_put_in_place_is_whole() -> None:
    for mutant in EVERY:
        assert ast.parse(f"async def f():\n return [{mutant.fault.text}]"), mutant.name


@pytest.mark.parametrize("module", [module for module, _, _ in WHERE])
def test_a_fault_makes_another_program(module: str) -> None:
    mutant = next(mutant for mutant in EVERY if mutant.module == module)
    assert ast.dump(ast.parse(mutant.source())) != ast.dump(ast.parse(path_of(module).read_bytes()))


def test_no_fault_is_the_code_as_it_is() -> None:
    assert CONTROL.source() == path_of(CONTROL.module).read_bytes()


def test_no_exclusion_outlives_its_fault_and_each_has_its_reason() -> None:
    assert EQUIVALENT.keys() <= {mutant.name for mutant in EVERY}
    assert all(EQUIVALENT.values())


def test_a_check_is_left_out_whole_and_in_parts() -> None:
    faults = seeded("def check(é, b):\n    if é or b:\n        raise ValueError(1 if b else 2)\n")
    assert [what for what, _ in faults] == [
        "check: 'é or b' never",
        "check: 'é or b' without 'é'",
        "check: 'é or b' without 'b'",
    ]
    assert faults[1][1] == "def check(é, b):\n    if ((b)):\n        raise ValueError(1 if b else 2)\n"


def test_a_border_is_moved_and_what_cannot_be_left_out_is_turned_round() -> None:
    faults = seeded("def f(a, b):\n    return a < b <= 3, (a is b) == (not b)\n")
    assert [what for what, _ in faults] == [
        "f: 'a < b <= 3' with '<=' for '<'",
        "f: 'a < b <= 3' with '<' for '<='",
        "f: '(a is b) == (not b)' with '!=' for '=='",
        "f: 'a is b' with 'is not' for 'is'",
        "f: 'not b' negated",
    ]
    assert "(a) < (b) < (3)" in faults[1][1]


def test_every_row_is_dropped_led_elsewhere_and_added_where_it_is_not() -> None:
    from assentry.core.rules import ANSWERS, NEXT, ROWS, Phase

    faults = [fault.what for fault in table.faults(Text(path_of("assentry.core.rules").read_bytes()))]
    assert sum(what.endswith("dropped") for what in faults) == len(ROWS)
    assert sum(" leads to " in what for what in faults) == len(ROWS) * (len(Phase) - 1)
    assert sum(" added, " in what for what in faults) == len(NEXT) * len(Phase) - len(ROWS)
    assert sum(what.startswith("ANSWERS") for what in faults) == len(ANSWERS) * 4


def test_a_fault_is_found() -> None:
    done = run("--quick", "--verbose", "--only", "ROWS: READY, Started dropped")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "salvo: property/test_core.py::play(" in done.stdout


def test_a_fault_that_nothing_can_be_seen_of_survives() -> None:
    name = "fold._fresh: 'len(calls) > 1' with '>=' for '>'"
    assert name in EQUIVALENT
    done = run("--quick", "--equivalent", "--only", name)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "SURVIVED" in done.stdout
