"""ADBC's `adbc_ingest`: each mode, each Arrow type, and what stays after a rollback."""

import datetime as dt
import functools
import importlib
import math

from adbc_checks import fetch, with_cursor
from fixtures import D, columns, rows


def checks(adbc, url):
    pa = importlib.import_module("pyarrow")
    asked = functools.partial(with_cursor, adbc, url)
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

        return asked(use)

    def rolled_back(connection, cursor):
        cursor.adbc_ingest("f_gone", pa.table({"a": [1]}), mode="create")
        connection.rollback()
        try:
            cursor.execute("SELECT * FROM f_gone")
        except Exception as error:
            return getattr(error, "sqlstate", None)

    return {
        "ingest create": ingest("create"),
        "ingest append": ingest("append"),
        "ingest replace": ingest("replace"),
        "ingest create_append": ingest("create_append"),
        "ingest again": ingest("create"),
        "ingest part": ingest("append", data=lambda: table().select(["i4", "s", "i2"])),
        "ingest temporary": asked(lambda c, k: (k.adbc_ingest("f_temp", pa.table({"a": [1, 2]}), mode="create", temporary=True), fetch(k, "SELECT sum(a) FROM f_temp"))),
        "ingest batches": asked(
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
        "rollback": asked(rolled_back),
    }
