"""The module `agents.extensions`."""
