"""The version of this package, as saved runs record it."""

__version__ = "0.1.0"
"""The version of Assent; a saved run says which one wrote it."""
