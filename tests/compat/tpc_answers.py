#!/usr/bin/env python3
"""Compares the answers of TPC-H's 22 or TPC-DS's 99 queries with those of DuckDB on the same Parquet files.

    tpc_answers.py tpch|tpcds FILES [QUERY …]

FILES has one folder for each table, as `nyala generate tpch --scale 1 --out FILES` writes them. The server is that of
`PGHOST`, `PGPORT`, `PGUSER`, `PGDATABASE`; tables that it lacks are made, in a schema of the benchmark's name. The texts are
those of DuckDB's extensions. Rows are compared without their order, numbers to six digits.
"""

import glob
import importlib.util
import os
import sys
import time
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg

DIGITS = 1e-6


def extension(connection, name):
    """Loads an extension of the package `duckdb-ext-…`, which needs no download."""
    package = importlib.util.find_spec(f"duckdb_ext_{name}") or importlib.util.find_spec(f"duckdb_extension_{name}")
    if package is None:
        connection.execute(f"LOAD {name}")
        return
    folder = Path(package.origin).parent
    [file] = glob.glob(str(folder / "**" / f"{name}.duckdb_extension"), recursive=True)
    connection.execute(f"LOAD '{file}'")


def peer(files, benchmark):
    connection = duckdb.connect()
    extension(connection, benchmark)
    for folder in sorted(path for path in Path(files).iterdir() if path.is_dir()):
        connection.execute(f"CREATE VIEW {folder.name} AS SELECT * FROM read_parquet('{folder}/*.parquet')")
    queries = connection.execute(f"SELECT query_nr, query FROM {benchmark}_queries() ORDER BY 1").fetchall()
    return connection, queries


def ours(files, benchmark):
    connection = psycopg.connect(
        host=os.environ.get("PGHOST", "127.0.0.1"),
        port=os.environ.get("PGPORT", "5433"),
        user=os.environ.get("PGUSER", "nyala"),
        dbname=os.environ.get("PGDATABASE", "nyala"),
        autocommit=True,
    )
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {benchmark}")
    connection.execute(f"SET search_path = {benchmark}")
    for folder in sorted(path for path in Path(files).iterdir() if path.is_dir()):
        connection.execute(
            f"CREATE EXTERNAL TABLE IF NOT EXISTS {benchmark}.{folder.name} STORED AS PARQUET LOCATION '{folder.resolve()}/'"
        )
    return connection


def plain(value):
    if isinstance(value, (Decimal, float, int)) and not isinstance(value, bool):
        return float(value)
    return None if value is None else str(value).rstrip()


def key(row):
    """Numbers that are nearly equal sort alike but for rare neighbours, which the comparison tries both ways."""
    return [(value is None, f"{value:.4e}" if isinstance(value, float) else str(value)) for value in row]


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) <= DIGITS * max(1e-6, abs(left), abs(right))
    return left == right


def difference(found, wanted):
    """The first difference; none if the rows are the same."""
    if len(found) != len(wanted):
        return f"{len(found)} rows, DuckDB has {len(wanted)}"
    left = [tuple(plain(value) for value in row) for row in found]
    right = [tuple(plain(value) for value in row) for row in wanted]
    alike = lambda one, other: all(same(a, b) for a, b in zip(one, other))
    rest = sorted(right, key=key)
    for row in sorted(left, key=key):
        at = next((at for at, other in enumerate(rest) if alike(row, other)), None)
        if at is None:
            return f"{row} is not among DuckDB's rows, where the first left is {rest[0]}"
        rest.pop(at)
    return None


def main(benchmark, files, wanted):
    duck, queries = peer(files, benchmark)
    nyala = ours(files, benchmark)
    wrong = 0
    for number, text in queries:
        if wanted and str(number) not in wanted:
            continue
        text = text.strip().rstrip(";")
        begun = time.monotonic()
        try:
            what = difference(nyala.execute(text).fetchall(), duck.execute(text).fetchall())
        except psycopg.Error as error:
            what = f"{error.sqlstate} {error}"
        seconds = time.monotonic() - begun
        wrong += what is not None
        print(f"{benchmark} {number:>2} {'ok' if what is None else 'WRONG: ' + what} ({seconds:.1f} s)", flush=True)
    print(f"{wrong} of {len(queries)} answers differ")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("tpch", "tpcds"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
