"""Tests beside the OpenAI Agents SDK itself; `make test-peers` runs them where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("agents") else ["test_*.py"]
