"""Bytes that a cluster asks the bucket for when it asks the same queries again, with the same nodes, one more, and one fewer.

    affinity.py --queries FILE [--scale 1]

FILE is a JSON object of TPC-DS texts by number. Each pass asks every query once; bytes are those that the bucket sent of the tables.
"""

import json
import pathlib
import signal
import sys

import nodes
from nodes import lab


def ask_all(node: lab.Server, queries: dict[str, str]) -> None:
    client = lab.Client(node.port, "tpcds")
    for sql in queries.values():
        client.ask(sql)


class Passes:
    def __init__(self, cluster: nodes.Cluster, queries: dict[str, str]):
        self.cluster, self.queries, self.set_bytes = cluster, queries, None

    def run(self, name: str, coordinator: int = 0) -> None:
        lab.reset()
        ask_all(self.cluster.coordinators[coordinator], self.queries)
        found = lab.get_bytes(lab.counters(), "/lab/tpcds")
        self.set_bytes = self.set_bytes or found
        borrowed = {node.folder.name: metric(node, "nyala_block_cache_borrowed_bytes_total") for node in self.cluster.nodes if node.process.poll() is None}
        line = {"pass": name, "bytes": found, "of_the_set": round(found / self.set_bytes, 4), "borrowed": borrowed}
        print(json.dumps(line), flush=True)


def metric(node: lab.Server, name: str) -> int:
    client = lab.Client(node.port).connection
    client.request("GET", "/metrics")
    lines = client.getresponse().read().decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(name) and not line.startswith("#"))


def read_by(node: lab.Server) -> int:
    """Bytes of tables that a node has read, wherever they were."""
    sql = "SELECT coalesce(sum(bytes_from_memory + bytes_from_disk + bytes_from_store), 0) FROM system.caches WHERE table_name LIKE 'tpcds.%'"
    return int(nodes.rows(node, sql)[0][0])


def main() -> None:
    arguments = nodes.parser(__doc__)
    arguments.add_argument("--queries", required=True, type=pathlib.Path)
    arguments.add_argument("--scale", default="1")
    arguments.add_argument("--divide-all", action="store_true", help="divide also queries over few rows")
    options = arguments.parse_args()
    nodes.stop_on_signals()
    lab.up(options.work)
    lab.prepare(options.nyala, options.work, "tpcds", options.scale)
    queries = json.loads(options.queries.read_text())
    cluster = nodes.Cluster(options.nyala, options.work, 2, 3, options.port, single_node_rows=1 if options.divide_all else None)
    passes = Passes(cluster, queries)
    try:
        cluster.start()
        cluster.create_tables("tpcds")
        passes.run("first")
        passes.run("again")
        passes.run("through the other coordinator", 1)
        passes.run("through the other coordinator again", 1)
        read = [read_by(node) for node in cluster.executors]
        print(json.dumps({"read_by_executor": read, "max_by_mean": round(max(read) * len(read) / sum(read), 3)}), flush=True)
        fourth = cluster.add_executor().start(empty_cache=True)
        cluster.wait_for_executors(4)
        passes.run("with a fourth executor")
        passes.run("with a fourth executor again")
        fourth.stop(signal.SIGTERM)
        cluster.wait_for_executors(3)
        passes.run("without the fourth")
        fourth.start()
        cluster.wait_for_executors(4)
        passes.run("with the fourth and its disk")
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
