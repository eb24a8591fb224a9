"""The module `agents.extensions.experimental`, of whose modules none is here."""
