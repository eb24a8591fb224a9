"""Helpers for tests: a scripted model and person, a fake clock, and checks for custom sessions and stores."""

from .clock import FakeClock
from .model import ScriptedCall, ScriptedModel, call
from .person import ScriptedPerson
from .session import check_session
from .store import check_store

__all__ = ["FakeClock", "ScriptedCall", "ScriptedModel", "ScriptedPerson", "call", "check_session", "check_store"]
