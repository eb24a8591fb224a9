"""The agents of the example: a support desk that looks up orders by itself, and asks before money moves."""

from __future__ import annotations

from typing import Any

from assentry import Money, Preview, Sentence, function_tool
from assentry.realtime import RealtimeAgent

ORDERS: dict[str, dict[str, Any]] = {
    "1042": {"article": "desk lamp", "paid": 89.90, "status": "delivered on Monday"},
    "1043": {"article": "bookshelf", "paid": 249.00, "status": "on its way, and arrives tomorrow"},
}


@function_tool
async def order_status(order_id: str) -> str:
    """Tell what was ordered, what was paid, and where it is."""
    order = ORDERS.get(order_id)
    if order is None:
        return f"There is no order {order_id}."
    return f"Order {order_id}: {order['article']}, {order['paid']:.2f} EUR paid, {order['status']}."


def refund_preview(_ctx: object, args: dict[str, Any]) -> Preview:
    """Describe a refund from the shop's own records, not from the model's words."""
    amount, order = float(args["amount"]), ORDERS.get(args["order_id"])
    sentence = f"Refund {amount:.2f} EUR on order {args['order_id']}"
    if order is None:
        return Preview(sentence, (Sentence("There is no such order.", warning=True),))
    money = (Money(f"{order['paid']:.2f}", "EUR", "Paid"), Money(f"{amount:.2f}", "EUR", "Would be refunded"))
    if amount > order["paid"]:
        return Preview(sentence, (*money, Sentence("The refund is more than what was paid.", warning=True)))
    return Preview(sentence, money)


@function_tool(needs_approval=True, preview=refund_preview)
async def refund(order_id: str, amount: float) -> str:
    """Pay money back."""
    return f"Refunded {amount:.2f} EUR on order {order_id}."


@function_tool
async def invoice(order_id: str) -> str:
    """Tell what is on the invoice of an order."""
    order = ORDERS.get(order_id)
    return f"Invoice of order {order_id}: {order['paid']:.2f} EUR." if order else f"There is no order {order_id}."


billing = RealtimeAgent[Any](
    name="Billing",
    handoff_description="Answers questions about invoices and payments.",
    instructions="You answer questions about invoices and payments of a shop. Be brief.",
    tools=[invoice, refund],
)

support_desk = RealtimeAgent[Any](
    name="Support desk",
    instructions=(
        "You help customers of a shop. Look an order up before you say anything about it. "
        "A refund waits for a person; say so, and go on with the conversation. Be brief."
    ),
    tools=[order_status, refund],
    handoffs=[billing],
)
