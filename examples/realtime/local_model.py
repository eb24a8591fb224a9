"""The script of the local model, which stands in for a real one: it knows a few words, and speaks in tones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from assentry.testing import ScriptedCall, call

HELP = "I can look up an order, refund one, or hand you over to billing. Try: where is order 1042?"
WAITS = "A colleague has to confirm that. Is there anything else meanwhile?"
UNHEARD = "I heard you, but this local model understands only what you type."
SECOND = 24_000 * 2
"""The bytes of a second of audio."""


def think(items: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Any:
    """Return the reply to the conversation so far: words, a call, or both."""
    last: Mapping[str, Any] = next((item for item in reversed(items) if not by_the_model(item)), {})
    if last.get("type") == "function_call_output":
        return after_a_call(str(last.get("output", "")))
    if last.get("role") == "system":
        return WAITS
    said = words_of(last)
    if said.startswith("("):
        return UNHEARD
    return answer(said, {str(tool["name"]) for tool in tools})


def by_the_model(item: Mapping[str, Any]) -> bool:
    """Return True for what the model itself said or called."""
    return item.get("role") == "assistant" or item.get("type") == "function_call"


def after_a_call(output: str) -> str:
    """Return what the model says about a call's outcome."""
    if '"assistant"' in output:
        return "Billing here. Which order is it about?"
    return " ".join(output.split("[A person", 1)[0].split())


def answer(said: str, tools: set[str]) -> str | ScriptedCall | list[str | ScriptedCall]:
    """Return the answer to the user's words."""
    order = re.search(r"\b\d{4}\b", said)
    amount = re.search(r"\b\d+[.,]\d\d\b", said)
    number = order[0] if order else "1042"
    if "refund" in said.lower() or "money back" in said.lower():
        wanted = float(amount[0].replace(",", ".")) if amount else 89.90
        # On purpose: the call is ten times what the words say, so that there is something to see before you approve.
        return [f"I give you {wanted:.2f} back.", call("refund", {"order_id": number, "amount": wanted * 10})]
    if "invoice" in said.lower() or "billing" in said.lower():
        return call("invoice", {"order_id": number}) if "invoice" in tools else call("transfer_to_billing", {})
    if order or "order" in said.lower():
        known = "order_status" if "order_status" in tools else "invoice"
        return call(known, {"order_id": number})
    return HELP


def words_of(item: Mapping[str, Any]) -> str:
    """Return the words of a message, typed or transcribed."""
    parts = item.get("content") or []
    return " ".join(str(part.get("text") or part.get("transcript") or "") for part in parts).strip()


def transcribe(audio: bytes) -> str:
    """Return what stands for the words of a spoken message."""
    return f"({len(audio) / SECOND:.1f} seconds of speech)"
