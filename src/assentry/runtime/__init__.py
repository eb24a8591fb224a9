"""The runtime: drivers that pay what a run owes, and what they give back."""
