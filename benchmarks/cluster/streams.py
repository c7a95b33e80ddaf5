"""Streams of the 99 TPC-DS queries against a cluster: success, equal answers, throughput, connections and threads.

    streams.py --queries FILE [--streams 1,8,64] [--scale 1] [--seconds 120] [--whole | --passes N] [--coordinators 2] [--executors 3]

With `--coordinators 0` the executors are asked, each of which then does parts of the queries that it divides.

FILE is a JSON object of texts by number, as `texts.py` writes it from DuckDB's extension. Each stream asks the queries in an order
of its own, through one of the coordinators, until the time is over, and with `--whole` until it has asked each at least once. With `--passes` all
streams together ask each query so many times, which is the same work for any number of streams: throughputs of few and of many streams are
comparable then. Answers are compared with those of one node that does all of the query itself.
"""

import collections
import json
import os
import pathlib
import random
import statistics
import sys
import threading
import time

import nodes
from nodes import lab


def answers_of_one(node: lab.Server, queries: dict[str, str]) -> dict[str, list]:
    """The answer of each query without the other nodes."""
    client = lab.Client(node.port, "tpcds")
    client.settings["nyala.distributed"] = "off"
    return {number: lab.canonical(client.ask(sql)[0]) for number, sql in queries.items()}


def difference(found: list[list], expected: list[list]) -> str:
    """How an answer differs: numbers of rows, and some that only one of the two has."""
    one_sided = [[row for row in rows if row not in others][:2] for rows, others in ((found, expected), (expected, found))]
    return f" of {len(found)} rows instead of {len(expected)}; only there: {one_sided[0]}, missing: {one_sided[1]}"[:600]


class OwnOrder:
    """The queries of one stream, in an order of its own: all of them if `whole`, and then until the time is over."""

    def __init__(self, seed: int, queries: dict[str, str], until: float, whole: bool = False):
        self.random, self.queries, self.until = random.Random(seed), list(queries), until
        self.numbers: list[str] = []
        self.missing = len(self.queries) if whole else 0

    def __iter__(self):
        return self

    def __next__(self) -> str:
        if self.missing == 0 and time.monotonic() >= self.until:
            raise StopIteration
        self.missing = max(self.missing - 1, 0)
        if not self.numbers:
            self.numbers = self.queries.copy()
            self.random.shuffle(self.numbers)
        return self.numbers.pop()


class Shared:
    """Each query a number of times, in random order, for streams that take the next one when they have an answer."""

    def __init__(self, queries: dict[str, str], passes: int):
        order, self.lock, self.numbers = random.Random(0), threading.Lock(), []
        for _ in range(passes):
            numbers = list(queries)
            order.shuffle(numbers)
            self.numbers += numbers

    def __iter__(self):
        return self

    def __next__(self) -> str:
        with self.lock:
            if not self.numbers:
                raise StopIteration
            return self.numbers.pop()


class Stream(threading.Thread):
    """Asks one query after the other."""

    def __init__(self, port: int, queries: dict[str, str], expected: dict[str, list], numbers):
        super().__init__()
        self.client, self.queries, self.expected, self.numbers = lab.Client(port, "tpcds"), queries, expected, numbers
        self.done: list[tuple[str, float]] = []
        self.failures: list[str] = []

    def run(self) -> None:
        for number in self.numbers:
            self.ask(number)

    def ask(self, number: str) -> None:
        try:
            content, took = self.client.ask(self.queries[number])
        except Exception as error:
            self.failures.append(f"{number}: {str(error)[:300]}")
            return
        self.done.append((number, took))
        if (found := lab.canonical(content)) != self.expected[number]:
            self.failures.append(f"{number}: another answer{difference(found, self.expected[number])}")


def threads_of(server: lab.Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/task"))


def memory_of(server: lab.Server) -> int:
    """Resident megabytes."""
    pages = int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def connections(cluster: nodes.Cluster) -> collections.Counter:
    """Established connections to the port of each node's listener for nodes, by the process that made them."""
    owners = {}
    for node in cluster.nodes:
        for entry in os.scandir(f"/proc/{node.process.pid}/fd"):
            try:
                target = os.readlink(entry.path)
            except OSError:
                continue
            if target.startswith("socket:["):
                owners[target[8:-1]] = node.folder.name
    ports = {f"{node.port + 200:04X}": node.folder.name for node in cluster.nodes}
    counted = collections.Counter()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        remote, state, inode = fields[2].split(":")[1], fields[3], fields[9]
        if state == "01" and remote in ports and inode in owners:
            counted[owners[inode], ports[remote]] += 1
    return counted


def measure(cluster: nodes.Cluster, count: int, queries, expected, options) -> dict:
    ports = [node.port for node in cluster.coordinators or cluster.executors]
    before = sum(node.cpu_seconds() for node in cluster.nodes)
    begun = time.monotonic()
    shared = Shared(queries, options.passes) if options.passes else None
    streams = []
    for i in range(count):
        numbers = shared or OwnOrder(i, queries, begun + options.seconds, options.whole)
        streams.append(Stream(ports[i % len(ports)], queries, expected, numbers))
    for stream in streams:
        stream.start()
    most, threads, memory = collections.Counter(), collections.Counter(), collections.Counter()
    while any(stream.is_alive() for stream in streams):
        time.sleep(1)
        for pair, found in connections(cluster).items():
            most[pair] = max(most[pair], found)
        for node in cluster.nodes:
            threads[node.folder.name] = max(threads[node.folder.name], threads_of(node))
            memory[node.folder.name] = max(memory[node.folder.name], memory_of(node))
    took = time.monotonic() - begun
    times = sorted(time for stream in streams for _, time in stream.done)
    failures = [failure for stream in streams for failure in stream.failures]
    return {
        "streams": count,
        "queries": len(times),
        "failed": len(failures),
        "failures": collections.Counter(failures).most_common(5),
        "per_hour": len(times) / took * 3600,
        "median_ms": statistics.median(times) if times else None,
        "p95_ms": times[int(len(times) * 0.95)] if times else None,
        "cpu_seconds": sum(node.cpu_seconds() for node in cluster.nodes) - before,
        "connections_per_pair": max(most.values(), default=0),
        "pairs": len(most),
        "threads": dict(threads),
        "memory_mb": dict(memory),
        "memory_mb_sum": sum(memory.values()),
    }


def main() -> None:
    arguments = nodes.parser(__doc__)
    arguments.add_argument("--queries", required=True, type=pathlib.Path)
    arguments.add_argument("--streams", default="1,8,64")
    arguments.add_argument("--scale", default="1")
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--whole", action="store_true", help="each stream asks every query")
    arguments.add_argument("--passes", type=int, help="all streams together ask every query so many times")
    arguments.add_argument("--coordinators", type=int, default=2)
    arguments.add_argument("--executors", type=int, default=3)
    arguments.add_argument("--divide-all", action="store_true", help="divide also queries over few rows")
    arguments.add_argument("--memory", default="3GiB", help="memory limit of each executor's queries; coordinators have 1 GiB")
    arguments.add_argument("--slots", type=int, default=0, help="slots of each coordinator; 0 for the default, two for each thread of executors")
    options = arguments.parse_args()
    nodes.stop_on_signals()
    lab.up(options.work)
    lab.prepare(options.nyala, options.work, "tpcds", options.scale)
    queries = json.loads(options.queries.read_text())
    cluster = nodes.Cluster(
        options.nyala, options.work, options.coordinators, options.executors, options.port, options.memory,
        single_node_rows=1 if options.divide_all else None, slots=options.slots,
    )
    try:
        cluster.start()
        cluster.create_tables("tpcds")
        expected = answers_of_one(cluster.executors[0], queries)
        print("one node has answered", flush=True)
        for count in map(int, options.streams.split(",")):
            print(json.dumps(measure(cluster, count, queries, expected, options)), flush=True)
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
