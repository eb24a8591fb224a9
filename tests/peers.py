"""Runs the tests that need libraries which cannot stand beside the others: `make test-peers`.

Each has an environment of its own in `.venv-peers`, with this checkout in it. What is there already is kept until the
checkout or a requirement changes. `python -m tests.peers langchain` runs the tests of one.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib

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


# LiteLLM holds back OpenAI's client, so that it is not in `all`. LangChain and LangGraph are here for the parameters
# that they inject, which no model may fill: the tests look at all that they export.
LITELLM = (f"{ROOT}[anthropic,litellm]", *PYTEST)
PEERS = {
    "litellm": (LITELLM, "tests/models/test_litellm.py"),
    "litellm-lowest": ((*LITELLM, lowest("litellm")), "tests/models/test_litellm.py"),
    "langchain": ((f"{ROOT}[test]", "langchain", "langgraph"), "tests/schema/test_injected.py"),
}


def main(names: list[str]) -> int:
    """Run the tests of these peers, or of all; return how many failed."""
    failed = 0
    for name in names or PEERS:
        requirements, tests = PEERS[name]
        try:
            python = made(Environment(name, requirements, ("assentry",), local=True), HOME)
        except NotMade as error:
            sys.exit(f"The environment {name} was not made: {error}")
        command = [python, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", tests]
        failed += bool(subprocess.run(command, cwd=ROOT, env=clean(), check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
