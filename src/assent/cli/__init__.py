"""The command line. Thin: it prints what the others return, data to stdout and messages to stderr."""

from .command import main

__all__ = ["main"]
