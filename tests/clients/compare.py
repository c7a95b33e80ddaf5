#!/usr/bin/env python3
"""Asks PostgreSQL and Nyala the same through each driver's own means, and compares the answers.

    compare.py postgresql://user@host:port/database postgresql://nyala@host:port/nyala

Prints a line for each difference, and the number of equal answers by driver. A driver that is not installed is left out.
Exits with 1 if fewer answers are equal than `expected.txt` beside this file notes.
"""

import asyncio
import importlib
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from comparison import compare, set_up
from programs import PROGRAMS

SETUP = [
    "DROP TABLE IF EXISTS probe_frame",
    "DROP TABLE IF EXISTS probe_orders",
    "DROP TABLE IF EXISTS probe_items",
    "CREATE TABLE probe_orders (id INT PRIMARY KEY, amount NUMERIC(10,2), name VARCHAR(20), "
    "note TEXT NOT NULL DEFAULT 'none', placed TIMESTAMP, seen TIMESTAMPTZ, day DATE, ok BOOLEAN, ratio DOUBLE PRECISION, big BIGINT)",
    "CREATE TABLE probe_items (o INT, line INT, price NUMERIC(12,4), PRIMARY KEY (o, line))",
    "INSERT INTO probe_orders VALUES (1, 10.50, 'tea', 'x', '2024-01-02 03:04:05', '2024-01-02 03:04:05+00', '2024-01-02', true, 0.5, 7), "
    "(2, 20.25, 'milk', 'y', NULL, NULL, NULL, false, NULL, NULL)",
    "INSERT INTO probe_items VALUES (1, 1, 1.5), (1, 2, 2.5)",
]
COLUMNS = (
    "SELECT column_name, ordinal_position, column_default, is_nullable, data_type, udt_name, character_maximum_length, "
    "character_octet_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, dtd_identifier, is_updatable "
    "FROM information_schema.columns WHERE table_name = 'probe_orders' ORDER BY ordinal_position"
)
# Queries that tools send, with names in the place of numbers, which differ.
QUERIES = {
    "columns": COLUMNS,
    "tables": "SELECT table_name, table_type, is_insertable_into FROM information_schema.tables WHERE table_name LIKE 'probe%' ORDER BY 1",
    "keys": "SELECT constraint_name, column_name, ordinal_position FROM information_schema.key_column_usage WHERE table_name LIKE 'probe%' ORDER BY 1, 3",
    "key usage": "SELECT table_name, column_name, constraint_name FROM information_schema.constraint_column_usage WHERE table_name LIKE 'probe%' ORDER BY 1, 2",
    "character sets": "SELECT character_set_name, character_repertoire, form_of_use FROM information_schema.character_sets",
    "foreign keys": "SELECT count(*) FROM information_schema.referential_constraints",
    "pg_constraint": "SELECT conname, contype, conkey, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'probe_items'::regclass",
    "pg_index": "SELECT c.relname, i.indisprimary, i.indisunique, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = 'probe_items'::regclass",
    "index columns": "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 'probe_items'::regclass AND i.indisprimary ORDER BY a.attnum",
    "types": "SELECT attname, format_type(atttypid, atttypmod), attnotnull, atthasdef, attlen, attstorage FROM pg_attribute WHERE attrelid = 'probe_orders'::regclass AND attnum > 0 ORDER BY attnum",
    "defaults": "SELECT a.attname, pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.adrelid = 'probe_orders'::regclass",
    "pg_indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'probe%' ORDER BY 1",
    "pg_tables": "SELECT schemaname, tablename, hasindexes FROM pg_tables WHERE tablename LIKE 'probe%' ORDER BY 2",
    "visible": "SELECT relname FROM pg_class WHERE pg_table_is_visible(oid) AND relname LIKE 'probe%' ORDER BY 1",
    "visible system": "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE pg_table_is_visible(c.oid) AND nspname NOT IN ('pg_catalog', 'public')",
    "regclass text": "SELECT 'probe_orders'::regclass::text, 'pg_class'::regclass::text, 'probe_orders'::regclass",
    "regclass oid": "SELECT 'pg_class'::regclass::oid, 'pg_type'::regclass::int",
    "regclass missing": "SELECT 'no_such_table'::regclass",
    "to_regclass": "SELECT to_regclass('no_such_table') IS NULL, to_regclass('probe_orders') = 'probe_orders'::regclass",
    "regtype": "SELECT 'int'::regtype, 23::regtype, 'timestamp with time zone'::regtype::oid, '_int4'::regtype, 'numeric(10,2)'::regtype",
    "regproc": "SELECT count(*) > 0 FROM pg_type WHERE typreceive != 0 AND typreceive::text != 'array_recv'",
    "regproc name": "SELECT typinput, typreceive::regproc, typsend::text FROM pg_type WHERE typname = 'int4'",
    "regproc number": "SELECT typreceive::oid FROM pg_type WHERE typname = 'int4'",
    "regnamespace": "SELECT 'public'::regnamespace, 2200::regnamespace::text, 'pg_catalog'::regnamespace::oid",
    "declare": "EXPLAIN SELECT pg_catalog.version()",
    "privileges": "SELECT has_table_privilege('probe_orders', 'SELECT'), has_schema_privilege('public', 'USAGE'), has_database_privilege(current_database(), 'CONNECT')",
    "privilege missing": "SELECT has_table_privilege('no_such_table', 'SELECT')",
    "privilege type": "SELECT has_table_privilege('probe_orders', 'FLY')",
    "settings": "SELECT name, setting FROM pg_settings WHERE name IN ('work_mem', 'default_transaction_isolation', 'standard_conforming_strings', 'max_identifier_length', 'server_encoding', 'integer_datetimes', 'block_size') ORDER BY 1",
    "max_index_keys": "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'max_index_keys'",
    "locks": "SELECT count(*) >= 0 FROM pg_locks",
    "activity": "SELECT count(*) > 0 FROM pg_stat_activity WHERE state = 'active'",
    "stat_database": "SELECT datname = current_database() FROM pg_stat_database WHERE datname = current_database()",
    "extensions": "SELECT name FROM pg_available_extensions WHERE name = 'plpgsql'",
    "zones": "SELECT name, abbrev, utc_offset, is_dst FROM pg_timezone_names WHERE name IN ('Asia/Tokyo', 'UTC') ORDER BY 1",
    "stat_user_tables": "SELECT relname FROM pg_stat_user_tables WHERE relname LIKE 'probe%' ORDER BY 1",
    "subquery default": "SELECT a.attname, (SELECT pg_get_expr(d.adbin, d.adrelid, true) FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef) FROM pg_attribute a WHERE a.attrelid = 'probe_orders'::regclass AND a.attnum > 0 ORDER BY a.attnum",
    "unnest key": "SELECT unnest(conkey) FROM pg_constraint WHERE conrelid = 'probe_items'::regclass",
    "expand key": "SELECT (information_schema._pg_expandarray(i.indkey)).n FROM pg_index i WHERE i.indrelid = 'probe_items'::regclass",
}
PSQL = [
    r"\d", r"\dt", r"\dt public.*", r"\d probe_orders", r"\d probe_items", r"\di", r"\dv", r"\dn", r"\ds", r"\df", r"\dT", r"\dx",
    r"\dp probe_orders", r"\dd", r"\dew", r"\des", r"\det", r"\dm", r"\dE", r"\dy", r"\dA", r"\drds", r"\dD", r"\dL", r"\dF", r"\dO", r"\dRp", r"\db",
    "SELECT nope FROM probe_orders", "SELECT 1 +", "DROP TABLE IF EXISTS no_such_table",
    "CREATE TABLE IF NOT EXISTS probe_items (o INT PRIMARY KEY)", r"\copy (SELECT 1, 2) TO STDOUT",
    "BEGIN; SELECT 1/0; SELECT 1", "SELECT * FROM no_such_table", r"\c no_such_database",
]


def psycopg_checks(psycopg, url):
    def run(sql):
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(sql).fetchall()

    checks = {name: (lambda sql=sql: run(sql)) for name, sql in QUERIES.items() if name != "declare"}

    def binary_copy():
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY (SELECT id, amount, name FROM probe_orders ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int4", "numeric", "text"])
                return list(copy.rows())

    def empty_copy():
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY (SELECT id FROM probe_orders WHERE false) TO STDOUT (FORMAT binary)") as copy:
                return [bytes(part) for part in copy]

    def cursor():
        with psycopg.connect(url) as connection, connection.cursor(name="c") as cursor:
            cursor.execute("SELECT pg_catalog.format_type(23, NULL), id FROM probe_orders ORDER BY id")
            return cursor.fetchmany(1), cursor.fetchall()

    def failed_block():
        with psycopg.connect(url) as connection:
            states = []
            for sql in ("SELECT 1/0", "SELECT 1", "ROLLBACK", "SELECT 1"):
                try:
                    connection.execute(sql)
                    states.append("ok")
                except psycopg.Error as error:
                    states.append(error.sqlstate)
            return states

    def position():
        with psycopg.connect(url) as connection:
            try:
                connection.execute("SELECT id, nope FROM probe_orders")
            except psycopg.Error as error:
                return error.diag.statement_position, error.sqlstate

    def database():
        try:
            psycopg.connect(url.rsplit("/", 1)[0] + "/no_such_database")
        except psycopg.OperationalError as error:
            return 'does not exist' in str(error)

    def type_info():
        from psycopg.types import TypeInfo
        with psycopg.connect(url) as connection:
            info = TypeInfo.fetch(connection, "int4")
            return info.name, info.oid, info.array_oid

    for check in (binary_copy, empty_copy, cursor, failed_block, position, database, type_info):
        checks[check.__name__] = check
    return checks


def described_checks(psycopg, url):
    """The types that Describe tells, of parameters and of columns: every driver reads values by them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ds_all")
        connection.execute(
            "CREATE TABLE ds_all (id INT PRIMARY KEY, i2 SMALLINT, i8 BIGINT, f4 REAL, f8 DOUBLE PRECISION, n NUMERIC(12,3), v VARCHAR(10), b BOOLEAN, d DATE, tm TIME, "
            "ts TIMESTAMP, tz TIMESTAMPTZ, by BYTEA, u UUID, iv INTERVAL, ia INT[], ta TEXT[], na NUMERIC[], da DATE[])")

    def describe(sql):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET client_min_messages = error")
            made = connection.pgconn.prepare(b"", sql.encode())
            if made.status != psycopg.pq.ExecStatus.COMMAND_OK:
                return made.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
            told = connection.pgconn.describe_prepared(b"")
            return [told.param_type(n) for n in range(told.nparams)], [told.ftype(n) for n in range(told.nfields)]

    statements = Path(__file__).with_name("described.txt").read_text().splitlines()
    return {sql: (lambda sql=sql: describe(sql)) for sql in statements}


def values_checks(psycopg, url):
    """Parameters as text, with the number of their type, and the same value as text and in binary. `values.txt` has number and text."""
    def value(number, text):
        with psycopg.connect(url, autocommit=True) as connection:
            answers = []
            for form in (0, 1):
                told = connection.pgconn.exec_params(b"SELECT $1", [text.encode()], [int(number)], [0], form)
                answers.append((told.ftype(0), told.get_value(0, 0)) if told.ntuples else told.error_field(psycopg.pq.DiagnosticField.SQLSTATE))
            return answers

    lines = Path(__file__).with_name("values.txt").read_text().splitlines()
    return {line: (lambda line=line: value(*line.split("\t"))) for line in lines}


def psycopg2_checks(psycopg2, url):
    def run(sql):
        connection = psycopg2.connect(url)
        try:
            cursor = connection.cursor()
            cursor.execute(sql)
            return cursor.fetchall(), [column.name for column in cursor.description]
        finally:
            connection.close()

    return {name: (lambda sql=sql: run(sql)) for name, sql in QUERIES.items() if name != "declare"}


def asyncpg_checks(asyncpg, url):
    def with_connection(use):
        async def inner():
            connection = await asyncpg.connect(url)
            try:
                return await use(connection)
            finally:
                await connection.close()
        return lambda: asyncio.run(inner())

    async def copy(connection):
        import io
        out = io.BytesIO()
        await connection.copy_from_query("SELECT id FROM probe_orders ORDER BY id", output=out, format="binary")
        return out.getvalue()

    async def fetch(connection, sql):
        return [tuple(row) for row in await connection.fetch(sql)]

    checks = {name: with_connection(lambda c, sql=sql: fetch(c, sql)) for name, sql in QUERIES.items() if name not in ("declare", "defaults")}
    checks["copy"] = with_connection(copy)
    checks["types"] = with_connection(lambda c: fetch(c, "SELECT * FROM probe_orders ORDER BY id"))
    checks["array parameter"] = with_connection(lambda c: c.fetchval("SELECT count(*) FROM probe_orders WHERE id = ANY($1::int[])", [1, 2]))
    return checks


def sqlalchemy_checks(sqlalchemy, url):
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    inspect = lambda: sqlalchemy.inspect(engine)
    probe = lambda names: sorted(name for name in names if name.startswith("probe"))
    return {
        "table names": lambda: probe(inspect().get_table_names()),
        "view names": lambda: inspect().get_view_names(),
        "columns": lambda: [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in inspect().get_columns("probe_orders")],
        "key": lambda: inspect().get_pk_constraint("probe_items"),
        "foreign keys": lambda: inspect().get_foreign_keys("probe_items"),
        "indexes": lambda: inspect().get_indexes("probe_items"),
        "unique": lambda: inspect().get_unique_constraints("probe_items"),
        "checks": lambda: inspect().get_check_constraints("probe_items"),
        "comment": lambda: inspect().get_table_comment("probe_items"),
        "has table": lambda: (inspect().has_table("probe_items"), inspect().has_table("no_such_table")),
        "schemas": lambda: "public" in inspect().get_schema_names(),
        "enums": lambda: inspect().get_enums(),
        "sequences": lambda: inspect().get_sequence_names(),
        "reflect": lambda: repr(sqlalchemy.Table("probe_orders", sqlalchemy.MetaData(), autoload_with=engine).primary_key),
    }


def pandas_checks(pandas, url):
    sqlalchemy = importlib.import_module("sqlalchemy")
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    return {
        "query": lambda: pandas.read_sql("SELECT id, amount, ok FROM probe_orders ORDER BY id", engine).to_csv(),
        "table": lambda: pandas.read_sql_table("probe_items", engine).to_csv(),
        "write": lambda: pandas.DataFrame({"a": [1, 2]}).to_sql("probe_frame", engine, if_exists="replace", index=False),
    }


def polars_checks(polars, url):
    return {
        "connectorx": lambda: polars.read_database_uri("SELECT id, name FROM probe_orders ORDER BY id", url, engine="connectorx").rows(),
        "adbc": lambda: polars.read_database_uri("SELECT id, name, ratio FROM probe_orders ORDER BY id", url, engine="adbc").rows(),
    }


def connectorx_checks(connectorx, url):
    return {
        protocol: lambda protocol=protocol: connectorx.read_sql(
            url + "?cxprotocol=" + protocol, "SELECT id, amount, name, day FROM probe_orders ORDER BY id").to_csv()
        for protocol in ("binary", "csv", "cursor", "simple")
    }


def adbc_checks(adbc, url):
    def run(sql):
        with adbc.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table().to_pylist()

    def objects():
        with adbc.connect(url) as connection:
            found = connection.adbc_get_objects(depth="columns", db_schema_filter="public", table_name_filter="probe_items").read_all().to_pylist()
            tables = [t for c in found for s in (c["catalog_db_schemas"] or []) for t in (s["db_schema_tables"] or [])]
            return [(t["table_name"], t["table_type"], [c["column_name"] for c in t["table_columns"]], [k["constraint_type"] for k in t["table_constraints"]]) for t in tables]

    def schema():
        with adbc.connect(url) as connection:
            return str(connection.adbc_get_table_schema("probe_orders"))

    return {
        "query": lambda: run("SELECT id, name, ratio, big FROM probe_orders ORDER BY id"),
        "numeric": lambda: run("SELECT amount FROM probe_orders ORDER BY id"),
        "times": lambda: run("SELECT placed, seen, day FROM probe_orders ORDER BY id"),
        "objects": objects,
        "schema": schema,
        "table types": lambda: sorted(adbc.connect(url).adbc_get_table_types()),
    }


def pgcli_checks(_, url):
    from pgcli.pgexecute import PGExecute
    parts = urlsplit(url)
    executor = lambda: PGExecute(parts.path[1:], parts.username, None, parts.hostname, parts.port, None)
    probe = lambda rows: sorted(tuple(row) for row in rows if any("probe" in str(value) for value in row))
    return {
        "tables": lambda: probe(executor().tables()),
        "columns": lambda: probe(executor().table_columns()),
        "views": lambda: probe(executor().views()),
        "foreign keys": lambda: list(executor().foreignkeys()),
        "types": lambda: list(executor().datatypes()),
        "functions": lambda: len(list(executor().functions())) > 100,
        "schemata": lambda: "public" in executor().schemata(),
        "databases": lambda: parts.path[1:] in executor().databases(),
        "search path": lambda: executor().search_path(),
    }


def psql_checks(_, url):
    def run(command):
        done = subprocess.run(["psql", "-X", url, "-c", command], capture_output=True, text=True, timeout=60)
        # Who owns an object, and the address, differ.
        # So do the words of errors; where they point, and what they are about, does not.
        lines = [line.replace("`", '"') for line in (done.stdout + done.stderr).splitlines() if not line.startswith("HINT:")]
        lines = [re.sub(r'^(ERROR: ).*?("[^"]*")?.*$', r"\1 \2", line) for line in lines]
        return [re.sub(r"\b(postgres|nyala|pg_database_owner)\b|port \d+", "*", re.sub(r" +|-{3,}", " ", line)) for line in lines]

    checks = {command: (lambda command=command: run(command)) for command in PSQL}
    checks |= {name: (lambda sql=sql: run(sql)) for name, sql in QUERIES.items() if name != "declare"}
    return checks


DRIVERS = {
    "psql": (None, psql_checks), "psycopg": ("psycopg", psycopg_checks), "described": ("psycopg", described_checks),
    "values": ("psycopg", values_checks), "psycopg2": ("psycopg2", psycopg2_checks),
    "asyncpg": ("asyncpg", asyncpg_checks), "sqlalchemy": ("sqlalchemy", sqlalchemy_checks), "pandas": ("pandas", pandas_checks),
    "polars": ("polars", polars_checks), "connectorx": ("connectorx", connectorx_checks),
    "adbc": ("adbc_driver_postgresql.dbapi", adbc_checks), "pgcli": ("pgcli", pgcli_checks), **PROGRAMS,
}


def main(right_url, url, wanted):
    set_up((right_url, url), SETUP)
    equal = compare(DRIVERS, right_url, url, wanted)
    noted = Path(__file__).with_name("expected.txt")
    floors = dict(line.split(": ") for line in noted.read_text().splitlines() if ": " in line) if noted.exists() else {}
    return all(number >= int(floors.get(driver, "0").split()[0]) for driver, number in equal.items())


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], sys.argv[3:]) else 1)
