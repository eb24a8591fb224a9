"""What the tests of the stores share: a Postgres server, started when it is first needed."""

from tests.store.postgres import postgres

__all__ = ["postgres"]
