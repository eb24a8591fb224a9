"""The spans of a run, made with OpenTelemetry.

Only this package imports OpenTelemetry, and it is loaded only when a run is traced.
"""

from .observer import Observer
from .provider import flush

__all__ = ["Observer", "flush"]
