"""Fronts that speak AG-UI, such as CopilotKit and assistant-ui: they talk to an agent here, and show its questions.

Needs the extra `ag-ui`.
"""

from ..missing import missing_library

try:
    from .app import ag_ui_app
except ModuleNotFoundError as error:
    if (error.name or "").startswith("assentry"):
        raise
    raise missing_library("ag_ui_app", error, "ag-ui") from None

__all__ = ["ag_ui_app"]
