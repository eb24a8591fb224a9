"""The decoders that know every fact there is, for those who import them when they first need one.

Making them takes its time. The import makes them once, whoever is first: of two threads that make a decoder of the same
types at once, one would be given types that are half made, and crash.
"""

from __future__ import annotations

import msgspec

from .codec import Saved
from .facts import AnyFact

FACT: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)
SAVED: msgspec.json.Decoder[Saved] = msgspec.json.Decoder(Saved)
