"""Computes the grouping sets of cube.sql in DuckDB and writes them as one Parquet file.

usage: duckdb_build.py SSB_FOLDER OUT_FILE [THREADS]
"""

import os
import pathlib
import sys
import time

import duckdb

TABLES = ["lineorder", "customer", "supplier", "part", "dates"]


def cube_select() -> str:
    """The SELECT of cube.sql, without comments."""
    text = pathlib.Path(__file__).with_name("cube.sql").read_text()
    lines = [line.split("--")[0] for line in text.splitlines()]
    text = "\n".join(lines)
    return text[text.index("SELECT") :].strip().rstrip(";")


def main() -> None:
    folder, out = sys.argv[1:3]
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else os.cpu_count()
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{folder}/{table}/*.parquet')")
    begin = time.perf_counter()
    connection.execute(
        f"COPY ({cube_select()}) TO '{out}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 131072)"
    )
    seconds = time.perf_counter() - begin
    print(f"duckdb {duckdb.__version__}: {seconds:.2f} s, {os.path.getsize(out) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
