#!/usr/bin/env python3
"""psycopg 3 against a server that has the Star Schema Benchmark tables in schema `public`.

Where the server is comes from PGHOST, PGPORT, PGUSER and PGDATABASE.
"""

import datetime as dt
import socket
import struct
import threading
import time
from decimal import Decimal

import psycopg
from psycopg import pq

from checks import DATABASE, HOST, PORT, USER, check, run

# Counts for hours without giving a row.
LONG = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(n) WHERE n % 7 = 8"


def connect(**options):
    options = {"autocommit": True, **options}
    return psycopg.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, **options)


def one(query, parameters=None, **options):
    with connect() as connection:
        return connection.execute(query, parameters, **options).fetchone()


def state_of(query, parameters=None):
    """SQLSTATE that a query fails with."""
    with connect() as connection:
        try:
            connection.execute(query, parameters)
        except psycopg.Error as error:
            return error.sqlstate
    return None


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


@check
def greeting():
    """the greeting tells version, encoding and time zone"""
    with connect() as connection:
        equal(connection.info.server_version // 10000, 15)
        equal(connection.info.parameter_status("client_encoding"), "UTF8")
        equal(connection.info.parameter_status("standard_conforming_strings"), "on")
        assert connection.info.parameter_status("TimeZone")
        assert one("SELECT version()")[0].startswith("PostgreSQL 15.0 (Nyala ")


@check
def simple_protocol():
    """several statements in one text, and an empty one"""
    with connect() as connection:
        result = connection.pgconn.exec_(b"SELECT 1; SELECT 'a', NULL;")
        equal((result.status, result.get_value(0, 0), result.get_value(0, 1)), (pq.ExecStatus.TUPLES_OK, b"a", None))
        equal(connection.pgconn.exec_(b"").status, pq.ExecStatus.EMPTY_QUERY)
        equal(connection.pgconn.exec_(b" ; ;").status, pq.ExecStatus.EMPTY_QUERY)


@check
def empty_extended():
    """an empty statement in the extended protocol"""
    with connect() as connection:
        equal(connection.pgconn.exec_params(b"", []).status, pq.ExecStatus.EMPTY_QUERY)


@check
def rows():
    """an aggregation over lineorder"""
    count, least, most = one("SELECT count(*), min(lo_quantity), max(lo_quantity) FROM lineorder")
    assert count > 0 and least >= 1 and most <= 50


@check
def text_and_binary_results():
    """text and binary results agree for every common type"""
    query = """
        SELECT true, 1::smallint, -2::int, 3::bigint, 1.5::real, 0.1::double precision,
               12.50::decimal(10, 2), -0.00012::decimal(20, 5), 'häß'::text, DATE '2024-02-29',
               TIMESTAMP '2024-02-29 12:34:56.789', NULL::int, ''
    """
    expected = (
        True, 1, -2, 3, 1.5, 0.1, Decimal("12.50"), Decimal("-0.00012"), "häß",
        dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 34, 56, 789000), None, "",
    )
    with connect() as connection:
        for binary in (False, True):
            equal(connection.execute(query, binary=binary).fetchone(), expected)


@check
def each_client_has_its_own_format():
    """clients that ask the same text at once get it as each of them wants it"""
    query = "SELECT 0.1::float8 + 0.2::float8 AS sum, 7::int8 AS n"
    with connect() as usual, connect() as other, connect() as last:
        other.execute("SET extra_float_digits = 0")
        # Texts of binary cursors and of others are one text, which has a ready plan after a while.
        for _ in range(20):
            for connection, expected in ((other, 0.3), (usual, 0.30000000000000004), (last, 0.30000000000000004)):
                equal(connection.execute(query).fetchone(), (expected, 7))
                with connection.cursor(binary=True) as cursor:
                    equal(cursor.execute(query).fetchone(), (0.30000000000000004, 7))
        usual.execute("SET extra_float_digits = 0")
        equal(usual.execute(query).fetchone(), (0.3, 7))
        usual.execute("RESET extra_float_digits")
        equal(usual.execute(query).fetchone(), (0.30000000000000004, 7))


@check
def special_results():
    """arrays, intervals, infinities and time zones"""
    for binary in (False, True):
        found = one(
            "SELECT [1, 2, NULL], ['a', 'b,c'], INTERVAL '1' DAY, 'inf'::double precision,"
            " '2024-01-01T00:00:00Z'::timestamptz",
            binary=binary,
        )
        equal(found[:4], ([1, 2, None], ["a", "b,c"], dt.timedelta(days=1), float("inf")))
        equal(found[4], dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc))


@check
def parameters():
    """parameters of every common type, in text and in binary"""
    values = [
        True, 7, 70_000, 7_000_000_000, 1.25, Decimal("99.125"), "o'k", dt.date(2000, 1, 1),
        dt.datetime(1999, 12, 31, 23, 59, 59, 5), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), b"\x00\xff",
    ]
    types = ["boolean", "smallint", "int", "bigint", "double precision", "decimal(10, 3)", "text", "date",
             "timestamp", "timestamptz", "bytea"]
    for form in ("t", "b"):
        query = "SELECT " + ", ".join(f"%{form}::{kind}" for kind in types)
        equal(list(one(query, values)), values)


@check
def null_parameters():
    """NULL parameters"""
    equal(one("SELECT %s::int, %s::text, %s::date IS NULL", [None, None, None]), (None, None, True))
    equal(one("SELECT count(*) FROM dates WHERE d_year = %s", [None]), (0,))


@check
def untyped_parameters():
    """parameters that only the client knows the type of"""
    for value in (5, "text", 2.5, True):
        equal(one("SELECT %s", [value]), (value,))


@check
def filter_parameters():
    """parameters in filters are cast to the column"""
    by_value = one("SELECT count(*) FROM dates WHERE d_year = 1995")
    equal(one("SELECT count(*) FROM dates WHERE d_year = %s", [1995]), by_value)
    equal(one("SELECT count(*) FROM dates WHERE d_year = %s", ["1995"]), by_value)
    equal(one("SELECT count(*) FROM dates WHERE d_year = %b", [1995]), by_value)
    regions = one("SELECT count(*) FROM customer WHERE c_region = %s", ["ASIA"])
    equal(regions, one("SELECT count(*) FROM customer WHERE c_region = 'ASIA'"))


@check
def limit_parameter():
    """LIMIT and OFFSET as parameters"""
    with connect() as connection:
        equal(len(connection.execute("SELECT d_datekey FROM dates LIMIT %s OFFSET %s", [10, 5]).fetchall()), 10)


@check
def executemany():
    """executemany in a pipeline"""
    with connect() as connection, connection.cursor() as cursor:
        cursor.executemany("SELECT %s::int + 1", [(1,), (2,), (3,)], returning=True)
        results = [cursor.fetchone()[0]]
        while cursor.nextset():
            results.append(cursor.fetchone()[0])
        equal(results, [2, 3, 4])


@check
def prepared():
    """prepared statements are reused, and forgotten by DEALLOCATE and DISCARD"""
    with connect() as connection:
        for year in (1992, 1993, 1994):
            cursor = connection.execute("SELECT count(*) FROM dates WHERE d_year = %s", [year], prepare=True)
            assert cursor.fetchone()[0] > 0
        connection.execute("PREPARE years (int) AS SELECT count(*) FROM dates WHERE d_year = $1")
        equal(connection.execute("EXECUTE years (1992)").fetchone(), one(
            "SELECT count(*) FROM dates WHERE d_year = 1992"))
        connection.execute("DEALLOCATE years")
        equal(state_of("EXECUTE years (1992)"), "26000")
        connection.execute("DISCARD ALL")


@check
def statement_description():
    """Describe gives parameter types and columns before anything runs"""
    with connect() as connection:
        libpq = connection.pgconn
        equal(libpq.prepare(b"d", b"SELECT d_date, d_year FROM dates WHERE d_year = $1").status,
              pq.ExecStatus.COMMAND_OK)
        found = libpq.describe_prepared(b"d")
        equal(found.nparams, 1)
        assert found.param_type(0) in (20, 21, 23), found.param_type(0)
        equal([found.fname(i) for i in range(found.nfields)], [b"d_date", b"d_year"])


@check
def server_cursor():
    """a server-side cursor streams"""
    with connect(autocommit=False) as connection, connection.cursor(name="c") as cursor:
        cursor.itersize = 1000
        cursor.execute("SELECT lo_orderkey, lo_revenue FROM lineorder WHERE lo_quantity >= %s", [1])
        first = cursor.fetchmany(10)
        equal(len(first), 10)
        equal(sum(1 for _, _ in zip(range(5000), cursor)), 5000)


@check
def streaming():
    """rows stream: the first arrives while the rest is not computed, and the server waits for the client"""
    with connect() as connection, connection.cursor() as cursor:
        started = time.monotonic()
        for number, _ in enumerate(cursor.stream("SELECT * FROM lineorder")):
            if number == 1000:
                break
        assert time.monotonic() - started < 20


@check
def large_result():
    """a large result arrives whole"""
    with connect() as connection:
        rows = connection.execute("SELECT lo_orderkey, lo_revenue FROM lineorder LIMIT 200000").fetchall()
        total = one("SELECT least(count(*), 200000) FROM lineorder")[0]
        equal(len(rows), total)


@check
def error_codes():
    """errors carry PostgreSQL's codes"""
    equal(state_of("SELECT * FROM no_such_table"), "42P01")
    equal(state_of("SELECT no_such_column FROM dates"), "42703")
    equal(state_of("SELEC 1"), "42601")
    equal(state_of("SELECT no_such_function(1)"), "42704")
    equal(state_of("SET no_such_setting = 1"), "42704")
    equal(state_of("SET client_encoding = 'LATIN1'"), "22023")
    equal(state_of("SELECT %s::int", ["x"]), "22P02")
    equal(state_of("SELECT 1", None), None)


@check
def connection_survives_errors():
    """a connection goes on after errors, in both protocols"""
    with connect() as connection:
        for query in ("SELEC", "SELECT * FROM nowhere", "SELECT 1 +"):
            for parameters in (None, [1]):
                try:
                    connection.execute(query + (" -- %s" if parameters else ""), parameters)
                except psycopg.Error:
                    pass
                equal(connection.execute("SELECT %s::int", [1]).fetchone(), (1,))


@check
def transactions():
    """transactions, savepoints and the failed state"""
    with connect(autocommit=False) as connection:
        status = lambda: connection.info.transaction_status
        equal(status(), pq.TransactionStatus.IDLE)
        connection.execute("SELECT 1")
        equal(status(), pq.TransactionStatus.INTRANS)
        try:
            connection.execute("SELECT * FROM nowhere")
        except psycopg.errors.UndefinedTable:
            pass
        equal(status(), pq.TransactionStatus.INERROR)
        try:
            connection.execute("SELECT 1")
            raise AssertionError("a failed transaction ran a statement")
        except psycopg.errors.InFailedSqlTransaction:
            pass
        connection.rollback()
        equal(status(), pq.TransactionStatus.IDLE)
        with connection.transaction():
            try:
                with connection.transaction():
                    connection.execute("SELECT * FROM nowhere")
            except psycopg.errors.UndefinedTable:
                pass
            equal(connection.execute("SELECT 2").fetchone(), (2,))
        equal(status(), pq.TransactionStatus.IDLE)


@check
def settings():
    """settings are per connection, and roll back with their transaction"""
    with connect() as first, connect() as second:
        first.execute("SET application_name = 'first'")
        equal(first.info.parameter_status("application_name"), "first")
        equal(first.execute("SHOW application_name").fetchone(), ("first",))
        assert second.execute("SHOW application_name").fetchone() != ("first",)
        first.execute("SET statement_timeout = '5s'")
        first.execute("BEGIN")
        first.execute("SET application_name = 'inner'")
        first.execute("ROLLBACK")
        equal(first.execute("SHOW application_name").fetchone(), ("first",))
        first.execute("RESET application_name")
        equal(first.execute("SHOW application_name").fetchone(), ("",))
        equal(first.execute("SHOW transaction isolation level").fetchone(), ("read committed",))
        assert len(first.execute("SHOW ALL").fetchall()) > 20
    with connect(options="-c application_name=by_option") as third:
        equal(third.execute("SHOW application_name").fetchone(), ("by_option",))


@check
def timeout():
    """statement_timeout ends a long query"""
    with connect() as connection:
        connection.execute("SET statement_timeout = 300")
        started = time.monotonic()
        try:
            connection.execute(LONG)
            raise AssertionError("the query ended by itself")
        except psycopg.errors.QueryCanceled:
            pass
        assert time.monotonic() - started < 5
        connection.execute("SET statement_timeout = 0")
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def cancel():
    """a cancel request ends a long query within 2 s"""
    with connect() as connection:
        cancelled = []

        def cancel_soon():
            time.sleep(0.5)
            cancelled.append(time.monotonic())
            connection.cancel_safe()

        thread = threading.Thread(target=cancel_soon)
        thread.start()
        try:
            connection.execute(LONG)
            raise AssertionError("the query ended by itself")
        except psycopg.errors.QueryCanceled:
            took = time.monotonic() - cancelled[0]
        thread.join()
        assert took < 2, f"took {took:.1f} s"
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def cancel_while_streaming():
    """a cancel request ends a result that is already streaming"""
    with connect() as connection, connection.cursor() as cursor:
        started = None
        try:
            for number, _ in enumerate(cursor.stream("SELECT n FROM generate_series(1, 1000000000000) AS t(n)")):
                if number == 100:
                    started = time.monotonic()
                    connection.cancel_safe()
        except psycopg.errors.QueryCanceled:
            pass
        assert started is not None and time.monotonic() - started < 10


@check
def disconnect():
    """a client that leaves ends its query"""
    with connect() as watcher:
        connection = connect()
        threading.Thread(target=lambda: swallow(connection, LONG), daemon=True).start()
        time.sleep(0.5)
        socket.socket(fileno=socket.dup(connection.fileno())).shutdown(socket.SHUT_RDWR)
        time.sleep(0.5)
        started = time.monotonic()
        watcher.execute("SELECT count(*) FROM lineorder").fetchone()
        assert time.monotonic() - started < 10


def swallow(connection, query):
    try:
        connection.execute(query)
    except psycopg.Error:
        pass


@check
def catalog_lookup():
    """system tables and functions"""
    with connect() as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'public' AND relkind = 'r' ORDER BY 1"
        ).fetchall()
        assert ("lineorder",) in tables, tables
        equal(connection.execute("SELECT current_user, current_schema()").fetchone(), (USER, "public"))
        equal(connection.execute("SELECT pg_backend_pid()").fetchone(), (connection.info.backend_pid,))
        equal(psycopg.types.TypeInfo.fetch(connection, "hstore"), None)
        equal(psycopg.types.TypeInfo.fetch(connection, "int4").oid, 23)


@check
def arrays_in_texts():
    """texts where arrays are wanted are read as PostgreSQL reads them"""
    equal(one("""SELECT '{a,"b c",NULL}'::text[], '{1,2}'::int[], '{}'::text[]"""), (["a", "b c", None], [1, 2], []))
    wanted = one("SELECT count(*) FROM customer WHERE c_region IN ('ASIA', 'EUROPE')")
    others = one("SELECT count(*) FROM customer WHERE c_region NOT IN ('ASIA', 'EUROPE')")
    regions = [["ASIA", "EUROPE"]]
    equal(one("SELECT count(*) FROM customer WHERE c_region = ANY(%s::text[])", regions), wanted)
    equal(one("SELECT count(*) FROM customer WHERE NOT c_region = ANY(%s::text[])", regions), others)
    equal(state_of("SELECT 'abc'::text[]"), "22000")


@check
def cancel_over_any_connection():
    """a cancel that has been heard is no failure"""
    with connect() as connection:
        connection.cancel_safe()
        equal(connection.execute("SELECT 1").fetchone(), (1,))


@check
def garbage():
    """bytes that are no start-up message close only that connection"""
    for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x05", b"\xff" * 64, struct.pack("!ii", 8, 0x00020000)):
        with socket.create_connection((HOST, PORT), timeout=15) as raw:
            raw.sendall(bytes_)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    equal(one("SELECT 1"), (1,))


@check
def garbage_after_startup():
    """malformed messages end the connection with an error, not the server"""
    for message in (b"Q\x00\x00\x00\x03", b"?\x00\x00\x00\x04", b"B\x00\x00\x00\x05\x01", b"Q\xff\xff\xff\xff"):
        with socket.create_connection((HOST, PORT), timeout=15) as raw:
            body = struct.pack("!i", 196608) + b"user\0x\0\0"
            raw.sendall(struct.pack("!i", len(body) + 4) + body)
            received = b""
            while not received.endswith(b"Z\x00\x00\x00\x05I"):
                received += raw.recv(4096)
            raw.sendall(message)
            received = b""
            while chunk := raw.recv(4096):
                received += chunk
            assert b"08P01" in received or b"54000" in received, received
    equal(one("SELECT 1"), (1,))


if __name__ == "__main__":
    run()
