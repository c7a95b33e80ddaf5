"""The dialect `nyala://` of SQLAlchemy 2, over psycopg 3.

`postgresql+psycopg://` serves as well for queries. This one knows what PostgreSQL has and Nyala lacks: sequences, for which SQLAlchemy
writes SERIAL where a key is one integer; and what Nyala has and PostgreSQL lacks: cubes, and the options of live tables.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import exc, schema, text
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGInspector
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.sql import sqltypes

# Options of `CREATE LIVE TABLE`: those of `Table` are called `nyala_ttl` and so on.
_OPTIONS = ("disk_store", "sync", "ttl", "buckets")


class NyalaDDLCompiler(PGDDLCompiler):
    """Writes CREATE TABLE."""

    def get_column_specification(self, column: schema.Column[Any], **kwargs: Any) -> str:
        """A column with its type, its default and NOT NULL. No column counts by itself."""
        _refuse_counting(column)
        parts = [self.preparer.format_column(column)]
        parts.append(self.dialect.type_compiler_instance.process(column.type, type_expression=column))
        default = self.get_column_default_string(column)
        if default is not None:
            parts.append(f"DEFAULT {default}")
        if not column.nullable:
            parts.append("NOT NULL")
        return " ".join(parts)

    def post_create_table(self, table: schema.Table) -> str:
        """The options in WITH."""
        given = table.dialect_options["nyala"]
        options = [f"{name} = {self._literal(given[name])}" for name in _OPTIONS if given[name] is not None]
        return f"\n WITH ({', '.join(options)})" if options else ""

    def _literal(self, value: object) -> str:
        return str(self.sql_compiler.render_literal_value(str(value), sqltypes.String()))


def _refuse_counting(column: schema.Column[Any]) -> None:
    """Refuses columns whose values a sequence would give, and those that are computed."""
    asks = (
        "an Identity"
        if column.identity is not None
        else "a Sequence"
        if isinstance(column.default, schema.Sequence)
        else None
    )
    if column.autoincrement is True:
        asks = "autoincrement"
    if asks is not None:
        message = f"column `{column}` has {asks}, and Nyala has no sequences: give each row its key, or use a default of Python, such as uuid4"
        raise exc.CompileError(message)
    if column.computed is not None:
        raise exc.CompileError(f"column `{column}` is Computed, and Nyala has no such columns: compute it in queries")


class NyalaInspector(PGInspector):
    """Tells what there is. Tables and views are found as in PostgreSQL; cubes are neither, since queries do not name them."""

    def get_cube_names(self, schema: str | None = None) -> list[str]:
        """The cubes of a schema, by name."""
        return self._names("SELECT cube FROM system.cubes WHERE schema = :schema ORDER BY cube", schema)

    def get_live_table_names(self, schema: str | None = None) -> list[str]:
        """Those tables of a schema that take rows, by name."""
        return self._names('SELECT "table" FROM system.live_tables WHERE schema = :schema ORDER BY "table"', schema)

    def _names(self, query: str, schema: str | None) -> list[str]:
        with self._operation_context() as connection:
            found = connection.execute(text(query), {"schema": schema or self.default_schema_name})
            return [name for (name,) in found]


class NyalaDialect(PGDialect_psycopg):
    """PostgreSQL's dialect without sequences, and with the options of live tables."""

    name = "nyala"
    supports_statement_cache = True

    supports_sequences = False
    supports_identity_columns = False
    preexecute_autoincrement_sequences = False

    ddl_compiler = NyalaDDLCompiler
    inspector = NyalaInspector
    construct_arguments = [(schema.Table, dict.fromkeys(_OPTIONS))]  # noqa: RUF012 (SQLAlchemy reads it from the class)
