"""No tests: a program that drives thousands of runs with workers and people at once, and counts what happened."""
