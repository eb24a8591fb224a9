"""Approval: the gate that judges calls, the questions to people, and their decisions."""
