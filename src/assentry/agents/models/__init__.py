"""The modules of `agents.models`."""
