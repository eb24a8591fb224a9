"""The command line. It only prints results of the other packages: data to stdout, messages to stderr."""

import typing

if typing.TYPE_CHECKING:
    from .command import main

__all__ = ["main"]


def __getattr__(name: str) -> typing.Any:
    """Import the commands on first use: the hook of a coding agent needs one of them."""
    if name == "main":
        from .command import main

        return main
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
