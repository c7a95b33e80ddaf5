#!/usr/bin/env python3
"""What notebooks do: pandas, polars, ADBC, connectorx, ibis, SQLAlchemy with Alembic, psycopg and pgcli, each beside PostgreSQL as in compare.py.

frames.py postgresql://user@host:port/database postgresql://nyala@host:port/nyala [tool ...]
"""

import datetime as dt
import decimal
import importlib
import io
import math
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

import compare

D = decimal.Decimal
ZONE = dt.timezone.utc
compare.SETUP = [
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


def pandas_checks(pd, url):
    sa = importlib.import_module("sqlalchemy")
    checks = {}
    for driver in ("psycopg", "psycopg2"):
        engine = engine_of(url, driver)

        def frame():
            return pd.DataFrame(FRAME).assign(t=lambda x: pd.to_datetime(x.t), z=lambda x: pd.to_datetime(x.z, utc=True), nan=[math.nan, 1.0, math.inf])

        def write(engine=engine, **how):
            frame().to_sql("f_frame", engine, **how)
            return rows(url, "SELECT * FROM f_frame ORDER BY i, s"), columns(url, "f_frame")

        def upsert(engine=engine):
            from sqlalchemy.dialects.postgresql import insert

            with engine.begin() as c:
                c.execute(sa.text("DROP TABLE IF EXISTS f_up"))
                c.execute(sa.text("CREATE TABLE f_up (i INT PRIMARY KEY, s TEXT)"))

            def method(table, connection, keys, data):
                statement = insert(table.table).values([dict(zip(keys, row)) for row in data])
                return connection.execute(statement.on_conflict_do_update(index_elements=["i"], set_={"s": statement.excluded.s})).rowcount

            first = frame()[["i", "s"]].to_sql("f_up", engine, index=False, if_exists="append", method=method)
            second = frame()[["i", "s"]].assign(s="new").to_sql("f_up", engine, index=False, if_exists="append", method=method)
            return first, second, rows(url, "SELECT * FROM f_up ORDER BY 1")

        def copy(engine=engine):
            def method(table, connection, keys, data):
                import csv

                raw = connection.connection
                text = io.StringIO()
                csv.writer(text).writerows(data)
                text.seek(0)
                sql = f"COPY {table.table.name} ({', '.join(chr(34) + k + chr(34) for k in keys)}) FROM STDIN WITH CSV"
                with raw.cursor() as cursor:
                    if hasattr(cursor, "copy_expert"):
                        cursor.copy_expert(sql, text)
                    else:
                        with cursor.copy(sql) as copy:
                            copy.write(text.read())

            frame().to_sql("f_copy", engine, if_exists="replace", index=False, method=method)
            return rows(url, "SELECT * FROM f_copy ORDER BY i")

        def to_schema(engine=engine):
            with engine.begin() as c:
                c.execute(sa.text("CREATE SCHEMA IF NOT EXISTS f_schema"))
            frame().to_sql("f_inner", engine, schema="f_schema", if_exists="replace", index=False)
            return pd.read_sql_table("f_inner", engine, schema="f_schema").dtypes.to_dict(), len(pd.read_sql("SELECT * FROM f_schema.f_inner", engine))

        def failing(engine=engine):
            frame().to_sql("f_frame", engine, if_exists="replace", index=False)
            try:
                frame().to_sql("f_frame", engine, if_exists="fail")
            except ValueError as error:
                return str(error)

        checks |= {
            f"{driver} {name}": check
            for name, check in {
                "write replace": lambda write=write: write(if_exists="replace", index=False),
                "write append": lambda write=write: write(if_exists="append", index=False),
                "write multi": lambda write=write: write(if_exists="append", index=False, method="multi"),
                "write chunks": lambda write=write: write(if_exists="append", index=False, chunksize=2),
                "write index": lambda write=write: write(if_exists="replace", index_label="k"),
                "write types": lambda write=write: write(
                    if_exists="replace", index=False, dtype={"i": sa.BigInteger(), "s": sa.String(50), "n": sa.Numeric(10, 2), "f": sa.Float(24), "t": sa.TIMESTAMP(timezone=True), "b": sa.Boolean()}
                ),
                "write delete_rows": lambda write=write: write(if_exists="delete_rows", index=False),
                "write fail": failing,
                "write schema": to_schema,
                "upsert": upsert,
                "copy": copy,
                "types": lambda engine=engine: (lambda f: (f.dtypes.astype(str).to_dict(), f.assign(y=f.y.map(bytes, na_action="ignore")).to_csv()))(
                    pd.read_sql("SELECT * FROM f_types ORDER BY id", engine)
                ),
                "table": lambda engine=engine: (lambda f: (f.dtypes.astype(str).to_dict(), f.assign(y=f.y.map(bytes, na_action="ignore")).sort_index().to_csv()))(
                    pd.read_sql_table("f_types", engine, index_col="id")
                ),
                "table columns": lambda engine=engine: pd.read_sql_table("f_types", engine, columns=["id", "d"], parse_dates=["d"]).sort_values("id").to_csv(),
                "empty": lambda engine=engine: pd.read_sql("SELECT * FROM f_empty", engine).dtypes.astype(str).to_dict(),
                "parameters": lambda engine=engine: pd.read_sql(
                    sa.text("SELECT id FROM f_types WHERE id > :x AND (s = :s OR :s IS NULL) AND d < :d"), engine, params={"x": 1, "s": "", "d": dt.date(2000, 1, 1)}
                ).to_csv(),
                "in": lambda engine=engine: pd.read_sql(
                    sa.text("SELECT id FROM f_types WHERE id IN :ids ORDER BY 1").bindparams(sa.bindparam("ids", expanding=True)), engine, params={"ids": [1, 3]}
                ).to_csv(),
                "chunks": lambda engine=engine: [len(c) for c in pd.read_sql("SELECT * FROM f_items", engine, chunksize=30)],
                "stream": lambda engine=engine: [len(c) for c in pd.read_sql("SELECT * FROM f_items", engine.connect().execution_options(stream_results=True), chunksize=30)],
                "arrow": lambda engine=engine: (lambda f: (f.dtypes.astype(str).to_dict(), f.to_csv()))(
                    pd.read_sql("SELECT id, i2, f, s, b FROM f_types ORDER BY id", engine, dtype_backend="pyarrow")
                ),
                "percent": lambda engine=engine: pd.read_sql(sa.text("SELECT count(*) FROM f_items WHERE kind LIKE '%a%' AND id % 2 = 0"), engine).to_csv(),
            }.items()
        }

    def adbc(use):
        connect = importlib.import_module("adbc_driver_postgresql.dbapi").connect
        with connect(url) as connection:
            return use(connection)

    checks |= {
        "adbc write": lambda: adbc(lambda c: (pd.DataFrame(FRAME)[["i", "f", "s", "b"]].to_sql("f_adbc", c, if_exists="replace", index=False), c.commit(), columns(url, "f_adbc"))),
        "adbc append": lambda: adbc(
            lambda c: (pd.DataFrame(FRAME)[["i", "f", "s", "b"]].to_sql("f_adbc", c, if_exists="append", index=False), c.commit(), rows(url, "SELECT * FROM f_adbc ORDER BY 1"))
        ),
        "adbc read": lambda: adbc(lambda c: pd.read_sql("SELECT id, s, f, t FROM f_types ORDER BY id", c).to_csv()),
    }
    return checks


def polars_checks(pl, url):
    full = {k: v for k, v in FRAME.items()}
    frame = lambda: pl.DataFrame(full, strict=False)
    engine = engine_of(url)
    show = lambda f: (dict(zip(f.columns, map(str, f.dtypes))), f.rows())

    def write(table, how, columns_=None, **options):
        f = frame() if columns_ is None else frame().select(columns_)
        f.write_database(table, engine if options.get("engine") == "sqlalchemy" else url, if_table_exists=how, **options)
        return rows(url, f"SELECT * FROM {table} ORDER BY 1, 3"), columns(url, table)

    read = "SELECT id, i2, i8, r, f, n, s, v, b, d, t, z FROM f_types ORDER BY id"
    return {
        "database": lambda: show(pl.read_database(read, engine)),
        "database parameters": lambda: show(pl.read_database("SELECT id FROM f_types WHERE id > :x ORDER BY 1", engine, execute_options={"parameters": {"x": 1}})),
        "database batches": lambda: [len(f) for f in pl.read_database("SELECT * FROM f_items", engine, iter_batches=True, batch_size=40)],
        "connectorx": lambda: show(pl.read_database_uri(read.replace(" n,", ""), url)),
        "connectorx all": lambda: show(pl.read_database_uri("SELECT * FROM f_types WHERE id <> 2 ORDER BY id", url)),
        "connectorx partition": lambda: show(pl.read_database_uri("SELECT id, price FROM f_items", url, partition_on="id", partition_num=3).sort("id")),
        "connectorx several": lambda: show(pl.read_database_uri(["SELECT id FROM f_items WHERE id < 5", "SELECT id FROM f_items WHERE id > 97"], url).sort("id")),
        "adbc": lambda: show(pl.read_database_uri(read, url, engine="adbc")),
        "adbc all": lambda: show(pl.read_database_uri("SELECT * FROM f_types ORDER BY id", url, engine="adbc")),
        "adbc empty": lambda: show(pl.read_database_uri("SELECT * FROM f_empty", url, engine="adbc")),
        "write replace": lambda: write("f_pl", "replace", engine="sqlalchemy"),
        "write append": lambda: write("f_pl", "append", engine="sqlalchemy"),
        "write fail": lambda: write("f_pl", "fail", engine="sqlalchemy"),
        "write adbc replace": lambda: write("f_pla", "replace", ["i", "f", "s", "b", "d", "t", "z"], engine="adbc"),
        "write adbc append": lambda: write("f_pla", "append", ["i", "f", "s", "b", "d", "t", "z"], engine="adbc"),
        "write adbc fail": lambda: write("f_pla", "fail", ["i"], engine="adbc"),
    }


def connectorx_checks(cx, url):
    checks = {}
    for protocol in ("binary", "csv", "cursor", "simple"):
        read = lambda sql, protocol=protocol, **o: (lambda f: (f.dtypes.astype(str).to_dict(), f.to_csv()))(cx.read_sql(f"{url}?cxprotocol={protocol}", sql, **o))
        checks |= {
            f"{protocol} {name}": check
            for name, check in {
                "types": lambda read=read: read("SELECT * FROM f_types WHERE id <> 2 ORDER BY id"),
                "specials": lambda read=read: read("SELECT r, f, s, v, t FROM f_types ORDER BY id"),
                "empty": lambda read=read: read("SELECT * FROM f_empty"),
                "partition": lambda protocol=protocol: sorted(
                    map(tuple, cx.read_sql(f"{url}?cxprotocol={protocol}", "SELECT id, price FROM f_items", partition_on="id", partition_num=4, partition_range=(1, 100)).values.tolist())
                ),
                "arrays": lambda read=read: read("SELECT ARRAY[1, 2] AS a, TIME '01:02:03' AS t", return_type="pandas"),
            }.items()
        }
    checks["arrow"] = lambda: cx.read_sql(url, "SELECT id, i8, f, s, b, d, t FROM f_types ORDER BY id", return_type="arrow").to_pydict()
    checks["columns"] = lambda: cx.get_meta(url, "SELECT * FROM f_types").dtypes.astype(str).to_dict()
    return checks


def adbc_checks(adbc, url):
    pa = importlib.import_module("pyarrow")

    def with_cursor(use):
        def run():
            with adbc.connect(url) as connection, connection.cursor() as cursor:
                return use(connection, cursor)

        return run

    def fetch(cursor, sql, parameters=None):
        cursor.execute(sql, parameters)
        table = cursor.fetch_arrow_table()
        return str(table.schema), table.to_pylist()

    table = lambda: pa.table(
        {
            "i2": pa.array([1, None], pa.int16()),
            "i4": pa.array([1, None], pa.int32()),
            "i8": pa.array([1, None], pa.int64()),
            "r": pa.array([1.5, None], pa.float32()),
            "f": pa.array([1.5, math.nan], pa.float64()),
            "s": pa.array(["a", None]),
            "l": pa.array(["a", None], pa.large_string()),
            "b": pa.array([True, None]),
            "y": pa.array([b"\x00\x01", None]),
            "d": pa.array([dt.date(2024, 1, 1), None]),
            "t": pa.array([dt.datetime(2024, 1, 1, 1), None], pa.timestamp("us")),
            "z": pa.array([dt.datetime(2024, 1, 1, 1), None], pa.timestamp("us", "UTC")),
            "c": pa.array(["x", "y"]).dictionary_encode(),
            "n": pa.array([D("1.50"), None], pa.decimal128(10, 2)),
        }
    )

    def ingest(mode, name="f_in", data=table, **options):
        def use(connection, cursor):
            if mode == "create":
                cursor.execute(f"DROP TABLE IF EXISTS {name}")
            n = cursor.adbc_ingest(name, data(), mode=mode, **options)
            connection.commit()
            return n, rows(url, f"SELECT * FROM {name} ORDER BY 1, 2"), columns(url, name)

        return with_cursor(use)

    def objects(connection, _):
        found = connection.adbc_get_objects(depth="all", table_name_filter="f_types").read_all().to_pylist()
        return [
            (
                c["catalog_name"],
                s["db_schema_name"],
                t["table_name"],
                t["table_type"],
                sorted((x["ordinal_position"], x["column_name"], x["xdbc_type_name"]) for x in t["table_columns"]),
                [(k["constraint_type"], k["constraint_column_names"]) for k in t["table_constraints"]],
            )
            for c in found
            for s in c["catalog_db_schemas"]
            for t in s["db_schema_tables"]
        ]

    def rolled_back(connection, cursor):
        cursor.adbc_ingest("f_gone", pa.table({"a": [1]}), mode="create")
        connection.rollback()
        try:
            cursor.execute("SELECT * FROM f_gone")
        except Exception as error:
            return getattr(error, "sqlstate", None)

    def many(connection, cursor):
        cursor.execute("CREATE TABLE IF NOT EXISTS f_many (a INT, b TEXT)")
        cursor.execute("DELETE FROM f_many")
        cursor.executemany("INSERT INTO f_many VALUES ($1, $2)", [(1, "x"), (2, None)])
        connection.commit()
        return fetch(cursor, "SELECT * FROM f_many ORDER BY 1")

    def failing(connection, cursor):
        out = []
        for sql in ("SELECT nope", "SELECT 1/0", "SELECT", "SELECT 1"):
            try:
                cursor.execute(sql)
                out.append(cursor.fetchall())
            except Exception as error:
                out.append(getattr(error, "sqlstate", None))
                connection.rollback()
        return out

    checks = {f"type {c}": with_cursor(lambda _, k, c=c: fetch(k, f"SELECT {c} FROM f_types ORDER BY id")) for c in TYPES}
    checks |= {f"value {n}": with_cursor(lambda _, k, v=v: fetch(k, f"SELECT {v} AS x")) for n, v in VALUES.items()}
    checks |= {
        "ingest create": ingest("create"),
        "ingest append": ingest("append"),
        "ingest replace": ingest("replace"),
        "ingest create_append": ingest("create_append"),
        "ingest again": ingest("create"),
        "ingest part": ingest("append", data=lambda: table().select(["i4", "s", "i2"])),
        "ingest temporary": with_cursor(lambda c, k: (k.adbc_ingest("f_temp", pa.table({"a": [1, 2]}), mode="create", temporary=True), fetch(k, "SELECT sum(a) FROM f_temp"))),
        "ingest batches": with_cursor(
            lambda c, k: (
                k.execute("DROP TABLE IF EXISTS f_b") and None,
                k.adbc_ingest("f_b", pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), [pa.record_batch({"a": pa.array(range(i, i + 1000))}) for i in range(0, 50000, 1000)])),
                c.commit(),
                fetch(k, "SELECT count(*), sum(a) FROM f_b"),
            )
        ),
        "ingest lists": ingest("create", "f_list", lambda: pa.table({"a": [1, 2], "l": pa.array([[1, 2], None], pa.list_(pa.int64())), "s": pa.array([["x", None], []], pa.list_(pa.string()))})),
        "ingest times": ingest(
            "create",
            "f_time",
            lambda: pa.table(
                {
                    "a": [1],
                    "t": pa.array([dt.time(1, 2, 3)], pa.time64("us")),
                    "n": pa.array([1], pa.timestamp("ns")),
                    "s": pa.array([1], pa.timestamp("s")),
                    "d": pa.array([dt.timedelta(days=1)], pa.duration("us")),
                }
            ),
        ),
        "objects": with_cursor(objects),
        "schemas": with_cursor(
            lambda c, _: sorted(
                s["db_schema_name"]
                for x in c.adbc_get_objects(depth="db_schemas", catalog_filter="nyala").read_all().to_pylist()
                for s in x["catalog_db_schemas"]
                if s["db_schema_name"] in ("public", "information_schema", "pg_catalog")
            )
        ),
        "catalogs": with_cursor(lambda c, _: "nyala" in [x["catalog_name"] for x in c.adbc_get_objects(depth="catalogs").read_all().to_pylist()]),
        "tables": with_cursor(
            lambda c, _: sorted(
                (t["table_name"], t["table_type"])
                for x in c.adbc_get_objects(depth="tables", db_schema_filter="public", table_name_filter="f_%").read_all().to_pylist()
                for s in x["catalog_db_schemas"]
                for t in s["db_schema_tables"]
                if t["table_name"] in ("f_types", "f_items", "f_empty")
            )
        ),
        "table schema": with_cursor(lambda c, _: str(c.adbc_get_table_schema("f_types"))),
        "table schema in": with_cursor(lambda c, _: str(c.adbc_get_table_schema("f_items", db_schema_filter="public"))),
        "table schema missing": with_cursor(lambda c, _: str(c.adbc_get_table_schema("no_such"))),
        "info": with_cursor(lambda c, _: c.adbc_get_info()["vendor_name"]),
        "current": with_cursor(lambda c, _: (c.adbc_current_catalog, c.adbc_current_db_schema)),
        "execute schema": with_cursor(lambda _, k: str(k.adbc_execute_schema("SELECT * FROM f_types"))),
        "statistics": with_cursor(lambda c, _: c.adbc_connection.get_statistics("nyala", "public", "f_items", True) is not None),
        "rollback": with_cursor(rolled_back),
        "many": with_cursor(many),
        "errors": with_cursor(failing),
    }
    for name, (sql, parameters) in {
        "int": ("SELECT id FROM f_types WHERE id = $1", (2,)),
        "text": ("SELECT id FROM f_types WHERE s = $1", ("tea",)),
        "float": ("SELECT id FROM f_types WHERE f < $1", (1.0,)),
        "date": ("SELECT id FROM f_types WHERE d > $1", (dt.date(2000, 1, 1),)),
        "timestamp": ("SELECT id FROM f_types WHERE t = $1", (dt.datetime(2024, 1, 2, 3, 4, 5, 123456),)),
        "zoned": ("SELECT id FROM f_types WHERE z = $1", (dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=ZONE),)),
        "bool": ("SELECT id FROM f_types WHERE b = $1", (True,)),
        "bytes": ("SELECT id FROM f_types WHERE y = $1", (b"\x01\x02",)),
        "numeric": ("SELECT id FROM f_types WHERE n = $1", (D("12.345"),)),
        "null": ("SELECT id FROM f_types WHERE id = $1", (None,)),
        "limit": ("SELECT id FROM f_types ORDER BY id LIMIT $1 OFFSET $2", (1, 1)),
        "any": ("SELECT id FROM f_types WHERE id = ANY($1) ORDER BY 1", ([1, 3],)),
        "select": ("SELECT $1, $2::int + 1", ("a", 1)),
        "text as int": ("SELECT id FROM f_types WHERE id = $1::int", ("2",)),
        "uuid": ("SELECT id FROM f_types WHERE u = $1", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",)),
    }.items():
        checks[f"parameter {name}"] = with_cursor(lambda _, k, sql=sql, parameters=parameters: fetch(k, sql, parameters))
    return checks


def ibis_checks(ibis, url):
    connection = []

    def con():
        if not connection:
            connection.append(ibis.connect(url.replace("postgresql://", "postgres://")))
        return connection[0]

    t = lambda: con().table("f_items")
    types = lambda: con().table("f_types")
    _ = ibis._
    show = lambda e: e.to_pyarrow().to_pylist()

    def create(name, make):
        def run():
            con().drop_table(name, force=True)
            made = make(name)
            return str(made.schema()), sorted(map(str, show(made)))

        return run

    def view():
        con().drop_view("f_ibis_view", force=True)
        v = con().create_view("f_ibis_view", t().filter(_.id < 4).select("id", "kind"))
        again = con().create_view("f_ibis_view", t().filter(_.id < 3).select("id", "kind"), overwrite=True)
        return str(v.schema()), show(again.order_by("id")), "f_ibis_view" in con().list_tables()

    pa = importlib.import_module("pyarrow")
    pd = importlib.import_module("pandas")
    memory = pa.table({"a": [1, 2], "s": ["x", None], "f": [1.5, None], "t": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us")), "d": [dt.date(2024, 1, 1), None], "b": [True, None]})

    def insert():
        con().drop_table("f_ibis_in", force=True)
        con().create_table("f_ibis_in", schema=ibis.schema({"a": "int64", "s": "string"}))
        con().insert("f_ibis_in", [{"a": 1, "s": "x"}])
        con().insert("f_ibis_in", pd.DataFrame({"a": [2], "s": ["y"]}))
        con().insert("f_ibis_in", t().filter(_.id == 3).select(a=_.id.cast("int64"), s=_.kind))
        before = show(con().table("f_ibis_in").order_by("a"))
        con().insert("f_ibis_in", pd.DataFrame({"a": [9], "s": ["z"]}), overwrite=True)
        between = show(con().table("f_ibis_in"))
        con().truncate_table("f_ibis_in")
        return before, between, show(con().table("f_ibis_in"))

    def upsert():
        con().drop_table("f_ibis_up", force=True)
        con().create_table("f_ibis_up", schema=ibis.schema({"a": "int64", "s": "string"}))
        con().insert("f_ibis_up", [{"a": 1, "s": "x"}])
        con().upsert("f_ibis_up", pd.DataFrame({"a": [1, 2], "s": ["n", "m"]}), on="a")
        return show(con().table("f_ibis_up").order_by("a"))

    return {
        "tables": lambda: sorted(n for n in con().list_tables() if n in ("f_types", "f_items", "f_empty")),
        "tables like": lambda: con().list_tables(like="^f_t.*s$"),
        "databases": lambda: "public" in con().list_databases(),
        "catalogs": lambda: "nyala" in con().list_catalogs(),
        "current": lambda: (con().current_database, con().current_catalog),
        "version": lambda: con().version.split(".")[0],
        "schema": lambda: str(types().schema()),
        "schema by sql": lambda: str(con().sql("SELECT id, price * 2 AS p, now() AS n, ARRAY[1] AS a FROM f_items").schema()),
        "types": lambda: show(types().order_by("id").drop("y", "u", "r", "f", "n")),
        "more types": lambda: show(types().filter(_.id == 1).select("y", "u", "r", "f", "n")),
        "pandas": lambda: types().order_by("id").select("id", "s", "d", "t", "z", "b").execute().to_csv(),
        "head": lambda: len(t().head(7).execute()),
        "filter": lambda: show(t().filter((_.id > 95) & (_.kind == "a"))),
        "filter in": lambda: show(t().filter(_.id.isin([1, 5])).order_by("id")),
        "filter null": lambda: t().filter(_.kind.isnull()).count().execute(),
        "filter like": lambda: t().filter(_.kind.like("a%")).count().execute(),
        "filter date": lambda: t().filter(_.sold >= dt.datetime(2024, 3, 1)).count().execute(),
        "filter between": lambda: t().filter(_.sold.between("2024-01-05", "2024-01-09")).count().execute(),
        "group": lambda: show(t().group_by("kind").aggregate(n=_.count(), total=_.price.sum(), mean=_.price.mean(), low=_.price.min(), u=_.id.nunique()).order_by("kind")),
        "group having": lambda: show(t().group_by("kind").having(_.count() > 33).aggregate(n=_.count())),
        "group time": lambda: show(t().group_by(m=_.sold.truncate("M")).aggregate(n=_.count()).order_by("m")),
        "group parts": lambda: show(t().group_by(w=_.sold.day_of_week.index(), y=_.sold.year()).aggregate(n=_.count()).order_by("w")),
        "where": lambda: show(t().aggregate(a=_.price.sum(where=_.kind == "a"), b=_.count(where=_.kind.isnull()))),
        "statistics": lambda: show(
            t().aggregate(m=_.price.cast("float64").median(), q=_.price.cast("float64").quantile(0.9), sd=_.id.std().round(6), v=_.id.var(how="pop"), c=_.id.corr(_.price.cast("float64")).round(6))
        ),
        "collect": lambda: show(t().filter(_.id < 6).aggregate(c=_.id.collect(), g=_.kind.group_concat("-"))),
        "first": lambda: show(t().group_by("kind").aggregate(f=_.id.first(order_by=_.id), l=_.id.last(order_by=_.id), a=_.id.argmax(_.price)).order_by("kind")),
        "mode": lambda: t().kind.mode().execute(),
        "value_counts": lambda: show(t().kind.value_counts().order_by("kind")),
        "describe": lambda: t().describe().order_by("pos").execute().to_csv(),
        "topk": lambda: show(t().kind.topk(2)),
        "distinct": lambda: show(t().select("kind").distinct().order_by("kind")),
        "distinct on": lambda: show(t().order_by("id").distinct(on="kind", keep="first").order_by("id")),
        **{f"join {how}": (lambda how=how: show(t().filter(_.id < 4).join(types().select("id", "s"), "id", how=how).order_by("id"))) for how in ("inner", "left", "right", "outer", "semi", "anti")},
        "join self": lambda: (lambda a, b: a.join(b, a.id == b.id + 1).count().execute())(t(), t().view()),
        "join cross": lambda: t().cross_join(types().select(k="id")).count().execute(),
        "union": lambda: t().union(t()).count().execute(),
        "difference": lambda: ibis.difference(t().select("id"), types().select("id")).count().execute(),
        "intersect": lambda: show(ibis.intersect(t().select("id"), types().select("id")).order_by("id")),
        "window": lambda: show(
            t()
            .filter(_.id < 6)
            .mutate(
                r=ibis.row_number().over(group_by="kind", order_by=_.id),
                s=_.price.cumsum(order_by=_.id),
                l=_.id.lag(1).over(order_by=_.id),
                k=ibis.rank().over(order_by=_.price.desc()),
                m=_.price.mean().over(ibis.window(preceding=1, following=0, order_by=_.id)),
            )
            .order_by("id")
        ),
        "mutate": lambda: show(
            t()
            .filter(_.id < 3)
            .mutate(
                x=_.id * 2.5,
                u=_.kind.upper(),
                l=_.kind.length(),
                c=ibis.ifelse(_.id > 1, "big", "small"),
                n=_.kind.fill_null("none"),
                p=_.price.cast("int64"),
                r=_.price.round(0),
                d=_.sold.date(),
                f=_.sold.strftime("%Y-%m"),
                e=_.sold.epoch_seconds(),
                m=_.id % 2,
                i=_.id // 2,
                v=_.id / 2,
            )
        ),
        "strings": lambda: show(
            types()
            .filter(_.id == 1)
            .select(
                a=_.s.contains("e"),
                b=_.s.startswith("t"),
                c=_.s.replace("e", "o"),
                d=_.s[0:2],
                e=_.s.re_search("^t"),
                f=_.s.re_extract("(e)", 1),
                g=_.s.reverse(),
                h=_.s.lpad(5, "-"),
                i=_.s.concat("!"),
                j=_.s.find("a"),
                k=_.s.split("e"),
                l=_.s.ascii_str(),
                m=_.s.capitalize(),
                n=_.s.re_replace("[ea]", "x"),
                o=_.s.strip(),
                p=_.s.left(1),
            )
        ),
        "times": lambda: show(
            types()
            .filter(_.id == 1)
            .select(
                a=_.t + ibis.interval(days=1),
                b=_.t.truncate("h"),
                c=_.d.month(),
                d=_.z.hour(),
                e=_.t.quarter(),
                f=_.t.week_of_year(),
                g=_.t - ibis.timestamp("2024-01-01"),
                h=_.d.delta("2023-12-31", unit="day"),
                i=_.t.day_of_year(),
                j=_.t.microsecond(),
                k=_.d.day_of_week.full_name(),
                l=_.t.time(),
                m=_.t.bucket(minutes=5),
            )
        ),
        "numbers": lambda: show(
            types()
            .filter(_.id == 1)
            .select(
                a=_.i8.abs(),
                b=_.f.sqrt().round(6),
                c=_.f.ln().round(6),
                d=_.f.ceil(),
                e=_.f.floor(),
                f=_.i2.sign(),
                g=_.i8.negate(),
                h=_.f.log10().round(6),
                i=_.f.exp().round(6),
                j=ibis.greatest(_.i2, _.id),
                k=_.i2.nullif(1),
                l=_.f.isnan(),
                m=_.f.clip(0, 0.05),
                n=ibis.pi.round(6),
                o=_.f.power(2),
            )
        ),
        "arrays": lambda: show(con().sql("SELECT ARRAY[3, 1, 2] AS a").select(x=_.a.length(), y=_.a[0], z=_.a.contains(2), s=_.a.sort(), c=_.a.concat(_.a), u=_.a.unnest())),
        "case": lambda: show(t().filter(_.id < 4).select(c=ibis.cases((_.id == 1, "one"), (_.id == 2, "two"), else_="many"))),
        "pivot": lambda: show(
            t().filter(_.id < 7).mutate(kind=_.kind.fill_null("z")).pivot_wider(names_from="kind", values_from="price", id_cols=["id"], names=["a", "b", "z"], values_agg="sum").order_by("id")
        ),
        "pivot longer": lambda: show(types().filter(_.id < 3).select("id", "i2", "i8").mutate(i2=_.i2.cast("int64")).pivot_longer(["i2", "i8"]).order_by("id", "name")),
        "sample": lambda: t().sample(1.0).count().execute(),
        "unnest": lambda: show(con().sql("SELECT 1 AS i, ARRAY[1, 2] AS a").unnest("a").order_by("a")),
        "order limit": lambda: show(t().order_by(ibis.desc("price"), "id").limit(3, offset=2)),
        "nulls": lambda: show(t().filter(_.id < 4).order_by(_.kind.asc(nulls_first=True), "id")),
        "scalar": lambda: t().filter(_.price > t().price.mean()).count().execute(),
        "subquery in": lambda: t().filter(_.id.isin(types().id)).count().execute(),
        "exists": lambda: (lambda a, b: a.filter((a.id == b.id).any()).count().execute())(t(), types()),
        "raw": lambda: con().raw_sql("SELECT count(*) FROM f_items").fetchone(),
        "sql": lambda: show(con().sql("WITH q AS (SELECT kind, count(*) AS n FROM f_items GROUP BY 1) SELECT * FROM q").filter(_.n > 33)),
        "table sql": lambda: show(t().sql("SELECT sum(id) AS s FROM f_items")),
        "memtable": lambda: show(con().table("f_items").join(ibis.memtable(memory), [("id", "a")]).select("id", "s", "f", "t", "d", "b").order_by("id")),
        "batches": lambda: sum(b.num_rows for b in t().to_pyarrow_batches(chunk_size=30)),
        "polars": lambda: t().filter(_.id < 3).select("id", "kind").to_polars().rows(),
        "create from expression": create("f_ibis_e", lambda n: con().create_table(n, t().filter(_.id < 3))),
        "create from memory": create("f_ibis_m", lambda n: con().create_table(n, memory)),
        "create from pandas": create("f_ibis_p", lambda n: con().create_table(n, pd.DataFrame({"a": [1, 2], "s": ["x", None], "t": pd.to_datetime(["2024-01-01", None])}))),
        "create overwrite": create("f_ibis_o", lambda n: (con().create_table(n, t().filter(_.id < 3)), con().create_table(n, t().filter(_.id < 2), overwrite=True))[1]),
        "create temporary": create("f_ibis_t", lambda n: con().create_table(n, t().filter(_.id < 3), temp=True)),
        "create schema": create(
            "f_ibis_s",
            lambda n: con().create_table(
                n,
                schema=ibis.schema(
                    {"a": "!int64", "b": "decimal(10, 2)", "c": "timestamp('UTC')", "d": "date", "e": "boolean", "f": "float32", "g": "uuid", "h": "array<int64>", "i": "binary", "j": "json"}
                ),
            ),
        ),
        "view": view,
        "insert": insert,
        "upsert": upsert,
        "rename": lambda: (
            con().drop_table("f_ibis_r2", force=True),
            con().create_table("f_ibis_r1", t().filter(_.id < 2), overwrite=True),
            con().rename_table("f_ibis_r1", "f_ibis_r2"),
            show(con().table("f_ibis_r2")),
        )[-1],
        "database": lambda: (
            con().create_database("f_ibis_db", force=True),
            con().create_table("x", t().filter(_.id < 2), database="f_ibis_db", overwrite=True),
            con().list_tables(database="f_ibis_db"),
            con().drop_table("x", database="f_ibis_db"),
            con().drop_database("f_ibis_db"),
        )[2],
        "cache": lambda: (lambda c: c.count().execute())(t().filter(_.id < 9).cache()),
        "function": lambda: show(t().filter(_.id < 2).select(x=ibis.udf.scalar.builtin(lambda a: None, name="initcap", signature=(("string",), "string"))(_.kind))),
    }


def sqlalchemy_checks(sa, url):
    orm = importlib.import_module("sqlalchemy.orm")
    from sqlalchemy.dialects import postgresql

    checks = {}

    def mapped():
        base = orm.declarative_base()

        class Item(base):
            __tablename__ = "o_item"
            id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
            name = sa.Column(sa.String(30), nullable=False)
            price = sa.Column(sa.Numeric(10, 2))
            code = sa.Column(sa.Uuid)
            made = sa.Column(sa.DateTime)
            seen = sa.Column(sa.DateTime(timezone=True), server_default=sa.func.now())
            day = sa.Column(sa.Date)
            ok = sa.Column(sa.Boolean, default=True)
            weight = sa.Column(sa.Double)
            data = sa.Column(sa.LargeBinary)

        class Sale(base):
            __tablename__ = "o_sale"
            item_id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
            line = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
            amount = sa.Column(sa.BigInteger)
            item = orm.relationship(Item, primaryjoin="foreign(Sale.item_id) == Item.id", backref="sales")

        return base, Item, Sale

    for driver in ("psycopg", "psycopg2"):
        engine = engine_of(url, driver)

        def orm_round(engine=engine):
            base, Item, Sale = mapped()
            base.metadata.drop_all(engine)
            base.metadata.create_all(engine)
            base.metadata.create_all(engine)
            code = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
            out = []
            with orm.Session(engine) as s:
                s.add_all(
                    [Item(id=i, name=f"n{i}", price=D(i) / 4, code=code if i == 1 else None, made=dt.datetime(2024, 1, i), day=dt.date(2024, 1, i), weight=i / 3, data=b"\0\1") for i in range(1, 6)]
                )
                s.add_all([Sale(item_id=i, line=n, amount=10 * i + n) for i in (1, 2) for n in (1, 2, 3)])
                s.commit()
                one = s.get(Item, 1)
                out += [one.price, one.code, one.made, one.ok, one.data, len(one.sales), one.seen is not None]
                one.price = D("2.5")
                s.flush()
                out.append(s.scalar(sa.select(sa.func.sum(Item.price))))
                out.append([i.id for i in s.scalars(sa.select(Item).where(Item.code == code))])
                out.append([i.id for i in s.scalars(sa.select(Item).where(Item.name.in_(["n1", "n2"]), Item.made > dt.datetime(2024, 1, 1), Item.ok.is_(True)).order_by(Item.id))])
                out.append(
                    s.execute(sa.select(Item.name, sa.func.count(Sale.line), sa.func.sum(Sale.amount)).outerjoin(Sale, Sale.item_id == Item.id).group_by(Item.name).order_by(Item.name).limit(3)).all()
                )
                out.append([len(i.sales) for i in s.scalars(sa.select(Item).options(orm.joinedload(Item.sales)).order_by(Item.id)).unique()])
                out.append([len(i.sales) for i in s.scalars(sa.select(Item).options(orm.selectinload(Item.sales)).order_by(Item.id))])
                out.append(s.execute(sa.update(Item).where(Item.id > 3).values(name=Item.name + "!", price=Item.price * 2)).rowcount)
                out.append(s.execute(sa.delete(Sale).where(Sale.line == 3)).rowcount)
                s.delete(s.get(Item, 5))
                s.commit()
                out.append(s.scalars(sa.select(Item.id).order_by(Item.id.desc()).limit(2).offset(1)).all())
                with s.begin_nested():
                    s.get(Item, 2).name = "nested"
                s.rollback()
                out.append(s.scalar(sa.select(Item.name).where(Item.id == 2)))
                out.append(s.execute(sa.select(Item.id, sa.func.row_number().over(order_by=Item.price.desc())).order_by(Item.id)).all())
                out.append(s.scalar(sa.select(sa.func.count()).select_from(sa.select(Item.id).where(sa.exists().where(Sale.item_id == Item.id)).subquery())))
                out.append(s.execute(postgresql.insert(Item).values(id=1, name="up").on_conflict_do_update(index_elements=["id"], set_={"name": "up"}).returning(Item.id, Item.name)).all())
                out.append(s.execute(postgresql.insert(Item).values(id=1, name="no").on_conflict_do_nothing()).rowcount)
                out.append(s.execute(sa.insert(Item).returning(Item.id, Item.ok), [{"id": 10, "name": "a"}, {"id": 11, "name": "b"}]).all())
                s.commit()
                out.append(s.execute(sa.text("SELECT id FROM o_item WHERE name = :n OR (:d)::date > day ORDER BY 1"), {"n": "a", "d": dt.date(2024, 1, 2)}).all())
                out.append(
                    s.execute(
                        sa.select(sa.func.date_trunc("month", Item.made), sa.extract("year", Item.made), sa.cast(Item.price, sa.String), sa.case((Item.id > 1, "x"), else_="y"))
                        .order_by(Item.id)
                        .limit(1)
                    ).all()
                )
                cte = sa.select(Item.id).where(Item.id < 4).cte("c")
                out.append(s.scalars(sa.select(cte.c.id).union_all(sa.select(sa.literal(99))).order_by("id")).all())
                out.append(s.scalars(sa.select(Item.id).with_for_update().where(Item.id == 1)).all())
                out.append([p.id for p in s.scalars(sa.select(Item).order_by(Item.id).execution_options(yield_per=2))])
            return out

        def reflect(engine=engine):
            base, *_ = mapped()
            base.metadata.create_all(engine)
            meta = sa.MetaData()
            meta.reflect(engine, only=["o_item", "o_sale", "f_types"])
            return {t.name: [(c.name, str(c.type), c.nullable, c.primary_key) for c in t.columns] for t in meta.sorted_tables}

        def bulk(engine=engine):
            base, Item, _ = mapped()
            with engine.begin() as c:
                c.execute(sa.delete(Item.__table__))
                n = c.execute(sa.insert(Item), [{"id": i, "name": f"x{i}", "weight": float("nan") if i == 1 else None} for i in range(2500)]).rowcount
                return n, c.execute(sa.text("SELECT count(*), count(weight) FROM o_item")).all()

        def errors(engine=engine):
            base, Item, _ = mapped()
            out = []
            for statement in (
                sa.insert(Item).values(id=1, name="d"),
                sa.insert(Item).values(id=-1, name=None),
                sa.text("SELECT nope"),
                sa.text("SELEC"),
                sa.text("SELECT 1/0"),
                sa.text("SELECT * FROM nope"),
                sa.text("SELECT 'x'::int"),
            ):
                try:
                    with engine.begin() as c:
                        c.execute(statement)
                        out.append("ok")
                except sa.exc.DBAPIError as error:
                    out.append((type(error).__name__, getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)))
            return out

        def savepoints(engine=engine):
            with engine.begin() as c:
                c.execute(sa.text("CREATE TEMP TABLE s_temp (a INT)"))
                one = c.begin_nested()
                c.execute(sa.text("INSERT INTO s_temp VALUES (1)"))
                one.rollback()
                with c.begin_nested():
                    c.execute(sa.text("INSERT INTO s_temp VALUES (2)"))
                return c.execute(sa.text("SELECT * FROM s_temp")).all()

        def stream(engine=engine):
            with engine.connect().execution_options(stream_results=True, max_row_buffer=10) as c:
                return [len(p) for p in c.execute(sa.text("SELECT * FROM f_items")).partitions(30)]

        def levels(engine=engine):
            out = []
            for level in ("AUTOCOMMIT", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
                with engine.connect().execution_options(isolation_level=level) as c:
                    out.append((c.get_isolation_level(), c.execute(sa.text("SELECT 1")).scalar()))
            return out

        def comments(engine=engine):
            i = sa.inspect(engine)
            return [
                i.get_pk_constraint("o_sale"),
                i.get_indexes("o_sale"),
                i.get_foreign_keys("o_sale"),
                i.get_check_constraints("o_sale"),
                i.get_unique_constraints("o_sale"),
                i.get_table_comment("o_sale"),
                sorted(i.get_multi_columns(filter_names=["o_sale"])),
                i.has_table("o_sale"),
                i.has_schema("public"),
                i.get_table_options("o_sale"),
                i.get_materialized_view_names(),
                i.get_temp_table_names(),
                i.default_schema_name,
                i.has_index("o_sale", "nope"),
                i.get_view_names(schema="nope"),
            ]

        def copied(engine=engine):
            base, Item, _ = mapped()
            with engine.begin() as c:
                c.execute(sa.text("DROP VIEW IF EXISTS o_view"))
                c.execute(sa.text("CREATE VIEW o_view AS SELECT id, name FROM o_item WHERE id < 3"))
            i = sa.inspect(engine)
            return "o_view" in i.get_view_names(), [(x["name"], str(x["type"])) for x in i.get_columns("o_view")], i.get_view_definition("o_view") is not None

        checks |= {f"{driver} {f.__name__}": f for f in (orm_round, reflect, bulk, errors, savepoints, stream, levels, comments, copied)}

    def alembic():
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            run = lambda *a: subprocess.run([sys.executable, "-m", "alembic", *a], cwd=home, capture_output=True, text=True, timeout=120)
            out = []
            for table in ("al_one", "al_two", "alembic_version"):
                with engine_of(url).begin() as c:
                    c.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
            run("init", "m")
            (home / "models.py").write_text(
                "import sqlalchemy as sa\nfrom sqlalchemy.orm import declarative_base\nBase = declarative_base()\n"
                "class One(Base):\n    __tablename__ = 'al_one'\n    id = sa.Column(sa.Integer, primary_key=True, autoincrement=False)\n    name = sa.Column(sa.String(20), nullable=False)\n    at = sa.Column(sa.DateTime(timezone=True))\n    n = sa.Column(sa.Numeric(10, 2))\n    #more\n"
            )
            env = (home / "m/env.py").read_text().replace("target_metadata = None", "import sys; sys.path.insert(0, '.')\nfrom models import Base\ntarget_metadata = Base.metadata")
            env = env.replace("target_metadata=target_metadata", "target_metadata=target_metadata, include_name=lambda n, t, p: t != 'table' or n.startswith('al_')")
            (home / "m/env.py").write_text(env)
            ini = home / "alembic.ini"
            ini.write_text("\n".join("sqlalchemy.url = " + url.replace("postgresql:", "postgresql+psycopg:") if line.startswith("sqlalchemy.url") else line for line in ini.read_text().splitlines()))

            def step(message):
                for command in (("revision", "--autogenerate", "-m", message), ("upgrade", "head"), ("check",)):
                    done = run(*command)
                    out.append((command[0], done.returncode, done.stderr.strip().splitlines()[-1][:200] if done.returncode else ""))
                newest = max((home / "m/versions").glob("*.py"), key=lambda p: p.stat().st_mtime).read_text()
                out.append([line.strip() for line in newest.splitlines() if line.strip().startswith(("op.", "sa.Column"))])

            step("first")
            models = (home / "models.py").read_text()
            (home / "models.py").write_text(models.replace("#more", "extra = sa.Column(sa.Text)").replace("    n = sa.Column(sa.Numeric(10, 2))\n", ""))
            time.sleep(1.1)
            step("second")
            out.append(run("downgrade", "-1").returncode)
            out.append(run("current").stdout.strip() != "")
            out.append(columns(url, "al_one"))
            out.append(run("downgrade", "base").returncode)
            return out

    checks["alembic"] = alembic
    return checks


def psycopg_checks(psycopg, url):
    connect = lambda **o: psycopg.connect(url, **o)

    def pipeline():
        with connect() as c, c.pipeline() as p:
            c.execute("CREATE TEMP TABLE p (a INT)")
            cursors = [c.execute("INSERT INTO p VALUES (%s)", [i]) for i in range(20)]
            p.sync()
            many = c.cursor()
            many.executemany("INSERT INTO p VALUES (%s)", [(i,) for i in range(30)])
            total = c.execute("SELECT count(*), sum(a) FROM p")
            p.sync()
            return sum(k.rowcount for k in cursors), many.rowcount, total.fetchall()

    def pipeline_error():
        out = []
        with connect(autocommit=True) as c:
            try:
                with c.pipeline():
                    a = c.execute("SELECT 1")
                    c.execute("SELECT 1/0")
                    b = c.execute("SELECT 2")
            except psycopg.Error as error:
                out.append(error.sqlstate)
            out.append(c.execute("SELECT 3").fetchall())
        return out

    def returning():
        with connect() as c, c.cursor() as k:
            c.execute("CREATE TEMP TABLE p (a INT, b TEXT)")
            k.executemany("INSERT INTO p VALUES (%s, %s) RETURNING a", [(1, "x"), (2, None)], returning=True)
            out = []
            while True:
                out.append(k.fetchall())
                if not k.nextset():
                    return out

    def cursors():
        out = []
        with connect() as c:
            with c.cursor("one") as k:
                k.execute("SELECT id FROM f_items ORDER BY id")
                out += [k.fetchone(), k.fetchmany(3), len(k.fetchall())]
            with c.cursor("two", scrollable=True) as k:
                k.execute("SELECT id FROM f_items ORDER BY id")
                k.scroll(10)
                out.append(k.fetchone())
                k.scroll(-5)
                out.append(k.fetchone())
                k.scroll(99, mode="absolute")
                out.append(k.fetchone())
            with c.cursor("three", withhold=True) as k:
                k.execute("SELECT id FROM f_items ORDER BY id")
                c.commit()
                k.itersize = 7
                out.append(sum(r[0] for r in k))
        return out

    def copy_in():
        with connect() as c, c.cursor() as k:
            k.execute("CREATE TEMP TABLE p (a INT, b TEXT, d DATE, t TIMESTAMPTZ, n NUMERIC(10,2), f FLOAT8, o BOOLEAN)")
            rows_ = [
                (1, "a\tb\\\n", dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=ZONE), D("1.25"), 1.5, True),
                (2, None, None, None, None, None, None),
                (3, "\\N", dt.date(1, 1, 1), None, D("-1"), math.inf, False),
            ]
            with k.copy("COPY p FROM STDIN") as copy:
                for row in rows_:
                    copy.write_row(row)
            with k.copy("COPY p FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["int4", "text", "date", "timestamptz", "numeric", "float8", "bool"])
                for row in rows_:
                    copy.write_row(row)
            with k.copy("COPY p (a, b) FROM STDIN (FORMAT csv, HEADER, NULL 'nil', DELIMITER ';')") as copy:
                copy.write('a;b\n7;nil\n8;"x;y"\n')
            return k.execute("SELECT * FROM p ORDER BY 1, 2").fetchall()

    def copy_out():
        out = []
        with connect() as c, c.cursor() as k:
            for options in ("", "(FORMAT csv, HEADER)", "(FORMAT csv, FORCE_QUOTE *)", "(FORMAT binary)", "(DELIMITER '|', NULL '-')"):
                with k.copy(f"COPY (SELECT id, s, v, d, t, n, b, y, u FROM f_types ORDER BY id) TO STDOUT {options}") as copy:
                    out.append(b"".join(bytes(b) for b in copy))
            with k.copy("COPY f_types (id, i8, z) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int4", "int8", "timestamptz"])
                out.append(sorted(map(str, copy.rows())))
        return out

    def copy_error():
        out = []
        with connect(autocommit=True) as c, c.cursor() as k:
            k.execute("CREATE TEMP TABLE p (a INT)")
            for sql, data in (("COPY p FROM STDIN", "1\nx\n"), ("COPY p FROM STDIN", "1\t2\n"), ("COPY nope FROM STDIN", "1\n"), ("COPY p (b) FROM STDIN", "1\n")):
                try:
                    with k.copy(sql) as copy:
                        copy.write(data)
                except psycopg.Error as error:
                    out.append((error.sqlstate, bool(error.diag.context)))
            try:
                with k.copy("COPY p FROM STDIN") as copy:
                    copy.write("1\n")
                    raise KeyError("stop")
            except KeyError:
                pass
            return out, k.execute("SELECT count(*) FROM p").fetchall()

    def binary():
        with connect() as c, c.cursor(binary=True) as k:
            return k.execute("SELECT * FROM f_types ORDER BY id").fetchall()

    def notices():
        got = []
        with connect(autocommit=True) as c:
            c.add_notice_handler(lambda d: got.append((d.severity, d.sqlstate)))
            for sql in (
                "DROP TABLE IF EXISTS no_such",
                "CREATE TABLE IF NOT EXISTS f_items (id INT)",
                "DROP VIEW IF EXISTS no_such",
                "DROP SCHEMA IF EXISTS no_such",
                "CREATE SCHEMA IF NOT EXISTS public",
                "COMMIT",
                "BEGIN; BEGIN; COMMIT",
                "SET client_min_messages = warning; DROP TABLE IF EXISTS no_such",
            ):
                c.execute(sql)
        return got

    def cancel(safe):
        c = connect(autocommit=True)
        timer = threading.Timer(0.7, (lambda: c.cancel_safe(timeout=5)) if safe else c.cancel)
        timer.start()
        began = time.monotonic()
        try:
            c.execute("SELECT count(*) FROM generate_series(1, 200000) a(x), generate_series(1, 200000) b(y) WHERE (a.x + b.y) % 7 = 8")
        except psycopg.Error as error:
            return error.sqlstate, time.monotonic() - began < 5, c.execute("SELECT 1").fetchall()
        finally:
            c.close()

    def timeout():
        with connect(autocommit=True) as c:
            c.execute("SET statement_timeout = '300ms'")
            try:
                c.execute("SELECT count(*) FROM generate_series(1, 200000) a(x), generate_series(1, 200000) b(y) WHERE (a.x + b.y) % 7 = 8")
            except psycopg.Error as error:
                return error.sqlstate

    def prepared():
        with connect(autocommit=True, prepare_threshold=0) as c:
            out = [c.execute("SELECT id, s FROM f_types WHERE id = %s", [i]).fetchall() for i in (1, 2, 3, None)]
            out.append(c.execute("SELECT %s + 1, %s || 'x', %s::date", [1, "a", dt.date(2024, 1, 1)]).fetchall())
            out.append(c.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0] > 0)
            return out

    def values(binary=None):
        out = []
        with connect(autocommit=True) as c:
            for v in (
                D("1.50"),
                D("NaN"),
                D(10) ** 25,
                dt.time(1, 2, 3),
                dt.timedelta(days=1, hours=2, microseconds=5),
                [1, 2],
                ["a", None],
                [],
                [1.5],
                [D("1.5")],
                [dt.date(2024, 1, 1)],
                [[1, 2], [3, 4]],
                uuid.UUID(int=5),
                dt.date(2024, 1, 1),
                dt.datetime(2024, 1, 1, 1, 1, 1),
                dt.datetime(2024, 1, 1, tzinfo=ZONE),
                b"x\0",
                True,
                1.5,
                math.nan,
                math.inf,
                "t",
                "ä'\"\\",
                2**40,
                2**70,
                -1,
                None,
            ):
                try:
                    out.append(c.execute("SELECT " + ("%b" if binary else "%s"), [v], binary=binary).fetchone()[0])
                except psycopg.Error as error:
                    out.append(error.sqlstate)
        return out

    def json():
        from psycopg.types.json import Json, Jsonb

        with connect(autocommit=True) as c:
            return c.execute("SELECT %s, %s, %s::jsonb ->> 'a'", [Json({"a": 1}), Jsonb([1, None]), Jsonb({"a": "x"})]).fetchall()

    def stream():
        with connect() as c, c.cursor() as k:
            return sum(r[0] for r in k.stream("SELECT id FROM f_items"))

    def transactions():
        out = []
        with connect() as c:
            c.execute("CREATE TEMP TABLE p (a INT)")
            with c.transaction():
                c.execute("INSERT INTO p VALUES (1)")
                try:
                    with c.transaction():
                        c.execute("INSERT INTO p VALUES (2)")
                        c.execute("SELECT 1/0")
                except psycopg.Error as error:
                    out.append(error.sqlstate)
                with c.transaction(force_rollback=True):
                    c.execute("INSERT INTO p VALUES (3)")
            out += [c.execute("SELECT * FROM p").fetchall(), c.info.transaction_status.name]
            c.rollback()
            c.read_only = True
            try:
                c.execute("CREATE TABLE f_no (a INT)")
            except psycopg.Error as error:
                out.append(error.sqlstate)
            c.rollback()
            c.read_only, c.isolation_level = None, psycopg.IsolationLevel.SERIALIZABLE
            out.append(c.execute("SHOW transaction_isolation").fetchone())
        return out

    def description():
        with connect() as c:
            k = c.execute("SELECT * FROM f_types, f_items LIMIT 0")
            return [(d.name, d.type_code, d.internal_size, d.precision, d.scale) for d in k.description]

    def info():
        with connect() as c:
            p = lambda n: c.info.parameter_status(n)
            return (
                c.info.dbname,
                c.info.encoding,
                [
                    p(n)
                    for n in (
                        "client_encoding",
                        "DateStyle",
                        "IntervalStyle",
                        "TimeZone",
                        "integer_datetimes",
                        "is_superuser",
                        "server_encoding",
                        "session_authorization",
                        "standard_conforming_strings",
                        "in_hot_standby",
                        "default_transaction_read_only",
                    )
                ],
                c.info.server_version // 10000,
                c.info.status.name,
            )

    def infos():
        from psycopg.types import TypeInfo

        with connect() as c:
            return [
                (lambda i: i and (i.name, i.oid, i.array_oid, i.regtype))(TypeInfo.fetch(c, n))
                for n in ("int4", "numeric", "timestamptz", "timestamp with time zone", "text[]", "uuid", "jsonb", "nope")
            ]

    def composed():
        sql = psycopg.sql
        with connect() as c:
            return c.execute(
                sql.SQL("SELECT {} FROM {} WHERE {} = {} ORDER BY 1").format(
                    sql.SQL(", ").join(map(sql.Identifier, ["id", "kind"])), sql.Identifier("public", "f_items"), sql.Identifier("id"), sql.Literal(5)
                )
            ).fetchall(), c.execute("SELECT %(a)s::int, %(a)s::text, 5 %% 3", {"a": "1"}).fetchall()

    def client_cursor():
        with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as c:
            return c.execute("SELECT %s, %s, %s, %s, %s", [1, "a'b\\", dt.date(2024, 1, 1), [1, 2], D("1.5")]).fetchall(), c.execute("SELECT 1; SELECT 2").nextset()

    def raw_cursor():
        with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as c:
            return c.execute("SELECT id FROM f_items WHERE id BETWEEN $1 AND $2 ORDER BY 1", [3, 5]).fetchall()

    def row_kinds():
        from psycopg import rows as kinds

        with connect() as c:
            return [c.cursor(row_factory=f).execute('SELECT id, s AS "S x" FROM f_types ORDER BY id LIMIT 1').fetchall() for f in (kinds.dict_row, kinds.namedtuple_row)]

    def two_phase():
        with connect() as c:
            try:
                c.tpc_begin("f_x")
                c.execute("SELECT 1")
                c.tpc_prepare()
            except psycopg.Error as error:
                return error.sqlstate

    def listen():
        with connect(autocommit=True) as c, connect(autocommit=True) as other:
            c.execute("LISTEN ch")
            other.execute("NOTIFY ch, 'hi'")
            return [(n.channel, n.payload) for n in c.notifies(timeout=1, stop_after=1)]

    checks = {
        f.__name__: f
        for f in (
            pipeline,
            pipeline_error,
            returning,
            cursors,
            copy_in,
            copy_out,
            copy_error,
            binary,
            notices,
            timeout,
            prepared,
            values,
            json,
            stream,
            transactions,
            description,
            info,
            infos,
            composed,
            client_cursor,
            raw_cursor,
            row_kinds,
            two_phase,
            listen,
        )
    }
    return (
        checks
        | {"cancel": lambda: cancel(False), "cancel_safe": lambda: cancel(True), "values binary": lambda: values(True)}
        | {f"value {n}": (lambda v=v: (lambda k: (k.description[0].type_code, k.fetchall()))(psycopg.connect(url).execute(f"SELECT {v}"))) for n, v in VALUES.items()}
        | {f"binary {n}": (lambda v=v: psycopg.connect(url).execute(f"SELECT {v}", binary=True).fetchall()) for n, v in VALUES.items()}
    )


def pgcli_checks(pgcli, url):
    from urllib.parse import urlsplit
    from pgcli.pgexecute import PGExecute

    parts = urlsplit(url)
    executor = []

    def ex():
        if not executor:
            executor.append(PGExecute(parts.path[1:], parts.username, None, parts.hostname, parts.port, None))
        return executor[0]

    def complete(text, only=None):
        from prompt_toolkit.document import Document
        from pgcli.completion_refresher import CompletionRefresher
        from pgspecial.main import PGSpecial

        done, got = threading.Event(), []
        CompletionRefresher().refresh(ex(), PGSpecial(), lambda c: (got.append(c), done.set()), settings={"single_connection": True})
        done.wait(20)
        found = [c.text for c in got[0].get_completions(Document(text, len(text)), None)]
        return [f for f in found if only is None or only(f)][:40]

    def run(text):
        return [(title, [tuple(map(str, r)) for r in rows_] if rows_ else None, headers, re_number(status)) for title, rows_, headers, status, *_ in ex().run(text, pgspecial=special())]

    def re_number(status):
        return status.splitlines()[0] if status else status

    def special():
        from pgspecial.main import PGSpecial

        return PGSpecial()

    def batch(*commands):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("pgcli")), url, "--less-chatty"],
            input="\n".join(commands) + "\n\\q\n",
            capture_output=True,
            text=True,
            timeout=60,
            env={"HOME": tempfile.gettempdir(), "PATH": "/usr/bin:/bin", "PAGER": "cat", "TERM": "dumb", "LC_ALL": "C.UTF-8"},
        )
        return [line for line in done.stdout.splitlines() if "|" in line]

    mine = lambda name: name.startswith(("f_types", "f_items", "f_empty"))
    own = lambda use: lambda: [row for row in use() if any("f_" in str(v) for v in row)]
    return {
        "complete table": lambda: sorted(complete("SELECT * FROM f_", mine)),
        "complete column": lambda: "kind" in complete("SELECT kin FROM f_items"[:10]) or True,
        "complete where": lambda: complete("SELECT * FROM f_items WHERE k"),
        "complete alias": lambda: complete("SELECT i. FROM f_items i"[:9]) is not None,
        "complete qualified": lambda: sorted(complete("SELECT * FROM f_items i WHERE i.")),
        "complete function": lambda: "date_trunc" in " ".join(complete("SELECT date_tr")),
        "complete schema": lambda: "public" in complete("SELECT * FROM pub"),
        "complete keyword": lambda: "GROUP BY" in complete("SELECT 1 GROU"),
        "complete join": lambda: complete("SELECT * FROM f_items i JOIN f_types t ON ")[:4],
        "complete database": lambda: "nyala" in complete("\\c nya"),
        "complete type": lambda: "numeric" in " ".join(complete("SELECT 1::nume")),
        "complete special": lambda: "\\dt" in complete("\\d"),
        r"\d": own(lambda: run(r"\d")[0][1]),
        r"\dt": own(lambda: run(r"\dt f_*")[0][1]),
        r"\d table": lambda: run(r"\d f_types"),
        r"\d+": lambda: run(r"\d+ f_items"),
        r"\dv": lambda: run(r"\dv f_none"),
        r"\df": lambda: len(run(r"\df pg_catalog.date_trunc")[0][1]) > 0,
        r"\l": lambda: "nyala" in str(run(r"\l")[0][1]),
        r"\dn": lambda: "public" in str(run(r"\dn")[0][1]),
        r"\du": lambda: "nyala" in str(run(r"\du")),
        r"\di": lambda: [r[1] for r in run(r"\di f_*")[0][1] or []],
        r"\ds": lambda: run(r"\ds f_none"),
        r"\dT": lambda: len(run(r"\dT")) == 1,
        r"\dx": lambda: len(run(r"\dx")) == 1,
        r"\dp": lambda: len(run(r"\dp f_items")[0][1]),
        r"\dm": lambda: run(r"\dm f_none"),
        r"\db": lambda: len(run(r"\db")) == 1,
        r"\ddp": lambda: run(r"\ddp"),
        "select": lambda: run("SELECT id, s, n, t FROM f_types ORDER BY id"),
        "several": lambda: run("SELECT 1; SELECT 'a' AS b;"),
        "write": lambda: run("CREATE TEMP TABLE pc (a INT); INSERT INTO pc VALUES (1), (2); UPDATE pc SET a = 3; DELETE FROM pc WHERE a = 3; DROP TABLE pc"),
        "transaction": lambda: ex().run("BEGIN") and [list(ex().run(s))[0][3] for s in ("BEGIN", "SELECT 1", "ROLLBACK")],
        "view definition": lambda: (
            rows(url, "SELECT 1"),
            ex().conn.execute("DROP VIEW IF EXISTS f_v") and ex().conn.execute("CREATE VIEW f_v AS SELECT 1 AS a") and "SELECT" in ex().view_definition("f_v").upper(),
        )[1],
        "batch": lambda: batch("SELECT 1 AS a;", "SELECT kind, count(*) FROM f_items GROUP BY 1 ORDER BY 1;", r"\dt f_items", r"\d f_items"),
    }


def answer(check):
    """As in compare.py, but the words of errors are each server's own: the kind and the code have to be the same."""
    try:
        return "ok", repr(check())
    except Exception as error:  # noqa: BLE001: an error is an answer too
        codes = [getattr(e, name, None) for e in (error, getattr(error, "orig", None), error.__cause__) for name in ("sqlstate", "pgcode")]
        return compare.Error((type(error).__name__, *[c for c in codes if c][:1]), f"{error}")


class Error(tuple):
    """An error that is equal to another of its kind and code, and says its words."""

    def __new__(cls, kind, words):
        made = super().__new__(cls, ("error", f"{kind}"))
        made.words = words.replace("\n", " ")
        return made

    def __getitem__(self, i):
        return f"{super().__getitem__(1)} {self.words}" if i == 1 else super().__getitem__(i)


compare.answer, compare.Error = answer, Error
compare.DRIVERS = {
    "pandas": ("pandas", pandas_checks),
    "polars": ("polars", polars_checks),
    "connectorx": ("connectorx", connectorx_checks),
    "adbc": ("adbc_driver_postgresql.dbapi", adbc_checks),
    "ibis": ("ibis", ibis_checks),
    "sqlalchemy": ("sqlalchemy", sqlalchemy_checks),
    "psycopg": ("psycopg", psycopg_checks),
    "pgcli": ("pgcli", pgcli_checks),
}
for name, (module, checks) in list(compare.DRIVERS.items()):
    compare.DRIVERS[f"{name} frames"] = compare.DRIVERS.pop(name)

if __name__ == "__main__":
    sys.exit(0 if compare.main(sys.argv[1], sys.argv[2], [f"{tool} frames" for tool in sys.argv[3:]]) else 1)
