"""Measures Apache Pinot with star-trees for the 13 queries of the Star Schema Benchmark, and Nyala beside it.

usage: pinot.py DATA_DIR WORK_DIR [--nyala nyala] [--clients 32] [--seconds 10] …

DATA_DIR is Nyala's, with the cube of ../ssb/cube.sql built; WORK_DIR keeps Pinot (about 200 MB from Maven Central) and its
segment for the next time. Pinot holds the flat table of all rows. Its answers are compared with Nyala's before
anything is measured. Nothing else should run meanwhile. Needs Java 11 or newer, and Maven.
"""

import argparse
import contextlib
import csv
import http.client
import io
import json
import pathlib
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator

from pinot_server import BROKER, MEASURES, TABLE, TEXTS, WHOLE_NUMBERS, Pinot

FLAT = f"""
SELECT {", ".join(WHOLE_NUMBERS + TEXTS)}, lo_extendedprice * lo_discount AS price_discount, lo_revenue AS revenue,
       lo_revenue - lo_supplycost AS profit
FROM lineorder
JOIN dates ON lo_orderdate = d_datekey
JOIN customer ON lo_custkey = c_custkey
JOIN supplier ON lo_suppkey = s_suppkey
JOIN part ON lo_partkey = p_partkey
"""
HEADERS = {"Content-Type": "application/json"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="data folder of Nyala")
    parser.add_argument("work", type=pathlib.Path, help="folder for Pinot")
    parser.add_argument("--nyala", default="nyala", help="the binary")
    parser.add_argument("--clients", default="32", help="numbers of clients, such as 32,150")
    parser.add_argument("--seconds", type=float, default=10, help="measured time of each number of clients")
    parser.add_argument("--warmup", type=float, default=20, help="time before it; Java compiles meanwhile")
    parser.add_argument("--checked", type=int, default=300, help="answers that are compared first")
    parser.add_argument("--leaf-records", type=int, default=10000, help="maxLeafRecords of the star-trees")
    parser.add_argument("--heap", default="4g", help="largest heap of Pinot")
    parser.add_argument("--port", type=int, default=5900, help="the first of seven")
    return parser.parse_args()


class Nyala:
    """The program, and a server of it."""

    def __init__(self, program: str, data: str, port: int):
        self.program, self.data, self.port = program, data, port
        self.url = f"postgres://127.0.0.1:{port}/nyala"

    @contextlib.contextmanager
    def running(self, log: pathlib.Path) -> Iterator[subprocess.Popen]:
        doors = ["--postgres-listen", f"127.0.0.1:{self.port}", "--http-listen", f"127.0.0.1:{self.port + 1}"]
        with log.open("w") as out:
            command = [self.program, "serve", "--data-dir", self.data, *doors]
            server = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            self.await_ready(server, log)
            yield server
        finally:
            server.terminate()
            server.wait()

    def await_ready(self, server: subprocess.Popen, log: pathlib.Path) -> None:
        while server.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port + 1}/readyz"):
                return
            time.sleep(0.2)
        raise SystemExit(f"Nyala did not start: {log.read_text()}")

    def csv(self, sql: str, out: io.TextIOBase | int) -> str | None:
        command = [self.program, "sql", "--url", self.url, "--format", "csv", "-c", sql]
        return subprocess.run(command, check=True, stdout=out, text=True).stdout

    def rows(self, sql: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(self.csv(sql, subprocess.PIPE))))[1:]

    def statements(self, workload: str, count: int) -> list[tuple[str, str]]:
        """Name and text. The same seed draws the same parameters for each workload."""
        command = [self.program, "bench", workload, "--print", str(count)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [tuple(line.split("\t", 1)) for line in printed.splitlines()]

    def bench(self, server: subprocess.Popen, given: argparse.Namespace, file: pathlib.Path) -> None:
        times = ["--warmup", f"{given.warmup}s", "--duration", f"{given.seconds}s", "--ceiling", "0s"]
        command = [self.program, "bench", "ssb", "--url", self.url, "--clients", given.clients, *times]
        out = ["--server-pid", str(server.pid), "--json", str(file)]
        subprocess.run(command + out, check=True, stdout=subprocess.DEVNULL)


def for_pinot(statement: str) -> str:
    """What asks a table of cells asks the one table of rows, which has the same columns."""
    head, rest = statement.split(" FROM ", 1)
    return f"{head} FROM {TABLE} {rest.split(' ', 1)[1].rstrip(' ;')} LIMIT 100000"


def prepare(pinot: Pinot, nyala: Nyala, given: argparse.Namespace) -> None:
    """The segment, unless an earlier run has left it; measures are sums of whole numbers, so that all must be equal."""
    pinot.fetch()
    done = given.work / f"built-{given.leaf_records}"
    if done.exists():
        return
    for old in given.work.glob("built-*"):
        old.unlink()
    rows = given.work / "rows" / "ssb.csv"
    rows.parent.mkdir(exist_ok=True)
    with rows.open("w") as out:
        nyala.csv(FLAT, out)
    pinot.build(rows, given.leaf_records)
    rows.unlink()
    done.touch()


def check(pinot: Pinot, nyala: Nyala, count: int) -> None:
    """Answers are equal but for the order of equals, and every query is answered from a star-tree."""
    pairs = zip(nyala.statements("ssb", count), nyala.statements("ssb-postgres", count), strict=True)
    planned: set[str] = set()
    for (name, ours), (same, theirs) in pairs:
        assert name == same, "both workloads draw the same queries"
        answer = pinot.query(for_pinot(theirs))
        if answer.get("exceptions") or answer.get("numGroupsLimitReached"):
            raise SystemExit(f"{name}: {answer}\n{for_pinot(theirs)}")
        found, known = cells(answer["resultTable"]["rows"]), cells(nyala.rows(ours))
        # A sum of no rows is NULL, which Pinot of this version has not.
        if found != known and not (known == [("",)] and found == [(0.0,)]):
            raise SystemExit(f"{name} differs\n{ours}\nNyala: {known[:5]} …\nPinot: {found[:5]} …")
        if name not in planned:
            plan = json.dumps(pinot.query(f"EXPLAIN PLAN FOR {for_pinot(theirs)}"))
            if "STARTREE" in plan:
                planned.add(name)
            elif "FILTER_EMPTY" not in plan:  # a value that no row has
                raise SystemExit(f"{name} is not answered from a star-tree: {plan}")
    print(f"{count} answers are equal; {len(planned)} queries were seen to use a star-tree", file=sys.stderr)


def cells(rows: list[list]) -> list[tuple]:
    """Numbers as numbers; both servers hold sums below 2^53."""

    def cell(value):
        try:
            return float(value)
        except ValueError:
            return value

    return sorted(tuple(map(cell, row)) for row in rows)


class Client(threading.Thread):
    """A connection that is kept, and queries one after the other."""

    def __init__(self, port: int, bodies: list[bytes], seed: int, begin: float, end: float):
        super().__init__()
        self.port, self.bodies, self.begin, self.end = port, bodies, begin, end
        self.draw = random.Random(seed)
        self.times: list[float] = []
        self.errors = 0

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while (started := time.perf_counter()) < self.end:
            try:
                connection.request("POST", "/query/sql", self.draw.choice(self.bodies), HEADERS)
                good = b'"exceptions":[]' in connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()
                time.sleep(0.05)
                good = False
            if started >= self.begin:
                self.times.append(time.perf_counter() - started)
                self.errors += not good


def measure(pinot: Pinot, bodies: list[bytes], clients: int, given: argparse.Namespace) -> dict:
    """A closed loop, with the numbers that `nyala bench --json` gives."""
    begin = time.perf_counter() + given.warmup
    end = begin + given.seconds
    threads = [Client(pinot.port + BROKER, bodies, seed, begin, end) for seed in range(clients)]
    for thread in threads:
        thread.start()
    time.sleep(begin - time.perf_counter())
    before = pinot.cpu_seconds(), own_cpu()
    time.sleep(max(0.0, end - time.perf_counter()))
    server, client = pinot.cpu_seconds() - before[0], own_cpu() - before[1]
    memory = pinot.memory_bytes()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - begin
    times = sorted(time for thread in threads for time in thread.times)
    errors = sum(thread.errors for thread in threads)
    return {
        "clients": clients,
        "per_second": (len(times) - errors) / elapsed,
        "total": {
            "handled": len(times) - errors,
            "errors": errors,
            "unfinished": 0,
            "mean_ms": 1000 * sum(times) / len(times),
            "p99_ms": 1000 * times[int(0.99 * len(times))],
        },
        "cost": {
            "server_cpu_ms_per_query": 1000 * server / len(times),
            "client_cores": client / given.seconds,
            "server_memory_bytes": memory,
        },
    }


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    # Who is asked to stop takes its servers along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    given = arguments()
    given.work = given.work.absolute()
    given.work.mkdir(parents=True, exist_ok=True)
    pinot = Pinot(given.work, given.port, given.heap)
    nyala = Nyala(given.nyala, given.data, given.port + 5)
    ours, theirs = given.work / "nyala.json", given.work / "pinot.json"
    with nyala.running(given.work / "nyala.log") as server:
        prepare(pinot, nyala, given)
        nyala.bench(server, given, ours)
        with pinot.running():
            pinot.load(int(nyala.rows("SELECT count(*) FROM lineorder")[0][0]))
            check(pinot, nyala, given.checked)
            texts = [for_pinot(text) for _, text in nyala.statements("ssb-postgres", 20000)]
            bodies = [json.dumps({"sql": text}).encode() for text in texts]
            runs = [measure(pinot, bodies, int(clients), given) for clients in given.clients.split(",")]
    theirs.write_text(json.dumps({"runs": runs}, indent=2) + "\n")
    ratios = pathlib.Path(__file__).with_name("ratios.py")
    subprocess.run([sys.executable, str(ratios), str(ours), str(theirs)], check=True)


if __name__ == "__main__":
    main()
