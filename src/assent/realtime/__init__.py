"""Live sessions with a realtime model: calls pass the same gate and the same door, and wait as in any run."""
