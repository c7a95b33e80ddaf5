#!/usr/bin/env python3
"""ADBC over Flight SQL against a server that has the Star Schema Benchmark tables in schema `public`.

Where the server is comes from FLIGHT_URI. With FLIGHT_USER and FLIGHT_PASSWORD a user logs in, with FLIGHT_ROOTS the server's certificate is checked, and with
METRICS, their address, its metrics.
"""

import contextlib
import datetime as dt
import os
import threading
import time
import urllib.request
from decimal import Decimal

import adbc_driver_flightsql.dbapi as flight
import adbc_driver_manager
import pyarrow as pa

from checks import check, run

URI = os.environ["FLIGHT_URI"]
USER = os.environ.get("FLIGHT_USER")
# Counts for hours without giving a row.
LONG = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(n) WHERE n % 7 = 8"
HEADER = "adbc.flight.sql.rpc.call_header."
SESSION = "adbc.flight.sql.session.option."


def roots():
    """The option that checks the server's certificate, if it has one."""
    if "FLIGHT_ROOTS" not in os.environ:
        return {}
    with open(os.environ["FLIGHT_ROOTS"]) as file:
        return {"adbc.flight.sql.client_option.tls_root_certs": file.read()}


def connect(**options):
    user = {"username": USER, "password": os.environ["FLIGHT_PASSWORD"]} if USER else {}
    return flight.connect(URI, db_kwargs={**roots(), **user, **options}, autocommit=True)


def table(sql, parameters=None):
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


def rows(sql, parameters=None):
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def statements(*texts):
    with connect() as connection, connection.cursor() as cursor:
        for text in texts:
            cursor.executescript(text)


def error_of(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except (adbc_driver_manager.Error, OSError) as error:
        return str(error)
    raise AssertionError("it was let through")


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def running(like):
    return rows("SELECT count(*) FROM system.queries WHERE query LIKE $1 || '%'", (like,))[0][0]


def until(what, condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"{what}: not within a minute"
        time.sleep(0.05)


def holds(text, *words):
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"


@check
def connecting():
    """the server tells its name and version"""
    with connect() as connection:
        info = connection.adbc_get_info()
        equal(info["vendor_name"], "Nyala")
        assert info["vendor_version"][0].isdigit(), info
        equal(connection.adbc_current_catalog, "nyala")


@check
def types():
    """values of all types arrive as such"""
    found = table(
        "SELECT true AS b, CAST(7 AS SMALLINT) AS i16, 8 AS i64, CAST(1.25 AS NUMERIC(10, 2)) AS d, CAST(2.5 AS DOUBLE PRECISION) AS f,"
        " 'text' AS t, CAST('\\x0aff' AS BYTEA) AS y, DATE '1997-03-31' AS day, TIME '23:59:58' AS clock,"
        " TIMESTAMP '1997-03-31 23:59:58.5' AS at, TIMESTAMPTZ '1997-03-31 23:59:58Z' AS zoned, CAST(NULL AS TEXT) AS n,"
        " ARRAY['a', NULL] AS l"
    )
    row = found.to_pylist()[0]
    equal((row["b"], row["i16"], row["i64"], row["f"], row["t"], row["n"]), (True, 7, 8, 2.5, "text", None))
    equal((row["d"], row["y"], row["l"]), (Decimal("1.25"), b"\n\xff", ["a", None]))
    equal((row["day"], row["clock"]), (dt.date(1997, 3, 31), dt.time(23, 59, 58)))
    equal(row["at"], dt.datetime(1997, 3, 31, 23, 59, 58, 500000))
    equal(row["zoned"].astimezone(dt.timezone.utc), dt.datetime(1997, 3, 31, 23, 59, 58, tzinfo=dt.timezone.utc))
    equal(found.schema.field("t").type, pa.string())
    equal(found.schema.field("l").type.value_type, pa.string())


@check
def no_views():
    """texts of files are no views, unless the session wants the types as they are computed"""
    sql = "SELECT c_city, lo_orderpriority FROM lineorder JOIN customer ON lo_custkey = c_custkey LIMIT 3"
    equal(set(table(sql).schema.types), {pa.string()})
    with connect() as connection, connection.cursor() as cursor:
        connection.adbc_connection.set_options(**{SESSION + "flight_types": "arrow"})
        cursor.execute(sql)
        assert pa.string() not in cursor.fetch_arrow_table().schema.types
        connection.adbc_connection.set_options(**{SESSION + "flight_types": "zoneless"})
        cursor.execute("SELECT TIMESTAMPTZ '1997-03-31 23:59:58Z' AS z, c_city FROM customer LIMIT 1")
        found = cursor.fetch_arrow_table()
        equal((found.column("z").to_pylist(), found.schema.field("c_city").type), ([dt.datetime(1997, 3, 31, 23, 59, 58)], pa.string()))
        error_of(connection.adbc_connection.set_options, **{SESSION + "flight_types": "views"})


@check
def many_rows():
    """a million rows arrive whole, in batches"""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n, n * 2 AS m, 'row ' || n AS t FROM generate_series(1, 1000000) AS s(n)")
        total, count, batches = 0, 0, 0
        for batch in cursor.fetch_record_batch():
            batches += 1
            count += batch.num_rows
            total += sum(batch.column("m").to_pylist())
        equal((count, total), (1000000, 1000001000000))
        assert batches > 10, batches


@check
def many_groups():
    """groups arrive in batches of the usual size, not in crumbs"""
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n, count(*) AS c, min(n) AS least FROM generate_series(1, 1000000) AS s(n) GROUP BY n")
        sizes = [batch.num_rows for batch in cursor.fetch_record_batch()]
        equal(sum(sizes), 1000000)
        assert len(sizes) < 500, len(sizes)


@check
def no_rows():
    """an answer without rows has columns"""
    found = table("SELECT lo_orderkey, lo_shipmode FROM lineorder WHERE lo_orderkey < 0")
    equal((found.num_rows, found.column_names), (0, ["lo_orderkey", "lo_shipmode"]))


@check
def cube():
    """queries are answered from a cube, and agree with the tables"""
    sql = "SELECT d_year, sum(lo_revenue) FROM lineorder, dates WHERE lo_orderdate = d_datekey GROUP BY d_year ORDER BY 1"
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        found = cursor.fetchall()
        cursor.execute("EXPLAIN " + sql)
        holds(str(cursor.fetchall()), "answered from cube")
        cursor.executescript("SET nyala.use_cubes = off")
        cursor.execute(sql)
        equal(cursor.fetchall(), found)


@check
def parameters():
    """parameters of all types, and null"""
    equal(rows("SELECT $1 + 1, $2 || 'x', $3", (41, "y", dt.date(2020, 2, 29))), [(42, "yx", "2020-02-29")])
    equal(rows("SELECT $1 = DATE '2020-02-29', $2 < TIMESTAMP '2020-02-29 12:00'", (dt.date(2020, 2, 29), dt.datetime(2020, 1, 1))), [(True, True)])
    equal(rows("SELECT count(*) FROM lineorder WHERE lo_discount = $1 AND lo_shipmode = $2", (3, "AIR"))[0][0] > 0, True)
    equal(rows("SELECT CAST($1 AS BIGINT) IS NULL", (None,)), [(True,)])
    equal(rows("SELECT CAST($1 AS NUMERIC(30, 5))", ("1234567890123456789.12345",)), [(Decimal("1234567890123456789.12345"),)])
    holds(error_of(rows, "SELECT $1 + $2", (1,)), "2 parameters, but 1")
    holds(error_of(rows, "SELECT $1 + 1"), "1 parameter")
    holds(error_of(rows, "SELECT CAST($1 AS BIGINT) + 1", ("many",)), "many")


@check
def prepared():
    """a prepared statement is used several times, with other values"""
    with connect() as connection, connection.cursor() as cursor:
        columns = cursor.adbc_prepare("SELECT CAST($1 AS BIGINT) * 2 AS twice")
        assert columns is not None
        for value in (1, 2, 3):
            cursor.execute("SELECT CAST($1 AS BIGINT) * 2 AS twice", (value,))
            equal(cursor.fetchall(), [(2 * value,)])


@check
def writing():
    """a statement without rows is done once, and many rows of values are counted"""
    statements("CREATE TABLE written (k BIGINT PRIMARY KEY, t TEXT)")
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO written VALUES (1, 'one')")
        cursor.execute("SELECT count(*) FROM written")
        equal(cursor.fetchall(), [(1,)])
        cursor.executemany("INSERT INTO written VALUES ($1, $2)", [(k, f"t{k}") for k in range(2, 52)])
        equal(cursor.rowcount, 50)
        cursor.executescript("UPDATE written SET t = 'many' WHERE k > 1")
        cursor.execute("INSERT INTO written VALUES (100, 'r') RETURNING k + 1")
        equal(cursor.fetchall(), [(101,)])
        cursor.execute("SELECT count(*), count(DISTINCT t) FROM written")
        equal(cursor.fetchall(), [(52, 3)])
        cursor.executemany("INSERT INTO written VALUES ($1, $2)", [])
        cursor.execute("INSERT INTO written VALUES (101, 'unread') RETURNING k")
    equal(rows("SELECT t FROM written WHERE k = 101"), [("unread",)])
    with connect() as connection, connection.cursor() as cursor:
        failed = error_of(cursor.executemany, "INSERT INTO written VALUES (1000 / $1, 'divided')", [(1,), (0,)])
        holds(failed, "[22012]", "1 rows of values before were done")
        cursor.execute("SELECT count(*) FROM written WHERE t = 'divided'")
        equal(cursor.fetchall(), [(1,)])


ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "name": [f"n{n}" for n in range(1000)], "price": [n / 4 for n in range(1000)]})


def ingest(name, data, mode, connection=None, **options):
    headers = {HEADER + "x-nyala-" + key: str(value) for key, value in options.items() if key in ("rows", "label")}
    rest = {key: value for key, value in options.items() if key not in ("rows", "label")}
    with connect() if connection is None else contextlib.nullcontext(connection) as used, used.cursor() as cursor:
        if headers:
            cursor.adbc_statement.set_options(**headers)
        return cursor.adbc_ingest(name, data, mode=mode, **rest)


@check
def loads():
    """loads create, append to and replace tables, and refuse what the mode does not allow"""
    equal(ingest("loaded", ROWS, "create"), 1000)
    equal(rows("SELECT count(*), sum(price), max(name) FROM loaded"), [(1000, 124875.0, "n999")])
    equal(ingest("loaded", ROWS.slice(0, 10), "append"), 10)
    equal(rows("SELECT count(*) FROM loaded"), [(1010,)])
    holds(error_of(ingest, "loaded", ROWS, "create"), "exists", "[42P07]")
    holds(error_of(ingest, "unloaded", ROWS, "append"), "does not exist", "[42P01]")
    equal(ingest("loaded", ROWS.slice(0, 7), "replace"), 7)
    equal(ingest("loaded", ROWS.slice(0, 7), "create_append"), 7)
    equal(ingest("loaded_too", ROWS.slice(0, 7), "create_append"), 7)
    equal(rows("SELECT count(*) FROM loaded"), [(14,)])
    equal(rows("SELECT count(*) FROM loaded_too"), [(7,)])
    statements("CREATE SCHEMA elsewhere")
    equal(ingest("loaded", ROWS.slice(0, 3), "create", db_schema_name="elsewhere"), 3)
    equal(rows("SELECT count(*) FROM elsewhere.loaded"), [(3,)])
    equal(rows("SELECT count(*) FROM loaded"), [(14,)])


@check
def loads_are_whole():
    """a load is written whole or not at all, once for each label"""
    statements("CREATE TABLE whole (id BIGINT PRIMARY KEY, name TEXT NOT NULL, price DOUBLE PRECISION)")
    holds(error_of(ingest, "whole", ROWS, "append", rows=1001), "1000 rows came", "1001")
    equal(rows("SELECT count(*) FROM whole"), [(0,)])
    for _ in range(2):
        equal(ingest("whole", ROWS, "append", rows=1000, label="first"), 1000)
    equal(rows("SELECT count(*) FROM whole"), [(1000,)])
    # Only the last row is wrong.
    count = 400_000
    good = pa.record_batch([pa.array(range(5000, 5000 + count), pa.int64()), pa.array(["x" * 50] * count), pa.nulls(count, pa.float64())], ROWS.schema)
    wrong = pa.record_batch([pa.array([1], pa.int64()), pa.nulls(1, pa.string()), pa.nulls(1, pa.float64())], ROWS.schema)
    pieces = [good.slice(at, 50_000) for at in range(0, count, 50_000)]
    failed = error_of(ingest, "whole", pa.RecordBatchReader.from_batches(ROWS.schema, [*pieces, wrong]), "append")
    holds(failed, "name", "[23502]")
    equal(rows("SELECT count(*) FROM whole"), [(1000,)])
    holds(error_of(ingest, "whole", ROWS.rename_columns(["id", "nome", "price"]), "append"), "nome")
    holds(error_of(ingest, "listed", pa.table({"l": [[1, 2]]}), "create"), "`l`")


@check
def failed_replacements():
    """a load that fails leaves the table that it was to replace, and none that it was to make"""
    ingest("kept", ROWS, "create")
    for options in ({"rows": 5}, {"rows": 5, "label": "again"}):
        holds(error_of(ingest, "kept", ROWS.slice(0, 3), "replace", **options), "3 rows came")
    equal(rows("SELECT count(*) FROM kept"), [(1000,)])
    holds(error_of(ingest, "unmade", ROWS, "create", rows=5), "1000 rows came")
    until("no table is left", lambda: rows("SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'unmade%' OR table_name LIKE 'kept\\_%'") == [(0,)])
    # Done once each, whatever the mode.
    for mode in ("create", "replace"):
        for _ in range(2):
            equal(ingest("labelled", ROWS.slice(0, 9), mode, label=mode), 9)
    equal(rows("SELECT count(*) FROM labelled"), [(9,)])


@check
def temporary_loads():
    """temporary tables are the session's own, and loads never mistake one for another"""
    statements("CREATE TABLE stage (id BIGINT, name TEXT, price DOUBLE PRECISION)", "INSERT INTO stage VALUES (7, 'of all', 1)")
    with connect() as one, connect() as other:
        equal(ingest("stage", ROWS, "create", connection=one, temporary=True), 1000)
        equal(ingest("stage", ROWS.slice(0, 5), "create_append", connection=other, temporary=True), 5)
        equal(ingest("stage", ROWS.slice(0, 4), "replace", connection=other, temporary=True), 4)
        equal(ingest("stage", ROWS.slice(0, 2), "append", connection=one), 2)
        for connection, count in ((one, 1000), (other, 4)):
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM stage")
                equal(cursor.fetchall(), [(count,)])
                cursor.execute("SELECT count(*) FROM public.stage")
                equal(cursor.fetchall(), [(3,)])


@check
def hostile_parameters():
    """values that share their bytes, and rows without columns, are bounded"""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 1_000_000]))
    with connect() as connection, connection.cursor() as cursor:
        many = pa.record_batch([text], ["0"])
        holds(error_of(cursor.executemany, "SELECT length($1)", many), "64 MiB")
        cursor.execute("SELECT 1")
        equal(cursor.fetchall(), [(1,)])


@check
def changed_tables():
    """a prepared statement whose columns have changed places is refused"""
    statements("CREATE TABLE places (a BIGINT PRIMARY KEY, b BIGINT)", "INSERT INTO places VALUES (1, 2)")
    with connect() as connection, connection.cursor() as cursor:
        cursor.adbc_prepare("SELECT * FROM places")
        statements("DROP TABLE places", "CREATE TABLE places (b BIGINT PRIMARY KEY, a BIGINT)", "INSERT INTO places VALUES (2, 1)")
        holds(error_of(lambda: (cursor.execute("SELECT * FROM places"), cursor.fetchall())), "other columns")


@check
def unread_answers():
    """a statement ends in time also if its rows are not read"""
    sql = "SELECT n, repeat('y', 100) FROM generate_series(1, 1000000000) AS unread(n)"
    with connect() as connection, connection.cursor() as cursor:
        cursor.executescript("SET statement_timeout = '500ms'")
        cursor.execute(sql)
        reader = cursor.fetch_record_batch()
        reader.read_next_batch()
        until("the unread query ended", lambda: running(sql) == 0)
        holds(error_of(reader.read_all), "statement_timeout")


@check
def large_loads():
    """two million rows in batches of several megabytes"""
    count = 2_000_000
    data = pa.table({"id": pa.array(range(count), pa.int64()), "d": pa.array([None, Decimal("1.50")] * (count // 2), pa.decimal128(10, 2)), "at": pa.array([dt.date(2026, 11, 28)] * count)})
    statements("CREATE TABLE large (id BIGINT, d NUMERIC(10, 2), at DATE)")
    # As one batch it is larger than the client sends: an error, and no row of it.
    holds(error_of(ingest, "large", data, "append", rows=count), "larger than max")
    equal(rows("SELECT count(*) FROM large"), [(0,)])
    # Nor are there rows of a batch before it, although the client does not say how many there are.
    for _ in range(8):
        pieces = [*data.slice(0, 1000).to_batches(), *data.slice(1000).to_batches()]
        holds(error_of(ingest, "large", pa.RecordBatchReader.from_batches(data.schema, pieces), "append"), "larger than max")
    equal(rows("SELECT count(*) FROM large"), [(0,)])
    reader = pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=200_000))
    equal(ingest("large", reader, "append", rows=count), count)
    equal(rows("SELECT count(*), count(d), sum(id) FROM large"), [(count, count // 2, Decimal(count * (count - 1) // 2))])


@check
def catalogs():
    """schemas, tables and columns"""
    with connect() as connection:
        found = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        equal([catalog["catalog_name"] for catalog in found], ["nyala"])
        schemas = {schema["db_schema_name"]: schema["db_schema_tables"] for schema in found[0]["catalog_db_schemas"]}
        assert {"public", "system"} <= set(schemas), set(schemas)
        tables = {one["table_name"]: one for one in schemas["public"]}
        columns = [column["column_name"] for column in tables["dates"]["table_columns"]]
        equal(columns[:2], ["d_datekey", "d_date"])
        equal(tables["dates"]["table_type"], "TABLE")
        holds(str(connection.adbc_get_table_types()), "TABLE", "VIEW")
        schema = connection.adbc_get_table_schema("dates", db_schema_filter="public")
        equal(schema.names[:2], ["d_datekey", "d_date"])
        only = connection.adbc_get_objects(depth="tables", table_name_filter="dat%").read_all().to_pylist()
        found = {one["db_schema_name"]: [table["table_name"] for table in one["db_schema_tables"] or []] for one in only[0]["catalog_db_schemas"]}
        equal(found["public"], ["dates"])
        assert error_of(connection.adbc_get_table_schema, "nowhere")


@check
def session_options():
    """settings last as long as the session, which has options"""
    statements("CREATE SCHEMA optional", "CREATE TABLE optional.only_here (k BIGINT PRIMARY KEY)")
    with connect() as connection, connection.cursor() as cursor:
        cursor.executescript("SET statement_timeout = '1234ms'")
        cursor.execute("SHOW statement_timeout")
        holds(str(cursor.fetchall()), "1234")
        connection.adbc_connection.set_options(**{SESSION + "schema": "optional"})
        cursor.execute("SELECT count(*) FROM only_here")
        equal(cursor.fetchall(), [(0,)])
        equal(connection.adbc_connection.get_option(SESSION + "schema"), "optional")
        connection.adbc_connection.set_options(**{SESSION + "nyala.use_cubes": "off"})
        cursor.execute("SHOW nyala.use_cubes")
        equal(cursor.fetchall(), [("off",)])
        for name, value in (("no_such", "1"), ("nyala.use_cubes", "perhaps"), ("catalog", "other")):
            error_of(connection.adbc_connection.set_options, **{SESSION + name: value})
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW nyala.use_cubes")
        equal(cursor.fetchall(), [("on",)])


@check
def errors():
    """errors have SQLSTATE and the next step, also in the middle of an answer"""
    holds(error_of(rows, "SELECT nope FROM lineorder"), "nope", "[42703]")
    holds(error_of(rows, "SELECT * FROM nowhere"), "nowhere", "[42P01]")
    holds(error_of(rows, "SELEC 1"), "[42601]")
    holds(error_of(rows, "SELECT 1; SELECT 2"), "exactly one statement")
    with connect() as connection, connection.cursor() as cursor:
        failed = error_of(lambda: (cursor.execute("SELECT 1 / (n - 900000) FROM generate_series(1, 1000000) AS s(n)"), cursor.fetch_arrow_table()))
        holds(failed, "zero", "[22012]")
        cursor.execute("SELECT 1")
        equal(cursor.fetchall(), [(1,)])
        holds(error_of(cursor.executescript, "SET statement_timeout = 'soon'"), "soon")
        cursor.executescript("SET statement_timeout = '100ms'")
        holds(error_of(lambda: (cursor.execute(LONG), cursor.fetchall())), "statement_timeout")


@check
def cancelling():
    """a cancelled query ends on the server"""
    with connect() as connection, connection.cursor() as cursor:
        outcome = []

        def ask():
            outcome.append(error_of(lambda: (cursor.execute(LONG), cursor.fetchall())))

        asking = threading.Thread(target=ask)
        asking.start()
        until("the query runs", lambda: running(LONG) == 1)
        cursor.adbc_cancel()
        asking.join(60)
        assert outcome, "the client still waits"
        until("the query ended", lambda: running(LONG) == 0)


@check
def leaving():
    """a client that leaves in the middle of an answer ends its query"""
    sql = "SELECT n, repeat('x', 100) FROM generate_series(1, 1000000000) AS left_alone(n)"
    connection = connect()
    cursor = connection.cursor()
    cursor.execute(sql)
    reader = cursor.fetch_record_batch()
    reader.read_next_batch()
    equal(running(sql), 1)
    reader.close()
    cursor.close()
    connection.close()
    until("the query ended", lambda: running(sql) == 0)


@check
def many_clients():
    """many clients at once, each with sessions and statements of its own"""
    problems = []

    def ask(client):
        try:
            with connect() as connection, connection.cursor() as cursor:
                cursor.executescript(f"SET statement_timeout = '{client + 1}min'")
                for _ in range(20):
                    cursor.execute("SELECT CAST($1 AS BIGINT), sum(lo_revenue) FROM lineorder WHERE lo_quantity < $1", (client,))
                    found = cursor.fetchall()
                    if found[0][0] != client:
                        problems.append(found)
        except Exception as error:  # noqa: BLE001 (each client tells what it met)
            problems.append(error)

    clients = [threading.Thread(target=ask, args=(client,)) for client in range(16)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    equal(problems, [])


if "METRICS" in os.environ:

    def metric(name):
        with urllib.request.urlopen(os.environ["METRICS"]) as answer:
            lines = answer.read().decode().splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " ")), 0.0)

    @check
    def metrics():
        """calls are counted by what they ask for and how they end, and sessions while they are open"""
        lines = [
            f'nyala_flight_calls_total{{call="{call}",code="{code}",command="{command}"}}'
            for call, code, command in (
                ("DoGet", "OK", "PreparedStatementQuery"),
                ("DoAction", "NOT_FOUND", "CreatePreparedStatement"),
                ("DoGet", "OK", "GetCatalogs"),
            )
        ]
        before = [metric(line) for line in lines]
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            equal(cursor.fetchall(), [(1,)])
            error_of(cursor.execute, "SELECT nope FROM lineorder")
            connection.adbc_get_objects(depth="catalogs").read_all()
            assert metric("nyala_flight_sessions") >= 1
        until("the calls are counted", lambda: all(metric(line) > count for line, count in zip(lines, before)))
        until("the sessions are over", lambda: metric("nyala_flight_sessions") == 0)


if USER:

    @check
    def passwords():
        """wrong passwords and tokens are refused, and privileges are those of the user"""
        holds(error_of(lambda: connect(password="wrong").cursor().execute("SELECT 1")), "[28P01]")
        def ask_as(**options):
            with flight.connect(URI, db_kwargs={**roots(), **options}, autocommit=True) as connection:
                connection.cursor().execute("SELECT 1")

        header = {"adbc.flight.sql.authorization_header": "Bearer invented"}
        holds(error_of(ask_as, **header), "[28P01]")
        holds(error_of(ask_as), "[28000]")
        equal(rows("SELECT current_user"), [(USER,)])
        statements("CREATE ROLE limited LOGIN PASSWORD 'little'")
        limited = {"username": "limited", "password": "little", **roots()}
        with flight.connect(URI, db_kwargs=limited, autocommit=True) as connection, connection.cursor() as cursor:
            holds(error_of(cursor.execute, "SELECT * FROM dates"), "[42501]")
            holds(error_of(ingest, "written", pa.table({"k": [1], "t": ["x"]}), "append", connection=connection), "[42501]")
            holds(error_of(ingest, "of_limited", ROWS, "create", db_schema_name="elsewhere", connection=connection), "[42501]")
            # Columns can be seen by everybody who may log in, as in information_schema.
            schema = connection.adbc_get_table_schema("customer", db_schema_filter="public")
            equal(schema.names[:2], ["c_custkey", "c_name"])
            assert "c_custkey" in str(connection.adbc_get_objects(depth="all").read_all().to_pylist())


run()
