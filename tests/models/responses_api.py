"""OpenAI's Responses API as it keeps responses and conversations: it refuses what the real one would refuse."""

from dataclasses import dataclass, field
from typing import Any

from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError

from tests.models.openai_server import Exchange, Item, refusing, replying

PARAMS: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
ANSWERS = {
    "function_call_output": "call_id",
    "mcp_approval_response": "approval_request_id",
    "shell_call_output": "call_id",
    "apply_patch_call_output": "call_id",
}
ASKS = {
    "function_call": "call_id",
    "mcp_approval_request": "id",
    "shell_call": "call_id",
    "apply_patch_call": "call_id",
}


class Refused(Exception):
    """What the API says of a request that it does not take."""


@dataclass
class ResponsesAPI:
    """Gives one scripted reply after another to requests that it would take."""

    replies: list[list[Item]]
    conversations: dict[str, list[Item]] = field(default_factory=dict)
    stored: dict[str, list[Item]] = field(default_factory=dict)
    """The whole context of each stored response, by its id."""

    def __call__(self, exchange: Exchange) -> None:
        body = exchange.server.asked[-1].body
        try:
            context = self._context(body)
            fresh = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
            self._check(context, fresh)
        except Refused as error:
            refusing(400, str(error))(exchange)
            return
        items, id = self.replies.pop(0), f"resp_{len(self.stored) + 1}"
        whole = [*context, *fresh, *items]
        if body.get("store", True):
            self.stored[id] = whole
        if body.get("conversation"):
            self.conversations[body["conversation"]] = whole
        replying(*items, id=id)(exchange)

    def _context(self, body: dict[str, Any]) -> list[Item]:
        try:
            PARAMS.validate_python(body)
        except ValidationError as error:
            raise Refused(f"Invalid request: {error}") from None
        previous, conversation = body.get("previous_response_id"), body.get("conversation")
        if previous and conversation:
            raise Refused("Give previous_response_id or conversation, not both.")
        if previous and previous not in self.stored:
            raise Refused(f"Previous response with id '{previous}' not found.")
        if conversation and conversation not in self.conversations:
            raise Refused(f"Conversation with id '{conversation}' not found.")
        return list(self.stored[previous] if previous else self.conversations[conversation] if conversation else [])

    def _check(self, context: list[Item], fresh: list[Item]) -> None:
        whole = [*context, *fresh]
        ids = [item["id"] for item in whole if item.get("id")]
        if len(ids) != len(set(ids)):
            raise Refused(f"Duplicate item found with id in {ids}.")
        asked = [item[ASKS[item["type"]]] for item in whole if item.get("type") in ASKS]
        answered = [item[ANSWERS[item["type"]]] for item in whole if item.get("type") in ANSWERS]
        for each in answered:
            if each not in asked or answered.count(each) > 1:
                raise Refused(f"No tool call or approval request found for the answer to {each}, or two answers.")
        for each in asked:
            if each not in answered:
                raise Refused(f"No tool output or approval found for {each}.")
        for number, item in enumerate(whole):
            if item.get("type") == "reasoning":
                after = whole[number + 1] if number + 1 < len(whole) else {}
                if after.get("type") not in ("reasoning", "message", *ASKS) or after.get("role") == "user":
                    raise Refused(f"Item '{item['id']}' of type 'reasoning' was provided without its following item.")
                if item in fresh and not item.get("encrypted_content") and not self._knows(item["id"]):
                    raise Refused(f"Item with id '{item['id']}' not found: items are not kept when store is false.")

    def _knows(self, id: str) -> bool:
        return any(item.get("id") == id for items in self.stored.values() for item in items)
