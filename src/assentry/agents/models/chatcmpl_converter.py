"""The module `agents.models.chatcmpl_converter`, which Assentry does not have."""

from ..absent import not_here

raise not_here(
    "agents.models.chatcmpl_converter",
    "Assentry converts items itself; write a model with get_response and stream_response instead",
)
