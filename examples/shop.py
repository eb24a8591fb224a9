"""A shop assistant that asks first. Run it with `make demo`, or `python examples/shop.py`.

A customer wants her money back. A scripted model (no key, no network) proposes what to do, and what matters waits for
you. Mind the difference between what the model says and what it would run.

Quit when you like, with q, Ctrl-C or the end of input, and start again: the run goes on where it stopped. While it
waits it is a file, `shop-run.json`. What the shop really did is in `shop-ledger.jsonl`, and nothing is in there twice.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

import assent
from assent import Agent, MessageOutputItem, Runner, RunResult, RunState, ToolApprovalItem, ToolContext, function_tool
from assent.testing import ScriptedModel, call

RUN, LEDGER = Path("shop-run.json"), Path("shop-ledger.jsonl")
MAIL = "My desk lamp (order 1042) came with a broken arm. I would like my money back, please. Anna"
console = Console(markup=False, emoji=False, highlight=False)  # what a model wrote is text, never markup


# -- The shop, and what the agent can do in it -------------------------------------------------------------------------
def record(what: str, details: str) -> str:
    """Everything the shop does becomes a line in its ledger."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(json.dumps([what, details]) + "\n")
    console.print(visible(f"  The shop {what} {details}."), style="green")
    return f"{what} {details}"


@function_tool
async def look_up(order: int) -> dict[str, Any]:
    """Find an order."""
    record("looked up", f"order {order}")
    return {"order": order, "article": "desk lamp", "paid": 89.90, "mail": "anna@example.com"}


def above_20(_ctx: object, params: dict[str, Any], _call_id: str) -> bool:
    return bool(params["amount"] > 20)


@function_tool(needs_approval=above_20)
async def refund(order: int, amount: float) -> str:
    """Pay money back."""
    return record("refunded", f"{amount:.2f} for order {order}")


@function_tool(needs_approval=True)
async def send_mail(to: str, subject: str, body: str) -> str:
    """Write to a customer."""
    return record("mailed", f"{to}: {subject}")


@function_tool
async def collect(ctx: ToolContext[Any], order: int) -> str:
    """Have a courier collect what was bought."""
    # A body that asks is entered again with the answer. What is a step happens once all the same.
    await ctx.step("label", lambda: record("printed", f"a label for order {order}"))
    day = await ctx.ask("Shall the courier come on Monday or on Friday?", schema=Literal["Monday", "Friday"])
    return record("booked", f"a courier on {day} for order {order}")


def think(request: assent.ModelRequest) -> Any:
    """What the model says next: it goes by the outputs it has seen, so any process can go on."""
    seen = [" ".join(item["output"].split()) for item in request.input if item.get("type") == "function_call_output"]
    if not seen:
        return ["I look at the order first.", call("look_up", {"order": 1042}, "call_1")]
    if len(seen) == 1:
        money = call("refund", {"order": 1042, "amount": 899.0}, "call_2")
        mail = {"to": "anna@example.com", "subject": "Your lamp", "body": "Dear Anna,\nyour money is on its way."}
        return ["I give the 89.90 back and write to Anna.", money, call("send_mail", mail, "call_3")]
    if len(seen) == 3:
        return ["Now somebody has to fetch the broken lamp.", call("collect", {"order": 1042}, "call_4")]
    return "\n- ".join(["I have done what I could. This is what I was told:", *seen[1:]])


model = ScriptedModel([think] * 4)
agent = Agent[Any]("Shop assistant", tools=[look_up, refund, send_mail, collect], model=model)


# -- You, at the prompt ------------------------------------------------------------------------------------------------
def visible(text: str) -> str:
    """The text, with characters that hide or mislead (control, direction, zero width) spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def show(item: ToolApprovalItem, result: RunResult) -> None:
    """What exactly would run, why you are asked, and, quoted, what the model says about it."""
    rows = {"arguments": item.arguments}
    if item.kind == "input":
        rows["question"] = str(item.question)
    elif "approve" in item.allowed:  # else they may be no JSON at all
        rows = {name: json.dumps(value, ensure_ascii=False) for name, value in json.loads(item.arguments).items()}
    table = Table.grid(Column(overflow="fold", style="cyan"), Column(overflow="fold"), padding=(0, 1))
    for name, value in rows.items():
        table.add_row(visible(name), visible(value))
    words = [said.text for said in result.new_items if isinstance(said, MessageOutputItem)]
    console.print(f'\nThe model says: "{visible(words[-1] if words else "")}"', style="italic")
    console.print(Panel(table, title=Text(visible(item.name)), title_align="left", border_style="yellow"))
    console.print(visible(item.reason), style="dim")


def read(prompt: str) -> str:
    line = console.input(f"{prompt} > ").strip()
    if not sys.stdin.isatty():
        console.print(visible(line))  # nobody has seen it being typed
    if line == "q":
        raise KeyboardInterrupt
    return line


def decide(state: RunState[Any], item: ToolApprovalItem) -> None:
    """A key, and what it needs: on the same line, or asked for."""
    asking = item.kind == "input"
    line = read("your answer, or n reject, q quit" if asking else "y approve, e edit, n reject, a answer, q quit")
    key, _, rest = line.partition(" ")
    if key == "y":
        state.approve(item, by="you")
    elif key == "e":
        changes = json.loads(rest or read('what to change, such as {"amount": 5}'))
        state.edit(item, json.loads(item.arguments) | changes if isinstance(changes, dict) else changes, by="you")
    elif key == "n":
        state.reject(item, rejection_message=rest or read("why, in words for the model") or None, by="you")
    elif key == "a" or asking:
        state.respond(item, (rest or read("the answer")) if key == "a" else line, by="you")
    else:
        console.print("Please type one of these letters.", style="red")


# -- The run -----------------------------------------------------------------------------------------------------------
def main() -> None:
    start: str | RunState[Any] = MAIL
    if RUN.exists():
        start = asyncio.run(RunState.from_string(agent, RUN.read_text("utf-8")))
        console.print(f"Going on with {RUN}.")
    else:
        LEDGER.write_text("")
        console.print(Panel(MAIL, title="A mail to the shop", title_align="left"))
    result = Runner.run_sync(agent, start)
    while result.interruptions:
        state, item = result.to_state(), result.interruptions[0]
        RUN.write_text(state.to_string(), "utf-8")
        show(item, result)
        while item in state.get_interruptions():
            try:
                decide(state, item)
            except (json.JSONDecodeError, assent.AssentError) as error:
                console.print(visible(f"Not accepted: {error}"), style="red")
        result = Runner.run_sync(agent, state)
    RUN.unlink(missing_ok=True)
    console.print("", Panel(visible(result.final_output), title="The model", title_align="left"))
    table = Table("The shop's ledger", Column(overflow="fold"))
    for line in LEDGER.read_text("utf-8").splitlines():
        table.add_row(*map(visible, json.loads(line)))
    console.print(table)


if __name__ == "__main__":
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        console.print("\nThe run waits. Start again to go on.")
    except assent.AssentError as error:
        sys.exit(f"{error} To begin anew, remove {RUN}.")
