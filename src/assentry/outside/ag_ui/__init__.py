"""Fronts that speak AG-UI, such as CopilotKit and assistant-ui: they talk to an agent here, and show its questions.

Needs the extra `ag-ui`.
"""

from .app import ag_ui_app

__all__ = ["ag_ui_app"]
