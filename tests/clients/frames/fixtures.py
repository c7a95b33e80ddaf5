"""Tables, values and frames that the checks of every tool read, and what they find in the server afterwards."""

import datetime as dt
import decimal
import importlib

D = decimal.Decimal
ZONE = dt.timezone.utc
SETUP = [
    "DROP VIEW IF EXISTS o_view",
    "DROP TABLE IF EXISTS f_gone, f_list, f_time, f_lists",
    "DROP TABLE IF EXISTS f_types, f_empty, f_items CASCADE",
    "CREATE TABLE f_types (id INT PRIMARY KEY, i2 SMALLINT, i8 BIGINT, r REAL, f DOUBLE PRECISION, n NUMERIC(12,3), n0 NUMERIC, s TEXT, v VARCHAR(20), "
    "b BOOLEAN, d DATE, t TIMESTAMP, z TIMESTAMPTZ, u UUID, y BYTEA)",
    "INSERT INTO f_types VALUES "
    "(1, 1, 10000000000, 1.5, 0.1, 12.345, 1.5, 'tea', 'a', true, '2024-01-02', '2024-01-02 03:04:05.123456', '2024-01-02 03:04:05+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x0102'), "
    "(2, -1, -5, 'NaN', 'Infinity', -0.001, 100, '', 'ä,\"', false, '1999-12-31', '1969-12-31 23:59:59', '2024-07-01 00:00:00+02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', ''), "
    "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE f_empty (a INT, b TEXT, c TIMESTAMPTZ)",
    "CREATE TABLE f_items (id INT, kind TEXT, price NUMERIC(10,2), sold TIMESTAMP)",
    "INSERT INTO f_items SELECT x, CASE x % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' END, x * 1.25, TIMESTAMP '2024-01-01' + x * INTERVAL '1 day' FROM generate_series(1, 100) AS g(x)",
]
FRAME = {
    "i": [1, 2, 3],
    "f": [1.5, None, -0.0],
    "s": ["a", None, 'it\'s "x", \\ %s'],
    "b": [True, False, True],
    "d": [dt.date(2024, 1, 1), None, dt.date(1900, 2, 28)],
    "t": [dt.datetime(2024, 1, 1, 2, 3, 4, 5), None, dt.datetime(1969, 12, 31)],
    "z": [dt.datetime(2024, 1, 1, tzinfo=ZONE), None, dt.datetime(2024, 7, 1, 12, tzinfo=ZONE)],
    "n": [D("1.50"), None, D("-2")],
}
TYPES = ("id", "i2", "i8", "r", "f", "n", "n0", "s", "v", "b", "d", "t", "z", "u", "y")
# `numeric` without a scale, arrays, time and interval: as parameters and as answers.
VALUES = {
    "time": "TIME '01:02:03.5'",
    "interval": "INTERVAL '1 mon 2 days 03:04:05'",
    "int array": "ARRAY[1, 2, NULL]",
    "text array": "ARRAY['a', NULL]",
    "numeric": "1.50::numeric",
    "large numeric": "12345678901234567890.123456789::numeric",
    "json": "'{\"a\": [1]}'::json",
    "jsonb": "'{\"a\": [1]}'::jsonb",
    "oid": "1::oid",
    "name": "'x'::name",
    "char": "'ab'::char(4)",
    "null": "NULL",
    "unknown": "'x'",
    "nested": "ARRAY[[1,2],[3,4]]",
    "regclass": "'f_items'::regclass::text",
}


def engine_of(url, driver="psycopg"):
    sqlalchemy = importlib.import_module("sqlalchemy")
    return sqlalchemy.create_engine(url.replace("postgresql://", f"postgresql+{driver}://"))


def rows(url, sql):
    psycopg = importlib.import_module("psycopg")
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql).fetchall()


def columns(url, table):
    return rows(
        url,
        "SELECT column_name, data_type, is_nullable, character_maximum_length, numeric_precision, numeric_scale "
        f"FROM information_schema.columns WHERE table_name = '{table}' ORDER BY ordinal_position",
    )
