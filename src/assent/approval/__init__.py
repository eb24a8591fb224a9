"""Approval: the gate that judges calls, the questions it asks, the decisions people make."""
