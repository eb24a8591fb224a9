"""The names of `agents.extensions`."""

from .tool_output_trimmer import ToolOutputTrimmer

__all__ = ["ToolOutputTrimmer"]
