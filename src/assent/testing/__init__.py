"""For your tests: a scripted model, a scripted person, a clock that stands still."""

from .clock import FakeClock
from .model import ScriptedCall, ScriptedModel, call
from .person import ScriptedPerson

__all__ = ["FakeClock", "ScriptedCall", "ScriptedModel", "ScriptedPerson", "call"]
