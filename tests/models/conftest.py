"""Fixtures of the model tests."""

from tests.models.embedded import embedded, embedded_server

__all__ = ["embedded", "embedded_server"]
