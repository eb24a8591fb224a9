"""Tests beside LangChain itself; `make test-peers` runs them where its Postgres saver is installed."""

from importlib.util import find_spec

collect_ignore_glob = ["cases/*", "programs/*"]
if not find_spec("langgraph") or not find_spec("langgraph.checkpoint.postgres"):
    collect_ignore_glob.append("test_*.py")
