"""pandas: `to_sql` of each kind, upserts and COPY by a function, and `read_sql` with its options, over psycopg, psycopg2 and ADBC."""

import csv
import datetime as dt
import importlib
import io
import math

from fixtures import FRAME, columns, engine_of, rows


def checks(pd, url):
    found = {}
    for driver in ("psycopg", "psycopg2"):
        engine = engine_of(url, driver)
        of_driver = writing(pd, url, engine) | writing_types(pd, url, engine) | methods(pd, url, engine) | reading(pd, engine) | reading_types(pd, engine)
        found |= {f"{driver} {name}": check for name, check in of_driver.items()}
    return found | through_adbc(pd, url)


def frame_of(pd):
    times = {"t": lambda x: pd.to_datetime(x.t), "z": lambda x: pd.to_datetime(x.z, utc=True)}
    return pd.DataFrame(FRAME).assign(**times, nan=[math.nan, 1.0, math.inf])


def writing(pd, url, engine):
    sa = importlib.import_module("sqlalchemy")
    frame = lambda: frame_of(pd)

    def write(data=frame, table="f_frame", order="i, s", **how):
        data().to_sql(table, engine, **how)
        return rows(url, f"SELECT * FROM {table} ORDER BY {order}"), columns(url, table)

    def to_schema():
        with engine.begin() as c:
            c.execute(sa.text("CREATE SCHEMA IF NOT EXISTS f_schema"))
        frame().to_sql("f_inner", engine, schema="f_schema", if_exists="replace", index=False)
        return pd.read_sql_table("f_inner", engine, schema="f_schema").dtypes.to_dict(), len(pd.read_sql("SELECT * FROM f_schema.f_inner", engine))

    def failing():
        frame().to_sql("f_frame", engine, if_exists="replace", index=False)
        try:
            frame().to_sql("f_frame", engine, if_exists="fail")
        except ValueError as error:
            return str(error)

    def rolled_back():
        frame().to_sql("f_back", engine, if_exists="replace", index=False)
        with engine.connect() as c:
            frame().to_sql("f_back", c, if_exists="append", index=False)
            c.rollback()
        return rows(url, "SELECT count(*) FROM f_back")

    def in_one_transaction():
        with engine.begin() as c:
            frame().to_sql("f_both", c, if_exists="replace", index=False)
            frame().to_sql("f_both", c, if_exists="append", index=False)
            inside = pd.read_sql("SELECT count(*) AS n FROM f_both", c).to_csv()
        return inside, rows(url, "SELECT count(*) FROM f_both")

    names = lambda: pd.DataFrame({"Upper": [1], "with space": [2], "per%cent": [3], 'quo"te': [4], "ümlaut": [5], "order": [6], "a:b": [7], "(x)": [8]})
    pairs = lambda: pd.DataFrame({"a": [1, 1, 2], "b": ["x", "y", "x"], "v": [1.5, 2.5, 3.5]}).set_index(["a", "b"])
    return {
        "write replace": lambda: write(if_exists="replace", index=False),
        "write append": lambda: write(if_exists="append", index=False),
        "write multi": lambda: write(if_exists="append", index=False, method="multi"),
        "write chunks": lambda: write(if_exists="append", index=False, chunksize=2),
        "write multi chunks": lambda: write(lambda: pd.DataFrame({"i": range(50), "s": "x"}), "f_chunks", if_exists="replace", index=False, method="multi", chunksize=7),
        "write index": lambda: write(if_exists="replace", index_label="k"),
        "write types": lambda: write(
            if_exists="replace", index=False, dtype={"i": sa.BigInteger(), "s": sa.String(50), "n": sa.Numeric(10, 2), "f": sa.Float(24), "t": sa.TIMESTAMP(timezone=True), "b": sa.Boolean()}
        ),
        "write delete_rows": lambda: write(if_exists="delete_rows", index=False),
        "write fail": failing,
        "write schema": to_schema,
        "write names": lambda: write(names, "f_names", "1", if_exists="replace", index=False),
        "write names multi": lambda: write(names, "f_names", "1", if_exists="append", index=False, method="multi"),
        "write name of table": lambda: (names().to_sql("f Odd-Name", engine, if_exists="replace"), pd.read_sql_table("f Odd-Name", engine).to_csv())[1],
        "write indexes": lambda: write(pairs, "f_pairs", "1, 2", if_exists="replace"),
        "write no rows": lambda: write(lambda: frame().head(0), "f_none", "1", if_exists="replace", index=False),
        "write many columns": lambda: write(lambda: pd.DataFrame({f"c{n}": [n, None] for n in range(300)}), "f_wide", "1", if_exists="replace", index=False)[0],
        "write many rows": lambda: (pd.DataFrame({"i": range(20000), "s": "text"}).to_sql("f_long", engine, if_exists="replace", index=False), rows(url, "SELECT count(*), sum(i) FROM f_long"))[1],
        "write then rollback": rolled_back,
        "write twice in a transaction": in_one_transaction,
        "create statement": lambda: pd.io.sql.get_schema(frame(), "f_new", con=engine, keys=["i"]).split(),
    }


def writing_types(pd, url, engine):
    """A column of each type of pandas as it is, and values written to a column of each type of SQLAlchemy."""
    sa = importlib.import_module("sqlalchemy")
    pg = importlib.import_module("sqlalchemy.dialects.postgresql")
    uuid = importlib.import_module("uuid")
    decimal = importlib.import_module("decimal").Decimal

    def write(values, kind=None):
        frame = pd.DataFrame({"k": range(len(values)), "x": values})
        engine.dispose()  # psycopg prepares statements, which do not outlive a change of the column's type
        frame.to_sql("f_kind", engine, if_exists="replace", index=False, dtype=kind and {"x": kind})
        return rows(url, "SELECT * FROM f_kind ORDER BY k"), columns(url, "f_kind"), pd.read_sql_table("f_kind", engine).x.tolist()

    own = {kind: pd.Series([1, 0], dtype=kind) for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64", "bool")}
    own |= {kind: pd.Series([1, None], dtype=kind) for kind in ("Int8", "Int16", "Int32", "Int64", "UInt32", "Float32", "Float64", "boolean", "int64[pyarrow]", "double[pyarrow]", "bool[pyarrow]")}
    own |= {kind: pd.Series(["a", None], dtype=kind) for kind in ("object", "string", "category", "string[pyarrow]")}
    own |= {f"datetime64[{unit}]": pd.Series(pd.to_datetime(["2024-01-02 03:04:05", None])).astype(f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")}
    own |= {
        "datetime in a zone": pd.Series(pd.to_datetime(["2024-01-02 03:04:05", None])).dt.tz_localize("Europe/Berlin"),
        "dates": pd.Series([dt.date(2024, 1, 2), None]),
        "times": pd.Series([dt.time(1, 2, 3, 4), None]),
        "timedelta": pd.Series(pd.to_timedelta(["1 day", None])),
        "bytes": pd.Series([b"\x00\xff", None]),
        "lists": pd.Series([[1, 2], None]),
        "decimals": pd.Series([decimal("1.50"), None]),
        "mixed": pd.Series([1.5, None, "x"][:2], dtype=object),
        "uuids": pd.Series([uuid.UUID(int=5), None]),
    }
    day, moment = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, 4, 5)
    given = {
        "SmallInteger": (sa.SmallInteger(), [1, None]), "Integer": (sa.Integer(), [1, None]), "BigInteger": (sa.BigInteger(), [2**40, None]),
        "Float": (sa.Float(), [0.1, None]), "Float(24)": (sa.Float(24), [0.1, None]), "Float(53)": (sa.Float(53), [0.1, None]), "REAL": (sa.REAL(), [0.1, None]),
        "Double": (sa.Double(), [0.1, None]), "Numeric": (sa.Numeric(), [decimal("1.50"), None]), "Numeric(12,4)": (sa.Numeric(12, 4), [decimal("1.5"), None]),
        "String": (sa.String(), ["a", None]), "String(3)": (sa.String(3), ["abc", None]), "String(3) too long": (sa.String(3), ["abcd", None]), "CHAR(5)": (sa.CHAR(5), ["abc", None]),
        "Text": (sa.Text(), ["a", None]), "Unicode": (sa.Unicode(9), ["ä", None]), "Date": (sa.Date(), [day, None]), "DateTime": (sa.DateTime(), [moment, None]),
        "TIMESTAMP": (sa.TIMESTAMP(timezone=True), [moment.replace(tzinfo=dt.timezone.utc), None]), "Time": (sa.Time(), [dt.time(1, 2, 3), None]),
        "Interval": (sa.Interval(), [dt.timedelta(days=1, seconds=2), None]), "LargeBinary": (sa.LargeBinary(), [b"\0", None]), "Boolean": (sa.Boolean(), [True, None]),
        "Uuid": (sa.Uuid(), [uuid.UUID(int=5), None]), "JSON": (sa.JSON(), [{"a": [1, None]}, None]), "JSONB": (pg.JSONB(), [{"a": 1}, None]),
        "ARRAY": (sa.ARRAY(sa.Integer()), [[1, 2], None]), "ARRAY of text": (sa.ARRAY(sa.Text()), [["a", None], []]), "ENUM": (sa.Enum("a", "b", name="f_letters"), ["a", None]),
    }  # fmt: skip
    return {f"dtype {name}": (lambda values=values: write(values)) for name, values in own.items()} | {
        f"type {name}": (lambda kind=kind, values=values: write(pd.Series(values, dtype=object), kind)) for name, (kind, values) in given.items()
    }


def methods(pd, url, engine):
    """Functions given to `to_sql` as `method`: an upsert, and COPY."""
    sa = importlib.import_module("sqlalchemy")
    insert = importlib.import_module("sqlalchemy.dialects.postgresql").insert
    frame = lambda: frame_of(pd)

    def upsert():
        with engine.begin() as c:
            c.execute(sa.text("DROP TABLE IF EXISTS f_up"))
            c.execute(sa.text("CREATE TABLE f_up (i INT PRIMARY KEY, s TEXT)"))

        def method(table, connection, keys, data):
            statement = insert(table.table).values([dict(zip(keys, row)) for row in data])
            return connection.execute(statement.on_conflict_do_update(index_elements=["i"], set_={"s": statement.excluded.s})).rowcount

        first = frame()[["i", "s"]].to_sql("f_up", engine, index=False, if_exists="append", method=method)
        second = frame()[["i", "s"]].assign(s="new").to_sql("f_up", engine, index=False, if_exists="append", method=method)
        return first, second, rows(url, "SELECT * FROM f_up ORDER BY 1")

    def copy():
        def method(table, connection, keys, data):
            raw, text = connection.connection, io.StringIO()
            csv.writer(text).writerows(data)
            sql = f"COPY {table.table.name} ({', '.join(chr(34) + k + chr(34) for k in keys)}) FROM STDIN WITH CSV"
            with raw.cursor() as cursor:
                if hasattr(cursor, "copy_expert"):
                    cursor.copy_expert(sql, io.StringIO(text.getvalue()))
                else:
                    with cursor.copy(sql) as copy:
                        copy.write(text.getvalue())

        frame().to_sql("f_copy", engine, if_exists="replace", index=False, method=method)
        return rows(url, "SELECT * FROM f_copy ORDER BY i")

    def ignore():
        method = lambda table, connection, keys, data: connection.execute(insert(table.table).on_conflict_do_nothing(), [dict(zip(keys, row)) for row in data]).rowcount
        frame()[["i", "s"]].to_sql("f_up", engine, index=False, if_exists="append", method=method)
        return rows(url, "SELECT * FROM f_up ORDER BY 1")

    return {"upsert": upsert, "copy": copy, "insert or ignore": ignore}


def reading(pd, engine):
    sa = importlib.import_module("sqlalchemy")
    query = lambda sql, **how: pd.read_sql(sa.text(sql), engine, **how).to_csv()
    items = "SELECT * FROM f_items"
    expanding = sa.text("SELECT id FROM f_types WHERE id IN :ids ORDER BY 1").bindparams(sa.bindparam("ids", expanding=True))
    filtered = "SELECT id FROM f_types WHERE id > :x AND (s = :s OR :s IS NULL) AND d < :d"
    return {
        "table columns": lambda: pd.read_sql_table("f_types", engine, columns=["id", "d"], parse_dates=["d"]).sort_values("id").to_csv(),
        "table chunks": lambda: [len(c) for c in pd.read_sql_table("f_items", engine, chunksize=30)],
        "table missing": lambda: pd.read_sql_table("no_such", engine),
        "empty": lambda: pd.read_sql("SELECT * FROM f_empty", engine).dtypes.astype(str).to_dict(),
        "parameters": lambda: query(filtered, params={"x": 1, "s": "", "d": dt.date(2000, 1, 1)}),
        "in": lambda: pd.read_sql(expanding, engine, params={"ids": [1, 3]}).to_csv(),
        "chunks": lambda: [len(c) for c in pd.read_sql(items, engine, chunksize=30)],
        "stream": lambda: [len(c) for c in pd.read_sql(items, engine.connect().execution_options(stream_results=True), chunksize=30)],
        "percent": lambda: query("SELECT count(*) FROM f_items WHERE kind LIKE '%a%' AND id % 2 = 0"),
        "percent unescaped": lambda: pd.read_sql("SELECT count(*) FROM f_items WHERE kind LIKE 'a%%'", engine).to_csv(),
        "index of two": lambda: query("SELECT kind, id, price FROM f_items WHERE id < 5 ORDER BY id", index_col=["kind", "id"]),
        "dates": lambda: query("SELECT id, 1700000000 + id AS at, '2024-01-0' || id AS d FROM f_types ORDER BY id", parse_dates={"at": {"unit": "s"}, "d": "%Y-%m-%d"}),
        "group": lambda: query("SELECT kind, count(*) AS n, sum(id) AS s, avg(price) AS a, sum(price) AS p FROM f_items GROUP BY kind ORDER BY kind"),
        "frame in query": lambda: pd.read_sql(sa.select(sa.table("f_items", sa.column("id"), sa.column("kind"))).where(sa.column("id") < 3).order_by("id"), engine).to_csv(),
        "has table": lambda: [pd.io.sql.pandasSQL_builder(engine).has_table(name) for name in ("f_items", "no_such")],
    }


def reading_types(pd, engine):
    whole = "SELECT * FROM f_types ORDER BY id"
    plain = "SELECT id, i2, i8, r, f, s, v, b FROM f_types ORDER BY id"

    def show(frame):
        return frame.dtypes.astype(str).to_dict(), (frame.assign(y=frame.y.map(bytes, na_action="ignore")) if "y" in frame else frame).to_csv()

    return {
        "types": lambda: show(pd.read_sql(whole, engine)),
        "types exact": lambda: show(pd.read_sql(whole, engine, coerce_float=False)),
        "table": lambda: show(pd.read_sql_table("f_types", engine, index_col="id").sort_index()),
        "nullable": lambda: show(pd.read_sql(plain, engine, dtype_backend="numpy_nullable")),
        "arrow": lambda: show(pd.read_sql(plain, engine, dtype_backend="pyarrow")),
        "arrow whole": lambda: show(pd.read_sql("SELECT id, n, d, t, z FROM f_types ORDER BY id", engine, dtype_backend="pyarrow")),
        "arrow table": lambda: show(pd.read_sql_table("f_items", engine, dtype_backend="pyarrow").sort_values("id").reset_index(drop=True)),
        "given types": lambda: show(pd.read_sql(plain, engine, dtype={"id": "int64", "i2": "float32", "s": "string"})),
    }


def through_adbc(pd, url):
    def connected(use):
        def run():
            with importlib.import_module("adbc_driver_postgresql.dbapi").connect(url) as connection:
                return use(connection)

        return run

    def write(connection, how, names=("i", "f", "s", "b")):
        pd.DataFrame(FRAME)[list(names)].to_sql("f_adbc", connection, if_exists=how, index=False)
        connection.commit()
        return rows(url, "SELECT * FROM f_adbc ORDER BY 1"), columns(url, "f_adbc")

    def show(frame):
        return frame.dtypes.astype(str).to_dict(), frame.to_csv()

    plain = "SELECT id, s, f, t FROM f_types ORDER BY id"
    return {
        "adbc write": connected(lambda c: write(c, "replace")),
        "adbc append": connected(lambda c: write(c, "append")),
        "adbc delete_rows": connected(lambda c: write(c, "delete_rows")),
        "adbc fail": connected(lambda c: write(c, "fail")),
        "adbc write times": connected(lambda c: write(c, "replace", ("i", "d", "t", "z"))),
        "adbc read": connected(lambda c: show(pd.read_sql(plain, c))),
        "adbc read arrow": connected(lambda c: show(pd.read_sql(plain, c, dtype_backend="pyarrow"))),
        "adbc table": connected(lambda c: show(pd.read_sql_table("f_items", c).sort_values("id"))),
        "adbc has table": connected(lambda c: [pd.io.sql.pandasSQL_builder(c).has_table(name) for name in ("f_items", "no_such")]),
    }
