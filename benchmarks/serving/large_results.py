#!/usr/bin/env python3
"""Large results over Arrow Flight SQL and over PostgreSQL's protocol, in turns, of one server.

    python3 -m venv /tmp/doors && /tmp/doors/bin/pip install adbc-driver-flightsql adbc-driver-postgresql psycopg[binary] pyarrow
    /tmp/doors/bin/python large_results.py --pid $(pidof nyala) --sql 'SELECT * FROM lineorder'

Three clients read the same answer to its end:

    flight        ADBC over Flight SQL, batches of Arrow
    copy          psycopg, COPY … TO STDOUT (FORMAT binary): pieces of bytes, of which no value is made
    copy, Arrow   ADBC over PostgreSQL's protocol: the same bytes, made into batches of Arrow
"""

import argparse
import statistics
import time

import adbc_driver_flightsql.dbapi as flight
import adbc_driver_postgresql.dbapi as postgres
import psycopg


def processor_seconds(pid):
    """Of a process until now, in user and kernel mode."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def arrow_rows(connect):
    def read(sql):
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return sum(batch.num_rows for batch in cursor.fetch_record_batch())

    return read


def copied_bytes(url):
    def read(sql):
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            with cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT binary)") as copy:
                for _ in copy:
                    pass
            return cursor.rowcount

    return read


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--postgres", default="postgres://127.0.0.1:5433/nyala")
    parser.add_argument("--flight", default="grpc://127.0.0.1:32010")
    parser.add_argument("--pid", type=int, required=True, help="the server, whose processor time is read")
    parser.add_argument("--sql", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    clients = {
        "flight": arrow_rows(lambda: flight.connect(options.flight, autocommit=True)),
        "copy": copied_bytes(options.postgres),
        "copy, Arrow": arrow_rows(lambda: postgres.connect(options.postgres, autocommit=True)),
    }
    times = {name: [] for name in clients}
    used = {name: [] for name in clients}
    rows = set()
    for turn in range(options.rounds + 1):
        for name, read in clients.items():
            before, begun = processor_seconds(options.pid), time.perf_counter()
            rows.add(read(options.sql))
            # The first turn warms caches.
            if turn > 0:
                times[name].append(time.perf_counter() - begun)
                used[name].append(processor_seconds(options.pid) - before)
    if len(rows) != 1:
        raise SystemExit(f"the clients were given different numbers of rows: {sorted(rows)}")
    count = rows.pop()
    best = statistics.median(times["flight"])
    print(f"{count} rows, medians of {options.rounds}")
    print("| client | seconds | million rows/s | server processor s | flight is faster |\n|---|---|---|---|---|")
    for name in clients:
        median = statistics.median(times[name])
        print(f"| {name} | {median:.3f} | {count / median / 1e6:.2f} | {statistics.median(used[name]):.2f} | {median / best:.1f} |")


if __name__ == "__main__":
    main()
