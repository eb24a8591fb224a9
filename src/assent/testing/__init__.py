"""For your tests: a scripted model and person, a clock that stands still, and what sessions and stores must do."""

from .clock import FakeClock
from .model import ScriptedCall, ScriptedModel, call
from .person import ScriptedPerson
from .session import check_session
from .store import check_store

__all__ = ["FakeClock", "ScriptedCall", "ScriptedModel", "ScriptedPerson", "call", "check_session", "check_store"]
