"""The modules of `agents.extensions.models`."""
