"""The migrations of the SQL stores, for Alembic. They are never changed once they were released."""
