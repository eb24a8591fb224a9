"""A SQL agent: reading is free, writing is approved, and only by statements that change something."""

import sqlite3

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain.messages import ToolMessage
from langchain.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from scripted import ScriptedChat, call, turn

database = sqlite3.connect(":memory:", check_same_thread=False)
database.executescript(
    "CREATE TABLE orders (id INTEGER, city TEXT, total REAL);"
    "INSERT INTO orders VALUES (1, 'Ghent', 10.5), (2, 'Bruges', 20), (3, 'Ghent', 7);"
)


@tool
def list_tables() -> str:
    """List the tables."""
    return ", ".join(row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))


@tool("sql_schema", description="Show how tables were made; names apart by commas.")
def schema(tables: str) -> str:
    names = [name.strip() for name in tables.split(",")]
    made = dict(database.execute("SELECT name, sql FROM sqlite_master"))
    return "\n".join(made[name] for name in names)


@tool
def run_sql(query: str) -> str:
    """Run a statement and return its rows."""
    rows = database.execute(query).fetchall()
    database.commit()
    return str(rows)


def changes(request) -> bool:
    return not request.tool_call["args"]["query"].lstrip().upper().startswith("SELECT")


@wrap_tool_call
def report_errors(request, handler):
    try:
        return handler(request)
    except sqlite3.Error as error:
        return ToolMessage(f"Error: {error}", tool_call_id=request.tool_call["id"], status="error")


def build(saver, *replies):
    gate = HumanInTheLoopMiddleware(
        interrupt_on={"run_sql": {"allowed_decisions": ["approve", "reject"], "when": changes}},
        description_prefix="This changes the database",
    )
    return create_agent(
        ScriptedChat(*replies),
        [list_tables, schema, run_sql],
        system_prompt="You are a careful SQL agent.",
        middleware=[report_errors, gate],
        checkpointer=saver,
    )


with SqliteSaver.from_conn_string("agent.db") as saver:
    config = {"configurable": {"thread_id": "report"}}
    agent = build(
        saver,
        turn(call("list_tables", {}, "c1")),
        turn(call("sql_schema", {"tables": "orders"}, "c2")),
        turn(call("run_sql", {"query": "SELECT city, SUM(total) FROM orders GROUP BY city ORDER BY city"}, "c3")),
        turn(call("run_sql", {"query": "SELECT nothing FROM orders"}, "c4")),
        turn(call("run_sql", {"query": "DELETE FROM orders WHERE city = 'Ghent'"}, "c5")),
    )
    for step in agent.stream({"messages": [{"role": "user", "content": "Tidy up"}]}, config, stream_mode="values"):
        last = step["messages"][-1]
        print(last.type, last.content or [each["args"] for each in last.tool_calls])
    state = agent.get_state(config)
    print(state.next, state.values["messages"][-1].tool_calls[0]["args"])

with SqliteSaver.from_conn_string("agent.db") as saver:
    agent = build(saver, "Two orders are gone.")
    [interrupt] = agent.get_state(config).tasks[0].interrupts
    print(interrupt.value["action_requests"][0]["description"])
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    result["messages"][-1].pretty_print()
    print(database.execute("SELECT COUNT(*) FROM orders").fetchone())
