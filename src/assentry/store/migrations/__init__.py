"""The migrations of the SQL stores, for Alembic. A released migration is never changed."""
