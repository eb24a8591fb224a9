"""The module `agents.models.chatcmpl_helpers`, which Assentry does not have."""

from ..absent import not_here

raise not_here(
    "agents.models.chatcmpl_helpers",
    "Assentry converts items itself; write a model with get_response and stream_response instead",
)
