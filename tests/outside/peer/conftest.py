"""Tests with agent libraries that are not installed with the rest; `make test-peers` runs them where they are."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("agents") else ["test_*.py"]
