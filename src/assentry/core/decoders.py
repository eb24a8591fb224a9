"""The decoders of all facts. Import this module only when a decoder is needed, because making them is slow.

The import makes each decoder once, whichever thread is first. If two threads made a decoder of the same types at the
same time, one of them would see incomplete types and crash.
"""

from __future__ import annotations

import msgspec

from .facts import AnyFact
from .saved import SavedRun

FACT: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)
SAVED: msgspec.json.Decoder[SavedRun] = msgspec.json.Decoder(SavedRun)
