"""What goes on with runs that live in a store: the worker."""

from .worker import Worker

__all__ = ["Worker"]
