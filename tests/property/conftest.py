"""What the property tests share with those of the stores: a Postgres server, started when it is first needed."""

from tests.store.postgres import postgres

__all__ = ["postgres"]
