"""Conversation memory: what a session is, and the ones that come with Assent."""
