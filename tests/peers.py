"""Runs the tests that need libraries which cannot stand beside the others: `make test-peers`.

Each has an environment of its own in `.venv-peers`, with this checkout in it. What is there already is kept until the
checkout or a requirement changes. `python -m tests.peers langchain` runs the tests of one; with `--newest`, the Agents
SDK is today's instead of the one that the guide is written for.
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
SKIN = (f"{ROOT}[all]", *PYTEST, "mypy>=2,<3", "pyright>=1.1.400")
PEERS = {
    "litellm": (LITELLM, "tests/models/test_litellm.py"),
    "litellm-lowest": ((*LITELLM, lowest("litellm")), "tests/models/test_litellm.py"),
    "langchain": ((f"{ROOT}[test]", "langchain", "langgraph"), "tests/schema/test_injected.py"),
    "openai-agents": ((*SKIN, "openai-agents==0.24.0"), "tests/agents/peer"),
}
NEWEST = {"openai-agents": ((*SKIN, "openai-agents"), "tests/agents/peer")}


def main(names: list[str]) -> int:
    """Run the tests of these peers, or of all; return how many failed."""
    failed, newest = 0, "--newest" in names
    for name in [each for each in names if each != "--newest"] or PEERS:
        requirements, tests = NEWEST.get(name, PEERS[name]) if newest else PEERS[name]
        folder = f"{name}-newest" if newest and name in NEWEST else name
        try:
            python = made(Environment(folder, requirements, ("assentry",), local=True), HOME)
        except NotMade as error:
            sys.exit(f"The environment {name} was not made: {error}")
        command = [python, "-m", "pytest", "-n", "4", "--dist", "worksteal", "-p", "no:cacheprovider", tests]
        failed += bool(subprocess.run(command, cwd=ROOT, env=clean(), check=False).returncode)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
