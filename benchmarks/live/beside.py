"""Latency of statements on another table while a large disk store recovers, and while nothing does.

    python3 beside.py --nyala target/release/nyala --rows 20000000 --folder /tmp/beside

Needs psycopg. The folder gets a data folder with a store `big` of so many rows, which is kept for the next run with the same number of
rows, and one without. What a run that was stopped half-way has left there, the next one removes. The server is started again and again,
and one client does the same statements on a store of its own: from the greeting until `big` is in memory ("recovering"), and then as often
again ("idle"). And once more on a second server, which has no such store, while the first comes back ("other process"): what is as slow
there waits for processors, not for anything in its own process. And on that server while as many processes as there are processors do
nothing but count, at the priority at which values are read ("counting"): what is as slow there is not even slowed by what a recovery does,
but by that the processors are busy. Prints a table in Markdown.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import time

import psycopg

STATEMENTS = [
    ("create table", "CREATE LIVE TABLE other_{n} (id BIGINT PRIMARY KEY, v TEXT) WITH (disk_store = small)"),
    ("insert a row", "INSERT INTO other_{n} VALUES ({n}, 'value {n}')"),
    ("read by key", "SELECT v FROM other_{n} WHERE id = {n}"),
    ("scan 1,000 rows", "SELECT count(*), max(v) FROM small_rows"),
    ("list tables", "SELECT count(*) FROM information_schema.tables"),
    ("add column", "ALTER TABLE other_{n} ADD COLUMN more INT"),
    ("drop table", "DROP TABLE other_{n}"),
]
LOADED_AT_ONCE = 200_000


class Server:
    """A server on ports of its own, ready to be asked when this is made."""

    running = []
    client = None

    def __init__(self, args, data="data", ports=0):
        port = args.port + ports
        command = [args.nyala, "serve", "--data-dir", str(pathlib.Path(args.folder) / data)]
        command += ["--postgres-listen", f"127.0.0.1:{port}", "--http-listen", f"127.0.0.1:{port + 1}"]
        # It would be measured in the place of this one, which could not listen.
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            raise SystemExit(f"another server listens on port {port}: stop it, or choose another --port")
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        Server.running.append(self)
        for _ in range(6000):
            try:
                self.client = psycopg.connect(
                    host="127.0.0.1", port=port, user="bench", dbname="nyala", autocommit=True
                )
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None:
                    raise SystemExit(f"the server ended; start it by hand to see why: {' '.join(command)}") from None
                time.sleep(0.005)
        raise SystemExit("the server takes no connections")

    def one(self, sql):
        return self.client.execute(sql).fetchone()[0]

    def stop(self, how=signal.SIGTERM):
        if self.client:
            self.client.close()
        self.process.send_signal(how)
        self.process.wait()
        Server.running.remove(self)

    def recovering(self):
        return self.one("SELECT count(*) FROM system.recovery WHERE disk_store = 'big' AND phase <> 'ready'") == 1


def prepare(args, data, rows):
    """A data folder with a large store and a small one, unless it is there, and nothing else in it."""
    folder = pathlib.Path(args.folder)
    mark, begun = folder / f"{data}-{rows}.rows", folder / f"{data}.begun"
    if mark.exists() and not begun.exists():
        return
    server = Server(args, data)
    run = server.client.execute
    tables = "SELECT table_name FROM information_schema.tables WHERE starts_with(table_name, 'other_')"
    for (name,) in run(tables).fetchall():
        run(f"DROP TABLE {name}")
    if not mark.exists():
        for other in folder.glob(f"{data}-*.rows"):
            other.unlink()
        run("CREATE DISK STORE IF NOT EXISTS big")
        run("CREATE DISK STORE IF NOT EXISTS small")
        run("DROP TABLE IF EXISTS big_rows")
        run("CREATE LIVE TABLE big_rows (k TEXT PRIMARY KEY, v TEXT) WITH (disk_store = big)")
        small_rows = "CREATE LIVE TABLE IF NOT EXISTS small_rows (id BIGINT PRIMARY KEY, v TEXT)"
        run(f"{small_rows} WITH (disk_store = small)")
        run("INSERT INTO small_rows SELECT value, 'value ' || value FROM generate_series(1, 1000) AS s (value)")
        for first in range(0, rows, LOADED_AT_ONCE):
            last = min(first + LOADED_AT_ONCE, rows) - 1
            key, value = "md5(value::text) || repeat('k', 68)", "repeat('v', 90) || value"
            run(f"INSERT INTO big_rows SELECT {key}, {value} FROM generate_series({first}, {last}) AS s (value)")
    server.stop()
    mark.touch()
    begun.unlink(missing_ok=True)


def measure(server, number, times):
    """Does each statement once, and notes how long it took, in milliseconds."""
    for name, sql in STATEMENTS:
        begun = time.perf_counter()
        cursor = server.client.execute(sql.format(n=number))
        if cursor.description:
            cursor.fetchall()
        times.setdefault(name, []).append((time.perf_counter() - begun) * 1000)


@contextlib.contextmanager
def counting():
    """Keeps every processor busy, for whoever wants none of them."""

    def give_way():
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command, preexec_fn=give_way) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def start(args, quiet, number, times):
    """Two starts of the server, and one measurement without; gives the next free number."""
    server = Server(args)
    rounds, keys_ready = 0, None
    while server.recovering():
        if keys_ready is None and server.one("SELECT count(*) FROM system.recovery WHERE phase = 'values'"):
            keys_ready = rounds
        measure(server, number, times["recovering"])
        number, rounds = number + 1, rounds + 1
    print(f"{rounds} rounds while it recovered, {rounds if keys_ready is None else keys_ready} of them before keys were ready")
    for _ in range(max(rounds, 3)):
        measure(server, number, times["idle"])
        number += 1
    server.stop(signal.SIGKILL if args.crash else signal.SIGTERM)
    server = Server(args)
    while server.recovering():
        measure(quiet, number, times["other process"])
        number += 1
    server.stop(signal.SIGKILL if args.crash else signal.SIGTERM)
    with counting():
        for _ in range(max(rounds, 3)):
            measure(quiet, number, times["counting"])
            number += 1
    return number


def quantiles(times):
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return f"{cuts[49]:.2f} | {cuts[94]:.2f} | {max(times):.2f}"


def run(args):
    """Milliseconds of each statement, by what happened meanwhile."""
    prepare(args, "data", args.rows)
    prepare(args, "quiet", 0)
    begun = [pathlib.Path(args.folder) / f"{data}.begun" for data in ("data", "quiet")]
    for mark in begun:
        mark.touch()
    times = {"recovering": {}, "other process": {}, "counting": {}, "idle": {}}
    quiet, number = Server(args, "quiet", ports=2), 0
    for _ in range(args.starts):
        number = start(args, quiet, number, times)
    quiet.stop()
    for mark in begun:
        mark.unlink()
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nyala", default="target/release/nyala")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--port", type=int, default=15_433)
    parser.add_argument("--crash", action="store_true", help="end the server by SIGKILL each time")
    args = parser.parse_args()
    pathlib.Path(args.folder).mkdir(parents=True, exist_ok=True)
    # Whoever ends this process ends the servers with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    try:
        times = run(args)
    finally:
        for server in Server.running:
            server.process.kill()
            server.process.wait()
    if not times["recovering"] or not times["other process"]:
        raise SystemExit("the store was in memory before the first statement: ask for more --rows")
    print(f"\n{args.rows} rows, {args.starts} starts, {len(times['recovering']['read by key'])} rounds each; milliseconds\n")
    print("| statement | " + " | ".join(f"{when}: median | 95 % | most" for when in times) + " |")
    print("|---" * (1 + 3 * len(times)) + "|")
    for name, _ in STATEMENTS:
        print(f"| {name} | " + " | ".join(quantiles(times[when][name]) for when in times) + " |")


main()
