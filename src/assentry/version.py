"""The version of this package. Nothing else belongs here."""

__version__ = "0.1.0"
"""The version of Assentry. Each saved run records the version that wrote it."""
