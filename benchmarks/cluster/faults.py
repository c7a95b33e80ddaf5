"""Faults of nodes, of the ways between them, of the bucket and of the catalog's database under streams of TPC-DS queries.

    faults.py --queries FILE [--streams 32] [--rounds 20] [--kinds kill,stop,partition,slow,bucket,postgres] [--scale 1] [--divide-all]

FILE is a JSON object of texts by number. Each round makes one fault, asserts that it had an effect, and heals it. Reported are queries
that failed or gave another answer than one node alone, the longest query, and what is left on the nodes afterwards.
"""

import collections
import json
import pathlib
import random
import signal
import sys
import time

import nodes
from nodes import lab
from streams import Stream, answers_of_one, memory_of, threads_of

SILENT_AFTER = 10


def state_of(cluster: nodes.Cluster, name: str) -> str | None:
    found = nodes.rows(cluster.coordinators[0], f"SELECT state FROM system.nodes WHERE node = '{name}'")
    return found[0][0] if found else None


def name_of(node: lab.Server) -> str:
    return nodes.rows(node, "SELECT node FROM system.local_queries LIMIT 1")[0][0]


def wait(what: str, within: float, holds) -> float:
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > within:
            sys.exit(f"{what}: not within {within} s")
        time.sleep(0.2)
    return time.monotonic() - begun


def kill(cluster: nodes.Cluster, node: lab.Server) -> dict:
    name = name_of(node)
    node.stop(signal.SIGKILL)
    found = wait("the killed node is silent", 30, lambda: state_of(cluster, name) == "silent")
    node.start()
    wait("the killed node is back", 60, lambda: state_of(cluster, name) == "serving")
    return {"found_s": round(found, 1)}


def stop(cluster: nodes.Cluster, node: lab.Server) -> dict:
    name = name_of(node)
    node.process.send_signal(signal.SIGSTOP)
    found = wait("the stopped node is silent", 30, lambda: state_of(cluster, name) == "silent")
    time.sleep(3)
    node.process.send_signal(signal.SIGCONT)
    wait("the stopped node is back", 60, lambda: state_of(cluster, name) == "serving")
    return {"found_s": round(found, 1)}


def partition(cluster: nodes.Cluster, node: lab.Server) -> dict:
    """No other node reaches this one, which goes on telling that it lives; its own connections to others stay."""
    link = cluster.links[node.folder.name]
    before = broken_connections(cluster)
    link.cut()
    # Seen by the nodes that had a connection: they find it broken.
    found = wait("the cut connection is found", 30, lambda: broken_connections(cluster) > before)
    time.sleep(3)
    link.heal()
    passed = link.passed
    wait("the node does parts again", 60, lambda: link.passed > passed)
    return {"found_s": round(found, 1)}


def slow(cluster: nodes.Cluster, node: lab.Server) -> dict:
    link = cluster.links[node.folder.name]
    passed = link.passed
    link.slow_down(2_000_000)
    time.sleep(6)
    if link.passed == passed:
        sys.exit("nothing went over the slow link")
    link.heal()
    return {}


def bucket(cluster: nodes.Cluster, _: lab.Server) -> dict:
    """The bucket answers with errors while the caches are empty."""
    for executor in cluster.executors:
        lab.Client(executor.port).ask("DROP CACHE")
    before = lab.requests(lab.counters(settle=False))
    lab.control("POST", "/_fault?kind=error&count=20&prefix=/lab/tpcds")
    time.sleep(5)
    lab.control("POST", "/_heal")
    if lab.requests(lab.counters(settle=False)) == before:
        sys.exit("the bucket was not asked")
    return {}


def broken_connections(cluster: nodes.Cluster) -> int:
    """How often a coordinator has found a connection to a node broken."""
    return sum(count_lines(node, "gets no parts of queries for a while") for node in cluster.coordinators)


def count_lines(node: lab.Server, words: str) -> int:
    return (node.folder / "log").read_text(errors="replace").count(words)


def postgres(cluster: nodes.Cluster, _: lab.Server) -> dict:
    cluster.postgres.stop()
    try:
        lab.Client(cluster.coordinators[0].port).ask("CREATE SCHEMA while_away")
        sys.exit("a change was made while the database was away")
    except lab.QueryError:
        pass
    time.sleep(3)
    cluster.postgres.start(empty=False)
    wait("a change", 60, lambda: changed(cluster))
    return {}


def changed(cluster: nodes.Cluster) -> bool:
    try:
        lab.Client(cluster.coordinators[0].port).ask("CREATE SCHEMA IF NOT EXISTS back_again")
        return True
    except lab.QueryError:
        return False


KINDS = {"kill": kill, "stop": stop, "partition": partition, "slow": slow, "bucket": bucket, "postgres": postgres}


def left_over(cluster: nodes.Cluster) -> list[int]:
    """Parts of queries on each executor."""
    sql = "SELECT count(*) FROM system.local_queries WHERE sent_by IS NOT NULL"
    return [int(nodes.rows(node, sql)[0][0]) for node in cluster.executors]


def measure(cluster: nodes.Cluster, kind: str, options, queries, expected) -> dict:
    ports = [node.port for node in cluster.coordinators]
    streams = [Stream(i, ports[i % 2], queries, expected, float("inf"), False) for i in range(options.streams)]
    for stream in streams:
        stream.start()
    time.sleep(5)
    before = {node.folder.name: (threads_of(node), memory_of(node)) for node in cluster.nodes}
    found = []
    for _ in range(options.rounds):
        found.append(KINDS[kind](cluster, random.choice(cluster.executors)))
        time.sleep(2)
    for stream in streams:
        stream.until = 0
    for stream in streams:
        stream.join()
    left = wait("all parts have ended", 30, lambda: not any(left_over(cluster)))
    failures = [failure for stream in streams for failure in stream.failures]
    times = [took for stream in streams for _, took in stream.done]
    return {
        "fault": kind,
        "rounds": options.rounds,
        "queries": len(times),
        "failed": len(failures),
        "failures": collections.Counter(failure.split(": ", 1)[1] for failure in failures).most_common(6),
        "longest_s": round(max(times) / 1000, 1),
        "found_s": max((one["found_s"] for one in found if one), default=None),
        "parts_gone_after_s": round(left, 1),
        "threads_and_mb_before": before,
        "threads_and_mb_after": {node.folder.name: (threads_of(node), memory_of(node)) for node in cluster.nodes},
    }


def main() -> None:
    arguments = nodes.parser(__doc__)
    arguments.add_argument("--queries", required=True, type=pathlib.Path)
    arguments.add_argument("--streams", type=int, default=32)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--kinds", default="kill,stop,partition,slow,bucket,postgres")
    arguments.add_argument("--scale", default="1")
    arguments.add_argument("--divide-all", action="store_true", help="divide also queries over few rows")
    options = arguments.parse_args()
    nodes.stop_on_signals()
    lab.up(options.work)
    lab.prepare(options.nyala, options.work, "tpcds", options.scale)
    queries = json.loads(options.queries.read_text())
    cluster = nodes.Cluster(
        options.nyala, options.work, 2, 3, options.port, through_links=True, single_node_rows=1 if options.divide_all else None
    )
    try:
        cluster.start()
        cluster.create_tables("tpcds")
        expected = answers_of_one(cluster.executors[0], queries)
        for kind in options.kinds.split(","):
            print(json.dumps(measure(cluster, kind, options, queries, expected)), flush=True)
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
