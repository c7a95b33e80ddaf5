"""psqlodbc by pyodbc, with each of the driver's ways: a line `name<TAB>answer` for each check, an error as its SQLSTATE."""

import datetime
import decimal
import os
import sys
import uuid

import pyodbc

BASE = "DRIVER={{PostgreSQL Unicode}};SERVER={PGHOST};PORT={PGPORT};UID={PGUSER};DATABASE={PGDATABASE};".format(**os.environ)
WAYS = ["", "UseServerSidePrepare=0;", "UseDeclareFetch=1;Fetch=7;", "BoolsAsChar=0;", "TextAsLongVarchar=0;UnknownsAsLongVarchar=1;",
        "Protocol=7.4-2;", "Protocol=7.4-1;", "Protocol=7.4-0;", "UpdatableCursors=1;", "LFConversion=1;ByteaAsLongVarBinary=1;", "ReadOnly=1;", "Parse=1;"]
LONG = "SELECT count(*) FROM generate_series(1, 1000000000) AS a(n) CROSS JOIN generate_series(1, 100000) AS b(m) WHERE n % 7 = 8"


def check(name, use, way="", autocommit=True):
    # A statement of the catalog that answers in a form that the driver does not expect ends the process: each check has its own.
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            print(f"{name}\tthe process ended with {status}")
        return
    try:
        connection = pyodbc.connect(BASE + way, autocommit=autocommit)
        answer = repr(use(connection))
        connection.close()
    except pyodbc.Error as error:
        answer = f"SQLSTATE {error.args[0]}"
    except Exception as error:  # noqa: BLE001: an error is an answer too
        answer = f"error {error!r}"
    print(name + "\t" + answer.replace("\n", "\\n"))
    sys.stdout.flush()
    os._exit(0)


def rows(connection, sql, *parameters):
    return [tuple(row) for row in connection.cursor().execute(sql, *parameters).fetchall()]


def run(connection, *statements):
    return [connection.cursor().execute(sql).rowcount for sql in statements]


def state(connection, sql):
    try:
        return rows(connection, sql)
    except pyodbc.Error as error:
        return error.args[0]


def catalog(cursor, *columns):
    return [tuple(row[column] for column in columns) for row in cursor]


def batch(connection, fast):
    cursor = connection.cursor()
    cursor.fast_executemany = fast
    cursor.executemany("INSERT INTO od_rows VALUES (?, ?, ?)", [(1000 + n, "m", decimal.Decimal("1.5")) for n in range(50)])
    return rows(connection, "SELECT count(*), sum(amount) FROM od_rows WHERE id >= 1000"), run(connection, "DELETE FROM od_rows WHERE id >= 1000")


def parts(connection):
    cursor = connection.cursor().execute("SELECT id FROM od_rows ORDER BY id")
    return [len(part) for part in (cursor.fetchmany(30), cursor.fetchmany(30), cursor.fetchall())]


def results(connection):
    cursor = connection.cursor().execute("SELECT 'a'; SELECT 'b'")
    return cursor.fetchall(), cursor.nextset(), cursor.fetchall()


def timeout(connection):
    connection.timeout = 1
    return state(connection, LONG)


check("setup", lambda c: len(run(
    c, "DROP TABLE IF EXISTS od_all", "DROP TABLE IF EXISTS od_rows",
    "CREATE TABLE od_all (id INT PRIMARY KEY, i2 SMALLINT, i8 BIGINT, f4 REAL, f8 DOUBLE PRECISION, n NUMERIC(12,3), t TEXT, v VARCHAR(10), b BOOLEAN, d DATE, "
    "tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, by BYTEA, u UUID, iv INTERVAL, ia INT[])",
    "CREATE TABLE od_rows (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL DEFAULT 'x', amount NUMERIC(10,2))",
    "INSERT INTO od_rows SELECT n, 'n' || n, n FROM generate_series(1, 100) AS g(n)",
    "INSERT INTO od_all VALUES (1, 2, 3, 1.5, 2.5, 12.345, 'text', 'var', true, '2024-02-29', '12:34:56', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789+02', "
    "'\\x0102', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 mon 2 days 03:04:05', '{1,2}')")))
for way in WAYS:
    named = way or "plain"
    check(f"{named} all", lambda c: rows(c, "SELECT * FROM od_all"), way)
    check(f"{named} description", lambda c: [column[:7] for column in c.cursor().execute("SELECT * FROM od_all").description], way)
    check(f"{named} parameters", lambda c: rows(
        c, "SELECT id FROM od_all WHERE id = ? AND i8 = ? AND f8 = ? AND n = ? AND t = ? AND b = ? AND d = ? AND ts = ? AND by = ?", 1, 3, 2.5, decimal.Decimal("12.345"), "text", True,
        datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 34, 56, 789000), b"\1\2"), way)
    check(f"{named} uuid and time", lambda c: rows(
        c, "SELECT id FROM od_all WHERE u = ? AND tm = ?", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), datetime.time(12, 34, 56)), way)
    check(f"{named} null", lambda c: rows(c, "SELECT CAST(? AS int), ?", None, "x"), way)
    check(f"{named} rows in parts", parts, way, autocommit=False)
    check(f"{named} after an error", lambda c: (state(c, "SELECT nope"), rows(c, "SELECT 'a'")), way)
    check(f"{named} error in a transaction", lambda c: (state(c, "SELECT 1/0"), state(c, "SELECT 'a'")), way, autocommit=False)
check("tables", lambda c: catalog(c.cursor().tables("od%"), 1, 2, 3))
check("tables of a schema", lambda c: catalog(c.cursor().tables(schema="public", table="od%", tableType="TABLE"), 1, 2, 3))
check("columns", lambda c: catalog(c.cursor().columns("od_all"), 3, 4, 5, 6, 7, 8, 10, 12, 16, 17))
check("columns with defaults", lambda c: catalog(c.cursor().columns("od_rows"), 3, 4, 5, 6, 7, 8, 10, 12, 16, 17))
check("primary keys", lambda c: catalog(c.cursor().primaryKeys("od_all"), 2, 3, 4, 5))
check("foreign keys", lambda c: list(c.cursor().foreignKeys("od_all")))
check("statistics", lambda c: catalog(c.cursor().statistics("od_all"), 2, 3, 5, 6, 7, 8))
check("row identifiers", lambda c: catalog(c.cursor().rowIdColumns("od_all"), 1, 2, 3))
check("row versions", lambda c: catalog(c.cursor().rowVerColumns("od_all"), 1, 2, 3))
check("procedures", lambda c: len(list(c.cursor().procedures("lower"))) > 0)
check("procedure columns", lambda c: len(list(c.cursor().procedureColumns("lower"))) > 0)
check("types", lambda c: catalog(c.cursor().getTypeInfo(), 0, 1, 2))
check("product", lambda c: [c.getinfo(key) for key in (pyodbc.SQL_DBMS_NAME, pyodbc.SQL_DATABASE_NAME, pyodbc.SQL_USER_NAME)])
check("batch", lambda c: batch(c, False))
check("fast batch", lambda c: batch(c, True))
check("counts", lambda c: run(c, "INSERT INTO od_rows VALUES (3000, 'a', 1)", "UPDATE od_rows SET name = 'b' WHERE id = 3000", "DELETE FROM od_rows WHERE id = 3000"))
check("returning", lambda c: (rows(c, "INSERT INTO od_rows VALUES (3001, 'a', 1) RETURNING id, name"), rows(c, "DELETE FROM od_rows WHERE id = 3001 RETURNING *")))
check("escapes", lambda c: rows(c, "SELECT {fn UCASE('a')}, {d '2024-01-02'}, {ts '2024-01-02 03:04:05'}, {fn CONCAT('a', 'b')}, {fn LENGTH('abc')}"))
check("several results", results)
check("timeout", timeout)
check("literals", lambda c: rows(c, "SELECT 1, 1.5, 'x', NULL, true, 2147483648"))
check("long text", lambda c: len(rows(c, "SELECT ?", "x" * 100_000)[0][0]))
check("unicode", lambda c: rows(c, "SELECT ?", "äé漢😀"))
check("isolation", lambda c: (c.set_attr(108, 8), rows(c, "SHOW transaction_isolation"))[1], autocommit=False)
check("drop", lambda c: run(c, "DROP TABLE od_all", "DROP TABLE od_rows"))
