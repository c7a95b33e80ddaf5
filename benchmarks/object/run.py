"""Queries over local files, over the store without cache, and through the cache, in turns.

    python3 run.py --nyala target/release/nyala --work /tmp/object [--rounds 3] [--passes 3] [--only ssb|tpch] [--queries 1,21] [--cuboids]

Starts the lab and three servers with equal settings, all over the same files: `local` reads them in the folder, `uncached` and
`cached` through S3. Each round starts the servers anew, the cached one with an empty folder of blocks. In its first pass every
query runs once on each server ("first" and "cold"), then --passes times more ("local", "uncached", "warm"), always one query on
the three servers after each other, in an order that rotates. Ratios are medians of ratios of neighbours, so that a slow moment
of the machine meets both sides. TPC-H runs with several streams too, each with its own order of the queries. Exits with 1 if a
bound does not hold.

With --cuboids the servers have the benchmark's cubes too, built in the data folder, or in a bucket that `uncached` and `cached`
read; none keeps cuboids in memory.
"""

import argparse
import json
import random
import statistics
import sys
import threading
import time

import lab

WAYS = ["local", "uncached", "cached"]


def arguments() -> argparse.Namespace:
    parser = lab.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--passes", type=int, default=3, help="after the first, in each round")
    parser.add_argument("--streams", type=int, default=4, help="0 leaves them out")
    parser.add_argument("--only", choices=["ssb", "tpch"])
    parser.add_argument("--queries", help="names such as 1,21 or 1.1,4.3")
    parser.add_argument("--cuboids", action="store_true", help="queries are answered from cubes where they can be")
    parser.add_argument("--scale", default="1", help="of data that is not there yet")
    parser.add_argument("--block-bytes", type=int, default=256 << 10, help="`storage.cache.block_bytes`")
    return parser.parse_args()


def make_servers(chosen: argparse.Namespace) -> dict[str, lab.Server]:
    servers = {}
    for place, way in enumerate(WAYS):
        location = str(lab.store_folder(chosen.work)) if way == "local" else lab.BUCKET
        cache = {"enabled": way == "cached", "block_bytes": chosen.block_bytes}
        name, sections = way, {}
        if chosen.cuboids:
            name, sections = f"cuboids-{way}", {"cache": {"hot_cuboids_percent": 0}}
            if way != "local":
                sections["storage"] = {"data": f"{lab.BUCKET}/cuboids/{way}/"}
        servers[way] = lab.Server(chosen.nyala, chosen.work, name, location, chosen.port + place, cache, sections)
    return servers


class Benchmark:
    """What was measured of one benchmark: times and counts of each query by column of the result."""

    def __init__(self, name: str, chosen: argparse.Namespace, servers: dict[str, lab.Server]):
        self.name, self.chosen, self.servers = name, chosen, servers
        wanted = chosen.queries.split(",") if chosen.queries else None
        self.queries = {query: sql for query, sql in lab.queries(name).items() if not wanted or query in wanted}
        self.times: dict[str, dict[str, list[float]]] = {query: {} for query in self.queries}
        self.counts: dict[str, dict[str, list[dict]]] = {query: {} for query in self.queries}
        self.streams: dict[str, list[float]] = {}
        self.stream_counts: dict[str, list[dict]] = {}
        self.cpu: dict[str, float] = dict.fromkeys(WAYS, 0.0)
        self.answers: dict[str, list] = {}
        self.different: set[str] = set()
        self.turn = 0

    def in_turn(self) -> list[str]:
        """The three ways, beginning with another one each time."""
        self.turn += 1
        return [WAYS[(self.turn + place) % 3] for place in range(3)]

    def one_pass(self, columns: dict[str, str]) -> None:
        clients = {way: lab.Client(server.port, self.name) for way, server in self.servers.items()}
        for query, sql in self.queries.items():
            for way in self.in_turn():
                lab.reset()
                content, took = clients[way].ask(sql)
                self.times[query].setdefault(columns[way], []).append(took)
                self.counts[query].setdefault(columns[way], []).append(lab.counters(settle=way != "local"))
                self.compare(query, content, way)

    def compare(self, query: str, content: bytes, way: str) -> None:
        rows = lab.canonical(content)
        if self.answers.setdefault(query, rows) != rows:
            self.different.add(f"{query} ({way})")

    def run_round(self) -> None:
        self.one_pass({"local": "local first", "uncached": "first", "cached": "cold"})
        begun = {way: server.cpu_seconds() for way, server in self.servers.items()}
        for _ in range(self.chosen.passes):
            self.one_pass({"local": "local", "uncached": "uncached", "cached": "warm"})
        for way, server in self.servers.items():
            self.cpu[way] += server.cpu_seconds() - begun[way]
        if self.name == "tpch" and self.chosen.streams:
            for way in self.in_turn():
                self.run_streams(way)

    def run_streams(self, way: str) -> None:
        """Seconds until all streams have run all queries, on one server."""

        def stream(number: int) -> None:
            client, order = lab.Client(self.servers[way].port, self.name), list(self.queries)
            random.Random(number).shuffle(order)
            try:
                found.extend((query, client.ask(self.queries[query])[0]) for query in order)
            except Exception as error:
                failed.append(error)

        found, failed = [], []
        threads = [threading.Thread(target=stream, args=(number,)) for number in range(self.chosen.streams)]
        lab.reset()
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.streams.setdefault(way, []).append(time.perf_counter() - begun)
        self.stream_counts.setdefault(way, []).append(lab.counters())
        if failed:
            raise failed[0]
        for query, content in found:
            self.compare(query, content, f"{way}, streams")

    def time(self, query: str, column: str) -> float:
        return statistics.median(self.times[query][column])

    def ratio(self, query: str, column: str, by: str) -> float:
        times = self.times[query]
        return statistics.median(a / b for a, b in zip(times[column], times[by], strict=True))

    def stream_ratio(self, way: str, by: str) -> float:
        return statistics.median(a / b for a, b in zip(self.streams[way], self.streams[by], strict=True))

    def mean(self, column: str, by: str) -> float:
        return statistics.geometric_mean(self.ratio(query, column, by) for query in self.queries)

    def store(self, query: str, column: str) -> tuple[float, float]:
        """Requests and bytes of objects that one run of the query cost the store, the median."""
        counted = self.counts[query][column]
        return statistics.median(map(lab.requests, counted)), statistics.median(map(lab.get_bytes, counted))


def print_table(done: Benchmark) -> None:
    columns = ["local", "first", "cold", "uncached", "warm"]
    head = [*columns, "warm/local", "cold/first", "uncached/warm"]
    head += [f"{what} {column}" for what in ("requests", "MB") for column in ("uncached", "cold", "warm")]
    print(f"\n{done.name}, milliseconds; requests and MB at the store\n")
    print("| query | " + " | ".join(head) + " |\n|---|" + "---:|" * len(head))
    for query in done.queries:
        cells = [f"{done.time(query, column):.1f}" for column in columns]
        pairs = [("warm", "local"), ("cold", "first"), ("uncached", "warm")]
        cells += [f"{done.ratio(query, *pair):.2f}" for pair in pairs]
        stored = [done.store(query, column) for column in ("uncached", "cold", "warm")]
        cells += [f"{count:.0f}" for count, _ in stored] + [f"{size / 1e6:.1f}" for _, size in stored]
        print(f"| {query} | " + " | ".join(cells) + " |")
    means = [f"{done.mean(*pair):.3f}" for pair in [("warm", "local"), ("cold", "first"), ("uncached", "warm")]]
    print("| geometric mean | | | | | | " + " | ".join(means) + " | | | | | | |\n")
    print("Processor seconds of the passes after the first: " + ", ".join(f"{way} {done.cpu[way]:.1f}" for way in WAYS))
    for way, seconds in done.streams.items():
        counted = done.stream_counts[way]
        size = statistics.median(map(lab.get_bytes, counted)) / 1e6
        count = statistics.median(map(lab.requests, counted))
        print(f"{done.chosen.streams} streams, {way}: {statistics.median(seconds):.2f} s, {count:.0f} requests, {size:.1f} MB")


def verdicts(done: Benchmark) -> list[tuple[str, bool, str]]:
    """Bound, whether it holds, and what was found."""

    def worst(column: str, by: str) -> tuple[float, str]:
        return max((done.ratio(query, column, by), query) for query in done.queries)

    warm, cold = worst("warm", "local"), worst("cold", "first")
    most = max((max(map(lab.get_bytes, done.counts[query]["warm"])), query) for query in done.queries)
    gain, least = done.mean("uncached", "warm"), min((done.ratio(query, "uncached", "warm"), query) for query in done.queries)
    found = [
        ("warm at most 10 % over local, each query", warm[0] <= 1.10, f"{warm[0]:.3f} at most, {warm[1]}"),
        ("warm at most 5 % over local, geometric mean", done.mean("warm", "local") <= 1.05, f"{done.mean('warm', 'local'):.3f}"),
        ("uncached at least 3 times warm, geometric mean", gain >= 3, f"{gain:.2f}; {least[0]:.2f} at least, {least[1]}"),
        ("cold at most 5 % over the first without cache, each query", cold[0] <= 1.05, f"{cold[0]:.3f} at most, {cold[1]}"),
        ("no byte of an object from the store, warm", most[0] == 0, f"{most[0]:,} at most, {most[1]}"),
        ("equal answers", not done.different, ", ".join(sorted(done.different)) or "all equal"),
    ]
    if done.name == "tpch" and "21" in done.queries:
        ratio = done.ratio("21", "warm", "local")
        found.append(("warm at most 5 % over local, Q21", ratio <= 1.05, f"{ratio:.3f}"))
    if done.streams:
        ratio, size = done.stream_ratio("cached", "local"), max(map(lab.get_bytes, done.stream_counts["cached"]))
        found.append((f"warm at most 5 % over local, {done.chosen.streams} streams", ratio <= 1.05, f"{ratio:.3f}"))
        found.append(("no byte of an object from the store, streams", size == 0, f"{size:,}"))
    return found


def main() -> None:
    chosen = arguments()
    names = [chosen.only] if chosen.only else ["ssb", "tpch"]
    lab.up(chosen.work)
    held = True
    try:
        for name in names:
            lab.prepare(chosen.nyala, chosen.work, name, chosen.scale)
            servers = make_servers(chosen)
            for server in servers.values():
                server.start().create_tables(name)
                if chosen.cuboids:
                    server.build_cubes(name)
                server.stop()
            done = Benchmark(name, chosen, servers)
            for number in range(chosen.rounds):
                for server in servers.values():
                    server.start(empty_cache=True)
                done.run_round()
                for server in servers.values():
                    server.stop()
                print(f"{name}: round {number + 1} of {chosen.rounds}", file=sys.stderr)
            print_table(done)
            print(f"\n| {name}: bound | holds | found |\n|---|---|---|")
            for bound, holds, what in verdicts(done):
                print(f"| {bound} | {'yes' if holds else 'NO'} | {what} |")
                held = held and holds
            raw = {"times_ms": done.times, "streams_s": done.streams, "counts": done.counts}
            (chosen.work / f"{name}.json").write_text(json.dumps(raw))
    finally:
        lab.stop_all()
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
