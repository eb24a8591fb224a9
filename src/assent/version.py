"""The version of this package, as saved runs record it."""

__version__ = "0.1.0"
