"""For your tests: a scripted model, a scripted person, a clock that stands still, and what a session must do."""

from .clock import FakeClock
from .model import ScriptedCall, ScriptedModel, call
from .person import ScriptedPerson
from .session import check_session

__all__ = ["FakeClock", "ScriptedCall", "ScriptedModel", "ScriptedPerson", "call", "check_session"]
