"""What Assentry costs, measured beside its peers in one run: `python -m benchmarks --help`, or `make bench`.

Modules that run in a peer's environment (worker, clock, conversation, drivers) import the standard library and that
peer only; all the others import the standard library, and one of them the tests' way to start a Postgres server.
"""
