"""Scans and loads of a live table beside DuckDB's native table and PostgreSQL, in one run.

    python3 scan.py --server 127.0.0.1 5433 8090 --rows 10000000 --folder /tmp/live [--postgres 'host=/tmp port=5499']

Needs duckdb, psycopg, pyarrow. The server must be given an empty data folder. DuckDB has as many threads as the machine has cores,
like the server. Prints a table in Markdown: DuckDB is measured in quiet and, as the upserts take a part of the machine from whoever
computes on it, meanwhile too. They go to Nyala only.
"""

import argparse
import datetime
import http.client
import io
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import time

import duckdb
import psycopg

COLUMNS = "id BIGINT PRIMARY KEY, shop INT, kind TEXT, cents BIGINT, price DOUBLE, day DATE, name TEXT, a INT, b INT, c DOUBLE"
MAKE = """
COPY (
  SELECT (i * 7919) % {rows} AS id, (hash(i) % 1000)::INT AS shop, 'kind ' || (hash(i + 1) % 20) AS kind,
         (hash(i + 2) % 100000)::BIGINT AS cents, (hash(i + 3) % 1000000) / 1000.0 AS price,
         DATE '2024-01-01' + (i * 366 // {rows})::INT AS day, 'name ' || (hash(i + 4) % 1000000) AS name,
         (hash(i + 5) % 1000)::INT AS a, (hash(i + 6) % 50)::INT AS b, (hash(i + 7) % 1000) / 7.0 AS c
  FROM range({rows}) AS t(i)
) TO '{file}' (FORMAT parquet)
"""
QUERIES = {
    "sum": "SELECT count(*), sum(price), avg(cents) FROM events",
    "group by 1,000": "SELECT shop, sum(price), count(*) FROM events GROUP BY shop",
    "group by 7,320": "SELECT kind, day, sum(cents) FROM events GROUP BY kind, day",
    "group by 1,000,000": "SELECT count(*), max(n) FROM (SELECT name, count(*) AS n FROM events GROUP BY name) AS t",
    "filter": "SELECT count(*), sum(cents) FROM events WHERE price > 900 AND kind = 'kind 7'",
    "range of days": "SELECT shop, sum(cents) FROM events WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-31' GROUP BY shop",
    "count distinct": "SELECT kind, count(DISTINCT name) FROM events WHERE b < 10 GROUP BY kind",
    "like": "SELECT count(*) FROM events WHERE name LIKE '%99%'",
    "top 10": "SELECT name, price FROM events ORDER BY price DESC, id LIMIT 10",
}

UPSERT_SECONDS = 60  # until the same rows come again


def events_file(args):
    """The rows as a Parquet file, which is made if it is not there."""
    os.makedirs(args.folder, exist_ok=True)
    file = f"{args.folder}/events-{args.rows}.parquet"
    if not os.path.exists(file):
        # Under its name only when it is whole: the next run takes what it finds.
        duckdb.execute(MAKE.format(rows=args.rows, file=f"{file}.new"))
        os.rename(f"{file}.new", file)
    return file


def best(run, times=5):
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds), statistics.median(seconds)


def connect(args):
    return psycopg.connect(host=args.server[0], port=args.server[1], user="bench", dbname="nyala", autocommit=True)


def row(dice, key):
    """Values as the table has them, so that queries have as much to do as before."""
    day = datetime.date(2024, 1, 1) + datetime.timedelta(days=dice.randrange(366))
    return (
        f"({key}, {dice.randrange(1000)}, 'kind {dice.randrange(20)}', {dice.randrange(100000)}, "
        f"{dice.randrange(1000000) / 1000}, DATE '{day}', 'name {dice.randrange(1000000)}', {dice.randrange(1000)}, "
        f"{dice.randrange(50)}, {dice.randrange(1000) / 7})"
    )


def upsert(args, per_second, ready, stop, done):
    """Replaces rows at a fixed rate, 100 in a statement, as an ingest job does."""
    dice, statements = random.Random(7), []
    # Written down before, so that the writing of texts takes no part of the machine from those who are measured.
    for statement in range(per_second * UPSERT_SECONDS // 100):
        first = (statement * 100 * 7919) % args.rows
        values = ", ".join(row(dice, (first + n) % args.rows) for n in range(100))
        statements.append(f"INSERT INTO events VALUES {values}")
    with connect(args) as connection:
        ready.set()
        begun, sent = time.perf_counter(), 0
        while not stop.is_set():
            behind = (time.perf_counter() - begun) * per_second - sent
            if behind < 100:
                time.sleep(0.002)
                continue
            connection.execute(statements[sent // 100 % len(statements)])
            sent += 100
            done.value = sent / (time.perf_counter() - begun)


def wait_for(writer, ready):
    """Until the writer is ready; one that has ended never will be."""
    while not ready.wait(1):
        if not writer.is_alive():
            raise SystemExit("the writer of rows ended; above is why")


def load_http(args, media_type, body):
    connection = http.client.HTTPConnection(args.server[0], int(args.server[2]))
    start = time.perf_counter()
    connection.request("POST", "/api/v1/tables/events/rows", body, {"content-type": media_type})
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200, answer
    return answer["rows"], time.perf_counter() - start


def loads(args, file):
    """Rows a second of each way to load, on an empty table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = pq.read_table(file).slice(0, args.load_rows)
    part = part.set_column(9, "c", part["c"].cast(pa.float64())) if part["c"].type != pa.float64() else part
    arrow = io.BytesIO()
    with pa.ipc.new_stream(arrow, part.schema) as writer:
        writer.write_table(part, max_chunksize=65536)
    csv = io.BytesIO()
    import pyarrow.csv as pc

    pc.write_csv(part, csv)
    rows = []
    with connect(args) as nyala:
        for name, media_type, body in [
            ("Arrow over HTTP", "application/vnd.apache.arrow.stream", arrow.getvalue()),
            ("CSV over HTTP", "text/csv", csv.getvalue()),
        ]:
            nyala.execute("TRUNCATE TABLE events")
            count, seconds = load_http(args, media_type, body)
            rows.append((name, "Nyala", count / seconds))
        nyala.execute("TRUNCATE TABLE events")
        text = csv.getvalue().split(b"\n", 1)[1]
        start = time.perf_counter()
        with nyala.cursor().copy("COPY events FROM STDIN (FORMAT csv)") as copy:
            copy.write(text)
        rows.append(("COPY of CSV from a client", "Nyala", args.load_rows / (time.perf_counter() - start)))
        nyala.execute("TRUNCATE TABLE events")
    if args.postgres:
        with psycopg.connect(args.postgres, autocommit=True) as postgres:
            postgres.execute("DROP TABLE IF EXISTS events")
            postgres.execute(f"CREATE TABLE events ({COLUMNS.replace('DOUBLE', 'DOUBLE PRECISION')})")
            start = time.perf_counter()
            with postgres.cursor().copy("COPY events FROM STDIN (FORMAT csv)") as copy:
                copy.write(text)
            rows.append(("COPY of CSV from a client", "PostgreSQL", args.load_rows / (time.perf_counter() - start)))
    path = pathlib.Path(args.folder) / "part.csv"
    path.write_bytes(csv.getvalue())
    for name, source in [("CSV from a file", f"read_csv('{path}')"), ("Arrow in process", "part")]:
        database = pathlib.Path(args.folder) / "load.duckdb"
        database.unlink(missing_ok=True)
        with duckdb.connect(str(database)) as duck:
            duck.execute(f"CREATE TABLE events ({COLUMNS})")
            start = time.perf_counter()
            duck.execute(f"INSERT INTO events SELECT * FROM {source}")
            rows.append((name, "DuckDB, primary key", args.load_rows / (time.perf_counter() - start)))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", nargs=3, default=["127.0.0.1", "5433", "8090"])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--load-rows", type=int, default=1_000_000)
    parser.add_argument("--upserts", type=int, default=10_000, help="a second, while scanning")
    parser.add_argument("--folder", default="/tmp/nyala-live")
    parser.add_argument("--postgres", default="")
    args = parser.parse_args()
    file, duck = events_file(args), duckdb.connect()
    with connect(args) as nyala:
        nyala.execute("DROP TABLE IF EXISTS events")
        nyala.execute(f"CREATE LIVE TABLE events ({COLUMNS})")
        print(f"| load of {args.load_rows:,} rows of 10 columns | | rows/s |\n|---|---|---|")
        for name, who, rate in loads(args, file):
            print(f"| {name} | {who} | {rate:,.0f} |", flush=True)
        start = time.perf_counter()
        nyala.execute(f"COPY events FROM '{file}'")
        loaded = time.perf_counter() - start
        start = time.perf_counter()
        duck.execute(f"CREATE TABLE events AS SELECT * FROM '{file}'")
        plain = time.perf_counter() - start
        print(f"| Parquet file, {args.rows:,} rows | Nyala | {args.rows / loaded:,.0f} |")
        print(f"| Parquet file, {args.rows:,} rows | DuckDB in memory, no key | {args.rows / plain:,.0f} |\n")
        quiet, busy, peer, busy_peer = {}, {}, {}, {}
        for name, sql in QUERIES.items():
            mine, theirs = nyala.execute(sql).fetchall(), duck.execute(sql).fetchall()
            assert len(mine) == len(theirs), name
            quiet[name], peer[name] = best(lambda: nyala.execute(sql).fetchall()), best(lambda: duck.execute(sql).fetchall())
        ready, stop, done = multiprocessing.Event(), multiprocessing.Event(), multiprocessing.Value("d", 0.0)
        writer = multiprocessing.Process(target=upsert, args=(args, args.upserts, ready, stop, done))
        writer.start()
        try:
            wait_for(writer, ready)
            time.sleep(2)
            for name, sql in QUERIES.items():
                busy[name], busy_peer[name] = best(lambda: nyala.execute(sql).fetchall()), best(lambda: duck.execute(sql).fetchall())
            rate = done.value
        finally:
            stop.set()
            writer.join()
        meanwhile = f"with {rate:,.0f} upserts/s"
        print(f"| {args.rows:,} rows, best of 5, ms | DuckDB | Nyala | ratio | {meanwhile}: DuckDB | Nyala | to quiet DuckDB | ratio |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        ratios = []
        for name in QUERIES:
            times = [run[name][0] for run in (peer, quiet, busy_peer, busy)]
            ratios.append((times[1] / times[0], times[3] / times[0], times[3] / times[2]))
            ms, (idle, to_idle, same) = [f"{time * 1e3:.1f}" for time in times], ratios[-1]
            print(f"| {name} | {ms[0]} | {ms[1]} | {idle:.2f} | {ms[2]} | {ms[3]} | {to_idle:.2f} | {same:.2f} |")
        idle, to_idle, same = (statistics.geometric_mean(ratio) for ratio in zip(*ratios, strict=True))
        print(f"| geometric mean | | | {idle:.2f} | | | {to_idle:.2f} | {same:.2f} |")


if __name__ == "__main__":
    main()
