"""Parquet bodies of pyarrow and DuckDB: every version, encoding and codec is loaded, and read as the same rows."""

import datetime
import io
import json
import os
import random
import tempfile
import urllib.error
import urllib.request
from decimal import Decimal

import duckdb
import pyarrow
from pyarrow import parquet

SERVER = os.environ["NYALA_HTTP"]
COLUMNS = {
    "i": pyarrow.int32(),
    "s": pyarrow.string(),
    "f": pyarrow.float64(),
    "b": pyarrow.bool_(),
    "d": pyarrow.date32(),
    "at": pyarrow.timestamp("us"),
    "n": pyarrow.decimal128(20, 2),
    "l": pyarrow.list_(pyarrow.int64()),
    "x": pyarrow.binary(),
}
VALUES = {
    # Less than 2^31 apart: otherwise DuckDB writes pages of version 2 that no other reader takes.
    "i": lambda: random.choice([0, 1, -5, 2**30]),
    "s": lambda: random.choice(["", "a", "bcd", "é" * 9]) + str(random.randrange(500)),
    "f": random.random,
    "b": lambda: random.random() < 0.5,
    "d": lambda: datetime.date(2020, 1, 1) + datetime.timedelta(random.randrange(999)),
    "at": lambda: datetime.datetime(2020, 1, 1, 2, 3, 4, random.randrange(10**6)),
    "n": lambda: Decimal(random.randrange(10**6)) / 100,
    "l": lambda: [random.choice([None, 1, 2**40]) for _ in range(random.randrange(4))],
    "x": lambda: random.randbytes(5),
}
ENCODINGS = [
    {"i": "DELTA_BINARY_PACKED", "s": "DELTA_LENGTH_BYTE_ARRAY", "f": "BYTE_STREAM_SPLIT"},
    {"i": "BYTE_STREAM_SPLIT", "s": "DELTA_BYTE_ARRAY", "x": "DELTA_LENGTH_BYTE_ARRAY", "b": "RLE"},
]


def post(path, body, content_type):
    request = urllib.request.Request(f"{SERVER}{path}", body, {"content-type": content_type})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{path}: {error.code}: {error.read().decode()}") from None


def query(sql):
    return post("/api/v1/query", json.dumps({"sql": sql}).encode(), "application/json")


def table(rows, nulls):
    def column(name, kind):
        return pyarrow.array([None if random.random() < nulls else VALUES[name]() for _ in range(rows)], kind)

    columns = {"id": pyarrow.array(range(rows), pyarrow.int64())}
    return pyarrow.table(columns | {name: column(name, kind) for name, kind in COLUMNS.items()})


def pyarrow_bodies(data):
    for page in ("1.0", "2.0"):
        options = {"data_page_version": page, "data_page_size": 3000, "row_group_size": 1000}
        variants = [{"compression": codec} for codec in ("none", "snappy", "zstd", "lz4")]
        variants += [{"use_dictionary": False, "version": "1.0"}]
        variants += [{"use_dictionary": False, "column_encoding": encodings} for encodings in ENCODINGS]
        for variant in variants:
            body = io.BytesIO()
            parquet.write_table(data, body, **options, **variant)
            yield f"pyarrow, pages {page}, {variant}", body.getvalue()


def duckdb_bodies(data):
    with tempfile.TemporaryDirectory() as folder:
        for version in ("V1", "V2"):
            for codec in ("snappy", "zstd"):
                path = f"{folder}/{version}-{codec}"
                options = f"FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}"
                duckdb.sql(f"COPY (SELECT * FROM data) TO '{path}' ({options})")
                with open(path, "rb") as file:
                    yield f"DuckDB, {version}, {codec}", file.read()


def loaded(body):
    """The table's rows after the body was loaded into the empty table."""
    post("/api/v1/tables/bodies/rows", body, "application/vnd.apache.parquet")
    rows = query("SELECT * FROM bodies ORDER BY id")["rows"]
    query("TRUNCATE TABLE bodies")
    return rows


def main():
    random.seed(3)
    query(
        "CREATE LIVE TABLE bodies (id BIGINT PRIMARY KEY, i INT, s TEXT, f DOUBLE, b BOOLEAN, d DATE, "
        "at TIMESTAMP, n DECIMAL(20, 2), l BIGINT[], x BYTEA)"
    )
    count = 0
    for rows in (0, 7, 2500):
        for nulls in (0, 0.3, 1):
            data, expected = table(rows, nulls), None
            numbers, texts = (data[column].to_pylist() for column in ("i", "s"))
            for name, body in [*pyarrow_bodies(data), *duckdb_bodies(data)]:
                found = loaded(body)
                expected = found if expected is None else expected
                assert len(found) == rows and found == expected, f"{name}: {rows} rows, {nulls} of them null"
                assert [row[1] for row in found] == numbers and [row[2] for row in found] == texts, name
                count += 1
    print(f"{count} bodies")


main()
