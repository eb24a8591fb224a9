"""An inbox for the tests: agents that ask questions of every kind, people who sign in, and the app over both."""

from __future__ import annotations

import json
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, Field

from assentry import (
    SQL,
    Agent,
    Diff,
    Mail,
    Money,
    OutcomeUnknown,
    Preview,
    RunConfig,
    Runner,
    RunResult,
    Sentence,
    Shell,
    Table,
    ToolContext,
    function_tool,
)
from assentry.inbox import app
from assentry.inbox.accounts import accounts_of
from assentry.store import Store
from assentry.store.record import Question
from assentry.testing import ScriptedModel, call

MAIL = "My desk lamp (order 1042) came with a broken arm. I would like my money back, please. Anna"
PASSWORD = "correct horse battery staple"
PEOPLE = {"ann": "operator", "ben": "reviewer", "vera": "viewer", "otto": "operator"}


def refund_preview(ctx: Any, args: dict[str, Any]) -> Preview:
    amount = f"{args['amount']:.2f}"
    return Preview(
        f"Refund {amount} EUR on order {args['order']} to anna@example.com",
        (
            Money("89.90", "EUR", "Paid for order 1042"),
            Money(amount, "EUR", "Would be refunded"),
            Sentence("The refund is ten times what was paid. Refunds so far: 0.00 EUR.", warning=True),
        ),
        {"order_version": 7},
    )


@function_tool
async def look_up(order: int) -> dict[str, Any]:
    """Find an order."""
    return {"order": order, "article": "desk lamp", "paid": 89.90}


@function_tool(needs_approval=True, preview=refund_preview, deadline=1600)
async def refund(order: int, amount: float, memo: str = "") -> str:
    """Pay money back.

    Args:
        order: The number of the order.
        amount: The amount in EUR.
        memo: The words on the bank statement.
    """
    return f"refunded {amount:.2f}"


def mail_preview(ctx: Any, args: dict[str, Any]) -> Preview:
    body = "Dear Anna,\n\nwe are sorry about the lamp. The money is on its way.\n\nThe shop"
    mail = Mail((args["to"],), "Your refund", body, sender="shop@example.com", attachments=("receipt.pdf",))
    return Preview(f"Send an e-mail to {args['to']}", (mail,))


@function_tool(needs_approval=True, preview=mail_preview, deadline=170)
async def send_mail(to: str, subject: str) -> str:
    """Send a mail."""
    return "sent"


def patch_preview(ctx: Any, args: dict[str, Any]) -> Preview:
    before = "def total(rows):\n    return sum(r.net for r in rows)\n"
    after = "def total(rows):\n    return sum(r.gross for r in rows if r.paid)\n"
    return Preview("Change 1 file in billing/ (+1 −1)", (Diff.between("billing/total.py", before, after),))


@function_tool(needs_approval=True, preview=patch_preview)
async def change_file(path: str) -> str:
    """Change a file."""
    return "changed"


def shell_preview(ctx: Any, args: dict[str, Any]) -> Preview:
    return Preview(f"Run {args['command']} in the release checkout", (Shell((args["command"],), "/srv/release"),))


@function_tool(needs_approval=True, preview=shell_preview, reviewers=("ann", "group:release"))
async def run_command(command: str) -> str:
    """Run a command."""
    return "ran"


def sql_preview(ctx: Any, args: dict[str, Any]) -> Preview:
    return Preview(
        "Delete 1,204 rows from records",
        (
            SQL("DELETE FROM records\nWHERE seen < :day", {"day": "2025-01-01"}, 1204, "postgresql"),
            Table(("id", "name", "seen"), ((1, "Ada", "2024-02-11"), (2, "Bo", None)), "The first 2 of 1,204"),
        ),
    )


@function_tool(needs_approval=True, preview=sql_preview)
async def execute_sql(statement: str) -> str:
    """Run SQL."""
    return "done"


class Warehouse(BaseModel):
    place: Literal["Porto", "Gdansk", "Bergen"]
    express: bool = False
    note: str | None = None


@function_tool
async def ship(ctx: ToolContext, order: int) -> str:
    """Ship an order."""
    answer = await ctx.ask(f"Which warehouse should order {order} ship from?", schema=Warehouse)
    return f"shipped from {answer.place}"


@function_tool
async def payout(to: str, amount: float) -> str:
    """Pay a supplier."""
    raise OutcomeUnknown("The connection to the bank was lost.")


class Line(BaseModel):
    article: str
    count: int = Field(ge=1)


class Address(BaseModel):
    street: str
    city: str


@function_tool(needs_approval=True)
async def place_order(
    lines: list[Line], to: Address, speed: Literal["slow", "fast"] = "slow", gift: bool = False, note: str | None = None
) -> str:
    """Order goods."""
    return json.dumps([each.model_dump() for each in lines])


@function_tool(needs_approval=True, redact=("key",))
async def use_key(key: str, where: str) -> str:
    """Use a key."""
    return "used"


@function_tool(needs_approval=True)
async def write(text: str) -> str:
    """Write something down."""
    return "written"


TOOLS = [look_up, refund, send_mail, change_file, run_command, execute_sql, ship, payout, place_order, use_key, write]


def agent(name: str, *steps: Any) -> Agent[Any]:
    return Agent(name=name, tools=TOOLS, model=ScriptedModel([*steps, "Done."]))


async def ask(store: Store, name: str, *steps: Any, said: str = "Go on.", by: str | None = None) -> Question:
    """Let an agent run until it asks; return its newest question."""
    result: RunResult = await Runner.run(agent(name, *steps), said, store=store, run_config=RunConfig(started_by=by))
    return await store.question(result.interruptions[-1].id)


async def ask_refund(store: Store, memo: str = "desk lamp, broken arm\u202e", **more: Any) -> Question:
    """The question of the pictures: the words say 89.90 and the call says 899.0."""
    steps = (
        call("look_up", {"order": 1042}),
        ["I give the 89.90 back and write to Anna.", call("refund", {"order": 1042, "amount": 899.0, "memo": memo})],
    )
    return await ask(store, "Shop assistant", *steps, said=MAIL, **more)


async def ask_order(store: Store) -> Question:
    lines = [{"article": "lamp", "count": 2}, {"article": "bulb", "count": 12}]
    arguments = {"lines": lines, "to": {"street": "Rua 1", "city": "Porto"}}
    return await ask(store, "Buyer", call("place_order", arguments))


async def ask_everything(store: Store) -> dict[str, Question]:
    """Ask one question of each kind, and return them by tool."""
    made = [
        await ask(store, "Data agent", call("execute_sql", {"statement": "DELETE FROM records WHERE seen < '2025'"})),
        await ask(store, "Repo keeper", call("change_file", {"path": "billing/total.py"})),
        await ask(store, "Post", call("ship", {"order": 1038})),
        await ask(store, "Till", call("payout", {"to": "Flores Ltd", "amount": 1200.5})),
        await ask_order(store),
        await ask(store, "Repo keeper", call("run_command", {"command": "git push origin main"})),
        await ask(store, "Shop assistant", call("send_mail", {"to": "anna@example.com", "subject": "Your refund"})),
        await ask_refund(store),
    ]
    return {question.tool: question for question in made}


async def hire(store: Store) -> None:
    """Add the people who sign in."""
    for name, role in PEOPLE.items():
        await accounts_of(store).add_user(name, role, PASSWORD, groups=("release",) if name == "otto" else ())  # type: ignore[arg-type]


def make_app(store: Store, undo: float = 0) -> FastAPI:
    """Return the inbox, as it is served; a decision is sent at once unless there are seconds to undo it."""
    return app(store, undo=undo)
