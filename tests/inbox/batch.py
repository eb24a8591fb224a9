"""Many questions about one tool, for the tests of deciding them together."""

from __future__ import annotations

from typing import Any

from assentry import Agent, Money, Preview, RunConfig, Runner, Sentence, function_tool
from assentry.store import Store
from assentry.store.record import Question
from assentry.testing import ScriptedModel, call
from tests.inbox.reader import Form, Page, Reader

PAID = {1042: 89.90, 1043: 24.50, 1044: 12.00, 1045: 149.00, 1046: 61.20}


def credit_preview(ctx: Any, args: dict[str, Any]) -> Preview:
    amount = f"{args['amount']:.2f}"
    blocks: list[Any] = [Money(amount, args["currency"], "Would be credited")]
    if args["amount"] > 500:
        blocks.append(Sentence("The credit is ten times what was paid.", warning=True))
    return Preview(f"Credit {amount} {args['currency']} for order {args['order']}", tuple(blocks))


def make_credit(description: str = "Credit a customer's account.", **options: Any) -> Any:
    @function_tool(needs_approval=True, preview=credit_preview, description_override=description, **options)
    async def credit(order: int, amount: float, currency: str = "EUR", reason: str = "returned", case: str = "") -> str:
        return f"credited {amount:.2f}"

    return credit


CREDIT = make_credit()


async def ask_credits(
    store: Store, *amounts: float, tool: Any = CREDIT, agent: str = "Returns desk", by: str | None = None, **more: Any
) -> list[Question]:
    """Ask a question for each amount, in a run of its own."""
    made = []
    for number, amount in enumerate(amounts):
        arguments = {"order": 1042 + number, "amount": amount, **more}
        model = ScriptedModel([call("credit", arguments), "Done."])
        asking = Agent(name=agent, tools=[tool], model=model)
        result = await Runner.run(asking, "Go on.", store=store, run_config=RunConfig(started_by=by))
        made.append(await store.question(result.interruptions[-1].id))
    return made


def table_address(*questions: Question, more: str = "") -> str:
    """Return the address of the table of these questions."""
    return f"/questions/many?{'&'.join(f'id={each.id}' for each in questions)}{more}"


def decision_form(page: Page) -> Form:
    """Return the form of the table."""
    return page.ids["decide"]


async def open_table(reader: Reader, *questions: Question) -> Page:
    return await reader.open(table_address(*questions))
