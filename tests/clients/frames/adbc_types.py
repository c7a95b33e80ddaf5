"""ADBC: a column of each Arrow type ingested and read back, and queries of each kind, which the driver sends inside of COPY, or without it."""

import datetime as dt
import functools
import importlib

from adbc_checks import fetch, with_cursor
from fixtures import TYPES, D, columns, rows

QUERIES = {
    "series": "SELECT x FROM generate_series(1, 3) x",
    "series in list": "SELECT generate_series(1, 3) AS x",
    "spine": "SELECT d FROM generate_series('2024-01-01'::timestamp, '2024-01-03', '1 day') AS d",
    "unnest": "SELECT unnest(ARRAY[1, 2]) AS x",
    "group": "SELECT kind, count(*) AS n, sum(id) AS s, avg(price) AS a, max(sold) AS m FROM f_items GROUP BY kind ORDER BY kind",
    "window": "SELECT id, sum(price) OVER (ORDER BY id) AS s, row_number() OVER (PARTITION BY kind ORDER BY id) AS r FROM f_items ORDER BY id LIMIT 5",
    "with": "WITH RECURSIVE q(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < 4) SELECT n FROM q",
    "values": "VALUES (1, 'a'), (2, NULL)",
    "distinct on": "SELECT DISTINCT ON (kind) kind, id FROM f_items ORDER BY kind, id DESC",
    "filter": "SELECT count(*) FILTER (WHERE id > 5) AS n, string_agg(kind, ',' ORDER BY id) FILTER (WHERE id < 5) AS s FROM f_items",
    "ordered set": "SELECT mode() WITHIN GROUP (ORDER BY kind) AS m, percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS p FROM f_items",
    "zones": "SELECT timestamptz '2023-01-01 00:00:00+00' + id * interval '1 day' AS a, timestamp '2023-01-01 00:00:00' + id * interval '1 day' AS b FROM f_items WHERE id = 1",
    "times": "SELECT date '2024-01-31' + interval '1 month' AS a, date '2024-01-02' - date '2024-01-01' AS b, extract(epoch FROM timestamp '2024-01-01') AS c, localtimestamp IS NOT NULL AS d",
    "division": "SELECT 7 / 2 AS a, 7 / 2.0 AS b, round(2.5) AS c, 2.5::int AS d",
    "per distinct": "SELECT kind, sum(price) / count(DISTINCT id) AS m FROM f_items GROUP BY kind ORDER BY kind",
    "casts": "SELECT 'f_items'::regclass::oid > 0 AS a, 'int4'::regtype::text AS b, '{1,2}'::int[] AS c, ARRAY[1, 2]::text AS d",
    "lateral": "SELECT i.id, l.s FROM f_items i CROSS JOIN LATERAL (SELECT i.id * 2 AS s) l WHERE i.id < 3 ORDER BY 1",
    "catalog": "SELECT attname::text AS a, format_type(atttypid, atttypmod) AS t FROM pg_attribute WHERE attrelid = 'f_items'::regclass AND attnum > 0 ORDER BY attnum",
    "show": "SHOW search_path",
    "explain": "EXPLAIN SELECT 1",
    "returning": "DELETE FROM f_empty RETURNING a",
}


def checks(adbc, url):
    asked = functools.partial(with_cursor, adbc, url)

    def without_copy(cursor, sql):
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        return fetch(cursor, sql)

    def ingested(make):
        def use(connection, cursor):
            cursor.execute("DROP TABLE IF EXISTS f_arrow")
            cursor.adbc_ingest("f_arrow", arrow.table({"k": [1, 2], "x": make()}))
            connection.commit()
            return rows(url, "SELECT * FROM f_arrow ORDER BY k"), columns(url, "f_arrow"), fetch(cursor, "SELECT x FROM f_arrow ORDER BY k")

        return asked(use)

    arrow = importlib.import_module("pyarrow")
    found = {f"query {name}": asked(lambda _, k, sql=sql: fetch(k, sql)) for name, sql in QUERIES.items()}
    found |= {f"without copy {name}": asked(lambda _, k, sql=sql: without_copy(k, sql)) for name, sql in QUERIES.items()}
    found |= {f"without copy type {c}": asked(lambda _, k, c=c: without_copy(k, f"SELECT {c} FROM f_types ORDER BY id")) for c in TYPES}
    return found | {f"ingest {name}": ingested(make) for name, make in arrays(arrow).items()}


def arrays(pa):
    """Functions that make an array of each Arrow type, of a value and a null. Some types the driver refuses by itself."""
    numbers = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
    texts = ("string", "large_string", "string_view")
    bytes_ = ("binary", "large_binary", "binary_view")
    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3)
    made = {kind: [7, None] for kind in numbers} | {kind: ["ä\"'\\", None] for kind in texts} | {kind: [b"\0\xff", None] for kind in bytes_}
    found = {kind: (lambda kind=kind, values=values: pa.array(values, getattr(pa, kind)())) for kind, values in made.items()}
    typed = {
        "bool": (pa.bool_(), [True, None]), "null": (pa.null(), [None, None]), "fixed_size_binary": (pa.binary(2), [b"ab", None]),
        "date32": (pa.date32(), [day, None]), "date64": (pa.date64(), [day, None]), "duration": (pa.duration("ms"), [dt.timedelta(days=1, milliseconds=5), None]),
        "time32 s": (pa.time32("s"), [dt.time(1, 2, 3), None]), "time32 ms": (pa.time32("ms"), [dt.time(1, 2, 3), None]), "time64 ns": (pa.time64("ns"), [dt.time(1, 2, 3), None]),
        "timestamp ms": (pa.timestamp("ms"), [moment, None]), "timestamp in a zone": (pa.timestamp("ns", "Europe/Berlin"), [moment, None]),
        "month_day_nano": (pa.month_day_nano_interval(), [(1, 2, 3000), None]), "decimal128": (pa.decimal128(38, 10), [D("1.5"), None]),
        "decimal256": (pa.decimal256(60, 5), [D("123456789012345678901234567890.5"), None]), "decimal of whole": (pa.decimal128(5, 0), [D("7"), None]),
        "list int32": (pa.list_(pa.int32()), [[1, None], None]), "list float64": (pa.list_(pa.float64()), [[1.5], []]), "list bool": (pa.list_(pa.bool_()), [[True], None]),
        "list text": (pa.list_(pa.string()), [["a", None], None]), "list time": (pa.list_(pa.timestamp("us")), [[moment], None]), "large_list": (pa.large_list(pa.int64()), [[1], None]),
        "fixed_size_list": (pa.list_(pa.int64(), 2), [[1, 2], None]), "struct": (pa.struct([("a", pa.int32())]), [{"a": 1}, None]),
    }  # fmt: skip
    found |= {name: (lambda kind=kind, values=values: pa.array(values, kind)) for name, (kind, values) in typed.items()}
    found["dictionary"] = lambda: pa.array(["a", None]).dictionary_encode()
    found["largest"] = lambda: pa.array([2**63 - 1, -(2**63)], pa.int64())
    return found
