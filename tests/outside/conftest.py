"""The fixture that the tests of programs outside share: a place to ask at."""

from tests.outside.support import asking

__all__ = ["asking"]
