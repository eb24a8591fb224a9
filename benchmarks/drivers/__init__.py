"""One driver a peer. Each is imported only in that peer's environment, by its name in `benchmarks.peers`."""
