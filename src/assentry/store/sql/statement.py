"""SQL statements, written once for every database, and the transaction that executes them.

A statement is compiled to text on first use. The driver's own connection executes the text: building the statement
for every call would cost more than the database does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement, Dialect, Integer
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

SQLITE = "sqlite"
POSTGRES = "postgresql"


@functools.cache
def _dialect(name: str) -> Dialect:
    if name == SQLITE:
        from sqlalchemy.dialects import sqlite

        made: Dialect = sqlite.dialect(paramstyle="named")
    else:
        from sqlalchemy.dialects.postgresql import psycopg

        made = psycopg.dialect()  # type: ignore[no-untyped-call]
    return made


class Statement:
    """One statement with named parameters, for any database. With `binary`, Postgres sends the rows' bytes as such."""

    __slots__ = ("_element", "_texts", "binary")

    def __init__(self, element: ClauseElement, *, binary: bool = False) -> None:
        self._element = element
        self.binary = binary
        self._texts: dict[str, tuple[str, dict[str, Any]]] = {}

    def on(self, dialect: str) -> tuple[str, dict[str, Any]]:
        """Return the text for a database, and the parameters whose values are part of the statement."""
        found = self._texts.get(dialect)
        if found is None:
            compiled = self._element.compile(dialect=_dialect(dialect))
            assert isinstance(compiled, SQLCompiler)
            fixed = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
            found = self._texts[dialect] = (str(compiled), fixed)
        return found


class Transaction:
    """Executes statements on a connection. The caller begins and ends the transaction."""

    __slots__ = ("connection", "dialect")

    def __init__(self, connection: Any, dialect: str) -> None:
        self.connection = connection
        self.dialect = dialect

    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        """Execute a statement and return all of its rows."""
        found: list[tuple[Any, ...]] = self._execute(statement, values).fetchall()
        return found

    def later(self, statement: Statement, **values: Any) -> Callable[[], list[tuple[Any, ...]]]:
        """Execute a statement, and return a function that returns its rows.

        Called after the rows of the next statement were read, it takes no roundtrip of its own.
        """
        cursor = self._execute(statement, values)
        if self.dialect == POSTGRES:
            return cursor.fetchall  # type: ignore[no-any-return]
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return lambda: found

    def row(self, statement: Statement, **values: Any) -> tuple[Any, ...] | None:
        """Execute a statement and return its first row, or None."""
        cursor = self._execute(statement, values)
        found: tuple[Any, ...] | None = cursor.fetchone()
        cursor.close()  # an open cursor would keep the transaction open
        return found

    def execute(self, statement: Statement, **values: Any) -> None:
        """Execute a statement whose result is not needed; its error may come with a later statement."""
        self._execute(statement, values)

    def do(self, statement: Statement, **values: Any) -> int:
        """Execute a statement and return the number of changed rows."""
        count: int = self._execute(statement, values).rowcount
        return count

    def many(self, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute a statement once for every row."""
        text, _ = statement.on(self.dialect)
        self.connection.cursor().executemany(text, [self._values(row) for row in rows])

    def _execute(self, statement: Statement, values: Mapping[str, Any]) -> Any:
        text, fixed = statement.on(self.dialect)
        given = {**fixed, **self._values(values)} if fixed else self._values(values)
        if statement.binary and self.dialect == POSTGRES:
            return self.connection.execute(text, given, binary=True)
        return self.connection.execute(text, given)

    def _values(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return values


class PositionOf(FunctionElement[int]):
    """The place of a text in another, 0 if it is not there. LIKE would be slower by the length of the text."""

    type = Integer()
    inherit_cache = True


@compiles(PositionOf, SQLITE)
def _on_sqlite(element: PositionOf, compiler: SQLCompiler, **kw: Any) -> str:
    return f"instr({compiler.process(element.clauses, **kw)})"


@compiles(PositionOf, POSTGRES)
def _on_postgres(element: PositionOf, compiler: SQLCompiler, **kw: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **kw)})"
