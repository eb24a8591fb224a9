"""Runs the tests that need libraries which cannot stand beside the others: `make test-peers`.

Each has an environment of its own in `.venv-peers`, with this checkout in it. What is there already is kept until the
checkout or a requirement changes. `python -m tests.peers langchain` runs the tests of one; with `--newest`, LangChain
and the Agents SDK are today's instead of those that the guides are written for.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import NamedTuple

from packaging.requirements import Requirement

from benchmarks.environments import NotMade, clean, made
from benchmarks.peers import ROOT, Environment

HOME = ROOT / ".venv-peers"
PYTEST = ("hypothesis>=6.130", "pytest>=8.4", "pytest-xdist>=3.6")


def lowest(extra: str) -> str:
    """Return the lowest version that the only requirement of an extra allows, as a requirement."""
    [line] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"][extra]
    declared = Requirement(line)
    [bound] = [each.version for each in declared.specifier if each.operator == ">="]
    return f"{declared.name}=={bound}"


class Peer(NamedTuple):
    """A peer's environment, and the tests that run in it."""

    requirements: tuple[str, ...]
    tests: tuple[str, ...]
    overrides: tuple[str, ...] = ()


# LiteLLM holds back OpenAI's client, so that it is not in `all`. LangChain's tests look at all parameters that it and
# LangGraph inject, which no model may fill, too. It needs a certifi that not every registry has.
LITELLM = (f"{ROOT}[anthropic,litellm]", *PYTEST)
SKIN = (f"{ROOT}[all]", *PYTEST, "mypy>=2,<3", "pyright>=1.1.400")
THREADS = (
    f"{ROOT}[all]",
    *PYTEST,
    "langchain-community",
    "langgraph-checkpoint-postgres",
    "langgraph-checkpoint-sqlite",
    "psycopg-pool",
)
THREADS_TESTS = (
    "tests/schema/test_injected.py",
    "tests/threads/test_langchain_middleware.py",
    "tests/threads/peer",
    "tests/outside/test_langchain_middleware.py",
    "tests/outside/test_langgraph.py",
    "tests/outside/test_langgraph_restart.py",
)
SKIN_TESTS = (
    "tests/agents/peer",
    "tests/outside/peer",
    "tests/docs/test_examples.py::test_page_does_what_it_shows[docs/howto/openai-agents-approvals.md]",
)
PINNED = ("langchain==1.5.0", "langchain-core==1.8.0", "langgraph==1.2.22")
PEERS = {
    "litellm": Peer(LITELLM, ("tests/models/test_litellm.py",)),
    "litellm-lowest": Peer((*LITELLM, lowest("litellm")), ("tests/models/test_litellm.py",)),
    "langchain": Peer((*THREADS, *PINNED), THREADS_TESTS, ("certifi",)),
    "openai-agents": Peer((*SKIN, "openai-agents==0.24.0"), SKIN_TESTS),
}
NEWEST = {
    "langchain": Peer((*THREADS, "langchain", "langgraph"), THREADS_TESTS, ("certifi",)),
    "openai-agents": Peer((*SKIN, "openai-agents"), SKIN_TESTS),
}


def main(names: list[str]) -> int:
    """Run the tests of these peers, or of all; return how many failed."""
    failed, newest = 0, "--newest" in names
    for name in [each for each in names if each != "--newest"] or PEERS:
        peer = NEWEST.get(name, PEERS[name]) if newest else PEERS[name]
        folder = f"{name}-newest" if newest and name in NEWEST else name
        try:
            environment = Environment(folder, peer.requirements, ("assentry",), local=True, overrides=peer.overrides)
            python = made(environment, HOME)
        except NotMade as error:
            sys.exit(f"The environment {name} was not made: {error}")
        command = [python, "-m", "pytest", "-n", "4", "--dist", "worksteal", "-p", "no:cacheprovider", *peer.tests]
        failed += bool(subprocess.run(command, cwd=ROOT, env=clean(), check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
