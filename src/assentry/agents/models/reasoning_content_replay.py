"""The module `agents.models.reasoning_content_replay`, which Assentry does not have."""

from ..absent import not_here

raise not_here(
    "agents.models.reasoning_content_replay",
    "Reasoning is sent back to the server that gave it; or leave it out with RunConfig(call_model_input_filter=...)",
)
