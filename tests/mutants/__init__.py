"""Faults, seeded one at a time into a copy of the source in memory, and whether the tests find them.

`make mutants`, or `python -m tests.mutants --help`. The work tree is never touched.
"""
