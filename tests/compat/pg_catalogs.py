#!/usr/bin/env python3
"""System catalogs, object names and framing of copies, as PostgreSQL 15 has them. See README.md for the server."""

import subprocess
from decimal import Decimal

import psycopg

from checks import DATABASE, HOST, PORT, USER, check, run


def connect(**options):
    return psycopg.connect(host=HOST, port=PORT, user=USER, **{"dbname": DATABASE, "autocommit": True, **options})


def rows(query):
    with connect() as connection:
        return connection.execute(query).fetchall()


def equal(query, expected):
    found = rows(query)
    assert found == expected, f"{query}\nfound {found!r}\nexpected {expected!r}"


def state_of(query):
    with connect() as connection:
        try:
            connection.execute(query)
        except psycopg.Error as error:
            return error.sqlstate, error.diag.statement_position
    return None


@check
def tables():
    """a table with a key, a default and lengths"""
    with connect() as connection:
        connection.execute("DROP TABLE IF EXISTS cat_orders")
        connection.execute(
            "CREATE TABLE cat_orders (id INT PRIMARY KEY, a NUMERIC(10,2), v VARCHAR(20), t TEXT NOT NULL DEFAULT 'x', at TIMESTAMP)"
        )
        connection.execute("INSERT INTO cat_orders VALUES (1, 1.5, 'v', 't', NULL), (2, 2.5, 'w', 'u', NULL)")


@check
def standard_columns():
    """information_schema.columns has PostgreSQL's types, lengths and defaults"""
    equal(
        "SELECT column_name, ordinal_position, column_default, is_nullable, data_type, udt_name, character_maximum_length, "
        "numeric_precision, numeric_scale, datetime_precision FROM information_schema.columns WHERE table_name = 'cat_orders' ORDER BY 2",
        [
            ("id", 1, None, "NO", "integer", "int4", None, 32, 0, None),
            ("a", 2, None, "YES", "numeric", "numeric", None, 10, 2, None),
            ("v", 3, None, "YES", "character varying", "varchar", 20, None, None, None),
            ("t", 4, "'x'::text", "NO", "text", "text", None, None, None, None),
            ("at", 5, None, "YES", "timestamp without time zone", "timestamp", None, None, None, 6),
        ],
    )


@check
def keys():
    """primary keys are in every catalog that has them"""
    equal("SELECT constraint_type FROM information_schema.table_constraints WHERE table_name = 'cat_orders'", [("PRIMARY KEY",)])
    equal("SELECT column_name, ordinal_position FROM information_schema.key_column_usage WHERE table_name = 'cat_orders'", [("id", 1)])
    equal(
        "SELECT contype::text, conkey, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'cat_orders'::regclass",
        [("p", [1], "PRIMARY KEY (id)")],
    )
    equal(
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'cat_orders'",
        [("CREATE UNIQUE INDEX cat_orders_pkey ON public.cat_orders USING btree (id)",)],
    )


@check
def types():
    """types of columns with their modifiers, and defaults"""
    equal(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'cat_orders'::regclass AND attnum > 0 ORDER BY attnum",
        [("integer",), ("numeric(10,2)",), ("character varying(20)",), ("text",), ("timestamp without time zone",)],
    )
    equal("SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'cat_orders'::regclass", [("'x'::text",)])


@check
def object_names():
    """objects by name and names by number"""
    equal("SELECT 'cat_orders'::regclass::text, 'pg_class'::regclass::oid, 23::regtype::text", [("cat_orders", 1259, "integer")])
    equal("SELECT to_regclass('no_such_table') IS NULL", [(True,)])
    equal("SELECT count(*) > 0 FROM pg_type WHERE typreceive != 0 AND typreceive::text != 'array_recv'", [(True,)])
    equal("SELECT relname FROM pg_class WHERE pg_table_is_visible(oid) AND relkind = 'v' AND relname = 'queries'", [])
    assert state_of("SELECT 'no_such_table'::regclass")[0] == "42P01"


@check
def privileges():
    """privileges of objects that are there, and that are not"""
    equal("SELECT has_table_privilege('cat_orders', 'SELECT')", [(True,)])
    assert state_of("SELECT has_table_privilege('no_such_table', 'SELECT')")[0] == "42P01"
    assert state_of("SELECT has_table_privilege('cat_orders', 'FLY')")[0] == "22023"


@check
def in_other_statements():
    """functions of pg_catalog within DECLARE, COPY and EXPLAIN"""
    with connect(autocommit=False) as connection:
        connection.execute("DECLARE c CURSOR FOR SELECT pg_catalog.format_type(23, NULL)")
        assert connection.execute("FETCH ALL FROM c").fetchall() == [("integer",)]
        connection.execute("EXPLAIN SELECT pg_catalog.format_type(23, NULL)")
        with connection.cursor().copy("COPY (SELECT pg_catalog.format_type(23, NULL)) TO STDOUT") as copy:
            assert [bytes(line) for line in copy] == [b"integer\n"]


@check
def binary_copy():
    """a binary copy has its header in the message of the first row"""
    with connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY (SELECT id, a FROM cat_orders ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4", "numeric"])
            assert list(copy.rows()) == [(1, Decimal("1.50")), (2, Decimal("2.50"))]
        with cursor.copy("COPY (SELECT id FROM cat_orders WHERE false) TO STDOUT (FORMAT binary)") as copy:
            assert [bytes(part) for part in copy] == [b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\xff\xff"]


@check
def what_views_read():
    """views tell what they read, as dbt asks before it renames a relation"""
    with connect() as connection:
        connection.execute("CREATE VIEW cat_first AS SELECT id FROM cat_orders")
        connection.execute("CREATE VIEW cat_second AS SELECT id FROM cat_first")
        read = connection.execute(
            "SELECT d.refobjid::regclass::text, d.deptype FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid "
            "WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass "
            "AND r.ev_class = 'cat_second'::regclass ORDER BY 2, 1"
        ).fetchall()
        connection.execute("DROP VIEW cat_first CASCADE")
    assert read == [("cat_second", "i"), ("cat_first", "n")], read


@check
def positions():
    """errors tell where they are"""
    assert state_of("SELECT id, nope FROM cat_orders") == ("42703", "12")
    assert state_of("SELECT 1 FROM no_such_table") == ("42P01", "15")
    done = subprocess.run(
        ["psql", "-X", "-h", HOST, "-p", str(PORT), "-U", USER, DATABASE, "-c", "SELECT id, nope FROM cat_orders"],
        capture_output=True, text=True,
    )
    assert "           ^" in done.stderr, done.stderr


@check
def databases():
    """a database that does not exist is refused"""
    try:
        connect(dbname="no_such_database")
    except psycopg.OperationalError as error:
        assert "does not exist" in str(error), error
    else:
        raise AssertionError("connected")


run()
