"""Queries that a cube over a live table answers, while rows come, beside the same without the cube and DuckDB.

    python3 cubes.py --server 127.0.0.1 5433 --rows 10000000 --folder /tmp/live

Needs duckdb, psycopg. The server must be given an empty data folder; DuckDB has the rows of the beginning in its own process. New rows come at
a fixed rate, and the server's own job folds them into the cube. At last all answers are compared with those without the cube.
Prints a table in Markdown.
"""

import argparse
import multiprocessing
import random
import statistics
import time

import duckdb
import psycopg

from scan import COLUMNS, events_file, row, wait_for

CUBE = """
CREATE CUBE events_by_day AS SELECT sum(cents), count(*), max(cents) FROM events
GROUP BY GROUPING SETS ((shop, day), (kind, day))
"""
QUERIES = {
    "total": "SELECT count(*), sum(cents) FROM events",
    "by shop": "SELECT shop, sum(cents), count(*) FROM events GROUP BY shop",
    "by kind and day": "SELECT kind, day, sum(cents) FROM events GROUP BY kind, day",
    "a month by shop": "SELECT shop, sum(cents) FROM events WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-31' GROUP BY shop",
    "a kind by day": "SELECT day, max(cents) FROM events WHERE kind = 'kind 7' GROUP BY day",
}
PREPARED_SECONDS = 60  # new rows that are written down before; after them the same keys come again


def connect(args, use_cubes=True):
    client = psycopg.connect(host=args.server[0], port=args.server[1], user="bench", dbname="nyala", autocommit=True)
    client.execute(f"SET nyala.use_cubes = {'on' if use_cubes else 'off'}")
    return client


def insert(args, ready, stop, written):
    """New rows at a fixed rate, 100 in a statement."""
    dice, statements = random.Random(11), []
    for statement in range(args.inserts * PREPARED_SECONDS // 100):
        first = args.rows + statement * 100
        statements.append("INSERT INTO events VALUES " + ", ".join(row(dice, first + n) for n in range(100)))
    with connect(args) as client:
        ready.set()
        begun = time.perf_counter()
        for statement in statements:
            while (time.perf_counter() - begun) * args.inserts < written.value and not stop.is_set():
                time.sleep(0.001)
            if stop.is_set():
                return
            client.execute(statement)
            written.value += 100


def milliseconds(client, sql):
    begun = time.perf_counter()
    client.execute(sql).fetchall()
    return (time.perf_counter() - begun) * 1e3


def best(client, sql, times):
    return min(milliseconds(client, sql) for _ in range(times))


def while_rows_come(args, client):
    """Milliseconds of each query, again and again, and rows a second that came meanwhile."""
    ready, stop, written = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Value("q", 0)
    writer = multiprocessing.Process(target=insert, args=(args, ready, stop, written))
    writer.start()
    try:
        wait_for(writer, ready)
        begun, taken = time.perf_counter(), {name: [] for name in QUERIES}
        while time.perf_counter() - begun < args.seconds:
            for name, sql in QUERIES.items():
                taken[name].append(milliseconds(client, sql))
        return taken, written.value / (time.perf_counter() - begun)
    finally:
        stop.set()
        writer.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", nargs=2, default=["127.0.0.1", "5433"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--inserts", type=int, default=10_000, help="new rows a second")
    parser.add_argument("--seconds", type=int, default=40, help="that rows come; at most 60")
    parser.add_argument("--folder", default="/tmp/nyala-live")
    args = parser.parse_args()
    file, duck = events_file(args), duckdb.connect()
    duck.execute(f"CREATE TABLE events AS SELECT * FROM '{file}'")
    with connect(args) as cube, connect(args, use_cubes=False) as plain:
        cube.execute(f"CREATE LIVE TABLE events ({COLUMNS})")
        cube.execute(f"COPY events FROM '{file}'")
        cube.execute(CUBE)
        begun = time.perf_counter()
        cube.execute("BUILD CUBE events_by_day")
        print(f"The cube was built in {time.perf_counter() - begun:.1f} s.\n")
        for sql in QUERIES.values():
            plan = str(cube.execute(f"EXPLAIN {sql}").fetchall())
            assert "events_by_day" in plan, plan
        quiet = {
            name: [best(client, sql, 7) for client in (duck, plain, cube)] for name, sql in QUERIES.items()
        }
        taken, rate = while_rows_come(args, cube)
        print(f"| {args.rows:,} rows, ms | DuckDB | Nyala | with the cube | while {rate:,.0f} rows/s come: median | 95 % | most |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        for name, times in quiet.items():
            busy = sorted(taken[name])
            shown = [*times, statistics.median(busy), busy[len(busy) * 95 // 100], busy[-1]]
            print(f"| {name} | " + " | ".join(f"{time:.2f}" for time in shown) + " |")
        for name, sql in QUERIES.items():
            answers = [sorted(client.execute(sql).fetchall()) for client in (cube, plain)]
            assert answers[0] == answers[1], name
        count = plain.execute("SELECT count(*) FROM events").fetchone()[0]
        print(f"\nThe table has {count:,} rows now; all answers are those without the cube.")


if __name__ == "__main__":
    main()
