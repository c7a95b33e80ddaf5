"""Dashboards on cuboids: what a cluster costs them.

    dashboards.py [--scale 1] [--clients 1,25] [--rounds 3] [--seconds 6]

`nyala bench ssb` asks, in turns and every second time in the other order: one node without a cluster, and one with as little memory as a
coordinator; each coordinator of a cluster, which have all cuboids in memory; an executor that is the home of cuboids, and a coordinator without
room for cuboids, which sends every query to their homes. Before that, the same cube is built by one node, and by all executors.
"""

import json
import statistics
import subprocess
import sys
import time

import nodes
from nodes import lab


def bench(options, server: lab.Server, others: list[lab.Server], clients: int) -> dict:
    """One run: queries a second, the median, and the processor time of all nodes for a query."""
    out = options.work / "bench.json"
    url = f"postgres://127.0.0.1:{server.port + 500}/nyala?options=-csearch_path%3Dssb"
    command = [options.nyala, "bench", "ssb", "--url", url, "--clients", str(clients), "--json", str(out)]
    command += ["--duration", f"{options.seconds}s", "--warmup", "2s", "--ceiling", "0s"]
    before = [node.cpu_seconds() for node in others]
    begun = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.monotonic() - begun
    cpu = sum(node.cpu_seconds() for node in others) - sum(before)
    run = json.loads(out.read_text())["runs"][0]
    # Warm-up and end count too: as many queries a second as in the measured time.
    queries = run["per_second"] * took
    total = run["total"]
    return {
        "per_second": run["per_second"],
        "median_ms": total.get("p50_ms", total.get("median_ms")),
        "cpu_ms": cpu * 1000 / queries,
        "errors": total["errors"] + total["unfinished"],
    }


def build(node: lab.Server) -> float:
    begun = time.monotonic()
    lab.Client(node.port, "ssb").ask("REFRESH CUBE ssb")
    return time.monotonic() - begun


def main() -> None:
    arguments = nodes.parser(__doc__)
    arguments.add_argument("--scale", default="1")
    arguments.add_argument("--clients", default="1,25")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=int, default=6)
    options = arguments.parse_args()
    nodes.stop_on_signals()
    lab.up(options.work)
    lab.prepare(options.nyala, options.work, "ssb", options.scale)
    alone = lab.Server(options.nyala, options.work, "alone", lab.BUCKET, options.port + 50, {"disk_bytes": "2GiB"})
    small = lab.Server(options.nyala, options.work, "small", lab.BUCKET, options.port + 51, {"disk_bytes": "2GiB"}, {"query": {"memory_limit_bytes": "1GiB"}})
    cluster = nodes.Cluster(options.nyala, options.work, 2, 3, options.port)
    full = cluster.add_coordinator("full", 5, "64MiB", hot_percent=1)
    try:
        for node in (alone, small):
            node.start(empty_cache=True)
            node.create_tables("ssb")
            node.build_cubes("ssb")
        cluster.start()
        first = cluster.coordinators[0]
        first.create_tables("ssb")
        first.build_cubes("ssb")
        for node in cluster.nodes:
            nodes.wait_for_schema(node, "ssb")
        everyone = [alone, small, *cluster.nodes]
        targets = {"one node": alone, "one node, 1 GiB": small, "coordinator 0": first, "coordinator 1": cluster.coordinators[1]}
        targets |= {"executor 0": cluster.executors[0], "coordinator without room": full}
        for server in targets.values():
            bench(options, server, everyone, 8)
        for clients in map(int, options.clients.split(",")):
            runs = {name: [] for name in targets}
            for turn in range(options.rounds):
                for name, server in list(targets.items())[:: -1 if turn % 2 else 1]:
                    runs[name].append(bench(options, server, everyone, clients))
            for name, found in runs.items():
                line = {"server": name, "clients": clients}
                line |= {key: round(statistics.median(run[key] for run in found), 3) for key in ("per_second", "median_ms", "cpu_ms")}
                print(json.dumps(line | {"errors": sum(run["errors"] for run in found)}), flush=True)
        forwarded = nodes.rows(full, "SELECT count(*) FROM system.caches WHERE cache = 'hot_cuboids' AND bytes < 1000000")
        print(json.dumps({"cuboids in memory of the coordinator without room": forwarded}))
    finally:
        alone.process.poll()
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
