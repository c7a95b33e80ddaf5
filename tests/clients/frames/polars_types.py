"""polars: a column of each of its types written with both engines and read back, and the options of reading."""

import datetime as dt

from fixtures import D, columns, engine_of, rows


def checks(pl, url):
    return writing(pl, url) | reading(pl, url)


def writing(pl, url):
    engine = engine_of(url)

    def write(series, through):
        frame = pl.DataFrame({"k": [1, 2], "x": series})
        engine.dispose()  # psycopg prepares statements, which do not outlive a change of the column's type
        made = frame.write_database("f_pl_kind", engine if through == "sqlalchemy" else url, if_table_exists="replace", engine=through)
        return made, rows(url, "SELECT * FROM f_pl_kind ORDER BY k"), columns(url, "f_pl_kind")

    def write_to(table, how="replace", **options):
        frame = pl.DataFrame({"k": [1, 2], "Odd name": ["a", None]})
        made = frame.write_database(table, url, if_table_exists=how, engine="adbc", **options)
        return made, rows(url, f"SELECT * FROM {table} ORDER BY k")

    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3)
    of = lambda values, kind: lambda: pl.Series(values, dtype=kind)
    kinds = {str(kind): of([7, None], kind) for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64)}
    kinds |= {
        "Boolean": of([True, None], pl.Boolean), "String": of(["ä'", None], pl.String), "Categorical": of(["a", None], pl.Categorical), "Enum": of(["a", None], pl.Enum(["a", "b"])),
        "Date": of([day, None], pl.Date), "Datetime ms": of([moment, None], pl.Datetime("ms")), "Datetime ns": of([moment, None], pl.Datetime("ns")),
        "Datetime in a zone": of([moment, None], pl.Datetime("us", "Europe/Berlin")), "Time": of([dt.time(1, 2, 3), None], pl.Time), "Duration": of([dt.timedelta(1), None], pl.Duration),
        "Binary": of([b"\0\xff", None], pl.Binary), "Decimal": of([D("1.50"), None], pl.Decimal(10, 2)), "List": of([[1, 2], None], pl.List(pl.Int64)),
        "List of texts": of([["a", None], None], pl.List(pl.String)), "Struct": of([{"a": 1}, None], pl.Struct({"a": pl.Int64})), "Null": of([None, None], pl.Null),
    }  # fmt: skip
    found = {f"write {through} {kind}": (lambda make=make, through=through: write(make(), through)) for kind, make in kinds.items() for through in ("adbc", "sqlalchemy")}
    return found | {
        "write to schema": lambda: write_to("public.f_pl_in"),
        "write quoted": lambda: write_to('"f_pl Odd"'),
        "write temporary": lambda: write_to("f_pl_temp", engine_options={"temporary": True}),
        "write append after replace": lambda: (write_to("public.f_pl_in"), write_to("public.f_pl_in", "append"))[1],
    }


def reading(pl, url):
    engine = engine_of(url)
    show = lambda f: (dict(zip(f.columns, map(str, f.dtypes))), f.rows())
    plain = "SELECT id, i2, i8, r, f, s, v, b, d, t, z FROM f_types ORDER BY id"
    group = "SELECT kind, count(*) AS n, sum(id) AS s, avg(price) AS a, sum(price) AS p FROM f_items GROUP BY kind ORDER BY kind"
    arrays = "SELECT ARRAY[1, 2] AS a, ARRAY['x', NULL] AS b, ARRAY[1.5::float8] AS c, ARRAY[true] AS d"
    series = "SELECT x, x * 1.5 AS y FROM generate_series(1, 3) x"
    found = {}
    for through in ("connectorx", "adbc"):
        for name, sql in {"group": group, "arrays": arrays, "series": series, "no rows": "SELECT * FROM f_items WHERE id < 0", "with": f"WITH q AS ({plain}) SELECT * FROM q"}.items():
            found[f"{through} {name}"] = lambda sql=sql, through=through: show(pl.read_database_uri(sql, url, engine=through))
    return found | {
        "connectorx range": lambda: show(pl.read_database_uri("SELECT id FROM f_items", url, partition_on="id", partition_num=4, partition_range=(1, 50)).sort("id")),
        "connectorx protocol": lambda: show(pl.read_database_uri(plain, url, protocol="cursor")),
        "connectorx first query": lambda: show(pl.read_database_uri("SHOW timezone", url, pre_execution_query="SET timezone = 'Europe/Berlin'", protocol="simple")),
        "schema": lambda: show(pl.read_database(plain, engine, schema_overrides={"id": pl.Int64, "s": pl.Categorical}, infer_schema_length=None)),
        "database group": lambda: show(pl.read_database(group, engine)),
        "database arrays": lambda: show(pl.read_database(arrays, engine)),
        "database connection": lambda: show(pl.read_database(plain, engine.connect())),
    }
