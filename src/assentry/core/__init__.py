"""The core: a run as data. No I/O, no clock, no randomness, no user code."""
