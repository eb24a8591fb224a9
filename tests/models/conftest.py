"""Fixtures of the model tests."""

from tests.models.embedded import embedded_server

__all__ = ["embedded_server"]
