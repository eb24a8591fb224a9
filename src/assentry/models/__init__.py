"""Models: the contract, and one module for each wire dialect."""
