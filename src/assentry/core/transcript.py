"""The transcript: a run's conversation as provider items for the model, derived from the entries, each made once.

Items have the form of OpenAI's Responses API for every provider. Translating them belongs to a model's adapter.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct
from msgspec.json import encode

from ..errors import UnreadableState
from . import facts as f
from .digest import canonical
from .facts import decode
from .run import NATIVE, CallState, Run, TranscriptEntry, Turn, native_arguments
from .wording import edit_words

Item = dict[str, Any]
NOTE = "assent:message"
"""The key of an item's note: data of whoever made the item. The journal keeps notes; providers never get them.

An item with a note begins a new message.
"""

REQUESTS = frozenset(
    ("mcp_approval_request", "computer_call", "local_shell_call", "shell_call", "apply_patch_call", "custom_tool_call")
)
"""The types of items that ask for something other than a function's output, besides other types with a `call_id`."""
NO_REQUESTS = frozenset(("function_call", "program"))
"""The types of items with a `call_id` that a function's output answers, or the provider itself."""


GIVEN = frozenset(("function_call_output", "mcp_approval_response", "shell_call_output", "apply_patch_call_output"))
"""The types of items that answer the model's own."""


class TranscriptCache(Struct, eq=False):
    """The items that were made of the first `upto` entries."""

    items: list[Item]
    upto: int = 0
    asks: bool = False
    """True if the provider has asked for something other than a function's output."""


def transcript(run: Run, saw: int | None = None) -> list[Item]:
    """Return all items for the model, with inputs up to number `saw`. The run owns the list: copy it to keep it."""
    cache: TranscriptCache = run.transcript_cache or TranscriptCache([])
    run.transcript_cache = cache
    for entry in run.entries[cache.upto :]:
        if run.open and type(entry) is Turn and entry.pending:
            break
        if type(entry) is f.HandedOff and entry.history:
            cache.items = []
        made = entry_items(entry)
        cache.items += made
        cache.asks = cache.asks or any(map(asks, made))
        cache.upto += 1
    if not run.unheard and not cache.asks:
        return cache.items
    heard = cache.items.copy()
    for said in run.unheard if saw is None else run.news(saw):
        heard += said_items(said)
    return drop_unanswered(heard) if cache.asks else heard


def asks(item: Item) -> bool:
    """Return True if the provider's item asks for something other than a function's output."""
    kind = item.get("type")
    if type(kind) is not str or kind in NO_REQUESTS or kind.endswith("_output"):
        return False
    return kind in REQUESTS or bool(item.get("call_id"))


def unanswered(items: list[Item]) -> set[int]:
    """Return the indexes of items that ask for something other than a function's output and have no answer here."""
    asking = [number for number, item in enumerate(items) if asks(item)]
    if not asking:
        return set()
    answers = [item for item in items if str(item.get("type")).endswith(("_output", "_response"))]
    given = [item[name] for item in answers for name in ("call_id", "id", "approval_request_id") if item.get(name)]
    return {number for number in asking if not any(items[number].get(name) in given for name in ("call_id", "id"))}


def drop_unanswered(items: list[Item]) -> list[Item]:
    """Return the items without requests that have no answer among them: providers refuse such requests."""
    out = unanswered(items)
    return without(items, out) if out else items


def open_requests(run: Run) -> list[Item]:
    """Return the unanswered requests of the last reply that are not calls; none if there is newer input."""
    for turn in reversed(run.entries if not run.unheard else ()):
        if type(turn) is Turn and type(turn.reply) is f.Replied:
            calls = {state.call.item for state in turn.calls}
            if calls.issuperset(range(len(turn.items))):
                return []  # every item is a call
            items = items_in(turn.reply.items)
            return [items[number] for number in sorted(unanswered(items) - calls)]
    return []


def forget(run: Run) -> None:
    """Drop the cached items of a run and its open branches, before a long wait. The items can be made again."""
    run.transcript_cache = None
    for state in run.open.values():
        if state.child is not None:
            forget(state.child)


def items_since_reply(run: Run, saw: int | None = None) -> list[Item]:
    """Return the items since the model's last reply: outputs of its calls, and inputs up to number `saw`."""
    out: list[Item] = []
    for entry in reversed(run.entries):
        if type(entry) is Turn and type(entry.reply) is f.Replied:
            texts = [(state, output_text(state)) for state in entry.calls]
            out[:0] = [output_item(state, text) for state, text in texts if text is not None]
            break
        out[:0] = entry_items(entry)
    unheard = run.unheard if saw is None else run.news(saw)
    return out + [item for said in unheard for item in said_items(said)]


def entry_items(entry: TranscriptEntry) -> list[Item]:
    """Return the items of one entry. An open turn leaves out the calls that have no output yet."""
    if type(entry) is Turn:
        return turn_items(entry)
    if type(entry) is f.HandedOff:
        return items_in(entry.history) if entry.history else []
    return said_items(entry)  # type: ignore[arg-type]


def heard_input(run: Run) -> list[Item]:
    """Return the input that the active agent works on, without what the run has generated since.

    After a handoff with an input filter, it begins with the conversation that the filter chose.
    """
    first = max((n for n, entry in enumerate(run.entries) if type(entry) is f.HandedOff and entry.history), default=0)
    given = [entry for entry in run.entries[first:] if type(entry) is not Turn]
    items = [item for entry in (*given, *run.unheard) for item in entry_items(entry)]
    return [{"content": item["content"], **item} if "content" in item else item for item in items]


def said_items(said: f.Said) -> list[Item]:
    """Return an input as items for a provider."""
    return without_notes(kept_items(said))


def kept_items(said: f.Said) -> list[Item]:
    """Return an input as items, with their notes."""
    value = text_or_items(said)
    return [{"content": value, "role": said.by}] if type(value) is str else value  # type: ignore[return-value]


def text_or_items(said: f.Said) -> str | list[Item]:
    """Return an input as it was given: a text, or items."""
    value = decode(said.items)
    return value if type(value) is str else _items(value)


def items_in(json: Raw) -> list[Item]:
    """Return the provider's items in a fact, or raise `UnreadableState`."""
    return _items(decode(json))


def _items(items: Any) -> list[Item]:
    """Return the items, or raise `UnreadableState` unless they are objects whose types are text."""
    for each in items if type(items) is list else (None,):
        if type(each) is not dict or type(each.get("type", "")) is not str:
            raise UnreadableState("This run is damaged: what was said in it is not a list of items.")
    return items  # type: ignore[no-any-return]


def without_notes(items: list[Item]) -> list[Item]:
    """Remove the notes from the items in place, and return the items for a provider.

    The name of whoever made an item goes too: a provider sets it in its replies and refuses it in input.
    """
    for item in items:
        item.pop(NOTE, None)
        item.pop("created_by", None)
    return items


def turn_items(turn: Turn) -> list[Item]:
    """Return the reply's items and then the outputs, in the order of the calls."""
    reply = turn.reply
    if isinstance(reply, f.Proposed):
        texts = [_of_output(state) for state in turn.calls if state.call.kind == "output"]
        return [{"role": "user", "content": text} for text in texts if text]
    items = without_notes(items_in(reply.items))
    outputs: list[Item] = []
    silent: set[int] = set()
    """The items of the calls that have no text; a call that is not done has none."""
    for state in turn.calls:
        text = output_text(state)
        if text is None:
            silent.add(state.call.item)
        else:
            outputs.append(output_item(state, text))
    if silent and turn.pending:
        items = without(items, silent)
    return items + outputs


def _of_output(state: CallState) -> str | None:
    """Return the text for the model about a final output that a person refused or changed; else None."""
    if type(state.outcome) is f.Concluded and state.edited:
        given = bytes(state.args).decode()
        return f"[A person changed the final output before it was given. What was given was: {given}]"
    return state.told


def without(items: list[Item], out: set[int]) -> list[Item]:
    """Return the items without these indexes, and without the reasoning before them: providers refuse it alone."""
    kept: list[Item] = []
    thoughts: list[Item] = []
    for n, item in enumerate(items):
        if item.get("type") == "reasoning":
            thoughts = [*thoughts, item] if n and items[n - 1].get("type") == "reasoning" else [item]
        elif n not in out:
            kept += [item] if is_given(item) else [*thoughts, item]
            thoughts = []
    return kept


def is_given(item: Item) -> bool:
    """Return True if the item was given to the model, rather than made by the model."""
    return item.get("type") in GIVEN or item.get("role") in ("user", "system", "developer")


def output_item(state: CallState, text: str) -> Item:
    """Return the item that gives a call's output to the model."""
    if state.call.kind == "hosted":
        return response_item(state)
    kind = state.proposal.type
    if kind in NATIVE:
        return {"type": f"{kind}_output", "call_id": provider_id(state), **_native_output(state, kind, text)}
    parts: str | list[Item] = text
    if type(state.outcome) is f.Finished and state.outcome.parts:
        told = ran_text(state, "").strip()
        note = [{"type": "input_text", "text": told}] if told else []
        output = decode(state.outcome.output)
        parts = [*output, *note] if state.outcome.notice is None else [*note, *output]
    return {"call_id": provider_id(state), "output": parts, "type": "function_call_output"}


def _native_output(state: CallState, kind: str, text: str) -> Item:
    """Return the output of a provider's own kind of call in its own form.

    Any other output, such as a person's answer or that of a tool that a person chose, is given as text.
    """
    end, told = state.outcome, ran_text(state, "").strip()
    went = type(end) is f.Finished and end.error is None
    value = decode(end.output) if type(end) is f.Finished and went else None
    value = value if type(value) is dict else {}
    if kind == "apply_patch_call":
        said, status = value.get("output"), value.get("status")
        if type(said) is not str or status not in ("completed", "failed"):
            return {"status": "completed" if went else "failed", "output": text}
        return {"status": status, "output": "\n\n".join(part for part in (said, told) if part)}
    output = value.get("output")
    if type(output) is not list or not all(map(_is_command_output, output)):
        return {"output": [_command_output(text, "", 0) if went else _command_output("", text, 1)]}
    limit = value.get("max_output_length")
    shown = [*output, *([_command_output(told, "", 0)] if told else [])]
    return {"output": shown, **({"max_output_length": limit} if type(limit) is int else {})}


def _command_output(stdout: str, stderr: str, code: int) -> Item:
    return {"stdout": stdout, "stderr": stderr, "outcome": {"type": "exit", "exit_code": code}}


def _is_command_output(value: Any) -> bool:
    """Return True if a value has the form of one command's output."""
    if type(value) is not dict or type(value.get("stdout")) is not str or type(value.get("stderr")) is not str:
        return False
    end = value.get("outcome")
    if type(end) is not dict or value.keys() != {"stdout", "stderr", "outcome"}:
        return False
    return end == {"type": "timeout"} or (end.keys() == {"type", "exit_code"} and type(end["exit_code"]) is int)


def as_function(item: Item, names: dict[str, str] | None = None) -> Item:
    """Return a provider's own kind of call, or its output, as a function's; any other item as it is.

    `names` are the names of the offered tools by kind of call.
    """
    kind = item.get("type")
    if type(kind) is not str or kind.removesuffix("_output") not in NATIVE:
        return item
    given, id = kind.endswith("_output"), item.get("call_id")
    if given:
        value = {name: each for name, each in item.items() if name not in ("type", "call_id", "id")}
        return {"type": "function_call_output", "call_id": id, "output": encode(value).decode()}
    arguments = native_arguments(encode(item.get("action" if kind == "shell_call" else "operation")).decode())
    name = (names or {}).get(NATIVE[kind], NATIVE[kind])
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": id}


def response_item(state: CallState) -> Item:
    """Return the answer to a provider's request to call a tool of an MCP server; a person's reason goes with a no."""
    approve = type(state.outcome) is f.Finished
    answer = {"type": "mcp_approval_response", "approval_request_id": state.proposal.id, "approve": approve}
    return answer if approve or not state.words else {**answer, "reason": state.words}


def provider_id(state: CallState) -> str:
    """Return the provider's id of a call; our own id if the provider gave none."""
    given = state.proposal.id if state.call.kind == "hosted" else state.proposal.call_id
    return state.call.id if given is None else given


def output_text(state: CallState) -> str | None:
    """Return the text of a call's output for the model; None while the call has no outcome."""
    outcome = state.outcome
    if type(outcome) is f.Finished:
        return ran_text(state, value_text(outcome.output))
    if type(outcome) is f.HandedOff:
        return ran_text(state, handed_text(outcome.name or outcome.to))
    return state.told


def ran_text(state: CallState, text: str) -> str:
    """Return the text of a call's output; if a person changed the call, add what ran instead."""
    if not state.edited and not state.steps:
        return text
    notice = state.outcome.notice if type(state.outcome) is f.Finished else None
    if notice is not None:
        return noticed_text(notice, text)
    ran = edits(state)
    if not ran:
        return text
    return f"{text}\n\n[{edit_words(ran)}]"


def noticed_text(notice: str, text: str) -> str:
    """Return the text of a call's output after a notice, which says what ran."""
    return f"{notice}\n\nTool response:\n{text}" if notice and text else notice or text


def edits(state: CallState) -> list[tuple[str, str]]:
    """Return the calls that a person changed and that ran, as tools and JSON: in the body's place, else the body."""
    values = [decode(step.value) for step in state.steps if step.name == f.REPLACEMENT]
    inside = [each for each in values if type(each) is dict and each.keys() == {"tool", "arguments", "edited"}]
    if inside or not state.edited:
        return list(dict.fromkeys((each["tool"], canonical(each["arguments"]).decode()) for each in inside))
    return [(state.tool, bytes(state.args).decode() if state.args else state.proposal.arguments)]


def handed_text(name: str) -> str:
    """Return the text that tells the model of a handoff: the name of the active agent."""
    return f'{{"assistant": {encode(name).decode()}}}'


def value_text(value: Raw) -> str:
    """Return a JSON value as text for the model: a string as itself, anything else as JSON."""
    data = bytes(value)
    return str(decode(value)) if data.startswith(b'"') else data.decode()


def content_text(content: Any) -> str:
    """Return the text of a message's content, which is text or a list of parts; empty if there is no text."""
    if isinstance(content, str):
        return content
    return "".join([part["text"] for part in _parts(content) if isinstance(part.get("text"), str)])


def _parts(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a message's content that are objects; none if the content is no list."""
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def reply_text(reply: f.Replied) -> str:
    """Return the text of a reply's last message; the text of its refusal if there is no other."""
    return "".join([content_text(item.get("content")) for item in _messages(reply)]) or reply_refusal(reply) or ""


def reply_refusal(reply: f.Replied) -> str | None:
    """Return the model's own text if it refused to answer; None if it did not refuse."""
    parts = (part for item in _messages(reply) for part in _parts(item.get("content")) if part.get("type") == "refusal")
    words = (part.get("refusal") for part in parts)
    return next((each for each in words if each and isinstance(each, str)), None)


def _messages(reply: f.Replied) -> list[Item]:
    """Return the items of the model's last message in a reply.

    A reply may hold more than one model call gave: an item with a note, an input or a call's output begins a new
    message.
    """
    last: list[Item] = []
    over = False
    for item in items_in(reply.items):
        kind, role = item.get("type", "message"), item.get("role", "assistant")
        over = over or NOTE in item or kind in GIVEN or role != "assistant"
        if kind == "message" and role == "assistant":
            last, over = ([item] if over else [*last, item]), False
    return last
