"""What the tests of the stores share: a Postgres server, started when it is first needed."""

from tests.store.place import place
from tests.store.postgres import postgres

__all__ = ["place", "postgres"]
