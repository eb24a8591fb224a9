"""Connections to SQLite files and Postgres databases, shared by the stores and the sessions. It knows no tables."""
