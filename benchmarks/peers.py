"""Who is measured: each peer's environment with its range of versions, its driver, and how it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

SUBJECT = "assent"
YARDSTICK = "lean"
"""What ratios are to, beside the fastest peer."""


@dataclass(frozen=True)
class Environment:
    """Where a peer lives: what is installed, and which of it is named in the results."""

    name: str
    requirements: tuple[str, ...]
    named: tuple[str, ...]
    local: bool = False
    """Whether it holds this checkout, and is made anew when the checkout changes."""


# The ranges of versions that the drivers are written for. All of them are here.
FLOOR = Environment("floor", ("msgspec>=0.19,<1", "pydantic>=2.10,<3"), ("msgspec", "pydantic"))
ASSENT = Environment("assent", (str(ROOT),), ("assent",), local=True)
OPENAI_AGENTS = Environment("openai-agents", ("openai-agents>=0.24,<0.25",), ("openai-agents",))
PYDANTIC_AI = Environment("pydantic-ai", ("pydantic-ai-slim>=2.60,<3",), ("pydantic-ai-slim",))
LANGGRAPH = Environment(
    "langgraph",
    (
        "langchain>=1.4,<2",
        "langgraph>=1.2,<2",
        "langgraph-checkpoint-sqlite>=3.1,<4",
        "langgraph-checkpoint-postgres>=3.2,<4",
        "aiosqlite>=0.22,<1",
        "psycopg[binary]>=3.3,<4",
    ),
    ("langchain", "langgraph"),
)

IMPORT_FLOOR = "import asyncio, msgspec; from pydantic import BaseModel, TypeAdapter"
IMPORT_LANGGRAPH = (
    "from langchain.agents import create_agent;"
    " from langchain.agents.middleware import HumanInTheLoopMiddleware;"
    " from langgraph.types import Command"
)


@dataclass(frozen=True)
class Peer:
    """Someone who is measured."""

    name: str
    environment: Environment
    driver: str
    """The module in `benchmarks.drivers`."""
    imports: str
    """What a program that pauses runs would import."""
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    rival: bool = True
    """Whether it may be the fastest peer; Assent and the yardsticks may not."""
    postgres: bool = False
    """Whether it needs a server."""


ALL = (
    Peer("assent", ASSENT, "assent", "from assent import Agent, Runner, RunState, function_tool", rival=False),
    Peer("floor", FLOOR, "floor", IMPORT_FLOOR, rival=False),
    Peer("lean", FLOOR, "lean", IMPORT_FLOOR, rival=False),
    Peer(
        "openai-agents",
        OPENAI_AGENTS,
        "openai_agents",
        "from agents import Agent, Runner, RunState, function_tool",
    ),
    Peer("pydantic-ai", PYDANTIC_AI, "pydantic_ai", "from pydantic_ai import Agent, DeferredToolRequests"),
    Peer("langgraph", LANGGRAPH, "langgraph", IMPORT_LANGGRAPH),
    Peer(
        "langgraph-memory",
        LANGGRAPH,
        "langgraph",
        f"{IMPORT_LANGGRAPH}; from langgraph.checkpoint.memory import InMemorySaver",
        {"saver": "memory"},
    ),
    Peer(
        "langgraph-sqlite",
        LANGGRAPH,
        "langgraph",
        f"{IMPORT_LANGGRAPH}; from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver",
        {"saver": "sqlite"},
    ),
    Peer(
        "langgraph-postgres",
        LANGGRAPH,
        "langgraph",
        f"{IMPORT_LANGGRAPH}; from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver",
        {"saver": "postgres"},
        postgres=True,
    ),
)
PEERS = {peer.name: peer for peer in ALL}
RIVALS = frozenset(peer.name for peer in ALL if peer.rival)
