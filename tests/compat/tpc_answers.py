#!/usr/bin/env python3
"""Compares the answers of TPC-H's 22 or TPC-DS's 99 queries with those of DuckDB on the same Parquet files.

    tpc_answers.py [--live] tpch|tpcds FILES [QUERY …]

FILES has one folder for each table, as `nyala gen tpch --scale 1 --out FILES` writes them. The server is that of `PGHOST`,
`PGPORT`, `PGUSER`, `PGDATABASE`; tables that it lacks are made over the files, in a schema of the folder's name, and with
`--live` copied from there into live tables with the benchmark's primary keys, which are then asked. The texts are those of
DuckDB's extensions. Each is asked three times: as it is, without its LIMIT, and prepared with values in binary.
"""

import os
import sys
import time
from pathlib import Path

import duckdb
import psycopg

from tpc_rows import difference, left_over, rounded_exactly, sort_keys
from tpc_tables import extension, external_tables, live_tables, table_names


def peer(files, benchmark):
    """DuckDB, with PostgreSQL's place for nulls and its quotient of whole numbers, and the queries."""
    connection = duckdb.connect()
    extension(connection, benchmark)
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    connection.execute("SET integer_division = true")
    for name in table_names(files):
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}/{name}/*.parquet')")
    texts = connection.execute(f"SELECT query_nr, query FROM {benchmark}_queries() ORDER BY 1").fetchall()
    return connection, [(number, text.strip().rstrip("; \n")) for number, text in texts]


def ours(files, live):
    connection = psycopg.connect(
        host=os.environ.get("PGHOST", "127.0.0.1"),
        port=os.environ.get("PGPORT", "5433"),
        user=os.environ.get("PGUSER", "nyala"),
        dbname=os.environ.get("PGDATABASE", "nyala"),
        autocommit=True,
    )
    schema = external_tables(connection, files)
    if live:
        schema = live_tables(connection, files, schema)
    connection.execute(f"SET search_path = {schema}")
    return connection


def timed(run):
    begun = time.monotonic()
    answer = run()
    return answer, time.monotonic() - begun


def compare(duck, nyala, text):
    """The first difference, if there is one, and the seconds of both as the text is."""
    found, our_seconds = timed(lambda: nyala.execute(text).fetchall())
    _, seconds = timed(lambda: duck.execute(f"CREATE OR REPLACE TEMP TABLE theirs AS {rounded_exactly(text)}"))
    what = whole_answers(duck, nyala, text, found)
    prepared = nyala.cursor(binary=True).execute(text, prepare=True).fetchall()
    what = what or after("prepared: ", left_over(prepared, found) or sort_keys(duck, prepared, text))
    return what, our_seconds, seconds


def whole_answers(duck, nyala, text, found):
    """Rows that are equal in all that ORDER BY says may be cut by LIMIT here or there. So all rows are compared, the rows
    with LIMIT must be as many, be among them, and have the same values of ORDER BY, in order."""
    whole = without_limit(text)
    theirs = duck.execute(rounded_exactly(whole)).fetchall()
    every = found if whole == text else nyala.execute(whole).fetchall()
    wanted = duck.execute("SELECT count(*) FROM theirs").fetchone()[0]
    if len(found) != wanted:
        return f"{len(found)} rows with LIMIT, DuckDB has {wanted}"
    return (
        difference(every, theirs)
        or after("not without LIMIT: ", left_over(found, every))
        or after("order: ", sort_keys(duck, found, text))
    )


def without_limit(text):
    head, limit, rest = text.rpartition("LIMIT ")
    return head if limit and rest.strip().isdigit() else text


def after(words, what):
    return what and words + what


def main(live, benchmark, files, wanted):
    files = Path(files).resolve()
    duck, queries = peer(files, benchmark)
    nyala = ours(files, live)
    queries = [(number, text) for number, text in queries if not wanted or str(number) in wanted]
    wrong, totals = 0, [0.0, 0.0]
    for number, text in queries:
        try:
            what, our_seconds, seconds = compare(duck, nyala, text)
            totals = [totals[0] + our_seconds, totals[1] + seconds]
            took = f"{our_seconds:.2f} s, DuckDB {seconds:.2f} s"
            took += " SLOW" if our_seconds > 20 or our_seconds > 10 * seconds else ""
        except (psycopg.Error, duckdb.Error) as error:
            what, took = f"{type(error).__name__} {getattr(error, 'sqlstate', '')} {error}", "no time"
        wrong += what is not None
        print(f"{benchmark} {number:>2} {'ok' if what is None else 'WRONG: ' + what} ({took})", flush=True)
    print(f"{len(queries) - wrong} of {len(queries)} answers are equal; {totals[0]:.0f} s, DuckDB {totals[1]:.0f} s")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--live"]
    if len(arguments) < 2 or arguments[0] not in ("tpch", "tpcds"):
        sys.exit(__doc__)
    main("--live" in sys.argv, arguments[0], arguments[1], arguments[2:])
