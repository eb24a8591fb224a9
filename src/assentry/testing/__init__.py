"""Helpers for tests: a scripted model and person, a fake clock, and checks for custom models, sessions and stores."""

from .clock import FakeClock
from .model import ScriptedCall, ScriptedModel, call
from .model_check import check_model
from .person import ScriptedPerson
from .realtime_rules import reply_by_rules
from .realtime_server import RealtimeServer
from .session import check_session
from .store import check_store

__all__ = [
    "FakeClock",
    "RealtimeServer",
    "ScriptedCall",
    "ScriptedModel",
    "ScriptedPerson",
    "call",
    "check_model",
    "check_session",
    "check_store",
    "reply_by_rules",
]
