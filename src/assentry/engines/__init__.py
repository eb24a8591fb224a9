"""Engines drive runs that live in a store; the worker is one."""

from .worker import Worker

__all__ = ["Worker"]
