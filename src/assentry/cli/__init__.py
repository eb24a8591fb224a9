"""The command line. It only prints results of the other packages: data to stdout, messages to stderr."""

from .command import main

__all__ = ["main"]
