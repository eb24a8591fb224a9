"""A program with tools of its own that Assentry does not run: it asks before it acts.

    python examples/ask_from_outside.py pay 40      # a rule lets it pass
    python examples/ask_from_outside.py pay 900     # a person is asked; the program ends
    python examples/ask_from_outside.py decide      # decide on what is open, at the prompt
    python examples/ask_from_outside.py pay 900     # the same ask: it runs if it was approved, once, or says why not

Do these in any order, and in as many terminals as you like. `billing.db` is all that they share; `billing-paid.txt`
has what was paid. Without a word all four are done. With APPROVALS=https://inbox.example.com and a token of the role
agent in APPROVALS_TOKEN, the program asks that inbox instead, whose own rules hold.
"""

import asyncio
import os
import sys
from pathlib import Path

from assentry import Approvals, Approve, Conflict, Decision, Money, NotApproved, NotDecided, Preview, Reject
from assentry.outside import RuleFile
from assentry.store import Question, SQLiteStore

DATABASE, PAID = Path("billing.db"), Path("billing-paid.txt")
RULES = RuleFile.parse("""
[[rule]]
name = "small payments"
verdict = "allow"
tool = "pay"
where = { euros = { at_most = 50 } }
""")


def pay(to: str, euros: float) -> str:
    """Pay somebody: what this program does, whoever asks it to."""
    with PAID.open("a", encoding="utf-8") as paid:
        paid.write(f"{to} {euros:g}\n")
    return f"paid {euros:g} euros to {to}"


def approvals() -> Approvals:
    """Return the place to ask: an inbox if one is named, else the store here."""
    address = os.environ.get("APPROVALS")
    if address:
        return Approvals(address, source="billing", token=os.environ.get("APPROVALS_TOKEN"))
    return Approvals(f"sqlite:///{DATABASE}", source="billing", rules=RULES)


async def ask_and_pay(euros: float) -> None:
    """Pay ACME if that may be done."""
    preview = Preview(f"Pay {euros:g} euros to ACME", blocks=(Money(f"{euros:.2f}", "EUR"),))
    async with approvals() as place:
        asked = await place.ask("pay", {"to": "ACME", "euros": euros}, key=f"acme-{euros:g}", preview=preview)
        try:
            print(await asked.run(pay, timeout=0.2))
        except NotDecided:
            print(f"Asked whether to pay {euros:g} euros; nothing is paid yet.")
        except NotApproved as error:
            print(error)


def approved(question: Question) -> bool:
    return input(f"{question.tool} {question.arguments}? [y/N] ").strip().lower() in ("y", "yes")


async def decide() -> None:
    """Decide as a person would on the page of the inbox."""
    async with SQLiteStore(DATABASE) as store:
        for question in (await store.questions(agent="billing")).items:
            decision: Decision = Approve() if approved(question) else Reject("Not this month.")
            try:
                await store.decide(question.id, decision, by="you", digest=question.digest)
            except Conflict as error:  # somebody else was quicker
                print(error)
    print("Nothing is open.")


async def main(words: list[str]) -> None:
    if words[:1] == ["pay"]:
        await ask_and_pay(float(words[1]))
    elif words == ["decide"]:
        await decide()
    else:
        await ask_and_pay(40.0)
        await ask_and_pay(900.0)
        await decide()
        await ask_and_pay(900.0)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except EOFError:
        print("\nWhat is open stays open. Start again to decide.")
