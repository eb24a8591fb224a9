"""What the tests of the engines share with those of the stores: a place in each kind of database."""

from tests.store.place import place

__all__ = ["place"]
