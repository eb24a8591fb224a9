"""What the tests of the stores share: a place in each kind of database."""

from tests.store.place import place

__all__ = ["place"]
