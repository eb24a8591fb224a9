"""A run as OpenTelemetry spans. Only this room knows OpenTelemetry, and it is loaded when a run is traced."""

from .observer import Observer
from .provider import flush

__all__ = ["Observer", "flush"]
